use super::*;

struct Two;

impl Names for Two {
    fn of(&self, kind: Kind) -> Vec<String> {
        if kind == Kind::Interface { vec!["loop0".into(), "tap0".into()] } else { Vec::new() }
    }
}

fn texts(line: &str) -> Vec<String> {
    complete(line, &Two).into_iter().map(|candidate| candidate.text).collect()
}

#[test]
fn words_and_known_names_are_completed() {
    assert_eq!(texts("set interface st"), ["state"]);
    assert_eq!(texts("set int state "), ["loop0", "tap0"]);
    assert_eq!(texts("set interface state l"), ["loop0"]);
    assert_eq!(texts("set interface state loop0 "), ["up", "down"]);
    assert_eq!(
        texts("app ns add id x "),
        [
            "secret",
            "if",
            "table",
            "sessions",
            "listeners",
            "processes",
            "udp-sockets",
            "memory",
            "all-sessions",
            "all-listeners",
            "all-processes",
            "all-udp-sockets",
            "all-memory"
        ]
    );
    assert_eq!(texts("app ns add id x if loop0 sec"), ["secret"]);
    assert!(texts("no such ").is_empty());
}

#[test]
fn the_place_of_the_begun_word_is_told() {
    assert_eq!(complete("set inter", &NoNames)[0].start, 4);
    assert_eq!(complete("set ", &NoNames)[0].start, 4);
}

#[test]
fn help_tells_the_kind_of_an_argument_and_where_a_line_may_end() {
    let text = help("set interface ip address loop0 ", &NoNames);
    assert!(text.contains("PREFIX  an address with its prefix length"), "{text}");
    let text = help("show interface ", &NoNames);
    assert!(
        text.contains("<end>") && text.contains("address") && text.contains("rx-placement"),
        "{text}"
    );
    assert!(help("", &NoNames).contains("set"), "the beginning of everything");
}

#[test]
fn any_white_space_separates_words() {
    for space in ['\u{a0}', '\u{2003}', '\u{3000}', '\t'] {
        let line = format!("show{space}int");
        assert_eq!(complete(&line, &NoNames)[0].text, "interface");
        assert!(help(&line, &NoNames).contains("interface"), "{line:?}");
    }
}

#[test]
fn nothing_completes_a_remark() {
    assert!(complete("show # int", &NoNames).is_empty() && complete("# ", &NoNames).is_empty());
}
