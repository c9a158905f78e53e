//! Programs and hosts that are killed.

use std::time::{Duration, Instant};

use crate::world::{Host, IN_CLIENT, IN_SERVER, SERVER, rounds};

/// Starts a transfer that would go on for long, and waits until bytes flow.
fn transfer(host: &Host) -> (crate::world::Running, crate::world::Running) {
    let server = host.spawn(IN_SERVER, "iperf3", &["-s", "-1", "--forceflush"]);
    server.await_text("Server listening");
    let client = host.spawn(IN_CLIENT, "iperf3", &["-c", SERVER, "-t", "60", "-i", "0.1", "--forceflush"]);
    client.await_text("Gbits/sec");
    (server, client)
}

#[test]
fn a_killed_client_leaves_nothing_behind() {
    let host = Host::new();
    for _ in 0..rounds() {
        let (mut server, mut client) = transfer(&host);
        client.kill();
        assert!(server.ends(), "the server goes on: {}", server.text());
        host.await_empty();
    }
    host.iperf(&["-n", "10M"]);
    host.stop();
}

#[test]
fn a_killed_server_leaves_nothing_behind() {
    let host = Host::new();
    for _ in 0..rounds() {
        let (mut server, mut client) = transfer(&host);
        server.kill();
        assert!(client.ends(), "the client goes on: {}", client.text());
        host.await_empty();
    }
    host.iperf(&["-n", "10M"]);
    host.stop();
}

#[test]
fn a_killed_host_ends_its_programs_and_a_new_one_is_found() {
    let mut host = Host::new();
    for _ in 0..rounds() {
        let (mut server, mut client) = transfer(&host);
        let killed = Instant::now();
        host.kill();
        assert!(client.ends(), "the client hangs: {}", client.text());
        assert!(server.ends(), "the server hangs: {}", server.text());
        assert!(killed.elapsed() < Duration::from_secs(30), "only a hang takes so long");
        host.start_again();
        host.iperf(&["-n", "1M"]);
        host.await_empty();
    }
    host.stop();
}
