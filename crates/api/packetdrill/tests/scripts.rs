//! Our own packet scripts, run through packetdrill's interface: the runner calls the functions of
//! the struct, with a second thread for calls that block, and knows nothing of the core behind
//! them.

mod interface;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clearway_script::ast::{Arg, Script, What};
use clearway_script::backend::Net;
use clearway_script::{IpVersion, Runner, Subject, parse, suite};

use interface::{Interface, Library};

/// Why a script cannot run through the interface, if so.
fn left_out(script: &Script, version: IpVersion) -> Option<String> {
    if let Some(why) = script.settings.skips(Subject::Core, version) {
        return Some(why);
    }
    let sets_buffers = script.events.iter().any(|event| match &event.what {
        What::Call(call) => call.args.iter().any(|arg| {
            matches!(arg, Arg::Names(names) if names.iter().any(|n| n == "SO_RCVBUF"
                || n == "SO_SNDBUF"))
        }),
        _ => false,
    });
    if sets_buffers {
        return Some("the adapter's buffers have one size (docs/packetdrill.md)".into());
    }
    let accurate = |command: &String| {
        ["tcp_ecn=3", "tcp_ecn=4", "tcp_ecn=5"].iter().any(|knob| command.contains(knob))
    };
    if script.settings.commands.iter().any(accurate) {
        return Some("Linux 6.18, whose knobs the adapter reads, has no AccECN to ask for".into());
    }
    let prague = |command: &String| command.contains("tcp_congestion_control=prague");
    if script.settings.commands.iter().any(prague) {
        return Some("Linux 6.18, whose knobs the adapter reads, has no Prague to name".into());
    }
    let sets_knobs = !script.settings.commands.is_empty();
    (sets_knobs && !interface::is_root()).then(|| "setting the kernel's knobs needs root".into())
}

fn run(library: &Library, path: &Path, version: IpVersion) -> Result<bool, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let script = parse(&text).map_err(|error| format!("{}: {}", error.pos, error.what))?;
    if left_out(&script, version).is_some() {
        return Ok(false);
    }
    let net = Net::new(version, &script.settings);
    // A namespace of its own, where the knobs are as Linux has them, goes with its thread.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            interface::leave_namespace();
            let mut interface = Interface::new(library, net)?;
            Runner::new(&script, net, &mut interface, 0)
                .run()
                .map_err(|failure| format!("{}: {}", failure.pos, failure.what))
        });
        thread.join().unwrap_or_else(|_| Err("the runner panicked".into()))
    })?;
    Ok(true)
}

fn all_hold(version: IpVersion) {
    if !interface::is_root() {
        // The adapter takes window scale and buffers from the kernel's knobs, which nobody else can
        // set.
        eprintln!("not run: setting the kernel's knobs needs root");
        assert!(std::env::var_os("CI").is_none(), "there is no root in CI");
        return;
    }
    let library = Library::open();
    let scripts =
        suite::find(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/scripts")).unwrap();
    let (next, held) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(path) = scripts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match run(&library, path, version) {
                        Ok(true) => _ = held.fetch_add(1, Ordering::Relaxed),
                        Ok(false) => {}
                        Err(why) => {
                            failures.lock().unwrap().push(format!("{}:{why}", path.display()))
                        }
                    }
                }
            });
        }
    });
    let (failures, held) = (failures.into_inner().unwrap(), held.into_inner());
    assert!(
        failures.is_empty(),
        "{} of {} scripts:\n{}",
        failures.len(),
        scripts.len(),
        failures.join("\n")
    );
    println!("{}: {held} of {} scripts ran and held", version.name(), scripts.len());
    // Most are for every family; what is left out is left out for a reason that is written down.
    assert!(held * 10 >= scripts.len() * 8, "only {held} of {} scripts ran", scripts.len());
}

#[test]
fn our_scripts_hold_through_the_interface_over_ipv4() {
    all_hold(IpVersion::V4);
}

#[test]
fn our_scripts_hold_through_the_interface_over_ipv6() {
    all_hold(IpVersion::V6);
}

#[test]
fn our_scripts_hold_through_the_interface_with_ipv6_sockets_over_ipv4() {
    all_hold(IpVersion::V4Mapped);
}
