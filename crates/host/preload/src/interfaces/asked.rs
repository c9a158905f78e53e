//! `ioctl` with `SIOCGIF*`.

use std::ffi::{c_char, c_int, c_long, c_ulong, c_void};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use clearway_client::Interface;

use super::list::{broadcast, mask};
use super::{NAME_LEN, c_name, flags, hardware, kernels_too, named, numbered, shown};
use crate::errno::{Answer, check, fail};
use crate::export::Inside;
use crate::given;
use crate::{object, real};

/// From `linux/sockios.h`; the `libc` crate has not all of these.
const SIOCGIFNAME: c_ulong = 0x8910;
const SIOCGIFCONF: c_ulong = 0x8912;
const SIOCGIFFLAGS: c_ulong = 0x8913;
const SIOCGIFADDR: c_ulong = 0x8915;
const SIOCGIFDSTADDR: c_ulong = 0x8917;
const SIOCGIFBRDADDR: c_ulong = 0x8919;
const SIOCGIFNETMASK: c_ulong = 0x891b;
const SIOCGIFMETRIC: c_ulong = 0x891d;
const SIOCGIFMTU: c_ulong = 0x8921;
const SIOCGIFHWADDR: c_ulong = 0x8927;
const SIOCGIFINDEX: c_ulong = 0x8933;
const SIOCGIFTXQLEN: c_ulong = 0x8942;

/// `struct ifreq`: a name, and 24 bytes that are what the request says.
#[repr(C)]
struct Asked {
    name: [u8; NAME_LEN],
    value: [u8; 24],
}

/// `struct ifconf`.
#[repr(C)]
struct Conf {
    len: c_int,
    buf: *mut c_char,
}

/// The request is about interfaces.
pub(crate) fn is_asked(request: c_ulong) -> bool {
    matches!(
        request,
        SIOCGIFNAME
            | SIOCGIFCONF
            | SIOCGIFFLAGS
            | SIOCGIFADDR
            | SIOCGIFDSTADDR
            | SIOCGIFBRDADDR
            | SIOCGIFNETMASK
            | SIOCGIFMETRIC
            | SIOCGIFMTU
            | SIOCGIFHWADDR
            | SIOCGIFINDEX
            | SIOCGIFTXQLEN
    )
}

/// Answers for an interface of Clearway's. None: it is a matter of the kernel's.
///
/// # Safety
/// The word is what the program gave to `ioctl`, and valid as the request asks.
pub(crate) unsafe fn ioctl(fd: c_int, request: c_ulong, word: c_long) -> Inside<c_int> {
    if word == 0 {
        return None;
    }
    if request == SIOCGIFCONF {
        // SAFETY: the caller's structure.
        return match given::writable(word as usize as *mut c_void, size_of::<Conf>()) {
            // SAFETY: the caller's structure.
            Ok(()) => unsafe { list(fd, &mut *(word as usize as *mut Conf)) },
            Err(errno) => Some(Err(errno)),
        };
    }
    if let Err(errno) = given::writable(word as usize as *mut c_void, size_of::<Asked>()) {
        return Some(Err(errno));
    }
    // SAFETY: the caller's structure.
    let asked = unsafe { &mut *(word as usize as *mut Asked) };
    let one = match request {
        SIOCGIFNAME => numbered(c_int::from_ne_bytes(*asked.value.first_chunk()?) as u32),
        _ => named(&asked.name),
    };
    match one {
        Some(one) if request == SIOCGIFNAME => {
            asked.name = c_name(&one.name);
            Some(Ok(0))
        }
        Some(one) => Some(answer(&one, request, &mut asked.value).map(|()| 0)),
        None => with_kernels_socket(fd, request, word),
    }
}

/// What is behind a descriptor of ours is no socket of the internet to the kernel, which a program
/// may ask of its own interfaces through it.
fn with_kernels_socket(fd: c_int, request: c_ulong, word: c_long) -> Inside<c_int> {
    object::ours(fd)?;
    // SAFETY: makes a socket that nobody else knows; the word is the caller's.
    let asked =
        check(unsafe { real::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })
            .and_then(|raw| {
                // SAFETY: as above.
                unsafe {
                    let kernels = OwnedFd::from_raw_fd(raw);
                    check(real::ioctl(kernels.as_raw_fd(), request, word))
                }
            });
    Some(asked)
}

fn answer(one: &Interface, request: c_ulong, value: &mut [u8; 24]) -> Answer<()> {
    // Of several addresses that one is meant which stands there, if one does (as `ifconf` gave it),
    // and else the first.
    let v4 = || {
        let asked = given_v4(value);
        let all = || {
            one.addresses.iter().filter_map(|(ip, len)| match ip {
                IpAddr::V4(v4) => Some((*v4, *len)),
                IpAddr::V6(_) => None,
            })
        };
        all().find(|(ip, _)| Some(*ip) == asked).or_else(|| all().next())
    };
    let number =
        |value: &mut [u8; 24], number: c_int| value[..4].copy_from_slice(&number.to_ne_bytes());
    match request {
        // Linux shows the lower half here.
        SIOCGIFFLAGS => value[..2].copy_from_slice(&(flags(one) as u16).to_ne_bytes()),
        SIOCGIFMTU => number(value, c_int::try_from(one.mtu).unwrap_or(c_int::MAX)),
        SIOCGIFINDEX => number(value, shown(one.number) as c_int),
        SIOCGIFMETRIC => number(value, 0),
        SIOCGIFTXQLEN => number(value, 1000),
        SIOCGIFHWADDR => {
            value.fill(0);
            value[..2].copy_from_slice(&hardware(one).to_ne_bytes());
            value[2..8].copy_from_slice(&one.link_addr.unwrap_or_default());
        }
        _ => {
            let Some((ip, len)) = v4() else { return fail(libc::EADDRNOTAVAIL) };
            let ip = match (request, mask(IpAddr::V4(ip), len)) {
                (SIOCGIFNETMASK, IpAddr::V4(mask)) => mask,
                (SIOCGIFBRDADDR, _) => {
                    broadcast(one, IpAddr::V4(ip), len).unwrap_or(Ipv4Addr::UNSPECIFIED)
                }
                _ => ip,
            };
            in_v4(value, ip);
        }
    }
    Ok(())
}

/// The IPv4 address that stands there as a `sockaddr`, if it is one.
fn given_v4(value: &[u8; 24]) -> Option<Ipv4Addr> {
    let family = u16::from_ne_bytes(*value.first_chunk()?);
    let octets: [u8; 4] = *value[4..].first_chunk()?;
    (family == libc::AF_INET as u16).then_some(octets.into())
}

/// An IPv4 address as a `sockaddr`.
fn in_v4(value: &mut [u8; 24], ip: Ipv4Addr) {
    value.fill(0);
    value[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    value[4..8].copy_from_slice(&ip.octets());
}

/// All IPv4 addresses: the kernel's, if they are shown, and then ours.
///
/// # Safety
/// The structure names the program's buffer, or none.
unsafe fn list(fd: c_int, conf: &mut Conf) -> Inside<c_int> {
    let list = super::ours();
    let word = (&raw mut *conf).addr() as c_long;
    if list.is_empty() {
        return with_kernels_socket(fd, SIOCGIFCONF, word);
    }
    let room = usize::try_from(conf.len).unwrap_or(0);
    if kernels_too() {
        // SAFETY: the caller's own structure.
        let asked = with_kernels_socket(fd, SIOCGIFCONF, word)
            .unwrap_or_else(|| check(unsafe { real::ioctl(fd, SIOCGIFCONF, word) }));
        if let Err(errno) = asked {
            return Some(Err(errno));
        }
    } else {
        conf.len = 0;
    }
    let mut used = usize::try_from(conf.len).unwrap_or(0);
    for one in &list {
        for (ip, _) in &one.addresses {
            let IpAddr::V4(ip) = ip else { continue };
            if !conf.buf.is_null() && used + size_of::<Asked>() > room {
                continue;
            }
            if !conf.buf.is_null() {
                let mut entry = Asked { name: c_name(&one.name), value: [0; 24] };
                in_v4(&mut entry.value, *ip);
                let place = conf.buf.wrapping_add(used).cast::<Asked>();
                if let Err(errno) = given::writable(place.cast(), size_of::<Asked>()) {
                    return Some(Err(errno));
                }
                // SAFETY: there is room for it in the program's buffer.
                unsafe { place.write_unaligned(entry) };
            }
            used += size_of::<Asked>();
        }
    }
    conf.len = c_int::try_from(used).unwrap_or(c_int::MAX);
    Some(Ok(0))
}
