//! `clearway wire`: the kernels of two namespaces meet over it.

use nix::sys::signal::Signal;

use crate::netns::{Netns, root};
use crate::world::{number, start_in};

/// Whether a kernel reaches another over a wire with these faults; what the wire counted.
fn ping_over(faults: &str) -> (bool, (u64, u64)) {
    let (left, right) = (Netns::new("cwwire"), Netns::new("cwwire"));
    let mut wire = start_in(&left, &format!("wire --port tap:near --onto tap:far{faults}"));
    wire.wait_for("ready");
    left.ip(&format!("link set far netns {}", right.name));
    for (netns, device, address) in
        [(&left, "near", "10.96.0.1/24"), (&right, "far", "10.96.0.2/24")]
    {
        netns.ip(&format!("addr add {address} dev {device}"));
        netns.ip(&format!("link set {device} up"));
    }
    // A kernel that has asked for its neighbour in vain asks again.
    let answered = (0..if faults.is_empty() { 30 } else { 2 })
        .any(|_| left.run("ping", &["-c", "1", "-W", "1", "10.96.0.2"]).status.success());
    let ended = wire.stop(Signal::SIGTERM);
    let summary = ended.summary();
    (answered, (number(summary, "there"), number(summary, "back")))
}

#[test]
fn two_kernels_meet_over_a_wire() {
    if !root() {
        return;
    }
    let (answered, (there, back)) = ping_over("");
    assert!(answered && there > 0 && back > 0, "{there} {back}");
}

#[test]
fn a_wire_loses_what_it_is_told_to_lose_one_way() {
    if !root() {
        return;
    }
    let (answered, (there, _)) = ping_over(" --fault rx.loss=100%");
    assert_eq!((answered, there), (false, 0));
}
