use std::path::Path;

use super::Source;

fn source(text: &str) -> Source {
    Source::parse(Path::new("a.rs"), text.to_owned()).unwrap_or_else(|error| panic!("{error:?}"))
}

#[test]
fn comments_are_told_from_code_and_strings() {
    let source =
        source("let_me!(); // one\n/// two\nfn f() { \"// three\"; /* four\nfive */ g() }\n");
    let comments: Vec<_> = source.lines.iter().map(|line| line.comment.as_str()).collect();
    assert_eq!(comments, ["// one", "/// two", "/* four", "five */", ""]);
    let ends: Vec<_> = source.lines.iter().map(|line| line.last_code).collect();
    assert_eq!(ends, [Some(';'), None, Some(';'), Some('}'), None]);
}

#[test]
fn words_inside_of_macros_are_there_and_comments_are_not() {
    let source = source("//! dbg!(1)\nm! { dbg!(2) }\n");
    let words: Vec<_> = source.words.iter().map(|word| (word.text.as_str(), word.line)).collect();
    assert_eq!(words[..5], [("m", 2), ("!", 2), ("{", 2), ("dbg", 2), ("!", 2)]);
}

#[test]
fn characters_of_several_bytes_do_not_shift_the_words() {
    let source = source("const A: &str = \"→ é\"; // ← here\nfn f() {}\n");
    assert_eq!(source.lines[0].comment, "// ← here");
    assert_eq!(source.lines[0].last_code, Some(';'));
    assert_eq!(source.lines[1].last_code, Some('}'));
}

#[test]
fn lines_for_tests_only_are_known() {
    let source = source(
        "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {\n    #[cfg(test)]\n    let d = 1;\n}\n",
    );
    let tests: Vec<_> = (1..=9).filter(|&line| source.is_test(line)).collect();
    assert_eq!(tests, [2, 3, 4, 5, 7, 8]);
}

#[test]
fn a_file_may_be_for_tests_as_a_whole() {
    assert!(source("#![cfg(test)]\nfn a() {}\n").is_test(2));
}
