//! The send sequence space (RFC 9293 3.3.1, figure 3).
//!
//! ```text
//!        acknowledged          in flight            may be sent         must wait
//!   ────────────────────┬─────────────────────┬──────────────────┬────────────────────▶
//!                       └ una                 └ nxt              └ una + wnd
//!                         the oldest byte in the send queue                    end ┘ (once closed: our FIN)
//! ```

use clearway_wire::Seq;

use crate::export::Fields;

/// The send variables, with the RFC's names.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Snd {
    /// SND.UNA: the oldest number not acknowledged.
    pub una: Seq,
    /// SND.NXT: the first number never sent.
    pub nxt: Seq,
    /// SND.WND: the peer's window, in bytes.
    pub wnd: u32,
    /// SND.WL1: SEG.SEQ of the segment that last set the window.
    pub wl1: Seq,
    /// SND.WL2: SEG.ACK of the segment that last set the window.
    pub wl2: Seq,
    /// The shift of the peer's windows (RFC 7323 2).
    pub shift: u8,
    /// Window scaling is in use (RFC 7323 2), also with a shift of 0.
    pub scales: bool,
    /// The MTU of the path that segments were made to fit; 0: none.
    pub fits_mtu: u16,
}

impl Snd {
    /// Bytes that the peer's window still takes: SND.UNA + SND.WND - SND.NXT, zero when the window
    /// shrank below what is out.
    #[inline]
    pub(crate) fn usable(&self) -> u32 {
        self.wnd.saturating_sub(self.nxt.since(self.una))
    }

    /// Whether a segment may set the window (RFC 9293 3.10.7.4, step 5: not from an older segment
    /// than the last that did).
    #[inline]
    pub(crate) fn is_newer(&self, seq: Seq, ack: Seq) -> bool {
        self.wl1.lt(seq) || (self.wl1 == seq && self.wl2.le(ack))
    }
}

/// No receiver's buffer is taken to be smaller: the segment that all must accept (RFC 9293 3.7.1).
/// Half of it is the least that is sent into a window that has room for no more.
const LEAST_BUFFER: u32 = 536;

/// What is seldom looked at of the send side.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct SndAhead {
    /// The largest window that the peer offered (RFC 9293 3.8.6.2.1; MAX.SND.WND of RFC 5961 5.2)
    /// since [`SndAhead::forget_larger_windows`].
    pub max_wnd: u32,
    /// Once the owner has closed: the number of our FIN, behind the last byte.
    pub end: Seq,
    /// The end of the last segment that left with less than a full payload (Nagle as Minshall has
    /// it).
    pub small: Seq,
}

impl Snd {
    /// Its part of a record ([`crate::export`]).
    pub(crate) fn fields(&mut self, f: &mut impl Fields) {
        // What segments fit is found out again with the first one that leaves.
        let Snd { una, nxt, wnd, wl1, wl2, shift, scales, fits_mtu: _ } = self;
        f.seq(100, una);
        f.seq(101, nxt);
        f.u32(102, wnd);
        f.seq(103, wl1);
        f.seq(104, wl2);
        f.u8(105, shift);
        f.bool(106, scales);
    }
}

impl SndAhead {
    /// A window of `wnd` bytes was too small to be worth a segment for as long as may be waited: it
    /// is what the peer has by now. A receiver whose buffer shrank would cost that wait for each
    /// window, and RFC 9293 3.8.6.2.1 takes Max(SND.WND) for an estimate of that buffer.
    #[cold]
    pub(crate) fn forget_larger_windows(&mut self, wnd: u32) {
        self.max_wnd = self.max_wnd.min(wnd.max(LEAST_BUFFER));
    }

    /// Its part of a record ([`crate::export`]).
    pub(crate) fn fields(&mut self, f: &mut impl Fields) {
        let SndAhead { max_wnd, end, small } = self;
        f.u32(110, max_wnd);
        f.seq(111, end);
        f.seq(113, small);
    }
}
