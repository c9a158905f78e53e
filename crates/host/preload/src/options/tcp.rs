//! Options of the level IPPROTO_TCP.

use std::ffi::c_int;

use clearway_client::Congestion;

use super::{Setting, Value, number, within};
use crate::errno::{Answer, fail};
use crate::object::Ours;

/// What TCP_MAXSEG says before there is a connection (RFC 9293 3.7.1).
const DEFAULT_SEGMENT: c_int = 536;

/// Bytes of a congestion control's name, with its NUL (TCP_CA_NAME_MAX).
const NAME_MAX: usize = 16;

/// Bounds that Linux has: MAX_TCP_SYNCNT, TCP_FIN_TIMEOUT_MAX, half of SOCK_MIN_RCVBUF; and what it
/// says of who set none.
const MOST_SYNS: c_int = 127;
const MOST_FIN_SECONDS: c_int = 120;
const LEAST_CLAMP: c_int = 1152;
const SYN_RETRIES: c_int = 6;
const FIN_SECONDS: c_int = 60;

/// What Linux cuts TCP_FASTOPEN to (net.core.somaxconn).
const MOST_PENDING: c_int = 4096;

/// Not in the `libc` crate. TCP_CM_INQ, the control message, has the same number.
pub(crate) const TCP_INQ: c_int = 36;

/// What TCP_CONGESTION says of who asked for none.
const DEFAULT_CONGESTION: &str = "cubic";

/// Sets what follows a rule of its own; false for what does not.
pub(super) fn set(setting: &mut Setting<'_>, name: c_int, value: &[u8]) -> Answer<bool> {
    let (ours, options) = (setting.ours, &mut setting.options);
    match name {
        libc::TCP_CONGESTION => options.congestion = congestion(value)?,
        libc::TCP_DEFER_ACCEPT => {
            options.defer_accept = defer_seconds(number(value)?.max(0) as u32)
        }
        libc::TCP_FASTOPEN => {
            let pending = number(value)?;
            let is_connected = ours.socket.remote().is_some() && !ours.socket.is_listener();
            if pending < 0 || is_connected {
                return fail(libc::EINVAL);
            }
            options.fast_open = pending.min(MOST_PENDING).unsigned_abs();
        }
        libc::TCP_FASTOPEN_CONNECT => {
            let on = within(number(value)?, 0, 1)? == 1;
            if ours.socket.is_listener() | ours.socket.remote().is_some() {
                return fail(libc::EINVAL);
            }
            options.fast_open_connect = on;
        }
        libc::TCP_FASTOPEN_NO_COOKIE => {
            let on = within(number(value)?, 0, 1)? == 1;
            if ours.socket.remote().is_some() && !ours.socket.is_listener() {
                return fail(libc::EINVAL);
            }
            options.fast_open_no_cookie = on;
        }
        libc::TCP_FASTOPEN_KEY => {
            if !options.set_fast_open_keys(value) {
                return fail(libc::EINVAL);
            }
        }
        libc::TCP_NODELAY => {
            // Set once more it still sends what waits under a cork, or for more.
            setting.acts |= number(value)? != 0;
            return Ok(false);
        }
        libc::TCP_SYNCNT => options.syn_count = within(number(value)?, 1, MOST_SYNS)? as u8,
        libc::TCP_LINGER2 => options.fin_wait_2 = fin_wait_2(number(value)?),
        libc::TCP_WINDOW_CLAMP => {
            let clamp = number(value)?;
            if clamp == 0 && ours.socket.is_listener() | ours.socket.remote().is_some() {
                return fail(libc::EINVAL);
            }
            options.window_clamp =
                if clamp == 0 { 0 } else { clamp.max(LEAST_CLAMP).unsigned_abs() };
        }
        libc::TCP_NOTSENT_LOWAT => options.notsent_lowat = number(value)? as u32,
        libc::TCP_THIN_LINEAR_TIMEOUTS => {
            options.linear_timeouts = within(number(value)?, 0, 1)? == 1
        }
        TCP_INQ => setting.ours.extra().inq = within(number(value)?, 0, 1)? == 1,
        libc::TCP_THIN_DUPACK => {
            within(number(value)?, 0, 1)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Tells what follows a rule of its own.
pub(super) fn get(ours: &Ours, name: c_int) -> Answer<Option<Value>> {
    let options = ours.socket.options();
    Ok(Some(match name {
        libc::TCP_INFO => Value::Bytes(ours.socket.info()?.to_linux().to_vec()),
        libc::TCP_CONGESTION => Value::Bytes(congestion_name(options.congestion)),
        libc::TCP_MAXSEG => Value::Number(segment_size(ours, options.max_segment)),
        libc::TCP_DEFER_ACCEPT => Value::Number(options.defer_accept as c_int),
        libc::TCP_SYNCNT if options.syn_count == 0 => Value::Number(SYN_RETRIES),
        libc::TCP_SYNCNT => Value::Number(options.syn_count.into()),
        libc::TCP_LINGER2 => Value::Number(match options.fin_wait_2 {
            None => FIN_SECONDS,
            Some(0) => -1,
            Some(seconds) => seconds.into(),
        }),
        libc::TCP_WINDOW_CLAMP => {
            Value::Number(c_int::try_from(options.window_clamp).unwrap_or(c_int::MAX))
        }
        libc::TCP_NOTSENT_LOWAT => Value::Number(options.notsent_lowat as c_int),
        libc::TCP_THIN_LINEAR_TIMEOUTS => Value::Number(options.linear_timeouts.into()),
        TCP_INQ => Value::Number(c_int::from(ours.extra().inq)),
        libc::TCP_THIN_DUPACK => Value::Number(0),
        // As on Linux, Reno and CUBIC have nothing to tell.
        libc::TCP_CC_INFO => Value::Bytes(
            ours.socket.info()?.to_linux_bbr().map_or_else(Vec::new, |bbr| bbr.to_vec()),
        ),
        // A listener's connections have none of it.
        libc::TCP_FASTOPEN if ours.socket.remote().is_some() && !ours.socket.is_listener() => {
            Value::Number(0)
        }
        libc::TCP_FASTOPEN => {
            Value::Number(c_int::try_from(options.fast_open).unwrap_or(c_int::MAX))
        }
        libc::TCP_FASTOPEN_CONNECT => Value::Number(options.fast_open_connect.into()),
        libc::TCP_FASTOPEN_NO_COOKIE => Value::Number(options.fast_open_no_cookie.into()),
        libc::TCP_FASTOPEN_KEY => {
            Value::Bytes(options.fast_open_keys().into_iter().flatten().flatten().collect())
        }
        _ => return Ok(None),
    }))
}

/// TCP_LINGER2: 0 is the default, a negative number none at all, and long times are cut.
fn fin_wait_2(seconds: c_int) -> Option<u8> {
    match seconds {
        0 => None,
        ..0 => Some(0),
        _ => Some(seconds.min(MOST_FIN_SECONDS) as u8),
    }
}

/// TCP_MAXSEG: the connection's; before there is one what was set, or the default.
fn segment_size(ours: &Ours, set: u16) -> c_int {
    let connected = ours.socket.remote().is_some() && !ours.socket.is_listener();
    let now = if connected { ours.socket.info().map_or(0, |info| info.snd_mss) } else { 0 };
    match (now, set) {
        (0, 0) => DEFAULT_SEGMENT,
        (0, set) => c_int::from(set),
        (now, _) => c_int::try_from(now).unwrap_or(c_int::MAX),
    }
}

pub(super) fn congestion(value: &[u8]) -> Answer<Congestion> {
    if value.is_empty() {
        return fail(libc::EINVAL);
    }
    let value = &value[..value.len().min(NAME_MAX - 1)];
    let name = value.split(|&byte| byte == 0).next().unwrap_or(&[]);
    Congestion::named(name).map_or_else(|| fail(libc::ENOENT), Ok)
}

pub(super) fn congestion_name(congestion: Congestion) -> Vec<u8> {
    let name = congestion.name().unwrap_or(DEFAULT_CONGESTION);
    let mut out = name.as_bytes().to_vec();
    out.resize(NAME_MAX, 0);
    out
}

/// TCP_DEFER_ACCEPT is kept by Linux as retransmissions of the SYN-ACK, and told as the seconds
/// that these take.
pub(super) fn defer_seconds(asked: u32) -> u32 {
    const FIRST: u32 = 1;
    const LONGEST: u32 = 120;
    const MOST: u32 = 255;
    if asked == 0 {
        return 0;
    }
    let (mut seconds, mut wait, mut retries) = (FIRST, FIRST, 1);
    while asked > seconds && retries < MOST {
        retries += 1;
        wait = (wait * 2).min(LONGEST);
        seconds += wait;
    }
    seconds
}
