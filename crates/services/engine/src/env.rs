//! The stores of applications in the same process, and how one core's memory is shared out among
//! its connections.

use clearway_dev::FramePool;
use clearway_pkt::PoolBuf;
use clearway_proto::Env;
use clearway_proto::store::{ChainRx, Minimum, Pots, RingTx};

/// Received bytes stay in the packet buffers that brought them until the application is done with
/// them; sent bytes are copied once, into chunks of an arena.
pub enum Stores {}

impl Env for Stores {
    type Buf = PoolBuf;
    type Rx = ChainRx<PoolBuf>;
    type Tx = RingTx;
}

/// Memory of one core's connections: what is lent to those that need more than their minimum, and
/// the minimum that each has for itself. Pages that were never used cost nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// How many connections there may be, and the bytes that each of them may have written and not
    /// acknowledged, and again those that it may have received and not read, whatever the others
    /// do.
    pub minimum: Minimum,
    /// Chunks of send queues that are lent, and the bytes of each. A packet of 64 KiB leaves a TAP
    /// device in as many pieces as it has chunks, and each piece is a copy of its own in the
    /// kernel: with chunks of 4 KiB a stream is up to a sixth slower.
    pub send_chunks: u32,
    /// See [`Memory::send_chunks`].
    pub send_chunk_len: u32,
    /// Bytes that one connection may have written and not acknowledged while there is plenty.
    pub send_limit: u32,
    /// Bytes of buffers that one connection's unread data may hold on to while there is plenty.
    pub receive_limit: u32,
}

impl Memory {
    /// 256 MiB of send queues, 4 MiB of them for one connection at most, of which it has what its
    /// congestion window is worth; 64 MiB of buffers for one connection's unread data, which are
    /// windows of up to 32 MiB, as far as there are so many; and a minimum of 2 KiB each way for
    /// each of so many connections.
    pub const fn of(connections: u32) -> Memory {
        Memory {
            minimum: Minimum::of(connections),
            send_chunks: 16_384,
            send_chunk_len: 16_384,
            send_limit: 4 << 20,
            receive_limit: 64 << 20,
        }
    }

    /// The stores, whose received bytes stay in buffers of `pool`.
    pub fn stores(&self, pool: &FramePool) -> (ChainRx<PoolBuf>, RingTx) {
        let buffers = (pool.small().count() + pool.large().count()) as u32;
        let kinds = pool.clone();
        let pots: Pots = Box::new(move |len| {
            let kind = if len <= kinds.small().buf_len() { kinds.small() } else { kinds.large() };
            (kind.available(), kind.count())
        });
        let rx = ChainRx::shared(buffers, self.receive_limit, self.minimum, Some(pots));
        (rx, RingTx::shared(self.send_chunks, self.send_chunk_len, self.send_limit, self.minimum))
    }
}
