//! How far the two cores are from each other: the round trip of a cache line between a thread on
//! either.
//!
//! On shared machines the hypervisor moves cores while a program runs, and what two cores do
//! together changes by factors. So it is measured before and after each measurement; it takes ten
//! milliseconds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clearway_engine::cores;
use serde::{Deserialize, Serialize};

/// How long one probe lasts.
const PROBE: Duration = Duration::from_millis(10);

/// How long it may last when others keep the two threads from running.
const TIME_LIMIT: Duration = Duration::from_millis(200);

/// How often a thread looks for the answer before it looks at the clock, which takes longer than an
/// answer.
const LOOKS: u32 = 1 << 14;

/// Round trips that are timed together.
const BATCH: u64 = 50;

/// Batches that are kept: more than fit into a probe.
const BATCHES: usize = 4_096;

/// The second thread ends when it sees this.
const END: u64 = u64::MAX;

/// Round trips that differ by more than this were made on cores that moved meanwhile.
const MOVED: f64 = 1.5;

/// Round trips that are so many times others belong to another group, unless there are some
/// between.
const APART: f64 = 1.3;

/// Round trips that count as the same distance of the cores.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Group {
    /// The shortest of them, in nanoseconds.
    pub least_ns: f64,
    /// The longest.
    pub most_ns: f64,
    /// How many measurements.
    pub count: usize,
}

impl Group {
    /// Whether a measurement is one of these.
    pub fn holds(&self, placement: &Placement) -> bool {
        placement.settled().is_some_and(|ns| self.least_ns <= ns && ns <= self.most_ns)
    }

    /// Whether this is about the distance of another run.
    pub fn like(&self, other: &Group) -> bool {
        self.least_ns <= APART * other.most_ns && other.least_ns <= APART * self.most_ns
    }

    /// For people.
    pub fn name(&self) -> String {
        if self.most_ns - self.least_ns < 1.0 {
            return format!("of {:.0} ns", self.most_ns);
        }
        format!("of {:.0} to {:.0} ns", self.least_ns, self.most_ns)
    }
}

/// The groups that measurements lie in, nearest first: where a round trip is much longer than the
/// one below it, another group begins.
pub(crate) fn groups<'a>(all: impl Iterator<Item = &'a Placement>) -> Vec<Group> {
    let mut trips: Vec<f64> = all.filter_map(Placement::settled).collect();
    trips.sort_by(f64::total_cmp);
    let mut groups: Vec<Group> = Vec::new();
    for ns in trips {
        match groups.last_mut() {
            Some(group) if ns <= APART * group.most_ns => {
                group.most_ns = ns;
                group.count += 1;
            }
            _ => groups.push(Group { least_ns: ns, most_ns: ns, count: 1 }),
        }
    }
    groups
}

/// Round trips before and after a measurement, in nanoseconds; none on one core.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Placement {
    /// Before.
    pub before_ns: Option<f64>,
    /// After.
    pub after_ns: Option<f64>,
}

impl Placement {
    /// The cores were not where they had been.
    pub fn moved(&self) -> bool {
        matches!((self.before_ns, self.after_ns),
            (Some(before), Some(after)) if before.max(after) > MOVED * before.min(after))
    }

    /// The round trip, if both were measured and the cores did not move.
    pub fn settled(&self) -> Option<f64> {
        let (before, after) = (self.before_ns?, self.after_ns?);
        (!self.moved()).then(|| (before * after).sqrt())
    }
}

/// The median round trip between two cores in nanoseconds, or none when they are one, or we may not
/// use them.
pub fn probe(one: usize, other: usize) -> Option<f64> {
    if one == other {
        return None;
    }
    let line = Line(AtomicU64::new(0));
    // Threads of their own on both sides: the caller stays where it is.
    thread::scope(|scope| {
        let answering = scope.spawn(|| answer(&line.0, other));
        let asking = scope.spawn(|| ask(&line.0, one));
        let median = asking.join().ok().flatten();
        line.0.store(END, Ordering::Release);
        answering.join().ok().filter(|pinned| *pinned).and(median)
    })
}

/// A cache line of its own, and the one that is fetched with it.
#[repr(align(128))]
struct Line(AtomicU64);

/// Answers each odd number with the next even one.
fn answer(line: &AtomicU64, core: usize) -> bool {
    let pinned = cores::pin(core).is_ok();
    loop {
        match line.load(Ordering::Acquire) {
            END => return pinned,
            // Compared, so that the end is not written over.
            n if n % 2 == 1 => {
                let _ = line.compare_exchange(n, n + 1, Ordering::AcqRel, Ordering::Acquire);
            }
            _ => std::hint::spin_loop(),
        }
    }
}

fn ask(line: &AtomicU64, core: usize) -> Option<f64> {
    cores::pin(core).ok()?;
    let mut batches = Vec::with_capacity(BATCHES);
    let start = Instant::now();
    let mut number = 0;
    let mut from = start;
    // The first batch waits for the other thread's start, so at least two.
    'batches: while batches.len() < BATCHES
        && (from.duration_since(start) < PROBE || batches.len() < 2)
    {
        for _ in 0..BATCH {
            line.store(number + 1, Ordering::Release);
            number += 2;
            let mut looks = 0;
            while line.load(Ordering::Acquire) != number {
                std::hint::spin_loop();
                looks += 1;
                if looks % LOOKS == 0 && start.elapsed() > TIME_LIMIT {
                    break 'batches;
                }
            }
        }
        let now = Instant::now();
        batches.push(now.duration_since(from).as_nanos() as f64 / BATCH as f64);
        from = now;
    }
    batches.get(1..).and_then(crate::stats::median)
}

#[cfg(test)]
mod tests;
