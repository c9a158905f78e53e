//! Frame buffers in two sizes, so that a queue of small segments does not pin large memory.

use clearway_pkt::{Buf, Pool, PoolBuf};

use crate::device::{ETHERNET_LEN, MAX_IP_PACKET, VLAN_TAGS_LEN, max_frame};

/// How much memory the frame buffers of one thread take. All of it is bound at start, and none is
/// added later.
///
/// The defaults take 32 MiB: 16 MiB of small buffers hold 8,192 ordinary frames, which is 12 MB of
/// stream at full segments, several times the product of bandwidth and delay of a 1 Gbit/s path of
/// 20 ms; 16 MiB of large ones hold 248 joined frames of 64 KiB. Large buffers that are never used
/// take address space but hardly any memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolBudget {
    /// How many buffers of [`PoolBudget::small_len`] bytes.
    pub small_count: usize,
    /// Length of a small buffer in bytes: a frame of the usual 1,500-byte MTU fits with room to
    /// spare.
    pub small_len: usize,
    /// How many buffers of [`PoolBudget::large_len`] bytes.
    pub large_count: usize,
    /// Length of a large buffer in bytes: the longest IP packet with Ethernet header and VLAN tags,
    /// unless the link carries less.
    pub large_len: usize,
}

/// The usual length of a small buffer.
pub const SMALL_LEN: usize = 2_048;

/// The usual length of a large buffer: 65,535 bytes of IP packet (and 40 of an IPv6 header, whose
/// length field does not count itself), the link header, rounded up to a multiple of 64.
pub const LARGE_LEN: usize =
    (MAX_IP_PACKET + 40 + ETHERNET_LEN + VLAN_TAGS_LEN).next_multiple_of(64);

impl Default for PoolBudget {
    fn default() -> PoolBudget {
        PoolBudget::of_bytes(32 << 20)
    }
}

impl PoolBudget {
    /// Splits `bytes` evenly between the sizes; at least 64 small and 8 large buffers, which is
    /// what a burst and a few joined frames need.
    pub const fn of_bytes(bytes: usize) -> PoolBudget {
        let small = bytes / 2 / SMALL_LEN;
        let large = bytes / 2 / LARGE_LEN;
        PoolBudget {
            small_count: if small < 64 { 64 } else { small },
            small_len: SMALL_LEN,
            large_count: if large < 8 { 8 } else { large },
            large_len: LARGE_LEN,
        }
    }

    /// The same for a link of this MTU: an ordinary frame fits a small buffer on links with jumbo
    /// frames too.
    pub const fn for_mtu(bytes: usize, mtu: usize) -> PoolBudget {
        let frame = max_frame(mtu, true).next_multiple_of(64);
        let small_len = if frame < SMALL_LEN { SMALL_LEN } else { frame };
        let budget = PoolBudget::of_bytes(bytes);
        let small = bytes / 2 / small_len;
        PoolBudget { small_count: if small < 64 { 64 } else { small }, small_len, ..budget }
    }

    /// Bytes that the buffers take when every one of them is in use.
    pub const fn bytes(&self) -> usize {
        self.small_count * self.small_len + self.large_count * self.large_len
    }
}

/// The frame buffers of one thread; clones share them.
#[derive(Clone)]
pub struct FramePool {
    small: Pool,
    large: Pool,
}

impl FramePool {
    /// Allocates everything that `budget` says.
    pub fn new(budget: PoolBudget) -> FramePool {
        FramePool {
            small: Pool::new(budget.small_count, budget.small_len),
            large: Pool::new(budget.large_count, budget.large_len),
        }
    }

    /// A buffer of at least `len` bytes, small when that will do; None when those are all out or
    /// none is that long. A small request is never served from the large ones: they are few, and a
    /// queue of small segments would pin them all.
    #[inline]
    pub fn take(&self, len: usize) -> Option<PoolBuf> {
        if len <= self.small.buf_len() {
            self.small.take()
        } else if len <= self.large.buf_len() {
            self.large.take()
        } else {
            None
        }
    }

    /// A buffer that holds a copy of `bytes`, small when that will do.
    #[inline]
    pub fn copy_of(&self, bytes: &[u8]) -> Option<PoolBuf> {
        let mut buf = self.take(bytes.len())?;
        buf.truncate(bytes.len());
        buf.bytes_mut().copy_from_slice(bytes);
        Some(buf)
    }

    /// Moves a short frame out of a large buffer into a small one. When no small one is left, the
    /// frame stays where it is.
    #[inline]
    pub fn compact(&self, buf: PoolBuf) -> PoolBuf {
        let len = buf.bytes().len();
        if len > self.small.buf_len() || buf.footprint() <= self.small.buf_len() {
            return buf;
        }
        self.copy_of(buf.bytes()).unwrap_or(buf)
    }

    /// Memory that a buffer for `len` bytes holds on to.
    pub fn footprint_for(&self, len: usize) -> usize {
        if len <= self.small.buf_len() { self.small.buf_len() } else { self.large.buf_len() }
    }

    /// The small buffers.
    pub fn small(&self) -> &Pool {
        &self.small
    }

    /// The large buffers.
    pub fn large(&self) -> &Pool {
        &self.large
    }

    /// The longest frame that fits any buffer.
    pub fn max_frame(&self) -> usize {
        self.small.buf_len().max(self.large.buf_len())
    }
}

/// Where a frame is put that comes by no port (from another core, or put together of fragments):
/// into a buffer of the kind that the ports hand over.
pub trait BufferSource: Clone + 'static {
    /// The buffers.
    type Buf: Buf;

    /// A buffer that holds a copy of `bytes`; None while there is none.
    fn copy_of(&self, bytes: &[u8]) -> Option<Self::Buf>;
}

impl BufferSource for FramePool {
    type Buf = PoolBuf;

    fn copy_of(&self, bytes: &[u8]) -> Option<PoolBuf> {
        FramePool::copy_of(self, bytes)
    }
}

#[cfg(test)]
mod tests;
