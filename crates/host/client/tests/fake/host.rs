//! A host without a stack: what a program sends on a connection comes back on it.
//!
//! One thread is supervisor and worker. It speaks the attach socket and keeps the handshakes of
//! rings, FIFOs and notifiers as a host must.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clearway_shm::attach_socket::{
    self, FifoPlace, Kind, Place, Prefixes, Reply, Request, RingPlaces, SessionId, Token, Welcome,
};
use clearway_shm::layout::{MAGIC, Message, QueuePairHead, accept_counter, event, request, state};
use clearway_shm::notifier::RemoteNotifier;
use clearway_shm::ring::ring_len;
use clearway_shm::wait::{self, PollFd};
use clearway_shm::{
    Consumer, FifoMem, HostPage, Notifier, Producer, QueuePairView, RingConsumer, RingProducer,
    Segment, SessionView, sleep, socket,
};

pub(crate) const SLOTS: u32 = 64;
const SEGMENT: usize = 16 << 20;
const FIFO: u32 = 16 << 10;

/// How long a hasty host takes nothing after it has told of room.
const HASTE: Duration = Duration::from_micros(300);

/// And how long it waits to be asked: the last bytes are moved though nobody asks.
const IDLE: Duration = Duration::from_millis(20);

static HOSTS: AtomicU32 = AtomicU32::new(0);

/// How a host goes about its work.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Prompt,
    Hasty,
    Deaf,
    Late,
}

/// A host that runs until this is dropped.
pub(crate) struct FakeHost {
    pub(crate) attach_socket: PathBuf,
    /// A late host was asked to tell of the next connection.
    pub(crate) asked_again: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FakeHost {
    pub(crate) fn start() -> FakeHost {
        FakeHost::start_at(FakeHost::free_attach_socket())
    }

    fn free_attach_socket() -> PathBuf {
        let number = HOSTS.fetch_add(1, Ordering::Relaxed);
        std::env::temp_dir().join(format!("clearway-fake-{}-{number}.sock", std::process::id()))
    }

    /// One that tells of room before there is any, whenever it is asked for.
    pub(crate) fn start_hasty() -> FakeHost {
        FakeHost::run(FakeHost::free_attach_socket(), Manner::Hasty)
    }

    /// One that takes no messages out of the rings.
    pub(crate) fn start_deaf() -> FakeHost {
        FakeHost::run(FakeHost::free_attach_socket(), Manner::Deaf)
    }

    /// One that tells of a connection, without waking anybody, when it was taken already; and once it
    /// is asked to tell of the next, its listeners end.
    pub(crate) fn start_late() -> FakeHost {
        FakeHost::run(FakeHost::free_attach_socket(), Manner::Late)
    }

    pub(crate) fn start_at(attach_socket: PathBuf) -> FakeHost {
        FakeHost::run(attach_socket, Manner::Prompt)
    }

    fn run(attach_socket: PathBuf, manner: Manner) -> FakeHost {
        let listener = socket::listen(&attach_socket, 0o600, None).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let asked_again = Arc::new(AtomicBool::new(false));
        let mut host = Host::new(listener, stop.clone(), manner, asked_again.clone());
        let thread = Some(std::thread::spawn(move || host.run()));
        FakeHost { attach_socket, asked_again, stop, thread }
    }
}

impl Drop for FakeHost {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the fake host does not panic");
        }
        let _ = std::fs::remove_file(&self.attach_socket);
    }
}

struct Host {
    listener: OwnedFd,
    stop: Arc<AtomicBool>,
    boot: u64,
    page: HostPage,
    page_fd: OwnedFd,
    notifier: Notifier,
    notifier_fd: OwnedFd,
    guests: Vec<Guest>,
    manner: Manner,
    asked_again: Arc<AtomicBool>,
}

/// A process.
struct Guest {
    attach_socket: OwnedFd,
    member: Option<Member>,
}

struct Member {
    queue_pair: QueuePairView,
    requests: RingConsumer,
    events: RingProducer,
    remote_notifier: RemoteNotifier,
    memory: Arc<Segment>,
    memory_fd: OwnedFd,
    used: u32,
    sessions: HashMap<SessionId, Echo>,
    news: bool,
    manner: Manner,
    asked_again: Arc<AtomicBool>,
}

struct Echo {
    head: SessionView,
    place: Place,
    kind: Kind,
    fifos: Option<(FifoPlace, FifoPlace)>,
    ends: Option<(Producer, Consumer)>,
    remote: Option<SocketAddr>,
    session_fd: OwnedFd,
    closing: bool,
    /// A hasty host looks at it again then.
    rests_until: Option<Instant>,
    /// Since when nobody asks it for room, though there is little.
    unasked_since: Option<Instant>,
    /// A late host has told of a connection that is there no more.
    told_late: bool,
}

impl Host {
    fn new(
        listener: OwnedFd,
        stop: Arc<AtomicBool>,
        manner: Manner,
        asked_again: Arc<AtomicBool>,
    ) -> Host {
        let boot = u64::from(HOSTS.fetch_add(1, Ordering::Relaxed));
        let (page, page_fd) = HostPage::create(boot, 1).unwrap();
        let notifier = Notifier::new().unwrap();
        let notifier_fd = notifier.as_fd().try_clone_to_owned().unwrap();
        Host {
            listener,
            stop,
            boot,
            page,
            page_fd,
            notifier,
            notifier_fd,
            guests: Vec::new(),
            manner,
            asked_again,
        }
    }

    fn run(&mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            let worked = self.turn();
            if worked || self.manner == Manner::Hasty {
                continue;
            }
            sleep::doze(self.page.sleeps(0));
            if self.turn() {
                sleep::rise(self.page.sleeps(0));
                continue;
            }
            self.doze();
            sleep::rise(self.page.sleeps(0));
            self.notifier.clear();
        }
    }

    /// Sleeps for a moment at most, so that it sees when it shall stop.
    fn doze(&self) {
        let entry = |fd: &OwnedFd| PollFd { fd: fd.as_raw_fd(), events: libc::POLLIN, found: 0 };
        let mut fds = vec![entry(&self.listener), entry(&self.notifier_fd)];
        fds.extend(self.guests.iter().map(|guest| entry(&guest.attach_socket)));
        let _ = wait::poll(&mut fds, Some(Duration::from_millis(20)), None);
    }

    fn turn(&mut self) -> bool {
        let mut worked = false;
        if readable(&self.listener) {
            let attach_socket = socket::accept(self.listener.as_fd()).unwrap();
            self.guests.push(Guest { attach_socket, member: None });
            worked = true;
        }
        let mut index = 0;
        while index < self.guests.len() {
            if readable(&self.guests[index].attach_socket) {
                worked = true;
                if !self.answer(index) {
                    self.guests.swap_remove(index);
                    continue;
                }
            }
            if let Some(member) = &mut self.guests[index].member {
                worked |= member.work();
            }
            index += 1;
        }
        worked
    }

    /// Answers a question. False: the process is gone.
    fn answer(&mut self, index: usize) -> bool {
        let guest = &mut self.guests[index];
        let Ok(Some((question, _))) = socket::recv::<Request>(guest.attach_socket.as_fd(), 0)
        else {
            return false;
        };
        if let Request::Hello(hello) = question {
            if hello.namespace == "closed" {
                refuse(guest, libc::EACCES);
                return true;
            }
            let (member, welcome, queue_pair_fd, notifier_fd) =
                Member::new(self.manner, self.asked_again.clone());
            let welcome = Welcome { boot: self.boot, host_len: self.page.len() as u32, ..welcome };
            let descriptors = [
                queue_pair_fd.as_fd(),
                self.page_fd.as_fd(),
                notifier_fd.as_fd(),
                self.notifier_fd.as_fd(),
            ];
            socket::send(guest.attach_socket.as_fd(), &Reply::Welcome(welcome), &descriptors)
                .unwrap();
            guest.member = Some(member);
            return true;
        }
        let Some(member) = &mut guest.member else { return false };
        match member.reply(question) {
            Ok((reply, descriptor)) => {
                let descriptors: Vec<_> = descriptor.iter().map(AsFd::as_fd).collect();
                socket::send(guest.attach_socket.as_fd(), &reply, &descriptors).unwrap();
            }
            Err(errno) => refuse(guest, errno),
        }
        true
    }
}

fn refuse(guest: &Guest, errno: i32) {
    let reply = Reply::Error { errno, why: "no".into() };
    socket::send(guest.attach_socket.as_fd(), &reply, &[]).unwrap();
}

fn readable(fd: &OwnedFd) -> bool {
    let mut fds = [PollFd { fd: fd.as_raw_fd(), events: libc::POLLIN, found: 0 }];
    matches!(wait::poll(&mut fds, Some(Duration::ZERO), None), Ok(1))
}

impl Member {
    fn new(manner: Manner, asked_again: Arc<AtomicBool>) -> (Member, Welcome, OwnedFd, OwnedFd) {
        let requests = size_of::<QueuePairHead>() as u32;
        let events = requests + ring_len(SLOTS);
        let queue_pair_len = (events + ring_len(SLOTS)).next_multiple_of(4096);
        let (queue_pair, queue_pair_fd) =
            Segment::create("fake-queue-pair", queue_pair_len as usize).unwrap();
        let queue_pair = Arc::new(queue_pair);
        let view = queue_pair.queue_pair().unwrap();
        view.magic.store(MAGIC, Ordering::Relaxed);
        view.version.store(attach_socket::VERSION, Ordering::Relaxed);
        let (memory, memory_fd) = Segment::create("fake-memory", SEGMENT).unwrap();
        let (remote_notifier, notifier_fd) = RemoteNotifier::new().unwrap();
        let member = Member {
            queue_pair: view,
            requests: RingConsumer::new(&queue_pair, requests, SLOTS).unwrap(),
            events: RingProducer::new(&queue_pair, events, SLOTS).unwrap(),
            remote_notifier,
            memory: Arc::new(memory),
            memory_fd,
            used: 0,
            sessions: HashMap::new(),
            news: false,
            manner,
            asked_again,
        };
        let welcome = Welcome {
            boot: 0,
            app: 1,
            process: 1,
            token: Token([1; 16]),
            queue_pair_len,
            host_len: 0,
            rings: vec![RingPlaces { requests, events, slots: SLOTS }],
            rx_fifo: FIFO,
            tx_fifo: FIFO,
        };
        (member, welcome, queue_pair_fd, notifier_fd)
    }

    fn take(&mut self, len: u32) -> Place {
        let offset = self.used;
        self.used += len.next_multiple_of(4096);
        assert!(self.used as usize <= SEGMENT, "the fake host gives nothing back");
        Place { segment: 0, offset }
    }

    fn reply(&mut self, question: Request) -> Result<(Reply, Option<OwnedFd>), i32> {
        match question {
            Request::Open { kind, .. } => {
                let place = self.take(128);
                let (session_fd, theirs) = socket::pair().unwrap();
                let head = self.memory.session(place.offset).unwrap();
                let id = self.sessions.len() as u64 + 1;
                let echo = Echo {
                    head,
                    place,
                    kind,
                    fifos: None,
                    ends: None,
                    remote: None,
                    session_fd,
                    closing: false,
                    rests_until: None,
                    unasked_since: None,
                    told_late: false,
                };
                self.sessions.insert(id, echo);
                Ok((Reply::Opened(self.describe(id)), Some(theirs)))
            }
            Request::Connect { session, remote } => {
                self.lay_fifos(session, state::CONNECTED)?.remote = remote;
                Ok((Reply::Opened(self.describe(session)), None))
            }
            Request::Listen { session, .. } if self.manner == Manner::Late => {
                self.lay_fifos(session, state::LISTENING)?;
                Ok((Reply::Opened(self.describe(session)), None))
            }
            Request::Subscribe { session } if self.sessions.contains_key(&session) => {
                Ok((Reply::Opened(self.describe(session)), None))
            }
            Request::Segment { segment: 0, .. } => {
                let fd = self.memory_fd.try_clone().unwrap();
                Ok((Reply::Segment { len: SEGMENT as u32 }, Some(fd)))
            }
            Request::Prefixes => {
                let local = vec!["10.0.0.1".parse().unwrap()];
                Ok((Reply::Prefixes(Prefixes { local, ..Prefixes::default() }), None))
            }
            Request::Stayed { .. } | Request::Options { .. } => Ok((Reply::Done, None)),
            _ => Err(libc::EOPNOTSUPP),
        }
    }

    /// Gives a session its FIFOs, and this state.
    fn lay_fifos(&mut self, session: SessionId, state: u32) -> Result<&mut Echo, i32> {
        let fifos = (self.fifo(), self.fifo());
        let mem = |place| FifoMem::new(&self.memory, &self.memory, place).unwrap();
        let ends = (Producer::new(mem(&fifos.0)), Consumer::new(mem(&fifos.1)));
        let echo = self.sessions.get_mut(&session).ok_or(libc::EBADF)?;
        (echo.fifos, echo.ends) = (Some(fifos), Some(ends));
        echo.head.state.store(state, Ordering::Release);
        Ok(echo)
    }

    fn fifo(&mut self) -> FifoPlace {
        FifoPlace { head: self.take(128), data: self.take(FIFO), capacity: FIFO, limit: FIFO }
    }

    fn describe(&self, id: SessionId) -> attach_socket::Session {
        let echo = &self.sessions[&id];
        attach_socket::Session {
            id,
            kind: echo.kind,
            v6: false,
            head: echo.place,
            rx: echo.fifos.map(|fifos| fifos.0),
            tx: echo.fifos.map(|fifos| fifos.1),
            local: Some("10.0.0.1:1".parse().unwrap()),
            remote: echo.remote,
            options: attach_socket::SocketOptions::default(),
        }
    }

    fn work(&mut self) -> bool {
        let mut worked = false;
        if self.manner == Manner::Deaf {
            return false;
        }
        while let Some(message) = self.requests.pop().unwrap() {
            worked = true;
            let Some(echo) = self.sessions.get_mut(&message.session) else { continue };
            echo.closing |= message.what == request::SHUT_WRITE;
            let news = if self.manner == Manner::Hasty { 0 } else { echo.pump() };
            self.tell(message.session, news);
        }
        if self.manner == Manner::Hasty {
            let news: Vec<_> =
                self.sessions.iter_mut().map(|(id, echo)| (*id, echo.pump_later())).collect();
            news.into_iter().for_each(|(id, news)| self.tell(id, news));
        }
        if self.manner == Manner::Late {
            worked |= self.tell_late();
        }
        let closed: Vec<_> = self
            .sessions
            .iter()
            .filter(|(_, echo)| hung_up(&echo.session_fd))
            .map(|(id, _)| *id)
            .collect();
        for id in closed {
            // Its place stays taken: ids are never used again here.
            if let Some(echo) = self.sessions.get_mut(&id) {
                echo.ends = None;
            }
        }
        if std::mem::take(&mut self.news) && sleep::is_asleep(&self.queue_pair.sleepers) {
            self.remote_notifier.notify();
        }
        worked
    }

    /// What a worker does that was not run between leaving a connection and telling of it.
    fn tell_late(&mut self) -> bool {
        let accepts = |id: SessionId| {
            self.queue_pair.accepting[accept_counter(id)].load(Ordering::Relaxed) != 0
        };
        let listeners = self
            .sessions
            .iter_mut()
            .filter(|(_, echo)| echo.head.state.load(Ordering::Relaxed) == state::LISTENING);
        let mut ended = Vec::new();
        let mut late = Vec::new();
        for (id, echo) in listeners {
            let Some((rx, _)) = &echo.ends else { continue };
            match echo.told_late {
                false if accepts(*id) && rx.kick() => {
                    echo.told_late = true;
                    late.push(*id);
                }
                true if rx.kick() => ended.push(*id),
                _ => {}
            }
        }
        let worked = !late.is_empty() || !ended.is_empty();
        for id in late {
            // Nobody is woken: another thread of the process finds it.
            self.tell(id, event::READABLE);
            self.news = false;
        }
        for id in ended {
            self.asked_again.store(true, Ordering::Relaxed);
            self.sessions[&id].head.state.store(0, Ordering::Release);
            self.tell(id, event::READABLE | event::STATE);
        }
        worked
    }

    fn tell(&mut self, session: SessionId, what: u32) {
        if what == 0 {
            return;
        }
        self.news = true;
        if self.events.push(Message { session, what, aux: 0 }).is_err() {
            self.queue_pair.overflow.store(1, Ordering::Release);
        }
    }
}

fn hung_up(session_fd: &OwnedFd) -> bool {
    let mut fds = [PollFd { fd: session_fd.as_raw_fd(), events: libc::POLLRDHUP, found: 0 }];
    matches!(wait::poll(&mut fds, Some(Duration::ZERO), None), Ok(1))
}

impl Echo {
    /// Waits until it is asked for room, tells of it, and makes some later. Then it tells of it
    /// only if it was asked again.
    fn pump_later(&mut self) -> u32 {
        if let Some(until) = self.rests_until {
            if Instant::now() < until {
                return 0;
            }
            self.rests_until = None;
            return self.pump();
        }
        let Some((_, tx)) = &mut self.ends else { return 0 };
        let has_little = tx.len().unwrap() < FIFO / 2;
        if !has_little && tx.room_wanted(0) {
            self.unasked_since = None;
            self.rests_until = Some(Instant::now() + HASTE);
            return event::WRITABLE;
        }
        let since = *self.unasked_since.get_or_insert_with(Instant::now);
        if !has_little && since.elapsed() < IDLE {
            return 0;
        }
        self.unasked_since = None;
        self.pump()
    }

    /// Moves bytes from what the process wrote to what it reads; says what it must be told.
    fn pump(&mut self) -> u32 {
        let Some((rx, tx)) = &mut self.ends else { return 0 };
        tx.attend();
        let mut moved = 0;
        let mut bytes = [0; 4096];
        loop {
            let mut room = rx.room().unwrap() as usize;
            if room == 0 {
                rx.ask_room();
                room = rx.room().unwrap() as usize;
            }
            let wanted = room.min(bytes.len());
            let read = tx.read(&mut bytes[..wanted]).unwrap();
            if read == 0 {
                break;
            }
            moved += rx.write(&bytes[..read]).unwrap();
        }
        let mut news = 0;
        if self.closing && tx.len().unwrap() == 0 {
            self.head.state.fetch_or(state::PEER_CLOSED, Ordering::Release);
            news |= event::STATE;
        }
        if moved > 0 && rx.kick() {
            news |= event::READABLE;
        }
        if tx.room_wanted(FIFO / 2) {
            news |= event::WRITABLE;
        }
        news
    }
}
