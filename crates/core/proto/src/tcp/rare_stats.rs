//! What a connection has been through that most connections are spared: repetitions, reordering,
//! and waiting for the peer's window or for room in its own send queue. The record is taken when
//! the first such thing happens and kept until the connection is gone, so that what is counted
//! stays counted.

use alloc::vec::Vec;

use clearway_base::{Duration, Instant, Link};
use clearway_wire::Seq;

use super::cc::Cc;
use super::clock::Ms;
use super::cold::Cold;
use super::ecn::EcnState;
use super::loss::reo_wnd::ReoWindow;
use super::marks::Marks;
use super::mtu_search::MtuSearch;
use super::seldom::Seldom;
use super::sizes::Measured;
use super::span::Span;
use crate::export::Fields;
use crate::limits::RECORD_ENDS;

/// A connection's place in the line, and what was seen of it when it was looked at last.
#[derive(Clone, Debug)]
pub(crate) struct Loan {
    pub link: Link,
    pub conn: u32,
    /// SND.UNA, and the number up to which the owner had read.
    pub acked: Seq,
    pub read: Seq,
    pub since: Ms,
}

impl Loan {
    /// Nothing was lent.
    pub(crate) const NONE: Loan =
        Loan { link: Link::OFF, conn: 0, acked: Seq(0), read: Seq(0), since: Ms::ZERO };
}

/// Separate duplicates of one turn that ACKs tell of in front of the one that is due. Of more the
/// first are forgotten.
pub(crate) const DUPLICATES: usize = 2;

/// The record of one connection.
#[derive(Clone, Debug)]
pub(crate) struct RareStats {
    /// What else seldom matters of it.
    pub cold: Cold,
    /// Payload bytes sent again.
    pub bytes_retransmitted: u64,
    /// Segments sent again, those of the handshake left out.
    pub segs_retransmitted: u32,
    /// SYNs, or SYN-ACKs, sent again.
    pub syns_retransmitted: u32,
    /// D-SACKs that came (RFC 2883).
    pub dsack_dups: u32,
    /// How often a hole in what the peer holds was filled by something late and not by a
    /// repetition.
    pub reord_seen: u32,
    /// Segments that arrived ahead of something that is missing.
    pub ooo_segs: u32,
    /// What arrived twice, while [`Marks::DUPLICATE`] says so: what came last of it.
    pub duplicate: Span,
    /// What arrived twice before that and no ACK has told of, the first in front; empty places
    /// are empty spans.
    pub duplicates: [Span; DUPLICATES],
    /// Where what was written ended when more was said to follow (MSG_MORE).
    pub more_behind: Seq,
    /// When the present limit, [`Marks::RWND_LIMITED`] or [`Marks::SNDBUF_LIMITED`], began to hold.
    since: Instant,
    pub rwnd_limited: Duration,
    pub sndbuf_limited: Duration,
    /// What it has borrowed.
    pub loan: Loan,
    /// How the congestion window stood before the last recovery.
    pub undo: Option<Undo>,
    /// How fast the owner reads.
    pub measured: Measured,
    /// Options that few are given.
    pub seldom: Seldom,
    /// The search for what the path carries, while there is one.
    pub search: Option<MtuSearch>,
    /// What D-SACKs have taught of reordering.
    pub reordering: ReoWindow,
    /// The last tail loss probe, while one is out.
    pub probe: Option<Probe>,
    /// What is agreed on and counted of ECN, or asked for by our SYN.
    pub ecn: Option<EcnState>,
    /// What our SYN has to do with Fast Open. It is not exported: a SYN that leaves after an import
    /// has no such option.
    pub fast_open: EarlySyn,
}

/// What the SYN of a connection that we begin has to do with Fast Open (RFC 7413).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EarlySyn {
    /// Nothing.
    Plain,
    /// It has the option.
    Asks,
    /// The same, and it leaves with the first bytes that are written.
    WaitsForData,
    /// It has no option, and data all the same.
    Bare,
    /// The same, and it leaves with the first bytes that are written.
    BareWaitsForData,
    /// Data went with it, and was taken: this or the peer's.
    Taken,
}

impl EarlySyn {
    /// The SYN may have an option or data.
    pub(crate) fn is_special(self) -> bool {
        !matches!(self, EarlySyn::Plain | EarlySyn::Taken)
    }

    /// It leaves with the first bytes that are written.
    pub(crate) fn waits_for_data(self) -> bool {
        matches!(self, EarlySyn::WaitsForData | EarlySyn::BareWaitsForData)
    }

    /// It has data without a cookie.
    pub(crate) fn is_bare(self) -> bool {
        matches!(self, EarlySyn::Bare | EarlySyn::BareWaitsForData)
    }
}

/// Where records end, which share no segment with what follows them (MSG_EOR): a connection by its
/// place among the [`RareStats`], and the number behind the record. Hardly anybody asks for that,
/// so the ends of all connections lie in one short list. It is not exported: where nobody knows of
/// an end, bytes share segments as ever.
pub(crate) struct RecordEnds {
    ends: Vec<(u32, Seq)>,
}

impl RecordEnds {
    /// None.
    pub(crate) fn new() -> RecordEnds {
        RecordEnds { ends: Vec::with_capacity(RECORD_ENDS) }
    }

    /// Whether there is a place for one more, those of the connection up to `una` left out, which
    /// mean nothing any more.
    pub(crate) fn has_room(&mut self, conn: u32, una: Seq) -> bool {
        self.ends.retain(|(of, end)| *of != conn || end.gt(una));
        self.ends.len() < RECORD_ENDS
    }

    /// A record of the connection ends at `end`.
    pub(crate) fn add(&mut self, conn: u32, end: Seq) {
        if self.ends.len() < RECORD_ENDS {
            self.ends.push((conn, end));
        }
    }

    /// The first end of the connection's behind `at`.
    pub(crate) fn after(&self, conn: u32, at: Seq) -> Option<Seq> {
        self.ends
            .iter()
            .filter(|(of, end)| *of == conn && end.gt(at))
            .map(|(_, end)| *end)
            .reduce(Seq::min)
    }

    /// The connection is gone.
    pub(crate) fn forget(&mut self, conn: u32) {
        self.ends.retain(|(of, _)| *of != conn);
    }
}

/// How things stood when fast recovery began, until it is known that something was lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Undo {
    pub cc: Cc,
    /// SND.UNA at that time.
    pub una: Seq,
    /// Bytes sent again since that the peer has not called duplicates.
    pub bytes: u32,
    /// Our timestamp when something was sent again first (RFC 3522 3.2, RetransmitTS).
    pub stamp: Option<u32>,
}

impl RareStats {
    /// Nothing has happened, up to `una`.
    pub(crate) const fn at(una: Seq) -> RareStats {
        RareStats { cold: Cold::at(una), ..RareStats::NONE }
    }

    /// Nothing has happened.
    pub(crate) const NONE: RareStats = RareStats {
        cold: Cold::at(Seq(0)),
        bytes_retransmitted: 0,
        segs_retransmitted: 0,
        syns_retransmitted: 0,
        dsack_dups: 0,
        reord_seen: 0,
        ooo_segs: 0,
        duplicate: NOTHING,
        duplicates: [NOTHING; DUPLICATES],
        more_behind: Seq(0),
        since: Instant::ZERO,
        rwnd_limited: Duration::ZERO,
        sndbuf_limited: Duration::ZERO,
        loan: Loan::NONE,
        undo: None,
        measured: Measured::NONE,
        seldom: Seldom::NONE,
        search: None,
        reordering: ReoWindow::NEW,
        probe: None,
        ecn: None,
        fast_open: EarlySyn::Plain,
    };
}

/// The empty span.
const NOTHING: Span = Span::new(Seq(0), Seq(0));

impl RareStats {
    /// `span` arrived a second time. `waits`: the duplicate before it was not told of yet; one that
    /// goes on where that ended is told of with it.
    pub(crate) fn note_duplicate(&mut self, span: Span, waits: bool) {
        if waits && span.start == self.duplicate.end {
            self.duplicate.end = span.end;
            return;
        }
        if waits {
            self.duplicates.rotate_left(1);
            self.duplicates[DUPLICATES - 1] = self.duplicate;
        }
        self.duplicate = span;
    }

    /// The first of the duplicates that came before the last one and was not told of.
    pub(crate) fn take_earlier(&mut self) -> Option<Span> {
        let first = self.duplicates.iter_mut().find(|span| !span.is_empty())?;
        Some(core::mem::replace(first, NOTHING))
    }

    /// `len` bytes were sent again, and `stamp` said when if timestamps are in use.
    pub(crate) fn resent(&mut self, len: u32, stamp: Option<u32>) {
        if let Some(undo) = &mut self.undo {
            undo.stamp = undo.stamp.or(stamp);
            undo.bytes = undo.bytes.saturating_add(len);
        }
    }

    /// A limit begins to hold.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.since = now;
    }

    /// Counts the time from `since` until now as time under `limit`.
    pub(crate) fn count(&mut self, now: Instant, limit: Marks) {
        let time = now.since(self.since);
        if limit == Marks::RWND_LIMITED {
            self.rwnd_limited = self.rwnd_limited + time;
        } else if limit == Marks::SNDBUF_LIMITED {
            self.sndbuf_limited = self.sndbuf_limited + time;
        }
    }
}

impl RareStats {
    /// Its part of a record ([`crate::export`]). What was lent is reckoned anew.
    pub(crate) fn fields(&mut self, f: &mut impl Fields) {
        let RareStats {
            bytes_retransmitted,
            segs_retransmitted,
            syns_retransmitted,
            dsack_dups,
            reord_seen,
            ..
        } = self;
        f.u64(230, bytes_retransmitted);
        f.u32(231, segs_retransmitted);
        f.u32(232, syns_retransmitted);
        f.u32(233, dsack_dups);
        f.u32(234, reord_seen);
        let RareStats { ooo_segs, duplicate, since, rwnd_limited, sndbuf_limited, .. } = self;
        f.u32(235, ooo_segs);
        f.seq(236, &mut duplicate.start);
        f.seq(237, &mut duplicate.end);
        f.instant(238, since);
        f.duration(239, rwnd_limited);
        f.duration(240, sndbuf_limited);
        self.reordering.fields(f);
        Probe::field(&mut self.probe, f);
        self.seldom.fields(f);
        // Whoever reads has put something here that can be written over.
        let mut searches = self.search.is_some();
        f.bool(420, &mut searches);
        self.search = self.search.take().filter(|_| searches);
        if let Some(search) = &mut self.search {
            search.fields(f);
        }
        let mut may_undo = self.undo.is_some();
        f.bool(350, &mut may_undo);
        self.undo = self.undo.take().filter(|_| may_undo);
        if let Some(Undo { cc, una, bytes, stamp }) = &mut self.undo {
            f.seq(351, una);
            f.u32(352, bytes);
            let (mut stamped, mut value) = (stamp.is_some(), stamp.unwrap_or_default());
            f.bool(353, &mut stamped);
            f.u32(354, &mut value);
            *stamp = stamped.then_some(value);
            cc.fields(360, f);
        }
    }
}

/// The probe that is out: TLP.end_seq and TLP.is_retrans.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Probe {
    /// SND.NXT when it had left.
    pub(crate) end: Seq,
    /// It repeated something.
    pub(crate) again: bool,
}

impl Probe {
    /// Its part of a record ([`crate::export`]).
    pub(crate) fn field(probe: &mut Option<Probe>, f: &mut impl Fields) {
        let (mut is_out, mut it) =
            (probe.is_some(), probe.unwrap_or(Probe { end: Seq(0), again: false }));
        f.bool(345, &mut is_out);
        f.seq(346, &mut it.end);
        f.bool(347, &mut it.again);
        *probe = is_out.then_some(it);
    }
}
