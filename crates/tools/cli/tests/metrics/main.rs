//! What a host tells Prometheus, over its socket and as a file, and who can do it harm by asking.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use netns::{Netns, root};

mod health;
#[path = "../common/netns.rs"]
mod netns;
mod prometheus;

/// Only what hangs takes so long.
const TIME_LIMIT: Duration = Duration::from_secs(60);

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + TIME_LIMIT;
    while !is_so() {
        assert!(Instant::now() < until, "this never came true: {what}");
        sleep(Duration::from_millis(20));
    }
}

/// A host with a loopback interface and a namespace, and metrics as `settings` say.
struct Host {
    folder: PathBuf,
    child: Child,
}

impl Host {
    /// `settings` may name `FOLDER`. In a network namespace, if there is one.
    fn new(settings: &str, netns: Option<&Netns>) -> Host {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("cwmetrics-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text.replace("FOLDER", folder.to_str().unwrap())).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let settings = file("host.toml", settings);
        let script = file(
            "script",
            "create loopback interface\nset interface state loop0 up\n\
             set interface ip address loop0 172.16.9.1/24\napp ns add id shop if loop0\n",
        );
        let socket = folder.join("host.sock");
        let args =
            ["up", "-c", &settings, "--script", &script, "--socket", socket.to_str().unwrap()];
        let mut command = match netns {
            Some(netns) => netns.command(env!("CARGO_BIN_EXE_clearway"), &args),
            None => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_clearway"));
                command.args(args);
                command
            }
        };
        let log = fs::File::create(folder.join("log")).unwrap();
        let child = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let host = Host { child: child.spawn().unwrap(), folder };
        eventually("the host is ready", || host.log().contains("clearway is ready"));
        host
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.path("metrics.sock")).unwrap();
        stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
        stream
    }

    /// The head and the body of an answer.
    fn ask(&self, request: &str) -> (String, String) {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        (head.to_owned(), body.to_owned())
    }

    fn get(&self, path: &str) -> (String, String) {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"))
    }

    fn open_metrics(&self) -> String {
        let (head, body) = self.ask(
            "GET /metrics HTTP/1.1\r\nHost: x\r\n\
             Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n\r\n",
        );
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("application/openmetrics-text; version=1.0.0"), "{head}");
        body
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(self.child.id() as i32),
            nix::sys::signal::Signal::SIGTERM,
        );
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("what the host said:\n{}", self.log());
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

const AT_A_SOCKET: &str = "[metrics]\nlisten = \"FOLDER/metrics.sock\"\n";

/// The value of the series that a line begins with.
fn value(text: &str, series: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    line.parse().ok()
}

/// Names of families, by their TYPE lines.
fn families(text: &str) -> BTreeSet<String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.filter_map(|line| Some(line.split_once(' ')?.0.to_owned())).collect()
}

#[test]
fn metrics_have_the_names_of_node_exporter_where_there_are_some_and_our_own_for_the_rest() {
    let host = Host::new(AT_A_SOCKET, None);
    let text = host.open_metrics();
    assert!(text.ends_with("# EOF\n"), "{text}");
    for series in [
        "node_netstat_Tcp_RetransSegs",
        "node_netstat_TcpExt_TCPLossProbes",
        "node_netstat_Udp_InDatagrams",
        "clearway_drops_total{reason=\"tcp-bad-checksum\"}",
        "clearway_tcp_challenge_acks_total",
        "clearway_interface_receive_packets_total{interface=\"loop0\"}",
        "clearway_namespace_sessions{namespace=\"shop\"}",
        "clearway_attach_refused_total{reason=\"secret\"}",
    ] {
        assert_eq!(value(&text, series), Some(0.0), "{series}: {text}");
    }
    assert!(text.contains("# TYPE node_netstat_Tcp_RetransSegs unknown\n"), "{text}");
    assert!(value(&text, "clearway_buffers{worker=\"0\",size=\"small\"}").unwrap() > 0.0);
    assert!(value(&text, "clearway_limit{thing=\"sessions\"}").unwrap() > 0.0);
    let started = value(&text, "clearway_start_time_seconds").unwrap();
    assert!(started > 1.7e9, "it is a time of the calendar: {started}");
    let all = value(&text, "clearway_turn_seconds_bucket{le=\"+Inf\",worker=\"0\"}");
    assert_eq!(all, value(&text, "clearway_turn_seconds_count{worker=\"0\"}"), "{text}");

    // The older format has the same families, where the suffix of a counter is in the name.
    let (head, classic) = host.get("/metrics");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    assert!(!classic.contains("# EOF"));
    assert!(classic.contains("# TYPE clearway_drops_total counter\n"), "{classic}");
    assert!(classic.contains("# TYPE node_netstat_Tcp_RetransSegs untyped\n"), "{classic}");
    assert_eq!(families(&text).len(), families(&classic).len());
    let mut ctl = Command::new(env!("CARGO_BIN_EXE_clearway"));
    let out = ctl.args(["ctl", "show", "metrics"]).env("CLEARWAY_SOCKET", host.path("host.sock"));
    let shown = String::from_utf8(out.output().unwrap().stdout).unwrap();
    assert_eq!(families(&shown), families(&text));
}

#[test]
fn how_many_series_there_are_does_not_grow_with_namespaces() {
    let host = Host::new(AT_A_SOCKET, None);
    let lines: String = (0..150).map(|n| format!("app ns add id n{n} table 0\n")).collect();
    let mut ctl = Command::new(env!("CARGO_BIN_EXE_clearway"));
    let ctl = ctl.arg("ctl").env("CLEARWAY_SOCKET", host.path("host.sock"));
    let mut ctl = ctl.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    ctl.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    assert!(ctl.wait().unwrap().success());
    eventually("the namespaces are seen, as far as they are shown", || {
        host.open_metrics().matches("clearway_namespace_sessions{").count() == 100
    });
}

#[test]
fn health_and_what_is_not_there_are_told_by_status() {
    let host = Host::new(AT_A_SOCKET, None);
    let (head, body) = host.get("/healthz");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert_eq!(body, "ok\n");
    let status = |request: &str| host.ask(request).0.lines().next().unwrap_or_default().to_owned();
    assert_eq!(status("GET /other HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 Not Found");
    assert_eq!(status("POST /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 405 Method Not Allowed");
    assert_eq!(status("\x01\x02 nonsense\r\n\r\n"), "HTTP/1.1 400 Bad Request");
    let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(8 << 10));
    assert_eq!(status(&long), "HTTP/1.1 431 Request Header Fields Too Large");
    let (head, body) = host.ask("HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && body.is_empty(), "{head}");
}

#[test]
fn scrapers_that_are_silent_slow_or_many_harm_nobody() {
    let host = Host::new(AT_A_SOCKET, None);
    // More than there are places for: some say nothing, some a part of a request, and some ask and
    // never read.
    let crowd: Vec<UnixStream> = (0..200)
        .map(|n| {
            let mut stream = host.connect();
            let said: &[u8] = match n % 3 {
                0 => b"",
                1 => b"GET /metrics HTTP/1.1\r\nHost",
                _ => b"GET /metrics HTTP/1.1\r\n\r\n",
            };
            // Who found no place was turned away already.
            let _ = stream.write_all(said);
            stream
        })
        .collect();
    eventually("one who asks is answered beside them", || {
        let mut stream = host.connect();
        let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\n\r\n");
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.starts_with("HTTP/1.1 200 OK")
    });
    let sockets = fs::read_dir(format!("/proc/{}/fd", host.child.id())).unwrap().count();
    assert!(sockets < 150, "places are bounded: {sockets} descriptors");
    let mut ctl = Command::new(env!("CARGO_BIN_EXE_clearway"));
    let ctl = ctl.args(["ctl", "show", "version"]).env("CLEARWAY_SOCKET", host.path("host.sock"));
    assert!(ctl.output().unwrap().status.success(), "commands are heard");
    // Who keeps his place and says nothing loses it when his time is over.
    let mut silent = host.connect();
    let mut nothing = Vec::new();
    assert_eq!(silent.read_to_end(&mut nothing).unwrap_or(0), 0);
    drop(crowd);
}

#[test]
fn a_file_for_node_exporter_has_no_name_of_its_own() {
    let host = Host::new("[metrics]\nfile = \"FOLDER/clearway.prom\"\nfile-seconds = 1\n", None);
    let path = host.path("clearway.prom");
    let text = fs::read_to_string(&path).expect("it is there as soon as the host is ready");
    assert!(!text.contains("node_"), "{text}");
    assert_eq!(value(&text, "clearway_netstat_Tcp_RetransSegs"), Some(0.0), "{text}");
    let turns = || {
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("# TYPE clearway_worker_turns_total counter\n"), "never a part");
        value(&text, "clearway_worker_turns_total{worker=\"0\"}").unwrap()
    };
    let first = turns();
    eventually("it is written again", || turns() > first);
    assert!(!host.path("clearway.prom.new").exists() || path.exists());
}

#[test]
fn settings_that_cannot_be_done_end_the_start_and_say_why() {
    let refused = |settings: &str, why: &str| {
        let folder = std::env::temp_dir().join(format!("cwmetrics-{}-w", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("host.toml");
        fs::write(&file, settings).unwrap();
        let socket = folder.join("host.sock");
        let mut command = Command::new(env!("CARGO_BIN_EXE_clearway"));
        let command = command.args(["up", "-c"]).arg(&file).arg("--socket").arg(&socket);
        let out = command.output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success() && said.contains(why), "{said}");
        fs::remove_dir_all(&folder).unwrap();
    };
    refused("[metrics]\nlisten = \"nowhere\"\n", "host.toml:2: expected an address with a port");
    refused("[metrics]\nfile = \"/nonexistent/x.prom\"\n", "cannot write /nonexistent/x.prom");
    refused(
        "[metrics]\nlisten = \"/nonexistent/x.sock\"\n",
        "cannot serve metrics at /nonexistent",
    );
}

fn top(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(path)
}
