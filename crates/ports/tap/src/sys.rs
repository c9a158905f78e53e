//! The system calls that have no safe wrapper: everything `unsafe` of this crate.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

use clearway_pkt::{MAX_PIECES, Piece};
use libc::{c_int, c_short, c_ulong, ifreq};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

/// What the kernel tells of an interface and is told.
pub(crate) struct Request(ifreq);

impl Request {
    /// For the interface `name`; a longer name than the kernel takes is cut, and was refused
    /// before.
    pub(crate) fn new(name: &str) -> Request {
        // SAFETY: ifreq is plain data (an array and a union of plain data), for which all zeroes is
        // a valid value.
        let mut request: ifreq = unsafe { std::mem::zeroed() };
        // One byte is left for the closing zero.
        let room = request.ifr_name.len() - 1;
        for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        Request(request)
    }

    fn flags(&self) -> c_int {
        // SAFETY: every field of the union is plain data without invalid values, and all of it was
        // zeroed at the start.
        c_int::from(unsafe { self.0.ifr_ifru.ifru_flags })
    }

    fn set_flags(&mut self, flags: c_int) {
        // The kernel's field has 16 bits, and so have all the flags.
        self.0.ifr_ifru.ifru_flags = flags as c_short;
    }

    fn call(&mut self, fd: BorrowedFd<'_>, what: c_ulong) -> io::Result<()> {
        // SAFETY: every request number used in this file reads or writes at most one ifreq, which
        // `self.0` is and outlives the call.
        let result = unsafe { libc::ioctl(fd.as_raw_fd(), what as _, &raw mut self.0) };
        check(result)
    }
}

/// Has the kernel copy `head`, and `body` behind it, as one frame.
#[inline(never)]
pub(crate) fn write_pieces(file: &File, head: &[u8], body: &[Piece<'_>]) -> io::Result<usize> {
    let mut places = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; 1 + MAX_PIECES];
    let Some(places) = places.get_mut(..1 + body.len()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let pieces = [Piece::Own(head)].into_iter().chain(body.iter().copied());
    for (place, piece) in places.iter_mut().zip(pieces) {
        *place = libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() };
    }
    // SAFETY: so many places, each of bytes that live as long as the call, which only reads them.
    // That a program writes what is shared meanwhile is nothing that this process's compiler
    // reasons about; the kernel copies it once, and makes the checksum of its copy.
    let written = unsafe { libc::writev(file.as_raw_fd(), places.as_ptr(), places.len() as c_int) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Attaches the open `/dev/net/tun` to an interface, which is made when there is none.
pub(crate) fn set_interface(fd: &File, name: &str, flags: c_int) -> io::Result<()> {
    use std::os::fd::AsFd;
    let mut request = Request::new(name);
    request.set_flags(flags);
    request.call(fd.as_fd(), libc::TUNSETIFF as c_ulong)
}

/// How long a virtio-net header stands before every frame, in bytes.
pub(crate) fn set_header_len(fd: &File, len: c_int) -> io::Result<()> {
    // SAFETY: TUNSETVNETHDRSZ reads one int, which lives through the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETVNETHDRSZ as _, &raw const len) })
}

/// What the kernel may leave undone in the frames that it hands to us.
pub(crate) fn set_offload(fd: &File, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its argument by value and touches no memory of ours.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD as _, c_ulong::from(flags)) })
}

/// The Ethernet address of the interface itself, which is the kernel's side of the link.
pub(crate) fn hardware_addr(name: &str) -> io::Result<[u8; 6]> {
    let mut request = Request::new(name);
    request.call(borrow(&any_socket()?), libc::SIOCGIFHWADDR as c_ulong)?;
    // SAFETY: SIOCGIFHWADDR filled this field of the union in, and all of it is plain data.
    let data = unsafe { request.0.ifr_ifru.ifru_hwaddr.sa_data };
    Ok(std::array::from_fn(|i| data[i] as u8))
}

/// The MTU of the interface in bytes.
pub(crate) fn mtu(name: &str) -> io::Result<usize> {
    let mut request = Request::new(name);
    request.call(borrow(&any_socket()?), libc::SIOCGIFMTU as c_ulong)?;
    // SAFETY: SIOCGIFMTU filled this field of the union in, and all of it is plain data.
    let mtu = unsafe { request.0.ifr_ifru.ifru_mtu };
    usize::try_from(mtu).map_err(|_| io::Error::from_raw_os_error(libc::ERANGE))
}

/// Sets the MTU; asks for CAP_NET_ADMIN.
pub(crate) fn set_mtu(name: &str, mtu: usize) -> io::Result<()> {
    let mut request = Request::new(name);
    request.0.ifr_ifru.ifru_mtu =
        c_int::try_from(mtu).map_err(|_| io::Error::from_raw_os_error(libc::ERANGE))?;
    request.call(borrow(&any_socket()?), libc::SIOCSIFMTU as c_ulong)
}

/// How many frames wait for us in the interface at most.
pub(crate) fn queue_len(name: &str) -> io::Result<c_int> {
    let mut request = Request::new(name);
    request.call(borrow(&any_socket()?), libc::SIOCGIFTXQLEN as c_ulong)?;
    // SAFETY: SIOCGIFTXQLEN filled this field of the union in, and all of it is plain data.
    Ok(unsafe { request.0.ifr_ifru.ifru_mtu })
}

/// Changes it; asks for CAP_NET_ADMIN.
pub(crate) fn set_queue_len(name: &str, frames: c_int) -> io::Result<()> {
    let mut request = Request::new(name);
    // The length of the queue is an integer at the same place (`ifru_ivalue`).
    request.0.ifr_ifru.ifru_mtu = frames;
    request.call(borrow(&any_socket()?), libc::SIOCSIFTXQLEN as c_ulong)
}

/// Brings the interface up; asks for CAP_NET_ADMIN.
pub(crate) fn set_up(name: &str) -> io::Result<()> {
    let socket = any_socket()?;
    let mut request = Request::new(name);
    request.call(borrow(&socket), libc::SIOCGIFFLAGS as c_ulong)?;
    // One that is up already needs no privilege.
    if request.flags() & libc::IFF_UP != 0 {
        return Ok(());
    }
    request.set_flags(request.flags() | libc::IFF_UP);
    request.call(borrow(&socket), libc::SIOCSIFFLAGS as c_ulong)
}

/// Interfaces are asked about through a socket of any kind; it never carries anything.
fn any_socket() -> io::Result<OwnedFd> {
    socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
        .map_err(io::Error::from)
}

fn borrow(fd: &OwnedFd) -> BorrowedFd<'_> {
    use std::os::fd::AsFd;
    fd.as_fd()
}
