//! What the file descriptors of this process are: a table that is read without locks.
//!
//! A slot of the table is a pointer to a node. Nodes are counted, and never given back to the
//! allocator: whoever finds a node in a slot raises its count only if that is not zero, and then
//! looks whether the slot still names the node. So a reader that is late touches a node that serves
//! another descriptor by now at worst, sees that, and looks again.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering, fence};

use crate::lock::Lock;

#[cfg(test)]
mod tests;

/// Descriptors in a chunk of the table; a chunk is allocated when the first descriptor in it is
/// ours.
const CHUNK: usize = 1024;

/// Chunks. Descriptors beyond `CHUNK * CHUNKS` (Linux's default of `fs.nr_open`) are left to the
/// kernel.
const CHUNKS: usize = 1024;

/// How often who finds a descriptor that is being closed lets others run before it takes it for the
/// kernel's: who closes it may wait for just that, in a signal's handler, or be no thread of this
/// process, behind a fork.
const YIELDS: u32 = 10_000;

type Chunk<T> = [AtomicPtr<Node<T>>; CHUNK];

/// A table of counted objects by descriptor.
pub(crate) struct Table<T: 'static> {
    chunks: [AtomicPtr<Chunk<T>>; CHUNKS],
    /// Taken by whoever changes which chunks exist or takes a free node.
    lock: Lock,
    free: UnsafeCell<Vec<&'static Node<T>>>,
    /// What stands at a descriptor that is being closed or replaced: a node that nobody can hold.
    /// Null: none was closed yet.
    going: AtomicPtr<Node<T>>,
}

// SAFETY: the free list is only touched under the lock; the rest is atomic; objects are shared
// between threads by reference, and dropped by any.
unsafe impl<T: Send + Sync> Sync for Table<T> {}

struct Node<T: 'static> {
    /// Slots that name the node, and those who hold it. Zero: it is free.
    count: AtomicU32,
    table: &'static Table<T>,
    object: UnsafeCell<Option<T>>,
}

// SAFETY: the object is written only while the count is zero and the node is in nobody's hands, and
// shared otherwise.
unsafe impl<T: Send + Sync> Sync for Node<T> {}

/// An object in use. Its descriptor may be closed meanwhile; the object stays until the last one
/// lets go.
pub(crate) struct Held<T: 'static>(&'static Node<T>);

impl<T> Clone for Held<T> {
    fn clone(&self) -> Held<T> {
        self.0.count.fetch_add(1, Ordering::Relaxed);
        Held(self.0)
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the count is not zero while a `Held` exists, so nobody writes the object, and it
        // is there.
        unsafe { (*self.0.object.get()).as_ref().unwrap_unchecked() }
    }
}

impl<T> Held<T> {
    /// Is this the only one left, and no slot names the object any more?
    pub(crate) fn is_last(&self) -> bool {
        self.0.count.load(Ordering::Acquire) == 1
    }

    /// What tells it from all other objects that are held.
    pub(crate) fn name(&self) -> usize {
        ptr::from_ref(self.0).addr()
    }

    /// Are both the same object?
    pub(crate) fn same(&self, other: &Held<T>) -> bool {
        ptr::eq(self.0, other.0)
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        fence(Ordering::Acquire);
        // SAFETY: the count fell to zero, so no other `Held` exists, and none can come to be:
        // readers do not raise a zero.
        let object = unsafe { (*self.0.object.get()).take() };
        let table = self.0.table;
        let locked = table.lock.lock();
        // SAFETY: under the lock.
        unsafe { (*table.free.get()).push(self.0) };
        drop(locked);
        drop(object);
    }
}

impl<T> Node<T> {
    /// Holds the node unless it is free.
    fn hold(&'static self) -> Option<Held<T>> {
        let mut count = self.count.load(Ordering::Relaxed);
        while count != 0 {
            match self.count.compare_exchange_weak(
                count,
                count + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(Held(self)),
                Err(now) => count = now,
            }
        }
        None
    }
}

impl<T: Send + Sync> Table<T> {
    pub(crate) const fn new() -> Table<T> {
        Table {
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS],
            lock: Lock::new(),
            free: UnsafeCell::new(Vec::new()),
            going: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The lock, for the handlers around a fork.
    pub(crate) fn lock(&self) -> &Lock {
        &self.lock
    }

    #[inline]
    fn slot(&self, fd: c_int) -> Option<&AtomicPtr<Node<T>>> {
        let at = usize::try_from(fd).ok()?;
        let chunk = self.chunks.get(at / CHUNK)?.load(Ordering::Acquire);
        // SAFETY: a chunk that was stored is never freed.
        let chunk = unsafe { chunk.as_ref() }?;
        chunk.get(at % CHUNK)
    }

    fn slot_made(&self, fd: c_int) -> Option<&AtomicPtr<Node<T>>> {
        let at = usize::try_from(fd).ok()?;
        let place = self.chunks.get(at / CHUNK)?;
        if place.load(Ordering::Acquire).is_null() {
            let _locked = self.lock.lock();
            if place.load(Ordering::Acquire).is_null() {
                let chunk: Box<Chunk<T>> =
                    Box::new([const { AtomicPtr::new(ptr::null_mut()) }; CHUNK]);
                place.store(Box::into_raw(chunk), Ordering::Release);
            }
        }
        self.slot(fd)
    }

    /// Is there anything at this descriptor? Cheap, and true for nearly nothing.
    #[inline]
    pub(crate) fn has(&self, fd: c_int) -> bool {
        self.slot(fd).is_some_and(|slot| !slot.load(Ordering::Relaxed).is_null())
    }

    /// What is at this descriptor. While another thread closes or replaces it, it is waited for.
    #[inline]
    pub(crate) fn get(&self, fd: c_int) -> Option<Held<T>> {
        let slot = self.slot(fd)?;
        let mut yields = 0;
        loop {
            let node = slot.load(Ordering::Acquire);
            // SAFETY: nodes are never freed.
            let held = unsafe { node.as_ref() }?.hold();
            if slot.load(Ordering::Acquire) == node {
                if let Some(held) = held {
                    return Some(held);
                }
                if self.is_mark(node) {
                    yields += 1;
                    if yields > YIELDS {
                        return None;
                    }
                    std::thread::yield_now();
                }
            }
        }
    }

    #[cold]
    fn is_mark(&self, node: *mut Node<T>) -> bool {
        ptr::eq(node, self.going.load(Ordering::Acquire))
    }

    /// Is this descriptor being closed or replaced, by this thread or another one?
    pub(crate) fn is_going(&self, fd: c_int) -> bool {
        self.slot(fd)
            .map(|slot| slot.load(Ordering::Acquire))
            .is_some_and(|node| !node.is_null() && self.is_mark(node))
    }

    /// Takes away what is at a descriptor that is about to be closed or replaced. Until
    /// [`Table::end_close`] or [`Table::put`] says what is there, other threads wait: it is not the
    /// kernel's yet, which has a descriptor of ours there.
    pub(crate) fn begin_close(&'static self, fd: c_int) -> Option<Held<T>> {
        let slot = self.slot(fd)?;
        let going = self.going();
        loop {
            let node = slot.load(Ordering::Acquire);
            if ptr::eq(node, going) {
                return None;
            }
            // SAFETY: nodes are never freed.
            let known = unsafe { node.as_ref() }?;
            if slot.compare_exchange(node, going, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                // The slot's share of the count.
                return Some(Held(known));
            }
        }
    }

    /// The descriptor is closed. Who has got its number since may have put something there.
    pub(crate) fn end_close(&'static self, fd: c_int) {
        let Some(slot) = self.slot(fd) else { return };
        let none = ptr::null_mut();
        let _ = slot.compare_exchange(self.going(), none, Ordering::AcqRel, Ordering::Relaxed);
    }

    fn going(&'static self) -> *mut Node<T> {
        let known = self.going.load(Ordering::Acquire);
        if !known.is_null() {
            return known;
        }
        let node = ptr::from_mut(Box::leak(Box::new(Node {
            count: AtomicU32::new(0),
            table: self,
            object: UnsafeCell::new(None),
        })));
        let none = ptr::null_mut();
        match self.going.compare_exchange(none, node, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => node,
            // Another thread was first. Once in a process's life a few bytes are lost.
            Err(known) => known,
        }
    }

    /// A new object, at no descriptor yet.
    pub(crate) fn make(&'static self, object: T) -> Held<T> {
        let locked = self.lock.lock();
        // SAFETY: under the lock.
        let free = unsafe { (*self.free.get()).pop() };
        drop(locked);
        let Some(node) = free else {
            let node = Node {
                count: AtomicU32::new(1),
                table: self,
                object: UnsafeCell::new(Some(object)),
            };
            return Held(Box::leak(Box::new(node)));
        };
        // SAFETY: the node was free and is in nobody's hands but ours.
        unsafe { *node.object.get() = Some(object) };
        node.count.store(1, Ordering::Release);
        Held(node)
    }

    /// Puts an object at a descriptor, or nothing, and gives what was there. An object for a
    /// descriptor that is too large for the table is dropped.
    pub(crate) fn put(&self, fd: c_int, object: Option<Held<T>>) -> Option<Held<T>> {
        let slot = if object.is_some() { self.slot_made(fd)? } else { self.slot(fd)? };
        let node = object.map_or(ptr::null_mut(), |held| {
            let node = ptr::from_ref(held.0).cast_mut();
            std::mem::forget(held);
            node
        });
        let old = slot.swap(node, Ordering::AcqRel);
        if !old.is_null() && self.is_mark(old) {
            return None;
        }
        // SAFETY: nodes are never freed, and the slot's share of the count goes to the `Held`.
        unsafe { old.as_ref() }.map(Held)
    }

    /// In the child of a fork there is no thread but the caller's, which is inside of no call. What
    /// others held in the parent nobody will let go of, so it is forgotten; what they were closing
    /// or replacing is at no descriptor any more. Gives the descriptors of the latter, which the
    /// kernel may have open yet.
    pub(crate) fn after_fork_in_child(&self) -> Vec<c_int> {
        let mut going = Vec::new();
        for fd in self.range(0, c_int::MAX) {
            match self.named(fd) {
                Some(node) => node.count.store(0, Ordering::Relaxed),
                None => going.push(fd),
            }
        }
        for &fd in &going {
            if let Some(slot) = self.slot(fd) {
                slot.store(ptr::null_mut(), Ordering::Relaxed);
            }
        }
        for node in self.range(0, c_int::MAX).filter_map(|fd| self.named(fd)) {
            node.count.fetch_add(1, Ordering::Relaxed);
        }
        going
    }

    /// The node that stands at a descriptor, unless that is being closed.
    fn named(&self, fd: c_int) -> Option<&'static Node<T>> {
        let node = self.slot(fd)?.load(Ordering::Acquire);
        // SAFETY: nodes are never freed.
        unsafe { node.as_ref() }.filter(|_| !self.is_mark(node))
    }

    /// The descriptors of this range at which something is, in order.
    pub(crate) fn range(&self, first: c_int, last: c_int) -> impl Iterator<Item = c_int> + '_ {
        let first = usize::try_from(first.max(0)).unwrap_or(0);
        let last = usize::try_from(last).map_or(0, |last| last.min(CHUNK * CHUNKS - 1) + 1);
        let chunks = (first / CHUNK)..last.div_ceil(CHUNK);
        chunks
            .filter(|&at| !self.chunks[at].load(Ordering::Acquire).is_null())
            .flat_map(move |at| (at * CHUNK).max(first)..((at + 1) * CHUNK).min(last))
            .filter_map(|at| c_int::try_from(at).ok())
            .filter(|&fd| self.has(fd))
    }
}
