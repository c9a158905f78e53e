//! A program's shared memory: segments that are cut into blocks by halves, so that blocks are aligned to their own size and neighbours join again.
//!
//! ```text
//!   segment   ├───────────────────────────────┤   a power of two
//!             ├───────────────┼───────┼───┬─┬─┤   halves of halves, down to 128 bytes
//! ```
//!
//! All of it is control plane: blocks are taken when a session is made and given back when it is gone.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clearway_shm::Segment;
use clearway_shm::door::Place;

/// The smallest block: the words of a session or of a FIFO.
const MIN_ORDER: u8 = 7;

/// The largest block, 1 GiB.
const MAX_ORDER: u8 = 30;

/// Bytes of an ordinary segment: 16 MiB.
const SEGMENT_ORDER: u8 = 24;

/// Blocks of which less than this was touched keep their pages for the next user.
const KEEP_PAGES: u32 = 64 * 1024;

/// A program's memory, shared by the keeper and the workers.
#[derive(Clone)]
pub struct Memory(Arc<Mutex<Inside>>);

struct Inside {
    pieces: Vec<Piece>,
    // For each order, the free blocks: segment and offset.
    free: [BTreeSet<(u32, u32)>; MAX_ORDER as usize + 1],
    used: u64,
    mapped: u64,
    limit: u64,
    name: String,
}

struct Piece {
    segment: Arc<Segment>,
    fd: Arc<OwnedFd>,
    order: u8,
    used: u64,
}

/// A segment as the keeper hands it out.
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
    touched: u32,
}

impl Memory {
    /// No segment yet; at most `limit` bytes of them later. `name` is what /proc shows.
    pub fn new(name: String, limit: u64) -> Memory {
        let free = std::array::from_fn(|_| BTreeSet::new());
        Memory(Arc::new(Mutex::new(Inside { pieces: Vec::new(), free, used: 0, mapped: 0, limit, name })))
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block of at least `len` bytes, aligned to its size; what is in it is whatever was. None when the program has all that it may have, or the system
    /// gives no more.
    pub fn take(&self, len: u32) -> Option<Block> {
        let order = u32::BITS - len.max(1).saturating_sub(1).leading_zeros();
        let order = (order as u8).max(MIN_ORDER);
        if order > MAX_ORDER {
            return None;
        }
        let mut inside = self.inside();
        let place = match inside.take(order) {
            Some(place) => place,
            None => {
                inside.grow(order)?;
                inside.take(order)?
            }
        };
        let segment = Arc::clone(&inside.pieces.get(place.segment as usize)?.segment);
        Some(Block { home: self.clone(), segment, place, order, touched: 0 })
    }

    /// A segment, to be handed to a process.
    pub fn segment(&self, number: u32) -> Option<SegmentFd> {
        let inside = self.inside();
        let piece = inside.pieces.get(number as usize)?;
        Some(SegmentFd { fd: Arc::clone(&piece.fd), len: 1 << piece.order })
    }

    /// Each segment's bytes, and how many of them are in use.
    pub fn segments(&self) -> Vec<(u32, u64)> {
        self.inside().pieces.iter().map(|p| (1 << p.order, p.used)).collect()
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.inside().used
    }

    /// Bytes that segments may have in all.
    pub fn limit(&self) -> u64 {
        self.inside().limit
    }
}

impl Inside {
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
        for count in [&mut self.used, &mut piece.used] {
            *count = if taken { *count + (1 << order) } else { count.saturating_sub(1 << order) };
        }
    }

    /// One more segment, for a block of this order at least: an ordinary one, or what the limit leaves.
    fn grow(&mut self, order: u8) -> Option<()> {
        let left = self.limit.saturating_sub(self.mapped).checked_ilog2()?;
        let order = order.max(SEGMENT_ORDER.min(left as u8));
        if u32::from(order) > left {
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

    /// So many of its bytes were used: decides whether its pages go back to the system with it.
    pub fn touched(&mut self, bytes: u32) {
        self.touched = self.touched.max(bytes);
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.touched > KEEP_PAGES {
            // Failing means that the pages stay with the program, which is what happens to small blocks anyway.
            let _ = self.segment.give_back(self.place.offset, 1 << self.order);
        }
        self.home.inside().give(self.place, self.order);
    }
}

#[cfg(test)]
mod tests;
