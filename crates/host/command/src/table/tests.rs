use super::*;

#[test]
fn the_documentation_has_the_whole_grammar() {
    let page = include_str!("../../../../../docs/commands.md");
    let begin = page.find("| command |").expect("docs/commands.md has the table of commands");
    let end = page[begin..].find("\n\n## ").map_or(page.len(), |at| begin + at);
    assert_eq!(
        page[begin..end].trim_end(),
        markdown().trim_end(),
        "docs/commands.md is not what the grammar says. Write the right-hand side into it."
    );
}

#[test]
fn keys_and_second_spellings_are_not_shown() {
    assert_eq!(shown("a/b (c/d|E:f) [G:h]"), "a (c|E) [G]");
}
