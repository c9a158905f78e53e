//! When what is in flight was sent, and what is lost for the time that has passed since (RFC 8985).
//!
//! ```text
//!   SND.UNA                          newest delivered                SND.NXT
//!  ────┬──────────────┬──────────────┬─┬─────────────────┬────────────┬──▶
//!      │ flight, 10 ms│ sent again   │s│ flight, 12 ms   │ 13 ms      │
//! ```
//!
//! A record is kept of flights, not of segments: what left at about one time and lies together.
//! About: within a sixteenth of the shortest round trip at most, so that a window in flight fits
//! the record and a quarter of a round trip can be told. A flight is split where something is sent
//! again or is lost. When there are too many, what the peer holds wholly goes to its neighbour, and
//! then those two neighbours become one that left within the shortest time. What became one counts as
//! sent when the latest of it was while it is missing, and when the earliest of it was once it has
//! arrived: nothing that is missing is ever taken to be older than it is, and nothing that arrives
//! to be younger.
//!
//! Copies and new bytes that leave in turns, within one time, are told apart by their order: else a
//! copy that is lost again would be found out only by what leaves a round trip later.

use clearway_base::{Duration, Instant};
use clearway_wire::Seq;

use super::prr::Prr;
use crate::export::Fields;
use crate::tcp::sack::{Delivered, Scoreboard};
use crate::tcp::span::Span;

/// Flights that are told apart.
pub(crate) const FLIGHTS: usize = 64;

/// Places that are free before something is split at both of its ends.
const SPARE: usize = 2;

/// What left at about one time and lies together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flight {
    pub(crate) span: Span,
    /// When the last of it left.
    pub(crate) at: Instant,
    /// How many microseconds before the first of it did, or more.
    pub(crate) spread_us: u32,
    /// Some of it had left before.
    pub(crate) again: bool,
    /// What is missing of it is lost, and was not sent again.
    pub(crate) lost: bool,
    /// Its place in the order of [`Sent::order`]; [`UNORDERED`]: it is not known.
    pub(crate) order: u16,
}

/// What became one of flights with other places between them.
const UNORDERED: u16 = 0;

impl Flight {
    /// All of it left at once.
    const fn new(span: Span, at: Instant, order: u16) -> Flight {
        Flight { span, at, spread_us: 0, again: false, lost: false, order }
    }

    const fn flags(&self) -> (bool, bool) {
        (self.again, self.lost)
    }

    /// No earlier than this did any of it leave.
    fn since(&self) -> Instant {
        self.at - Duration::from_micros(u64::from(self.spread_us))
    }

    /// It takes in `next`, which lies behind it.
    fn append(&mut self, next: &Flight) {
        let first = self.since().min(next.since());
        (self.span.end, self.at) = (next.span.end, self.at.max(next.at));
        let spread_us = self.at.since(first).as_nanos().div_ceil(1_000);
        self.spread_us = u32::try_from(spread_us).unwrap_or(u32::MAX);
    }
}

/// What was delivered of all that was sent last: RACK.segment, RACK.xmit_ts and RACK.rtt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Newest {
    at: Instant,
    end: Seq,
    rtt: Duration,
    /// No earlier than this did it leave.
    since: Instant,
    /// Some of it had left before.
    again: bool,
    order: u16,
}

/// Whether what has the place `a` left after what has the place `b`, both within some round trips.
const fn is_behind(a: u16, b: u16) -> bool {
    a != UNORDERED && b != UNORDERED && (a.wrapping_sub(b) as i16) > 0
}

/// What time says of losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lost {
    /// Bytes that are lost and were not sent again.
    pub(crate) bytes: u32,
    /// How many of them are found lost just now.
    pub(crate) newly: u32,
    /// When there are more if nothing arrives.
    pub(crate) look: Option<Instant>,
}

/// When the peer says that something arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) now: Instant,
    /// The shortest round trip.
    pub(crate) min_rtt: Duration,
    /// The time that the ACK echoes, in milliseconds of our clock, modulo 2^32.
    pub(crate) echo_ms: Option<u32>,
    /// RACK.fack as it was before the ACK: of what one ACK tells, the order of arrival is unknown.
    pub(crate) fack: Seq,
}

/// The record of one connection. It covers all that is in flight.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    flights: [Flight; FLIGHTS],
    count: u8,
    /// What leaves within so many nanoseconds, as a power of two, may be one flight.
    grain: u8,
    newest: Option<Newest>,
    /// The place of what left last: one more each time that copies follow new bytes or these follow
    /// copies.
    order: u16,
    /// Copies left last.
    sends_again: bool,
    /// RACK.fack: behind the last that was delivered.
    fack: Seq,
    /// How much leaves in this fast recovery.
    pub(crate) prr: Option<Prr>,
}

impl Sent {
    /// All that is in flight left at `at`; nothing comes back sooner than after `min_rtt`.
    pub(crate) fn new(span: Span, at: Instant, min_rtt: Duration) -> Sent {
        let order = UNORDERED + 1;
        let first = Flight::new(span, at, order);
        let grain = (min_rtt.as_nanos() >> 4).checked_ilog2().unwrap_or(0) as u8;
        Sent {
            flights: [first; FLIGHTS],
            count: 1,
            grain,
            newest: None,
            order,
            sends_again: false,
            fack: span.start,
            prr: None,
        }
    }

    /// What is in flight, the oldest number first.
    pub(crate) fn flights(&self) -> &[Flight] {
        self.flights.get(..usize::from(self.count)).unwrap_or_default()
    }

    fn flights_mut(&mut self) -> &mut [Flight] {
        self.flights.get_mut(..usize::from(self.count)).unwrap_or_default()
    }

    /// New bytes left, behind all others.
    pub(crate) fn on_sent(&mut self, span: Span, at: Instant, board: Option<&Scoreboard>) {
        let next = Flight::new(span, at, self.next_place(false));
        let grain = self.grain;
        if let Some(last) = self.flights_mut().last_mut() {
            if are_one(last, &next, grain) {
                last.append(&next);
                return;
            }
        }
        self.make_room(1, board);
        if let Some(place) = self.flights.get_mut(usize::from(self.count)) {
            *place = next;
            self.count += 1;
        }
    }

    /// Bytes left that had left before.
    pub(crate) fn on_sent_again(&mut self, span: Span, at: Instant, board: Option<&Scoreboard>) {
        let order = self.next_place(true);
        self.change(span, board, |flight| {
            *flight = Flight { again: true, ..Flight::new(flight.span, at, order) };
        });
    }

    /// The place of what leaves now.
    fn next_place(&mut self, again: bool) -> u16 {
        if self.sends_again != again {
            self.sends_again = again;
            self.order = self.order.wrapping_add(1).max(UNORDERED + 1);
        }
        self.order
    }

    /// What is missing of `span` is lost.
    pub(crate) fn lose(&mut self, span: Span, board: Option<&Scoreboard>) {
        self.change(span, board, |flight| flight.lost = true);
    }

    /// All that is missing is lost: nothing was heard for the whole of a timeout.
    pub(crate) fn lose_all(&mut self) {
        self.flights_mut().iter_mut().for_each(|flight| flight.lost = true);
        self.prr = None;
        self.join();
    }

    /// Nothing was lost: it was only late.
    pub(crate) fn recall(&mut self) {
        self.flights_mut().iter_mut().for_each(|flight| flight.lost = false);
        self.prr = None;
        self.join();
    }

    /// Changes what is known of `span`.
    fn change(&mut self, span: Span, board: Option<&Scoreboard>, what: impl Fn(&mut Flight)) {
        self.make_room(SPARE, board);
        self.split(span.start);
        self.split(span.end);
        self.flights_mut().iter_mut().filter(|flight| span.covers(flight.span)).for_each(what);
        self.join();
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

    /// Makes two of the flight that `seq` lies within. There is room for one more.
    fn split(&mut self, seq: Seq) {
        let count = usize::from(self.count);
        let Some(at) =
            self.flights().iter().position(|f| f.span.start.lt(seq) && seq.lt(f.span.end))
        else {
            return;
        };
        if count == FLIGHTS {
            debug_assert!(false, "room was made before");
            return;
        }
        self.flights.copy_within(at..count, at + 1);
        self.count += 1;
        if let Some([left, right]) = self.flights.get_mut(at..at + 2) {
            left.span.end = seq;
            right.span.start = seq;
        }
    }

    /// Neighbours of which the same is known become one.
    fn join(&mut self) {
        let grain = self.grain;
        let mut kept = 0;
        for at in 1..usize::from(self.count) {
            let Some(&next) = self.flights.get(at) else { break };
            let Some(last) = self.flights.get_mut(kept) else { break };
            if are_one(last, &next, grain) {
                last.append(&next);
                continue;
            }
            kept += 1;
            if let Some(place) = self.flights.get_mut(kept) {
                *place = next;
            }
        }
        self.count = self.count.min(kept as u8 + 1);
    }

    /// Makes neighbours one until `places` are free: those of which the same is known and that left
    /// within the shortest time. Not closest to each other: what leaves at an even rate would all
    /// become one.
    fn make_room(&mut self, places: usize, board: Option<&Scoreboard>) {
        let fits = |sent: &Sent| usize::from(sent.count) + places <= FLIGHTS;
        if fits(self) {
            return;
        }
        if let Some(board) = board {
            self.absorb_held(board);
        }
        while !fits(self) {
            let apart = |pair: &[Flight]| match pair {
                [a, b] => {
                    let (first, last) = (a.since().min(b.since()), a.at.max(b.at));
                    (a.flags() != b.flags(), last.since(first))
                }
                _ => (true, Duration::from_secs(u64::from(u32::MAX))),
            };
            let pairs = self.flights().windows(2).enumerate();
            let Some((at, _)) = pairs.min_by_key(|(_, pair)| apart(pair)) else { return };
            if let Some([left, right]) = self.flights.get_mut(at..at + 2) {
                let (again, lost) = (left.again | right.again, left.lost & right.lost);
                let order = if left.order == right.order { left.order } else { UNORDERED };
                left.append(right);
                *right = Flight { again, lost, order, ..*left };
            }
            self.flights.copy_within(at + 1.., at);
            self.count -= 1;
        }
    }

    /// What the peer holds wholly goes to what lies before it: nothing is waited for there.
    fn absorb_held(&mut self, board: &Scoreboard) {
        let mut kept = 0;
        for at in 1..usize::from(self.count) {
            let Some(&next) = self.flights.get(at) else { break };
            let Some(last) = self.flights.get_mut(kept) else { break };
            if missing(next.span, board) == 0 {
                last.span.end = next.span.end;
                continue;
            }
            kept += 1;
            if let Some(place) = self.flights.get_mut(kept) {
                *place = next;
            }
        }
        self.count = self.count.min(kept as u8 + 1);
        self.join();
    }

    pub(crate) fn fack(&self) -> Seq {
        self.fack
    }

    /// The peer says for the first time that it has `piece` (RFC 8985 6.2, steps 2 and 3). Called
    /// before [`Sent::advance`].
    ///
    /// What was sent again tells a time only when it is acknowledged no sooner than the shortest
    /// round trip after, and by an ACK that echoes no earlier time: else an earlier copy has
    /// arrived.
    pub(crate) fn on_delivered(&mut self, piece: Span, arrival: &Arrival) -> Delivered {
        let Arrival { now, min_rtt, echo_ms, fack } = *arrival;
        let (mut newest, mut told) = (self.newest, Delivered::default());
        for flight in self.flights() {
            // Of copies that became one it is not known which of them arrived: the first.
            let (since, again) = (flight.since(), flight.again);
            let at = if again { since } else { flight.at };
            let Some(Span { end, .. }) = flight.span.clip(piece) else { continue };
            told.late |= !again && end.lt(fack);
            told.original |= !again && flight.lost;
            let rtt = now.since(at);
            if !again && u64::from(flight.spread_us) <= (1 << self.grain) / 1_000 {
                told.rtt = told.rtt.max(Some(now.since(since)));
            }
            let order = flight.order;
            let is_newer = newest.is_none_or(|n| {
                let is_later =
                    is_behind(order, n.order) || (!is_behind(n.order, order) && end.gt(n.end));
                at > n.at || (at == n.at && is_later)
            });
            let is_earlier =
                echo_ms.is_some_and(|echo| (echo.wrapping_sub(at.as_millis() as u32) as i32) < 0);
            if is_newer && !(again && (rtt < min_rtt || is_earlier)) {
                newest = Some(Newest { at, end, rtt, since, again, order });
            }
        }
        self.newest = newest;
        self.fack = self.fack.max(piece.end);
        told
    }

    /// Finds what of the missing is lost: it was sent before something that has arrived, and a
    /// round trip and the reordering `window` have passed since (RFC 8985 6.2, step 5). What was
    /// sent again is lost again by the same rule.
    pub(crate) fn detect(
        &mut self,
        una: Seq,
        now: Instant,
        window: Duration,
        board: &Scoreboard,
    ) -> Lost {
        self.make_room(1, Some(board));
        let (mut newly, mut look) = (0, None::<Instant>);
        if let Some(newest) = self.newest {
            let mut split = None;
            for flight in self.flights_mut() {
                // Of what left at one time, the number tells what left later, but not of copies: a
                // clock may be coarse. And what has arrived may have left as early as the first of
                // its flight, before a copy that left meanwhile, unless their order is known.
                let has_copies = flight.again || newest.again;
                let follows = is_behind(newest.order, flight.order);
                let left_before = flight.at < newest.since
                    || (flight.at <= newest.at && (!has_copies || follows));
                if flight.lost || !left_before {
                    continue;
                }
                let is_same = flight.at == newest.at && !has_copies;
                let before =
                    if is_same { flight.span.end.min(newest.end) } else { flight.span.end };
                let missing = missing(Span::new(flight.span.start.max(una), before), board);
                if missing == 0 {
                    continue;
                }
                let due = flight.at + newest.rtt + window;
                if due > now {
                    look = Some(look.map_or(due, |at| at.min(due)));
                    continue;
                }
                newly += missing;
                flight.lost = true;
                if before != flight.span.end {
                    split = Some(before);
                }
            }
            if let Some(at) = split {
                self.split(at);
                // Only what was sent before the newest is lost of it.
                let behind = self.flights_mut().iter_mut().find(|flight| flight.span.start == at);
                behind.into_iter().for_each(|flight| flight.lost = false);
            }
        }
        Lost { bytes: self.lost_bytes(una, board), newly, look }
    }

    /// Bytes that are lost and were not sent again.
    pub(crate) fn lost_bytes(&self, una: Seq, board: &Scoreboard) -> u32 {
        self.count_missing(una, board, |flight| flight.lost)
    }

    /// Bytes that were sent again and have not arrived.
    pub(crate) fn again_bytes(&self, una: Seq, board: &Scoreboard) -> u32 {
        self.count_missing(una, board, |flight| flight.again && !flight.lost)
    }

    fn count_missing(&self, una: Seq, board: &Scoreboard, which: impl Fn(&Flight) -> bool) -> u32 {
        let of = |flight: &Flight| {
            missing(Span::new(flight.span.start.max(una), flight.span.end), board)
        };
        self.flights().iter().filter(|flight| which(flight)).map(of).sum()
    }

    /// The first bytes that are lost and were not sent again.
    pub(crate) fn first_lost(&self, una: Seq, board: &Scoreboard) -> Option<Span> {
        let of = |flight: &Flight| {
            board.first_missing(Span::new(flight.span.start.max(una), flight.span.end))
        };
        self.flights().iter().filter(|flight| flight.lost).find_map(of)
    }

    /// Whether some of `span` was sent again.
    #[cfg(test)]
    pub(crate) fn was_sent_again(&self, span: Span) -> bool {
        self.flights().iter().any(|flight| flight.again && flight.span.clip(span).is_some())
    }
}

/// Whether nothing tells two neighbours apart.
fn are_one(a: &Flight, b: &Flight, grain: u8) -> bool {
    let cell = |at: Instant| at.as_nanos() >> grain;
    let is_alike = a.flags() == b.flags() && a.order == b.order;
    is_alike && a.span.end == b.span.start && cell(a.at) == cell(b.at)
}

/// Bytes of `span` that the peer does not hold.
fn missing(span: Span, board: &Scoreboard) -> u32 {
    span.len() - board.sacked_within(span)
}

/// Where the numbers of flights begin in a record.
const FLIGHT_FIELDS: u16 = 1000;

impl Sent {
    /// Its part of a record ([`crate::export`]).
    pub(crate) fn fields(&mut self, f: &mut impl Fields) {
        let mut count = u64::from(self.count);
        f.number(400, &mut count, FLIGHTS as u64);
        self.count = count as u8;
        let mut known = self.newest.is_some();
        let mut newest = self.newest.unwrap_or(Newest {
            at: f.now(),
            end: Seq(0),
            rtt: Duration::ZERO,
            since: f.now(),
            again: false,
            order: UNORDERED,
        });
        f.bool(490, &mut known);
        f.instant(491, &mut newest.at);
        f.seq(492, &mut newest.end);
        f.duration(493, &mut newest.rtt);
        if self.newest.is_none() {
            newest.since = newest.at;
        }
        f.instant(487, &mut newest.since);
        f.bool(488, &mut newest.again);
        self.newest = known.then_some(newest);
        f.u8(494, &mut self.grain);
        self.grain = self.grain.min(Duration::from_secs(1).as_nanos().ilog2() as u8);
        let (mut reduces, mut prr) = (self.prr.is_some(), self.prr.unwrap_or_default());
        f.bool(495, &mut reduces);
        prr.fields(f);
        f.seq(489, &mut self.fack);
        self.prr = reduces.then_some(prr);
        for (n, flight) in (0..).zip(self.flights.iter_mut().take(count as usize)) {
            // The order is not exported: of what another stack has sent the times tell.
            let Flight { span, at, spread_us, again, lost, order: _ } = flight;
            let tag = FLIGHT_FIELDS + 5 * n;
            f.seq(tag, &mut span.start);
            f.seq(tag + 1, &mut span.end);
            f.instant(tag + 2, at);
            f.bool(tag + 3, again);
            f.bool(tag + 4, lost);
            f.u32(FLIGHT_FIELDS + 5 * FLIGHTS as u16 + n, spread_us);
        }
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
