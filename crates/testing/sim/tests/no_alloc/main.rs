//! After its start, a stack allocates nothing: not for packets, connections, holes or timers; and a
//! datagram socket nothing while its queues hold no more than they have held.
//!
//! Two stacks are joined by queues that were made before. What happens between the first packet and
//! the last is watched by an allocator that counts.

mod counting_alloc;

use clearway_base::{Duration, Instant, Rng};
use clearway_pkt::{Burst, Iface, Pool, PoolBuf, RxMeta, Sink, TxMeta};
use clearway_proto::store::chain::ChainRx;
use clearway_proto::store::ring::{RingRx, RingTx};
use clearway_proto::{
    Config, ConnEvents, ConnId, ConnOptions, ConnectSpec, Env, Event, InterfaceSpec, Limits, Link,
    ListenSpec, ListenerId, RxStore, Stack, Table, UdpSpec,
};
use clearway_wire::{Addr, Cidr, Endpoint, Mac};
use counting_alloc::{Counting, allocations};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MTU: u32 = 1500;
const FRAME: usize = 1514;
/// Frames on their way to one side at most; more are lost, which is part of the test.
const QUEUE: usize = 256;
const IFACE: Iface = Iface(0);
const PORT: u16 = 80;
/// Datagrams that are sent before anybody counts, and while. Of the first ones some arrive whatever
/// is lost.
const WARM_UP: u32 = 20;
const DATAGRAMS: u32 = 50;

struct Chained;

impl Env for Chained {
    type Buf = PoolBuf;
    type Rx = ChainRx<PoolBuf>;
    type Tx = RingTx;
}

struct Copied;

impl Env for Copied {
    type Buf = PoolBuf;
    type Rx = RingRx;
    type Tx = RingTx;
}

/// Frames that one side sent.
struct Wire {
    frames: Vec<[u8; FRAME]>,
    lens: Vec<usize>,
    count: usize,
    room: [u8; FRAME],
    rng: Rng,
    loss: u32,
}

impl Wire {
    fn new(seed: u64, loss: u32) -> Wire {
        let rng = Rng::seed(seed);
        Wire {
            frames: vec![[0; FRAME]; QUEUE],
            lens: vec![0; QUEUE],
            count: 0,
            room: [0; FRAME],
            rng,
            loss,
        }
    }
}

impl Sink for Wire {
    fn reserve(&mut self, _: Iface, len: usize) -> Option<&mut [u8]> {
        (self.count < QUEUE).then_some(())?;
        self.room.get_mut(..len)
    }

    fn commit(&mut self, _: Iface, len: usize, _: TxMeta) {
        if self.rng.chance(self.loss) {
            return;
        }
        self.frames[self.count][..len].copy_from_slice(&self.room[..len]);
        self.lens[self.count] = len;
        self.count += 1;
    }
}

/// A stack, what it sent, and what its owner has to do.
struct Side<E: Env<Buf = PoolBuf>> {
    stack: Stack<E>,
    sent: Wire,
    burst: Burst<PoolBuf>,
    pool: Pool,
    listener: Option<ListenerId>,
    conns: Vec<ConnId>,
    to_send: u32,
    read: u64,
    datagrams: u32,
}

impl<E: Env<Buf = PoolBuf>> Side<E> {
    fn new(rx: E::Rx, tx: E::Tx, number: u8, v6: bool, loss: u32) -> Side<E> {
        let mut config = Config::new([number; 32]);
        config.limits =
            Limits { connections: 64, half_open: 16, time_wait: 64, ..Limits::default() };
        let mut stack = Stack::new(config, rx, tx);
        let link = Link::Ethernet(Mac([2, 0, 0, 0, 0, number]));
        let spec = InterfaceSpec { link, mtu: MTU, offloads: Default::default(), table: Table(0) };
        assert_eq!(stack.add_interface(spec), Ok(IFACE));
        let cidr = Cidr::new(addr(v6, number), if v6 { 64 } else { 24 }).unwrap();
        stack.add_address(Instant::ZERO, IFACE, cidr).unwrap();
        Side {
            stack,
            sent: Wire::new(u64::from(number), loss),
            burst: Burst::new(),
            pool: Pool::new(2048, 2048),
            listener: None,
            conns: Vec::with_capacity(64),
            to_send: 0,
            read: 0,
            datagrams: 0,
        }
    }

    /// Takes what the other side sent.
    fn take(&mut self, now: Instant, wire: &mut Wire) {
        for at in 0..wire.count {
            let Some(buf) = self.pool.copy_of(&wire.frames[at][..wire.lens[at]]) else { continue };
            let full = self.burst.push(buf, RxMeta { iface: IFACE, ..RxMeta::default() }).is_err();
            if full || self.burst.room() == 0 || at + 1 == wire.count {
                self.stack.ingest(now, &mut self.burst);
            }
        }
        wire.count = 0;
    }

    fn act(&mut self, now: Instant) {
        self.stack.expire(now);
        while let Some(event) = self.stack.next_event() {
            match event {
                Event::Incoming { listener, .. } => {
                    while let Some(conn) = self.stack.accept(listener) {
                        self.conns.push(conn);
                    }
                }
                Event::Conn { conn, what, .. } if what.has(ConnEvents::FAILED) => {
                    self.stack.close(conn);
                    self.conns.retain(|c| *c != conn);
                }
                Event::Conn { .. } => {}
                Event::Udp { socket, .. } => {
                    while self.stack.udp_recv(socket).is_some() {
                        self.datagrams += 1;
                    }
                }
            }
        }
        let mut at = 0;
        while at < self.conns.len() {
            let conn = self.conns[at];
            self.talk(conn);
            at += usize::from(self.conns.get(at) == Some(&conn));
        }
        self.stack.emit(now, &mut self.sent);
    }

    fn talk(&mut self, conn: ConnId) {
        let chunk = [7; 4096];
        while self.to_send > 0 {
            let n = self.to_send.min(chunk.len() as u32) as usize;
            let took = self.stack.send(conn, &chunk[..n]).unwrap_or(0);
            self.to_send -= took as u32;
            if took < n {
                break;
            }
        }
        while let Ok(bytes) = self.stack.recv(conn) {
            let n = bytes.len();
            if n == 0 {
                break;
            }
            self.stack.consumed(conn, n as u32);
            self.read += n as u64;
        }
        if self.to_send == 0 && self.stack.queued(conn) == 0 && self.stack.peer_closed(conn) {
            self.stack.close(conn);
            self.conns.retain(|c| *c != conn);
        } else if self.to_send == 0 {
            let _ = self.stack.shutdown(conn);
        }
    }
}

fn addr(v6: bool, number: u8) -> Addr {
    if v6 {
        Addr::v6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number])
    } else {
        Addr::v4([10, 0, 0, number])
    }
}

/// Lets both sides act, a millisecond apart, until there are no connections; returns the time.
fn play<E: Env<Buf = PoolBuf>>(a: &mut Side<E>, b: &mut Side<E>, mut now: Instant) -> Instant {
    for _ in 0..200_000 {
        now += Duration::from_millis(1);
        turn(a, b, now);
        if a.conns.is_empty() && b.conns.is_empty() && a.to_send + b.to_send == 0 {
            break;
        }
    }
    now
}

/// Either side takes what the other one has sent, and answers.
fn turn<E: Env<Buf = PoolBuf>>(a: &mut Side<E>, b: &mut Side<E>, now: Instant) {
    a.take(now, &mut b.sent);
    a.act(now);
    b.take(now, &mut a.sent);
    b.act(now);
}

/// One connection with `bytes` each way.
fn exchange<E: Env<Buf = PoolBuf>>(
    a: &mut Side<E>,
    b: &mut Side<E>,
    v6: bool,
    bytes: u32,
    now: Instant,
) -> Instant {
    let spec = ConnectSpec {
        table: Table(0),
        local: None,
        remote: Endpoint::new(addr(v6, 2), PORT),
        token: 0,
        options: ConnOptions::default(),
    };
    let conn = a.stack.connect(now, spec).expect("connect");
    a.conns.push(conn);
    (a.to_send, b.to_send) = (bytes, bytes);
    play(a, b, now)
}

fn no_allocation_over<E: Env<Buf = PoolBuf>>(make: impl Fn() -> (E::Rx, E::Tx), loss: u32)
where
    E::Rx: RxStore<PoolBuf>,
{
    for v6 in [false, true] {
        let sides = [1, 2].map(|number| {
            let (rx, tx) = make();
            Side::<E>::new(rx, tx, number, v6, loss)
        });
        let [mut a, mut b] = sides;
        let local = Endpoint::new(addr(v6, 2), PORT);
        let options = ConnOptions::default();
        let spec =
            ListenSpec { table: Table(0), local, v6_only: false, backlog: 16, token: 0, options };
        b.listener = Some(b.stack.listen(spec).expect("listen"));
        let udp = |number: u8| UdpSpec {
            table: Table(0),
            local: Endpoint::new(addr(v6, number), 7),
            token: 0,
            v6_only: false,
        };
        let from = a.stack.udp_bind(udp(1)).expect("bind");
        b.stack.udp_bind(udp(2)).expect("bind");
        let bytes = 400_000;
        let mut now = Instant::from_millis(1);
        let (count, ()) = allocations(|| {
            for _ in 0..3 {
                now = exchange(&mut a, &mut b, v6, bytes, now);
            }
            // Past TIME-WAIT.
            for _ in 0..1_000 {
                now += Duration::from_millis(100);
                turn(&mut a, &mut b, now);
            }
        });
        let mut send = |count: u32| {
            for _ in 0..count {
                let datagram = [1; 4000];
                let _ =
                    a.stack.udp_send(from, Some(Endpoint::new(addr(v6, 2), 7)), None, &datagram);
                now += Duration::from_millis(1);
                turn(&mut a, &mut b, now);
            }
        };
        // The first ones: a queue takes its memory by use.
        send(WARM_UP);
        let (of_datagrams, ()) = allocations(|| send(DATAGRAMS));
        assert_eq!(
            (a.read, b.read),
            (3 * u64::from(bytes), 3 * u64::from(bytes)),
            "everything arrived, IPv6: {v6}"
        );
        if loss == 0 {
            assert_eq!(b.datagrams, WARM_UP + DATAGRAMS);
        }
        assert_eq!((count, of_datagrams), (0, 0), "allocations, IPv6: {v6}");
        assert_eq!(
            (a.pool.available(), b.pool.available()),
            (2048, 2048),
            "all packet buffers are back"
        );
    }
}

fn chained() -> (ChainRx<PoolBuf>, RingTx) {
    (ChainRx::new(1024, 256 * 1024), RingTx::new(1024, 2048, 256 * 1024))
}

fn copied() -> (RingRx, RingTx) {
    (RingRx::new(1024, 2048, 256 * 1024), RingTx::new(1024, 2048, 256 * 1024))
}

#[test]
fn nothing_is_allocated_when_buffers_are_chained() {
    no_allocation_over::<Chained>(chained, 0);
}

#[test]
fn nothing_is_allocated_when_bytes_are_copied() {
    no_allocation_over::<Copied>(copied, 0);
}

#[test]
fn nothing_is_allocated_when_packets_are_lost() {
    no_allocation_over::<Chained>(chained, 30_000);
    no_allocation_over::<Copied>(copied, 30_000);
}

#[test]
fn the_allocator_counts() {
    let (count, kept) = allocations(|| vec![1u8; 100]);
    assert_eq!((count, kept.len()), (1, 100));
}
