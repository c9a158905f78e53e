//! What holds sending back, and for how long.

use clearway_base::{Duration, Instant};

use super::conn::Conn;
use super::context::Pools;
use super::marks::Marks;
use super::sack::Scoreboard;
use crate::store::{Env, TxStore};

/// The limits of which time is kept (RFC 4898, tcpEStatsPerfSndLimTime…, in the sense of Linux: the
/// peer's window, and the send queue's room).
const LIMITS: Marks = Marks::RWND_LIMITED.with(Marks::SNDBUF_LIMITED);

impl<E: Env> Conn<E> {
    /// How many bytes the owner may have written that were not acknowledged.
    pub(super) fn send_limit(&self, p: &Pools<E>) -> u32 {
        let held = self.board(p).map_or(0, Scoreboard::bytes);
        p.sizes.send_limit(self.settings.send_buffer, self.cc.cwnd(), held)
    }

    /// How many more he may write now.
    pub(super) fn send_room(&self, p: &Pools<E>) -> u32 {
        match p.tx.room(&self.tx) {
            // Also of a queue that only its owner writes into: how much is in it is not asked,
            // since who asks has to send it.
            0 => 0,
            room => room.min(self.send_limit(p).saturating_sub(p.tx.len(&self.tx))),
        }
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
