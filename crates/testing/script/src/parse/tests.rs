use clearway_wire::{Ecn, Flags};

use super::parse;
use crate::ast::{Arg, Between, Body, Event, IcmpKind, Packet, Reason, TcpOption, What, When};
use crate::settings::{IpVersion, Subject};

fn one(line: &str) -> Event {
    let mut script = parse(line).unwrap();
    assert_eq!(script.events.len(), 1, "{line}");
    script.events.remove(0)
}

fn packet(line: &str) -> Packet {
    match one(line).what {
        What::Inbound(packet) | What::Outbound(packet) => packet,
        other => panic!("{other:?}"),
    }
}

fn segment(line: &str) -> crate::ast::Segment {
    match packet(line).body {
        Body::Tcp(segment) => segment,
        other => panic!("{other:?}"),
    }
}

fn wrong(text: &str) -> String {
    let error = parse(text).unwrap_err();
    format!("{}: {}", error.pos, error.what)
}

#[test]
fn times_are_absolute_relative_any_or_ranges() {
    let at = |from, to| Between { from, to };
    assert_eq!(one("0.1 < . 1:1(0)").when, When::Absolute(at(100_000, 100_000)));
    assert_eq!(one("+.05 < . 1:1(0)").when, When::Relative(at(50_000, 50_000)));
    assert_eq!(one("+0~+.045 > . 1:1(0)").when, When::Relative(at(0, 45_000)));
    assert_eq!(one("0.1~0.3 > . 1:1(0)").when, When::Absolute(at(100_000, 300_000)));
    assert_eq!(one("* > . 1:1(0)").when, When::Any);
    let call = one("0.1...0.25 accept(3, ..., ...) = 4");
    assert_eq!((call.when, call.until), (When::Absolute(at(100_000, 100_000)), Some(250_000)));
    assert_eq!(one("+0...+1 connect(3, ..., ...) = 0").until, Some(1_000_000));
}

#[test]
fn a_segment_has_flags_numbers_window_and_options() {
    let syn =
        segment("0 < S 0:0(0) win 32792 <mss 1460,sackOK,nop,nop,TS val 7 ecr 0,nop,wscale 7>");
    assert_eq!(
        (syn.flags, syn.seq, syn.len, syn.ack, syn.window),
        (Flags::SYN, 0, 0, None, Some(32_792))
    );
    use TcpOption::{Mss, Nop, SackOk, Ts, Wscale};
    let options = vec![Mss(1460), SackOk, Nop, Nop, Ts(Some(7), Some(0)), Nop, Wscale(7)];
    assert_eq!(syn.options, Some(options));
    let data = segment("0 > FP. 4294967290:4(10) ack 9 win * urg 3 <...>");
    assert_eq!(data.flags, Flags::FIN | Flags::PSH | Flags::ACK | Flags::URG);
    assert_eq!((data.seq, data.len, data.ack), (4_294_967_290, 10, Some(9)));
    assert_eq!((data.window, data.urgent, data.options), (None, Some(3), None));
    assert_eq!(segment("0 < - 5:5(0)").flags, Flags::NONE);
    assert_eq!(segment("0 > . 1:1(0) ack 1").flags, Flags::ACK);
}

#[test]
fn sack_blocks_raw_bytes_and_unchecked_timestamps_are_options() {
    let options =
        segment("0 > . 1:1(0) ack 1 <nop,nop,sack 5:9 20:30,TS val * ecr 4,raw 0x4d04aabb>")
            .options
            .unwrap();
    assert_eq!(options[2], TcpOption::Sack(vec![(5, 9), (20, 30)]));
    assert_eq!(options[3], TcpOption::Ts(None, Some(4)));
    assert_eq!(options[4], TcpOption::Raw(vec![0x4d, 4, 0xaa, 0xbb]));
}

#[test]
fn packets_may_belong_to_other_connections_be_optional_or_carry_marks() {
    assert_eq!(packet("0 <3 S 0:0(0) win 1").flow, 3);
    let mark = packet("0 >? [ect0] . 1:1(0) ack 1");
    assert_eq!((mark.flow, mark.optional, mark.ecn), (1, true, Some(Ecn::Ect0)));
}

#[test]
fn datagrams_and_icmp_messages_are_packets_too() {
    assert_eq!(packet("0 < udp (100)").body, Body::Udp(100));
    for line in [
        "0 < [1:101(100)] icmp unreachable port_unreachable",
        "0 < icmp unreachable port [1:101(100)]",
    ] {
        let Body::Icmp(icmp) = packet(line).body else { panic!("{line}") };
        assert_eq!((icmp.kind, icmp.quoted), (IcmpKind::Unreachable(Reason::Port), Some((1, 100))));
    }
    let Body::Icmp(icmp) = packet("0 < icmp unreachable frag_needed mtu 1400 [udp (7)]").body
    else {
        panic!()
    };
    assert_eq!((icmp.kind, icmp.quoted_udp), (IcmpKind::TooBig(1400), Some(7)));
}

#[test]
fn calls_have_arguments_of_every_kind() {
    let What::Call(call) =
        one("0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = -1 EBADF (Bad file descriptor)").what
    else {
        panic!()
    };
    assert_eq!(call.args[0], Arg::Number(3));
    assert_eq!(call.args[2], Arg::Names(vec!["O_RDWR".into(), "O_NONBLOCK".into()]));
    assert_eq!((call.result, call.errno.as_deref()), (Some(-1), Some("EBADF")));
    let What::Call(call) = one("0 poll([{fd=4, events=POLLIN, revents=0}], 1, ...) = 0").what
    else {
        panic!()
    };
    let Arg::List(items) = &call.args[0] else { panic!() };
    let Arg::Fields(fields) = &items[0] else { panic!() };
    assert_eq!(fields[1], ("events".into(), Arg::Names(vec!["POLLIN".into()])));
    assert_eq!(call.args[2], Arg::Whatever);
}

#[test]
fn settings_come_from_options_comments_and_commands() {
    let text = "// What it checks.\n// only: core (a reason)\n--mtu=1400\n--ip_version=ipv6\n--tolerance_usecs=9000\n\
                `sysctl -q net.ipv4.tcp_sack=0`\n0 < . 1:1(0)\n0 `sysctl -q net.ipv4.tcp_sack=1`\n";
    let script = parse(text).unwrap();
    let settings = &script.settings;
    assert_eq!((settings.mtu, settings.tolerance), (Some(1400), Some(9000)));
    assert_eq!(settings.only, Some((Subject::Core, "a reason".into())));
    assert_eq!(settings.commands, ["sysctl -q net.ipv4.tcp_sack=0"]);
    assert_eq!(
        settings.skips(Subject::Kernel, IpVersion::V6).unwrap(),
        "only for the core: a reason"
    );
    assert_eq!(settings.skips(Subject::Core, IpVersion::V4).unwrap(), "only for ipv6");
    assert_eq!(settings.skips(Subject::Core, IpVersion::V6), None);
    assert!(matches!(&script.events[1].what, What::Command(_)));
}

#[test]
fn comments_of_both_kinds_are_no_part_of_the_script() {
    assert_eq!(parse("/* one\n two */ // three\n0 < . 1:1(0) // four\n").unwrap().events.len(), 1);
}

#[test]
fn errors_say_where_and_what() {
    assert_eq!(wrong("0 < S 0:5(0)\n"), "1:7: 0:5(0): the length is not the difference");
    assert_eq!(
        wrong("0 < S 0:0(0)\n+.1 ? S"),
        "2:5: a packet (`<` or `>`), a call, an assertion (`%{`) or a command was expected here, \
         not `?`"
    );
    assert_eq!(wrong("0 < . 1:1(0) <mss>"), "1:18: a number was expected here, not `>`");
    assert_eq!(wrong("0 < . 1:1(0) <mss 70000>"), "1:19: 70000 is out of range here");
    assert!(wrong("0 < icmp unreachable nonsense").starts_with("1:22: `net_unreachable`"));
    assert!(wrong("--nonsense=1\n").starts_with("1:1: --nonsense is not known here"));
    assert_eq!(wrong("0 read(3 = 1"), "1:10: `,` or `)` was expected here, not `=`");
    assert_eq!(wrong("0 `sysctl"), "1:4: what begins here has no ```");
    assert_eq!(wrong("0...1 > . 1:1(0)"), "1:1: only a call may take time (`...`)");
    assert_eq!(wrong("0 %{ print(1) }%"), "1:3: `print(1)`: only `assert …` is known here");
}

#[test]
fn no_text_makes_the_parser_panic() {
    let text = "`a=1`\n// only: core (x)\n0...+1 poll([{fd=4, events=POLLIN}], 1, -1) = -1 E (x)\n+0~+1 >?2 [ce] SFRP.UEW 1:2(1) \
                ack 1 win * urg 1 <mss 1,sack 1:2,TS val * ecr 1,raw 0x00>\n* < [udp (1)] icmp \
                    unreachable net\n0 %{ assert (a == 1 }%";
    for end in 0..text.len() {
        let _ = parse(&text[..end]);
        let mut cut = text.to_owned();
        cut.remove(end);
        let _ = parse(&cut);
    }
}
