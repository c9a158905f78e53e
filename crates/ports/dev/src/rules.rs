//! Rules that let packets pass or drop them: access control lists, without state.
//!
//! Rules speak of IP packets; ARP always passes. The first rule that fits a packet decides, and a
//! packet that none fits passes.
//!
//! A later fragment carries neither ports nor, at times, the protocol. Where a rule asks for those,
//! a rule that permits fits it by the rest, and one that denies does not: the first fragment, which
//! shows everything, decides about the datagram, since the others cannot be put together without
//! it. Fragments that overlap, and first fragments without the whole transport header, which could
//! deceive this, are refused by the stack (RFC 1858, RFC 5722, RFC 7112).

use std::ops::RangeInclusive;

use clearway_pkt::Iface;
use clearway_wire::{Cidr, Proto};

use crate::headers::{Headers, Part};

/// Rules in one list at most: each packet is held against them one by one.
pub const MAX_RULES: usize = 1_024;

/// What a rule does with a packet that it fits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Lets it pass.
    Permit,
    /// Drops it.
    Deny,
}

/// Which way a packet goes, seen from the stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Towards the stack.
    In,
    /// From the stack.
    Out,
}

/// An interface that no packet passes: that of a rule whose interface is not there.
pub const NOWHERE: Iface = Iface(u16::MAX);

/// One rule; what is None fits every packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// What it does.
    pub action: Action,
    /// One direction.
    pub way: Option<Way>,
    /// One interface.
    pub iface: Option<Iface>,
    /// The protocol above IP.
    pub proto: Option<Proto>,
    /// Where the source lies.
    pub src: Option<Cidr>,
    /// Where the destination lies.
    pub dst: Option<Cidr>,
    /// Source ports, of TCP or UDP.
    pub src_ports: Option<RangeInclusive<u16>>,
    /// Destination ports, of TCP or UDP.
    pub dst_ports: Option<RangeInclusive<u16>>,
}

impl Rule {
    /// A rule that fits every IP packet.
    pub fn any(action: Action) -> Rule {
        Rule {
            action,
            way: None,
            iface: None,
            proto: None,
            src: None,
            dst: None,
            src_ports: None,
            dst_ports: None,
        }
    }
}

/// Why a rule makes no sense. Printed, each says what to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RuleError {
    /// Ports with a protocol that has none.
    #[error("only tcp and udp have ports; name one of them, or leave the ports out")]
    NoPorts,
    /// A range that holds no port.
    #[error("the range of ports is empty; write the lower port first")]
    EmptyRange,
    /// Prefixes of both families.
    #[error(
        "source and destination are of different IP versions, so no packet fits; give both in \
         the same"
    )]
    MixedFamilies,
    /// The list is full.
    #[error("there are {MAX_RULES} rules already; delete some first")]
    Full,
    /// There is no such rule.
    #[error("there is no rule of that number")]
    NoRule,
}

/// What a rule has counted. A frame that stands for several segments counts once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RuleCount {
    /// Frames that it decided about.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl RuleCount {
    fn add(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

/// A list of rules with their counters, for one core.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    rules: Vec<(Rule, RuleCount)>,
    unmatched: RuleCount,
}

impl Rules {
    /// An empty list: everything passes.
    pub fn new() -> Rules {
        Rules::default()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Adds a rule behind the others; answers its number, counted from 0.
    pub fn add(&mut self, rule: Rule) -> Result<usize, RuleError> {
        rule.check()?;
        if self.rules.len() >= MAX_RULES {
            return Err(RuleError::Full);
        }
        self.rules.push((rule, RuleCount::default()));
        Ok(self.rules.len() - 1)
    }

    /// Takes a rule out; those behind it move up.
    pub fn remove(&mut self, number: usize) -> Result<Rule, RuleError> {
        if number >= self.rules.len() {
            return Err(RuleError::NoRule);
        }
        Ok(self.rules.remove(number).0)
    }

    /// Says which interface a rule speaks of from now on: [`NOWHERE`] while the one that it means
    /// is not there.
    pub fn set_interface(&mut self, number: usize, iface: Iface) {
        if let Some((rule, _)) = self.rules.get_mut(number) {
            rule.iface = Some(iface);
        }
    }

    /// Every rule with what it has counted, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&Rule, RuleCount)> {
        self.rules.iter().map(|(rule, count)| (rule, *count))
    }

    /// IP packets that no rule fitted.
    pub fn unmatched(&self) -> RuleCount {
        self.unmatched
    }

    /// Sets all counters to zero.
    pub fn clear_counts(&mut self) {
        self.unmatched = RuleCount::default();
        for (_, count) in &mut self.rules {
            *count = RuleCount::default();
        }
    }

    /// What becomes of a frame, and the number of the rule that says so; counts it.
    pub fn judge(
        &mut self,
        way: Way,
        iface: Iface,
        frame: &[u8],
        ethernet: bool,
    ) -> (Action, Option<usize>) {
        if self.rules.is_empty() {
            return (Action::Permit, None);
        }
        let Some(headers) = Headers::of(frame, ethernet) else { return (Action::Permit, None) };
        for (number, (rule, count)) in self.rules.iter_mut().enumerate() {
            if rule.fits(way, iface, &headers) {
                count.add(frame.len());
                return (rule.action, Some(number));
            }
        }
        self.unmatched.add(frame.len());
        (Action::Permit, None)
    }
}

impl Rule {
    /// Whether the rule can fit any packet.
    pub fn check(&self) -> Result<(), RuleError> {
        let ranges = [&self.src_ports, &self.dst_ports];
        if ranges.iter().any(|range| range.as_ref().is_some_and(RangeInclusive::is_empty)) {
            return Err(RuleError::EmptyRange);
        }
        let portless = self.proto.is_some_and(|proto| proto != Proto::TCP && proto != Proto::UDP);
        if portless && ranges.iter().any(|range| range.is_some()) {
            return Err(RuleError::NoPorts);
        }
        match (self.src, self.dst) {
            (Some(src), Some(dst)) if src.addr.is_v4() != dst.addr.is_v4() => {
                Err(RuleError::MixedFamilies)
            }
            _ => Ok(()),
        }
    }

    fn fits(&self, way: Way, iface: Iface, headers: &Headers) -> bool {
        self.way.is_none_or(|mine| mine == way)
            && self.iface.is_none_or(|mine| mine == iface)
            && self.src.is_none_or(|prefix| prefix.contains(&headers.src))
            && self.dst.is_none_or(|prefix| prefix.contains(&headers.dst))
            && self.fits_transport(headers)
    }

    fn fits_transport(&self, headers: &Headers) -> bool {
        // See the head of this file: what cannot be seen in a later fragment is held for fitting
        // where that lets it pass.
        let unseen = headers.part == Part::Later && self.action == Action::Permit;
        let proto = match (self.proto, headers.proto) {
            (None, _) => true,
            (Some(mine), Some(theirs)) => mine == theirs,
            (Some(_), None) => unseen,
        };
        let port = |mine: &Option<RangeInclusive<u16>>, theirs: Option<u16>| match (mine, theirs) {
            (None, _) => true,
            (Some(range), Some(port)) => range.contains(&port),
            (Some(_), None) => unseen && may_have_ports(headers.proto),
        };
        proto
            && port(&self.src_ports, headers.ports.map(|(src, _)| src))
            && port(&self.dst_ports, headers.ports.map(|(_, dst)| dst))
    }
}

fn may_have_ports(proto: Option<Proto>) -> bool {
    proto.is_none_or(|proto| proto == Proto::TCP || proto == Proto::UDP)
}

#[cfg(test)]
mod tests;
