//! A bounded queue of frames in memory: what the devices that never leave this process are made of.

use std::collections::VecDeque;

use clearway_pkt::{Buf, Burst, Checksum, PoolBuf, RxMeta, Segmentation, TxMeta};

use crate::{DevCounters, FramePool};

/// Frames on their way from one end to the other.
pub(crate) struct FrameQueue {
    queue: VecDeque<(PoolBuf, RxMeta)>,
    limit: usize,
    bytes: usize,
    byte_limit: usize,
}

impl FrameQueue {
    pub(crate) fn new(limit: usize) -> FrameQueue {
        FrameQueue {
            queue: VecDeque::with_capacity(limit),
            limit,
            bytes: 0,
            byte_limit: usize::MAX,
        }
    }

    /// The same that is full, too, as soon as it holds so many bytes.
    pub(crate) fn with_byte_limit(self, byte_limit: usize) -> FrameQueue {
        FrameQueue { byte_limit, ..self }
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= self.limit || self.bytes >= self.byte_limit
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds a frame; the caller has looked at [`FrameQueue::is_full`].
    pub(crate) fn push(&mut self, buf: PoolBuf, meta: RxMeta) {
        self.bytes += buf.bytes().len();
        self.queue.push_back((buf, meta));
    }

    /// Moves as many frames into `burst` as fit.
    pub(crate) fn drain(&mut self, burst: &mut Burst<PoolBuf>, counters: &mut DevCounters) {
        for (buf, meta) in self.queue.drain(..self.queue.len().min(burst.room())) {
            let len = buf.bytes().len();
            self.bytes -= len;
            counters.received(len);
            // The room was asked for above, so the burst takes it.
            let _ = burst.push(buf, meta);
        }
    }
}

/// What the receiver is told of a frame that was sent with `meta` and never left memory. A checksum
/// that was left to the device was never made, and nothing can have damaged the frame since.
pub(crate) fn meta_on_arrival(meta: &TxMeta, trusted: bool) -> RxMeta {
    let checksum =
        if trusted || meta.checksum_start != 0 { Checksum::Good } else { Checksum::Unknown };
    let segment_size = match meta.segmentation {
        Segmentation::None => 0,
        Segmentation::Tcp(size) | Segmentation::Udp(size) => size,
    };
    RxMeta { checksum, segment_size, rss_hash: meta.flow_hash, ..RxMeta::default() }
}

/// The buffer behind `reserve` and `commit`.
#[derive(Default)]
pub(crate) struct Room {
    buf: Option<PoolBuf>,
}

impl Room {
    /// Room for `len` bytes: the buffer of the last reservation when it will do, or one from the
    /// pool.
    pub(crate) fn reserve(&mut self, len: usize, pool: &FramePool) -> Option<&mut [u8]> {
        if self
            .buf
            .as_ref()
            .is_none_or(|buf| buf.bytes().len() < len || buf.footprint() != pool.footprint_for(len))
        {
            self.buf = None;
            self.buf = Some(pool.take(len)?);
        }
        self.buf.as_mut().map(|buf| buf.bytes_mut())
    }

    /// What is written in the room.
    pub(crate) fn written(&self) -> &[u8] {
        self.buf.as_ref().map_or(&[], |buf| buf.bytes())
    }

    /// The frame in the room, cut to `len` bytes and in no larger a buffer than it needs.
    pub(crate) fn commit(&mut self, len: usize, pool: &FramePool) -> Option<PoolBuf> {
        let mut buf = self.buf.take_if(|buf| len <= buf.bytes().len())?;
        buf.truncate(len);
        Some(pool.compact(buf))
    }
}
