//! Threads that wait in every way at once: none loses a wake-up.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clearway_client::{
    AppConfig, AttachError, Client, EpollEvent, EpollSet, Errno, How, Kind, PollEntry, Socket,
    SocketOptions, Target, poll,
};
use clearway_shm::wait::{self, PollFd};
use rustix::event::epoll as kernel;

use crate::host::{FakeHost, SLOTS};

const IN: u32 = libc::EPOLLIN as u32;

/// How long a test waits for what comes soon, or is lost.
const AGAINST_HANGS: Duration = Duration::from_secs(30);

/// Few enough for a checker that makes everything slow.
const ROUNDS: u64 = 300;

fn attach(host: &FakeHost, spin_us: u32) -> Arc<Client> {
    let config = AppConfig {
        socket: Some(host.attach_socket.clone()),
        spin_us: Some(spin_us),
        ..AppConfig::default()
    };
    Client::attach(config).expect("the host lets everybody in")
}

fn connected(client: &Arc<Client>) -> (Arc<Socket>, OwnedFd) {
    let (socket, session_fd) = client.open(Kind::Stream, false, &SocketOptions::default()).unwrap();
    socket.connect(Some("10.0.0.2:7".parse().unwrap())).unwrap();
    (socket, session_fd)
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
                let (socket, session_fd) = connected(client);
                match way % 4 {
                    0 => blocking(&socket),
                    1 => polling(client, &socket),
                    2 => waiting(client, &socket, session_fd.as_raw_fd(), IN),
                    _ => {
                        waiting(client, &socket, session_fd.as_raw_fd(), IN | libc::EPOLLET as u32)
                    }
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
    let (socket, _session_fd) = connected(&client);
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

/// A worker that tells of room has taken the wish for it back, and looked at the FIFO a moment
/// before: there may be too little.
#[test]
fn who_was_told_too_early_asks_again() {
    let host = FakeHost::start_hasty();
    // Whoever waits sees the news while it looks, not asleep.
    let client = attach(&host, 2_000);
    let (socket, _session_fd) = connected(&client);
    let (mut unsent, mut unread) = (40 * (16 << 10), 40 * (16 << 10));
    while unsent > 0 {
        match socket.send(&[IoSlice::new(&vec![7; unsent])], libc::MSG_DONTWAIT) {
            Ok(sent) => unsent -= sent,
            Err(errno) => assert_eq!(errno, Errno::AGAIN),
        }
        // What comes back is read first: the host may have filled that FIFO while we were sending,
        // and then there is never any room.
        while let Ok(bytes) = recv_all(&socket, 5000, libc::MSG_DONTWAIT) {
            unread -= bytes.len();
        }
        let mut entries =
            [PollEntry { target: Target::Ours(&socket), events: libc::EPOLLOUT as u16, found: 0 }];
        let found = poll(&client, &mut entries, Some(AGAINST_HANGS), None);
        assert_eq!(found, Ok(1), "nobody told of room; {unsent} bytes are left");
    }
    while unread > 0 {
        unread -= recv_all(&socket, 5000, 0).unwrap().len();
    }
}

/// A worker leaves a connection, and is not run before somebody took it; what it tells then another
/// thread finds, and wakes nobody for it. The next connection must be told of all the same.
#[test]
fn who_is_blocked_in_accept_hears_of_the_next_connection_after_late_news() {
    let host = FakeHost::start_late();
    let client = attach(&host, 0);
    let (socket, _session_fd) =
        client.open(Kind::Stream, false, &SocketOptions::default()).unwrap();
    socket.listen(4).unwrap();
    let (other, _other_fd) = connected(&client);
    std::thread::scope(|scope| {
        let acceptor = scope.spawn(|| socket.accept().map(|_| ()));
        let begun = Instant::now();
        while !host.asked_again.load(Ordering::Relaxed) {
            // Before it sleeps it finds what nobody was woken for.
            let entry =
                PollEntry { target: Target::Ours(&other), events: libc::EPOLLIN as u16, found: 0 };
            assert_eq!(poll(&client, &mut [entry], Some(Duration::from_millis(1)), None), Ok(0));
            if begun.elapsed() > AGAINST_HANGS {
                // The thread would never end.
                eprintln!("nobody asked to be told of the next connection");
                std::process::abort();
            }
        }
        assert_eq!(acceptor.join().unwrap(), Err(Errno::INVAL), "it listens no longer");
    });
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
            let (socket, session_fd) = connected(&client);
            set.add(session_fd.as_raw_fd(), &socket, EpollEvent { events: IN, data: 1 }).unwrap();
            send_all(&socket, b"x");
            assert_eq!(recv_all(&socket, 1, libc::MSG_WAITALL).unwrap(), b"x");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(set.is_empty(), "closed sockets leave their sets");
}

#[test]
fn everybody_who_waited_before_there_were_members_is_woken_for_them() {
    let host = FakeHost::start();
    let client = attach(&host, 0);
    let epfd = kernel::create(kernel::CreateFlags::CLOEXEC).unwrap();
    let set = EpollSet::new(&client, epfd.as_raw_fd()).unwrap();
    let (tell, woken) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (tell, set, epfd) = (tell.clone(), &set, epfd.as_raw_fd());
            scope.spawn(move || {
                let mut out = [EpollEvent::default()];
                let found = set.wait(epfd, &mut out, Some(AGAINST_HANGS), None);
                // It does not come again, so what is left is for the others.
                tell.send(found.map(|found| (found, out[0].data))).unwrap();
            });
        }
        std::thread::sleep(Duration::from_millis(20));
        let mut all: Vec<_> = (1..5)
            .map(|data| {
                let (socket, session_fd) = connected(&client);
                let event = EpollEvent { events: IN | libc::EPOLLONESHOT as u32, data };
                set.add(session_fd.as_raw_fd(), &socket, event).unwrap();
                (socket, session_fd)
            })
            .collect();
        all.iter_mut().for_each(|(socket, _)| send_all(socket, b"x"));
        let mut seen: Vec<_> = (0..4).map(|_| woken.recv().unwrap().unwrap()).collect();
        seen.sort_unstable();
        assert_eq!(seen, [1, 2, 3, 4].map(|data| (1, data)));
    });
}

#[test]
fn a_set_that_nobody_waits_for_any_more_is_not_ready_for_the_set_it_lies_in() {
    let host = FakeHost::start();
    let client = attach(&host, 0);
    let make = || {
        let epfd = kernel::create(kernel::CreateFlags::CLOEXEC).unwrap();
        (EpollSet::new(&client, epfd.as_raw_fd()).unwrap(), epfd)
    };
    let ((inner, inner_fd), (outer, outer_fd)) = (make(), make());
    let mut out = [EpollEvent::default()];
    for _ in 0..100 {
        // Somebody waits for the inner set until its first member comes, or until a moment before.
        let (socket, session_fd) = connected(&client);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let timeout = Some(Duration::from_micros(100));
                inner
                    .wait(inner_fd.as_raw_fd(), &mut [EpollEvent::default()], timeout, None)
                    .unwrap()
            });
            std::thread::sleep(Duration::from_micros(50));
            inner.add(session_fd.as_raw_fd(), &socket, EpollEvent { events: IN, data: 1 }).unwrap();
        });
        let mut fds = [PollFd { fd: inner_fd.as_raw_fd(), events: libc::POLLIN, found: 0 }];
        assert_eq!(
            wait::poll(&mut fds, Some(Duration::ZERO), None).unwrap(),
            0,
            "there is nothing to be found in it"
        );
        inner.remove(session_fd.as_raw_fd()).unwrap();
    }
    let (socket, session_fd) = connected(&client);
    inner.add(session_fd.as_raw_fd(), &socket, EpollEvent { events: IN, data: 1 }).unwrap();
    outer.add_set(inner_fd.as_raw_fd(), &inner, EpollEvent { events: IN, data: 2 }).unwrap();
    assert_eq!(
        outer.wait(outer_fd.as_raw_fd(), &mut out, Some(Duration::from_millis(1)), None),
        Ok(0)
    );
    send_all(&socket, b"x");
    assert_eq!(outer.wait(outer_fd.as_raw_fd(), &mut out, Some(AGAINST_HANGS), None), Ok(1));
    assert_eq!({ out[0].data }, 2);
}

/// A set whose only member was a socket of a host that is gone, which was said.
struct Bereaved {
    client: Arc<Client>,
    attach_socket: PathBuf,
    set: Arc<EpollSet>,
    epfd: OwnedFd,
    _old: (Arc<Socket>, OwnedFd),
}

impl Bereaved {
    fn new() -> Bereaved {
        let host = FakeHost::start();
        let (client, attach_socket) = (attach(&host, 0), host.attach_socket.clone());
        let old = connected(&client);
        let epfd = kernel::create(kernel::CreateFlags::CLOEXEC).unwrap();
        let set = EpollSet::new(&client, epfd.as_raw_fd()).unwrap();
        set.add(old.1.as_raw_fd(), &old.0, EpollEvent { events: libc::EPOLLET as u32, data: 1 })
            .unwrap();
        drop(host);
        let bereaved = Bereaved { client, attach_socket, set, epfd, _old: old };
        assert_eq!(bereaved.wait(), Ok(1), "the old socket has failed, and says so once");
        bereaved
    }

    fn wait(&self) -> Result<u64, Errno> {
        let mut out = [EpollEvent::default()];
        let found = self.set.wait(self.epfd.as_raw_fd(), &mut out, Some(AGAINST_HANGS), None);
        found.map(|_| out[0].data)
    }

    /// A socket of the host that came, in the set.
    fn add(&self, data: u64) -> (Arc<Socket>, OwnedFd) {
        let (socket, session_fd) = connected(&self.client);
        let events = IN | libc::EPOLLONESHOT as u32;
        self.set.add(session_fd.as_raw_fd(), &socket, EpollEvent { events, data }).unwrap();
        (socket, session_fd)
    }
}

#[test]
fn who_waits_without_a_host_hears_of_the_next_one() {
    let bereaved = Bereaved::new();
    std::thread::scope(|scope| {
        let waiters = [scope.spawn(|| bereaved.wait()), scope.spawn(|| bereaved.wait())];
        std::thread::sleep(Duration::from_millis(20));
        let _host = FakeHost::start_at(bereaved.attach_socket.clone());
        let sockets = [2, 3].map(|data| bereaved.add(data));
        sockets.iter().for_each(|(socket, _)| send_all(socket, b"x"));
        let mut seen = waiters.map(|waiter| waiter.join().unwrap().unwrap());
        seen.sort_unstable();
        assert_eq!(seen, [2, 3]);
    });
}

#[test]
fn who_polls_without_a_host_hears_of_the_next_one() {
    let bereaved = Bereaved::new();
    std::thread::scope(|scope| {
        let poller = scope.spawn(|| {
            let target = Target::Epoll(&bereaved.set, bereaved.epfd.as_raw_fd());
            poll(
                &bereaved.client,
                &mut [PollEntry { target, events: IN as u16, found: 0 }],
                Some(AGAINST_HANGS),
                None,
            )
        });
        std::thread::sleep(Duration::from_millis(20));
        let _host = FakeHost::start_at(bereaved.attach_socket.clone());
        let (socket, _session_fd) = bereaved.add(2);
        send_all(&socket, b"x");
        assert_eq!(poller.join().unwrap(), Ok(1));
    });
}

/// Who finds the ring full waits for the worker, and not for one that is gone.
#[test]
fn a_ring_that_nobody_empties_any_more_holds_nobody() {
    let host = FakeHost::start_deaf();
    let client = attach(&host, 0);
    // Each leaves one message.
    let all: Vec<_> = (0..=SLOTS).map(|_| connected(&client)).collect();
    let [full @ .., last] = &all[..] else { unreachable!("there are some") };
    full.iter().for_each(|(socket, _)| send_all(socket, b"x"));
    std::thread::scope(|scope| {
        // That the host is gone it learns there, or before it begins.
        let sender = scope.spawn(|| last.0.send(&[IoSlice::new(b"x")], 0));
        std::thread::sleep(Duration::from_millis(20));
        drop(host);
        assert!(matches!(sender.join().unwrap(), Ok(1) | Err(Errno::CONNRESET)));
    });
    assert_eq!(recv_all(&full[0].0, 1, 0), Err(Errno::CONNRESET));
}

#[test]
fn a_refusal_is_an_error_of_its_own() {
    let host = FakeHost::start();
    let config = AppConfig {
        socket: Some(host.attach_socket.clone()),
        namespace: "closed".into(),
        ..AppConfig::default()
    };
    match Client::attach(config) {
        Err(AttachError::Refused { errno, .. }) => assert_eq!(errno, Errno(libc::EACCES)),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("let in"),
    }
}

#[test]
fn a_host_that_comes_again_is_found_by_new_sockets() {
    let host = FakeHost::start();
    let attach_socket = host.attach_socket.clone();
    let client = attach(&host, 0);
    let (old, _old_session_fd) = connected(&client);
    let epfd = kernel::create(kernel::CreateFlags::CLOEXEC).unwrap();
    let set = EpollSet::new(&client, epfd.as_raw_fd()).unwrap();
    set.add(
        _old_session_fd.as_raw_fd(),
        &old,
        EpollEvent { events: IN | libc::EPOLLET as u32, data: 1 },
    )
    .unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| recv_all(&old, 1, 0));
        std::thread::sleep(Duration::from_millis(20));
        drop(host);
        assert_eq!(reader.join().unwrap(), Err(Errno::CONNRESET));
    });
    let mut out = [EpollEvent::default(); 2];
    assert_eq!(set.wait(epfd.as_raw_fd(), &mut out, None, None), Ok(1));
    assert_ne!({ out[0].events } & libc::EPOLLHUP as u32, 0);
    assert_eq!(
        set.wait(epfd.as_raw_fd(), &mut out, Some(Duration::from_millis(5)), None),
        Ok(0),
        "told once"
    );

    let _again = FakeHost::start_at(attach_socket);
    let (new, session_fd) = connected(&client);
    blocking(&new);
    set.add(session_fd.as_raw_fd(), &new, EpollEvent { events: IN, data: 2 }).unwrap();
    send_all(&new, b"x");
    assert_eq!(set.wait(epfd.as_raw_fd(), &mut out, None, None), Ok(1));
    assert_eq!({ out[0].data }, 2);
    assert_eq!(recv_all(&old, 1, 0).unwrap(), b"", "what was the old host's stays dead");
}
