use super::*;
use crate::parse;

#[test]
fn the_wrong_word_is_underlined_and_the_nearest_is_named() {
    let error = parse("set interface stat3 loop0 up").unwrap_err();
    let text = error.to_string();
    assert_eq!(error.nearest(), Some("state"));
    assert!(text.contains("  set interface stat3 loop0 up\n                ^^^^^\n"), "{text}");
    assert!(text.contains("Did you mean `state`?"), "{text}");
    assert!(text.contains("Possible here: state, ip, "), "{text}");
}

#[test]
fn columns_are_characters_in_any_script() {
    let error = parse("show versión").unwrap_err();
    assert!(error.to_string().contains("\n       ^^^^^^^"), "{error}");
}

#[test]
fn a_bad_argument_is_told_what_it_must_be() {
    let error = parse("set interface ip table loop0 one").unwrap_err();
    assert!(matches!(error.problem(), Problem::BadValue(_)));
    assert!(
        error.to_string().contains("`one` is no TABLE: the number of a routing table"),
        "{error}"
    );
}

#[test]
fn a_short_form_of_several_words_names_them() {
    let error = parse("show s").unwrap_err();
    assert_eq!(
        *error.problem(),
        Problem::Ambiguous(
            ["session", "segments", "stages", "slaac", "settings"].map(String::from).into()
        )
    );
    assert!(
        error
            .to_string()
            .starts_with("`s` may be `session`, `segments`, `stages`, `slaac` or `settings`"),
        "{error}"
    );
}

#[test]
fn what_is_missing_is_named_at_the_end() {
    let error = parse("set interface state loop0").unwrap_err();
    assert_eq!(*error.problem(), Problem::Incomplete);
    assert_eq!(error.expected(), ["up", "down"]);
    assert!(error.to_string().contains("\n                           ^\n"), "{error}");
}

#[test]
fn what_is_too_much_is_named() {
    let error = parse("show version now").unwrap_err();
    assert_eq!(error.message(), "the command is complete before `now`");
}

#[test]
fn a_line_that_is_too_long_is_not_sent_back() {
    let error = parse(&"x".repeat(100_000)).unwrap_err();
    assert!(error.to_string().len() < 200);
}

#[test]
fn an_error_shows_no_secret() {
    for line in [
        "app ns add id server secert hunter2 if loop0",
        "app ns add id server secret hunter2 tabel 5",
        "app ns add id server secret hunter2 hunter2",
        "app ns add id server secret \"hunter2",
        "app ns adx id server secret hunter2",
        "ap ns add id server se hunter2 secret hunter2",
        "app ns add id server secret hunter2 table x",
        &format!("app ns add id server secret {}", "hunter2".repeat(40)),
    ] {
        let error = crate::parse(line).map(|_| ()).unwrap_err();
        let shown = format!("{error} {error:?} {} {:?}", error.message(), error.nearest());
        assert!(!shown.contains("hunter2") && shown.contains("***"), "{line}: {shown}");
    }
}
