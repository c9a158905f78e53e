//! A frame or packet as one line of text, in the manner of tcpdump, without allocation.
//!
//! What cannot be read is said in brackets with the reason's counter name, so a line comes out of
//! any bytes. Checksums are not judged: packets that are caught before a device fills them in would
//! all look broken.

use core::fmt::{Display, Formatter, Result};

use crate::addr::{Addr, Endpoint};
use crate::arp::{self, Operation};
use crate::eth::{self, EtherType};
use crate::icmpv4::{self, Icmpv4};
use crate::icmpv6::{self, Icmpv6};
use crate::ip::{self, Ecn, Proto};
use crate::ipv4;
use crate::ipv6;
use crate::ipv6_ext;
use crate::malformed::Malformed;
use crate::ndp::{Advert, NdOption, Ndp, Options};
use crate::tcp::{self, Flags, RawOption};
use crate::udp;

/// An Ethernet frame as text: the VLANs, then the packet.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a>(pub &'a [u8]);

/// An Ethernet frame as text with its link addresses first.
#[derive(Clone, Copy, Debug)]
pub struct LinkFrame<'a>(pub &'a [u8]);

/// An IPv4 or IPv6 packet as text.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a>(pub &'a [u8]);

impl Display for Frame<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match eth::check(self.0) {
            Ok(eth) => payload(f, &eth),
            Err(reason) => malformed(f, reason, self.0),
        }
    }
}

impl Display for LinkFrame<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match eth::check(self.0) {
            Ok(eth) => {
                write!(f, "{} > {}, ", eth.src(), eth.dst())?;
                payload(f, &eth)
            }
            Err(reason) => malformed(f, reason, self.0),
        }
    }
}

impl Display for Packet<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match ip::version(self.0) {
            Some(4) => packet_v4(f, self.0),
            Some(6) => packet_v6(f, self.0),
            _ => write!(f, "[not an IP packet], length {}", self.0.len()),
        }
    }
}

fn malformed(f: &mut Formatter<'_>, reason: Malformed, bytes: &[u8]) -> Result {
    write!(f, "[{reason}], length {}", bytes.len())
}

fn payload(f: &mut Formatter<'_>, eth: &eth::Eth<'_>) -> Result {
    for tag in eth.tags() {
        write!(f, "vlan {}, ", tag.id())?;
    }
    match eth.ethertype() {
        EtherType::IPV4 => packet_v4(f, eth.payload()),
        EtherType::IPV6 => packet_v6(f, eth.payload()),
        EtherType::ARP => packet_arp(f, eth.payload()),
        other => write!(f, "{other}, length {}", eth.payload().len()),
    }
}

fn packet_arp(f: &mut Formatter<'_>, bytes: &[u8]) -> Result {
    let arp = match arp::check(bytes) {
        Ok(arp) => arp,
        Err(reason) => return write!(f, "arp [{reason}], length {}", bytes.len()),
    };
    match arp.operation {
        Operation::Request => {
            write!(f, "arp who-has {} tell {} ({})", arp.target, arp.sender, arp.sender_mac)
        }
        Operation::Reply => write!(f, "arp reply {} is-at {}", arp.sender, arp.sender_mac),
    }
}

/// What the upper protocols need of the IP header.
struct Upper<'a> {
    src: Addr,
    dst: Addr,
    proto: Proto,
    hop_limit: u8,
    bytes: &'a [u8],
}

fn packet_v4(f: &mut Formatter<'_>, bytes: &[u8]) -> Result {
    let ip = match ipv4::check(bytes, false) {
        Ok(ip) => ip,
        Err(reason) => return malformed(f, reason, bytes),
    };
    let upper = Upper {
        src: ip.src(),
        dst: ip.dst(),
        proto: ip.proto(),
        hop_limit: ip.ttl(),
        bytes: ip.payload(),
    };
    if ip.is_fragment() {
        return fragment(f, &upper, u32::from(ip.id()), ip.fragment_offset(), ip.more_fragments());
    }
    upper_line(f, &upper)?;
    if ip.has_source_route() {
        f.write_str(" [source route]")?;
    }
    congestion(f, ip.ecn())
}

fn packet_v6(f: &mut Formatter<'_>, bytes: &[u8]) -> Result {
    let ip = match ipv6::check(bytes) {
        Ok(ip) => ip,
        Err(reason) => return malformed(f, reason, bytes),
    };
    let mut upper = Upper {
        src: ip.src(),
        dst: ip.dst(),
        proto: ip.next(),
        hop_limit: ip.hop_limit(),
        bytes: ip.payload(),
    };
    let chain = match ipv6_ext::walk(&ip) {
        Ok(chain) => chain,
        Err(refusal) => {
            write!(f, "{} > {}: {} ", upper.src, upper.dst, upper.proto)?;
            return malformed(f, refusal.reason(), upper.bytes);
        }
    };
    (upper.proto, upper.bytes) = (chain.upper, chain.bytes);
    if let Some(part) = chain.fragment {
        return fragment(f, &upper, part.id, part.offset, part.more);
    }
    upper_line(f, &upper)?;
    congestion(f, ip.ecn())
}

fn congestion(f: &mut Formatter<'_>, ecn: Ecn) -> Result {
    match ecn {
        Ecn::NotEct => Ok(()),
        Ecn::Ect0 => f.write_str(" [ect0]"),
        Ecn::Ect1 => f.write_str(" [ect1]"),
        Ecn::Ce => f.write_str(" [ce]"),
    }
}

fn fragment(f: &mut Formatter<'_>, upper: &Upper<'_>, id: u32, offset: u16, more: bool) -> Result {
    let Upper { src, dst, proto, bytes, .. } = upper;
    let more = if more { ", more follow" } else { "" };
    write!(
        f,
        "{src} > {dst}: {proto} fragment, id {id}, offset {offset}{more}, length {}",
        bytes.len()
    )
}

fn upper_line(f: &mut Formatter<'_>, upper: &Upper<'_>) -> Result {
    match upper.proto {
        Proto::TCP => tcp_line(f, upper),
        Proto::UDP => udp_line(f, upper),
        Proto::ICMP if upper.src.is_v4() => icmpv4_line(f, upper),
        Proto::ICMPV6 if upper.src.is_v6() => icmpv6_line(f, upper),
        proto => write!(f, "{} > {}: {proto}, length {}", upper.src, upper.dst, upper.bytes.len()),
    }
}

fn ends(f: &mut Formatter<'_>, upper: &Upper<'_>, src_port: u16, dst_port: u16) -> Result {
    write!(f, "{} > {}: ", Endpoint::new(upper.src, src_port), Endpoint::new(upper.dst, dst_port))
}

fn tcp_line(f: &mut Formatter<'_>, upper: &Upper<'_>) -> Result {
    let segment = match tcp::parse(upper.bytes) {
        Ok(segment) => segment,
        Err(reason) => {
            write!(f, "{} > {}: tcp ", upper.src, upper.dst)?;
            return malformed(f, reason, upper.bytes);
        }
    };
    let len = upper.bytes.len().saturating_sub(usize::from(segment.header_len));
    ends(f, upper, segment.src_port, segment.dst_port)?;
    write!(f, "Flags [{}], seq {}", segment.flags, segment.seq)?;
    if len > 0 {
        write!(f, ":{}", segment.seq + segment.seq_len(len))?;
    }
    if segment.flags.ack() {
        write!(f, ", ack {}", segment.ack)?;
    }
    write!(f, ", win {}", segment.wnd)?;
    if segment.flags.contains(Flags::URG) {
        write!(f, ", urg {}", segment.urg)?;
    }
    let mut before = ", options [";
    for option in tcp::raw_options(upper.bytes) {
        f.write_str(before)?;
        before = ",";
        tcp_option(f, &option)?;
    }
    write!(f, "{}, length {len}", if before == "," { "]" } else { "" })
}

fn tcp_option(f: &mut Formatter<'_>, option: &RawOption<'_>) -> Result {
    match option {
        RawOption::End => f.write_str("eol"),
        RawOption::Nop => f.write_str("nop"),
        RawOption::Mss(mss) => write!(f, "mss {mss}"),
        RawOption::Wscale(shift) => write!(f, "wscale {shift}"),
        RawOption::SackPermitted => f.write_str("sackOK"),
        RawOption::Ts(val, ecr) => write!(f, "TS val {val} ecr {ecr}"),
        RawOption::AccEcn(counters) => {
            write!(f, "accecn{}", u8::from(counters.is_ect1_first))?;
            let names = [" e0b ", " ceb ", " e1b "];
            let each = names.into_iter().zip(counters.counters());
            each.filter_map(|(name, n)| Some((name, n?)))
                .try_for_each(|(name, n)| write!(f, "{name}{n}"))
        }
        RawOption::FastOpen(cookie) if cookie.is_request() => f.write_str("tfo cookiereq"),
        RawOption::FastOpen(cookie) => {
            f.write_str("tfo cookie ")?;
            cookie.as_slice().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
        }
        RawOption::Broken => f.write_str("[broken]"),
        RawOption::Sack(blocks) => {
            write!(f, "sack {} ", blocks.len())?;
            blocks.iter().try_for_each(|(left, right)| write!(f, "{{{left}:{right}}}"))
        }
        RawOption::Other { kind, data } => {
            write!(f, "unknown-{kind}")?;
            if !data.is_empty() {
                f.write_str(" 0x")?;
            }
            data.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
        }
    }
}

fn udp_line(f: &mut Formatter<'_>, upper: &Upper<'_>) -> Result {
    match udp::check(&upper.src, &upper.dst, upper.bytes, false) {
        Ok(udp) => {
            ends(f, upper, udp.src_port(), udp.dst_port())?;
            write!(f, "UDP, length {}", udp.payload().len())
        }
        Err(reason) => {
            write!(f, "{} > {}: udp ", upper.src, upper.dst)?;
            malformed(f, reason, upper.bytes)
        }
    }
}

/// The packet quoted in an ICMP error: whose it was.
struct Quoted<'a>(&'a [u8]);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let quote = match ip::quote(self.0) {
            Ok(quote) => quote,
            Err(reason) => return write!(f, "about [{reason}]"),
        };
        match quote.ports() {
            Some((src, dst)) => {
                let (src, dst) = (Endpoint::new(quote.src, src), Endpoint::new(quote.dst, dst));
                write!(f, "about {src} > {dst} {}", quote.proto)
            }
            None => write!(f, "about {} > {} {}", quote.src, quote.dst, quote.proto),
        }
    }
}

fn icmpv4_line(f: &mut Formatter<'_>, upper: &Upper<'_>) -> Result {
    write!(f, "{} > {}: ICMP ", upper.src, upper.dst)?;
    let message = match icmpv4::check(upper.bytes, false) {
        Ok(message) => message,
        Err(reason) => return malformed(f, reason, upper.bytes),
    };
    match message {
        Icmpv4::EchoRequest { id, seq, .. } => write!(f, "echo request, id {id}, seq {seq}")?,
        Icmpv4::EchoReply { id, seq, .. } => write!(f, "echo reply, id {id}, seq {seq}")?,
        Icmpv4::Unreachable { code, mtu, quoted } => {
            match code {
                icmpv4::UNREACHABLE_NET => f.write_str("net unreachable")?,
                icmpv4::UNREACHABLE_HOST => f.write_str("host unreachable")?,
                icmpv4::UNREACHABLE_PROTOCOL => f.write_str("protocol unreachable")?,
                icmpv4::UNREACHABLE_PORT => f.write_str("port unreachable")?,
                icmpv4::UNREACHABLE_FRAGMENTATION_NEEDED => {
                    write!(f, "fragmentation needed, mtu {mtu}")?
                }
                icmpv4::UNREACHABLE_PROHIBITED => f.write_str("prohibited")?,
                _ => write!(f, "unreachable, code {code}")?,
            }
            write!(f, ", {}", Quoted(quoted))?;
        }
        Icmpv4::Redirect { gateway, quoted, .. } => {
            write!(f, "redirect to {gateway}, {}", Quoted(quoted))?
        }
        Icmpv4::TimeExceeded { code, quoted } => time_exceeded(f, code, quoted)?,
        Icmpv4::ParamProblem { code, pointer, quoted } => {
            write!(f, "parameter problem, code {code}, at byte {pointer}, {}", Quoted(quoted))?;
        }
        Icmpv4::Other { kind, code, .. } => write!(f, "type {kind}, code {code}")?,
    }
    write!(f, ", length {}", upper.bytes.len())
}

/// The codes mean the same in both families.
fn time_exceeded(f: &mut Formatter<'_>, code: u8, quoted: &[u8]) -> Result {
    match code {
        icmpv6::TIME_EXCEEDED_HOP_LIMIT => f.write_str("time exceeded in transit")?,
        icmpv6::TIME_EXCEEDED_REASSEMBLY => f.write_str("time exceeded in reassembly")?,
        _ => write!(f, "time exceeded, code {code}")?,
    }
    write!(f, ", {}", Quoted(quoted))
}

fn icmpv6_line(f: &mut Formatter<'_>, upper: &Upper<'_>) -> Result {
    write!(f, "{} > {}: ICMP6, ", upper.src, upper.dst)?;
    let message = match icmpv6::check(&upper.src, &upper.dst, upper.hop_limit, upper.bytes, false) {
        Ok(message) => message,
        Err(reason) => return malformed(f, reason, upper.bytes),
    };
    match message {
        Icmpv6::EchoRequest { id, seq, .. } => write!(f, "echo request, id {id}, seq {seq}")?,
        Icmpv6::EchoReply { id, seq, .. } => write!(f, "echo reply, id {id}, seq {seq}")?,
        Icmpv6::Unreachable { code, quoted } => {
            match code {
                icmpv6::UNREACHABLE_NO_ROUTE => f.write_str("no route")?,
                icmpv6::UNREACHABLE_PROHIBITED => f.write_str("prohibited")?,
                icmpv6::UNREACHABLE_ADDRESS => f.write_str("address unreachable")?,
                icmpv6::UNREACHABLE_PORT => f.write_str("port unreachable")?,
                _ => write!(f, "unreachable, code {code}")?,
            }
            write!(f, ", {}", Quoted(quoted))?;
        }
        Icmpv6::PacketTooBig { mtu, quoted } => {
            write!(f, "packet too big, mtu {mtu}, {}", Quoted(quoted))?
        }
        Icmpv6::TimeExceeded { code, quoted } => time_exceeded(f, code, quoted)?,
        Icmpv6::ParamProblem { code, pointer, quoted } => {
            write!(f, "parameter problem, code {code}, at byte {pointer}, {}", Quoted(quoted))?;
        }
        Icmpv6::Ndp(message) => ndp_line(f, &message)?,
        Icmpv6::Other { kind, code, .. } => write!(f, "type {kind}, code {code}")?,
    }
    write!(f, ", length {}", upper.bytes.len())
}

fn ndp_line(f: &mut Formatter<'_>, message: &Ndp<'_>) -> Result {
    let options = match message {
        Ndp::RouterSolicit { options } => {
            f.write_str("router solicitation")?;
            options
        }
        Ndp::RouterAdvert(Advert { hop_limit, managed, other, lifetime_s, options, .. }) => {
            write!(f, "router advertisement, hop limit {hop_limit}, lifetime {lifetime_s}s")?;
            flags(f, &[(*managed, "managed"), (*other, "other")])?;
            options
        }
        Ndp::NeighborSolicit { target, options } => {
            write!(f, "neighbor solicitation, who has {target}")?;
            options
        }
        Ndp::NeighborAdvert { router, solicited, override_, target, options } => {
            write!(f, "neighbor advertisement, tgt is {target}")?;
            flags(f, &[(*router, "router"), (*solicited, "solicited"), (*override_, "override")])?;
            options
        }
        Ndp::Redirect { target, destination, options } => {
            write!(f, "redirect, {destination} to {target}")?;
            options
        }
    };
    nd_options(f, options)
}

fn flags(f: &mut Formatter<'_>, flags: &[(bool, &str)]) -> Result {
    flags.iter().filter(|(set, _)| *set).try_for_each(|(_, name)| write!(f, ", {name}"))
}

fn nd_options(f: &mut Formatter<'_>, options: &Options<'_>) -> Result {
    for option in options.iter() {
        match option {
            NdOption::SourceLink(mac) => write!(f, ", source link {mac}")?,
            NdOption::TargetLink(mac) => write!(f, ", target link {mac}")?,
            NdOption::Prefix(p) => write!(f, ", prefix {}/{}", p.prefix, p.prefix_len)?,
            NdOption::Redirected(packet) => write!(f, ", {}", Quoted(packet))?,
            NdOption::Mtu(mtu) => write!(f, ", mtu {mtu}")?,
            NdOption::Route(r) => write!(f, ", route {}/{}", r.prefix, r.prefix_len)?,
            NdOption::Dns(dns) => {
                dns.servers().try_for_each(|server| write!(f, ", dns {server}"))?;
            }
            NdOption::Other { kind, .. } => write!(f, ", option {kind}")?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
