//! What looks at every packet when it is asked to: captures into a file, and rules that drop.
//!
//! Each worker has a [`Watcher`] while there is a capture or a rule, and none otherwise, so that
//! nothing is paid then. A capture has a thread that writes; workers put packets into a bounded
//! place of their own and never wait ([`lane`]). The rules are each worker's own, behind a lock that
//! nobody else takes but to read their counters.

use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use clearway_command::{Direction as AclDirection, Gate, PcapTrace};
use clearway_dev::pcap::Direction;
use clearway_dev::rules::{NOWHERE, RuleCount};
use clearway_dev::{Action, Rule, Rules, Way};
use clearway_engine::{Inspect, Time, Verdict};
use clearway_pkt::{Iface, RxMeta, TxMeta};
use clearway_proto::{Drop as Reason, Link};
use clearway_wire::Proto;
use serde_json::json;

use crate::host::HostHandle;
use crate::outcome::{CommandError, Output, locked};

mod lane;
mod names;
mod recording;

use lane::{Lane, Note, Record};
use names::Names;
use recording::{Capture, Place, Recording, range};

/// Streams of packets at once.
const MAX_STREAMS: usize = 8;

/// Captures and rules, as the control plane keeps them.
#[derive(Default)]
pub(crate) struct Packets {
    capture: Option<Recording>,
    /// Streams, by numbers that no other gets.
    streams: Vec<(u64, Recording)>,
    next_stream: u64,
    /// Whom to ask whose packets are.
    host: Option<HostHandle>,
    /// A list for each worker, the same but for the counters.
    rules: Vec<Arc<Mutex<Rules>>>,
    /// The interface that each rule names. The number of an interface may become another's, its
    /// name only by the will of who gives it.
    names: Vec<Option<String>>,
    /// Packets that rules dropped and that are counted no more, because their rule is gone.
    denied_before: u64,
    /// What rules had counted when they were cleared is simply forgotten; drops are not.
    denied_cleared: u64,
}

/// A rule with what all workers counted.
pub(crate) struct ShownRule {
    rule: Rule,
    interface: Option<String>,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Packets {
    /// None so far, of a host whose sessions have names.
    pub(crate) fn of(host: HostHandle) -> Packets {
        Packets { host: Some(host), ..Packets::default() }
    }

    fn place(
        &self,
        wanted: &PcapTrace,
        iface: Option<Iface>,
        names: Vec<(Iface, String)>,
    ) -> Place {
        let sessions = self.host.clone().filter(|_| wanted.names).map(Names::new);
        Place { iface, names, sessions }
    }

    /// Begins a capture.
    pub(crate) fn begin(
        &mut self,
        wanted: &PcapTrace,
        iface: Option<Iface>,
        names: Vec<(Iface, String)>,
    ) -> Result<Output, CommandError> {
        if let Some(capture) = self.capture.as_ref().filter(|capture| !capture.is_over()) {
            return Err(CommandError::Capturing(capture.path.clone().unwrap_or_default()));
        }
        // What is over is closed first: the new one may have the same file.
        self.capture = None;
        let capture = Recording::file(wanted, self.place(wanted, iface, names))?;
        let path = capture.path.as_ref().map_or(String::new(), |path| path.display().to_string());
        self.capture = Some(capture);
        Ok(Output::new(format!("Capturing into {path}\n"), json!({ "file": path })))
    }

    /// Begins a stream, and answers its number. `ended` is called with it when it is over.
    pub(crate) fn begin_stream(
        &mut self,
        wanted: &PcapTrace,
        iface: Option<Iface>,
        names: Vec<(Iface, String)>,
        stream: UnixStream,
        ended: impl FnOnce(u64) + Send + 'static,
    ) -> Result<(), CommandError> {
        if self.streams.len() >= MAX_STREAMS {
            return Err(CommandError::System(format!(
                "{MAX_STREAMS} streams of packets are read already, as many as may be. End one"
            )));
        }
        self.next_stream += 1;
        let number = self.next_stream;
        let place = self.place(wanted, iface, names);
        let stream = Recording::stream(wanted, place, stream, move || ended(number))?;
        self.streams.push((number, stream));
        Ok(())
    }

    /// Whether a stream of this kind could begin.
    pub(crate) fn check(wanted: &PcapTrace) -> Result<(), CommandError> {
        recording::check(wanted)
    }

    /// A stream is over. Called by its own thread.
    pub(crate) fn stream_ended(&mut self, number: u64) {
        self.streams.retain(|(known, _)| *known != number);
    }

    /// Ends the capture and says what it has.
    pub(crate) fn end(&mut self) -> Result<Output, CommandError> {
        let capture = self.capture.take().ok_or_else(|| CommandError::Missing("capture".into()))?;
        capture.finish()
    }

    /// What the capture has so far.
    pub(crate) fn status(&self) -> Output {
        match &self.capture {
            None => Output::new("Nothing is captured.\n".into(), json!({ "capturing": false })),
            Some(capture) => capture.status(),
        }
    }

    /// Adds a rule for every worker.
    pub(crate) fn add_rule(
        &mut self,
        rule: &Rule,
        interface: Option<String>,
        workers: usize,
    ) -> Result<usize, CommandError> {
        self.rules.resize_with(workers, Default::default);
        let added = self.rules.iter().map(|rules| locked(rules).add(rule.clone()));
        let number =
            added.collect::<Result<Vec<_>, _>>()?.first().copied().ok_or(clearway_session::Gone)?;
        self.names.push(interface);
        Ok(number)
    }

    /// Interfaces came or went: rules and captures go on to speak of those that they name, and of
    /// no other that has got their number.
    pub(crate) fn interfaces_changed(&mut self, names: &[(Iface, String)]) {
        let number = |wanted: &str| {
            names.iter().find(|(_, name)| name == wanted).map_or(NOWHERE, |(iface, _)| *iface)
        };
        for (at, name) in self.names.iter().enumerate() {
            let Some(name) = name else { continue };
            for rules in &self.rules {
                locked(rules).set_interface(at, number(name));
            }
        }
        for capture in self.recordings() {
            capture.rename(names, number);
        }
    }

    /// Takes a rule away, or all.
    pub(crate) fn remove_rule(&mut self, number: Option<usize>) -> Result<(), CommandError> {
        let all = self.rules();
        let gone =
            all.iter().enumerate().filter(|(at, _)| number.is_none_or(|number| number == *at));
        let denied = gone
            .filter(|(_, rule)| rule.rule.action == Action::Deny)
            .map(|(_, rule)| rule.packets)
            .sum::<u64>();
        match number {
            None => {
                self.rules.clear();
                self.names.clear();
            }
            Some(number) => {
                for rules in &self.rules {
                    locked(rules).remove(number)?;
                }
                if all.len() <= number {
                    return Err(clearway_dev::RuleError::NoRule.into());
                }
                self.names.remove(number);
            }
        }
        self.denied_before += denied;
        self.rules.retain(|rules| !locked(rules).is_empty());
        Ok(())
    }

    /// Sets the rules' counters to zero.
    pub(crate) fn clear_rules(&mut self) {
        self.denied_before += self.denied_by_rules();
        self.rules.iter().for_each(|rules| locked(rules).clear_counts());
    }

    /// Every rule with what all workers counted.
    pub(crate) fn rules(&self) -> Vec<ShownRule> {
        let mut shown: Vec<ShownRule> = Vec::new();
        for rules in &self.rules {
            for (at, (rule, RuleCount { packets, bytes })) in locked(rules).iter().enumerate() {
                match shown.get_mut(at) {
                    Some(one) => {
                        (one.packets, one.bytes) = (one.packets + packets, one.bytes + bytes)
                    }
                    None => {
                        let interface = self.names.get(at).cloned().flatten();
                        shown.push(ShownRule { rule: rule.clone(), interface, packets, bytes });
                    }
                }
            }
        }
        shown
    }

    fn denied_by_rules(&self) -> u64 {
        self.rules()
            .iter()
            .filter(|rule| rule.rule.action == Action::Deny)
            .map(|rule| rule.packets)
            .sum()
    }

    /// Packets that rules dropped since errors were cleared.
    pub(crate) fn denied(&self) -> u64 {
        (self.denied_before + self.denied_by_rules()).saturating_sub(self.denied_cleared)
    }

    /// Counts denied packets from here.
    pub(crate) fn clear_denied(&mut self) {
        self.denied_cleared = self.denied_before + self.denied_by_rules();
    }

    fn recordings(&self) -> impl Iterator<Item = &Recording> {
        self.capture.iter().chain(self.streams.iter().map(|(_, stream)| stream))
    }

    /// What the worker of this number needs, if anything. `links` has a place for every interface.
    pub(crate) fn watcher(&self, worker: usize, links: &[Link]) -> Option<Watcher> {
        let rules = self.rules.get(worker).cloned();
        let running = self.recordings().filter(|recording| !recording.is_over());
        let captures: Box<[_]> = running
            .map(|recording| {
                let capture = Arc::clone(&recording.capture);
                let lane = capture.lane(worker);
                (capture, lane)
            })
            .collect();
        if rules.is_none() && captures.is_empty() {
            return None;
        }
        Some(Watcher { rules, captures, links: links.into() })
    }
}

impl ShownRule {
    /// What it does.
    pub(crate) fn action(&self) -> &'static str {
        if self.rule.action == Action::Permit { "permit" } else { "deny" }
    }

    /// What it fits, in the words of the command.
    pub(crate) fn text(&self) -> String {
        let Rule { way, iface, proto, src, dst, src_ports, dst_ports, .. } = &self.rule;
        let range = |word: &str, ports: &std::ops::RangeInclusive<u16>| {
            if ports.start() == ports.end() {
                format!("{word} {}", ports.start())
            } else {
                format!("{word} {}-{}", ports.start(), ports.end())
            }
        };
        let words = [
            way.map(|way| if way == Way::In { "in".to_owned() } else { "out".to_owned() }),
            self.interface.as_ref().map(|name| format!("intfc {name}")),
            (*iface == Some(NOWHERE)).then(|| "(not there)".to_owned()),
            proto.map(|proto| format!("proto {}", proto_name(proto))),
            src.map(|src| format!("src {src}")),
            dst.map(|dst| format!("dst {dst}")),
            src_ports.as_ref().map(|ports| range("sport", ports)),
            dst_ports.as_ref().map(|ports| range("dport", ports)),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        if words.is_empty() { "any".into() } else { words.join(" ") }
    }
}

fn proto_name(proto: Proto) -> String {
    match proto {
        Proto::TCP => "tcp".into(),
        Proto::UDP => "udp".into(),
        Proto::ICMP => "icmp".into(),
        Proto::ICMPV6 => "icmp6".into(),
        Proto(number) => number.to_string(),
    }
}

/// The rule that a command describes, on an interface that was looked up.
pub(crate) fn rule_of(command: &clearway_command::AclRule, iface: Option<Iface>) -> Rule {
    let action = if command.gate == Gate::Permit { Action::Permit } else { Action::Deny };
    let way = command.direction.map(|d| if d == AclDirection::In { Way::In } else { Way::Out });
    Rule {
        action,
        way,
        iface,
        proto: command.protocol.map(Proto),
        src: command.src,
        dst: command.dst,
        src_ports: command.sport.map(range),
        dst_ports: command.dport.map(range),
    }
}

/// What one worker looks at its packets with.
pub(crate) struct Watcher {
    rules: Option<Arc<Mutex<Rules>>>,
    captures: Box<[(Arc<Capture>, Arc<Lane>)]>,
    links: Box<[Link]>,
}

impl Watcher {
    fn is_ethernet(&self, iface: Iface) -> bool {
        matches!(self.links.get(usize::from(iface.0)), Some(Link::Ethernet(_)))
    }

    fn judge(&self, way: Way, iface: Iface, frame: &[u8]) -> Option<usize> {
        let rules = self.rules.as_ref()?;
        let (action, number) = locked(rules).judge(way, iface, frame, self.is_ethernet(iface));
        (action == Action::Deny).then_some(number.unwrap_or_default())
    }

    fn record(
        &self,
        wanted: impl Fn(&PcapTrace) -> bool,
        (time, iface, way): (Time, Iface, Way),
        bytes: &[u8],
        note: Note,
    ) {
        for (capture, lane) in self.captures.iter().filter(|(capture, _)| wanted(&capture.wanted)) {
            let record = Record {
                iface,
                ethernet: self.is_ethernet(iface),
                unix_ns: time.since_1970.as_nanos(),
                direction: if way == Way::In { Direction::Received } else { Direction::Sent },
                original_len: bytes.len(),
                note,
                naming: capture.naming(),
            };
            capture.put(lane, &record, bytes);
        }
    }

    fn pass(&self, time: Time, iface: Iface, way: Way, frame: &[u8]) -> Verdict {
        let at = (time, iface, way);
        if let Some(rule) = self.judge(way, iface, frame) {
            self.record(|wanted| wanted.drop, at, frame, Note::Denied(rule));
            return Verdict::Drop;
        }
        let is_loopback = || self.links.get(usize::from(iface.0)) == Some(&Link::Loopback);
        match way {
            // What comes in on a loopback was seen already, as it went out.
            Way::In => {
                let seen_before = !self.captures.is_empty() && is_loopback();
                self.record(
                    |wanted| wanted.rx && !(wanted.tx && seen_before),
                    at,
                    frame,
                    Note::None,
                );
            }
            Way::Out => self.record(|wanted| wanted.tx, at, frame, Note::None),
        }
        Verdict::Pass
    }
}

impl Inspect for Watcher {
    fn rx(&mut self, time: Time, iface: Iface, frame: &[u8], _meta: &RxMeta) -> Verdict {
        self.pass(time, iface, Way::In, frame)
    }

    fn tx(&mut self, time: Time, iface: Iface, frame: &[u8], _meta: &TxMeta) -> Verdict {
        self.pass(time, iface, Way::Out, frame)
    }

    fn dropped(&mut self, time: Time, iface: Iface, head: &[u8], why: Reason) {
        self.record(|wanted| wanted.drop, (time, iface, Way::In), head, Note::Dropped(why));
    }

    fn wants_drops(&self) -> bool {
        self.captures.iter().any(|(capture, _)| capture.wanted.drop && !capture.is_over())
    }
}

#[cfg(test)]
mod tests;
