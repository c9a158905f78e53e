//! Options of the level IPPROTO_TCP.

use std::ffi::c_int;

use clearway_client::Congestion;

use super::{Setting, Value, number};
use crate::errno::{Answer, fail};
use crate::object::Ours;

/// What TCP_MAXSEG says before there is a connection (RFC 9293 3.7.1).
const DEFAULT_SEGMENT: c_int = 536;

/// Bytes of a congestion control's name, with its NUL (TCP_CA_NAME_MAX).
const NAME_MAX: usize = 16;

/// What TCP_CONGESTION says of who asked for none.
const DEFAULT_CONGESTION: &str = "cubic";

/// Sets what follows a rule of its own; false for what does not.
pub(super) fn set(setting: &mut Setting<'_>, name: c_int, value: &[u8]) -> Answer<bool> {
    let options = &mut setting.options;
    match name {
        libc::TCP_CONGESTION => options.congestion = congestion(value)?,
        libc::TCP_DEFER_ACCEPT => options.defer_accept = defer_seconds(number(value)?.max(0) as u32),
        libc::TCP_FASTOPEN_CONNECT | libc::TCP_FASTOPEN if number(value)? != 0 => return fail(libc::EOPNOTSUPP),
        libc::TCP_FASTOPEN_CONNECT | libc::TCP_FASTOPEN => {}
        libc::TCP_NODELAY => {
            // Set once more it still sends what waits under a cork, or for more.
            setting.acts |= number(value)? != 0;
            return Ok(false);
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
        libc::TCP_FASTOPEN | libc::TCP_FASTOPEN_CONNECT => Value::Number(0),
        _ => return Ok(None),
    }))
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

/// TCP_DEFER_ACCEPT is kept by Linux as retransmissions of the SYN-ACK, and told as the seconds that these take.
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
