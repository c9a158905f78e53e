//! Addresses as C has them.

use core::ffi::c_char;
use core::fmt::Write;
use core::net::SocketAddr;

use clearway_wire::{Addr, Endpoint};

use crate::memory::{is_there, items_mut, put, read, text};
use crate::status::{answer, clw_status};

/// An IPv4 or IPv6 address. IPv4 stands in its mapped form, `::ffff:a.b.c.d`; all zero is `::`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct clw_addr {
    /// In the order in which they are sent.
    pub bytes: [u8; 16],
}

/// An address and a port.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct clw_endpoint {
    /// The address.
    pub addr: clw_addr,
    /// The port, in the byte order of the machine.
    pub port: u16,
}

/// The longest text that an address or an address with a prefix length can be, its zero byte
/// counted.
pub const CLW_ADDR_TEXT: usize = 52;

impl From<clw_addr> for Addr {
    fn from(addr: clw_addr) -> Addr {
        Addr::v6(addr.bytes)
    }
}

impl From<Addr> for clw_addr {
    fn from(addr: Addr) -> clw_addr {
        clw_addr { bytes: *addr.octets() }
    }
}

impl From<clw_endpoint> for Endpoint {
    fn from(endpoint: clw_endpoint) -> Endpoint {
        Endpoint::new(endpoint.addr.into(), endpoint.port)
    }
}

impl From<Endpoint> for clw_endpoint {
    fn from(endpoint: Endpoint) -> clw_endpoint {
        clw_endpoint { addr: endpoint.addr.into(), port: endpoint.port }
    }
}

/// The IPv4 address `a.b.c.d`.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub extern "C" fn clw_ipv4(a: u8, b: u8, c: u8, d: u8) -> clw_addr {
    Addr::v4([a, b, c, d]).into()
}

/// Reads an address, such as `10.0.0.2` or `2001:db8::2`, from a text that ends with a zero byte.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_addr_parse(from: *const c_char, addr: *mut clw_addr) -> clw_status {
    answer((|| {
        is_there(addr)?;
        let parsed: Addr =
            text(from, CLW_ADDR_TEXT)?.parse().map_err(|_| clw_status::CLW_INVALID)?;
        put(addr, parsed.into());
        Ok(())
    })())
}

/// Reads an address and a port, such as `10.0.0.2:80` or `[2001:db8::2]:80`, from a text that ends
/// with a zero byte.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_endpoint_parse(
    from: *const c_char,
    endpoint: *mut clw_endpoint,
) -> clw_status {
    answer((|| {
        is_there(endpoint)?;
        let parsed: SocketAddr =
            text(from, CLW_ADDR_TEXT)?.parse().map_err(|_| clw_status::CLW_INVALID)?;
        put(endpoint, Endpoint::from(parsed).into());
        Ok(())
    })())
}

/// Writes an address as text with a zero byte at its end; `CLW_ADDR_TEXT` bytes are always enough.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_addr_format(
    addr: *const clw_addr,
    out: *mut c_char,
    capacity: usize,
) -> clw_status {
    answer((|| {
        let addr: Addr = read(addr)?.into();
        is_there(out)?;
        let mut line = Line { out: items_mut(out.cast::<u8>(), capacity)?, len: 0 };
        write!(line, "{addr}\0").map_err(|_| clw_status::CLW_TOO_LONG)
    })())
}

struct Line<'a> {
    out: &'a mut [u8],
    len: usize,
}

impl Write for Line<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = self.out.get_mut(self.len..self.len + text.len()).ok_or(core::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}
