//! First come, first served, for entries that live somewhere else: a ring of their indices, each at
//! most once.
//!
//! ```text
//!          front                      back
//!   ┌─────┬───┬───┬──────┬───┬───┬────┬─────────┐
//!   │     │ 7 │ 2 │ hole │ 9 │ 4 │    │         │
//!   └─────┴───┴───┴──────┴───┴───┴────┴─────────┘
//! ```
//!
//! Unlike a [`List`](crate::List), joining and being served touch no neighbour's memory, only the
//! entry's own [`Place`]. Who leaves before being served leaves a hole behind.

use alloc::boxed::Box;
use alloc::vec;

/// What stands in a slot whose entry has left.
const HOLE: u32 = u32::MAX;

/// What an entry carries for a line: where it stands, or that it does not. 4 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place(u32);

impl Place {
    /// In no line.
    pub const OFF: Place = Place(u32::MAX);

    /// Whether the entry stands in line.
    #[inline]
    pub const fn is_taken(self) -> bool {
        self.0 != Place::OFF.0
    }
}

/// Entries that wait their turn.
pub struct Line {
    slots: Box<[u32]>,
    /// Counted on and on; the low bits are the slot.
    front: u32,
    back: u32,
    /// Holes between the two.
    holes: u32,
}

impl Line {
    /// An empty line for the indices below `entries`. It has two slots for each, so that closing up
    /// is seldom needed; memory that is never used costs nothing.
    ///
    /// # Panics
    /// When `entries` is above 2^30.
    pub fn new(entries: u32) -> Line {
        assert!(entries <= 1 << 30, "a line is for 2^30 entries at most");
        let slots = (entries as usize * 2).next_power_of_two().max(2);
        Line { slots: vec![0; slots].into_boxed_slice(), front: 0, back: 0, holes: 0 }
    }

    /// How many stand in line.
    #[inline]
    pub fn len(&self) -> u32 {
        self.back.wrapping_sub(self.front) - self.holes
    }

    /// True when nobody stands in line.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entry at `index` joins at the back, if it does not stand in line already. False: the
    /// line is full of holes, and nothing has changed; [`Line::close_up`], and there is room.
    #[inline(always)]
    pub fn join(&mut self, index: u32, place: &mut Place) -> bool {
        if place.is_taken() {
            return true;
        }
        let at = self.back as usize & (self.slots.len() - 1);
        if self.back.wrapping_sub(self.front) as usize >= self.slots.len() {
            return false;
        }
        let Some(slot) = self.slots.get_mut(at) else { return false };
        *slot = index;
        *place = Place(at as u32);
        self.back = self.back.wrapping_add(1);
        true
    }

    /// Takes the one that has waited longest. Its place is the caller's to set to [`Place::OFF`].
    #[inline(always)]
    pub fn serve(&mut self) -> Option<u32> {
        if self.front == self.back {
            // Those who come next find the slots that were used last, which the processor still has
            // at hand.
            (self.front, self.back) = (0, 0);
            return None;
        }
        let index = *self.slots.get(self.front as usize & (self.slots.len() - 1))?;
        self.front = self.front.wrapping_add(1);
        if index == HOLE {
            return self.serve_past_holes();
        }
        Some(index)
    }

    #[cold]
    #[inline(never)]
    fn serve_past_holes(&mut self) -> Option<u32> {
        loop {
            self.holes -= 1;
            if self.front == self.back {
                (self.front, self.back) = (0, 0);
                return None;
            }
            let index = *self.slots.get(self.front as usize & (self.slots.len() - 1))?;
            self.front = self.front.wrapping_add(1);
            if index != HOLE {
                return Some(index);
            }
        }
    }

    /// The one that is served after `n` others, unless it has left; None also when there are not so
    /// many. For those who prepare.
    #[inline(always)]
    pub fn ahead(&self, n: u32) -> Option<u32> {
        if n >= self.back.wrapping_sub(self.front) {
            return None;
        }
        let index =
            *self.slots.get(self.front.wrapping_add(n) as usize & (self.slots.len() - 1))?;
        (index != HOLE).then_some(index)
    }

    /// The one that was served last waits on, in front of all others, if nobody has joined since.
    /// Its place is what it is set to.
    #[inline]
    pub fn unserve(&mut self, index: u32, place: &mut Place) {
        let front = self.front.wrapping_sub(1);
        let at = front as usize & (self.slots.len() - 1);
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = index;
            *place = Place(at as u32);
            self.front = front;
        }
    }

    /// The entry whose place this is leaves before its turn, if it stands in line.
    pub fn leave(&mut self, place: &mut Place) {
        if let Some(slot) = self.slots.get_mut(place.0 as usize).filter(|_| place.is_taken()) {
            *slot = HOLE;
            self.holes += 1;
        }
        *place = Place::OFF;
    }

    /// Takes the holes out; `moved` is told the new place of each entry. Takes as long as there are
    /// slots, and is needed at most once for every half of them that was joined.
    #[cold]
    #[inline(never)]
    pub fn close_up(&mut self, mut moved: impl FnMut(u32, Place)) {
        let mask = self.slots.len() - 1;
        let mut to = self.front;
        let mut from = self.front;
        while from != self.back {
            let index = self.slots[from as usize & mask];
            if index != HOLE {
                let at = to as usize & mask;
                self.slots[at] = index;
                moved(index, Place(at as u32));
                to = to.wrapping_add(1);
            }
            from = from.wrapping_add(1);
        }
        self.back = to;
        self.holes = 0;
    }
}

#[cfg(test)]
mod tests;
