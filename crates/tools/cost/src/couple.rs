//! A stack with everything it needs to be driven by hand, and the wire between two of them.

use anyhow::Result;
use clearway_base::{Duration, Instant};
use clearway_pkt::{Buf, Burst, Checksum, Iface, Offloads, Pool, PoolBuf, RxMeta, Sink, TxMeta};
use clearway_proto::store::Minimum;
use clearway_proto::store::chain::ChainRx;
use clearway_proto::store::ring::RingTx;
use clearway_proto::{Config, Env, InterfaceSpec, Limits, Link, Stack, Table};
use clearway_wire::{Addr, Cidr};

/// The stack's types here: pool buffers kept as they came, answers in chunks of 2 KiB.
pub struct InMemory;

impl Env for InMemory {
    type Buf = PoolBuf;
    type Rx = ChainRx<PoolBuf>;
    type Tx = RingTx;
}

/// Length of a packet buffer in bytes.
pub const BUF_LEN: usize = 2048;

/// Frames that may wait on the way out.
pub const SLOTS: usize = 4096;

/// What leaves a stack, in order: a ring whose every slot has its buffer, as the ring of a device
/// has. Who takes a frame out puts an empty buffer in its place, which is the device's work and not
/// the stack's.
pub struct Out {
    pool: Pool,
    ring: Box<[PoolBuf; SLOTS]>,
    // Counted on and on; the low bits are the slot.
    front: usize,
    back: usize,
}

impl Out {
    /// An empty ring with buffers of `pool`.
    pub fn new(pool: Pool) -> Out {
        let ring: Vec<PoolBuf> = std::iter::from_fn(|| pool.take()).take(SLOTS).collect();
        let ring = ring
            .try_into()
            .unwrap_or_else(|_| panic!("a pool with fewer buffers than the ring has slots"));
        Out { pool, ring, front: 0, back: 0 }
    }

    /// Writes to all buffers, so that none of them becomes resident later.
    pub fn touch(&mut self) {
        crate::fake_peer::touch(&self.pool);
        for buf in self.ring.iter_mut() {
            buf.bytes_mut().fill(1);
        }
    }

    /// Whether a frame waits.
    pub fn is_empty(&self) -> bool {
        self.front == self.back
    }

    /// The oldest frame.
    #[inline]
    pub fn pop(&mut self) -> Option<PoolBuf> {
        if self.is_empty() {
            return None;
        }
        let empty = self.pool.take()?;
        self.front += 1;
        Some(std::mem::replace(&mut self.ring[(self.front - 1) % SLOTS], empty))
    }
}

impl Sink for Out {
    #[inline]
    fn reserve(&mut self, _iface: Iface, len: usize) -> Option<&mut [u8]> {
        if len > BUF_LEN || self.back - self.front == SLOTS {
            return None;
        }
        Some(self.ring[self.back % SLOTS].bytes_mut())
    }

    #[inline]
    fn commit(&mut self, _iface: Iface, len: usize, _meta: TxMeta) {
        self.ring[self.back % SLOTS].truncate(len);
        self.back += 1;
    }
}

/// One stack, its outgoing queue and its burst.
pub struct Side {
    /// The stack.
    pub stack: Stack<InMemory>,
    /// What it sent.
    pub out: Out,
    /// What it is about to receive.
    pub burst: Burst<PoolBuf>,
}

/// How a side is built.
pub struct Shape {
    /// Its address on the shared link.
    pub addr: Addr,
    /// How many of each thing.
    pub limits: Limits,
    /// Packet buffers.
    pub bufs: usize,
    /// The link computes and vouches for transport checksums, as a network card does.
    pub offload: bool,
}

impl Side {
    /// A stack with one interface without a link header and one address.
    pub fn new(shape: &Shape) -> Side {
        let pool = Pool::new(shape.bufs, BUF_LEN);
        let minimum = Minimum { queues: shape.limits.connections, len: 2048 };
        let rx = ChainRx::shared(shape.bufs as u32, 1 << 20, minimum, None);
        let tx = RingTx::shared(1024, 16 * 1024, 256 * 1024, minimum);
        let config = Config { limits: shape.limits, ..Config::new([7; 32]) };
        let mut stack = Stack::new(config, rx, tx);
        let offloads = Offloads { tx_checksum: shape.offload, ..Offloads::default() };
        let iface = stack
            .add_interface(InterfaceSpec { link: Link::Raw, mtu: 1500, offloads, table: Table(0) })
            .expect("one interface fits every limit");
        let prefix_len = if shape.addr.is_v4() { 8 } else { 64 };
        let cidr = Cidr::new(shape.addr, prefix_len).expect("a prefix of the family");
        stack.add_address(Instant::ZERO, iface, cidr).expect("one address fits every limit");
        stack.set_up(iface, true);
        Side { stack, out: Out::new(pool), burst: Burst::new() }
    }

    /// What the link says about a received packet.
    pub fn meta(offload: bool) -> RxMeta {
        RxMeta {
            checksum: if offload { Checksum::Good } else { Checksum::Unknown },
            ..RxMeta::default()
        }
    }

    /// Segments that it has sent and received.
    pub fn segments(&self) -> (u64, u64) {
        let tcp = &self.stack.counters().tcp;
        (tcp.segs_in, tcp.segs_out)
    }

    /// Takes what `other` has sent, up to a burst; says how many packets it were.
    pub fn take_from(&mut self, other: &mut Side, meta: RxMeta) -> usize {
        let mut n = 0;
        while self.burst.room() > 0 {
            let Some(frame) = other.out.pop() else { break };
            if self.burst.push(frame, meta).is_err() {
                break;
            }
            n += 1;
        }
        n
    }
}

/// The server's port.
pub const PORT: u16 = 80;

/// A virtual turn; longer than any callback needs, much shorter than any protocol timer.
pub const TURN: Duration = Duration::from_micros(10);

/// Addresses of a server and of a client.
pub fn addresses(v6: bool) -> Result<(Addr, Addr)> {
    Ok(if v6 {
        ("fd00::1".parse()?, "fd00::2".parse()?)
    } else {
        ("10.0.0.1".parse()?, "10.0.0.2".parse()?)
    })
}

/// One turn of each side: `client_turn`, which says how many packets it took, and `server_turn` as
/// often as there is something for it. Says how many packets moved.
pub fn turn(
    (server, client): (&mut Side, &mut Side),
    meta: RxMeta,
    client_turn: impl FnOnce(&mut Side) -> usize,
    mut server_turn: impl FnMut(&mut Side),
) -> usize {
    let mut moved = client_turn(client);
    while server.take_from(client, meta) > 0 {
        moved += server.burst.len();
        server_turn(server);
    }
    moved += usize::from(!server.out.is_empty());
    client.take_from(server, meta);
    moved + client.burst.len()
}
