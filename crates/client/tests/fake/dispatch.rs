//! Threads that wait in every way at once: none loses a wake-up.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use clearway_client::{
    AppConfig, AttachError, Client, EpollEvent, EpollSet, Errno, How, Kind, PollEntry, Socket, SocketOptions, Target,
    poll,
};
use rustix::event::epoll as kernel;

use crate::host::FakeHost;

const IN: u32 = libc::EPOLLIN as u32;

/// Few enough for a checker that makes everything slow.
const ROUNDS: u64 = 300;

fn attach(host: &FakeHost, spin_us: u32) -> Arc<Client> {
    let config = AppConfig { socket: Some(host.door.clone()), spin_us: Some(spin_us), ..AppConfig::default() };
    Client::attach(config).expect("the host lets everybody in")
}

fn connected(client: &Arc<Client>) -> (Arc<Socket>, OwnedFd) {
    let (socket, lifeline) = client.open(Kind::Stream, false, &SocketOptions::default()).unwrap();
    socket.connect(Some("10.0.0.2:7".parse().unwrap())).unwrap();
    (socket, lifeline)
}

fn send_all(socket: &Socket, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        bytes = &bytes[socket.send(&[IoSlice::new(bytes)], 0).expect("send")..];
    }
}

fn recv_all(socket: &Socket, len: usize, flags: i32) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; len];
    let received = socket.recv(&mut [IoSliceMut::new(&mut bytes)], flags)?;
    bytes.truncate(received.len);
    Ok(bytes)
}

/// Sends numbers and reads them back with calls that block.
fn blocking(socket: &Socket) {
    for round in 0..ROUNDS {
        send_all(socket, &round.to_ne_bytes());
        assert_eq!(recv_all(socket, 8, libc::MSG_WAITALL).unwrap(), round.to_ne_bytes());
    }
}

/// The same with poll.
fn polling(client: &Client, socket: &Socket) {
    for round in 0..ROUNDS {
        send_all(socket, &round.to_ne_bytes());
        let mut entries = [PollEntry { target: Target::Ours(socket), events: IN as u16, found: 0 }];
        assert_eq!(poll(client, &mut entries, None, None), Ok(1));
        assert_eq!(recv_all(socket, 8, libc::MSG_DONTWAIT).unwrap(), round.to_ne_bytes());
    }
}

/// The same with an epoll set.
fn waiting(client: &Arc<Client>, socket: &Arc<Socket>, fd: i32, events: u32) {
    let epfd = kernel::create(kernel::CreateFlags::CLOEXEC).unwrap();
    let set = EpollSet::new(client, epfd.as_raw_fd()).unwrap();
    set.add(fd, socket, EpollEvent { events, data: 3 }).unwrap();
    for round in 0..ROUNDS {
        send_all(socket, &round.to_ne_bytes());
        let mut got = Vec::new();
        while got.len() < 8 {
            let mut out = [EpollEvent::default(); 2];
            assert_eq!(set.wait(epfd.as_raw_fd(), &mut out, None, None), Ok(1));
            assert_eq!(({ out[0].data }, { out[0].events }), (3, IN));
            while let Ok(bytes) = recv_all(socket, 8, libc::MSG_DONTWAIT) {
                got.extend(bytes);
            }
        }
        assert_eq!(got, round.to_ne_bytes());
    }
}

fn every_way_at_once(spin_us: u32) {
    let host = FakeHost::start();
    let client = attach(&host, spin_us);
    std::thread::scope(|scope| {
        for way in 0..8 {
            let client = &client;
            scope.spawn(move || {
                let (socket, lifeline) = connected(client);
                match way % 4 {
                    0 => blocking(&socket),
                    1 => polling(client, &socket),
                    2 => waiting(client, &socket, lifeline.as_raw_fd(), IN),
                    _ => waiting(client, &socket, lifeline.as_raw_fd(), IN | libc::EPOLLET as u32),
                }
            });
        }
    });
}

#[test]
fn who_sleeps_at_once_loses_nothing() {
    every_way_at_once(0);
}

#[test]
fn who_looks_first_loses_nothing() {
    every_way_at_once(50);
}

#[test]
fn two_threads_on_one_socket() {
    let host = FakeHost::start();
    let client = attach(&host, 0);
    let (socket, _lifeline) = connected(&client);
    let total = 1 << 20;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let bytes: Vec<u8> = (0..total).map(|at| (at % 251) as u8).collect();
            send_all(&socket, &bytes);
            socket.shutdown(How::Write).unwrap();
        });
        let mut at = 0;
        loop {
            let bytes = recv_all(&socket, 5000, 0).unwrap();
            if bytes.is_empty() {
                break;
            }
            assert!(bytes.iter().zip(at..).all(|(byte, at)| *byte == (at % 251) as u8));
            at += bytes.len();
        }
        assert_eq!(at, total);
    });
}

/// A worker that tells of room has taken the wish for it back, and looked at the FIFO a moment before: there may be too little.
#[test]
fn who_was_told_too_early_asks_again() {
    let host = FakeHost::start_hasty();
    // Whoever waits sees the news while it looks, not asleep.
    let client = attach(&host, 2_000);
    let (socket, _lifeline) = connected(&client);
    let (mut unsent, mut unread) = (40 * (16 << 10), 40 * (16 << 10));
    while unsent > 0 {
        match socket.send(&[IoSlice::new(&vec![7; unsent])], libc::MSG_DONTWAIT) {
            Ok(sent) => unsent -= sent,
            Err(errno) => assert_eq!(errno, Errno::AGAIN),
        }
        let mut entries = [PollEntry { target: Target::Ours(&socket), events: libc::EPOLLOUT as u16, found: 0 }];
        let found = poll(&client, &mut entries, Some(Duration::from_secs(10)), None);
        assert_eq!(found, Ok(1), "nobody told of room; {unsent} bytes are left");
        while let Ok(bytes) = recv_all(&socket, 5000, libc::MSG_DONTWAIT) {
            unread -= bytes.len();
        }
    }
    while unread > 0 {
        unread -= recv_all(&socket, 5000, 0).unwrap().len();
    }
}

#[test]
fn members_come_and_go_while_others_wait() {
    let host = FakeHost::start();
    let client = attach(&host, 0);
    let epfd = kernel::create(kernel::CreateFlags::CLOEXEC).unwrap();
    let set = EpollSet::new(&client, epfd.as_raw_fd()).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let mut out = [EpollEvent::default(); 4];
                    let timeout = Some(Duration::from_millis(10));
                    set.wait(epfd.as_raw_fd(), &mut out, timeout, None).unwrap();
                }
            });
        }
        for _ in 0..20 {
            let (socket, lifeline) = connected(&client);
            set.add(lifeline.as_raw_fd(), &socket, EpollEvent { events: IN, data: 1 }).unwrap();
            send_all(&socket, b"x");
            assert_eq!(recv_all(&socket, 1, libc::MSG_WAITALL).unwrap(), b"x");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(set.is_empty(), "closed sockets leave their sets");
}

#[test]
fn a_refusal_is_an_error_of_its_own() {
    let host = FakeHost::start();
    let config = AppConfig { socket: Some(host.door.clone()), namespace: "closed".into(), ..AppConfig::default() };
    match Client::attach(config) {
        Err(AttachError::Refused { errno, .. }) => assert_eq!(errno, Errno(libc::EACCES)),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("let in"),
    }
}

#[test]
fn a_host_that_comes_again_is_found_by_new_sockets() {
    let host = FakeHost::start();
    let door = host.door.clone();
    let client = attach(&host, 0);
    let (old, _old_lifeline) = connected(&client);
    let epfd = kernel::create(kernel::CreateFlags::CLOEXEC).unwrap();
    let set = EpollSet::new(&client, epfd.as_raw_fd()).unwrap();
    set.add(_old_lifeline.as_raw_fd(), &old, EpollEvent { events: IN | libc::EPOLLET as u32, data: 1 }).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| recv_all(&old, 1, 0));
        std::thread::sleep(Duration::from_millis(20));
        drop(host);
        assert_eq!(reader.join().unwrap(), Err(Errno::CONNRESET));
    });
    let mut out = [EpollEvent::default(); 2];
    assert_eq!(set.wait(epfd.as_raw_fd(), &mut out, None, None), Ok(1));
    assert_ne!({ out[0].events } & libc::EPOLLHUP as u32, 0);
    assert_eq!(set.wait(epfd.as_raw_fd(), &mut out, Some(Duration::from_millis(5)), None), Ok(0), "told once");

    let _again = FakeHost::start_at(door);
    let (new, lifeline) = connected(&client);
    blocking(&new);
    set.add(lifeline.as_raw_fd(), &new, EpollEvent { events: IN, data: 2 }).unwrap();
    send_all(&new, b"x");
    assert_eq!(set.wait(epfd.as_raw_fd(), &mut out, None, None), Ok(1));
    assert_eq!({ out[0].data }, 2);
    assert_eq!(recv_all(&old, 1, 0).unwrap(), b"", "what was the old host's stays dead");
}
