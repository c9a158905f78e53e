use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use serde_json::Value;

use super::*;
use crate::config::Settings;
use crate::error::HostError;
use crate::host::Host;
use crate::outcome::Outcome;

/// A host with its control plane, in a folder of its own.
pub(in crate::control) struct World {
    pub(in crate::control) control: std::sync::Arc<Control>,
    pub(in crate::control) folder: PathBuf,
    host: HostHandle,
    supervisor: Option<JoinHandle<Result<(), HostError>>>,
}

impl World {
    pub(in crate::control) fn new(workers: usize) -> World {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("cwcontrol-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut settings = Settings { workers: vec![None; workers], ..Settings::default() };
        settings.pool = clearway_dev::PoolBudget::of_bytes(2 << 20);
        settings.limits.tables = 4;
        let host = Host::start(settings.setup(folder.join("host.sock"), [7; 32])).unwrap();
        let handle = host.handle();
        let supervisor = std::thread::spawn(move || host.run());
        let control = Control::new(handle.clone(), settings.control("clearway for tests".into()));
        World {
            control: std::sync::Arc::new(control),
            folder,
            host: handle,
            supervisor: Some(supervisor),
        }
    }

    fn answer(&self, line: &str) -> Answer {
        self.control.execute(line)
    }

    /// A command that has to be done; what it says.
    pub(in crate::control) fn ok(&self, line: &str) -> String {
        let answer = self.answer(line);
        assert_eq!(answer.outcome, Outcome::Done, "{line}: {}", answer.text);
        answer.text
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.ok(&format!("{line} --json"))).unwrap()
    }

    /// A command that cannot be done; why.
    fn fails(&self, line: &str) -> String {
        let answer = self.answer(line);
        assert_eq!(answer.outcome, Outcome::Failed, "{line}: {}", answer.text);
        answer.text
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.host.stop();
        if let Some(supervisor) = self.supervisor.take() {
            let ended = supervisor.join();
            if !std::thread::panicking() {
                ended.unwrap().unwrap();
            }
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

const CHAPTER: &[&str] = &[
    "create loopback interface",
    "set interface state loop0 up",
    "create loopback interface",
    "set interface state loop1 up",
    "ip table add 1",
    "set interface ip table loop0 1",
    "ip table add 2",
    "set interface ip table loop1 2",
    "set interface ip address loop0 172.16.1.1/24",
    "set interface ip address loop1 172.16.2.1/24",
    "app ns add id server secret hush-hush-1234 if loop0",
    "app ns add id client secret hush-hush-5678 if loop1",
    "ip route add 172.16.1.1/32 table 2 via lookup in table 1",
    "ip route add 172.16.2.1/32 table 1 via lookup in table 2",
];

fn chapter(workers: usize) -> World {
    let world = World::new(workers);
    CHAPTER.iter().for_each(|line| drop(world.ok(line)));
    world
}

#[test]
fn the_loopback_chapter_works_line_by_line_on_every_worker() {
    let world = chapter(2);
    let shown = world.ok("show interface address");
    assert_eq!(
        shown,
        "loop0 (up):\n  L3 172.16.1.1/24 table 1\nloop1 (up):\n  L3 172.16.2.1/24 table 2\n"
    );
    for worker in 0..2 {
        let routes = world.host.ask(worker, |worker| worker.stack().routes().count()).unwrap();
        let first = world.host.ask(0, |worker| worker.stack().routes().count()).unwrap();
        assert_eq!(routes, first);
    }
    let routes = world.json("show ip fib table 2 172.16.1.1");
    assert_eq!(routes["routes"][0]["via"], "lookup in table 1");
    assert_eq!(
        world.ok("show session verbose"),
        "Thread 0: active sessions 0\nThread 1: active sessions 0\n"
    );
}

#[test]
fn no_view_shows_a_secret() {
    let world = chapter(1);
    let namespaces = world.json("show app ns");
    assert_eq!(namespaces["namespaces"][1]["has-secret"], true);
    for form in clearway_command::forms().iter().filter(|form| form.pattern.starts_with("show")) {
        let words: Vec<&str> = form.pattern.split([' ', '/', '[', '(']).take(2).collect();
        for line in [
            words.join(" "),
            "show app ns".into(),
            "show app verbose".into(),
            "show settings".into(),
        ] {
            for line in [line.clone(), format!("{line} --json")] {
                assert!(!world.answer(&line).text.contains("hush"), "{line}");
            }
        }
    }
}

#[test]
fn every_show_answers_in_text_and_in_json() {
    let world = chapter(2);
    for line in [
        "show version",
        "show plugins",
        "show interface",
        "show interface loop0",
        "show interface address",
        "show interface rx-placement",
        "show ip neighbors",
        "show ip fib",
        "show ip6 fib",
        "show ip table",
        "show session",
        "show session verbose",
        "show session verbose 2",
        "show app",
        "show app verbose",
        "show app ns",
        "show segments",
        "show errors",
        "show errors all",
        "show buffers",
        "show tcp",
        "show udp",
        "show nstat",
        "show metrics",
        "show threads",
        "show stages",
        "show dhcp",
        "show slaac",
        "show drain",
        "show acl",
        "show pcap",
        "pcap trace status",
        "show explain",
        "show settings",
        "show running-config",
        "show running-config secrets",
        "show session verbose state listen proto tcp local 172.16.0.0/16 port 1-1024 app 7",
    ] {
        assert!(!world.ok(line).is_empty(), "{line}");
        assert!(world.json(line).is_object(), "{line}");
    }
}

#[test]
fn what_is_not_there_is_told() {
    let world = World::new(1);
    assert!(
        world
            .fails("set interface state loop0 up")
            .starts_with("error[E0301]: there is no interface `loop0`")
    );
    world.ok("create loopback interface");
    assert!(
        world.fails("set interface ip table loop0 3").contains("Make it with `ip table add 3`")
    );
    assert!(
        world
            .fails("ip route del 10.0.0.0/8")
            .contains("there is no route to 10.0.0.0/8 in table 0")
    );
    assert!(world.fails("app ns del nobody").contains("no namespace nobody"));
    assert!(world.fails("app ns set nobody secret x").contains("no namespace nobody"));
    assert!(world.fails("app ns add id a if loop9").contains("no interface `loop9`"));
    assert!(world.fails("test dpdk buffer allocate 5").contains("by hand is not built in"));
    if clearway_ports::dpdk::version().is_none() {
        assert!(world.fails("show dpdk version").contains("DPDK is not built in"));
        assert!(world.fails("show dpdk buffer").contains("DPDK is not built in"));
    }
    assert!(
        world
            .fails("set interface ip address loop0 10.0.0.0/24")
            .contains("not the address of one host")
    );
    assert!(world.fails("set interface mtu packet 100 loop0").contains("MTU"));
    assert!(world.fails("show explain 1").contains("no process 1 here"));
    assert!(world.fails("pcap trace off").contains("no capture"));
    assert!(world.fails("acl del 0").contains("no rule"));
    assert!(world.fails("show interface loop7").contains("no interface `loop7`"));
    assert!(world.fails("exec /no/such/file").contains("cannot read /no/such/file"));
}

#[test]
fn what_one_worker_refuses_no_worker_has() {
    let world = chapter(2);
    assert!(world.fails("set interface ip address loop0 172.16.1.1/24").contains("already"));
    assert!(
        world.fails("ip route add 172.16.2.1/32 table 1 via lookup in table 2").contains("already")
    );
    let shown = world.ok("show interface address loop0");
    assert_eq!(shown.matches("172.16.1.1").count(), 1, "what was there before is still there");
}

#[test]
fn tables_come_and_go_and_stay_while_they_are_used() {
    let world = chapter(1);
    assert!(world.fails("ip table del 1").contains("table 1 is in use: by the interface loop0"));
    world.ok("ip table add 4000000000");
    assert!(world.fails("ip table add 9").contains("4 tables, as many as the limits allow"));
    world.ok("ip table del 4000000000");
    world.ok("ip table add 9");
}

#[test]
fn interfaces_come_and_go() {
    let world = World::new(2);
    for _ in 0..40 {
        assert_eq!(world.ok("create loopback interface mtu 9000"), "loop0\n");
        world.ok("set interface ip address loop0 10.0.0.1/24");
        world.ok("set interface state loop0 up");
        world.ok("delete loopback interface intfc loop0");
    }
    assert_eq!(world.ok("create loopback interface instance 7"), "loop7\n");
    assert!(
        world.fails("create loopback interface instance 7").contains("interface loop7 already")
    );
    world.ok("set interface mtu packet 1500 loop7");
    assert_eq!(world.json("show interface loop7")["interfaces"][0]["mtu"], 1500);
}

#[test]
fn modes_are_set_and_shown() {
    let world = World::new(2);
    world.ok("create loopback interface");
    world.ok("set interface rx-mode loop0 queue 1 interrupt");
    assert_eq!(world.json("show interface rx-placement")["queues"][1]["mode"], "interrupt");
    assert!(world.fails("set interface rx-mode loop0 queue 2 polling").contains("no queue 2"));
    world.ok("set interface rx-placement loop0 queue 1 worker 1");
    assert!(
        world
            .fails("set interface rx-placement loop0 queue 1 worker 0")
            .contains("they stay there")
    );
    assert!(
        world.fails("set interface rx-placement loop0 queue 0 worker 5").contains("no worker 5")
    );
}

#[test]
fn rules_are_numbered_listed_and_taken_away() {
    let world = chapter(2);
    assert_eq!(
        world.ok("acl add deny in intfc loop0 proto tcp src 172.16.2.0/24 dport 5201-5210"),
        "Rule 0\n"
    );
    assert_eq!(world.ok("acl add permit"), "Rule 1\n");
    let rules = world.json("show acl");
    assert_eq!(
        rules["rules"][0]["what"],
        "in intfc loop0 proto tcp src 172.16.2.0/24 dport 5201-5210"
    );
    assert_eq!(rules["rules"][1]["what"], "any");
    world.ok("acl del 0");
    assert_eq!(world.json("show acl")["rules"].as_array().unwrap().len(), 1);
    world.ok("acl del all");
    assert_eq!(world.ok("show acl"), "There is no rule: every packet passes.\n");
}

#[test]
fn a_rule_does_not_move_to_the_interface_that_gets_the_number_of_its_own() {
    let world = World::new(2);
    world.ok("create loopback interface");
    world.ok("create loopback interface");
    world.ok("acl add deny in intfc loop1 proto tcp");
    world.ok("delete loopback interface intfc loop1");
    assert_eq!(world.json("show acl")["rules"][0]["what"], "in intfc loop1 (not there) proto tcp");
    world.ok("create loopback interface instance 7");
    assert_eq!(world.json("show acl")["rules"][0]["what"], "in intfc loop1 (not there) proto tcp");
    world.ok("create loopback interface instance 1");
    assert_eq!(world.json("show acl")["rules"][0]["what"], "in intfc loop1 proto tcp");
}

#[test]
fn one_capture_at_a_time_and_its_file_is_ours_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = chapter(1);
    let file = world.folder.join("a.pcapng");
    let begin = format!("pcap trace rx tx drop max 5 intfc loop0 file {}", file.display());
    world.ok(&begin);
    assert!(world.fails(&begin).contains("pcap trace off"));
    assert!(world.ok("pcap trace status").starts_with("Capturing: rx tx drop into "));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(world.ok("pcap trace off").starts_with("Captured: rx tx drop into "));
    let link = world.folder.join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert!(
        world.fails(&format!("pcap trace rx file {}", link.display())).contains("cannot write")
    );
}

#[test]
fn a_script_is_checked_whole_and_ends_at_what_fails() {
    let world = World::new(1);
    let script = world.folder.join("script");
    std::fs::write(&script, "create loopback interface\nshow nothing\n").unwrap();
    let answer = world.answer(&format!("exec {}", script.display()));
    assert_eq!(answer.outcome, Outcome::WrongUse);
    assert!(answer.text.contains("line 2: `nothing` cannot stand here"), "{}", answer.text);
    assert_eq!(world.json("show interface")["interfaces"].as_array().unwrap().len(), 0);
    std::fs::write(
        &script,
        "comment {\n x\n}\ncreate loopback interface\nset interface state loop9 up\n",
    )
    .unwrap();
    assert!(
        world
            .fails(&format!("exec {}", script.display()))
            .contains("line 5: there is no interface `loop9`")
    );
    std::fs::write(&script, format!("exec {}\n", script.display())).unwrap();
    assert!(world.fails(&format!("exec {}", script.display())).contains("too deeply"));
    std::fs::write(&script, "create loopback interface\n").unwrap();
    world.ok(&format!("exec {}", script.display()));
}

#[test]
fn the_settings_make_ports_tables_and_namespaces() {
    let world = World::new(1);
    let text = "[[ports]]\nport = \"loop\"\nname = \"inner\"\naddresses = [\"10.1.0.1/24\", \"fd00::1/64\"]\ngateways = [\"10.1.0.2\"]\ntable = 5\n\
                [[namespaces]]\nid = \"a\"\nsecret = \"x\"\ninterface = \"inner\"\n";
    let settings = Settings::parse(text, Path::new("host.toml")).unwrap();
    world.control.begin(&settings, &[]).unwrap();
    assert_eq!(world.json("show app ns")["namespaces"][1]["table"], 5);
    let routes = world.json("show ip fib table 5 8.8.8.8");
    assert_eq!(routes["routes"][0]["via"], "via 10.1.0.2");
    assert_eq!(world.json("show interface")["interfaces"][0]["up"], true);
}

/// The state of a world, with everything that can be in it.
const RICH: &[&str] = &[
    "create loopback interface instance 7 mtu 9000",
    "create port loop name inner fault loss=1%,delay=1ms",
    "set interface mtu packet 1500 inner",
    "set interface ip table inner 2",
    "set interface ip address inner 10.9.0.1/24",
    "set interface ip address inner 10.9.0.2/24",
    "set interface ip address inner fd00:9::1/64",
    "set interface state inner up",
    "set interface ip address loop7 10.8.0.1/16",
    "ip route del 10.8.0.0/16",
    "set interface rx-mode loop7 interrupt",
    "ip route add 10.20.0.0/16 table 2 via 10.9.0.77",
    "ip route add 10.21.0.0/16 via drop",
    "ip route add fd01::/16 table 2 via unreachable",
    "ip route add 10.22.0.0/16 table 2 via inner",
    "app ns add id open table 1 sessions 5 all-memory 2000000",
    "app ns add id odd secret \"hush \\\" # two\" if inner table 2",
    "acl add deny in intfc inner proto tcp src 10.0.0.0/8 dport 22-23",
    "acl add permit",
    "set interface state loop0 down",
];

#[test]
fn what_is_saved_makes_the_same_host_again() {
    let first = chapter(2);
    RICH.iter().for_each(|line| drop(first.ok(line)));
    let file = first.folder.join("saved");
    let said = first.ok(&format!("save {}", file.display()));
    assert!(said.contains("with secrets"), "{said}");
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let shown = first.ok("show running-config secrets");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), shown);
    assert!(shown.contains("hush"), "{shown}");

    let second = World::new(2);
    second.ok(&format!("exec {}", file.display()));
    assert_eq!(second.ok("show running-config secrets"), shown);
    for line in ["show ip fib", "show ip table", "show interface address", "show app ns"] {
        assert_eq!(second.ok(line), first.ok(line), "{line}");
    }
    // Saved again over itself, it is the same.
    second.ok(&format!("save {}", file.display()));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), shown);
    assert!(second.fails("save /no/such/folder/file").contains("error[E0311]"));
}

#[test]
fn without_its_secrets_the_running_config_is_a_script_that_lets_nobody_in() {
    let first = chapter(1);
    let shown = first.ok("show running-config");
    assert!(shown.contains("# app ns add id server secret *** if loop0"), "{shown}");
    assert!(!shown.contains("hush"), "{shown}");
    let json = first.json("show running-config");
    assert_eq!(json["hidden"].as_array().unwrap().len(), 2, "{json}");
    let second = World::new(1);
    let file = second.folder.join("script");
    std::fs::write(&file, shown).unwrap();
    second.ok(&format!("exec {}", file.display()));
    assert_eq!(second.json("show app ns")["namespaces"].as_array().unwrap().len(), 1);
    assert_eq!(second.json("show running-config")["commands"], json["commands"]);
}

#[test]
fn errors_in_json_carry_their_class() {
    let world = World::new(1);
    for (line, code) in [
        ("set interface state loop0 up", "E0301"),
        ("show nothing", "E0203"),
        ("ip route del 10.0.0.0/8 table 7", "E0301"),
        ("create port tap:", "E0401"),
        ("reload", "E0312"),
    ] {
        let answer = world.answer(&format!("{line} --json"));
        let json: Value = serde_json::from_str(&answer.text).unwrap();
        assert_eq!(json["code"], code, "{line}: {}", answer.text);
        assert!(world.answer(line).text.starts_with(&format!("error[{code}]: ")), "{line}");
    }
}

#[test]
fn a_wrong_line_in_json_says_where_and_what_instead() {
    let world = World::new(1);
    let answer = world.answer("set interface stat3 loop0 up --json");
    assert_eq!(answer.outcome, Outcome::WrongUse);
    let json: Value = serde_json::from_str(&answer.text).unwrap();
    assert_eq!(
        (&json["from"], &json["to"], &json["nearest"]),
        (&14.into(), &19.into(), &"state".into())
    );
}

#[test]
fn counters_of_interfaces_count_from_where_they_were_cleared() {
    let world = chapter(1);
    world.ok("clear interface");
    world.ok("clear errors");
    world.ok("clear tcp");
    world.ok("clear acl");
    assert_eq!(world.json("show tcp")["tcp"]["segs-in"], 0);
    assert_eq!(world.ok("show errors"), "No packet was dropped.\n");
}
