//! The load generator of one core: which connections there are, when a request is made, and what
//! became of it.
//!
//! ```text
//!   Connecting ─▶ Waiting ─▶ Running ─▶ Draining ─▶ Closing ─▶ Done
//!    all there     for the    requests   no more      resets
//!                  others     are made   requests
//! ```
//!
//! In a *closed loop* each answer brings the next request. In an *open loop* requests are due at
//! times that were fixed before: the n-th one is due at `t0 + n · every`, and goes to whichever
//! connection has been free longest. When none is free it waits, and its latency counts from when
//! it was due and not from when it could leave, so a server that stalls cannot hide that from its
//! own statistics (coordinated omission).

mod asking;
mod report;

use std::collections::VecDeque;
use std::sync::Arc;

use clearway_base::{Duration, Instant, Wheel};
use clearway_hint as hint;

use crate::framing::{AnswerReader, Reading};
use crate::net::{Net, OpenError, Token};
use crate::plan::{ClientPlan, Protocol, Start};
use crate::source::Sources;

pub use report::{ClientReport, Phase};

/// Connections begun, and slots that ask for the first time, in one turn at most.
const BEGUN_PER_TURN: u32 = 256;

/// Connections ended in one turn at most: as many resets as surely find room to leave.
const ENDED_PER_TURN: u32 = 64;

/// How long answers may take after the last request, at most.
const DRAIN: Duration = Duration::from_secs(3);

/// How often one looks whether the others have their connections.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Source endpoints that are tried for one connection.
const ENDPOINTS_TRIED: u32 = 1_024;

/// Ticks of 2^20 ns, about a millisecond: timeouts are that exact.
const TICK_SHIFT: u32 = 20;

/// Why a connection is no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The server closed it.
    PeerClosed,
    /// It failed, for a reason in words.
    Failed(&'static str),
    /// An answer took too long.
    TimedOut,
}

/// A connection that exists, or is about to.
#[derive(Clone, Copy, Debug)]
struct Conn<I> {
    id: Option<I>,
    state: State,
}

/// When its handshake began, or one of the two words below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State(u64);

impl State {
    const CLOSED: State = State(u64::MAX);
    const OPEN: State = State(u64::MAX - 1);

    fn opening(now: Instant) -> State {
        State(now.as_nanos())
    }

    fn opening_since(self) -> Option<Instant> {
        (self != State::CLOSED && self != State::OPEN).then(|| Instant::from_nanos(self.0))
    }
}

/// An active connection: what was asked on it.
#[derive(Debug)]
struct Slot {
    conn: u32,
    /// Where the oldest request without an answer stands in the slot's part of `times`, and how
    /// many there are.
    oldest: u32,
    outstanding: u32,
    /// Answers since the connection was opened, and those of them that have not brought a new
    /// request yet.
    answered: u32,
    freed: u32,
    /// Bytes of requests that have not been handed over.
    unsent: u64,
    /// When the next answer is overdue, and when the wheel looks at the slot: a wheel that looks
    /// early enough is left alone.
    deadline: Instant,
    looked_at: Instant,
    reading: Reading,
}

/// One core's client.
pub struct Client<I> {
    plan: ClientPlan,
    start: Arc<Start>,
    sources: Option<Sources>,
    reader: AnswerReader,
    /// The request again and again.
    text: Vec<u8>,
    conns: Vec<Conn<I>>,
    slots: Vec<Slot>,
    /// When the requests without an answer were due: `depth` places for each slot.
    times: Vec<Instant>,
    timers: Wheel,
    /// Connections from here on were never opened; those of `again` were, and are to be once more.
    never_opened: u32,
    again: Vec<u32>,
    opening: u32,
    /// Slots that never asked.
    begun: u32,
    /// Open loop: a slot for each request that may leave. Burst: slots that may send.
    free: VecDeque<u32>,
    /// Open loop: requests made, and the first time.
    made: u64,
    t0: Instant,
    measure_from: Instant,
    until: Instant,
    drain_until: Instant,
    in_flight: u64,
    closed: u32,
    /// Streams of a burst whose end the server has not seen.
    streams: u32,
    /// Failures since something went well.
    failures: u32,
    had_work: bool,
    now: Instant,
    busy: Duration,
    report: ClientReport,
}

impl<I: Copy + Eq> Client<I> {
    /// A client for `plan`, which is one core's part of it. `sources` says where connections come
    /// from when the owner does not choose.
    pub fn new(
        plan: ClientPlan,
        sources: Option<Sources>,
        start: Arc<Start>,
        now: Instant,
    ) -> Client<I> {
        let (active, all) = (u64::from(plan.active), u64::from(plan.connections));
        // The active ones are spread evenly over all that exist.
        let conn_of = |slot: u64| (slot * all).div_ceil(active.max(1)) as u32;
        let slots = (0..active)
            .map(|slot| Slot {
                conn: conn_of(slot),
                oldest: 0,
                outstanding: 0,
                answered: 0,
                freed: 0,
                unsent: 0,
                deadline: Instant::NEVER,
                looked_at: Instant::NEVER,
                reading: Reading::default(),
            })
            .collect();
        let copies = if plan.protocol == Protocol::Udp {
            1
        } else {
            (64 * 1024 / plan.message.len().max(1)).max(1)
        };
        Client {
            text: plan.message.repeat(copies),
            reader: AnswerReader::new(plan.answers),
            conns: vec![Conn { id: None, state: State::CLOSED }; plan.connections as usize],
            slots,
            times: vec![Instant::ZERO; plan.places()],
            timers: Wheel::with_tick_shift(plan.active.max(1), TICK_SHIFT, now),
            never_opened: 0,
            again: Vec::new(),
            opening: 0,
            begun: 0,
            free: VecDeque::new(),
            made: 0,
            t0: now,
            measure_from: Instant::NEVER,
            until: Instant::NEVER,
            drain_until: Instant::NEVER,
            in_flight: 0,
            closed: 0,
            streams: 0,
            failures: 0,
            had_work: false,
            now,
            busy: Duration::ZERO,
            report: ClientReport { wanted: plan.connections, ..ClientReport::default() },
            plan,
            start,
            sources,
        }
    }

    /// The slot of a connection that has one: the inverse of the even spread.
    fn token(&self, conn: u32) -> Token {
        let slot = (u64::from(conn) * u64::from(self.plan.active)
            / u64::from(self.plan.connections.max(1))) as u32;
        let is_active = self.slots.get(slot as usize).is_some_and(|s| s.conn == conn);
        Token { conn, slot: if is_active { slot } else { Token::IDLE } }
    }

    /// Whether the connection is still the one that the token speaks of.
    #[inline]
    pub fn owns(&self, token: Token, id: I) -> bool {
        self.conns.get(token.conn as usize).is_some_and(|conn| conn.id == Some(id))
    }

    /// Something of this connection's will be told soon: what it takes to hear it is brought nearer
    /// to the processor.
    #[inline]
    pub fn prefetch(&self, token: Token) {
        hint::prefetch_all_at(&self.slots, token.slot as usize);
        hint::prefetch_slice_at(&self.conns, token.conn as usize);
        hint::prefetch_slice_at(&self.times, token.slot as usize * self.plan.depth as usize);
    }

    /// How long the owner's turns with work took so far, on a clock that only the differences of
    /// count.
    #[inline]
    pub fn set_busy(&mut self, busy: Duration) {
        self.busy = busy;
    }

    /// What is due: connections, requests, timeouts. Called in every turn, after everything that
    /// happened was told.
    pub fn pump<N: Net<Id = I>>(&mut self, net: &mut N, now: Instant) {
        self.now = now;
        match self.report.phase {
            Phase::Connecting => {
                self.open_some(net, now);
                // Where each request has a connection of its own nothing is opened beforehand.
                if self.plan.close_after.is_some() || self.report.open == self.plan.connections {
                    self.start.arrive();
                    self.report.phase = Phase::Waiting;
                }
            }
            Phase::Waiting if self.start.is_complete() => self.begin(now),
            Phase::Waiting => self.open_some(net, now),
            Phase::Running => self.run(net, now),
            Phase::Draining => self.drain(net, now),
            Phase::Closing => self.end_some(net),
            Phase::Done => {}
        }
        while self.report.phase < Phase::Closing {
            let Some(slot) = self.timers.next_expired(now) else { break };
            self.on_timer(net, now, slot);
        }
    }

    fn begin(&mut self, now: Instant) {
        self.report.phase = Phase::Running;
        self.t0 = now;
        self.measure_from = now + self.plan.warmup;
        self.until = self.measure_from + self.plan.duration;
        if self.plan.every_ps.is_some() {
            let places = if self.plan.answered() { self.plan.depth } else { 1 };
            for _ in 0..places {
                self.free.extend(0..self.plan.active);
            }
        }
    }

    fn run<N: Net<Id = I>>(&mut self, net: &mut N, now: Instant) {
        if !self.report.from.is_set() && now >= self.measure_from {
            self.report.begin(self.measure_from, self.busy);
        }
        self.open_some(net, now);
        if now < self.until {
            self.had_work |= self.ask(net, now);
            self.report.measure(now, self.busy);
            return;
        }
        // What was due before the end is still asked, so that what is late counts as late.
        self.had_work |= self.plan.every_ps.is_some() && self.ask(net, now);
        self.report.measure(self.until, self.busy);
        self.report.answers_in_time = self.report.answers;
        self.report.end();
        self.drain_until = now + DRAIN.min(self.plan.timeout);
        self.report.phase = Phase::Draining;
        if !self.plan.answered() {
            self.end_streams(net);
        }
    }

    fn drain<N: Net<Id = I>>(&mut self, net: &mut N, now: Instant) {
        if self.plan.answered() && self.plan.every_ps.is_some() {
            self.open_some(net, now);
            self.had_work |= self.ask(net, now);
        }
        let late = self.plan.answered() && self.due_count(now) > self.made;
        let waits = self.in_flight > 0 || late || self.streams > 0;
        if waits && now < self.drain_until {
            return;
        }
        self.report.not_sent = self.due_count(now).saturating_sub(self.made);
        self.report.unanswered += self.in_flight_counted();
        self.report.phase = Phase::Closing;
        self.closed = 0;
    }

    /// Requests that wait for an answer and count.
    fn in_flight_counted(&self) -> u64 {
        if self.in_flight == 0 {
            return 0;
        }
        let depth = self.plan.depth;
        let of = |(at, slot): (usize, &Slot)| {
            let times = (0..slot.outstanding)
                .map(move |n| at * depth as usize + ((slot.oldest + n) % depth) as usize);
            times.filter(|&time| self.times[time] >= self.measure_from).count() as u64
        };
        self.slots.iter().enumerate().map(of).sum()
    }

    fn end_some<N: Net<Id = I>>(&mut self, net: &mut N) {
        let from = self.closed as usize;
        let to = (from + ENDED_PER_TURN as usize).min(self.conns.len());
        for conn in &mut self.conns[from..to] {
            let Some(id) = conn.id.take() else { continue };
            net.abort(id);
            let was_open = conn.state == State::OPEN;
            conn.state = State::CLOSED;
            if was_open { self.report.open -= 1 } else { self.opening -= 1 }
        }
        self.closed = to as u32;
        self.had_work = true;
        if to == self.conns.len() {
            self.report.phase = Phase::Done;
            self.start.done();
        }
    }

    /// Opens connections, as many as may be on their way.
    fn open_some<N: Net<Id = I>>(&mut self, net: &mut N, now: Instant) {
        for _ in 0..BEGUN_PER_TURN {
            let conn = match self.again.pop() {
                Some(conn) => conn,
                None if self.may_open()
                    && self.plan.close_after.is_none()
                    && self.never_opened < self.plan.connections =>
                {
                    self.never_opened += 1;
                    self.never_opened - 1
                }
                None => return,
            };
            if !self.may_open() {
                self.again.push(conn);
                return;
            }
            self.had_work = true;
            self.open(net, now, conn);
        }
    }

    fn may_open(&self) -> bool {
        self.plan.close_after.is_some() || self.opening < self.plan.connecting
    }

    fn opens_more(&self) -> bool {
        let never = self.plan.close_after.is_none() && self.never_opened < self.plan.connections;
        self.may_open() && (never || !self.again.is_empty())
    }

    fn open<N: Net<Id = I>>(&mut self, net: &mut N, now: Instant, conn: u32) {
        if self.report.phase == Phase::Done {
            return;
        }
        let token = self.token(conn);
        let mut tries = if self.sources.is_some() { ENDPOINTS_TRIED } else { 1 };
        let opened = loop {
            let from = self.sources.as_mut().map(Sources::next_endpoint);
            tries -= 1;
            match net.open(now, token, from) {
                Ok(id) => break Ok(id),
                Err(OpenError::Taken) if tries > 0 => {}
                Err(OpenError::Taken) => {
                    break Err("no source endpoint is free; give more source addresses with -a"
                        .to_string());
                }
                Err(OpenError::Failed(why)) => break Err(why),
            }
        };
        match opened {
            Ok(id) => {
                self.conns[conn as usize] = Conn { id: Some(id), state: State::opening(now) };
                self.opening += 1;
                if self.plan.protocol == Protocol::Udp {
                    self.on_connected(net, now, token);
                }
            }
            Err(why) => self.give_up(why),
        }
    }

    /// The connection is there.
    pub fn on_connected<N: Net<Id = I>>(&mut self, net: &mut N, now: Instant, token: Token) {
        let Some(conn) = self.conns.get_mut(token.conn as usize) else { return };
        let Some(since) = conn.state.opening_since() else { return };
        conn.state = State::OPEN;
        self.opening -= 1;
        self.report.open += 1;
        self.report.connected += 1;
        if self.plan.protocol == Protocol::Tcp {
            self.report.connect.record(now.since(since).as_nanos());
        }
        if self.report.phase == Phase::Connecting {
            self.failures = 0;
        }
        if token.slot != Token::IDLE {
            self.flush(net, token);
        }
    }

    /// The connection is no more; its owner only waits for [`Net::close`].
    pub fn on_ended<N: Net<Id = I>>(
        &mut self,
        net: &mut N,
        now: Instant,
        token: Token,
        why: Ending,
    ) {
        let Some(conn) = self.conns.get_mut(token.conn as usize) else { return };
        let Some(id) = conn.id.take() else { return };
        let was_opening = conn.state.opening_since().is_some();
        conn.state = State::CLOSED;
        if why == Ending::TimedOut {
            net.abort(id)
        } else {
            net.close(id)
        }
        if was_opening {
            self.opening -= 1;
            self.report.connect_failures += 1;
        } else {
            self.report.open -= 1;
        }
        if self.report.phase >= Phase::Draining && token.slot != Token::IDLE {
            self.streams = self.streams.saturating_sub(1);
        }
        if let Ending::Failed(why) = why {
            self.report.last_failure = Some(why);
        }
        match why {
            Ending::PeerClosed if self.report.phase < Phase::Draining => {
                self.report.closed_by_peer += 1
            }
            Ending::Failed(_) if !was_opening => self.report.connections_failed += 1,
            _ => {}
        }
        if self.report.phase >= Phase::Draining {
            if self.report.phase == Phase::Draining {
                let lost = self.lose(token, why);
                self.replace(net, now, token, lost);
            }
            return;
        }
        let lost = self.lose(token, why);
        self.failures += 1;
        if self.failures > 64 + self.plan.connections.min(10_000) {
            let why = match why {
                Ending::PeerClosed => {
                    "the server closes every connection without an answer".to_string()
                }
                Ending::Failed(why) => format!("connections fail: {why}"),
                Ending::TimedOut => {
                    let seconds = self.plan.timeout.as_nanos() as f64 / 1e9;
                    format!(
                        "no answer within {seconds} s on any connection. Is a server there, and \
                         does it answer requests of this form?"
                    )
                }
            };
            self.give_up(why);
            return;
        }
        if self.plan.close_after.is_none() {
            self.again.push(token.conn);
        }
        self.replace(net, now, token, lost);
    }

    /// Nothing can come of it any more.
    pub fn give_up(&mut self, why: String) {
        if self.report.error.is_none() {
            self.report.error = Some(why);
        }
        if self.report.phase < Phase::Closing {
            self.report.unanswered += self.in_flight_counted();
        }
        self.report.phase = Phase::Done;
    }

    /// Ends before the time, because somebody says so.
    pub fn stop<N: Net<Id = I>>(&mut self, net: &mut N) {
        if self.report.phase == Phase::Done {
            return;
        }
        if self.report.phase < Phase::Draining {
            self.report.answers_in_time = self.report.answers;
            self.report.end();
            self.report.stopped = true;
        }
        if self.report.phase < Phase::Closing {
            self.report.unanswered += self.in_flight_counted();
        }
        while self.report.phase != Phase::Done {
            self.report.phase = Phase::Closing;
            self.end_some(net);
        }
    }

    /// When [`Client::pump`] has something to do although nothing happened.
    pub fn next_deadline(&self) -> Instant {
        let at = match self.report.phase {
            Phase::Connecting | Phase::Waiting if self.opens_more() => Instant::ZERO,
            Phase::Connecting => Instant::NEVER,
            Phase::Waiting => self.now + LOOK_AGAIN,
            Phase::Running if self.opens_more() || self.asks_more() => Instant::ZERO,
            Phase::Running => self.until.min(self.next_due()),
            Phase::Draining => self.drain_until.min(self.next_due()),
            Phase::Closing => Instant::ZERO,
            Phase::Done => return self.now + LOOK_AGAIN,
        };
        at.min(self.timers.next_deadline())
    }

    /// Whether something was begun since this was last asked.
    pub fn take_had_work(&mut self) -> bool {
        std::mem::take(&mut self.had_work)
    }

    /// Whether there is nothing left to do, on no core.
    pub fn is_finished(&self) -> bool {
        self.report.phase == Phase::Done && (self.report.error.is_some() || self.start.is_over())
    }

    /// The state of affairs.
    pub fn report(&self) -> ClientReport {
        ClientReport { at: self.now, in_flight: self.in_flight, ..self.report.clone() }
    }
}

#[cfg(test)]
mod tests;
