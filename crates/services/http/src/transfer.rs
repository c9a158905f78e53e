//! A response on its way.

use crate::body::Body;

/// A response under way: head bytes, then body bytes.
pub struct Transfer {
    pub(crate) head: Vec<u8>,
    /// Head bytes that are handed over; the body counts its own.
    pub(crate) sent: usize,
    pub(crate) body: Body,
}

impl Transfer {
    /// Both from their starts.
    pub fn new(head: Vec<u8>, body: Body) -> Transfer {
        Transfer { head, sent: 0, body }
    }
}
