extern crate std;

use std::vec;
use std::vec::Vec;

use clearway_base::Duration;
use clearway_wire::ndp::{Advert, Preference};
use clearway_wire::{Malformed, eth};

use super::*;
use crate::testing::*;
use crate::{NeighbourState, Table};

const PEER: &str = "2001:db8::2";
const OURS: &str = "2001:db8::1";

fn solicit(src: &str, target: &str, hop_limit: u8, options: &[NdOption<'_>]) -> Vec<u8> {
    let mut scratch = [0; 64];
    let options = Options::build(&mut scratch, options);
    let target = addr(target);
    let dst = std::format!("{}", target.solicited_node());
    let message = Icmpv6::Ndp(Ndp::NeighborSolicit { target, options });
    let packet = icmp_v6(src, &dst, hop_limit, &message);
    framed(PEER_MAC, Mac::of_group(&target.solicited_node()).unwrap(), EtherType::IPV6, &packet)
}

fn advert(src: &str, dst: &str, target: &str, solicited: bool, mac: Mac) -> Vec<u8> {
    let mut scratch = [0; 64];
    let options = Options::build(&mut scratch, &[NdOption::TargetLink(mac)]);
    let ndp = Ndp::NeighborAdvert {
        router: false,
        solicited,
        override_: true,
        target: addr(target),
        options,
    };
    ip_frame(&icmp_v6(src, dst, 255, &Icmpv6::Ndp(ndp)))
}

/// Reads a frame that holds a neighbour-discovery message, and hands its parts on.
fn read<R>(frame: &[u8], look: impl FnOnce(Mac, Addr, Addr, Ndp<'_>) -> R) -> R {
    let eth = eth::check(frame).unwrap();
    let v6 = ipv6::check(eth.payload()).unwrap();
    assert_eq!(v6.hop_limit(), 255);
    match icmpv6::check(&v6.src(), &v6.dst(), v6.hop_limit(), v6.payload(), true).unwrap() {
        Icmpv6::Ndp(ndp) => look(eth.dst(), v6.src(), v6.dst(), ndp),
        other => panic!("{other:?}"),
    }
}

fn net() -> Net {
    Net::new(&[(ethernet(1500), &["2001:db8::1/64"])])
}

#[test]
fn an_interface_has_a_link_local_address_from_the_start() {
    let net = net();
    let all: Vec<_> = net.stack.addresses().map(|a| a.cidr.addr).collect();
    assert_eq!(all, [addr("fe80::ff:fe00:1"), addr(OURS)]);
}

#[test]
fn a_solicitation_for_our_address_is_answered() {
    let mut net = net();
    for target in [OURS, "fe80::ff:fe00:1"] {
        let sent = net.exchange(&solicit(PEER, target, 255, &[NdOption::SourceLink(PEER_MAC)]));
        assert_eq!(sent.len(), 1);
        read(&sent[0], |mac, src, dst, ndp| {
            assert_eq!((mac, src, dst), (PEER_MAC, addr(target), addr(PEER)));
            let Ndp::NeighborAdvert { router, solicited, override_, target: told, options } = ndp
            else {
                panic!()
            };
            assert_eq!((router, solicited, override_, told), (false, true, true, addr(target)));
            assert_eq!(options.target_link(), Some(OUR_MAC));
        });
    }
    let known: Vec<_> = net.stack.neighbours().collect();
    assert_eq!((known.len(), known[0].state), (1, NeighbourState::Stale));
}

#[test]
fn a_message_that_a_router_passed_on_is_not_believed() {
    let mut net = net();
    let frame = solicit(PEER, OURS, 254, &[NdOption::SourceLink(PEER_MAC)]);
    assert_eq!(net.ingest(&frame), Some(Drop::Malformed(Malformed::NdpBadHopLimit)));
    assert_eq!(net.emit().len(), 0);
}

#[test]
fn an_option_of_length_zero_ends_the_message() {
    let mut net = net();
    let mut frame = solicit(PEER, OURS, 255, &[NdOption::SourceLink(PEER_MAC)]);
    let at = frame.len() - 7;
    frame[at] = 0;
    // The checksum is made to fit again, so that only the option is wrong.
    let (src, dst) = (addr(PEER), addr(OURS).solicited_node());
    let l4 = &mut frame[54..];
    l4[2..4].fill(0);
    let sum = clearway_wire::checksum::transport(&src, &dst, Proto::ICMPV6, l4);
    l4[2..4].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(net.ingest(&frame), Some(Drop::Malformed(Malformed::NdpBadOption)));
}

#[test]
fn a_probe_for_our_address_is_told_that_it_is_taken_at_a_bounded_rate() {
    let mut net = net();
    net.now += Duration::from_secs(11);
    let mut sent = Vec::new();
    for _ in 0..20 {
        assert_eq!(net.ingest(&solicit("::", OURS, 255, &[])), Some(Drop::NdpConflict));
        sent.extend(net.emit());
    }
    assert_eq!(sent.len(), 1);
    read(&sent[0], |mac, src, dst, ndp| {
        assert_eq!((mac, src, dst), (Mac([0x33, 0x33, 0, 0, 0, 1]), addr(OURS), Addr::ALL_NODES));
        assert!(matches!(ndp, Ndp::NeighborAdvert { solicited: false, .. }));
    });
    assert_eq!(net.stack.counters().neighbours.conflicts, 20);
}

#[test]
fn a_claim_to_our_address_is_defended() {
    let mut net = net();
    net.now += Duration::from_secs(11);
    assert_eq!(net.ingest(&advert(PEER, OURS, OURS, false, PEER_MAC)), Some(Drop::NdpConflict));
    let sent = net.emit();
    read(&sent[0], |_, src, dst, _| assert_eq!((src, dst), (addr(OURS), Addr::ALL_NODES)));
    assert!(
        net.stack.addresses().any(|a| a.cidr.addr == addr(OURS)),
        "we do not give up our address"
    );
}

#[test]
fn a_neighbour_is_solicited_in_its_group_and_its_answer_lets_packets_go() {
    let mut net = net();
    let local = clearway_wire::Endpoint::new(Addr::ANY_V6, 5000);
    let socket = net
        .stack
        .udp_bind(crate::UdpSpec { table: Table(0), local, token: 0, v6_only: false })
        .unwrap();
    net.stack
        .udp_send(socket, clearway_wire::Endpoint::new(addr(PEER), 9), None, b"hello")
        .unwrap();
    let sent = net.emit();
    assert_eq!(sent.len(), 1);
    read(&sent[0], |mac, src, dst, ndp| {
        assert_eq!(mac, Mac([0x33, 0x33, 0xff, 0, 0, 2]));
        assert_eq!((src, dst), (addr(OURS), addr("ff02::1:ff00:2")));
        let Ndp::NeighborSolicit { target, options } = ndp else { panic!() };
        assert_eq!((target, options.source_link()), (addr(PEER), Some(OUR_MAC)));
    });
    let sent = net.exchange(&advert(PEER, OURS, PEER, true, PEER_MAC));
    assert_eq!(sent.len(), 1);
    assert_eq!(eth::check(&sent[0]).unwrap().dst(), PEER_MAC);
    assert!(sent[0].ends_with(b"hello"));
    assert_eq!(net.stack.neighbours().next().unwrap().state, NeighbourState::Reachable);
}

#[test]
fn forged_advertisements_in_a_row_do_not_take_a_neighbour_over() {
    let mut net = net();
    let local = clearway_wire::Endpoint::new(Addr::ANY_V6, 5000);
    let socket = net
        .stack
        .udp_bind(crate::UdpSpec { table: Table(0), local, token: 0, v6_only: false })
        .unwrap();
    let peer = clearway_wire::Endpoint::new(addr(PEER), 9);
    net.stack.udp_send(socket, peer, None, b"a").unwrap();
    net.emit();
    net.exchange(&advert(PEER, OURS, PEER, true, PEER_MAC));
    net.now += Duration::from_secs(2);
    for n in 0..20u8 {
        let liar = Mac([2, 6, 6, 6, 6, n % 3]);
        net.ingest(&advert(PEER, OURS, PEER, n % 2 == 0, liar));
        net.ingest(&solicit(PEER, OURS, 255, &[NdOption::SourceLink(liar)]));
        net.stack.udp_send(socket, peer, None, b"b").unwrap();
        for frame in net.emit().iter().filter(|frame| frame.ends_with(b"b")) {
            assert_eq!(eth::check(frame).unwrap().dst(), PEER_MAC, "{n}");
        }
    }
    net.exchange(&advert(PEER, OURS, PEER, true, PEER_MAC));
    let known = net.stack.neighbours().next().unwrap();
    assert_eq!((known.mac, known.state), (Some(PEER_MAC), NeighbourState::Reachable));
}

#[test]
fn unsolicited_advertisements_make_no_entry() {
    let mut net = net();
    assert_eq!(net.ingest(&advert(PEER, OURS, PEER, false, PEER_MAC)), Some(Drop::NdpUnsolicited));
    assert_eq!(net.stack.neighbours().count(), 0);
}

#[test]
fn router_messages_and_redirects_change_nothing() {
    let mut net = net();
    let router = ROUTER;
    let routes: Vec<_> = net.stack.routes().collect();
    let ra = Ndp::RouterAdvert(Advert {
        hop_limit: 1,
        managed: false,
        other: false,
        preference: Preference::Low,
        lifetime_s: 1800,
        reachable_ms: 0,
        retrans_ms: 0,
        options: Options::NONE,
    });
    assert_eq!(
        net.ingest(&ip_frame(&icmp_v6(router, OURS, 255, &Icmpv6::Ndp(ra)))),
        Some(Drop::RouterMessage)
    );
    let redirect =
        Ndp::Redirect { target: addr(router), destination: addr(PEER), options: Options::NONE };
    assert_eq!(
        net.ingest(&ip_frame(&icmp_v6(router, OURS, 255, &Icmpv6::Ndp(redirect)))),
        Some(Drop::Redirect)
    );
    assert_eq!(net.stack.routes().collect::<Vec<_>>(), routes);
    assert_eq!(net.emit().len(), 0);
}

#[test]
fn a_new_address_is_announced_to_all() {
    let mut net = net();
    net.stack.add_address(net.now, Iface(0), cidr("2001:db8::77/64")).unwrap();
    let sent = net.emit();
    read(&sent[0], |_, src, dst, ndp| {
        assert_eq!((src, dst), (addr("2001:db8::77"), Addr::ALL_NODES));
        assert!(matches!(ndp, Ndp::NeighborAdvert { solicited: false, override_: true, .. }));
    });
}

#[test]
fn neighbour_discovery_never_comes_in_fragments() {
    let mut net = net();
    let frame = solicit(PEER, OURS, 255, &[NdOption::SourceLink(PEER_MAC)]);
    let mut l4 = vec![58, 0, 0, 0, 0, 0, 0, 9];
    l4.extend_from_slice(&frame[54..]);
    let mut atomic = packet(PEER, OURS, Proto::FRAGMENT, &l4);
    atomic[7] = 255;
    // The checksum is over the group that was asked, so the destination must be it too.
    atomic[24..40].copy_from_slice(addr(OURS).solicited_node().octets());
    assert_eq!(net.ingest(&ip_frame(&atomic)), Some(Drop::NdpFragmented));
    assert_eq!(net.emit().len(), 0);
}

const ROUTER: &str = "fe80::99";

fn router_says(lifetime_s: u16, options: &[NdOption<'_>]) -> Vec<u8> {
    let mut scratch = [0; 256];
    let options = Options::build(&mut scratch, options);
    let advert = Advert {
        hop_limit: 64,
        managed: false,
        other: false,
        preference: Preference::High,
        lifetime_s,
        reachable_ms: 0,
        retrans_ms: 0,
        options,
    };
    let packet = icmp_v6(ROUTER, "ff02::1", 255, &Icmpv6::Ndp(Ndp::RouterAdvert(advert)));
    framed(PEER_MAC, Mac([0x33, 0x33, 0, 0, 0, 1]), EtherType::IPV6, &packet)
}

#[test]
fn routers_are_heard_where_somebody_wants_it() {
    let mut net = net();
    let frame = router_says(1800, &[NdOption::Mtu(1400)]);
    assert_eq!(net.ingest(&frame), Some(Drop::RouterMessage));
    assert_eq!(net.stack.next_router_news(), None);
    net.stack.hear_routers(Iface(0), true).unwrap();
    assert_eq!(net.ingest(&frame), None);
    let news = net.stack.next_router_news().unwrap();
    let advert = news.advert.unwrap();
    assert_eq!((news.iface, news.router), (Iface(0), addr(ROUTER)));
    assert_eq!((advert.lifetime_s, advert.preference), (1800, Preference::High));
    assert_eq!(advert.options.mtu(), Some(1400));
    assert_eq!(net.stack.next_router_news(), None);
    assert!(!net.stack.routes().any(|r| r.dst.prefix_len == 0), "the core decides nothing");
    // A router that asks is none of our business.
    let solicit = Ndp::RouterSolicit { options: Options::NONE };
    let packet = icmp_v6(ROUTER, "ff02::1", 255, &Icmpv6::Ndp(solicit));
    assert_eq!(net.ingest(&ip_frame(&packet)), Some(Drop::RouterMessage));
    net.stack.hear_routers(Iface(0), false).unwrap();
    assert_eq!(net.ingest(&frame), Some(Drop::RouterMessage));
}

#[test]
fn a_flood_of_router_advertisements_is_bounded_in_time_and_in_memory() {
    let mut net = net();
    net.stack.hear_routers(Iface(0), true).unwrap();
    let frame = router_says(1800, &[]);
    let looked_at = |net: &mut Net| (0..1000).filter(|_| net.ingest(&frame).is_none()).count();
    let first = looked_at(&mut net);
    assert!((1..=8).contains(&first), "{first}");
    assert_eq!(net.drops.iter().filter(|why| **why == Drop::RouterFlood).count(), 1000 - first);
    // Nobody takes them: what waits is bounded, however long it lasts.
    for _ in 0..100 {
        net.now += Duration::from_secs(1);
        looked_at(&mut net);
    }
    let waiting = std::iter::from_fn(|| net.stack.next_router_news().map(drop)).count();
    assert_eq!(waiting, crate::limits::ROUTER_NEWS);
    net.now += Duration::from_secs(1);
    assert_eq!(net.ingest(&frame), None);
}

#[test]
fn routers_are_asked_from_our_link_local_address_or_from_nobody() {
    let mut net = net();
    net.stack.solicit_routers(Iface(0)).unwrap();
    let to = (Mac([0x33, 0x33, 0, 0, 0, 2]), Addr::ALL_ROUTERS);
    read(&net.emit()[0], |mac, src, dst, ndp| {
        assert_eq!(((mac, dst), src), (to, addr("fe80::ff:fe00:1")));
        let Ndp::RouterSolicit { options } = ndp else { panic!() };
        assert_eq!(options.source_link(), Some(OUR_MAC));
    });
    net.stack.remove_address(Iface(0), addr("fe80::ff:fe00:1"));
    net.stack.solicit_routers(Iface(0)).unwrap();
    read(&net.emit()[0], |mac, src, dst, ndp| {
        assert_eq!(((mac, dst), src), (to, Addr::ANY_V6));
        assert_eq!(ndp, Ndp::RouterSolicit { options: Options::NONE });
    });
    let mut tun = Net::tun();
    let refused = Err(crate::AddError::BadAddress);
    assert_eq!(tun.stack.solicit_routers(Iface(0)), refused);
    assert_eq!(tun.stack.hear_routers(Iface(0), true), refused);
    assert_eq!(tun.stack.hear_routers(Iface(7), true), Err(crate::AddError::NoInterface));
    let mut narrow = Net::new(&[(ethernet(1000), &[])]);
    assert_eq!(narrow.stack.hear_routers(Iface(0), true), Err(crate::AddError::BadMtu));
}

#[test]
fn an_address_is_probed_for_from_nobody_and_its_owner_or_rival_is_found() {
    let mut net = net();
    let wanted = "2001:db8::77";
    assert_eq!(net.ingest(&solicit("::", wanted, 255, &[])), Some(Drop::NotOurs));
    net.stack.watch_address(Iface(0), addr(wanted)).unwrap();
    net.stack.watch_address(Iface(0), addr(wanted)).unwrap();
    net.stack.probe_address(Iface(0), addr(wanted)).unwrap();
    let sent = net.emit();
    read(&sent[0], |mac, src, dst, ndp| {
        let group = addr(wanted).solicited_node();
        assert_eq!((Some(mac), src, dst), (Mac::of_group(&group), Addr::ANY_V6, group));
        let target = addr(wanted);
        assert_eq!(ndp, Ndp::NeighborSolicit { target, options: Options::NONE });
    });
    // Our own probe that comes back says nothing, nor does who looks for the owner.
    assert_eq!(net.ingest(&sent[0]), Some(Drop::NdpNotForUs));
    let asked = solicit(PEER, wanted, 255, &[NdOption::SourceLink(PEER_MAC)]);
    assert_eq!(net.ingest(&asked), Some(Drop::NdpNotForUs));
    assert_eq!(net.stack.address_holder(Iface(0), addr(wanted)), None);
    assert_eq!(net.emit().len(), 0, "nobody is told that we have it");
    // A rival.
    assert_eq!(net.ingest(&solicit("::", wanted, 255, &[])), None);
    assert_eq!(net.stack.address_holder(Iface(0), addr(wanted)), Some(PEER_MAC));
    // Its owner.
    net.stack.watch_address(Iface(0), addr(wanted)).unwrap();
    assert_eq!(net.stack.address_holder(Iface(0), addr(wanted)), None);
    assert_eq!(net.ingest(&advert(wanted, "ff02::1", wanted, false, PEER_MAC)), None);
    assert_eq!(net.stack.unwatch_address(Iface(0), addr(wanted)), Some(PEER_MAC));
    // From now on we are not in its group any more.
    assert_eq!(net.ingest(&solicit("::", wanted, 255, &[])), Some(Drop::NotOurs));
    assert_eq!(net.stack.watch_address(Iface(0), addr("::")), Err(crate::AddError::BadAddress));
}

#[test]
fn a_router_that_does_not_answer_is_told_of_where_routers_are_heard() {
    for heard in [false, true] {
        let mut net = net();
        net.stack.hear_routers(Iface(0), heard).unwrap();
        let via = crate::NextHop::GatewayOn { iface: Iface(0), addr: addr(ROUTER) };
        net.stack.add_route(Table(0), cidr("::/0"), via).unwrap();
        let local = clearway_wire::Endpoint::new(Addr::ANY_V6, 5000);
        let spec = crate::UdpSpec { table: Table(0), local, token: 0, v6_only: false };
        let socket = net.stack.udp_bind(spec).unwrap();
        let far = clearway_wire::Endpoint::new(addr("2001:db8:ffff::1"), 9);
        net.stack.udp_send(socket, far, None, b"x").unwrap();
        net.emit();
        net.pass(5);
        let news = net.stack.next_router_news().map(|n| (n.iface, n.router, n.advert.is_none()));
        assert_eq!(news, heard.then(|| (Iface(0), addr(ROUTER), true)));
    }
}
