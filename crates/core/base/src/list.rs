//! Doubly linked lists threaded through entries that live somewhere else, joined by `u32` indices.
//!
//! A list owns no memory: each entry carries a [`Link`] for each list it may be on, and an owner
//! lends its links for the time of an operation. Every operation takes constant time.

/// The index that ends a list. No entry may have it.
pub(crate) const NIL: u32 = u32::MAX;
/// The mark of a link that is on no list. No entry may have this index.
const OFF: u32 = u32::MAX - 1;

/// What an entry carries for one list: its neighbours, or the mark that it is on no list. 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    prev: u32,
    next: u32,
}

impl Link {
    /// A link that is on no list.
    pub const OFF: Link = Link { prev: OFF, next: OFF };

    /// True when the entry is on a list.
    #[inline]
    pub const fn is_linked(&self) -> bool {
        self.prev != OFF
    }
}

impl Default for Link {
    #[inline]
    fn default() -> Link {
        Link::OFF
    }
}

/// Where the links of one kind of list lie.
pub trait Links {
    /// The link of entry `index`.
    ///
    /// # Panics
    /// May panic when there is no such entry: a list then holds an entry that its owner forgot to
    /// take off.
    fn link(&mut self, index: u32) -> &mut Link;
}

impl Links for [Link] {
    #[inline]
    fn link(&mut self, index: u32) -> &mut Link {
        &mut self[index as usize]
    }
}

/// The head, tail and length of a list. 12 bytes.
///
/// A link knows whether it is on *a* list, not on which: when links of one kind serve several
/// lists, the owner must name the right one to [`List::remove`]. Likewise each operation must be
/// lent the same links.
#[derive(Clone, Debug)]
pub struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for List {
    fn default() -> List {
        List::new()
    }
}

impl List {
    /// An empty list.
    pub const fn new() -> List {
        List { head: NIL, tail: NIL, len: 0 }
    }

    /// How many entries are on the list.
    #[inline]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// True when no entry is on the list.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// The first entry.
    #[inline]
    pub const fn front(&self) -> Option<u32> {
        some(self.head)
    }

    /// The last entry.
    #[inline]
    pub const fn back(&self) -> Option<u32> {
        some(self.tail)
    }

    /// The entry behind `index`, which must be on this list; `None` at the end.
    #[inline]
    pub fn next<L: Links + ?Sized>(&self, links: &mut L, index: u32) -> Option<u32> {
        let link = links.link(index);
        if link.is_linked() { some(link.next) } else { None }
    }

    /// Puts `index` at the end. False, and nothing changes, when its link is on a list already.
    #[inline(always)]
    pub fn push_back<L: Links + ?Sized>(&mut self, links: &mut L, index: u32) -> bool {
        let link = links.link(index);
        if link.is_linked() {
            return false;
        }
        *link = Link { prev: self.tail, next: NIL };
        match some(self.tail) {
            Some(tail) => links.link(tail).next = index,
            None => self.head = index,
        }
        self.tail = index;
        self.len += 1;
        true
    }

    /// Puts `index` at the start. False, and nothing changes, when its link is on a list already.
    #[inline]
    pub fn push_front<L: Links + ?Sized>(&mut self, links: &mut L, index: u32) -> bool {
        let link = links.link(index);
        if link.is_linked() {
            return false;
        }
        *link = Link { prev: NIL, next: self.head };
        match some(self.head) {
            Some(head) => links.link(head).prev = index,
            None => self.tail = index,
        }
        self.head = index;
        self.len += 1;
        true
    }

    /// Takes the first entry off.
    #[inline]
    pub fn pop_front<L: Links + ?Sized>(&mut self, links: &mut L) -> Option<u32> {
        let index = some(self.head)?;
        // The new head keeps the old one as its neighbour: nobody asks the head for what is before
        // it, and its memory need not be fetched for this.
        let Link { next, .. } = core::mem::replace(links.link(index), Link::OFF);
        if next == NIL {
            self.tail = NIL;
        }
        self.head = next;
        self.len -= 1;
        Some(index)
    }

    /// Takes `index` off, wherever in this list it is. False, and nothing changes, when its link is
    /// on no list.
    #[inline]
    pub fn remove<L: Links + ?Sized>(&mut self, links: &mut L, index: u32) -> bool {
        let Link { prev, next } = core::mem::replace(links.link(index), Link::OFF);
        if prev == OFF {
            return false;
        }
        // What stands in the head as its neighbour before means nothing: see `pop_front`.
        let prev = if self.head == index { NIL } else { prev };
        match some(prev) {
            Some(prev) => links.link(prev).next = next,
            None => {
                debug_assert_eq!(self.head, index, "taken off a list it is not on");
                self.head = next;
            }
        }
        match some(next) {
            Some(next) => links.link(next).prev = prev,
            None => {
                debug_assert_eq!(self.tail, index, "taken off a list it is not on");
                self.tail = prev;
            }
        }
        self.len -= 1;
        true
    }

    /// Moves `index` to the end. False, and nothing changes, when its link is on no list.
    #[inline]
    pub fn move_to_back<L: Links + ?Sized>(&mut self, links: &mut L, index: u32) -> bool {
        if self.tail == index {
            return true;
        }
        self.remove(links, index) && self.push_back(links, index)
    }
}

/// `NIL` as `None`.
#[inline]
const fn some(index: u32) -> Option<u32> {
    if index == NIL { None } else { Some(index) }
}

#[cfg(test)]
mod tests;
