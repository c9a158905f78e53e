//! TCP_INFO of a connection, asked for over netlink (`sock_diag`), because the socket option has no
//! safe wrapper.

use clearway_options::InfoField;
use clearway_wire::{Addr, Endpoint};
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

use crate::backend::{Info, Net};
use crate::settings::IpVersion;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const INET_DIAG_INFO: u16 = 2;
const HEADER_LEN: usize = 16;
const REQUEST_LEN: usize = HEADER_LEN + 56;
const MESSAGE_LEN: usize = 72;
const TCP: u8 = 6;

/// Values of the connection between two ends, ours first.
pub(super) fn tcp_info(ends: (Endpoint, Endpoint), net: Net) -> Result<Info, String> {
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(SOCK_DIAG))
            .map_err(|error| format!("a netlink socket cannot be made: {error}"))?;
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&socket, &request(ends, net), SendFlags::empty(), &kernel)
        .map_err(|error| format!("sock_diag: {error}"))?;
    let mut answer = vec![0; 8192];
    let (len, _) = recv(&socket, &mut answer, RecvFlags::empty())
        .map_err(|error| format!("sock_diag: {error}"))?;
    answer.truncate(len);
    if u16_at(&answer, 4) == Some(NLMSG_ERROR) {
        return Err("the kernel knows no such connection (any more)".into());
    }
    let info =
        attribute(answer.get(HEADER_LEN + MESSAGE_LEN..).unwrap_or_default(), INET_DIAG_INFO);
    Ok(fields(info.ok_or("the kernel's answer holds no TCP_INFO")?))
}

fn request((local, remote): (Endpoint, Endpoint), net: Net) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(REQUEST_LEN);
    bytes.extend_from_slice(&(REQUEST_LEN as u32).to_ne_bytes());
    bytes.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    bytes.extend_from_slice(&[0; 8]);
    let family =
        if net.version == IpVersion::V4 { AddressFamily::INET } else { AddressFamily::INET6 };
    bytes.extend_from_slice(&[family.as_raw() as u8, TCP, 1 << (INET_DIAG_INFO - 1), 0]);
    bytes.extend_from_slice(&u32::MAX.to_ne_bytes());
    bytes.extend_from_slice(&local.port.to_be_bytes());
    bytes.extend_from_slice(&remote.port.to_be_bytes());
    for addr in [local.addr, remote.addr] {
        bytes.extend_from_slice(&place(addr, net));
    }
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&[0xff; 8]);
    bytes
}

/// IPv4 addresses stand at the front, but mapped ones stand whole.
fn place(addr: Addr, net: Net) -> [u8; 16] {
    if net.version != IpVersion::V4 {
        return *addr.octets();
    }
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&addr.v4_octets());
    bytes
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

/// The attribute of a kind out of a list: length and kind in two bytes each, then the value, padded
/// to four.
fn attribute(mut bytes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let len = usize::from(u16_at(bytes, 0)?);
        if u16_at(bytes, 2)? == kind {
            return bytes.get(4..len);
        }
        bytes = bytes.get(len.max(4).next_multiple_of(4)..)?;
    }
}

/// The values that the kernel told: older ones tell fewer.
fn fields(bytes: &[u8]) -> Info {
    let value = |field: &InfoField| Some((field.name, field.read(bytes)? as i64));
    clearway_options::Info::FIELDS.iter().filter_map(value).collect()
}
