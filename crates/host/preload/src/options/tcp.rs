//! Options of the level IPPROTO_TCP.

use std::ffi::c_int;

use clearway_client::Congestion;

use super::info::tcp_info;
use super::{Setting, Value, bytes, number, only_off, within};
use crate::errno::{Answer, fail};
use crate::object::Ours;

/// Bounds that Linux has (`include/net/tcp.h`): MAX_TCP_KEEPIDLE, MAX_TCP_KEEPINTVL, MAX_TCP_KEEPCNT.
const LONGEST_KEEP: c_int = 32767;
const MOST_KEEPS: c_int = 127;

/// TCP_MIN_MSS and MAX_TCP_WINDOW.
const LEAST_SEGMENT: c_int = 88;
const LARGEST_SEGMENT: c_int = 32767;

/// What TCP_MAXSEG says before there is a connection (RFC 9293 3.7.1).
const DEFAULT_SEGMENT: c_int = 536;

/// Bytes of a congestion control's name, with its NUL (TCP_CA_NAME_MAX).
const NAME_MAX: usize = 16;

/// Retries of the SYN and seconds in FIN-WAIT-2, as Linux's defaults stand.
const SYN_RETRIES: c_int = 6;
const FIN_SECONDS: c_int = 60;

pub(super) fn set(setting: &mut Setting<'_>, name: c_int, value: &[u8]) -> Answer<()> {
    let options = &mut setting.options;
    if name == libc::TCP_CONGESTION {
        options.congestion = congestion(value)?;
        return Ok(());
    }
    let number = number(value)?;
    match name {
        libc::TCP_NODELAY => options.nodelay = number != 0,
        libc::TCP_CORK => options.cork = number != 0,
        libc::TCP_QUICKACK => options.quick_ack = number != 0,
        libc::TCP_MAXSEG if number == 0 => options.max_segment = 0,
        libc::TCP_MAXSEG => options.max_segment = within(number, LEAST_SEGMENT, LARGEST_SEGMENT)? as u16,
        libc::TCP_KEEPIDLE => options.keep_idle = within(number, 1, LONGEST_KEEP)? as u32,
        libc::TCP_KEEPINTVL => options.keep_interval = within(number, 1, LONGEST_KEEP)? as u32,
        libc::TCP_KEEPCNT => options.keep_count = within(number, 1, MOST_KEEPS)? as u8,
        libc::TCP_USER_TIMEOUT => options.user_timeout = within(number, 0, c_int::MAX)? as u32,
        libc::TCP_DEFER_ACCEPT => options.defer_accept = defer_seconds(number.max(0) as u32),
        libc::TCP_FASTOPEN_CONNECT | libc::TCP_FASTOPEN if number != 0 => return fail(libc::EOPNOTSUPP),
        libc::TCP_FASTOPEN_CONNECT
        | libc::TCP_FASTOPEN
        | libc::TCP_NOTSENT_LOWAT
        | libc::TCP_THIN_LINEAR_TIMEOUTS
        | libc::TCP_THIN_DUPACK
        | libc::TCP_SAVE_SYN => return only_off(number),
        _ => return fail(libc::ENOPROTOOPT),
    }
    Ok(())
}

pub(super) fn get(ours: &Ours, name: c_int) -> Answer<Value> {
    let options = ours.socket.options();
    Ok(match name {
        libc::TCP_INFO => Value::Bytes(bytes(tcp_info(&ours.socket.info()?))),
        libc::TCP_CONGESTION => Value::Bytes(congestion_name(options.congestion)),
        libc::TCP_MAXSEG => Value::Number(segment_size(ours, options.max_segment)),
        libc::TCP_NODELAY => Value::Number(c_int::from(options.nodelay)),
        libc::TCP_CORK => Value::Number(c_int::from(options.cork)),
        libc::TCP_QUICKACK => Value::Number(c_int::from(options.quick_ack)),
        libc::TCP_KEEPIDLE => Value::Number(options.keep_idle as c_int),
        libc::TCP_KEEPINTVL => Value::Number(options.keep_interval as c_int),
        libc::TCP_KEEPCNT => Value::Number(c_int::from(options.keep_count)),
        libc::TCP_USER_TIMEOUT => Value::Number(options.user_timeout as c_int),
        libc::TCP_DEFER_ACCEPT => Value::Number(options.defer_accept as c_int),
        libc::TCP_SYNCNT => Value::Number(SYN_RETRIES),
        libc::TCP_LINGER2 => Value::Number(FIN_SECONDS),
        libc::TCP_FASTOPEN
        | libc::TCP_FASTOPEN_CONNECT
        | libc::TCP_NOTSENT_LOWAT
        | libc::TCP_WINDOW_CLAMP
        | libc::TCP_THIN_LINEAR_TIMEOUTS
        | libc::TCP_THIN_DUPACK
        | libc::TCP_SAVE_SYN => Value::Number(0),
        _ => return fail(libc::ENOPROTOOPT),
    })
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
    match name {
        b"reno" => Ok(Congestion::Reno),
        b"cubic" => Ok(Congestion::Cubic),
        _ => fail(libc::ENOENT),
    }
}

pub(super) fn congestion_name(congestion: Congestion) -> Vec<u8> {
    let name: &[u8] = match congestion {
        Congestion::Reno => b"reno",
        Congestion::Default | Congestion::Cubic => b"cubic",
    };
    let mut out = name.to_vec();
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
