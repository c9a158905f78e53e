//! Bytes to send.

use std::cell::{Cell, RefCell};

use clearway_base::Duration;
use clearway_pkt::Piece;
use clearway_proto::TxStore;
use clearway_shm::attach_socket::FifoPlace;
use clearway_shm::{Consumer, Hostile};

use super::fifo_blocks::FifoBlocks;
use super::fifo_plan::FifoPlan;
use super::grant::{Grant, Progress};
use super::stamps::{Departures, SentAt};
use crate::memory::Memory;

/// Transmit FIFOs. A process's bytes stay in one until the peer has acknowledged them.
pub struct FifoTx {
    fifo_plan: FifoPlan,
    // Owners whose FIFO held something impossible.
    hostile: RefCell<Vec<u64>>,
    // Owners whose processes wait for room, and there is some.
    writable: Vec<u64>,
    // Owners of whose bytes the stack has sent the last that it was to send.
    drained: Vec<u64>,
    // Owners that have something to be told of what was sent.
    stamped: Vec<u64>,
    calendar: u64,
}

/// One connection's transmit FIFO.
pub struct TxFifo {
    token: u64,
    place: FifoPlace,
    /// Behind a cell: to ask how long it is, shared memory must be looked at, and what was seen is
    /// kept. None: nobody will write it any more, all of it was acknowledged, and its memory is
    /// given back.
    pub(super) live: RefCell<Option<Live>>,
    // Bytes in it when somebody looked last.
    len: Cell<u32>,
    grant: Grant,
    // Some: its bytes go straight to the peer's process, except for so many, which the stack has
    // sent and the peer has not acknowledged.
    direct: Cell<Option<u32>>,
    // What the process writes from now on does not count: it has said that it writes no more, or is
    // gone, or lies.
    is_frozen: Cell<bool>,
    // Bytes that may be in it and not sent (TCP_NOTSENT_LOWAT); u32::MAX: as many as there is room
    // for.
    unsent_bound: Cell<u32>,
    // Bytes at its front that the stack has sent; known where there is such a bound.
    sent: Cell<u32>,
    // Nobody has the session any more.
    is_abandoned: Cell<bool>,
    // What is to be told of its bytes, where somebody asks.
    departures: RefCell<Option<Box<Departures>>>,
    // What is peeked is counted: there is a bound of what is not sent, or something to tell.
    counts_sent: Cell<bool>,
}

pub(super) struct Live {
    pub(super) end: Consumer,
    blocks: FifoBlocks,
}

impl FifoTx {
    /// FIFOs as `fifo_plan` plans them.
    pub fn new(fifo_plan: FifoPlan) -> FifoTx {
        FifoTx {
            fifo_plan,
            hostile: RefCell::default(),
            writable: Vec::new(),
            drained: Vec::new(),
            stamped: Vec::new(),
            calendar: 0,
        }
    }

    /// The owners whose FIFO held something impossible since the last call.
    pub fn take_hostile(&self) -> Vec<u64> {
        self.hostile.take()
    }

    /// Whether [`FifoTx::take_hostile`] has something.
    #[inline]
    pub fn has_hostile(&self) -> bool {
        !self.hostile.borrow().is_empty()
    }

    /// An owner whose processes waited for room that there is now.
    #[inline]
    pub fn next_writable(&mut self) -> Option<u64> {
        self.writable.pop()
    }

    /// An owner whose program is to be told of something that was sent
    /// ([`TxFifo::next_stamp`]).
    #[inline]
    pub fn next_stamped(&mut self) -> Option<u64> {
        self.stamped.pop()
    }

    /// An owner whose bytes may go straight to the peer's process from now on
    /// ([`TxFifo::go_direct`]).
    #[inline]
    pub fn next_drained(&mut self) -> Option<u64> {
        self.drained.pop()
    }
}

impl TxFifo {
    /// The owner's word from now on.
    pub fn set_token(&mut self, token: u64) {
        self.token = token;
    }

    /// Where it lies, for the process.
    pub fn place(&self) -> FifoPlace {
        self.place
    }

    /// Notes when bytes leave and are acknowledged that the process marks, or no longer. False: the
    /// program has no memory for it.
    pub fn note_departures(&self, memory: &Memory, on: bool) -> bool {
        let mut departures = self.departures.borrow_mut();
        if on && departures.is_none() {
            *departures = Departures::begin(memory).map(Box::new);
        }
        self.counts_sent.set(departures.is_some() || self.unsent_bound.get() != u32::MAX);
        departures.is_some() || !on
    }

    /// Where the marks lie, where there are any.
    pub fn departures_place(&self) -> Option<FifoPlace> {
        self.departures.borrow().as_ref().map(|departures| departures.place())
    }

    /// How many times of what was sent are to be told.
    pub fn stamps(&self) -> u32 {
        self.departures.borrow().as_ref().map_or(0, |departures| departures.waiting_to_be_told())
    }

    /// The oldest of them.
    pub fn next_stamp(&self) -> Option<SentAt> {
        self.departures.borrow_mut().as_mut().and_then(|departures| departures.next())
    }

    /// Its first bytes, so many, have left, or were acknowledged. True: there is something to tell.
    #[cold]
    #[inline(never)]
    fn stamp(&self, bytes: u32, at: u64, acknowledged: bool) -> bool {
        let (mut departures, live) = (self.departures.borrow_mut(), self.live.borrow());
        let (Some(departures), Some(live)) = (departures.as_mut(), live.as_ref()) else {
            return false;
        };
        let position = live.end.position().wrapping_add(bytes);
        match acknowledged {
            true => departures.acknowledged(position, at),
            false => departures.left(position, at),
        }
    }

    /// The process will say so when it writes again. What it wrote is to be looked at afterwards.
    pub fn attend(&self) {
        if let Some(live) = self.live.borrow().as_ref() {
            live.end.attend();
        }
    }

    /// Bytes that were written and not acknowledged, as far as is known.
    pub fn fill(&self) -> u32 {
        self.len.get()
    }

    /// What is in it now is all that will ever be sent.
    pub fn freeze(&self) {
        if !self.is_frozen.get() {
            if let Some(Ok(len)) = self.live.borrow_mut().as_mut().map(Live::written) {
                self.len.set(len);
            }
            self.is_frozen.set(true);
        }
    }

    /// From now on its bytes go straight to the peer's process, as soon as the peer has
    /// acknowledged the first `in_flight`, which were sent already.
    pub fn go_direct(&self, in_flight: u32) {
        if !self.is_frozen.get() {
            self.direct.set(Some(in_flight));
        }
    }

    /// The stack carries its bytes again.
    pub fn go_back(&self) {
        self.direct.set(None);
    }

    /// Whether nothing of it is the stack's to carry.
    pub fn is_direct(&self) -> bool {
        self.direct.get() == Some(0)
    }

    /// Bytes in it now, whoever carries them.
    pub fn written(&self) -> Result<u32, Hostile> {
        if !self.is_frozen.get() {
            if let Some(len) = self.live.borrow_mut().as_mut().map(Live::written) {
                self.len.set(len?);
            }
        }
        Ok(self.len.get())
    }

    /// So many bytes were taken out of it. True: its processes wait for room, and there is some.
    pub(super) fn took(&self, bytes: u32, live: &mut Live) -> bool {
        self.len.set(self.len.get().saturating_sub(bytes));
        self.lend_more(bytes, live);
        self.is_room_wanted(live)
    }

    /// Its processes wait for room, and there is enough to be worth telling.
    #[inline]
    fn is_room_wanted(&self, live: &Live) -> bool {
        live.end.room_wanted((live.end.lent() / 2).min(self.unsent_bound.get() / 2))
    }

    /// So many bytes may be in it and not sent from now on; None: as many as there is room for.
    /// What is sent already is not known before more is, and counts for nothing until then.
    pub fn bound_unsent(&self, most: Option<u32>) {
        self.unsent_bound.set(most.unwrap_or(u32::MAX));
        self.counts_sent.set(most.is_some() || self.departures.borrow().is_some());
        if let Some(live) = self.live.borrow_mut().as_mut() {
            live.end.lend(self.lendable());
        }
    }

    /// How much may be in it.
    fn lendable(&self) -> u32 {
        self.grant.now().min(self.sent.get().saturating_add(self.unsent_bound.get()))
    }

    /// Its first bytes, so many, are sent. True: its processes wait for room, and there is some by
    /// that.
    #[cold]
    fn sent_to(&self, end: u32) -> bool {
        if end <= self.sent.get() {
            return false;
        }
        self.sent.set(end);
        let mut live = self.live.borrow_mut();
        let Some(live) = live.as_mut() else { return false };
        live.end.lend(self.lendable());
        self.is_room_wanted(live)
    }

    /// So many bytes have left it: perhaps it may hold more by that.
    #[inline]
    fn lend_more(&self, bytes: u32, live: &mut Live) {
        if self.grant.moved(bytes, live.blocks.account(), self.place.limit) {
            live.end.lend(self.lendable());
        }
    }

    /// How it gets on since the last look.
    pub fn progress(&self) -> Progress {
        Progress { held: self.len.get().into(), moved: self.grant.look() }
    }

    /// Bytes of memory that it has.
    pub fn charged(&self) -> u64 {
        self.live.borrow().as_ref().map_or(0, |live| live.blocks.charged())
    }

    /// Gives back the memory in which nothing lies, unless its process writes just now. `hard`: it
    /// may hold no more than is everybody's from now on. True: its processes wait for room, and
    /// there is some.
    pub fn give_back_unused(&self, hard: bool) -> bool {
        let mut live = self.live.borrow_mut();
        let Some(Live { end, blocks }) = live.as_mut() else { return false };
        if hard {
            self.grant.shrink(blocks.account(), self.place.limit, 0);
        }
        let is_still = end.withhold();
        if is_still && (self.is_frozen.get() || end.len().is_ok_and(|len| len == self.len.get())) {
            blocks.keep_only(end.offset(0), self.len.get());
        }
        end.lend(self.lendable());
        end.room_wanted(1)
    }

    /// Nobody has the session any more: what is in it now is still sent, and then its memory is
    /// free.
    pub fn abandon(&self) {
        self.freeze();
        self.is_abandoned.set(true);
        if self.len.get() == 0 {
            return self.give_back();
        }
        // What the process writes from now on counts for nothing.
        if let Some(Live { end, blocks }) = self.live.borrow().as_ref() {
            blocks.keep_only(end.offset(0), self.len.get());
        }
    }

    fn give_back(&self) {
        drop(self.live.take());
    }
}

impl Live {
    /// Bytes in it. Those that are new are noted.
    #[inline]
    fn written(&mut self) -> Result<u32, Hostile> {
        let known = self.end.known();
        let len = self.end.len()?;
        if len > known {
            self.blocks.touch(self.end.offset(known), len - known);
        }
        Ok(len)
    }
}

impl TxStore for FifoTx {
    // Behind a pointer, so that a connection's record stays small.
    type Queue = Box<TxFifo>;

    fn open(&mut self, token: u64) -> Option<Box<TxFifo>> {
        let blocks = self.fifo_plan.tx(token)?;
        let (place, mut end) = (blocks.place, Consumer::new(blocks.mem.clone()));
        let grant = Grant::new(blocks.account(), place.limit, 0);
        end.lend(grant.now());
        Some(Box::new(TxFifo {
            token,
            place,
            live: RefCell::new(Some(Live { end, blocks })),
            len: Cell::new(0),
            grant,
            direct: Cell::new(None),
            is_frozen: Cell::new(false),
            unsent_bound: Cell::new(u32::MAX),
            sent: Cell::new(0),
            is_abandoned: Cell::new(false),
            departures: RefCell::new(None),
            counts_sent: Cell::new(false),
        }))
    }

    fn close(&mut self, queue: Box<TxFifo>) {
        queue.give_back();
    }

    #[inline]
    fn len(&self, queue: &Box<TxFifo>) -> u32 {
        if !queue.is_frozen.get() {
            match queue.live.borrow_mut().as_mut().map(Live::written) {
                None => {}
                Some(Ok(len)) => queue.len.set(len),
                // What is known stays true; what comes later is not believed.
                Some(Err(Hostile)) => {
                    queue.is_frozen.set(true);
                    self.hostile.borrow_mut().push(queue.token);
                }
            }
        }
        match queue.direct.get() {
            None => queue.len.get(),
            Some(in_flight) => queue.len.get().min(in_flight),
        }
    }

    #[inline]
    fn more_follows(&self, queue: &Box<TxFifo>) -> bool {
        !queue.is_frozen.get()
            && queue.live.borrow().as_ref().is_some_and(|live| live.end.more_follows())
    }

    fn set_calendar(&mut self, since_1970: Duration) {
        self.calendar = since_1970.as_nanos();
    }

    /// None: only the process writes.
    fn room(&self, _queue: &Box<TxFifo>) -> u32 {
        0
    }

    /// Takes nothing: only the process writes.
    fn write(
        &mut self,
        _queue: &mut Box<TxFifo>,
        _bytes: &[u8],
        _most: impl FnOnce() -> u32,
    ) -> usize {
        0
    }

    #[inline]
    fn peek(&mut self, queue: &mut Box<TxFifo>, at: u32, out: &mut [u8]) -> usize {
        let known = queue.len.get().saturating_sub(at) as usize;
        let len = out.len().min(known);
        // All that is asked for is known to be there, so the process's position is not looked at.
        let live = queue.live.get_mut().as_mut();
        let copied = live.map_or(0, |live| live.end.peek(at, &mut out[..len]).unwrap_or(0));
        if queue.counts_sent.get() {
            let end = at + copied as u32;
            if queue.unsent_bound.get() != u32::MAX && queue.sent_to(end) {
                self.writable.push(queue.token);
            }
            if queue.stamp(end, self.calendar, false) {
                self.stamped.push(queue.token);
            }
        }
        copied
    }

    /// The program's own memory, for who copies the bytes once. Where what is sent makes room, they
    /// are peeked, which counts them.
    fn lend<'a>(
        &'a self,
        queue: &'a mut Box<TxFifo>,
        at: u32,
        len: u32,
        pieces: &mut [Piece<'a>],
    ) -> usize {
        if queue.counts_sent.get() || at.saturating_add(len) > queue.len.get() {
            return 0;
        }
        let live = queue.live.get_mut().as_ref();
        let lies = live.and_then(|live| live.end.pieces(at, len));
        let (Some([front, back]), [first, second, ..]) = (lies, pieces) else { return 0 };
        (*first, *second) = (Piece::Shared(front), Piece::Shared(back));
        1 + usize::from(!back.is_empty())
    }

    #[inline]
    fn consume(&mut self, queue: &mut Box<TxFifo>, n: u32) {
        {
            let mut live = queue.live.borrow_mut();
            let Some(live) = live.as_mut() else { return };
            live.end.consume(n);
            queue.lend_more(n, live);
            if queue.unsent_bound.get() != u32::MAX {
                queue.sent.set(queue.sent.get().saturating_sub(n));
                live.end.lend(queue.lendable());
            }
        }
        if queue.counts_sent.get() && queue.stamp(0, self.calendar, true) {
            self.stamped.push(queue.token);
        }
        queue.len.set(queue.len.get().saturating_sub(n));
        if let Some(in_flight) = queue.direct.get() {
            queue.direct.set(Some(in_flight.saturating_sub(n)));
            if in_flight <= n {
                self.drained.push(queue.token);
            }
        }
        if queue.is_abandoned.get() {
            if queue.len.get() == 0 {
                queue.give_back();
            }
        } else if queue.live.borrow().as_ref().is_some_and(|live| queue.is_room_wanted(live)) {
            self.writable.push(queue.token);
        }
    }
}

#[cfg(test)]
mod tests;
