//! What went through the sessions of a namespace.

use std::sync::atomic::{AtomicU64, Ordering};

use clearway_proto::Carried;

/// What the sessions of a namespace have carried, those that ended included. Nothing on a packet's
/// path writes here: what a session has carried is added when it ends and when somebody asks.
#[derive(Debug, Default)]
pub struct Traffic {
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    segs_in: AtomicU64,
    segs_out: AtomicU64,
}

/// The counts of a [`Traffic`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TrafficCounts {
    /// Bytes of payload that came for programs.
    pub bytes_in: u64,
    /// Bytes of payload that went out for them, not counting repetitions.
    pub bytes_out: u64,
    /// Segments of TCP that came for them.
    pub segs_in: u64,
    /// Segments of TCP that went out.
    pub segs_out: u64,
}

impl Traffic {
    /// What there is so far.
    pub fn counts(&self) -> TrafficCounts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        TrafficCounts {
            bytes_in: load(&self.bytes_in),
            bytes_out: load(&self.bytes_out),
            segs_in: load(&self.segs_in),
            segs_out: load(&self.segs_out),
        }
    }
}

/// What a session has carried, as far as its namespace's [`Traffic`] knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Known {
    bytes_in: u64,
    bytes_out: u64,
    segs_in: u32,
    segs_out: u32,
}

impl Known {
    /// Of a connection, and of what went round the stack.
    pub(crate) fn of(carried: Carried, (read, written): (u64, u64)) -> Known {
        Known {
            bytes_in: carried.bytes_received + read,
            bytes_out: carried.bytes_sent + written,
            segs_in: carried.segs_in,
            segs_out: carried.segs_out,
        }
    }

    /// Adds what is new since the last time.
    pub(crate) fn tell(&mut self, now: Known, traffic: &Traffic) {
        let add = |count: &AtomicU64, more: u64| {
            // Most sessions have nothing new, and the line is shared by all workers.
            if more > 0 {
                count.fetch_add(more, Ordering::Relaxed);
            }
        };
        add(&traffic.bytes_in, now.bytes_in.saturating_sub(self.bytes_in));
        add(&traffic.bytes_out, now.bytes_out.saturating_sub(self.bytes_out));
        add(&traffic.segs_in, now.segs_in.wrapping_sub(self.segs_in).into());
        add(&traffic.segs_out, now.segs_out.wrapping_sub(self.segs_out).into());
        *self = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_twice_counts_once_and_counts_of_segments_may_wrap() {
        let traffic = Traffic::default();
        let mut known = Known::default();
        let mut carried = Carried {
            bytes_received: 10,
            bytes_sent: 1 << 40,
            unsent: 5,
            segs_in: u32::MAX,
            segs_out: 7,
        };
        known.tell(Known::of(carried, (0, 0)), &traffic);
        known.tell(Known::of(carried, (0, 0)), &traffic);
        carried.segs_in = 1;
        carried.bytes_received = 11;
        known.tell(Known::of(carried, (100, 0)), &traffic);
        let expected = TrafficCounts {
            bytes_in: 111,
            bytes_out: 1 << 40,
            segs_in: u64::from(u32::MAX) + 2,
            segs_out: 7,
        };
        assert_eq!(traffic.counts(), expected);
    }
}
