//! First-in first-out rings of fixed capacity: one of bytes, one of values.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;

/// A ring of bytes: written at the back, read anywhere, given up at the front.
///
/// ```text
///        front                back
///   ┌──────┬───────────────────┬────────────┐
///   │ room │  len() bytes held │    room    │
///   └──────┴───────────────────┴────────────┘
///          0 ── offsets of peek ──►0 ── offsets of write_at ──►
/// ```
///
/// Any capacity is allowed, zero as well. The memory is zeroed by the system, so it costs nothing
/// until bytes come.
pub struct ByteRing {
    bytes: Box<[u8]>,
    /// Where the front lies; below the capacity, or zero when that is zero.
    head: u32,
    len: u32,
}

impl ByteRing {
    /// An empty ring for `capacity` bytes.
    ///
    /// # Panics
    /// When `capacity` is above `u32::MAX`.
    pub fn new(capacity: usize) -> ByteRing {
        assert!(u32::try_from(capacity).is_ok(), "a byte ring holds at most 4 GiB");
        ByteRing { bytes: vec![0; capacity].into_boxed_slice(), head: 0, len: 0 }
    }

    /// Bytes held.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// True when no byte is held.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that can be held.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes that can still be written.
    #[inline]
    pub fn room(&self) -> usize {
        self.bytes.len() - self.len()
    }

    /// Appends as much of `from` as there is room for; returns how many bytes that was.
    #[inline]
    pub fn write(&mut self, from: &[u8]) -> usize {
        let n = self.write_at(0, from);
        self.len += n as u32;
        n
    }

    /// Writes `from` into the room, `offset` bytes behind the back, without counting it as held:
    /// bytes that came before those in front of them. Returns how many bytes fit.
    /// [`ByteRing::extend`] counts them once the gap is filled.
    #[inline]
    pub fn write_at(&mut self, offset: usize, from: &[u8]) -> usize {
        let n = from.len().min(self.room().saturating_sub(offset));
        if n > 0 {
            let (first, second) = self.room_mut();
            let (skip_first, skip_second) =
                (offset.min(first.len()), offset.saturating_sub(first.len()));
            copy_across(&from[..n], &mut first[skip_first..], &mut second[skip_second..]);
        }
        n
    }

    /// Counts the first `n` bytes of the room as held: they were put there by
    /// [`ByteRing::write_at`] or through [`ByteRing::room_mut`]. Returns how many there was room
    /// for.
    #[inline]
    pub fn extend(&mut self, n: usize) -> usize {
        let n = n.min(self.room());
        self.len += n as u32;
        n
    }

    /// The room, in the order in which it will be held, for a writer that fills it in place.
    #[inline]
    pub fn room_mut(&mut self) -> (&mut [u8], &mut [u8]) {
        let (start, n) = (self.at(self.len()), self.room());
        let straight = n.min(self.bytes.len() - start);
        let (before, from_start) = self.bytes.split_at_mut(start);
        (&mut from_start[..straight], &mut before[..n - straight])
    }

    /// Up to `n` held bytes from `offset` on, without giving them up: in order, in two pieces
    /// because they may wrap. Shorter, or empty, when fewer are held.
    #[inline]
    pub fn peek(&self, offset: usize, n: usize) -> (&[u8], &[u8]) {
        let offset = offset.min(self.len());
        let n = n.min(self.len() - offset);
        let start = self.at(offset);
        let straight = n.min(self.bytes.len() - start);
        (&self.bytes[start..start + straight], &self.bytes[..n - straight])
    }

    /// Copies held bytes from `offset` on into `into`, without giving them up; returns how many.
    #[inline]
    pub fn copy_out(&self, offset: usize, into: &mut [u8]) -> usize {
        let (first, second) = self.peek(offset, into.len());
        into[..first.len()].copy_from_slice(first);
        into[first.len()..first.len() + second.len()].copy_from_slice(second);
        first.len() + second.len()
    }

    /// Gives up `n` bytes at the front, or all when fewer are held; returns how many.
    #[inline]
    pub fn consume(&mut self, n: usize) -> usize {
        let n = n.min(self.len());
        self.head = self.at(n) as u32;
        self.len -= n as u32;
        n
    }

    /// Gives up every byte.
    #[inline]
    pub fn clear(&mut self) {
        self.consume(self.len());
    }

    /// The place `offset` bytes behind the front; `offset` is at most the capacity.
    #[inline]
    fn at(&self, offset: usize) -> usize {
        let at = self.head as usize + offset;
        if at >= self.bytes.len() { at - self.bytes.len() } else { at }
    }
}

/// Copies `from` into `first` and what does not fit there into `second`, which together are long
/// enough.
#[inline]
fn copy_across(from: &[u8], first: &mut [u8], second: &mut [u8]) {
    let (a, b) = from.split_at(from.len().min(first.len()));
    first[..a.len()].copy_from_slice(a);
    second[..b.len()].copy_from_slice(b);
}

/// A first-in first-out queue of at most `capacity` values.
pub struct Ring<T> {
    values: VecDeque<T>,
    capacity: usize,
}

impl<T> Ring<T> {
    /// An empty ring for `capacity` values.
    pub fn new(capacity: usize) -> Ring<T> {
        Ring { values: VecDeque::with_capacity(capacity), capacity }
    }

    /// Values held.
    #[inline]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// True when no value is held.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// True when a push would be refused.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.values.len() >= self.capacity
    }

    /// Values that can be held.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Puts `value` at the back; gives it back when the ring is full.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), T> {
        if self.is_full() {
            return Err(value);
        }
        self.values.push_back(value);
        Ok(())
    }

    /// Takes the value at the front.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        self.values.pop_front()
    }

    /// The value at the front.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        self.values.front()
    }

    /// The value at the back, to change it: for an event that can be merged with the one before it.
    #[inline]
    pub fn back_mut(&mut self) -> Option<&mut T> {
        self.values.back_mut()
    }

    /// The values from front to back.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter()
    }

    /// Drops every value.
    pub fn clear(&mut self) {
        self.values.clear();
    }
}

#[cfg(test)]
mod tests;
