//! What must hold of every frame that a stack sends.

use clearway_wire::{
    EtherType, Proto, arp, eth, icmpv4, icmpv6, ip, ipv4, ipv6, ipv6_ext, tcp, udp,
};

use crate::frame::Framing;

/// Whether a frame is one that any receiver would take: headers sound, checksums right. `checksums`
/// is false on links where the transport's are left out.
pub fn frame_is_sound(framing: Framing, frame: &[u8], checksums: bool) -> Result<(), String> {
    match framing {
        Framing::Raw => packet_is_sound(frame, checksums),
        Framing::Ethernet => {
            let eth = eth::check(frame)
                .map_err(|why| format!("a frame left that is malformed: {why}"))?;
            if eth.src().is_multicast() {
                return Err(format!("a frame left from the group address {}", eth.src()));
            }
            match eth.ethertype() {
                EtherType::ARP => arp::check(eth.payload())
                    .map(|_| ())
                    .map_err(|why| format!("an ARP packet left: {why}")),
                EtherType::IPV4 | EtherType::IPV6 => packet_is_sound(eth.payload(), checksums),
                other => Err(format!("a frame left of type {other}")),
            }
        }
    }
}

fn packet_is_sound(packet: &[u8], checksums: bool) -> Result<(), String> {
    let bad = |why: clearway_wire::Malformed| format!("a packet left that is malformed: {why}");
    let (src, dst, proto, hops, bytes, whole) = match ip::version(packet) {
        Some(4) => {
            let ip = ipv4::check(packet, true).map_err(bad)?;
            (ip.src(), ip.dst(), ip.proto(), ip.ttl(), ip.payload(), !ip.is_fragment())
        }
        Some(6) => {
            let ip = ipv6::check(packet).map_err(bad)?;
            let chain = ipv6_ext::walk(&ip).map_err(|why| bad(why.reason()))?;
            (ip.src(), ip.dst(), chain.upper, ip.hop_limit(), chain.bytes, chain.fragment.is_none())
        }
        _ => return Err("a packet left that is neither IPv4 nor IPv6".to_owned()),
    };
    if !whole {
        return Ok(());
    }
    match proto {
        Proto::TCP => {
            let seg = tcp::parse(bytes).map_err(bad)?;
            if seg.opts.broken {
                return Err("a segment left with broken options".to_owned());
            }
            Ok(())
        }
        Proto::UDP => udp::check(&src, &dst, bytes, checksums).map(|_| ()).map_err(bad),
        Proto::ICMP => icmpv4::check(bytes, true).map(|_| ()).map_err(bad),
        Proto::ICMPV6 => icmpv6::check(&src, &dst, hops, bytes, true).map(|_| ()).map_err(bad),
        other => Err(format!("a packet left of protocol {other}")),
    }
}
