//! The way in: a burst is first classified as a whole, then delivered as a whole.
//!
//! Classifying checks headers and checksum of the common case, an unfragmented TCP segment to an address of ours, finds its flow and
//! asks the processor to fetch it; while the next packet is looked at, the flow of the one before arrives. Everything uncommon is only marked,
//! and goes through `ingest/slow.rs` in its turn, so that the order of packets is kept.

mod slow;

use alloc::boxed::Box;
use alloc::vec::Vec;

use clearway_base::Instant;
use clearway_pkt::{BURST, Buf, Burst, Checksum, RxMeta};
use clearway_wire::{Addr, EtherType, Proto, Segment, eth, ipv4, ipv6, tcp};

use crate::config::Config;
use crate::counters::Drop;
use crate::flow::{FlowKey, FlowRef};
use crate::frag::Fragments;
use crate::iface::Interface;
use crate::ip::Ip;
use crate::local::Kind;
use crate::stack::Stack;
use crate::store::Env;
use crate::tcp::{Cx, Tcp};

/// Makes a packet buffer that holds a copy of the bytes given; None when there is no memory.
pub type BufferMaker<B> = Box<dyn FnMut(&[u8]) -> Option<B>>;

/// How much of a packet is kept for whoever asked to hear of drops, when the packet itself has gone to its connection.
const SNAP: usize = 192;

/// What a look at a packet brought.
enum Class {
    /// Goes the long way.
    Slow,
    Refused(Drop),
    Tcp {
        key: FlowKey,
        flow: Option<FlowRef>,
        seg: Segment,
        /// Where the payload lies in the frame.
        start: u32,
        len: u32,
    },
}

/// Memory that a burst needs while it is taken in, and the datagrams under reassembly.
pub(crate) struct Scratch<E: Env> {
    classes: Vec<Class>,
    pub(crate) fragments: Fragments,
    buffers: Option<BufferMaker<E::Buf>>,
    snap: Box<[u8; SNAP]>,
}

impl<E: Env> Scratch<E> {
    pub(crate) fn new(config: &Config) -> Scratch<E> {
        Scratch {
            classes: Vec::with_capacity(BURST),
            fragments: Fragments::new(&config.limits),
            buffers: None,
            snap: Box::new([0; SNAP]),
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

    /// Where buffers come from when a segment has to be put together from fragments. Without one, fragmented TCP is dropped and counted
    /// ([`Drop::FragmentNoBuffer`]); everything else needs none.
    pub fn set_buffer_maker(&mut self, maker: BufferMaker<E::Buf>) {
        self.scratch.buffers = Some(maker);
    }

    fn ingest_all(
        &mut self,
        now: Instant,
        burst: &mut Burst<E::Buf>,
        on_drop: &mut dyn FnMut(Drop, &RxMeta, &[u8]),
        keep_head: bool,
    ) {
        let mut bytes_in = 0;
        self.scratch.classes.clear();
        for at in 0..burst.len() {
            let class = match burst.peek(at) {
                Some((buf, meta)) => {
                    bytes_in += buf.bytes().len() as u64;
                    classify(&self.ip, &self.tcp, buf.bytes(), meta)
                }
                None => Class::Slow,
            };
            self.scratch.classes.push(class);
        }
        self.counters.ip.packets_in += burst.len() as u64;
        self.counters.ip.bytes_in += bytes_in;
        for at in 0..burst.len() {
            let Some((buf, meta)) = burst.take(at) else { continue };
            let mut snapped = 0;
            if keep_head {
                snapped = buf.bytes().len().min(SNAP);
                self.scratch.snap[..snapped].copy_from_slice(&buf.bytes()[..snapped]);
            }
            match self.deliver(now, at, &meta, buf) {
                Ok(()) => self.counters.ip.delivered += 1,
                Err(why) => {
                    self.counters.dropped(why);
                    on_drop(why, &meta, &self.scratch.snap[..snapped]);
                }
            }
        }
        burst.clear();
    }

    #[inline]
    fn deliver(&mut self, now: Instant, at: usize, meta: &RxMeta, mut buf: E::Buf) -> Result<(), Drop> {
        let Stack { config, counters, ip, replies, scratch, tcp, .. } = self;
        match scratch.classes.get(at) {
            Some(Class::Tcp { key, flow, seg, start, len }) => {
                buf.trim_front(*start as usize);
                buf.truncate(*len as usize);
                let mut cx = Cx { config, counters, replies, ip };
                tcp.on_segment(now, &mut cx, key, *flow, seg, meta, buf)
            }
            Some(Class::Refused(why)) => Err(*why),
            Some(Class::Slow) | None => self.slow(now, meta, buf),
        }
    }
}

/// Recognises the common case and its plain faults; anything else is slow.
#[inline]
fn classify<E: Env>(ip: &Ip, tcp_side: &Tcp<E>, frame: &[u8], meta: &RxMeta) -> Class {
    let Some(interface) = ip.interface(meta.iface).filter(|i| i.up) else { return Class::Slow };
    let packet = if interface.is_ethernet() {
        let Ok(eth) = eth::check(frame) else { return Class::Slow };
        let is_ip = matches!(eth.ethertype(), EtherType::IPV4 | EtherType::IPV6);
        if eth.dst() != interface.mac || eth.src().is_multicast() || !is_ip || !eth.tags().is_empty() {
            return Class::Slow;
        }
        // That the version agrees with the type of the frame is for the slow way to say when it does not.
        let version = if eth.ethertype() == EtherType::IPV4 { 4 } else { 6 };
        if clearway_wire::ip::version(eth.payload()) != Some(version) {
            return Class::Slow;
        }
        eth.payload()
    } else {
        frame
    };
    let (src, dst, header_len, l4) = match packet.first().map(|b| b >> 4) {
        Some(4) => match ipv4::check(packet, true) {
            Ok(v4) if v4.proto() == Proto::TCP && !v4.is_fragment() && v4.options().is_empty() => {
                (v4.src(), v4.dst(), ipv4::HEADER_LEN, v4.payload())
            }
            _ => return Class::Slow,
        },
        Some(6) => match ipv6::check(packet) {
            Ok(v6) if v6.next() == Proto::TCP => (v6.src(), v6.dst(), ipv6::HEADER_LEN, v6.payload()),
            _ => return Class::Slow,
        },
        _ => return Class::Slow,
    };
    if !is_plain(ip, interface, meta, &src, &dst) {
        return Class::Slow;
    }
    let base = frame.len() - packet.len() + header_len;
    let (key, seg) = match segment(interface, meta, &src, &dst, l4) {
        Ok(it) => it,
        Err(why) => return Class::Refused(why),
    };
    let flow = tcp_side.lookup(&key);
    tcp_side.prefetch(flow);
    let tcp_len = u32::from(seg.header_len);
    Class::Tcp { key, flow, seg, start: base as u32 + tcp_len, len: l4.len() as u32 - tcp_len }
}

/// Whether the destination is ours and the source is an ordinary host's; why not, is for the slow way to say.
#[inline]
fn is_plain(ip: &Ip, interface: &Interface, meta: &RxMeta, src: &Addr, dst: &Addr) -> bool {
    // The first byte of 0, 127 and 224 and above are special in IPv4; ff00::/8 and everything below 0100:: in IPv6.
    let special = if src.is_v4() {
        let [first, ..] = src.v4_octets();
        first == 0 || first == 127 || first >= 224
    } else {
        matches!(src.octets()[0], 0 | 0xff)
    };
    let ours = ip.locals.find(interface.table, meta.iface, dst);
    !special
        && ours.is_some_and(|l| l.kind == Kind::Unicast && !dst.is_loopback())
        && ip.locals.find(interface.table, meta.iface, src).is_none()
}

/// The checks that every TCP segment goes through before its flow is looked for.
#[inline]
fn segment(
    interface: &Interface,
    meta: &RxMeta,
    src: &Addr,
    dst: &Addr,
    l4: &[u8],
) -> Result<(FlowKey, Segment), Drop> {
    let seg = tcp::parse(l4)?;
    verify(meta, interface, || tcp::verify_checksum(src, dst, l4).map_err(Drop::from))?;
    if seg.src_port == 0 || seg.dst_port == 0 {
        return Err(Drop::PortZero);
    }
    if src == dst && seg.src_port == seg.dst_port {
        return Err(Drop::Land);
    }
    let key = FlowKey {
        local: *dst,
        remote: *src,
        local_port: seg.dst_port,
        remote_port: seg.src_port,
        table: interface.table,
    };
    Ok((key, seg))
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
