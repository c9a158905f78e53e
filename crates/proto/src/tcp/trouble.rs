//! What a connection has been through that most connections are spared: repetitions, reordering, and waiting for the peer's window or for room in its
//! own send queue. The record is taken when the first such thing happens and kept until the connection is gone, so that what is counted stays counted.

use clearway_base::{Duration, Instant};
use clearway_wire::Seq;

use super::cc::Cc;
use super::conn::{Conn, Marks};
use super::context::Pools;
use super::rack::ReoWindow;
use super::shortage::Loan;
use super::span::Span;
use crate::store::Env;

/// The record of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    /// Payload bytes sent again.
    pub bytes_retransmitted: u64,
    /// Segments sent again, those of the handshake left out.
    pub segs_retransmitted: u32,
    /// SYNs, or SYN-ACKs, sent again.
    pub syns_retransmitted: u32,
    /// D-SACKs that came (RFC 2883).
    pub dsack_dups: u32,
    /// How often a hole in what the peer holds was filled by something late and not by a repetition.
    pub reord_seen: u32,
    /// Segments that arrived ahead of something that is missing.
    pub ooo_segs: u32,
    /// What arrived twice, while [`Marks::DUPLICATE`] says so.
    pub duplicate: Span,
    /// When the present limit, [`Marks::RWND_LIMITED`] or [`Marks::SNDBUF_LIMITED`], began to hold.
    since: Instant,
    rwnd_limited: Duration,
    sndbuf_limited: Duration,
    /// What it has borrowed.
    pub loan: Loan,
    /// How the congestion window stood before the last recovery.
    pub undo: Option<Undo>,
    /// What D-SACKs have taught of reordering.
    pub reordering: ReoWindow,
}

/// How things stood when fast recovery began, until it is known that something was lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Undo {
    pub cc: Cc,
    /// SND.UNA at that time.
    pub una: Seq,
    /// Bytes sent again since that the peer has not called duplicates.
    pub bytes: u32,
}

impl Trouble {
    /// Nothing has happened.
    pub(crate) const NONE: Trouble = Trouble {
        bytes_retransmitted: 0,
        segs_retransmitted: 0,
        syns_retransmitted: 0,
        dsack_dups: 0,
        reord_seen: 0,
        ooo_segs: 0,
        duplicate: Span::new(Seq(0), Seq(0)),
        since: Instant::ZERO,
        rwnd_limited: Duration::ZERO,
        sndbuf_limited: Duration::ZERO,
        loan: Loan::NONE,
        undo: None,
        reordering: ReoWindow::NEW,
    };
}

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
            t.since = now;
        });
    }

    /// How long the peer's window, and the room of the send queue, have held sending back.
    pub(crate) fn limited_times(&self, now: Instant, p: &Pools<E>) -> (Duration, Duration) {
        let mut trouble = self.suffered(p).clone();
        trouble.count(now, self.marks.intersection(LIMITS));
        (trouble.rwnd_limited, trouble.sndbuf_limited)
    }
}

impl Trouble {
    /// `len` bytes were sent again.
    pub(crate) fn resent(&mut self, len: u32) {
        if let Some(undo) = &mut self.undo {
            undo.bytes = undo.bytes.saturating_add(len);
        }
    }

    /// Counts the time from `since` until now as time under `limit`.
    fn count(&mut self, now: Instant, limit: Marks) {
        let time = now.since(self.since);
        if limit == Marks::RWND_LIMITED {
            self.rwnd_limited = self.rwnd_limited + time;
        } else if limit == Marks::SNDBUF_LIMITED {
            self.sndbuf_limited = self.sndbuf_limited + time;
        }
    }
}
