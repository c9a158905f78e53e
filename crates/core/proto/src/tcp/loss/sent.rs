//! When what is in flight was sent, and what is lost for the time that has passed since (RFC 8985).
//!
//! ```text
//!   SND.UNA                          newest delivered                SND.NXT
//!  ────┬──────────────┬──────────────┬─┬─────────────────┬────────────┬──▶
//!      │ flight, 10 ms│ sent again   │s│ flight, 12 ms   │ 13 ms      │
//! ```
//!
//! A record is kept of flights, not of segments: what left at one time and lies together. It is split where something is sent again. When there
//! are too many, the two oldest become one that counts as sent when the later of them was: nothing is ever taken to be older than it is.

use clearway_base::{Duration, Instant};
use clearway_wire::Seq;

use crate::export::Fields;
use crate::tcp::sack::Scoreboard;
use crate::tcp::span::Span;

/// Flights that are told apart.
pub(crate) const FLIGHTS: usize = 16;

/// What left at one time and lies together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flight {
    pub(crate) span: Span,
    /// When it left.
    pub(crate) at: Instant,
    /// It had left before.
    pub(crate) again: bool,
}

/// What was delivered of all that was sent last: RACK.segment, RACK.xmit_ts and RACK.rtt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Newest {
    at: Instant,
    end: Seq,
    rtt: Duration,
}

/// What time says of losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lost {
    /// What is missing below and was sent once is lost.
    pub(crate) edge: Seq,
    /// When that moves on if nothing more arrives.
    pub(crate) look: Option<Instant>,
}

/// The record of one connection. It covers all that is in flight.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    flights: [Flight; FLIGHTS],
    count: u8,
    newest: Option<Newest>,
}

impl Sent {
    /// All that is in flight left at `at`.
    pub(crate) const fn new(span: Span, at: Instant) -> Sent {
        Sent { flights: [Flight { span, at, again: false }; FLIGHTS], count: 1, newest: None }
    }

    /// What is in flight, the oldest number first.
    pub(crate) fn flights(&self) -> &[Flight] {
        self.flights.get(..usize::from(self.count)).unwrap_or_default()
    }

    /// New bytes left, behind all others.
    pub(crate) fn on_sent(&mut self, span: Span, at: Instant) {
        self.push(Flight { span, at, again: false });
    }

    /// Bytes left that had left before.
    pub(crate) fn on_sent_again(&mut self, span: Span, at: Instant) {
        let before = self.clone();
        self.count = 0;
        for &flight in before.flights() {
            let left = Span::new(flight.span.start, flight.span.end.min(span.start));
            let right = Span::new(flight.span.start.max(span.end), flight.span.end);
            if !left.is_empty() {
                self.push(Flight { span: left, ..flight });
            }
            if let Some(span) = flight.span.clip(span) {
                self.push(Flight { span, at, again: true });
            }
            if !right.is_empty() {
                self.push(Flight { span: right, ..flight });
            }
        }
    }

    /// SND.UNA has moved to `una`.
    pub(crate) fn advance(&mut self, una: Seq) {
        let gone = self.flights().iter().take_while(|flight| flight.span.end.le(una)).count();
        self.flights.copy_within(gone.., 0);
        self.count -= gone as u8;
        if let Some(first) = self.flights.first_mut() {
            first.span.start = first.span.start.max(una);
        }
    }

    fn push(&mut self, flight: Flight) {
        if let Some(last) = usize::from(self.count).checked_sub(1).and_then(|at| self.flights.get_mut(at))
            && (last.at, last.again, last.span.end) == (flight.at, flight.again, flight.span.start)
        {
            last.span.end = flight.span.end;
            return;
        }
        if usize::from(self.count) == FLIGHTS {
            let [first, second, ..] = &mut self.flights;
            second.span.start = first.span.start;
            second.at = second.at.max(first.at);
            second.again &= first.again;
            self.flights.copy_within(1.., 0);
            self.count -= 1;
        }
        if let Some(place) = self.flights.get_mut(usize::from(self.count)) {
            *place = flight;
            self.count += 1;
        }
    }

    /// The peer acknowledges all below `una`, and holds something up to `highest` (RFC 8985 6.2, step 2). Called before [`Sent::advance`].
    ///
    /// What was sent again tells a time only when it is acknowledged no sooner than `min_rtt` after: else the first copy has arrived.
    pub(crate) fn on_delivered(&mut self, una: Seq, highest: Seq, now: Instant, min_rtt: Duration) {
        for at in 0..usize::from(self.count) {
            let Some(&Flight { span, at, again }) = self.flights.get(at) else { break };
            let end = span.end.min(if again { una } else { highest });
            let rtt = now.since(at);
            if end.le(span.start) || (again && rtt < min_rtt) {
                continue;
            }
            if self.newest.is_none_or(|n| at > n.at || (at == n.at && end.gt(n.end))) {
                self.newest = Some(Newest { at, end, rtt });
            }
        }
    }

    /// What of the missing is lost: it was sent before something that has arrived, and a round trip and the reordering `window` have passed since
    /// (RFC 8985 6.2, step 5).
    pub(crate) fn lost(&self, una: Seq, now: Instant, window: Duration, board: &Scoreboard) -> Lost {
        let mut lost = Lost { edge: una, look: None };
        let Some(newest) = self.newest else { return lost };
        for flight in self.flights().iter().filter(|flight| !flight.again) {
            let before = match flight.at {
                at if at > newest.at => break,
                at if at == newest.at => flight.span.end.min(newest.end),
                _ => flight.span.end,
            };
            let span = Span::new(flight.span.start.max(una), before);
            if span.is_empty() || board.first_missing(span).is_none() {
                continue;
            }
            let due = flight.at + newest.rtt + window;
            if due > now {
                lost.look = Some(due);
                break;
            }
            lost.edge = before;
        }
        lost
    }
}

impl Sent {
    /// Its part of a record ([`crate::export`]).
    pub(crate) fn fields(&mut self, f: &mut impl Fields) {
        let mut count = u64::from(self.count);
        f.number(400, &mut count, FLIGHTS as u64);
        self.count = count as u8;
        for (tag, flight) in (401..).step_by(4).zip(self.flights.iter_mut().take(count as usize)) {
            let Flight { span, at, again } = flight;
            f.seq(tag, &mut span.start);
            f.seq(tag + 1, &mut span.end);
            f.instant(tag + 2, at);
            f.bool(tag + 3, again);
        }
        let mut known = self.newest.is_some();
        let mut newest = self.newest.unwrap_or(Newest { at: f.now(), end: Seq(0), rtt: Duration::ZERO });
        f.bool(490, &mut known);
        f.instant(491, &mut newest.at);
        f.seq(492, &mut newest.end);
        f.duration(493, &mut newest.rtt);
        self.newest = known.then_some(newest);
    }

    /// Whether the flights lie one behind the other in `outstanding`.
    pub(crate) fn fits(&self, outstanding: Span) -> bool {
        let mut at = outstanding.start;
        self.flights().iter().enumerate().all(|(n, flight)| {
            let follows = (n == 0 && flight.span.start.ge(at)) || flight.span.start == at;
            at = flight.span.end;
            follows && !flight.span.is_empty() && at.le(outstanding.end)
        })
    }
}

#[cfg(test)]
mod tests;
