//! What befalls links, routes and addresses while data is under way.

use clearway_base::Duration;
use clearway_proto::{Keepalive, NextHop, Table};
use clearway_wire::{Addr, Cidr, Endpoint};

use super::life::listen_also;
use crate::conditions::{Device, pick};
use crate::frame::Framing;
use crate::link::{Bursts, Narrow, Rules};
use crate::stage::{self, A, B, PORT, Stage};
use crate::talk::Expect;

/// A transfer both ways that takes a while.
fn transfer(stage: &mut Stage, most: u64) {
    stage.listen();
    for _ in 0..stage.rng.between(1, 3) {
        let (n, m) = (stage.bytes(most), stage.bytes(most));
        let talk = stage.exchange(n, m);
        let wait = stage.millis(0, 200);
        stage.converse(wait, talk);
    }
}

/// A fault on some ends of the link, from some time for some time.
fn fault(stage: &mut Stage, ends: &'static [usize], least_ms: u64, most_ms: u64) {
    let from = stage.millis(0, 3_000);
    let length = stage.millis(least_ms, most_ms);
    let (begin, end) = (stage.world.began + from, stage.world.began + from + length);
    stage.faults_until(end);
    stage
        .world
        .at(begin, move |w| ends.iter().for_each(|e| w.set_rules(0, *e, |r| r.blackhole = true)));
    stage
        .world
        .at(end, move |w| ends.iter().for_each(|e| w.set_rules(0, *e, |r| r.blackhole = false)));
}

/// Up to two minutes of silence.
pub(super) fn blackhole(stage: &mut Stage) {
    transfer(stage, 2_000_000);
    for _ in 0..stage.rng.between(1, 3) {
        fault(stage, &[A, B], 10, 120_000);
    }
    survive(stage);
}

/// A handshake may run out of retries in a long silence, and so may a connection whose owner has
/// let go; then the other side must learn of it.
fn survive(stage: &mut Stage) {
    watch(stage);
    for conversation in &mut stage.world.ledger.borrow_mut().conversations {
        conversation.expect = Expect::Prefix;
    }
}

/// Both sides probe a silent peer, so that they learn of its end even when they have nothing to
/// send.
pub(super) fn watch(stage: &mut Stage) {
    let keepalive =
        Keepalive { idle: Duration::from_secs(120), interval: Duration::from_secs(30), count: 8 };
    for conversation in &mut stage.world.ledger.borrow_mut().conversations {
        for part in &mut conversation.parts {
            part.options.keepalive = Some(keepalive);
        }
    }
}

/// Up to a minute in which only one side is heard.
pub(super) fn partition(stage: &mut Stage) {
    transfer(stage, 1_000_000);
    let ends: &'static [usize] = if stage.rng.chance(500_000) { &[A] } else { &[B] };
    fault(stage, ends, 10, 60_000);
    survive(stage);
}

/// A third of all frames are overtaken, and none is lost: nothing may need a timeout to arrive.
pub(super) fn reorder(stage: &mut Stage) {
    transfer(stage, 1_000_000);
    let span = stage.millis(1, 30);
    let often = stage.rng.between(10_000, 500_000) as u32;
    for end in [A, B] {
        let rules = &mut stage.world.links[0].ends[end].2.rules;
        let clean = Rules { rate: rules.rate, queue: 4000, ..Rules::clean(rules.delay) };
        *rules = Rules { reorder: often, reorder_by: span, ..clean };
    }
}

/// Whole windows go missing.
pub(super) fn bursts(stage: &mut Stage) {
    transfer(stage, 1_000_000);
    for end in [A, B] {
        let bursts = Bursts {
            begin: stage.rng.between(1_000, 30_000) as u32,
            end: stage.rng.between(20_000, 500_000) as u32,
            loss: stage.rng.between(500_000, 1_000_000) as u32,
        };
        stage.world.links[0].ends[end].2.rules.bursts = Some(bursts);
    }
}

/// Both ends learn of a new MTU, several times.
pub(super) fn mtu_change(stage: &mut Stage) {
    transfer(stage, 2_000_000);
    for _ in 0..stage.rng.between(1, 5) {
        let mtu = stage.rng.between(1280, 9000) as u32;
        let when = stage.millis(0, 2_000);
        stage.world.after(when, move |w| {
            w.remark(|| format!("the MTU is {mtu}"));
            for host in [A, B] {
                let h = &mut w.hosts[host];
                h.touched = true;
                // Frames that are in the device were cut to the old size, and pass.
                h.ports[0].mtu = mtu;
                if let Err(why) = h.stack.set_mtu(clearway_pkt::Iface(0), mtu) {
                    w.fail(format!("set_mtu was refused: {why:?}"));
                }
            }
        });
    }
}

/// A router that takes less than the link does, and says so (RFC 1191, RFC 8201).
pub(super) fn narrow_path(stage: &mut Stage) {
    transfer(stage, 2_000_000);
    let least = if stage.conditions.v6 { 1280 } else { 576 };
    let ends: &'static [usize] = [&[A][..], &[B], &[A, B]][stage.rng.below(3) as usize];
    for _ in 0..stage.rng.between(1, 3) {
        let mtu = stage.rng.between(least, u64::from(stage.conditions.mtu)) as u32;
        let narrow = Narrow {
            mtu,
            silent: false,
            router_v4: Addr::v4([10, 0, 0, 254]),
            router_v6: stage::address(true, 0, 254),
        };
        let when = stage.millis(0, 2_000);
        stage.world.after(when, move |w| {
            ends.iter().for_each(|e| w.set_rules(0, *e, |r| r.narrow = Some(narrow)))
        });
    }
}

/// A router that takes less than the link does and says nothing (RFC 4821 2): every byte arrives
/// all the same.
pub(super) fn mtu_black_hole(stage: &mut Stage) {
    transfer(stage, 500_000);
    let least = if stage.conditions.v6 { 1280 } else { 576 };
    let ends: &'static [usize] = [&[A][..], &[B], &[A, B]][stage.rng.below(3) as usize];
    let mtu = stage.rng.between(least, u64::from(stage.conditions.mtu)) as u32;
    let any = Addr::v4([10, 0, 0, 254]);
    let narrow = Narrow { mtu, silent: true, router_v4: any, router_v6: any };
    let when = stage.millis(0, 2_000);
    stage.world.after(when, move |w| {
        ends.iter().for_each(|e| w.set_rules(0, *e, |r| r.narrow = Some(narrow)))
    });
}

/// An interface goes down and up again.
pub(super) fn link_flap(stage: &mut Stage) {
    transfer(stage, 1_000_000);
    stage.world.may_lack_route = true;
    for _ in 0..stage.rng.between(1, 4) {
        let host = stage.rng.below(2) as usize;
        let from = stage.millis(0, 3_000);
        let length = stage.millis(1, 20_000);
        let end = stage.world.began + from + length;
        stage.faults_until(end);
        let set = move |w: &mut crate::World, up: bool| {
            w.remark(|| format!("interface of host {host} up: {up}"));
            w.hosts[host].stack.set_up(clearway_pkt::Iface(0), up);
            w.hosts[host].touched = true;
        };
        stage.world.after(from, move |w| set(w, false));
        stage.world.at(end, move |w| set(w, true));
    }
    survive(stage);
}

/// A service address behind two links; the routes of both sides move from one to the other.
pub(super) fn route_change(stage: &mut Stage) {
    let second = stage.world.add_link(stage.conditions.framing, stage.conditions.table);
    let conditions = stage.conditions.clone();
    for host in [A, B] {
        let rules = Rules { rate: conditions.rules[A].rate, ..conditions.rules[host] };
        stage::join(&mut stage.world, &conditions, host, second, 1, rules);
    }
    // Addresses of their own, reached by way of either link.
    let v6 = conditions.v6;
    let own = move |host: usize| stage::address(v6, 9, host as u8 + 1);
    let whole = if v6 { 128 } else { 32 };
    let cidr = move |addr| Cidr::new(addr, whole).expect("a prefix of its family");
    let table = stage.table();
    for host in [A, B] {
        let now = stage.world.now;
        let added =
            stage.world.hosts[host].stack.add_address(now, clearway_pkt::Iface(0), cidr(own(host)));
        if let Err(why) = added {
            stage.world.fail(format!("an address was refused: {why:?}"));
        }
        stage.world.observer.know(own(host));
        let via = NextHop::Gateway(stage::address(v6, 0, 2 - host as u8));
        stage::add_route(&mut stage.world, host, table, cidr(own(1 - host)), via);
    }
    listen_also(stage, B, PORT, table);
    let (n, m) = (stage.bytes(2_000_000), stage.bytes(2_000_000));
    let talk = stage.exchange(n, m);
    let number = stage.world.ledger.borrow_mut().add(talk);
    let spec = stage.connect_spec(Some(Endpoint::new(own(A), 0)), Endpoint::new(own(B), PORT));
    stage.world.after(Duration::ZERO, move |w| stage::connect(w, A, number, 0, spec));
    for i in 0..stage.rng.between(1, 6) {
        let when = stage.millis(0, 2_000);
        let host = stage.rng.below(2) as usize;
        let net = (i + 1) as u8 % 2;
        stage.world.after(when, move |w| {
            w.remark(|| format!("host {host} goes over link {net}"));
            w.hosts[host].stack.remove_route(table, cidr(own(1 - host)));
            stage::add_route(
                w,
                host,
                table,
                cidr(own(1 - host)),
                NextHop::Gateway(stage::address(v6, net, 2 - host as u8)),
            );
        });
    }
}

/// The address of a connection is taken from the host. What becomes of the connection is its own
/// affair, but it must end.
pub(super) fn address_change(stage: &mut Stage) {
    transfer(stage, 1_000_000);
    survive(stage);
    stage.world.may_lack_route = true;
    let host = stage.rng.below(2) as usize;
    let addr = stage.addr(host);
    let prefix_len = if stage.conditions.v6 { 64 } else { 24 };
    let from = stage.millis(0, 2_000);
    stage.world.after(from, move |w| {
        w.remark(|| format!("host {host} loses {addr}"));
        w.hosts[host].stack.remove_address(clearway_pkt::Iface(0), addr);
        w.hosts[host].touched = true;
    });
    if stage.rng.chance(700_000) {
        let back = from + stage.millis(1, 60_000);
        let end = stage.world.began + back;
        stage.faults_until(end);
        stage.world.at(end, move |w| {
            let now = w.now;
            let cidr = Cidr::new(addr, prefix_len).expect("a prefix of its family");
            w.remark(|| format!("host {host} has {addr} again"));
            w.hosts[host].touched = true;
            if let Err(why) = w.hosts[host].stack.add_address(now, clearway_pkt::Iface(0), cidr) {
                w.fail(format!("the address was refused: {why:?}"));
            }
        });
    }
    stage.world.time_limit = Duration::from_secs(4_000);
}

/// A third host has the address of `a` in another routing table of `b`: both talk to the same
/// address of `b` at the same time.
pub(super) fn vrf(stage: &mut Stage) {
    let conditions = stage.conditions.clone();
    let other = 1 - conditions.table;
    let link = stage.world.add_link(conditions.framing, other);
    let twin = stage.world.add_host(&stage::third(&conditions.hosts[A]), conditions.buf_len);
    stage::join_as(&mut stage.world, &conditions, twin, link, (0, A), conditions.rules[A]);
    stage::join_as(&mut stage.world, &conditions, B, link, (0, B), conditions.rules[B]);
    stage.listen();
    listen_also(stage, B, PORT, Table(other));
    for _ in 0..stage.rng.between(1, 4) {
        for host in [A, twin] {
            let (n, m) = (stage.bytes(300_000), stage.bytes(300_000));
            let talk = stage.exchange(n, m);
            let number = stage.world.ledger.borrow_mut().add(talk);
            let table = if host == A { stage.table() } else { Table(other) };
            let port = 3000 + number as u16 / 2;
            let local = Some(Endpoint::new(stage.addr(A), port));
            let spec =
                clearway_proto::ConnectSpec { table, ..stage.connect_spec(local, stage.service()) };
            let wait = stage.millis(0, 500);
            stage.world.after(wait, move |w| stage::connect(w, host, number, 0, spec));
        }
    }
}

/// Up to six hosts on one Ethernet; each may talk to each.
pub(super) fn crowd(stage: &mut Stage) {
    if stage.conditions.framing == Framing::Raw {
        // A link without addresses has two ends.
        return transfer(stage, 500_000);
    }
    let conditions = stage.conditions.clone();
    let mut hosts = vec![A, B];
    for _ in 0..stage.rng.between(1, 4) {
        let host = stage.world.add_host(&stage::third(&conditions.hosts[A]), conditions.buf_len);
        stage::join(&mut stage.world, &conditions, host, 0, 0, conditions.rules[A]);
        hosts.push(host);
    }
    let table = stage.table();
    for host in &hosts {
        listen_also(stage, *host, PORT, table);
    }
    for _ in 0..stage.rng.between(3, 15) {
        let from = *pick(&mut stage.rng, &hosts);
        let to = *pick(&mut stage.rng, &hosts);
        if from == to {
            continue;
        }
        let (n, m) = (stage.bytes(200_000), stage.bytes(200_000));
        let talk = stage.exchange(n, m);
        let number = stage.world.ledger.borrow_mut().add(talk);
        let spec = stage.connect_spec(None, Endpoint::new(stage.addr(to), PORT));
        let wait = stage.millis(0, 2_000);
        stage.world.after(wait, move |w| stage::connect(w, from, number, 0, spec));
    }
}

/// Over an interface that gives back what it is given.
pub(super) fn loopback(stage: &mut Stage) {
    let mut conditions = stage.conditions.clone();
    conditions.framing = Framing::Raw;
    conditions.mtu = *pick(&mut stage.rng, &[65_535, 65_535, 1500]);
    conditions.device =
        *pick(&mut stage.rng, &[Device::Plain, Device::Trusted, Device::PassesLarge]);
    let link = stage.world.add_link(Framing::Raw, conditions.table);
    stage::join_loopback(&mut stage.world, &conditions, A, link);
    let local = stage::loopback_addr(conditions.v6);
    let table = stage.table();
    listen_also(stage, A, PORT, table);
    for _ in 0..stage.rng.between(1, 5) {
        let (n, m) = (stage.bytes(500_000), stage.bytes(500_000));
        let talk = stage.exchange(n, m);
        let number = stage.world.ledger.borrow_mut().add(talk);
        let spec = stage.connect_spec(None, Endpoint::new(local, PORT));
        let wait = stage.millis(0, 500);
        stage.world.after(wait, move |w| stage::connect(w, A, number, 0, spec));
    }
}
