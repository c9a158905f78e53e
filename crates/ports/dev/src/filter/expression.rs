//! Filters in the language that tcpdump and Wireshark take (pcap-filter(7)), as far as it speaks of
//! addresses, protocols and ports.

use std::ops::RangeInclusive;

use clearway_wire::{Addr, Cidr, EtherType, Proto, eth};
use thiserror::Error;

use crate::headers::Headers;

/// Parentheses and negations in each other at most.
const MAX_DEPTH: usize = 32;

/// Why a text is no filter.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "the filter cannot be used: {what}. It may have host, net, port, portrange and proto, with src \
     or dst before them; tcp, udp, icmp, icmp6, ip, ip6 and arp; and, or, not and parentheses"
)]
pub struct FilterError {
    what: String,
}

/// What a filter says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expression(Node);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Node {
    Not(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Test(Test),
}

/// One condition; all parts of it hold together.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Test {
    kind: Kind,
    side: Side,
    what: What,
}

/// The protocol that stands before a condition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Any,
    Ip,
    Ip6,
    Arp,
    Upper(Proto),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Either,
    Src,
    Dst,
    Both,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum What {
    Nothing,
    Net(Cidr),
    Ports(RangeInclusive<u16>),
    Proto(Proto),
}

impl std::str::FromStr for Expression {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Expression, FilterError> {
        let words = words(text);
        let mut reader = Reader { words: &words, at: 0, depth: 0, before: None };
        let node = reader.alternatives()?;
        match reader.peek() {
            None => Ok(Expression(node)),
            Some(word) => Err(wrong(format!("`{word}` stands where and, or or the end should"))),
        }
    }
}

fn wrong(what: impl Into<String>) -> FilterError {
    FilterError { what: what.into() }
}

/// Words, and the signs that need no blanks round them.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for word in text.split_whitespace() {
        let mut rest = word;
        while !rest.is_empty() {
            let sign = ["&&", "||", "(", ")", "!"].into_iter().find(|sign| rest.starts_with(sign));
            // A lone `&` or `|` is a word, and refused as one.
            let next = rest.char_indices().skip(1).find(|(_, c)| "()!&|".contains(*c));
            let len = sign.map_or(next.map_or(rest.len(), |(at, _)| at), str::len);
            let (one, more) = rest.split_at(len);
            words.push(one);
            rest = more;
        }
    }
    words
}

/// What stood before a value, and holds for a bare one that follows (`port 80 or 443`).
#[derive(Clone, Copy)]
struct Before {
    kind: Kind,
    side: Side,
    unit: &'static str,
}

struct Reader<'a> {
    words: &'a [&'a str],
    at: usize,
    depth: usize,
    before: Option<Before>,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn take_if(&mut self, wanted: &[&str]) -> bool {
        let is_it = self.peek().is_some_and(|word| wanted.contains(&word));
        self.at += usize::from(is_it);
        is_it
    }

    /// `and` and `or` bind alike, from left to right, as pcap-filter(7) has it.
    fn alternatives(&mut self) -> Result<Node, FilterError> {
        let mut left = self.negations()?;
        loop {
            if self.take_if(&["and", "&&"]) {
                left = Node::And(Box::new(left), Box::new(self.negations()?));
            } else if self.take_if(&["or", "||"]) {
                left = Node::Or(Box::new(left), Box::new(self.negations()?));
            } else {
                return Ok(left);
            }
        }
    }

    fn negations(&mut self) -> Result<Node, FilterError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(wrong(format!("more than {MAX_DEPTH} parentheses stand in each other")));
        }
        let node = if self.take_if(&["not", "!"]) {
            Node::Not(Box::new(self.negations()?))
        } else if self.take_if(&["("]) {
            let inner = self.alternatives()?;
            if !self.take_if(&[")"]) {
                return Err(wrong("a parenthesis is not closed"));
            }
            inner
        } else {
            Node::Test(self.test()?)
        };
        self.depth -= 1;
        Ok(node)
    }

    fn test(&mut self) -> Result<Test, FilterError> {
        let Some(first) = self.peek() else { return Err(wrong("it ends where more must come")) };
        let kind = kind_of(first);
        self.at += usize::from(kind.is_some());
        let side = self.side();
        let unit = ["host", "net", "portrange", "port", "proto"]
            .into_iter()
            .find(|unit| self.take_if(&[unit]));
        let bare = kind.is_none() && side.is_none() && unit.is_none();
        let Before { kind, side, unit } = match (unit, bare, kind) {
            (Some(unit), ..) => {
                Before { kind: kind.unwrap_or(Kind::Any), side: side.unwrap_or(Side::Either), unit }
            }
            // A bare address is a host, and any bare value after `port` is a port.
            (None, true, _) => match self.before {
                Some(before) => before,
                None => Before { kind: Kind::Any, side: Side::Either, unit: "host" },
            },
            (None, false, Some(kind)) if side.is_none() => {
                return Ok(Test { kind, side: Side::Either, what: What::Nothing });
            }
            (None, false, _) => Before {
                kind: kind.unwrap_or(Kind::Any),
                side: side.unwrap_or(Side::Either),
                unit: "host",
            },
        };
        let value = self.peek().ok_or_else(|| wrong(format!("a value is missing after {unit}")))?;
        let what = value_of(unit, value).ok_or_else(|| match bare && self.before.is_none() {
            true => wrong(format!("`{value}` is not understood")),
            false => wrong(format!("`{value}` is no {}", unit_name(unit))),
        })?;
        self.at += 1;
        let has_ports = matches!(kind, Kind::Any | Kind::Upper(Proto::TCP | Proto::UDP));
        if matches!(what, What::Ports(_)) && !has_ports {
            return Err(wrong("only tcp and udp have ports"));
        }
        self.before = Some(Before { kind, side, unit });
        Ok(Test { kind, side, what })
    }

    fn side(&mut self) -> Option<Side> {
        let one = |word: &str| match word {
            "src" => Some(Side::Src),
            "dst" => Some(Side::Dst),
            _ => None,
        };
        let first = self.peek().and_then(one)?;
        self.at += 1;
        let second = self.words.get(self.at + 1).copied().and_then(one);
        match (self.peek(), second) {
            (Some("or"), Some(second)) if second != first => {
                self.at += 2;
                Some(Side::Either)
            }
            (Some("and"), Some(second)) if second != first => {
                self.at += 2;
                Some(Side::Both)
            }
            _ => Some(first),
        }
    }
}

fn kind_of(word: &str) -> Option<Kind> {
    Some(match word {
        "ip" => Kind::Ip,
        "ip6" => Kind::Ip6,
        "arp" => Kind::Arp,
        _ => Kind::Upper(proto_of(word)?),
    })
}

fn proto_of(word: &str) -> Option<Proto> {
    match word {
        "tcp" => Some(Proto::TCP),
        "udp" => Some(Proto::UDP),
        "icmp" => Some(Proto::ICMP),
        "icmp6" => Some(Proto::ICMPV6),
        _ => None,
    }
}

fn unit_name(unit: &str) -> &str {
    match unit {
        "host" => "address",
        "net" => "network such as 10.0.0.0/8",
        "port" => "number of a port",
        "portrange" => "range of ports such as 80-90",
        _ => "protocol",
    }
}

fn value_of(unit: &str, text: &str) -> Option<What> {
    let alone = |addr: Addr| Cidr::new(addr, if addr.is_v4() { 32 } else { 128 });
    let port = |text: &str| -> Option<u16> {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
    };
    match unit {
        "host" => text.parse().ok().and_then(alone).map(What::Net),
        "net" => {
            let whole = || text.parse().ok().and_then(alone);
            text.parse().ok().or_else(whole).map(What::Net)
        }
        "port" => port(text).map(|port| What::Ports(port..=port)),
        "portrange" => {
            let (first, last) = text.split_once('-')?;
            let (first, last) = (port(first)?, port(last)?);
            (first <= last).then_some(What::Ports(first..=last))
        }
        _ => proto_of(text).or_else(|| text.parse().ok().map(Proto)).map(What::Proto),
    }
}

impl Expression {
    /// Whether a frame, or one of which these are the first bytes, is wanted.
    pub fn fits(&self, head: &[u8], ethernet: bool) -> bool {
        let is_arp =
            ethernet && eth::check(head).is_ok_and(|eth| eth.ethertype() == EtherType::ARP);
        self.0.fits(Headers::of(head, ethernet).as_ref(), is_arp)
    }
}

impl Node {
    fn fits(&self, headers: Option<&Headers>, is_arp: bool) -> bool {
        match self {
            Node::Not(node) => !node.fits(headers, is_arp),
            Node::And(left, right) => left.fits(headers, is_arp) && right.fits(headers, is_arp),
            Node::Or(left, right) => left.fits(headers, is_arp) || right.fits(headers, is_arp),
            Node::Test(Test { kind: Kind::Arp, what, .. }) => is_arp && *what == What::Nothing,
            Node::Test(test) => headers.is_some_and(|headers| test.fits(headers)),
        }
    }
}

impl Test {
    fn fits(&self, headers: &Headers) -> bool {
        let kind = match self.kind {
            Kind::Any => true,
            Kind::Ip => headers.src.is_v4(),
            Kind::Ip6 => !headers.src.is_v4(),
            Kind::Arp => false,
            Kind::Upper(proto) => headers.proto == Some(proto),
        };
        kind && match &self.what {
            What::Nothing => true,
            What::Proto(proto) => headers.proto == Some(*proto),
            What::Net(net) => {
                self.side.fits(net.contains(&headers.src), net.contains(&headers.dst))
            }
            What::Ports(wanted) => headers.ports.is_some_and(|(src, dst)| {
                self.side.fits(wanted.contains(&src), wanted.contains(&dst))
            }),
        }
    }
}

impl Side {
    fn fits(self, src: bool, dst: bool) -> bool {
        match self {
            Side::Either => src || dst,
            Side::Src => src,
            Side::Dst => dst,
            Side::Both => src && dst,
        }
    }
}

#[cfg(test)]
mod tests;
