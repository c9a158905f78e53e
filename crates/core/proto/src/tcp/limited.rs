//! What holds sending back, and notes in the record of what most connections are spared.

use clearway_base::{Duration, Instant};

use super::conn::Conn;
use super::context::Pools;
use super::marks::Marks;
use super::rare_stats::RareStats;
use crate::store::Env;

/// The limits of which time is kept (RFC 4898, tcpEStatsPerfSndLimTime…, in the sense of Linux: the
/// peer's window, and the send queue's room).
const LIMITS: Marks = Marks::RWND_LIMITED.with(Marks::SNDBUF_LIMITED);

impl<E: Env> Conn<E> {
    /// Notes something in the record, which is taken if there is none yet. There are as many places
    /// as connections.
    pub(crate) fn note_rare(&mut self, p: &mut Pools<E>, what: impl FnOnce(&mut RareStats)) {
        if self.rare.is_none() {
            self.rare.take(&mut p.rare_stats, RareStats::at(self.snd.una));
        }
        if let Some(rare) = self.rare.get_mut(&mut p.rare_stats) {
            what(rare);
        }
    }

    /// The record, empty when there is none.
    pub(crate) fn suffered<'a>(&self, p: &'a Pools<E>) -> &'a RareStats {
        self.rare.get(&p.rare_stats).unwrap_or(&RareStats::NONE)
    }

    /// From now on `limit` is what holds sending back; empty: none of those of which time is kept.
    pub(crate) fn limited_by(&mut self, now: Instant, p: &mut Pools<E>, limit: Marks) {
        let before = self.marks.intersection(LIMITS);
        if before == limit {
            return;
        }
        self.marks.clear(LIMITS);
        self.marks.set(limit);
        self.note_rare(p, |t| {
            t.count(now, before);
            t.begin(now);
        });
    }

    /// How long the peer's window, and the room of the send queue, have held sending back.
    pub(crate) fn limited_times(&self, now: Instant, p: &Pools<E>) -> (Duration, Duration) {
        let mut rare = self.suffered(p).clone();
        rare.count(now, self.marks.intersection(LIMITS));
        (rare.rwnd_limited, rare.sndbuf_limited)
    }
}
