//! The payload of a packet on its way from the burst to whoever keeps it, and where more buffers
//! come from.

use alloc::boxed::Box;

use clearway_pkt::{Buf, Burst};

/// Makes a packet buffer that holds a copy of the bytes given; None when there is no memory.
pub type BufferMaker<B> = Box<dyn FnMut(&[u8]) -> Option<B>>;

/// The payload of a packet that is still in its burst.
pub(crate) struct Payload<'b, B> {
    burst: &'b mut Burst<B>,
    at: usize,
    /// How many bytes stand in the buffer before it.
    pub(crate) front: u32,
    /// How many bytes it has.
    pub(crate) len: u32,
}

impl<'b, B: Buf> Payload<'b, B> {
    /// The `len` bytes behind the first `front` of the packet at `at` in its burst.
    #[inline(always)]
    pub(crate) fn new(burst: &'b mut Burst<B>, at: usize, front: u32, len: u32) -> Payload<'b, B> {
        Payload { burst, at, front, len }
    }

    /// The size of the segments that a device has joined into it; 0 when it has not.
    #[inline(always)]
    pub(crate) fn segment_size(&self) -> u16 {
        self.burst.peek(self.at).map_or(0, |(_, meta)| meta.segment_size)
    }

    /// The buffer that it lies in.
    #[inline(always)]
    pub(crate) fn take(self) -> Option<B> {
        self.burst.take_buf(self.at)
    }
}
