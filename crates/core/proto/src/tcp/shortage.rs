//! What becomes of connections that hold memory and do not move while memory is short: THREATS 17
//! to 20.
//!
//! Whoever holds more than the minimum that is its own stands in a line. While memory is short, and
//! only then, some of them are looked at every now and then, in turn: who has moved too little
//! since the last look is reset, until memory is short no more. The rule is in
//! [`crate::store::lending`].
//!
//! Where a store has no minimum for each queue, somebody may be refused memory while it has nothing
//! under way. Who that is nobody keeps: the table is looked through when there is memory again.

use super::clock::Ms;
use super::rare_stats::Loan;
use clearway_base::{Duration, Instant};

use super::Tcp;
use super::context::Cx;
use super::marks::Marks;
use super::table::{Borrowers, Refused};
use crate::error::Failure;
use crate::event::ConnEvents;
use crate::store::lending::{LOOK, moves_enough};
use crate::store::{Env, RxStore, TxStore};
use crate::trace::Trace;

/// How often a part of the line is looked at while memory is short.
const EVERY: Duration = Duration::from_millis(100);

/// How many are looked at then, at most: a line of all connections that there are by default has
/// been looked at in less than four times [`LOOK`].
const LOOKS: u32 = 1_024;

/// Records that are looked at together for those who were refused memory, how often that is, and
/// how many of them are told together: they take what there is one after the other.
const SOUGHT: u32 = 4_096;
const SEEK_EVERY: Duration = Duration::from_millis(1);
const TOLD: u32 = 16;

impl<E: Env> Tcp<E> {
    /// Whether memory is short, of either kind.
    pub(super) fn is_short(&self) -> bool {
        self.pools.tx.is_short() || self.pools.rx.is_scarce()
    }

    /// The connection at `index` has received something: it is noted when buffers are few and it
    /// holds any.
    #[inline(always)]
    pub(super) fn note_borrower(&mut self, index: u32) {
        if self.pools.rx.is_scarce() {
            self.borrowed(index);
        }
    }

    /// The connection at `index` may hold more than its minimum: it stands in the line from now on.
    #[cold]
    #[inline(never)]
    pub(super) fn borrowed(&mut self, index: u32) {
        let is_short = self.is_short();
        let Tcp { open, pools, borrowers, now, .. } = self;
        if is_short && !borrowers.next_look.is_set() {
            borrowers.next_look = *now + EVERY;
            borrowers.busy = true;
        }
        let Some(c) = open.by_index_mut(index) else { return };
        if pools.tx.borrowed(&c.tx) == 0 && pools.rx.borrowed(&c.rx) == 0 {
            return;
        }
        let (acked, read) = (c.snd.una, c.read_to(&pools.rx));
        c.note_rare(pools, |_| ());
        let Some(place) = c.rare.index() else { return };
        if borrowers.line.push_back(&mut pools.rare_stats.links(|t| &mut t.loan.link), place) {
            if let Some(record) = c.rare.get_mut(&mut pools.rare_stats) {
                let link = record.loan.link;
                record.loan = Loan { link, conn: index, acked, read, since: Ms::of(*now) };
            }
        }
    }

    /// The connection at `index` gives everything back.
    pub(super) fn repaid(&mut self, index: u32) {
        let Tcp { open, pools, borrowers, .. } = self;
        let Some(place) = open.by_index_mut(index).and_then(|c| c.rare.index()) else { return };
        borrowers.line.remove(&mut pools.rare_stats.links(|t| &mut t.loan.link), place);
    }

    /// When [`Tcp::look_after_memory`] is to be called next.
    #[inline]
    pub(super) fn next_look(&self) -> Instant {
        if self.borrowers.busy { self.next_look_of_busy() } else { Instant::NEVER }
    }

    #[cold]
    #[inline(never)]
    fn next_look_of_busy(&self) -> Instant {
        self.borrowers.next_look.min(self.next_room())
    }

    /// Looks at those who hold memory, and tells those who wait for some, if it is time for either.
    #[cold]
    #[inline(never)]
    pub(super) fn look_after_memory(&mut self, cx: &mut Cx<'_>) {
        if self.borrowers.next_look <= cx.now {
            self.look_at_borrowers(cx);
        }
        if self.next_room() <= cx.now {
            self.tell_of_room(cx);
        }
        let Borrowers { next_look, refused, busy, .. } = &mut self.borrowers;
        *busy = next_look.is_set() || refused.left > 0;
    }

    /// Looks at some of those who hold more than their minimum, and ends those who do not move, as
    /// long as memory is short.
    fn look_at_borrowers(&mut self, cx: &mut Cx<'_>) {
        let mut looks = LOOKS.min(self.borrowers.line.len());
        loop {
            let short = (self.pools.tx.is_short(), self.pools.rx.is_short());
            if looks == 0 || short == (false, false) {
                self.pools.rx.relax();
                self.borrowers.next_look =
                    if self.is_short() { cx.now + EVERY } else { Instant::NEVER };
                return;
            }
            looks -= 1;
            self.look_at_first(cx, short);
        }
    }

    /// Somebody was refused memory who has nothing under way.
    pub(super) fn was_refused(&mut self) {
        let refused = &mut self.borrowers.refused;
        if refused.left == 0 {
            refused.next = self.now + SEEK_EVERY;
        }
        refused.left = self.open.capacity();
        self.borrowers.busy = true;
    }

    /// Whether the connection at `index` waits for memory, and if so how much there is for it.
    fn room_for_refused(&self, index: u32) -> Option<u32> {
        let c = self.open.by_index(index).filter(|c| c.marks.has(Marks::WANT_ROOM))?;
        let waits = !c.marks.has(Marks::ORPHAN) && self.pools.tx.len(&c.tx) == 0;
        waits.then(|| self.pools.tx.room(&c.tx))
    }

    /// When [`Tcp::tell_of_room`] is to be called next: at once when there is memory for the next
    /// one who waits, and never as long as there is none.
    fn next_room(&self) -> Instant {
        let Refused { at, left, next } = self.borrowers.refused;
        match self.room_for_refused(at) {
            _ if left == 0 => Instant::NEVER,
            None => next,
            Some(0) => Instant::NEVER,
            Some(_) => self.now,
        }
    }

    /// Tells those who were refused memory that there is some, in turn.
    fn tell_of_room(&mut self, cx: &mut Cx<'_>) {
        let mut told = 0;
        for _ in 0..SOUGHT {
            let at = self.borrowers.refused.at;
            if self.borrowers.refused.left == 0 || told == TOLD {
                break;
            }
            match self.room_for_refused(at) {
                // The search goes on here when somebody has given some back.
                Some(0) => return,
                Some(_) => {
                    if let Some(c) = self.open.by_index_mut(at) {
                        c.marks.clear(Marks::WANT_ROOM);
                        c.tell(ConnEvents::WRITABLE);
                    }
                    self.settle(cx.config, cx.counters, at);
                    told += 1;
                }
                None => {}
            }
            let last = self.open.capacity().saturating_sub(1);
            let refused = &mut self.borrowers.refused;
            (refused.at, refused.left) = (if at >= last { 0 } else { at + 1 }, refused.left - 1);
        }
        self.borrowers.refused.next = cx.now + SEEK_EVERY;
    }

    fn look_at_first(&mut self, cx: &mut Cx<'_>, (tx_short, rx_short): (bool, bool)) {
        let Tcp { open, pools, borrowers, .. } = self;
        let Some(place) =
            borrowers.line.pop_front(&mut pools.rare_stats.links(|t| &mut t.loan.link))
        else {
            return;
        };
        let Some(loan) = pools.rare_stats.by_index(place).map(|t| t.loan.clone()) else { return };
        let Some(c) = open.by_index_mut(loan.conn) else { return };
        let (sends, reads) = (pools.tx.borrowed(&c.tx), pools.rx.borrowed(&c.rx));
        if sends == 0 && reads == 0 {
            return;
        }
        borrowers.line.push_back(&mut pools.rare_stats.links(|t| &mut t.loan.link), place);
        let time = loan.since.ago(cx.now);
        if time < LOOK {
            return;
        }
        let (acked, read) = (c.snd.una, c.read_to(&pools.rx));
        let sends_enough = !tx_short || moves_enough(sends, acked.since(loan.acked).into(), time);
        let reads_enough = !rx_short || moves_enough(reads, read.since(loan.read).into(), time);
        if sends_enough && reads_enough {
            if let Some(record) = c.rare.get_mut(&mut pools.rare_stats) {
                (record.loan.acked, record.loan.read, record.loan.since) =
                    (acked, read, Ms::of(cx.now));
            }
            return;
        }
        cx.counters.tcp.shortage_resets += 1;
        E::trace(Trace::ShortageReset { ends: c.key.traced() });
        self.end_for_others(cx, loan.conn);
    }

    /// The connection at `index` is reset, and all its memory is free at once, that of what its
    /// owner has not read too. Its owner learns why and closes it.
    pub(super) fn end_for_others(&mut self, cx: &mut Cx<'_>, index: u32) {
        let Tcp { open, pools, .. } = self;
        let Some(c) = open.by_index_mut(index) else { return };
        if let Some(empty) = pools.tx.open(c.token) {
            pools.tx.close(core::mem::replace(&mut c.tx, empty));
        }
        if let Some(empty) = pools.rx.open(c.token) {
            pools.rx.close(core::mem::replace(&mut c.rx, empty));
        }
        c.failure.get_or_insert(Failure::NoMemory);
        c.tell(ConnEvents::FAILED);
        c.reset();
        self.settle(cx.config, cx.counters, index);
    }
}
