//! The stores of applications in the same process.

use clearway_pkt::PoolBuf;
use clearway_proto::Env;
use clearway_proto::store::{ChainRx, RingTx};

/// Received bytes stay in the packet buffers that brought them until the application is done with them; sent bytes are copied once, into chunks of an arena.
pub enum Stores {}

impl Env for Stores {
    type Buf = PoolBuf;
    type Rx = ChainRx<PoolBuf>;
    type Tx = RingTx;
}
