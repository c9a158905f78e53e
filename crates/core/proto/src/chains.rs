//! Entries of a slab by a key that any number of them may have: the map has the newest one of each
//! key, and each names its neighbours. In the map alone they would all want one place, and it takes
//! 128 there.

use clearway_base::{FlowMap, MapFull, Slab};

#[cfg(test)]
mod tests;

/// What an entry carries: its neighbours among those of its key.
#[derive(Clone, Copy, Default)]
pub(crate) struct Place {
    is_taken: bool,
    /// The one that came next.
    newer: Option<u32>,
    older: Option<u32>,
}

/// What can be in chains.
pub(crate) trait Chained {
    /// What several may have in common.
    type Key: PartialEq;

    /// It does not change while the entry is in a chain.
    fn key(&self) -> Self::Key;

    fn place(&self) -> &Place;

    fn place_mut(&mut self) -> &mut Place;
}

/// All chains of a slab.
pub(crate) struct Chains {
    /// The newest of each key.
    map: FlowMap,
    len: u32,
}

impl Chains {
    /// For a slab of `capacity` entries.
    pub(crate) fn new(capacity: u32) -> Chains {
        Chains { map: FlowMap::new(capacity), len: 0 }
    }

    /// How many entries are in chains.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Those that have a key, whose hash this is, from the newest one on.
    pub(crate) fn of<'a, T: Chained>(
        &self,
        slab: &'a Slab<T>,
        hash: u64,
        key: &T::Key,
    ) -> impl Iterator<Item = (u32, &'a T)> + use<'a, T> {
        let get = |index| slab.by_index(index).map(|entry| (index, entry));
        core::iter::successors(self.newest(slab, hash, key).and_then(get), move |(_, entry)| {
            entry.place().older.and_then(get)
        })
    }

    fn newest<T: Chained>(&self, slab: &Slab<T>, hash: u64, key: &T::Key) -> Option<u32> {
        self.map.find(hash, |index| slab.by_index(index).is_some_and(|entry| entry.key() == *key))
    }

    /// Puts an entry in front of those that have its key, whose hash this is.
    pub(crate) fn insert<T: Chained>(
        &mut self,
        slab: &mut Slab<T>,
        hash: u64,
        index: u32,
    ) -> Result<(), MapFull> {
        let key = slab.by_index(index).ok_or(MapFull)?.key();
        let older = self.newest(slab, hash, &key);
        match older {
            Some(older) => {
                self.map.replace(hash, older, index);
                if let Some(older) = slab.by_index_mut(older) {
                    older.place_mut().newer = Some(index);
                }
            }
            None => self.map.insert(hash, index)?,
        }
        if let Some(entry) = slab.by_index_mut(index) {
            *entry.place_mut() = Place { is_taken: true, newer: None, older };
        }
        self.len += 1;
        Ok(())
    }

    /// Takes an entry out, while it is in the slab. False: it was in no chain.
    pub(crate) fn remove<T: Chained>(&mut self, slab: &mut Slab<T>, hash: u64, index: u32) -> bool {
        let Some(entry) = slab.by_index_mut(index) else { return false };
        let Place { is_taken, newer, older } = core::mem::take(entry.place_mut());
        if !is_taken {
            return false;
        }
        if let Some(older) = older.and_then(|older| slab.by_index_mut(older)) {
            older.place_mut().newer = newer;
        }
        match (newer.and_then(|newer| slab.by_index_mut(newer)), older) {
            (Some(newer), _) => newer.place_mut().older = older,
            (None, Some(older)) => {
                self.map.replace(hash, index, older);
            }
            (None, None) => {
                self.map.remove(hash, |value| value == index);
            }
        }
        self.len -= 1;
        true
    }
}
