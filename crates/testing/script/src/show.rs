//! Packets in the script's words and numbers, for messages.

use std::fmt::Write;

use clearway_wire::tcp::RawOption;
use clearway_wire::{Addr, Ecn, Flags, Proto, icmpv4, icmpv6, ipv4, ipv6, ipv6_ext, tcp, udp};

use crate::ast::{Body, Icmp, IcmpKind, Micros, Packet, Segment, TcpOption, When};
use crate::flow::Flow;

/// What both families have in common of a packet.
pub(crate) struct View<'a> {
    /// Source address.
    pub(crate) src: Addr,
    /// Destination address.
    pub(crate) dst: Addr,
    /// Transport protocol.
    pub(crate) proto: Proto,
    /// Congestion mark.
    pub(crate) ecn: Ecn,
    /// TTL or hop limit.
    pub(crate) hop_limit: u8,
    /// What the IP header carries.
    pub(crate) payload: &'a [u8],
}

/// Reads an IP packet; None when it is malformed or a fragment.
pub(crate) fn view(bytes: &[u8]) -> Option<View<'_>> {
    if clearway_wire::ip::version(bytes) == Some(6) {
        let ip = ipv6::check(bytes).ok()?;
        let chain = ipv6_ext::walk(&ip).ok().filter(|chain| chain.fragment.is_none())?;
        return Some(View {
            src: ip.src(),
            dst: ip.dst(),
            proto: chain.upper,
            ecn: ip.ecn(),
            hop_limit: ip.hop_limit(),
            payload: chain.bytes,
        });
    }
    let ip = ipv4::check(bytes, true).ok().filter(|ip| !ip.is_fragment())?;
    Some(View {
        src: ip.src(),
        dst: ip.dst(),
        proto: ip.proto(),
        ecn: ip.ecn(),
        hop_limit: ip.ttl(),
        payload: ip.payload(),
    })
}

/// Seconds with as many digits as are needed.
pub(crate) fn seconds(micros: Micros) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    let text = text.trim_end_matches('0');
    text.strip_suffix('.').map_or(text.to_owned(), |whole| format!("{whole}.0"))
}

/// A moment or a range as the script has it.
pub(crate) fn when(when: When) -> String {
    let (sign, between) = match when {
        When::Any => return "*".into(),
        When::Absolute(between) => ("", between),
        When::Relative(between) => ("+", between),
    };
    let mut text = format!("{sign}{}", seconds(between.from));
    if between.to != between.from {
        let _ = write!(text, "~{sign}{}", seconds(between.to));
    }
    text
}

fn flags(flags: Flags) -> String {
    let without_urgent = flags.without(Flags::URG);
    if without_urgent == Flags::NONE { "-".into() } else { without_urgent.to_string() }
}

/// A packet that the script speaks of.
pub(crate) fn packet(packet: &Packet) -> String {
    let mut text = String::from(if packet.optional { "(optional) " } else { "" });
    if packet.flow != 1 {
        let _ = write!(text, "{} ", packet.flow);
    }
    if let Some(ecn) = packet.ecn {
        text.push_str(match ecn {
            Ecn::NotEct => "[noecn] ",
            Ecn::Ect0 => "[ect0] ",
            Ecn::Ect1 => "[ect1] ",
            Ecn::Ce => "[ce] ",
        });
    }
    match &packet.body {
        Body::Tcp(wanted) => text.push_str(&segment(wanted)),
        Body::Udp(len) => {
            let _ = write!(text, "udp ({len})");
        }
        Body::Icmp(message) => text.push_str(&icmp(message)),
    }
    text
}

/// A TCP segment in the script's numbers.
pub(crate) fn segment(segment: &Segment) -> String {
    let Segment { seq, len, .. } = segment;
    let mut text = format!("{} {seq}:{}({len})", flags(segment.flags), seq.wrapping_add(*len));
    if let Some(ack) = segment.ack {
        let _ = write!(text, " ack {ack}");
    }
    match segment.window {
        Some(window) => {
            let _ = write!(text, " win {window}");
        }
        None => text.push_str(" win *"),
    }
    if let Some(urgent) = segment.urgent {
        let _ = write!(text, " urg {urgent}");
    }
    match &segment.options {
        None => text.push_str(" <...>"),
        Some(options) if options.is_empty() => {}
        Some(options) => {
            let options: Vec<String> = options.iter().map(option).collect();
            let _ = write!(text, " <{}>", options.join(","));
        }
    }
    text
}

/// A TCP option.
pub(crate) fn option(option: &TcpOption) -> String {
    let stamp = |value: &Option<u32>| value.map_or("*".to_owned(), |value| value.to_string());
    match option {
        TcpOption::Nop => "nop".into(),
        TcpOption::Eol => "eol".into(),
        TcpOption::Mss(mss) => format!("mss {mss}"),
        TcpOption::AccEcn(counters) => {
            let told = counters.counters();
            let mut each = vec![("e0b", told[0]), ("ceb", told[1]), ("e1b", told[2])];
            if counters.is_ect1_first {
                each.reverse();
            }
            let each =
                each.into_iter().filter_map(|(name, told)| Some(format!(" {name} {}", told?)));
            std::iter::once("ECN".to_owned()).chain(each).collect()
        }
        TcpOption::Wscale(shift) => format!("wscale {shift}"),
        TcpOption::SackOk => "sackOK".into(),
        TcpOption::Sack(blocks) => blocks
            .iter()
            .fold("sack".to_owned(), |text, (left, right)| format!("{text} {left}:{right}")),
        TcpOption::Ts(val, ecr) => format!("TS val {} ecr {}", stamp(val), stamp(ecr)),
        TcpOption::FastOpen(cookie) => cookie
            .as_slice()
            .iter()
            .fold("FO ".to_owned(), |text, byte| format!("{text}{byte:02x}"))
            .trim_end()
            .to_owned(),
        TcpOption::Raw(bytes) => {
            bytes.iter().fold("raw 0x".to_owned(), |text, byte| format!("{text}{byte:02x}"))
        }
    }
}

fn icmp(message: &Icmp) -> String {
    let kind = match message.kind {
        IcmpKind::Unreachable(reason) => {
            format!("icmp unreachable {}", format!("{reason:?}").to_lowercase())
        }
        IcmpKind::TooBig(mtu) => format!("icmp packet_too_big mtu {mtu}"),
        IcmpKind::TimeExceeded => "icmp time_exceeded".into(),
        IcmpKind::Parameter => "icmp parameter_problem".into(),
        IcmpKind::EchoRequest(id, len) => format!("icmp echo_request id {id} ({len})"),
        IcmpKind::EchoReply(id, len) => format!("icmp echo_reply id {id} ({len})"),
    };
    match (message.quoted, message.quoted_udp) {
        (Some((seq, len)), _) => format!("{kind} [{seq}:{}({len})]", seq.wrapping_add(len)),
        (_, Some(len)) => format!("{kind} [udp ({len})]"),
        _ => kind,
    }
}

/// A segment of the stack under test, in the script's numbers; None when it cannot be read.
pub(crate) fn read_segment(flow: &Flow, bytes: &[u8]) -> Option<Segment> {
    let header = tcp::parse(bytes).ok()?;
    let mut options = Vec::new();
    for raw in tcp::raw_options(bytes) {
        options.push(match raw {
            RawOption::End => TcpOption::Eol,
            RawOption::Nop => TcpOption::Nop,
            RawOption::Mss(mss) => TcpOption::Mss(mss),
            RawOption::Wscale(shift) => TcpOption::Wscale(shift),
            RawOption::SackPermitted => TcpOption::SackOk,
            RawOption::Sack(blocks) => {
                let script = |seq: clearway_wire::Seq| flow.remote_script(seq.0);
                TcpOption::Sack(
                    blocks.iter().map(|(left, right)| (script(left), script(right))).collect(),
                )
            }
            RawOption::Ts(val, ecr) => TcpOption::Ts(Some(flow.stamp_script(val)), Some(ecr)),
            RawOption::Other { kind, data } => {
                let mut raw = vec![kind, data.len() as u8 + 2];
                raw.extend_from_slice(data);
                TcpOption::Raw(raw)
            }
            RawOption::AccEcn(counters) => TcpOption::AccEcn(counters),
            RawOption::FastOpen(cookie) => TcpOption::FastOpen(cookie),
            RawOption::Broken => TcpOption::Raw(Vec::new()),
        });
    }
    Some(Segment {
        flags: header.flags,
        seq: flow.local_script(header.seq.0),
        len: (bytes.len() - usize::from(header.header_len)) as u32,
        ack: header.flags.ack().then(|| flow.remote_script(header.ack.0)),
        window: Some(header.wnd),
        urgent: header.flags.contains(Flags::URG).then_some(header.urg),
        options: Some(options),
    })
}

/// A packet of the stack under test in the script's words, as far as the script has any, and then
/// in the usual text form.
pub(crate) fn sent(flow: Option<&Flow>, bytes: &[u8]) -> String {
    let wire = clearway_wire::pretty::Packet(bytes);
    let script = view(bytes).and_then(|view| match view.proto {
        Proto::TCP => Some(segment(&read_segment(flow?, view.payload)?)),
        Proto::UDP => {
            let udp = udp::check(&view.src, &view.dst, view.payload, false).ok()?;
            Some(format!("udp ({})", udp.payload().len()))
        }
        _ => None,
    });
    match script {
        Some(script) => format!("{script}\n            ({wire})"),
        None => wire.to_string(),
    }
}

/// An ICMP message of the stack under test as the script would have it: its kind, and the ports
/// that it quotes.
pub(crate) fn read_icmp(view: &View<'_>) -> Option<(IcmpKind, Option<(u16, u16)>)> {
    use crate::ast::Reason::{Host, Net, Port, Prohibited, Protocol};
    let ports = |quoted| clearway_wire::ip::quote(quoted).ok().and_then(|quote| quote.ports());
    if view.proto == Proto::ICMPV6 {
        return Some(
            match icmpv6::check(&view.src, &view.dst, view.hop_limit, view.payload, true).ok()? {
                icmpv6::Icmpv6::Unreachable { code, quoted } => {
                    let reason = match code {
                        icmpv6::UNREACHABLE_NO_ROUTE => Net,
                        icmpv6::UNREACHABLE_ADDRESS => Host,
                        icmpv6::UNREACHABLE_PORT => Port,
                        _ => Prohibited,
                    };
                    (IcmpKind::Unreachable(reason), ports(quoted))
                }
                icmpv6::Icmpv6::PacketTooBig { mtu, quoted } => {
                    (IcmpKind::TooBig(mtu), ports(quoted))
                }
                icmpv6::Icmpv6::TimeExceeded { quoted, .. } => {
                    (IcmpKind::TimeExceeded, ports(quoted))
                }
                icmpv6::Icmpv6::ParamProblem { quoted, .. } => (IcmpKind::Parameter, ports(quoted)),
                icmpv6::Icmpv6::EchoRequest { id, data, .. } => {
                    (IcmpKind::EchoRequest(id, data.len() as u16), None)
                }
                icmpv6::Icmpv6::EchoReply { id, data, .. } => {
                    (IcmpKind::EchoReply(id, data.len() as u16), None)
                }
                _ => return None,
            },
        );
    }
    Some(match icmpv4::check(view.payload, true).ok()? {
        icmpv4::Icmpv4::Unreachable { code, mtu, quoted } => {
            let reason = match code {
                icmpv4::UNREACHABLE_FRAGMENTATION_NEEDED => {
                    return Some((IcmpKind::TooBig(mtu.into()), ports(quoted)));
                }
                icmpv4::UNREACHABLE_NET => Net,
                icmpv4::UNREACHABLE_HOST => Host,
                icmpv4::UNREACHABLE_PROTOCOL => Protocol,
                icmpv4::UNREACHABLE_PORT => Port,
                _ => Prohibited,
            };
            (IcmpKind::Unreachable(reason), ports(quoted))
        }
        icmpv4::Icmpv4::TimeExceeded { quoted, .. } => (IcmpKind::TimeExceeded, ports(quoted)),
        icmpv4::Icmpv4::ParamProblem { quoted, .. } => (IcmpKind::Parameter, ports(quoted)),
        icmpv4::Icmpv4::EchoRequest { id, data, .. } => {
            (IcmpKind::EchoRequest(id, data.len() as u16), None)
        }
        icmpv4::Icmpv4::EchoReply { id, data, .. } => {
            (IcmpKind::EchoReply(id, data.len() as u16), None)
        }
        _ => return None,
    })
}
