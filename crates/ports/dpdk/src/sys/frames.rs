//! Frames and queues: who owns an mbuf, and who may receive and send.

use std::ffi::{CString, c_int, c_void};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use super::raw::*;
use super::{CONTROL, Device};

/// The receiving half of one queue.
pub(crate) struct RxQueue {
    pub(super) device: Arc<Device>,
    pub(super) queue: u16,
}

impl RxQueue {
    /// Takes up to `room` frames off the queue; `batch` is empty before.
    #[inline]
    pub(crate) fn receive(&mut self, batch: &mut Batch, room: usize) {
        debug_assert!(batch.count == 0);
        let list = batch.list.as_mut_ptr();
        // SAFETY: the list has BURST places, and this is the only queue of the queue. The frames
        // belong to the batch from here on.
        let take = |device: &Device| unsafe {
            cw_rx(device.port, self.queue, list, room.min(BURST) as u32)
        };
        batch.count = self.device.while_it_runs(take).unwrap_or(0) as usize;
    }

    /// Puts the descriptor that the queue rings when a frame comes, while its interrupt is on, into
    /// `epoll`, where it is looked at for edges; false when there is none.
    pub(crate) fn watch(&self, epoll: &Epoll) -> bool {
        // SAFETY: any thread may ask.
        let ask = |device: &Device| unsafe { cw_wait_fd(device.port, self.queue) };
        let fd = self.device.while_it_runs(ask).unwrap_or(-1);
        if fd < 0 {
            return false;
        }
        // SAFETY: the borrow ends with this function. The driver may close the descriptor
        // meanwhile, when its peer goes; then another file may be watched in its place, which wakes
        // somebody once too often and does nothing else.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let edge = EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0);
        matches!(epoll.add(fd, edge), Ok(()) | Err(Errno::EEXIST))
    }

    /// Turns the queue's interrupt on or off; false when the driver cannot.
    pub(crate) fn interrupt(&mut self, on: bool) -> bool {
        // SAFETY: this is the only queue of the queue.
        let turn = |device: &Device| unsafe {
            cw_interrupt(device.port, self.queue, c_int::from(on)) == 0
        };
        self.device.while_it_runs(turn).unwrap_or(false)
    }
}

/// Frames that were received and not given back.
pub(crate) struct Batch {
    list: [In; BURST],
    count: usize,
    /// A bit for each of those that were handed over.
    handed: u64,
}

// SAFETY: an mbuf may go to another thread; the pointers are owned.
unsafe impl Send for Batch {}

/// What the device says of a received frame.
pub(crate) struct Seen {
    pub(crate) hash: u32,
    pub(crate) segment_size: u16,
    /// Whether the checksum is known to be good or bad.
    pub(crate) checksum: Option<bool>,
}

impl Batch {
    pub(crate) const fn new() -> Batch {
        Batch { list: [NO_IN; BURST], count: 0, handed: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Bytes of the frame at `index`, all pieces together.
    #[inline]
    pub(crate) fn frame_len(&self, index: usize) -> usize {
        self.list[..self.count][index].len()
    }

    /// The first piece of the frame at `index`; mostly all of it.
    #[inline]
    pub(crate) fn head(&self, index: usize) -> &[u8] {
        let frame = &self.list[..self.count][index];
        // SAFETY: the batch owns the mbuf, whose first piece has `head_len()` bytes at `data`;
        // nobody writes to it.
        unsafe { std::slice::from_raw_parts(frame.data, frame.head_len()) }
    }

    /// The frame at `index` when all of it is in one piece, to be changed where it is.
    #[inline]
    pub(crate) fn whole_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        let frame = &self.list[..self.count][index];
        if self.handed & (1 << index) != 0 || frame.head_len() != frame.len() {
            return None;
        }
        // SAFETY: the batch owns the mbuf, whose only piece has `head_len()` bytes at `data`, and
        // the borrow is exclusive.
        Some(unsafe { std::slice::from_raw_parts_mut(frame.data.cast_mut(), frame.head_len()) })
    }

    /// Moves the frame at `index` to `outbox`, which has room. Its place stays empty until all are
    /// [released](Batch::release_rest).
    #[inline]
    pub(crate) fn hand_over(&mut self, index: usize, outbox: &mut Outbox) {
        let In { mbuf, lens, .. } = self.list[..self.count][index];
        if self.handed & (1 << index) == 0 {
            self.handed |= 1 << index;
            // It came as long as it goes.
            outbox.push_raw(mbuf, lens as u32, Work { flags: ask::CHAIN, ..Work::default() });
        }
    }

    /// Gives back those frames that were not handed over.
    #[inline]
    pub(crate) fn release_rest(&mut self) {
        let handed = std::mem::take(&mut self.handed);
        if handed.count_ones() as usize == self.count {
            self.count = 0;
            return;
        }
        let mut kept = 0;
        for index in 0..self.count {
            if handed & (1 << index) == 0 {
                self.list[kept] = self.list[index];
                kept += 1;
            }
        }
        self.count = kept;
        self.release();
    }

    /// Writes the whole frame at `index` to `to`; answers how many bytes that were.
    #[inline]
    pub(crate) fn copy(&self, index: usize, to: &mut [u8]) -> usize {
        let head = self.head(index);
        let len = self.frame_len(index);
        if head.len() == len {
            let Some(to) = to.get_mut(..len) else { return 0 };
            to.copy_from_slice(head);
            return len;
        }
        // SAFETY: the batch owns the chain, and the shim writes no more than there is room.
        unsafe { cw_gather(self.list[index].mbuf, to.as_mut_ptr(), to.len() as u32) as usize }
    }

    #[inline]
    pub(crate) fn seen(&self, index: usize) -> Seen {
        let frame = &self.list[..self.count][index];
        let checksum = match (frame.seen >> 48) as u8 {
            1 => Some(true),
            2 => Some(false),
            _ => None,
        };
        Seen { hash: frame.seen as u32, segment_size: (frame.seen >> 32) as u16, checksum }
    }

    /// Moves the frames that belong to `owner` into `to`, which is empty. The others move up, and
    /// so do their entries in `owners`.
    pub(crate) fn split(&mut self, owners: &mut [u8; BURST], owner: u8, to: &mut Batch) {
        debug_assert!(to.count == 0);
        let mut kept = 0;
        for index in 0..self.count {
            if owners[index] == owner {
                to.list[to.count] = self.list[index];
                to.count += 1;
            } else {
                self.list[kept] = self.list[index];
                owners[kept] = owners[index];
                kept += 1;
            }
        }
        self.count = kept;
    }

    /// Gives the frames back.
    #[inline]
    pub(crate) fn release(&mut self) {
        debug_assert!(self.handed == 0);
        if self.count > 0 {
            // SAFETY: the first `count` entries own an mbuf each, and none of them is used after
            // this.
            unsafe { cw_release(self.list.as_ptr(), self.count as u32) };
            self.count = 0;
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // Who panics between a frame and the next has handed some over.
        self.release_rest();
    }
}

/// Frames that threads hand to each other.
pub(crate) struct FrameBox {
    ring: NonNull<c_void>,
}

// SAFETY: any number of threads may put into a ring of this kind and take out of it at the same
// time.
unsafe impl Send for FrameBox {}
// SAFETY: see above.
unsafe impl Sync for FrameBox {}

impl FrameBox {
    /// A box for `slots` frames, a power of two, for this core of the port of that number.
    pub(crate) fn new(port: u16, core: usize, slots: usize) -> io::Result<FrameBox> {
        let _one = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
        let name = CString::new(format!("clearway-box-{port}-{core}")).unwrap_or_default();
        // SAFETY: the name ends with zero and is copied. Memory may be that of any socket (-1).
        let ring = unsafe { cw_box_make(name.as_ptr(), slots as u32, -1) };
        let ring =
            NonNull::new(ring).ok_or_else(|| io::Error::from_raw_os_error(Errno::ENOMEM as i32))?;
        Ok(FrameBox { ring })
    }

    /// Puts the frames of `batch` in, the oldest first; those that do not fit stay there.
    #[inline]
    pub(crate) fn put(&self, batch: &mut Batch) {
        // SAFETY: the first `count` entries own an mbuf each; the box owns those that it takes, the
        // first ones.
        let taken =
            unsafe { cw_box_put(self.ring.as_ptr(), batch.list.as_ptr(), batch.count as u32) }
                as usize;
        batch.list.copy_within(taken..batch.count, 0);
        batch.count -= taken;
    }

    /// Takes up to `room` frames out; `batch` is empty before.
    #[inline]
    pub(crate) fn take(&self, batch: &mut Batch, room: usize) {
        debug_assert!(batch.count == 0);
        // SAFETY: the list has BURST places. The frames belong to the batch from here on.
        let count = unsafe {
            cw_box_take(self.ring.as_ptr(), batch.list.as_mut_ptr(), room.min(BURST) as u32)
        };
        batch.count = count as usize;
    }
}

impl Drop for FrameBox {
    fn drop(&mut self) {
        let _one = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: nobody else has the ring; the frames in it are freed with it, while their pools
        // live, because every queue lets go of the boxes before it lets go of the device.
        unsafe { cw_box_free(self.ring.as_ptr()) }
    }
}

/// An mbuf to write a frame into.
pub(crate) struct Room {
    mbuf: NonNull<c_void>,
    data: NonNull<u8>,
    len: u32,
}

// SAFETY: the mbuf is owned and may go to another thread.
unsafe impl Send for Room {}

impl Room {
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the mbuf is owned, and has `len` bytes at `data`. They were written by DPDK,
        // which clears its memory, or by an earlier frame.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len as usize) }
    }

    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.len as usize) }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: the mbuf is owned and not used after this.
        unsafe { cw_drop(self.mbuf.as_ptr()) }
    }
}

/// What is asked of the device for a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Work {
    pub(crate) flags: u8,
    pub(crate) l2_len: u8,
    pub(crate) l3_len: u8,
    pub(crate) l4_len: u8,
    pub(crate) segment_size: u16,
}

/// The frames of one queue on their way out, and mbufs for the next ones.
pub(crate) struct Outbox {
    device: Arc<Device>,
    pool: usize,
    list: [Out; BURST],
    count: usize,
    rooms: [RawRoom; ROOMS],
    rooms_left: usize,
}

/// Mbufs that are fetched from the pool at once.
const ROOMS: usize = 32;

// SAFETY: the pointers are owned mbufs, which may go to another thread.
unsafe impl Send for Outbox {}

impl Outbox {
    /// For a thread that takes its mbufs from the pool of this number.
    pub(crate) fn new(device: &Arc<Device>, pool: usize) -> Outbox {
        let pool = pool.min(device.pools.len().saturating_sub(1));
        Outbox {
            device: Arc::clone(device),
            pool,
            list: [NO_OUT; BURST],
            count: 0,
            rooms: [NO_ROOM; ROOMS],
            rooms_left: 0,
        }
    }

    /// Frames that wait.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Whether no more may be pushed.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.count == BURST
    }

    /// Whether one more frame makes it full.
    #[inline]
    pub(crate) fn sends_next(&self) -> bool {
        self.count + 1 >= BURST
    }

    /// Whether the next room has to be fetched from the pool.
    #[inline]
    pub(crate) fn has_no_room(&self) -> bool {
        self.rooms_left == 0
    }

    /// An mbuf to write into; None when the pool is empty.
    #[inline]
    pub(crate) fn room(&mut self) -> Option<Room> {
        if self.rooms_left == 0 {
            let pool = *self.device.pools.get(self.pool)?;
            // SAFETY: the pool lives as long as the device, and `rooms` has ROOMS places.
            self.rooms_left =
                unsafe { cw_rooms(pool, self.rooms.as_mut_ptr(), ROOMS as u32) } as usize;
        }
        self.rooms_left = self.rooms_left.checked_sub(1)?;
        let RawRoom { mbuf, data, len } = self.rooms[self.rooms_left];
        Some(Room { mbuf: NonNull::new(mbuf)?, data: NonNull::new(data)?, len })
    }

    /// Adds the first `len` bytes of `room`; the outbox is not full.
    #[inline]
    pub(crate) fn push(&mut self, room: Room, len: usize, work: Work) {
        let mbuf = room.mbuf.as_ptr();
        let len = len.min(room.len as usize) as u32;
        std::mem::forget(room);
        self.push_raw(mbuf, len, work);
    }

    /// Adds a frame that is longer than an mbuf as a chain of them; false when the pool has not so
    /// many.
    pub(crate) fn push_long(&mut self, frame: &[u8], work: Work) -> bool {
        let Some(pool) = self.device.pools.get(self.pool) else { return false };
        // SAFETY: the pool lives as long as the device, and the shim reads `frame.len()` bytes.
        let chain = unsafe { cw_chain(*pool, frame.as_ptr(), frame.len() as u32) };
        if chain.is_null() {
            return false;
        }
        self.push_raw(chain, frame.len() as u32, Work { flags: work.flags | ask::CHAIN, ..work });
        true
    }

    #[inline]
    fn push_raw(&mut self, mbuf: *mut c_void, len: u32, work: Work) {
        let Work { flags, l2_len, l3_len, l4_len, segment_size } = work;
        self.list[self.count] = Out { mbuf, len, segment_size, l2_len, l3_len, l4_len, flags };
        self.count += 1;
    }

    /// Drops what waits; answers how many frames that were.
    pub(crate) fn clear(&mut self) -> usize {
        for out in &self.list[..self.count] {
            // SAFETY: the entry owns its mbuf, which is not used after this.
            unsafe { cw_drop(out.mbuf) };
        }
        std::mem::take(&mut self.count)
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.clear();
        for room in &self.rooms[..self.rooms_left] {
            // SAFETY: the entry owns its mbuf, which is not used after this.
            unsafe { cw_drop(room.mbuf) };
        }
    }
}

/// What went out of an outbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) frames: usize,
    pub(crate) bytes: u64,
    /// Frames that the driver refused, and would refuse again.
    pub(crate) refused: usize,
}

/// The sending half of one queue.
pub(crate) struct TxQueue {
    pub(super) device: Arc<Device>,
    pub(super) queue: u16,
}

impl TxQueue {
    /// Sends what it can; the rest stays in the outbox, in order.
    #[inline]
    pub(crate) fn send(&mut self, outbox: &mut Outbox) -> Sent {
        debug_assert!(Arc::ptr_eq(&self.device, &outbox.device));
        let mut bad = 0;
        let (list, count) = (outbox.list.as_ptr(), outbox.count as u32);
        // SAFETY: the first `count` entries own an mbuf each, and this is the only queue of the
        // queue. The shim takes the first ones.
        let send =
            |device: &Device| unsafe { cw_tx(device.port, self.queue, list, count, &raw mut bad) };
        let frames = self.device.while_it_runs(send).unwrap_or(0) as usize;
        let bytes = outbox.list[..frames].iter().map(|out| u64::from(out.len)).sum();
        let gone = frames + bad as usize;
        outbox.list.copy_within(gone..outbox.count, 0);
        outbox.count -= gone;
        Sent { frames, bytes, refused: bad as usize }
    }
}
