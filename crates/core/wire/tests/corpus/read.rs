//! Reads a frame as deeply as the crate can, through every accessor.

use clearway_wire::icmpv4::Icmpv4;
use clearway_wire::icmpv6::Icmpv6;
use clearway_wire::{
    Addr, EtherType, Malformed, Proto, arp, eth, icmpv4, icmpv6, ip, ipv4, ipv6, ipv6_ext, tcp, udp,
};

/// What a frame turned out to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) kind: &'static str,
    /// Bytes of the frame that belong to the packet; what is beyond is link padding.
    pub(crate) len: usize,
    /// The bytes in which every bit is covered by a checksum.
    pub(crate) covered_from: usize,
    pub(crate) covered_to: usize,
}

pub(crate) fn read(frame: &[u8], verify: bool) -> Result<Seen, Malformed> {
    let eth = eth::check(frame)?;
    let at = eth.payload_offset();
    assert_eq!(&frame[at..], eth.payload());
    assert!(eth.tags().len() <= 2 && (eth.vlan().is_none() || !eth.tags().is_empty()));
    let _ = (eth.src().is_multicast(), eth.dst().is_broadcast());
    match eth.ethertype() {
        EtherType::ARP => {
            let arp = arp::check(eth.payload())?;
            assert!(arp.sender.is_v4() && arp.target.is_v4());
            Ok(Seen { kind: "arp", len: at + arp::LEN, covered_from: 0, covered_to: 0 })
        }
        EtherType::IPV4 => read_v4(eth.payload(), at, verify),
        EtherType::IPV6 => read_v6(eth.payload(), at, verify),
        _ => Ok(Seen { kind: "other", len: at, covered_from: 0, covered_to: 0 }),
    }
}

fn read_v4(bytes: &[u8], at: usize, verify: bool) -> Result<Seen, Malformed> {
    let ip = ipv4::check(bytes, verify)?;
    assert!((20..=60).contains(&ip.header_len()) && ip.total_len() <= bytes.len());
    assert_eq!(ip.options().len(), ip.header_len() - 20);
    let _ = (ip.has_source_route(), ip.id(), ip.tos(), ip.ecn(), ip.ttl(), ip.dont_fragment());
    let (header_end, end) = (at + ip.header_len(), at + ip.total_len());
    if ip.is_fragment() {
        assert!(usize::from(ip.fragment_offset()) + ip.payload().len() <= ipv4::MAX_LEN);
        return Ok(Seen { kind: "fragment", len: end, covered_from: at, covered_to: header_end });
    }
    let (kind, covered) =
        read_upper(&ip.src(), &ip.dst(), ip.proto(), ip.ttl(), ip.payload(), verify)?;
    let covered_to = if covered { end } else { header_end };
    Ok(Seen { kind, len: end, covered_from: at, covered_to })
}

fn read_v6(bytes: &[u8], at: usize, verify: bool) -> Result<Seen, Malformed> {
    let ip = ipv6::check(bytes)?;
    assert!(ip.total_len() <= bytes.len() && ip.src().is_v6() && ip.dst().is_v6());
    let _ = (ip.traffic_class(), ip.ecn(), ip.flow_label());
    let chain = ipv6_ext::walk(&ip).map_err(|refusal| {
        if let ipv6_ext::Refusal::Answer { pointer, reason, .. } = refusal {
            assert!((pointer as usize) < ip.total_len(), "the pointer lies in the packet");
            assert_eq!(reason, refusal.reason());
        }
        refusal.reason()
    })?;
    assert_eq!(chain.bytes, &bytes[chain.upper_offset..ip.total_len()]);
    let end = at + ip.total_len();
    if let Some(part) = chain.fragment {
        assert!(part.named_at < part.header_at && part.header_at + 8 == chain.upper_offset);
        return Ok(Seen { kind: "fragment", len: end, covered_from: 0, covered_to: 0 });
    }
    let (kind, covered) =
        read_upper(&ip.src(), &ip.dst(), chain.upper, ip.hop_limit(), chain.bytes, verify)?;
    let covered_from = if covered { at + chain.upper_offset } else { end };
    Ok(Seen { kind, len: end, covered_from, covered_to: end })
}

/// The kind, and whether a checksum covers all of `bytes`.
fn read_upper(
    src: &Addr,
    dst: &Addr,
    proto: Proto,
    hop_limit: u8,
    bytes: &[u8],
    verify: bool,
) -> Result<(&'static str, bool), Malformed> {
    match proto {
        Proto::TCP => {
            let segment = tcp::parse(bytes)?;
            if verify {
                tcp::verify_checksum(src, dst, bytes)?;
            }
            let header_len = usize::from(segment.header_len);
            assert!((20..=60).contains(&header_len) && header_len <= bytes.len());
            assert!(segment.opts.sack.iter().count() <= 4 && tcp::raw_options(bytes).count() <= 40);
            let mut out = [0; tcp::MAX_HEADER_LEN];
            assert_eq!(tcp::emit(&segment, &mut out), segment.opts.header_len());
            Ok(("tcp", true))
        }
        Proto::UDP => {
            let datagram = udp::check(src, dst, bytes, verify)?;
            assert!(datagram.payload().len() + 8 <= bytes.len());
            let _ = (datagram.src_port(), datagram.dst_port());
            // Without a checksum, and in bytes beyond the datagram, nothing is covered.
            let whole = datagram.payload().len() + 8 == bytes.len();
            Ok(("udp", whole && bytes[6..8] != [0, 0]))
        }
        Proto::ICMP if src.is_v4() => read_icmpv4(bytes, verify).map(|kind| (kind, true)),
        Proto::ICMPV6 if src.is_v6() => {
            read_icmpv6(src, dst, hop_limit, bytes, verify).map(|kind| (kind, true))
        }
        Proto::NO_NEXT => Ok(("no-next-header", false)),
        _ => Ok(("other", false)),
    }
}

fn read_quote(bytes: &[u8]) -> Result<(), Malformed> {
    let quote = ip::quote(bytes)?;
    let _ = (quote.ports(), quote.tcp_seq());
    assert!(quote.upper.len() <= bytes.len() - 20);
    Ok(())
}

fn read_icmpv4(bytes: &[u8], verify: bool) -> Result<&'static str, Malformed> {
    let message = icmpv4::check(bytes, verify)?;
    assert_eq!(message.emitted_len(), bytes.len());
    match message {
        Icmpv4::Unreachable { quoted, .. }
        | Icmpv4::Redirect { quoted, .. }
        | Icmpv4::TimeExceeded { quoted, .. }
        | Icmpv4::ParamProblem { quoted, .. } => {
            assert!(message.is_error());
            read_quote(quoted).map(|()| "icmpv4-error")
        }
        _ => Ok("icmpv4"),
    }
}

fn read_icmpv6(
    src: &Addr,
    dst: &Addr,
    hop_limit: u8,
    bytes: &[u8],
    verify: bool,
) -> Result<&'static str, Malformed> {
    let message = icmpv6::check(src, dst, hop_limit, bytes, verify)?;
    assert_eq!(message.emitted_len(), bytes.len());
    match message {
        Icmpv6::Unreachable { quoted, .. }
        | Icmpv6::PacketTooBig { quoted, .. }
        | Icmpv6::TimeExceeded { quoted, .. }
        | Icmpv6::ParamProblem { quoted, .. } => {
            assert!(message.is_error());
            read_quote(quoted).map(|()| "icmpv6-error")
        }
        Icmpv6::Ndp(ndp) => {
            use clearway_wire::ndp::Ndp::*;
            let (RouterSolicit { options }
            | RouterAdvert(clearway_wire::ndp::Advert { options, .. })
            | NeighborSolicit { options, .. }
            | NeighborAdvert { options, .. }
            | Redirect { options, .. }) = ndp;
            let _ = (
                options.source_link(),
                options.target_link(),
                options.mtu(),
                options.prefixes().count(),
                options
                    .iter()
                    .map(|option| match option {
                        clearway_wire::ndp::NdOption::Dns(dns) => dns.servers().count(),
                        _ => 0,
                    })
                    .sum::<usize>(),
            );
            assert!(options.iter().count() <= clearway_wire::ndp::MAX_OPTIONS);
            Ok("ndp")
        }
        _ => Ok("icmpv6"),
    }
}
