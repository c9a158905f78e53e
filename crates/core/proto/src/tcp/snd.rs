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

/// Bits of [`FitsTwice`] beside its exponent, and the least that it says.
const MANTISSA: u32 = 4;
const LEAST_SAID: u32 = (1 << MANTISSA) + 1;

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

/// The longest payload that a buffer takes twice whose windows are as large as `wnd` at most: with
/// at least two segments in it the second can leave while the first is read, and RFC 9293 3.8.6.2.1
/// would let nothing out into less than half of it behind another. A buffer that is smaller than
/// what all must accept takes one segment.
pub(crate) fn half_of(wnd: u32) -> u16 {
    let half = if wnd <= LEAST_BUFFER { wnd } else { wnd / 2 };
    half.min(u16::MAX.into()) as u16
}

/// [`half_of`] the largest window that the peer ever offered, rounded down by less than a
/// sixteenth: four bits of an exponent, and four of what it shifts beside a 1.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct FitsTwice(u8);

impl FitsTwice {
    /// No window was offered.
    pub(crate) const UNKNOWN: FitsTwice = FitsTwice(0);

    /// `half`, rounded.
    pub(crate) fn of(half: u16) -> FitsTwice {
        // The least is not that of no window.
        let half = u32::from(half).max(LEAST_SAID);
        let shift = half.ilog2() - MANTISSA;
        FitsTwice((shift << MANTISSA | half >> shift & ((1 << MANTISSA) - 1)) as u8)
    }

    /// In bytes.
    #[inline(always)]
    pub(crate) fn bytes(self) -> u32 {
        let said = u32::from(self.0);
        (1 << MANTISSA | said & ((1 << MANTISSA) - 1)) << (said >> MANTISSA)
    }

    /// Its part of a record ([`crate::export`]).
    pub(crate) fn fields(&mut self, f: &mut impl Fields) {
        f.u8(114, &mut self.0);
    }
}

impl Snd {
    /// Its part of a record ([`crate::export`]).
    pub(crate) fn fields(&mut self, f: &mut impl Fields) {
        // See `size_is_new`.
        let Snd { una, nxt, wnd, wl1, wl2, shift, scales, fits_mtu: _ } = self;
        f.seq(100, una);
        f.seq(101, nxt);
        f.u32(102, wnd);
        f.seq(103, wl1);
        f.seq(104, wl2);
        f.u8(105, shift);
        f.bool(106, scales);
    }

    /// What segments fit is found out again with the first one that leaves.
    pub(crate) fn size_is_new(&mut self) {
        self.fits_mtu = 0;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_window_is_kept_with_less_than_a_sixteenth_lost() {
        for half in 17..=u16::MAX {
            let kept = FitsTwice::of(half);
            assert_ne!(kept, FitsTwice::UNKNOWN);
            let (bytes, half) = (kept.bytes(), u32::from(half));
            assert!(bytes <= half && half - bytes <= half / 16, "{half}: {bytes}");
        }
        assert_eq!((half_of(536), half_of(538), half_of(1 << 30)), (536, 269, u16::MAX));
    }
}
