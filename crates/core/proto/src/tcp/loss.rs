//! What counts as a sign of loss: duplicates that are counted, and time that has passed ([`sent`]).

pub(crate) mod prr;
pub(crate) mod reo_wnd;
pub(crate) mod sent;

/// What is asked of an ACK to see whether it is a duplicate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DupTest {
    /// Something that we sent is not acknowledged.
    pub(crate) outstanding: bool,
    /// The segment carries payload, SYN or FIN.
    pub(crate) occupies: bool,
    /// SEG.ACK is SND.UNA.
    pub(crate) ack_is_una: bool,
    /// The segment changes the peer's window.
    pub(crate) window_changed: bool,
    /// Selective acknowledgements are in use on this connection.
    pub(crate) sack: bool,
    /// Bytes that its SACK blocks newly acknowledge.
    pub(crate) newly_sacked: u32,
}

/// Whether an ACK is a duplicate: by RFC 6675 2 one that tells of something new above a hole, and
/// without SACK by RFC 5681 2 one that says nothing at all. Under SACK, an ACK without news is
/// none: then spoofed empty ACKs do nothing (THREATS 22).
pub(crate) fn is_duplicate(t: &DupTest) -> bool {
    if !t.outstanding || !t.ack_is_una {
        return false;
    }
    if t.sack { t.newly_sacked > 0 } else { !t.occupies && !t.window_changed }
}

#[cfg(test)]
mod tests;
