//! The account of what came back.

use clearway_base::{Histogram, Instant};

use crate::flow::{FlowTable, Order};
use crate::frame::{Look, Stamp, Template};

/// Frames that came in, each counted once among the first five.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Came {
    /// Ours, for the first time.
    pub frames: u64,
    /// Ours, but here already.
    pub duplicates: u64,
    /// Ours, but changed on the way.
    pub damaged: u64,
    /// Ours, but of an earlier run.
    pub stale: u64,
    /// Somebody else's.
    pub foreign: u64,
    /// Bytes of `frames`.
    pub bytes: u64,
    /// Of `frames`, those that were overtaken by later ones of their flow.
    pub reordered: u64,
    /// Frames that are missing before later ones of their flow. Those that are missing at the end
    /// of a flow are not to be seen here.
    pub missing: u64,
}

impl Came {
    /// Adds what came to another queue.
    pub fn add(&mut self, other: &Came) {
        self.frames += other.frames;
        self.duplicates += other.duplicates;
        self.damaged += other.damaged;
        self.stale += other.stale;
        self.foreign += other.foreign;
        self.bytes += other.bytes;
        self.reordered += other.reordered;
        self.missing += other.missing;
    }
}

/// What came back to one queue.
#[derive(Clone, Debug)]
pub struct Account {
    came: Came,
    flows: FlowTable,
    latency: Histogram,
    last: Instant,
    // Frames of one burst left with the same stamp and are recorded at once.
    same: (Stamp, u64),
}

impl Account {
    /// Of so many flows, those of all queues counted: a frame may come back to another queue than
    /// it left from.
    pub fn new(flows: u32) -> Account {
        let (came, latency) = (Came::default(), Histogram::ready());
        Account {
            came,
            flows: FlowTable::new(flows),
            latency,
            last: Instant::ZERO,
            same: (Stamp(0), 0),
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.flows.clear();
        self.latency.clear();
        (self.came, self.last, self.same) = (Came::default(), Instant::ZERO, (Stamp(0), 0));
    }

    /// Takes in one frame of a burst that came at `now`.
    #[inline]
    pub fn note(&mut self, now: Instant, template: &Template, frame: &[u8]) {
        let trace = match template.read(frame, self.flows.len()) {
            Look::Ours(trace) => trace,
            Look::Stale => return self.came.stale += 1,
            Look::Damaged => return self.came.damaged += 1,
            Look::Foreign => return self.came.foreign += 1,
        };
        match self.flows.note(trace.flow, trace.seq) {
            Some(Order::Next) => {}
            Some(Order::After(gap)) => self.came.missing += u64::from(gap),
            Some(Order::Late) => {
                self.came.reordered += 1;
                self.came.missing = self.came.missing.saturating_sub(1);
            }
            Some(Order::Again) => return self.came.duplicates += 1,
            None => return self.came.foreign += 1,
        }
        self.came.frames += 1;
        self.came.bytes += template.len() as u64;
        if self.same.0 != trace.stamp {
            self.end_burst(now);
        }
        self.same = (trace.stamp, self.same.1 + 1);
    }

    /// The burst that came at `now` is through.
    #[inline]
    pub fn end_burst(&mut self, now: Instant) {
        let (stamp, count) = std::mem::replace(&mut self.same, (Stamp(0), 0));
        if count > 0 {
            self.latency.record_many(stamp.age(now).as_nanos(), count);
            self.last = now;
        }
    }

    /// What came.
    pub fn came(&self) -> &Came {
        &self.came
    }

    /// How long it took.
    pub fn latency(&self) -> &Histogram {
        &self.latency
    }

    /// When the last one of ours came; [`Instant::ZERO`] without any.
    pub fn last(&self) -> Instant {
        self.last
    }
}
