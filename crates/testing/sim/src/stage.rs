//! The stage that most scenarios play on: two hosts, `a` that connects and `b` that listens, and a
//! link between them.

use clearway_base::{Duration, Instant, Rng};
use clearway_pkt::Iface;
use clearway_proto::{
    ConnOptions, ConnectError, ConnectSpec, InterfaceSpec, Link as ProtoLink, ListenSpec, NextHop,
    Table,
};
use clearway_wire::{Addr, Cidr, Endpoint, Mac};

use crate::conditions::{Conditions, Device, Wants, draw_options};
use crate::frame::Framing;
use crate::host::{Host, HostSpec};
use crate::link::Rules;
use crate::nic::Port;
use crate::talk::{Act, Conversation, Expect, Part};
use crate::world::World;

/// Where `b` listens.
pub const PORT: u16 = 80;

/// The host that connects.
pub const A: usize = 0;
/// The host that listens.
pub const B: usize = 1;

/// A world with two hosts, and what a scenario needs to act on it.
pub struct Stage {
    /// The world.
    pub world: World,
    /// Its conditions.
    pub conditions: Conditions,
    /// Chance, for the scenario.
    pub rng: Rng,
    /// The listener of `b`, once it listens.
    pub listener: Option<usize>,
}

/// The address of a host on a network.
pub fn address(v6: bool, net: u8, host: u8) -> Addr {
    if v6 {
        Addr::v6([0x20, 1, 0xd, 0xb8, 0, net, 0, 0, 0, 0, 0, 0, 0, 0, 0, host])
    } else {
        Addr::v4([10, 0, net, host])
    }
}

/// The link address of a host's interface.
pub fn mac(host: usize, iface: usize) -> Mac {
    Mac([2, 0, 0, 0, host as u8 + 1, iface as u8])
}

impl Stage {
    /// Sets the stage under conditions drawn from `rng`; time begins at `began`.
    pub fn set(rng: &mut Rng, wants: &Wants, began: Instant) -> Stage {
        let conditions = Conditions::draw(rng, wants);
        let mut world = World::new(rng.fork(), began);
        let link = world.add_link(conditions.framing, conditions.table);
        for (i, spec) in conditions.hosts.iter().enumerate() {
            world.add_host(spec, conditions.buf_len);
            let mut rules = conditions.rules[i];
            if i == B {
                rules.rate = conditions.rules[A].rate;
            }
            join(&mut world, &conditions, i, link, 0, rules);
        }
        world.faults_end = began + conditions.storm;
        world.bounds = conditions.bounds();
        let stage = Stage { world, conditions, rng: rng.fork(), listener: None };
        stage.end_storm()
    }

    /// At the end of the storm, the link is as good as new.
    fn end_storm(mut self) -> Stage {
        let end = self.world.faults_end;
        self.world.at(end, |w| {
            for link in 0..w.links.len() {
                for side in 0..w.links[link].ends.len() {
                    w.set_rules(link, side, |r| *r = r.healed());
                }
            }
        });
        self
    }

    /// Makes a host anew with a changed specification. Only before anything was done with it.
    pub fn rebuild_host(&mut self, host: usize, change: impl FnOnce(&mut HostSpec)) {
        let spec = &mut self.conditions.hosts[host];
        change(spec);
        let ledger = self.world.ledger.clone();
        let old = std::mem::replace(
            &mut self.world.hosts[host],
            Host::new(spec, &ledger, self.conditions.buf_len),
        );
        let port = old.ports[0];
        let kind = match port.framing {
            Framing::Ethernet => ProtoLink::Ethernet(port.mac),
            Framing::Raw => ProtoLink::Raw,
        };
        let spec = InterfaceSpec {
            link: kind,
            mtu: port.mtu,
            offloads: port.offloads,
            table: Table(self.conditions.table),
        };
        let prefix_len = if self.conditions.v6 { 64 } else { 24 };
        let cidr = Cidr::new(self.addr(host), prefix_len).expect("a prefix of its family");
        interface(&mut self.world, host, spec, cidr);
        self.world.hosts[host].ports.push(port);
    }

    /// The faults last until `end`, if they did not last longer already.
    pub fn faults_until(&mut self, end: Instant) {
        self.world.faults_end = self.world.faults_end.max(end);
    }

    /// The routing table that everything is in.
    pub fn table(&self) -> Table {
        Table(self.conditions.table)
    }

    /// The address of a host.
    pub fn addr(&self, host: usize) -> Addr {
        address(self.conditions.v6, 0, host as u8 + 1)
    }

    /// Where `b` listens.
    pub fn service(&self) -> Endpoint {
        Endpoint::new(self.addr(B), PORT)
    }

    /// `b` listens for as many as come.
    pub fn listen(&mut self) {
        self.listen_with(128, Duration::ZERO);
    }

    /// `b` listens with a backlog, and takes connections with a pause between.
    pub fn listen_with(&mut self, backlog: u32, pace: Duration) {
        self.listen_as(backlog, pace, ConnOptions::default());
    }

    /// The same, with these options.
    pub fn listen_as(&mut self, backlog: u32, pace: Duration, options: ConnOptions) {
        let addr = match self.rng.below(3) {
            0 => self.addr(B),
            1 => Addr::ANY_V6,
            _ if self.conditions.v6 => Addr::ANY_V6,
            _ => Addr::ANY_V4,
        };
        let spec = ListenSpec {
            table: self.table(),
            local: Endpoint::new(addr, PORT),
            v6_only: false,
            backlog,
            token: 0,
            options,
        };
        let host = &mut self.world.hosts[B];
        match host.actor.listen(&mut host.stack, spec, pace) {
            Ok(index) => self.listener = Some(index),
            Err(why) => self.world.fail(why),
        }
    }

    /// Adds a conversation that `a` begins after a while; returns its number.
    pub fn converse(&mut self, wait: Duration, conversation: Conversation) -> usize {
        let number = self.world.ledger.borrow_mut().add(conversation);
        let spec = self.connect_spec(None, self.service());
        self.world.after(wait, move |w| connect(w, A, number, 0, spec));
        number
    }

    /// How a host connects.
    pub fn connect_spec(&self, local: Option<Endpoint>, remote: Endpoint) -> ConnectSpec {
        ConnectSpec {
            table: self.table(),
            local,
            remote,
            token: 0,
            options: ConnOptions::default(),
        }
    }

    /// A part with options drawn by chance.
    pub fn part(&mut self, acts: Vec<Act>) -> Part {
        Part { options: draw_options(&mut self.rng), ..Part::new(acts) }
    }

    /// A number of bytes that suits the conditions.
    pub fn bytes(&mut self, most: u64) -> u64 {
        self.conditions.bytes(&mut self.rng, most)
    }

    /// A length of time, in milliseconds.
    pub fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.rng.between(least, most))
    }

    /// Two parts that send so much and end their streams.
    pub fn exchange(&mut self, from_a: u64, from_b: u64) -> Conversation {
        let a = self.part(vec![Act::Send(from_a), Act::Shutdown]);
        let b = self.part(vec![Act::Send(from_b), Act::Shutdown]);
        Conversation::new(a, b, Expect::Whole)
    }
}

/// Puts a host on a link: an interface, an address on network `net`, and the device between.
pub fn join(
    world: &mut World,
    conditions: &Conditions,
    host: usize,
    link: usize,
    net: u8,
    rules: Rules,
) -> Iface {
    join_as(world, conditions, host, link, (net, host), rules)
}

/// As [`join`], with the address of number `number` on network `net`.
pub fn join_as(
    world: &mut World,
    conditions: &Conditions,
    host: usize,
    link: usize,
    (net, number): (u8, usize),
    rules: Rules,
) -> Iface {
    let index = world.hosts[host].ports.len();
    let mac = mac(host, index);
    let offloads = conditions.offloads();
    let kind = match conditions.framing {
        Framing::Ethernet => ProtoLink::Ethernet(mac),
        Framing::Raw => ProtoLink::Raw,
    };
    let domain = world.links[link].domain;
    let table = Table(domain);
    let addr = address(conditions.v6, net, number as u8 + 1);
    let prefix_len = if conditions.v6 { 64 } else { 24 };
    let cidr = Cidr::new(addr, prefix_len).expect("a prefix of its family");
    let spec = InterfaceSpec { link: kind, mtu: conditions.mtu, offloads, table };
    let iface = interface(world, host, spec, cidr);
    let port = device(conditions, link, mac);
    world.attach(host, iface, port, rules);
    world.observer.know(addr);
    iface
}

/// The device at one end of a link.
fn device(conditions: &Conditions, link: usize, mac: Mac) -> Port {
    Port {
        link,
        end: 0,
        framing: conditions.framing,
        mac,
        mtu: conditions.mtu,
        offloads: conditions.offloads(),
        checks: conditions.device != Device::Plain,
        passes_large: conditions.device == Device::PassesLarge,
        joins: conditions.joins
            && conditions.device != Device::Trusted
            && conditions.device != Device::PassesLarge,
        moderation: conditions.moderation,
    }
}

/// The address of a host for itself.
pub fn loopback_addr(v6: bool) -> Addr {
    if v6 {
        Addr::v6([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])
    } else {
        Addr::v4([127, 0, 0, 1])
    }
}

/// Gives a host an interface to itself, over a link of its own.
pub fn join_loopback(world: &mut World, conditions: &Conditions, host: usize, link: usize) {
    let addr = loopback_addr(conditions.v6);
    let cidr =
        Cidr::new(addr, if conditions.v6 { 128 } else { 8 }).expect("a prefix of its family");
    let offloads = conditions.offloads();
    let table = Table(conditions.table);
    let spec = InterfaceSpec { link: ProtoLink::Loopback, mtu: conditions.mtu, offloads, table };
    let iface = interface(world, host, spec, cidr);
    let port = device(conditions, link, mac(host, usize::from(iface.0)));
    world.attach(host, iface, port, Rules::clean(Duration::ZERO));
    world.observer.know(addr);
}

fn interface(world: &mut World, host: usize, spec: InterfaceSpec, cidr: Cidr) -> Iface {
    let now = world.now;
    let h = &mut world.hosts[host];
    let iface = h.stack.add_interface(spec).expect("an interface is added");
    h.stack.add_address(now, iface, cidr).expect("an address is added");
    h.actor.set_domain(spec.table.0, spec.table.0);
    iface
}

/// A route on a host.
pub fn add_route(world: &mut World, host: usize, table: Table, dst: Cidr, via: NextHop) {
    let h = &mut world.hosts[host];
    h.touched = true;
    if let Err(why) = h.stack.add_route(table, dst, via) {
        world.fail(format!("a route was refused: {why:?}"));
    }
}

/// A host connects for one side of a conversation.
pub fn connect(
    world: &mut World,
    host: usize,
    conversation: usize,
    side: usize,
    spec: ConnectSpec,
) {
    let now = world.now;
    let h = &mut world.hosts[host];
    h.touched = true;
    if h.gone {
        return;
    }
    match h.actor.connect(now, &mut h.stack, conversation, side, spec) {
        Ok(_) => {}
        // The scenario took the address away.
        Err(ConnectError::NoRoute) if world.may_lack_route => {
            for fate in &mut world.ledger.borrow_mut().conversations[conversation].fates {
                fate.over = true;
            }
        }
        Err(why) => world.fail(format!("conversation {conversation}: connect was refused: {why}")),
    }
}

/// A host vanishes: it never sends or takes anything again.
pub fn vanish(world: &mut World, host: usize, side: usize) {
    world.hosts[host].gone = true;
    world.remark(|| format!("host {host} vanishes"));
    for conversation in &mut world.ledger.borrow_mut().conversations {
        conversation.fates[side].over = true;
    }
}

/// A third host, of which scenarios that need one know more.
pub fn third(spec: &HostSpec) -> HostSpec {
    HostSpec { name: "c", ..spec.clone() }
}
