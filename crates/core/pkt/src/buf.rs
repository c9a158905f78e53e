//! The owned packet buffer.

/// One packet's bytes, owned and moved, never shared. Dropping it gives the memory back to where it
/// came from.
///
/// The bytes are contiguous. A device whose packets come in several pieces joins them, or hands out
/// buffers large enough.
pub trait Buf {
    /// The bytes that are left of the packet.
    fn bytes(&self) -> &[u8];

    /// The same, to be written.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// How many bytes are left of the packet.
    #[inline]
    fn len(&self) -> usize {
        self.bytes().len()
    }

    /// True when none is left.
    #[inline]
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives up the first `n` bytes (all of them when there are fewer).
    fn trim_front(&mut self, n: usize);

    /// Keeps only the first `len` bytes (nothing changes when there are fewer).
    fn truncate(&mut self, len: usize);

    /// Keeps only `len` bytes behind the first `front`.
    #[inline]
    fn narrow(&mut self, front: usize, len: usize) {
        self.trim_front(front);
        self.truncate(len);
    }

    /// How many bytes of memory the buffer holds on to, however few are left of the packet. Receive
    /// windows are honest only when they count this (a one-byte segment in a 2 KiB buffer costs 2
    /// KiB).
    fn footprint(&self) -> usize {
        self.bytes().len()
    }
}
