//! Places in slabs that connections share.

use clearway_base::Slab;

/// What a connection holds of a slab of maps: nothing, most of the time. Nobody else knows its
/// place, so it needs no generation.
pub(crate) struct Held<T> {
    index: u32,
    of: core::marker::PhantomData<fn() -> T>,
}

impl<T> Clone for Held<T> {
    fn clone(&self) -> Held<T> {
        *self
    }
}

impl<T> Copy for Held<T> {}

impl<T> PartialEq for Held<T> {
    fn eq(&self, other: &Held<T>) -> bool {
        self.index == other.index
    }
}

impl<T> Eq for Held<T> {}

impl<T> core::fmt::Debug for Held<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Held({})", self.index as i32)
    }
}

impl<T> Held<T> {
    pub(crate) const NONE: Held<T> = Held { index: u32::MAX, of: core::marker::PhantomData };

    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        self.index == u32::MAX
    }

    #[inline]
    pub(crate) fn get<'a>(&self, slab: &'a Slab<T>) -> Option<&'a T> {
        if self.is_none() { None } else { slab.by_index(self.index) }
    }

    #[inline]
    pub(crate) fn get_mut<'a>(&self, slab: &'a mut Slab<T>) -> Option<&'a mut T> {
        if self.is_none() { None } else { slab.by_index_mut(self.index) }
    }

    /// The place that is held.
    #[inline]
    pub(crate) fn index(&self) -> Option<u32> {
        (!self.is_none()).then_some(self.index)
    }

    /// Takes a place for `value`, if none is held and there is one.
    pub(crate) fn take(&mut self, slab: &mut Slab<T>, value: T) {
        if self.is_none() {
            self.index = slab.insert(value).map_or(u32::MAX, |h| h.index());
        }
    }

    /// Gives the place back.
    pub(crate) fn give_back(&mut self, slab: &mut Slab<T>) {
        if let Some(handle) = slab.handle_at(self.index).filter(|_| !self.is_none()) {
            slab.remove(handle);
        }
        *self = Held::NONE;
    }
}

/// As [`Held`], in two bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held16(u16);

impl Held16 {
    pub(crate) const NONE: Held16 = Held16(u16::MAX);

    /// Places that it can name.
    pub(crate) const MOST: u32 = u16::MAX as u32;

    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.0 == u16::MAX
    }

    pub(crate) fn get<T>(self, slab: &Slab<T>) -> Option<&T> {
        if self.is_none() { None } else { slab.by_index(self.0.into()) }
    }

    pub(crate) fn get_mut<T>(self, slab: &mut Slab<T>) -> Option<&mut T> {
        if self.is_none() { None } else { slab.by_index_mut(self.0.into()) }
    }

    /// Takes a place of a slab with no more than [`Held16::MOST`], if there is one.
    pub(crate) fn take<T>(slab: &mut Slab<T>, value: T) -> Held16 {
        slab.insert(value).map_or(Held16::NONE, |handle| Held16(handle.index() as u16))
    }

    /// Gives the place back.
    pub(crate) fn give_back<T>(self, slab: &mut Slab<T>) {
        if let Some(handle) = slab.handle_at(self.0.into()).filter(|_| !self.is_none()) {
            slab.remove(handle);
        }
    }
}
