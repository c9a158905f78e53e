//! What holds sending back, and notes in the record of what most connections are spared.

use clearway_base::{Duration, Instant};

use super::conn::Conn;
use super::context::Pools;
use super::marks::Marks;
use super::trouble::Trouble;
use crate::store::Env;

/// The limits of which time is kept (RFC 4898, tcpEStatsPerfSndLimTime…, in the sense of Linux: the peer's window, and the send queue's room).
const LIMITS: Marks = Marks::RWND_LIMITED.with(Marks::SNDBUF_LIMITED);

impl<E: Env> Conn<E> {
    /// Notes something in the record, which is taken if there is none yet. There are as many places as connections.
    pub(crate) fn suffer(&mut self, p: &mut Pools<E>, what: impl FnOnce(&mut Trouble)) {
        if self.trouble.is_none() {
            self.trouble.take(&mut p.troubles, Trouble::NONE);
        }
        if let Some(trouble) = self.trouble.get_mut(&mut p.troubles) {
            what(trouble);
        }
    }

    /// The record, empty when there is none.
    pub(crate) fn suffered<'a>(&self, p: &'a Pools<E>) -> &'a Trouble {
        self.trouble.get(&p.troubles).unwrap_or(&Trouble::NONE)
    }

    /// From now on `limit` is what holds sending back; empty: none of those of which time is kept.
    pub(crate) fn limited_by(&mut self, now: Instant, p: &mut Pools<E>, limit: Marks) {
        let before = self.marks.intersection(LIMITS);
        if before == limit {
            return;
        }
        self.marks.clear(LIMITS);
        self.marks.set(limit);
        self.suffer(p, |t| {
            t.count(now, before);
            t.begin(now);
        });
    }

    /// How long the peer's window, and the room of the send queue, have held sending back.
    pub(crate) fn limited_times(&self, now: Instant, p: &Pools<E>) -> (Duration, Duration) {
        let mut trouble = self.suffered(p).clone();
        trouble.count(now, self.marks.intersection(LIMITS));
        (trouble.rwnd_limited, trouble.sndbuf_limited)
    }
}
