//! A server made with this crate beside peers of the kernel's that read nothing.

mod peers;

use std::process::Command;
use std::thread;

use clearway::{Io, Net, Next, Stopper, serve};
use nix::sched::{CloneFlags, unshare};

/// Ends the run also when the test fails.
struct Stops(Stopper);

impl Drop for Stops {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn ip(args: &str) {
    let output = Command::new("ip").args(args.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Gives back what came, as far as there is room.
fn echo(io: &mut dyn Io) -> Next {
    while !io.recv().is_empty() {
        let bytes = io.recv().to_vec();
        let sent = io.send(&bytes);
        io.consumed(sent);
        if sent == 0 {
            return Next::Wait;
        }
    }
    if io.peer_closed() { Next::Close } else { Next::Wait }
}

fn honest_peers_are_served_beside_stuck_ones() {
    let mut net = Net::builder().port("tap:cwstuck0").address("10.96.0.2/24").open().unwrap();
    ip("addr add 10.96.0.1/24 dev cwstuck0");
    ip("link set cwstuck0 up");
    let stops = Stops(net.stopper());
    let running = thread::spawn(move || net.run(serve(7, |_: &mut (), io: &mut dyn Io| echo(io))).map(|_| ()));
    let at = "10.96.0.2:7".parse().unwrap();
    let stuck = peers::stuck(at);
    peers::honest(at, 20);
    drop((stuck, stops));
    running.join().unwrap().unwrap();
}

#[test]
fn peers_that_read_nothing_take_nothing_from_others_of_a_rust_program() {
    // In a network namespace that goes with the thread.
    let run = || unshare(CloneFlags::CLONE_NEWNET).map(|()| honest_peers_are_served_beside_stuck_ones()).is_ok();
    if !thread::spawn(run).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
        assert!(std::env::var_os("CI").is_none(), "only root can make a network namespace");
        eprintln!("skipped: only root can make a network namespace");
    }
}
