//! What takes a minute or must not take a moment, in a host whose time is moved by hand.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use clearway_base::Instant;
use clearway_engine::{App, PortOptions, Time};
use clearway_host::{HostByHand, HostEnv, NamespaceLimits, NamespaceSpec, Setup};
use clearway_ports::Port;
use clearway_proto::{NextHop, Table};
use clearway_shm::attach_socket::{Kind, SocketOptions};
use clearway_shm::layout::state;
use clearway_wire::Cidr;
use nix::errno::Errno;

use crate::guest::{Guest, Sock, hello};

type Job = Box<dyn FnOnce(&mut HostByHand, &mut Instant) + Send>;

/// A host with the namespaces `server` and `client`, on a thread that turns as fast as it can while
/// its time stands still.
pub(crate) struct StillHost {
    pub(crate) attach_socket: PathBuf,
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl StillHost {
    pub(crate) fn new(name: &str) -> StillHost {
        StillHost::with(name, |_| {})
    }

    pub(crate) fn with(name: &str, change: impl FnOnce(&mut Setup)) -> StillHost {
        let folder =
            std::env::temp_dir().join(format!("clearway-still-{}-{name}", std::process::id()));
        let attach_socket = folder.join("host.sock");
        let (jobs, inbox) = channel();
        let (tell, begun) = channel();
        let mut setup = Setup::new(attach_socket.clone(), [7; 32]);
        change(&mut setup);
        let thread = std::thread::spawn(move || {
            let mut host = HostByHand::new(setup).unwrap();
            furnish(&mut host);
            tell.send(()).unwrap();
            keep(&mut host, &inbox);
            drop(host);
            let _ = std::fs::remove_dir_all(folder);
        });
        begun.recv().expect("the host is made");
        StillHost { attach_socket, jobs: Some(jobs), thread: Some(thread) }
    }

    /// Has the host do something between two turns, and waits for the answer.
    pub(crate) fn ask<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut HostByHand, &mut Instant) -> R + Send + 'static,
    ) -> R {
        let (tell, answer) = channel();
        let job: Job = Box::new(move |host, now| drop(tell.send(f(host, now))));
        self.jobs.as_ref().unwrap().send(job).unwrap();
        answer.recv().expect("the host goes on")
    }

    /// So much time is over, and what was due meanwhile was done.
    pub(crate) fn pass(&self, seconds: u64) {
        self.ask(move |host, now| {
            *now += clearway_base::Duration::from_secs(seconds);
            while host.turn(at(*now)).unwrap().worked {}
        });
    }

    /// So much time is over, and the host has turned since.
    pub(crate) fn tick(&self, time: clearway_base::Duration) {
        self.ask(move |_, now| *now += time);
        // Before the next answer there is a turn at the new time, and before the one behind it
        // another.
        self.ask(|_, _| ());
        self.ask(|_, _| ());
    }

    fn sessions(&self) -> u32 {
        self.ask(|host, _| host.workers()[0].sessions().count())
    }

    /// Two programs, the server first; its listener, and both ends of a connection between them that
    /// goes past the stack, its own first.
    pub(crate) fn joined_past_the_stack(&self) -> ([Guest; 2], [Sock; 3]) {
        let guest = |namespace| {
            let mut hello = hello(namespace, None);
            hello.cut_through = true;
            Guest::attach(&self.attach_socket, hello).unwrap()
        };
        let (server, client) = (guest("server"), guest("client"));
        let mut listener = server.listener("172.16.1.1:80");
        let ours = client.connect("172.16.1.1:80").unwrap();
        let theirs = server.accept(&mut listener);
        ([server, client], [listener, theirs, ours])
    }
}

impl Drop for StillHost {
    fn drop(&mut self) {
        drop(self.jobs.take());
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            ended.unwrap().expect("the host ends well");
        }
    }
}

fn at(now: Instant) -> Time {
    Time { now, ..Time::default() }
}

fn keep(host: &mut HostByHand, inbox: &Receiver<Job>) {
    let mut now = Instant::ZERO + clearway_base::Duration::from_secs(1);
    loop {
        let worked = host.turn(at(now)).unwrap().worked;
        match inbox.recv_timeout(if worked { Duration::ZERO } else { Duration::from_micros(200) }) {
            Ok(job) => job(host, &mut now),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn furnish(host: &mut HostByHand) {
    let worker = &mut host.workers()[0];
    for (table, address, other) in
        [(1, "172.16.1.1/24", "172.16.2.1/32"), (2, "172.16.2.1/24", "172.16.1.1/32")]
    {
        let port = Port::loopback(worker.pool(), 65_535);
        let options = PortOptions { name: format!("loop{table}"), table: Table(table), mtu: None };
        let iface = worker.engine().add_port(port, options).unwrap();
        let cidr = |text: &str| text.parse::<Cidr>().unwrap();
        worker.stack().add_address(Instant::ZERO, iface, cidr(address)).unwrap();
        worker
            .stack()
            .add_route(Table(table), cidr(other), NextHop::Lookup(Table(3 - table)))
            .unwrap();
    }
    for (id, table) in [("server", 1), ("client", 2)] {
        let limits = NamespaceLimits::default();
        let spec = NamespaceSpec {
            id: id.into(),
            secret: None,
            table: Table(table),
            interface: None,
            limits,
        };
        host.add_namespace(spec).unwrap();
    }
}

#[test]
fn bytes_that_nobody_reads_are_waited_for_a_minute_and_then_the_connection_is_reset() {
    let host = StillHost::new("minute");
    let ([server, client], [_listener, mut theirs, mut ours]) = host.joined_past_the_stack();
    // As much as both FIFOs hold: the reader's is full, and the rest waits in the writer's.
    let bytes = vec![7; 2 << 20];
    let mut sent = 0;
    crate::eventually::eventually("both FIFOs are full", || {
        sent += client.write_some(&mut ours, &bytes[sent..]);
        sent == bytes.len()
    });
    drop(ours);
    crate::eventually::eventually("the session is closed", || {
        host.ask(|host, _| host.counts().session_fds) == 2
    });
    host.pass(59);
    assert_eq!((host.sessions(), theirs.state() & state::FAILED), (3, 0), "it waits");
    // Who reads makes it wait anew: with more than half of its FIFO free there is room for some of
    // the rest.
    assert!(server.read_all(&mut theirs, &mut vec![0; 600_000]));
    host.pass(0);
    host.pass(59);
    assert_eq!(
        (host.sessions(), theirs.state() & state::FAILED),
        (3, 0),
        "it waits from the last progress on"
    );
    host.pass(2);
    assert_eq!(host.sessions(), 2);
    server.wait_for(|| theirs.state() & state::FAILED != 0);
    assert_eq!(theirs.error(), Errno::ECONNRESET as i32);
}

/// Bytes that arrive at once: a portion, less than half a FIFO, and less than a segment.
const BURST: usize = 60_000;

#[test]
fn the_notifier_of_one_that_reads_in_bulk_is_held_until_its_time_is_over() {
    let host = StillHost::new("held");
    let guest = |namespace| Guest::attach(&host.attach_socket, hello(namespace, None)).unwrap();
    let (server, client) = (guest("server"), guest("client"));
    let mut listener = server.listener("172.16.1.1:80");
    let options = SocketOptions { nodelay: true, ..SocketOptions::default() };
    let mut ours = client.open_with(Kind::Stream, false, options).unwrap();
    client.begin(&mut ours, "172.16.1.1:80".parse().unwrap()).unwrap();
    let mut theirs = server.accept(&mut listener);
    client.wait_for(|| ours.state() & state::CONNECTED != 0);
    let mut burst = |theirs: &mut Sock| {
        server.lie_down(theirs);
        assert_eq!(client.write_some(&mut ours, &[7; BURST]), BURST);
        crate::eventually::eventually("all is there", || {
            theirs.rx.as_mut().unwrap().len().unwrap() == BURST as u32
        });
        host.tick(clearway_base::Duration::ZERO);
    };
    let read = |theirs: &mut Sock| {
        server.get_up();
        theirs.rx.as_mut().unwrap().consume(BURST as u32);
    };
    // Nobody is held who was not woken eight times; the time between is over, so that nothing waits
    // for an acknowledgement.
    for _ in 0..8 {
        host.tick(clearway_base::Duration::from_secs(1));
        burst(&mut theirs);
        assert!(server.is_rung());
        read(&mut theirs);
    }
    burst(&mut theirs);
    assert!(!server.is_rung(), "it was woken just now");
    host.tick(clearway_base::Duration::from_micros(49));
    assert!(!server.is_rung());
    host.tick(clearway_base::Duration::from_micros(1));
    assert!(server.is_rung(), "its time is over");
    read(&mut theirs);
    // Who has written may wait for an answer.
    assert_eq!(server.write_some(&mut theirs, b"answer me"), 9);
    host.tick(clearway_base::Duration::ZERO);
    burst(&mut theirs);
    assert!(server.is_rung());
    read(&mut theirs);
}

/// The writer waits for the reader then, and nobody shall have to wait for a time to be over.
#[test]
fn a_notifier_held_past_the_stack_waits_no_longer_when_half_the_fifo_is_full() {
    let host = StillHost::new("held-past");
    let ([server, client], [_listener, mut theirs, mut ours]) = host.joined_past_the_stack();
    let mut write = |theirs: &mut Sock, bytes: usize, there: usize| {
        assert_eq!(client.write_some(&mut ours, &vec![7; bytes]), bytes);
        crate::eventually::eventually("all is there", || {
            theirs.rx.as_mut().unwrap().len().unwrap() == there as u32
        });
        host.tick(clearway_base::Duration::ZERO);
    };
    for _ in 0..8 {
        host.tick(clearway_base::Duration::from_secs(1));
        server.lie_down(&theirs);
        write(&mut theirs, BURST, BURST);
        assert!(server.is_rung());
        server.get_up();
        theirs.rx.as_mut().unwrap().consume(BURST as u32);
    }
    server.lie_down(&theirs);
    write(&mut theirs, BURST, BURST);
    assert!(!server.is_rung(), "it was woken just now");
    write(&mut theirs, 600_000, BURST + 600_000);
    assert!(server.is_rung(), "more than half of its FIFO is full, and time stands still");
    server.get_up();
}

#[test]
fn what_a_flood_of_messages_takes_of_a_turn_is_bounded_and_everybody_is_heard() {
    const GUESTS: usize = 20;
    const EACH: usize = 1_000;
    /// Messages that all processes together are heard of in a turn.
    const MOST: u64 = 4_096;
    let host = StillHost::new("flood");
    let enter = |_| {
        let guest = Guest::attach(&host.attach_socket, hello("server", Some("1234"))).unwrap();
        let sock = guest.open(Kind::Stream, false).unwrap();
        (guest, sock)
    };
    let guests: Vec<_> = (0..GUESTS).map(enter).collect();
    let ((stopped, is_stopped), (go, wait), (tell, answer)) = (channel(), channel(), channel());
    let job: Job = Box::new(move |host, now| {
        stopped.send(()).unwrap();
        wait.recv().unwrap();
        let heard =
            |host: &mut HostByHand| App::<HostEnv>::report(host.workers()[0].sessions()).messages;
        let mut taken = Vec::new();
        let mut before = heard(host);
        while taken.iter().sum::<u64>() < (GUESTS * EACH) as u64 && taken.len() < 100 {
            host.turn(at(*now)).unwrap();
            let all = heard(host);
            taken.push(all - before);
            before = all;
        }
        tell.send(taken).unwrap();
    });
    host.jobs.as_ref().unwrap().send(job).unwrap();
    is_stopped.recv().unwrap();
    for (guest, sock) in &guests {
        (0..EACH)
            .for_each(|_| guest.say(&sock.session, clearway_shm::layout::request::CONSUMED, 0));
    }
    go.send(()).unwrap();
    let taken: Vec<u64> = answer.recv().unwrap();
    assert_eq!(taken.iter().sum::<u64>(), (GUESTS * EACH) as u64, "{taken:?}");
    assert!(taken.iter().all(|count| *count <= MOST), "{taken:?}");
}

#[test]
fn when_a_program_with_very_many_sessions_ends_the_others_have_turns_meanwhile() {
    const SESSIONS: u32 = 1_500;
    /// Things that are asked of a worker and done between two turns.
    const MOST: u32 = 512;
    clearway_host::Descriptors::raise();
    let host = StillHost::new("crowd");
    let guest = Guest::attach(&host.attach_socket, hello("server", Some("1234"))).unwrap();
    let all: Vec<Sock> = (0..SESSIONS).map(|_| guest.open(Kind::Stream, false).unwrap()).collect();
    let ((stopped, is_stopped), (go, wait), (tell, answer)) = (channel(), channel(), channel());
    let job: Job = Box::new(move |host, now| {
        stopped.send(()).unwrap();
        wait.recv().unwrap();
        let mut left = vec![host.workers()[0].sessions().count()];
        while left.last().is_some_and(|count| *count > 0) && left.len() < 100 {
            host.turn(at(*now)).unwrap();
            left.push(host.workers()[0].sessions().count());
        }
        tell.send(left).unwrap();
    });
    host.jobs.as_ref().unwrap().send(job).unwrap();
    is_stopped.recv().unwrap();
    drop((all, guest));
    go.send(()).unwrap();
    let left: Vec<u32> = answer.recv().unwrap();
    assert_eq!((left.first(), left.last()), (Some(&SESSIONS), Some(&0)), "{left:?}");
    assert!(left.windows(2).all(|pair| pair[0] - pair[1] <= MOST), "{left:?}");
}
