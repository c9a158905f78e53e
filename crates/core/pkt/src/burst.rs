//! A burst: what one look at a device brings.

use crate::{Buf, Iface, RxMeta};

/// Packets in one burst at most.
pub const BURST: usize = 64;

/// Up to [`BURST`] received packets with what their device said of them. Filled by a device,
/// drained by the stack.
pub struct Burst<B> {
    slots: [Slot<B>; BURST],
    len: usize,
    limit: usize,
    more: bool,
}

/// A place in a burst. What the device said stays when the packet is taken.
struct Slot<B> {
    buf: Option<B>,
    meta: RxMeta,
}

impl<B: Buf> Burst<B> {
    /// An empty burst.
    pub fn new() -> Burst<B> {
        let empty = || Slot { buf: None, meta: RxMeta::default() };
        Burst { slots: core::array::from_fn(|_| empty()), len: 0, limit: BURST, more: false }
    }

    /// Packets in it.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there is nothing in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Asks devices for `limit` packets at most, until it is set anew. More than [`BURST`] counts as
    /// that.
    #[inline]
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.min(BURST);
    }

    /// How many more packets are asked for.
    #[inline]
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.len)
    }

    /// Says that the device has more than it put in here, although there was room.
    #[inline]
    pub fn leave_more(&mut self) {
        self.more = true;
    }

    /// Whether the device may have more: as many came as were asked for, or the device said so.
    #[inline]
    pub fn may_have_more(&self) -> bool {
        self.more || self.len >= self.limit
    }

    /// Adds a packet; gives it back when the burst is full.
    #[inline]
    pub fn push(&mut self, buf: B, meta: RxMeta) -> Result<(), B> {
        match self.slots.get_mut(self.len) {
            Some(slot) => {
                *slot = Slot { buf: Some(buf), meta };
                self.len += 1;
                Ok(())
            }
            None => Err(buf),
        }
    }

    /// The packet at `index`, counted from the oldest, if it was not taken yet.
    #[inline(always)]
    pub fn peek(&self, index: usize) -> Option<(&B, &RxMeta)> {
        self.slots.get(index)?.packet()
    }

    /// The packets, the oldest first; None for one that was taken.
    #[inline]
    pub fn packets(&self) -> impl Iterator<Item = Option<(&B, &RxMeta)>> {
        self.slots.get(..self.len).unwrap_or(&[]).iter().map(Slot::packet)
    }

    /// What was said of the packet at `index`, also when it was taken.
    #[inline]
    pub fn meta(&self, index: usize) -> Option<&RxMeta> {
        Some(&self.slots.get(..self.len)?.get(index)?.meta)
    }

    /// Takes the packet at `index` out; the others keep their places until [`Burst::clear`].
    #[inline]
    pub fn take(&mut self, index: usize) -> Option<(B, RxMeta)> {
        let slot = self.slots.get_mut(index)?;
        Some((slot.buf.take()?, slot.meta))
    }

    /// As [`Burst::take`], without what was said of it.
    #[inline(always)]
    pub fn take_buf(&mut self, index: usize) -> Option<B> {
        self.slots.get_mut(index)?.buf.take()
    }

    /// Says where all packets in the burst arrived.
    #[inline]
    pub fn set_iface(&mut self, iface: Iface) {
        for slot in &mut self.slots[..self.len] {
            slot.meta.iface = iface;
        }
    }

    /// Drops whatever was not taken and starts over.
    #[inline]
    pub fn clear(&mut self) {
        for slot in self.slots.iter_mut().take(self.len) {
            slot.buf = None;
        }
        (self.len, self.more) = (0, false);
    }

    /// Starts over after every packet was taken out.
    #[inline]
    pub fn reset(&mut self) {
        debug_assert!(
            self.slots.iter().all(|slot| slot.buf.is_none()),
            "a packet was left in a burst"
        );
        (self.len, self.more) = (0, false);
    }
}

impl<B> Slot<B> {
    #[inline(always)]
    fn packet(&self) -> Option<(&B, &RxMeta)> {
        Some((self.buf.as_ref()?, &self.meta))
    }
}

impl<B: Buf> Default for Burst<B> {
    fn default() -> Self {
        Burst::new()
    }
}
