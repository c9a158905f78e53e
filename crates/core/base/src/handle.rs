//! Typed generational handles: a name for an entry of a [`Slab`](crate::Slab) that stops working
//! when the entry is gone.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::num::NonZeroU32;

/// Names one entry of a `Slab<T>`.
///
/// The index says where the entry lies, the generation says which tenant of that place is meant:
/// once the entry is removed, the handle finds nothing, even when the place is used again. A place
/// would have to change tenants 2^32 - 1 times before an old handle could match a new tenant.
/// `Option<Handle<T>>` is as small as `Handle<T>`: 8 bytes.
pub struct Handle<T> {
    index: u32,
    generation: NonZeroU32,
    // `fn() -> T` keeps a handle Send, Sync and Copy whatever T is: it holds no T.
    of: PhantomData<fn() -> T>,
}

impl<T> Handle<T> {
    /// The handle of tenant `generation` at place `index`.
    #[inline]
    pub(crate) const fn new(index: u32, generation: NonZeroU32) -> Handle<T> {
        Handle { index, generation, of: PhantomData }
    }

    /// The place in the slab, below its capacity.
    #[inline]
    pub const fn index(self) -> u32 {
        self.index
    }

    /// Which tenant of the place is meant; never zero.
    #[inline]
    pub const fn generation(self) -> NonZeroU32 {
        self.generation
    }

    /// The handle as one number, never zero, for places that can only keep numbers (a C caller, a
    /// ring shared with another process).
    #[inline]
    pub const fn to_bits(self) -> u64 {
        (self.generation.get() as u64) << 32 | self.index as u64
    }

    /// The handle that [`Handle::to_bits`] made into `bits`; `None` when no handle makes that
    /// number. A number invented by somebody else gives a handle that finds nothing, or another
    /// entry of the same slab: check who asks.
    #[inline]
    pub const fn from_bits(bits: u64) -> Option<Handle<T>> {
        match NonZeroU32::new((bits >> 32) as u32) {
            Some(generation) => Some(Handle::new(bits as u32, generation)),
            None => None,
        }
    }
}

// Written by hand because a derive would ask the same of T.
impl<T> Clone for Handle<T> {
    #[inline]
    fn clone(&self) -> Handle<T> {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> PartialEq for Handle<T> {
    #[inline]
    fn eq(&self, other: &Handle<T>) -> bool {
        self.to_bits() == other.to_bits()
    }
}

impl<T> Eq for Handle<T> {}

impl<T> Hash for Handle<T> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to_bits().hash(state);
    }
}

impl<T> fmt::Debug for Handle<T> {
    /// Index and generation, as in `7#2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.index, self.generation)
    }
}

#[cfg(test)]
mod tests;
