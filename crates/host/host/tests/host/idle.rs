//! Connections on which nothing happens cost nothing.

use std::time::Duration;

use crate::eventually::eventually;
use crate::guest::{Guest, hello};
use crate::world::World;

const CONNECTIONS: usize = 1_000;

/// How long the host is watched doing nothing.
const WATCHED: Duration = Duration::from_secs(3);

/// Turns of its loop that an idle worker may make meanwhile: reports, and timers that look again.
/// Busy ones make a million.
const TURNS: u64 = 30;

#[test]
fn a_thousand_idle_connections() {
    let world = World::with(|setup| setup.program.rx_fifo = 64 << 10);
    let server = Guest::attach(&world.attach_socket(), hello("server", Some("1234"))).unwrap();
    let client = Guest::attach(&world.attach_socket(), hello("client", Some("5678"))).unwrap();
    let mut listener = server.listener("172.16.1.1:80");
    let mut pairs = Vec::new();
    for _ in 0..CONNECTIONS {
        let ours = client.connect("172.16.1.1:80").unwrap();
        pairs.push((ours, server.accept(&mut listener)));
    }
    let turns = || world.host.ask(0, |worker| worker.engine().turns_and_sleeps()).unwrap().0;
    // Timers of the handshakes look once more when they would have been due, each at its time: the
    // watch begins anew until they are through.
    eventually("an idle host sleeps", || {
        let before = turns();
        std::thread::sleep(WATCHED);
        turns() - before < TURNS
    });
    let (ours, theirs) = &mut pairs[CONNECTIONS / 2];
    assert!(client.write_all(ours, b"?"));
    let mut byte = [0];
    assert!(server.read_all(theirs, &mut byte));
    assert!(server.write_all(theirs, &byte));
    assert!(client.read_all(ours, &mut byte));
    assert_eq!(&byte, b"?");
}
