//! Where the stack puts packets that it sends.

use crate::{Iface, TxMeta};

/// Room for outgoing frames. The stack asks for room *before* it changes any state, writes the packet straight into it, and commits.
/// Room that is not committed is as if it had never been asked for.
pub trait Sink {
    /// Room for one frame of up to `len` bytes on `iface`, at least `len` bytes long; None while the interface takes no more. The bytes may hold anything.
    fn reserve(&mut self, iface: Iface, len: usize) -> Option<&mut [u8]>;

    /// Whether `iface` takes no frame of whatever length now.
    #[inline]
    fn is_full(&mut self, iface: Iface) -> bool {
        let _ = iface;
        false
    }

    /// Sends the first `len` bytes of the room that was reserved last on `iface`.
    fn commit(&mut self, iface: Iface, len: usize, meta: TxMeta);
}
