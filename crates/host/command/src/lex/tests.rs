use super::*;

fn texts(line: &str) -> Vec<String> {
    words(line).unwrap().into_iter().map(|word| String::clone(&word.text)).collect()
}

#[test]
fn words_are_separated_by_space_and_kept_by_quotes() {
    assert_eq!(texts("  set\tinterface  state "), ["set", "interface", "state"]);
    assert_eq!(texts(r#"file "a b" 'c"d' e" f"g"#), ["file", "a b", "c\"d", "e fg"]);
    assert_eq!(texts(r#""a\"b\\""#), ["a\"b\\"]);
    assert_eq!(texts("show # version"), ["show"]);
    assert_eq!(texts("a#b"), ["a#b"]);
    assert_eq!(texts("\"\""), [""]);
}

#[test]
fn every_word_knows_its_place() {
    let words = words("ab \"c d\" é").unwrap();
    assert_eq!(words.iter().map(|w| w.at.clone()).collect::<Vec<_>>(), [0..2, 3..8, 9..11]);
    assert!(words[1].quoted && !words[0].quoted);
}

#[test]
fn quotes_without_a_partner_and_too_much_are_refused() {
    assert_eq!(*words("a 'b").unwrap_err().problem(), Problem::UnclosedQuote);
    assert_eq!(*words("a \"b\\").unwrap_err().problem(), Problem::UnclosedQuote);
    assert_eq!(*words(&"a ".repeat(MAX_WORDS + 1)).unwrap_err().problem(), Problem::TooManyWords);
    assert_eq!(*words(&"a".repeat(MAX_LINE + 1)).unwrap_err().problem(), Problem::TooLong);
}
