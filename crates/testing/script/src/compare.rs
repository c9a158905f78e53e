//! A packet of the stack under test held against what the script expects.

use clearway_wire::{Flags, Proto, tcp, udp};

use crate::ast::{Body, Icmp, IcmpKind, Micros, Packet, Segment, TcpOption};
use crate::backend::Net;
use crate::flow::{Flow, byte_at};
use crate::show::{self, View, option, read_icmp, read_segment, view};

/// What is different, one line each; empty when the packet is as expected.
pub(crate) fn outbound(
    net: &Net,
    flow: &mut Flow,
    wanted: &Packet,
    bytes: &[u8],
    tolerance: Micros,
) -> Vec<String> {
    let Some(found) = view(bytes) else { return vec!["the packet is malformed".into()] };
    let mut wrong = Vec::new();
    if wanted.ecn.is_some_and(|ecn| ecn != found.ecn) {
        wrong.push(format!("its congestion mark is {:?}", found.ecn));
    }
    match &wanted.body {
        Body::Tcp(segment) => compare_tcp(net, flow, segment, &found, tolerance, &mut wrong),
        Body::Udp(len) => compare_udp(net, flow, *len, &found, &mut wrong),
        Body::Icmp(icmp) => compare_icmp(net, flow, icmp, &found, &mut wrong),
    }
    wrong
}

fn compare_tcp(
    net: &Net,
    flow: &mut Flow,
    wanted: &Segment,
    found: &View<'_>,
    tolerance: Micros,
    wrong: &mut Vec<String>,
) {
    if found.proto != Proto::TCP {
        return wrong.push("it is no TCP segment".into());
    }
    if tcp::verify_checksum(&found.src, &found.dst, found.payload).is_err() {
        wrong.push("its TCP checksum is wrong".into());
    }
    let Ok(header) = tcp::parse(found.payload) else {
        return wrong.push("its TCP header is malformed".into());
    };
    if !flow.claims(net, (found.src, header.src_port), (found.dst, header.dst_port)) {
        return wrong.push("it belongs to another connection".into());
    }
    if header.flags.syn() && wanted.flags.syn() {
        flow.local_syn(wanted.seq, header.seq.0);
    }
    let stamps = compare_stamps(flow, wanted, found.payload, tolerance);
    let Some(segment) = read_segment(flow, found.payload) else {
        return wrong.push("its TCP header is malformed".into());
    };
    let push =
        if wanted.len > 0 && !wanted.flags.contains(Flags::PSH) { Flags::PSH } else { Flags::NONE };
    if segment.flags.without(push) != wanted.flags {
        wrong.push(format!("its flags are {}", segment.flags));
    }
    if (segment.seq, segment.len) != (wanted.seq, wanted.len) {
        wrong.push(format!(
            "its data is {}:{}({})",
            segment.seq,
            segment.seq.wrapping_add(segment.len),
            segment.len
        ));
    }
    if let Some(ack) = segment.ack.filter(|ack| wanted.ack.is_some_and(|wanted| wanted != *ack)) {
        wrong.push(format!("it acknowledges {ack}"));
    }
    if let Some(window) =
        segment.window.filter(|window| wanted.window.is_some_and(|wanted| wanted != *window))
    {
        wrong.push(format!("its window is {window}"));
    }
    if segment.urgent != wanted.urgent {
        wrong.push(format!(
            "its urgent pointer is {}",
            segment.urgent.map_or("not set".into(), |urg| urg.to_string())
        ));
    }
    wrong.extend(stamps);
    compare_options(wanted, &segment, wrong);
    compare_data(flow, &segment, &found.payload[usize::from(header.header_len)..], wrong);
}

/// The timestamp of the stack under test is mapped, the one that it echoes is not.
fn compare_stamps(
    flow: &mut Flow,
    wanted: &Segment,
    bytes: &[u8],
    tolerance: Micros,
) -> Option<String> {
    let options = wanted.options.as_ref()?;
    let (val, ecr) = options.iter().find_map(|option| match option {
        TcpOption::Ts(val, ecr) => Some((*val, *ecr)),
        _ => None,
    })?;
    let (live_val, live_ecr) = tcp::parse(bytes).ok()?.opts.ts?;
    if val.is_some_and(|val| !flow.stamp_fits(val, live_val, tolerance)) {
        return Some(format!("its timestamp is {}", flow.stamp_script(live_val)));
    }
    ecr.filter(|ecr| *ecr != live_ecr).map(|_| format!("it echoes the timestamp {live_ecr}"))
}

/// Options in any order and whatever their padding; timestamps were compared before.
fn compare_options(wanted: &Segment, found: &Segment, wrong: &mut Vec<String>) {
    let Some(options) = &wanted.options else { return };
    let kinds = |options: &[TcpOption]| -> Vec<TcpOption> {
        let counts =
            options.iter().filter(|option| !matches!(option, TcpOption::Nop | TcpOption::Eol));
        counts
            .map(|option| {
                if matches!(option, TcpOption::Ts(..)) {
                    TcpOption::Ts(None, None)
                } else {
                    option.clone()
                }
            })
            .collect()
    };
    let (wanted, found) = (kinds(options), kinds(found.options.as_deref().unwrap_or_default()));
    for missing in wanted.iter().filter(|option| !found.contains(option)) {
        wrong.push(format!("option `{}` is missing", option(missing)));
    }
    for extra in found.iter().filter(|option| !wanted.contains(option)) {
        wrong.push(format!("option `{}` is not expected", option(extra)));
    }
}

fn compare_data(flow: &Flow, segment: &Segment, data: &[u8], wrong: &mut Vec<String>) {
    let first = flow.local_index(segment.seq.wrapping_add(u32::from(segment.flags.syn())));
    let other =
        data.iter().zip(0u32..).find(|(byte, at)| **byte != byte_at(first.wrapping_add(*at)));
    if let Some((_, at)) = other {
        wrong.push(format!(
            "its data is not what was written, from sequence number {} on",
            segment.seq.wrapping_add(at)
        ));
    }
}

fn compare_udp(net: &Net, flow: &mut Flow, wanted: u16, found: &View<'_>, wrong: &mut Vec<String>) {
    if found.proto != Proto::UDP {
        return wrong.push("it is no UDP datagram".into());
    }
    let udp = match udp::check(&found.src, &found.dst, found.payload, true) {
        Ok(udp) => udp,
        Err(reason) => return wrong.push(format!("its UDP header is malformed: {reason}")),
    };
    if !flow.claims(net, (found.src, udp.src_port()), (found.dst, udp.dst_port())) {
        return wrong.push("it is between other ports".into());
    }
    if udp.payload().len() != usize::from(wanted) {
        wrong.push(format!("it holds {} bytes", udp.payload().len()));
    }
    if udp.payload().iter().zip(0u32..).any(|(byte, at)| *byte != byte_at(at)) {
        wrong.push("its data is not what was written".into());
    }
}

fn compare_icmp(
    net: &Net,
    flow: &mut Flow,
    wanted: &Icmp,
    found: &View<'_>,
    wrong: &mut Vec<String>,
) {
    let Some((kind, ports)) = read_icmp(found) else {
        return wrong.push("it is no such ICMP message".into());
    };
    if kind != wanted.kind {
        wrong.push(format!("it says {kind:?}"));
    }
    if matches!(kind, IcmpKind::EchoRequest(..) | IcmpKind::EchoReply(..)) {
        return;
    }
    let (local, remote) = flow.ends_or_passive(net);
    if ports != Some((remote.port, local.port)) {
        wrong.push("it quotes a packet between other ports".into());
    }
}

/// What a message shows of a packet.
pub(crate) fn describe(flow: Option<&Flow>, bytes: &[u8]) -> String {
    show::sent(flow, bytes)
}
