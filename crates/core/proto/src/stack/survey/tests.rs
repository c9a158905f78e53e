extern crate std;

use std::vec::Vec;

use clearway_pkt::Iface;
use clearway_wire::{Endpoint, Mac};

use super::*;
use crate::testing::*;
use crate::{ConnOptions, ConnectSpec, ListenSpec, State, Table, UdpSpec};

fn loops() -> Net {
    Net::new(&[(loopback(1_500, 0), &["10.0.0.1/24"])])
}

fn end(port: u16) -> Endpoint {
    Endpoint::new(addr("10.0.0.1"), port)
}

#[test]
fn what_is_there_is_listed_and_counted() {
    let mut net = loops();
    let options = ConnOptions::default();
    let spec = ListenSpec {
        table: Table(0),
        local: end(80),
        v6_only: false,
        backlog: 3,
        token: 11,
        options,
    };
    let listener = net.stack.listen(spec).unwrap();
    let spec = ConnectSpec { table: Table(0), local: None, remote: end(80), token: 12, options };
    let client = net.stack.connect(net.now, spec).unwrap();
    net.loop_back();
    let udp = UdpSpec { table: Table(0), local: end(53), token: 13, v6_only: false };
    let socket = net.stack.udp_bind(udp).unwrap();
    net.stack.udp_send(socket, end(53), None, b"to itself").unwrap();
    net.loop_back();

    let holders: Vec<_> = net.stack.connections().map(|c| c.holder).collect();
    assert_eq!(holders, [Holder::Owner(12), Holder::Listener(listener)]);
    assert!(net.stack.connections().all(|c| c.state == State::Established && c.table == Table(0)));
    assert_eq!(net.stack.conn_ids().collect::<Vec<_>>(), [client]);
    let listeners: Vec<_> =
        net.stack.listeners().map(|l| (l.listener, l.local, l.token, l.pending)).collect();
    assert_eq!(listeners, [(listener, end(80), 11, 1)]);
    let sockets: Vec<_> =
        net.stack.udp_sockets().map(|u| (u.socket, u.token, u.unread, u.unsent)).collect();
    assert_eq!(sockets, [(socket, 13, 1, 0)]);
    let counted = net.stack.population();
    assert_eq!(
        (counted.connections, counted.listeners, counted.udp_sockets, counted.orphans),
        (2, 1, 1, 0)
    );

    let server = net.stack.accept(listener).unwrap();
    net.stack.close(client);
    assert_eq!(net.stack.conn_ids().collect::<Vec<_>>(), [server]);
    assert!(net.stack.connections().any(|c| c.holder == Holder::Nobody));
    assert_eq!(net.stack.population().orphans, 1);
}

#[test]
fn the_owner_reaches_stores_and_queues() {
    let mut net = loops();
    let spec = ConnectSpec {
        table: Table(0),
        local: None,
        remote: end(80),
        token: 0,
        options: ConnOptions::default(),
    };
    let conn = net.stack.connect(net.now, spec).unwrap();
    net.stack.send(conn, b"six by").unwrap();
    let (_, tx) = net.stack.queues(conn).unwrap();
    assert_eq!(net.stack.stores_ref().1.len(tx), 6);
    assert!(net.stack.queues_mut(conn).is_some());
    assert!(net.stack.stores().0.free_nodes() > 0);
    net.stack.close(conn);
    assert!(net.stack.queues(conn).is_none());
}

#[test]
fn a_new_link_addr_address_is_announced_and_makes_a_new_link_local_address() {
    let mut net = Net::lan();
    let old = net.stack.addresses().find(|a| a.cidr.addr.is_link_local()).unwrap().cidr.addr;
    let mac = Mac([2, 0, 0, 0, 9, 9]);
    net.stack.set_interface_mac(Iface(0), mac).unwrap();
    let frames = net.emit();
    assert_eq!(frames.len(), 3, "one announcement for each address");
    assert!(frames.iter().all(|f| f[6..12] == mac.0));
    let new = net.stack.addresses().find(|a| a.cidr.addr.is_link_local()).unwrap().cidr.addr;
    assert_ne!(new, old);
    // Frames for the old address are another link address's now.
    assert_eq!(
        net.ingest(&ip_frame(&ping("10.0.0.2", "10.0.0.1", b"x"))),
        Some(crate::Drop::OtherLinkAddr)
    );
    assert!(net.stack.set_interface_mac(Iface(0), Mac::BROADCAST).is_err());
}

#[test]
fn two_ends_of_one_connection_are_told_from_others() {
    let mut net = loops();
    let options = ConnOptions::default();
    let spec = ListenSpec {
        table: Table(0),
        local: end(80),
        v6_only: false,
        backlog: 3,
        token: 0,
        options,
    };
    let listener = net.stack.listen(spec).unwrap();
    let spec = ConnectSpec { table: Table(0), local: None, remote: end(80), token: 0, options };
    let clients =
        [net.stack.connect(net.now, spec).unwrap(), net.stack.connect(net.now, spec).unwrap()];
    net.loop_back();
    let servers = [net.stack.accept(listener).unwrap(), net.stack.accept(listener).unwrap()];
    for client in clients {
        let at = net.stack.local(client);
        let ends: Vec<_> =
            servers.into_iter().filter(|&server| net.stack.are_joined(client, server)).collect();
        assert_eq!(ends.iter().map(|&server| net.stack.remote(server)).collect::<Vec<_>>(), [at]);
        // Also with bytes on their way that were not acknowledged, and from either side.
        net.stack.send(client, b"on the way").unwrap();
        assert!(net.stack.are_joined(client, ends[0]) && net.stack.are_joined(ends[0], client));
        assert!(!net.stack.are_joined(client, client));
    }
    assert!(!net.stack.are_joined(clients[0], clients[1]));
    net.stack.close(clients[0]);
    assert!(servers.into_iter().all(|server| !net.stack.are_joined(clients[0], server)));
}
