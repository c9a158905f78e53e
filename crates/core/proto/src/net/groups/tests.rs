extern crate std;

use std::vec;
use std::vec::Vec;

use clearway_base::Duration;
use clearway_wire::group::{Message, RecordKind, Version};
use clearway_wire::{Endpoint, EtherType, Mac, Proto, eth, igmp, ipv4, ipv6, ipv6_ext, mld, udp};

use super::*;
use crate::testing::*;
use crate::{Drop, GroupChange, GroupError, MulticastOptions, Table, UdpId, UdpOut, UdpSpec};

const G4: &str = "239.1.2.3";
const G6: &str = "ff15::7";

/// What a report says, with the sources as text: ("change-to-exclude", group, sources).
type Told = (RecordKind, Addr, Vec<Addr>);

#[derive(PartialEq, Eq, Debug)]
enum Said {
    Records(Vec<Told>),
    Report(Version, Addr),
    Leave(Addr),
}

/// Reads a frame that tells routers of memberships; it is looked at as a strict router would.
fn read(frame: &[u8]) -> Said {
    let eth = eth::check(frame).unwrap();
    let (message, dst) = match eth.ethertype() {
        EtherType::IPV4 => {
            let v4 = ipv4::check(eth.payload(), true).unwrap();
            assert_eq!((v4.proto(), v4.ttl(), v4.options()), (Proto::IGMP, 1, &[148, 4, 0, 0][..]));
            (igmp::check(v4.payload(), v4.ttl()).unwrap(), v4.dst())
        }
        _ => {
            let v6 = ipv6::check(eth.payload()).unwrap();
            let chain = ipv6_ext::walk(&v6).unwrap();
            assert_eq!((chain.upper, v6.hop_limit()), (Proto::ICMPV6, 1));
            clearway_wire::icmpv6::check(&v6.src(), &v6.dst(), 1, chain.bytes, true).unwrap();
            (
                mld::check(&v6.src(), 1, ipv6_ext::has_router_alert(&v6), chain.bytes).unwrap(),
                v6.dst(),
            )
        }
    };
    assert_eq!(Some(eth.dst()), Mac::of_group(&dst));
    match message {
        Message::Records(records) => Said::Records(
            records.iter().map(|r| (r.kind, r.group, r.sources.iter().collect())).collect(),
        ),
        Message::Report { version, group } => Said::Report(version, group),
        Message::Leave { group } => Said::Leave(group),
        other => panic!("{other:?}"),
    }
}

fn said(frames: &[Vec<u8>]) -> Vec<Said> {
    frames.iter().map(|frame| read(frame)).collect()
}

fn one(kind: RecordKind, group: &str, sources: &[&str]) -> Said {
    Said::Records(vec![(kind, addr(group), sources.iter().map(|s| addr(s)).collect())])
}

fn socket(net: &mut Net, local: &str, port: u16) -> UdpId {
    let local = Endpoint::new(addr(local), port);
    let spec = UdpSpec { table: Table(0), local, token: 0, v6_only: false };
    // As programs that share a port of a group do.
    net.stack
        .udp_bind_shared(spec, crate::Sharing { reuse_address: true, ..Default::default() })
        .unwrap()
}

fn change(
    net: &mut Net,
    socket: UdpId,
    group: &str,
    what: GroupChange<'_>,
) -> Result<(), GroupError> {
    net.stack.udp_group(socket, Iface(0), addr(group), what)
}

/// A frame to a group.
fn to_group(group: &str, packet: &[u8]) -> Vec<u8> {
    let ethertype = if packet[0] >> 4 == 4 { EtherType::IPV4 } else { EtherType::IPV6 };
    framed(PEER_MAC, Mac::of_group(&addr(group)).unwrap(), ethertype, packet)
}

fn data(group: &str, source: &str, port: u16) -> Vec<u8> {
    to_group(group, &udp_packet((source, 9), (group, port), b"news"))
}

/// A query in the bytes of its protocol: `body` follows the group, and is none for the older
/// versions.
fn query(group: Option<&str>, code: u8, body: Option<&[u8]>, is_v6: bool) -> Vec<u8> {
    let any = if is_v6 { "::" } else { "0.0.0.0" };
    let asked = addr(group.unwrap_or(any));
    let all = if is_v6 { "ff02::1" } else { "224.0.0.1" };
    let dst = group.unwrap_or(all);
    if !is_v6 {
        let mut l4 = vec![0x11, code, 0, 0];
        l4.extend(asked.v4_octets());
        l4.extend(body.unwrap_or(&[]));
        let sum = clearway_wire::checksum::sum(&l4).finish();
        l4[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut bytes = packet("10.0.0.2", dst, Proto::IGMP, &l4);
        set_ttl(&mut bytes);
        return to_group(dst, &bytes);
    }
    let mut l4 = vec![130, 0, 0, 0];
    l4.extend((u16::from(code) * 100).to_be_bytes());
    l4.extend([0, 0]);
    l4.extend(asked.octets());
    l4.extend(body.unwrap_or(&[]));
    let sum = clearway_wire::checksum::transport(&addr("fe80::2"), &addr(dst), Proto::ICMPV6, &l4);
    l4[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut bytes =
        packet("fe80::2", dst, Proto::HOP_BY_HOP, &[&mld::ROUTER_ALERT[..], &l4].concat());
    bytes[7] = 1;
    to_group(dst, &bytes)
}

fn set_ttl(v4: &mut [u8]) {
    v4[8] = 1;
    v4[10..12].fill(0);
    let sum = clearway_wire::checksum::sum(&v4[..20]).finish();
    v4[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// A query of the newest version: robustness 2, interval 125 s, and these sources.
fn newest(group: Option<&str>, code: u8, sources: &[&str], is_v6: bool) -> Vec<u8> {
    let mut body = vec![2, 125, 0, sources.len() as u8];
    for source in sources {
        body.extend(addr(source).wire_bytes());
    }
    query(group, code, Some(&body), is_v6)
}

#[test]
fn joining_and_leaving_are_told_as_often_as_the_robustness_variable_says() {
    for (group, any) in [(G4, "0.0.0.0"), (G6, "::")] {
        let mut net = Net::lan();
        let s = socket(&mut net, any, 5000);
        change(&mut net, s, group, GroupChange::Join).unwrap();
        assert_eq!(said(&net.emit()), [one(RecordKind::ChangeToExclude, group, &[])]);
        assert_eq!(
            said(&net.pass(5)),
            [one(RecordKind::ChangeToExclude, group, &[])],
            "once more within a second"
        );
        change(&mut net, s, group, GroupChange::Leave).unwrap();
        assert_eq!(said(&net.emit()), [one(RecordKind::ChangeToInclude, group, &[])]);
        assert_eq!(said(&net.pass(5)), [one(RecordKind::ChangeToInclude, group, &[])]);
        assert_eq!(net.stack.groups().filter(|g| g.group == addr(group)).count(), 0);
        assert_eq!(net.stack.next_deadline(), Instant::NEVER);
    }
}

#[test]
fn members_get_what_is_sent_to_the_group_and_others_do_not() {
    for (group, any, source) in [(G4, "0.0.0.0", "10.0.0.2"), (G6, "::", "2001:db8::2")] {
        let mut net = Net::lan();
        let s = socket(&mut net, any, 5000);
        assert_eq!(net.ingest(&data(group, source, 5000)), Some(Drop::NotOurs));
        change(&mut net, s, group, GroupChange::Join).unwrap();
        assert_eq!(net.ingest(&data(group, source, 5000)), None);
        let got = net.stack.udp_recv(s).unwrap();
        assert_eq!((got.payload, got.to, got.iface), (&b"news"[..], addr(group), Iface(0)));
        assert_eq!(net.ingest(&data(group, source, 5001)), Some(Drop::UdpPortClosed));
        assert_eq!(
            net.emit().iter().filter(|f| f.ends_with(b"news")).count(),
            0,
            "no port unreachable to a group"
        );
        net.stack.udp_close(s);
        assert_eq!(
            net.ingest(&data(group, source, 5000)),
            Some(Drop::NotOurs),
            "who closes has left"
        );
    }
}

#[test]
fn every_socket_of_the_port_that_hears_the_group_gets_a_copy() {
    let mut net = Net::lan();
    let (any, both) = (socket(&mut net, "0.0.0.0", 5000), socket(&mut net, G4, 5000));
    let own = socket(&mut net, "10.0.0.1", 5000);
    change(&mut net, both, G4, GroupChange::Join).unwrap();
    assert_eq!(net.ingest(&data(G4, "10.0.0.2", 5000)), None);
    assert!(net.stack.udp_recv(both).is_some());
    assert!(
        net.stack.udp_recv(any).is_some(),
        "IP_MULTICAST_ALL: it joined nothing, and hears what others joined"
    );
    assert!(net.stack.udp_recv(own).is_none(), "bound to another address");
    let mut options = net.stack.udp_multicast(any).unwrap();
    options.all = false;
    net.stack.udp_set_multicast(any, options).unwrap();
    net.ingest(&data(G4, "10.0.0.2", 5000));
    assert!(net.stack.udp_recv(both).is_some());
    assert!(net.stack.udp_recv(any).is_none());
}

#[test]
fn a_dual_socket_hears_groups_of_both_families() {
    let mut net = Net::lan();
    let s = socket(&mut net, "::", 5000);
    change(&mut net, s, G4, GroupChange::Join).unwrap();
    change(&mut net, s, G6, GroupChange::Join).unwrap();
    net.ingest(&data(G4, "10.0.0.2", 5000));
    net.ingest(&data(G6, "2001:db8::2", 5000));
    assert_eq!(net.stack.udp_recv(s).unwrap().to, addr(G4));
    assert_eq!(net.stack.udp_recv(s).unwrap().to, addr(G6));
    let groups: Vec<_> = net.stack.udp_groups(s).collect();
    assert_eq!(groups, [(Iface(0), addr(G6)), (Iface(0), addr(G4))]);
}

#[test]
fn filters_of_all_sockets_are_merged_and_each_socket_hears_its_own() {
    let mut net = Net::lan();
    let (a, b) = (socket(&mut net, "0.0.0.0", 5000), socket(&mut net, G4, 5000));
    change(&mut net, a, G4, GroupChange::JoinSource(addr("10.0.0.2"))).unwrap();
    assert_eq!(said(&net.emit()), [one(RecordKind::AllowNewSources, G4, &["10.0.0.2"])]);
    change(&mut net, b, G4, GroupChange::JoinSource(addr("10.0.0.3"))).unwrap();
    assert_eq!(
        said(&net.emit()),
        [one(RecordKind::AllowNewSources, G4, &["10.0.0.2", "10.0.0.3"])],
        "with what is still to be repeated"
    );
    net.pass(5);
    net.ingest(&data(G4, "10.0.0.2", 5000));
    assert!(net.stack.udp_recv(a).is_some() && net.stack.udp_recv(b).is_none());
    assert_eq!(net.ingest(&data(G4, "10.0.0.4", 5000)), Some(Drop::UdpSourceFiltered));
    // One for all but .3: together with the other everything but what nobody includes (RFC 3376
    // 3.2).
    let but = [addr("10.0.0.2"), addr("10.0.0.4")];
    change(&mut net, b, G4, GroupChange::Filter(FilterMode::Exclude, &but)).unwrap();
    assert_eq!(said(&net.emit()), [one(RecordKind::ChangeToExclude, G4, &["10.0.0.4"])]);
    net.pass(5);
    net.ingest(&data(G4, "10.0.0.2", 5000));
    assert!(net.stack.udp_recv(a).is_some() && net.stack.udp_recv(b).is_none());
    net.ingest(&data(G4, "10.0.0.9", 5000));
    assert!(net.stack.udp_recv(a).is_none() && net.stack.udp_recv(b).is_some());
    change(&mut net, a, G4, GroupChange::LeaveSource(addr("10.0.0.2"))).unwrap();
    assert_eq!(said(&net.emit()), [one(RecordKind::BlockOldSources, G4, &["10.0.0.2"])]);
}

#[test]
fn more_sources_than_can_be_named_let_all_in_and_sockets_decide() {
    let mut net = Net::lan();
    let (a, b) = (socket(&mut net, "0.0.0.0", 5000), socket(&mut net, G4, 5000));
    let sources =
        |from: u8, n: u8| (from..from + n).map(|n| Addr::v4([10, 0, 1, n])).collect::<Vec<_>>();
    change(&mut net, a, G4, GroupChange::Filter(FilterMode::Include, &sources(0, 16))).unwrap();
    change(&mut net, b, G4, GroupChange::Filter(FilterMode::Include, &sources(16, 16))).unwrap();
    assert_eq!(said(&net.emit()), [one(RecordKind::ChangeToExclude, G4, &[])]);
    net.ingest(&data(G4, "10.0.1.20", 5000));
    assert!(net.stack.udp_recv(a).is_none() && net.stack.udp_recv(b).is_some());
    let too_many = sources(0, 17);
    let change = change(&mut net, a, G4, GroupChange::Filter(FilterMode::Include, &too_many));
    assert_eq!(change, Err(GroupError::TooMany));
}

#[test]
fn changes_are_refused_as_on_linux() {
    let mut net = Net::lan();
    let s = socket(&mut net, "0.0.0.0", 5000);
    let source = addr("10.0.0.2");
    for (what, why) in [
        (GroupChange::Leave, GroupError::NotMember),
        (GroupChange::LeaveSource(source), GroupError::NotMember),
        (GroupChange::Block(source), GroupError::WrongMode),
        (GroupChange::JoinSource(addr("::1")), GroupError::BadAddress),
        (GroupChange::JoinSource(addr("224.0.0.9")), GroupError::BadAddress),
    ] {
        assert_eq!(change(&mut net, s, G4, what), Err(why), "{what:?}");
    }
    assert_eq!(change(&mut net, s, "10.0.0.2", GroupChange::Join), Err(GroupError::BadAddress));
    assert_eq!(change(&mut net, s, G6, GroupChange::Join), Err(GroupError::BadAddress));
    assert_eq!(
        net.stack.udp_group(s, Iface(7), addr(G4), GroupChange::Join),
        Err(GroupError::NoInterface)
    );
    change(&mut net, s, G4, GroupChange::Join).unwrap();
    assert_eq!(change(&mut net, s, G4, GroupChange::Join), Err(GroupError::AlreadyMember));
    change(&mut net, s, G4, GroupChange::Block(source)).unwrap();
    assert_eq!(change(&mut net, s, G4, GroupChange::Block(source)), Err(GroupError::NotMember));
    assert_eq!(
        change(&mut net, s, G4, GroupChange::JoinSource(source)),
        Err(GroupError::WrongMode)
    );
    let filter = net.stack.udp_group_filter(s, Iface(0), addr(G4)).unwrap();
    assert_eq!(filter, (FilterMode::Exclude, &[source][..]));
    change(&mut net, s, G4, GroupChange::Unblock(source)).unwrap();
    change(&mut net, s, G4, GroupChange::JoinSource(source)).unwrap();
    change(&mut net, s, G4, GroupChange::LeaveSource(source)).unwrap();
    assert_eq!(
        change(&mut net, s, G4, GroupChange::Leave),
        Err(GroupError::NotMember),
        "the last source was it"
    );
}

#[test]
fn memberships_are_bounded_for_each_socket_and_in_all() {
    let mut config = config();
    (config.limits.memberships, config.limits.groups) = (30, 25);
    let mut net = Net::with(config, &[(ethernet(1500), &["10.0.0.1/24"])]);
    let (a, b) = (socket(&mut net, "0.0.0.0", 5000), socket(&mut net, "0.0.0.0", 5001));
    let group = |n: u8| std::format!("239.0.0.{n}");
    for n in 0..20 {
        change(&mut net, a, &group(n), GroupChange::Join).unwrap();
    }
    assert_eq!(
        change(&mut net, a, &group(99), GroupChange::Join),
        Err(GroupError::TooMany),
        "its own twenty"
    );
    let joined =
        (0..20).filter(|&n| change(&mut net, b, &group(n), GroupChange::Join).is_ok()).count();
    assert_eq!(joined, 10, "thirty in all");
    net.stack.udp_close(a);
    net.stack.udp_close(b);
    net.emit();
    net.pass(30);
    assert_eq!(net.stack.groups().filter(|g| g.members > 0).count(), 0);
    let c = socket(&mut net, "0.0.0.0", 5000);
    change(&mut net, c, G4, GroupChange::Join).unwrap();
}

#[test]
fn queries_are_answered_within_the_time_they_give() {
    for (group, any, is_v6) in [(G4, "0.0.0.0", false), (G6, "::", true)] {
        let mut net = Net::lan();
        let s = socket(&mut net, any, 5000);
        change(&mut net, s, group, GroupChange::Join).unwrap();
        net.emit();
        net.pass(5);
        let asked = net.now;
        assert_eq!(net.ingest(&newest(None, 50, &[], is_v6)), None);
        assert_eq!(net.emit().len(), 0, "not at once");
        let answers = said(&net.pass(5));
        assert!(answers.contains(&one(RecordKind::ModeIsExclude, group, &[])), "{answers:?}");
        assert!(net.stack.next_deadline() == Instant::NEVER && net.now >= asked);
        // For one group: that one only.
        net.ingest(&newest(Some(group), 10, &[], is_v6));
        assert_eq!(said(&net.pass(1)), [one(RecordKind::ModeIsExclude, group, &[])]);
        // About sources, those that it takes.
        let (one_, two) =
            if is_v6 { ("2001:db8::2", "2001:db8::3") } else { ("10.0.0.2", "10.0.0.3") };
        change(&mut net, s, group, GroupChange::Block(addr(two))).unwrap();
        net.emit();
        net.pass(5);
        net.ingest(&newest(Some(group), 10, &[one_, two], is_v6));
        assert_eq!(said(&net.pass(1)), [one(RecordKind::ModeIsInclude, group, &[one_])]);
        net.ingest(&newest(Some(group), 10, &[two], is_v6));
        assert_eq!(said(&net.pass(1)), []);
        assert!(net.stack.counters().groups.queries_in >= 4);
    }
}

#[test]
fn the_groups_of_our_addresses_are_told_to_who_asks() {
    let mut net = Net::lan();
    net.ingest(&newest(None, 10, &[], true));
    let mut told: Vec<_> = said(&net.pass(2));
    told.sort_by_key(|said| std::format!("{said:?}"));
    assert_eq!(
        told,
        [one(RecordKind::ModeIsExclude, "ff02::1:ff00:1", &[]),],
        "both addresses end alike"
    );
    net.stack.add_address(net.now, Iface(0), cidr("2001:db8::5:6/64")).unwrap();
    net.emit();
    net.ingest(&newest(Some("ff02::1:ff05:6"), 10, &[], true));
    assert_eq!(said(&net.pass(2)), [one(RecordKind::ModeIsExclude, "ff02::1:ff05:6", &[])]);
    net.stack.remove_address(Iface(0), addr("2001:db8::5:6"));
    net.ingest(&newest(Some("ff02::1:ff05:6"), 10, &[], true));
    assert_eq!(net.pass(2).len(), 0);
}

#[test]
fn a_router_of_an_older_version_is_answered_in_its_own() {
    for (group, any, is_v6) in [(G4, "0.0.0.0", false), (G6, "::", true)] {
        let mut net = Net::new(&[(ethernet(1500), &["10.0.0.1/24"])]);
        let s = socket(&mut net, any, 5000);
        change(&mut net, s, group, GroupChange::Join).unwrap();
        net.emit();
        net.pass(5);
        assert_eq!(net.ingest(&query(Some(group), 10, None, is_v6)), None);
        assert_eq!(said(&net.pass(2)), [Said::Report(Version::V2, addr(group))]);
        change(&mut net, s, group, GroupChange::Leave).unwrap();
        assert_eq!(said(&net.emit()), [Said::Leave(addr(group))]);
        assert_eq!(net.pass(20).len(), 0, "once");
        change(&mut net, s, group, GroupChange::Join).unwrap();
        assert_eq!(said(&net.emit()), [Said::Report(Version::V2, addr(group))]);
        assert_eq!(said(&net.pass(11)), [Said::Report(Version::V2, addr(group))]);
        // It is gone, and the newest is spoken again.
        net.pass(260);
        change(&mut net, s, group, GroupChange::Leave).unwrap();
        assert_eq!(said(&net.emit()), [one(RecordKind::ChangeToInclude, group, &[])]);
    }
}

#[test]
fn a_router_of_the_first_version_hears_no_leaving() {
    let mut net = Net::lan();
    let s = socket(&mut net, "0.0.0.0", 5000);
    change(&mut net, s, G4, GroupChange::Join).unwrap();
    net.emit();
    net.pass(5);
    net.ingest(&query(None, 0, None, false));
    assert_eq!(said(&net.pass(10)), [Said::Report(Version::V1, addr(G4))]);
    change(&mut net, s, G4, GroupChange::Leave).unwrap();
    assert_eq!(net.emit().len(), 0);
    net.pass(30);
    assert_eq!(net.stack.next_deadline(), Instant::NEVER);
}

#[test]
fn one_report_of_the_older_version_on_a_link_is_enough() {
    let mut net = Net::lan();
    let s = socket(&mut net, "0.0.0.0", 5000);
    change(&mut net, s, G4, GroupChange::Join).unwrap();
    net.emit();
    net.pass(5);
    net.ingest(&query(None, 100, None, false));
    let mut l4 = vec![0x16, 0, 0, 0, 239, 1, 2, 3];
    let sum = clearway_wire::checksum::sum(&l4).finish();
    l4[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut report = packet("10.0.0.3", G4, Proto::IGMP, &l4);
    set_ttl(&mut report);
    assert_eq!(net.ingest(&to_group(G4, &report)), None);
    assert_eq!(net.pass(12).len(), 0);
}

#[test]
fn the_groups_that_all_are_in_are_never_told_of() {
    let mut net = Net::lan();
    let s = socket(&mut net, "::", 5000);
    for group in ["224.0.0.1", "ff02::1", "ff01::5"] {
        change(&mut net, s, group, GroupChange::Join).unwrap();
    }
    assert_eq!(net.emit().len(), 0);
    assert_eq!(net.pass(5).len(), 0);
}

#[test]
fn what_is_sent_to_a_group_has_a_ttl_of_one_and_members_here_get_a_copy() {
    let mut net = Net::lan();
    let (s, member) = (socket(&mut net, "0.0.0.0", 4000), socket(&mut net, "0.0.0.0", 5000));
    change(&mut net, member, G4, GroupChange::Join).unwrap();
    net.emit();
    let to = Endpoint::new(addr(G4), 5000);
    net.stack.udp_send(s, to, None, b"hello").unwrap();
    let got = net.stack.udp_recv(member).unwrap();
    assert_eq!((got.payload, got.from), (&b"hello"[..], Endpoint::new(addr("10.0.0.1"), 4000)));
    let sent = net.emit();
    let eth = eth::check(&sent[0]).unwrap();
    assert_eq!(eth.dst(), Mac([1, 0, 0x5e, 1, 2, 3]));
    let v4 = ipv4::check(eth.payload(), true).unwrap();
    assert_eq!((v4.ttl(), v4.dst()), (1, addr(G4)));
    assert_eq!(udp::check(&v4.src(), &v4.dst(), v4.payload(), true).unwrap().payload(), b"hello");
    // IP_MULTICAST_TTL and IP_MULTICAST_LOOP.
    let options = MulticastOptions { ttl: 9, loop_back: false, ..MulticastOptions::default() };
    net.stack.udp_set_multicast(s, options).unwrap();
    net.stack.udp_send(s, to, None, b"again").unwrap();
    assert!(net.stack.udp_recv(member).is_none());
    assert_eq!(net.emit()[0][14 + 8], 9);
    // A TTL of 0 stays here.
    net.stack
        .udp_set_multicast(s, MulticastOptions { ttl: 0, ..MulticastOptions::default() })
        .unwrap();
    net.stack.udp_send(s, to, None, b"here").unwrap();
    assert_eq!(net.emit().len(), 0);
    assert_eq!(net.stack.udp_recv(member).unwrap().payload, b"here");
}

#[test]
fn a_socket_or_a_datagram_may_name_the_interface() {
    let mut net = Net::new(&[
        (ethernet(1500), &["10.0.0.1/24"]),
        (ethernet(1500), &["10.0.1.1/24", "10.0.1.7/24", "2001:db8:1::1/64"]),
    ]);
    let s = socket(&mut net, "::", 4000);
    let to = Endpoint::new(addr(G4), 5000);
    let sent_by = |net: &mut Net| {
        net.stack.emit(net.now, &mut net.sink);
        let (iface, frame, _) = net.sink.sent.pop_front().unwrap();
        let v4 = ipv4::check(&frame[14..], true).unwrap();
        (iface, v4.src())
    };
    net.stack.udp_send(s, to, None, b"x").unwrap();
    assert_eq!(sent_by(&mut net), (Iface(0), addr("10.0.0.1")));
    let options = MulticastOptions { iface: Some(Iface(1)), ..MulticastOptions::default() };
    net.stack.udp_set_multicast(s, options).unwrap();
    net.stack.udp_send(s, to, None, b"x").unwrap();
    assert_eq!(sent_by(&mut net), (Iface(1), addr("10.0.1.1")));
    let named = MulticastOptions { source: Some(addr("10.0.1.7")), ..options };
    net.stack.udp_set_multicast(s, named).unwrap();
    net.stack.udp_send(s, to, None, b"x").unwrap();
    assert_eq!(sent_by(&mut net), (Iface(1), addr("10.0.1.7")), "the one that was named");
    let connected = socket(&mut net, "0.0.0.0", 4002);
    net.stack.udp_set_multicast(connected, named).unwrap();
    net.stack.udp_connect(connected, to).unwrap();
    assert_eq!(net.stack.udp_local(connected).unwrap().addr, addr("10.0.1.7"));
    let foreign = MulticastOptions { source: Some(addr("10.0.1.8")), ..options };
    net.stack.udp_set_multicast(s, foreign).unwrap();
    net.stack.udp_send(s, to, None, b"x").unwrap();
    assert_eq!(sent_by(&mut net), (Iface(1), addr("10.0.1.1")), "it is none of ours");
    let how = UdpOut { to: Some(to), iface: Some(Iface(0)), ..UdpOut::default() };
    net.stack.udp_send_with(s, &how, b"x").unwrap();
    assert_eq!(sent_by(&mut net), (Iface(0), addr("10.0.0.1")));
    let bound = socket(&mut net, "10.0.0.1", 4001);
    net.stack.udp_set_multicast(bound, options).unwrap();
    net.stack.udp_send(bound, to, None, b"x").unwrap();
    assert_eq!(
        sent_by(&mut net),
        (Iface(1), addr("10.0.0.1")),
        "the address is what it was bound to"
    );
    assert_eq!(
        net.stack.group_interface(Table(0), Some(addr("10.0.1.1")), addr(G4)),
        Some(Iface(1))
    );
    assert_eq!(net.stack.group_interface(Table(0), None, addr(G6)), Some(Iface(0)));
    assert_eq!(net.stack.group_interface(Table(0), Some(addr("10.9.9.9")), addr(G4)), None);
    let bad = MulticastOptions { iface: Some(Iface(9)), ..options };
    assert!(net.stack.udp_set_multicast(s, bad).is_err());
}

#[test]
fn an_interface_that_comes_up_tells_its_groups_anew() {
    let mut net = Net::lan();
    let s = socket(&mut net, "0.0.0.0", 5000);
    change(&mut net, s, G4, GroupChange::Join).unwrap();
    net.emit();
    net.pass(5);
    net.stack.set_up(Iface(0), false);
    net.pass(5);
    net.stack.set_up(Iface(0), true);
    assert_eq!(said(&net.emit()), [one(RecordKind::ChangeToExclude, G4, &[])]);
}

#[test]
fn memberships_on_an_interface_that_goes_end_and_others_stay() {
    let mut net =
        Net::new(&[(ethernet(1500), &["10.0.0.1/24"]), (ethernet(1500), &["10.0.1.1/24"])]);
    let s = socket(&mut net, "0.0.0.0", 5000);
    let both = [Iface(0), Iface(1)];
    for (iface, group) in both.into_iter().flat_map(|iface| [(iface, G4), (iface, "239.9.9.9")]) {
        net.stack.udp_group(s, iface, addr(group), GroupChange::Join).unwrap();
    }
    let options = MulticastOptions { iface: Some(Iface(1)), ..MulticastOptions::default() };
    net.stack.udp_set_multicast(s, options).unwrap();
    net.stack.forget_interface(Iface(1));
    assert_eq!(
        net.stack.udp_groups(s).map(|(iface, _)| iface).collect::<Vec<_>>(),
        [Iface(0), Iface(0)]
    );
    assert_eq!(net.stack.udp_multicast(s), Some(MulticastOptions::default()));
    assert_eq!(net.ingest_on(Iface(1), &data(G4, "10.0.1.2", 5000)), Some(Drop::NotOurs));
}

#[test]
fn a_device_that_is_full_loses_no_report() {
    let mut net = Net::lan();
    let s = socket(&mut net, "0.0.0.0", 5000);
    net.sink.room = Some(0);
    change(&mut net, s, G4, GroupChange::Join).unwrap();
    assert_eq!(net.emit().len(), 0);
    assert!(net.stack.wants_emit());
    net.sink.room = None;
    assert_eq!(said(&net.emit()), [one(RecordKind::ChangeToExclude, G4, &[])]);
}

#[test]
fn a_loopback_interface_brings_one_copy_to_its_members() {
    let mut net = Net::new(&[(loopback(65_535, 0), &["127.0.0.1/8", "::1/128"])]);
    let (s, member) = (socket(&mut net, "127.0.0.1", 4000), socket(&mut net, "0.0.0.0", 5000));
    change(&mut net, member, G4, GroupChange::Join).unwrap();
    let options = MulticastOptions { iface: Some(Iface(0)), ..MulticastOptions::default() };
    net.stack.udp_set_multicast(s, options).unwrap();
    net.stack.udp_send(s, Endpoint::new(addr(G4), 5000), None, b"x").unwrap();
    net.loop_back();
    assert_eq!(net.stack.udp_recv(member).unwrap().payload, b"x");
    assert!(net.stack.udp_recv(member).is_none(), "one and not two");
}

#[test]
fn broadcasts_reach_every_socket_of_the_port() {
    let mut net = Net::lan();
    let (a, b) = (socket(&mut net, "0.0.0.0", 5000), socket(&mut net, "::", 5001));
    for port in [5000, 5001] {
        let packet = udp_packet(("10.0.0.2", 9), ("10.0.0.255", port), b"all");
        assert_eq!(net.ingest(&framed(PEER_MAC, Mac::BROADCAST, EtherType::IPV4, &packet)), None);
    }
    assert!(net.stack.udp_recv(a).is_some() && net.stack.udp_recv(b).is_some());
}

#[test]
fn messages_of_any_bytes_are_survived() {
    let mut rng = clearway_base::Rng::seed(7);
    let mut net = Net::lan();
    let s = socket(&mut net, "::", 5000);
    for n in 0..4_000u32 {
        let group = if n % 2 == 0 { G4 } else { G6 };
        let _ = change(
            &mut net,
            s,
            group,
            if n % 16 < 8 { GroupChange::Join } else { GroupChange::Leave },
        );
        let is_v6 = n % 2 == 1;
        let mut frame = newest(if n % 3 == 0 { Some(group) } else { None }, n as u8, &[], is_v6);
        let at = rng.below(frame.len() as u64 - 14) as usize + 14;
        frame[at] ^= rng.next_u32() as u8;
        net.ingest(&frame);
        net.emit();
        net.now += Duration::from_millis(37);
        net.stack.expire(net.now);
        net.emit();
    }
}
