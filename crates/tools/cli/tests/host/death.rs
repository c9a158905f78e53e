//! Programs and hosts that are killed.

use std::time::{Duration, Instant};

use crate::world::{Host, IN_CLIENT, IN_SERVER, SERVER, TIME_LIMIT, rounds};

/// Starts a transfer that would go on for long, and waits until bytes flow.
fn transfer(host: &Host) -> (crate::world::Running, crate::world::Running) {
    let server = host.spawn(IN_SERVER, "iperf3", &["-s", "-1", "--forceflush"]);
    server.await_text("Server listening");
    let client =
        host.spawn(IN_CLIENT, "iperf3", &["-c", SERVER, "-t", "60", "-i", "0.1", "--forceflush"]);
    client.await_text("Gbits/sec");
    (server, client)
}

/// How long the slowest round took from the kill to the end of everything; told with `--nocapture`.
struct Longest {
    what: &'static str,
    took: Duration,
}

impl Longest {
    fn of(what: &'static str) -> Longest {
        Longest { what, took: Duration::ZERO }
    }

    fn since(&mut self, killed: Instant) {
        self.took = self.took.max(killed.elapsed());
    }
}

impl Drop for Longest {
    fn drop(&mut self) {
        eprintln!("{}: at most {} ms in {} rounds", self.what, self.took.as_millis(), rounds());
    }
}

#[test]
fn a_killed_client_leaves_nothing_behind() {
    let host = Host::new();
    let mut longest = Longest::of("from the client's death until nothing is left");
    for _ in 0..rounds() {
        let (mut server, mut client) = transfer(&host);
        let killed = Instant::now();
        client.kill();
        assert!(server.ends(), "the server goes on: {}", server.text());
        host.await_empty();
        longest.since(killed);
    }
    host.iperf(&["-n", "10M"]);
    host.stop();
}

#[test]
fn a_killed_server_leaves_nothing_behind() {
    let host = Host::new();
    let mut longest = Longest::of("from the server's death until nothing is left");
    for _ in 0..rounds() {
        let (mut server, mut client) = transfer(&host);
        let killed = Instant::now();
        server.kill();
        assert!(client.ends(), "the client goes on: {}", client.text());
        host.await_empty();
        longest.since(killed);
    }
    host.iperf(&["-n", "10M"]);
    host.stop();
}

#[test]
fn a_killed_host_ends_its_programs_and_a_new_one_is_found() {
    let mut host = Host::new();
    let mut longest = Longest::of("from the host's death until both programs have ended");
    for _ in 0..rounds() {
        let (mut server, mut client) = transfer(&host);
        let killed = Instant::now();
        host.kill();
        assert!(client.ends(), "the client hangs: {}", client.text());
        assert!(server.ends(), "the server hangs: {}", server.text());
        longest.since(killed);
        assert!(killed.elapsed() < TIME_LIMIT, "only a hang takes so long");
        host.start_again();
        host.iperf(&["-n", "1M"]);
        host.await_empty();
    }
    host.stop();
}
