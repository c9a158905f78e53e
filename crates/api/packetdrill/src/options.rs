//! Socket options.

use std::ffi::{c_int, c_void};

use clearway_script::Backend;
use clearway_script::backend::{Info, Op, SetOption};
use libc::socklen_t;

use crate::table::{Data, with};
use crate::world::{Errno, World};

/// `struct tcp_info` of Linux: where each value lies, and in how many bytes.
const INFO: &[(&str, usize, usize)] = &[
    ("tcpi_state", 0, 1),
    ("tcpi_ca_state", 1, 1),
    ("tcpi_retransmits", 2, 1),
    ("tcpi_probes", 3, 1),
    ("tcpi_backoff", 4, 1),
    ("tcpi_options", 5, 1),
    ("tcpi_delivery_rate_app_limited", 7, 1),
    ("tcpi_rto", 8, 4),
    ("tcpi_ato", 12, 4),
    ("tcpi_snd_mss", 16, 4),
    ("tcpi_rcv_mss", 20, 4),
    ("tcpi_unacked", 24, 4),
    ("tcpi_sacked", 28, 4),
    ("tcpi_lost", 32, 4),
    ("tcpi_retrans", 36, 4),
    ("tcpi_last_data_sent", 44, 4),
    ("tcpi_last_data_recv", 52, 4),
    ("tcpi_last_ack_recv", 56, 4),
    ("tcpi_pmtu", 60, 4),
    ("tcpi_rtt", 68, 4),
    ("tcpi_rttvar", 72, 4),
    ("tcpi_snd_ssthresh", 76, 4),
    ("tcpi_snd_cwnd", 80, 4),
    ("tcpi_advmss", 84, 4),
    ("tcpi_reordering", 88, 4),
    ("tcpi_rcv_space", 96, 4),
    ("tcpi_total_retrans", 100, 4),
    ("tcpi_bytes_acked", 120, 8),
    ("tcpi_bytes_received", 128, 8),
    ("tcpi_segs_out", 136, 4),
    ("tcpi_segs_in", 140, 4),
    ("tcpi_notsent_bytes", 144, 4),
    ("tcpi_min_rtt", 148, 4),
    ("tcpi_data_segs_in", 152, 4),
    ("tcpi_data_segs_out", 156, 4),
    ("tcpi_delivery_rate", 160, 8),
    ("tcpi_busy_time", 168, 8),
    ("tcpi_rwnd_limited", 176, 8),
    ("tcpi_sndbuf_limited", 184, 8),
    ("tcpi_delivered", 192, 4),
    ("tcpi_bytes_sent", 200, 8),
    ("tcpi_bytes_retrans", 208, 8),
    ("tcpi_dsack_dups", 216, 4),
    ("tcpi_reord_seen", 220, 4),
    ("tcpi_rcv_ooopack", 224, 4),
    ("tcpi_snd_wnd", 228, 4),
    ("tcpi_rcv_wnd", 232, 4),
];
const INFO_LEN: usize = 240;

/// The values as Linux lays them out.
pub(crate) fn tcp_info(info: &Info) -> [u8; INFO_LEN] {
    let mut bytes = [0; INFO_LEN];
    for &(name, at, len) in INFO {
        let value = info.get(name).copied().unwrap_or_default();
        // The machine's byte order; what is too large is cut from above.
        let value = if cfg!(target_endian = "little") { value } else { value << (64 - 8 * len) };
        bytes[at..at + len].copy_from_slice(&value.to_ne_bytes()[..len]);
    }
    let scale = |name: &str| info.get(name).copied().unwrap_or_default() as u8 & 15;
    bytes[6] = scale("tcpi_snd_wscale") | scale("tcpi_rcv_wscale") << 4;
    bytes
}

/// The option of that level and name with that value; None when scripts may set it and nothing follows from it here.
fn option(level: c_int, name: c_int, value: &[u8]) -> Result<Option<SetOption>, Errno> {
    let number = || -> Result<c_int, Errno> {
        let bytes = value.get(..4).ok_or(libc::EINVAL)?;
        Ok(c_int::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    };
    let count = || number().and_then(|number| u32::try_from(number).map_err(|_| libc::EINVAL));
    Ok(Some(match (level, name) {
        (libc::SOL_SOCKET, libc::SO_REUSEADDR) => SetOption::ReuseAddr(number()? != 0),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => SetOption::KeepAlive(number()? != 0),
        (libc::SOL_SOCKET, libc::SO_OOBINLINE) => SetOption::OobInline(number()? != 0),
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => SetOption::ReceiveBuffer(count()?),
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => SetOption::SendBuffer(count()?),
        (libc::SOL_SOCKET, libc::SO_LINGER) => {
            let bytes = value.get(..8).ok_or(libc::EINVAL)?;
            let seconds = c_int::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
            SetOption::Linger((number()? != 0).then_some(seconds.max(0) as u32))
        }
        (libc::SOL_SOCKET, libc::SO_MARK) | (libc::IPPROTO_IP, libc::IP_FREEBIND) => return Ok(None),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => SetOption::NoDelay(number()? != 0),
        (libc::IPPROTO_TCP, libc::TCP_CORK) => SetOption::Cork(number()? != 0),
        (libc::IPPROTO_TCP, libc::TCP_QUICKACK) => SetOption::QuickAck(number()? != 0),
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => SetOption::MaxSegment(count()?),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => SetOption::UserTimeout(count()?),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => SetOption::KeepIdle(count()?),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => SetOption::KeepInterval(count()?),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => SetOption::KeepCount(count()?),
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
            let name = value.split(|&byte| byte == 0).next().unwrap_or_default();
            SetOption::Congestion(String::from_utf8_lossy(name).into_owned())
        }
        (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
            SetOption::Tos(count()?.min(255) as u8)
        }
        _ => return Err(libc::ENOPROTOOPT),
    }))
}

/// # Safety
/// As for [`with`]; `value` leads to `len` bytes.
pub(crate) unsafe extern "C" fn setsockopt(
    data: Data,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    with(data, |world| {
        if value.is_null() && len > 0 {
            return Err(libc::EFAULT);
        }
        let bytes = if len == 0 { &[] } else { std::slice::from_raw_parts(value.cast::<u8>(), len as usize) };
        let set = option(level, name, bytes)?;
        if let Some(set) = set {
            world.on(fd, |core| Op::Set(core, set))?;
        }
        let mut state = world.enter();
        let socket = state.sockets.get_mut(&fd).ok_or(libc::EBADF)?;
        if let Some(bytes) = bytes.get(..4) {
            socket.set.insert((level, name), c_int::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        }
        Ok(0)
    }) as c_int
}

/// The value of an option as bytes.
fn value(world: &World, fd: c_int, level: c_int, name: c_int) -> Result<Vec<u8>, Errno> {
    let number = |number: c_int| Ok(number.to_ne_bytes().to_vec());
    if (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR) {
        return world.on(fd, Op::TakeError)?.value.map_or_else(|errno| Err(errno.0), |errno| number(errno as c_int));
    }
    let mut state = world.enter();
    let socket = state.sockets.get(&fd).ok_or(libc::EBADF)?;
    let (core, stream) = (socket.core, socket.stream);
    let was_set = socket.set.get(&(level, name)).copied();
    let mut info = || world.core(&mut state).info(core).map_err(|_| libc::EINVAL);
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_TYPE) => number(if stream { libc::SOCK_STREAM } else { libc::SOCK_DGRAM }),
        (libc::IPPROTO_TCP, libc::TCP_INFO) => Ok(tcp_info(&info()?).to_vec()),
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => number(info()?.get("tcpi_snd_mss").copied().unwrap_or(536) as c_int),
        // A flag that was not set is off; of anything else nobody knows what it would be.
        (libc::SOL_SOCKET, libc::SO_REUSEADDR | libc::SO_KEEPALIVE | libc::SO_OOBINLINE)
        | (libc::IPPROTO_TCP, libc::TCP_NODELAY | libc::TCP_CORK) => number(was_set.unwrap_or(0)),
        _ => number(was_set.ok_or(libc::ENOPROTOOPT)?),
    }
}

/// # Safety
/// As for [`with`]; `len` leads to a length and `room` to so many bytes.
pub(crate) unsafe extern "C" fn getsockopt(
    data: Data,
    fd: c_int,
    level: c_int,
    name: c_int,
    room: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    with(data, |world| {
        if room.is_null() || len.is_null() {
            return Err(libc::EFAULT);
        }
        let bytes = value(world, fd, level, name)?;
        let count = bytes.len().min(len.read_unaligned() as usize);
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), room.cast(), count);
        len.write_unaligned(count as socklen_t);
        Ok(0)
    }) as c_int
}
