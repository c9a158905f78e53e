//! SO_TIMESTAMP, SO_TIMESTAMPNS and SO_TIMESTAMPING, by their old numbers and by those that mean 64
//! bits everywhere, and SIOCGSTAMP. What they say is one word, which all processes that have the
//! socket share ([`stamping`]).

use std::ffi::{c_int, c_long, c_ulong};
use std::mem::MaybeUninit;

use clearway_options::stamping::{
    ALL, ASKED, BIND_PHC, NANOSECONDS, NEW, OPT_ID, OPT_ID_TCP, OPT_STATS, OPT_TSONLY, STAMP,
};

use super::{Setting, Value, number};
use crate::errno::{Answer, fail};
use crate::given;
use crate::object::Ours;

/// Not in the `libc` crate by these names on this machine, where both mean the same.
pub(crate) const SO_TIMESTAMP_NEW: c_int = 63;
pub(crate) const SO_TIMESTAMPNS_NEW: c_int = 64;
pub(crate) const SO_TIMESTAMPING_NEW: c_int = 65;

/// `SIOCGSTAMP` and `SIOCGSTAMPNS` of `linux/sockios.h`, old and new.
const SIOCGSTAMP: c_ulong = 0x8906;
const SIOCGSTAMPNS: c_ulong = 0x8907;
const SIOCGSTAMP_NEW: c_ulong = 0x8010_8906;
const SIOCGSTAMPNS_NEW: c_ulong = 0x8010_8907;

/// Nothing has come yet that could have a stamp.
pub(crate) const NEVER: u64 = u64::MAX;

/// Sets one of these options; false when `name` is another.
pub(super) fn set(setting: &mut Setting<'_>, name: c_int, value: &[u8]) -> Answer<bool> {
    let word = setting.options.timestamping;
    setting.options.timestamping = match name {
        libc::SO_TIMESTAMP => stamp(word, number(value)? != 0, 0),
        SO_TIMESTAMP_NEW => stamp(word, number(value)? != 0, NEW),
        libc::SO_TIMESTAMPNS => stamp(word, number(value)? != 0, NANOSECONDS),
        SO_TIMESTAMPNS_NEW => stamp(word, number(value)? != 0, NANOSECONDS | NEW),
        libc::SO_TIMESTAMPING => stamping(setting.ours, word, number(value)? as u32)? & !NEW,
        SO_TIMESTAMPING_NEW => stamping(setting.ours, word, number(value)? as u32)? | NEW,
        _ => return Ok(false),
    };
    Ok(true)
}

/// SO_TIMESTAMP and SO_TIMESTAMPNS: one takes the place of the other. To switch one off leaves by
/// which number the last one was known.
fn stamp(word: u32, on: bool, how: u32) -> u32 {
    if on { word & !(NANOSECONDS | NEW) | STAMP | how } else { word & !(STAMP | NANOSECONDS) }
}

/// SO_TIMESTAMPING, with the rules of Linux (`sock_set_timestamping`). Flags of devices that stamp
/// are taken, as for a device that does not.
fn stamping(ours: &Ours, word: u32, flags: u32) -> Answer<u32> {
    let wrong = flags & !ALL != 0
        || flags & OPT_ID_TCP != 0 && flags & OPT_ID == 0
        || flags & OPT_STATS != 0 && flags & OPT_TSONLY == 0;
    let begins = flags & OPT_ID != 0 && word & OPT_ID == 0;
    if wrong || begins && ours.is_stream() && !ours.socket.is_begun() {
        return fail(libc::EINVAL);
    }
    // A clock of a device there is not; Linux says so of a socket without a device, too. And
    // without what OPT_STATS asks for, a program that asks for it would wait for it in vain.
    if flags & (BIND_PHC | OPT_STATS) != 0 {
        return fail(libc::EOPNOTSUPP);
    }
    if begins {
        ours.socket.begin_stamp_keys(flags & OPT_ID_TCP != 0);
    }
    Ok(word & !ALL | flags)
}

/// Tells one of these options; None when `name` is another. An option that was set by its other
/// number is told as off, as Linux does.
pub(super) fn get(ours: &Ours, name: c_int) -> Option<Value> {
    let word = ours.socket.stamping();
    let is = |which: u32, bits: u32| Value::Number((word & which == bits).into());
    Some(match name {
        libc::SO_TIMESTAMP => is(STAMP | NANOSECONDS | NEW, STAMP),
        // Linux tells this one also where it is nanoseconds.
        SO_TIMESTAMP_NEW => is(STAMP | NEW, STAMP | NEW),
        libc::SO_TIMESTAMPNS => is(NANOSECONDS | NEW, NANOSECONDS),
        SO_TIMESTAMPNS_NEW => is(NANOSECONDS | NEW, NANOSECONDS | NEW),
        libc::SO_TIMESTAMPING => Value::Bytes(flags_told(word & ALL)),
        SO_TIMESTAMPING_NEW => {
            Value::Bytes(flags_told(if word & NEW != 0 { word & ALL } else { 0 }))
        }
        _ => return None,
    })
}

/// `struct so_timestamping`: the flags, and no clock of a device.
fn flags_told(flags: u32) -> Vec<u8> {
    [flags.to_ne_bytes(), [0; 4]].concat()
}

/// SIOCGSTAMP and SIOCGSTAMPNS: when the last datagram came. None: the request is another.
///
/// # Safety
/// `word` is what the program gave to `ioctl` with this request.
pub(crate) unsafe fn ioctl(ours: &Ours, request: c_ulong, word: c_long) -> Option<Answer<c_int>> {
    let in_nanoseconds = match request {
        SIOCGSTAMP | SIOCGSTAMP_NEW => false,
        SIOCGSTAMPNS | SIOCGSTAMPNS_NEW => true,
        _ => return None,
    };
    let out = word as usize as *mut [i64; 2];
    Some(last(ours).and_then(|at| {
        given::writable(out.cast(), size_of::<[i64; 2]>())?;
        let [seconds, nanoseconds] = parts(at);
        let rest = if in_nanoseconds { nanoseconds } else { nanoseconds / 1000 };
        // SAFETY: not null, so the caller's place for two numbers.
        unsafe { out.write_unaligned([seconds, rest]) };
        Ok(0)
    }))
}

/// From the first question on it is noted when datagrams come.
fn last(ours: &Ours) -> Answer<u64> {
    let mut options = ours.socket.options();
    if options.timestamping & ASKED == 0 {
        options.timestamping |= ASKED;
        ours.socket.set_options(&options)?;
    }
    match ours.last_stamp() {
        NEVER => fail(libc::ENOENT),
        // What came before nobody has noted: Linux gives the time of the question, and keeps it.
        0 => {
            let now = now();
            ours.set_last_stamp(now);
            Ok(now)
        }
        at => Ok(at),
    }
}

fn now() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: there is room for the time, and all-zero is one.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_REALTIME, time.as_mut_ptr());
        time.assume_init()
    };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Seconds and nanoseconds.
pub(crate) fn parts(at: u64) -> [i64; 2] {
    [(at / 1_000_000_000) as i64, (at % 1_000_000_000) as i64]
}
