use super::*;
use crate::Command;

#[test]
fn remarks_go_over_several_lines_and_nest() {
    let script = "comment {\n set interface state x up\n { more }\n}\nshow version\ncomment { one line } show plugins\n# a remark\n\n";
    let texts: Vec<_> = statements(script)
        .unwrap()
        .into_iter()
        .map(|(s, _)| (s.number, s.text.to_owned()))
        .collect();
    assert_eq!(texts, [(5, "show version".to_owned()), (6, "show plugins".to_owned())]);
}

#[test]
fn an_open_remark_is_told_with_its_line() {
    assert_eq!(
        statements("show version\ncomment {\nx\n"),
        Err(ScriptError::OpenRemark { number: 2 })
    );
}

#[test]
fn a_wrong_line_is_told_with_its_number() {
    let error = statements("show version\nshow nothing\n").unwrap_err();
    assert!(error.to_string().starts_with("line 2: `nothing` cannot stand here"), "{error}");
}

/// The startup script of a published guide to UDP tests with iperf3, its words as they stand there.
#[test]
fn the_script_of_the_udp_guide_works_as_written() {
    let script = include_str!("udp_guide.txt");
    let commands: Vec<_> =
        statements(script).unwrap().into_iter().map(|(_, line)| line.command).collect();
    assert_eq!(commands.len(), 6);
    assert!(
        matches!(&commands[0], Command::SetAddress { interface, add: true, .. } if interface ==
            "dpdk0")
    );
    assert!(matches!(&commands[5], Command::SetPromiscuous { on: true, .. }));
}
