//! Honest peers beside crowds of peers that are stuck, on purpose or not: what the servers and
//! interfaces (`clearway http`, `clearway bench server`, Rust, C) have in common, which is
//! [`Talks`] over the stores of [`Memory`], against peers made of single segments. Numbers of
//! packets and virtual time only, so a busy machine changes nothing.

mod peers;

use clearway_base::{Duration, Instant};
use clearway_dev::{FramePool, PoolBudget};
use clearway_engine::{App, Ended, Io, Memory, Next, Service, Source, Stores, Talks, Time};
use clearway_pkt::{Burst, Checksum, Iface, Offloads, RxMeta, Sink, TxMeta};
use clearway_proto::store::{ChainRx, RingTx};
use clearway_proto::{Config, InterfaceSpec, Link, Stack, Table};
use clearway_wire::Cidr;

use peers::{Kind, Peer};

/// What is answered to `s`, and to `b`.
const SMALL: usize = 300;
const BIG: usize = 100_000;
/// What stuck peers ask for: more than any queue holds.
const HUGE: usize = 8 << 20;

/// Answers the first byte of a connection; `u` is never read.
struct Answers;

#[derive(Default)]
struct Talk {
    left: usize,
    sleeps: bool,
}

impl Service for Answers {
    type Talk = Talk;
    type Report = ();

    fn begin(&mut self, _now: Instant) -> Talk {
        Talk::default()
    }

    fn on_ready<I: Io>(&mut self, _now: Instant, talk: &mut Talk, io: &mut I) -> Next {
        match io.recv().first() {
            None => {}
            Some(b'u') => talk.sleeps = true,
            Some(b's') => talk.left += SMALL,
            Some(b'b') => talk.left += BIG,
            Some(_) => talk.left += HUGE,
        }
        if talk.sleeps {
            return Next::Wait;
        }
        let n = io.recv().len();
        io.consumed(n);
        while talk.left > 0 {
            let sent = io.send(&[b'x'; 16_384][..talk.left.min(16_384)]);
            talk.left -= sent;
            if sent == 0 {
                break;
            }
        }
        if io.peer_closed() && talk.left == 0 { Next::Close } else { Next::Wait }
    }

    fn deadline(&self, _talk: &Talk) -> Instant {
        Instant::NEVER
    }

    fn on_timeout<I: Io>(&mut self, _now: Instant, _talk: &mut Talk, _io: &mut I) -> Next {
        Next::Wait
    }

    fn is_idle(&self, _talk: &Talk) -> bool {
        true
    }

    fn end(&mut self, _talk: Option<Talk>, _why: Option<Ended>) {}

    fn report(&self) {}
}

/// Frames that left.
#[derive(Default)]
struct Out {
    room: Vec<u8>,
    frames: Vec<Vec<u8>>,
}

impl Sink for Out {
    fn reserve(&mut self, _iface: Iface, len: usize) -> Option<&mut [u8]> {
        self.room.resize(len, 0);
        Some(&mut self.room)
    }

    fn commit(&mut self, _iface: Iface, len: usize, _meta: TxMeta) {
        self.frames.push(self.room[..len].to_vec());
    }
}

/// A server, and its peers by the number in their addresses.
struct World {
    stack: Stack<Stores>,
    talks: Talks<Answers>,
    pool: FramePool,
    now: Instant,
    peers: Vec<Peer>,
    /// What the peers send in the next turn.
    wire: Vec<Vec<u8>>,
    ended: Vec<u32>,
}

impl World {
    fn new() -> World {
        World::with(true)
    }

    /// With stores in which whoever comes first may have everything, unless `shared`.
    fn with(shared: bool) -> World {
        let pool = FramePool::new(PoolBudget::default());
        let mut config = Config::new([7; 32]);
        config.limits.half_open = 65_536;
        // Each may hold a megabyte, however small its congestion window: the worst that few of them
        // can do.
        config.tcp.initial_send_buffer = 1 << 20;
        let memory = Memory::of(config.limits.connections);
        let buffers = (pool.small().count() + pool.large().count()) as u32;
        let (rx, tx) = if shared {
            memory.stores(&pool)
        } else {
            let tx = RingTx::new(memory.send_chunks, memory.send_chunk_len, memory.send_limit);
            (ChainRx::new(buffers, memory.receive_limit), tx)
        };
        let mut stack = Stack::new(config, rx, tx);
        let offloads = Offloads { tx_checksum: true, trusted_link: true, ..Offloads::default() };
        let link = InterfaceSpec { link: Link::Raw, mtu: 1_500, offloads, table: Table(0) };
        let iface = stack.add_interface(link).expect("an interface");
        let cidr: Cidr = "10.255.255.1/8".parse().expect("an address");
        stack.add_address(Instant::ZERO, iface, cidr).expect("an address");
        let mut talks = Talks::new(Answers, Source::Listen(80), 65_536);
        let now = Instant::from_millis(1_000);
        App::<Stores>::start(&mut talks, time(now), &mut stack).expect("a listener");
        World { stack, talks, pool, now, peers: Vec::new(), wire: Vec::new(), ended: Vec::new() }
    }

    /// So many peers of a kind come; the number of the first one.
    fn come(&mut self, kind: Kind, count: usize) -> usize {
        let first = self.peers.len();
        for _ in 0..count {
            let mut peer = Peer::new(self.peers.len() as u32, kind);
            self.wire.push(peer.syn());
            self.peers.push(peer);
            if self.wire.len() >= 1_024 {
                self.settle();
            }
        }
        self.settle();
        first
    }

    /// A turn of the server with up to a burst of packets; a millisecond passes.
    fn turn(&mut self) {
        let mut burst = Burst::new();
        let n = self.wire.len().min(burst.room());
        for frame in self.wire.drain(..n) {
            let meta = RxMeta { checksum: Checksum::Good, ..RxMeta::default() };
            // A device without a buffer drops the frame.
            if let Some(buf) = self.pool.copy_of(&frame) {
                let _ = burst.push(buf, meta);
            }
        }
        self.stack.ingest(self.now, &mut burst);
        drop(burst);
        self.stack.expire(self.now);
        self.talks.on_events(time(self.now), &mut self.stack);
        let mut out = Out::default();
        self.stack.emit(self.now, &mut out);
        for frame in out.frames {
            if let Some((to, segment, len)) = peers::read(&frame) {
                if let Some(peer) = self.peers.get_mut(to) {
                    self.wire.extend(peer.take(&segment, len));
                    if segment.flags.rst() {
                        self.ended.push(to as u32);
                    }
                }
            }
        }
        self.now += Duration::from_millis(1);
    }

    /// Turns until nothing is on its way.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            self.turn();
            if self.wire.is_empty() {
                return;
            }
        }
        panic!("the peers talk for ever");
    }

    /// Time passes, a turn each 10 ms or more; each second the stuck peers do what they do.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            for peer in &mut self.peers {
                self.wire.extend(peer.each_second());
            }
            for _ in 0..20 {
                self.settle();
                self.now += Duration::from_millis(50);
            }
        }
    }

    /// Honest peers come with each kind of request; how many were answered in full within ten
    /// seconds.
    fn honest(&mut self, count: usize) -> usize {
        let small = self.come(Kind::Asks(b's', SMALL), count);
        let big = self.come(Kind::Asks(b'b', BIG), count);
        for _ in 0..200 {
            self.settle();
            self.now += Duration::from_millis(50);
        }
        assert_eq!(big - small, count);
        self.peers[small..].iter().filter(|peer| peer.is_answered()).count()
    }
}

fn time(now: Instant) -> Time {
    Time { now, since_1970: Duration::ZERO }
}

/// Honest peers are answered beside so many of the kind, before anybody is ended, and after; how
/// many of the stuck ones were ended for want of memory.
fn beside(kind: Kind, count: usize) -> u64 {
    let mut world = World::new();
    world.come(kind, count);
    assert_eq!(world.honest(20), 40, "{count} of {kind:?} have just come");
    world.pass(12);
    assert_eq!(world.honest(20), 40, "{count} of {kind:?} were there for a while");
    let resets = world.stack.counters().tcp.shortage_resets;
    assert!(
        world.peers[count..].iter().all(|peer| !world.ended.contains(&peer.number)),
        "an honest peer was ended"
    );
    resets
}

#[test]
fn windows_that_stay_shut_starve_nobody() {
    assert!(beside(Kind::Shut, 300) > 0, "300 that hold a megabyte each are too many");
    assert!(beside(Kind::Shut, 3_000) > 0);
}

#[test]
fn without_the_rule_the_same_peers_starve_everybody() {
    for (kind, count) in
        [(Kind::Shut, 300), (Kind::OneByte, 300), (Kind::Deaf, 17_500), (Kind::Unread, 3_000)]
    {
        let mut world = World::with(false);
        world.come(kind, count);
        let answered = world.honest(10);
        assert!(answered < 20, "{answered} of 20 beside {count} of {kind:?}");
    }
}

#[test]
fn peers_that_acknowledge_a_byte_at_a_time_starve_nobody() {
    assert!(beside(Kind::OneByte, 300) > 0);
    assert!(beside(Kind::OneByte, 3_000) > 0);
}

#[test]
fn peers_with_tiny_segments_that_only_acknowledge_selectively_starve_nobody() {
    assert!(beside(Kind::Selective, 300) > 0);
    assert!(beside(Kind::Selective, 3_000) > 0);
}

#[test]
fn answers_that_nobody_takes_starve_nobody() {
    // They fit the minimum of each, so nobody has to go.
    assert_eq!(beside(Kind::Deaf, 3_000), 0);
    assert_eq!(beside(Kind::Deaf, 20_000), 0);
}

#[test]
fn early_bytes_before_a_hole_that_is_never_filled_starve_nobody() {
    beside(Kind::Early, 300);
    beside(Kind::Early, 3_000);
}

#[test]
fn bytes_that_the_owner_does_not_read_starve_nobody() {
    beside(Kind::Unread, 300);
    beside(Kind::Unread, 3_000);
}

#[test]
fn twenty_thousand_of_each_kind_starve_nobody() {
    for kind in [Kind::Shut, Kind::OneByte, Kind::Selective, Kind::Deaf, Kind::Early, Kind::Unread]
    {
        let resets = beside(kind, 20_000);
        println!(
            "20,000 of {kind:?}: 80 of 80 honest requests answered, {resets} ended for want \
             of memory"
        );
    }
}
