use super::*;

fn command() -> Command {
    let inner = Command::new("inner")
        .about("Does the inner thing")
        .after_help("Examples:\n  tool inner --deep    as deep as it goes");
    let text = "Does things\n\nIn two words: it does.\n  set in\n\nExamples:\n  tool -v";
    Command::new("tool").about("Does things").long_about(text).subcommand(inner)
}

#[test]
fn each_command_has_a_page_named_after_the_way_to_it() {
    let pages = pages(command()).unwrap();
    let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["tool.1", "tool-inner.1"]);
    let text = |at: usize| String::from_utf8(pages[at].1.clone()).unwrap();
    assert!(text(0).contains(".SH \"SEE ALSO\"\ntool\\-inner(1)"), "{}", text(0));
    assert!(text(1).contains(".SH \"SEE ALSO\"\ntool(1)"), "{}", text(1));
    assert!(text(1).contains("tool inner"), "{}", text(1));
}

#[test]
fn examples_stand_as_they_are_in_a_section_of_their_own() {
    let pages = pages(command()).unwrap();
    for (page, example) in
        [(0, "  tool \\-v"), (1, "  tool inner \\-\\-deep    as deep as it goes")]
    {
        let text = String::from_utf8(pages[page].1.clone()).unwrap();
        assert!(text.contains(&format!(".SH EXAMPLES\n.nf\n{example}\n.fi\n")), "{text}");
        assert_eq!(text.matches("EXAMPLES").count(), 1);
    }
    let text = String::from_utf8(pages[0].1.clone()).unwrap();
    assert!(
        text.contains("Does things\n.PP\nIn two words: it does.\n.nf\n  set in\n.fi\n"),
        "{text}"
    );
}
