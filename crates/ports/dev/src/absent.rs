//! The place of a queue that a core does not have.

use std::os::fd::BorrowedFd;

use clearway_pkt::{Burst, Offloads, PoolBuf, TxMeta};

use crate::{Dev, DevCounters, DevError, Mac, TxDrop};

/// Stands on a core for a port that has no queue for it, so that the port's interface has the same number on all cores. Nothing ever arrives;
/// what is sent is counted as lost because the link is down.
pub struct Absent {
    mtu: usize,
    mac: Option<Mac>,
    offloads: Offloads,
    frame: Box<[u8]>,
    reserved: usize,
    counters: DevCounters,
}

impl Absent {
    /// The place of a queue of a port like this.
    pub fn new(mtu: usize, mac: Option<Mac>, offloads: Offloads) -> Absent {
        Absent { mtu, mac, offloads, frame: Box::default(), reserved: 0, counters: DevCounters::default() }
    }
}

impl Dev for Absent {
    type Buf = PoolBuf;

    fn rx(&mut self, _burst: &mut Burst<PoolBuf>) -> Result<(), DevError> {
        Ok(())
    }

    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        if len > self.frame.len() {
            self.frame = vec![0; len].into_boxed_slice();
        }
        self.reserved = self.frame.len();
        Some(&mut self.frame)
    }

    fn commit(&mut self, len: usize, _meta: TxMeta) {
        let sound = len <= std::mem::take(&mut self.reserved);
        self.counters.drop_tx(if sound { TxDrop::LinkDown } else { TxDrop::BadRequest });
    }

    fn reserved(&self) -> &[u8] {
        &self.frame[..self.reserved]
    }

    fn flush(&mut self) {}

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

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn must_poll(&self) -> bool {
        false
    }

    fn counters(&self) -> DevCounters {
        self.counters
    }
}
