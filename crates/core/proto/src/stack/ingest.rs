//! The way in: a burst is first classified as a whole, then looked up as a whole, then delivered as
//! a whole.
//!
//! Classifying checks headers and checksum of the common case, an unfragmented TCP segment to an
//! address of ours. Looking up finds its flow and asks the processor to fetch it; while the next
//! one is looked up, the flow of the one before arrives. Everything uncommon is only marked, and
//! goes through `ingest/slow.rs` in its turn, so that the order of packets is kept.

mod slow;

use clearway_base::Instant;
use clearway_pkt::{Buf, Burst, RxMeta};
use clearway_wire::tcp::Plain;
use clearway_wire::{Addr, Ecn, Segment, ipv4, ipv6, tcp};

use super::Stack;
use super::classify::{Class, Known, NO_IFACE, NO_V4, SNAP, Scratch, classify};
use crate::counters::Drop;
use crate::flow::{FlowRef, Found, Name};
use crate::net::neigh::Resolved;
use crate::payload::{BufferMaker, Payload};
use crate::store::Env;
use crate::tcp::{Arrival, Cx};
use crate::trace::Trace;

impl<E: Env> Stack<E> {
    /// Takes the packets of a burst in. What they ask for is only marked: `emit` sends.
    pub fn ingest(&mut self, now: Instant, burst: &mut Burst<E::Buf>) {
        self.ingest_all(now, burst, &mut |_, _, _| {}, false);
    }

    /// As [`Stack::ingest`], and tells of each packet that is dropped: why, what came with it, and
    /// at least the first part of its bytes.
    pub fn ingest_with(
        &mut self,
        now: Instant,
        burst: &mut Burst<E::Buf>,
        on_drop: &mut dyn FnMut(Drop, &RxMeta, &[u8]),
    ) {
        self.ingest_all(now, burst, on_drop, true);
    }

    /// Where buffers come from when a segment has to be put together from fragments, or has to be
    /// kept in several pieces. Without one, fragmented TCP is dropped and counted
    /// ([`Drop::FragmentNoBuffer`]), and of a segment that covers several holes only the first
    /// piece is kept.
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
        let mut known =
            Known { iface: NO_IFACE, interface: None, ours: NO_V4, ours_v6: Addr::ANY_V4 };
        for (look, packet) in scratch.looks.iter_mut().zip(burst.packets()) {
            look.class = Class::Slow;
            let Some((buf, meta)) = packet else { continue };
            let frame = buf.bytes();
            bytes_in += frame.len() as u64;
            if known.iface != u32::from(meta.iface.0) {
                let interface = ip.interface(meta.iface).filter(|i| i.up);
                known = Known {
                    iface: meta.iface.0.into(),
                    interface,
                    ours: NO_V4,
                    ours_v6: Addr::ANY_V4,
                };
            }
            if let Some(interface) = known.interface {
                classify(ip, interface, frame, meta, look, &mut known);
            }
        }
        bytes_in
    }

    /// Looks up the flows of the segments among the first `n` packets, and asks the processor for
    /// their records.
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
            look.flow = tcp.lookup_hash(look.hash);
            tcp.prefetch(look.flow);
        }
    }

    /// As [`Stack::look_up_all`], when each step for each segment finds its memory far away: a step
    /// for all segments asks for what the next step reads.
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
        for look in looks.iter_mut().filter(|look| matches!(look.class, Class::TcpV4 | Class::Tcp))
        {
            look.flow = tcp.lookup_hash(look.hash);
            tcp.prefetch_far(look.flow);
        }
        for look in looks {
            tcp.prefetch_sent(look.flow);
        }
    }

    /// Delivers the packet whose turn it is, if it is a segment that its connection expects. None:
    /// it is something else, and nothing has changed.
    #[inline(always)]
    fn deliver_plain(
        &mut self,
        now: Instant,
        burst: &mut Burst<E::Buf>,
    ) -> Option<Result<(), Drop>> {
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
    fn deliver_without_options(
        &mut self,
        now: Instant,
        burst: &mut Burst<E::Buf>,
    ) -> Option<Result<(), Drop>> {
        let Scratch { looks, at, .. } = &self.scratch;
        let look = looks.get(*at)?;
        let (buf, _) = burst.peek(*at)?;
        let start = look.start as usize;
        let seg = tcp::plain_without_options(buf.bytes().get(start..start + look.len as usize)?)?;
        self.deliver_expected(now, burst, &seg)
    }

    #[inline(always)]
    fn deliver_expected(
        &mut self,
        now: Instant,
        burst: &mut Burst<E::Buf>,
        seg: &Plain,
    ) -> Option<Result<(), Drop>> {
        let Stack { config, counters, ip, replies, scratch, tcp: tcp_side, .. } = self;
        let Scratch { looks, at, .. } = scratch;
        let look = looks.get(*at)?;
        let len = look.len - u32::from(seg.header_len);
        let name = match look.class {
            Class::TcpV4 => Name::V4(&look.v4),
            _ => Name::Any(&look.key),
        };
        let index = tcp_side.fast_path(look.flow, name, seg, len)?;
        let payload = Payload::new(burst, *at, look.start + u32::from(seg.header_len), len);
        let mut cx = Cx { now, config, counters, replies, ip };
        Some(tcp_side.on_fast_path(&mut cx, index, seg, payload))
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
        let len = burst.peek(at).map_or(0, |(buf, _)| buf.bytes().len() as u32);
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
            E::trace(Trace::Drop { why: why.name(), iface: meta.iface, len });
            on_drop(why, &meta, &self.scratch.snap[..self.scratch.snapped]);
        }
    }

    fn deliver_any(
        &mut self,
        now: Instant,
        at: usize,
        meta: &RxMeta,
        mut buf: E::Buf,
    ) -> Result<(), Drop> {
        let Stack { config, counters, ip, replies, scratch, misdelivered, tcp: tcp_side, .. } =
            self;
        let Some(look) = scratch.looks.get(at) else { return Ok(()) };
        let key = match look.class {
            Class::Refused => return Err(look.why),
            Class::Slow => {
                let result = self.slow(now, meta, buf);
                if let Some(Resolved { iface, addr, mac }) = self.ip.neighbours.take_resolved() {
                    E::trace(Trace::NeighbourResolved { iface, addr, mac });
                }
                return result;
            }
            Class::Tcp => look.key,
            Class::TcpV4 => look.v4.key(),
        };
        let start = look.start as usize;
        let mut seg = Segment::default();
        tcp::read(buf.bytes().get(start..start + look.len as usize).unwrap_or(&[]), &mut seg)?;
        let found = Found { hash: look.hash, at: look.flow };
        if misdelivered.has_room() && ip.interface(meta.iface).is_some_and(|i| !i.is_loopback()) {
            if let Some(owner) = tcp_side.owner_elsewhere(&key, found, &seg) {
                misdelivered.keep(owner, *meta, buf);
                return Ok(());
            }
        }
        let mut cx = Cx { now, config, counters, replies, ip };
        let mark = mark(buf.bytes(), start, look.class);
        buf.narrow(
            start + usize::from(seg.header_len),
            look.len as usize - usize::from(seg.header_len),
        );
        let payload = Some(buf);
        tcp_side
            .on_segment(&mut cx, &mut Arrival { key: &key, found, seg: &seg, meta, mark, payload })
    }
}

/// The ECN bits of the IP header that ends at `end` in a frame: one of IPv4 without options, or the
/// fixed one of IPv6. They stand in its second byte.
#[inline(always)]
fn mark(frame: &[u8], end: usize, class: Class) -> Ecn {
    if matches!(class, Class::TcpV4) {
        return Ecn::of(frame.get(end.wrapping_sub(ipv4::HEADER_LEN - 1)).copied().unwrap_or(0));
    }
    Ecn::of(frame.get(end.wrapping_sub(ipv6::HEADER_LEN - 1)).copied().unwrap_or(0) >> 4)
}

#[cfg(test)]
mod tests;
