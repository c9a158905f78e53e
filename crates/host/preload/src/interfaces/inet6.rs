//! `/proc/net/if_inet6`: addresses of IPv6, a line each.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::FromRawFd as _;

use clearway_client::Interface;

use super::{kernels_too, ours, shown};
use crate::real;

/// From `net/ipv6.h`: how far an address reaches, as the file says it.
fn scope(ip: &Ipv6Addr) -> u8 {
    match (ip.is_loopback(), ip.is_unicast_link_local()) {
        (true, _) => 0x10,
        (_, true) => 0x20,
        _ => 0,
    }
}

/// From `linux/if_addr.h`: IFA_F_PERMANENT.
const PERMANENT: u8 = 0x80;

/// The file's text with the namespace's addresses behind the kernel's, or alone, as it is
/// configured. None: there are none of the namespace's to show.
pub(crate) fn if_inet6() -> Option<String> {
    let own = lines(&ours());
    (!own.is_empty()).then(|| if kernels_too() { kernels() + &own } else { own })
}

/// Lines as Linux writes them.
pub(super) fn lines(interfaces: &[Interface]) -> String {
    let mut text = String::new();
    for one in interfaces {
        for (ip, len) in &one.addresses {
            let IpAddr::V6(ip) = ip else { continue };
            let (bits, index, scope, name) =
                (ip.to_bits(), shown(one.number), scope(ip), &one.name);
            let _ = writeln!(
                text,
                "{bits:032x} {index:02x} {len:02x} {scope:02x} {PERMANENT:02x} {name:>8}"
            );
        }
    }
    text
}

/// The file itself.
fn kernels() -> String {
    let mut text = String::new();
    // SAFETY: the path is a C string; the descriptor is nobody else's.
    unsafe {
        let fd = real::open(c"/proc/net/if_inet6".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0);
        if fd >= 0 {
            let _ = File::from_raw_fd(fd).read_to_string(&mut text);
        }
    }
    text
}
