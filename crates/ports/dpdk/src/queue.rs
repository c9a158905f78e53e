//! One queue of a device as a port.

use std::cell::OnceCell;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use clearway_base::{Duration, Instant};
use clearway_dev::device::max_frame;
use clearway_dev::{
    DevCounters, DevError, DriverBuffers, Facts, FramePool, Mac, Receive, RxDrop, Transmit, TxDrop,
};
use clearway_pkt::{Buf, Burst, Checksum, Offloads, PoolBuf, RxMeta, Segmentation, TxMeta};

use crate::open::DpdkFd;
use crate::steer::{Inbox, Steer};
use crate::sys::{
    BURST, Batch, Device, Outbox, Room, RxQueue, Seen, Sent, ThreadNumber, TxQueue, Work, ask,
};
use crate::wake::{Sources, Wake};

thread_local! {
    // DPDK keeps a few buffers back for each thread that it knows.
    static NUMBER: OnceCell<ThreadNumber> = const { OnceCell::new() };
}

/// How often a link that is down is asked whether it is up again, and one that takes nothing
/// whether it is down.
const ASK_LINK: Duration = Duration::from_millis(1);

/// How long a device may take nothing at all. Its peer sleeps, or it does not like the first frame.
const STUCK: Duration = Duration::from_millis(500);

/// How long a queue may take nothing before the next one is tried.
const OTHER_QUEUE: Duration = Duration::from_millis(2);

/// How often a device whose peer is not there looks for it.
const RESTART: Duration = Duration::from_millis(200);

/// How often it is asked whether the device is still there.
const ASK_PRESENCE: Duration = Duration::from_millis(500);

/// How long a device that was started and found its peer may take until its link is up, on a
/// machine that is busy with other things.
const CONNECTS_WITHIN: Duration = Duration::from_secs(2);

/// How soon frames that the device did not take are offered again.
const RETRY: Duration = Duration::from_micros(20);

/// One queue of a device that a driver of DPDK drives, for one thread.
///
/// Received frames are copied once, out of DPDK's memory into the thread's frame buffers. A frame
/// that is sent is written into DPDK's memory straight away. What a device does not take, because
/// its ring is full, stays here until it does, and `reserve` gives no more room meanwhile.
pub struct DpdkQueue {
    // What owns buffers of DPDK's goes before the queues, and with them the device.
    room: Option<Room>,
    outbox: Outbox,
    batch: Batch,
    spare: Batch,
    steer: Option<Arc<Steer>>,
    rx: Option<RxQueue>,
    tx: Arc<[Mutex<TxQueue>]>,
    /// Which of them this core sends on: its own, unless the peer takes nothing from that.
    tx_at: usize,
    device: Arc<Device>,
    port: String,
    name: String,
    core: usize,
    mtu: usize,
    mac: Mac,
    offloads: Offloads,
    data_room: usize,
    interrupts: bool,
    wake: Wake,
    pool: FramePool,
    /// The frame that is written when it is longer than one of DPDK's buffers.
    long: Box<[u8]>,
    /// Whether the room reserved last is `long`.
    in_long: bool,
    /// Whether this queue sees to it that the device is started again when its peer was gone, and
    /// when.
    restarts: bool,
    restart_at: Instant,
    /// When it was started last, and whether its link was up since.
    started_at: Instant,
    was_up: bool,
    link: bool,
    asked_link: Instant,
    asks_presence_at: Instant,
    /// When nothing waited, or the device took something.
    took_some: Instant,
    counters: DevCounters,
}

impl DpdkQueue {
    pub(crate) fn new(fd: DpdkFd, pool: FramePool) -> DpdkQueue {
        let DpdkFd {
            port,
            name,
            core,
            steer,
            rx,
            tx,
            device,
            mtu,
            mac,
            offloads,
            data_room,
            interrupts,
        } = fd;
        let longest = max_frame(mtu, true).max(offloads.max_segmented_frame as usize);
        let long =
            if longest > data_room { vec![0; longest].into_boxed_slice() } else { Box::default() };
        let wake = Wake::new(interrupts && rx.is_some(), inbox(&steer, core));
        DpdkQueue {
            room: None,
            outbox: Outbox::new(&device, core),
            batch: Batch::new(),
            spare: Batch::new(),
            steer,
            rx,
            tx_at: core % tx.len().max(1),
            tx,
            port,
            name,
            core,
            mtu,
            mac,
            offloads,
            data_room,
            interrupts,
            wake,
            pool,
            long,
            in_long: false,
            restarts: core == 0 && device.is_restartable(),
            restart_at: Instant::ZERO,
            started_at: Instant::ZERO,
            was_up: false,
            link: device.link(),
            asked_link: Instant::ZERO,
            asks_presence_at: Instant::ZERO,
            took_some: Instant::ZERO,
            counters: DevCounters::default(),
            device,
        }
    }

    /// The port's name without its options.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The queue on its way to another thread. What it has counted stays behind.
    pub fn into_fd(self) -> DpdkFd {
        let DpdkQueue {
            port,
            name,
            core,
            steer,
            rx,
            tx,
            device,
            mtu,
            mac,
            offloads,
            data_room,
            interrupts,
            ..
        } = self;
        DpdkFd {
            port,
            name,
            core,
            steer,
            rx,
            tx,
            device,
            mtu,
            mac,
            offloads,
            data_room,
            interrupts,
        }
    }

    /// Takes what other cores have received for this one, then what comes on its own queue. Answers
    /// whether there was anything.
    #[inline]
    fn look(&mut self, burst: &mut Burst<PoolBuf>) -> bool {
        let mut got = false;
        if let Some(inbox) = inbox(&self.steer, self.core) {
            inbox.take(&mut self.batch, burst.room());
            got = self.batch.len() > 0;
            self.take_in(burst);
        }
        let Some(queue) = &mut self.rx else { return got };
        queue.receive(&mut self.batch, burst.room());
        got |= self.batch.len() > 0;
        if let Some(steer) = &self.steer {
            let lost = steer.sort(self.core, &mut self.batch, &mut self.spare, self.wake.now());
            self.counters.rx_drops[RxDrop::CoreFull as usize] += lost as u64;
        }
        self.take_in(burst);
        got
    }

    #[inline]
    fn before_look(&mut self) -> Result<(), DevError> {
        enter();
        if self.wake.now() >= self.asks_presence_at {
            self.look_for_device()?;
        }
        if self.restarts && self.wake.now() >= self.restart_at {
            self.look_for_peer();
        }
        self.wake
            .before_look(Sources { queue: self.rx.as_mut(), inbox: inbox(&self.steer, self.core) });
        Ok(())
    }

    /// A driver on an interface of the kernel's goes on without a word when that is removed.
    #[cold]
    fn look_for_device(&mut self) -> Result<(), DevError> {
        self.asks_presence_at = self.wake.now() + ASK_PRESENCE;
        let remedy = "Make it again: a host takes it back, others have to be restarted";
        self.device.gone().map_or(Ok(()), |what| Err(DevError::new(&self.port, what, remedy)))
    }

    /// Whether the interrupt was just turned on, so that the queue has to be looked at once more.
    #[inline]
    fn looks_again(&mut self, got: bool) -> bool {
        !got && self
            .wake
            .got_none(Sources { queue: self.rx.as_mut(), inbox: inbox(&self.steer, self.core) })
    }

    #[inline]
    fn after_look(&mut self, got: bool) {
        if got {
            self.wake.got_some(Sources {
                queue: self.rx.as_mut(),
                inbox: inbox(&self.steer, self.core),
            });
        }
    }

    /// Takes a burst of frames and sends back those that `turn` says shall go, in DPDK's own
    /// buffers; answers how many came.
    #[inline]
    fn look_and_return(
        &mut self,
        turn: &mut impl FnMut(usize, &RxMeta, Option<&mut [u8]>) -> bool,
    ) -> usize {
        let Some(queue) = &mut self.rx else { return 0 };
        queue.receive(&mut self.batch, BURST);
        let came = self.batch.len();
        let (mut frames, mut bytes) = (0, 0);
        for index in 0..came {
            if self.outbox.is_full() {
                self.send();
            }
            let has_room = !self.outbox.is_full();
            let (len, meta) = (self.batch.frame_len(index), meta_of(&self.batch.seen(index)));
            match self.batch.whole_mut(index) {
                Some(frame) => {
                    (frames, bytes) = (frames + 1, bytes + len as u64);
                    if turn(len, &meta, has_room.then_some(frame)) && has_room {
                        self.batch.hand_over(index, &mut self.outbox);
                    }
                }
                None => self.return_copy(index, len, &meta, turn),
            }
        }
        self.batch.release_rest();
        self.counters.rx_packets += frames;
        self.counters.rx_bytes += bytes;
        came
    }

    /// A frame in several pieces, where its headers may not be in the first one, goes back in other
    /// buffers.
    #[cold]
    fn return_copy(
        &mut self,
        index: usize,
        len: usize,
        meta: &RxMeta,
        turn: &mut impl FnMut(usize, &RxMeta, Option<&mut [u8]>) -> bool,
    ) {
        let has_room = self.reserve(len).is_some();
        let room = if self.in_long {
            Some(&mut self.long[..])
        } else {
            self.room.as_mut().map(Room::bytes_mut)
        };
        let mut frame = room.filter(|_| has_room).and_then(|room| room.get_mut(..len));
        if let Some(frame) = &mut frame {
            if self.batch.copy(index, frame) != len {
                return self.counters.drop_rx(RxDrop::BadHeader);
            }
        }
        self.counters.received(len);
        if turn(len, meta, frame) && has_room {
            self.commit(len, TxMeta::default());
        }
    }

    #[inline]
    fn take_in(&mut self, burst: &mut Burst<PoolBuf>) {
        for index in 0..self.batch.len() {
            match take_one(&self.batch, index, &self.pool) {
                Ok((buf, meta)) => {
                    self.counters.received(buf.len());
                    // No more frames were asked for than the burst has room for.
                    let _ = burst.push(buf, meta);
                }
                Err(why) => self.counters.drop_rx(why),
            }
        }
        self.batch.release();
    }

    /// Offers what waits to the device.
    fn send(&mut self) {
        if self.outbox.len() == 0 {
            self.took_some = self.wake.now();
            return;
        }
        enter();
        let sent = match self.tx.get(self.tx_at) {
            Some(queue) => {
                queue.lock().unwrap_or_else(PoisonError::into_inner).send(&mut self.outbox)
            }
            None => Sent::default(),
        };
        self.counters.tx_packets += sent.frames as u64;
        self.counters.tx_bytes += sent.bytes;
        if sent.frames > 0 {
            self.took_some = self.wake.now();
        }
        for _ in 0..sent.refused {
            self.counters.drop_tx(TxDrop::Refused);
        }
        if self.outbox.len() > 0 {
            self.look_at_link();
        }
    }

    /// Starts the device anew when its peer has gone or was not there. One that was started a
    /// moment ago is still being connected by the driver's own thread, which must not be disturbed
    /// at that: both would take messages from one list.
    #[cold]
    fn look_for_peer(&mut self) {
        let now = self.wake.now();
        if self.started_at == Instant::ZERO {
            self.started_at = now;
        }
        self.restart_at = now + RESTART;
        if self.device.link() {
            self.was_up = true;
        } else if self.was_up
            || !self.device.runs()
            || now.since(self.started_at) >= CONNECTS_WITHIN
        {
            self.device.restart();
            (self.was_up, self.started_at) = (false, now);
        }
    }

    /// The device took not everything: its ring is full, or nobody is at the other end, and then
    /// nothing is kept for him.
    fn look_at_link(&mut self) {
        let now = self.wake.now();
        if now.since(self.asked_link) >= ASK_LINK || self.asked_link == Instant::ZERO {
            self.asked_link = now;
            self.link = self.device.link();
        }
        let why = match self.link {
            false => TxDrop::LinkDown,
            true if now.since(self.took_some) >= STUCK => TxDrop::QueueFull,
            true => {
                // A peer may have fewer queues than we have; then nothing ever leaves on the rest,
                // and cores that hand flows to one another share what there is. Where each queue is
                // somebody's own, its frames stay on it.
                if self.steer.is_some() && now.since(self.took_some) >= OTHER_QUEUE {
                    self.tx_at = (self.tx_at + 1) % self.tx.len().max(1);
                }
                return;
            }
        };
        self.tx_at = self.core % self.tx.len().max(1);
        for _ in 0..self.outbox.clear() {
            self.counters.drop_tx(why);
        }
    }

    fn accept(&mut self, len: usize, meta: &TxMeta) -> Result<(), TxDrop> {
        let room = self.room.take();
        let in_long = std::mem::take(&mut self.in_long);
        if meta.segmentation == Segmentation::None && len > max_frame(self.mtu, true) {
            return Err(TxDrop::TooLong);
        }
        if let Some(steer) = &self.steer {
            let frame =
                if in_long { &self.long[..] } else { room.as_ref().map_or(&[][..], Room::bytes) };
            steer.sent(self.core, frame.get(..len).unwrap_or_default(), self.wake.now());
        }
        if in_long {
            let frame = self.long.get(..len).ok_or(TxDrop::BadRequest)?;
            let work = work_of(frame, meta)?;
            return if self.outbox.push_long(frame, work) { Ok(()) } else { Err(TxDrop::NoBuffer) };
        }
        let room = room.ok_or(TxDrop::BadRequest)?;
        let frame = room.bytes().get(..len).ok_or(TxDrop::BadRequest)?;
        let work = work_of(frame, meta)?;
        self.outbox.push(room, len, work);
        Ok(())
    }
}

/// What other cores have received for this one.
#[inline]
fn inbox(steer: &Option<Arc<Steer>>, core: usize) -> Option<&Inbox> {
    steer.as_ref()?.inbox(core)
}

/// DPDK knows the thread from here on.
#[inline]
fn enter() {
    NUMBER.with(|number| {
        number.get_or_init(ThreadNumber::take);
    });
}

#[inline]
fn take_one(batch: &Batch, index: usize, pool: &FramePool) -> Result<(PoolBuf, RxMeta), RxDrop> {
    let len = batch.frame_len(index);
    let Some(mut buf) = pool.take(len) else {
        return Err(if len > pool.max_frame() { RxDrop::TooLong } else { RxDrop::NoBuffer });
    };
    buf.truncate(len);
    if batch.copy(index, buf.bytes_mut()) != len {
        return Err(RxDrop::BadHeader);
    }
    Ok((buf, meta_of(&batch.seen(index))))
}

#[inline]
fn meta_of(seen: &Seen) -> RxMeta {
    let checksum = match seen.checksum {
        None => Checksum::Unknown,
        Some(true) => Checksum::Good,
        Some(false) => Checksum::Bad,
    };
    RxMeta { checksum, segment_size: seen.segment_size, rss_hash: seen.hash, ..RxMeta::default() }
}

/// What the device is asked for, in the words that DPDK wants: the lengths of the headers.
#[inline]
fn work_of(frame: &[u8], meta: &TxMeta) -> Result<Work, TxDrop> {
    if meta.checksum_start == 0 && meta.segmentation == Segmentation::None {
        return Ok(Work::default());
    }
    let (mut ethertype, mut l2_len) = (ethertype_at(frame, 12)?, 14);
    // IEEE 802.1Q and 802.1ad: a tag stands between the addresses and the type.
    while matches!(ethertype, 0x8100 | 0x88a8) && l2_len < 22 {
        ethertype = ethertype_at(frame, l2_len + 2)?;
        l2_len += 4;
    }
    let l3_len = usize::from(meta.checksum_start).checked_sub(l2_len).ok_or(TxDrop::BadRequest)?;
    let mut flags = ask::CHECKSUM;
    match ethertype {
        0x0800 => flags |= ask::IPV4,
        0x86dd => {}
        _ => return Err(TxDrop::BadRequest),
    }
    if meta.checksum_offset == 6 {
        flags |= ask::UDP;
    }
    let mut work = Work { flags, l2_len: l2_len as u8, l3_len: byte(l3_len)?, ..Work::default() };
    if let Segmentation::Tcp(size) | Segmentation::Udp(size) = meta.segmentation {
        let l4_len = usize::from(meta.header_len).checked_sub(usize::from(meta.checksum_start));
        work.flags |= ask::CUT;
        work.l4_len = byte(l4_len.ok_or(TxDrop::BadRequest)?)?;
        work.segment_size = size;
    }
    Ok(work)
}

fn ethertype_at(frame: &[u8], at: usize) -> Result<u16, TxDrop> {
    let bytes = frame.get(at..).and_then(|bytes| bytes.first_chunk()).ok_or(TxDrop::BadRequest)?;
    Ok(u16::from_be_bytes(*bytes))
}

fn byte(len: usize) -> Result<u8, TxDrop> {
    u8::try_from(len).map_err(|_| TxDrop::BadRequest)
}

impl Receive for DpdkQueue {
    type Buf = PoolBuf;

    fn rx(&mut self, burst: &mut Burst<PoolBuf>) -> Result<(), DevError> {
        self.before_look()?;
        let mut got = self.look(burst);
        if self.looks_again(got) {
            got = self.look(burst);
        }
        self.after_look(got);
        Ok(())
    }

    fn send_back<F>(&mut self, mut turn: F) -> Result<Option<usize>, DevError>
    where
        F: FnMut(usize, &RxMeta, Option<&mut [u8]>) -> bool,
    {
        // A flow may belong to another core, whose matter it is then to send.
        if self.steer.is_some() {
            return Ok(None);
        }
        self.before_look()?;
        let mut came = self.look_and_return(&mut turn);
        if self.looks_again(came > 0) {
            came = self.look_and_return(&mut turn);
        }
        self.after_look(came > 0);
        Ok(Some(came))
    }
}

impl Transmit for DpdkQueue {
    #[inline]
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        self.in_long = false;
        if self.is_full() {
            return None;
        }
        if len > self.data_room {
            self.room = None;
            if len > self.long.len() {
                return None;
            }
            self.in_long = true;
            return Some(&mut self.long);
        }
        if self.room.is_none() {
            self.room = self.outbox.room();
        }
        self.room.as_mut().map(Room::bytes_mut)
    }

    fn commit(&mut self, len: usize, meta: TxMeta) {
        if let Err(why) = self.accept(len, &meta) {
            self.counters.drop_tx(why);
        }
        if self.outbox.is_full() {
            self.send();
        }
    }

    #[inline]
    fn is_full(&mut self) -> bool {
        if self.outbox.is_full() {
            self.send();
        }
        self.outbox.is_full()
    }

    #[inline]
    fn sends_next(&self) -> bool {
        self.outbox.sends_next() || (self.room.is_none() && self.outbox.has_no_room())
    }

    fn reserved(&self) -> &[u8] {
        if self.in_long { &self.long } else { self.room.as_ref().map_or(&[], Room::bytes) }
    }

    fn flush(&mut self) {
        self.send();
    }
}

impl Facts for DpdkQueue {
    fn offloads(&self) -> Offloads {
        self.offloads
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn set_mtu(&mut self, mtu: usize) -> Result<(), DevError> {
        let refused = |what: String| {
            DevError::new(&self.port, what, "Give the MTU when the port is made, with mtu=")
        };
        let as_u16 = u16::try_from(mtu)
            .map_err(|_| refused(format!("no device carries an MTU of {mtu}")))?;
        if max_frame(mtu, true) > self.data_room.max(self.long.len()) {
            return Err(refused(format!(
                "its buffers were made for an MTU of {}, too small for {mtu}",
                self.mtu
            )));
        }
        let set = self.device.set_mtu(as_u16);
        set.map_err(|error| {
            refused(format!("its MTU is {} and cannot be set to {mtu}", self.mtu))
                .with_source(error)
        })?;
        self.mtu = mtu;
        Ok(())
    }

    fn mac(&self) -> Option<Mac> {
        Some(self.mac)
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.wake.fd()
    }

    /// A queue without interrupts says when it shall be looked at, so its owner may sleep until
    /// then.
    fn must_poll(&self) -> bool {
        false
    }

    /// What the device itself has lost is known of the whole port only, and told by its first
    /// queue.
    fn counters(&self) -> DevCounters {
        let mut counters = self.counters;
        if self.core == 0 {
            let lost = self.device.stats();
            counters.rx_drops[RxDrop::Missed as usize] += lost.missed + lost.rx_no_buffer;
            counters.rx_drops[RxDrop::DeviceError as usize] += lost.rx_errors;
        }
        counters
    }

    fn link_up(&self) -> bool {
        self.device.link()
    }

    /// What the driver has counted, and we of its peers, that is not nothing.
    fn driver_counters(&self) -> Vec<(String, u64)> {
        if self.core != 0 {
            return Vec::new();
        }
        let mut counters = self.device.xstats();
        counters.push(("peers_cut_off".to_owned(), u64::from(self.device.peers_cut_off())));
        counters.retain(|(_, count)| *count > 0);
        counters
    }

    fn driver_buffers(&self) -> Option<DriverBuffers> {
        self.device.buffers(self.core)
    }

    #[inline]
    fn set_now(&mut self, now: Instant) {
        self.wake.set_now(now);
    }

    fn next_deadline(&self) -> Instant {
        let look = self.wake.deadline();
        if self.outbox.len() > 0 { look.min(self.wake.now() + RETRY) } else { look }
    }
}
