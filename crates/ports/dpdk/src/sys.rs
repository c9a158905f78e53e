//! The shim's functions behind safe ones: everything `unsafe` of this crate.
//!
//! What makes them safe: a device is only reached through the types below; a queue's [`RxQueue`]
//! and [`TxQueue`] exist once and are used through `&mut`; an mbuf is owned by exactly one
//! [`Batch`], [`Room`], [`Outbox`] or [`FrameBox`], or by DPDK.

mod frames;
mod raw;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use clearway_dev::DriverBuffers;

pub(crate) use frames::{Batch, FrameBox, Outbox, Room, RxQueue, Seen, Sent, TxQueue, Work};
use raw::*;
pub(crate) use raw::{BURST, Config, Info, Ready, Stats, ability, ask};

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
    let mut pointers: Vec<*mut c_char> =
        arguments.iter().map(|argument| argument.as_ptr().cast_mut()).collect();
    let count = c_int::try_from(pointers.len()).unwrap_or(c_int::MAX);
    pointers.push(std::ptr::null_mut());
    // SAFETY: `pointers` are `count` zero-terminated strings and a null pointer. DPDK may reorder
    // the pointers, and copies what it keeps; the strings outlive the call.
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

/// Bytes of DPDK's memory, and how many of them are free. DPDK has to run.
pub(crate) fn memory() -> (u64, u64) {
    let (mut bytes, mut free) = (0, 0);
    // SAFETY: both numbers outlive the call.
    unsafe { cw_memory(&raw mut bytes, &raw mut free) };
    (bytes, free)
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
            // SAFETY: this thread registered itself; the value lives in a thread-local, so it is
            // dropped by the same thread.
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

    /// Its peers, who share memory with it, are met at this socket.
    pub(crate) fn meets_peers_at(&self, socket: &CStr) {
        // SAFETY: the shim copies the string, which ends with zero.
        unsafe { cw_peers_at(self.port, socket.as_ptr()) }
    }

    /// Sets it up and starts it. On failure, the name of the call that failed.
    pub(crate) fn open(self, config: &Config) -> Result<(Arc<Device>, Ready), (io::Error, String)> {
        let _one = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
        let mut device = Device {
            port: self.port,
            pools: vec![std::ptr::null_mut(); usize::from(config.queues)],
            runs: None,
        };
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
        // SAFETY: `pools` has a place for each of `config.queues` queues, and the structs are of
        // the shim's layout.
        let result =
            unsafe { cw_open(device.port, config, device.pools.as_mut_ptr(), &raw mut ready) };
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

/// A device that runs. It stops and is gone when the last of its queues is dropped.
pub(crate) struct Device {
    port: u16,
    pools: Vec<*mut c_void>,
    /// Whether it was started, for a device that is started again when its peer comes; nobody
    /// receives or sends meanwhile.
    runs: Option<RwLock<bool>>,
}

// SAFETY: DPDK's pools may be used by any thread, and every function that is called with `port`
// here may be called by any thread; those that may not (sending, receiving) are methods of the
// queues.
unsafe impl Send for Device {}
// SAFETY: see above.
unsafe impl Sync for Device {}

impl Device {
    fn close(&mut self) {
        // SAFETY: the caller holds the lock or is the last owner; the pools were made by `cw_open`,
        // or are null, which is ignored. All mbufs have gone back, because whatever owns one also
        // owns the device.
        unsafe { cw_close(self.port, self.pools.as_mut_ptr(), self.pools.len() as u16) }
    }

    /// Whether it is started again when its peer comes.
    pub(crate) fn is_restartable(&self) -> bool {
        self.runs.is_some()
    }

    /// Whether it was started: one that is started again when its peer comes may not have been.
    pub(crate) fn runs(&self) -> bool {
        self.runs.as_ref().is_none_or(|runs| *runs.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Starts it anew, when it is one for that and its link is down.
    pub(crate) fn restart(&self) {
        let Some(runs) = &self.runs else { return };
        let mut runs = runs.write().unwrap_or_else(PoisonError::into_inner);
        if *runs && self.link() {
            return;
        }
        let _one = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the lock is held, and no queue is in use while `runs` is locked for writing.
        *runs = unsafe { cw_restart(self.port, c_int::from(*runs)) } == 0;
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

    /// The queues of all its queues. Called once.
    pub(crate) fn queues(device: &Arc<Device>, ready: &Ready) -> (Vec<RxQueue>, Vec<TxQueue>) {
        let rx = (0..ready.rx_queues)
            .map(|queue| RxQueue { device: Arc::clone(device), queue })
            .collect();
        let tx = (0..ready.tx_queues)
            .map(|queue| TxQueue { device: Arc::clone(device), queue })
            .collect();
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

    /// What of it was taken away, if something was.
    pub(crate) fn gone(&self) -> Option<&'static str> {
        // SAFETY: any thread may ask.
        match unsafe { cw_is_gone(self.port) } {
            0 => None,
            INTERFACE_GONE => Some("the interface was removed"),
            _ => Some("the device was removed"),
        }
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

    /// Peers that were cut off because they took back memory that they had shared.
    pub(crate) fn peers_cut_off(&self) -> u32 {
        // SAFETY: any thread may ask.
        unsafe { cw_peers_cut_off(self.port) }
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

    /// Buffers in the pool of a queue, and how many of them are free; None when the queue has no
    /// pool of its own.
    pub(crate) fn buffers(&self, queue: usize) -> Option<DriverBuffers> {
        let pool = *self.pools.get(queue).filter(|pool| !pool.is_null())?;
        // SAFETY: the pool lives as long as the device.
        let (count, free) = unsafe { (cw_buffers(pool), cw_free_buffers(pool)) };
        Some(DriverBuffers { count: count as usize, free: free as usize })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _one = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
        self.close();
    }
}
