//! A process as the host sees one: what a program's library does, without its comforts.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clearway_shm::attach_socket::{
    FifoPlace, Hello, Kind, MAX_AHEAD, Reply, Request, Secret, Session, SessionId, SocketOptions,
    VERSION, Welcome, worker_of,
};
use clearway_shm::layout::{
    AcceptRecord, Message, accept_counter, event, request, state, taken_by,
};
use clearway_shm::{
    Consumer, FifoMem, HostView, Notifier, Producer, QueuePairView, RingConsumer, RingProducer,
    Segment, SessionView, sleep, socket,
};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::MsgFlags;

use crate::world::World;

/// Against hangs only.
const TIME_LIMIT: Duration = Duration::from_secs(20);

pub(crate) struct Guest {
    attach_socket: OwnedFd,
    pub(crate) welcome: Welcome,
    queue_pair: QueuePairView,
    host: HostView,
    notifier: Notifier,
    workers: Vec<Notifier>,
    rings: RefCell<Vec<(RingProducer, RingConsumer)>>,
    /// By their program's number and their own.
    segments: RefCell<HashMap<(u32, u32), Arc<Segment>>>,
    /// Whose sessions it deals with just now: its own program's, or one's that it has joined.
    app: Cell<u32>,
}

/// A session, and the process's ends of its FIFOs.
pub(crate) struct Sock {
    pub(crate) session: Session,
    pub(crate) session_fd: Option<OwnedFd>,
    pub(crate) head: SessionView,
    pub(crate) rx: Option<Consumer>,
    pub(crate) tx: Option<Producer>,
}

pub(crate) fn hello(namespace: &str, secret: Option<&str>) -> Hello {
    Hello {
        version: VERSION,
        namespace: namespace.into(),
        secret: secret.map(|s| Secret(s.into())),
        program: "guest".into(),
        rx_fifo: 0,
        tx_fifo: 0,
        inherit: None,
        cut_through: false,
    }
}

/// A program in each of the two namespaces of a world.
pub(crate) fn guests(world: &World) -> (Guest, Guest) {
    let server = Guest::attach(&world.attach_socket(), hello("server", Some("1234"))).unwrap();
    (server, Guest::attach(&world.attach_socket(), hello("client", Some("5678"))).unwrap())
}

impl Guest {
    /// Knocks, and is let in or told why not.
    pub(crate) fn attach(attach_socket: &Path, hello: Hello) -> Result<Guest, (i32, String)> {
        Guest::enter(Guest::knock(attach_socket, hello))
    }

    /// Knocks, and goes on before anybody answers.
    pub(crate) fn knock(attach_socket: &Path, hello: Hello) -> OwnedFd {
        let attach_socket = socket::connect(attach_socket).unwrap();
        socket::send(attach_socket.as_fd(), &Request::Hello(hello), &[]).unwrap();
        attach_socket
    }

    /// Whether the host hung up on somebody who knocked.
    pub(crate) fn is_sent_away(knocked: OwnedFd) -> bool {
        hung_up(&knocked)
    }

    /// Waits for the answer to a knock.
    pub(crate) fn enter(attach_socket: OwnedFd) -> Result<Guest, (i32, String)> {
        let (reply, fds) =
            socket::recv::<Reply>(attach_socket.as_fd(), 16).unwrap().expect("an answer");
        let welcome = match reply {
            Reply::Welcome(welcome) => welcome,
            Reply::Error { errno, why } => return Err((errno, why)),
            other => panic!("{other:?} is no answer to hello"),
        };
        let mut fds = fds.into_iter();
        let mut next = || fds.next().expect("a descriptor");
        let memory =
            Arc::new(Segment::map(next().as_fd(), welcome.queue_pair_len as usize).unwrap());
        let page =
            Arc::new(Segment::map_read_only(next().as_fd(), welcome.host_len as usize).unwrap());
        let notifier = Notifier::from_fd(next());
        let workers: Vec<Notifier> =
            welcome.rings.iter().map(|_| Notifier::from_fd(next())).collect();
        let rings = welcome.rings.iter().map(|places| {
            let requests = RingProducer::new(&memory, places.requests, places.slots).unwrap();
            (requests, RingConsumer::new(&memory, places.events, places.slots).unwrap())
        });
        let rings = RefCell::new(rings.collect());
        let app = welcome.app;
        let (queue_pair, host) = (memory.queue_pair().unwrap(), page.host().unwrap());
        Ok(Guest {
            attach_socket,
            welcome,
            queue_pair,
            host,
            notifier,
            workers,
            rings,
            segments: RefCell::default(),
            app: Cell::new(app),
        })
    }

    pub(crate) fn ask(&self, request: Request) -> Result<(Reply, Vec<OwnedFd>), (i32, String)> {
        self.ask_for(request, 16)
    }

    fn ask_for(
        &self,
        request: Request,
        most: usize,
    ) -> Result<(Reply, Vec<OwnedFd>), (i32, String)> {
        socket::send(self.attach_socket.as_fd(), &request, &[])
            .map_err(|e| (e.raw_os_error().unwrap_or(0), e.to_string()))?;
        match socket::recv::<Reply>(self.attach_socket.as_fd(), most) {
            Ok(Some((Reply::Error { errno, why }, _))) => Err((errno, why)),
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err((0, "the host hung up".into())),
            Err(error) => Err((0, error.to_string())),
        }
    }

    /// Joins the program that this session fd's session is of, and has it from now on.
    pub(crate) fn join(&self, session_fd: &OwnedFd) -> Result<Sock, (i32, String)> {
        let cookie = socket::cookie(session_fd.as_fd()).unwrap();
        self.ask(Request::Inherit { cookie })?;
        let handoff = socket::take_handoff(session_fd.as_fd()).unwrap();
        let (Reply::Joined { app }, _) = self.ask(Request::Join { token: handoff.token })? else {
            panic!("a program that was joined has a number")
        };
        self.app.set(app);
        let (session, _) = self.opened(Request::Subscribe { session: handoff.session })?;
        Ok(self.sock(session, Some(session_fd.try_clone().unwrap())))
    }

    /// Deals with its own program's sessions again.
    pub(crate) fn own(&self) {
        self.app.set(self.welcome.app);
    }

    fn opened(&self, request: Request) -> Result<(Session, Option<OwnedFd>), (i32, String)> {
        match self.ask(request)? {
            (Reply::Opened(session), mut fds) => Ok((session, fds.pop())),
            (other, _) => panic!("{other:?} is no session"),
        }
    }

    fn segment(&self, number: u32) -> Arc<Segment> {
        let app = self.app.get();
        if let Some(known) = self.segments.borrow().get(&(app, number)) {
            return Arc::clone(known);
        }
        let (reply, fds) = self.ask(Request::Segment { app, segment: number }).unwrap();
        let Reply::Segment { len } = reply else { panic!("{reply:?} is no segment") };
        let segment = Arc::new(Segment::map(fds[0].as_fd(), len as usize).unwrap());
        self.segments.borrow_mut().insert((app, number), Arc::clone(&segment));
        segment
    }

    /// The words of a session.
    pub(crate) fn words(&self, session: &Session) -> SessionView {
        self.segment(session.head.segment).session(session.head.offset).unwrap()
    }

    fn fifo(&self, place: &FifoPlace) -> FifoMem {
        FifoMem::new(&self.segment(place.head.segment), &self.segment(place.data.segment), place)
            .unwrap()
    }

    fn sock(&self, session: Session, session_fd: Option<OwnedFd>) -> Sock {
        let head = self.segment(session.head.segment).session(session.head.offset).unwrap();
        let mut sock = Sock { session, session_fd, head, rx: None, tx: None };
        self.take_over(&mut sock, session);
        sock
    }

    fn take_over(&self, sock: &mut Sock, session: Session) {
        sock.session = session;
        sock.rx = session.rx.map(|place| Consumer::new(self.fifo(&place)));
        sock.tx = session.tx.map(|place| Producer::new(self.fifo(&place)));
    }

    pub(crate) fn open(&self, kind: Kind, v6: bool) -> Result<Sock, (i32, String)> {
        self.open_with(kind, v6, SocketOptions::default())
    }

    pub(crate) fn open_with(
        &self,
        kind: Kind,
        v6: bool,
        options: SocketOptions,
    ) -> Result<Sock, (i32, String)> {
        self.open_near(kind, v6, options, 0)
    }

    /// A socket that will be bound to this port, or sends to it on this host.
    pub(crate) fn open_near(
        &self,
        kind: Kind,
        v6: bool,
        options: SocketOptions,
        port: u16,
    ) -> Result<Sock, (i32, String)> {
        let (session, session_fd) = self.opened(Request::Open { kind, v6, options, port })?;
        assert!(session_fd.is_some());
        Ok(self.sock(session, session_fd))
    }

    pub(crate) fn bind(&self, sock: &Sock, local: &str) -> Result<SocketAddr, (i32, String)> {
        let local = local.parse().unwrap();
        match self.ask(Request::Bind { session: sock.session.id, local })? {
            (Reply::Bound(address), _) => Ok(address),
            (other, _) => panic!("{other:?} is no address"),
        }
    }

    pub(crate) fn listen(&self, sock: &mut Sock, backlog: u32) -> Result<(), (i32, String)> {
        let (session, _) = self.opened(Request::Listen { session: sock.session.id, backlog })?;
        self.take_over(sock, session);
        Ok(())
    }

    /// Begins a connection, or sets a peer.
    pub(crate) fn begin(&self, sock: &mut Sock, remote: SocketAddr) -> Result<(), (i32, String)> {
        let (session, _) =
            self.opened(Request::Connect { session: sock.session.id, remote: Some(remote) })?;
        if sock.session.kind == Kind::Stream {
            self.take_over(sock, session);
        }
        Ok(())
    }

    /// What a session's words say of it.
    pub(crate) fn described(&self, sock: &Sock) -> Session {
        let Session { id, head, v6, options, .. } = sock.session;
        sock.head.described(id, head, v6, options)
    }

    /// Begins to connect a stream that was opened ahead, by a message.
    pub(crate) fn begin_by_message(&self, sock: &mut Sock, remote: SocketAddr) {
        let described = self.described(sock);
        self.take_over(sock, described);
        sock.head.set_destination(remote);
        self.say(&sock.session, request::CONNECT, 0);
    }

    /// A listener at this address.
    pub(crate) fn listener(&self, local: &str) -> Sock {
        let mut sock = self.open(Kind::Stream, local.starts_with('[')).unwrap();
        self.bind(&sock, local).unwrap();
        self.listen(&mut sock, 16).unwrap();
        sock
    }

    /// A connection to this address.
    pub(crate) fn connect(&self, remote: &str) -> Result<Sock, i32> {
        let remote: SocketAddr = remote.parse().unwrap();
        let mut sock = self.open(Kind::Stream, remote.is_ipv6()).unwrap();
        self.connect_with(&mut sock, remote).map(|()| sock)
    }

    /// Connects a stream that there is.
    pub(crate) fn connect_with(&self, sock: &mut Sock, remote: SocketAddr) -> Result<(), i32> {
        self.begin(sock, remote).map_err(|(errno, _)| errno)?;
        self.wait_for(|| sock.state() & (state::CONNECTED | state::FAILED) != 0);
        if sock.state() & state::FAILED != 0 { Err(sock.error()) } else { Ok(()) }
    }

    pub(crate) fn accept(&self, listener: &mut Sock) -> Sock {
        loop {
            let session = self.next_record(listener);
            match self.opened(Request::Claim { session }) {
                Ok((session, session_fd)) => return self.sock(session, session_fd),
                // The record came twice, because a process died that might have had it in its
                // hands; or the connection went while it waited.
                Err((errno, _)) if [Errno::EINVAL as i32, Errno::EBADF as i32].contains(&errno) => {
                }
                Err(why) => panic!("the connection cannot be claimed: {why:?}"),
            }
        }
    }

    /// Session fds ahead of need: their names and descriptors.
    pub(crate) fn session_fds(&self, count: u32) -> Result<Vec<(u32, OwnedFd)>, (i32, String)> {
        match self.ask_for(Request::SessionFds { count }, MAX_AHEAD as usize)? {
            (Reply::SessionFds { first }, fds) => Ok((first..).zip(fds).collect()),
            (other, _) => panic!("{other:?} is no session fd"),
        }
    }

    /// Streams ahead of need.
    pub(crate) fn open_ahead(&self, count: u32) -> Result<Vec<Sock>, (i32, String)> {
        let opened = self.open_ahead_with(count, Vec::new())?;
        Ok(opened.into_iter().map(|(_, sock)| sock).collect())
    }

    /// Streams ahead of need, the first of them with these session fds, and the names of the
    /// session fds of all.
    pub(crate) fn open_ahead_with(
        &self,
        count: u32,
        known: Vec<(u32, OwnedFd)>,
    ) -> Result<Vec<(u32, Sock)>, (i32, String)> {
        let names = known.iter().map(|(name, _)| *name).collect();
        let (reply, fds) =
            self.ask_for(Request::OpenAhead { v6: false, count, fds: names }, MAX_AHEAD as usize)?;
        let Reply::OpenedAhead { sessions, first } = reply else {
            panic!("{reply:?} is no stream")
        };
        assert_eq!(sessions.len(), known.len() + fds.len());
        let (kind, options) = (Kind::Stream, SocketOptions::default());
        let session = |(id, head)| Session {
            id,
            kind,
            v6: false,
            head,
            rx: None,
            tx: None,
            local: None,
            remote: None,
            options,
        };
        let fds = known.into_iter().chain((first..).zip(fds));
        Ok(sessions
            .into_iter()
            .zip(fds)
            .map(|(named, (name, fd))| (name, self.sock(session(named), Some(fd))))
            .collect())
    }

    /// Closes a session by a message. Answers the session fd, which is free.
    pub(crate) fn close(&self, mut sock: Sock, name: u32) -> (u32, OwnedFd) {
        self.say(&sock.session, request::CLOSE, name);
        (name, sock.session_fd.take().unwrap())
    }

    /// Takes a connection out of a listener's FIFO and marks it as its own, and does not say so.
    pub(crate) fn take(&self, listener: &mut Sock) -> Option<Session> {
        let record = self.next_accept_record(listener);
        let head = self.segment(record.segment).session(record.offset).unwrap();
        let mine = taken_by(self.welcome.process);
        let taken =
            head.claim.compare_exchange(record.session, mine, Ordering::AcqRel, Ordering::Acquire);
        taken
            .ok()
            .map(|_| head.described(record.session, record.head(), false, listener.session.options))
    }

    /// Says that it has taken the connection, with this session fd.
    pub(crate) fn claim(&self, session: Session, (name, fd): (u32, OwnedFd)) -> Sock {
        let sock = self.sock(session, Some(fd));
        self.say(&session, request::CLAIM, name);
        sock
    }

    /// Takes the name of a connection that waits out of a listener's FIFO, and does not claim it.
    pub(crate) fn next_record(&self, listener: &mut Sock) -> SessionId {
        self.next_accept_record(listener).session
    }

    fn next_accept_record(&self, listener: &mut Sock) -> AcceptRecord {
        let rx = listener.rx.as_mut().unwrap();
        let mut record = None;
        self.wait_for(|| {
            rx.attend();
            record = rx.pop_accept().unwrap();
            record.is_some()
        });
        if rx.room_wanted(1) {
            self.say(&listener.session, request::CONSUMED, 0);
        }
        record.unwrap()
    }

    pub(crate) fn say(&self, session: &Session, what: u32, aux: u32) {
        let worker = worker_of(session.id);
        let message = Message { session: session.id, what, aux };
        while self.rings.borrow_mut()[worker].0.push(message).is_err() {
            self.workers[worker].notify();
            std::thread::yield_now();
        }
        if self.host.is_asleep(worker) {
            self.workers[worker].notify();
        }
    }

    /// Takes events until `is_done`, asleep in between.
    pub(crate) fn wait_for(&self, is_done: impl FnMut() -> bool) {
        assert!(self.wait_at_most(TIME_LIMIT, is_done), "what was waited for did not come");
    }

    /// As [`Guest::wait_for`]; false when it did not come in time, or the host hung up.
    pub(crate) fn wait_at_most(&self, most: Duration, mut is_done: impl FnMut() -> bool) -> bool {
        let until = Instant::now() + most;
        loop {
            self.take_events();
            if is_done() {
                return true;
            }
            sleep::about_to_sleep(&self.queue_pair.sleepers);
            let quiet = !self.take_events();
            if is_done() {
                sleep::awake(&self.queue_pair.sleepers);
                return true;
            }
            if quiet {
                let left = until.saturating_duration_since(Instant::now());
                let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
                let mut fds = [
                    PollFd::new(self.notifier.as_fd(), PollFlags::POLLIN),
                    PollFd::new(self.attach_socket.as_fd(), PollFlags::empty()),
                ];
                let _ = poll(&mut fds, timeout);
                let hung_up = fds[1].revents().is_some_and(|r| !r.is_empty());
                if hung_up || Instant::now() >= until {
                    sleep::awake(&self.queue_pair.sleepers);
                    return is_done();
                }
                self.notifier.clear();
            }
            sleep::awake(&self.queue_pair.sleepers);
        }
    }

    /// Lies down without waiting: from now on the worker rings when there are bytes for `sock`.
    pub(crate) fn lie_down(&self, sock: &Sock) {
        self.take_events();
        sock.rx.as_ref().unwrap().attend();
        sleep::about_to_sleep(&self.queue_pair.sleepers);
    }

    /// The same, as one that waits for connections of this listener.
    pub(crate) fn lie_down_to_accept(&self, listener: &Sock) {
        self.queue_pair.accepting[accept_counter(listener.session.id)]
            .fetch_add(1, Ordering::Relaxed);
        self.lie_down(listener);
    }

    /// After [`Guest::lie_down_to_accept`]: up again.
    pub(crate) fn get_up_from_accept(&self, listener: &Sock) {
        self.queue_pair.accepting[accept_counter(listener.session.id)]
            .fetch_sub(1, Ordering::Relaxed);
        self.get_up();
    }

    /// Whether its notifier is set.
    pub(crate) fn is_rung(&self) -> bool {
        let mut fds = [PollFd::new(self.notifier.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).unwrap() > 0
    }

    /// After [`Guest::lie_down`]: up again, with a notifier that is silent.
    pub(crate) fn get_up(&self) {
        sleep::awake(&self.queue_pair.sleepers);
        self.notifier.clear();
    }

    /// Whether there were events.
    fn take_events(&self) -> bool {
        let mut any = self.queue_pair.overflow.swap(0, Ordering::AcqRel) != 0;
        for (_, events) in self.rings.borrow_mut().iter_mut() {
            // A hostile test has scribbled over its own ring; then there is nothing to be had from
            // it.
            while let Ok(Some(message)) = events.pop() {
                assert_ne!(message.what & (event::READABLE | event::WRITABLE | event::STATE), 0);
                any = true;
            }
        }
        any
    }

    /// Asks several times, and takes no answer.
    pub(crate) fn ask_and_run(&self, requests: &[Request]) {
        for request in requests {
            let _ = socket::send(self.attach_socket.as_fd(), request, &[]);
        }
    }

    /// Writes random words over the words of all rings.
    pub(crate) fn scribble_rings(&self, rng: &mut clearway_base::Rng) {
        for _ in 0..50 {
            let queue_pair =
                [&self.queue_pair.sleepers, &self.queue_pair.overflow, &self.queue_pair.magic]
                    [rng.below(3) as usize];
            queue_pair.store(rng.next_u64() as u32, Ordering::Relaxed);
        }
    }

    /// Whether the host hung up.
    pub(crate) fn is_alone(&self) -> bool {
        hung_up(&self.attach_socket)
    }

    /// Writes as much as fits, and tells of it.
    pub(crate) fn write_some(&self, sock: &mut Sock, bytes: &[u8]) -> usize {
        let tx = sock.tx.as_mut().unwrap();
        let written = tx.write(bytes).unwrap();
        if written > 0 && tx.kick() {
            self.say(&sock.session, request::WROTE, 0);
        }
        written
    }

    /// Writes all. False: the connection failed on the way.
    pub(crate) fn write_all(&self, sock: &mut Sock, mut bytes: &[u8]) -> bool {
        loop {
            let n = self.write_some(sock, bytes);
            bytes = &bytes[n..];
            if bytes.is_empty() {
                return true;
            }
            let head = sock.head.clone();
            let tx = sock.tx.as_mut().unwrap();
            tx.ask_room();
            let failed = || head.state.load(Ordering::Acquire) & state::FAILED != 0;
            if failed()
                || !self.wait_at_most(TIME_LIMIT, || tx.room().unwrap() > 0 || failed())
                || failed()
            {
                return false;
            }
        }
    }

    /// Reads what there is; waits for something. 0: the end of the stream, or its failure.
    pub(crate) fn read(&self, sock: &mut Sock, out: &mut [u8]) -> usize {
        let over = state::PEER_CLOSED | state::FAILED;
        let head = sock.head.clone();
        let rx = sock.rx.as_mut().unwrap();
        let mut n = 0;
        self.wait_at_most(TIME_LIMIT, || {
            rx.attend();
            let ended = head.state.load(Ordering::Acquire) & over != 0;
            n = rx.read(out).unwrap();
            n > 0 || ended
        });
        if n > 0 && rx.room_wanted(rx.mem().limit() / 2) {
            self.say(&sock.session, request::CONSUMED, 0);
        }
        n
    }

    /// Reads until `out` is full. False: the stream ended before.
    pub(crate) fn read_all(&self, sock: &mut Sock, out: &mut [u8]) -> bool {
        let mut at = 0;
        while at < out.len() {
            match self.read(sock, &mut out[at..]) {
                0 => return false,
                n => at += n,
            }
        }
        true
    }
}

/// Says something that means nothing. True: the host hung up.
pub(crate) fn knock_with(attach_socket: &Path, bytes: &[u8]) -> bool {
    let attach_socket = socket::connect(attach_socket).unwrap();
    nix::sys::socket::send(
        std::os::fd::AsRawFd::as_raw_fd(&attach_socket),
        bytes,
        MsgFlags::empty(),
    )
    .unwrap();
    hung_up(&attach_socket)
}

fn hung_up(fd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(fd.as_fd(), PollFlags::empty())];
    poll(&mut fds, PollTimeout::from(10_000u16)).is_ok_and(|n| n > 0)
}

impl Sock {
    /// Whether the host let the session go.
    pub(crate) fn has_hung_up(&self) -> bool {
        self.session_fd.as_ref().is_none_or(hung_up)
    }

    pub(crate) fn state(&self) -> u32 {
        self.head.state.load(Ordering::Acquire)
    }

    /// SO_ERROR.
    pub(crate) fn error(&self) -> i32 {
        (self.head.error.load(Ordering::Acquire) & 0xffff) as i32
    }
}
