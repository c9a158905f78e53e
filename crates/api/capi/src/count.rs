//! What a bare stack has counted.

use core::ffi::c_char;

use clearway_proto::{Counters, Drop};

use crate::memory::{is_there, put};
use crate::stack::{clw_stack, enter};
use crate::status::clw_status;

/// Numbers that only grow.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct clw_counters {
    /// Packets handed in.
    pub packets_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Packets handed to the sink.
    pub packets_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Packets that a protocol took.
    pub delivered: u64,
    /// Packets dropped; `clw_drop_reason` says why.
    pub dropped: u64,
    /// Packets that were to be copied and found no buffer (`copy_buffers`, `copy_buffer_len`). They
    /// never reached the stack.
    pub not_copied: u64,
    /// TCP segments sent again.
    pub retransmitted: u64,
}

/// Everything that was counted.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_counters_get(
    stack: *mut clw_stack,
    counters: *mut clw_counters,
) -> clw_status {
    enter(stack, |inner| {
        is_there(counters)?;
        put(counters, counted(inner.stack.counters(), inner.not_copied));
        Ok(())
    })
}

pub(crate) fn counted(counters: &Counters, not_copied: u64) -> clw_counters {
    clw_counters {
        packets_in: counters.ip.packets_in,
        bytes_in: counters.ip.bytes_in,
        packets_out: counters.ip.packets_out,
        bytes_out: counters.ip.bytes_out,
        delivered: counters.ip.delivered,
        dropped: counters.drops_total(),
        not_copied,
        retransmitted: counters.tcp.retransmitted_segs,
    }
}

/// One reason to drop a packet, counted from 0: its name, which does not end with a zero byte, and
/// how often it happened. `CLW_END` behind the last.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_drop_reason(
    stack: *mut clw_stack,
    index: u32,
    name: *mut *const c_char,
    name_len: *mut usize,
    count: *mut u64,
) -> clw_status {
    enter(stack, |inner| {
        let why = Drop::all().nth(index as usize).ok_or(clw_status::CLW_END)?;
        put(name, why.name().as_ptr().cast());
        put(name_len, why.name().len());
        put(count, inner.stack.counters().drops(why));
        Ok(())
    })
}
