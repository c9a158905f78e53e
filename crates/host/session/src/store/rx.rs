//! Received bytes.

use std::cell::{Cell, RefCell};

use clearway_base::Duration;
use clearway_pkt::{Buf, PoolBuf};
use clearway_proto::RxStore;
use clearway_shm::attach_socket::FifoPlace;
use clearway_shm::{Hostile, Producer};

use super::fifo_blocks::FifoBlocks;
use super::fifo_plan::FifoPlan;
use super::grant::{Grant, Progress};
use super::stamps::Arrivals;
use crate::memory::Memory;
use crate::program::MIN_RX_FIFO;

/// Receive FIFOs. The window is what is free in them, which grows while the process reads.
pub struct FifoRx {
    fifo_plan: FifoPlan,
    largest: u32,
    // A window is said in steps of 2^scale, and a promise may be rounded up by less than one (RFC
    // 7323 2.3): so much is never promised.
    slack: u32,
    // Owners whose FIFO held something impossible.
    hostile: RefCell<Vec<u64>>,
    calendar: u64,
}

/// One connection's receive FIFO.
pub struct RxFifo {
    token: Cell<u64>,
    place: FifoPlace,
    /// None: nobody will ever read it, and its memory is given back.
    pub(super) live: RefCell<Option<Live>>,
    /// Bytes that nobody had read then.
    left: Cell<u32>,
    grant: Grant,
    /// How much the stack lets be in it: what the connection is worth.
    most: Cell<u32>,
    /// How much its owner lets be in it (SO_RCVBUF).
    named: Cell<u32>,
    /// Bytes that were in it when somebody looked last.
    seen: Cell<u32>,
    standing: Cell<Standing>,
    /// When its bytes came, where somebody asks.
    arrivals: RefCell<Option<Box<Arrivals>>>,
}

/// What becomes of what comes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It is put into the FIFO.
    Open,
    /// It is told, and not kept.
    Refuses,
    /// The program cannot be trusted; nothing is read from its memory any more.
    Broken,
}

pub(super) struct Live {
    pub(super) end: Producer,
    blocks: FifoBlocks,
}

impl FifoRx {
    /// FIFOs as `fifo_plan` plans them, of which none may be filled beyond `largest` bytes.
    pub fn new(fifo_plan: FifoPlan, largest: u32) -> FifoRx {
        // The smallest shift with which `largest` fits the 16 bits of the window field.
        let scale = (u32::BITS - largest.leading_zeros()).saturating_sub(u16::BITS);
        FifoRx {
            fifo_plan,
            largest,
            slack: (1 << scale) - 1,
            hostile: RefCell::default(),
            calendar: 0,
        }
    }

    /// The owners whose FIFO held something impossible since the last call.
    pub fn take_hostile(&self) -> Vec<u64> {
        self.hostile.take()
    }

    /// Whether [`FifoRx::take_hostile`] has something.
    #[inline]
    pub fn has_hostile(&self) -> bool {
        !self.hostile.borrow().is_empty()
    }

    #[cold]
    fn broken(&self, queue: &RxFifo) {
        if queue.standing.replace(Standing::Broken) != Standing::Broken {
            self.hostile.borrow_mut().push(queue.token.get());
        }
    }
}

impl RxFifo {
    /// The owner's word from now on.
    pub fn set_token(&self, token: u64) {
        self.token.set(token);
    }

    /// Where it lies, for the process.
    pub fn place(&self) -> FifoPlace {
        self.place
    }

    /// Notes when bytes come, or no longer. False: the program has no memory for it.
    pub fn note_arrivals(&self, memory: &Memory, on: bool) -> bool {
        let mut arrivals = self.arrivals.borrow_mut();
        if on && arrivals.is_none() {
            let position = self.look(|end| end.position()).unwrap_or(0);
            *arrivals = Arrivals::begin(memory, position).map(Box::new);
            return arrivals.is_some();
        }
        // A process may be looking at it: it stays until the connection ends, and is written no
        // more, as the calendar is not told to who does not ask.
        true
    }

    /// Where the times of its bytes lie, where they are noted.
    pub fn arrivals_place(&self) -> Option<FifoPlace> {
        self.arrivals.borrow().as_ref().map(|arrivals| arrivals.place())
    }

    /// Nobody will read it any more: its memory is free, what comes is not kept, and the window
    /// stays as it was.
    pub fn abandon(&self) {
        self.left.set(self.declined());
        drop(self.live.take());
    }

    /// Its reader has said that it reads nothing that comes from now on, and gets none of it. What is
    /// there stays, and that something came is told.
    pub fn refuse(&self) {
        if !self.is_broken() {
            self.standing.set(Standing::Refuses);
        }
    }

    /// Its reader has said so.
    pub fn refuses(&self) -> bool {
        self.standing.get() == Standing::Refuses
    }

    /// How it gets on since the last look. Bytes behind a hole are those that the peer owes
    /// something for.
    pub fn progress(&self) -> Progress {
        let held = self.live.borrow().as_ref().map_or(0, |live| u64::from(live.end.ahead()));
        Progress { held, moved: self.grant.look() }
    }

    /// Gives back the memory in which nothing lies. `hard`: the peer is offered no more than is
    /// everybody's from now on.
    pub fn give_back(&self, hard: bool) {
        let mut live = self.live.borrow_mut();
        let Some(Live { end, blocks }) = live.as_mut() else { return };
        if hard {
            self.grant.shrink(blocks.account(), self.place.limit, MIN_RX_FIFO);
        }
        // Only we write into it; what lies there is what nobody has read, and what came early.
        let Ok(len) = end.len() else { return };
        let start = end.offset(0).wrapping_sub(len) & (self.place.capacity - 1);
        blocks.keep_only(start, len + end.ahead());
    }

    /// Bytes of memory that it has.
    pub fn charged(&self) -> u64 {
        self.live.borrow().as_ref().map_or(0, |live| live.blocks.charged())
    }

    /// After bytes were published: whether the processes must be told.
    pub fn kick(&self) -> bool {
        self.live.borrow().as_ref().is_some_and(|live| live.end.kick())
    }

    /// Bytes that the process has not read.
    pub fn fill(&self) -> u32 {
        self.look(|end| end.len()).unwrap_or(Ok(self.left.get())).unwrap_or(0)
    }

    /// Bytes that were there when its last owner let go of it: those that came until now are not
    /// among them.
    pub fn declined(&self) -> u32 {
        if self.look(|end| end.was_drained()) == Some(true) { 0 } else { self.fill() }
    }

    fn look<R>(&self, f: impl FnOnce(&mut Producer) -> R) -> Option<R> {
        self.live.borrow_mut().as_mut().map(|live| f(&mut live.end))
    }

    /// Its owner lets no more than so much be in it from now on. What is in it stays.
    pub fn name_limit(&self, most: u32) {
        self.named.set(most);
    }

    /// How much of it may be filled now: no more than the connection is worth, or half of it would
    /// never be full, and its reader never asked to tell of room.
    pub fn granted(&self) -> u32 {
        self.grant.now().min(self.named.get()).min(self.most.get())
    }

    /// How much of it may be filled now, and how many bytes are free.
    pub fn limit_and_room(&self) -> (u32, u32) {
        let most = self.granted();
        (
            most,
            self.look(|end| end.len()).unwrap_or(Ok(0)).map_or(0, |len| most.saturating_sub(len)),
        )
    }

    /// So many bytes more were put into it, and published.
    pub(super) fn got(&self, live: &Live, bytes: u32) {
        if bytes > 0 {
            live.blocks.touch(live.end.offset(0).wrapping_sub(bytes), bytes);
            self.seen.set(self.seen.get().saturating_add(bytes));
        }
    }

    /// How many bytes may be put into it, when no more than `most` shall be there.
    pub(super) fn room_in(&self, live: &mut Live, most: u32) -> Result<u32, Hostile> {
        let len = live.end.len()?;
        self.has(live, len);
        Ok(self.grant.now().min(self.named.get()).min(most).saturating_sub(len))
    }

    /// So many are in it: what was there before, and is not any more, was read.
    fn has(&self, live: &Live, len: u32) {
        let read = self.seen.replace(len).saturating_sub(len);
        if read > 0 {
            self.grant.moved(read, live.blocks.account(), self.place.limit);
        }
    }

    /// Whether the program lied, and nothing is put into it any more.
    pub(super) fn is_broken(&self) -> bool {
        self.standing.get() == Standing::Broken
    }

    /// Urgent data ends `ahead` bytes behind what is in it.
    pub fn mark_urgent(&self, ahead: u32) {
        self.look(|end| end.mark_urgent(ahead));
    }

    /// Asks the process to tell when half of it is free. What is free is to be looked at once more
    /// afterwards.
    pub fn ask_room(&self) {
        self.look(|end| end.ask_room());
    }
}

impl RxStore<PoolBuf> for FifoRx {
    // Behind a pointer, so that a connection's record stays small.
    type Queue = Box<RxFifo>;

    fn open(&mut self, token: u64) -> Option<Box<RxFifo>> {
        let blocks = self.fifo_plan.rx(token)?;
        let (place, end) = (blocks.place, Producer::new(blocks.mem.clone()));
        let grant = Grant::new(blocks.account(), place.limit, MIN_RX_FIFO);
        let arrivals = self.fifo_plan.arrivals(token);
        let arrivals = arrivals.and_then(|memory| Arrivals::begin(&memory, 0)).map(Box::new);
        Some(Box::new(RxFifo {
            token: Cell::new(token),
            place,
            live: RefCell::new(Some(Live { end, blocks })),
            left: Cell::new(0),
            grant,
            most: Cell::new(u32::MAX),
            named: Cell::new(u32::MAX),
            seen: Cell::new(0),
            standing: Cell::new(Standing::Open),
            arrivals: RefCell::new(arrivals),
        }))
    }

    fn close(&mut self, queue: Box<RxFifo>) {
        queue.abandon();
    }

    fn write(&mut self, queue: &mut Box<RxFifo>, at: u32, buf: PoolBuf) -> u32 {
        match queue.standing.get() {
            Standing::Open => {}
            Standing::Refuses => return buf.bytes().len() as u32,
            Standing::Broken => return 0,
        }
        let Some(live) = queue.live.get_mut().as_mut() else { return 0 };
        match live.end.write_ahead(at, buf.bytes()) {
            Ok(kept) => {
                live.blocks.touch(live.end.offset(at), kept);
                kept
            }
            Err(Hostile) => {
                self.broken(queue);
                0
            }
        }
    }

    fn set_calendar(&mut self, since_1970: Duration) {
        self.calendar = since_1970.as_nanos();
    }

    fn urgent(&mut self, queue: &mut Box<RxFifo>, ahead: u32) {
        queue.mark_urgent(ahead);
    }

    fn advance(&mut self, queue: &mut Box<RxFifo>, n: u32) {
        if n == 0 || queue.standing.get() != Standing::Open {
            return;
        }
        let mut live = queue.live.borrow_mut();
        let Some(inside) = live.as_mut() else { return };
        if let Some(arrivals) = queue.arrivals.get_mut() {
            arrivals.came(inside.end.position().wrapping_add(n), self.calendar);
        }
        inside.end.publish(n);
        queue.seen.set(queue.seen.get().saturating_add(n));
        match inside.end.len() {
            Ok(len) => {
                queue.has(inside, len);
                // The process tells when half is free again; until then the window is what the peer
                // hears with each ACK. Half of what may be there: a window that is smaller than the
                // FIFO shuts before half of the FIFO is full.
                if len > queue.granted() / 2 {
                    inside.end.ask_room();
                }
            }
            Err(Hostile) => {
                drop(live);
                self.broken(queue);
            }
        }
    }

    fn unread(&self, queue: &Box<RxFifo>) -> u32 {
        if queue.is_broken() {
            return 0;
        }
        let len = queue.look(|end| end.len()).unwrap_or(Ok(queue.left.get()));
        len.unwrap_or_else(|Hostile| {
            self.broken(queue);
            0
        })
    }

    fn room(&self, queue: &Box<RxFifo>, most: u32) -> u32 {
        if queue.is_broken() {
            return 0;
        }
        queue.most.set(most);
        if let Some(arrivals) = queue.arrivals.borrow_mut().as_mut() {
            arrivals.catch_up();
        }
        let room = {
            let mut live = queue.live.borrow_mut();
            let Some(inside) = live.as_mut() else {
                return queue.place.limit.min(most).saturating_sub(self.slack);
            };
            queue.room_in(inside, most)
        };
        let room = room.unwrap_or_else(|Hostile| {
            self.broken(queue);
            0
        });
        room.saturating_sub(self.slack)
    }

    fn window_is_low(&self, queue: &Box<RxFifo>, left: u32) {
        if left <= queue.granted() / 2 {
            queue.ask_room();
        }
    }

    fn largest_room(&self) -> u32 {
        self.largest - self.slack
    }

    /// Nothing: processes read the FIFO themselves.
    fn front<'a>(&'a self, _queue: &'a Box<RxFifo>) -> &'a [u8] {
        &[]
    }

    /// Nothing to do: the process moved its position itself.
    fn consume(&mut self, _queue: &mut Box<RxFifo>, _n: u32) {}
}

#[cfg(test)]
mod tests;
