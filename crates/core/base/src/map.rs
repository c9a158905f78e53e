//! The hash table behind flow lookup: from a keyed hash to the index of an entry that lives
//! elsewhere.
//!
//! A slot is 8 bytes, a 32-bit tag of the hash beside the 32-bit value, so one cache line answers
//! most lookups and the entry itself is fetched only when its tag matches. Entries that probe from
//! the same place lie ordered by the place they wanted (Robin Hood order), so a lookup that will
//! find nothing ends early, and a removal shifts its followers back instead of leaving a mark: the
//! table does not wear out.

use alloc::boxed::Box;
use alloc::vec;

/// No entry lies further than this from the slot it wanted; an insert that would push one further
/// is refused. At the highest load that the table allows itself, random hashes stay far below it (a
/// test shows it). Only somebody who knows the key of the hash could reach it, and then cannot make
/// a lookup longer than this.
pub const MAX_PROBE: usize = 128;
/// An insert moves at most this many entries; beyond it is refused, for the same reason.
const MAX_SHIFT: usize = 2048;

/// Nothing was inserted: the map holds its capacity already, or too many entries want the same
/// place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapFull;

/// A map from 64-bit hashes to values, of fixed capacity.
///
/// Keys are not kept: every verb that must tell two entries with the same hash apart asks the
/// caller whether a value is the one that is meant. The hash must be keyed with a secret when
/// strangers choose the keys.
pub struct FlowMap {
    /// Zero when vacant, else the tag in the high half and the value plus one in the low half.
    /// Vacant must be zero: then the system hands out the memory of a large table page by page as
    /// it is first written.
    slots: Box<[u64]>,
    mask: usize,
    len: u32,
    capacity: u32,
}

impl FlowMap {
    /// An empty map for `capacity` values. Its slots number the power of two that keeps at least a
    /// quarter of them vacant, 8 bytes each.
    pub fn new(capacity: u32) -> FlowMap {
        let slots = (capacity as usize + capacity as usize / 3 + 1).next_power_of_two().max(8);
        FlowMap { slots: vec![0; slots].into_boxed_slice(), mask: slots - 1, len: 0, capacity }
    }

    /// How many values are held.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// True when no value is held.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many values can be held.
    #[inline]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The slot where a lookup of `hash` begins, as an index into [`FlowMap::slots`], to prefetch
    /// it.
    #[inline]
    pub fn slot_of(&self, hash: u64) -> usize {
        tag_of(hash) as usize & self.mask
    }

    /// The slots, opaque: to prefetch the one that [`FlowMap::slot_of`] names.
    #[inline]
    pub fn slots(&self) -> &[u64] {
        &self.slots
    }

    /// The value under `hash` for which `is_it` says yes.
    #[inline]
    pub fn find(&self, hash: u64, is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.position(hash, is_it).map(|(_, value)| value)
    }

    /// The first value whose tag matches that of `hash`, or `u32::MAX`, which no value is: almost
    /// always what [`FlowMap::find`] will return, known without touching the entry, so that the
    /// entry can be prefetched.
    #[inline(always)]
    pub fn candidate(&self, hash: u64) -> u32 {
        // The usual answer: it lies in the slot that it wanted.
        let tag = tag_of(hash);
        match self.slots.get(tag as usize & self.mask) {
            Some(&slot) if slot != 0 && (slot >> 32) as u32 == tag => value_of(slot),
            _ => self.search(hash),
        }
    }

    #[cold]
    #[inline(never)]
    fn search(&self, hash: u64) -> u32 {
        self.find(hash, |_| true).unwrap_or(u32::MAX)
    }

    /// Adds `value` under `hash`, beside whatever is there: ask [`FlowMap::find`] first.
    ///
    /// # Errors
    /// [`MapFull`], and the map is unchanged, when it holds its capacity or too many entries want
    /// the same place.
    ///
    /// # Panics
    /// When `value` is `u32::MAX`, which no slab index is.
    #[inline]
    pub fn insert(&mut self, hash: u64, value: u32) -> Result<(), MapFull> {
        assert!(value != u32::MAX, "the value u32::MAX cannot be stored");
        if self.len >= self.capacity {
            return Err(MapFull);
        }
        let tag = tag_of(hash);
        let home = tag as usize & self.mask;
        // Behind those that wanted this place or one before it, in front of those that wanted a
        // later one.
        let mut at = home;
        let mut distance = 0;
        while self.slots[at] != 0 && self.distance(at) >= distance {
            at = (at + 1) & self.mask;
            distance += 1;
            if distance > MAX_PROBE {
                return Err(MapFull);
            }
        }
        let vacant = self.vacant_after(at)?;
        let mut carried = slot(tag, value);
        let mut to = at;
        while to != vacant {
            core::mem::swap(&mut self.slots[to], &mut carried);
            to = (to + 1) & self.mask;
        }
        self.slots[vacant] = carried;
        self.len += 1;
        Ok(())
    }

    /// Takes out the value under `hash` for which `is_it` says yes, and returns it.
    #[inline]
    pub fn remove(&mut self, hash: u64, is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let (mut at, value) = self.position(hash, is_it)?;
        // Followers move one slot back, until one that has the slot it wanted, or a vacant one.
        loop {
            let next = (at + 1) & self.mask;
            if self.slots[next] == 0 || self.distance(next) == 0 {
                break;
            }
            self.slots[at] = self.slots[next];
            at = next;
        }
        self.slots[at] = 0;
        self.len -= 1;
        Some(value)
    }

    /// Puts `new` where `old` is under `hash`: a flow that moved to another place keeps its slot.
    /// False when `old` is not there.
    ///
    /// # Panics
    /// When `new` is `u32::MAX`.
    #[inline]
    pub fn replace(&mut self, hash: u64, old: u32, new: u32) -> bool {
        assert!(new != u32::MAX, "the value u32::MAX cannot be stored");
        match self.position(hash, |value| value == old) {
            Some((at, _)) => {
                self.slots[at] = slot(tag_of(hash), new);
                true
            }
            None => false,
        }
    }

    /// Every value, in no order. Walks all slots: for tests and the control plane.
    pub fn values(&self) -> impl Iterator<Item = u32> {
        self.slots.iter().filter(|&&slot| slot != 0).map(|&slot| value_of(slot))
    }

    /// Where the value under `hash` lies for which `is_it` says yes, and the value.
    #[inline]
    fn position(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<(usize, u32)> {
        let tag = tag_of(hash);
        let mut at = tag as usize & self.mask;
        for distance in 0..=MAX_PROBE {
            let slot = self.slots[at];
            if slot == 0 {
                return None;
            }
            if (slot >> 32) as u32 == tag {
                if is_it(value_of(slot)) {
                    return Some((at, value_of(slot)));
                }
            } else if self.distance(at) < distance {
                // Whoever lies here wanted a later place; ours would have been put in front of it.
                return None;
            }
            at = (at + 1) & self.mask;
        }
        None
    }

    /// How far the entry in slot `at` lies from the slot it wanted.
    #[inline]
    fn distance(&self, at: usize) -> usize {
        at.wrapping_sub((self.slots[at] >> 32) as usize) & self.mask
    }

    /// The first vacant slot from `at` on, provided that every entry before it may move one slot
    /// further.
    #[inline]
    fn vacant_after(&self, at: usize) -> Result<usize, MapFull> {
        let mut vacant = at;
        for _ in 0..MAX_SHIFT {
            if self.slots[vacant] == 0 {
                return Ok(vacant);
            }
            if self.distance(vacant) >= MAX_PROBE {
                return Err(MapFull);
            }
            vacant = (vacant + 1) & self.mask;
        }
        Err(MapFull)
    }
}

/// 32 bits of the hash, folded so that a hash which is random in one half only serves as well.
#[inline]
const fn tag_of(hash: u64) -> u32 {
    (hash ^ hash >> 32) as u32
}

/// A slot that holds `value`, which is not `u32::MAX`.
#[inline]
const fn slot(tag: u32, value: u32) -> u64 {
    (tag as u64) << 32 | (value as u64 + 1)
}

/// The value of a slot that is not vacant.
#[inline]
const fn value_of(slot: u64) -> u32 {
    (slot as u32).wrapping_sub(1)
}

#[cfg(test)]
mod tests;
