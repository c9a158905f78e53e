//! How fast data arrives at the peer, measured many times in a round trip (draft-ietf-ccwg-bbr
//! 4.1): for algorithms that go by rates. Whoever does without keeps nothing of this, and
//! [`super::rate`] tells its owner one measurement in a round trip.
//!
//! ```text
//!      a marker leaves                      it is acknowledged
//!   ────────┬──────────────────────────────────────┬──────────▶ time
//!           │ delivered, and when that was          │ delivered, now
//!           └──────── rate = difference / longer of (time of sending, time of acknowledging) ───┘
//! ```
//!
//! What the draft keeps of every segment is kept of *markers*: the end of what left at one time, at
//! most every sixteenth part of a round trip. What lies between them needs no sample of its own.

use clearway_base::{Duration, Instant};
use clearway_wire::Seq;

use super::sack::Scoreboard;
use super::span::Span;

/// Markers in flight at most. There are sixteen in a round trip; a path that becomes slower takes
/// more.
pub(crate) const MARKERS: usize = 32;

const NANOS: u128 = 1_000_000_000;

/// A clock whose steps are longer than this is coarse: between two of them a good part of a round
/// trip goes by. Then what is delivered is counted from the first ACK of a step to the first of
/// another, which come when the clock says; any other may come as much as a step later.
pub(crate) const COARSE: Duration = Duration::from_millis(2);

/// The end of what left at one time, and how things stood then: the P of the draft.
#[derive(Clone, Copy, Debug)]
struct Marker {
    end: Seq,
    in_flight: u32,
    sent: Instant,
    first_sent: Instant,
    delivered_at: Instant,
    delivered: u64,
    /// What of that the ACKs behind the first of that time have brought.
    in_step: u32,
    lost: u64,
    is_app_limited: bool,
    again: bool,
}

impl Marker {
    /// Sent later, or behind.
    fn is_newer(&self, other: &Marker) -> bool {
        self.sent > other.sent || (self.sent == other.sent && self.end.gt(other.end))
    }
}

/// What one ACK says of rates: the RS of the draft.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct RateSample {
    /// Bytes that were not known to have arrived before.
    pub newly_acked: u32,
    /// Bytes that were not known to be lost before.
    pub newly_lost: u64,
    /// What had been delivered when the marker left; None: no marker has arrived, and what follows
    /// says nothing.
    pub prior_delivered: Option<u64>,
    /// Delivered since.
    pub delivered: u64,
    /// Bytes in a second; 0 where the time is too short to tell.
    pub rate: u64,
    /// From the marker's sending to now, unless it was sent twice.
    pub rtt: Option<Duration>,
    /// In flight when the marker left.
    pub tx_in_flight: u32,
    /// Lost since the marker left.
    pub lost: u64,
    /// The owner had too little to send when it left.
    pub is_app_limited: bool,
    /// Before this no ACK has come at this time, as far as a coarse clock can tell.
    pub is_first: bool,
}

/// The estimator of one connection: the C of the draft.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    /// Bytes delivered in all, and when that last became more.
    delivered: u64,
    delivered_at: Instant,
    /// What had been delivered with the first ACK of that time.
    at_step: u64,
    /// When the first of what is being measured left.
    first_sent: Instant,
    /// Bytes lost in all, as far as is known.
    lost: u64,
    /// The owner had too little to send until so much was delivered; 0: he has enough.
    app_limited: u64,
    /// SND.UNA, and the bytes held above it, as the last ACK said.
    una: Seq,
    held: u32,
    count: u8,
    markers: [Marker; MARKERS],
}

impl Delivery {
    /// For a connection whose SND.UNA is `una`, with `held` bytes selectively acknowledged.
    pub(crate) fn new(una: Seq, held: u32, now: Instant) -> Delivery {
        let none = Marker {
            end: una,
            in_flight: 0,
            sent: now,
            first_sent: now,
            delivered_at: now,
            delivered: 0,
            in_step: 0,
            lost: 0,
            is_app_limited: false,
            again: false,
        };
        Delivery {
            delivered: 0,
            delivered_at: now,
            at_step: 0,
            first_sent: now,
            lost: 0,
            app_limited: 0,
            una,
            held,
            count: 0,
            markers: [none; MARKERS],
        }
    }

    /// Bytes delivered in all.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Whether the owner has too little to send.
    pub(crate) fn is_app_limited(&self) -> bool {
        self.app_limited > 0
    }

    fn markers(&mut self) -> &mut [Marker] {
        self.markers.get_mut(..usize::from(self.count)).unwrap_or_default()
    }

    /// A marker for what leaves now.
    fn marker(&self, end: Seq, in_flight: u32, now: Instant, again: bool) -> Marker {
        Marker {
            end,
            in_flight,
            sent: now,
            first_sent: self.first_sent,
            delivered_at: self.delivered_at,
            delivered: self.delivered,
            in_step: (self.delivered - self.at_step) as u32,
            lost: self.lost,
            is_app_limited: self.app_limited > 0,
            again,
        }
    }

    /// New bytes up to `end` left; `before` bytes were in flight, and `srtt` is what a round trip
    /// takes.
    pub(crate) fn on_sent(
        &mut self,
        (before, len): (u32, u32),
        end: Seq,
        now: Instant,
        srtt: Duration,
    ) {
        if before == 0 {
            self.restart(now);
        }
        let in_flight = before.saturating_add(len);
        if let Some(last) = self.markers().last_mut() {
            if last.sent == now && !last.again {
                (last.end, last.in_flight) = (end, in_flight);
                return;
            }
            if now.since(last.sent) < srtt.per(MARKERS as u64 / 2) {
                return;
            }
        }
        let marker = self.marker(end, in_flight, now, false);
        if let Some(place) = self.markers.get_mut(usize::from(self.count)) {
            *place = marker;
            self.count += 1;
        }
    }

    fn restart(&mut self, now: Instant) {
        (self.first_sent, self.delivered_at, self.at_step) = (now, now, self.delivered);
    }

    /// `span` left once more; `before` bytes were in flight.
    pub(crate) fn on_sent_again(&mut self, before: u32, span: Span, now: Instant) {
        if before == 0 {
            // All was lost: the time that it took to see that says nothing of how fast data arrives.
            self.restart(now);
        }
        let in_flight = before.saturating_add(span.len());
        let anew = self.marker(span.end, in_flight, now, true);
        for marker in
            self.markers().iter_mut().filter(|m| m.end.gt(span.start) && m.end.le(span.end))
        {
            *marker = Marker { end: marker.end, ..anew };
        }
    }

    /// The owner has nothing more to send while the congestion window would let more out, with
    /// `in_flight` bytes in flight.
    pub(crate) fn app_limits(&mut self, in_flight: u32) {
        self.app_limited = (self.delivered + u64::from(in_flight)).max(1);
    }

    /// The oldest of what is in flight, as far as it is marked: what was in flight when it left,
    /// what was lost since, and whether it was limited.
    pub(crate) fn oldest(&self) -> Option<(u32, u64, bool)> {
        // What was sent again has left anew: by then less was in flight, and what is lost now had
        // left before it.
        let markers = self.markers.get(..usize::from(self.count)).unwrap_or_default();
        let first =
            markers.iter().reduce(|oldest, m| if oldest.is_newer(m) { m } else { oldest })?;
        Some((first.in_flight, self.lost - first.lost.min(self.lost), first.is_app_limited))
    }

    /// An ACK has come, by a clock with such steps. All below `una` has arrived, and what `board` says; `lost` bytes were lost
    /// in all. No time is told that is shorter than `min_rtt`: then the ACK was for something else.
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        (una, board): (Seq, Option<&Scoreboard>),
        lost: u64,
        (min_rtt, clock_step): (Duration, Duration),
    ) -> RateSample {
        let held = board.map_or(0, Scoreboard::bytes);
        let newly =
            (i64::from(una.since(self.una)) + i64::from(held) - i64::from(self.held)).max(0) as u32;
        (self.una, self.held) = (una, held);
        let newly_lost = lost.saturating_sub(self.lost);
        self.lost = self.lost.max(lost);
        let is_coarse = clock_step > COARSE;
        let is_first = !is_coarse || now != self.delivered_at;
        if newly > 0 {
            self.delivered += u64::from(newly);
            if is_first {
                self.at_step = self.delivered;
            }
            self.delivered_at = now;
        }
        let mut sample =
            RateSample { newly_acked: newly, newly_lost, is_first, ..RateSample::default() };
        if let Some(marker) = self.take_delivered(una, board) {
            self.measure(&marker, now, min_rtt, &mut sample);
        }
        if is_coarse {
            // Half a step is the least that can be told: twice that, which may be in flight, lasts
            // for the round trip that it stands for.
            sample.rtt = sample.rtt.map(|rtt| rtt.max(clock_step.per(2)));
        }
        if self.app_limited > 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        sample
    }

    /// Takes the markers that have arrived out; returns the newest of them.
    fn take_delivered(&mut self, una: Seq, board: Option<&Scoreboard>) -> Option<Marker> {
        let has_arrived = |m: &Marker| {
            m.end.le(una)
                || board.is_some_and(|b| b.first_missing(Span::new(m.end - 1, m.end)).is_none())
        };
        let (mut newest, mut kept): (Option<Marker>, usize) = (None, 0);
        for at in 0..usize::from(self.count) {
            let Some(marker) = self.markers.get(at).copied() else { break };
            if !has_arrived(&marker) {
                if let Some(place) = self.markers.get_mut(kept) {
                    *place = marker;
                }
                kept += 1;
            } else if newest.is_none_or(|n| marker.is_newer(&n)) {
                newest = Some(marker);
            }
        }
        self.count = kept as u8;
        newest
    }

    fn measure(
        &mut self,
        marker: &Marker,
        now: Instant,
        min_rtt: Duration,
        sample: &mut RateSample,
    ) {
        let rtt = now.since(marker.sent);
        sample.prior_delivered = Some(marker.delivered);
        sample.delivered = self.delivered - marker.delivered;
        sample.rtt = (!marker.again).then_some(rtt);
        sample.tx_in_flight = marker.in_flight;
        sample.lost = self.lost - marker.lost.min(self.lost);
        sample.is_app_limited = marker.is_app_limited;
        self.first_sent = self.first_sent.max(marker.sent);
        let interval =
            marker.sent.since(marker.first_sent).max(self.delivered_at.since(marker.delivered_at));
        if interval >= min_rtt && interval > Duration::ZERO {
            let before = marker.delivered - u64::from(marker.in_step);
            let delivered = self.at_step - before.min(self.at_step);
            let rate = u128::from(delivered) * NANOS / u128::from(interval.as_nanos());
            sample.rate = rate.min(u128::from(u64::MAX)) as u64;
        }
    }
}

#[cfg(test)]
mod tests;
