//! Interfaces: where packets come from and go to.

use clearway_pkt::{Iface, Offloads};
use clearway_wire::{Addr, Cidr, Mac, eth};

use crate::ids::Table;

/// What the frames of an interface begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// An Ethernet header; the link address's own address is given.
    Ethernet(Mac),
    /// The IP header: a TUN device.
    Raw,
    /// The IP header, and what is sent comes back: packets between addresses of this host.
    Loopback,
}

/// An interface to be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterfaceSpec {
    /// What its frames begin with.
    pub link: Link,
    /// The longest IP packet in bytes, 576 to 65535 (RFC 791 3.1; IPv6 addresses need 1280, RFC
    /// 8200 5).
    pub mtu: u32,
    /// What its device does so that the stack need not.
    pub offloads: Offloads,
    /// The routing table that its packets are looked up in.
    pub table: Table,
}

/// Why an interface, address, route or neighbour was not added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddError {
    /// The table for such things is full; see [`crate::Limits`].
    Full,
    /// There is no such interface.
    NoInterface,
    /// There is no such routing table; see [`crate::Limits::tables`].
    NoTable,
    /// It is there already.
    Exists,
    /// The address is unspecified, multicast, a broadcast address or the subnet's own, or does not
    /// fit the interface.
    BadAddress,
    /// The gateway is on no link of ours, or is ourselves.
    BadGateway,
    /// The MTU is not between 576 and 65535, or an IPv6 address was given to a link with an MTU
    /// below 1280.
    BadMtu,
}

/// The smallest MTU that an interface may have (RFC 791 3.2: every host accepts 576).
pub(crate) const MIN_MTU: u32 = 576;
/// The longest IP packet.
pub(crate) const MAX_MTU: u32 = 65_535;

/// One interface.
pub(crate) struct Interface {
    pub(crate) link: Link,
    /// Our link address's address; zero without Ethernet.
    pub(crate) mac: Mac,
    /// Bytes before the IP header.
    pub(crate) link_len: u8,
    pub(crate) up: bool,
    pub(crate) mtu: u32,
    pub(crate) table: Table,
    pub(crate) offloads: Offloads,
}

impl Interface {
    pub(crate) fn new(spec: &InterfaceSpec) -> Interface {
        let (mac, link_len) = match spec.link {
            Link::Ethernet(mac) => (mac, eth::HEADER_LEN as u8),
            Link::Raw | Link::Loopback => (Mac::ZERO, 0),
        };
        Interface {
            link: spec.link,
            mac,
            link_len,
            up: true,
            mtu: spec.mtu,
            table: spec.table,
            offloads: spec.offloads,
        }
    }

    pub(crate) fn is_ethernet(&self) -> bool {
        self.link_len != 0
    }

    pub(crate) fn is_loopback(&self) -> bool {
        self.link == Link::Loopback
    }
}

/// What can be seen of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterfaceInfo {
    /// Its number.
    pub iface: Iface,
    /// What its frames begin with.
    pub link: Link,
    /// Whether packets pass.
    pub up: bool,
    /// The longest IP packet in bytes.
    pub mtu: u32,
    /// Its routing table.
    pub table: Table,
    /// What its device does so that the stack need not.
    pub offloads: Offloads,
}

/// An address of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressInfo {
    /// The interface.
    pub iface: Iface,
    /// The address with its prefix length.
    pub cidr: Cidr,
    /// It is not for new connections while there is another ([`crate::Stack::deprecate_address`]).
    pub deprecated: bool,
}

/// The link-local address that RFC 4291 appendix A makes of a link address's address (`fe80::` and
/// the modified EUI-64).
pub(crate) fn link_local(mac: Mac) -> Addr {
    let [a, b, c, d, e, f] = mac.0;
    Addr::v6([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}
