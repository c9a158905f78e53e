//! Where the stack puts packets that it sends.

use crate::{Iface, TxMeta};

/// Room for outgoing frames. The stack asks for room *before* it changes any state, writes the
/// packet straight into it, and commits. Room that is not committed is as if it had never been
/// asked for.
pub trait Sink {
    /// Room for one frame of up to `len` bytes on `iface`, at least `len` bytes long; None while
    /// the interface takes no more. The bytes may hold anything.
    fn reserve(&mut self, iface: Iface, len: usize) -> Option<&mut [u8]>;

    /// Whether `iface` takes no frame of whatever length now.
    #[inline]
    fn is_full(&mut self, iface: Iface) -> bool {
        let _ = iface;
        false
    }

    /// Sends the first `len` bytes of the room that was reserved last on `iface`.
    fn commit(&mut self, iface: Iface, len: usize, meta: TxMeta);

    /// Whether a frame on `iface` may be committed in pieces now, by [`Sink::commit_gathered`], so
    /// that its bytes need not be copied into the room.
    #[inline]
    fn gathers(&self, iface: Iface) -> bool {
        let _ = iface;
        false
    }

    /// Sends a frame that begins with the first `head` bytes of the room that was reserved last on
    /// `iface`, and goes on with `body`, piece after piece, [`MAX_PIECES`] at most. Only called
    /// where [`Sink::gathers`] has agreed, and the room was asked for for the whole frame.
    fn commit_gathered(&mut self, iface: Iface, head: usize, body: &[&[u8]], meta: TxMeta) {
        let _ = (iface, head, body, meta);
        debug_assert!(false, "this sink gathers no pieces");
    }
}

/// Pieces of one frame at most: 64 KiB in chunks of 4 KiB, and some to spare.
pub const MAX_PIECES: usize = 20;
