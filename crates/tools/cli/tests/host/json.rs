//! What every command prints as JSON is as `clearway help json` says, and the schema tells of no
//! output that there is not.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::netns::{Netns, root};
use crate::schema;
use crate::world::{CHAPTER, Host, IN_CLIENT, IN_SERVER, answers, eventually};

/// A TAP device with the kernel behind it, and a rule.
const MORE: &[&str] = &[
    "create tap id 7 host-if-name cwjson0 host-ip4-addr 10.99.7.1/24",
    "set interface state tap7 up",
    "set interface ip address tap7 10.99.7.2/24",
    "ip route add 10.55.0.0/16 via 10.99.7.1",
    "ip route add 10.56.0.0/16 via drop",
    "acl add deny proto udp dst 10.9.9.9/32",
];

const SERVER: &str = "
import socket, threading
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(('172.16.1.1', 9053))
listener = socket.create_server(('172.16.1.1', 9080))
print('listens', flush=True)
while True:
    conn, _ = listener.accept()
    conn.sendall(b'hello')
    threading.Thread(target=conn.recv, args=(1,), daemon=True).start()
";

/// A connection, a datagram, and a socket that stays with the kernel.
const CLIENT: &str = "
import socket, threading
conn = socket.create_connection(('172.16.1.1', 9080))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.connect(('172.16.1.1', 9053))
datagrams.send(b'x')
stays = socket.create_server(('127.0.0.1', 0))
print('connected', conn.recv(5), flush=True)
threading.Event().wait()
";

/// The schema, and which of its outputs were seen.
struct Seen {
    schema: Value,
    outputs: BTreeSet<String>,
}

fn clearway() -> Command {
    Command::new(env!("CARGO_BIN_EXE_clearway"))
}

fn said(mut command: Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let (out, errors) = texts(&output);
    assert!(output.status.success(), "{command:?}: {out}{errors}");
    out
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

impl Seen {
    fn new() -> Seen {
        let mut help = clearway();
        help.args(["help", "json"]);
        let schema = serde_json::from_str(&said(help)).unwrap();
        Seen { schema, outputs: BTreeSet::new() }
    }

    /// The names of the outputs.
    fn names(&self) -> BTreeSet<String> {
        let all = self.schema["$defs"].as_object().unwrap().keys();
        all.filter(|name| !name.starts_with('.')).cloned().collect()
    }

    /// Holds what a command printed against the schema of its name: one value, or one a line.
    fn hold(&mut self, name: &str, text: &str) {
        let rules = &self.schema["$defs"][name];
        assert!(rules.is_object(), "the schema knows no {name}");
        let mut count = 0;
        for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
            let value = value.unwrap_or_else(|why| panic!("{name}: {why}: {text}"));
            let broken = schema::broken(&self.schema, rules, &value);
            assert_eq!(broken, Vec::<String>::new(), "{name}: {value}");
            count += 1;
        }
        assert!(count > 0, "{name} prints nothing");
        self.outputs.insert(name.to_owned());
    }

    /// Every kind of line of an output that prints lines has to be among these.
    fn hold_lines(&mut self, name: &str, text: &str) {
        self.hold(name, text);
        let has = |event: &Value| text.contains(&format!("\"event\":{event}"));
        for line in self.schema["$defs"][name]["oneOf"].as_array().unwrap() {
            let event = &line["properties"]["event"]["const"];
            // It is told while there are connections to make when a second is over.
            let may_lack = event == "connecting";
            assert!(may_lack || has(event), "{name} prints no {event}: {text}");
        }
    }
}

/// Commands of hosts, and the schema's name of each where it is another.
const SHOWN: &[(&str, &str)] = &[
    ("show version", ""),
    ("show plugins", ""),
    ("show interface", ""),
    ("show interface tap7", "show interface"),
    ("show interface address", ""),
    ("show interface rx-placement", ""),
    ("show ip neighbors", ""),
    ("show ip6 neighbors", "show ip neighbors"),
    ("show ip fib", ""),
    ("show ip fib table 1", "show ip fib"),
    ("show ip table", ""),
    ("show session", ""),
    ("show session verbose", "show session"),
    ("show session verbose 2", "show session"),
    ("show app", ""),
    ("show app verbose", "show app"),
    ("show app ns", ""),
    ("show limits", ""),
    ("show segments", ""),
    ("show errors", ""),
    ("show errors all", "show errors"),
    ("show buffers", ""),
    ("show tcp", ""),
    ("show udp", ""),
    ("show nstat", ""),
    ("show metrics", ""),
    ("show proc-net tcp", ""),
    ("show proc-net udp6 ns server", "show proc-net tcp"),
    ("show threads", ""),
    ("show stages", ""),
    ("show drain", ""),
    ("show dhcp", ""),
    ("show slaac", ""),
    ("show acl", ""),
    ("show pcap", ""),
    ("show explain", ""),
    ("show settings", ""),
    ("show running-config", ""),
    ("show running-config secrets", "show running-config"),
    ("show dpdk version", ""),
    ("show dpdk buffer", ""),
    ("show dpdk physmem", ""),
];

/// Commands that change something, in an order in which each can be carried out, and the schema's
/// name of each where it is another.
const CHANGES: &[(&str, &str)] = &[
    ("create loopback interface", ""),
    ("create port loop name spare", "create port"),
    ("create tap id 8 host-if-name cwjson1", "create tap"),
    ("set interface state loop2 up", "set interface state up"),
    ("set interface ip address loop2 172.16.3.1/24", "set interface ip address"),
    ("set interface ip address del loop2 all", "set interface ip address del"),
    ("set interface ip table loop2 1", "set interface ip table"),
    ("set interface mtu packet 1400 loop2", "set interface mtu"),
    ("set interface mac address tap8 02:00:00:00:00:07", "set interface mac address"),
    ("set interface promiscuous on tap8", "set interface promiscuous on"),
    ("set interface dhcp tap8 on", "set interface dhcp on"),
    ("set interface slaac tap8 on", "set interface slaac on"),
    ("set interface rx-mode tap8 adaptive", "set interface rx-mode polling"),
    ("set interface rx-placement tap8 worker 0", "set interface rx-placement worker"),
    ("ip table add 7", "ip table add"),
    ("ip route add 10.77.0.0/16 table 7 via drop", "ip route add via"),
    ("ip route del 10.77.0.0/16 table 7", "ip route del"),
    ("app ns add id spare secret s", "app ns add id"),
    ("app ns set spare secret t", "app ns set secret"),
    ("app ns del spare", "app ns del"),
    ("acl add permit proto icmp", "acl add permit"),
    ("acl del 1", "acl del"),
    ("session enable", ""),
    ("pcap trace status", ""),
    ("clear interface", ""),
    ("clear errors", ""),
    ("clear tcp", ""),
    ("clear acl", ""),
    ("help", ""),
    ("reload", ""),
    ("quit", ""),
    ("delete tap tap8", "delete tap"),
    ("delete loopback interface loop2", "delete loopback interface"),
];

/// What a host answers to a command as JSON.
fn answer(host: &Host, line: &str) -> String {
    let mut command = host.clearway("ctl");
    command.arg("--json").args(line.split(' '));
    said(command)
}

fn hold_answers(seen: &mut Seen, host: &Host, list: &[(&str, &str)]) {
    for (line, name) in list {
        let name = if name.is_empty() { line } else { name };
        seen.hold(&format!("ctl {name}"), &answer(host, line));
    }
}

/// What takes a file, and a session that is there.
fn hold_others(seen: &mut Seen, host: &Host) {
    let script = host.folder.join("more");
    fs::write(&script, "show version\nclear errors\n").unwrap();
    seen.hold("ctl exec", &answer(host, &format!("exec {}", script.display())));
    let saved = host.folder.join("saved");
    seen.hold("ctl save", &answer(host, &format!("save {}", saved.display())));
    let sessions = host.json("show session verbose state established")["sessions"].clone();
    let session = sessions[0]["id"].as_str().unwrap_or_else(|| panic!("{sessions}"));
    seen.hold("ctl session kill", &answer(host, &format!("session kill {session}")));
}

fn hold_host(seen: &mut Seen, netns: &Netns) {
    let mut commands = CHAPTER.to_vec();
    commands.extend(MORE);
    let folder = crate::world::folder();
    let settings = folder.join("host.toml");
    fs::write(&settings, "[log]\nlevel = \"info\"\n").unwrap();
    let host = Host::inside(netns, &["-c", settings.to_str().unwrap()], &commands);
    eventually("the host answers", || answers(netns, "10.99.7.2"));
    let server = host.spawn(IN_SERVER, "python3", &["-c", SERVER]);
    server.await_text("listens");
    let client = host.spawn(IN_CLIENT, "python3", &["-c", CLIENT]);
    client.await_text("connected");
    let file = host.folder.join("all.pcapng");
    let capture = format!("pcap trace rx tx drop file {}", file.display());
    seen.hold("ctl pcap trace rx", &answer(&host, &capture));
    hold_answers(seen, &host, SHOWN);
    hold_answers(seen, &host, CHANGES);
    seen.hold("ctl pcap trace off", &answer(&host, "pcap trace off"));
    for wrong in ["show nonsense", "show interface tap77"] {
        let output = host.try_ctl(&[&["--json"], &*wrong.split(' ').collect::<Vec<_>>()].concat());
        assert!(!output.status.success());
        seen.hold("ctl error", &texts(&output).0);
    }
    for (name, words) in [
        ("ss", "ss -a --json"),
        ("nstat", "nstat -z --json"),
        ("explain", "explain --json"),
        ("top", "top --json --interval 1"),
        ("ip addr", "ip -j addr"),
        ("ip link", "ip -j -s link"),
        ("ip route", "ip -j route show table all"),
        ("ip neigh", "ip -j neigh"),
    ] {
        let (first, rest) = words.split_once(' ').unwrap();
        let mut command = host.clearway(first);
        command.args(rest.split(' '));
        seen.hold(name, &said(command));
    }
    hold_others(seen, &host);
    drop((server, client));
    let mut drain = host.clearway("ctl");
    drain.args(["--json", "drain", "--timeout", "30"]);
    seen.hold("ctl drain", &said(drain));
    hold_answers(seen, &host, &[("undrain", ""), ("stop", "")]);
}

/// Holds what a host answered to a `show` against the schema: whoever looks for something else.
pub(crate) fn hold_shown(line: &str, value: &Value) {
    static SCHEMA: LazyLock<Value> =
        LazyLock::new(|| serde_json::from_str(include_str!("../../src/json.schema.json")).unwrap());
    let line = line.replace("show ip6 ", "show ip ");
    let names = SCHEMA["$defs"].as_object().unwrap().keys();
    let begins = |name: &&String| {
        let rest = name.strip_prefix("ctl ").and_then(|words| line.strip_prefix(words));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    let name = names.filter(begins).max_by_key(|name| name.len());
    let name = name.unwrap_or_else(|| panic!("the schema knows no {line}"));
    let broken = schema::broken(&SCHEMA, &SCHEMA["$defs"][name], value);
    assert_eq!(broken, Vec::<String>::new(), "{name}: {value}");
}

/// Runs a server until it has said all of `words` while `meanwhile` happens, then ends it as Ctrl-C
/// does; what it said.
fn until(mut command: Command, words: &[&str], meanwhile: impl FnOnce()) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let log = std::env::temp_dir().join(format!("cwjson-{}-{number}", std::process::id()));
    let file = fs::File::create(&log).unwrap();
    let mut child = command.stdin(Stdio::null()).stdout(file).spawn().unwrap();
    let text = || fs::read_to_string(&log).unwrap();
    eventually("the server is ready", || text().contains("\"ready\""));
    meanwhile();
    for word in words {
        eventually(&format!("{word} is told"), || text().contains(word));
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    assert!(child.wait().unwrap().success());
    let told = text();
    fs::remove_file(&log).unwrap();
    told
}

fn hold_figures(seen: &mut Seen, netns: &Netns) {
    let inside = |words: &str| {
        netns.command(env!("CARGO_BIN_EXE_clearway"), &words.split(' ').collect::<Vec<_>>())
    };
    let second = &["\"second\""];
    let http = inside("http --port loop -a 10.1.1.1/24 --json");
    seen.hold_lines("http", &until(http, second, || ()));
    for (port, rate) in [(7100, ""), (7101, " -r 1000")] {
        let server = inside(&format!("bench server --kernel -p {port} --json"));
        let words = format!("bench client --kernel -s 127.0.0.1 -p {port} -t 3{rate} --json");
        let mut asked = String::new();
        let told = until(server, second, || asked = said(inside(&words)));
        seen.hold_lines("bench server", &told);
        seen.hold_lines("bench client", &asked);
    }
    let mut asked = String::new();
    let client = inside("bulk client --kernel -s 127.0.0.1 -p 7200 --time 1 --json");
    let server = inside("bulk server --kernel -p 7200 --json");
    let told = until(server, second, || asked = said(client));
    seen.hold_lines("bulk server", &told);
    seen.hold_lines("bulk client", &asked);
    let frames = "pktgen --port loop --sizes 64,512 --seconds 3 --rate 1kpps --queues 2 --json";
    seen.hold_lines("pktgen", &said(inside(frames)));
    seen.hold_lines("reflect", &until(inside("reflect --port loop --json"), second, || ()));
    let wire = inside("wire --port loop --onto loop --json");
    seen.hold_lines("wire", &until(wire, &[], || ()));
    // Something may be missing on this machine: that is an answer, too.
    let doctor = clearway().args(["doctor", "--json"]).output().unwrap();
    seen.hold_lines("doctor", &texts(&doctor).0);
}

#[test]
fn what_is_printed_as_json_is_as_the_schema_says() {
    if !root() {
        return;
    }
    let netns = Netns::new("json");
    let mut seen = Seen::new();
    hold_host(&mut seen, &netns);
    hold_figures(&mut seen, &netns);
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    for report in ["docs/charts/http.json", "crates/tools/cli/tests/lab/files/after.json"] {
        seen.hold("lab", &fs::read_to_string(tree.join(report)).unwrap());
    }
    let files = tree.join("crates/tools/cli/tests/lab/files");
    let mut compare = clearway();
    compare.args(["lab", "compare", "--json"]);
    compare.arg(files.join("before.json")).arg(files.join("after.json"));
    seen.hold("lab compare", &said(compare));
    assert_eq!(seen.outputs, seen.names());
}

/// Commands that `clearway ctl --json` gets no answer to: what comes is a stream of packets, and what
/// is not built in is an error.
const NO_ANSWER: &[&str] = &["ctl pcap stream rx", "ctl test dpdk buffer"];

/// The words of a form that stand there whatever is meant, with the first of several: of
/// `(ip|ip6) route del PREFIX [table TABLE]` they are `ip route del`.
fn plain(form: &str) -> String {
    let form = form.replace("\\|", "|");
    let (mut left_out, mut kept) = (0, String::new());
    // For each open parenthesis, whether its first choice is over.
    let mut over: Vec<bool> = Vec::new();
    for letter in form.chars() {
        match letter {
            '[' | '{' => left_out += 1,
            ']' | '}' => left_out -= 1,
            _ if left_out > 0 => {}
            '(' => over.push(false),
            ')' => {
                over.pop();
            }
            '|' => {
                if let Some(last) = over.last_mut() {
                    *last = true;
                }
            }
            _ if over.contains(&true) => {}
            _ => kept.push(letter),
        }
    }
    let is_word = |word: &&str| word.contains(char::is_lowercase);
    kept.split_whitespace().filter(is_word).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_words_of_a_form_are_those_that_always_stand_there() {
    for (form, words) in [
        ("(ip\\|ip6) route (del\\|delete) PREFIX [table TABLE] [via (A\\|drop)]", "ip route del"),
        ("(ip\\|ip6) route add PREFIX via (ADDRESS [INTERFACE]\\|drop)", "ip route add via"),
        ("create tap { id N \\| tun }", "create tap"),
        ("set interface state INTERFACE (up\\|down)", "set interface state up"),
    ] {
        assert_eq!(plain(form), words, "{form}");
    }
}

#[test]
fn every_command_that_prints_json_is_in_the_schema() {
    let names = Seen::new().names();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/commands.md");
    let page = fs::read_to_string(page).unwrap();
    // The tables of commands have two columns and forms in small letters; those of what may stand
    // in them have names in capitals.
    let forms = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let forms: Vec<&str> = forms.filter(|form| form.contains(char::is_lowercase)).collect();
    assert!(forms.len() > 60, "{forms:?}");
    let known: BTreeSet<String> = forms.iter().map(|form| format!("ctl {}", plain(form))).collect();
    for name in known.iter().filter(|name| !NO_ANSWER.contains(&name.as_str())) {
        assert!(names.contains(name), "{name}");
    }
    for name in names.iter().filter(|name| name.starts_with("ctl ") && *name != "ctl error") {
        assert!(known.contains(name), "{name} is no command");
    }
    let help = |words: &[&str]| {
        let mut command = clearway();
        command.args(words).arg("--help");
        said(command)
    };
    let below = |text: &str| -> Vec<String> {
        let lines = text.lines().skip_while(|line| *line != "Commands:").skip(1);
        let named = lines.take_while(|line| line.starts_with("  ")).filter_map(|line| {
            let name = line.strip_prefix("  ").filter(|line| !line.starts_with(' '))?;
            name.split_whitespace().next().map(str::to_owned)
        });
        named.filter(|name| name != "help").collect()
    };
    let mut with = 0;
    for first in below(&help(&[])) {
        let text = help(&[&first]);
        let mut commands = vec![(first.clone(), text.clone())];
        for second in below(&text) {
            commands.push((format!("{first} {second}"), help(&[&first, &second])));
        }
        // `ctl` prints what a command of the host does, and `ip` has an output for each object.
        for (name, text) in commands.iter().filter(|(name, _)| name != "ctl" && name != "ip") {
            if text.contains("--json") && !text.contains("Commands:") {
                assert!(names.contains(name), "{name}");
                with += 1;
            }
        }
    }
    assert!(with >= 11, "{with} commands");
}
