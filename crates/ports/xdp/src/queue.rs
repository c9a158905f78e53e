//! One core's end of an interface as a device.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use clearway_base::{Duration, Instant};
use clearway_dev::device::max_frame;
use clearway_dev::{
    DevCounters, DevError, DriverBuffers, Facts, Mac, Receive, RxDrop, Transmit, TxDrop,
};
use clearway_pkt::{BURST, Burst, Checksum, Offloads, RxMeta, Segmentation, TxMeta};
use libc::xdp_desc;

use crate::checksum;
use crate::interface::Interface;
use crate::open::XdpFd;
use crate::program::Program;
use crate::ring::Producer;
use crate::socket::{First, METADATA_LEN, RING, Socket};
use crate::sys;
use crate::umem::{Frame, TX_OFFSET, Umem, XdpBuf};

/// Frames that the kernel is never given to be filled, so that there are some to send with.
const KEPT_TO_SEND: usize = 512;

/// Committed frames after which the kernel hears of them without waiting for the end of the turn.
const KICK_AT: u32 = 256;

/// How soon frames that the kernel did not take are offered again.
const RETRY: Duration = Duration::from_micros(20);

/// How often an interface that takes nothing because it is down is tried.
const RETRY_DOWN: Duration = Duration::from_millis(1);

/// How often a queue that brings nothing is asked whether its interface is still there. No
/// descriptor of AF_XDP's tells of that.
const ASK_ERROR: Duration = Duration::from_millis(200);

/// One core's end of an interface: the sockets of its queues, with one packet memory.
///
/// Received frames stay where the kernel put them, and what is sent is written into frames of the
/// same memory.
pub struct XdpQueue {
    // The sockets go before the memory that they were told of.
    first: First,
    further: Vec<Socket>,
    /// Readable while one of several sockets is.
    epoll: Option<OwnedFd>,
    umem: Umem,
    program: Arc<Program>,
    interface: Interface,
    port: String,
    name: String,
    mtu: usize,
    offload: bool,
    offloads: Offloads,
    is_first_core: bool,
    /// The frame that is written next, and whether it was asked for.
    room: Option<Frame>,
    reserved: bool,
    /// The socket that is looked at first in the next turn.
    turn: usize,
    now: Instant,
    /// The interface takes nothing, and is tried again then.
    down: bool,
    retry_at: Instant,
    ask_error_at: Instant,
    counters: DevCounters,
}

impl XdpQueue {
    pub(crate) fn new(fd: XdpFd) -> XdpQueue {
        let offloads = fd.offloads();
        let XdpFd {
            port,
            name,
            first,
            further,
            memory,
            free,
            interface,
            program,
            mtu,
            offload,
            is_first_core,
        } = fd;
        let fds: Vec<BorrowedFd<'_>> =
            std::iter::once(&first.socket).chain(&further).map(Socket::fd).collect();
        // Without it the owner is woken by the first queue alone, and has to look by itself.
        let epoll = if fds.len() > 1 { sys::epoll_of(&fds).ok() } else { None };
        XdpQueue {
            first,
            further,
            epoll,
            umem: Umem::new(memory, free),
            program,
            interface,
            port,
            name,
            mtu,
            offload,
            offloads,
            is_first_core,
            room: None,
            reserved: false,
            turn: 0,
            now: Instant::ZERO,
            down: false,
            retry_at: Instant::ZERO,
            ask_error_at: Instant::ZERO,
            counters: DevCounters::default(),
        }
    }

    /// The port's name without its options.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The packet memory.
    pub fn umem(&self) -> &Umem {
        &self.umem
    }

    /// Whether the device reads and writes the packet memory itself.
    pub fn is_zero_copy(&self) -> bool {
        self.first.zero_copy
    }

    /// On its way to another thread; the queue itself while received buffers are used. What it has
    /// counted stays behind.
    pub fn into_fd(mut self) -> Result<XdpFd, Box<XdpQueue>> {
        if let Some(room) = self.room.take() {
            self.umem.give(room);
        }
        let (memory, free) = match self.umem.into_parts() {
            Ok(parts) => parts,
            Err(umem) => return Err(Box::new(XdpQueue { umem, ..self })),
        };
        Ok(XdpFd {
            port: self.port,
            name: self.name,
            first: self.first,
            further: self.further,
            memory,
            free,
            interface: self.interface,
            program: self.program,
            mtu: self.mtu,
            offload: self.offload,
            is_first_core: self.is_first_core,
        })
    }

    fn sockets(&self) -> usize {
        1 + self.further.len()
    }

    /// Takes up to `most` frames and shows each to `each`, with the place where it lies and what is
    /// known of it. Answers how many came.
    #[inline]
    pub(crate) fn take(
        &mut self,
        most: usize,
        mut each: impl FnMut(&Umem, &mut DevCounters, &mut Producer<xdp_desc>, Received),
    ) -> Result<usize, DevError> {
        let (sockets, mut came) = (self.sockets(), 0);
        for step in 0..sockets {
            let index = (self.turn + step) % sockets;
            let socket = match index.checked_sub(1) {
                None => &mut self.first.socket,
                Some(index) => &mut self.further[index],
            };
            let got = socket.rx.available(1).min((most - came) as u32);
            if got == 0 {
                continue;
            }
            for _ in 0..got {
                let Some(desc) = socket.rx.pop() else { break };
                let Some((frame, at)) = self.umem.frame_at(desc.addr) else {
                    self.counters.drop_rx(RxDrop::BadHeader);
                    continue;
                };
                let len = (desc.len as usize).min(self.umem.frame_len() - at);
                let received = Received { frame, at, len };
                each(&self.umem, &mut self.counters, &mut self.first.tx, received);
            }
            socket.rx.release();
            came += got as usize;
            refill(&self.umem, socket);
        }
        self.turn = (self.turn + 1) % sockets;
        if came == 0 {
            self.look_for_trouble()?;
        }
        Ok(came)
    }

    /// Nothing came: frames may be short at the kernel because they were used up here, and an
    /// interface that was removed brings nothing either.
    fn look_for_trouble(&mut self) -> Result<(), DevError> {
        for socket in std::iter::once(&mut self.first.socket).chain(&mut self.further) {
            refill(&self.umem, socket);
        }
        if self.now < self.ask_error_at {
            return Ok(());
        }
        self.ask_error_at = self.now + ASK_ERROR;
        match self.first.socket.error() {
            None => Ok(()),
            Some(error) => Err(self.gone(error)),
        }
    }

    fn gone(&self, error: io::Error) -> DevError {
        DevError::new(
            &self.port,
            "the interface was removed",
            "Make it again: a host takes it back, others have to be restarted; ip link shows what is \
             there",
        )
        .with_source(error)
    }

    /// What is known of the checksum of a frame.
    #[inline]
    pub(crate) fn leaves_checksums(&self) -> bool {
        self.offload && self.interface.leaves_checksums
    }

    /// Takes back what was sent.
    #[inline]
    fn reap(&mut self) {
        let completion = &mut self.first.socket.completion;
        let done = completion.available(RING);
        for _ in 0..done {
            let Some(address) = completion.pop() else { break };
            if let Some((frame, _)) = self.umem.frame_at(address) {
                self.umem.give(frame);
            }
        }
        if done > 0 {
            completion.release();
        }
    }

    /// Tells the kernel what was committed.
    fn kick(&mut self) {
        self.reap();
        self.first.tx.publish();
        let mut left = self.first.tx.unread();
        while left > 0 && self.first.tx.needs_wakeup() {
            let woken = sys::wake_tx(self.first.socket.fd());
            self.reap();
            let before = std::mem::replace(&mut left, self.first.tx.unread());
            match woken.map_err(|error| error.raw_os_error()) {
                Ok(()) => self.down = false,
                Err(Some(libc::ENETDOWN | libc::ENXIO)) => {
                    self.down = true;
                    self.retry_at = self.now + RETRY_DOWN;
                    return;
                }
                // As much as one call sends, or the buffers of the kernel are full.
                Err(_) => {}
            }
            if left >= before {
                break;
            }
        }
    }

    /// Asks for the checksum of a frame in the words that stand before it; answers the flags of its
    /// descriptor.
    #[inline]
    fn ask_checksum(&self, frame: &mut Frame, len: usize, meta: &TxMeta) -> Result<u32, TxDrop> {
        if meta.checksum_start == 0 {
            return Ok(0);
        }
        let end = usize::from(meta.checksum_start) + usize::from(meta.checksum_offset) + 2;
        if !self.offloads.tx_checksum || end > len {
            return Err(TxDrop::BadRequest);
        }
        // `struct xsk_tx_metadata`: flags of 64 bits, where summing begins, and where the sum goes,
        // counted from there.
        let mut words = [0; METADATA_LEN];
        words[..8].copy_from_slice(&u64::from(libc::XDP_TXMD_FLAGS_CHECKSUM).to_ne_bytes());
        words[8..10].copy_from_slice(&meta.checksum_start.to_ne_bytes());
        words[10..12].copy_from_slice(&meta.checksum_offset.to_ne_bytes());
        let at = TX_OFFSET - METADATA_LEN;
        self.umem.bytes_mut(frame, at, METADATA_LEN).copy_from_slice(&words);
        Ok(libc::XDP_TX_METADATA)
    }

    #[inline]
    fn accept(&mut self, len: usize, meta: &TxMeta) -> Result<(), TxDrop> {
        if !std::mem::take(&mut self.reserved) {
            return Err(TxDrop::BadRequest);
        }
        if meta.segmentation != Segmentation::None {
            return Err(TxDrop::BadRequest);
        }
        if len > max_frame(self.mtu, true) {
            return Err(TxDrop::TooLong);
        }
        if self.down {
            return Err(TxDrop::LinkDown);
        }
        let Some(mut frame) = self.room.take() else { return Err(TxDrop::BadRequest) };
        let options = match self.ask_checksum(&mut frame, len, meta) {
            Ok(options) => options,
            Err(why) => {
                self.room = Some(frame);
                return Err(why);
            }
        };
        let addr = self.umem.address_of(&frame) + TX_OFFSET as u64;
        if self.first.tx.push(xdp_desc { addr, len: len as u32, options }) {
            Ok(())
        } else {
            self.room = Some(frame);
            Err(TxDrop::QueueFull)
        }
    }

    /// Whether there is neither a place in the ring nor a frame to write to.
    #[inline]
    fn has_no_room(&mut self) -> bool {
        if self.room.is_some() && self.first.tx.room(1) > 0 {
            return false;
        }
        if self.room.is_none() {
            self.room = self.umem.take();
        }
        if self.room.is_some() && self.first.tx.room(1) > 0 {
            return false;
        }
        // The kernel may have read and sent some.
        if self.now >= self.retry_at {
            self.kick();
        } else {
            self.reap();
        }
        if self.room.is_none() {
            self.room = self.umem.take();
        }
        self.room.is_none() || self.first.tx.room(1) == 0
    }
}

/// A frame that came: where it begins, and its length.
pub(crate) struct Received {
    pub(crate) frame: Frame,
    pub(crate) at: usize,
    pub(crate) len: usize,
}

/// Gives the kernel frames to fill, as far as there are some to spare.
#[inline]
fn refill(umem: &Umem, socket: &mut Socket) {
    let room = socket.fill.room(RING) as usize;
    let spare = umem.available().saturating_sub(KEPT_TO_SEND).min(room);
    for _ in 0..spare {
        let Some(frame) = umem.take() else { break };
        socket.fill.push(umem.address_of(&frame));
    }
    socket.fill.publish();
    if socket.fill.needs_wakeup() {
        // It only says that there is something to fill; what is wrong shows elsewhere.
        let _ = sys::wake_rx(socket.fd());
    }
}

#[inline]
pub(crate) fn meta_of(frame: &[u8], leaves_checksums: bool) -> RxMeta {
    let checksum = if leaves_checksums { checksum::of_frame(frame) } else { Checksum::Unknown };
    RxMeta { checksum, ..RxMeta::default() }
}

impl Receive for XdpQueue {
    type Buf = XdpBuf;

    fn rx(&mut self, burst: &mut Burst<XdpBuf>) -> Result<(), DevError> {
        let leaves_checksums = self.leaves_checksums();
        self.take(burst.room(), |umem, counters, _, Received { frame, at, len }| {
            counters.received(len);
            let meta = meta_of(umem.bytes(&frame, at, len), leaves_checksums);
            // No more frames were asked for than the burst has room for.
            let _ = burst.push(umem.buffer(frame, at, len), meta);
        })
        .map(drop)
    }

    fn send_back<F>(&mut self, mut turn: F) -> Result<Option<usize>, DevError>
    where
        F: FnMut(usize, &RxMeta, Option<&mut [u8]>) -> bool,
    {
        let (leaves_checksums, mut returned, mut bytes) = (self.leaves_checksums(), 0, 0);
        let came = self.take(BURST, |umem, counters, tx, Received { mut frame, at, len }| {
            counters.received(len);
            let meta = meta_of(umem.bytes(&frame, at, len), leaves_checksums);
            let has_room = tx.room(1) > 0;
            let room = if has_room { Some(umem.bytes_mut(&mut frame, at, len)) } else { None };
            let goes = turn(len, &meta, room) && has_room;
            let addr = umem.address_of(&frame) + at as u64;
            if goes && tx.push(xdp_desc { addr, len: len as u32, options: 0 }) {
                (returned, bytes) = (returned + 1, bytes + len as u64);
            } else {
                umem.give(frame);
            }
        })?;
        self.counters.tx_packets += returned;
        self.counters.tx_bytes += bytes;
        Ok(Some(came))
    }
}

impl Transmit for XdpQueue {
    #[inline]
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        self.reserved = false;
        let room = self.umem.frame_len() - TX_OFFSET;
        if len > room || self.has_no_room() {
            return None;
        }
        self.reserved = true;
        self.room.as_mut().map(|frame| self.umem.bytes_mut(frame, TX_OFFSET, room))
    }

    #[inline]
    fn is_full(&mut self) -> bool {
        self.has_no_room()
    }

    fn commit(&mut self, len: usize, meta: TxMeta) {
        match self.accept(len, &meta) {
            Ok(()) => self.counters.sent(len),
            Err(why) => self.counters.drop_tx(why),
        }
        if self.first.tx.unpublished() >= KICK_AT {
            self.kick();
        }
    }

    #[inline]
    fn sends_next(&self) -> bool {
        self.room.is_none() || self.first.tx.unpublished() + 1 >= KICK_AT
    }

    fn reserved(&self) -> &[u8] {
        match &self.room {
            Some(frame) if self.reserved => {
                self.umem.bytes(frame, TX_OFFSET, self.umem.frame_len())
            }
            _ => &[],
        }
    }

    fn flush(&mut self) {
        if self.now >= self.retry_at {
            self.kick();
        } else {
            self.first.tx.publish();
        }
    }
}

impl Facts for XdpQueue {
    fn offloads(&self) -> Offloads {
        self.offloads
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn set_mtu(&mut self, mtu: usize) -> Result<(), DevError> {
        if mtu > self.interface.mtu {
            let what =
                format!("the MTU of the interface is {}, shorter than {mtu}", self.interface.mtu);
            let remedy = format!(
                "Set it as root before the port is made, with: ip link set {} mtu {mtu}",
                self.interface.name
            );
            return Err(DevError::new(&self.port, what, remedy));
        }
        self.mtu = mtu;
        Ok(())
    }

    fn mac(&self) -> Option<Mac> {
        Some(self.interface.mac)
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.epoll.as_ref().map_or(self.first.socket.fd(), AsFd::as_fd))
    }

    fn must_poll(&self) -> bool {
        self.epoll.is_none() && !self.further.is_empty()
    }

    /// What the kernel has lost for want of frames or places, and descriptors that it did not take,
    /// are told of all queues of this core.
    fn counters(&self) -> DevCounters {
        let mut counters = self.counters;
        for socket in std::iter::once(&self.first.socket).chain(&self.further) {
            let Some(statistics) = socket.statistics() else { continue };
            counters.rx_drops[RxDrop::Missed as usize] +=
                statistics.rx_dropped + statistics.rx_ring_full;
            counters.rx_drops[RxDrop::DeviceError as usize] += statistics.rx_invalid_descs;
            counters.tx_drops[TxDrop::Refused as usize] += statistics.tx_invalid_descs;
        }
        counters
    }

    fn link_up(&self) -> bool {
        self.interface.link_up()
    }

    /// What the kernel counts of the first core's sockets, and how it hands frames over.
    fn driver_counters(&self) -> Vec<(String, u64)> {
        if !self.is_first_core {
            return Vec::new();
        }
        let mut counters = vec![("zero_copy".to_owned(), u64::from(self.first.zero_copy))];
        for socket in std::iter::once(&self.first.socket).chain(&self.further) {
            let Some(statistics) = socket.statistics() else { continue };
            let queue = socket.queue;
            let mut add =
                |name: &str, count| counters.push((format!("queue{queue}_{name}"), count));
            add("rx_dropped", statistics.rx_dropped);
            add("rx_invalid_descs", statistics.rx_invalid_descs);
            add("tx_invalid_descs", statistics.tx_invalid_descs);
            add("rx_ring_full", statistics.rx_ring_full);
            add("rx_fill_ring_empty_descs", statistics.rx_fill_ring_empty_descs);
            add("tx_ring_empty_descs", statistics.tx_ring_empty_descs);
        }
        counters.retain(|(_, count)| *count > 0);
        counters
    }

    fn driver_buffers(&self) -> Option<DriverBuffers> {
        Some(DriverBuffers { count: self.umem.count(), free: self.umem.available() })
    }

    #[inline]
    fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// What the kernel did not take is offered again without a frame that comes in, and an
    /// interface that is gone is found out.
    fn next_deadline(&self) -> Instant {
        if self.first.tx.is_caught_up() {
            self.ask_error_at
        } else if self.down {
            self.retry_at
        } else {
            self.now + RETRY
        }
    }
}
