//! The rings of a socket, each with one writer and one reader, one of which is the kernel.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::xdp_ring_offset;

use crate::sys::Mapping;

/// A ring that was mapped. `T` is what lies in it: a descriptor, or the address of a frame.
struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    slots: NonNull<T>,
    /// A power of two.
    size: u32,
    _mapping: Mapping,
}

// SAFETY: its pointers lead into the mapping that it owns.
unsafe impl<T: Copy + Send> Send for Ring<T> {}
// SAFETY: a shared one only loads atomic numbers; its ends read and write places by `&mut self`.
unsafe impl<T: Copy + Send> Sync for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// Maps the ring of `size` places at `page`, whose parts lie where `offsets` says.
    fn map(
        socket: BorrowedFd<'_>,
        size: u32,
        page: i64,
        offsets: &xdp_ring_offset,
    ) -> io::Result<Ring<T>> {
        let slots_len = u64::from(size) * size_of::<T>() as u64;
        let mapping = Mapping::of_ring(socket, (offsets.desc + slots_len) as usize, page)?;
        let start = mapping.at();
        let part = |offset: u64, len: u64, align: usize| {
            let within = offset.checked_add(len).is_some_and(|end| end <= mapping.len() as u64);
            if !within || offset % align as u64 != 0 {
                return Err(io::Error::from(io::ErrorKind::InvalidData));
            }
            // SAFETY: the offset was just found to lie within the mapping.
            Ok(unsafe { start.add(offset as usize) })
        };
        let word = size_of::<u32>();
        Ok(Ring {
            producer: part(offsets.producer, 4, word)?.cast(),
            consumer: part(offsets.consumer, 4, word)?.cast(),
            flags: part(offsets.flags, 4, word)?.cast(),
            slots: part(offsets.desc, slots_len, align_of::<T>())?.cast(),
            size,
            _mapping: mapping,
        })
    }

    #[inline]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: it lies in the mapping, aligned, and both sides reach it by atomic operations
        // only.
        unsafe { self.producer.as_ref() }
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for `producer`.
        unsafe { self.consumer.as_ref() }
    }

    #[inline]
    fn needs_wakeup(&self) -> bool {
        // SAFETY: as for `producer`.
        let flags = unsafe { self.flags.as_ref() }.load(Ordering::Relaxed);
        flags & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// The place of this number; it wraps around.
    #[inline]
    fn slot(&self, number: u32) -> NonNull<T> {
        // SAFETY: the mask keeps it below `size`, so it lies in the mapping.
        unsafe { self.slots.add((number & (self.size - 1)) as usize) }
    }
}

/// The end of a ring that writes: frames to be filled, or to be sent.
pub(crate) struct Producer<T> {
    ring: Ring<T>,
    /// The next place that is written, and the one up to which the kernel knows of it.
    head: u32,
    published: u32,
    /// How far the kernel had read when we last looked.
    tail: u32,
}

impl<T: Copy> Producer<T> {
    pub(crate) fn map(
        socket: BorrowedFd<'_>,
        size: u32,
        page: i64,
        offsets: &xdp_ring_offset,
    ) -> io::Result<Producer<T>> {
        let ring = Ring::map(socket, size, page, offsets)?;
        let (head, tail) =
            (ring.producer().load(Ordering::Relaxed), ring.consumer().load(Ordering::Relaxed));
        Ok(Producer { ring, head, published: head, tail })
    }

    /// Places that are free for sure; looks at what the kernel has read when there are fewer than
    /// `wanted`.
    #[inline]
    pub(crate) fn room(&mut self, wanted: u32) -> u32 {
        let room = self.known_room();
        if room >= wanted {
            return room;
        }
        self.tail = self.ring.consumer().load(Ordering::Acquire);
        self.known_room()
    }

    #[inline]
    fn known_room(&self) -> u32 {
        // A number that cannot be leaves no room.
        self.ring.size.saturating_sub(self.head.wrapping_sub(self.tail))
    }

    /// Writes one; without room for it nothing happens, and the answer is false.
    #[inline]
    pub(crate) fn push(&mut self, item: T) -> bool {
        if self.room(1) == 0 {
            return false;
        }
        // SAFETY: the place lies in the ring, and the kernel has read what was there before and
        // does not look at it again before it is published.
        unsafe { self.ring.slot(self.head).write(item) };
        self.head = self.head.wrapping_add(1);
        true
    }

    /// Those that the kernel does not know of yet.
    #[inline]
    pub(crate) fn unpublished(&self) -> u32 {
        self.head.wrapping_sub(self.published)
    }

    /// Tells the kernel of all of them.
    #[inline]
    pub(crate) fn publish(&mut self) {
        if self.head != self.published {
            self.ring.producer().store(self.head, Ordering::Release);
            self.published = self.head;
        }
    }

    /// Those that were published and that the kernel has not read yet.
    #[inline]
    pub(crate) fn unread(&mut self) -> u32 {
        self.tail = self.ring.consumer().load(Ordering::Acquire);
        self.published.wrapping_sub(self.tail).min(self.ring.size)
    }

    /// Whether the kernel had read all when we last looked.
    #[inline]
    pub(crate) fn is_caught_up(&self) -> bool {
        self.published == self.ring.consumer().load(Ordering::Relaxed)
    }

    /// Whether the kernel has to be told by a system call that there is something.
    #[inline]
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

/// The end of a ring that reads: frames that came, or that were sent.
pub(crate) struct Consumer<T> {
    ring: Ring<T>,
    /// The next place that is read.
    tail: u32,
    /// How far the kernel had written when we last looked.
    head: u32,
}

impl<T: Copy> Consumer<T> {
    pub(crate) fn map(
        socket: BorrowedFd<'_>,
        size: u32,
        page: i64,
        offsets: &xdp_ring_offset,
    ) -> io::Result<Consumer<T>> {
        let ring = Ring::map(socket, size, page, offsets)?;
        let (head, tail) =
            (ring.producer().load(Ordering::Acquire), ring.consumer().load(Ordering::Relaxed));
        Ok(Consumer { ring, tail, head })
    }

    /// How many there are; looks at what the kernel has written when there are fewer than `wanted`.
    #[inline]
    pub(crate) fn available(&mut self, wanted: u32) -> u32 {
        if self.head.wrapping_sub(self.tail) < wanted {
            self.head = self.ring.producer().load(Ordering::Acquire);
        }
        self.head.wrapping_sub(self.tail).min(self.ring.size)
    }

    /// Reads one.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.available(1) == 0 {
            return None;
        }
        // SAFETY: the place lies in the ring, the kernel has written it and does not touch it
        // before it is released.
        let item = unsafe { self.ring.slot(self.tail).read() };
        self.tail = self.tail.wrapping_add(1);
        Some(item)
    }

    /// Gives the places that were read back to the kernel.
    #[inline]
    pub(crate) fn release(&mut self) {
        self.ring.consumer().store(self.tail, Ordering::Release);
    }
}
