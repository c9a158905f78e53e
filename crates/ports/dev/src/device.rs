//! The device trait.

use std::os::fd::BorrowedFd;

use clearway_base::Instant;
use clearway_pkt::{Buf, Burst, Offloads, Piece, RxMeta, TxMeta};

pub use clearway_wire::Mac;
use clearway_wire::eth;

use crate::{DevCounters, DevError};

/// How many buffers a driver has, and how many of them are free. Those that lie in a device's rings
/// are not free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriverBuffers {
    /// All of them.
    pub count: usize,
    /// Those that nobody has.
    pub free: usize,
}

/// What comes in by one queue of a port.
pub trait Receive {
    /// What a received frame is handed over in.
    type Buf: Buf;

    /// Adds received frames to `burst`, at most as many as it has room for, oldest first.
    /// [`clearway_pkt::RxMeta::iface`] is left at its default; the owner knows which interface this
    /// device is. A device that stops before says so ([`Burst::leave_more`]).
    ///
    /// An error means that the device is of no more use (its interface was removed, say); one bad
    /// frame is only counted.
    fn rx(&mut self, burst: &mut Burst<Self::Buf>) -> Result<(), DevError>;

    /// Receives frames and sends them back in the memory that they came in. `turn` is told the
    /// length of each frame and what the device said of it, and is given its bytes while there is
    /// room to send it; it makes the frame that goes back of them, and answers whether it shall.
    ///
    /// Answers how many came; None when the device cannot do so, and whoever asks takes the long
    /// way of [`rx`](Receive::rx), [`reserve`](Transmit::reserve) and [`commit`](Transmit::commit).
    fn send_back<F>(&mut self, turn: F) -> Result<Option<usize>, DevError>
    where
        F: FnMut(usize, &RxMeta, Option<&mut [u8]>) -> bool,
        Self: Sized,
    {
        let _ = turn;
        Ok(None)
    }
}

/// What goes out by it. Nothing here ever waits: a frame that cannot be sent is counted and gone,
/// as on any wire.
pub trait Transmit {
    /// Room for one frame of `len` bytes or a few more, its bytes whatever they were; None while
    /// the device takes none, or never a frame of that length. Only the room asked for last exists,
    /// and room that is not committed is as if it had never been asked for.
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]>;

    /// Whether [`reserve`](Transmit::reserve) has no room for a frame of whatever length now. A
    /// device that cannot tell says false.
    fn is_full(&mut self) -> bool {
        false
    }

    /// Sends the first `len` bytes of the room reserved last. A commit without room is ignored and
    /// counted.
    fn commit(&mut self, len: usize, meta: TxMeta);

    /// Whether the next [`reserve`](Transmit::reserve) or [`commit`](Transmit::commit) may do more
    /// than write memory of its own: ask a driver or the operating system for buffers, or hand
    /// frames over. For those who measure.
    fn sends_next(&self) -> bool {
        true
    }

    /// Whether a frame may be committed in pieces: [`Transmit::commit_gathered`].
    fn gathers(&self) -> bool {
        false
    }

    /// Sends a frame that begins with the first `head` bytes of the room reserved last, and goes on
    /// with `body`, piece after piece. Only for devices that say so; the room was asked for for the
    /// whole frame.
    fn commit_gathered(&mut self, head: usize, body: &[Piece<'_>], meta: TxMeta) {
        let _ = (head, body, meta);
        debug_assert!(false, "this device gathers no pieces");
    }

    /// The room reserved last with what was written into it, for somebody who wants to see a frame
    /// before it is committed; empty when there is none.
    fn reserved(&self) -> &[u8];

    /// Called once at the end of a turn: whatever was committed goes out now. A device that sends
    /// with every commit has nothing to do.
    fn flush(&mut self) {}
}

/// What is so of it: its link, what it does for the stack, what it has counted, and what wakes its
/// owner.
pub trait Facts {
    /// What the device does for the stack.
    fn offloads(&self) -> Offloads;

    /// The longest IP packet that the link carries, in bytes, without the Ethernet header.
    fn mtu(&self) -> usize;

    /// Changes [`Facts::mtu`]; the port's other queues have to be told too.
    fn set_mtu(&mut self, mtu: usize) -> Result<(), DevError> {
        let what = format!("its MTU is {} and cannot be changed to {mtu}", self.mtu());
        Err(DevError::new("this port", what, "Give the MTU when the port is made"))
    }

    /// The Ethernet address of the stack on this device; None on a link that carries bare IP
    /// packets (loopback, TUN).
    fn mac(&self) -> Option<Mac>;

    /// A descriptor that is readable while frames wait; None when there is none.
    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether frames may arrive without anything that wakes the owner, who then may not sleep. Not
    /// so where a descriptor tells of all of them, or where they lie in memory and show in
    /// [`next_deadline`](Facts::next_deadline).
    fn must_poll(&self) -> bool {
        false
    }

    /// What went through since the device was opened.
    fn counters(&self) -> DevCounters;

    /// Whether there is anybody at the other end, as far as the device can tell: a cable is
    /// plugged, a peer is connected.
    fn link_up(&self) -> bool {
        true
    }

    /// What the device's driver counts besides, under its own names and for the whole port; told by
    /// the port's first queue.
    fn driver_counters(&self) -> Vec<(String, u64)> {
        Vec::new()
    }

    /// The buffers that the driver has for this queue besides those of the thread's pool; None when
    /// there are none.
    fn driver_buffers(&self) -> Option<DriverBuffers> {
        None
    }

    /// Tells the time of this turn to devices that keep time (captures, delays). Others ignore it.
    fn set_now(&mut self, now: Instant) {
        let _ = now;
    }

    /// When the device next has something to do without being woken by [`wait_fd`](Facts::wait_fd):
    /// a frame that was delayed falls due, or a frame waits in memory ([`Instant::ZERO`]). The
    /// owner may not sleep past it, and calls `rx` and `flush` then. [`Instant::NEVER`] when there
    /// is nothing.
    fn next_deadline(&self) -> Instant {
        Instant::NEVER
    }
}

/// One queue of one port, used by one thread.
///
/// A turn of the owner's loop is: [`set_now`](Facts::set_now), [`rx`](Receive::rx), any number of
/// [`reserve`](Transmit::reserve) and [`commit`](Transmit::commit), [`flush`](Transmit::flush).
/// Nothing here ever waits: a frame that cannot be sent is counted and gone, as on any wire.
///
/// A frame begins with its Ethernet header when [`mac`](Facts::mac) says an address, and with its
/// IP header when it says None.
pub trait Dev: Receive + Transmit + Facts {}

impl<D: Receive + Transmit + Facts + ?Sized> Dev for D {}

impl<D: Receive + ?Sized> Receive for Box<D> {
    type Buf = D::Buf;
    fn rx(&mut self, burst: &mut Burst<Self::Buf>) -> Result<(), DevError> {
        (**self).rx(burst)
    }
}

impl<D: Transmit + ?Sized> Transmit for Box<D> {
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        (**self).reserve(len)
    }
    fn commit(&mut self, len: usize, meta: TxMeta) {
        (**self).commit(len, meta);
    }
    fn is_full(&mut self) -> bool {
        (**self).is_full()
    }
    fn sends_next(&self) -> bool {
        (**self).sends_next()
    }
    fn gathers(&self) -> bool {
        (**self).gathers()
    }
    fn commit_gathered(&mut self, head: usize, body: &[Piece<'_>], meta: TxMeta) {
        (**self).commit_gathered(head, body, meta);
    }
    fn reserved(&self) -> &[u8] {
        (**self).reserved()
    }
    fn flush(&mut self) {
        (**self).flush();
    }
}

impl<D: Facts + ?Sized> Facts for Box<D> {
    fn offloads(&self) -> Offloads {
        (**self).offloads()
    }
    fn mtu(&self) -> usize {
        (**self).mtu()
    }
    fn set_mtu(&mut self, mtu: usize) -> Result<(), DevError> {
        (**self).set_mtu(mtu)
    }
    fn mac(&self) -> Option<Mac> {
        (**self).mac()
    }
    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        (**self).wait_fd()
    }
    fn must_poll(&self) -> bool {
        (**self).must_poll()
    }
    fn counters(&self) -> DevCounters {
        (**self).counters()
    }
    fn link_up(&self) -> bool {
        (**self).link_up()
    }
    fn driver_counters(&self) -> Vec<(String, u64)> {
        (**self).driver_counters()
    }
    fn driver_buffers(&self) -> Option<DriverBuffers> {
        (**self).driver_buffers()
    }
    fn set_now(&mut self, now: Instant) {
        (**self).set_now(now);
    }
    fn next_deadline(&self) -> Instant {
        (**self).next_deadline()
    }
}

/// What a wrapper says in an `impl Facts` of a port that lies in its field `below`: the link, and
/// what wakes its owner, are that port's.
macro_rules! same_link_as_below {
    () => {
        fn mtu(&self) -> usize {
            self.below.mtu()
        }

        fn set_mtu(&mut self, mtu: usize) -> Result<(), $crate::DevError> {
            self.below.set_mtu(mtu)
        }

        fn mac(&self) -> Option<$crate::Mac> {
            self.below.mac()
        }

        fn wait_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
            self.below.wait_fd()
        }

        fn must_poll(&self) -> bool {
            self.below.must_poll()
        }

        fn link_up(&self) -> bool {
            self.below.link_up()
        }

        fn driver_counters(&self) -> Vec<(String, u64)> {
            self.below.driver_counters()
        }

        fn driver_buffers(&self) -> Option<$crate::DriverBuffers> {
            self.below.driver_buffers()
        }
    };
}
pub(crate) use same_link_as_below;

/// Bytes of an Ethernet header without a VLAN tag.
pub const ETHERNET_LEN: usize = eth::HEADER_LEN;

/// Bytes that VLAN tags add to the Ethernet header at most (IEEE 802.1Q, 802.1ad).
pub const VLAN_TAGS_LEN: usize = eth::MAX_TAGS * eth::TAG_LEN;

/// The longest IPv4 packet, and the longest IPv6 packet that is no jumbogram less its 40-byte
/// header: total length has 16 bits (RFC 791 3.1).
pub const MAX_IP_PACKET: usize = 65_535;

/// The shortest MTU of a link that IP runs over here (RFC 791 3.2: every host takes packets of 576
/// bytes).
pub const MIN_MTU: usize = 576;

/// The longest frame that fits a link of this MTU: the packet, and Ethernet header and VLAN tags
/// where there is Ethernet.
pub const fn max_frame(mtu: usize, ethernet: bool) -> usize {
    mtu + if ethernet { ETHERNET_LEN + VLAN_TAGS_LEN } else { 0 }
}

/// A locally administered address (IEEE 802: the second lowest bit of the first byte) that is the
/// same each time, so that a peer's neighbour table stays right when the program is started again.
pub fn mac_of_name(name: &str) -> Mac {
    // FNV-1a, 64 bits: enough to tell interface names apart.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let [_, _, _, b, c, d, e, f] = hash.to_be_bytes();
    Mac([0x02, b, c, d, e, f])
}
