//! The servers over other stacks that we are compared with (`baselines/`), each asked by
//! `clearway bench client`.
//!
//! Those that need nothing from a network but crates are built here. The others are tested when
//! `make baselines` has built them, and are told of otherwise.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::bench::{all_answered, checked, client, number};
use crate::world::{KERNEL_V4, KERNEL_V6, OURS_V4, OURS_V6, TAP, World, cores, root};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap()
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| workspace().join("target"), |dir| workspace().join(dir))
}

/// A baseline that is built here, once for all tests.
fn built(name: &str) -> String {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut build = Command::new(workspace().join("baselines/build.sh"));
        build.args(["--dev", "kernel-io_uring", "smoltcp"]);
        let output = build.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "baselines/build.sh: {}\n{said}", output.status);
    });
    target().join("debug/baselines").join(name).to_str().unwrap().to_owned()
}

/// A baseline that somebody else built; when nobody did, that is said where the harness does not
/// swallow it.
fn found(name: &str) -> Option<String> {
    let program = target().join("baselines").join(name);
    if !program.is_file() {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED the baseline {name}: it is not built. Run `make baselines`, which fetches its \
             source."
        );
        return None;
    }
    Some(program.to_str().unwrap().to_owned())
}

/// A thousand requests, or as many as come and go in the time, each in another way: what the server
/// is told, and what the client.
const WAYS: &[(&[&str], &[&str])] = &[
    (&[], &["-c", "20", "-r", "2k", "-t", "0.5"]),
    (&["-l", "100"], &["-c", "20", "-l", "100", "-n", "udp", "-r", "2k", "-t", "0.5"]),
    (
        &["-l", "20000", "--request", "3000"],
        &["-c", "3", "-d", "5", "-m", "REQUEST", "-l", "20000", "-t", "0.3"],
    ),
    (
        &["-m", HTTP_ANSWER],
        &["-c", "8", "-d", "4", "-m", r"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "-t", "0.3"],
    ),
    (&[], &["-c", "5", "--close-after", "1", "--reset", "-t", "0.3"]),
];

const HTTP_ANSWER: &str =
    r"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nAA";

/// Asks `program` in every way at each of its addresses, and holds its figures against the
/// client's. `over` is what it calls itself.
fn asked(
    world: &World,
    program: &str,
    over: &str,
    place: &[&str],
    from: &[&str],
    addresses: &[&str],
) {
    for address in addresses {
        for (server_args, client_args) in WAYS {
            let server = world.start(program, &[place, server_args, &["--json"]].concat());
            let request = "x".repeat(3_000);
            let client_args: Vec<&str> = client_args
                .iter()
                .map(|arg| if *arg == "REQUEST" { &request } else { *arg })
                .collect();
            let summary = checked(&client(
                world,
                from,
                &[&["-s", address, "--timeout", "20"], &client_args[..]].concat(),
            ));
            let told = server.summary();
            all_answered(&summary, &told);
            assert_eq!(told["over"], over, "{told}");
            if client_args.contains(&"-r") {
                assert_eq!(
                    number(&told, "requests") + number(&summary, "not_sent"),
                    1_000,
                    "{told} {summary}"
                );
            }
            if !client_args.contains(&"udp") {
                assert_eq!(
                    number(&told, "accepted"),
                    number(&summary, "connected"),
                    "{told} {summary}"
                );
            }
            assert!(told["per_request"]["busy_ns"].as_f64().unwrap() > 0.0, "{told}");
            assert!((0.0..=1.01).contains(&told["busy_share"].as_f64().unwrap()), "{told}");
        }
    }
}

/// Our own stack's side of the device, for a client.
const CLIENT: [&str; 6] = ["--port", "tap:cw0", "-a", "10.99.0.2/24", "-a", "fd99::2/64"];

/// The other stack's side of it, for a server.
fn on_tap() -> Vec<String> {
    vec![
        "--port".into(),
        format!("tap:{TAP}"),
        "-a".into(),
        format!("{OURS_V4}/24"),
        "-a".into(),
        format!("{OURS_V6}/64"),
    ]
}

#[test]
fn the_kernel_answers_by_io_uring_whoever_asks() {
    if !root() {
        return;
    }
    let program = built("kernel-io_uring");
    let world = World::new();
    asked(&world, &program, "io_uring", &[], &CLIENT, &[KERNEL_V4, KERNEL_V6]);
    // Two threads share what comes.
    if !cores(2) {
        return;
    }
    let server = world.start(&program, &["--cores", "0,1", "--json", "-a", KERNEL_V4]);
    let summary =
        checked(&client(&world, &CLIENT, &["-s", KERNEL_V4, "-c", "40", "-r", "2k", "-t", "0.5"]));
    all_answered(&summary, &server.summary());
}

#[test]
fn smoltcp_answers_over_our_tap_port() {
    if !root() {
        return;
    }
    let program = built("smoltcp");
    let world = World::new();
    let place = on_tap();
    let place: Vec<&str> = place.iter().map(String::as_str).collect();
    asked(&world, &program, "smoltcp", &place, &["--kernel"], &[OURS_V4, OURS_V6]);
}

/// A server in shared memory, and where its client sits. The client has one address: smoltcp asks
/// for one neighbour a second at most.
#[cfg(feature = "dpdk")]
fn in_shared_memory(program: &str, over: &str) {
    let world = World::new();
    let socket = world.folder.join("memif");
    let port = |role| format!("dpdk:net_memif0,role={role},socket={}", socket.display());
    let (server, client) = (port("server"), port("client"));
    let place = ["--port", &server, "-a", "10.98.0.1/24"];
    asked(
        &world,
        program,
        over,
        &place,
        &["--port", &client, "-a", "10.98.0.2/24"],
        &["10.98.0.1"],
    );
}

#[cfg(feature = "dpdk")]
#[test]
fn smoltcp_answers_in_shared_memory() {
    if root() {
        in_shared_memory(&built("smoltcp"), "smoltcp");
    }
}

#[cfg(feature = "dpdk")]
#[test]
fn lwip_answers_in_shared_memory() {
    if let Some(program) = found("lwip-dpdk").filter(|_| root()) {
        in_shared_memory(&program, "lwip");
    }
}

#[test]
fn netstack_answers_over_tap() {
    let Some(program) = found("netstack").filter(|_| root()) else { return };
    let world = World::new();
    let place = on_tap();
    let place: Vec<&str> = place.iter().map(String::as_str).collect();
    asked(&world, &program, "netstack", &place, &["--kernel"], &[OURS_V4, OURS_V6]);
}

/// Every baseline that there is, and the arguments that place it.
fn all() -> Vec<(String, &'static [&'static str])> {
    const PORT: &[&str] = &["--port", "tap:cw0", "-a", "10.99.0.2/24"];
    const DPDK: &[&str] = &["--port", "dpdk:net_null0", "-a", "10.99.0.2/24"];
    let mut all: Vec<(String, &[&str])> =
        vec![(built("kernel-io_uring"), &[]), (built("smoltcp"), PORT)];
    all.extend(
        [("lwip-dpdk", DPDK), ("netstack", PORT)]
            .into_iter()
            .filter_map(|(name, args)| Some((found(name)?, args))),
    );
    all
}

#[test]
fn all_of_them_are_spoken_to_alike() {
    for (program, place) in all() {
        let run = |args: &[&str]| {
            let output = Command::new(&program).args(args).output().unwrap();
            let said = [output.stdout, output.stderr].concat();
            (output.status.code(), String::from_utf8_lossy(&said).into_owned())
        };
        let (code, help) = run(&["--help"]);
        assert_eq!(code, Some(0), "{program}: {help}");
        for option in [
            "--address",
            "--server-port",
            "--length",
            "--message",
            "--request",
            "--pattern",
            "--cores",
            "--time",
            "--json",
        ] {
            assert!(help.contains(option), "{program} has no {option}: {help}");
        }
        for (args, why) in [
            (&["-l", "0"][..], "0"),
            (&["-m", "\\q"], "backslash"),
            (&["--request", "never"], "never"),
            (&["--cores", "x"], "cores"),
            (&["-p", "0"], "port"),
            (&["-g", "sideways"], "sideways"),
            (&["--no-such-option"], "no-such-option"),
            (&["-a", "10.0.0.256/24"], "10.0.0.256"),
        ] {
            let (code, said) = run(&[place, args].concat());
            assert_eq!(code, Some(2), "{program} {args:?}: {said}");
            assert!(said.contains(why), "{program} {args:?}: {said}");
        }
    }
}

#[test]
fn each_ends_well_by_either_signal_and_says_its_version() {
    if !root() {
        return;
    }
    let world = World::new();
    for (program, place) in all() {
        for signal in [Signal::SIGINT, Signal::SIGTERM] {
            let mut server = world.start(&program, &[place, &["--json", "-t", "60"]].concat());
            let ready = server.wait_for("ready");
            assert_eq!(
                (&ready["port"], ready["version"].is_string()),
                (&10_000.into(), true),
                "{ready}"
            );
            let (code, summary) = server.stop(signal);
            assert_eq!(
                (code, &summary["event"]),
                (Some(0), &"summary".into()),
                "{program}: {summary}"
            );
            assert_eq!(
                (number(&summary, "requests"), &summary["per_request"]),
                (0, &Value::Null),
                "{program}"
            );
        }
    }
    // The version that smoltcp's server says is that of the library.
    let lock = std::fs::read_to_string(workspace().join("baselines/smoltcp/Cargo.lock")).unwrap();
    let (_, entry) = lock.split_once("name = \"smoltcp\"\nversion = \"").unwrap();
    let version = entry.split('"').next().unwrap();
    assert_eq!(
        world.text(&built("smoltcp"), &["--version"]).trim(),
        format!("smoltcp smoltcp {version}")
    );
}
