//! Every probe is in the program and fires, with what it was handed, under bpftrace: the program is
//! this test.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use clearway_probes::{self as probes, PROBES, Text};

#[path = "../../../tools/cli/tests/common/skip.rs"]
mod skip;

/// Longer than bpftrace takes on a busy machine; only what hangs reaches it.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// Killed when this goes.
struct Tracer(Child);

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The text of the argument at `index`.
fn text(name: &str) -> Text {
    Text::of(format_args!("<{name}>"))
}

/// Fires every probe: texts are their arguments' names, numbers 100 and more.
macro_rules! fire {
    ($( $name:ident ( $( $arg:ident : $kind:ident = $value:expr ),+ ) )+) => {
        fn fire_all() {
            $( probes::$name(|| ($( fire!(@ $arg $kind $value), )+)); )+
        }

        /// What a tracer has to say of it.
        fn expected() -> BTreeSet<String> {
            [$( [stringify!($name).to_owned(), $( fire!(? $arg $kind $value) ),+].join("|") ),+]
                .into()
        }
    };
    (@ $arg:ident text $value:expr) => { text(stringify!($arg)) };
    (@ $arg:ident number $value:expr) => { $value };
    (? $arg:ident text $value:expr) => { format!("<{}>", stringify!($arg)) };
    (? $arg:ident number $value:expr) => { u64::to_string(&$value) };
}

fire! {
    segment_in(local: text = 0, remote: text = 0, seq: number = 101, ack: number = 102,
        len: number = 103, flags: number = 104)
    segment_out(local: text = 0, remote: text = 0, seq: number = 105, ack: number = 106,
        len: number = 107, flags: number = 108)
    drop(reason: text = 0, interface: number = 109, len: number = 110)
    retransmit(local: text = 0, remote: text = 0, seq: number = 4_294_967_295,
        len: number = 112, why: text = 0)
    retransmit_timeout(local: text = 0, remote: text = 0, flight: number = 113, tries: number = 114)
    tail_loss_probe(local: text = 0, remote: text = 0, flight: number = 115)
    recovery_enter(local: text = 0, remote: text = 0, flight: number = 116)
    recovery_exit(local: text = 0, remote: text = 0, from: text = 0)
    undone(local: text = 0, remote: text = 0)
    state_change(local: text = 0, remote: text = 0, from: text = 0, to: text = 0)
    shortage_reset(local: text = 0, remote: text = 0)
    fast_open(local: text = 0, remote: text = 0, what: text = 0)
    neighbour_resolved(address: text = 0, link_address: text = 0, interface: number = 117)
    neighbour_failed(address: text = 0, interface: number = 118)
    path_mtu(remote: text = 0, mtu: number = 119)
    session_open(session: number = 1 << 56, kind: text = 0, program: text = 0, namespace: text = 0)
    session_close(session: number = 121, program: text = 0, namespace: text = 0)
    listen(session: number = 122, local: text = 0, backlog: number = 123, program: text = 0)
    connect(session: number = 124, local: text = 0, remote: text = 0, program: text = 0)
    incoming(session: number = 125, local: text = 0, remote: text = 0, program: text = 0)
    accept(session: number = 126, local: text = 0, remote: text = 0, program: text = 0)
    sleep(worker: number = 127, sessions: number = 128)
    wake(worker: number = 129, notified: number = 130)
    attach(pid: number = 131, program: text = 0, namespace: text = 0, app: number = 132)
    detach(pid: number = 133, program: text = 0, namespace: text = 0, app: number = 134)
    refused(pid: number = 135, program: text = 0, namespace: text = 0, why: text = 0)
    cut_off(app: number = 136, program: text = 0, namespace: text = 0, why: text = 0)
}

/// A program of bpftrace's that prints each probe's name and arguments on a line.
fn script(program: &str) -> String {
    let mut script = String::new();
    for probe in PROBES {
        let (mut format, mut values) = (probe.name.to_owned(), String::new());
        for (at, (_, kind)) in probe.arguments.iter().enumerate() {
            let is_text = *kind == "text";
            format.push_str(if is_text { "|%s" } else { "|%lu" });
            let _ = match is_text {
                true => write!(values, ", str(arg{at})"),
                false => write!(values, ", arg{at}"),
            };
        }
        let _ = writeln!(
            script,
            "usdt:{program}:clearway:{} {{ printf(\"{format}\\n\"{values}); }}",
            probe.name
        );
    }
    script
}

/// Whether bpftrace works at all. Its `BEGIN` is a probe in a program, as ours are, so where that
/// does not fire (a container without the right, a kernel without uprobes) nothing can be seen.
fn tracing_works() -> bool {
    let tried = Command::new("bpftrace").args(["-e", "BEGIN { exit() }"]).output();
    tried.expect("bpftrace cannot be started: `make setup` installs it").status.success()
}

#[test]
fn every_probe_fires_with_its_arguments_under_bpftrace() {
    let uid = std::fs::metadata("/proc/self").unwrap().uid();
    if !skip::or_skip(uid == 0, "bpftrace needs root. Run these tests as root.") {
        return;
    }
    if !skip::or_skip(tracing_works(), "this kernel lets bpftrace trace no program") {
        return;
    }
    let program = std::env::current_exe().unwrap();
    let mut tracer = Command::new("bpftrace");
    tracer.args(["-B", "line", "-p", &std::process::id().to_string(), "-e"]);
    tracer.arg(script(program.to_str().unwrap()));
    let mut child = tracer
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("bpftrace cannot be started: `make setup` installs it");
    let out = BufReader::new(child.stdout.take().unwrap());
    let _tracer = Tracer(child);
    let (tell, heard) = mpsc::channel();
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            let _ = tell.send(line);
        }
    });
    let mut missing = expected();
    assert_eq!(missing.len(), PROBES.len(), "a probe is not fired here");
    let until = Instant::now() + TIME_LIMIT;
    while !missing.is_empty() {
        assert!(Instant::now() < until, "never seen: {missing:#?}");
        // Probes are attached one by one.
        fire_all();
        while let Ok(line) = heard.recv_timeout(Duration::from_millis(20)) {
            missing.remove(&line);
        }
    }
}
