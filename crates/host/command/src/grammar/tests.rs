use proptest::prelude::*;

use super::*;
use crate::{NoNames, complete, help};

fn command(line: &str) -> Command {
    match parse(line) {
        Ok(line) => line.command,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn sessions_are_filtered_in_any_order() {
    let line = "show session verbose 2 state established app 3 remote 10.0.0.0/8 proto udp port 53";
    let Command::Show(Show::Session { verbose: 2, filter }) = command(line) else { panic!() };
    assert_eq!((filter.app, filter.state.as_deref()), (Some(3), Some("ESTABLISHED")));
    assert_eq!(
        (filter.protocol, filter.ports),
        (Some(17), Some(PortRange { first: 53, last: 53 }))
    );
    assert_eq!(filter.remote, "10.0.0.0/8".parse().ok());
    for line in ["show session state open", "show session proto icmp", "show session app x"] {
        assert!(parse(line).is_err(), "{line}");
    }
    let none = Command::Show(Show::Session { verbose: 0, filter: SessionFilter::default() });
    assert_eq!(command("show session"), none);
}

#[test]
fn ports_are_made_and_configurations_saved() {
    let made = command("create port tap:x,netns=blue name in0 fault loss=1%");
    let Command::CreatePort { port, name, fault } = made else { panic!() };
    assert_eq!((port.as_str(), name.as_deref()), ("tap:x,netns=blue", Some("in0")));
    assert_eq!(fault.as_deref(), Some("loss=1%"));
    assert_eq!(command("save /tmp/x"), Command::Save("/tmp/x".into()));
    assert_eq!(command("reload"), Command::Reload);
    let shown = |secrets| Command::Show(Show::RunningConfig { secrets });
    assert_eq!(command("show running-config"), shown(false));
    assert_eq!(command("show running-config secrets"), shown(true));
}

/// The lines of the published guides to TCP termination and to UDP tests with iperf3.
#[test]
fn every_line_of_the_guides_is_a_command() {
    for line in [
        "create loopback interface",
        "set interface state loop0 up",
        "ip table add 1",
        "set interface ip table loop0 1",
        "set interface ip address loop0 172.16.1.1/24",
        "app ns add id server secret 1234 if loop0",
        "app ns add id client secret 5678 if loop1",
        "ip route add 172.16.1.1/32 table 2 via lookup in table 1",
        "ip route add 172.16.2.1/32 table 1 via lookup in table 2",
        "show session verbose",
        "set interface state eth0 up",
        "set interface ip address eth0 172.16.3.1/24",
        "set interface ip address dpdk0 10.170.7.169/24 ",
        "set interface mac address dpdk0 02:00:00:00:00:01",
        "set interface mtu packet 9000 dpdk0",
        "set interface mtu ip4 9000 dpdk0",
        "set interface mtu ip6 9000 dpdk0",
        "set interface mtu mpls 9000 dpdk0",
        "set interface rx-mode dpdk0 queue 0 polling",
        "set interface rx-mode dpdk0 interrupt",
        "set interface rx-mode dpdk0 adaptive",
        "show interface rx-placement",
        "set interface rx-placement dpdk0 queue 1 worker 0",
        "ip route add 10.170.6.0/24 via 10.170.7.254",
        "set interface promiscuous on dpdk0",
        "set interface state local0 up",
        "set interface ip address loop0 127.0.0.1/8",
        "show dpdk buffer",
        "show dpdk physmem",
        "show dpdk version",
        "test dpdk buffer allocate 1024",
        "test dpdk buffer",
        "test dpdk buffer free 1024",
        "show version",
        "show plugins",
        "pcap trace status",
        "pcap trace tx max 35 intfc dpdk0 file dpdk0.pcap",
        "pcap trace off",
        "show interface",
        "show interface address",
        "create tap id 0 host-if-name vpp-tap",
    ] {
        assert_ne!(command(line), Command::Nothing, "{line}");
    }
}

#[test]
fn a_route_into_another_table_has_both_tables() {
    let Command::Route { prefix, table, via, add } =
        command("ip route add 172.16.1.1/32 table 2 via lookup in table 1")
    else {
        panic!()
    };
    assert_eq!(
        (prefix.to_string().as_str(), table, via, add),
        ("172.16.1.1/32", 2, Some(RouteVia::Lookup(1)), true)
    );
}

#[test]
fn arguments_in_any_order_and_words_in_short() {
    let a = command("app ns add id server secret 1234 if loop0");
    let b = command("app ns add id server if loop0 secret 1234");
    assert_eq!(a, b);
    assert_eq!(command("sh int addr"), command("show interface address"));
    assert_eq!(command("show ip neighbor"), command("show ip neighbors"));
    assert_eq!(command("set int st loop0 u"), command("set interface state loop0 up"));
}

#[test]
fn a_namespace_is_made_with_every_limit_that_the_settings_have() {
    let Command::AddNamespace(made) = command(
        "app ns add id a sessions 1 listeners 2 processes 3 udp-sockets 4 memory 1048576 \
         all-sessions 5 all-listeners 6 all-processes 7 all-udp-sockets 8 all-memory 2097152",
    ) else {
        panic!()
    };
    let limits = made.limits;
    assert_eq!(
        (limits.sessions, limits.listeners, limits.processes, limits.udp_sockets),
        (Some(1), Some(2), Some(3), Some(4))
    );
    let together = limits.together;
    assert_eq!(
        (together.sessions, together.listeners, together.processes),
        (Some(5), Some(6), Some(7))
    );
    assert_eq!(
        (together.udp_sockets, limits.memory, together.memory),
        (Some(8), Some(1 << 20), Some(2 << 20))
    );
}

#[test]
fn a_namespace_gets_another_secret_or_none_and_it_is_shown_nowhere() {
    let Command::SetSecret(new) = command("app ns set a secret hunter2") else { panic!() };
    assert_eq!((new.id.as_str(), new.secret.as_ref().map(|s| s.as_str())), ("a", Some("hunter2")));
    assert!(!format!("{new:?}").contains("hunter2"));
    let Command::SetSecret(new) = command("app ns set id a no-secret") else { panic!() };
    assert_eq!((new.id.as_str(), new.secret), ("a", None));
    assert!(crate::has_secret("app ns set a secret hunter2"));
    assert!(!crate::has_secret("app ns set a no-secret"));
    assert!(parse("app ns set a").is_err());
}

#[test]
fn quotes_make_an_argument_of_a_word() {
    assert_eq!(
        command("show interface \"address\""),
        Command::Show(Show::Interface { interface: Some("address".into()) })
    );
}

#[test]
fn a_capture_has_its_directions_and_its_filter() {
    let Command::PcapTrace(trace) = command(
        "pcap trace rx drop max 10 intfc any file /tmp/a.pcap net 10.0.0.0/8 proto tcp port 80-90",
    ) else {
        panic!()
    };
    assert!(trace.rx && trace.drop && !trace.tx);
    assert_eq!((trace.max, trace.interface, trace.protocol), (Some(10), None, Some(6)));
    assert_eq!(trace.ports, Some(PortRange { first: 80, last: 90 }));
}

#[test]
fn words_that_do_not_go_together_are_refused_where_they_stand() {
    for (line, at) in [
        ("set interface mac address e0 01:00:00:00:00:00", "01:00:00:00:00:00"),
        ("ip route add 10.0.0.0/8 via fe80::1", "fe80::1"),
        ("ip route add 10.0.0.0/8 table 1 via lookup in table 1", "1"),
        ("ip table del 0", "0"),
        ("acl add deny proto icmp dport 80", "icmp"),
        ("acl add deny src 10.0.0.0/8 dst ::/0", "::/0"),
    ] {
        let error = parse(line).unwrap_err();
        assert!(matches!(error.problem(), Problem::Refused(_)), "{line}: {error}");
        assert_eq!(&line[error.at()], at, "{error}");
    }
}

#[test]
fn json_may_be_asked_for_anywhere() {
    let line = parse("--json show version").unwrap();
    assert!(line.json && line.command == Command::Show(Show::Version));
    assert!(parse("show version --json").unwrap().json);
}

#[test]
fn a_question_mark_asks_for_help_at_its_place() {
    assert_eq!(command("set interface ?"), Command::Help("set interface ".into()));
    assert_eq!(command("set int?"), Command::Help("set int".into()));
    assert_eq!(command("?"), Command::Help(String::new()));
}

#[test]
fn remarks_and_empty_lines_are_nothing() {
    for line in ["", "   ", "# x", "comment { show version }", "comment {x}"] {
        assert_eq!(command(line), Command::Nothing, "{line}");
    }
    assert!(parse("comment x").is_err());
}

#[test]
fn a_secret_is_not_in_what_is_printed_of_a_command() {
    let printed = format!("{:?}", command("app ns add id server secret hush-hush if loop0"));
    assert!(!printed.contains("hush"), "{printed}");
}

/// Two forms that both take one line would make the first win in silence.
#[test]
fn no_two_forms_take_the_same_words() {
    for form in forms() {
        let line = example(form.pattern);
        let words = lex::words(&line).unwrap();
        let readings =
            matcher::read(&line, &words, beginnings()).unwrap_or_else(|error| panic!("{error}"));
        let complete: Vec<_> = readings
            .iter()
            .filter(|reading| reading.complete())
            .map(|reading| reading.form)
            .collect();
        assert!(complete.iter().all(|form| *form == complete[0]), "{line}");
        assert_eq!(forms()[complete[0]].pattern, form.pattern, "{line}");
    }
}

/// The shortest line of a pattern.
fn example(pattern: &'static str) -> String {
    fn walk(node: &Node, out: &mut Vec<&'static str>) {
        match node {
            Node::Leaf(Leaf::Word { word, .. }) => out.push(word),
            Node::Leaf(Leaf::Argument { kind, .. }) => out.push(sample(kind.name())),
            Node::Sequence(nodes) => nodes.iter().for_each(|node| walk(node, out)),
            Node::OneOf(nodes) => walk(&nodes[0], out),
            Node::Maybe(_) | Node::AnyOrder(_) => {}
        }
    }
    let mut words = Vec::new();
    walk(&pattern::compile(pattern).unwrap(), &mut words);
    words.join(" ")
}

fn sample(kind: &str) -> &'static str {
    match kind {
        "PREFIX" | "NET" => "10.0.0.1/8",
        "ADDRESS" => "10.0.0.1",
        "MAC" => "02:00:00:00:00:01",
        "SESSION" => "0:3",
        "TABLE" | "N" | "QUEUE" | "WORKER" | "PID" | "PORTS" | "PROTOCOL" => "1",
        "MTU" => "1500",
        _ => "name0",
    }
}

fn word() -> impl Strategy<Value = String> {
    let known: Vec<String> = forms()
        .iter()
        .flat_map(|form| form.pattern.split(|c: char| !c.is_ascii_alphanumeric() && c != '-'))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .chain(
            [
                "10.0.0.0/8",
                "::1",
                "1",
                "99999999999999999999",
                "{",
                "}",
                "?",
                "\"",
                "--json",
                "comment",
                "é",
            ]
            .map(String::from),
        )
        .collect();
    prop_oneof![4 => proptest::sample::select(known), 1 => any::<String>()]
}

proptest! {
    #[test]
    fn no_text_makes_a_panic(line in any::<String>()) {
        let _ = parse(&line).map_err(|error| error.to_string());
        let _ = complete(&line, &NoNames);
        let _ = help(&line, &NoNames);
        let _ = crate::statements(&line);
    }

    #[test]
    fn no_row_of_words_makes_a_panic(words in proptest::collection::vec(word(), 0..12)) {
        let line = words.join(" ");
        if let Err(error) = parse(&line) {
            prop_assert!(line.get(error.at()).is_some(), "the marks are under the line");
            let _ = error.to_string();
        }
        let _ = complete(&line, &NoNames);
        let _ = help(&line, &NoNames);
        let _ = crate::statements(&words.join("\n"));
    }

    /// What completion offers, the parser takes.
    #[test]
    fn a_completed_word_is_a_word(words in proptest::collection::vec(word(), 0..6)) {
        let line = words.join(" ") + " ";
        if let Ok(before) = lex::words(&line) {
            if !before.iter().any(is_json) && matcher::read(&line, &before, beginnings()).is_ok() {
                for candidate in complete(&line, &NoNames).into_iter()
                    .filter(|candidate| candidate.literal) {
                    let longer = format!("{line}{}", candidate.text);
                    let words = lex::words(&longer).unwrap();
                    if words.len() > before.len() {
                        prop_assert!(matcher::read(&longer, &words, beginnings()).is_ok(),
                            "{longer}");
                    }
                }
            }
        }
    }
}
