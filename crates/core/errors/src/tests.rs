extern crate std;

use std::string::{String, ToString as _};
use std::vec::Vec;

use super::*;

/// Every code that there ever was. Add to it; take nothing away, and give no number to another.
#[rustfmt::skip]
const KNOWN: &[(u16, &str)] = &[
    (1, "Usage"), (2, "Senseless"), (3, "Failed"), (4, "NotThere"), (5, "NoPermission"),
    (6, "AddressInUse"), (7, "Unreachable"), (101, "SettingsUnreadable"), (102, "SettingsSyntax"),
    (103, "SettingsUnknown"), (104, "SettingsValue"), (105, "SettingsMissing"),
    (106, "SettingsFixed"), (201, "LineTooLong"), (202, "Unquoted"), (203, "UnknownWord"),
    (204, "NothingFollows"), (205, "Ambiguous"), (206, "Incomplete"), (207, "BadArgument"),
    (208, "Refused"), (209, "ScriptUnreadable"), (210, "ScriptsTooDeep"), (301, "NoSuchThing"),
    (302, "Exists"), (303, "InUse"), (304, "Full"), (305, "BadAddress"), (306, "BadRouter"),
    (307, "BadMtu"), (308, "WrongKind"), (309, "BadNamespace"), (310, "BadFilter"),
    (311, "Unwritable"), (312, "NotBuiltIn"), (313, "SystemRefuses"), (401, "PortMisuse"),
    (402, "PortDenied"), (403, "PortBusy"), (404, "PortAbsent"), (405, "PortFailed"),
    (406, "PortKept"), (501, "HostRuns"), (502, "SocketFailed"), (503, "WorkerFailed"),
    (601, "NoHost"), (602, "NotHeard"), (603, "NoHostsSocket"), (604, "HostSilent"),
    (605, "NoEntry"), (606, "NoRoom"), (607, "ClientSettings"), (701, "NoLibrary"), (702, "Unfit"),
    (703, "CannotRun"),
];

#[test]
fn no_code_is_removed_renumbered_or_forgotten() {
    let now: Vec<(u16, &str)> = Code::ALL.iter().map(|code| (code.number(), code.name())).collect();
    assert_eq!(now, KNOWN, "the left is the table, the right the list of known codes");
}

#[test]
fn codes_are_unique_and_in_order() {
    assert!(Code::ALL.windows(2).all(|pair| pair[0].number() < pair[1].number()));
    let titles: std::collections::BTreeSet<_> = Code::ALL.iter().map(|code| code.title()).collect();
    assert_eq!(titles.len(), Code::ALL.len());
}

#[test]
fn every_part_of_a_text_is_whole() {
    for code in Code::ALL {
        for part in [code.means(), code.causes(), code.remedy()] {
            assert!(part.ends_with(['.', ')']), "{code}: {part}");
            assert!(part.chars().next().is_some_and(|c| !c.is_lowercase()), "{code}: {part}");
        }
        assert!(code.title().chars().next().is_some_and(char::is_lowercase), "{code}");
        assert!(!code.title().ends_with('.'), "{code}");
    }
}

#[test]
fn codes_are_read_as_people_write_them() {
    for text in ["E0103", "e0103", "E103", "103"] {
        assert_eq!(Code::of(text), Some(Code::SettingsUnknown), "{text}");
    }
    for text in ["", "E", "E-1", "E+103", "E0000", "E99999", "EE103", "tcp"] {
        assert_eq!(Code::of(text), None, "{text}");
    }
}

#[test]
fn a_message_is_taken_apart_as_it_was_put_together() {
    let message = Code::Full.before("no more: at all").to_string();
    assert_eq!(message, "error[E0304]: no more: at all");
    assert_eq!(Code::split(&message), (Some(Code::Full), "no more: at all"));
    assert_eq!(Code::split("error[X]: no"), (None, "error[X]: no"));
    assert_eq!(Code::split("plain"), (None, "plain"));
}

#[test]
fn an_explanation_fits_a_terminal() {
    for code in Code::ALL {
        let text = code.explained().to_string();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let parts = [code.means(), code.causes(), code.remedy()];
        assert!(parts.iter().all(|part| one_line.contains(part)), "{text}");
    }
}

#[test]
fn the_documentation_has_every_code() {
    let page = include_str!("../../../../docs/errors.md");
    let begin = page.find("| code |").expect("docs/errors.md has the table of codes");
    let made: String = Markdown.to_string();
    assert!(
        page[begin..].trim_end() == made.trim_end(),
        "docs/errors.md is not what the table says. From `| code |` on it has to be:\n{made}"
    );
}
