//! Sockets: making, binding, connecting, closing.

use std::collections::HashMap;
use std::ffi::{c_int, c_long, c_ulong, c_void};

use clearway_script::IpVersion;
use clearway_script::backend::{How, Op};
use libc::{sockaddr, socklen_t};

use crate::address;
use crate::copies::Copies;
use crate::stamps::Stamps;
use crate::table::{Data, with};
use crate::world::{Errno, Socket, World};

/// A number that is real.
fn number() -> Result<c_int, Errno> {
    // SAFETY: takes no pointers.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if fd < 0 { Err(libc::EMFILE) } else { Ok(fd) }
}

impl World {
    /// Gives a socket of the core a number. One that packetdrill closed behind our back may come
    /// again: what was there is closed then.
    fn add(&self, core: u32, stream: bool, blocks: bool) -> Result<usize, Errno> {
        let fd = number()?;
        let socket = Socket {
            core,
            stream,
            blocks,
            set: HashMap::new(),
            copies: Copies::default(),
            stamps: Stamps::default(),
        };
        let old = self.enter().sockets.insert(fd, socket);
        if let Some(old) = old {
            self.call(Op::Close(old.core))?;
        }
        if !blocks {
            self.call(Op::Block(core, false))?;
        }
        Ok(fd as usize)
    }
}

/// # Safety
/// As for [`with`].
pub(crate) unsafe extern "C" fn socket(
    data: Data,
    domain: c_int,
    kind: c_int,
    protocol: c_int,
) -> c_int {
    with(data, |world| {
        let wanted =
            if world.flags().net.version == IpVersion::V4 { libc::AF_INET } else { libc::AF_INET6 };
        if domain != wanted {
            return Err(libc::EAFNOSUPPORT);
        }
        let stream = match kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) {
            libc::SOCK_STREAM if [0, libc::IPPROTO_TCP].contains(&protocol) => true,
            libc::SOCK_DGRAM if [0, libc::IPPROTO_UDP].contains(&protocol) => false,
            _ => return Err(libc::EPROTONOSUPPORT),
        };
        world.heed_knobs();
        let core = world.call(Op::Socket(stream))?.value.map_err(|errno| errno.0)?;
        world.add(core as u32, stream, kind & libc::SOCK_NONBLOCK == 0)
    }) as c_int
}

/// # Safety
/// As for [`with`]; `addr` leads to `len` bytes.
pub(crate) unsafe extern "C" fn bind(
    data: Data,
    fd: c_int,
    addr: *const sockaddr,
    len: socklen_t,
) -> c_int {
    with(data, |world| {
        let local = address::read(addr, len)?;
        if !local.addr.is_unspecified() && local.addr != world.flags().net.local {
            return Err(libc::EADDRNOTAVAIL);
        }
        world.on(fd, |core| Op::Bind(core, local.port)).map(|_| 0)
    }) as c_int
}

/// # Safety
/// As for [`with`].
pub(crate) unsafe extern "C" fn listen(data: Data, fd: c_int, backlog: c_int) -> c_int {
    with(data, |world| {
        world.on(fd, |core| Op::Listen(core, backlog.clamp(1, 4_096) as u32)).map(|_| 0)
    }) as c_int
}

/// # Safety
/// As for [`with`]; both pointers are null, or `len` leads to a length and `addr` to so many bytes.
pub(crate) unsafe extern "C" fn accept(
    data: Data,
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    with(data, |world| {
        let reply = world.on(fd, Op::Accept)?;
        let core = reply.value.map_err(|errno| errno.0)? as u32;
        let remote = world.core(&mut world.enter()).remote(core);
        if let Some(remote) = remote {
            address::write(&world.flags().net, remote, addr, len);
        }
        world.add(core, true, true)
    }) as c_int
}

/// # Safety
/// As for [`with`]; `addr` leads to `len` bytes.
pub(crate) unsafe extern "C" fn connect(
    data: Data,
    fd: c_int,
    addr: *const sockaddr,
    len: socklen_t,
) -> c_int {
    with(data, |world| {
        let remote = address::read(addr, len)?;
        world.on(fd, |core| Op::Connect(core, remote)).map(|_| 0)
    }) as c_int
}

/// # Safety
/// As for [`with`].
pub(crate) unsafe extern "C" fn shutdown(data: Data, fd: c_int, how: c_int) -> c_int {
    with(data, |world| {
        let how = match how {
            libc::SHUT_RD => How::Read,
            libc::SHUT_WR => How::Write,
            libc::SHUT_RDWR => How::Both,
            _ => return Err(libc::EINVAL),
        };
        world.on(fd, |core| Op::Shutdown(core, how)).map(|_| 0)
    }) as c_int
}

/// # Safety
/// As for [`with`].
pub(crate) unsafe extern "C" fn close(data: Data, fd: c_int) -> c_int {
    with(data, |world| {
        let mut state = world.enter();
        let (socket, set) = (state.sockets.remove(&fd), state.sets.remove(&fd));
        for set in state.sets.values_mut() {
            set.forget(fd);
        }
        drop(state);
        // What is not ours is a pipe's end, which is the kernel's.
        if libc::close(fd) < 0 && socket.is_none() && set.is_none() {
            return Err(libc::EBADF);
        }
        match socket {
            Some(socket) => world.call(Op::Close(socket.core)).map(|_| 0),
            None => Ok(0),
        }
    }) as c_int
}

/// # Safety
/// As for [`with`].
pub(crate) unsafe extern "C" fn fcntl(data: Data, fd: c_int, command: c_int, arg: c_long) -> c_int {
    with(data, |world| {
        let mut state = world.enter();
        let socket = state.sockets.get_mut(&fd).ok_or(libc::EBADF)?;
        match command {
            libc::F_GETFL => {
                Ok((libc::O_RDWR | if socket.blocks { 0 } else { libc::O_NONBLOCK }) as usize)
            }
            libc::F_SETFL => {
                let blocks = arg as c_int & libc::O_NONBLOCK == 0;
                socket.blocks = blocks;
                drop(state);
                world.on(fd, |core| Op::Block(core, blocks)).map(|_| 0)
            }
            _ => Err(libc::EINVAL),
        }
    }) as c_int
}

/// # Safety
/// As for [`with`]; `arg` leads to a number.
pub(crate) unsafe extern "C" fn ioctl(
    data: Data,
    fd: c_int,
    request: c_ulong,
    arg: *mut c_void,
) -> c_int {
    with(data, |world| {
        let mut state = world.enter();
        let core = state.sockets.get(&fd).ok_or(libc::EBADF)?.core;
        let number = arg.cast::<c_int>();
        if number.is_null() {
            return Err(libc::EFAULT);
        }
        if request == libc::FIONBIO {
            let blocks = number.read_unaligned() == 0;
            state.sockets.entry(fd).and_modify(|socket| socket.blocks = blocks);
            drop(state);
            return world.on(fd, |core| Op::Block(core, blocks)).map(|_| 0);
        }
        let queued = world.core(&mut state).queued(core);
        let bytes = match (request, queued) {
            // SIOCINQ and SIOCOUTQ have the numbers of these.
            (libc::FIONREAD, Some((unread, _))) => unread,
            (libc::TIOCOUTQ, Some((_, unacked))) => unacked,
            _ => return Err(libc::EINVAL),
        };
        number.write_unaligned(bytes as c_int);
        Ok(0)
    }) as c_int
}
