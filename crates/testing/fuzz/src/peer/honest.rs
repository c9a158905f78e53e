//! Two programs that keep to the rules, and a connection between them.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clearway_shm::attach_socket::{
    FifoPlace, Hello, Kind, Reply, Request, Secret, Session, SocketOptions, VERSION, Welcome,
};
use clearway_shm::layout::{Message, request, state};
use clearway_shm::{
    Consumer, FifoMem, Producer, RingProducer, Segment, SessionView, attach_socket::worker_of,
    socket,
};

use super::host::Home;

/// Rounds in which an answer comes, or never.
const ROUNDS: usize = 4;

/// Where the honest server listens.
pub(super) const SERVER: &str = "172.16.1.1:7";

pub(super) fn hello(namespace: &str, secret: &str, cut_through: bool) -> Hello {
    Hello {
        version: VERSION,
        namespace: namespace.into(),
        secret: Some(Secret(secret.into())),
        program: namespace.into(),
        rx_fifo: 0,
        tx_fifo: 0,
        inherit: None,
        cut_through,
    }
}

/// Knocks.
pub(super) fn knock(home: &Home) -> Option<OwnedFd> {
    let attach_socket = socket::connect(&home.attach_socket()).ok()?;
    rustix::io::ioctl_fionbio(&attach_socket, true).ok()?;
    Some(attach_socket)
}

/// Asks, and waits for the answer. None: the host hung up, or has nothing to say.
pub(super) fn ask(
    home: &mut Home,
    attach_socket: &OwnedFd,
    request: &Request,
) -> Option<(Reply, Vec<OwnedFd>)> {
    socket::send(attach_socket.as_fd(), request, &[]).ok()?;
    (0..ROUNDS).find_map(|_| {
        home.turn();
        socket::recv(attach_socket.as_fd(), 16).ok().flatten()
    })
}

struct Guest {
    attach_socket: OwnedFd,
    welcome: Welcome,
    rings: Vec<RingProducer>,
    segments: HashMap<u32, Arc<Segment>>,
}

struct Sock {
    session: Session,
    _session_fd: OwnedFd,
    head: SessionView,
    rx: Option<Consumer>,
    tx: Option<Producer>,
}

impl Guest {
    fn new(home: &mut Home, hello: Hello) -> Guest {
        let attach_socket = knock(home).expect("an open attach socket");
        let Some((Reply::Welcome(welcome), fds)) =
            ask(home, &attach_socket, &Request::Hello(hello))
        else {
            panic!("an honest program is not let in");
        };
        let queue_pair = Arc::new(
            Segment::map(fds[0].as_fd(), welcome.queue_pair_len as usize).expect("a queue pair"),
        );
        let ring = |place: &clearway_shm::attach_socket::RingPlaces| {
            RingProducer::new(&queue_pair, place.requests, place.slots)
                .expect("a ring in the queue pair")
        };
        Guest {
            attach_socket,
            rings: welcome.rings.iter().map(ring).collect(),
            welcome,
            segments: HashMap::new(),
        }
    }

    fn ask(&mut self, home: &mut Home, request: Request) -> (Reply, Vec<OwnedFd>) {
        match ask(home, &self.attach_socket, &request) {
            Some((Reply::Error { errno, why }, _)) => {
                panic!("{request:?} of an honest program: {why} ({errno})")
            }
            Some(answer) => answer,
            None => panic!("{request:?} of an honest program is not answered"),
        }
    }

    fn segment(&mut self, home: &mut Home, number: u32) -> Arc<Segment> {
        if let Some(known) = self.segments.get(&number) {
            return Arc::clone(known);
        }
        let (Reply::Segment { len }, fds) =
            self.ask(home, Request::Segment { app: self.welcome.app, segment: number })
        else {
            panic!("no segment");
        };
        let segment =
            Arc::new(Segment::map(fds[0].as_fd(), len as usize).expect("memory of the host's"));
        self.segments.insert(number, Arc::clone(&segment));
        segment
    }

    fn fifo(&mut self, home: &mut Home, place: &FifoPlace) -> FifoMem {
        let (head, data) =
            (self.segment(home, place.head.segment), self.segment(home, place.data.segment));
        FifoMem::new(&head, &data, place).expect("a FIFO of the host's")
    }

    /// Asks for something that a session comes of.
    fn sock(&mut self, home: &mut Home, request: Request, session_fd: Option<OwnedFd>) -> Sock {
        let (Reply::Opened(session), mut fds) = self.ask(home, request) else {
            panic!("no session")
        };
        let head = self
            .segment(home, session.head.segment)
            .session(session.head.offset)
            .expect("words of a session");
        let rx = session.rx.map(|place| Consumer::new(self.fifo(home, &place)));
        let tx = session.tx.map(|place| Producer::new(self.fifo(home, &place)));
        Sock { session, _session_fd: session_fd.or(fds.pop()).expect("a session fd"), head, rx, tx }
    }

    fn open(&mut self, home: &mut Home) -> Sock {
        let request = Request::Open {
            kind: Kind::Stream,
            v6: false,
            options: SocketOptions::default(),
            port: 0,
        };
        self.sock(home, request, None)
    }

    fn say(&mut self, sock: &Session, what: u32) {
        let message = Message { session: sock.id, what, aux: 0 };
        self.rings[worker_of(sock.id)].push(message).expect("the host takes messages in each turn");
    }

    fn connect(&mut self, home: &mut Home) -> Sock {
        let Sock { session, _session_fd, .. } = self.open(home);
        let remote = Some(SERVER.parse().expect("an address written in this file"));
        let sock =
            self.sock(home, Request::Connect { session: session.id, remote }, Some(_session_fd));
        home.turn();
        assert_ne!(
            sock.head.state.load(Ordering::Acquire) & state::CONNECTED,
            0,
            "an honest connection is not made"
        );
        sock
    }

    fn accept(&mut self, home: &mut Home, listener: &mut Sock) -> Sock {
        home.turn();
        let rx = listener.rx.as_mut().expect("a listener has one");
        let record = rx.pop_accept().expect("an honest FIFO").expect("a connection waits");
        if rx.room_wanted(1) {
            self.say(&listener.session, request::CONSUMED);
        }
        self.sock(home, Request::Claim { session: record.session }, None)
    }
}

/// Sends `len` bytes, and finds them at the other end.
fn send(
    home: &mut Home,
    (from, tx): (&mut Guest, &mut Sock),
    (to, rx): (&mut Guest, &mut Sock),
    len: usize,
) {
    let (session, reader) = (tx.session, rx.session);
    let (tx, rx) = (tx.tx.as_mut().expect("a connection"), rx.rx.as_mut().expect("a connection"));
    let bytes: Vec<u8> = (0..len).map(|at| (at ^ at >> 8 ^ len) as u8).collect();
    let (mut seen, mut sent) = (Vec::new(), 0);
    // What waits for an acknowledgement that is late takes time, and the same amount for everybody.
    for _ in 0..1_000 {
        sent += tx.write(&bytes[sent..]).expect("an honest FIFO");
        if tx.kick() {
            from.say(&session, request::WROTE);
        }
        home.pass(clearway_base::Duration::from_millis(10));
        let mut part = vec![0; rx.len().expect("an honest FIFO") as usize];
        rx.attend();
        let read = rx.read(&mut part).expect("an honest FIFO");
        part.truncate(read);
        seen.extend(part);
        if rx.room_wanted(rx.mem().limit() / 2) {
            to.say(&reader, request::CONSUMED);
        }
        if seen.len() >= len {
            break;
        }
    }
    assert!(seen == bytes, "{} of {len} bytes between honest programs came", seen.len());
}

/// A client, a server, and their connection.
pub(super) struct Pair {
    client: Guest,
    server: Guest,
    listener: Sock,
    ours: Sock,
    theirs: Sock,
}

impl Pair {
    pub(super) fn new(home: &mut Home, cut_through: bool) -> Pair {
        let mut client = Guest::new(home, hello("client", "2", cut_through));
        let mut server = Guest::new(home, hello("server", "1", cut_through));
        let Sock { session, _session_fd, .. } = server.open(home);
        let local = SERVER.parse().expect("an address written in this file");
        server.ask(home, Request::Bind { session: session.id, local });
        let mut listener = server.sock(
            home,
            Request::Listen { session: session.id, backlog: 4 },
            Some(_session_fd),
        );
        let ours = client.connect(home);
        let theirs = server.accept(home, &mut listener);
        Pair { client, server, listener, ours, theirs }
    }

    /// So many bytes there, and back.
    pub(super) fn exchange(&mut self, home: &mut Home, len: usize) {
        let Pair { client, server, ours, theirs, .. } = self;
        send(home, (client, ours), (server, theirs), len);
        send(home, (server, theirs), (client, ours), len);
    }

    /// Another connection, and bytes over it.
    pub(super) fn again(&mut self, home: &mut Home) {
        let Pair { client, server, listener, .. } = self;
        // Those of others, who are gone.
        while let Some(record) =
            listener.rx.as_mut().and_then(|rx| rx.pop_accept().expect("an honest FIFO"))
        {
            ask(home, &server.attach_socket, &Request::Claim { session: record.session });
        }
        if listener.rx.as_ref().is_some_and(|rx| rx.room_wanted(1)) {
            server.say(&listener.session, request::CONSUMED);
        }
        home.turn();
        let mut ours = client.connect(home);
        let mut theirs = server.accept(home, listener);
        assert_eq!(theirs.session.remote, ours.session.local);
        send(home, (client, &mut ours), (server, &mut theirs), 100);
        assert_ne!(client.welcome.app, server.welcome.app);
    }
}
