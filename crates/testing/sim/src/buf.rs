//! Packet buffers of a simulated device: few, counted, and given back.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use clearway_pkt::Buf;

/// A device's receive buffers. No more than `limit` are out at a time, as with the ring of a real
/// device; [`BufPool::out`] must be zero again when every connection is gone.
#[derive(Clone)]
pub struct BufPool {
    home: Rc<Home>,
}

struct Home {
    spare: RefCell<Vec<Vec<u8>>>,
    out: Cell<usize>,
    limit: usize,
    /// What one buffer costs, however short the packet in it.
    buf_len: usize,
}

/// A buffer of a [`BufPool`].
pub struct SimBuf {
    mem: Vec<u8>,
    start: usize,
    end: usize,
    home: Rc<Home>,
}

impl BufPool {
    /// A pool of `limit` buffers of `buf_len` bytes; longer packets get a longer buffer of their
    /// own.
    pub fn new(limit: usize, buf_len: usize) -> BufPool {
        let home = Home { spare: RefCell::new(Vec::new()), out: Cell::new(0), limit, buf_len };
        BufPool { home: Rc::new(home) }
    }

    /// A buffer that holds a copy of `bytes`; None when all are out.
    pub fn copy_of(&self, bytes: &[u8]) -> Option<SimBuf> {
        if self.home.out.get() >= self.home.limit {
            return None;
        }
        let mut mem = self.home.spare.borrow_mut().pop().unwrap_or_default();
        mem.clear();
        mem.extend_from_slice(bytes);
        self.home.out.set(self.home.out.get() + 1);
        Some(SimBuf { start: 0, end: mem.len(), mem, home: Rc::clone(&self.home) })
    }

    /// Buffers that are out now.
    pub fn out(&self) -> usize {
        self.home.out.get()
    }
}

impl Buf for SimBuf {
    fn bytes(&self) -> &[u8] {
        &self.mem[self.start..self.end]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.mem[self.start..self.end]
    }

    fn trim_front(&mut self, n: usize) {
        self.start = self.start.saturating_add(n).min(self.end);
    }

    fn truncate(&mut self, len: usize) {
        self.end = self.start.saturating_add(len).min(self.end);
    }

    fn footprint(&self) -> usize {
        self.mem.len().max(self.home.buf_len)
    }
}

impl Drop for SimBuf {
    fn drop(&mut self) {
        let mem = std::mem::take(&mut self.mem);
        self.home.spare.borrow_mut().push(mem);
        self.home.out.set(self.home.out.get() - 1);
    }
}

#[cfg(test)]
mod tests;
