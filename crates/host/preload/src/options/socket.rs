//! Options of the level SOL_SOCKET.

use std::ffi::c_int;
use std::time::Duration;

use clearway_client::flags;
use libc::{linger, timeval, ucred};

use super::{SO_MEMINFO, Setting, Value, bytes, number, within};
use crate::errno::{Answer, fail};
use crate::interfaces;
use crate::object::Ours;

/// The least that SO_RCVBUF and SO_SNDBUF give, as Linux has it on 64-bit machines
/// (`SOCK_MIN_RCVBUF`, `SOCK_MIN_SNDBUF`).
const LEAST_RCVBUF: u32 = 2304;
const LEAST_SNDBUF: u32 = 4608;

/// The highest SO_PRIORITY without a capability.
const HIGHEST_PRIORITY: c_int = 6;

/// Linux doubles these sizes, and keeps the result in an `int`.
const LARGEST_BUFFER: c_int = c_int::MAX / 2;

/// Sets what follows a rule of its own; false for what does not.
pub(super) fn set(setting: &mut Setting<'_>, name: c_int, value: &[u8]) -> Answer<bool> {
    if name == libc::SO_BINDTODEVICE {
        return to_device(setting.ours, value).map(|()| true);
    }
    if name == libc::SO_MAX_PACING_RATE {
        setting.options.max_pacing_rate = pacing_rate(value)?;
        return Ok(true);
    }
    let on_off = number(value)?;
    let on = on_off != 0;
    let socket = &setting.ours.socket;
    let options = &mut setting.options;
    match name {
        libc::SO_LINGER => options.linger = linger_of(value)?,
        libc::SO_RCVBUF | libc::SO_RCVBUFFORCE => options.receive_buffer = buffer(on_off),
        libc::SO_SNDBUF | libc::SO_SNDBUFFORCE => {
            options.send_buffer = buffer(on_off);
            socket.set_send_limit(options.send_buffer.max(LEAST_SNDBUF / 2));
        }
        libc::SO_RCVTIMEO => socket.set_receive_timeout(timeout(value)?),
        libc::SO_SNDTIMEO => socket.set_send_timeout(timeout(value)?),
        libc::SO_RXQ_OVFL => socket.set_flag(flags::RXQ_OVFL, on),
        libc::SO_BROADCAST => setting.ours.extra().broadcast = on,
        libc::SO_PRIORITY if !(0..=HIGHEST_PRIORITY).contains(&on_off) => return fail(libc::EPERM),
        libc::SO_PRIORITY => setting.ours.extra().priority = on_off,
        libc::SO_BUSY_POLL if on_off < 0 => return fail(libc::EINVAL),
        libc::SO_BUSY_POLL => setting.ours.extra().busy_poll = on_off,
        // A negative number is a huge one to Linux, which cuts it.
        libc::SO_RCVLOWAT => socket.set_receive_lowat(u32::try_from(on_off).unwrap_or(u32::MAX)),
        libc::SO_ZEROCOPY => setting.ours.extra().zero_copy = within(on_off, 0, 1)? == 1,
        _ => return Ok(false),
    }
    Ok(true)
}

/// SO_MAX_PACING_RATE: a `long`, or an `int` without its sign, in which all bits mean that there is
/// none.
pub(super) fn pacing_rate(value: &[u8]) -> Answer<u64> {
    if let Some((&eight, _)) = value.split_first_chunk() {
        return Ok(u64::from_ne_bytes(eight));
    }
    let rate = number(value)? as u32;
    Ok(if rate == u32::MAX { u64::MAX } else { rate.into() })
}

/// Tells what follows a rule of its own.
pub(super) fn get(ours: &Ours, name: c_int) -> Answer<Option<Value>> {
    let socket = &ours.socket;
    let options = socket.options();
    let (receive, send) = socket.buffer_sizes();
    let stream = ours.is_stream();
    Ok(Some(match name {
        libc::SO_ERROR => {
            socket.refresh();
            Value::Number(socket.take_error().map_or(0, |errno| errno.0))
        }
        libc::SO_TYPE => Value::Number(if stream { libc::SOCK_STREAM } else { libc::SOCK_DGRAM }),
        libc::SO_PROTOCOL => {
            Value::Number(if stream { libc::IPPROTO_TCP } else { libc::IPPROTO_UDP })
        }
        libc::SO_DOMAIN => {
            Value::Number(if socket.is_v6() { libc::AF_INET6 } else { libc::AF_INET })
        }
        libc::SO_ACCEPTCONN => Value::Number(c_int::from(socket.is_listener())),
        libc::SO_BROADCAST => Value::Number(c_int::from(ours.extra().broadcast)),
        libc::SO_PRIORITY => Value::Number(ours.extra().priority),
        libc::SO_BUSY_POLL => Value::Number(ours.extra().busy_poll),
        libc::SO_RXQ_OVFL => Value::Number(c_int::from(socket.flag(flags::RXQ_OVFL))),
        libc::SO_RCVBUF => {
            Value::Number(buffer_told(options.receive_buffer, receive, LEAST_RCVBUF))
        }
        libc::SO_SNDBUF => Value::Number(buffer_told(options.send_buffer, send, LEAST_SNDBUF)),
        libc::SO_RCVLOWAT => {
            Value::Number(c_int::try_from(socket.receive_lowat()).unwrap_or(c_int::MAX))
        }
        // Eight bytes, or the lower four of them where there is no room for more.
        libc::SO_MAX_PACING_RATE => Value::Bytes(options.max_pacing_rate.to_ne_bytes().to_vec()),
        libc::SO_LINGER => Value::Bytes(bytes(linger {
            l_onoff: c_int::from(options.linger.is_some()),
            l_linger: c_int::from(options.linger.unwrap_or(0)),
        })),
        libc::SO_RCVTIMEO => Value::Bytes(bytes(timeout_told(socket.timeouts().0))),
        libc::SO_SNDTIMEO => Value::Bytes(bytes(timeout_told(socket.timeouts().1))),
        // As Linux says of a peer whose process it does not know.
        libc::SO_PEERCRED => Value::Bytes(bytes(ucred { pid: 0, uid: u32::MAX, gid: u32::MAX })),
        libc::SO_ZEROCOPY => Value::Number(c_int::from(ours.extra().zero_copy)),
        SO_MEMINFO => {
            Value::Bytes(memory_info(ours).iter().flat_map(|word| word.to_ne_bytes()).collect())
        }
        libc::SO_BINDTODEVICE => Value::Bytes(match &ours.extra().device[..] {
            [] => Vec::new(),
            name => [name, b"\0"].concat(),
        }),
        _ => return Ok(None),
    }))
}

/// SO_MEMINFO (`linux/sock_diag.h`): bytes received and the bound of them, bytes to be sent and the
/// bound of them, what is reserved ahead, what is queued to be sent, options, backlog, drops.
/// Nothing is reserved, or in a backlog, here.
fn memory_info(ours: &Ours) -> [u32; 9] {
    let socket = &ours.socket;
    let (options, (receive, send)) = (socket.options(), socket.buffer_sizes());
    let told = |set, real, least| buffer_told(set, real, least).unsigned_abs();
    socket.refresh();
    let queued = u32::try_from(socket.unsent_bytes()).unwrap_or(u32::MAX);
    let received = u32::try_from(socket.readable_bytes()).unwrap_or(u32::MAX);
    let bounds = (
        told(options.receive_buffer, receive, LEAST_RCVBUF),
        told(options.send_buffer, send, LEAST_SNDBUF),
    );
    [received, bounds.0, queued, bounds.1, 0, queued, 0, 0, socket.dropped()]
}

/// SO_BINDTODEVICE: an empty name binds to none.
fn to_device(ours: &Ours, name: &[u8]) -> Answer<()> {
    let name = device_name(name);
    may_be_bound_to(name)?;
    ours.extra().device = name.to_vec();
    Ok(())
}

/// What Linux takes of a name that is longer than a device's: its beginning.
fn device_name(name: &[u8]) -> &[u8] {
    let name = &name[..name.len().min(libc::IF_NAMESIZE - 1)];
    name.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// A socket of Clearway's is on the namespace's interfaces. Where that is one, it is bound to that;
/// where they are several, there is nothing that would keep it to one.
fn may_be_bound_to(device: &[u8]) -> Answer<()> {
    match device.is_empty() || interfaces::is_the_only(device) {
        true => Ok(()),
        false if interfaces::named(device).is_some() => fail(libc::ENOPROTOOPT),
        false => fail(libc::ENODEV),
    }
}

/// The option binds to an interface of Clearway's.
pub(super) fn names_our_device(level: c_int, name: c_int, value: &[u8]) -> bool {
    (level, name) == (libc::SOL_SOCKET, libc::SO_BINDTODEVICE)
        && interfaces::named(device_name(value)).is_some()
}

/// An option that the kernel cannot judge, of a socket that is undecided.
pub(super) fn judge(level: c_int, name: c_int, value: &[u8]) -> Answer<()> {
    if names_our_device(level, name, value) { may_be_bound_to(device_name(value)) } else { Ok(()) }
}

pub(super) fn linger_of(value: &[u8]) -> Answer<Option<u16>> {
    if value.len() < size_of::<linger>() {
        return fail(libc::EINVAL);
    }
    let (on, seconds) = (number(value)?, number(&value[4..])?);
    Ok((on != 0).then(|| u16::try_from(seconds).unwrap_or(u16::MAX)))
}

pub(super) fn buffer(size: c_int) -> u32 {
    // A negative size is a huge one to Linux, and huge ones are cut.
    u32::try_from(if size < 0 { LARGEST_BUFFER } else { size.min(LARGEST_BUFFER) })
        .unwrap_or(0)
        .max(1)
}

/// Linux doubles what was set, to account for its own overhead, and gives the doubled figure back.
pub(super) fn buffer_told(set: u32, real: u32, least: u32) -> c_int {
    let told = if set == 0 { real } else { set.saturating_mul(2).max(least) };
    c_int::try_from(told).unwrap_or(c_int::MAX)
}

pub(crate) fn timeout(value: &[u8]) -> Answer<Option<Duration>> {
    if value.len() < size_of::<timeval>() {
        return fail(libc::EINVAL);
    }
    // SAFETY: there are bytes enough, and any are a `timeval`.
    let given = unsafe { value.as_ptr().cast::<timeval>().read_unaligned() };
    if !(0..1_000_000).contains(&given.tv_usec) {
        return fail(libc::EDOM);
    }
    let Ok(seconds) = u64::try_from(given.tv_sec) else {
        // Linux takes a time before now as «at once», for which the shortest wait stands.
        return Ok(Some(Duration::from_micros(1)));
    };
    let time = Duration::new(seconds, given.tv_usec as u32 * 1000);
    Ok((!time.is_zero()).then_some(time))
}

pub(super) fn timeout_told(timeout: Option<Duration>) -> timeval {
    let time = timeout.unwrap_or_default();
    timeval {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        tv_usec: time.subsec_micros().into(),
    }
}
