//! Socket addresses between C and Rust.

use std::ffi::c_int;
use std::mem::{offset_of, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use libc::{sa_family_t, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

use crate::errno::{Answer, fail};
use crate::given;

#[cfg(test)]
mod tests;

/// The shortest IPv6 address that Linux takes: RFC 2133 knew no scope.
pub(crate) const SHORTEST_IN6: usize = offset_of!(sockaddr_in6, sin6_scope_id);

/// What a program gave as an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Given {
    /// An address of the internet. IPv4 mapped into IPv6 is IPv4 here.
    Inet {
        /// The address.
        addr: SocketAddr,
        /// It came as AF_INET6.
        v6: bool,
    },
    /// AF_UNSPEC: take away what there is.
    Unspecified,
    /// It is not there.
    Nowhere,
    /// Something else, or too short: the kernel knows what to say to that.
    Other {
        /// Its family, when it was long enough to have one.
        family: Option<c_int>,
    },
}

/// Reads a program's address.
///
/// # Safety
/// `addr` is null or points to `len` readable bytes.
pub(crate) unsafe fn read(addr: *const sockaddr, len: socklen_t) -> Given {
    let len = len as usize;
    if given::readable(addr.cast(), len.min(size_of::<libc::sockaddr_storage>())).is_err() {
        return Given::Nowhere;
    }
    if len < size_of::<sa_family_t>() {
        return Given::Other { family: None };
    }
    // SAFETY: there are bytes enough for a family.
    let family = c_int::from(unsafe { addr.cast::<sa_family_t>().read_unaligned() });
    match family {
        libc::AF_UNSPEC => Given::Unspecified,
        libc::AF_INET if len >= size_of::<sockaddr_in>() => {
            // SAFETY: there are bytes enough.
            let from = unsafe { addr.cast::<sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(from.sin_addr.s_addr));
            Given::Inet {
                addr: SocketAddr::new(IpAddr::V4(ip), u16::from_be(from.sin_port)),
                v6: false,
            }
        }
        libc::AF_INET6 if len >= SHORTEST_IN6 => {
            // SAFETY: there are bytes enough for all fields but the scope.
            let from = unsafe { read_in6(addr, len) };
            let ip = Ipv6Addr::from(from.sin6_addr.s6_addr);
            let port = u16::from_be(from.sin6_port);
            let addr = match ip.to_ipv4_mapped() {
                Some(v4) => SocketAddr::new(IpAddr::V4(v4), port),
                None => SocketAddr::V6(SocketAddrV6::new(
                    ip,
                    port,
                    from.sin6_flowinfo,
                    from.sin6_scope_id,
                )),
            };
            Given::Inet { addr, v6: true }
        }
        family => Given::Other { family: Some(family) },
    }
}

/// # Safety
/// `addr` points to `len` readable bytes, at least `SHORTEST_IN6`.
unsafe fn read_in6(addr: *const sockaddr, len: usize) -> sockaddr_in6 {
    // SAFETY: all-zero is an address.
    let mut out: sockaddr_in6 = unsafe { std::mem::zeroed() };
    let len = len.min(size_of::<sockaddr_in6>());
    // SAFETY: `len` bytes are readable there and writable here.
    unsafe { std::ptr::copy_nonoverlapping(addr.cast::<u8>(), (&raw mut out).cast::<u8>(), len) };
    out
}

/// An address in C's form.
pub(crate) union Raw {
    v4: sockaddr_in,
    v6: sockaddr_in6,
}

impl Raw {
    /// As an AF_INET6 socket sees it when `v6`, with IPv4 mapped into IPv6.
    pub(crate) fn new(addr: SocketAddr, v6: bool) -> (Raw, socklen_t) {
        match (addr.ip(), v6) {
            (IpAddr::V4(ip), false) => {
                // SAFETY: all-zero is an address.
                let mut raw: sockaddr_in = unsafe { std::mem::zeroed() };
                raw.sin_family = libc::AF_INET as sa_family_t;
                raw.sin_port = addr.port().to_be();
                raw.sin_addr.s_addr = u32::from(ip).to_be();
                (Raw { v4: raw }, size_of::<sockaddr_in>() as socklen_t)
            }
            (ip, _) => {
                // SAFETY: all-zero is an address.
                let mut raw: sockaddr_in6 = unsafe { std::mem::zeroed() };
                raw.sin6_family = libc::AF_INET6 as sa_family_t;
                raw.sin6_port = addr.port().to_be();
                raw.sin6_addr.s6_addr = match ip {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                    IpAddr::V6(ip) => ip.octets(),
                };
                if let SocketAddr::V6(addr) = addr {
                    raw.sin6_scope_id = addr.scope_id();
                }
                (Raw { v6: raw }, size_of::<sockaddr_in6>() as socklen_t)
            }
        }
    }

    /// For a call that takes an address.
    pub(crate) fn as_ptr(&self) -> *const sockaddr {
        (&raw const *self).cast()
    }
}

/// Gives a program an address, as much of it as fits, and tells how long it is.
///
/// # Safety
/// `len` is null or points to the writable bytes at `out`; `out` may be null only when it is not
/// wanted.
pub(crate) unsafe fn write(
    addr: SocketAddr,
    v6: bool,
    out: *mut sockaddr,
    len: *mut socklen_t,
) -> Answer<()> {
    // SAFETY: the caller's.
    let room = unsafe { given::read(len) }?;
    if c_int::try_from(room).is_err() {
        return fail(libc::EINVAL);
    }
    let (raw, whole) = Raw::new(addr, v6);
    // SAFETY: `whole` bytes are readable here.
    let bytes =
        unsafe { std::slice::from_raw_parts(raw.as_ptr().cast::<u8>(), room.min(whole) as usize) };
    // SAFETY: the caller's places.
    unsafe {
        given::write(out.cast(), bytes)?;
        given::write(len.cast(), &whole.to_ne_bytes())
    }
}
