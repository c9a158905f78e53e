//! The shim as C sees it: the structs and functions of `c/shim.h`, and the numbers in it.

use std::ffi::{c_char, c_int, c_void};

use super::text_of;

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
    pub(super) driver: [u8; 64],
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
pub(super) struct RawReady {
    pub(super) rx_queues: u16,
    pub(super) tx_queues: u16,
    pub(super) rx_ring: u16,
    pub(super) tx_ring: u16,
    pub(super) mtu: u16,
    pub(super) got: u32,
    pub(super) started: u8,
    pub(super) failed: *const c_char,
}

/// What became of a port that was set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) rx_queues: u16,
    pub(crate) tx_queues: u16,
    pub(crate) mtu: u16,
    pub(crate) got: u32,
}

/// What [`cw_is_gone`] answers when it is the kernel's interface below the device; the same number
/// as in `shim.h`.
pub(super) const INTERFACE_GONE: c_int = 2;

/// A received frame.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct In {
    pub(super) mbuf: *mut c_void,
    pub(super) data: *const u8,
    pub(super) lens: u64,
    pub(super) seen: u64,
}

pub(super) const NO_IN: In =
    In { mbuf: std::ptr::null_mut(), data: std::ptr::null(), lens: 0, seen: 0 };

impl In {
    /// Bytes of all pieces.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.lens as u32 as usize
    }

    /// Bytes of the first piece.
    #[inline]
    pub(super) fn head_len(&self) -> usize {
        (self.lens >> 32) as usize
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RawRoom {
    pub(super) mbuf: *mut c_void,
    pub(super) data: *mut u8,
    pub(super) len: u32,
}

pub(super) const NO_ROOM: RawRoom =
    RawRoom { mbuf: std::ptr::null_mut(), data: std::ptr::null_mut(), len: 0 };

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Out {
    pub(super) mbuf: *mut c_void,
    pub(super) len: u32,
    pub(super) segment_size: u16,
    pub(super) l2_len: u8,
    pub(super) l3_len: u8,
    pub(super) l4_len: u8,
    pub(super) flags: u8,
}

pub(super) const NO_OUT: Out = Out {
    mbuf: std::ptr::null_mut(),
    len: 0,
    segment_size: 0,
    l2_len: 0,
    l3_len: 0,
    l4_len: 0,
    flags: 0,
};

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
pub(super) struct Xstat {
    pub(super) name: [u8; 64],
    pub(super) value: u64,
}

// SAFETY: these are the declarations of `c/shim.h`, and the structs above have the same fields in
// the same order.
unsafe extern "C" {
    pub(super) fn cw_start(argc: c_int, argv: *mut *mut c_char) -> c_int;
    pub(super) fn cw_log_take(to: *mut c_char, room: u32) -> u32;
    pub(super) fn cw_version() -> *const c_char;
    pub(super) fn cw_probe(devargs: *const c_char, name: *const c_char, port: *mut u16) -> c_int;
    pub(super) fn cw_info(port: u16, info: *mut Info) -> c_int;
    pub(super) fn cw_peers_at(port: u16, socket: *const c_char);
    pub(super) fn cw_peers_cut_off(port: u16) -> u32;
    pub(super) fn cw_open(
        port: u16,
        config: *const Config,
        pools: *mut *mut c_void,
        ready: *mut RawReady,
    ) -> c_int;
    pub(super) fn cw_close(port: u16, pools: *mut *mut c_void, count: u16);
    pub(super) fn cw_restart(port: u16, ran: c_int) -> c_int;
    pub(super) fn cw_set_mtu(port: u16, mtu: u16) -> c_int;
    pub(super) fn cw_set_mac(port: u16, mac: *const u8) -> c_int;
    pub(super) fn cw_set_rss(port: u16, reta_size: u16, queues: u16) -> c_int;
    pub(super) fn cw_link(port: u16) -> c_int;
    pub(super) fn cw_is_gone(port: u16) -> c_int;
    pub(super) fn cw_stats(port: u16, stats: *mut Stats) -> c_int;
    pub(super) fn cw_xstats(port: u16, out: *mut Xstat, room: u32) -> c_int;
    pub(super) fn cw_wait_fd(port: u16, queue: u16) -> c_int;
    pub(super) fn cw_interrupt(port: u16, queue: u16, on: c_int) -> c_int;
    pub(super) fn cw_thread_enter() -> c_int;
    pub(super) fn cw_thread_leave();
    pub(super) fn cw_rx(port: u16, queue: u16, list: *mut In, room: u32) -> u32;
    pub(super) fn cw_gather(chain: *const c_void, to: *mut u8, room: u32) -> u32;
    pub(super) fn cw_release(list: *const In, count: u32);
    pub(super) fn cw_drop(mbuf: *mut c_void);
    pub(super) fn cw_rooms(pool: *mut c_void, rooms: *mut RawRoom, count: u32) -> u32;
    pub(super) fn cw_chain(pool: *mut c_void, from: *const u8, len: u32) -> *mut c_void;
    pub(super) fn cw_tx(port: u16, queue: u16, out: *const Out, count: u32, bad: *mut u32) -> u32;
    pub(super) fn cw_memory(bytes: *mut u64, free: *mut u64);
    pub(super) fn cw_buffers(pool: *const c_void) -> u32;
    pub(super) fn cw_free_buffers(pool: *const c_void) -> u32;
    pub(super) fn cw_box_make(name: *const c_char, slots: u32, socket: c_int) -> *mut c_void;
    pub(super) fn cw_box_free(frames: *mut c_void);
    pub(super) fn cw_box_put(frames: *mut c_void, list: *const In, count: u32) -> u32;
    pub(super) fn cw_box_take(frames: *mut c_void, list: *mut In, room: u32) -> u32;
}
