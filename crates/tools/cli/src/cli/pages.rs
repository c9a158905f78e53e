//! The commands and settings that stand in the pages, read by the parsers that read them from a
//! user: what is stale in a page is found here.

use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clearway_host::Settings;

use super::*;
use page::{Block, blocks, prose, quoted, simple_commands};

#[path = "../../../xtask/src/page.rs"]
#[allow(unreachable_pub, reason = "what is public there is so for another crate")]
mod page;

/// The pages of the tree, each with its text.
fn pages() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut pages = Vec::new();
    for folder in ["", "docs", "docs/decisions"] {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            // What was changed and when is told of the command line of that day.
            let is_page = path.extension().is_some_and(|ending| ending == "md")
                && path.file_name().is_some_and(|name| name != "CHANGELOG.md");
            if is_page {
                let text = fs::read_to_string(&path).unwrap();
                pages.push((path.strip_prefix(&root).unwrap().to_owned(), text));
            }
        }
    }
    assert!(pages.len() > 60, "{} pages", pages.len());
    pages
}

/// The words of a command for `clearway`, wherever its binary lies; None for other programs.
fn of_ours(words: &[String]) -> Option<Vec<String>> {
    // `sudo`, and what stands before the program in a container, say nothing of it.
    let before = |word: &&String| matches!(word.as_str(), "sudo" | "exec" | "time");
    let at = words.iter().position(|word| !before(&word))?;
    let name = Path::new(&words[at]).file_name()?.to_str()?;
    (name == "clearway").then(|| words[at..].to_vec())
}

/// Why the command line is none that `clearway` takes. `is_whole`: nothing of it is left out.
fn refused(words: &[String], is_whole: bool) -> Option<String> {
    // Classes of errors are no commands of clap's: `run` looks for them before.
    if let [_, help, topic] = words {
        if let (true, Some(said)) = (help == "help", super::explained(topic)) {
            return said.err().map(|why| why.to_string());
        }
    }
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => {
            let is_left_out = matches!(
                error.kind(),
                ErrorKind::MissingRequiredArgument
                    | ErrorKind::MissingSubcommand
                    | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            );
            let is_fine = !error.use_stderr() || (is_left_out && !is_whole);
            return (!is_fine).then(|| error.to_string());
        }
    };
    let Command::Ctl(args) = cli.command else { return None };
    let line = args.line()?;
    clearway_command::parse(&line).err().map(|why| why.to_string())
}

/// Hands each command of `clearway` in blocks for a shell to `judge`, and panics with all that it
/// has to say.
fn each_command(judge: impl Fn(&[String]) -> Option<String>) -> usize {
    let (mut found, mut bad) = (0, Vec::new());
    for (page, text) in pages() {
        for block in blocks(&text) {
            if !matches!(block.language(), "sh" | "console") {
                continue;
            }
            for (line, command) in block.commands() {
                let all = simple_commands(&command);
                for words in all.iter().filter_map(|words| of_ours(words)) {
                    found += 1;
                    if let Some(why) = judge(&words) {
                        bad.push(format!("{}:{line}: {}\n{why}", page.display(), words.join(" ")));
                    }
                }
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    found
}

#[test]
fn every_command_of_the_pages_is_one_that_the_command_line_takes() {
    let found = each_command(|words| refused(words, true));
    assert!(found > 60, "{found} commands");
}

#[test]
fn every_command_in_the_text_of_the_pages_has_words_that_the_command_line_knows() {
    let (mut found, mut bad) = (0, Vec::new());
    for (page, text) in pages() {
        for (number, line) in prose(&text) {
            for code in quoted(line).filter(|code| code.starts_with("clearway ")) {
                // What is left open (`[-a]`, `…`) is a form and no command.
                if code.contains(['…', '[', '<', '|']) {
                    continue;
                }
                for words in simple_commands(code) {
                    found += 1;
                    if let Some(why) = refused(&words, false) {
                        bad.push(format!("{}:{number}: `{code}`\n{why}", page.display()));
                    }
                }
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    assert!(found > 100, "{found} commands");
}

#[test]
fn a_command_line_that_is_stale_is_refused() {
    let of = |line: &str| refused(&simple_commands(line).remove(0), true);
    for (line, word) in [
        ("clearway bench client --kernel --connectoins 4", "--connectoins"),
        ("clearway bnech", "bnech"),
        ("clearway ctl set interface stta loop0 up", "stta"),
        ("clearway http --port tap:cw0 -l many", "many"),
    ] {
        let why = of(line).unwrap_or_else(|| panic!("{line} is taken"));
        assert!(why.contains(word), "{line}: {why}");
    }
    assert_eq!(of("clearway ctl set interface state loop0 up  # a remark"), None);
    assert_eq!(of("A=1 clearway ss -tln > out.txt 2>&1 &"), None);
}

/// The options in a form such as `clearway ss [-t] [-l | -a] [--json] [FILTER]`.
fn options(form: &str) -> Vec<&str> {
    form.split([' ', '[', ']', '|']).filter(|word| word.starts_with('-') && *word != "--").collect()
}

#[test]
fn every_form_in_the_pages_has_options_that_its_command_has() {
    let (mut found, mut bad) = (0, Vec::new());
    let whole = Cli::command();
    let mut look = |page: &Path, number: usize, form: &str| {
        let name = form.split(' ').nth(1).unwrap_or_default();
        let Some(command) = whole.find_subcommand(name) else {
            bad.push(format!("{}:{number}: no command `{name}`", page.display()));
            return;
        };
        for option in options(form) {
            found += 1;
            let has = command.get_arguments().any(|argument| {
                let shorts = argument.get_short_and_visible_aliases().unwrap_or_default();
                let longs = argument.get_long_and_visible_aliases().unwrap_or_default();
                match option.strip_prefix("--") {
                    Some(long) => longs.contains(&long),
                    // `-br` is one, as it is of ip(8).
                    None => shorts.iter().any(|short| option == format!("-{short}")),
                }
            });
            if !has && option != "-br" {
                bad.push(format!("{}:{number}: `{name}` has no `{option}`", page.display()));
            }
        }
    };
    for (page, text) in pages() {
        for block in blocks(&text).iter().filter(|block| block.language() == "usage") {
            for (index, line) in block.lines.iter().enumerate() {
                look(&page, block.line + 1 + index, line);
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    assert!(found > 25, "{found} options");
}

/// Hands the lines of blocks of a language to `judge`.
fn each_block(language: &str, judge: impl Fn(&Block<'_>) -> Option<String>) -> usize {
    let (mut found, mut bad) = (0, Vec::new());
    for (page, text) in pages() {
        for block in blocks(&text).iter().filter(|block| block.language() == language) {
            let is_other = |word: &&str| {
                *word == "excerpt"
                    || word.strip_prefix("file=").is_some_and(|n| !n.starts_with("host."))
            };
            let is_ours = !block.words().iter().any(is_other);
            if is_ours {
                found += 1;
                let why = judge(block);
                bad.extend(why.map(|why| format!("{}:{}: {why}", page.display(), block.line)));
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    found
}

#[test]
fn every_command_for_a_host_in_the_pages_is_one_that_a_host_takes() {
    let found = each_block("commands", |block| {
        let script = block.lines.join("\n");
        clearway_command::statements(&script).err().map(|why| why.to_string())
    });
    assert!(found >= 3, "{found} blocks");
}

#[test]
fn every_block_of_settings_in_the_pages_is_one_that_up_takes() {
    let found = each_block("toml", |block| {
        let text = block.lines.join("\n");
        Settings::parse(&text, Path::new("host.toml")).err().map(|why| why.to_string())
    });
    assert!(found >= 3, "{found} blocks");
}

/// Whether the page of options is written anew, when the test below is run by hand.
const WRITE: &str = "CLEARWAY_WRITE_PAGES";

/// The first sentence or two of a help text, as a cell of a table.
fn cell(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    let first = text.split("\n\n").next().unwrap_or_default();
    first.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// How an argument is written: `-c`, `--config FILE`; what stands without a word of its own, by its
/// name alone.
fn written(argument: &clap::Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let values = if argument.get_action().takes_values() { names.join(" ") } else { String::new() };
    if argument.is_positional() {
        return format!("`{values}`");
    }
    let long = argument.get_long().map(|long| format!("--{long}"));
    let mut words: Vec<String> =
        argument.get_short().map(|short| format!("-{short}")).into_iter().chain(long).collect();
    if let Some(last) = words.last_mut().filter(|_| !values.is_empty()) {
        last.push(' ');
        last.push_str(&values);
    }
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ").replace('|', "\\|")
}

fn argument_row(argument: &clap::Arg) -> String {
    let mut what = cell(argument.get_help());
    let values = argument.get_default_values();
    let is_word = argument.get_action().takes_values();
    if is_word && !values.is_empty() && !what.contains("[default") {
        let values: Vec<_> = values.iter().map(|value| value.to_string_lossy()).collect();
        what.push_str(&format!(" [default: {}]", values.join(", ")));
    }
    format!("| {} | {what} |\n", written(argument))
}

/// The options of a command and of those below it.
fn option_tables(command: &clap::Command, way: &str, page: &mut String) {
    let seen: Vec<_> = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && argument.get_id() != "help")
        .collect();
    let is_group = command.get_subcommands().any(|inner| !inner.is_hide_set());
    // A command that only has others below it has nothing to say of its own.
    if !(way.is_empty() || is_group && seen.is_empty()) {
        page.push_str(&format!(
            "## {way}\n\n{}.\n\n",
            cell(command.get_about()).trim_end_matches('.')
        ));
        if !seen.is_empty() {
            page.push_str("| option | what |\n| --- | --- |\n");
            seen.iter().for_each(|argument| page.push_str(&argument_row(argument)));
            page.push('\n');
        }
    }
    for inner in command.get_subcommands() {
        if !inner.is_hide_set() && inner.get_name() != "help" {
            let way = format!("{way} {}", inner.get_name());
            option_tables(inner, way.trim_start(), page);
        }
    }
}

#[test]
fn the_page_of_options_is_made_of_the_command_line() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/options.md");
    let page = fs::read_to_string(&path).unwrap();
    let begin = page.find("## ").expect("a heading");
    let end = page.find("## Where").expect("the end of the tables");
    let mut whole = Cli::command();
    whole.build();
    let mut tables = String::new();
    option_tables(&whole, "", &mut tables);
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, format!("{}{tables}{}", &page[..begin], &page[end..])).unwrap();
        return;
    }
    for (told, made) in page[begin..end].lines().zip(tables.lines()) {
        assert_eq!(told, made, "docs/options.md is stale: run this test with {WRITE}=1");
    }
    assert_eq!(page[begin..end].len(), tables.len(), "run this test with {WRITE}=1");
}
