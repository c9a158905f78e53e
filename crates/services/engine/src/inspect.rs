//! Somebody who looks at every frame: captures and rules.

use clearway_pkt::{Iface, RxMeta, TxMeta};
use clearway_proto::Drop;

use crate::Time;

/// What becomes of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It goes on.
    Pass,
    /// It is as if it had never been there. Whoever says so counts it.
    Drop,
}

/// Sees every frame between the ports and the stack, in the order in which they pass; see
/// [`crate::Engine::set_inspector`]. An engine without one pays nothing.
///
/// Frames begin with their Ethernet header on interfaces that have one, and with their IP header on
/// others. One that the device joined, or will cut, is seen whole, and a checksum that is left to
/// the device is not made yet: the meta data tell.
pub trait Inspect {
    /// A frame on its way to the stack.
    fn rx(&mut self, time: Time, iface: Iface, frame: &[u8], meta: &RxMeta) -> Verdict;

    /// A frame on its way to the port. When it is dropped here the stack believes that it was sent.
    fn tx(&mut self, time: Time, iface: Iface, frame: &[u8], meta: &TxMeta) -> Verdict;

    /// The stack dropped a frame that had passed [`Inspect::rx`], for the reason given; `head` is
    /// at least its first part.
    fn dropped(&mut self, time: Time, iface: Iface, head: &[u8], why: Drop) {
        let _ = (time, iface, head, why);
    }

    /// Whether [`Inspect::dropped`] is to be called: it costs a copy of each frame's head.
    fn wants_drops(&self) -> bool {
        false
    }
}
