//! Socket options.

use std::ffi::{c_int, c_void};

use clearway_options::{Field, How, INFO_LEN, SocketOption};
use clearway_script::Backend;
use clearway_script::backend::{Info, Op, OptionValue, SetOption};
use libc::socklen_t;

use crate::data::TCP_INQ;
use crate::stamps;
use crate::table::{Data, with};
use crate::world::{Errno, World};

/// The values as Linux lays them out.
pub(crate) fn tcp_info(info: &Info) -> [u8; INFO_LEN] {
    values(info).to_linux()
}

fn values(info: &Info) -> clearway_options::Info {
    let mut all = clearway_options::Info::default();
    for field in clearway_options::Info::FIELDS {
        field.put(&mut all, info.get(field.name).copied().unwrap_or_default() as u64);
    }
    all
}

/// The option of that level and name with that value; None when scripts may set it and nothing
/// follows from it here.
fn option(level: c_int, name: c_int, value: &[u8]) -> Result<Option<SetOption>, Errno> {
    let number = |at: usize| -> Result<c_int, Errno> {
        let bytes = value.get(at..).and_then(|bytes| bytes.first_chunk()).ok_or(libc::EINVAL)?;
        Ok(c_int::from_ne_bytes(*bytes))
    };
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_MARK | libc::SO_PRIORITY | libc::SO_REUSEPORT)
        | (libc::IPPROTO_IP, libc::IP_FREEBIND) => return Ok(None),
        // What follows from these is done here and not in the core.
        (libc::SOL_SOCKET, libc::SO_ZEROCOPY) | (libc::IPPROTO_TCP, TCP_INQ) => {
            if !(0..=1).contains(&number(0)?) {
                return Err(libc::EINVAL);
            }
            return Ok(None);
        }
        _ => {}
    }
    let option = SocketOption::of(level, name)
        .filter(|option| option.field().is_some())
        .ok_or(libc::ENOPROTOOPT)?;
    let value = match option.how {
        How::Shaped(Field::Linger) => {
            OptionValue::Linger((number(0)? != 0).then_some(number(4)?.max(0) as u32))
        }
        How::Shaped(Field::Congestion) => {
            let name = value.split(|&byte| byte == 0).next().unwrap_or_default();
            OptionValue::Name(String::from_utf8_lossy(name).into_owned())
        }
        How::Shaped(Field::FastOpenKeyCount) => OptionValue::Bytes(value.to_vec()),
        _ => OptionValue::Number(number(0)?),
    };
    Ok(Some(SetOption { option, value }))
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
        let bytes = if len == 0 {
            &[]
        } else {
            std::slice::from_raw_parts(value.cast::<u8>(), len as usize)
        };
        let number = || bytes.first_chunk().map(|b| c_int::from_ne_bytes(*b)).ok_or(libc::EINVAL);
        if level == libc::SOL_SOCKET && stamps::set(world, fd, name, number)? {
            return Ok(0);
        }
        let set = option(level, name, bytes)?;
        if let Some(set) = set {
            world.on(fd, |core| Op::Set(core, set))?;
        }
        let mut state = world.enter();
        let socket = state.sockets.get_mut(&fd).ok_or(libc::EBADF)?;
        socket.set.insert((level, name), bytes.to_vec());
        Ok(0)
    }) as c_int
}

/// `SO_MEMINFO` (`asm-generic/socket.h`), and how many numbers it tells (`linux/sock_diag.h`).
const SO_MEMINFO: c_int = 55;
const MEMORY: usize = 9;

/// What waits in a socket's buffers, as `SO_MEMINFO` lays it out: bytes where Linux counts the
/// memory that they take.
fn memory(queued: Option<(u32, u32)>, info: &Info) -> Vec<u8> {
    let (unread, unacked) = queued.unwrap_or_default();
    let value = |name: &str| info.get(name).copied().unwrap_or_default() as u32;
    let mut numbers = [0u32; MEMORY];
    // Received and its bound; sent and its bound; written and not freed.
    (numbers[0], numbers[1]) = (unread, value("tcpi_rcv_space"));
    (numbers[2], numbers[5]) = (value("tcpi_unacked") * value("tcpi_snd_mss"), unacked);
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

/// The value of an option as bytes.
fn value(world: &World, fd: c_int, level: c_int, name: c_int) -> Result<Vec<u8>, Errno> {
    let number = |number: c_int| Ok(number.to_ne_bytes().to_vec());
    if (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR) {
        return world
            .on(fd, Op::TakeError)?
            .value
            .map_or_else(|errno| Err(errno.0), |errno| number(errno as c_int));
    }
    let mut state = world.enter();
    let socket = state.sockets.get(&fd).ok_or(libc::EBADF)?;
    let (core, stream) = (socket.core, socket.stream);
    if let Some(value) = stamps::get(&socket.stamps, name).filter(|_| level == libc::SOL_SOCKET) {
        return Ok(value);
    }
    let was_set = socket.set.get(&(level, name)).cloned();
    let mut info = || world.core(&mut state).info(core).map_err(|_| libc::EINVAL);
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_TYPE) => {
            number(if stream { libc::SOCK_STREAM } else { libc::SOCK_DGRAM })
        }
        (libc::IPPROTO_TCP, libc::TCP_INFO) => Ok(tcp_info(&info()?).to_vec()),
        // As on Linux, Reno and CUBIC have nothing to tell.
        (libc::IPPROTO_TCP, libc::TCP_CC_INFO) => {
            Ok(values(&info()?).to_linux_bbr().map_or_else(Vec::new, |bbr| bbr.to_vec()))
        }
        (libc::SOL_SOCKET, SO_MEMINFO) => {
            let info = info()?;
            Ok(memory(world.core(&mut state).queued(core), &info))
        }
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {
            number(info()?.get("tcpi_snd_mss").copied().unwrap_or(536) as c_int)
        }
        // A flag that was not set is off; of anything else nobody knows what it would be.
        (libc::SOL_SOCKET, libc::SO_REUSEADDR | libc::SO_KEEPALIVE | libc::SO_OOBINLINE)
        | (
            libc::IPPROTO_TCP,
            libc::TCP_NODELAY | libc::TCP_CORK | libc::TCP_FASTOPEN | libc::TCP_FASTOPEN_CONNECT,
        ) => Ok(was_set.unwrap_or(vec![0; 4])),
        _ => was_set.ok_or(libc::ENOPROTOOPT),
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
