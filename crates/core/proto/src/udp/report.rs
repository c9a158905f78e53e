//! What is said of datagrams that do not arrive, and what may be done to those that are too long.

use clearway_wire::{Addr, Endpoint};

use crate::error::Unreachable;
use crate::records::Records;

/// Errors that wait for their owner, with what they quote of the datagrams' payload.
pub(super) type Reports = Records<UdpErrorReport>;

/// What a socket's datagrams do where they are longer than the path takes; the default is that they
/// are cut here, and over IPv4 by routers too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UdpFragmenting {
    /// They are refused ([`crate::UdpError::TooLong`]) instead of cut here.
    pub refused: bool,
    /// Over IPv4 routers may not cut them either: those that leave whole have DF set.
    pub dont_fragment: bool,
    /// What the path takes is what its first link takes: nothing that ICMP told is heeded, since
    /// the owner looks for himself (RFC 4821, RFC 8899).
    pub link_mtu_only: bool,
}

/// An error about one datagram (`sock_extended_err` of Linux).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdpErrorReport {
    /// Why it did not arrive. None: it was longer than `mtu`.
    pub why: Option<Unreachable>,
    /// To whom it was sent.
    pub to: Endpoint,
    /// Who said so by ICMP. None: this stack refused it.
    pub offender: Option<Addr>,
    /// Type and code of the ICMP message.
    pub icmp: (u8, u8),
    /// The longest IP packet that passes, when the datagram was longer.
    pub mtu: u32,
}
