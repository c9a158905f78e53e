//! The packet memory (UMEM): frames of one size that the kernel and we pass to each other.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use clearway_dev::BufferSource;
use clearway_pkt::Buf;

use crate::sys::Mapping;

/// Where a frame that is sent begins in its chunk. What the kernel is asked to do with it stands
/// before that.
pub(crate) const TX_OFFSET: usize = 64;

/// The memory and its size, on its way to its thread.
pub(crate) struct Memory {
    mapping: Mapping,
    /// Frames in it.
    count: u32,
    /// Bytes of each; a power of two.
    frame_len: u32,
}

/// A frame that we have, and the kernel has not. There is one for each frame that it was not given,
/// so whoever has it may use the frame's bytes.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Frame(u32);

impl Memory {
    pub(crate) fn new(count: u32, frame_len: u32) -> io::Result<Memory> {
        let mapping = Mapping::anonymous(count as usize * frame_len as usize)?;
        Ok(Memory { mapping, count, frame_len })
    }

    pub(crate) fn address(&self) -> u64 {
        self.mapping.at().as_ptr() as u64
    }

    pub(crate) fn len(&self) -> usize {
        self.mapping.len()
    }

    pub(crate) fn frame_len(&self) -> u32 {
        self.frame_len
    }

    /// All of its frames, once, before the kernel has any.
    pub(crate) fn all_frames(&self) -> Vec<Frame> {
        // The first one is the last to be taken.
        (0..self.count).rev().map(Frame).collect()
    }

    /// The frame that an address of the kernel's lies in, and where in it; None when the address
    /// lies outside of the memory. The kernel gives only frames back that it was given, each once.
    #[inline]
    fn frame_at(&self, address: u64) -> Option<(Frame, usize)> {
        let len = u64::from(self.frame_len);
        let (number, offset) = (address / len, address % len);
        (number < u64::from(self.count)).then_some((Frame(number as u32), offset as usize))
    }

    /// Where the frame begins, as the kernel counts.
    #[inline]
    pub(crate) fn address_of(&self, frame: &Frame) -> u64 {
        u64::from(frame.0) * u64::from(self.frame_len)
    }

    #[inline]
    fn bytes<'a>(&'a self, frame: &'a Frame, at: usize, len: usize) -> &'a [u8] {
        let at = at.min(self.frame_len as usize);
        let len = len.min(self.frame_len as usize - at);
        // SAFETY: place and length were just bounded to the frame, which lies in the mapping as
        // its number is below `count`. Whoever has the `Frame` has its bytes to himself.
        unsafe {
            let start = self.mapping.at().as_ptr().add(self.address_of(frame) as usize + at);
            std::slice::from_raw_parts(start, len)
        }
    }

    #[inline]
    fn bytes_mut<'a>(&'a self, frame: &'a mut Frame, at: usize, len: usize) -> &'a mut [u8] {
        let at = at.min(self.frame_len as usize);
        let len = len.min(self.frame_len as usize - at);
        // SAFETY: as for `bytes`; the `Frame` is borrowed alone.
        unsafe {
            let start = self.mapping.at().as_ptr().add(self.address_of(frame) as usize + at);
            std::slice::from_raw_parts_mut(start, len)
        }
    }
}

/// The packet memory of one core; clones share it. It stays until the last buffer in it is gone.
#[derive(Clone)]
pub struct Umem {
    shared: Rc<Shared>,
}

struct Shared {
    memory: Memory,
    /// Those that neither the kernel nor anybody here has, the last used on top.
    free: RefCell<Vec<Frame>>,
}

impl Umem {
    pub(crate) fn new(memory: Memory, free: Vec<Frame>) -> Umem {
        Umem { shared: Rc::new(Shared { memory, free: RefCell::new(free) }) }
    }

    /// Memory and free frames, on their way to another thread; the same again while buffers in it
    /// are used.
    pub(crate) fn into_parts(self) -> Result<(Memory, Vec<Frame>), Umem> {
        match Rc::try_unwrap(self.shared) {
            Ok(Shared { memory, free }) => Ok((memory, free.into_inner())),
            Err(shared) => Err(Umem { shared }),
        }
    }

    /// Frames in it.
    pub fn count(&self) -> usize {
        self.shared.memory.count as usize
    }

    /// Frames that neither the kernel nor anybody here has.
    pub fn available(&self) -> usize {
        self.shared.free.borrow().len()
    }

    /// Whether these bytes lie in it.
    pub fn holds(&self, bytes: &[u8]) -> bool {
        let (start, at) = (self.shared.memory.address(), bytes.as_ptr() as u64);
        at >= start && at + bytes.len() as u64 <= start + self.shared.memory.len() as u64
    }

    #[inline]
    pub(crate) fn take(&self) -> Option<Frame> {
        self.shared.free.borrow_mut().pop()
    }

    #[inline]
    pub(crate) fn give(&self, frame: Frame) {
        self.shared.free.borrow_mut().push(frame);
    }

    #[inline]
    pub(crate) fn frame_len(&self) -> usize {
        self.shared.memory.frame_len as usize
    }

    #[inline]
    pub(crate) fn frame_at(&self, address: u64) -> Option<(Frame, usize)> {
        self.shared.memory.frame_at(address)
    }

    #[inline]
    pub(crate) fn address_of(&self, frame: &Frame) -> u64 {
        self.shared.memory.address_of(frame)
    }

    #[inline]
    pub(crate) fn bytes<'a>(&'a self, frame: &'a Frame, at: usize, len: usize) -> &'a [u8] {
        self.shared.memory.bytes(frame, at, len)
    }

    #[inline]
    pub(crate) fn bytes_mut<'a>(
        &'a self,
        frame: &'a mut Frame,
        at: usize,
        len: usize,
    ) -> &'a mut [u8] {
        self.shared.memory.bytes_mut(frame, at, len)
    }

    #[inline]
    pub(crate) fn buffer(&self, frame: Frame, start: usize, len: usize) -> XdpBuf {
        let start = start.min(self.frame_len());
        let len = len.min(self.frame_len() - start);
        XdpBuf { frame: Some(frame), start: start as u32, len: len as u32, home: self.clone() }
    }
}

impl BufferSource for Umem {
    type Buf = XdpBuf;

    fn copy_of(&self, bytes: &[u8]) -> Option<XdpBuf> {
        if bytes.len() > self.frame_len() {
            return None;
        }
        let mut frame = self.take()?;
        self.bytes_mut(&mut frame, 0, bytes.len()).copy_from_slice(bytes);
        Some(self.buffer(frame, 0, bytes.len()))
    }
}

/// A received packet where the kernel put it. Its frame goes back to the others when it is dropped.
pub struct XdpBuf {
    // None only while it is dropped.
    frame: Option<Frame>,
    start: u32,
    len: u32,
    home: Umem,
}

impl Buf for XdpBuf {
    #[inline]
    fn bytes(&self) -> &[u8] {
        match &self.frame {
            Some(frame) => self.home.bytes(frame, self.start as usize, self.len as usize),
            None => &[],
        }
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.frame {
            Some(frame) => self.home.bytes_mut(frame, self.start as usize, self.len as usize),
            None => &mut [],
        }
    }

    #[inline]
    fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    fn trim_front(&mut self, n: usize) {
        let n = n.min(self.len as usize) as u32;
        self.start += n;
        self.len -= n;
    }

    #[inline]
    fn truncate(&mut self, len: usize) {
        self.len = len.min(self.len as usize) as u32;
    }

    #[inline]
    fn footprint(&self) -> usize {
        self.home.frame_len()
    }
}

impl Drop for XdpBuf {
    #[inline]
    fn drop(&mut self) {
        if let Some(frame) = self.frame.take() {
            self.home.give(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn umem() -> Umem {
        let memory = Memory::new(4, 2_048).unwrap();
        let frames = memory.all_frames();
        Umem::new(memory, frames)
    }

    #[test]
    fn a_buffer_goes_back_when_it_is_dropped_and_never_two_have_the_same_bytes() {
        let umem = umem();
        let bufs: Vec<XdpBuf> =
            (0..4u8).map(|fill| umem.copy_of(&[fill; 2_048]).unwrap()).collect();
        assert!(umem.copy_of(b"no room").is_none());
        for (fill, buf) in bufs.iter().enumerate() {
            assert!(buf.bytes().iter().all(|&byte| usize::from(byte) == fill));
            assert!(umem.holds(buf.bytes()));
        }
        drop(bufs);
        assert_eq!((umem.available(), umem.count()), (4, 4));
        assert!(umem.copy_of(&[0; 2_049]).is_none());
    }

    #[test]
    fn what_lies_outside_of_the_memory_is_no_frame() {
        let umem = umem();
        assert!(umem.frame_at(4 * 2_048).is_none() && umem.frame_at(u64::MAX).is_none());
        let (frame, at) = umem.frame_at(3 * 2_048 + 256).unwrap();
        assert_eq!((umem.address_of(&frame), at), (3 * 2_048, 256));
        // A length that the kernel says is bounded to the frame.
        assert_eq!(umem.bytes(&frame, at, usize::MAX).len(), 2_048 - 256);
        assert_eq!(umem.bytes(&frame, usize::MAX, 1).len(), 0);
    }

    #[test]
    fn the_memory_moves_only_when_nobody_uses_it() {
        let umem = umem();
        let buf = umem.copy_of(b"in use").unwrap();
        let umem = umem.into_parts().err().unwrap();
        drop(buf);
        let (_, free) = umem.into_parts().ok().unwrap();
        assert_eq!(free.len(), 4);
    }
}
