//! Epoll sets: level and edge, one-shot, exclusive, nested, mixed with descriptors of the kernel.

use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use clearway_client::{Client, EpollEvent, EpollSet, Errno, Kind, PollEntry, Socket, Target, poll};
use rustix::event::epoll as kernel;

use crate::guests::*;
use crate::world::World;

const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;
const RDHUP: u32 = libc::EPOLLRDHUP as u32;
const ET: u32 = libc::EPOLLET as u32;
const ONESHOT: u32 = libc::EPOLLONESHOT as u32;
const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;

/// A set as a program has it.
struct Both {
    set: Arc<EpollSet>,
    epfd: OwnedFd,
}

impl Both {
    fn new(client: &Arc<Client>) -> Both {
        let epfd = kernel::create(kernel::CreateFlags::CLOEXEC).unwrap();
        Both { set: EpollSet::new(client, epfd.as_raw_fd()).unwrap(), epfd }
    }

    fn add(&self, socket: &Own, events: u32, data: u64) {
        self.set
            .add(socket.session_fd.as_raw_fd(), &socket.socket, EpollEvent { events, data })
            .unwrap();
    }

    fn modify(&self, socket: &Own, events: u32, data: u64) {
        self.set.modify(socket.session_fd.as_raw_fd(), EpollEvent { events, data }).unwrap();
    }

    fn add_kernel(&self, fd: &impl std::os::fd::AsFd, data: u64) {
        kernel::add(&self.epfd, fd, kernel::EventData::new_u64(data), kernel::EventFlags::IN)
            .unwrap();
        self.set.has_kernel_members();
    }

    fn wait(&self, timeout: Option<u64>) -> Vec<(u64, u32)> {
        let mut out = [EpollEvent::default(); 8];
        let timeout = timeout.map(Duration::from_millis);
        let filled = loop {
            match self.set.wait(self.epfd.as_raw_fd(), &mut out, timeout, None) {
                // A child of another test has ended.
                Err(Errno::INTR) => {}
                filled => break filled.unwrap(),
            }
        };
        out[..filled].iter().map(|event| (event.data, event.events)).collect()
    }

    /// What comes at once.
    fn now(&self) -> Vec<(u64, u32)> {
        self.wait(Some(0))
    }
}

/// Waits until the bytes are there, and the events of their coming too.
fn arrived(socket: &Socket, len: usize) {
    while socket.readable_bytes() < len {
        std::thread::yield_now();
    }
    told(socket.client());
}

/// Waits until the program has been told all that happened: the worker tells it at the end of its
/// turn, before the turn in which it gives the second of two answers.
fn told(client: &Arc<Client>) {
    for _ in 0..2 {
        open(client, Kind::Stream).bind("0.0.0.0:0".parse().unwrap()).expect("bind");
    }
}

#[test]
fn level_triggered_reports_as_long_as_there_is_something() {
    let world = World::new();
    let (a, b) = pair(&world);
    let set = Both::new(a.client());
    set.add(&a, IN, 1);
    assert_eq!(set.now(), []);
    send_all(&b, b"xy");
    assert_eq!(set.wait(None), [(1, IN)]);
    assert_eq!(set.now(), [(1, IN)]);
    recv_all(&a, 1);
    assert_eq!(set.wait(None), [(1, IN)]);
    recv_all(&a, 1);
    assert_eq!(set.now(), []);
    assert_eq!(set.wait(Some(5)), []);
    send_all(&b, b"z");
    assert_eq!(set.wait(None), [(1, IN)]);
}

#[test]
fn members_are_reported_in_the_order_in_which_they_became_ready() {
    let world = World::new();
    let (client, server) = (client(&world), server(&world));
    let listener = listener(&server, "172.16.1.1:80");
    let pair = || (connect(&client, listener.local()), accept(&listener));
    let pairs = [pair(), pair(), pair()];
    told(&client);
    let set = Both::new(&client);
    set.add(&pairs[0].0, IN, 0);
    set.add(&pairs[2].0, 0, 2);
    for (ours, theirs) in &pairs {
        send_all(theirs, b"x");
        arrived(ours, 1);
    }
    // One that is ready already is no earlier than one whose readiness nobody here has heard of
    // yet.
    set.add(&pairs[1].0, IN, 1);
    set.modify(&pairs[2].0, IN, 2);
    assert_eq!(set.now(), [(0, IN), (1, IN), (2, IN)]);
}

#[test]
fn edge_triggered_reports_each_arrival_once() {
    let world = World::new();
    let (a, b) = pair(&world);
    let set = Both::new(a.client());
    set.add(&a, IN | ET, 1);
    send_all(&b, b"x");
    assert_eq!(set.wait(None), [(1, IN)]);
    assert_eq!(set.now(), [], "nothing new came");
    send_all(&b, b"y");
    assert_eq!(set.wait(None), [(1, IN)], "an arrival is an edge though nothing was read");
    arrived(&a, 2);
    assert_eq!(recv_all(&a, 2), b"xy");
    assert_eq!(set.wait(Some(5)), []);
}

#[test]
fn edge_triggered_reports_what_is_there_when_it_is_added_or_modified() {
    let world = World::new();
    let (a, b) = pair(&world);
    let set = Both::new(a.client());
    send_all(&b, b"x");
    arrived(&a, 1);
    set.add(&a, IN | OUT | ET, 1);
    assert_eq!(set.now(), [(1, IN | OUT)]);
    assert_eq!(set.now(), []);
    set.modify(&a, IN | ET, 2);
    assert_eq!(set.now(), [(2, IN)]);
}

#[test]
fn edge_triggered_writer_is_told_of_room() {
    let world = World::new();
    let (a, b) = pair(&world);
    nonblocking(&a);
    let set = Both::new(a.client());
    set.add(&a, OUT | ET, 1);
    assert_eq!(set.now(), [(1, OUT)]);
    let bytes = pattern(0, 1 << 20);
    let mut sent = 0;
    loop {
        match send(&a, &bytes) {
            Ok(len) => sent += len,
            // Until the peer's FIFO is full as well and no more room comes.
            Err(errno) => {
                assert_eq!(errno, Errno::AGAIN);
                if set.wait(Some(50)).is_empty() {
                    break;
                }
            }
        }
    }
    let reader = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        let mut read = 0;
        while read < sent {
            read += recv(&b, 1 << 20, 0).unwrap().len();
        }
        b
    });
    assert_eq!(set.wait(None), [(1, OUT)]);
    reader.join().unwrap();
}

#[test]
fn one_shot_fires_once_until_it_is_armed_again() {
    let world = World::new();
    let (a, b) = pair(&world);
    let set = Both::new(a.client());
    set.add(&a, IN | ONESHOT, 1);
    send_all(&b, b"x");
    assert_eq!(set.wait(None), [(1, IN)]);
    assert_eq!(set.now(), []);
    send_all(&b, b"y");
    arrived(&a, 2);
    assert_eq!(set.now(), []);
    set.modify(&a, IN | ONESHOT, 2);
    assert_eq!(set.now(), [(2, IN)]);
    assert_eq!(set.now(), []);
}

#[test]
fn the_end_of_the_stream_is_reported() {
    let world = World::new();
    let (a, b) = pair(&world);
    let set = Both::new(a.client());
    set.add(&a, IN | RDHUP | ET, 1);
    assert_eq!(set.now(), []);
    drop(b);
    assert_eq!(set.wait(None), [(1, IN | RDHUP)]);
    assert_eq!(recv(&a, 1, 0).unwrap(), b"");
}

#[test]
fn members_are_added_once_and_found_by_their_number() {
    let world = World::new();
    let (a, b) = pair(&world);
    let set = Both::new(a.client());
    let event = EpollEvent { events: IN, data: 1 };
    let fd = a.session_fd.as_raw_fd();
    assert_eq!(set.set.modify(fd, event), Err(Errno::NOENT));
    assert_eq!(set.set.remove(fd), Err(Errno::NOENT));
    set.set.add(fd, &a.socket, event).unwrap();
    assert_eq!(set.set.add(fd, &a.socket, event), Err(Errno::EXIST));
    assert!(set.set.contains(fd));
    send_all(&b, b"x");
    assert_eq!(set.wait(None), [(1, IN)]);
    set.set.remove(fd).unwrap();
    assert!(!set.set.contains(fd) && set.set.is_empty());
    assert_eq!(set.now(), []);
    set.set.add(fd, &a.socket, event).unwrap();
    assert_eq!(set.now(), [(1, IN)]);
}

#[test]
fn a_closed_socket_leaves_its_sets() {
    let world = World::new();
    let (a, b) = pair(&world);
    let client = a.client().clone();
    let set = Both::new(&client);
    set.add(&a, IN, 1);
    send_all(&b, b"x");
    assert_eq!(set.wait(None), [(1, IN)]);
    drop(a);
    assert!(set.set.is_empty());
    assert_eq!(set.now(), []);
}

#[test]
fn many_members_take_turns() {
    let world = World::new();
    let (client, server) = (client(&world), server(&world));
    let listener = listener(&server, "172.16.1.1:80");
    let set = Both::new(&server);
    let mut held = Vec::new();
    for data in 0..20 {
        let ours = connect(&client, listener.local());
        let theirs = accept(&listener);
        set.add(&theirs, IN, data);
        send_all(&ours, b"x");
        arrived(&theirs, 1);
        held.push((ours, theirs));
    }
    let mut seen: Vec<u64> = (0..3).flat_map(|_| set.now()).map(|(data, _)| data).collect();
    assert_eq!(seen.len(), 24, "as many as there is room for, and the rest first the next time");
    seen.truncate(20);
    seen.sort_unstable();
    assert_eq!(seen, (0..20).collect::<Vec<_>>());
}

#[test]
fn kernel_members_and_sockets_in_one_set() {
    let world = World::new();
    let (a, b) = pair(&world);
    let (mut near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    let set = Both::new(a.client());
    set.add_kernel(&far, 7);
    near.write_all(b"x").unwrap();
    assert_eq!(set.wait(None), [(7, IN)], "the kernel's alone");
    set.add(&a, IN, 1);
    assert_eq!(set.wait(None), [(7, IN)], "the kernel's beside a silent socket");
    send_all(&b, b"y");
    arrived(&a, 1);
    let mut seen: Vec<u64> = (0..20).flat_map(|_| set.now()).map(|(data, _)| data).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [1, 7], "neither keeps the other from being seen");
}

#[test]
fn a_sleeper_is_woken_by_either_kind() {
    let world = World::new();
    let (a, b) = pair(&world);
    let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    let set = Both::new(a.client());
    set.add_kernel(&far, 7);
    set.add(&a, IN, 1);
    let waker = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        send_all(&b, b"x");
        b
    });
    assert_eq!(set.wait(None), [(1, IN)]);
    let _b = waker.join().unwrap();
    recv_all(&a, 1);
    let waker = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        (&near).write_all(b"x").unwrap();
        near
    });
    assert_eq!(set.wait(None), [(7, IN)]);
    waker.join().unwrap();
}

#[test]
fn a_thread_that_waits_learns_of_the_first_socket() {
    let world = World::new();
    let (a, b) = pair(&world);
    let set = Both::new(a.client());
    send_all(&b, b"x");
    arrived(&a, 1);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| set.wait(None));
        std::thread::sleep(Duration::from_millis(20));
        set.add(&a, IN, 1);
        assert_eq!(waiter.join().unwrap(), [(1, IN)]);
        recv_all(&a, 1);
        let waiter = scope.spawn(|| set.wait(None));
        std::thread::sleep(Duration::from_millis(20));
        set.modify(&a, OUT, 2);
        assert_eq!(waiter.join().unwrap(), [(2, OUT)]);
    });
}

#[test]
fn each_of_two_sets_hears_of_it_and_one_of_two_that_share() {
    let world = World::new();
    let (a, b) = pair(&world);
    let (first, second) = (Both::new(a.client()), Both::new(a.client()));
    first.add(&a, IN, 1);
    second.add(&a, IN, 2);
    send_all(&b, b"x");
    assert_eq!(first.wait(None), [(1, IN)]);
    assert_eq!(second.wait(None), [(2, IN)]);
    recv_all(&a, 1);
    let fd = a.session_fd.as_raw_fd();
    for (set, data) in [(&first, 1), (&second, 2)] {
        set.set.remove(fd).unwrap();
        set.add(&a, IN | EXCLUSIVE, data);
    }
    assert_eq!(first.set.modify(fd, EpollEvent { events: IN, data: 1 }), Err(Errno::INVAL));
    let (tell, woken) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for set in [&first, &second] {
            let tell = tell.clone();
            scope.spawn(move || tell.send(set.wait(Some(30_000))).unwrap());
        }
        std::thread::sleep(Duration::from_millis(50));
        send_all(&b, b"x");
        assert_eq!(woken.recv().unwrap().len(), 1, "at least one is woken");
        // The other is woken too when there is more, and nobody waits for the first any more.
        send_all(&b, b"y");
        assert_eq!(woken.recv().unwrap().len(), 1);
    });
}

#[test]
fn sets_lie_in_sets() {
    let world = World::new();
    let (a, b) = pair(&world);
    let (outer, inner) = (Both::new(a.client()), Both::new(a.client()));
    inner.add(&a, IN, 1);
    let fd = inner.epfd.as_raw_fd();
    outer.set.add_set(fd, &inner.set, EpollEvent { events: IN, data: 9 }).unwrap();
    assert_eq!(outer.now(), []);
    send_all(&b, b"x");
    assert_eq!(outer.wait(None), [(9, IN)]);
    assert_eq!(inner.now(), [(1, IN)]);
    recv_all(&a, 1);
    assert_eq!(outer.now(), []);
    let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    inner.add_kernel(&far, 7);
    let waker = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        (&near).write_all(b"x").unwrap();
        near
    });
    assert_eq!(outer.wait(None), [(9, IN)], "what only the kernel knows reaches the outer set");
    waker.join().unwrap();
    let event = EpollEvent { events: IN, data: 0 };
    let loops = inner.set.add_set(outer.epfd.as_raw_fd(), &outer.set, event);
    assert_eq!(loops, Err(Errno::LOOP));
    assert_eq!(outer.set.add_set(outer.epfd.as_raw_fd(), &outer.set, event), Err(Errno::LOOP));
}

#[test]
fn poll_waits_for_sets() {
    let world = World::new();
    let (a, b) = pair(&world);
    let set = Both::new(a.client());
    set.add(&a, IN, 1);
    let entry = || PollEntry {
        target: Target::Epoll(&set.set, set.epfd.as_raw_fd()),
        events: IN as u16,
        found: 0,
    };
    assert_eq!(poll(a.client(), &mut [entry()], Some(Duration::from_millis(1)), None), Ok(0));
    let waker = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        send_all(&b, b"x");
        b
    });
    let mut entries = [entry()];
    assert_eq!(poll(a.client(), &mut entries, None, None), Ok(1));
    assert_eq!(entries[0].found, IN as u16);
    waker.join().unwrap();
}

#[test]
fn no_room_for_events_is_an_error() {
    let world = World::new();
    let (a, _b) = pair(&world);
    let set = Both::new(a.client());
    assert_eq!(set.set.wait(set.epfd.as_raw_fd(), &mut [], None, None), Err(Errno::INVAL));
}

/// Set in the process of its own that the test below makes.
const ALONE: &str = "CLEARWAY_TEST_ALONE";

/// What each event counter of this process stands at, by the kernel's number for it.
fn event_counters() -> std::collections::BTreeMap<u64, u64> {
    let word = |info: &str, name: &str, radix| {
        let value = info.lines().find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(value.trim(), radix).ok()
    };
    let all = std::fs::read_dir("/proc/self/fdinfo").expect("/proc is mounted");
    let infos = all.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
    infos
        .filter_map(|info| {
            Some((word(&info, "eventfd-id:", 10)?, word(&info, "eventfd-count:", 16)?))
        })
        .collect()
}

/// Who was woken by the notifier finds in the rings what it was woken for, and takes it. A kick for
/// itself would cost a system call now, and at its next sleep another one that does not sleep.
#[test]
fn a_thread_that_was_woken_for_an_event_does_not_kick_itself() {
    if std::env::var_os(ALONE).is_none() {
        // The set's counters are known by when they were made: nobody may make others meanwhile.
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        alone.args(["--exact", "epoll::a_thread_that_was_woken_for_an_event_does_not_kick_itself"]);
        let done = alone.env(ALONE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let world = World::new();
    let (a, b) = pair(&world);
    let before = event_counters();
    let set = Both::new(a.client());
    let own: Vec<u64> =
        event_counters().into_keys().filter(|id| !before.contains_key(id)).collect();
    assert_eq!(own.len(), 2, "the set's two counters");
    set.add(&a, IN, 1);
    let asleep = format!("{} ", libc::SYS_epoll_pwait2);
    for _ in 0..5 {
        std::thread::scope(|scope| {
            let (tell, told) = std::sync::mpsc::channel();
            let set = &set;
            let waits = scope.spawn(move || {
                tell.send(rustix::thread::gettid().as_raw_nonzero()).unwrap();
                set.wait(None)
            });
            let task = format!("/proc/self/task/{}/syscall", told.recv().unwrap());
            crate::eventually::eventually("the thread sleeps", || {
                std::fs::read_to_string(&task).is_ok_and(|call| call.starts_with(&asleep))
            });
            send_all(&b, b"x");
            assert_eq!(waits.join().unwrap(), [(1, IN)]);
        });
        recv_all(&a, 1);
    }
    let counters = event_counters();
    let kicks: u64 = own.iter().map(|id| counters[id]).sum();
    assert_eq!(kicks, 0, "the thread that took the event was awake");
}
