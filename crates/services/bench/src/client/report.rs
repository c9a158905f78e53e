//! What a client tells.

use clearway_base::{Duration, Histogram, Instant};

/// Where a client is in its life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Phase {
    /// Connections are opened.
    #[default]
    Connecting,
    /// All are there; other cores still open theirs.
    Waiting,
    /// Requests are made.
    Running,
    /// The time is over; answers to what was asked are waited for.
    Draining,
    /// Connections are ended.
    Closing,
    /// Nothing is left to do.
    Done,
}

/// What a client has done so far. Requests and what became of them count from the end of the
/// warm-up on.
#[derive(Clone, Debug)]
pub struct ClientReport {
    /// Where it is in its life.
    pub phase: Phase,
    /// When this was so.
    pub at: Instant,
    /// Connections that shall exist, those that do, and all that ever did.
    pub wanted: u32,
    /// Connections that exist.
    pub open: u32,
    /// Connections that were opened.
    pub connected: u64,
    /// Connections that could not be opened.
    pub connect_failures: u64,
    /// Connections that failed while they were open.
    pub connections_failed: u64,
    /// Connections that the server closed.
    pub closed_by_peer: u64,
    /// Requests made. In ping-pong each is in one of the next four, or still on its way.
    pub requests: u64,
    /// Requests that were answered.
    pub answers: u64,
    /// Requests that were not answered in time.
    pub timeouts: u64,
    /// Requests that were lost together with their connection.
    pub failed: u64,
    /// Requests that had no answer when the time for answers was over.
    pub unanswered: u64,
    /// Requests on their way, those of the warm-up too.
    pub in_flight: u64,
    /// Answers that came before the end of the time.
    pub answers_in_time: u64,
    /// Open loop: requests that were due and never left.
    pub not_sent: u64,
    /// Answers of HTTP with another status than 2xx.
    pub refused: u64,
    /// Answers that nobody had asked for.
    pub unexpected: u64,
    /// Bytes of requests handed over, and of answers received, in the whole run.
    pub bytes_out: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// From when a request was due to the end of its answer, in nanoseconds.
    pub latency: Histogram,
    /// Open loop: the part of that before the request left, because no connection was free or we
    /// were late.
    pub delay: Histogram,
    /// From the beginning of a connection to its being there, in nanoseconds.
    pub connect: Histogram,
    /// When counting began; NEVER before.
    pub from: Instant,
    /// How long requests have been counted.
    pub measured: Duration,
    /// How much of that the core was busy.
    pub busy: Duration,
    /// Cycles of the processor's counter in [`ClientReport::measured`].
    pub cycles: u64,
    /// It was stopped before the time.
    pub stopped: bool,
    /// Why the last connection failed that did.
    pub last_failure: Option<&'static str>,
    /// Why it gave up, if it did.
    pub error: Option<String>,
    pub(super) busy_before: Duration,
    pub(super) cycles_before: u64,
}

impl Default for ClientReport {
    fn default() -> ClientReport {
        ClientReport {
            phase: Phase::Connecting,
            at: Instant::ZERO,
            wanted: 0,
            open: 0,
            connected: 0,
            connect_failures: 0,
            connections_failed: 0,
            closed_by_peer: 0,
            requests: 0,
            answers: 0,
            timeouts: 0,
            failed: 0,
            unanswered: 0,
            in_flight: 0,
            answers_in_time: 0,
            not_sent: 0,
            refused: 0,
            unexpected: 0,
            bytes_out: 0,
            bytes_in: 0,
            latency: Histogram::new(),
            delay: Histogram::new(),
            connect: Histogram::new(),
            from: Instant::NEVER,
            measured: Duration::ZERO,
            busy: Duration::ZERO,
            cycles: 0,
            stopped: false,
            last_failure: None,
            error: None,
            busy_before: Duration::ZERO,
            cycles_before: 0,
        }
    }
}

impl ClientReport {
    pub(super) fn begin(&mut self, now: Instant, busy: Duration) {
        self.from = now;
        self.busy_before = busy;
        self.cycles_before = clearway_hint::cycles();
    }

    pub(super) fn measure(&mut self, now: Instant, busy: Duration) {
        if self.from.is_set() {
            self.measured = now.since(self.from);
            // A turn in which the measurement began counts as a whole once it is over.
            self.busy = (busy - self.busy_before).min(self.measured);
        }
    }

    pub(super) fn end(&mut self) {
        self.cycles = clearway_hint::cycles().wrapping_sub(self.cycles_before);
    }

    /// The share of the time in which the core was busy, from 0 to 1.
    pub fn busy_share(&self) -> f64 {
        share(self.busy, self.measured)
    }

    /// Adds another core's. What is one core's own, such as the phase, becomes that of the core
    /// that is furthest behind.
    pub fn add(&mut self, other: &ClientReport) {
        self.phase = self.phase.min(other.phase);
        self.wanted += other.wanted;
        self.open += other.open;
        self.connected += other.connected;
        self.connect_failures += other.connect_failures;
        self.connections_failed += other.connections_failed;
        self.closed_by_peer += other.closed_by_peer;
        self.requests += other.requests;
        self.answers += other.answers;
        self.timeouts += other.timeouts;
        self.failed += other.failed;
        self.unanswered += other.unanswered;
        self.in_flight += other.in_flight;
        self.answers_in_time += other.answers_in_time;
        self.not_sent += other.not_sent;
        self.refused += other.refused;
        self.unexpected += other.unexpected;
        self.bytes_out += other.bytes_out;
        self.bytes_in += other.bytes_in;
        self.latency.add(&other.latency);
        self.delay.add(&other.delay);
        self.connect.add(&other.connect);
        self.from = self.from.min(other.from);
        self.measured =
            Duration::from_nanos(self.measured.as_nanos().max(other.measured.as_nanos()));
        self.busy = self.busy + other.busy;
        self.cycles = self.cycles.max(other.cycles);
        self.stopped |= other.stopped;
        self.last_failure = self.last_failure.or(other.last_failure);
        if self.error.is_none() {
            self.error.clone_from(&other.error);
        }
    }

    /// All cores together.
    pub fn sum<'a>(reports: impl IntoIterator<Item = &'a ClientReport>) -> ClientReport {
        let mut reports = reports.into_iter();
        let mut sum = reports.next().cloned().unwrap_or_default();
        reports.for_each(|report| sum.add(report));
        sum
    }
}

pub(crate) fn share(part: Duration, all: Duration) -> f64 {
    if all.as_nanos() == 0 { 0.0 } else { part.as_nanos() as f64 / all.as_nanos() as f64 }
}
