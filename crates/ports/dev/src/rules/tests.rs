use clearway_wire::Flags;

use super::*;
use crate::test_frames::{ip_frame, pattern, tcp_frame, udp_frame};

const PORT: Iface = Iface(1);

fn list(rules: impl IntoIterator<Item = Rule>) -> Rules {
    let mut list = Rules::new();
    for rule in rules {
        list.add(rule).unwrap();
    }
    list
}

fn passes(list: &mut Rules, frame: &[u8]) -> bool {
    list.judge(Way::In, PORT, frame, true).0 == Action::Permit
}

fn cidr(text: &str) -> Option<Cidr> {
    Some(text.parse().unwrap())
}

#[test]
fn the_first_rule_that_fits_decides_and_the_rest_passes() {
    let permit =
        Rule { proto: Some(Proto::TCP), dst_ports: Some(80..=81), ..Rule::any(Action::Permit) };
    let deny = Rule { proto: Some(Proto::TCP), ..Rule::any(Action::Deny) };
    let mut list = list([permit, deny]);
    let (tcp, udp) = (tcp_frame(true, true, Flags::ACK, b"x"), udp_frame(true, true, b"x"));
    assert_eq!(list.judge(Way::In, PORT, &tcp, true), (Action::Permit, Some(0)));
    assert_eq!(list.judge(Way::In, PORT, &udp, true), (Action::Permit, None));
    list.remove(0).unwrap();
    assert_eq!(list.judge(Way::Out, PORT, &tcp, true), (Action::Deny, Some(0)));
    let counts: Vec<_> = list.iter().map(|(_, count)| count).collect();
    assert_eq!(counts, [RuleCount { packets: 1, bytes: tcp.len() as u64 }]);
    assert_eq!(list.unmatched().packets, 1);
    list.clear_counts();
    assert_eq!(
        list.iter().map(|(_, count)| count.packets).sum::<u64>() + list.unmatched().packets,
        0
    );
}

#[test]
fn every_part_of_a_rule_must_fit() {
    let v4 = tcp_frame(true, true, Flags::ACK, b"x");
    let v6 = tcp_frame(false, true, Flags::ACK, b"x");
    let any = || Rule::any(Action::Deny);
    for (rule, v4_passes, v6_passes) in [
        (any(), false, false),
        (Rule { src: cidr("10.0.0.0/24"), ..any() }, false, true),
        (Rule { dst: cidr("10.0.0.0/31"), ..any() }, true, true),
        (Rule { src: cidr("0.0.0.0/0"), ..any() }, false, true),
        (Rule { dst: cidr("fd00::2/128"), ..any() }, true, false),
        (Rule { src_ports: Some(1000..=1000), ..any() }, false, false),
        (Rule { dst_ports: Some(81..=90), ..any() }, true, true),
        (Rule { way: Some(Way::Out), ..any() }, true, true),
        (Rule { way: Some(Way::In), iface: Some(PORT), ..any() }, false, false),
        (Rule { iface: Some(Iface(7)), ..any() }, true, true),
        (Rule { proto: Some(Proto::UDP), ..any() }, true, true),
    ] {
        let mut list = list([rule.clone()]);
        assert_eq!(
            (passes(&mut list, &v4), passes(&mut list, &v6)),
            (v4_passes, v6_passes),
            "{rule:?}"
        );
    }
}

#[test]
fn arp_and_what_cannot_be_read_are_left_to_the_stack() {
    let mut list = list([Rule::any(Action::Deny)]);
    let mut arp = tcp_frame(true, true, Flags::ACK, b"");
    arp[12..14].copy_from_slice(&[8, 6]);
    assert!(passes(&mut list, &arp) && passes(&mut list, &[1, 2, 3]));
    assert!(!passes(&mut list, &ip_frame(true, true, Proto::ICMP, b"echo")));
}

#[test]
fn the_first_fragment_decides_for_the_others() {
    let fragment = |field: u16| {
        let mut frame = udp_frame(true, true, &pattern(64));
        frame[14 + 6..14 + 8].copy_from_slice(&field.to_be_bytes());
        frame
    };
    let (first, later) = (fragment(0x2000), fragment(0x0008));
    let to_53 =
        |action| Rule { proto: Some(Proto::UDP), dst_ports: Some(53..=53), ..Rule::any(action) };
    let mut denied = list([to_53(Action::Deny)]);
    assert_eq!((passes(&mut denied, &first), passes(&mut denied, &later)), (false, true));
    let mut only_53 = list([to_53(Action::Permit), Rule::any(Action::Deny)]);
    assert_eq!((passes(&mut only_53, &first), passes(&mut only_53, &later)), (true, true));
    let other_protocol = Rule { proto: Some(Proto::TCP), ..to_53(Action::Permit) };
    let mut only_tcp = list([other_protocol, Rule::any(Action::Deny)]);
    assert_eq!((passes(&mut only_tcp, &first), passes(&mut only_tcp, &later)), (false, false));
    let by_address = Rule { src: cidr("10.0.0.1/32"), ..Rule::any(Action::Deny) };
    let mut nobody = list([by_address]);
    assert_eq!((passes(&mut nobody, &first), passes(&mut nobody, &later)), (false, false));
}

#[test]
fn rules_that_can_fit_nothing_are_refused() {
    let any = || Rule::any(Action::Permit);
    #[expect(clippy::reversed_empty_ranges, reason = "that is what a user may write")]
    let empty = Rule { src_ports: Some(9..=8), ..any() };
    let mut list = Rules::new();
    for (rule, why) in [
        (empty, RuleError::EmptyRange),
        (Rule { proto: Some(Proto::ICMP), dst_ports: Some(1..=2), ..any() }, RuleError::NoPorts),
        (Rule { src: cidr("10.0.0.0/8"), dst: cidr("::/0"), ..any() }, RuleError::MixedFamilies),
    ] {
        assert_eq!(list.add(rule), Err(why));
    }
    for number in 0..MAX_RULES {
        assert_eq!(list.add(any()), Ok(number));
    }
    assert_eq!(list.add(any()), Err(RuleError::Full));
    assert_eq!(list.remove(MAX_RULES), Err(RuleError::NoRule));
}
