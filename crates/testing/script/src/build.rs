//! Packets of the peer, from what the script says.

use clearway_wire::icmpv4::{self, Icmpv4};
use clearway_wire::icmpv6::{self, Icmpv6};
use clearway_wire::{Addr, Ecn, Endpoint, Flags, Proto, ipv4, ipv6, tcp, udp};

use crate::ast::{Body, Icmp, IcmpKind, Packet, Reason, Segment, TcpOption};
use crate::backend::Net;
use crate::flow::{Flow, bytes_from};

/// The packet as it arrives at the stack under test, from the IP header on.
pub(crate) fn inbound(net: &Net, flow: &mut Flow, packet: &Packet) -> Result<Vec<u8>, String> {
    let (local, remote) = flow.ends_or_passive(net);
    let (proto, bytes) = match &packet.body {
        Body::Tcp(segment) => {
            if segment.flags.syn() {
                flow.peer_syn(segment.seq);
            }
            (Proto::TCP, tcp_segment(flow, segment, remote, local)?)
        }
        Body::Udp(len) => (Proto::UDP, datagram(*len, remote, local)),
        Body::Icmp(icmp) => {
            (if net.v6() { Proto::ICMPV6 } else { Proto::ICMP }, icmp_message(net, flow, icmp)?)
        }
    };
    Ok(ip_packet(remote.addr, local.addr, proto, packet.ecn, &bytes))
}

fn ip_packet(src: Addr, dst: Addr, proto: Proto, ecn: Option<Ecn>, payload: &[u8]) -> Vec<u8> {
    let tos = ecn.map_or(0, |mark| mark as u8);
    let mut packet = vec![0; if src.is_v6() { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN }];
    if src.is_v6() {
        let header = ipv6::Header {
            src,
            dst,
            next: proto,
            traffic_class: tos,
            flow_label: 0,
            hop_limit: 64,
            payload_len: payload.len() as u16,
        };
        ipv6::emit(&header, &mut packet);
    } else {
        let header = ipv4::Header {
            src,
            dst,
            proto,
            tos,
            ttl: 64,
            id: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            payload_len: payload.len() as u16,
        };
        ipv4::emit(&header, &mut packet);
    }
    packet.extend_from_slice(payload);
    packet
}

/// The options as bytes, padded to whole words.
fn option_bytes(flow: &Flow, options: &[TcpOption]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for option in options {
        match option {
            TcpOption::Nop => bytes.push(1),
            TcpOption::Eol => bytes.push(0),
            TcpOption::Mss(mss) => {
                bytes.extend_from_slice(&[2, 4]);
                bytes.extend_from_slice(&mss.to_be_bytes());
            }
            TcpOption::Wscale(shift) => bytes.extend_from_slice(&[3, 3, *shift]),
            TcpOption::SackOk => bytes.extend_from_slice(&[4, 2]),
            TcpOption::Sack(blocks) => {
                bytes.extend_from_slice(&[5, 2 + 8 * blocks.len() as u8]);
                for (left, right) in blocks {
                    bytes.extend_from_slice(&flow.local_live(*left).to_be_bytes());
                    bytes.extend_from_slice(&flow.local_live(*right).to_be_bytes());
                }
            }
            TcpOption::Ts(val, ecr) => {
                bytes.extend_from_slice(&[8, 10]);
                bytes.extend_from_slice(&val.unwrap_or(0).to_be_bytes());
                bytes.extend_from_slice(&flow.stamp_live(ecr.unwrap_or(0)).to_be_bytes());
            }
            TcpOption::AccEcn(counters) => bytes.extend(counters.bytes()),
            TcpOption::FastOpen(cookie) => {
                bytes.extend_from_slice(&[34, 2 + cookie.as_slice().len() as u8]);
                bytes.extend_from_slice(cookie.as_slice());
            }
            TcpOption::Raw(raw) => bytes.extend_from_slice(raw),
        }
    }
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    if bytes.len() > 40 {
        Err(format!("{} bytes of TCP options do not fit a header", bytes.len()))
    } else {
        Ok(bytes)
    }
}

fn tcp_segment(
    flow: &Flow,
    segment: &Segment,
    src: Endpoint,
    dst: Endpoint,
) -> Result<Vec<u8>, String> {
    let options = option_bytes(flow, segment.options.as_deref().unwrap_or_default())?;
    let header = tcp::Segment {
        src_port: src.port,
        dst_port: dst.port,
        seq: clearway_wire::Seq(flow.remote_live(segment.seq)),
        ack: clearway_wire::Seq(segment.ack.map_or(0, |ack| flow.local_live(ack))),
        flags: segment.flags,
        wnd: segment.window.unwrap_or(0),
        urg: segment.urgent.unwrap_or(0),
        ..tcp::Segment::default()
    };
    let mut bytes = vec![0; tcp::HEADER_LEN];
    tcp::emit(&header, &mut bytes);
    // The options may be ones that no stack would write, so they are put behind the header by hand.
    bytes[12] = ((tcp::HEADER_LEN + options.len()) * 4) as u8 | bytes[12] & 1;
    bytes.extend_from_slice(&options);
    let first = segment.seq.wrapping_add(u32::from(segment.flags.syn()));
    bytes.extend(bytes_from(flow.remote_index(first), segment.len));
    tcp::fill_checksum(&src.addr, &dst.addr, &mut bytes);
    Ok(bytes)
}

fn datagram(len: u16, src: Endpoint, dst: Endpoint) -> Vec<u8> {
    let mut bytes = vec![0; udp::HEADER_LEN];
    udp::emit(src.port, dst.port, len, &mut bytes);
    bytes.extend(bytes_from(0, u32::from(len)));
    udp::fill_checksum(&src.addr, &dst.addr, &mut bytes);
    bytes
}

/// The packet of the stack under test that an ICMP error quotes.
fn quoted(net: &Net, flow: &mut Flow, icmp: &Icmp) -> Vec<u8> {
    let (local, remote) = flow.ends_or_passive(net);
    let (proto, bytes) = match icmp.quoted_udp {
        Some(len) => (Proto::UDP, datagram(len, local, remote)),
        None => {
            let (seq, len) = icmp.quoted.unwrap_or((0, 0));
            let header = tcp::Segment {
                src_port: local.port,
                dst_port: remote.port,
                seq: clearway_wire::Seq(flow.local_live(seq)),
                flags: Flags::ACK,
                ..tcp::Segment::default()
            };
            let mut bytes = vec![0; tcp::HEADER_LEN];
            tcp::emit(&header, &mut bytes);
            bytes.extend(bytes_from(flow.local_index(seq), len));
            tcp::fill_checksum(&local.addr, &remote.addr, &mut bytes);
            (Proto::TCP, bytes)
        }
    };
    let mut packet = ip_packet(local.addr, remote.addr, proto, None, &bytes);
    // RFC 792 asks for the header and 64 bits at least; RFC 4443 for as much as fits 1280 bytes.
    packet.truncate(if net.v6() { 1232 } else { ipv4::HEADER_LEN + 8 });
    packet
}

fn icmp_message(net: &Net, flow: &mut Flow, icmp: &Icmp) -> Result<Vec<u8>, String> {
    let quoted = quoted(net, flow, icmp);
    let (IcmpKind::EchoRequest(id, len) | IcmpKind::EchoReply(id, len)) = icmp.kind else {
        return if net.v6() {
            error_v6(net, icmp.kind, &quoted)
        } else {
            error_v4(icmp.kind, &quoted)
        };
    };
    let data = bytes_from(0, u32::from(len));
    let request = matches!(icmp.kind, IcmpKind::EchoRequest(..));
    Ok(match (net.v6(), request) {
        (false, true) => v4_bytes(&Icmpv4::EchoRequest { id, seq: 1, data: &data }),
        (false, false) => v4_bytes(&Icmpv4::EchoReply { id, seq: 1, data: &data }),
        (true, true) => v6_bytes(net, &Icmpv6::EchoRequest { id, seq: 1, data: &data }),
        (true, false) => v6_bytes(net, &Icmpv6::EchoReply { id, seq: 1, data: &data }),
    })
}

fn v4_bytes(message: &Icmpv4<'_>) -> Vec<u8> {
    let mut bytes = vec![0; message.emitted_len()];
    icmpv4::emit(message, &mut bytes);
    bytes
}

fn v6_bytes(net: &Net, message: &Icmpv6<'_>) -> Vec<u8> {
    let mut bytes = vec![0; message.emitted_len()];
    icmpv6::emit(&net.remote, &net.local, message, &mut bytes);
    bytes
}

fn error_v4(kind: IcmpKind, quoted: &[u8]) -> Result<Vec<u8>, String> {
    let unreachable = |code, mtu| v4_bytes(&Icmpv4::Unreachable { code, mtu, quoted });
    Ok(match kind {
        IcmpKind::Unreachable(reason) => unreachable(code_v4(reason), 0),
        IcmpKind::TooBig(mtu) => {
            let mtu = u16::try_from(mtu)
                .map_err(|_| format!("an MTU of {mtu} does not fit an ICMP message"))?;
            unreachable(icmpv4::UNREACHABLE_FRAGMENTATION_NEEDED, mtu)
        }
        IcmpKind::TimeExceeded => {
            v4_bytes(&Icmpv4::TimeExceeded { code: icmpv4::TIME_EXCEEDED_TTL, quoted })
        }
        _ => v4_bytes(&Icmpv4::ParamProblem { code: 0, pointer: 0, quoted }),
    })
}

fn error_v6(net: &Net, kind: IcmpKind, quoted: &[u8]) -> Result<Vec<u8>, String> {
    Ok(match kind {
        IcmpKind::Unreachable(reason) => {
            v6_bytes(net, &Icmpv6::Unreachable { code: code_v6(reason)?, quoted })
        }
        IcmpKind::TooBig(mtu) => v6_bytes(net, &Icmpv6::PacketTooBig { mtu, quoted }),
        IcmpKind::TimeExceeded => {
            v6_bytes(net, &Icmpv6::TimeExceeded { code: icmpv6::TIME_EXCEEDED_HOP_LIMIT, quoted })
        }
        _ => v6_bytes(net, &Icmpv6::ParamProblem { code: 0, pointer: 0, quoted }),
    })
}

/// ICMP's code for a reason.
pub(crate) fn code_v4(reason: Reason) -> u8 {
    match reason {
        Reason::Net => icmpv4::UNREACHABLE_NET,
        Reason::Host => icmpv4::UNREACHABLE_HOST,
        Reason::Protocol => icmpv4::UNREACHABLE_PROTOCOL,
        Reason::Port => icmpv4::UNREACHABLE_PORT,
        Reason::Prohibited => icmpv4::UNREACHABLE_PROHIBITED,
    }
}

/// ICMPv6's code for a reason.
pub(crate) fn code_v6(reason: Reason) -> Result<u8, String> {
    Ok(match reason {
        Reason::Net => icmpv6::UNREACHABLE_NO_ROUTE,
        Reason::Host => icmpv6::UNREACHABLE_ADDRESS,
        Reason::Port => icmpv6::UNREACHABLE_PORT,
        Reason::Prohibited => icmpv6::UNREACHABLE_PROHIBITED,
        Reason::Protocol => {
            return Err("ICMPv6 has no `protocol unreachable`; add --ip_version=ipv4".into());
        }
    })
}
