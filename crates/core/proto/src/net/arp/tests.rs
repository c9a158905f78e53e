extern crate std;

use std::vec;
use std::vec::Vec;

use clearway_base::Duration;
use clearway_wire::{Addr, eth};

use super::*;
use crate::testing::*;
use crate::{NeighbourState, NextHop, Table};

fn arp_frame(arp: &Arp, to: Mac) -> Vec<u8> {
    let mut body = vec![0; arp::LEN];
    arp::emit(arp, &mut body);
    // Ethernet frames are at least 60 bytes long; the rest is padding.
    body.resize(46, 0);
    framed(arp.sender_mac, to, EtherType::ARP, &body)
}

fn request(sender: &str, target: &str) -> Arp {
    Arp {
        operation: Operation::Request,
        sender_mac: PEER_MAC,
        sender: addr(sender),
        target_mac: Mac::ZERO,
        target: addr(target),
    }
}

fn reply(sender: &str, mac: Mac) -> Arp {
    Arp {
        operation: Operation::Reply,
        sender_mac: mac,
        sender: addr(sender),
        target_mac: OUR_MAC,
        target: addr("10.0.0.1"),
    }
}

fn read(frame: &[u8]) -> (Mac, Mac, Arp) {
    let eth = eth::check(frame).unwrap();
    assert_eq!(eth.ethertype(), EtherType::ARP);
    (eth.src(), eth.dst(), arp::check(eth.payload()).unwrap())
}

fn net() -> Net {
    Net::new(&[(ethernet(1500), &["10.0.0.1/24"])])
}

#[test]
fn a_request_for_our_address_is_answered_to_the_asker_alone() {
    let mut net = net();
    let sent = net.exchange(&arp_frame(&request("10.0.0.2", "10.0.0.1"), Mac::BROADCAST));
    assert_eq!(sent.len(), 1);
    let (src, dst, arp) = read(&sent[0]);
    assert_eq!((src, dst), (OUR_MAC, PEER_MAC));
    assert_eq!(arp.operation, Operation::Reply);
    assert_eq!((arp.sender_mac, arp.sender), (OUR_MAC, addr("10.0.0.1")));
    assert_eq!((arp.target_mac, arp.target), (PEER_MAC, addr("10.0.0.2")));
    assert_eq!(net.drops, []);
}

#[test]
fn requests_for_others_are_not_answered_and_make_no_entry() {
    let mut net = net();
    assert_eq!(
        net.ingest(&arp_frame(&request("10.0.0.2", "10.0.0.3"), Mac::BROADCAST)),
        Some(Drop::ArpNotForUs)
    );
    assert_eq!(net.emit().len(), 0);
    assert_eq!(net.stack.neighbours().count(), 0);
}

#[test]
fn a_probe_for_our_address_is_answered() {
    let mut net = net();
    let sent = net.exchange(&arp_frame(&request("0.0.0.0", "10.0.0.1"), Mac::BROADCAST));
    assert_eq!(read(&sent[0]).2.sender, addr("10.0.0.1"));
    assert_eq!(net.stack.neighbours().count(), 0);
}

#[test]
fn who_asks_for_us_is_remembered_but_only_from_our_own_subnet() {
    let mut net = net();
    net.exchange(&arp_frame(&request("10.0.0.2", "10.0.0.1"), Mac::BROADCAST));
    net.exchange(&arp_frame(&request("192.0.2.9", "10.0.0.1"), Mac::BROADCAST));
    let known: Vec<_> = net.stack.neighbours().collect();
    assert_eq!(known.len(), 1);
    assert_eq!(
        (known[0].addr, known[0].mac, known[0].state),
        (addr("10.0.0.2"), Some(PEER_MAC), NeighbourState::Stale)
    );
}

#[test]
fn a_new_address_is_announced() {
    let mut net = Net::new(&[(ethernet(1500), &[])]);
    net.stack.add_address(net.now, Iface(0), cidr("10.0.0.1/24")).unwrap();
    let sent = net.emit();
    assert_eq!(sent.len(), 1);
    let (_, dst, arp) = read(&sent[0]);
    assert_eq!(dst, Mac::BROADCAST);
    assert_eq!(
        (arp.operation, arp.sender, arp.target),
        (Operation::Request, addr("10.0.0.1"), addr("10.0.0.1"))
    );
}

#[test]
fn an_unsolicited_reply_makes_no_entry() {
    let mut net = net();
    assert_eq!(
        net.ingest(&arp_frame(&reply("10.0.0.2", PEER_MAC), OUR_MAC)),
        Some(Drop::ArpUnsolicited)
    );
    assert_eq!(net.stack.neighbours().count(), 0);
}

#[test]
fn a_claim_to_our_address_is_counted_and_answered_once_in_ten_seconds() {
    let mut net = net();
    net.now += Duration::from_secs(11);
    let theirs = request("10.0.0.1", "10.0.0.1");
    let mut sent = Vec::new();
    for _ in 0..5 {
        net.now += Duration::from_secs(1);
        assert_eq!(net.ingest(&arp_frame(&theirs, Mac::BROADCAST)), Some(Drop::ArpConflict));
        sent.extend(net.emit());
    }
    assert_eq!(sent.len(), 1);
    let (_, dst, arp) = read(&sent[0]);
    assert_eq!(
        (dst, arp.sender, arp.target, arp.sender_mac),
        (Mac::BROADCAST, addr("10.0.0.1"), addr("10.0.0.1"), OUR_MAC)
    );
    assert_eq!(net.stack.counters().neighbours.conflicts, 5);
    net.now += Duration::from_secs(10);
    assert_eq!(net.exchange(&arp_frame(&theirs, Mac::BROADCAST)).len(), 1);
}

#[test]
fn forged_senders_are_refused() {
    let mut net = net();
    let group = Mac([1, 0, 0, 0, 0, 9]);
    let cases = [
        Arp { sender_mac: group, ..request("10.0.0.2", "10.0.0.1") },
        Arp { sender_mac: Mac::ZERO, ..request("10.0.0.2", "10.0.0.1") },
        request("224.0.0.1", "10.0.0.1"),
        request("255.255.255.255", "10.0.0.1"),
        request("127.0.0.1", "10.0.0.1"),
    ];
    for arp in cases {
        let mut body = [0; arp::LEN];
        arp::emit(&arp, &mut body);
        let frame = framed(PEER_MAC, Mac::BROADCAST, EtherType::ARP, &body);
        assert_eq!(net.ingest(&frame), Some(Drop::ArpBadSender), "{arp:?}");
    }
    assert_eq!(net.emit().len(), 0);
}

#[test]
fn packets_wait_for_the_answer_and_leave_in_order() {
    let mut net = net();
    let socket = net.stack.udp_bind(udp_any(5000)).unwrap();
    for n in 0..3u8 {
        net.stack
            .udp_send(socket, clearway_wire::Endpoint::new(addr("10.0.0.2"), 9), None, &[n])
            .unwrap();
    }
    let asked = net.emit();
    assert_eq!(asked.len(), 1, "one request for three packets, in the same turn");
    let (_, dst, arp) = read(&asked[0]);
    assert_eq!((dst, arp.target, arp.sender), (Mac::BROADCAST, addr("10.0.0.2"), addr("10.0.0.1")));
    let sent = net.exchange(&arp_frame(&reply("10.0.0.2", PEER_MAC), OUR_MAC));
    assert_eq!(sent.iter().map(|f| f[42]).collect::<Vec<_>>(), [0, 1, 2]);
    for frame in &sent {
        let eth = eth::check(frame).unwrap();
        assert_eq!((eth.dst(), eth.src(), eth.ethertype()), (PEER_MAC, OUR_MAC, EtherType::IPV4));
    }
}

#[test]
fn forged_replies_in_a_row_do_not_take_a_gateway_over() {
    let mut net = net();
    let socket = net.stack.udp_bind(udp_any(5000)).unwrap();
    let gateway = clearway_wire::Endpoint::new(addr("10.0.0.2"), 9);
    net.stack.udp_send(socket, gateway, None, b"a").unwrap();
    net.emit();
    net.exchange(&arp_frame(&reply("10.0.0.2", PEER_MAC), OUR_MAC));
    net.now += Duration::from_secs(2);
    let liar = Mac([2, 6, 6, 6, 6, 6]);
    for n in 0..20u8 {
        let liar = Mac([2, 6, 6, 6, 6, n % 3]);
        net.ingest(&arp_frame(&reply("10.0.0.2", liar), OUR_MAC));
        net.ingest(&arp_frame(
            &Arp { sender_mac: liar, ..request("10.0.0.2", "10.0.0.2") },
            Mac::BROADCAST,
        ));
        net.ingest(&arp_frame(
            &Arp { sender_mac: liar, ..request("10.0.0.2", "10.0.0.1") },
            Mac::BROADCAST,
        ));
        net.stack.udp_send(socket, gateway, None, b"b").unwrap();
        for frame in net.emit() {
            let eth = eth::check(&frame).unwrap();
            let to_liar_alone =
                eth.ethertype() == EtherType::ARP && read(&frame).2.operation == Operation::Reply;
            assert!(eth.dst() == PEER_MAC || to_liar_alone, "{n}: {:?}", eth.dst());
        }
    }
    // Whoever asked us for our address was answered; the gateway's frames went to the gateway, and
    // so they go on.
    net.exchange(&arp_frame(&reply("10.0.0.2", PEER_MAC), OUR_MAC));
    let known = net.stack.neighbours().next().unwrap();
    assert_eq!((known.mac, known.state), (Some(PEER_MAC), NeighbourState::Reachable));
    // The gateway falls silent: what another link address says counts when all were asked, and not
    // before.
    net.now += Duration::from_secs(2);
    net.ingest(&arp_frame(&reply("10.0.0.2", liar), OUR_MAC));
    net.pass(4);
    net.stack.udp_send(socket, gateway, None, b"c").unwrap();
    let asked = net.emit();
    assert_eq!(read(asked.last().unwrap()).1, Mac::BROADCAST);
}

fn udp_any(port: u16) -> crate::UdpSpec {
    let local = clearway_wire::Endpoint::new(Addr::ANY_V4, port);
    crate::UdpSpec { table: Table(0), local, token: 0, v6_only: false }
}

#[test]
fn a_router_is_asked_for_instead_of_a_distant_host() {
    let mut net = net();
    net.stack.add_route(Table(0), cidr("0.0.0.0/0"), NextHop::Gateway(addr("10.0.0.254"))).unwrap();
    let socket = net.stack.udp_bind(udp_any(5000)).unwrap();
    net.stack
        .udp_send(socket, clearway_wire::Endpoint::new(addr("192.0.2.77"), 9), None, b"x")
        .unwrap();
    let sent = net.emit();
    assert_eq!(read(&sent[0]).2.target, addr("10.0.0.254"));
}

#[test]
fn a_silent_neighbour_is_asked_three_times_a_second_apart() {
    let mut net = net();
    let socket = net.stack.udp_bind(udp_any(5000)).unwrap();
    net.stack
        .udp_send(socket, clearway_wire::Endpoint::new(addr("10.0.0.2"), 9), None, b"x")
        .unwrap();
    let mut sent = net.emit();
    sent.extend(net.pass(10));
    assert_eq!(sent.len(), 3);
    assert_eq!(net.stack.neighbours().count(), 0);
    assert_eq!(net.stack.counters().neighbours.failures, 1);
    assert_eq!(net.stack.counters().neighbours.frames_dropped, 1);
}

fn connect_spec(local: &str, remote: &str) -> crate::ConnectSpec {
    let endpoint = |text, port| clearway_wire::Endpoint::new(addr(text), port);
    let (local, remote) = (Some(endpoint(local, 0)), endpoint(remote, 9));
    crate::ConnectSpec {
        table: Table(0),
        local,
        remote,
        token: 0,
        options: crate::ConnOptions::default(),
    }
}

#[test]
fn a_connection_to_a_silent_neighbour_fails_when_that_is_given_up() {
    let mut net = Net::new(&[(ethernet(1500), &["10.0.0.1/24", "2001:db8::1/64"])]);
    for (local, remote) in [("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "2001:db8::2")] {
        let conn = net.stack.connect(net.now, connect_spec(local, remote)).unwrap();
        net.emit();
        net.pass(2);
        assert_eq!(net.stack.failure(conn), None, "{remote} may answer the third request");
        net.pass(2);
        let failure = crate::Failure::Unreachable(crate::Unreachable::Host);
        assert_eq!(net.stack.failure(conn), Some(failure), "{remote}");
        net.stack.close(conn);
    }
    assert_eq!(net.stack.counters().tcp.attempt_fails, 2);
}

#[test]
fn datagrams_to_a_silent_neighbour_are_told_of_and_their_places_are_free_again() {
    let mut net = net();
    let socket = net.stack.udp_bind(udp_any(5000)).unwrap();
    let to = clearway_wire::Endpoint::new(addr("10.0.0.2"), 9);
    net.stack.udp_connect(socket, to).unwrap();
    // More often than there are places for frames that wait.
    for round in 0..50 {
        net.stack.udp_send(socket, to, None, b"x").unwrap();
        net.emit();
        net.pass(4);
        assert_eq!(net.stack.udp_error(socket), Some(crate::Unreachable::Host), "round {round}");
    }
    let other = net.stack.udp_bind(udp_any(5001)).unwrap();
    net.stack.udp_send(other, to, None, b"x").unwrap();
    net.emit();
    net.pass(4);
    assert_eq!(net.stack.udp_error(other), None, "who is not connected asked for no peer");
}

#[test]
fn a_flood_of_requests_fills_neither_table_nor_memory() {
    let mut net = net();
    for n in 2..=250 {
        net.ingest(&arp_frame(&request(&std::format!("10.0.0.{n}"), "10.0.0.1"), Mac::BROADCAST));
        if n % 16 == 0 {
            net.emit();
        }
    }
    let capacity = config().limits.neighbours as usize;
    assert!(net.stack.neighbours().count() <= capacity / 2);
    net.emit();
    for n in 0..100_000u32 {
        let sender = std::format!("10.0.0.{}", n % 250 + 2);
        net.ingest(&arp_frame(&request(&sender, "10.0.0.1"), Mac::BROADCAST));
        if n > 300 {
            break;
        }
    }
    assert!(
        net.stack.counters().drops(Drop::RepliesFull) > 0,
        "without emit the queue of replies is full"
    );
}

#[test]
fn a_probe_names_no_sender_and_finds_who_has_the_address_or_wants_it_too() {
    let mut net = Net::new(&[(ethernet(1500), &[])]);
    let wanted = addr("10.0.0.9");
    net.stack.watch_address(Iface(0), wanted).unwrap();
    net.stack.probe_address(Iface(0), wanted).unwrap();
    let sent = net.emit();
    let (_, to, probe) = read(&sent[0]);
    assert_eq!((to, probe.operation), (Mac::BROADCAST, Operation::Request));
    assert_eq!((probe.sender, probe.target), (addr("0.0.0.0"), wanted));
    assert_eq!(net.stack.address_holder(Iface(0), wanted), None);
    // Our own frame that comes back says nothing.
    let own = Arp { sender_mac: OUR_MAC, ..request("0.0.0.0", "10.0.0.9") };
    assert_eq!(net.ingest(&arp_frame(&own, Mac::BROADCAST)), Some(Drop::ArpNotForUs));
    // Who asks for it, or for himself from another address, does not have it.
    net.ingest(&arp_frame(&request("10.0.0.2", "10.0.0.9"), Mac::BROADCAST));
    assert_eq!(net.stack.address_holder(Iface(0), wanted), None);
    assert_eq!(net.ingest(&arp_frame(&request("0.0.0.0", "10.0.0.9"), Mac::BROADCAST)), None);
    assert_eq!(net.stack.address_holder(Iface(0), wanted), Some(PEER_MAC));
    net.stack.watch_address(Iface(0), wanted).unwrap();
    assert_eq!(net.stack.address_holder(Iface(0), wanted), None);
    assert_eq!(net.ingest(&arp_frame(&reply("10.0.0.9", PEER_MAC), OUR_MAC)), None);
    assert_eq!(net.stack.unwatch_address(Iface(0), wanted), Some(PEER_MAC));
    // From now on such a packet is what it always was.
    let again = net.ingest(&arp_frame(&reply("10.0.0.9", PEER_MAC), OUR_MAC));
    assert_eq!(again, Some(Drop::ArpUnsolicited));
}

#[test]
fn only_so_many_addresses_are_watched_and_only_such_as_a_host_may_have() {
    let mut net = Net::new(&[(ethernet(1500), &[]), (raw(1500), &[])]);
    let bad = crate::AddError::BadAddress;
    for no_host in ["0.0.0.0", "224.0.0.1", "255.255.255.255", "ff02::1"] {
        assert_eq!(net.stack.watch_address(Iface(0), addr(no_host)), Err(bad), "{no_host}");
    }
    assert_eq!(net.stack.watch_address(Iface(1), addr("10.0.0.9")), Err(bad));
    for last in 0..crate::net::neigh::probe::MOST as u8 {
        net.stack.watch_address(Iface(0), Addr::v4([10, 0, 0, last])).unwrap();
    }
    let full = net.stack.watch_address(Iface(0), addr("10.0.1.1"));
    assert_eq!(full, Err(crate::AddError::Full));
    net.stack.unwatch_address(Iface(0), addr("10.0.0.1"));
    net.stack.watch_address(Iface(0), addr("10.0.1.1")).unwrap();
}
