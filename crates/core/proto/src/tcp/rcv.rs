//! The receive sequence space (RFC 9293 3.3.1, figure 4).
//!
//! ```text
//!        received in order       holes and pieces        not offered
//!   ──────────────────────┬───────────────────────┬──────────────────────▶
//!              acked ┘    └ nxt                   └ edge: never moves left (RFC 9293 3.8.6, SHLD-14)
//! ```

use clearway_wire::Seq;

use crate::export::Fields;

/// [`Rcv::quick`]: an ACK waits for data of ours that takes it along.
pub(crate) const DELAYED: u8 = 0;
/// Nothing of ours has left since an ACK waited in vain, or ever: what was pushed is acknowledged at
/// once, for to wait again would only keep a peer waiting whom Nagle or a small buffer holds back.
pub(crate) const PUSHED: u8 = 1;
/// One ACK more that is not delayed: a peer in slow start needs it.
pub(crate) const QUICK: u8 = 2;

/// The receive variables, with the RFC's names.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Rcv {
    /// RCV.NXT: the number expected next.
    pub nxt: Seq,
    /// The right edge of the window that we offered last: RCV.NXT + RCV.WND.
    pub edge: Seq,
    /// Last.ACK.sent (RFC 7323 4.3): the acknowledgement that we sent last.
    pub acked: Seq,
    /// How often RCV.NXT passed zero, to know how much was received in all.
    pub wraps: u16,
    /// The window field that we sent last.
    pub field: u16,
    /// The shift of the windows that we send (RFC 7323 2).
    pub shift: u8,
    /// Which ACKs leave at once: [`QUICK`] for each of so many, and [`PUSHED`].
    pub quick: u8,
    /// Early segments of this turn that a peer without SACK is owed a duplicate ACK for, one each:
    /// it counts them.
    pub owed: u8,
    /// How many bytes may be offered and unread: a step of [`super::sizes`].
    pub step: u8,
}

/// So many ACKs are not delayed at the start of a connection, and behind a loss (as many as Linux's
/// `TCP_MAX_QUICKACKS`).
pub(crate) const QUICK_ACKS: u8 = 16;

impl Rcv {
    /// So many of the next ACKs at least are not delayed.
    pub(crate) fn answer_quickly(&mut self, acks: u8) {
        self.quick = self.quick.max((acks * QUICK) | (self.quick & PUSHED));
    }

    /// The sender has lost something, or what it sent was reordered. After a timeout it sends one
    /// segment, then two, then three, and would wait for the ACK of each one that is alone.
    pub(crate) fn answer_loss(&mut self) {
        self.answer_quickly(QUICK_ACKS);
    }
}

/// What is seldom looked at of the receive side.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct RcvAhead {
    /// The number of the peer's FIN, when it came ahead of something that is missing
    /// ([`super::marks::Marks::FIN_WAITS`]); before that, the number at which the size of the
    /// window is looked at ([`super::right_size`]).
    pub look: Seq,
}

/// What is left of a segment once it was cut to the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cut {
    /// Bytes to take off its front: they were received before.
    pub front: u32,
    /// Payload bytes to keep behind them.
    pub len: u32,
    /// Its FIN lies in the window too.
    pub fin: bool,
}

impl Rcv {
    /// RCV.WND.
    #[inline]
    pub(crate) fn wnd(&self) -> u32 {
        let left = self.edge.since(self.nxt);
        if left > u32::MAX >> 1 { 0 } else { left }
    }

    /// RFC 9293 3.10.7.4, step 1, table 6: whether any part of a segment of `len` (SYN and FIN
    /// counted) lies in the window.
    #[inline]
    pub(crate) fn is_acceptable(&self, seq: Seq, len: u32) -> bool {
        let wnd = self.wnd();
        match (len, wnd) {
            (0, 0) => seq == self.nxt,
            (0, _) => seq.within(self.nxt, wnd),
            (_, 0) => false,
            // The two ends of RFC 9293's test, and the segment that begins before and ends behind a
            // small window.
            _ => {
                seq.within(self.nxt, wnd)
                    || (seq + (len - 1)).within(self.nxt, wnd)
                    || (seq.lt(self.nxt) && (seq + len).gt(self.nxt))
            }
        }
    }

    /// Cuts the acceptable segment at `seq`, `len` payload bytes and perhaps a FIN, to what lies in
    /// the window and is new.
    #[inline]
    pub(crate) fn cut(&self, seq: Seq, len: u32, fin: bool) -> Cut {
        let wnd = self.wnd();
        let front = if seq.lt(self.nxt) { self.nxt.since(seq) } else { 0 };
        if front > len {
            // All data and the FIN were received before.
            return Cut { front: len, len: 0, fin: false };
        }
        let at = (seq + front).since(self.nxt);
        let fits = wnd.saturating_sub(at).min(len - front);
        // A FIN right behind the window's last byte is taken all the same: it needs no buffer, and
        // a peer that closes into a full window would else have to wait for nothing.
        Cut { front, len: fits, fin: fin && fits == len - front }
    }

    /// RCV.NXT moves over `n` numbers of the window.
    #[inline(always)]
    pub(crate) fn advance_within(&mut self, n: u32) {
        debug_assert!(n <= self.wnd());
        let to = self.nxt + n;
        self.wraps = self.wraps.wrapping_add(u16::from(to.0 < self.nxt.0));
        self.nxt = to;
    }

    /// RCV.NXT moves over `n` numbers.
    #[inline]
    pub(crate) fn advance(&mut self, n: u32) {
        let to = self.nxt + n;
        if to.0 < self.nxt.0 {
            self.wraps = self.wraps.wrapping_add(1);
        }
        self.nxt = to;
        // A FIN may lie one behind the edge.
        self.edge = self.edge.max(self.nxt);
    }
}

impl Rcv {
    /// Its part of a record ([`crate::export`]).
    pub(crate) fn fields(&mut self, f: &mut impl Fields) {
        let Rcv { nxt, edge, acked, wraps, field, shift, quick, owed, step } = self;
        f.seq(120, nxt);
        f.seq(121, edge);
        f.seq(122, acked);
        f.u16(123, wraps);
        f.u16(124, field);
        f.u8(125, shift);
        f.u8(126, quick);
        f.u8(127, owed);
        f.u8(128, step);
    }
}

impl RcvAhead {
    /// Its part of a record ([`crate::export`]).
    pub(crate) fn fields(&mut self, f: &mut impl Fields) {
        let RcvAhead { look } = self;
        f.seq(131, look);
    }
}

#[cfg(test)]
mod tests;
