//! A program that keeps to no rule. It writes into the memory by the descriptors, as whoever has
//! them may.

use std::mem::offset_of;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use clearway_shm::attach_socket::{
    Congestion, FifoPlace, Kind, Reply, Request, Session, SocketOptions, Token, Welcome, worker_of,
};
use clearway_shm::layout::{SessionHead, request};
use clearway_shm::socket;

use super::Input;
use super::honest::{SERVER, ask, hello, knock};
use super::host::Home;

/// Segments that it asks for at most.
const SEGMENTS: u32 = 8;

/// Words of a FIFO's head, a session's, a queue pair's and a ring's that mean something, by their
/// offsets.
const FIFO_WORDS: [u32; 8] = [0, 4, 8, 12, 64, 68, 72, 76];
const SESSION_WORDS: [u32; 17] = [
    0,
    4,
    8,
    12,
    64,
    68,
    72,
    76,
    80,
    84,
    88,
    92,
    96,
    100,
    128,
    DESTINATION_AT,
    DESTINATION_AT + 16,
];
const DESCRIBED_AT: u32 = offset_of!(SessionHead, described) as u32;
const DESTINATION_AT: u32 = offset_of!(SessionHead, destination) as u32;
const QUEUE_PAIR_WORDS: [u32; 6] = [0, 4, 8, 64, 128, 192];
const RING_WORDS: [u32; 2] = [0, 64];

/// Bytes of a ring's head, and of a message.
const RING_HEAD: u32 = 128;
const MESSAGE: u32 = 16;

const TAIL: u32 = 0;
const HEAD: u32 = 64;

pub(super) struct Hostile {
    attach_sockets: Vec<OwnedFd>,
    queue_pair: Option<(OwnedFd, Welcome)>,
    segments: Vec<Option<OwnedFd>>,
    socks: Vec<(Session, Option<OwnedFd>)>,
    /// What it has ahead of need.
    ahead: Vec<OwnedFd>,
    /// What the program that it was before hands to the one that it is.
    handed: Option<(Token, (Session, Option<OwnedFd>))>,
    cut_through: bool,
}

impl Hostile {
    pub(super) fn new(home: &mut Home, cut_through: bool) -> Hostile {
        let segments = (0..SEGMENTS).map(|_| None).collect();
        let mut hostile = Hostile {
            attach_sockets: Vec::new(),
            queue_pair: None,
            segments,
            socks: Vec::new(),
            ahead: Vec::new(),
            handed: None,
            cut_through,
        };
        hostile.enter(home, None);
        hostile
    }

    /// Enters anew, or as one more process.
    fn enter(&mut self, home: &mut Home, token: Option<Token>) {
        if self.attach_sockets.len() > 12 {
            self.attach_sockets.clear();
        }
        let Some(attach_socket) = knock(home) else { return };
        let mut hello = hello("hostile", "3", self.cut_through);
        hello.inherit = token;
        if let Some((Reply::Welcome(welcome), fds)) =
            ask(home, &attach_socket, &Request::Hello(hello))
        {
            if token.is_none() {
                self.segments.fill_with(|| None);
                let before = self.queue_pair.as_ref().map(|(_, welcome)| welcome.token);
                self.handed = before.zip(self.socks.pop());
                self.socks.clear();
            }
            self.queue_pair = fds.into_iter().next().map(|queue_pair| (queue_pair, welcome));
        }
        self.attach_sockets.push(attach_socket);
    }

    fn ask(&mut self, home: &mut Home, request: &Request) -> Option<(Reply, Vec<OwnedFd>)> {
        ask(home, self.attach_sockets.last()?, request)
    }

    /// Asks for something that a session comes of, or that changes the one of this index.
    fn ask_session(&mut self, home: &mut Home, request: &Request, index: Option<usize>) {
        let Some((Reply::Opened(session), mut fds)) = self.ask(home, request) else { return };
        match index.filter(|index| *index < self.socks.len()) {
            Some(index) => self.socks[index].0 = session,
            None if self.socks.len() < 16 => self.socks.push((session, fds.pop())),
            None => {}
        }
        let places = [Some(session.head), session.rx.map(|f| f.head), session.tx.map(|f| f.data)];
        for place in places.into_iter().flatten() {
            let number = place.segment;
            if matches!(self.segments.get(number as usize), Some(None)) {
                let app = self.app();
                let answer = self.ask(home, &Request::Segment { app, segment: number });
                self.segments[number as usize] = answer.and_then(|(_, mut fds)| fds.pop());
            }
        }
    }

    pub(super) fn step(&mut self, home: &mut Home, step: u8, input: &mut Input<'_>) {
        let pick = usize::from(input.byte());
        let index = pick % self.socks.len().max(1);
        let id = self.socks.get(index).map_or(0, |sock| sock.0.id);
        match step {
            0 => {
                let kind = if pick & 1 == 0 { Kind::Stream } else { Kind::Datagram };
                let options = options(input);
                self.ask_session(
                    home,
                    &Request::Open { kind, v6: pick & 2 != 0, options, port: pick as u16 },
                    None,
                );
            }
            1 => drop(self.ask(home, &Request::Bind { session: id, local: address(input) })),
            2 => {
                let backlog = u32::from(input.byte());
                self.ask_session(home, &Request::Listen { session: id, backlog }, Some(index));
            }
            3 => {
                let remote = (pick & 64 == 0).then(|| address(input));
                self.ask_session(home, &Request::Connect { session: id, remote }, Some(index));
            }
            4 => self.claim(home, index, input),
            5 if index < self.socks.len() => drop(self.socks.swap_remove(index)),
            6 => self.poke(index, input),
            7 => self.scribble(index, input),
            8 => self.write(index, input),
            9 => self.read(index),
            10 => {
                let session = if pick & 128 == 0 { id } else { input.long() };
                let what = u32::from(input.byte() % 10);
                if what == request::CONNECT {
                    self.write_destination(index, input);
                }
                self.say(session, what, input.word());
            }
            11 => {
                let bytes = input.bytes(pick * 34);
                if let Some(attach_socket) = self.attach_sockets.last() {
                    let _ =
                        rustix::net::send(attach_socket, bytes, rustix::net::SendFlags::NOSIGNAL);
                }
            }
            12 => self.ask_anything(home, id, input),
            13 => match pick % 3 {
                0 => self.enter(home, None),
                1 => {
                    self.enter(home, self.queue_pair.as_ref().map(|queue_pair| queue_pair.1.token))
                }
                _ => drop(self.attach_sockets.pop()),
            },
            _ => {}
        }
    }

    /// Takes a connection that waits, or any session by its name.
    fn claim(&mut self, home: &mut Home, index: usize, input: &mut Input<'_>) {
        let record = self.socks.get(index).and_then(|sock| sock.0.rx).map(|rx| {
            let head = self.word(rx.head.segment, rx.head.offset + HEAD);
            let at = rx.data.offset + (head & (rx.capacity - 1));
            self.set(rx.head.segment, rx.head.offset + HEAD, head.wrapping_add(MESSAGE));
            u64::from(self.word(rx.data.segment, at))
                | u64::from(self.word(rx.data.segment, at + 4)) << 32
        });
        let session = record.unwrap_or_else(|| input.long());
        self.ask_session(home, &Request::Claim { session }, None);
    }

    /// Writes one of the words that mean something.
    fn poke(&mut self, index: usize, input: &mut Input<'_>) {
        let (which, way) = (input.byte(), input.byte());
        let Some((session, _)) = self.socks.get(index) else { return };
        let at = |words: &[u32]| words[usize::from(which >> 2) % words.len()];
        let fifo = |place: Option<FifoPlace>| {
            place.map(|p| (p.head.segment, p.head.offset + at(&FIFO_WORDS)))
        };
        let place = match which % 4 {
            0 => fifo(session.rx),
            1 => fifo(session.tx),
            2 => Some((session.head.segment, session.head.offset + at(&SESSION_WORDS))),
            _ => return self.poke_queue_pair(which >> 2, way, input),
        };
        let Some((segment, offset)) = place else { return };
        let value = value(self.word(segment, offset), way, input);
        self.set(segment, offset, value);
    }

    fn poke_queue_pair(&mut self, which: u8, way: u8, input: &mut Input<'_>) {
        let Some((queue_pair, welcome)) = &self.queue_pair else { return };
        let ring = welcome.rings[usize::from(which >> 3) % welcome.rings.len()];
        let words: Vec<u32> = QUEUE_PAIR_WORDS
            .into_iter()
            .chain(
                [ring.requests, ring.events]
                    .into_iter()
                    .flat_map(|at| RING_WORDS.map(|word| at + word)),
            )
            .collect();
        let at = words[usize::from(which) % words.len()];
        let value = value(get(queue_pair, at), way, input);
        put(queue_pair, at, &value.to_le_bytes());
    }

    /// Writes bytes where a FIFO goes on, such as the head of a datagram.
    fn scribble(&mut self, index: usize, input: &mut Input<'_>) {
        let Some(tx) = self.socks.get(index).and_then(|sock| sock.0.tx) else { return };
        let tail = self.word(tx.head.segment, tx.head.offset + TAIL);
        let at = tx.data.offset + (tail & (tx.capacity - 1));
        if let Some(Some(memory)) = self.segments.get(tx.data.segment as usize) {
            put(memory, at, input.bytes(64));
        }
    }

    /// Moves the transmit FIFO's tail over what lies there, and says so.
    fn write(&mut self, index: usize, input: &mut Input<'_>) {
        let Some((session, _)) = self.socks.get(index) else { return };
        let (id, Some(tx)) = (session.id, session.tx) else { return };
        let len = u32::from(input.byte()) << (input.byte() % 10);
        let at = tx.head.offset + TAIL;
        self.set(tx.head.segment, at, self.word(tx.head.segment, at).wrapping_add(len));
        self.say(id, request::WROTE, 0);
    }

    /// Takes what the receive FIFO holds, and says so.
    fn read(&mut self, index: usize) {
        let Some((session, _)) = self.socks.get(index) else { return };
        let (id, Some(rx)) = (session.id, session.rx) else { return };
        let tail = self.word(rx.head.segment, rx.head.offset + TAIL);
        self.set(rx.head.segment, rx.head.offset + HEAD, tail);
        self.say(id, request::CONSUMED, 0);
    }

    /// Puts a message into the ring of the worker that this name belongs to.
    fn say(&mut self, session: u64, what: u32, aux: u32) {
        let Some((queue_pair, welcome)) = &self.queue_pair else { return };
        let Some(ring) = welcome.rings.get(worker_of(session)) else { return };
        let tail = get(queue_pair, ring.requests);
        let at = ring.requests + RING_HEAD + (tail & (ring.slots - 1)) * MESSAGE;
        put(queue_pair, at, &session.to_le_bytes());
        put(queue_pair, at + 8, &what.to_le_bytes());
        put(queue_pair, at + 12, &aux.to_le_bytes());
        put(queue_pair, ring.requests, &tail.wrapping_add(1).to_le_bytes());
    }

    fn ask_anything(&mut self, home: &mut Home, id: u64, input: &mut Input<'_>) {
        let which = input.byte();
        let session = if which & 128 == 0 { id } else { input.long() };
        let text = |input: &mut Input<'_>| {
            let len = usize::from(input.byte());
            String::from_utf8_lossy(input.bytes(len)).into_owned()
        };
        let request = match which % 13 {
            0 => Request::Subscribe { session },
            1 => Request::Info { session },
            2 => Request::Options { session, options: options(input) },
            3 => Request::Urgent { session, ahead: value(input.word(), input.byte(), input) },
            4 => Request::Settle { session },
            5 => Request::Segment { app: self.app(), segment: input.word() >> (input.byte() % 32) },
            6 => Request::Prefixes,
            7 => Request::Stayed { what: text(input), why: text(input) },
            8 => return self.inherit(home, id, input),
            11 => return self.join(home, which, input),
            9 => return self.lay_in(home, &Request::SessionFds { count: input.word() % 17 }),
            10 => {
                return self.lay_in(
                    home,
                    &Request::OpenAhead {
                        v6: which & 64 != 0,
                        count: input.word() % 17,
                        fds: self.names(input),
                    },
                );
            }
            _ => {
                let mut hello = hello("hostile", "3", false);
                (hello.namespace, hello.program) = (text(input), text(input));
                (hello.rx_fifo, hello.tx_fifo) = (input.word(), input.word());
                Request::Hello(hello)
            }
        };
        self.ask(home, &request);
    }

    /// Names of session fds, most of which it has had or has.
    fn names(&self, input: &mut Input<'_>) -> Vec<u32> {
        (0..input.word() % 3).map(|_| input.word() % 64).collect()
    }

    /// Takes descriptors ahead of need, and gives some up. Streams that come with them are its
    /// sessions.
    fn lay_in(&mut self, home: &mut Home, request: &Request) {
        let Some((reply, fds)) = self.ask(home, request) else { return };
        if let Reply::OpenedAhead { sessions, .. } = reply {
            for (id, _) in sessions {
                self.ask_session(home, &Request::Subscribe { session: id }, None);
                self.find_fifos();
            }
        }
        self.ahead.extend(fds);
        let most = self.ahead.len().min(40);
        self.ahead.drain(..self.ahead.len() - most);
    }

    /// The latest session has the FIFOs that its words describe, where a question tells of none.
    fn find_fifos(&mut self) {
        let Some((session, _)) = self.socks.last() else { return };
        let at = |index: usize| {
            let offset = session.head.offset + DESCRIBED_AT + index as u32 * 8;
            let word = |offset| self.word(session.head.segment, offset);
            u64::from(word(offset + 4)) << 32 | u64::from(word(offset))
        };
        let words = SessionHead::default();
        for (index, word) in words.described.iter().enumerate() {
            word.store(at(index), Ordering::Relaxed);
        }
        let described = words.described(session.id, session.head, session.v6, session.options);
        if let Some((session, _)) = self.socks.last_mut() {
            (session.rx, session.tx) = (session.rx.or(described.rx), session.tx.or(described.tx));
        }
    }

    /// Says in a session's words where it is to be connected to.
    fn write_destination(&self, index: usize, input: &mut Input<'_>) {
        let Some((session, _)) = self.socks.get(index) else { return };
        let words = SessionHead::default();
        words.set_destination(address(input));
        for (word, at) in words.destination.iter().zip((DESTINATION_AT..).step_by(8)) {
            let word = word.load(Ordering::Relaxed);
            self.set(session.head.segment, session.head.offset + at, word as u32);
            self.set(session.head.segment, session.head.offset + at + 4, (word >> 32) as u32);
        }
    }

    /// Fills a session fd, and asks for what an inheritor gets by it.
    fn app(&self) -> u32 {
        self.queue_pair.as_ref().map_or(0, |(_, welcome)| welcome.app)
    }

    /// Joins the program that it was before, and has a session of that from now on.
    fn join(&mut self, home: &mut Home, which: u8, input: &mut Input<'_>) {
        let Some((token, sock)) = self.handed.take().filter(|_| which & 128 == 0) else {
            let mut token = Token([0; 16]);
            token.0[..8].copy_from_slice(&input.long().to_le_bytes());
            self.ask(home, &Request::Join { token });
            return;
        };
        if let Some((Reply::Joined { app }, _)) = self.ask(home, &Request::Join { token }) {
            let segment = sock.0.head.segment;
            let answer = self.ask(home, &Request::Segment { app, segment });
            if let Some(memory) = self.segments.get_mut(segment as usize) {
                *memory = answer.and_then(|(_, mut fds)| fds.pop());
            }
            self.ask(home, &Request::Subscribe { session: sock.0.id });
            self.socks.push(sock);
        }
    }

    fn inherit(&mut self, home: &mut Home, id: u64, input: &mut Input<'_>) {
        let session_fd =
            self.socks.iter().find(|sock| sock.0.id == id).and_then(|sock| sock.1.as_ref());
        let cookie = session_fd.map_or(Some(input.long()), |session_fd| {
            let bytes = input.bytes(64);
            let _ = rustix::net::send(session_fd, bytes, rustix::net::SendFlags::DONTWAIT);
            socket::cookie(session_fd.as_fd()).ok()
        });
        self.ask(home, &Request::Inherit { cookie: cookie.unwrap_or(0) });
    }

    fn word(&self, segment: u32, at: u32) -> u32 {
        self.segments
            .get(segment as usize)
            .and_then(Option::as_ref)
            .map_or(0, |memory| get(memory, at))
    }

    fn set(&self, segment: u32, at: u32, value: u32) {
        if let Some(Some(memory)) = self.segments.get(segment as usize) {
            put(memory, at, &value.to_le_bytes());
        }
    }
}

fn get(memory: &OwnedFd, at: u32) -> u32 {
    let mut word = [0; 4];
    let _ = rustix::io::pread(memory, &mut word, u64::from(at));
    u32::from_le_bytes(word)
}

fn put(memory: &OwnedFd, at: u32, bytes: &[u8]) {
    // What lies behind the end is refused: the memory's size is sealed.
    let _ = rustix::io::pwrite(memory, bytes, u64::from(at));
}

/// Another value in place of this one: a little off, far off, or anything.
fn value(now: u32, way: u8, input: &mut Input<'_>) -> u32 {
    match way % 4 {
        0 => u32::from(input.byte()),
        1 => now.wrapping_add_signed(i32::from(input.byte() as i8)),
        2 => now.wrapping_add(1 << (input.byte() % 32)),
        _ => input.word(),
    }
}

/// Addresses of ours, of the honest server, of nobody, and of another family.
fn address(input: &mut Input<'_>) -> SocketAddr {
    let port = u16::from(input.byte());
    let ip = [
        "172.16.2.1",
        "172.16.1.1",
        "0.0.0.0",
        "127.0.0.1",
        "10.9.9.9",
        "::",
        "::ffff:172.16.2.1",
        "255.255.255.255",
    ];
    let text = ip[usize::from(port) % ip.len()];
    match port {
        255 => SERVER.parse().expect("an address written in this file"),
        _ => SocketAddr::new(text.parse().expect("an address written in this file"), port >> 3),
    }
}

fn options(input: &mut Input<'_>) -> SocketOptions {
    let bits = input.byte();
    if bits & 1 == 0 {
        return SocketOptions::default();
    }
    SocketOptions {
        nodelay: bits & 2 != 0,
        cork: bits & 4 != 0,
        quick_ack: bits & 8 != 0,
        keepalive: bits & 16 != 0,
        reuse_address: bits & 32 != 0,
        reuse_port: bits & 64 != 0,
        v6_only: bits & 128 != 0,
        keep_idle: input.word() >> (input.byte() % 32),
        keep_interval: input.word() >> (input.byte() % 32),
        keep_count: input.byte(),
        user_timeout: input.word() >> (input.byte() % 32),
        max_segment: u16::from(input.byte()) << (input.byte() % 9),
        congestion: [
            Congestion::Default,
            Congestion::Reno,
            Congestion::Cubic,
            Congestion::Bbr,
            Congestion::Bbr1,
            Congestion::Prague,
        ][usize::from(input.byte() % 6)],
        max_pacing_rate: u64::from(input.word()) << (input.byte() % 33),
        linger: Some(u16::from(input.byte())).filter(|seconds| *seconds < 4),
        tos: input.byte(),
        ttl: input.byte(),
        oob_inline: input.byte() & 1 != 0,
        defer_accept: input.word() >> (input.byte() % 32),
        receive_buffer: input.word() >> (input.byte() % 32),
        send_buffer: input.word() >> (input.byte() % 32),
        mtu: u16::from(input.byte()) << (input.byte() % 9),
        fast_open: input.word() >> (input.byte() % 32),
        fast_open_connect: input.byte() & 1 != 0,
        bind_address_no_port: input.byte() & 1 != 0,
        multicast_ttl: input.byte(),
        multicast_loop: input.byte() & 1 != 0,
        multicast_iface: input.word() >> (input.byte() % 32),
        multicast_all: input.byte() & 1 != 0,
        discover_v4: (bits & 2 != 0).then(|| input.byte()),
        discover_v6: (bits & 4 != 0).then(|| input.byte()),
        dont_fragment_v6: bits & 8 != 0,
        receive_errors: bits & 16 != 0,
        syn_count: if bits & 64 != 0 { input.byte() } else { 0 },
        fin_wait_2: (bits & 64 != 0).then(|| input.byte()),
        window_clamp: if bits & 128 != 0 { input.word() >> (input.byte() % 32) } else { 0 },
        linear_timeouts: bits & 32 != 0,
        notsent_lowat: if bits & 128 != 0 { input.word() >> (input.byte() % 32) } else { 0 },
        fast_open_no_cookie: bits & 4 != 0,
        fast_open_key_count: if bits & 16 != 0 { input.byte() } else { 0 },
        multicast_source: input.word() >> (input.byte() % 32),
        fast_open_key_low: bits.into(),
        fast_open_key_high: 0,
        fast_open_old_key_low: 0,
        fast_open_old_key_high: u64::MAX,
        timestamping: input.word() >> (input.byte() % 32),
    }
}
