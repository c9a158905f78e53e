//! Addresses of the kernel's side, by one message of rtnetlink (Linux `rtnetlink(7)`,
//! `netlink(7)`).

use std::io;
use std::os::fd::AsRawFd;

use clearway_wire::Cidr;
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

/// Gives the interface an address; that it has it already is no error.
pub(crate) fn add(name: &str, cidr: Cidr) -> io::Result<()> {
    let index = if_nametoindex(name)?;
    let kind = SockType::Raw;
    let fd =
        socket(AddressFamily::Netlink, kind, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?;
    send(fd.as_raw_fd(), &request(index, cidr), MsgFlags::empty())?;
    // The acknowledgement, with the request quoted.
    let mut answer = [0; 1_024];
    let len = recv(fd.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    match verdict(&answer[..len]) {
        Some(0) => Ok(()),
        Some(errno) if errno == -libc::EEXIST => Ok(()),
        Some(errno) => Err(Errno::from_raw(-errno).into()),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Bytes of `struct nlmsghdr`.
const HEADER_LEN: usize = 16;
/// Bytes of `struct ifaddrmsg`.
const BODY_LEN: usize = 8;
/// Bytes before the value of an attribute.
const ATTRIBUTE_LEN: usize = 4;

/// RTM_NEWADDR with the address as IFA_LOCAL and IFA_ADDRESS.
fn request(index: u32, cidr: Cidr) -> Vec<u8> {
    let address = cidr.addr.wire_bytes();
    let family = if cidr.addr.is_v4() { libc::AF_INET } else { libc::AF_INET6 };
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let len = HEADER_LEN + BODY_LEN + 2 * (ATTRIBUTE_LEN + address.len());
    let mut message = Vec::with_capacity(len);
    message.extend_from_slice(&(len as u32).to_ne_bytes());
    message.extend_from_slice(&libc::RTM_NEWADDR.to_ne_bytes());
    message.extend_from_slice(&(flags as u16).to_ne_bytes());
    // Sequence number, and the port that the kernel fills in.
    message.extend_from_slice(&1u32.to_ne_bytes());
    message.extend_from_slice(&0u32.to_ne_bytes());
    // No flags, and the scope of everywhere.
    message.extend_from_slice(&[family as u8, cidr.prefix_len, 0, 0]);
    message.extend_from_slice(&index.to_ne_bytes());
    for kind in [libc::IFA_LOCAL, libc::IFA_ADDRESS] {
        message.extend_from_slice(&((ATTRIBUTE_LEN + address.len()) as u16).to_ne_bytes());
        message.extend_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(address);
    }
    message
}

/// The number in an NLMSG_ERROR message: 0, or an errno below zero.
fn verdict(answer: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(*answer.get(4..)?.first_chunk()?);
    let number = i32::from_ne_bytes(*answer.get(HEADER_LEN..)?.first_chunk()?);
    (i32::from(kind) == libc::NLMSG_ERROR).then_some(number)
}
