//! A program's shared memory: segments that are cut into blocks by halves, so that blocks are
//! aligned to their own size and neighbours join again.
//!
//! ```text
//!   segment   ├───────────────────────────────┤   a power of two
//!             ├───────────────┼───────┼───┬─┬─┤   halves of halves, down to 128 bytes
//! ```
//!
//! Blocks are taken when a session is made and given back when it is gone. Address space is
//! plentiful: a block of a FIFO's bytes is as long as the FIFO may ever become, and only those of
//! its parts are charged to the program, and are the system's memory, that were touched. A part is
//! one of 64, a page at least; of the first part a page alone is charged as long as no more of it
//! was touched, for a conversation of small messages needs no more ([`clearway_shm::fifo`]).

mod account;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clearway_shm::Segment;
use clearway_shm::attach_socket::Place;

pub use account::{Account, Charge, KEPT};

/// The smallest block: the words of a session or of a FIFO.
const MIN_ORDER: u8 = 7;

/// The largest block, 1 GiB.
const MAX_ORDER: u8 = 30;

/// Bytes of the first segment: 16 MiB. Each further one is as long as all before it, so that many
/// sessions need few descriptors.
const SEGMENT_ORDER: u8 = 24;

/// Bytes of address space that a program's segments may have in all: 1 TiB.
const MAX_RESERVED: u64 = 1 << 40;

/// A page, as an order.
const PAGE_ORDER: u8 = 12;

/// Parts of a block of which each is charged by itself, as an order: as many as a word has bits.
const PARTS_ORDER: u8 = 6;

/// Blocks of which only the first part was touched keep it for the next user, so many of them for
/// each program.
const WARM: usize = 256;

/// A program's memory, shared by the supervisor and the workers.
#[derive(Clone)]
pub struct Memory(Arc<Home>);

struct Home {
    inside: Mutex<Inside>,
    account: Arc<Account>,
    /// What is given back stays as it is: the program was let go ([`Memory::end`]), or its host
    /// ends.
    has_ended: AtomicBool,
    host_ends: Arc<AtomicBool>,
}

struct Inside {
    pieces: Vec<Piece>,
    // For each order, the free blocks: segment and offset.
    free: [BTreeSet<(u32, u32)>; MAX_ORDER as usize + 1],
    /// Free blocks whose first part, or only its first page, was touched, and stays.
    warm: Vec<Warm>,
    mapped: u64,
    name: String,
    /// What the warm blocks are charged to, still.
    account: Arc<Account>,
}

struct Warm {
    place: Place,
    order: u8,
    is_one_page: bool,
}

struct Piece {
    segment: Arc<Segment>,
    fd: Arc<OwnedFd>,
    order: u8,
    used: u64,
}

/// A segment as the supervisor hands it out.
pub struct SegmentFd {
    fd: Arc<OwnedFd>,
    /// Its bytes.
    pub len: u32,
}

impl AsFd for SegmentFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Some bytes of a program's memory. They are given back when this is dropped.
pub struct Block {
    home: Memory,
    segment: Arc<Segment>,
    place: Place,
    order: u8,
    /// Its parts that were touched, and are charged.
    touched: Cell<u64>,
    /// The first part is among them, and only its first page is charged.
    is_one_page: Cell<bool>,
}

#[cfg(test)]
impl Memory {
    /// A program's, with a bound that no test reaches.
    pub(crate) fn of_test() -> Memory {
        let host = Account::host(1 << 30);
        let program = Account::within(&Account::within(&host, u64::MAX, 0), u64::MAX, 0);
        Memory::new("test".into(), program, Arc::default())
    }
}

impl Memory {
    /// No segment yet. What is touched of it is charged to `account`; `name` is what /proc shows;
    /// the host says when it ends.
    pub fn new(name: String, account: Arc<Account>, host_ends: Arc<AtomicBool>) -> Memory {
        let free = std::array::from_fn(|_| BTreeSet::new());
        let account_too = Arc::clone(&account);
        let inside = Inside {
            pieces: Vec::new(),
            free,
            warm: Vec::new(),
            mapped: 0,
            name,
            account: account_too,
        };
        let (inside, has_ended) = (Mutex::new(inside), AtomicBool::new(false));
        Memory(Arc::new(Home { inside, account, has_ended, host_ends }))
    }

    /// The host lets the program go. Who still reads what came before finds it: pages that were
    /// given back would read as zeros, and are the system's again when the last process has let go
    /// of them. Nothing is charged for them any more.
    pub fn end(&self) {
        self.0.has_ended.store(true, Ordering::Relaxed);
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it is charged to.
    pub fn account(&self) -> &Arc<Account> {
        &self.0.account
    }

    /// What is given back stays as it is.
    fn stays(&self) -> bool {
        self.0.has_ended.load(Ordering::Relaxed) || self.0.host_ends.load(Ordering::Relaxed)
    }

    /// A block of at least `len` bytes, aligned to its size, all of them charged; what is in it is
    /// whatever was. None when the program, the namespace or the host has all that it may have, or
    /// the system gives no more.
    pub fn take(&self, len: u32) -> Option<Block> {
        let block = self.reserve(len)?;
        block.touch(0, len);
        Some(block)
    }

    /// The same of which only what is touched is charged ([`Block::touch`]).
    pub fn reserve(&self, len: u32) -> Option<Block> {
        let order = u32::BITS - len.max(1).saturating_sub(1).leading_zeros();
        let order = (order as u8).max(MIN_ORDER);
        if order > MAX_ORDER || self.account().is_full() {
            return None;
        }
        let mut inside = self.inside();
        let (place, touched, is_one_page) = match inside.take_warm(order) {
            Some(warm) => (warm.place, 1, warm.is_one_page),
            None => (inside.take_or_grow(order)?, 0, false),
        };
        let segment = Arc::clone(&inside.pieces.get(place.segment as usize)?.segment);
        drop(inside);
        let home = self.clone();
        let (touched, is_one_page) = (Cell::new(touched), Cell::new(is_one_page));
        Some(Block { home, segment, place, order, touched, is_one_page })
    }

    /// A segment, to be handed to a process.
    pub fn segment(&self, number: u32) -> Option<SegmentFd> {
        let inside = self.inside();
        let piece = inside.pieces.get(number as usize)?;
        Some(SegmentFd { fd: Arc::clone(&piece.fd), len: 1 << piece.order })
    }

    /// Each segment's bytes of address space, and how many of them lie in blocks that are taken.
    pub fn segments(&self) -> Vec<(u32, u64)> {
        self.inside().pieces.iter().map(|p| (1 << p.order, p.used)).collect()
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.account().used()
    }

    /// Bytes that may be used.
    pub fn limit(&self) -> u64 {
        self.account().limit()
    }

    /// Bytes of memory that the system has given for the segments, whoever touched them.
    pub fn resident(&self) -> u64 {
        let files: Vec<_> = self.inside().pieces.iter().map(|p| Arc::clone(&p.fd)).collect();
        let blocks = |fd: &Arc<OwnedFd>| {
            nix::sys::stat::fstat(fd.as_fd()).map_or(0, |stat| stat.st_blocks as u64)
        };
        files.iter().map(blocks).sum::<u64>() * 512
    }

    /// Gives the pages of all free blocks back to the system: nobody but a program that goes its
    /// own ways has touched them.
    pub fn sweep(&self) {
        let inside = self.inside();
        for (order, places) in inside.free.iter().enumerate().skip(PAGE_ORDER.into()) {
            for (segment, offset) in places {
                if let Some(piece) = inside.pieces.get(*segment as usize) {
                    let _ = piece.segment.give_back(*offset, 1 << order);
                }
            }
        }
    }
}

impl Inside {
    fn take_warm(&mut self, order: u8) -> Option<Warm> {
        let at = self.warm.iter().rposition(|warm| warm.order == order)?;
        let warm = self.warm.swap_remove(at);
        self.count(warm.place.segment, order, true);
        Some(warm)
    }

    fn take_or_grow(&mut self, order: u8) -> Option<Place> {
        if let Some(place) = self.take(order) {
            return Some(place);
        }
        self.grow(order)?;
        self.take(order)
    }

    fn take(&mut self, order: u8) -> Option<Place> {
        let from = (order..=MAX_ORDER).find(|&o| !self.free[o as usize].is_empty())?;
        let (segment, offset) = self.free[from as usize].pop_first()?;
        for half in order..from {
            self.free[half as usize].insert((segment, offset + (1 << half)));
        }
        self.count(segment, order, true);
        Some(Place { segment, offset })
    }

    fn give(&mut self, place: Place, order: u8) {
        self.count(place.segment, order, false);
        let Place { segment, mut offset } = place;
        let top = self.pieces.get(segment as usize).map_or(order, |p| p.order);
        let mut order = order;
        while order < top && self.free[order as usize].remove(&(segment, offset ^ (1 << order))) {
            offset &= !(1 << order);
            order += 1;
        }
        self.free[order as usize].insert((segment, offset));
    }

    fn count(&mut self, segment: u32, order: u8, taken: bool) {
        let Some(piece) = self.pieces.get_mut(segment as usize) else { return };
        piece.used =
            if taken { piece.used + (1 << order) } else { piece.used.saturating_sub(1 << order) };
    }

    /// One more segment, for a block of this order at least: as long as all before it.
    fn grow(&mut self, order: u8) -> Option<()> {
        let doubled = self.mapped.checked_ilog2().unwrap_or(0) as u8;
        let order = doubled.clamp(SEGMENT_ORDER, MAX_ORDER).max(order);
        if self.mapped + (1 << order) > MAX_RESERVED {
            return None;
        }
        let len = 1u64 << order;
        let number = u32::try_from(self.pieces.len()).ok()?;
        let (segment, fd) = Segment::create(&self.name, len as usize).ok()?;
        self.pieces.push(Piece { segment: Arc::new(segment), fd: Arc::new(fd), order, used: 0 });
        self.mapped += len;
        self.free[order as usize].insert((number, 0));
        Some(())
    }
}

impl Block {
    /// Where it is.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The segment that it lies in.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Bytes of a part, as an order.
    fn part_order(&self) -> u8 {
        part_order(self.order)
    }

    /// The parts in which `len` bytes at `offset` lie; a block is a circle.
    fn parts(&self, offset: u32, len: u32) -> u64 {
        let size = 1u64 << self.order;
        if len == 0 {
            return 0;
        }
        let shift = self.part_order();
        let count = 1u32 << (self.order - shift);
        let all = u64::MAX >> (u64::BITS - count);
        if u64::from(len) >= size {
            return all;
        }
        let first = (u64::from(offset) & (size - 1)) >> shift;
        let last = ((u64::from(offset) + u64::from(len) - 1) & (size - 1)) >> shift;
        let up_to_last = u64::MAX >> (63 - last);
        let from_first = all & (u64::MAX << first);
        let wraps = u64::from(offset) % size + u64::from(len) > size;
        if wraps { up_to_last | from_first } else { up_to_last & from_first }
    }

    /// Whether the bytes of the first part that are among these lie in its first page.
    #[inline]
    fn in_first_page(&self, offset: u32, len: u32) -> bool {
        let (size, page) = (1u64 << self.order, 1u64 << PAGE_ORDER);
        let start = u64::from(offset) & (size - 1);
        let end = start + u64::from(len);
        let has_rest = start < 1 << self.part_order() && end > page || end > size + page;
        self.part_order() > PAGE_ORDER && !has_rest
    }

    /// These bytes were touched, or are about to be: the parts that they lie in are charged.
    #[inline]
    pub fn touch(&self, offset: u32, len: u32) {
        if self.is_one_page.get() && u64::from(offset) + u64::from(len) <= 1 << PAGE_ORDER {
            return;
        }
        let parts = self.parts(offset, len);
        let fresh = parts & !self.touched.get();
        if fresh != 0 || parts & 1 != 0 && self.is_one_page.get() {
            self.touch_more(parts, self.in_first_page(offset, len));
        }
    }

    /// These parts, of the first one only its first page or all.
    fn touch_more(&self, parts: u64, is_page: bool) {
        let before = self.charged();
        let is_new = self.touched.get() & 1 == 0;
        if parts & 1 != 0 && (is_new || !is_page) {
            self.is_one_page.set(is_page);
        }
        self.touched.set(self.touched.get() | parts);
        self.home.account().charge(self.charged() - before);
    }

    /// Bytes that are charged for it.
    pub fn charged(&self) -> u64 {
        let parts = u64::from(self.touched.get().count_ones()) << self.part_order();
        parts - if self.is_one_page.get() { self.rest_of_first() } else { 0 }
    }

    /// Bytes of the first part behind its first page.
    fn rest_of_first(&self) -> u64 {
        (1 << self.part_order()) - (1 << PAGE_ORDER)
    }

    /// Gives back all parts but those in which these bytes lie, and the first one's pages behind
    /// its first where none lie there. Nobody may be writing elsewhere.
    /// Answers how many bytes that were.
    pub fn keep_only(&self, offset: u32, len: u32) -> u64 {
        if self.part_order() < PAGE_ORDER {
            return 0;
        }
        let before = self.charged();
        let mut gone = self.touched.get() & !self.parts(offset, len);
        self.touched.set(self.touched.get() & !gone);
        if gone & 1 != 0 {
            self.is_one_page.set(false);
        } else if self.touched.get() & 1 != 0
            && !self.is_one_page.get()
            && self.in_first_page(offset, len)
        {
            let rest = self.rest_of_first() as usize;
            let _ = self.segment.give_back(self.place.offset + (1 << PAGE_ORDER), rest);
            self.is_one_page.set(true);
        }
        let bytes = before - self.charged();
        self.home.account().discharge(bytes);
        while gone != 0 {
            let first = gone.trailing_zeros();
            let run = (gone >> first).trailing_ones();
            let (at, len) = (first << self.part_order(), (run as usize) << self.part_order());
            // Failing means that the pages stay until the block is used again.
            let _ = self.segment.give_back(self.place.offset + at, len);
            gone &= !(u64::MAX.checked_shr(u64::BITS - run).unwrap_or(0) << first);
        }
        bytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.home.stays() {
            return self.home.account().discharge(self.charged());
        }
        let is_warm = self.touched.get() == 1 && self.order > PAGE_ORDER;
        if is_warm {
            let mut inside = self.home.inside();
            if inside.warm.len() < WARM {
                inside.count(self.place.segment, self.order, false);
                let Block { place, order, .. } = *self;
                return inside.warm.push(Warm {
                    place,
                    order,
                    is_one_page: self.is_one_page.get(),
                });
            }
        }
        self.keep_only(0, 0);
        // What is less than a page stays with the page.
        self.home.account().discharge(self.charged());
        self.home.inside().give(self.place, self.order);
    }
}

/// The part of a block of this order, as an order.
fn part_order(order: u8) -> u8 {
    order.saturating_sub(PARTS_ORDER).max(PAGE_ORDER).min(order)
}

impl Drop for Inside {
    fn drop(&mut self) {
        // The namespace and the host have it back.
        let charged = |warm: &Warm| match warm.is_one_page {
            true => 1 << PAGE_ORDER,
            false => 1 << part_order(warm.order),
        };
        self.account.discharge(self.warm.iter().map(charged).sum());
    }
}

#[cfg(test)]
mod tests;
