//! The shim's functions behind safe ones: everything `unsafe` of this crate.
//!
//! What makes them safe: a device is only reached through the types below; a queue's [`RxLane`] and [`TxLane`] exist once and are used through `&mut`;
//! an mbuf is owned by exactly one [`Batch`], [`Room`], [`Outbox`] or [`Inbox`], or by DPDK.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

/// Frames that cross to the shim in one call at most.
pub(crate) const BURST: usize = 64;

/// What a port can do, or is asked to do; the same numbers as in `shim.h`.
pub(crate) mod ability {
    pub(crate) const TX_CHECKSUM: u32 = 1 << 0;
    pub(crate) const TX_TSO: u32 = 1 << 1;
    pub(crate) const TX_USO: u32 = 1 << 2;
    pub(crate) const TX_CHAINS: u32 = 1 << 3;
    pub(crate) const RX_CHECKSUM: u32 = 1 << 4;
    pub(crate) const RX_LRO: u32 = 1 << 5;
    pub(crate) const RX_CHAINS: u32 = 1 << 6;
    pub(crate) const RSS: u32 = 1 << 7;
    pub(crate) const RX_INTERRUPT: u32 = 1 << 8;
}

/// What is asked of the device for one frame; the same numbers as in `shim.h`.
pub(crate) mod ask {
    pub(crate) const IPV4: u8 = 1 << 0;
    pub(crate) const UDP: u8 = 1 << 1;
    pub(crate) const CHECKSUM: u8 = 1 << 2;
    pub(crate) const CUT: u8 = 1 << 3;
    pub(crate) const CHAIN: u8 = 1 << 4;
}

/// What a driver says of its port.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Info {
    driver: [u8; 64],
    pub(crate) mac: [u8; 6],
    pub(crate) max_rx_queues: u16,
    pub(crate) max_tx_queues: u16,
    pub(crate) min_mtu: u16,
    pub(crate) max_mtu: u16,
    pub(crate) reta_size: u16,
    pub(crate) socket: i32,
    pub(crate) can: u32,
}

impl Info {
    /// The driver's name.
    pub(crate) fn driver(&self) -> String {
        text_of(&self.driver)
    }
}

/// How a port shall be set up.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    pub(crate) queues: u16,
    pub(crate) mtu: u16,
    pub(crate) want: u32,
    pub(crate) data_room: u32,
    pub(crate) buffers: u32,
    pub(crate) promiscuous: u8,
    pub(crate) may_wait: u8,
}

#[repr(C)]
struct RawReady {
    rx_queues: u16,
    tx_queues: u16,
    rx_ring: u16,
    tx_ring: u16,
    mtu: u16,
    got: u32,
    started: u8,
    failed: *const c_char,
}

/// What became of a port that was set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) rx_queues: u16,
    pub(crate) tx_queues: u16,
    pub(crate) mtu: u16,
    pub(crate) got: u32,
}

/// A received frame.
#[repr(C)]
#[derive(Clone, Copy)]
struct In {
    mbuf: *mut c_void,
    data: *const u8,
    len: u32,
    head_len: u32,
    hash: u32,
    segment_size: u16,
    checksum: u8,
}

const NO_IN: In = In {
    mbuf: std::ptr::null_mut(),
    data: std::ptr::null(),
    len: 0,
    head_len: 0,
    hash: 0,
    segment_size: 0,
    checksum: 0,
};

#[repr(C)]
#[derive(Clone, Copy)]
struct RawRoom {
    mbuf: *mut c_void,
    data: *mut u8,
    len: u32,
}

const NO_ROOM: RawRoom = RawRoom { mbuf: std::ptr::null_mut(), data: std::ptr::null_mut(), len: 0 };

#[repr(C)]
#[derive(Clone, Copy)]
struct Out {
    mbuf: *mut c_void,
    len: u32,
    segment_size: u16,
    l2_len: u8,
    l3_len: u8,
    l4_len: u8,
    flags: u8,
}

const NO_OUT: Out =
    Out { mbuf: std::ptr::null_mut(), len: 0, segment_size: 0, l2_len: 0, l3_len: 0, l4_len: 0, flags: 0 };

/// The port's own counters.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stats {
    pub(crate) missed: u64,
    pub(crate) rx_errors: u64,
    pub(crate) rx_no_buffer: u64,
    // Drivers count attempts here that are made again.
    _tx_errors: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Xstat {
    name: [u8; 64],
    value: u64,
}

// SAFETY: these are the declarations of `c/shim.h`, and the structs above have the same fields in the same order.
unsafe extern "C" {
    fn cw_start(argc: c_int, argv: *mut *mut c_char) -> c_int;
    fn cw_log_take(to: *mut c_char, room: u32) -> u32;
    fn cw_version() -> *const c_char;
    fn cw_probe(devargs: *const c_char, name: *const c_char, port: *mut u16) -> c_int;
    fn cw_info(port: u16, info: *mut Info) -> c_int;
    fn cw_open(port: u16, config: *const Config, pools: *mut *mut c_void, ready: *mut RawReady) -> c_int;
    fn cw_close(port: u16, pools: *mut *mut c_void, count: u16);
    fn cw_restart(port: u16) -> c_int;
    fn cw_set_mtu(port: u16, mtu: u16) -> c_int;
    fn cw_set_mac(port: u16, mac: *const u8) -> c_int;
    fn cw_set_rss(port: u16, reta_size: u16, queues: u16) -> c_int;
    fn cw_link(port: u16) -> c_int;
    fn cw_stats(port: u16, stats: *mut Stats) -> c_int;
    fn cw_xstats(port: u16, out: *mut Xstat, room: u32) -> c_int;
    fn cw_wait_fd(port: u16, queue: u16) -> c_int;
    fn cw_interrupt(port: u16, queue: u16, on: c_int) -> c_int;
    fn cw_thread_enter() -> c_int;
    fn cw_thread_leave();
    fn cw_rx(port: u16, queue: u16, list: *mut In, room: u32) -> u32;
    fn cw_gather(chain: *const c_void, to: *mut u8, room: u32) -> u32;
    fn cw_release(list: *const In, count: u32);
    fn cw_drop(mbuf: *mut c_void);
    fn cw_rooms(pool: *mut c_void, rooms: *mut RawRoom, count: u32) -> u32;
    fn cw_chain(pool: *mut c_void, from: *const u8, len: u32) -> *mut c_void;
    fn cw_tx(port: u16, queue: u16, out: *const Out, count: u32, bad: *mut u32) -> u32;
    fn cw_free_buffers(pool: *const c_void) -> u32;
    fn cw_box_make(name: *const c_char, slots: u32, socket: c_int) -> *mut c_void;
    fn cw_box_free(frames: *mut c_void);
    fn cw_box_put(frames: *mut c_void, list: *const In, count: u32) -> u32;
    fn cw_box_take(frames: *mut c_void, list: *mut In, room: u32) -> u32;
}

/// A C string in an array, up to its zero.
fn text_of(bytes: &[u8]) -> String {
    let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}

/// The shim answers with a negative errno.
fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::from_raw_os_error(result.saturating_neg())) } else { Ok(result) }
}

/// DPDK's functions that make, set up and remove devices are called by one thread at a time.
static CONTROL: Mutex<()> = Mutex::new(());

/// Starts DPDK. Called once; the caller sees to that.
pub(crate) fn start(arguments: &[CString]) -> io::Result<()> {
    let _one = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
    let mut pointers: Vec<*mut c_char> = arguments.iter().map(|argument| argument.as_ptr().cast_mut()).collect();
    let count = c_int::try_from(pointers.len()).unwrap_or(c_int::MAX);
    pointers.push(std::ptr::null_mut());
    // SAFETY: `pointers` are `count` zero-terminated strings and a null pointer. DPDK may reorder the pointers, and copies what it keeps; the strings
    // outlive the call.
    check(unsafe { cw_start(count, pointers.as_mut_ptr()) }).map(drop)
}

/// What DPDK has written since the last call, the newest lines when there are many.
pub(crate) fn take_log() -> String {
    let mut text = vec![0u8; 4_096];
    // SAFETY: the shim writes at most `text.len()` bytes to it.
    let len = unsafe { cw_log_take(text.as_mut_ptr().cast(), text.len() as u32) };
    text.truncate(len as usize);
    String::from_utf8_lossy(&text).into_owned()
}

/// DPDK's version, such as `DPDK 22.11.11`.
pub(crate) fn version() -> String {
    // SAFETY: the answer is a constant string of the library.
    unsafe { CStr::from_ptr(cw_version()) }.to_string_lossy().into_owned()
}

/// A thread that has a number in DPDK, until this is dropped on it.
pub(crate) struct ThreadNumber {
    ours: bool,
}

impl ThreadNumber {
    /// A number for the calling thread. Without one everything works, only slower.
    pub(crate) fn take() -> ThreadNumber {
        // SAFETY: DPDK was started, or there would be no device that somebody wants to use here.
        ThreadNumber { ours: unsafe { cw_thread_enter() } == 1 }
    }
}

impl Drop for ThreadNumber {
    fn drop(&mut self) {
        if self.ours {
            // SAFETY: this thread registered itself; the value lives in a thread-local, so it is dropped by the same thread.
            unsafe { cw_thread_leave() }
        }
    }
}

/// A device that DPDK has found and that is not set up.
pub(crate) struct Found {
    port: u16,
}

/// Finds the device that `devargs` describe; DPDK calls it `name`.
pub(crate) fn probe(devargs: &CStr, name: &CStr) -> io::Result<Found> {
    let _one = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
    let mut port = 0;
    // SAFETY: both strings end with zero and outlive the call, and so does `port`.
    check(unsafe { cw_probe(devargs.as_ptr(), name.as_ptr(), &raw mut port) })?;
    Ok(Found { port })
}

impl Found {
    /// What its driver says of it.
    pub(crate) fn info(&self) -> io::Result<Info> {
        let mut info = Info {
            driver: [0; 64],
            mac: [0; 6],
            max_rx_queues: 0,
            max_tx_queues: 0,
            min_mtu: 0,
            max_mtu: 0,
            reta_size: 0,
            socket: 0,
            can: 0,
        };
        // SAFETY: `info` is a struct of the shim's layout.
        check(unsafe { cw_info(self.port, &raw mut info) })?;
        Ok(info)
    }

    /// Changes the address that the device answers to.
    pub(crate) fn set_mac(&self, mac: [u8; 6]) -> io::Result<()> {
        // SAFETY: the shim reads six bytes.
        check(unsafe { cw_set_mac(self.port, mac.as_ptr()) }).map(drop)
    }

    /// Sets it up and starts it. On failure, the name of the call that failed.
    pub(crate) fn open(self, config: &Config) -> Result<(Arc<Device>, Ready), (io::Error, String)> {
        let _one = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
        let mut device =
            Device { port: self.port, pools: vec![std::ptr::null_mut(); usize::from(config.queues)], runs: None };
        std::mem::forget(self);
        let mut ready = RawReady {
            rx_queues: 0,
            tx_queues: 0,
            rx_ring: 0,
            tx_ring: 0,
            mtu: 0,
            got: 0,
            started: 0,
            failed: std::ptr::null(),
        };
        // SAFETY: `pools` has a place for each of `config.queues` queues, and the structs are of the shim's layout.
        let result = unsafe { cw_open(device.port, config, device.pools.as_mut_ptr(), &raw mut ready) };
        if let Err(error) = check(result) {
            let call = if ready.failed.is_null() {
                String::new()
            } else {
                // SAFETY: a constant string of the shim.
                unsafe { CStr::from_ptr(ready.failed) }.to_string_lossy().into_owned()
            };
            device.close();
            std::mem::forget(device);
            return Err((error, call));
        }
        let RawReady { rx_queues, tx_queues, mtu, got, started, .. } = ready;
        device.runs = (config.may_wait != 0).then(|| RwLock::new(started != 0));
        Ok((Arc::new(device), Ready { rx_queues, tx_queues, mtu, got }))
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        let _one = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: nobody else knows of the device, and it has no pools.
        unsafe { cw_close(self.port, std::ptr::null_mut(), 0) }
    }
}

/// A device that runs. It stops and is gone when the last of its lanes is dropped.
pub(crate) struct Device {
    port: u16,
    pools: Vec<*mut c_void>,
    /// Whether it was started, for a device that is started again when its peer comes; nobody receives or sends meanwhile.
    runs: Option<RwLock<bool>>,
}

// SAFETY: DPDK's pools may be used by any thread, and every function that is called with `port` here may be called by any thread; those that may
// not (sending, receiving) are methods of the lanes.
unsafe impl Send for Device {}
// SAFETY: see above.
unsafe impl Sync for Device {}

impl Device {
    fn close(&mut self) {
        // SAFETY: the caller holds the lock or is the last owner; the pools were made by `cw_open`, or are null, which is ignored. All mbufs have gone
        // back, because whatever owns one also owns the device.
        unsafe { cw_close(self.port, self.pools.as_mut_ptr(), self.pools.len() as u16) }
    }

    /// Whether it is started again when its peer comes.
    pub(crate) fn is_restartable(&self) -> bool {
        self.runs.is_some()
    }

    /// Starts it anew, when it is one for that and its link is down.
    pub(crate) fn restart(&self) {
        let Some(runs) = &self.runs else { return };
        let mut runs = runs.write().unwrap_or_else(PoisonError::into_inner);
        if *runs && self.link() {
            return;
        }
        let _one = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the lock is held, and no lane is in use while `runs` is locked for writing.
        *runs = unsafe { cw_restart(self.port) } == 0;
    }

    /// Does what is asked with the device while nobody starts it anew; None when it does not run.
    #[inline]
    fn while_it_runs<T>(&self, work: impl FnOnce(&Device) -> T) -> Option<T> {
        match &self.runs {
            None => Some(work(self)),
            Some(runs) => {
                let runs = runs.try_read().ok()?;
                runs.then(|| work(self))
            }
        }
    }

    /// The lanes of all its queues. Called once.
    pub(crate) fn lanes(device: &Arc<Device>, ready: &Ready) -> (Vec<RxLane>, Vec<TxLane>) {
        let rx = (0..ready.rx_queues).map(|queue| RxLane { device: Arc::clone(device), queue }).collect();
        let tx = (0..ready.tx_queues).map(|queue| TxLane { device: Arc::clone(device), queue }).collect();
        (rx, tx)
    }

    /// DPDK's number of the port.
    pub(crate) fn number(&self) -> u16 {
        self.port
    }

    /// Whether the link is up.
    pub(crate) fn link(&self) -> bool {
        // SAFETY: any thread may ask, also of a device that was not started.
        unsafe { cw_link(self.port) != 0 }
    }

    pub(crate) fn set_mtu(&self, mtu: u16) -> io::Result<()> {
        let _one = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the lock is held.
        check(unsafe { cw_set_mtu(self.port, mtu) }).map(drop)
    }

    /// Spreads flows evenly over the queues.
    pub(crate) fn set_rss(&self, reta_size: u16, queues: u16) -> io::Result<()> {
        let _one = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the lock is held.
        check(unsafe { cw_set_rss(self.port, reta_size, queues) }).map(drop)
    }

    /// The counters that all drivers have.
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        // SAFETY: `stats` is a struct of the shim's layout. When the call fails it stays as it is.
        let _ = unsafe { cw_stats(self.port, &raw mut stats) };
        stats
    }

    /// Every counter that the driver has, by its name there.
    pub(crate) fn xstats(&self) -> Vec<(String, u64)> {
        let _one = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list = vec![Xstat { name: [0; 64], value: 0 }; 1_024];
        // SAFETY: `list` has as many places as the call says.
        let count = unsafe { cw_xstats(self.port, list.as_mut_ptr(), list.len() as u32) };
        list.truncate(usize::try_from(count).unwrap_or(0));
        list.iter().map(|stat| (text_of(&stat.name), stat.value)).collect()
    }

    /// Buffers that are free in the pool of a queue.
    pub(crate) fn free_buffers(&self, queue: usize) -> usize {
        // SAFETY: the pool lives as long as the device.
        self.pools.get(queue).map_or(0, |pool| unsafe { cw_free_buffers(*pool) } as usize)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _one = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
        self.close();
    }
}

/// The receiving half of one queue.
pub(crate) struct RxLane {
    device: Arc<Device>,
    queue: u16,
}

impl RxLane {
    /// Takes up to `room` frames off the queue; `batch` is empty before.
    #[inline]
    pub(crate) fn receive(&mut self, batch: &mut Batch, room: usize) {
        debug_assert!(batch.count == 0);
        let list = batch.list.as_mut_ptr();
        // SAFETY: the list has BURST places, and this is the only lane of the queue. The frames belong to the batch from here on.
        let take = |device: &Device| unsafe { cw_rx(device.port, self.queue, list, room.min(BURST) as u32) };
        batch.count = self.device.while_it_runs(take).unwrap_or(0) as usize;
    }

    /// Puts the descriptor that the queue rings when a frame comes, while its interrupt is on, into `epoll`, where it is looked at for edges; false when
    /// there is none.
    pub(crate) fn watch(&self, epoll: &Epoll) -> bool {
        // SAFETY: any thread may ask.
        let ask = |device: &Device| unsafe { cw_wait_fd(device.port, self.queue) };
        let fd = self.device.while_it_runs(ask).unwrap_or(-1);
        if fd < 0 {
            return false;
        }
        // SAFETY: the borrow ends with this function. The driver may close the descriptor meanwhile, when its peer goes; then another file may be
        // watched in its place, which wakes somebody once too often and does nothing else.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let edge = EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0);
        matches!(epoll.add(fd, edge), Ok(()) | Err(Errno::EEXIST))
    }

    /// Turns the queue's interrupt on or off; false when the driver cannot.
    pub(crate) fn interrupt(&mut self, on: bool) -> bool {
        // SAFETY: this is the only lane of the queue.
        let turn = |device: &Device| unsafe { cw_interrupt(device.port, self.queue, c_int::from(on)) == 0 };
        self.device.while_it_runs(turn).unwrap_or(false)
    }
}

/// Frames that were received and not given back.
pub(crate) struct Batch {
    list: [In; BURST],
    count: usize,
}

// SAFETY: an mbuf may go to another thread; the pointers are owned.
unsafe impl Send for Batch {}

/// What the device says of a received frame.
pub(crate) struct Seen {
    pub(crate) hash: u32,
    pub(crate) segment_size: u16,
    /// Whether the checksum is known to be good or bad.
    pub(crate) checksum: Option<bool>,
}

impl Batch {
    pub(crate) const fn new() -> Batch {
        Batch { list: [NO_IN; BURST], count: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Bytes of the frame at `index`, all pieces together.
    #[inline]
    pub(crate) fn frame_len(&self, index: usize) -> usize {
        self.list[..self.count][index].len as usize
    }

    /// The first piece of the frame at `index`; mostly all of it.
    #[inline]
    pub(crate) fn head(&self, index: usize) -> &[u8] {
        let frame = &self.list[..self.count][index];
        // SAFETY: the batch owns the mbuf, whose first piece has `head_len` bytes at `data`; nobody writes to it.
        unsafe { std::slice::from_raw_parts(frame.data, frame.head_len as usize) }
    }

    /// Writes the whole frame at `index` to `to`; answers how many bytes that were.
    #[inline]
    pub(crate) fn copy(&self, index: usize, to: &mut [u8]) -> usize {
        let head = self.head(index);
        let len = self.frame_len(index);
        if head.len() == len {
            let Some(to) = to.get_mut(..len) else { return 0 };
            to.copy_from_slice(head);
            return len;
        }
        // SAFETY: the batch owns the chain, and the shim writes no more than there is room.
        unsafe { cw_gather(self.list[index].mbuf, to.as_mut_ptr(), to.len() as u32) as usize }
    }

    #[inline]
    pub(crate) fn seen(&self, index: usize) -> Seen {
        let frame = &self.list[..self.count][index];
        let checksum = match frame.checksum {
            1 => Some(true),
            2 => Some(false),
            _ => None,
        };
        Seen { hash: frame.hash, segment_size: frame.segment_size, checksum }
    }

    /// Moves the frames that belong to `owner` into `to`, which is empty. The others move up, and so do their entries in `owners`.
    pub(crate) fn split(&mut self, owners: &mut [u8; BURST], owner: u8, to: &mut Batch) {
        debug_assert!(to.count == 0);
        let mut kept = 0;
        for index in 0..self.count {
            if owners[index] == owner {
                to.list[to.count] = self.list[index];
                to.count += 1;
            } else {
                self.list[kept] = self.list[index];
                owners[kept] = owners[index];
                kept += 1;
            }
        }
        self.count = kept;
    }

    /// Gives the frames back.
    #[inline]
    pub(crate) fn release(&mut self) {
        if self.count > 0 {
            // SAFETY: the first `count` entries own an mbuf each, and none of them is used after this.
            unsafe { cw_release(self.list.as_ptr(), self.count as u32) };
            self.count = 0;
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.release();
    }
}

/// Frames that threads hand to each other.
pub(crate) struct FrameBox {
    ring: NonNull<c_void>,
}

// SAFETY: any number of threads may put into a ring of this kind and take out of it at the same time.
unsafe impl Send for FrameBox {}
// SAFETY: see above.
unsafe impl Sync for FrameBox {}

impl FrameBox {
    /// A box for `slots` frames, a power of two, for this core of the port of that number.
    pub(crate) fn new(port: u16, core: usize, slots: usize) -> io::Result<FrameBox> {
        let _one = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
        let name = CString::new(format!("clearway-box-{port}-{core}")).unwrap_or_default();
        // SAFETY: the name ends with zero and is copied. Memory may be that of any socket (-1).
        let ring = unsafe { cw_box_make(name.as_ptr(), slots as u32, -1) };
        let ring = NonNull::new(ring).ok_or_else(|| io::Error::from_raw_os_error(Errno::ENOMEM as i32))?;
        Ok(FrameBox { ring })
    }

    /// Puts the frames of `batch` in, the oldest first; those that do not fit stay there.
    #[inline]
    pub(crate) fn put(&self, batch: &mut Batch) {
        // SAFETY: the first `count` entries own an mbuf each; the box owns those that it takes, the first ones.
        let taken = unsafe { cw_box_put(self.ring.as_ptr(), batch.list.as_ptr(), batch.count as u32) } as usize;
        batch.list.copy_within(taken..batch.count, 0);
        batch.count -= taken;
    }

    /// Takes up to `room` frames out; `batch` is empty before.
    #[inline]
    pub(crate) fn take(&self, batch: &mut Batch, room: usize) {
        debug_assert!(batch.count == 0);
        // SAFETY: the list has BURST places. The frames belong to the batch from here on.
        let count = unsafe { cw_box_take(self.ring.as_ptr(), batch.list.as_mut_ptr(), room.min(BURST) as u32) };
        batch.count = count as usize;
    }
}

impl Drop for FrameBox {
    fn drop(&mut self) {
        let _one = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: nobody else has the ring; the frames in it are freed with it, while their pools live, because every queue lets go of the boxes before
        // it lets go of the device.
        unsafe { cw_box_free(self.ring.as_ptr()) }
    }
}

/// An mbuf to write a frame into.
pub(crate) struct Room {
    mbuf: NonNull<c_void>,
    data: NonNull<u8>,
    len: u32,
}

// SAFETY: the mbuf is owned and may go to another thread.
unsafe impl Send for Room {}

impl Room {
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the mbuf is owned, and has `len` bytes at `data`. They were written by DPDK, which clears its memory, or by an earlier frame.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len as usize) }
    }

    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.len as usize) }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: the mbuf is owned and not used after this.
        unsafe { cw_drop(self.mbuf.as_ptr()) }
    }
}

/// What is asked of the device for a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Work {
    pub(crate) flags: u8,
    pub(crate) l2_len: u8,
    pub(crate) l3_len: u8,
    pub(crate) l4_len: u8,
    pub(crate) segment_size: u16,
}

/// The frames of one queue on their way out, and mbufs for the next ones.
pub(crate) struct Outbox {
    device: Arc<Device>,
    pool: usize,
    list: [Out; BURST],
    count: usize,
    rooms: [RawRoom; ROOMS],
    rooms_left: usize,
}

/// Mbufs that are fetched from the pool at once.
const ROOMS: usize = 32;

// SAFETY: the pointers are owned mbufs, which may go to another thread.
unsafe impl Send for Outbox {}

impl Outbox {
    /// For a thread that takes its mbufs from the pool of this number.
    pub(crate) fn new(device: &Arc<Device>, pool: usize) -> Outbox {
        let pool = pool.min(device.pools.len().saturating_sub(1));
        Outbox {
            device: Arc::clone(device),
            pool,
            list: [NO_OUT; BURST],
            count: 0,
            rooms: [NO_ROOM; ROOMS],
            rooms_left: 0,
        }
    }

    /// Frames that wait.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Whether no more may be pushed.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.count == BURST
    }

    /// An mbuf to write into; None when the pool is empty.
    #[inline]
    pub(crate) fn room(&mut self) -> Option<Room> {
        if self.rooms_left == 0 {
            let pool = *self.device.pools.get(self.pool)?;
            // SAFETY: the pool lives as long as the device, and `rooms` has ROOMS places.
            self.rooms_left = unsafe { cw_rooms(pool, self.rooms.as_mut_ptr(), ROOMS as u32) } as usize;
        }
        self.rooms_left = self.rooms_left.checked_sub(1)?;
        let RawRoom { mbuf, data, len } = self.rooms[self.rooms_left];
        Some(Room { mbuf: NonNull::new(mbuf)?, data: NonNull::new(data)?, len })
    }

    /// Adds the first `len` bytes of `room`; the outbox is not full.
    #[inline]
    pub(crate) fn push(&mut self, room: Room, len: usize, work: Work) {
        let mbuf = room.mbuf.as_ptr();
        let len = len.min(room.len as usize) as u32;
        std::mem::forget(room);
        self.push_raw(mbuf, len, work);
    }

    /// Adds a frame that is longer than an mbuf as a chain of them; false when the pool has not so many.
    pub(crate) fn push_long(&mut self, frame: &[u8], work: Work) -> bool {
        let Some(pool) = self.device.pools.get(self.pool) else { return false };
        // SAFETY: the pool lives as long as the device, and the shim reads `frame.len()` bytes.
        let chain = unsafe { cw_chain(*pool, frame.as_ptr(), frame.len() as u32) };
        if chain.is_null() {
            return false;
        }
        self.push_raw(chain, frame.len() as u32, Work { flags: work.flags | ask::CHAIN, ..work });
        true
    }

    #[inline]
    fn push_raw(&mut self, mbuf: *mut c_void, len: u32, work: Work) {
        let Work { flags, l2_len, l3_len, l4_len, segment_size } = work;
        self.list[self.count] = Out { mbuf, len, segment_size, l2_len, l3_len, l4_len, flags };
        self.count += 1;
    }

    /// Drops what waits; answers how many frames that were.
    pub(crate) fn clear(&mut self) -> usize {
        for out in &self.list[..self.count] {
            // SAFETY: the entry owns its mbuf, which is not used after this.
            unsafe { cw_drop(out.mbuf) };
        }
        std::mem::take(&mut self.count)
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.clear();
        for room in &self.rooms[..self.rooms_left] {
            // SAFETY: the entry owns its mbuf, which is not used after this.
            unsafe { cw_drop(room.mbuf) };
        }
    }
}

/// What went out of an outbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) frames: usize,
    pub(crate) bytes: u64,
    /// Frames that the driver refused, and would refuse again.
    pub(crate) refused: usize,
}

/// The sending half of one queue.
pub(crate) struct TxLane {
    device: Arc<Device>,
    queue: u16,
}

impl TxLane {
    /// Sends what it can; the rest stays in the outbox, in order.
    #[inline]
    pub(crate) fn send(&mut self, outbox: &mut Outbox) -> Sent {
        debug_assert!(Arc::ptr_eq(&self.device, &outbox.device));
        let mut bad = 0;
        let (list, count) = (outbox.list.as_ptr(), outbox.count as u32);
        // SAFETY: the first `count` entries own an mbuf each, and this is the only lane of the queue. The shim takes the first ones.
        let send = |device: &Device| unsafe { cw_tx(device.port, self.queue, list, count, &raw mut bad) };
        let frames = self.device.while_it_runs(send).unwrap_or(0) as usize;
        let bytes = outbox.list[..frames].iter().map(|out| u64::from(out.len)).sum();
        let gone = frames + bad as usize;
        outbox.list.copy_within(gone..outbox.count, 0);
        outbox.count -= gone;
        Sent { frames, bytes, refused: bad as usize }
    }
}
