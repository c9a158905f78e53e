//! A queue of records of different lengths in one piece of memory: a value of fixed size and the
//! bytes that belong to it, which lie together.

use alloc::boxed::Box;

use clearway_base::Ring;

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
    records: Ring<Record<M>>,
    bytes: Box<[u8]>,
    /// Bytes of all records; one without bytes counts as one.
    used: usize,
}

impl<M> Records<M> {
    /// Room for `records` records and `bytes` bytes.
    pub(crate) fn new(records: usize, bytes: usize) -> Records<M> {
        Records {
            records: Ring::new(records),
            bytes: alloc::vec![0; bytes].into_boxed_slice(),
            used: 0,
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

    /// Bytes that are free, in one piece or two; 0 when no more records are taken.
    pub(crate) fn free_bytes(&self) -> usize {
        if self.records.is_full() { 0 } else { self.bytes.len() - self.used }
    }

    /// Whether at least one part in `parts` of it is free, in records and in bytes.
    pub(crate) fn is_free(&self, parts: usize) -> bool {
        let records = self.records.capacity() - self.records.len();
        records >= self.records.capacity().div_ceil(parts)
            && self.bytes.len() - self.used >= self.bytes.len() / parts
    }

    /// Where `len` bytes that lie together are free. A record without bytes takes one, so that no
    /// two records begin at the same place.
    fn room(&mut self, len: usize) -> Option<usize> {
        let len = len.max(1);
        if self.records.is_full() || len > self.bytes.len() {
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

    /// Adds a record whose bytes are `parts`, one after the other. False when there is no room.
    pub(crate) fn push(&mut self, value: M, parts: &[&[u8]]) -> bool {
        let len = parts.iter().map(|p| p.len()).sum();
        let Some(start) = self.room(len) else { return false };
        let mut to = &mut self.bytes[start..start + len];
        for part in parts {
            let (here, rest) = to.split_at_mut(part.len());
            here.copy_from_slice(part);
            to = rest;
        }
        self.used += len.max(1);
        self.records.push(Record { value, start: start as u32, len: len as u32 }).is_ok()
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
        let record = self.records.pop()?;
        self.used -= record.len.max(1) as usize;
        Some((
            record.value,
            &self.bytes[record.start as usize..(record.start + record.len) as usize],
        ))
    }
}

#[cfg(test)]
mod tests;
