//! Socket addresses, both ways.

use std::ffi::c_void;
use std::mem::{size_of, zeroed};

use clearway_script::backend::Net;
use clearway_wire::{Addr, Endpoint};
use libc::{AF_INET, AF_INET6, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

use crate::world::Errno;

/// Reads an address of the caller's.
///
/// # Safety
/// `addr` is null or leads to `len` bytes.
pub(crate) unsafe fn read(addr: *const sockaddr, len: socklen_t) -> Result<Endpoint, Errno> {
    if addr.is_null() {
        return Err(libc::EFAULT);
    }
    let len = len as usize;
    if len < size_of::<libc::sa_family_t>() {
        return Err(libc::EINVAL);
    }
    match c_int_of(addr.cast::<libc::sa_family_t>().read_unaligned()) {
        AF_INET if len >= size_of::<sockaddr_in>() => {
            let addr = addr.cast::<sockaddr_in>().read_unaligned();
            Ok(Endpoint::new(
                Addr::v4(addr.sin_addr.s_addr.to_ne_bytes()),
                u16::from_be(addr.sin_port),
            ))
        }
        AF_INET6 if len >= size_of::<sockaddr_in6>() => {
            let addr = addr.cast::<sockaddr_in6>().read_unaligned();
            Ok(Endpoint::new(Addr::v6(addr.sin6_addr.s6_addr), u16::from_be(addr.sin6_port)))
        }
        AF_INET | AF_INET6 => Err(libc::EINVAL),
        _ => Err(libc::EAFNOSUPPORT),
    }
}

fn c_int_of(family: libc::sa_family_t) -> i32 {
    family.into()
}

/// Writes an address where the caller wants it, as much of it as there is room for, and its true
/// length. Nowhere when that is null.
///
/// # Safety
/// Both are null, or `len` leads to a length and `addr` to so many bytes.
pub(crate) unsafe fn write(
    net: &Net,
    endpoint: Endpoint,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) {
    if addr.is_null() || len.is_null() {
        return;
    }
    let room = len.read_unaligned() as usize;
    let wide = net.v6() || net.version == clearway_script::IpVersion::V4Mapped;
    let copy = |from: *const c_void, size: usize| {
        std::ptr::copy_nonoverlapping(from.cast::<u8>(), addr.cast::<u8>(), size.min(room));
        len.write_unaligned(size as socklen_t);
    };
    if wide {
        let mut six: sockaddr_in6 = zeroed();
        six.sin6_family = AF_INET6 as libc::sa_family_t;
        six.sin6_port = endpoint.port.to_be();
        six.sin6_addr.s6_addr = *endpoint.addr.octets();
        copy((&raw const six).cast(), size_of::<sockaddr_in6>());
    } else {
        let mut four: sockaddr_in = zeroed();
        four.sin_family = AF_INET as libc::sa_family_t;
        four.sin_port = endpoint.port.to_be();
        four.sin_addr.s_addr = u32::from_ne_bytes(endpoint.addr.v4_octets());
        copy((&raw const four).cast(), size_of::<sockaddr_in>());
    }
}
