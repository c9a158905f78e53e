//! The place of a queue that a core does not have.

use clearway_pkt::{Burst, Offloads, PoolBuf, TxMeta};

use crate::staging::Staging;
use crate::{DevCounters, DevError, Facts, Mac, Receive, Transmit, TxDrop};

/// Stands on a core for a port that has no queue for it, so that the port's interface has the same
/// number on all cores. Nothing ever arrives; what is sent is counted as lost because the link is
/// down.
pub struct Absent {
    mtu: usize,
    mac: Option<Mac>,
    offloads: Offloads,
    staging: Staging,
    counters: DevCounters,
}

impl Absent {
    /// The place of a queue of a port like this.
    pub fn new(mtu: usize, mac: Option<Mac>, offloads: Offloads) -> Absent {
        Absent { mtu, mac, offloads, staging: Staging::new(0), counters: DevCounters::default() }
    }
}

impl Receive for Absent {
    type Buf = PoolBuf;

    fn rx(&mut self, _burst: &mut Burst<PoolBuf>) -> Result<(), DevError> {
        Ok(())
    }
}

impl Transmit for Absent {
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        self.staging.reserve_grown(len)
    }

    fn commit(&mut self, len: usize, _meta: TxMeta) {
        let why =
            if self.staging.commit(len).is_some() { TxDrop::LinkDown } else { TxDrop::BadRequest };
        self.counters.drop_tx(why);
    }

    fn reserved(&self) -> &[u8] {
        self.staging.reserved()
    }
}

impl Facts for Absent {
    fn offloads(&self) -> Offloads {
        self.offloads
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn set_mtu(&mut self, mtu: usize) -> Result<(), DevError> {
        self.mtu = mtu;
        Ok(())
    }

    fn mac(&self) -> Option<Mac> {
        self.mac
    }

    fn counters(&self) -> DevCounters {
        self.counters
    }
}
