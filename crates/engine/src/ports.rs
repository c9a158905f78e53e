//! The ports of one core as the stack sends into them.

use clearway_dev::Dev;
use clearway_pkt::{Iface, Sink, TxMeta};

/// The devices, in the order of the stack's interfaces.
pub(crate) struct Ports<D> {
    pub(crate) devs: Vec<D>,
    // Frames committed since this was last set to zero.
    pub(crate) committed: u32,
}

impl<D: Dev> Ports<D> {
    pub(crate) fn new(devs: Vec<D>) -> Ports<D> {
        Ports { devs, committed: 0 }
    }
}

impl<D: Dev> Sink for Ports<D> {
    #[inline]
    fn reserve(&mut self, iface: Iface, len: usize) -> Option<&mut [u8]> {
        self.devs.get_mut(usize::from(iface.0))?.reserve(len)
    }

    #[inline]
    fn commit(&mut self, iface: Iface, len: usize, meta: TxMeta) {
        if let Some(dev) = self.devs.get_mut(usize::from(iface.0)) {
            self.committed += 1;
            dev.commit(len, meta);
        }
    }
}
