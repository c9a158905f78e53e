extern crate std;

use std::collections::BTreeSet;
use std::vec::Vec;

use clearway_base::Duration;

use super::*;
use crate::testing::*;
use crate::{ConnOptions, Event, State, Table};

fn net() -> Net {
    Net::new(&[(loopback(1_500, 0), &["10.0.0.1/24", "10.0.0.2/24", "2001:db8::1/64"])])
}

fn at(local: &str, port: u16) -> BindSpec {
    let local = Endpoint::new(addr(local), port);
    BindSpec {
        table: Table(0),
        local,
        v6_only: false,
        reuse_address: false,
        reuse_port: false,
        owner: 0,
    }
}

fn listening(local: &str, port: u16) -> ListenSpec {
    let local = Endpoint::new(addr(local), port);
    ListenSpec {
        table: Table(0),
        local,
        v6_only: false,
        backlog: 8,
        token: 5,
        options: ConnOptions::default(),
    }
}

fn to(remote: &str, port: u16) -> ConnectSpec {
    let remote = Endpoint::new(addr(remote), port);
    ConnectSpec { table: Table(0), local: None, remote, token: 6, options: ConnOptions::default() }
}

#[test]
fn two_reservations_of_one_port_conflict_where_their_addresses_overlap() {
    let cases = [
        ("10.0.0.1", "10.0.0.1", true),
        ("10.0.0.1", "10.0.0.2", false),
        ("0.0.0.0", "10.0.0.2", true),
        ("10.0.0.2", "0.0.0.0", true),
        ("::", "10.0.0.2", true),
        ("10.0.0.2", "::", true),
        ("::", "0.0.0.0", true),
        ("2001:db8::1", "0.0.0.0", false),
        ("2001:db8::1", "::", true),
    ];
    for (first, second, conflict) in cases {
        let mut net = net();
        let held = net.stack.bind(at(first, 80)).unwrap();
        let result = net.stack.bind(at(second, 80));
        assert_eq!(result.err(), conflict.then_some(BindError::InUse), "{first} {second}");
        assert!(net.stack.bind(at(second, 81)).is_ok());
        net.stack.unbind(held);
        assert_eq!(net.stack.bind(at(second, 80)).is_ok(), conflict, "{first} {second}");
    }
    let mut net = net();
    net.stack.bind(BindSpec { v6_only: true, ..at("::", 80) }).unwrap();
    assert!(net.stack.bind(at("0.0.0.0", 80)).is_ok());
    assert_eq!(net.stack.bind(at("10.9.9.9", 80)), Err(BindError::BadAddress));
}

#[test]
fn reuse_of_the_address_is_for_those_who_do_not_listen() {
    let mut net = net();
    let reuse = BindSpec { reuse_address: true, ..at("10.0.0.1", 80) };
    let first = net.stack.bind(reuse).unwrap();
    let second = net.stack.bind(reuse).unwrap();
    assert_eq!(net.stack.bind(at("10.0.0.1", 80)), Err(BindError::InUse), "both must say it");
    let listener = net.stack.listen_bound(first, listening("10.0.0.1", 80)).unwrap();
    assert_eq!(net.stack.listen_bound(second, listening("10.0.0.1", 80)), Err(ListenError::InUse));
    assert_eq!(net.stack.bind(reuse), Err(BindError::InUse));
    net.stack.unlisten(listener);
    assert!(net.stack.listen_bound(second, listening("10.0.0.1", 80)).is_ok());
}

#[test]
fn groups_of_both_wildcards_listen_side_by_side_and_each_family_finds_its_own() {
    let mut net = net();
    let mut listen = |addr: Addr, v6_only: bool, token: u64| {
        let spec = BindSpec {
            local: Endpoint::new(addr, 80),
            v6_only,
            reuse_port: true,
            ..at("0.0.0.0", 80)
        };
        let bind = net.stack.bind(spec).unwrap();
        let options = crate::ConnOptions::default();
        let local = Endpoint::new(addr, 80);
        let spec = ListenSpec { table: Table(0), local, v6_only, backlog: 4, token, options };
        let listener = net.stack.listen_bound(bind, spec).unwrap();
        (bind, listener)
    };
    let both = listen(Addr::ANY_V6, false, 1);
    let v4 = listen(Addr::ANY_V4, false, 2);
    let second = listen(Addr::ANY_V4, false, 3);
    let only_v6 = listen(Addr::ANY_V6, true, 4);
    let other_both = listen(Addr::ANY_V6, false, 5);
    let found = |net: &Net| {
        let find = |text| net.stack.tcp.listeners.find(Table(0), Endpoint::new(addr(text), 80));
        [find("10.0.0.1"), find("2001:db8::1")]
    };
    assert_eq!(found(&net)[0], Some(v4.1), "who is for IPv4 alone comes first");
    assert!([Some(both.1), Some(only_v6.1)].contains(&found(&net)[1]));
    for (gone, next) in [(v4.1, second.1), (second.1, both.1), (both.1, other_both.1)] {
        net.stack.unlisten(gone);
        assert_eq!(found(&net)[0], Some(next));
    }
    net.stack.unlisten(only_v6.1);
    assert_eq!(found(&net), [Some(other_both.1); 2]);
    net.stack.unlisten(other_both.1);
    assert_eq!(found(&net), [None; 2]);
}

#[test]
fn those_who_share_a_port_share_its_connections() {
    let mut net = net();
    let share = BindSpec { reuse_port: true, ..at("10.0.0.1", 80) };
    let listeners: Vec<_> = (0..3)
        .map(|_| {
            let bind = net.stack.bind(share).unwrap();
            net.stack.listen_bound(bind, listening("10.0.0.1", 80)).unwrap()
        })
        .collect();
    assert_eq!(net.stack.listen(listening("10.0.0.1", 80)), Err(ListenError::InUse));
    let connect = |net: &mut Net, n: usize| {
        for _ in 0..n {
            net.stack.connect(net.now, to("10.0.0.1", 80)).unwrap();
        }
        net.loop_back();
    };
    let pending = |net: &Net| net.stack.listeners().map(|l| l.pending).collect::<Vec<_>>();
    connect(&mut net, 6);
    assert_eq!(pending(&net), [2, 2, 2]);
    // Who is gone gets no more, whichever place he had.
    for gone in [listeners[0], listeners[2]] {
        net.stack.unlisten(gone);
        net.loop_back();
        connect(&mut net, 2);
    }
    assert_eq!(pending(&net).iter().sum::<u32>(), pending(&net)[0]);
    net.stack.unlisten(listeners[1]);
    assert!(net.stack.listen(listening("10.0.0.1", 81)).is_ok());
    let refused = net.stack.connect(net.now, to("10.0.0.1", 80)).unwrap();
    net.loop_back();
    assert_eq!(net.stack.state(refused), State::Closed);
}

#[test]
fn a_connection_leaves_from_the_port_that_was_reserved() {
    let mut net = net();
    let listener = net.stack.listen(listening("10.0.0.2", 80)).unwrap();
    let bind = net.stack.bind(at("0.0.0.0", 4000)).unwrap();
    let conn = net.stack.connect_bound(net.now, bind, to("10.0.0.2", 80)).unwrap();
    net.loop_back();
    let server = net.stack.accept(listener).unwrap();
    assert_eq!(net.stack.remote(server).map(|e| e.port), Some(4000));
    assert_eq!(net.stack.local(conn).map(|e| e.port), Some(4000));
    assert_eq!(
        net.stack.connect_bound(net.now, bind, to("10.0.0.2", 80)),
        Err(ConnectError::InUse)
    );
    net.stack.unbind(bind);
    assert_eq!(
        net.stack.connect_bound(net.now, bind, to("10.0.0.2", 80)),
        Err(ConnectError::NoReservation)
    );
    assert_eq!(net.stack.state(conn), State::Established);
}

#[test]
fn who_shares_a_port_connects_from_it_to_peers_of_their_own() {
    let mut net = net();
    for port in [80, 81] {
        net.stack.listen(listening("10.0.0.2", port)).unwrap();
    }
    let reuse = BindSpec { reuse_address: true, ..at("10.0.0.1", 20) };
    let binds = [net.stack.bind(reuse).unwrap(), net.stack.bind(reuse).unwrap()];
    let first = net.stack.connect_bound(net.now, binds[0], to("10.0.0.2", 80)).unwrap();
    net.loop_back();
    let same = net.stack.connect_bound(net.now, binds[1], to("10.0.0.2", 80));
    assert_eq!(same, Err(ConnectError::InUse), "a connection has its ends once");
    let other = net.stack.connect_bound(net.now, binds[1], to("10.0.0.2", 81)).unwrap();
    net.loop_back();
    for conn in [first, other] {
        assert_eq!(net.stack.state(conn), State::Established);
        assert_eq!(net.stack.local(conn).map(|local| local.port), Some(20));
    }
    let local = Some(Endpoint::new(addr("10.0.0.1"), 20));
    let without = net.stack.connect(net.now, ConnectSpec { local, ..to("10.0.0.2", 82) });
    assert_eq!(without, Err(ConnectError::InUse), "who reserved nothing keeps off");
}

#[test]
fn any_number_may_share_a_port() {
    let mut net = net();
    let reuse = BindSpec { reuse_address: true, ..at("10.0.0.1", 20) };
    let binds: Vec<_> = (0..500).map(|_| net.stack.bind(reuse).unwrap()).collect();
    for bind in binds {
        net.stack.unbind(bind);
    }
    net.stack.bind(at("10.0.0.1", 20)).expect("it is free");
}

#[test]
fn others_keep_off_a_reserved_port() {
    let mut net = net();
    net.stack.bind(at("10.0.0.1", 80)).unwrap();
    assert_eq!(net.stack.listen(listening("10.0.0.1", 80)), Err(ListenError::InUse));
    assert_eq!(net.stack.listen(listening("0.0.0.0", 80)), Err(ListenError::InUse));
    let local = Some(Endpoint::new(addr("10.0.0.1"), 80));
    let spec = ConnectSpec { local, ..to("10.0.0.2", 9) };
    assert_eq!(net.stack.connect(net.now, spec), Err(ConnectError::InUse));
    // And a reservation keeps off a listener that has none.
    net.stack.listen(listening("0.0.0.0", 81)).unwrap();
    assert_eq!(net.stack.bind(at("10.0.0.1", 81)), Err(BindError::InUse));
    assert_eq!(net.stack.bind(at("::", 81)), Err(BindError::InUse));
}

#[test]
fn port_0_takes_each_free_port_once() {
    let mut config = config();
    config.tcp.ephemeral_ports = (40_000, 40_009);
    let mut net = Net::with(config, &[(loopback(1_500, 0), &["10.0.0.1/24"])]);
    net.stack.listen(listening("10.0.0.1", 40_003)).unwrap();
    let mut ports = BTreeSet::new();
    while let Ok(bind) = net.stack.bind(BindSpec { reuse_address: true, ..at("10.0.0.1", 0) }) {
        ports.insert(net.stack.bound_local(bind).unwrap().port);
    }
    assert_eq!(ports.len(), 9);
    assert_eq!(net.stack.bind(at("10.0.0.1", 0)), Err(BindError::NoPorts));
    // The choice of a connection keeps off them too.
    assert_eq!(net.stack.connect(net.now, to("10.0.0.1", 80)), Err(ConnectError::NoPorts));
    assert_eq!(net.stack.listen(listening("10.0.0.1", 0)), Err(ListenError::NoPorts));
}

#[test]
fn the_port_that_is_connected_to_is_never_chosen_at_its_own_address() {
    let (mut net, _) = narrow((40_000, 40_003), true);
    for round in 0..20 {
        // Nobody listens there: what is refused is free again.
        let conn = net.stack.connect(net.now, to("10.0.0.1", 40_002)).unwrap();
        assert_ne!(net.stack.local(conn).unwrap().port, 40_002, "round {round}");
        net.loop_back();
        net.stack.close(conn);
        assert_eq!(net.stack.population().connections, 0, "round {round}: it was refused");
    }
    // There is no other.
    let (mut net, _) = narrow((40_002, 40_002), true);
    assert_eq!(net.stack.connect(net.now, to("10.0.0.1", 40_002)), Err(ConnectError::NoPorts));
    net.stack.connect(net.now, to("10.0.0.9", 40_002)).expect("at another address it is any port");
}

/// A stack with these ephemeral ports, and a listener that closes after its peer.
fn narrow(ports: (u16, u16), stamps: bool) -> (Net, ListenerId) {
    let mut config = config();
    config.tcp.ephemeral_ports = ports;
    config.tcp.timestamps = stamps;
    let mut net = Net::with(config, &[(loopback(1_500, 0), &["10.0.0.1/24"])]);
    let listener = net.stack.listen(listening("10.0.0.1", 80)).unwrap();
    (net, listener)
}

/// A connection whose client closes first: TIME-WAIT is on the side of the port that was chosen.
fn come_and_go(net: &mut Net, listener: ListenerId, conn: ConnId) -> u16 {
    let port = net.stack.local(conn).unwrap().port;
    net.loop_back();
    let server = net.stack.accept(listener).expect("it is accepted");
    net.stack.close(conn);
    net.loop_back();
    net.stack.close(server);
    net.loop_back();
    assert_eq!(net.stack.population().connections, 0);
    net.now += Duration::from_millis(1);
    net.stack.expire(net.now);
    port
}

#[test]
fn a_client_that_closes_first_goes_on_when_all_its_ports_are_in_time_wait() {
    let (mut net, listener) = narrow((40_000, 40_003), true);
    for round in 0..4 {
        let mut ports = BTreeSet::new();
        for _ in 0..4 {
            let conn = net.stack.connect(net.now, to("10.0.0.1", 80)).unwrap();
            ports.insert(come_and_go(&mut net, listener, conn));
        }
        assert_eq!((ports.len(), net.stack.population().time_wait), (4, 4), "round {round}");
        assert_eq!(
            net.stack.connect(net.now, to("10.0.0.1", 80)),
            Err(ConnectError::NoPorts),
            "too soon"
        );
        net.now += Duration::from_secs(1);
    }
    assert_eq!(net.stack.counters().tcp.time_wait_reused, 12);
    // Without timestamps nothing tells old segments from new ones.
    let (mut net, listener) = narrow((40_000, 40_003), false);
    for _ in 0..4 {
        let conn = net.stack.connect(net.now, to("10.0.0.1", 80)).unwrap();
        come_and_go(&mut net, listener, conn);
    }
    net.now += Duration::from_secs(30);
    assert_eq!(net.stack.connect(net.now, to("10.0.0.1", 80)), Err(ConnectError::NoPorts));
}

#[test]
fn who_reserved_a_port_takes_its_pair_in_time_wait_over_at_once() {
    let (mut net, listener) = narrow((40_000, 40_003), true);
    let bind = net.stack.bind(at("0.0.0.0", 4000)).unwrap();
    for _ in 0..20 {
        let conn = net.stack.connect_bound(net.now, bind, to("10.0.0.1", 80)).unwrap();
        assert_eq!(come_and_go(&mut net, listener, conn), 4000);
    }
    assert_eq!(net.stack.counters().tcp.time_wait_reused, 19);
}

#[test]
fn a_port_that_was_asked_for_by_number_is_free_when_its_pair_of_endpoints_is() {
    let closing = |net: &mut Net, listener: ListenerId, local: BindSpec| {
        let bind = net.stack.bind(local).unwrap();
        let port = net.stack.bound_local(bind).unwrap().port;
        let conn = net.stack.connect_bound(net.now, bind, to("10.0.0.1", 80)).unwrap();
        net.loop_back();
        let server = net.stack.accept(listener).expect("it is accepted");
        net.stack.unbind_after(bind, conn);
        net.stack.close(conn);
        net.loop_back();
        assert_eq!(net.stack.state(server), State::CloseWait);
        (server, port)
    };
    let ends = |net: &mut Net, server: ConnId| {
        net.stack.close(server);
        net.loop_back();
        assert_eq!(net.stack.population().connections, 0);
    };
    for stamps in [true, false] {
        let (mut net, listener) = narrow((40_000, 40_003), stamps);
        let (server, _) = closing(&mut net, listener, at("0.0.0.0", 620));
        // The client is in FIN-WAIT-2: nobody can connect from there to the same server.
        assert_eq!(net.stack.bind(at("0.0.0.0", 620)), Err(BindError::InUse));
        assert_eq!(net.stack.bind(at("10.0.0.1", 620)), Err(BindError::InUse));
        assert_eq!(net.stack.listen(listening("0.0.0.0", 620)), Err(ListenError::InUse));
        let shared = BindSpec { reuse_address: true, ..at("0.0.0.0", 620) };
        assert_eq!(net.stack.bind(shared), Err(BindError::InUse), "the other did not share it");
        let from = ConnectSpec { local: Some(at("10.0.0.1", 620).local), ..to("10.0.0.1", 80) };
        assert_eq!(net.stack.connect(net.now, from), Err(ConnectError::InUse));
        ends(&mut net, server);
        // TIME-WAIT lets go where timestamps tell old segments from new ones.
        let again = net.stack.bind(at("0.0.0.0", 620));
        if stamps {
            net.stack.connect_bound(net.now, again.unwrap(), to("10.0.0.1", 80)).unwrap();
        } else {
            assert_eq!(again, Err(BindError::InUse));
            net.now += Duration::from_secs(61);
            net.stack.expire(net.now);
            net.stack.bind(at("0.0.0.0", 620)).unwrap();
        }
    }
    // Both that share it, and ports that the stack chose, are free at once.
    let (mut net, listener) = narrow((40_000, 40_003), true);
    let shared = BindSpec { reuse_address: true, ..at("0.0.0.0", 620) };
    let (_, _) = closing(&mut net, listener, shared);
    net.stack.bind(shared).unwrap();
    let (_, port) = closing(&mut net, listener, at("0.0.0.0", 0));
    net.stack.bind(at("0.0.0.0", port)).unwrap();
    // A connection that failed keeps nothing.
    let bind = net.stack.bind(at("0.0.0.0", 621)).unwrap();
    let conn = net.stack.connect_bound(net.now, bind, to("10.0.0.1", 81)).unwrap();
    net.loop_back();
    net.stack.unbind_after(bind, conn);
    net.stack.close(conn);
    net.stack.bind(at("0.0.0.0", 621)).unwrap();
}

#[test]
fn reservations_that_closing_connections_keep_make_room() {
    let mut config = config();
    config.limits.binds = 4;
    let mut net = Net::with(config, &[(loopback(1_500, 0), &["10.0.0.1/24"])]);
    let listener = net.stack.listen(listening("10.0.0.1", 80)).unwrap();
    for port in 600..700 {
        let bind = net.stack.bind(at("0.0.0.0", port)).unwrap();
        let conn = net.stack.connect_bound(net.now, bind, to("10.0.0.1", 80)).unwrap();
        net.loop_back();
        // Every second of them is closed by its peer too.
        let server = net.stack.accept(listener).expect("it is accepted");
        net.stack.unbind_after(bind, conn);
        net.stack.close(conn);
        net.loop_back();
        if port % 2 == 0 {
            net.stack.close(server);
            net.loop_back();
        }
    }
    let own: Vec<_> = (700..704).map(|port| net.stack.bind(at("0.0.0.0", port)).unwrap()).collect();
    assert_eq!(net.stack.bind(at("0.0.0.0", 704)), Err(BindError::TooMany));
    assert!(own.iter().all(|bind| net.stack.bound_local(*bind).is_some()));
}

#[test]
fn port_0_keeps_off_ports_that_connections_have_while_there_are_others() {
    let (mut net, listener) = narrow((40_000, 40_015), true);
    let conns: Vec<ConnId> =
        (0..8).map(|_| net.stack.connect(net.now, to("10.0.0.1", 80)).unwrap()).collect();
    net.loop_back();
    let used: BTreeSet<u16> = conns.iter().map(|c| net.stack.local(*c).unwrap().port).collect();
    for _ in 0..8 {
        let bind = net.stack.bind(at("0.0.0.0", 0)).unwrap();
        assert!(!used.contains(&net.stack.bound_local(bind).unwrap().port));
        net.stack.connect_bound(net.now, bind, to("10.0.0.1", 80)).unwrap();
    }
    net.loop_back();
    while net.stack.accept(listener).is_some() {}
    // Nothing else is left, and towards others these ports are good.
    let bind = net.stack.bind(at("0.0.0.0", 0)).unwrap();
    assert!(used.contains(&net.stack.bound_local(bind).unwrap().port));
    net.stack.connect_bound(net.now, bind, to("10.0.0.1", 81)).unwrap();
}

#[test]
fn urgent_data_out_of_the_stream_is_refused() {
    let mut net = net();
    let options = ConnOptions { urgent_inline: false, ..ConnOptions::default() };
    let listen = ListenSpec { options, ..listening("10.0.0.1", 80) };
    assert_eq!(net.stack.listen(listen), Err(ListenError::NotSupported));
    let connect = ConnectSpec { options, ..to("10.0.0.1", 80) };
    assert_eq!(net.stack.connect(net.now, connect), Err(ConnectError::NotSupported));
    assert_eq!(net.stack.next_event(), None::<Event>);
}
