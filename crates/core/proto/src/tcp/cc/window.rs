//! What all congestion controls keep: the window.

use clearway_wire::Seq;

use crate::export::Fields;
use crate::tcp::held::Held16;

/// No window grows beyond this: RFC 7323 2.3 lets no peer offer more than 2^30 bytes.
pub(crate) const MAX_CWND: u32 = 1 << 30;

/// Segments of 1460 bytes are what RFC 6928 2 derives its ten from: longer ones get as many bytes,
/// not as many segments.
const IW_SEGMENT: u32 = 1460;

/// L of RFC 9406 4.3 where data is not paced, the most that slow start may grow by for one ACK, in
/// units: 64 KiB. Receivers join segments into pieces of so many bytes, whatever the sender's device
/// does, and answer each with one ACK: slow start that takes less from it grows by half in many a
/// round trip and does not double.
const JOINED: u8 = 16;

/// log2 of the bytes in such a unit.
const UNIT_SHIFT: u32 = 12;

/// What all algorithms keep: the window, and how much of it was in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    /// Bytes that may be in flight.
    pub(super) cwnd: u32,
    /// Above it, growth is slow.
    pub(super) ssthresh: u32,
    /// The most that was in flight in this round trip, which lasts until `used_until` is
    /// acknowledged.
    pub(super) used: u32,
    pub(super) used_until: Seq,
    pub(super) mss: u16,
    /// Where the state of an algorithm lies that goes by rates, and what paces.
    pub(super) paced: Held16,
    /// Initial window, in segments.
    pub(super) iw: u8,
    /// What slow start may grow by for one ACK, in units of `1 << UNIT_SHIFT` bytes.
    pub(super) ack_limit: u8,
    /// The window was what ended the last burst.
    pub(super) full: bool,
}

impl Window {
    /// For a connection that has just been established, with payloads of at most `mss` bytes and
    /// `iw` segments of initial window.
    pub(crate) fn new(mss: u16, iw: u8) -> Window {
        let mut w = Window {
            cwnd: 0,
            ssthresh: u32::MAX,
            used: 0,
            used_until: Seq(0),
            mss: mss.max(1),
            paced: Held16::NONE,
            iw: iw.max(1),
            ack_limit: most_of_an_ack(0, mss.into()),
            full: false,
        };
        w.cwnd = w.initial();
        w
    }

    pub(super) fn mss(&self) -> u32 {
        u32::from(self.mss)
    }

    /// RFC 6928 2: min(10 MSS, max(2 MSS, 14600)), with the configured number in place of ten.
    pub(super) fn initial(&self) -> u32 {
        let n = u32::from(self.iw);
        (n * self.mss()).min((2 * self.mss()).max(n * IW_SEGMENT))
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// The most that slow start may grow by for an ACK of `acked` bytes.
    pub(super) fn counted(&self, acked: u32) -> u32 {
        // RFC 9406 4.3: L is infinite where data is paced.
        let most = u32::from(self.ack_limit) << UNIT_SHIFT;
        acked.min(if self.paced.is_none() { most } else { u32::MAX })
    }

    /// Slow start for `acked` bytes; returns those that are left over for congestion avoidance.
    pub(super) fn slow_start(&mut self, acked: u32) -> u32 {
        let counted = self.counted(acked);
        let room = self.ssthresh.min(MAX_CWND).saturating_sub(self.cwnd);
        let step = counted.min(room);
        self.cwnd += step;
        counted - step
    }

    /// New data left; `una` and `nxt` as they are after it. A burst may be told as one.
    #[inline(always)]
    pub(crate) fn on_sent(&mut self, una: Seq, nxt: Seq) {
        let flight = nxt.since(una);
        let full = flight.saturating_add(self.mss()) > self.cwnd;
        // The fullest moment of a round trip speaks for it: the ACKs of one burst arrive while the
        // flight shrinks.
        if full || flight > self.used || una.ge(self.used_until) {
            self.used = flight;
            self.used_until = nxt;
            self.full = full;
        }
    }

    /// Whether the window was what held the sender back in this round trip: what belongs into
    /// [`super::AckInfo::cwnd_limited`]. In slow start half a window in use is enough, because the
    /// window doubles in a round trip.
    #[inline(always)]
    pub(crate) fn is_limited(&self) -> bool {
        self.full || (self.in_slow_start() && self.cwnd / 2 < self.used)
    }

    /// ssthresh comes down to `part` of the flight (RFC 5681 equation 4: never below two segments),
    /// in whole segments: less than one is never in flight, but each step of growth would take as
    /// much longer, a tenth of the window where that is five segments.
    pub(super) fn cut(&mut self, part: u32) {
        self.cut_finely(part - part % self.mss());
    }

    /// The same to the byte, for who may cut by less than a segment.
    fn cut_finely(&mut self, part: u32) {
        self.ssthresh = part.max(2 * self.mss());
    }

    /// ssthresh comes down to `part` of the flight, and the window to ssthresh.
    pub(super) fn cut_to(&mut self, part: u32) {
        self.cut(part);
        self.cwnd = self.ssthresh;
    }

    /// The same to the byte.
    pub(super) fn cut_finely_to(&mut self, part: u32) {
        self.cut_finely(part);
        self.cwnd = self.ssthresh;
    }

    /// Bytes that may be in flight.
    #[inline]
    pub(crate) fn cwnd(&self) -> u32 {
        self.cwnd
    }

    /// The most that was in flight in this round trip.
    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    /// The slow-start threshold; `u32::MAX` before the first loss.
    pub(crate) fn ssthresh(&self) -> u32 {
        self.ssthresh
    }

    /// The path takes segments of another size. The window stays as many bytes, but never less than
    /// one segment.
    pub(crate) fn set_mss(&mut self, mss: u16) {
        self.mss = mss.max(1);
        self.cwnd = self.cwnd.max(self.mss());
        self.ssthresh = self.ssthresh.max(2 * self.mss());
    }

    /// The device cuts pieces of up to `bytes` into segments (TSO): slow start may grow by as much
    /// for one ACK as we sent as one, and by what receivers join in any case.
    pub(crate) fn set_burst(&mut self, bytes: u32) {
        self.ack_limit = most_of_an_ack(bytes, self.mss());
    }

    /// Where the state of an algorithm lies that goes by rates, and what paces.
    #[inline]
    pub(crate) fn paced(&self) -> Held16 {
        self.paced
    }

    /// It lies there from now on.
    pub(crate) fn set_paced(&mut self, paced: Held16) {
        self.paced = paced;
    }

    pub(super) fn collapse(&mut self) {
        self.cwnd = self.mss();
    }
}

/// The longest segments of which eight are no more than is joined.
const SHORT: u32 = ((JOINED as u32) << UNIT_SHIFT) / 8;

/// L in units for segments of `mss` bytes, eight of which it is at least, and pieces of so many
/// `bytes`.
#[inline]
fn most_of_an_ack(bytes: u32, mss: u32) -> u8 {
    if bytes == 0 && mss <= SHORT {
        return JOINED;
    }
    let units = bytes.max(8 * mss).div_ceil(1 << UNIT_SHIFT);
    units.clamp(JOINED.into(), u8::MAX.into()) as u8
}

impl Window {
    /// Its part of a record ([`crate::export`]), in the numbers from `from` on.
    pub(crate) fn fields(&mut self, from: u16, f: &mut impl Fields) {
        let Window { cwnd, ssthresh, used, used_until, mss, paced: _, iw, ack_limit, full } = self;
        f.u32(from, cwnd);
        f.u32(from + 1, ssthresh);
        f.u32(from + 3, used);
        f.seq(from + 4, used_until);
        f.u16(from + 5, mss);
        f.u8(from + 6, iw);
        f.u8(from + 7, ack_limit);
        f.bool(from + 8, full);
        // A window below one segment would never open again.
        (*mss, *iw, *ack_limit) = ((*mss).max(1), (*iw).max(1), (*ack_limit).max(1));
        *cwnd = (*cwnd).clamp(u32::from(*mss), MAX_CWND);
        *ssthresh = (*ssthresh).max(2 * u32::from(*mss));
    }
}
