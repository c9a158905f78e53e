//! The whole of TCP, over raw links: against a peer whose segments the test writes by hand
//! (`Bench`), and between two stacks (`World`).

extern crate std;

use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

use clearway_base::{Duration, Instant};
use clearway_pkt::{Iface, Offloads, RxMeta};
use clearway_wire::tcp::TcpOptions;
use clearway_wire::{Addr, Endpoint, Flags, Segment, Seq, ipv4, ipv6, tcp};

use crate::testing::{Net, addr, config, raw, tcp_packet, with_room};
use crate::*;

mod attack;
mod black_hole;
mod close;
mod ecn;
mod fast_open;
mod full;
mod goodput;
mod handshake;
mod info;
mod instances;
mod layout;
mod live;
mod loss;
mod pair;
mod prefetch;
mod probe;
mod refused;
mod reordering;
mod tables;
mod timer;
mod window;

const US: &str = "10.0.0.1";
const PEER: &str = "10.0.0.2";
const PORT: u16 = 80;
const PEER_PORT: u16 = 4000;

const ACK: Flags = Flags::ACK;
const SYN: Flags = Flags::SYN;
const FIN: Flags = Flags::FIN;
const RST: Flags = Flags::RST;
const PSH: Flags = Flags::PSH;

/// What a segment was made of.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Seen {
    seg: Segment,
    data: Vec<u8>,
}

impl Seen {
    fn flags(&self) -> Flags {
        self.seg.flags
    }
}

/// Reads a packet of either family that was sent over a raw link.
fn read(packet: &[u8]) -> Option<Seen> {
    let l4 = if packet[0] >> 4 == 4 {
        let ip = ipv4::check(packet, true).unwrap();
        ip.payload().to_vec()
    } else {
        ipv6::check(packet).unwrap().payload().to_vec()
    };
    let seg = tcp::parse(&l4).ok()?;
    let data = l4[usize::from(seg.header_len)..].to_vec();
    Some(Seen { seg, data })
}

/// A stack and a peer made of hand-written segments. Numbers are relative: ours count from our ISN,
/// the peer's from `PEER_ISS`.
struct Bench {
    net: Net,
    local: &'static str,
    remote: &'static str,
    listener: Option<ListenerId>,
    conn: Option<ConnId>,
    iss: Seq,
    peer_iss: Seq,
    port: u16,
    /// The peer's timestamps, when it uses them: TSval, and the last TSval of ours.
    stamps: Option<(u32, u32)>,
}

fn plain() -> Config {
    let mut config = config();
    config.tcp.timestamps = false;
    config
}

/// What a device can do that cuts large segments.
fn cutting() -> Offloads {
    Offloads {
        tso4: true,
        tx_checksum: true,
        trusted_link: true,
        max_segmented_frame: 65_535,
        ..Offloads::default()
    }
}

impl Bench {
    fn new(config: Config) -> Bench {
        let net = Net::with(config, &[(raw(1500), &["10.0.0.1/24", "2001:db8::1/64"])]);
        Bench {
            net,
            local: US,
            remote: PEER,
            listener: None,
            conn: None,
            iss: Seq(0),
            peer_iss: Seq(1_000_000),
            port: PORT,
            stamps: None,
        }
    }

    fn listen(&mut self, backlog: u32) -> ListenerId {
        let spec = ListenSpec {
            table: Table(0),
            local: Endpoint::new(Addr::ANY_V6, PORT),
            v6_only: false,
            backlog,
            token: 7,
            options: ConnOptions { nodelay: true, ..ConnOptions::default() },
        };
        let id = self.net.stack.listen(spec).unwrap();
        self.listener = Some(id);
        id
    }

    fn segment(&self, flags: Flags, seq: u32, ack: u32, wnd: u16) -> Segment {
        Segment {
            src_port: PEER_PORT,
            dst_port: self.port,
            seq: self.peer_iss + seq,
            ack: if flags.ack() { self.iss + ack } else { Seq(0) },
            flags,
            wnd,
            opts: TcpOptions { ts: self.stamps, ..TcpOptions::NONE },
            ..Segment::default()
        }
    }

    /// A segment of the peer arrives; why it was dropped, if it was.
    fn put(&mut self, seg: Segment, data: &[u8]) -> Option<Drop> {
        let packet = tcp_packet(self.remote, self.local, &seg, data);
        self.net.ingest(&packet)
    }

    fn inject(&mut self, flags: Flags, seq: u32, ack: u32, wnd: u16, data: &[u8]) -> Option<Drop> {
        self.put(self.segment(flags, seq, ack, wnd), data)
    }

    /// What leaves now.
    fn out(&mut self) -> Vec<Seen> {
        let seen: Vec<Seen> = self.net.emit().iter().filter_map(|p| read(p)).collect();
        if let (Some((val, _)), Some((ours, _))) =
            (self.stamps, seen.last().and_then(|s| s.seg.opts.ts))
        {
            self.stamps = Some((val, ours));
        }
        seen
    }

    /// The one segment that leaves now.
    fn one(&mut self) -> Seen {
        let mut seen = self.out();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen.remove(0)
    }

    fn silent(&mut self) {
        let seen = self.out();
        assert!(seen.is_empty(), "{seen:?}");
    }

    /// Frames that have come wait to be read, or none do.
    fn set_unread(&mut self, unread: bool) {
        self.net.stack.set_unread(self.net.now, unread);
    }

    /// Time passes; timers fire and what they send is given back with the time that has passed.
    fn pass(&mut self, time: Duration) -> Vec<(Duration, Seen)> {
        let start = self.net.now;
        let end = start + time;
        let mut all = Vec::new();
        while self.net.stack.next_deadline() <= end {
            self.net.now = self.net.stack.next_deadline().max(self.net.now);
            self.net.stack.expire(self.net.now);
            let at = self.net.now.since(start);
            all.extend(self.out().into_iter().map(|s| (at, s)));
        }
        self.net.now = end;
        all
    }

    fn rel_seq(&self, seen: &Seen) -> u32 {
        seen.seg.seq.since(self.iss)
    }

    fn rel_ack(&self, seen: &Seen) -> u32 {
        seen.seg.ack.since(self.peer_iss)
    }

    /// The peer connects to us; the connection is accepted.
    fn accepted(config: Config, mss: u16, wnd: u16) -> Bench {
        let mut b = Bench::new(config);
        b.listen(8);
        b.handshake(TcpOptions { mss: Some(mss), ..TcpOptions::NONE }, wnd);
        b
    }

    /// As [`Bench::accepted`], with SACK.
    fn accepted_sack(mss: u16, wnd: u16) -> Bench {
        let mut b = Bench::new(plain());
        b.listen(8);
        b.handshake(TcpOptions { mss: Some(mss), sack_permitted: true, ..TcpOptions::NONE }, wnd);
        b
    }

    fn handshake(&mut self, opts: TcpOptions, wnd: u16) {
        self.handshake_with((Flags::NONE, Flags::NONE), opts, wnd);
    }

    /// As [`Bench::handshake`], with these flags too in the peer's SYN and its ACK.
    fn handshake_with(&mut self, (asked, told): (Flags, Flags), opts: TcpOptions, wnd: u16) {
        self.stamps = opts.ts;
        let syn = Segment { opts, ..self.segment(SYN | asked, 0, 0, wnd) };
        assert_eq!(self.put(syn, &[]), None);
        let answer = self.one();
        assert_eq!(answer.flags().without(Flags::ACE), SYN | ACK);
        assert_eq!(answer.seg.ack, self.peer_iss + 1);
        self.iss = answer.seg.seq;
        if self.stamps.is_some() && answer.seg.opts.ts.is_none() {
            self.stamps = None;
        }
        assert_eq!(self.inject(ACK | told, 1, 1, wnd, &[]), None);
        self.silent();
        let conn = self.net.stack.accept(self.listener.unwrap()).expect("a finished handshake");
        self.net.stack.set_token(conn, 99);
        self.conn = Some(conn);
        self.events();
    }

    fn connect(&mut self, options: ConnOptions) -> ConnId {
        let spec = ConnectSpec {
            table: Table(0),
            local: None,
            remote: Endpoint::new(addr(self.remote), PEER_PORT),
            token: 99,
            options,
        };
        let conn = self.net.stack.connect(self.net.now, spec).unwrap();
        self.conn = Some(conn);
        self.port = self.net.stack.local(conn).unwrap().port;
        conn
    }

    /// We connect to the peer.
    fn connected(config: Config, opts: TcpOptions, wnd: u16) -> Bench {
        let mut b = Bench::new(config);
        b.connect(ConnOptions { nodelay: true, ..ConnOptions::default() });
        let syn = b.one();
        assert_eq!(syn.flags(), SYN);
        b.iss = syn.seg.seq;
        b.stamps = opts.ts;
        let answer = Segment { opts, ..b.segment(SYN | ACK, 0, 1, wnd) };
        assert_eq!(b.put(answer, &[]), None);
        let ack = b.one();
        assert_eq!((ack.flags(), b.rel_seq(&ack), b.rel_ack(&ack)), (ACK, 1, 1));
        assert_eq!(b.events(), [ConnEvents::CONNECTED]);
        b
    }

    fn id(&self) -> ConnId {
        self.conn.unwrap()
    }

    fn state(&self) -> State {
        self.net.stack.state(self.id())
    }

    fn send(&mut self, bytes: &[u8]) -> usize {
        let id = self.id();
        self.net.stack.send(id, bytes).unwrap()
    }

    /// Everything unread, consumed.
    fn read_all(&mut self) -> Vec<u8> {
        let id = self.id();
        let mut all = Vec::new();
        loop {
            let bytes = match self.net.stack.recv(id) {
                Ok(bytes) if !bytes.is_empty() => bytes.to_vec(),
                _ => return all,
            };
            self.net.stack.consumed(id, bytes.len() as u32);
            all.extend(bytes);
        }
    }

    /// Events since the last look.
    fn events(&mut self) -> Vec<ConnEvents> {
        let mut all = Vec::new();
        while let Some(event) = self.net.stack.next_event() {
            if let Event::Conn { what, token, .. } = event {
                assert_eq!(token, 99);
                all.push(what);
            }
        }
        all
    }

    fn counters(&self) -> &counters::TcpCounters {
        &self.net.stack.counters().tcp
    }

    fn info(&self) -> TcpInfo {
        self.net.stack.info(self.id()).unwrap()
    }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn pattern(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 31 + i / 251) as u8).collect()
}

/// Says which packets are lost: which end sent it, its number, and the packet.
type Lose = std::boxed::Box<dyn FnMut(usize, u64, &[u8]) -> bool>;

/// Says how much later than others a packet arrives: which end sent it, and its number.
type Late = std::boxed::Box<dyn FnMut(usize, u64) -> Duration>;

/// Changes a packet on its way: which end sent it, and the packet.
type Change = std::boxed::Box<dyn FnMut(usize, &mut Vec<u8>)>;

/// Two stacks and a wire that takes time, and loses what the test says.
struct World {
    now: Instant,
    ends: [Net; 2],
    delay: Duration,
    wire: VecDeque<(Instant, usize, Vec<u8>)>,
    lose: Lose,
    late: Late,
    change: Change,
    sent: u64,
    /// What each direction carries; None: no limit.
    link: Option<Link>,
    /// Until when the link of each end is busy with what was handed to it.
    busy: [Instant; 2],
    /// Packets with payload that were lost on their way from end 0.
    lost: u64,
    /// The clock that the stacks read moves in such steps.
    clock_step: Duration,
}

/// A link that takes time for each packet.
#[derive(Clone, Copy)]
struct Link {
    bytes_per_second: u64,
    /// What would wait longer is lost.
    queue: Duration,
}

impl World {
    fn new(config: Config, offloads: Offloads, delay: Duration) -> World {
        World::with_room(config, offloads, delay, 1 << 20)
    }

    /// With so many bytes of room for what was written and for what was not read.
    fn with_room(config: Config, offloads: Offloads, delay: Duration, room: u32) -> World {
        let end = |a: &str, salt: u8| {
            let mut config = config.clone();
            config.secret = [salt; 32];
            let spec = InterfaceSpec { offloads, ..raw(1500) };
            Net::over(with_room(config, room), &[(spec, &[a])])
        };
        let ends = [end("10.0.0.1/24", 3), end("10.0.0.2/24", 5)];
        let now = ends[0].now;
        World {
            now,
            ends,
            delay,
            wire: VecDeque::new(),
            lose: std::boxed::Box::new(|_, _, _| false),
            late: std::boxed::Box::new(|_, _| Duration::ZERO),
            change: std::boxed::Box::new(|_, _| ()),
            sent: 0,
            link: None,
            busy: [now; 2],
            lost: 0,
            clock_step: Duration::from_nanos(1),
        }
    }

    /// What the clock of the stacks shows.
    fn shown(&self) -> Instant {
        let (ns, step) = (self.now.as_nanos(), self.clock_step.as_nanos());
        Instant::ZERO + Duration::from_nanos(ns - ns % step)
    }

    /// When the clock of the stacks shows `at`, or more.
    fn next_tick(&self, at: Instant) -> Instant {
        let (ns, step) = (at.as_nanos(), self.clock_step.as_nanos());
        Instant::ZERO + Duration::from_nanos(ns.next_multiple_of(step))
    }

    /// When a packet that leaves now has left, if the queue takes it.
    fn through_the_link(&mut self, from: usize, len: usize) -> Option<Instant> {
        let Some(Link { bytes_per_second, queue }) = self.link else { return Some(self.now) };
        let begins = self.busy[from].max(self.now);
        if begins.since(self.now) > queue {
            return None;
        }
        self.busy[from] =
            begins + Duration::from_nanos(len as u64 * 1_000_000_000 / bytes_per_second);
        Some(self.busy[from])
    }

    /// Lets both ends send, and puts what leaves on the wire.
    fn emit(&mut self) {
        for from in 0..2 {
            self.ends[from].now = self.shown();
            for mut packet in self.ends[from].emit() {
                self.sent += 1;
                let passes = !(self.lose)(from, self.sent, &packet);
                let left = self.through_the_link(from, packet.len());
                if left.is_none() || !passes {
                    self.lost += u64::from(from == 0 && packet.len() > 100);
                } else if let Some(left) = left {
                    (self.change)(from, &mut packet);
                    let at = left + self.delay + (self.late)(from, self.sent);
                    let place = self.wire.partition_point(|other| other.0 <= at);
                    self.wire.insert(place, (at, 1 - from, packet));
                }
            }
        }
    }

    /// The next thing that happens, if it is not later than `until`: a packet arrives or a timer is
    /// due. False when nothing is.
    fn step(&mut self, until: Instant) -> bool {
        self.emit();
        let arrival = self.wire.front().map_or(Instant::NEVER, |w| w.0);
        let timer = self.ends[0].stack.next_deadline().min(self.ends[1].stack.next_deadline());
        let timer = if timer.is_set() { self.next_tick(timer) } else { timer };
        let next = arrival.min(timer).max(self.now);
        if next > until || !next.is_set() {
            return false;
        }
        self.now = next;
        let shown = self.shown();
        for end in &mut self.ends {
            end.now = shown;
            end.stack.expire(shown);
        }
        while let Some((at, to, packet)) = self.wire.pop_front() {
            if at > self.now {
                self.wire.push_front((at, to, packet));
                break;
            }
            let meta = RxMeta { iface: Iface(0), ..RxMeta::default() };
            self.ends[to].ingest_own(meta, packet);
        }
        self.emit();
        true
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.step(end) {}
        self.now = end;
    }

    /// Connects end 0 to end 1; the connections at both ends.
    fn connect(&mut self, options: ConnOptions) -> (ConnId, ConnId) {
        let spec = ListenSpec {
            table: Table(0),
            local: Endpoint::new(Addr::ANY_V4, PORT),
            v6_only: false,
            backlog: 16,
            token: 1,
            options,
        };
        let listener = self.ends[1].stack.listen(spec).unwrap();
        let spec = ConnectSpec {
            table: Table(0),
            local: None,
            remote: Endpoint::new(addr(PEER), PORT),
            token: 2,
            options,
        };
        let a = self.ends[0].stack.connect(self.now, spec).unwrap();
        self.run(secs(1));
        let b = self.ends[1].stack.accept(listener).expect("accepted");
        (a, b)
    }

    /// Moves `data` from one end's connection to the other's, which reads all that comes; what
    /// arrived. At most `time`.
    fn transfer(
        &mut self,
        from: usize,
        a: ConnId,
        b: ConnId,
        data: &[u8],
        time: Duration,
    ) -> Vec<u8> {
        let end = self.now + time;
        let (mut written, mut read) = (0, Vec::new());
        while read.len() < data.len() {
            if written < data.len() {
                written += self.ends[from].stack.send(a, &data[written..]).unwrap();
            }
            if !self.step(end) {
                break;
            }
            drain(&mut self.ends[1 - from].stack, b, &mut read);
        }
        read
    }

    /// As [`World::transfer`], of so many zeros; how many arrived.
    fn transfer_zeros(
        &mut self,
        from: usize,
        a: ConnId,
        b: ConnId,
        total: usize,
        time: Duration,
    ) -> usize {
        static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
        let end = self.now + time;
        let (mut written, mut read) = (0, 0);
        while read < total {
            loop {
                let next = &ZEROS[..ZEROS.len().min(total - written)];
                let taken = self.ends[from].stack.send(a, next).unwrap();
                written += taken;
                if taken < next.len() || written == total {
                    break;
                }
            }
            if !self.step(end) {
                break;
            }
            read += drop_unread(&mut self.ends[1 - from].stack, b);
        }
        read
    }
}

fn drain(stack: &mut Stack<crate::testing::TestEnv>, conn: ConnId, into: &mut Vec<u8>) {
    loop {
        let bytes = match stack.recv(conn) {
            Ok(bytes) if !bytes.is_empty() => bytes.to_vec(),
            _ => return,
        };
        stack.consumed(conn, bytes.len() as u32);
        into.extend(bytes);
    }
}

/// Takes all that is unread and looks at none of it; how much it was.
fn drop_unread(stack: &mut Stack<crate::testing::TestEnv>, conn: ConnId) -> usize {
    let mut all = 0;
    loop {
        let n = stack.recv(conn).map_or(0, <[u8]>::len);
        if n == 0 {
            return all;
        }
        stack.consumed(conn, n as u32);
        all += n;
    }
}

fn zeros(n: usize) -> Vec<u8> {
    vec![0; n]
}
