//! Two loopback interfaces in two tables of one stack, joined by routes that look up in the other
//! table.

use clearway_wire::Cidr;

use super::*;
use crate::testing::{cidr, loopback};

const MTUS: [u32; 3] = [1_500, 9_000, 65_535];
const ENDS: [[&str; 2]; 2] = [["172.16.1.1/24", "172.16.2.1/24"], ["fd00:1::1/64", "fd00:2::1/64"]];

/// `loop0` in table 1 and `loop1` in table 2, with one address each.
fn joined(mtu: u32, ends: [&str; 2]) -> Net {
    let mut net = Net::new(&[(loopback(mtu, 1), &[ends[0]]), (loopback(mtu, 2), &[ends[1]])]);
    for (table, other) in [(2, 0), (1, 1)] {
        let addr = cidr(ends[other]).addr;
        let host = Cidr { addr, prefix_len: if addr.is_v4() { 32 } else { 128 } };
        net.stack.add_route(Table(table), host, NextHop::Lookup(Table(3 - table))).unwrap();
    }
    net
}

fn at(end: &str, port: u16) -> Endpoint {
    Endpoint::new(cidr(end).addr, port)
}

fn listen(net: &mut Net, table: u16, local: Endpoint) -> ListenerId {
    let options = ConnOptions::default();
    let spec =
        ListenSpec { table: Table(table), local, v6_only: false, backlog: 4, token: 7, options };
    net.stack.listen(spec).unwrap()
}

fn connect(net: &mut Net, table: u16, remote: Endpoint) -> ConnId {
    let spec = ConnectSpec {
        table: Table(table),
        local: None,
        remote,
        token: 8,
        options: ConnOptions::default(),
    };
    net.stack.connect(net.now, spec).unwrap()
}

/// Everything that `from` sends until `data` is all at `to`.
fn carry(net: &mut Net, from: ConnId, to: ConnId, data: &[u8]) -> Vec<u8> {
    let (mut sent, mut got) = (0, Vec::new());
    for _ in 0..10_000 {
        sent += net.stack.send(from, &data[sent..]).unwrap();
        net.loop_back();
        loop {
            let bytes = net.stack.recv(to).unwrap().to_vec();
            if bytes.is_empty() {
                break;
            }
            net.stack.consumed(to, bytes.len() as u32);
            got.extend_from_slice(&bytes);
        }
        net.loop_back();
        if got.len() == data.len() {
            break;
        }
        net.now += ms(1);
        net.stack.expire(net.now);
    }
    got
}

#[test]
fn a_connection_crosses_from_one_table_to_the_other() {
    for (mtu, ends) in MTUS.iter().flat_map(|mtu| ENDS.map(|ends| (*mtu, ends))) {
        let mut net = joined(mtu, ends);
        let listener = listen(&mut net, 1, at(ends[0], PORT));
        let client = connect(&mut net, 2, at(ends[0], PORT));
        net.loop_back();
        assert_eq!(net.stack.state(client), State::Established, "{ends:?}");
        let server = net.stack.accept(listener).unwrap();
        assert_eq!(net.stack.remote(server).map(|e| e.addr), Some(cidr(ends[1]).addr));
        assert_eq!(net.stack.local(client), net.stack.remote(server));
        let data = pattern(3_000_000);
        assert!(carry(&mut net, client, server, &data) == data, "{ends:?} {mtu}");
        assert!(carry(&mut net, server, client, &data) == data, "{ends:?} {mtu}");
        assert_eq!(net.stack.counters().tcp.retransmitted_segs, 0);
        assert_eq!(net.drops, []);
        net.stack.close(client);
        net.loop_back();
        assert!(net.stack.peer_closed(server));
        net.stack.close(server);
        net.loop_back();
        assert_eq!(net.stack.population().connections, 0);
    }
}

#[test]
fn a_wildcard_listener_takes_connections_for_every_address_of_its_table_only() {
    for ends in ENDS {
        let mut net = joined(65_535, ends);
        let any = if at(ends[0], 0).addr.is_v4() { "0.0.0.0" } else { "::" };
        let listener = listen(&mut net, 1, Endpoint::new(addr(any), PORT));
        let client = connect(&mut net, 2, at(ends[0], PORT));
        net.loop_back();
        assert!(net.stack.accept(listener).is_some());
        assert_eq!(net.stack.state(client), State::Established);
        let elsewhere = connect(&mut net, 1, at(ends[1], PORT));
        net.loop_back();
        assert_eq!(net.stack.failure(elsewhere), Some(Failure::Refused));
    }
}

#[test]
fn an_end_reaches_itself_over_its_own_loopback() {
    for ends in ENDS {
        let mut net = joined(65_535, ends);
        let listener = listen(&mut net, 1, at(ends[0], PORT));
        let client = connect(&mut net, 1, at(ends[0], PORT));
        net.loop_back();
        let server = net.stack.accept(listener).unwrap();
        let data = pattern(100_000);
        assert!(carry(&mut net, client, server, &data) == data);
    }
}

#[test]
fn without_a_route_the_tables_are_strangers() {
    for ends in ENDS {
        let mut net = joined(65_535, ends);
        let spec = ConnectSpec {
            table: Table(0),
            local: None,
            remote: at(ends[0], PORT),
            token: 0,
            options: ConnOptions::default(),
        };
        assert_eq!(net.stack.connect(net.now, spec), Err(ConnectError::NoRoute));
    }
}

#[test]
fn datagrams_cross_both_ways_up_to_the_longest() {
    for (mtu, ends) in MTUS.iter().flat_map(|mtu| ENDS.map(|ends| (*mtu, ends))) {
        let mut net = joined(mtu, ends);
        let mut socket = |table: u16, local| {
            net.stack
                .udp_bind(UdpSpec { table: Table(table), local, token: 0, v6_only: false })
                .unwrap()
        };
        let (server, client) = (socket(1, at(ends[0], 53)), socket(2, at(ends[1], 0)));
        let from = net.stack.udp_local(client).unwrap();
        net.stack.udp_connect(client, at(ends[0], 53)).unwrap();
        for len in [0, 1, 1_400, 1_472, 9_000, 65_507] {
            let data = pattern(len);
            net.stack.udp_send(client, None, None, &data).unwrap();
            net.loop_back();
            let got = net.stack.udp_recv(server).map(|d| (d.from, d.payload.to_vec()));
            assert!(got == Some((from, data.clone())), "{ends:?} {mtu} {len}");
            net.stack.udp_send(server, from, None, &data).unwrap();
            net.loop_back();
            assert!(
                net.stack.udp_recv(client).is_some_and(|d| d.payload == data),
                "{ends:?} {mtu} {len}"
            );
        }
        assert_eq!(net.drops, []);
    }
}

#[test]
fn a_closed_port_in_the_other_table_refuses_at_once() {
    for ends in ENDS {
        let mut net = joined(65_535, ends);
        let client = connect(&mut net, 2, at(ends[0], PORT));
        net.loop_back();
        assert_eq!(net.stack.failure(client), Some(Failure::Refused));
        let local = at(ends[1], 0);
        let udp = net
            .stack
            .udp_bind(UdpSpec { table: Table(2), local, token: 0, v6_only: false })
            .unwrap();
        net.stack.udp_connect(udp, at(ends[0], 9)).unwrap();
        net.stack.udp_send(udp, None, None, b"anyone?").unwrap();
        net.loop_back();
        assert_eq!(net.stack.udp_error(udp), Some(Unreachable::Port));
    }
}

#[test]
fn an_interface_moves_to_another_table_with_its_addresses() {
    let mut net = Net::new(&[(loopback(1_500, 0), &["172.16.1.1/24", "fd00:1::1/64"])]);
    net.stack.set_interface_table(Iface(0), Table(1)).unwrap();
    assert!(net.stack.routes().all(|r| r.table == Table(1)));
    assert_eq!(net.stack.addresses().count(), 2);
    assert_eq!(net.stack.source_for(Table(0), addr("172.16.1.1")), None);
    let listener = listen(&mut net, 1, at("172.16.1.1/24", PORT));
    connect(&mut net, 1, at("172.16.1.1/24", PORT));
    net.loop_back();
    assert!(net.stack.accept(listener).is_some());
    assert_eq!(net.stack.set_interface_table(Iface(0), Table(9_999)), Err(AddError::NoTable));
}

#[test]
fn an_interface_stays_where_it_is_when_its_address_is_taken_in_the_other_table() {
    let specs: [(_, &[&str]); 2] = [
        (loopback(1_500, 0), &["10.1.0.1/24", "10.2.0.1/24"]),
        (loopback(1_500, 1), &["10.2.0.1/24"]),
    ];
    let mut net = Net::new(&specs);
    let before: Vec<_> = net.stack.addresses().map(|a| (a.iface, a.cidr)).collect();
    assert_eq!(net.stack.set_interface_table(Iface(0), Table(1)), Err(AddError::Exists));
    let mut after: Vec<_> = net.stack.addresses().map(|a| (a.iface, a.cidr)).collect();
    after.sort_by_key(|(iface, cidr)| (*iface, cidr.addr));
    assert_eq!(after, before);
    assert_eq!(net.stack.source_for(Table(0), addr("10.2.0.9")), Some(addr("10.2.0.1")));
    assert_eq!(net.stack.source_for(Table(1), addr("10.2.0.9")), Some(addr("10.2.0.1")));
}

#[test]
fn connections_inside_the_stack_are_made_also_while_it_is_drained() {
    for ends in ENDS {
        let mut net = joined(65_535, ends);
        let listener = listen(&mut net, 1, at(ends[0], PORT));
        net.stack.reconfigure_tcp(|tcp| tcp.admission = Admission::Reset);
        let client = connect(&mut net, 2, at(ends[0], PORT));
        net.loop_back();
        assert_eq!(net.stack.state(client), State::Established, "{ends:?}");
        assert!(net.stack.accept(listener).is_some());
        assert!(net.stack.connections().all(|conn| net.stack.is_inside(&conn)));
    }
}
