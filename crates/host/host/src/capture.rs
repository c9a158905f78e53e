//! What looks at every packet when it is asked to: captures into a file, and rules that drop.
//!
//! Each worker has a [`Watcher`] while there is a capture or a rule, and none otherwise, so that
//! nothing is paid then. The file is shared by all workers; the rules are each worker's own, behind
//! a lock that nobody else takes but to read their counters.

use std::fs::{File, OpenOptions};
use std::io::BufWriter;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use clearway_command::{Direction as AclDirection, Gate, PcapTrace, PortRange};
use clearway_dev::pcap::Direction;
use clearway_dev::rules::{NOWHERE, RuleCount};
use clearway_dev::{Action, FrameFilter, Rule, Rules, Trace, TraceFrame, TraceSpec, Traced, Way};
use clearway_engine::{Inspect, Time, Verdict};
use clearway_pkt::{Iface, RxMeta, TxMeta};
use clearway_proto::{Drop as Reason, Link};
use clearway_wire::Proto;
use serde_json::json;

use crate::outcome::{CommandError, Output, locked};

/// The file of a capture that names none.
const DEFAULT_FILE: &str = "clearway.pcapng";

type Recorder = Mutex<Trace<BufWriter<File>>>;

/// A capture that was begun.
pub(crate) struct Capture {
    path: PathBuf,
    wanted: PcapTrace,
    /// The number of the one interface that is wanted, if one is; [`NOWHERE`] while it is not
    /// there.
    iface: AtomicU16,
    recorder: Recorder,
    /// No more packets are taken. Looked at before the lock is.
    over: AtomicBool,
}

/// Captures and rules, as the control plane keeps them.
#[derive(Default)]
pub(crate) struct Packets {
    capture: Option<Arc<Capture>>,
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
    /// Begins a capture.
    pub(crate) fn begin(
        &mut self,
        wanted: &PcapTrace,
        iface: Option<Iface>,
        names: Vec<(Iface, String)>,
    ) -> Result<Output, CommandError> {
        if let Some(capture) = self.capture.as_ref().filter(|capture| !capture.is_over()) {
            return Err(CommandError::Capturing(capture.path.clone()));
        }
        let capture = Capture::begin(wanted, iface, names)?;
        let path = capture.path.display().to_string();
        self.capture = Some(Arc::new(capture));
        Ok(Output::new(format!("Capturing into {path}\n"), json!({ "file": path })))
    }

    /// Ends the capture and says what it has.
    pub(crate) fn end(&mut self) -> Result<Output, CommandError> {
        let capture = self.capture.take().ok_or_else(|| CommandError::Missing("capture".into()))?;
        capture.over.store(true, Ordering::Release);
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
        if let Some(capture) = &self.capture {
            if let Some(name) = &capture.wanted.interface {
                capture.iface.store(number(name).0, Ordering::Release);
            }
            locked(&capture.recorder).rename(names.to_vec());
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

    /// What the worker of this number needs, if anything. `links` has a place for every interface.
    pub(crate) fn watcher(&self, worker: usize, links: &[Link]) -> Option<Watcher> {
        let rules = self.rules.get(worker).cloned();
        let capture = self.capture.clone().filter(|capture| !capture.is_over());
        if rules.is_none() && capture.is_none() {
            return None;
        }
        Some(Watcher { rules, capture, links: links.into() })
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

fn range(ports: PortRange) -> std::ops::RangeInclusive<u16> {
    ports.first..=ports.last
}

impl Capture {
    fn begin(
        wanted: &PcapTrace,
        iface: Option<Iface>,
        names: Vec<(Iface, String)>,
    ) -> Result<Capture, CommandError> {
        let path = wanted.file.clone().unwrap_or_else(|| DEFAULT_FILE.into());
        let path = std::path::absolute(&path).unwrap_or(path);
        let unwritable = |error| CommandError::Unwritable { path: path.clone(), error };
        let usual = TraceSpec::default();
        let spec = TraceSpec {
            filter: FrameFilter {
                prefix: wanted.prefix,
                proto: wanted.protocol.map(Proto),
                ports: wanted.ports.map(range),
            },
            max_packets: wanted.max.unwrap_or(usual.max_packets),
            snap_len: wanted
                .max_bytes
                .map_or(usual.snap_len, |len| (len as usize).clamp(1, usual.snap_len)),
            ..usual
        };
        let file = create(&path).map_err(unwritable)?;
        let mut trace = Trace::new(BufWriter::new(file), spec, names).map_err(unwritable)?;
        // Who opens the file now finds its beginning.
        trace.flush();
        Ok(Capture {
            path: path.clone(),
            wanted: wanted.clone(),
            iface: AtomicU16::new(iface.unwrap_or(NOWHERE).0),
            recorder: Mutex::new(trace),
            over: AtomicBool::new(false),
        })
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    fn record(&self, frame: &TraceFrame<'_>) {
        let elsewhere = || self.iface.load(Ordering::Acquire) != frame.iface.0;
        if self.is_over() || (self.wanted.interface.is_some() && elsewhere()) {
            return;
        }
        let mut trace = locked(&self.recorder);
        if trace.record(frame) == Traced::Over || trace.is_over() {
            self.over.store(true, Ordering::Release);
        }
    }

    fn status(&self) -> Output {
        let mut trace = locked(&self.recorder);
        trace.flush();
        self.report(&trace, if trace.is_over() { "Finished" } else { "Capturing" })
    }

    fn finish(&self) -> Result<Output, CommandError> {
        let mut trace = locked(&self.recorder);
        trace.flush();
        match trace.error() {
            Some(error) => Err(CommandError::System(format!(
                "{}: the capture is not whole: {error}",
                self.path.display()
            ))),
            None => Ok(self.report(&trace, "Captured")),
        }
    }

    fn report(&self, trace: &Trace<BufWriter<File>>, verb: &str) -> Output {
        let (packets, bytes) = trace.size();
        let ways: Vec<&str> =
            [(self.wanted.rx, "rx"), (self.wanted.tx, "tx"), (self.wanted.drop, "drop")]
                .into_iter()
                .filter_map(|(on, name)| on.then_some(name))
                .collect();
        let path = self.path.display().to_string();
        let most = trace.spec().max_packets;
        let mut text = format!(
            "{verb}: {} into {path}: {packets} packets of at most {most}, {bytes} bytes\n",
            ways.join(" ")
        );
        if let Some(error) = trace.error() {
            text.push_str(&format!("The file cannot be written: {error}\n"));
        }
        let json = json!({
            "capturing": verb == "Capturing",
            "file": path,
            "what": ways,
            "packets": packets,
            "max": most,
            "bytes": bytes,
            "error": trace.error().map(|error| error.to_string()),
        });
        Output::new(text, json)
    }
}

/// Only for us to read, and not through a link that somebody left there.
fn create(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(nix::libc::O_NOFOLLOW);
    options.open(path)
}

/// What one worker looks at its packets with.
pub(crate) struct Watcher {
    rules: Option<Arc<Mutex<Rules>>>,
    capture: Option<Arc<Capture>>,
    links: Box<[Link]>,
}

impl Watcher {
    fn is_ethernet(&self, iface: Iface) -> bool {
        matches!(self.links.get(usize::from(iface.0)), Some(Link::Ethernet(_)))
    }

    /// Whether what comes in was seen already, as it went out.
    fn comes_back(&self, iface: Iface) -> bool {
        let both =
            self.capture.as_ref().is_some_and(|capture| capture.wanted.rx && capture.wanted.tx);
        both && self.links.get(usize::from(iface.0)) == Some(&Link::Loopback)
    }

    fn judge(&self, way: Way, iface: Iface, frame: &[u8]) -> Option<usize> {
        let rules = self.rules.as_ref()?;
        let (action, number) = locked(rules).judge(way, iface, frame, self.is_ethernet(iface));
        (action == Action::Deny).then_some(number.unwrap_or_default())
    }

    fn record(
        &self,
        wanted: fn(&PcapTrace) -> bool,
        time: Time,
        iface: Iface,
        way: Way,
        bytes: &[u8],
        comment: Option<&str>,
    ) {
        let Some(capture) = self.capture.as_ref().filter(|capture| wanted(&capture.wanted)) else {
            return;
        };
        capture.record(&TraceFrame {
            iface,
            ethernet: self.is_ethernet(iface),
            unix_ns: time.since_1970.as_nanos(),
            direction: if way == Way::In { Direction::Received } else { Direction::Sent },
            bytes,
            original_len: bytes.len(),
            comment,
        });
    }

    fn pass(&self, time: Time, iface: Iface, way: Way, frame: &[u8]) -> Verdict {
        if let Some(rule) = self.judge(way, iface, frame) {
            self.record(
                |wanted| wanted.drop,
                time,
                iface,
                way,
                frame,
                Some(&format!("acl-denied: rule {rule}")),
            );
            return Verdict::Drop;
        }
        match way {
            Way::In if self.comes_back(iface) => {}
            Way::In => self.record(|wanted| wanted.rx, time, iface, way, frame, None),
            Way::Out => self.record(|wanted| wanted.tx, time, iface, way, frame, None),
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
        self.record(|wanted| wanted.drop, time, iface, Way::In, head, Some(why.name()));
    }

    fn wants_drops(&self) -> bool {
        self.capture.as_ref().is_some_and(|capture| capture.wanted.drop && !capture.is_over())
    }
}

#[cfg(test)]
mod tests;
