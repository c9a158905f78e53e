//! What a packet of a burst is, from its bytes alone: the headers and the checksum of the common
//! case, an unfragmented TCP segment to an address of ours. Anything else stays slow, and is looked
//! at again in its turn.

use alloc::boxed::Box;

use clearway_pkt::{BURST, Checksum, RxMeta};
use clearway_wire::{Addr, EtherType, Malformed, eth, ipv4, ipv6, tcp};

use crate::config::Config;
use crate::counters::Drop;
use crate::flow::{FlowKey, FlowRef, FlowV4};
use crate::ids::Table;
use crate::net::frag::Fragments;
use crate::net::iface::Interface;
use crate::net::ip::Ip;
use crate::net::local::Kind;

/// How much of a packet is kept for whoever asked to hear of drops, when the packet itself has gone
/// to its connection.
pub(super) const SNAP: usize = 192;

/// What a look at a packet brought.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum Class {
    /// Goes the long way.
    Slow,
    /// Is dropped, for the reason in [`Look::why`].
    Refused,
    /// Is a segment with a good checksum; the rest of [`Look`] says more.
    Tcp,
    /// The same over IPv4, with the flow's name in [`Look::v4`].
    TcpV4,
}

/// A packet that was looked at and waits for its turn.
#[derive(Clone, Copy)]
pub(super) struct Look {
    pub(super) class: Class,
    /// Why it is dropped, if it is.
    pub(super) why: Drop,
    /// Where its record may lie, or [`FlowRef::NONE`].
    pub(super) flow: FlowRef,
    /// Where the segment lies in the frame, TCP header first.
    pub(super) start: u32,
    pub(super) len: u32,
    /// The hash of the flow's name.
    pub(super) hash: u64,
    pub(super) v4: FlowV4,
    pub(super) key: FlowKey,
}

impl Look {
    pub(super) const NONE: Look = Look {
        class: Class::Slow,
        why: Drop::PortZero,
        flow: FlowRef::NONE,
        start: 0,
        len: 0,
        hash: 0,
        v4: FlowV4::NONE,
        key: FlowKey {
            local: Addr::ANY_V4,
            remote: Addr::ANY_V4,
            local_port: 0,
            remote_port: 0,
            table: Table(0),
        },
    };

    #[cold]
    fn refuse(&mut self, why: Drop) {
        (self.class, self.why) = (Class::Refused, why);
    }
}

/// Memory that a burst needs while it is taken in, and the datagrams under reassembly.
pub(crate) struct Scratch {
    pub(super) looks: Box<[Look; BURST]>,
    pub(crate) fragments: Fragments,
    /// Which packet of the burst is being delivered. It is kept here because the way of a segment
    /// needs every register.
    pub(super) at: usize,
    /// The stack that the datagram belongs to which is being delivered, when it is another one.
    pub(super) misdelivered: Option<u16>,
    pub(super) snap: Box<[u8; SNAP]>,
    /// How much of it is the last packet's; 0 when nobody asked.
    pub(super) snapped: usize,
}

impl Scratch {
    pub(crate) fn new(config: &Config) -> Scratch {
        Scratch {
            looks: Box::new([Look::NONE; BURST]),
            fragments: Fragments::new(&config.limits),
            snap: Box::new([0; SNAP]),
            snapped: 0,
            misdelivered: None,
            at: 0,
        }
    }
}

/// What the packet before has brought to light.
pub(super) struct Known<'i> {
    /// Where it came from, or [`NO_IFACE`].
    pub(super) iface: u32,
    /// The same, if packets pass it.
    pub(super) interface: Option<&'i Interface>,
    /// The IPv4 address of ours that it was for, or [`NO_V4`].
    pub(super) ours: u64,
    /// The IPv6 address of ours that it was for, or one of IPv4.
    pub(super) ours_v6: Addr,
}

/// What no interface has as its number.
pub(super) const NO_IFACE: u32 = u32::MAX;

/// What no IPv4 address is as a number.
pub(super) const NO_V4: u64 = u64::MAX;

/// Recognises the common case and its plain faults; anything else stays slow.
#[inline(always)]
pub(super) fn classify(
    ip: &Ip,
    interface: &Interface,
    frame: &[u8],
    meta: &RxMeta,
    look: &mut Look,
    known: &mut Known<'_>,
) {
    let packet = if interface.is_ethernet() {
        let Ok(eth) = eth::check(frame) else { return };
        if eth.dst() != interface.mac || eth.src().is_multicast() || !eth.tags().is_empty() {
            return;
        }
        // That the version agrees with the type of the frame is for the slow way to say when it
        // does not.
        let version = match eth.ethertype() {
            EtherType::IPV4 => 4,
            EtherType::IPV6 => 6,
            _ => return,
        };
        if clearway_wire::ip::version(eth.payload()) != Some(version) {
            return;
        }
        eth.payload()
    } else {
        frame
    };
    look.start = (frame.len() - packet.len()) as u32;
    if let Some(plain) = ipv4::plain_tcp(packet) {
        classify_v4(ip, interface, &plain, meta, look, &mut known.ours);
    } else {
        classify_v6(ip, interface, packet, meta, look, &mut known.ours_v6);
    }
}

/// What nearly every IPv4 packet is: a whole segment behind a header without options. The same
/// questions as in [`segment`], in the same order.
#[inline(always)]
fn classify_v4(
    ip: &Ip,
    interface: &Interface,
    plain: &ipv4::PlainTcp<'_>,
    meta: &RxMeta,
    look: &mut Look,
    known: &mut u64,
) {
    let [first, ..] = plain.src;
    if !matches!(first, 1..=126 | 128..=223) {
        return;
    }
    let here = u64::from(u32::from_be_bytes(plain.dst));
    if *known != here {
        let ours = ip.locals.find(interface.table, meta.iface, &Addr::v4(plain.dst));
        if !ours.is_some_and(|l| l.kind == Kind::Unicast) || plain.dst[0] == 127 {
            return;
        }
        *known = here;
    }
    if ip.locals.may_end_in(plain.src[3])
        && ip.locals.find(interface.table, meta.iface, &Addr::v4(plain.src)).is_some()
    {
        return;
    }
    look.start += ipv4::HEADER_LEN as u32;
    look.len = plain.segment.len() as u32;
    let is_sound = match meta.checksum {
        Checksum::Good => true,
        Checksum::Bad => false,
        Checksum::Unknown => interface.offloads.trusted_link || plain.checksum_is_valid(),
    };
    if !is_sound {
        return look.refuse(bad_checksum(meta));
    }
    let (src_port, dst_port) = (plain.src_port(), plain.dst_port());
    if src_port == 0 || dst_port == 0 {
        return look.refuse(Drop::PortZero);
    }
    if src_port == dst_port && plain.src == plain.dst {
        return look.refuse(Drop::Land);
    }
    look.class = Class::TcpV4;
    look.v4 = FlowV4::new(plain.dst, plain.src, plain.ports, interface.table);
}

/// The same for IPv6, if it is that.
#[inline(never)]
fn classify_v6(
    ip: &Ip,
    interface: &Interface,
    packet: &[u8],
    meta: &RxMeta,
    look: &mut Look,
    known: &mut Addr,
) {
    let Some(plain) = ipv6::plain_tcp(packet) else { return };
    let (src, dst) = (&plain.src, &plain.dst);
    // ff00::/8 and everything below 0100:: are special.
    if matches!(src.octets()[0], 0 | 0xff) {
        return;
    }
    if *known != *dst {
        let ours = ip.locals.find(interface.table, meta.iface, dst);
        if !ours.is_some_and(|l| l.kind == Kind::Unicast) || dst.is_loopback() {
            return;
        }
        *known = *dst;
    }
    if ip.locals.may_end_in(src.octets()[15])
        && ip.locals.find(interface.table, meta.iface, src).is_some()
    {
        return;
    }
    look.start += ipv6::HEADER_LEN as u32;
    look.len = plain.segment.len() as u32;
    let is_sound = match meta.checksum {
        Checksum::Good => true,
        Checksum::Bad => false,
        Checksum::Unknown => interface.offloads.trusted_link || plain.checksum_is_valid(),
    };
    if !is_sound {
        return look.refuse(bad_checksum(meta));
    }
    let (remote_port, local_port) = ((plain.ports >> 16) as u16, plain.ports as u16);
    if remote_port == 0 || local_port == 0 {
        return look.refuse(Drop::PortZero);
    }
    if remote_port == local_port && src == dst {
        return look.refuse(Drop::Land);
    }
    look.class = Class::Tcp;
    look.key =
        FlowKey { local: *dst, remote: *src, local_port, remote_port, table: interface.table };
}

/// Why a segment whose checksum is wrong is dropped.
#[cold]
fn bad_checksum(meta: &RxMeta) -> Drop {
    if meta.checksum == Checksum::Bad {
        Drop::DeviceBadChecksum
    } else {
        Malformed::TcpBadChecksum.into()
    }
}

/// The checks that every TCP segment goes through before its flow is looked for, and the flow's
/// name.
#[inline(always)]
pub(super) fn segment(
    interface: &Interface,
    meta: &RxMeta,
    src: &Addr,
    dst: &Addr,
    l4: &[u8],
    key: &mut FlowKey,
) -> Result<(), Drop> {
    let Some([a, b, c, d, ..]) = l4.first_chunk::<{ tcp::HEADER_LEN }>() else {
        return Err(Malformed::TcpTooShort.into());
    };
    verify(meta, interface, || tcp::verify_checksum(src, dst, l4).map_err(Drop::from))?;
    *key = FlowKey {
        local: *dst,
        remote: *src,
        local_port: u16::from_be_bytes([*c, *d]),
        remote_port: u16::from_be_bytes([*a, *b]),
        table: interface.table,
    };
    if key.local_port == 0 || key.remote_port == 0 {
        return Err(Drop::PortZero);
    }
    if key.local_port == key.remote_port && src == dst {
        return Err(Drop::Land);
    }
    Ok(())
}

/// Looks at a transport checksum unless the device has, or nobody ever made one.
#[inline]
pub(super) fn verify(
    meta: &RxMeta,
    interface: &Interface,
    look: impl FnOnce() -> Result<(), Drop>,
) -> Result<(), Drop> {
    match meta.checksum {
        Checksum::Good => Ok(()),
        Checksum::Bad => Err(Drop::DeviceBadChecksum),
        Checksum::Unknown if interface.offloads.trusted_link => Ok(()),
        Checksum::Unknown => look(),
    }
}
