//! `poll` over sockets and descriptors of the kernel.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use clearway_client::{Client, PollEntry, Socket, Target, poll};

use crate::guests::*;
use crate::world::World;

const IN: u16 = libc::POLLIN as u16;
const OUT: u16 = libc::POLLOUT as u16;

fn ours(socket: &Socket, events: u16) -> PollEntry<'_> {
    PollEntry { target: Target::Ours(socket), events, found: 0 }
}

fn kernel<'a>(fd: &impl AsRawFd, events: u16) -> PollEntry<'a> {
    PollEntry { target: Target::Kernel(fd.as_raw_fd()), events, found: 0 }
}

fn found(
    client: &Client,
    entries: &mut [PollEntry<'_>],
    timeout: Option<u64>,
) -> (usize, Vec<u16>) {
    let ready = poll(client, entries, timeout.map(Duration::from_millis), None).unwrap();
    (ready, entries.iter().map(|entry| entry.found).collect())
}

fn later(socket: &Arc<Socket>, bytes: &'static [u8]) -> std::thread::JoinHandle<()> {
    let socket = socket.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        send_all(&socket, bytes);
    })
}

#[test]
fn what_is_ready_is_found_at_once() {
    let world = World::new();
    let (a, b) = pair(&world);
    let client = a.client().clone();
    assert_eq!(found(&client, &mut [ours(&a, IN | OUT)], None), (1, vec![OUT]));
    assert_eq!(found(&client, &mut [ours(&a, IN)], Some(0)), (0, vec![0]));
    assert_eq!(found(&client, &mut [ours(&a, IN)], Some(5)), (0, vec![0]));
    send_all(&b, b"x");
    assert_eq!(found(&client, &mut [ours(&a, IN)], None), (1, vec![IN]));
    drop(b);
    let end = IN | libc::POLLRDHUP as u16;
    while found(&client, &mut [ours(&a, end)], None).1 != [end] {
        std::thread::yield_now();
    }
}

#[test]
fn a_sleeper_is_woken_by_bytes() {
    let world = World::new();
    let (a, b) = pair(&world);
    for _ in 0..5 {
        let sender = later(&b.socket, b"wake");
        assert_eq!(found(a.client(), &mut [ours(&a, IN)], None), (1, vec![IN]));
        assert_eq!(recv_all(&a, 4), b"wake");
        sender.join().unwrap();
    }
}

#[test]
fn kernel_and_ours_in_one_call() {
    let world = World::new();
    let (a, b) = pair(&world);
    let (mut near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    let client = a.client().clone();
    assert_eq!(found(&client, &mut [kernel(&far, IN), ours(&a, IN)], Some(1)), (0, vec![0, 0]));
    near.write_all(b"x").unwrap();
    assert_eq!(found(&client, &mut [kernel(&far, IN), ours(&a, IN)], None), (1, vec![IN, 0]));
    assert_eq!(found(&client, &mut [kernel(&far, IN), ours(&a, OUT)], None), (2, vec![IN, OUT]));
    let sender = later(&b.socket, b"y");
    assert_eq!(found(&client, &mut [kernel(&near, IN), ours(&a, IN)], None), (1, vec![0, IN]));
    sender.join().unwrap();
    let sender = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        (&far).write_all(b"z").unwrap();
        far
    });
    assert_eq!(recv_all(&a, 1), b"y");
    assert_eq!(found(&client, &mut [kernel(&near, IN), ours(&a, IN)], None), (1, vec![IN, 0]));
    sender.join().unwrap();
}

#[test]
fn what_is_no_descriptor_is_said_to_be_none() {
    let world = World::new();
    let (a, _b) = pair(&world);
    let nothing = PollEntry { target: Target::Kernel(1 << 20), events: IN, found: 0 };
    let ignored = PollEntry { target: Target::Kernel(-1), events: IN, found: 0 };
    let client = a.client().clone();
    let result = found(&client, &mut [nothing, ignored, ours(&a, IN)], None);
    assert_eq!(result, (1, vec![libc::POLLNVAL as u16, 0, 0]));
}

#[test]
fn room_wakes_a_writer() {
    let world = World::new();
    let (a, b) = pair(&world);
    nonblocking(&a);
    let bytes = pattern(0, 1 << 20);
    let mut sent = 0;
    // The peer's FIFO fills after ours, so that more room comes for a while.
    while found(a.client(), &mut [ours(&a, OUT)], Some(50)).0 > 0 {
        sent += send(&a, &bytes).unwrap_or(0);
    }
    let reader = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        let mut read = 0;
        while read < sent {
            read += recv(&b, 1 << 20, 0).unwrap().len();
        }
        b
    });
    assert_eq!(found(a.client(), &mut [ours(&a, OUT)], None), (1, vec![OUT]));
    reader.join().unwrap();
}

#[test]
fn a_listener_is_readable_when_somebody_waits() {
    let world = World::new();
    let (client, server) = (client(&world), server(&world));
    let listener = listener(&server, "172.16.1.1:80");
    assert_eq!(found(&server, &mut [ours(&listener, IN)], Some(1)), (0, vec![0]));
    let address = listener.local();
    let connector = std::thread::spawn(move || connect(&client, address));
    assert_eq!(found(&server, &mut [ours(&listener, IN)], None), (1, vec![IN]));
    accept(&listener);
    connector.join().unwrap();
    assert_eq!(found(&server, &mut [ours(&listener, IN)], Some(0)), (0, vec![0]));
}
