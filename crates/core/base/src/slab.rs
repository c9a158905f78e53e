//! A fixed-capacity store of values that stay where they are, found by [`Handle`].

use alloc::vec::Vec;
use core::num::NonZeroU32;

use crate::handle::Handle;
use crate::list::{Link, Links, NIL};

/// The generation of the first tenant of every place.
const FIRST: NonZeroU32 = NonZeroU32::MIN;

/// Holds up to `capacity` values of type `T` without moving them.
///
/// Room for all is reserved when the slab is built, but a place is first written when it is first
/// used, so a large slab costs address space and not memory. A freed place is the next to be used
/// again (it is the one most likely still cached). An entry costs 8 bytes beside its `T` when `T`
/// is aligned to 4 or 8, and one alignment unit when to more; 12 bytes are the least.
pub struct Slab<T> {
    /// Places used at least once; the vector never grows past `capacity`, for which room was
    /// reserved.
    entries: Vec<Entry<T>>,
    capacity: u32,
    /// The vacant place freed last, `NIL` when none of the used places is vacant.
    free: u32,
    len: u32,
}

/// One place of a slab, opaque: something to hand to a prefetch without looking inside.
pub struct Entry<T>(State<T>);

// The generation is in both variants and not beside the enum, so that the discriminant shares its 8
// bytes.
enum State<T> {
    /// `generation` is the next tenant's, `next` the vacant place freed before this one.
    Vacant {
        generation: NonZeroU32,
        next: u32,
    },
    Occupied {
        generation: NonZeroU32,
        value: T,
    },
}

impl<T> Slab<T> {
    /// An empty slab for `capacity` values.
    ///
    /// # Panics
    /// When `capacity` is above `u32::MAX - 1` (the last two indices are marks of [`crate::list`]).
    pub fn new(capacity: u32) -> Slab<T> {
        assert!(capacity < u32::MAX, "a slab holds at most u32::MAX - 1 entries");
        Slab { entries: Vec::with_capacity(capacity as usize), capacity, free: NIL, len: 0 }
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

    /// True when an insert would be refused.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len == self.capacity
    }

    /// How many values can be held.
    #[inline]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Stores `value`; `None` when the slab is full, and then `value` is dropped.
    #[inline]
    pub fn insert(&mut self, value: T) -> Option<Handle<T>> {
        self.insert_with(|_| value)
    }

    /// Stores what `make` returns for the handle it is going to have. `None`, and `make` is not
    /// called, when the slab is full.
    #[inline]
    pub fn insert_with(&mut self, make: impl FnOnce(Handle<T>) -> T) -> Option<Handle<T>> {
        if let Some(entry) = self.entries.get_mut(self.free as usize) {
            let State::Vacant { generation, next } = entry.0 else {
                unreachable!("an occupied place on the free list")
            };
            let handle = Handle::new(self.free, generation);
            entry.0 = State::Occupied { generation, value: make(handle) };
            self.free = next;
            self.len += 1;
            return Some(handle);
        }
        if self.entries.len() >= self.capacity as usize {
            return None;
        }
        let handle = Handle::new(self.entries.len() as u32, FIRST);
        self.entries.push(Entry(State::Occupied { generation: FIRST, value: make(handle) }));
        self.len += 1;
        Some(handle)
    }

    /// Takes the value of `handle` out; `None` when it is gone already.
    #[inline]
    pub fn remove(&mut self, handle: Handle<T>) -> Option<T> {
        let entry = self.entries.get_mut(handle.index() as usize)?;
        match entry.0 {
            State::Occupied { generation, .. } if generation == handle.generation() => {}
            _ => return None,
        }
        // After 2^32 - 1 tenants the count starts again at one: zero is the niche of
        // `Option<Handle>`.
        let generation = handle.generation().checked_add(1).unwrap_or(FIRST);
        let vacant = Entry(State::Vacant { generation, next: self.free });
        let State::Occupied { value, .. } = core::mem::replace(entry, vacant).0 else {
            unreachable!("checked to be occupied above")
        };
        self.free = handle.index();
        self.len -= 1;
        Some(value)
    }

    /// The value of `handle`; `None` when it is gone.
    #[inline]
    pub fn get(&self, handle: Handle<T>) -> Option<&T> {
        match &self.entries.get(handle.index() as usize)?.0 {
            State::Occupied { generation, value } if *generation == handle.generation() => {
                Some(value)
            }
            _ => None,
        }
    }

    /// The value of `handle`, to change it; `None` when it is gone.
    #[inline]
    pub fn get_mut(&mut self, handle: Handle<T>) -> Option<&mut T> {
        match &mut self.entries.get_mut(handle.index() as usize)?.0 {
            State::Occupied { generation, value } if *generation == handle.generation() => {
                Some(value)
            }
            _ => None,
        }
    }

    /// True when `handle` still names a value.
    #[inline]
    pub fn contains(&self, handle: Handle<T>) -> bool {
        self.get(handle).is_some()
    }

    /// The value at place `index`, whichever tenant it is: for indices out of lists, timers and
    /// tables that are kept in step with the slab. `None` when the place is vacant.
    #[inline]
    pub fn by_index(&self, index: u32) -> Option<&T> {
        match &self.entries.get(index as usize)?.0 {
            State::Occupied { value, .. } => Some(value),
            State::Vacant { .. } => None,
        }
    }

    /// As [`Slab::by_index`], to change the value.
    #[inline]
    pub fn by_index_mut(&mut self, index: u32) -> Option<&mut T> {
        match &mut self.entries.get_mut(index as usize)?.0 {
            State::Occupied { value, .. } => Some(value),
            State::Vacant { .. } => None,
        }
    }

    /// The handle of the present tenant of place `index`; `None` when the place is vacant.
    #[inline]
    pub fn handle_at(&self, index: u32) -> Option<Handle<T>> {
        match self.entries.get(index as usize)?.0 {
            State::Occupied { generation, .. } => Some(Handle::new(index, generation)),
            State::Vacant { .. } => None,
        }
    }

    /// The value at place `index` with its handle, to change it; `None` when the place is vacant.
    #[inline]
    pub fn tenant_mut(&mut self, index: u32) -> Option<(Handle<T>, &mut T)> {
        match &mut self.entries.get_mut(index as usize)?.0 {
            State::Occupied { generation, value } => Some((Handle::new(index, *generation), value)),
            State::Vacant { .. } => None,
        }
    }

    /// Every value with its handle, by index. Walks all places ever used: for tests and the control
    /// plane, not for packets.
    pub fn iter(&self) -> impl Iterator<Item = (Handle<T>, &T)> {
        self.entries.iter().enumerate().filter_map(|(index, entry)| match &entry.0 {
            State::Occupied { generation, value } => {
                Some((Handle::new(index as u32, *generation), value))
            }
            State::Vacant { .. } => None,
        })
    }

    /// As [`Slab::iter`], to change the values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Handle<T>, &mut T)> {
        self.entries.iter_mut().enumerate().filter_map(|(index, entry)| match &mut entry.0 {
            State::Occupied { generation, value } => {
                Some((Handle::new(index as u32, *generation), value))
            }
            State::Vacant { .. } => None,
        })
    }

    /// Lends the links that `field` picks out of each value: `ready.push_back(&mut slab.links(|c|
    /// &mut c.ready), index)`.
    #[inline]
    pub fn links<F: Fn(&mut T) -> &mut Link>(&mut self, field: F) -> SlabLinks<'_, T, F> {
        SlabLinks { slab: self, field }
    }

    /// The places ever used, opaque, so that a caller can prefetch one by its index before it needs
    /// the value.
    #[inline]
    pub fn entries(&self) -> &[Entry<T>] {
        &self.entries
    }
}

/// The links of one kind inside the values of a slab; made by [`Slab::links`].
pub struct SlabLinks<'a, T, F> {
    slab: &'a mut Slab<T>,
    field: F,
}

impl<T, F: Fn(&mut T) -> &mut Link> Links for SlabLinks<'_, T, F> {
    #[inline]
    fn link(&mut self, index: u32) -> &mut Link {
        (self.field)(self.slab.by_index_mut(index).expect("an entry on a list is in the slab"))
    }
}

#[cfg(test)]
mod tests;
