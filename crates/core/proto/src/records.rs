//! A queue of records of different lengths in one piece of memory: a value of fixed size and the
//! bytes that belong to it, which lie together.
//!
//! Memory is taken by use: none before the first record, then twice as much whenever what is there
//! does not suffice, up to the bound. What was taken is kept while records come and go, for a
//! queue that fills and empties in each turn shall not ask the allocator each time;
//! [`Records::rest`] gives it back.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

/// The first piece of memory: a datagram as long as most links take.
const FIRST_BYTES: usize = 2048;

struct Record<M> {
    value: M,
    start: u32,
    len: u32,
}

/// The queue. It is bounded in records and in bytes.
///
/// ```text
///   |  free  | oldest …        newest |  free  |            |  newest |  free  | oldest …   | unused end |
/// ```
pub(crate) struct Records<M> {
    records: VecDeque<Record<M>>,
    bytes: Box<[u8]>,
    /// The bounds.
    most_records: usize,
    most_bytes: usize,
    /// Bytes of all records; one without bytes counts as one.
    used: usize,
    /// A record came since [`Records::rest`] looked last.
    is_in_use: bool,
}

impl<M> Records<M> {
    /// Room for `records` records and `bytes` bytes.
    pub(crate) fn new(records: usize, bytes: usize) -> Records<M> {
        Records {
            records: VecDeque::new(),
            bytes: Box::default(),
            most_records: records,
            most_bytes: bytes,
            used: 0,
            is_in_use: false,
        }
    }

    /// Whether there is no record.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Records in the queue.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    fn is_full(&self) -> bool {
        self.records.len() >= self.most_records
    }

    /// Bytes that are free, in one piece or two; 0 when no more records are taken.
    pub(crate) fn free_bytes(&self) -> usize {
        if self.is_full() { 0 } else { self.most_bytes - self.used }
    }

    /// Whether at least one part in `parts` of it is free, in records and in bytes.
    pub(crate) fn is_free(&self, parts: usize) -> bool {
        let records = self.most_records - self.records.len();
        records >= self.most_records.div_ceil(parts)
            && self.most_bytes - self.used >= self.most_bytes / parts
    }

    /// Bytes of memory that it has taken.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.len() + self.records.capacity() * size_of::<Record<M>>()
    }

    /// Gives its memory back when no record is there and none came since the last call. True: it
    /// has none now, or records are there, and another call is due when they are gone.
    pub(crate) fn rest(&mut self) -> bool {
        if core::mem::take(&mut self.is_in_use) && self.is_empty() {
            return false;
        }
        if self.is_empty() {
            (self.records, self.bytes) = (VecDeque::new(), Box::default());
        }
        true
    }

    /// Where `len` bytes that lie together are free. A record without bytes takes one, so that no
    /// two records begin at the same place.
    fn room(&mut self, len: usize) -> Option<usize> {
        let len = len.max(1);
        if self.is_full() || len > self.bytes.len() {
            return None;
        }
        let (Some(oldest), Some(newest)) =
            (self.records.front().map(|r| r.start as usize), self.records.back_mut())
        else {
            return Some(0);
        };
        let end = newest.start as usize + newest.len.max(1) as usize;
        if (newest.start as usize) < oldest {
            return (oldest - end >= len).then_some(end);
        }
        // Behind the newest, else in front of the oldest.
        if self.bytes.len() - end >= len {
            return Some(end);
        }
        (oldest >= len).then_some(0)
    }

    /// Takes more memory, with room for `len` bytes that lie together, and puts all records to its
    /// beginning. False: the bounds forbid that.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, len: usize) -> bool {
        let least = self.used + len.max(1);
        if self.is_full() || self.bytes.len() >= self.most_bytes || least > self.most_bytes {
            return false;
        }
        let wanted = least.max(2 * self.bytes.len()).max(FIRST_BYTES);
        let mut bytes = alloc::vec![0; wanted.next_power_of_two().min(self.most_bytes)];
        let mut at = 0;
        for record in &mut self.records {
            let (start, len) = (record.start as usize, record.len as usize);
            bytes[at..at + len].copy_from_slice(&self.bytes[start..start + len]);
            record.start = at as u32;
            at += len.max(1);
        }
        self.bytes = bytes.into_boxed_slice();
        true
    }

    /// Adds a record whose bytes are `parts`, one after the other. False when there is no room.
    pub(crate) fn push(&mut self, value: M, parts: &[&[u8]]) -> bool {
        let len = parts.iter().map(|p| p.len()).sum();
        let start = match self.room(len) {
            None if self.grow(len) => self.room(len),
            room => room,
        };
        let Some(start) = start else { return false };
        let mut to = &mut self.bytes[start..start + len];
        for part in parts {
            let (here, rest) = to.split_at_mut(part.len());
            here.copy_from_slice(part);
            to = rest;
        }
        self.used += len.max(1);
        self.is_in_use = true;
        self.records.push_back(Record { value, start: start as u32, len: len as u32 });
        true
    }

    /// The oldest record.
    pub(crate) fn front(&self) -> Option<(&M, &[u8])> {
        let record = self.records.front()?;
        Some((
            &record.value,
            &self.bytes[record.start as usize..(record.start + record.len) as usize],
        ))
    }

    /// Every record, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&M, &[u8])> {
        let bytes = |r: &Record<M>| &self.bytes[r.start as usize..(r.start + r.len) as usize];
        self.records.iter().map(move |r| (&r.value, bytes(r)))
    }

    /// Takes the oldest record away; its bytes may be read until the next push.
    pub(crate) fn pop(&mut self) -> Option<(M, &[u8])> {
        let record = self.records.pop_front()?;
        self.used -= record.len.max(1) as usize;
        Some((
            record.value,
            &self.bytes[record.start as usize..(record.start + record.len) as usize],
        ))
    }
}

#[cfg(test)]
mod tests;
