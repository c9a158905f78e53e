//! Which interfaces there are: `getifaddrs` and its like show a program the namespace's, beside the
//! kernel's or alone, as it is configured.
//!
//! Their numbers stand far above those that the kernel gives, so that a number says whose an
//! interface is, also in IP_PKTINFO.

use std::ffi::{CStr, c_char, c_int, c_uint};

use clearway_client::{Interface, ShownInterfaces};

use crate::export::guarded;
use crate::process::{self, Host};
use crate::real;

mod asked;
mod inet6;
mod list;
mod name;
pub(crate) mod netlink;
pub(crate) mod scope;
#[cfg(test)]
mod tests;

pub(crate) use asked::{ioctl, is_asked};
pub(crate) use inet6::if_inet6;

/// What is added to the number of an interface of Clearway's.
const BASE: u32 = 1_000_000;

/// IFNAMSIZ: bytes of a name with the NUL at its end.
const NAME_LEN: usize = libc::IF_NAMESIZE;

/// The index that a program sees; none stays none.
pub(crate) fn shown(number: u32) -> u32 {
    if number == 0 { 0 } else { number.saturating_add(BASE) }
}

/// The number of the interface of Clearway's that a program means by an index. None: it means one
/// of the kernel's.
pub(crate) fn inner(index: u32) -> Option<u32> {
    if index == 0 { Some(0) } else { index.checked_sub(BASE).filter(|number| *number > 0) }
}

/// Whose interfaces a program is shown.
fn policy() -> ShownInterfaces {
    match process::host() {
        Host::Here(client) => client.config().interfaces,
        Host::Absent | Host::Closed => ShownInterfaces::Kernel,
    }
}

/// The namespace's interfaces, if programs are shown them.
fn ours() -> Vec<Interface> {
    match (policy(), process::client()) {
        (ShownInterfaces::Kernel, _) | (_, None) => Vec::new(),
        // When the host goes away meanwhile, it has none.
        (_, Some(client)) => client.interfaces().unwrap_or_default(),
    }
}

fn kernels_too() -> bool {
    policy() != ShownInterfaces::Clearway
}

/// The name in C's form, cut to what C has room for.
fn c_name(name: &str) -> [u8; NAME_LEN] {
    let mut out = [0; NAME_LEN];
    let len = name.len().min(NAME_LEN - 1);
    out[..len].copy_from_slice(&name.as_bytes()[..len]);
    out
}

/// What a program calls an interface, up to the NUL or the end.
fn is_called(one: &Interface, name: &[u8]) -> bool {
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let own = c_name(&one.name);
    let own = own.split(|byte| *byte == 0).next().unwrap_or_default();
    !name.is_empty() && own == name
}

/// The interface of Clearway's of this name.
pub(crate) fn named(name: &[u8]) -> Option<Interface> {
    ours().into_iter().find(|one| is_called(one, name))
}

/// The namespace has this interface, and no other.
pub(crate) fn is_the_only(name: &[u8]) -> bool {
    matches!(&ours()[..], [one] if is_called(one, name))
}

/// The interface of Clearway's of this index.
fn numbered(index: u32) -> Option<Interface> {
    let number = inner(index).filter(|number| *number > 0)?;
    ours().into_iter().find(|one| one.number == number)
}

/// `if_nametoindex(3)`
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn if_nametoindex(name: *const c_char) -> c_uint {
    let found = guarded(|| {
        // SAFETY: a C string of the caller's.
        (!name.is_null()).then(|| named(unsafe { CStr::from_ptr(name) }.to_bytes())).flatten()
    });
    match found {
        Some(one) => shown(one.number),
        // SAFETY: the caller keeps to what the function asks.
        None => unsafe { real::if_nametoindex(name) },
    }
}

/// `if_indextoname(3)`
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn if_indextoname(
    index: c_uint,
    name: *mut c_char,
) -> *mut c_char {
    match guarded(|| numbered(index)) {
        Some(one) => {
            // SAFETY: the caller has room for IF_NAMESIZE bytes.
            unsafe { name.cast::<[u8; NAME_LEN]>().write(c_name(&one.name)) };
            name
        }
        // SAFETY: the caller keeps to what the function asks.
        None => unsafe { real::if_indextoname(index, name) },
    }
}

/// IFF_* of an interface.
fn flags(one: &Interface) -> c_int {
    let mut flags = if one.up { libc::IFF_UP | libc::IFF_RUNNING | libc::IFF_LOWER_UP } else { 0 };
    flags |= match (one.loopback, one.link_addr) {
        (true, _) => libc::IFF_LOOPBACK,
        (false, Some(_)) => libc::IFF_BROADCAST | libc::IFF_MULTICAST,
        (false, None) => libc::IFF_POINTOPOINT | libc::IFF_NOARP | libc::IFF_MULTICAST,
    };
    flags
}

/// ARPHRD_* of an interface.
fn hardware(one: &Interface) -> u16 {
    match (one.loopback, one.link_addr) {
        (true, _) => libc::ARPHRD_LOOPBACK,
        (false, Some(_)) => libc::ARPHRD_ETHER,
        (false, None) => libc::ARPHRD_NONE,
    }
}
