//! Everything that is not an ordinary TCP segment: other protocols, fragments, options, extension
//! headers, and every fault, each with its reason.

use clearway_base::Instant;
use clearway_pkt::{Buf, Iface, RxMeta};
use clearway_wire::group::Message;
use clearway_wire::icmpv4::{self, Icmpv4};
use clearway_wire::icmpv6::{self, Icmpv6};
use clearway_wire::ipv6_ext::{self, Refusal};
use clearway_wire::{
    Addr, Ecn, Endpoint, EtherType, Mac, Proto, eth, igmp, ip as wire_ip, ipv4, ipv6, mld, tcp, udp,
};

use crate::counters::Drop;
use crate::flow::FlowKey;
use crate::ids::Table;
use crate::net::frag::{FragKey, Piece, Whole, first_holds_header};
use crate::net::icmp::{self, Cause, Complaint, Envelope, IcmpError};
use crate::net::local::Kind;
use crate::net::replies::ReplyIcmp;
use crate::net::{arp, ndp};
use crate::stack::Stack;
use crate::stack::classify::{Look, segment, verify};
use crate::store::Env;
use crate::tcp::{Arrival as TcpArrival, Cx};
use crate::trace::Trace;
use crate::udp::{Arrival, UdpErrorReport};

/// How a frame came.
#[derive(Clone, Copy)]
struct Link {
    iface: Iface,
    table: Table,
    /// The link address that sent it; None on a link without addresses.
    from: Option<Mac>,
    /// It was for several link addresses.
    group: bool,
}

/// Whom a packet is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    Us,
    /// All hosts of a subnet or of the link.
    All,
    /// A multicast group that we are in.
    Group,
}

/// A packet whose IP header was looked at and that is for us.
#[derive(Clone, Copy)]
struct Packet<'a> {
    link: Link,
    envelope: Envelope,
    to: For,
    proto: Proto,
    /// The whole packet, IP header first, without padding.
    bytes: &'a [u8],
    /// Where the transport header begins in `bytes`.
    l4_at: usize,
    /// Offset of the field that named `proto`.
    named_at: u32,
    /// It was put together from fragments, or is its own only one.
    reassembled: bool,
}

impl<'a> Packet<'a> {
    fn l4(&self) -> &'a [u8] {
        self.bytes.get(self.l4_at..).unwrap_or(&[])
    }
}

/// What became of a packet of which IP has looked at the header.
enum Step<'a> {
    Deliver(Packet<'a>),
    /// A fragment that waits for others.
    Held,
    /// A fragment that was the last missing one.
    Whole(Whole),
}

impl<E: Env> Stack<E> {
    /// Takes in a packet of any kind.
    #[cold]
    pub(super) fn slow(&mut self, now: Instant, meta: &RxMeta, buf: E::Buf) -> Result<(), Drop> {
        let interface = self.ip.interface(meta.iface).ok_or(Drop::UnknownInterface)?;
        if !interface.up {
            return Err(Drop::InterfaceDown);
        }
        let mut link = Link { iface: meta.iface, table: interface.table, from: None, group: false };
        let mut packet = buf.bytes();
        if interface.is_ethernet() {
            let eth = eth::check(packet)?;
            let (from, to) = (eth.src(), eth.dst());
            if from.is_multicast() {
                return Err(Drop::LinkSourceGroup);
            }
            if to != interface.mac && !to.is_multicast() {
                return Err(Drop::OtherLinkAddr);
            }
            if eth.vlan().is_some() {
                return Err(Drop::VlanTagged);
            }
            link = Link { from: Some(from), group: to.is_multicast(), ..link };
            packet = eth.payload();
            match eth.ethertype() {
                EtherType::IPV4 | EtherType::IPV6 => {}
                EtherType::ARP => {
                    let Stack { ip, counters, replies, .. } = self;
                    return arp::ingest(now, ip, counters, replies, link.iface, packet);
                }
                _ => return Err(Drop::UnknownEtherType),
            }
            // An IPv4 packet in a frame of type IPv6 is nobody's: each check refuses the other's
            // version.
            if eth.ethertype() == EtherType::IPV6 && wire_ip::version(packet) == Some(4) {
                return Err(Drop::UnknownEtherType);
            }
            if eth.ethertype() == EtherType::IPV4 && wire_ip::version(packet) == Some(6) {
                return Err(Drop::UnknownEtherType);
            }
        }
        let start = buf.bytes().len() - packet.len();
        match self.step(now, link, packet, false)? {
            Step::Held => Ok(()),
            Step::Deliver(packet) if packet.proto == Proto::TCP => {
                let (l4_at, len) = (start + packet.l4_at, packet.l4().len());
                let (key, seg) = self.tcp_head(&packet, meta)?;
                let mark = Ecn::of(packet.envelope.tos);
                let mut buf = buf;
                buf.trim_front(l4_at + usize::from(seg.header_len));
                buf.truncate(len - usize::from(seg.header_len));
                self.tcp_segment(now, &key, (&seg, mark), meta, buf)
            }
            Step::Deliver(packet) => {
                let result = self.transport(now, meta, &packet);
                if let Some(owner) = self.scratch.misdelivered.take() {
                    self.misdelivered.keep(owner, *meta, buf);
                }
                result
            }
            Step::Whole(whole) => {
                let result = self.whole(now, meta, link, &whole);
                self.scratch.fragments.give_back(whole);
                result
            }
        }
    }

    /// A datagram that was put together from fragments. It is looked at again as a whole, and a
    /// fragment inside it is no datagram (RFC 6946 5).
    fn whole(
        &mut self,
        now: Instant,
        meta: &RxMeta,
        link: Link,
        whole: &Whole,
    ) -> Result<(), Drop> {
        let Step::Deliver(packet) = self.step(now, link, whole.packet(), true)? else {
            return Err(Drop::FragmentOverlap);
        };
        // A device has seen parts only.
        let meta = RxMeta { checksum: clearway_pkt::Checksum::Unknown, segment_size: 0, ..*meta };
        if packet.proto != Proto::TCP {
            return self.transport(now, &meta, &packet);
        }
        let (key, seg) = self.tcp_head(&packet, &meta)?;
        let mark = Ecn::of(packet.envelope.tos);
        let payload = packet.l4().get(usize::from(seg.header_len)..).unwrap_or(&[]);
        let maker = self.tcp.pools.buffers.as_mut().ok_or(Drop::FragmentNoBuffer)?;
        let buf = maker(payload).ok_or(Drop::FragmentNoBuffer)?;
        self.tcp_segment(now, &key, (&seg, mark), &meta, buf)
    }

    fn step<'p>(
        &mut self,
        now: Instant,
        link: Link,
        packet: &'p [u8],
        reassembled: bool,
    ) -> Result<Step<'p>, Drop> {
        match wire_ip::version(packet) {
            Some(6) => self.step_v6(now, link, packet, reassembled),
            _ => self.step_v4(now, link, packet, reassembled),
        }
    }

    /// RFC 1122 3.2.1: what a host looks at in an IPv4 header.
    fn step_v4<'p>(
        &mut self,
        now: Instant,
        link: Link,
        packet: &'p [u8],
        reassembled: bool,
    ) -> Result<Step<'p>, Drop> {
        let v4 = ipv4::check(packet, true)?;
        let (src, dst) = (v4.src(), v4.dst());
        let to = self.accept_for(link, &src, &dst)?;
        if v4.has_source_route() {
            return Err(Drop::SourceRoute);
        }
        if v4.is_fragment() {
            if reassembled {
                return Err(Drop::FragmentOverlap);
            }
            if v4.fragment_offset() == 0 && !first_holds_header(v4.proto(), v4.payload()) {
                return Err(Drop::FragmentTiny);
            }
            let key =
                FragKey { table: link.table, src, dst, id: v4.id().into(), proto: v4.proto() };
            let piece = Piece {
                header: &packet[..v4.header_len()],
                named_at: 0,
                next: v4.proto(),
                offset: v4.fragment_offset(),
                more: v4.more_fragments(),
                data: v4.payload(),
            };
            return self.fragment(now, key, &piece);
        }
        let envelope = Envelope {
            iface: link.iface,
            table: link.table,
            src,
            dst,
            tos: v4.tos(),
            ttl: v4.ttl(),
        };
        Ok(Step::Deliver(Packet {
            link,
            envelope,
            to,
            proto: v4.proto(),
            bytes: &packet[..v4.total_len()],
            l4_at: v4.header_len(),
            named_at: 9,
            reassembled,
        }))
    }

    fn step_v6<'p>(
        &mut self,
        now: Instant,
        link: Link,
        packet: &'p [u8],
        reassembled: bool,
    ) -> Result<Step<'p>, Drop> {
        let v6 = ipv6::check(packet)?;
        let (src, dst) = (v6.src(), v6.dst());
        let to = self.accept_for(link, &src, &dst)?;
        let bytes = &packet[..v6.total_len()];
        let chain = match ipv6_ext::walk(&v6) {
            Ok(chain) => chain,
            Err(refusal) => return Err(self.refuse(now, link, to, (src, dst), bytes, refusal)),
        };
        if let Some(fragment) = chain.fragment {
            if reassembled {
                return Err(Drop::FragmentOverlap);
            }
            let key =
                FragKey { table: link.table, src, dst, id: fragment.id, proto: Proto::FRAGMENT };
            let piece = Piece {
                header: &bytes[..bytes.len() - chain.bytes.len()],
                named_at: fragment.named_at,
                next: fragment.next,
                offset: fragment.offset,
                more: fragment.more,
                data: chain.bytes,
            };
            return self.fragment(now, key, &piece);
        }
        let (tos, ttl) = (v6.traffic_class(), v6.hop_limit());
        Ok(Step::Deliver(Packet {
            link,
            envelope: Envelope { iface: link.iface, table: link.table, src, dst, tos, ttl },
            to,
            proto: chain.upper,
            bytes,
            l4_at: chain.upper_offset,
            named_at: chain.named_at as u32,
            reassembled: reassembled || v6.next() == Proto::FRAGMENT,
        }))
    }

    fn fragment<'p>(
        &mut self,
        now: Instant,
        key: FragKey,
        piece: &Piece<'_>,
    ) -> Result<Step<'p>, Drop> {
        match self.scratch.fragments.add(now, key, piece, &mut self.counters.ip)? {
            Some(whole) => Ok(Step::Whole(whole)),
            None => Ok(Step::Held),
        }
    }

    /// An IPv6 header chain that is refused, and perhaps complained about.
    fn refuse(
        &mut self,
        now: Instant,
        link: Link,
        to: For,
        (src, dst): (Addr, Addr),
        bytes: &[u8],
        refusal: Refusal,
    ) -> Drop {
        if let Refusal::Answer { code, pointer, even_multicast, .. } = refusal {
            let alone = to == For::Us && !link.group;
            if (alone || even_multicast) && !src.is_unspecified() {
                let Stack { ip, counters, replies, .. } = self;
                let quoted = [bytes, &[][..]];
                let inside = ip.is_loopback(link.iface);
                let cause = Cause { table: link.table, src, dst, quoted, inside };
                icmp::complain(
                    now,
                    ip,
                    counters,
                    replies,
                    &cause,
                    Complaint::Parameter { code, pointer },
                );
            }
        }
        Drop::Malformed(refusal.reason())
    }

    /// Whether source and destination can be what they claim, and whom the packet is for.
    fn accept_for(&self, link: Link, src: &Addr, dst: &Addr) -> Result<For, Drop> {
        let interface = self.ip.interface(link.iface).ok_or(Drop::UnknownInterface)?;
        // What we send to ourselves comes over a loopback interface, link-local addresses of our
        // other links too.
        let find = |addr: &Addr| match interface.is_loopback() {
            true => self.ip.locals.find_anywhere(link.table, addr),
            false => self.ip.locals.find(link.table, link.iface, addr),
        };
        if src.is_multicast() {
            return Err(Drop::SourceMulticast);
        }
        if src.is_limited_broadcast() {
            return Err(Drop::SourceBroadcast);
        }
        if (src.is_loopback() || dst.is_loopback()) && !interface.is_loopback() {
            return Err(Drop::LoopbackOnWire);
        }
        if src.is_unspecified() && src.is_v4() {
            return Err(Drop::SourceUnspecified);
        }
        // 0.0.0.0/8 is this network, 240.0.0.0/4 is reserved (RFC 6890 2.2.2).
        if src.is_v4() && matches!(src.v4_octets()[0], 0 | 240..) {
            return Err(Drop::Martian);
        }
        match find(src).map(|l| l.kind) {
            Some(Kind::Broadcast) => return Err(Drop::SourceBroadcast),
            Some(Kind::Unicast) if !interface.is_loopback() => return Err(Drop::SourceOurs),
            _ => {}
        }
        if dst.is_limited_broadcast() {
            return Ok(For::All);
        }
        if dst.is_multicast() {
            let ours =
                self.ip.locals.in_group(link.iface, dst) || self.ip.groups.is_in(link.iface, dst);
            return if ours { Ok(For::Group) } else { Err(Drop::NotOurs) };
        }
        match find(dst).map(|l| l.kind) {
            Some(Kind::Unicast) => Ok(For::Us),
            Some(Kind::Broadcast) => Ok(For::All),
            None => Err(Drop::NotOurs),
        }
    }

    fn tcp_head(
        &self,
        packet: &Packet<'_>,
        meta: &RxMeta,
    ) -> Result<(FlowKey, clearway_wire::Segment), Drop> {
        // RFC 9293 3.9.2.3 (MUST-57): no TCP with more than one host; a frame to all is no better.
        if packet.to != For::Us || packet.link.group {
            return Err(Drop::TcpNotUnicast);
        }
        if packet.envelope.src.is_unspecified() {
            return Err(Drop::SourceUnspecified);
        }
        let interface = self.ip.interface(packet.link.iface).ok_or(Drop::UnknownInterface)?;
        let Envelope { src, dst, .. } = packet.envelope;
        let mut key = Look::NONE.key;
        segment(interface, meta, &src, &dst, packet.l4(), &mut key)?;
        Ok((key, tcp::parse(packet.l4())?))
    }

    fn tcp_segment(
        &mut self,
        now: Instant,
        key: &FlowKey,
        (seg, mark): (&clearway_wire::Segment, Ecn),
        meta: &RxMeta,
        buf: E::Buf,
    ) -> Result<(), Drop> {
        let Stack { config, counters, ip, replies, tcp, .. } = self;
        let found = tcp.lookup(key);
        let mut cx = Cx { now, config, counters, replies, ip };
        let payload = Some(buf);
        tcp.on_segment(&mut cx, &mut TcpArrival { key, found, seg, meta, mark, payload })
    }

    /// Everything above IP but TCP.
    fn transport(&mut self, now: Instant, meta: &RxMeta, packet: &Packet<'_>) -> Result<(), Drop> {
        let is_v4 = packet.envelope.src.is_v4();
        match packet.proto {
            Proto::UDP => self.datagram(now, meta, packet),
            Proto::ICMP if is_v4 => self.icmp_v4(now, packet),
            Proto::ICMPV6 if !is_v4 => self.icmp_v6(now, packet),
            Proto::IGMP if is_v4 => {
                self.on_membership(now, packet, igmp::check(packet.l4(), packet.envelope.ttl)?)
            }
            Proto::NO_NEXT => Err(Drop::UnknownProtocol),
            _ => {
                self.complain(now, packet, Complaint::Protocol { named_at: packet.named_at });
                Err(Drop::UnknownProtocol)
            }
        }
    }

    fn complain(&mut self, now: Instant, packet: &Packet<'_>, what: Complaint) {
        if packet.to != For::Us || packet.link.group {
            return;
        }
        let Stack { ip, counters, replies, .. } = self;
        let Envelope { iface, table, src, dst, .. } = packet.envelope;
        let inside = ip.is_loopback(iface);
        let cause = Cause { table, src, dst, quoted: [packet.bytes, &[]], inside };
        icmp::complain(now, ip, counters, replies, &cause, what);
    }

    fn datagram(&mut self, now: Instant, meta: &RxMeta, packet: &Packet<'_>) -> Result<(), Drop> {
        let Envelope { iface, table, src, dst, tos, ttl } = packet.envelope;
        let interface = self.ip.interface(iface).ok_or(Drop::UnknownInterface)?;
        let loops = interface.is_loopback();
        let datagram = udp::check(&src, &dst, packet.l4(), false)?;
        verify(meta, interface, || {
            udp::check(&src, &dst, packet.l4(), true).map(|_| ()).map_err(Drop::from)
        })?;
        if src.is_unspecified() {
            return Err(Drop::SourceUnspecified);
        }
        if datagram.dst_port() == 0 {
            // Nobody can be there, and who asked is told so, as by Linux.
            self.complain(now, packet, Complaint::Port);
            return Err(Drop::PortZero);
        }
        let from = Endpoint::new(src, datagram.src_port());
        let (segment_size, arrived) = (meta.segment_size, self.udp.calendar());
        let arrival = Arrival { from, to: dst, tos, ttl, iface, segment_size, arrived };
        if packet.to == For::Group && self.ip.groups.takes(iface, &dst, &src) == Some(false) {
            return Err(Drop::UdpSourceFiltered);
        }
        let (port, payload) = (datagram.dst_port(), datagram.payload());
        let taken = match packet.to {
            For::Us => self.udp.ingest(table, port, arrival, payload),
            For::All | For::Group => {
                self.udp.ingest_for_many(&self.ip.groups, table, port, arrival, payload)
            }
        };
        match taken {
            Ok(()) => {
                let size = usize::from(meta.segment_size);
                let came =
                    if size == 0 { 1 } else { datagram.payload().len().div_ceil(size).max(1) };
                self.counters.udp.datagrams_in += came as u64;
            }
            Err(Drop::UdpPortClosed) => {
                let elsewhere = self.udp.owner_elsewhere(port);
                let may =
                    packet.to == For::Us && !packet.reassembled && self.misdelivered.has_room();
                self.scratch.misdelivered = elsewhere.filter(|_| may && !loops);
                if self.scratch.misdelivered.is_some() {
                    return Ok(());
                }
                self.complain(now, packet, Complaint::Port);
            }
            Err(_) => {}
        }
        taken
    }

    fn icmp_v4(&mut self, now: Instant, packet: &Packet<'_>) -> Result<(), Drop> {
        // Hardly any device looks at this checksum, and errors are worth a look in any case.
        let message = icmpv4::check(packet.l4(), true)?;
        match message {
            Icmpv4::EchoRequest { .. } => self.echo(packet),
            Icmpv4::EchoReply { .. } => Err(Drop::IcmpUnsolicitedReply),
            Icmpv4::Redirect { .. } => Err(Drop::Redirect),
            _ => match icmp::meaning_v4(&message) {
                Some((error, quoted)) => self.icmp_error(now, packet, error, quoted),
                None => Err(Drop::IcmpUnknownType),
            },
        }
    }

    fn icmp_v6(&mut self, now: Instant, packet: &Packet<'_>) -> Result<(), Drop> {
        let Envelope { src, dst, ttl, .. } = packet.envelope;
        let message = icmpv6::check(&src, &dst, ttl, packet.l4(), true)?;
        match message {
            Icmpv6::EchoRequest { .. } => self.echo(packet),
            Icmpv6::EchoReply { .. } => Err(Drop::IcmpUnsolicitedReply),
            // RFC 6980 5: neighbour discovery never comes in fragments.
            Icmpv6::Ndp(_) if packet.reassembled => Err(Drop::NdpFragmented),
            Icmpv6::Ndp(ref message) => {
                let Stack { ip, counters, replies, .. } = self;
                let link = (packet.link.iface, packet.link.from);
                ndp::ingest(now, ip, counters, replies, link, (src, message))
            }
            Icmpv6::Other { kind, .. } if mld::is_ours(kind) => {
                let alert =
                    ipv6::check(packet.bytes).is_ok_and(|v6| ipv6_ext::has_router_alert(&v6));
                self.on_membership(now, packet, mld::check(&src, ttl, alert, packet.l4())?)
            }
            _ => match icmp::meaning_v6(&message) {
                Some((error, quoted)) => self.icmp_error(now, packet, error, quoted),
                None => Err(Drop::IcmpUnknownType),
            },
        }
    }

    /// A router asks for members, or another host tells that it is one.
    fn on_membership(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        message: Message<'_>,
    ) -> Result<(), Drop> {
        let (groups, counters) = (&mut self.ip.groups, &mut self.counters.groups);
        match message {
            Message::Query(query) => {
                counters.queries_in += 1;
                groups.on_query(now, packet.link.iface, &query);
            }
            Message::Report { group, .. } => {
                counters.reports_in += 1;
                groups.on_report(now, packet.link.iface, &group);
            }
            // Routers care for these; a host has nothing to do.
            Message::Leave { .. } | Message::Records(_) => counters.reports_in += 1,
            Message::Other(_) => return Err(Drop::IgmpUnknownType),
        }
        Ok(())
    }

    /// RFC 1122 3.2.2.6, RFC 4443 4.2. Requests to many hosts are not answered: one packet must not
    /// become many.
    fn echo(&mut self, packet: &Packet<'_>) -> Result<(), Drop> {
        if packet.to != For::Us || packet.link.group {
            return Err(Drop::IcmpBroadcastEcho);
        }
        let Envelope { table, src, dst, tos, .. } = packet.envelope;
        if src.is_unspecified() {
            return Err(Drop::SourceUnspecified);
        }
        let reply = ReplyIcmp { table, from: dst, to: src, tos, is_error: false };
        icmp::answer_echo(&mut self.counters, &mut self.replies, reply, packet.l4())
    }

    /// An error about a packet that we are said to have sent. The quoted ports, and for TCP the
    /// sequence number, must be ours (RFC 5927 4).
    fn icmp_error(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        error: IcmpError,
        quoted: &[u8],
    ) -> Result<(), Drop> {
        if packet.to != For::Us {
            return Err(Drop::IcmpUnmatched);
        }
        let quote = wire_ip::quote(quoted)?;
        let table = packet.link.table;
        if quote.src.is_v4() != packet.envelope.src.is_v4() || !self.ip.is_ours(table, &quote.src) {
            return Err(Drop::IcmpUnmatched);
        }
        let (local_port, remote_port) = quote.ports().ok_or(Drop::IcmpUnmatched)?;
        let key = FlowKey { local: quote.src, remote: quote.dst, local_port, remote_port, table };
        let error = match error {
            IcmpError::PacketTooBig { mtu } => {
                let mtu = icmp::believable_mtu(mtu, &quote).ok_or(Drop::IcmpBadMtu)?;
                let link =
                    self.ip.link_mtu(table, &key.local, &key.remote).ok_or(Drop::IcmpUnmatched)?;
                if mtu >= link {
                    return Err(Drop::IcmpBadMtu);
                }
                IcmpError::PacketTooBig { mtu }
            }
            soft => soft,
        };
        if let Some(seq) = quote.tcp_seq() {
            let Stack { config, counters, ip, replies, tcp, .. } = self;
            let mut cx = Cx { now, config, counters, replies, ip };
            tcp.on_icmp_error(&mut cx, &key, seq, error)?;
        } else {
            let (why, mtu) = match error {
                IcmpError::Unreachable(why) => (Some(why), 0),
                IcmpError::NoNeighbour => (Some(crate::Unreachable::Host), 0),
                IcmpError::PacketTooBig { mtu } => (None, mtu),
            };
            let icmp = packet.l4().first_chunk().map_or((0, 0), |&[kind, code]| (kind, code));
            let to = Endpoint::new(key.remote, key.remote_port);
            let (offender, at) = (Some(packet.envelope.src), self.udp.calendar());
            let report = UdpErrorReport { why, to, offender, icmp, mtu, at };
            let payload = quote.upper.get(udp::HEADER_LEN..).unwrap_or(&[]);
            if quote.proto != Proto::UDP || !self.udp.on_error(&key, &report, payload) {
                return Err(Drop::IcmpUnmatched);
            }
        }
        if let IcmpError::PacketTooBig { mtu } = error {
            let known = self.counters.ip.path_mtu_learned;
            let mtu = self.ip.learn_path_mtu(
                now,
                table,
                &key.local,
                &key.remote,
                mtu,
                &mut self.counters,
            );
            if let Some(mtu) = mtu.filter(|_| self.counters.ip.path_mtu_learned != known) {
                E::trace(Trace::PathMtu { remote: key.remote, mtu });
            }
        }
        self.counters.icmp.messages_in += 1;
        self.counters.icmp.errors_in += 1;
        Ok(())
    }

    /// Gives up datagrams whose fragments stayed away, and tells their senders.
    pub(crate) fn expire_fragments(&mut self, now: Instant) {
        let Stack { ip, counters, replies, scratch, .. } = self;
        let mut discarded = counters.ip;
        scratch.fragments.expire(now, &mut discarded, |expired| {
            let FragKey { table, src, dst, .. } = expired.key;
            if ip.is_ours(table, &dst) {
                let cause = Cause { table, src, dst, quoted: expired.quoted, inside: false };
                icmp::complain(now, ip, counters, replies, &cause, Complaint::Reassembly);
            }
        });
        counters.ip = discarded;
    }
}
