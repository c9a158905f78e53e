//! The world: hosts, links, and virtual time, which jumps from one event to the next.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::rc::Rc;

use clearway_base::{Duration, Instant, Rng};
use clearway_pkt::Iface;
use clearway_proto::Drop;
use clearway_wire::{Mac, eth, ipv4};

use crate::actor::{LastWords, Ledger, SharedLedger};
use crate::checks;
use crate::conditions::Bounds;
use crate::frame::{self, Framing};
use crate::host::{Host, HostSpec, Turns, Waiting};
use crate::link::{self, Arrival, Damage, Direction, Held, Rules};
use crate::nic::{self, Handed, Port};
use crate::observe::{Observer, Passing, Seen};
use crate::recorder::Recorder;

/// Something that a scenario does to the world at some time.
pub type Deed = Box<dyn FnOnce(&mut World)>;

enum Happening {
    /// A frame reaches a host's device.
    Arrives {
        host: usize,
        iface: Iface,
        bytes: Vec<u8>,
        damage: Damage,
        segment_size: u16,
        injected: bool,
    },
    /// The managed queue of one end of a link is asked what leaves.
    Serves { link: usize, end: usize },
    /// The scenario acts.
    Deed(Deed),
}

struct Scheduled {
    at: Instant,
    serial: u64,
    what: Happening,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Scheduled) -> bool {
        self.serial == other.serial
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Scheduled) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    /// The earliest is the greatest, because the heap gives the greatest first; those of one
    /// instant go in the order they were made.
    fn cmp(&self, other: &Scheduled) -> Ordering {
        (other.at, other.serial).cmp(&(self.at, self.serial))
    }
}

/// A link: a direction for each host on it, which holds what happens to the frames that the host
/// sends.
pub struct Link {
    /// What frames begin with.
    pub framing: Framing,
    /// The world of addresses it belongs to.
    pub domain: u16,
    /// Host and interface of each end, and what happens to what it sends.
    pub ends: Vec<(usize, Iface, Direction)>,
}

/// A run of the world that did not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// When, in virtual time.
    pub at: Instant,
    /// What.
    pub what: String,
}

/// Hosts, links and time.
pub struct World {
    /// The time now.
    pub now: Instant,
    /// When it began.
    pub began: Instant,
    /// The hosts.
    pub hosts: Vec<Host>,
    /// The links.
    pub links: Vec<Link>,
    /// The conversations.
    pub ledger: SharedLedger,
    /// Watches all segments.
    pub observer: Observer,
    /// Chance, for scenarios.
    pub rng: Rng,
    /// The first thing that went wrong.
    pub failure: Option<Failure>,
    /// Records packets, when the run is a replay.
    pub recorder: Option<Recorder>,
    /// When the last fault ends: from here on everything has to go well.
    pub faults_end: Instant,
    /// Connecting may be refused for want of a route.
    pub may_lack_route: bool,
    /// How long after that every conversation must be over, besides the time that its bytes take.
    pub time_limit: Duration,
    /// What bounds how fast a conversation goes from then on.
    pub bounds: Bounds,
    /// Turns of hosts so far.
    pub turns: u64,
    /// Frames handed to links so far.
    pub frames: u64,
    /// A number that two runs share only when every packet of both was the same at the same time.
    pub digest: u64,
    heap: BinaryHeap<Scheduled>,
    serial: u64,
    /// The scenario has something to do until then.
    pub(crate) busy_until: Instant,
    /// What the scenario looks at when all is over.
    pub(crate) last_looks: Vec<Deed>,
    /// From then on no stack is exported.
    pub(crate) end_of_exports: Instant,
    /// An export may lose what a stack has in hand, as links do.
    pub(crate) exports_may_lose: bool,
    /// How often a stack was exported and made anew.
    pub renewed: u64,
}

/// Turns of a host at one instant before it counts as a loop without end.
const TURNS_AT_ONCE: u32 = 20_000;
/// Turns of a host within a virtual second in which nothing at all happened, beyond one for each in
/// which something did, before it counts as busy: what arrives and what leaves moves deadlines, and
/// the turn at one that moved on finds nothing to do.
const IDLE_TURNS_PER_SECOND: u32 = 2_000;

impl World {
    /// An empty world that begins at `began`.
    pub fn new(rng: Rng, began: Instant) -> World {
        World {
            now: began,
            began,
            hosts: Vec::new(),
            links: Vec::new(),
            ledger: Rc::new(RefCell::new(Ledger::default())),
            observer: Observer::default(),
            rng,
            failure: None,
            recorder: None,
            faults_end: began,
            may_lack_route: false,
            time_limit: Duration::from_secs(600),
            bounds: Bounds::default(),
            turns: 0,
            frames: 0,
            digest: 0,
            heap: BinaryHeap::new(),
            serial: 0,
            busy_until: began,
            last_looks: Vec::new(),
            end_of_exports: Instant::NEVER,
            exports_may_lose: true,
            renewed: 0,
        }
    }

    /// Adds a host; its receive buffers are `buf_len` bytes long.
    pub fn add_host(&mut self, spec: &HostSpec, buf_len: usize) -> usize {
        self.hosts.push(Host::new(spec, &self.ledger, buf_len));
        self.hosts.len() - 1
    }

    /// Adds a link without ends.
    pub fn add_link(&mut self, framing: Framing, domain: u16) -> usize {
        self.links.push(Link { framing, domain, ends: Vec::new() });
        self.links.len() - 1
    }

    /// Puts a device of a host on a link. `iface` is what the stack calls it; `port.end` is set
    /// here.
    pub fn attach(&mut self, host: usize, iface: Iface, mut port: Port, rules: Rules) {
        let rng = self.rng.fork();
        let link = &mut self.links[port.link];
        port.end = link.ends.len();
        link.ends.push((host, iface, Direction::new(rules, rng)));
        let ports = &mut self.hosts[host].ports;
        assert_eq!(
            ports.len(),
            usize::from(iface.0),
            "interfaces are attached in the order they were added"
        );
        ports.push(port);
    }

    /// Does something at a time.
    pub fn at(&mut self, when: Instant, deed: impl FnOnce(&mut World) + 'static) {
        self.schedule(when, Happening::Deed(Box::new(deed)));
    }

    /// Does something after a while.
    pub fn after(&mut self, wait: Duration, deed: impl FnOnce(&mut World) + 'static) {
        self.at(self.now + wait, deed);
    }

    /// The run goes on until then, even when every conversation is over.
    pub fn quiet_until(&mut self, until: Instant) {
        self.busy_until = self.busy_until.max(until);
        // Time only stands still at instants at which something happens.
        self.at(until, |_| {});
    }

    /// From now on, at random instants, stacks are exported, and new ones go on with what was
    /// written.
    pub fn renew_stacks(&mut self, mut rng: Rng) {
        // From bursts of them within one round trip to one in a while.
        let longest = [1_000, 50_000, 1_000_000, 20_000_000][rng.below(4) as usize];
        let wait = Duration::from_micros(rng.between(1, longest));
        self.after(wait, move |w| {
            if w.now >= w.end_of_exports {
                return;
            }
            for host in 0..w.hosts.len() {
                let whole = w.exports_may_lose || !w.hosts[host].stack.has_packets_in_hand();
                if !w.hosts[host].gone && rng.chance(700_000) && whole {
                    w.renew_stack(host);
                }
            }
            w.renew_stacks(rng);
        });
    }

    fn renew_stack(&mut self, host: usize) {
        self.renewed += 1;
        let now = self.now;
        let name = self.hosts[host].name;
        self.remark(|| format!("{name} is exported, and goes on in a new stack"));
        if let Err(what) = self.hosts[host].renew_stack(now) {
            self.fail(format!("host {name}: {what}"));
        }
    }

    /// Looks at something when all conversations are over.
    pub fn finally(&mut self, look: impl FnOnce(&mut World) + 'static) {
        self.last_looks.push(Box::new(look));
    }

    fn schedule(&mut self, at: Instant, what: Happening) {
        self.serial += 1;
        self.heap.push(Scheduled { at: at.max(self.now), serial: self.serial, what });
    }

    /// Says that the run does not hold.
    pub fn fail(&mut self, what: impl Into<String>) {
        let at = self.now;
        self.failure.get_or_insert_with(|| Failure { at, what: what.into() });
    }

    /// A line for the trace, if there is one.
    pub fn remark(&mut self, line: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(recorder) = &mut self.recorder {
            recorder.line(format!("{now} -- {}", line()));
        }
    }

    /// Changes what happens to the frames that one end of a link sends.
    pub fn set_rules(&mut self, link: usize, end: usize, change: impl FnOnce(&mut Rules)) {
        let rules = &mut self.links[link].ends[end].2.rules;
        let before = *rules;
        change(rules);
        let after = *rules;
        if before != after {
            self.remark(|| format!("link {link} end {end}: {after:?}"));
        }
        // A device that has room again wakes its host.
        let host = self.links[link].ends[end].0;
        self.hosts[host].touched = true;
    }

    /// The next time at which anything happens.
    fn next(&self) -> Instant {
        let hosts = self.hosts.iter().map(Host::next_turn).min().unwrap_or(Instant::NEVER);
        let heap = self.heap.peek().map_or(Instant::NEVER, |s| s.at);
        hosts.min(heap).max(self.now)
    }

    /// Runs until `until`, or until `enough` says so, or until something is wrong. False when
    /// `until` came first.
    pub fn run(&mut self, until: Instant, mut enough: impl FnMut(&World) -> bool) -> bool {
        loop {
            if self.failure.is_some() || enough(self) {
                return true;
            }
            let next = self.next();
            if next > until || next == Instant::NEVER {
                self.now = self.now.max(until.min(next));
                return false;
            }
            self.now = next;
            self.step();
        }
    }

    /// Everything that happens at this instant.
    fn step(&mut self) {
        while self.heap.peek().is_some_and(|s| s.at <= self.now) {
            let Some(Scheduled { what, .. }) = self.heap.pop() else { break };
            match what {
                Happening::Arrives { host, iface, bytes, damage, segment_size, injected } => {
                    self.arrives(host, Waiting { iface, bytes, segment_size }, damage, injected);
                }
                Happening::Serves { link, end } => self.serve(link, end),
                Happening::Deed(deed) => deed(self),
            }
        }
        for host in 0..self.hosts.len() {
            let h = &self.hosts[host];
            if h.next_turn() <= self.now {
                self.turns_of(host);
            }
        }
    }

    /// Turns of one host until nothing more happens at this instant.
    fn turns_of(&mut self, host: usize) {
        for count in 0.. {
            let tell = self.recorder.is_some();
            let now = self.now;
            let links = &mut self.links;
            let rooms: Vec<u32> = self.hosts[host]
                .ports
                .iter()
                .map(|p| links[p.link].ends[p.end].2.room(now))
                .collect();
            let turn = self.hosts[host].turn(now, |i| rooms[i], tell);
            self.turns += 1;
            let idle = turn.taken == 0 && turn.events == 0 && turn.out.is_empty();
            let sent = !turn.out.is_empty();
            for (why, bytes) in turn.dropped {
                self.tell_drop(host, why, &bytes);
            }
            self.compare_last_words(host);
            for handed in turn.out {
                self.hand_over(host, handed);
            }
            self.count_idle(host, idle);
            let wrong = self.ledger.borrow_mut().wrong.take();
            if let Some(wrong) = wrong {
                self.fail(wrong);
            }
            if self.failure.is_some() {
                return;
            }
            if count > TURNS_AT_ONCE {
                let name = self.hosts[host].name;
                return self.fail(format!("host {name} never comes to rest at this instant"));
            }
            if turn.refused {
                self.wait_for_room(host);
                if self.hosts[host].inbox.is_empty() {
                    return;
                }
                continue;
            }
            let h = &self.hosts[host];
            let again = turn.more || !h.inbox.is_empty() || (sent && h.stack.wants_emit());
            if !again && h.next_turn() > now {
                return;
            }
        }
    }

    /// The host is woken when a device of it has room again.
    fn wait_for_room(&mut self, host: usize) {
        let h = &self.hosts[host];
        let full = h
            .ports
            .iter()
            .map(|p| self.links[p.link].ends[p.end].2.next_room())
            .filter(|at| *at > self.now);
        let at = full.min().unwrap_or(self.now + Duration::from_micros(1));
        self.hosts[host].wake = self.hosts[host].wake.min(at);
    }

    fn count_idle(&mut self, host: usize, idle: bool) {
        let now = self.now;
        let h = &mut self.hosts[host];
        if now.since(h.turns.since) > Duration::from_secs(1) {
            h.turns = Turns { since: now, idle: 0, busy: 0 };
        }
        *if idle { &mut h.turns.idle } else { &mut h.turns.busy } += 1;
        if h.turns.idle > h.turns.busy + IDLE_TURNS_PER_SECOND {
            let (name, deadline) = (h.name, h.stack.next_deadline());
            let wants = h.stack.wants_emit();
            self.fail(format!(
                "host {name} is busy doing nothing: deadline {deadline}, wants to emit: {wants}"
            ));
        }
    }

    fn tell_drop(&mut self, host: usize, why: Drop, bytes: &[u8]) {
        let name = self.hosts[host].name;
        let len = bytes.len();
        self.remark(|| format!("{name} drops a packet of {len} bytes: {}", why.name()));
    }

    /// What the stack counted for a connection that ended must be what the link saw.
    fn compare_last_words(&mut self, host: usize) {
        let words = std::mem::take(&mut self.hosts[host].actor.last_words);
        if self.hosts[host].may_have_lost_words() {
            return;
        }
        for LastWords { name, info } in words {
            let Some(Seen { bytes, again, renewed, .. }) = self.observer.seen(name) else {
                continue;
            };
            if !renewed && (info.bytes_sent, info.bytes_retransmitted) != (bytes, again) {
                let (sent, re) = (info.bytes_sent, info.bytes_retransmitted);
                self.fail(format!(
                    "{} > {}: the stack counts {sent} bytes sent and {re} sent again, the link saw \
                     {bytes} and {again}",
                    name.src, name.dst
                ));
            }
            self.observer.ended(name);
        }
    }

    /// The stack of a host handed a frame to its device.
    fn hand_over(&mut self, host: usize, handed: Handed) {
        let iface = handed.iface;
        let port = self.hosts[host].ports[usize::from(iface.0)];
        match nic::finish(&port, handed) {
            Ok(frames) => {
                for (bytes, segment_size) in frames {
                    self.put(host, iface, bytes, segment_size);
                }
            }
            Err(what) => self.fail(format!("host {} handed over {what}", self.hosts[host].name)),
        }
    }

    /// A frame goes on the link.
    fn put(&mut self, host: usize, iface: Iface, bytes: Vec<u8>, segment_size: u16) {
        let port = self.hosts[host].ports[usize::from(iface.0)];
        self.frames += 1;
        self.mix(host, &bytes);
        let plain = !port.passes_large && !port.offloads.trusted_link;
        let sound = checks::frame_is_sound(port.framing, &bytes, plain);
        let domain = self.links[port.link].domain;
        let passing = Passing { no_checksums: !plain, segment_size };
        let verdict = match port.framing.packet(&bytes).and_then(frame::tcp_view) {
            Some(view) => self.observer.sent(domain, &view, passing),
            None => Ok(()),
        };
        let direction = &mut self.links[port.link].ends[port.end].2;
        if let Some(narrow) = direction.rules.narrow {
            let packet = port.framing.packet(&bytes).unwrap_or_default();
            if packet.len() > narrow.mtu as usize {
                direction.tally.too_big += 1;
                self.record(host, iface, &bytes, "too big");
                self.narrow(host, iface, &bytes);
                return self.judge(host, sound.and(verdict));
            }
        }
        if direction.is_managed() {
            let ecn = link::mark_of(port.framing.packet(&bytes).unwrap_or_default());
            let held = Held { bytes: bytes.clone(), segment_size };
            let waits = direction.wait(self.now, held, ecn);
            self.record(host, iface, &bytes, waits.err().unwrap_or_default());
            if let Ok(Some(at)) = waits {
                self.schedule(at, Happening::Serves { link: port.link, end: port.end });
            }
            return self.judge(host, sound.and(verdict));
        }
        let passage = direction.send(self.now, bytes.len());
        self.record(host, iface, &bytes, passage.remark);
        for arrival in passage.arrivals.into_iter().flatten() {
            self.travel(&port, &bytes, arrival, segment_size);
        }
        self.judge(host, sound.and(verdict));
    }

    fn serve(&mut self, link: usize, end: usize) {
        let (host, iface, direction) = &mut self.links[link].ends[end];
        let served = direction.serve(self.now);
        let port = self.hosts[*host].ports[usize::from(iface.0)];
        if let Some((held, passage)) = served.frame {
            for arrival in passage.arrivals.into_iter().flatten() {
                self.travel(&port, &held.bytes, arrival, held.segment_size);
            }
        }
        if let Some(at) = served.again {
            self.schedule(at, Happening::Serves { link, end });
        }
    }

    fn judge(&mut self, host: usize, verdict: Result<(), String>) {
        if let Err(what) = verdict {
            self.fail(format!("host {}: {what}", self.hosts[host].name));
        }
    }

    fn mix(&mut self, host: usize, bytes: &[u8]) {
        let mut digest = self.digest ^ self.now.as_nanos() ^ (host as u64) << 60;
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            digest = (digest ^ u64::from_le_bytes(word))
                .wrapping_mul(0x2127_599b_f432_5c37)
                .rotate_left(23);
        }
        self.digest = digest;
    }

    fn record(&mut self, host: usize, iface: Iface, bytes: &[u8], remark: &str) {
        if self.recorder.is_none() {
            return;
        }
        let before: usize = self.hosts[..host].iter().map(|h| h.ports.len()).sum();
        let framing = self.hosts[host].ports[usize::from(iface.0)].framing;
        let now = self.now;
        if let Some(recorder) = &mut self.recorder {
            recorder.frame(now, before + usize::from(iface.0), framing, bytes, remark);
        }
    }

    /// Who receives a frame: the other end, or on an Ethernet with more ends the one it is for.
    fn travel(&mut self, port: &Port, bytes: &[u8], arrival: Arrival, segment_size: u16) {
        let dst = match port.framing {
            Framing::Ethernet => eth::check(bytes).map(|e| e.dst()).unwrap_or(Mac::BROADCAST),
            Framing::Raw => Mac::BROADCAST,
        };
        let ends: Vec<(usize, Iface)> =
            self.links[port.link].ends.iter().map(|e| (e.0, e.1)).collect();
        for (end, (to, iface)) in ends.iter().copied().enumerate() {
            let mac = self.hosts[to].ports[usize::from(iface.0)].mac;
            let for_it = end != port.end && (dst.is_multicast() || dst == mac || ends.len() == 2);
            if for_it || (end == port.end && ends.len() == 1) {
                let what = Happening::Arrives {
                    host: to,
                    iface,
                    bytes: bytes.to_vec(),
                    damage: arrival.damage,
                    segment_size,
                    injected: false,
                };
                self.schedule(arrival.at, what);
            }
        }
    }

    /// A router on the way cannot pass the packet on: it cuts it up, or says so.
    fn narrow(&mut self, host: usize, iface: Iface, bytes: &[u8]) {
        let port = self.hosts[host].ports[usize::from(iface.0)];
        let rules = self.links[port.link].ends[port.end].2.rules;
        let (Some(narrow), Some(packet)) = (rules.narrow, port.framing.packet(bytes)) else {
            return;
        };
        if narrow.silent {
            return;
        }
        let v4 = ipv4::check(packet, false).ok();
        if v4.as_ref().is_some_and(|ip| !ip.dont_fragment()) {
            let head = &bytes[..port.framing.header_len()];
            for piece in frame::fragment_v4(packet, narrow.mtu as usize) {
                let piece = [head, &piece].concat();
                let direction = &mut self.links[port.link].ends[port.end].2;
                for arrival in direction.send(self.now, piece.len()).arrivals.into_iter().flatten()
                {
                    self.travel(&port, &piece, arrival, 0);
                }
            }
            return;
        }
        let router = if v4.is_some() { narrow.router_v4 } else { narrow.router_v6 };
        if let Some(answer) = frame::too_big(router, packet, narrow.mtu) {
            let src = self.links[port.link]
                .ends
                .iter()
                .map(|e| self.hosts[e.0].ports[usize::from(e.1.0)].mac);
            let other = src.rev().find(|m| *m != port.mac).unwrap_or(Mac::ZERO);
            let answer = port.framing.wrap(port.mac, other, &answer);
            self.inject(host, iface, answer, rules.delay.times(2));
        }
    }

    /// Puts a frame that no stack sent into a host's device after a while.
    pub fn inject(&mut self, host: usize, iface: Iface, bytes: Vec<u8>, wait: Duration) {
        self.record(host, iface, &bytes, "injected");
        let what = Happening::Arrives {
            host,
            iface,
            bytes,
            damage: Damage::None,
            segment_size: 0,
            injected: true,
        };
        self.schedule(self.now + wait, what);
    }

    fn arrives(&mut self, host: usize, mut waiting: Waiting, damage: Damage, injected: bool) {
        let h = &mut self.hosts[host];
        if h.gone {
            return;
        }
        let port = h.ports[usize::from(waiting.iface.0)];
        damage.apply(port.framing, &mut waiting.bytes);
        let plain = !port.passes_large && !port.offloads.trusted_link;
        // What a stranger says tells nothing of the connection that he pretends it to belong to.
        let packet = port.framing.packet(&waiting.bytes).filter(|_| !injected);
        if let Some(view) = packet.and_then(frame::tcp_view) {
            if !plain || view.checksum_is_valid() {
                self.observer.arrived(self.links[port.link].domain, &view, self.now);
            }
        }
        if h.inbox.is_empty() {
            h.inbox_due = self.now + port.moderation;
        }
        h.inbox.push_back(waiting);
    }
}
