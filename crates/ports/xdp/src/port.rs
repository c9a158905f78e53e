//! The same with received frames in the buffers of the thread, as the other ports have it.

use std::os::fd::BorrowedFd;

use clearway_base::Instant;
use clearway_dev::{
    DevCounters, DevError, DriverBuffers, Facts, FramePool, Mac, Receive, RxDrop, Transmit,
};
use clearway_pkt::{Burst, Offloads, PoolBuf, RxMeta, TxMeta};

use crate::open::XdpFd;
use crate::queue::{Received, XdpQueue, meta_of};

/// An [`XdpQueue`] that copies what comes into a pool: the stack may keep it as long as the
/// application does not read, and an interface whose frames are all kept receives nothing more.
pub struct XdpPort {
    queue: XdpQueue,
    pool: FramePool,
}

impl XdpPort {
    pub(crate) fn new(queue: XdpQueue, pool: FramePool) -> XdpPort {
        XdpPort { queue, pool }
    }

    /// The port's name without its options.
    pub fn name(&self) -> &str {
        self.queue.name()
    }

    /// On its way to another thread. What it has counted stays behind.
    pub fn into_fd(self) -> Result<XdpFd, Box<XdpPort>> {
        let pool = self.pool;
        self.queue.into_fd().map_err(|queue| Box::new(XdpPort { queue: *queue, pool }))
    }
}

impl Receive for XdpPort {
    type Buf = PoolBuf;

    fn rx(&mut self, burst: &mut Burst<PoolBuf>) -> Result<(), DevError> {
        let (leaves_checksums, pool) = (self.queue.leaves_checksums(), &self.pool);
        self.queue
            .take(burst.room(), |umem, counters, _, Received { frame, at, len }| {
                let bytes = umem.bytes(&frame, at, len);
                match pool.copy_of(bytes) {
                    Some(buf) => {
                        counters.received(len);
                        // No more frames were asked for than the burst has room for.
                        let _ = burst.push(buf, meta_of(bytes, leaves_checksums));
                    }
                    None if len > pool.max_frame() => counters.drop_rx(RxDrop::TooLong),
                    None => counters.drop_rx(RxDrop::NoBuffer),
                }
                umem.give(frame);
            })
            .map(drop)
    }

    fn send_back<F>(&mut self, turn: F) -> Result<Option<usize>, DevError>
    where
        F: FnMut(usize, &RxMeta, Option<&mut [u8]>) -> bool,
    {
        self.queue.send_back(turn)
    }
}

impl Transmit for XdpPort {
    #[inline]
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        self.queue.reserve(len)
    }

    #[inline]
    fn is_full(&mut self) -> bool {
        self.queue.is_full()
    }

    fn commit(&mut self, len: usize, meta: TxMeta) {
        self.queue.commit(len, meta);
    }

    #[inline]
    fn sends_next(&self) -> bool {
        self.queue.sends_next()
    }

    fn reserved(&self) -> &[u8] {
        self.queue.reserved()
    }

    fn flush(&mut self) {
        self.queue.flush();
    }
}

impl Facts for XdpPort {
    fn offloads(&self) -> Offloads {
        self.queue.offloads()
    }

    fn mtu(&self) -> usize {
        self.queue.mtu()
    }

    fn set_mtu(&mut self, mtu: usize) -> Result<(), DevError> {
        self.queue.set_mtu(mtu)
    }

    fn mac(&self) -> Option<Mac> {
        self.queue.mac()
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.queue.wait_fd()
    }

    fn must_poll(&self) -> bool {
        self.queue.must_poll()
    }

    fn counters(&self) -> DevCounters {
        self.queue.counters()
    }

    fn link_up(&self) -> bool {
        self.queue.link_up()
    }

    fn driver_counters(&self) -> Vec<(String, u64)> {
        self.queue.driver_counters()
    }

    fn driver_buffers(&self) -> Option<DriverBuffers> {
        self.queue.driver_buffers()
    }

    #[inline]
    fn set_now(&mut self, now: Instant) {
        self.queue.set_now(now);
    }

    fn next_deadline(&self) -> Instant {
        self.queue.next_deadline()
    }
}
