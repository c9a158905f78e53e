//! What is said of datagrams that do not arrive, what may be done to those that are too long, and
//! what is told of those that have left.

use alloc::vec::Vec;

use clearway_base::Duration;
use clearway_pkt::Iface;
use clearway_wire::{Addr, Endpoint};

use crate::error::Unreachable;
use crate::ids::UdpId;
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
    /// When it came, since the start of 1970; zero where nobody told the stack
    /// ([`crate::Stack::set_calendar`]).
    pub at: Duration,
}

/// What is to be told when a datagram has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdpStamp {
    /// The owner's word for it.
    pub key: u32,
    /// To be told that the device has it in its queue.
    pub scheduled: bool,
    /// To be told that it has left.
    pub sent: bool,
    /// The payload is to be kept and told as well.
    pub keeps_payload: bool,
}

/// What became of a datagram. This stack has no queue before the device, so that both are at one
/// time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UdpLeft {
    /// It went to the queue of its device.
    Scheduled,
    /// It has left.
    Sent,
}

/// A datagram has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdpStamped {
    /// What its owner said of it.
    pub stamp: UdpStamp,
    /// What is told of it.
    pub what: UdpLeft,
    /// When, since the start of 1970 ([`crate::Stack::set_calendar`]).
    pub at: Duration,
    /// From whom.
    pub from: Endpoint,
    /// To whom.
    pub to: Endpoint,
    /// IPv4 TOS or IPv6 traffic class.
    pub tos: u8,
    /// IPv4 TTL or IPv6 hop limit.
    pub ttl: u8,
    /// By which interface.
    pub iface: Option<Iface>,
}

/// What of one socket has left and was not asked for.
pub(super) type Stamps = Records<UdpStamped>;

/// Sockets of which something has left since the last look.
#[derive(Default)]
pub(super) struct Stamping {
    /// What the calendar shows.
    pub(super) calendar: Duration,
    pub(super) told: Vec<UdpId>,
}
