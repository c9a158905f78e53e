//! The way in: a burst is first classified as a whole, then looked up as a whole, then delivered as a whole.
//!
//! Classifying checks headers and checksum of the common case, an unfragmented TCP segment to an address of ours. Looking up finds its flow and
//! asks the processor to fetch it; while the next one is looked up, the flow of the one before arrives. Everything uncommon is only marked,
//! and goes through `ingest/slow.rs` in its turn, so that the order of packets is kept.

mod slow;

use alloc::boxed::Box;

use clearway_base::Instant;
use clearway_pkt::{BURST, Buf, Burst, Checksum, RxMeta};
use clearway_wire::tcp::Plain;
use clearway_wire::{Addr, EtherType, Malformed, eth, ipv4, ipv6, tcp};

use crate::Table;
use crate::config::Config;
use crate::counters::Drop;
use crate::flow::{FlowKey, FlowRef, FlowV4, Found, Name};
use crate::frag::Fragments;
use crate::iface::Interface;
use crate::ip::Ip;
use crate::local::Kind;
use crate::stack::Stack;
use crate::store::Env;
use crate::tcp::Cx;

/// Makes a packet buffer that holds a copy of the bytes given; None when there is no memory.
pub type BufferMaker<B> = Box<dyn FnMut(&[u8]) -> Option<B>>;

/// How much of a packet is kept for whoever asked to hear of drops, when the packet itself has gone to its connection.
const SNAP: usize = 192;

/// What a look at a packet brought.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Class {
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
struct Look {
    class: Class,
    /// Why it is dropped, if it is.
    why: Drop,
    /// Where its record may lie, or [`FlowRef::NONE`].
    flow: FlowRef,
    /// Where the segment lies in the frame, TCP header first.
    start: u32,
    len: u32,
    /// The hash of the flow's name.
    hash: u64,
    v4: FlowV4,
    key: FlowKey,
}

impl Look {
    const NONE: Look = Look {
        class: Class::Slow,
        why: Drop::PortZero,
        flow: FlowRef::NONE,
        start: 0,
        len: 0,
        hash: 0,
        v4: FlowV4::NONE,
        key: FlowKey { local: Addr::ANY_V4, remote: Addr::ANY_V4, local_port: 0, remote_port: 0, table: Table(0) },
    };
}

impl Look {
    #[cold]
    fn refuse(&mut self, why: Drop) {
        (self.class, self.why) = (Class::Refused, why);
    }
}

/// The payload of a packet that is still in its burst.
pub(crate) struct Payload<'b, B> {
    burst: &'b mut Burst<B>,
    at: usize,
    /// How many bytes stand in the buffer before it.
    pub(crate) front: u32,
    /// How many bytes it has.
    pub(crate) len: u32,
}

impl<B: Buf> Payload<'_, B> {
    /// The size of the segments that a device has joined into it; 0 when it has not.
    #[inline(always)]
    pub(crate) fn segment_size(&self) -> u16 {
        self.burst.peek(self.at).map_or(0, |(_, meta)| meta.segment_size)
    }

    /// The buffer that it lies in.
    #[inline(always)]
    pub(crate) fn take(self) -> Option<B> {
        self.burst.take_buf(self.at)
    }

    /// The packet is of no more use.
    #[inline(always)]
    pub(crate) fn discard(self) {
        self.burst.take_buf(self.at);
    }
}

/// Memory that a burst needs while it is taken in, and the datagrams under reassembly.
pub(crate) struct Scratch {
    looks: Box<[Look; BURST]>,
    pub(crate) fragments: Fragments,
    /// Which packet of the burst is being delivered. It is kept here because the way of a segment needs every register.
    at: usize,
    /// The stack that the datagram belongs to which is being delivered, when it is another one.
    stray: Option<u16>,
    snap: Box<[u8; SNAP]>,
    /// How much of it is the last packet's; 0 when nobody asked.
    snapped: usize,
}

impl Scratch {
    pub(crate) fn new(config: &Config) -> Scratch {
        Scratch {
            looks: Box::new([Look::NONE; BURST]),
            fragments: Fragments::new(&config.limits),
            snap: Box::new([0; SNAP]),
            snapped: 0,
            stray: None,
            at: 0,
        }
    }
}

impl<E: Env> Stack<E> {
    /// Takes the packets of a burst in. What they ask for is only marked: `emit` sends.
    pub fn ingest(&mut self, now: Instant, burst: &mut Burst<E::Buf>) {
        self.ingest_all(now, burst, &mut |_, _, _| {}, false);
    }

    /// As [`Stack::ingest`], and tells of each packet that is dropped: why, what came with it, and at least the first part of its bytes.
    pub fn ingest_with(
        &mut self,
        now: Instant,
        burst: &mut Burst<E::Buf>,
        on_drop: &mut dyn FnMut(Drop, &RxMeta, &[u8]),
    ) {
        self.ingest_all(now, burst, on_drop, true);
    }

    /// Where buffers come from when a segment has to be put together from fragments, or has to be kept in several pieces. Without one, fragmented TCP is
    /// dropped and counted ([`Drop::FragmentNoBuffer`]), and of a segment that covers several holes only the first piece is kept.
    pub fn set_buffer_maker(&mut self, maker: BufferMaker<E::Buf>) {
        self.tcp.pools.buffers = Some(maker);
    }

    fn ingest_all(
        &mut self,
        now: Instant,
        burst: &mut Burst<E::Buf>,
        on_drop: &mut dyn FnMut(Drop, &RxMeta, &[u8]),
        keep_head: bool,
    ) {
        self.scratch.snapped = 0;
        let bytes_in = self.classify_all(burst);
        self.look_up_all(burst.len());
        self.tcp.set_now(now);
        self.counters.ip.packets_in += burst.len() as u64;
        self.counters.ip.bytes_in += bytes_in;
        // Those that are not, are taken off again.
        self.counters.ip.delivered += burst.len() as u64;
        self.scratch.at = 0;
        while self.scratch.at < burst.len() {
            if keep_head {
                self.keep_head(burst);
            }
            match self.deliver_plain(now, burst) {
                Some(Ok(())) => {}
                other => self.deliver(now, burst, other, on_drop),
            }
            self.scratch.at += 1;
        }
        burst.reset();
    }

    /// Keeps the first part of a packet for whoever is told of drops.
    #[cold]
    #[inline(never)]
    fn keep_head(&mut self, burst: &Burst<E::Buf>) {
        let bytes = burst.peek(self.scratch.at).map_or(&[][..], |(buf, _)| buf.bytes());
        let bytes = &bytes[..bytes.len().min(SNAP)];
        self.scratch.snap[..bytes.len()].copy_from_slice(bytes);
        self.scratch.snapped = bytes.len();
    }

    /// Looks at every packet of the burst; says how many bytes there are in all.
    #[inline(never)]
    fn classify_all(&mut self, burst: &Burst<E::Buf>) -> u64 {
        let mut bytes_in = 0;
        let Stack { ip, scratch, .. } = self;
        let mut known = Known { iface: NO_IFACE, interface: None, ours: NO_V4, ours_v6: Addr::ANY_V4 };
        for (look, packet) in scratch.looks.iter_mut().zip(burst.packets()) {
            look.class = Class::Slow;
            let Some((buf, meta)) = packet else { continue };
            let frame = buf.bytes();
            bytes_in += frame.len() as u64;
            if known.iface != u32::from(meta.iface.0) {
                let interface = ip.interface(meta.iface).filter(|i| i.up);
                known = Known { iface: meta.iface.0.into(), interface, ours: NO_V4, ours_v6: Addr::ANY_V4 };
            }
            if let Some(interface) = known.interface {
                classify(ip, interface, frame, meta, look, &mut known);
            }
        }
        bytes_in
    }

    /// Looks up the flows of the segments among the first `n` packets, and asks the processor for their records.
    #[inline(never)]
    fn look_up_all(&mut self, n: usize) {
        let Stack { tcp, scratch, .. } = self;
        if tcp.is_far() {
            return self.look_up_far(n);
        }
        for look in scratch.looks.get_mut(..n).unwrap_or(&mut []) {
            look.hash = match look.class {
                Class::TcpV4 => tcp.hash_v4(&look.v4),
                Class::Tcp => tcp.hash(&look.key),
                _ => continue,
            };
            look.flow = tcp.lookup_hash(look.hash).unwrap_or(FlowRef::NONE);
            tcp.prefetch(look.flow);
        }
    }

    /// As [`Stack::look_up_all`], when each step for each segment finds its memory far away: a step for all segments asks for what the next step reads.
    #[inline(never)]
    fn look_up_far(&mut self, n: usize) {
        let Stack { tcp, scratch, .. } = self;
        let looks = scratch.looks.get_mut(..n).unwrap_or(&mut []);
        for look in &mut *looks {
            look.flow = FlowRef::NONE;
            look.hash = match look.class {
                Class::TcpV4 => tcp.hash_v4(&look.v4),
                Class::Tcp => tcp.hash(&look.key),
                _ => continue,
            };
            tcp.prefetch_flow(look.hash);
        }
        for look in looks.iter_mut().filter(|look| matches!(look.class, Class::TcpV4 | Class::Tcp)) {
            look.flow = tcp.lookup_hash(look.hash).unwrap_or(FlowRef::NONE);
            tcp.prefetch_far(look.flow);
        }
        for look in looks {
            tcp.prefetch_sent(look.flow);
        }
    }

    /// Delivers the packet whose turn it is, if it is a segment that its connection expects. None: it is something else, and nothing has changed.
    #[inline(always)]
    fn deliver_plain(&mut self, now: Instant, burst: &mut Burst<E::Buf>) -> Option<Result<(), Drop>> {
        let Scratch { looks, at, .. } = &self.scratch;
        let look = looks.get(*at)?;
        if !matches!(look.class, Class::TcpV4 | Class::Tcp) {
            return None;
        }
        let (buf, _) = burst.peek(*at)?;
        let start = look.start as usize;
        let segment = buf.bytes().get(start..start + look.len as usize)?;
        match tcp::plain_with_stamps(segment) {
            Some(seg) => self.deliver_expected(now, burst, &seg),
            None => self.deliver_without_options(now, burst),
        }
    }

    #[cold]
    #[inline(never)]
    fn deliver_without_options(&mut self, now: Instant, burst: &mut Burst<E::Buf>) -> Option<Result<(), Drop>> {
        let Scratch { looks, at, .. } = &self.scratch;
        let look = looks.get(*at)?;
        let (buf, _) = burst.peek(*at)?;
        let start = look.start as usize;
        let seg = tcp::plain_without_options(buf.bytes().get(start..start + look.len as usize)?)?;
        self.deliver_expected(now, burst, &seg)
    }

    #[inline(always)]
    fn deliver_expected(&mut self, now: Instant, burst: &mut Burst<E::Buf>, seg: &Plain) -> Option<Result<(), Drop>> {
        let Stack { config, counters, ip, replies, scratch, tcp: tcp_side, .. } = self;
        let Scratch { looks, at, .. } = scratch;
        let look = looks.get(*at)?;
        let len = look.len - u32::from(seg.header_len);
        let name = match look.class {
            Class::TcpV4 => Name::V4(&look.v4),
            _ => Name::Any(&look.key),
        };
        let index = tcp_side.plain(look.flow, name, seg, len)?;
        let payload = Payload { front: look.start + u32::from(seg.header_len), len, burst, at: *at };
        let mut cx = Cx { config, counters, replies, ip };
        Some(tcp_side.on_plain(now, &mut cx, index, seg, payload))
    }

    /// Delivers the packet whose turn it is, unless that was tried already with this `result`.
    #[cold]
    #[inline(never)]
    fn deliver(
        &mut self,
        now: Instant,
        burst: &mut Burst<E::Buf>,
        result: Option<Result<(), Drop>>,
        on_drop: &mut dyn FnMut(Drop, &RxMeta, &[u8]),
    ) {
        let at = self.scratch.at;
        let Some(meta) = burst.meta(at).copied() else { return };
        let result = match (result, burst.take_buf(at)) {
            (Some(result), _) => result,
            (None, Some(buf)) => self.deliver_any(now, at, &meta, buf),
            // Somebody has taken it before.
            (None, None) => {
                self.counters.ip.delivered -= 1;
                return;
            }
        };
        if let Err(why) = result {
            self.counters.ip.delivered -= 1;
            self.counters.dropped(why);
            on_drop(why, &meta, &self.scratch.snap[..self.scratch.snapped]);
        }
    }

    fn deliver_any(&mut self, now: Instant, at: usize, meta: &RxMeta, mut buf: E::Buf) -> Result<(), Drop> {
        let Stack { config, counters, ip, replies, scratch, strays, tcp: tcp_side, .. } = self;
        let Some(look) = scratch.looks.get(at) else { return Ok(()) };
        let key = match look.class {
            Class::Refused => return Err(look.why),
            Class::Slow => return self.slow(now, meta, buf),
            Class::Tcp => look.key,
            Class::TcpV4 => look.v4.key(),
        };
        let start = look.start as usize;
        let seg = tcp::parse(buf.bytes().get(start..start + look.len as usize).unwrap_or(&[]))?;
        let found = Found { hash: look.hash, at: look.flow };
        if strays.has_room() && ip.interface(meta.iface).is_some_and(|i| !i.is_loopback()) {
            if let Some(owner) = tcp_side.owner_elsewhere(&key, found, &seg) {
                strays.keep(owner, *meta, buf);
                return Ok(());
            }
        }
        let mut cx = Cx { config, counters, replies, ip };
        buf.narrow(start + usize::from(seg.header_len), look.len as usize - usize::from(seg.header_len));
        tcp_side.on_segment(now, &mut cx, &key, found, &seg, meta, buf)
    }
}

/// What the packet before has brought to light.
struct Known<'i> {
    /// Where it came from, or [`NO_IFACE`].
    iface: u32,
    /// The same, if packets pass it.
    interface: Option<&'i Interface>,
    /// The IPv4 address of ours that it was for, or [`NO_V4`].
    ours: u64,
    /// The IPv6 address of ours that it was for, or one of IPv4.
    ours_v6: Addr,
}

/// What no interface has as its number.
const NO_IFACE: u32 = u32::MAX;

/// What no IPv4 address is as a number.
const NO_V4: u64 = u64::MAX;

/// Recognises the common case and its plain faults; anything else stays slow.
#[inline(always)]
fn classify(ip: &Ip, interface: &Interface, frame: &[u8], meta: &RxMeta, look: &mut Look, known: &mut Known<'_>) {
    let packet = if interface.is_ethernet() {
        let Ok(eth) = eth::check(frame) else { return };
        if eth.dst() != interface.mac || eth.src().is_multicast() || !eth.tags().is_empty() {
            return;
        }
        // That the version agrees with the type of the frame is for the slow way to say when it does not.
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

/// What nearly every IPv4 packet is: a whole segment behind a header without options. The same questions as in [`segment`], in the same order.
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
    if ip.locals.may_end_in(plain.src[3]) && ip.locals.find(interface.table, meta.iface, &Addr::v4(plain.src)).is_some()
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
fn classify_v6(ip: &Ip, interface: &Interface, packet: &[u8], meta: &RxMeta, look: &mut Look, known: &mut Addr) {
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
    if ip.locals.may_end_in(src.octets()[15]) && ip.locals.find(interface.table, meta.iface, src).is_some() {
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
    look.key = FlowKey { local: *dst, remote: *src, local_port, remote_port, table: interface.table };
}

/// Why a segment whose checksum is wrong is dropped.
#[cold]
fn bad_checksum(meta: &RxMeta) -> Drop {
    if meta.checksum == Checksum::Bad { Drop::DeviceBadChecksum } else { Malformed::TcpBadChecksum.into() }
}

/// The checks that every TCP segment goes through before its flow is looked for, and the flow's name.
#[inline(always)]
fn segment(
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
fn verify(meta: &RxMeta, interface: &Interface, look: impl FnOnce() -> Result<(), Drop>) -> Result<(), Drop> {
    match meta.checksum {
        Checksum::Good => Ok(()),
        Checksum::Bad => Err(Drop::DeviceBadChecksum),
        Checksum::Unknown if interface.offloads.trusted_link => Ok(()),
        Checksum::Unknown => look(),
    }
}

#[cfg(test)]
mod tests;
