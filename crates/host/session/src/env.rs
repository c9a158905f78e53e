//! The types that the host's stacks are built over.

use clearway_pkt::PoolBuf;
use clearway_proto::{Env, Trace};

use crate::store::{FifoRx, FifoTx};
use crate::traced;

/// The host's stores: the programs' FIFOs.
pub enum HostEnv {}

impl Env for HostEnv {
    type Buf = PoolBuf;
    type Rx = FifoRx;
    type Tx = FifoTx;

    #[inline(always)]
    fn trace(what: Trace<'_>) {
        traced::tell(what);
    }
}

/// The stack of one worker.
pub type HostStack = clearway_proto::Stack<HostEnv>;
