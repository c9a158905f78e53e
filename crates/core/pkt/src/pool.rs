//! A pool of equal buffers, allocated once.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;

use crate::Buf;

/// Buffers of one size, owned by one thread. All of them exist from the start; when none is left,
/// [`Pool::take`] says so.
#[derive(Clone)]
pub struct Pool {
    free: Rc<Free>,
}

struct Free {
    list: RefCell<Vec<Box<[u8]>>>,
    buf_len: usize,
    count: usize,
}

/// A buffer of a [`Pool`]; it goes back there when dropped.
pub struct PoolBuf {
    // Empty only while `drop` hands the memory back.
    mem: Box<[u8]>,
    start: u32,
    len: u32,
    home: Rc<Free>,
}

impl Pool {
    /// `count` buffers of `buf_len` bytes each. Memory that is never written costs nothing, because
    /// the system gives zeroed pages on first touch.
    pub fn new(count: usize, buf_len: usize) -> Pool {
        let list = (0..count).map(|_| alloc::vec![0u8; buf_len].into_boxed_slice()).collect();
        Pool { free: Rc::new(Free { list: RefCell::new(list), buf_len, count }) }
    }

    /// A buffer of full length, its bytes whatever the last user left; None when all are out.
    #[inline]
    pub fn take(&self) -> Option<PoolBuf> {
        let mem = self.free.list.borrow_mut().pop()?;
        Some(PoolBuf { start: 0, len: mem.len() as u32, mem, home: Rc::clone(&self.free) })
    }

    /// A buffer that holds a copy of `bytes`; None when all are out or `bytes` is longer than a
    /// buffer.
    pub fn copy_of(&self, bytes: &[u8]) -> Option<PoolBuf> {
        if bytes.len() > self.free.buf_len {
            return None;
        }
        let mut buf = self.take()?;
        buf.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        buf.truncate(bytes.len());
        Some(buf)
    }

    /// Buffers that are free now.
    pub fn available(&self) -> usize {
        self.free.list.borrow().len()
    }

    /// Buffers in all.
    pub fn count(&self) -> usize {
        self.free.count
    }

    /// Length of each buffer in bytes.
    pub fn buf_len(&self) -> usize {
        self.free.buf_len
    }
}

impl Buf for PoolBuf {
    #[inline]
    fn bytes(&self) -> &[u8] {
        let start = self.start as usize;
        &self.mem[start..start + self.len as usize]
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        let start = self.start as usize;
        &mut self.mem[start..start + self.len as usize]
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
        self.mem.len()
    }
}

impl Drop for PoolBuf {
    #[inline]
    fn drop(&mut self) {
        // An empty box owns no memory, so nothing is allocated here.
        let mem = core::mem::take(&mut self.mem);
        // Nobody borrows the list for longer than one push or pop, and it never holds more than it
        // was made with.
        if let Ok(mut list) = self.home.list.try_borrow_mut() {
            if list.len() < list.capacity() {
                list.push(mem);
            }
        }
    }
}

#[cfg(test)]
mod tests;
