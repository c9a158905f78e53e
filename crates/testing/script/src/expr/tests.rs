use super::parse;
use crate::lex::Pos;

fn holds(text: &str) -> Result<bool, String> {
    let lookup = |name: &str| match name {
        "tcpi_snd_cwnd" => Some(10),
        "tcpi_state" => Some(1),
        _ => None,
    };
    let all = parse(text, Pos { line: 1, column: 1 }).map_err(|error| error.what)?;
    all.iter().try_fold(true, |so_far, assertion| Ok(so_far && assertion.holds(&lookup)?))
}

#[test]
fn comparisons_sums_and_logic_bind_as_in_python() {
    assert_eq!(holds(" assert tcpi_snd_cwnd == 10 "), Ok(true));
    assert_eq!(
        holds(" assert tcpi_snd_cwnd == 2 + 4 * 2 and tcpi_state == TCP_ESTABLISHED "),
        Ok(true)
    );
    assert_eq!(holds(" assert tcpi_snd_cwnd < 10 or tcpi_snd_cwnd >= 10 and 1 != 2 "), Ok(true));
    assert_eq!(holds(" assert not tcpi_snd_cwnd == 10 "), Ok(false));
    assert_eq!(holds(" assert (tcpi_snd_cwnd - 4) / 2 <= 3, tcpi_snd_cwnd "), Ok(true));
    assert_eq!(holds(" assert 0x0f & 6 == 6 "), Ok(true));
    assert_eq!(holds(" assert tcpi_snd_cwnd > -1 "), Ok(true));
}

#[test]
fn several_assertions_must_all_hold() {
    assert_eq!(holds("\n assert 1 == 1\n assert tcpi_state == 2\n"), Ok(false));
    assert_eq!(holds(" assert 1 == 1; assert tcpi_state == 1 "), Ok(true));
}

#[test]
fn what_has_no_value_is_named() {
    assert_eq!(
        holds(" assert tcpi_nonsense == 1 "),
        Err("`tcpi_nonsense` has no value here".into())
    );
    assert_eq!(holds(" assert 1 / 0 "), Err("division by zero".into()));
    assert!(holds(" assert 1 == ").unwrap_err().contains("where a value was expected"));
    assert!(holds(" assert 1 2 ").unwrap_err().contains("does not belong here"));
    assert!(holds(" assert (1 ").unwrap_err().contains("`)` is missing"));
}

#[test]
fn a_message_shows_the_values_that_were_used() {
    let all = parse(" assert a == b and a < 3 ", Pos { line: 1, column: 1 }).unwrap();
    assert_eq!(all[0].values(&|name| Some(if name == "a" { 1 } else { 2 })), "a is 1, b is 2");
}
