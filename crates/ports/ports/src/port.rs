//! A port of any kind as one type.

use std::os::fd::BorrowedFd;

use clearway_base::Instant;
use clearway_dev::{
    Absent, Dev, DevCounters, DevError, DriverBuffers, Facts, Fault, FaultSpec, FramePool,
    Loopback, Mac, Receive, Transmit,
};
#[cfg(feature = "dpdk")]
use clearway_dpdk::DpdkQueue;
use clearway_pkt::{Burst, Offloads, Piece, PoolBuf, RxMeta, TxMeta};
use clearway_tap::TapQueue;
use clearway_xdp::XdpPort;

use crate::open::check_one_wire;
use crate::{PortError, Unwrapped};

/// A port of one core. The kinds that are meant to be fast are called directly; whatever else there
/// is, wrappers for tests among them, through a pointer.
pub enum Port {
    /// One queue of a TUN/TAP interface.
    Tap(TapQueue),
    /// The stack's link to itself.
    Loop(Loopback),
    /// One core's queues of an interface, through AF_XDP.
    Xdp(Box<XdpPort>),
    /// One queue of a device of DPDK's.
    #[cfg(feature = "dpdk")]
    Dpdk(Box<DpdkQueue>),
    /// The place of a queue that this core does not have.
    Absent(Absent),
    /// Anything else.
    Other(Box<dyn Dev<Buf = PoolBuf>>),
}

impl Port {
    /// A link from the stack to itself with its frames in `pool`. `mtu` is in bytes of IP packet,
    /// 65,535 at most.
    pub fn loopback(pool: &FramePool, mtu: usize) -> Port {
        Port::Loop(Loopback::with_mtu(pool.clone(), mtu))
    }

    /// The same with a bad wire, whose faults are the same again for the same `seed`. They happen
    /// to each segment of `mtu` bytes, once.
    pub fn bad_loopback(
        pool: &FramePool,
        mtu: usize,
        fault: &FaultSpec,
        seed: u64,
    ) -> Result<Port, PortError> {
        check_one_wire(Some(fault))?;
        let loopback = Port::loopback(pool, mtu);
        Ok(Port::Other(Box::new(Fault::on_loopback(loopback, fault.rx, seed, pool.clone()))))
    }

    /// The queue on its way to another thread, without what it has counted; the port itself when it
    /// is of a kind that stays where it is.
    pub fn into_unwrapped(self) -> Result<Unwrapped, Box<Port>> {
        match self {
            Port::Tap(queue) => Ok(Unwrapped::from_tap(queue.into_fd())),
            #[cfg(feature = "dpdk")]
            Port::Dpdk(queue) => Ok(Unwrapped::from_dpdk(queue.into_fd())),
            Port::Xdp(port) => match port.into_fd() {
                Ok(fd) => Ok(Unwrapped::from_xdp(fd)),
                Err(port) => Err(Box::new(Port::Xdp(port))),
            },
            Port::Absent(absent) => Ok(Unwrapped::from_absent(absent)),
            other => Err(Box::new(other)),
        }
    }

    /// Whether this core has no queue of the port.
    pub fn is_absent(&self) -> bool {
        matches!(self, Port::Absent(_))
    }
}

macro_rules! each {
    ($port:expr, $dev:ident => $call:expr) => {
        match $port {
            Port::Tap($dev) => $call,
            Port::Loop($dev) => $call,
            Port::Xdp($dev) => $call,
            #[cfg(feature = "dpdk")]
            Port::Dpdk($dev) => $call,
            Port::Absent($dev) => $call,
            Port::Other($dev) => $call,
        }
    };
}

impl Receive for Port {
    type Buf = PoolBuf;

    #[inline]
    fn rx(&mut self, burst: &mut Burst<PoolBuf>) -> Result<(), DevError> {
        each!(self, dev => dev.rx(burst))
    }

    #[inline]
    fn send_back<F>(&mut self, turn: F) -> Result<Option<usize>, DevError>
    where
        F: FnMut(usize, &RxMeta, Option<&mut [u8]>) -> bool,
    {
        match self {
            // Through the pointer, which itself can only do what every device can.
            #[cfg(feature = "dpdk")]
            Port::Dpdk(dev) => (**dev).send_back(turn),
            Port::Xdp(dev) => (**dev).send_back(turn),
            Port::Tap(dev) => dev.send_back(turn),
            Port::Loop(dev) => dev.send_back(turn),
            Port::Absent(dev) => dev.send_back(turn),
            Port::Other(dev) => dev.send_back(turn),
        }
    }
}

impl Transmit for Port {
    #[inline]
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        each!(self, dev => dev.reserve(len))
    }

    #[inline]
    fn commit(&mut self, len: usize, meta: TxMeta) {
        each!(self, dev => dev.commit(len, meta));
    }

    #[inline]
    fn is_full(&mut self) -> bool {
        each!(self, dev => dev.is_full())
    }

    #[inline]
    fn sends_next(&self) -> bool {
        each!(self, dev => dev.sends_next())
    }

    #[inline]
    fn gathers(&self) -> bool {
        each!(self, dev => dev.gathers())
    }

    #[inline]
    fn commit_gathered(&mut self, head: usize, body: &[Piece<'_>], meta: TxMeta) {
        each!(self, dev => dev.commit_gathered(head, body, meta));
    }

    #[inline]
    fn reserved(&self) -> &[u8] {
        each!(self, dev => dev.reserved())
    }

    #[inline]
    fn flush(&mut self) {
        each!(self, dev => dev.flush());
    }
}

impl Facts for Port {
    fn offloads(&self) -> Offloads {
        each!(self, dev => dev.offloads())
    }

    fn mtu(&self) -> usize {
        each!(self, dev => dev.mtu())
    }

    fn set_mtu(&mut self, mtu: usize) -> Result<(), DevError> {
        each!(self, dev => dev.set_mtu(mtu))
    }

    fn mac(&self) -> Option<Mac> {
        each!(self, dev => dev.mac())
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        each!(self, dev => dev.wait_fd())
    }

    fn must_poll(&self) -> bool {
        each!(self, dev => dev.must_poll())
    }

    fn counters(&self) -> DevCounters {
        each!(self, dev => dev.counters())
    }

    fn link_up(&self) -> bool {
        each!(self, dev => dev.link_up())
    }

    fn driver_counters(&self) -> Vec<(String, u64)> {
        each!(self, dev => dev.driver_counters())
    }

    fn driver_buffers(&self) -> Option<DriverBuffers> {
        each!(self, dev => dev.driver_buffers())
    }

    #[inline]
    fn set_now(&mut self, now: Instant) {
        each!(self, dev => dev.set_now(now));
    }

    #[inline]
    fn next_deadline(&self) -> Instant {
        each!(self, dev => dev.next_deadline())
    }
}
