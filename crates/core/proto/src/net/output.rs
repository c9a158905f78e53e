//! The way out: routes and neighbours for whoever sends, the IP header, the checksum, and the order
//! in which everything that was marked leaves.
//!
//! Room is asked for before any state changes. When a neighbour's link address is not known yet,
//! the room is a place in the neighbour table instead of one in the device, and the sender need not
//! care.

pub(crate) mod segment;

use clearway_base::{Handle, Instant};
use clearway_pkt::{Iface, Piece, Segmentation, Sink, TxMeta};
use clearway_wire::{EtherType, Mac, Proto, Sum, checksum, eth, ipv4, ipv6, ipv6_ext, tcp, udp};

use crate::counters::Counters;
use crate::flow::FlowKey;
use crate::net::ip::{Ip, Next, NoHop};
use crate::net::neigh::Neighbour;
use crate::net::path_cache::RouteCache;

/// A datagram to be sent: `head` and `body` one after the other behind the IP header, in fragments
/// when the way is too narrow.
#[derive(Clone, Copy)]
pub(crate) struct Outgoing<'a> {
    /// From `local` to `remote`.
    pub(crate) key: &'a FlowKey,
    pub(crate) proto: Proto,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    /// At most eight bytes.
    pub(crate) head: &'a [u8],
    pub(crate) body: &'a [u8],
    pub(crate) transport: Transport,
}

/// Why a packet cannot leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OutError {
    /// The device takes no more now: stop, and come back.
    Full,
    /// Nothing leads there, or the neighbour table is full.
    NoRoute,
    /// The interface is down.
    Down,
    /// The packet is longer than the way allows.
    TooBig {
        /// The longest IP packet in bytes.
        mtu: u32,
    },
}

impl From<NoHop> for OutError {
    fn from(no: NoHop) -> OutError {
        match no {
            NoHop::NoRoute => OutError::NoRoute,
            NoHop::Down => OutError::Down,
        }
    }
}

/// What is known of a way out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PathInfo {
    /// The longest IP packet in bytes, header included.
    pub(crate) mtu: u32,
    /// How many payload bytes of TCP may be handed over at once, for the device to cut into
    /// segments; 0 when it cuts nothing.
    pub(crate) max_tcp_segmented_payload: u32,
}

/// What the bytes behind the IP header are, for the checksum and for a device that cuts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transport {
    /// A TCP segment whose checksum field is 0.
    Tcp {
        /// Bytes of its header.
        header_len: u8,
        /// The device shall cut it into segments of so many payload bytes; 0: it is one segment.
        segment_size: u16,
    },
    /// A UDP datagram whose checksum field is 0.
    Udp,
    /// The same, which the device shall cut into datagrams of so many payload bytes.
    UdpLarge {
        /// Payload bytes of each but the last.
        segment_size: u16,
    },
    /// Anything that is whole already, checksum and all.
    Whole,
}

/// The sender's side of `emit`.
pub(crate) struct IpOut<'a, S: Sink> {
    pub(crate) now: Instant,
    pub(crate) counters: &'a mut Counters,
    pub(crate) ip: &'a mut Ip,
    pub(crate) sink: &'a mut S,
    /// The interface that the sender names for packets whose address does not tell it: to groups,
    /// to all, to link-local peers.
    pub(crate) via: Option<Iface>,
}

/// Where a frame of a flow goes.
#[derive(Clone, Copy)]
struct LinkAddr {
    iface: Iface,
    mac: Mac,
    mtu: u32,
    /// The neighbour whose answer it must wait for.
    waits_for: Option<Handle<Neighbour>>,
}

/// Where the frame goes when it is done.
#[derive(Clone, Copy)]
enum Exit {
    Device(Iface),
    Waiting { place: u32, to: Handle<Neighbour> },
}

/// Room for one IP packet, its headers below the transport written already. Letting it go without
/// [`Room::finish`] and [`IpOut::commit`] changes nothing.
pub(crate) struct Room<'r> {
    frame: &'r mut [u8],
    exit: Exit,
    l4_len: u32,
    link_len: u8,
    /// 20 or 40, which tells the family too.
    ip_len: u8,
    checksum: ChecksumBy,
    may_gather: bool,
}

/// From so many bytes on a packet is worth being gathered: for fewer, a copy costs less than the
/// pieces do.
const GATHER_FROM: usize = 8 * 1024;

/// Who makes the transport checksum.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChecksumBy {
    Software,
    Device,
    Nobody,
}

/// A packet that is ready to leave.
#[derive(Clone, Copy)]
pub(crate) struct Finished {
    exit: Exit,
    len: usize,
    meta: TxMeta,
}

/// How far a datagram has left that needs several fragments, so that it can go on when the device
/// has room again.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Cursor {
    /// Bytes that have left.
    offset: u32,
    /// The identification of all its fragments, once the first has left.
    id: Option<u32>,
    /// The longest packet that its owner wants, where the way would take a longer one; 0: as the
    /// way is.
    most: u16,
    /// Routers shall not cut it (DF of IPv4), when it leaves whole.
    dont_fragment: bool,
}

impl Cursor {
    /// At the beginning of a datagram whose packets shall be no longer than `most` bytes (0: than
    /// the way takes). `dont_fragment`: routers of IPv4 shall not cut it, when it leaves whole.
    pub(crate) fn new(most: u16, dont_fragment: bool) -> Cursor {
        Cursor { most, dont_fragment, ..Cursor::default() }
    }

    /// Nothing of the datagram has left.
    pub(crate) fn is_at_start(&self) -> bool {
        self.id.is_none()
    }
}

impl<S: Sink> IpOut<'_, S> {
    /// Room for a packet with `l4_len` bytes of transport header and payload from `key.local` to
    /// `key.remote`.
    ///
    /// # Errors
    /// [`OutError::Full`]: nothing more can leave now. Otherwise this packet cannot leave at all.
    #[inline(always)]
    pub(crate) fn begin(
        &mut self,
        cache: &mut RouteCache,
        key: &FlowKey,
        proto: Proto,
        l4_len: usize,
        tos: u8,
        ttl: u8,
    ) -> Result<Room<'_>, OutError> {
        self.begin_any(cache, key, proto, l4_len, (tos, ttl), proto == Proto::TCP)
    }

    /// As [`IpOut::begin`], for a packet that the device is known to cut.
    fn begin_large(
        &mut self,
        cache: &mut RouteCache,
        key: &FlowKey,
        proto: Proto,
        l4_len: usize,
        tos: u8,
        ttl: u8,
    ) -> Result<Room<'_>, OutError> {
        self.begin_any(cache, key, proto, l4_len, (tos, ttl), true)
    }

    #[inline(always)]
    fn begin_any(
        &mut self,
        cache: &mut RouteCache,
        key: &FlowKey,
        proto: Proto,
        l4_len: usize,
        (tos, ttl): (u8, u8),
        may_be_cut: bool,
    ) -> Result<Room<'_>, OutError> {
        let link_addr = self.link_addr(cache, key)?;
        // RFC 6864 4.1: in a packet that may not be fragmented the identification means nothing,
        // and so it betrays nothing.
        let v4_id = if proto == Proto::TCP { 0 } else { self.ip.rng.next_u32() as u16 };
        let interface =
            self.ip.ifaces.get(usize::from(link_addr.iface.0)).ok_or(OutError::NoRoute)?;
        let offloads = interface.offloads;
        let (link_len, mac) = (interface.link_len, interface.mac);
        let ip_len = if key.local.is_v4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
        let packet_len = ip_len + l4_len;
        if packet_len > link_addr.mtu as usize && (offloads.max_segmented_frame == 0 || !may_be_cut)
        {
            return Err(OutError::TooBig { mtu: link_addr.mtu });
        }
        let len = usize::from(link_len) + packet_len;
        let may_gather = l4_len >= GATHER_FROM
            && link_addr.waits_for.is_none()
            && self.sink.gathers(link_addr.iface);
        let (exit, frame) = match link_addr.waits_for {
            None => {
                let frame = self.sink.reserve(link_addr.iface, len).ok_or(OutError::Full)?;
                (Exit::Device(link_addr.iface), frame)
            }
            Some(to) => {
                let place = self.ip.neighbours.place(to, len, &mut self.counters.neighbours);
                let (place, frame) = place.ok_or(OutError::TooBig { mtu: link_addr.mtu })?;
                (Exit::Waiting { place, to }, frame)
            }
        };
        let is_v4 = ip_len == ipv4::HEADER_LEN;
        if link_len != 0 {
            eth::emit(
                link_addr.mac,
                mac,
                if is_v4 { EtherType::IPV4 } else { EtherType::IPV6 },
                frame,
            );
        }
        let out = &mut frame[usize::from(link_len)..];
        if is_v4 {
            let header = ipv4::Header {
                src: key.local,
                dst: key.remote,
                proto,
                tos,
                ttl,
                id: v4_id,
                dont_fragment: proto == Proto::TCP,
                more_fragments: false,
                fragment_offset: 0,
                payload_len: l4_len as u16,
            };
            ipv4::emit(&header, out);
        } else {
            let header = ipv6::Header {
                src: key.local,
                dst: key.remote,
                next: proto,
                traffic_class: tos,
                flow_label: 0,
                hop_limit: ttl,
                payload_len: l4_len as u16,
            };
            ipv6::emit(&header, out);
        }
        let made_by = match (offloads.trusted_link, offloads.tx_checksum) {
            (true, _) => ChecksumBy::Nobody,
            (false, true) => ChecksumBy::Device,
            (false, false) => ChecksumBy::Software,
        };
        let l4_len = l4_len as u32;
        Ok(Room {
            frame,
            exit,
            l4_len,
            link_len,
            ip_len: ip_len as u8,
            checksum: made_by,
            may_gather,
        })
    }

    /// Hands a finished packet to the device, or to the neighbour it waits for.
    #[inline(always)]
    pub(crate) fn commit(&mut self, done: Finished) {
        match done.exit {
            Exit::Device(iface) => {
                self.counters.ip.packets_out += 1;
                self.counters.ip.bytes_out += done.len as u64;
                self.sink.commit(iface, done.len, done.meta);
            }
            Exit::Waiting { place, to } => self.ip.neighbours.wait(place, to, done.len, done.meta),
        }
    }

    /// Whether no interface that is up takes any frame now, and there is one.
    pub(crate) fn is_full(&mut self) -> bool {
        let IpOut { ip, sink, .. } = self;
        let mut up = ip.ifaces.iter().enumerate().filter(|(_, interface)| interface.up).peekable();
        up.peek().is_some() && up.all(|(at, _)| sink.is_full(Iface(at as u16)))
    }

    /// Hands over a finished packet whose last bytes, all that `body` points at, were never written
    /// into its room: [`Room::may_gather`] said yes.
    pub(crate) fn commit_gathered(&mut self, done: Finished, body: &[Piece<'_>]) {
        // What waits for a neighbour was not let.
        let Exit::Device(iface) = done.exit else { return };
        let behind: usize = body.iter().map(|piece| piece.len()).sum();
        self.counters.ip.packets_out += 1;
        self.counters.ip.bytes_out += done.len as u64;
        self.sink.commit_gathered(iface, done.len - behind, body, done.meta);
    }

    /// What is known of the way from `key.local` to `key.remote`.
    #[inline]
    pub(crate) fn path(
        &mut self,
        cache: &mut RouteCache,
        key: &FlowKey,
    ) -> Result<PathInfo, OutError> {
        let link_addr = self.link_addr(cache, key)?;
        let interface =
            self.ip.ifaces.get(usize::from(link_addr.iface.0)).ok_or(OutError::NoRoute)?;
        let is_v4 = key.local.is_v4();
        let offloads = &interface.offloads;
        let cuts = if is_v4 { offloads.tso4 } else { offloads.tso6 };
        // A frame that waits for a neighbour lies in a place of MTU size.
        if !cuts || link_addr.waits_for.is_some() {
            return Ok(PathInfo { mtu: link_addr.mtu, max_tcp_segmented_payload: 0 });
        }
        let packet = offloads
            .max_segmented_frame
            .saturating_sub(interface.link_len.into())
            .min(u16::MAX.into());
        let ip_len = if is_v4 { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
        let headers = (ip_len + tcp::MAX_HEADER_LEN) as u32;
        Ok(PathInfo {
            mtu: link_addr.mtu,
            max_tcp_segmented_payload: packet.saturating_sub(headers),
        })
    }

    /// Until the routes change, `cache` says what the first link takes, whatever ICMP told of the
    /// path: for who looks for the path's MTU himself (RFC 4821, RFC 8899).
    pub(crate) fn forget_path_mtu(&mut self, cache: &mut RouteCache, key: &FlowKey) {
        let Ok(link_addr) = self.link_addr(cache, key) else { return };
        if let Some(interface) = self.ip.interface(link_addr.iface) {
            cache.mtu = interface.mtu as u16;
        }
    }

    #[inline(always)]
    fn link_addr(&mut self, cache: &mut RouteCache, key: &FlowKey) -> Result<LinkAddr, OutError> {
        match self.link_addr_of(cache) {
            Some(link_addr) => Ok(link_addr),
            None => self.resolve(cache, key),
        }
    }

    /// What `cache` remembers, if it still holds and nothing has to be waited for.
    #[inline(always)]
    fn link_addr_of(&mut self, cache: &RouteCache) -> Option<LinkAddr> {
        if cache.generation != self.ip.generation() {
            return None;
        }
        let mac = match cache.neighbour {
            None => Mac::ZERO,
            Some(at) => self.ip.neighbours.usable(at, self.now)?,
        };
        Some(LinkAddr { iface: cache.iface, mac, mtu: cache.mtu.into(), waits_for: None })
    }

    /// The lookup behind a cold cache.
    #[cold]
    fn resolve(&mut self, cache: &mut RouteCache, key: &FlowKey) -> Result<LinkAddr, OutError> {
        if let Some(via) = self.via {
            return self.link_addr_via(via, key);
        }
        let known = self.ip.known_route(key);
        if let Some(link_addr) = self.link_addr_of(&known) {
            *cache = known;
            return Ok(link_addr);
        }
        *cache = RouteCache::default();
        let hop = self
            .ip
            .hop(key.table, &key.local, &key.remote)
            .inspect_err(|_| self.counters.ip.no_route += 1)?;
        let iface = hop.iface;
        let link = self.ip.interface(iface).map_or(0, |i| i.mtu);
        let mtu = self.ip.path_mtu_over(link, key.table, &key.remote);
        let (mac, neighbour, waits_for) = match hop.next {
            Next::Bare => (Mac::ZERO, None, None),
            // Groups are rare and their address is quickly made: they are not cached.
            Next::Known(mac) => return Ok(LinkAddr { iface, mac, mtu, waits_for: None }),
            Next::Neighbour(addr) => {
                let counters = &mut self.counters.neighbours;
                let at = self
                    .ip
                    .neighbours
                    .resolve(self.now, iface, &addr, counters)
                    .ok_or(OutError::NoRoute)?;
                match self.ip.neighbours.usable(at, self.now) {
                    Some(mac) => (mac, Some(at), None),
                    None => (Mac::ZERO, Some(at), Some(at)),
                }
            }
        };
        let generation = self.ip.generation();
        *cache = RouteCache { generation, mtu: mtu as u16, iface, neighbour };
        self.ip.path_cache.put(generation, key, link, *cache);
        Ok(LinkAddr { iface, mac, mtu, waits_for })
    }

    /// The lookup for what leaves by the interface that its sender names. It is not remembered: the
    /// next one may name another.
    fn link_addr_via(&mut self, via: Iface, key: &FlowKey) -> Result<LinkAddr, OutError> {
        let hop = self.ip.hop_via(key.table, Some(via), &key.local, &key.remote);
        let hop = hop.inspect_err(|_| self.counters.ip.no_route += 1)?;
        let mtu = self.ip.interface(hop.iface).map_or(0, |i| i.mtu);
        let known = |mac| LinkAddr { iface: hop.iface, mac, mtu, waits_for: None };
        let addr = match hop.next {
            Next::Bare => return Ok(known(Mac::ZERO)),
            Next::Known(mac) => return Ok(known(mac)),
            Next::Neighbour(addr) => addr,
        };
        let counters = &mut self.counters.neighbours;
        let at = self
            .ip
            .neighbours
            .resolve(self.now, hop.iface, &addr, counters)
            .ok_or(OutError::NoRoute)?;
        Ok(match self.ip.neighbours.usable(at, self.now) {
            Some(mac) => known(mac),
            None => LinkAddr { waits_for: Some(at), ..known(Mac::ZERO) },
        })
    }

    /// Sends a datagram, in fragments when the way is too narrow.
    ///
    /// # Errors
    /// [`OutError::Full`]: call again with the same `cursor`, which knows how much has left.
    /// Otherwise it cannot leave (any further).
    pub(crate) fn send(
        &mut self,
        cache: &mut RouteCache,
        datagram: &Outgoing<'_>,
        cursor: &mut Cursor,
    ) -> Result<(), OutError> {
        let Outgoing { key, proto, tos, ttl, head, body, transport } = *datagram;
        let total = head.len() + body.len();
        let way = self.link_addr(cache, key)?.mtu as usize;
        let mtu = if cursor.most == 0 { way } else { way.min(cursor.most.into()) };
        let ip_len = if key.local.is_v4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
        if cursor.id.is_none() && ip_len + total <= mtu {
            let mut room = self.begin(cache, key, proto, total, tos, ttl)?;
            copy_part(0, head, body, room.l4());
            if cursor.dont_fragment {
                room.set_dont_fragment();
            }
            let done = room.finish(total, transport);
            self.commit(done);
            return Ok(());
        }
        let fragment_head = if key.local.is_v4() { 0 } else { ipv6_ext::FRAGMENT_LEN };
        // What is put together again must fit a length field, which in IPv6 does not count the
        // header (RFC 791 3.1, RFC 8200 4.5).
        let whole = if key.local.is_v4() { ip_len + total } else { total };
        if whole > ipv4::MAX_LEN || head.len() > udp::HEADER_LEN {
            return Err(OutError::TooBig { mtu: mtu as u32 });
        }
        // The checksum of the whole cannot be left to a device that only sees parts.
        let mut own = [0; udp::HEADER_LEN];
        let own = &mut own[..head.len()];
        own.copy_from_slice(head);
        if transport == Transport::Udp {
            let sum = checksum::sum(body);
            udp::fill_checksum_with(&key.local, &key.remote, own, sum, body.len());
        }
        // RFC 7739 5.3: an identification that nobody can guess from another.
        let id = *cursor.id.get_or_insert_with(|| self.ip.rng.next_u32());
        let step = (mtu - ip_len - fragment_head) & !7;
        while (cursor.offset as usize) < total {
            let offset = cursor.offset as usize;
            let len = step.min(total - offset);
            let more = offset + len < total;
            let outer = if key.local.is_v4() { proto } else { Proto::FRAGMENT };
            let mut room = self.begin(cache, key, outer, fragment_head + len, tos, ttl)?;
            if key.local.is_v4() {
                room.make_v4_fragment(id as u16, offset as u16, more);
            } else {
                ipv6_ext::emit_fragment(proto, offset as u16, more, id, room.l4());
            }
            copy_part(offset, own, body, &mut room.l4()[fragment_head..]);
            let done = room.finish(fragment_head + len, Transport::Whole);
            self.commit(done);
            self.counters.ip.fragments_out += 1;
            cursor.offset += len as u32;
        }
        self.counters.ip.fragmented += 1;
        Ok(())
    }

    /// Whether the device on the way from `key.local` to `key.remote` cuts a UDP packet with
    /// `payload` bytes into datagrams.
    pub(crate) fn cuts_datagrams(
        &mut self,
        cache: &mut RouteCache,
        key: &FlowKey,
        payload: usize,
    ) -> bool {
        let Ok(link_addr) = self.link_addr(cache, key) else { return false };
        let Some(interface) = self.ip.ifaces.get(usize::from(link_addr.iface.0)) else {
            return false;
        };
        let ip_len = if key.local.is_v4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
        let packet = ip_len + udp::HEADER_LEN + payload;
        let frame = usize::from(interface.link_len) + packet;
        // A frame that waits for a neighbour lies in a place of MTU size.
        let fits =
            packet <= ipv4::MAX_LEN && frame <= interface.offloads.max_segmented_frame as usize;
        interface.offloads.uso && fits && link_addr.waits_for.is_none()
    }

    /// Sends a UDP packet that the device cuts into datagrams of `size` bytes, the last one perhaps
    /// shorter; routers of IPv4 may cut them unless `dont_fragment`.
    ///
    /// # Errors
    /// As [`IpOut::begin`], and nothing has changed.
    pub(crate) fn send_datagrams(
        &mut self,
        cache: &mut RouteCache,
        key: &FlowKey,
        (tos, ttl): (u8, u8),
        payload: &[u8],
        (size, dont_fragment): (u16, bool),
    ) -> Result<(), OutError> {
        let total = udp::HEADER_LEN + payload.len();
        let mut room = self.begin_large(cache, key, Proto::UDP, total, tos, ttl)?;
        if dont_fragment {
            room.set_dont_fragment();
        }
        let l4 = room.l4();
        udp::emit(key.local_port, key.remote_port, payload.len() as u16, l4);
        l4[udp::HEADER_LEN..].copy_from_slice(payload);
        let done = room.finish(total, Transport::UdpLarge { segment_size: size });
        self.commit(done);
        Ok(())
    }

    /// Sends a frame with `len` bytes behind its Ethernet header, if the link has one; `fill`
    /// writes them. False: the device takes no more.
    pub(crate) fn link_frame(
        &mut self,
        iface: Iface,
        to: Mac,
        ethertype: EtherType,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        let Some(interface) = self.ip.interface(iface).filter(|i| i.up) else { return true };
        let (mac, link_len) = (interface.mac, usize::from(interface.link_len));
        let len = link_len + len;
        let Some(frame) = self.sink.reserve(iface, len) else { return false };
        if link_len != 0 {
            eth::emit(to, mac, ethertype, frame);
        }
        fill(&mut frame[link_len..len]);
        self.commit(Finished { exit: Exit::Device(iface), len, meta: TxMeta::default() });
        true
    }

    /// Sends the frames whose neighbours have answered. False: the device takes no more.
    pub(crate) fn released(&mut self) -> bool {
        while let Some((place, iface, mac)) = self.ip.neighbours.next_released(self.now) {
            if self.ip.interface(iface).is_some_and(|i| i.up) {
                let (frame, meta) = self.ip.neighbours.frame(place);
                let Some(room) = self.sink.reserve(iface, frame.len()) else { return false };
                room[..frame.len()].copy_from_slice(frame);
                // It waited without the link address's address, which comes first in the frame.
                room[..mac.0.len()].copy_from_slice(&mac.0);
                let len = frame.len();
                self.commit(Finished { exit: Exit::Device(iface), len, meta });
            }
            self.ip.neighbours.sent(place);
        }
        true
    }
}

/// Copies what lies from `offset` on in `head` followed by `body`, as much as `out` holds.
fn copy_part(offset: usize, head: &[u8], body: &[u8], out: &mut [u8]) {
    let from_head = head.get(offset..).unwrap_or(&[]);
    let from_head = &from_head[..from_head.len().min(out.len())];
    let (first, rest) = out.split_at_mut(from_head.len());
    first.copy_from_slice(from_head);
    let at = offset + from_head.len() - head.len();
    rest.copy_from_slice(&body[at..at + rest.len()]);
}

impl Room<'_> {
    #[inline]
    fn l4_at(&self) -> usize {
        usize::from(self.link_len) + usize::from(self.ip_len)
    }

    #[inline]
    fn is_v4(&self) -> bool {
        usize::from(self.ip_len) == ipv4::HEADER_LEN
    }

    /// Where transport header and payload are written: exactly the length asked for, holding
    /// anything.
    #[inline]
    pub(crate) fn l4(&mut self) -> &mut [u8] {
        let at = self.l4_at();
        &mut self.frame[at..at + self.l4_len as usize]
    }

    /// Whether the payload may be handed over apart, by [`IpOut::commit_gathered`], and need not be
    /// written here. Nobody may want to sum it up, then.
    #[inline]
    pub(crate) fn may_gather(&self) -> bool {
        self.may_gather && self.checksum != ChecksumBy::Software
    }

    /// Makes the transport checksum; the first `used` bytes of [`Room::l4`] are the packet's.
    #[inline(always)]
    pub(crate) fn finish(self, used: usize, transport: Transport) -> Finished {
        let used = used.min(self.l4_len as usize);
        let at = self.l4_at();
        if used != self.l4_len as usize {
            set_payload_len(&mut self.frame[usize::from(self.link_len)..at], used as u16);
        }
        let mut meta = TxMeta::default();
        // Which field, and who fills it.
        let (field, proto, by) = match transport {
            Transport::Whole => return Finished { exit: self.exit, len: at + used, meta },
            Transport::Tcp { header_len, segment_size } => {
                let mut by = self.checksum;
                if segment_size != 0 {
                    meta.segmentation = Segmentation::Tcp(segment_size);
                    meta.header_len = at as u16 + u16::from(header_len);
                    // Who cuts makes the checksums of the pieces.
                    by = ChecksumBy::Device;
                }
                (16, Proto::TCP, by)
            }
            // Zero means "none" over IPv4 and is forbidden over IPv6, where a reader that does look
            // must find something.
            Transport::Udp if self.checksum == ChecksumBy::Nobody && !self.is_v4() => {
                (6, Proto::UDP, ChecksumBy::Software)
            }
            Transport::Udp => (6, Proto::UDP, self.checksum),
            Transport::UdpLarge { segment_size } => {
                meta.segmentation = Segmentation::Udp(segment_size);
                meta.header_len = (at + udp::HEADER_LEN) as u16;
                // Who cuts makes the checksums of the pieces.
                (6, Proto::UDP, ChecksumBy::Device)
            }
        };
        let sum = match by {
            ChecksumBy::Nobody => return Finished { exit: self.exit, len: at + used, meta },
            ChecksumBy::Software => {
                self.pseudo(proto, used).combine(checksum::sum(&self.frame[at..at + used])).finish()
            }
            ChecksumBy::Device => {
                (meta.checksum_start, meta.checksum_offset) = (at as u16, field as u16);
                self.pseudo(proto, used).fold()
            }
        };
        let sum = if by == ChecksumBy::Software { checksum::never_zero(sum) } else { sum };
        if let Some(place) = self.frame.get_mut(at + field..at + field + 2) {
            place.copy_from_slice(&sum.to_be_bytes());
        }
        Finished { exit: self.exit, len: at + used, meta }
    }

    /// The sum of the pseudo header, whose addresses are those of the IP header before it.
    #[inline]
    fn pseudo(&self, proto: Proto, len: usize) -> Sum {
        let end = self.l4_at();
        let addresses = if self.is_v4() { 8 } else { 32 };
        checksum::sum(&self.frame[end - addresses..end]).add16(proto.0.into()).add32(len as u32)
    }

    /// Turns the header into that of a fragment.
    fn make_v4_fragment(&mut self, id: u16, offset: u16, more: bool) {
        self.set_v4_fragment_field(id, u16::from(more) << 13 | offset >> 3);
    }

    /// Sets DF in an IPv4 header. The identification means nothing then (RFC 6864 4.1).
    fn set_dont_fragment(&mut self) {
        if self.is_v4() {
            self.set_v4_fragment_field(0, ipv4::DONT_FRAGMENT);
        }
    }

    fn set_v4_fragment_field(&mut self, id: u16, field: u16) {
        let at = usize::from(self.link_len);
        let Some(header) = self.frame.get_mut(at..at + ipv4::HEADER_LEN) else { return };
        header[4..6].copy_from_slice(&id.to_be_bytes());
        header[6..8].copy_from_slice(&field.to_be_bytes());
        fill_header_checksum(header);
    }
}

/// Writes another payload length into an IP header.
#[cold]
fn set_payload_len(header: &mut [u8], len: u16) {
    if header.len() == ipv6::HEADER_LEN {
        header[4..6].copy_from_slice(&len.to_be_bytes());
    } else {
        header[2..4].copy_from_slice(&(len + ipv4::HEADER_LEN as u16).to_be_bytes());
        fill_header_checksum(header);
    }
}

fn fill_header_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let sum = checksum::sum(header).finish();
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests;
