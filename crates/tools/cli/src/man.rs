//! The manual pages: one for `clearway` and one for each command, made out of the same words as the
//! help.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::out;

/// Write the manual pages, clearway(1) and one for each command
///
/// Examples:
///   clearway man /usr/local/share/man/man1      then `man clearway`, `man clearway-http`
///   clearway man | man -l -                     this page's first, without installing anything
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The folder to write them into, made if need be; without it clearway(1) goes to standard
    /// output
    folder: Option<PathBuf>,
}

/// Writes the pages of the command line `C`.
pub(crate) fn run<C: CommandFactory>(args: &Args) -> anyhow::Result<()> {
    let pages = pages(C::command())?;
    let Some(folder) = &args.folder else {
        let (_, text) = pages.first().context("there is no command")?;
        return out::all(text);
    };
    let written = write(folder, &pages)
        .with_context(|| format!("cannot write manual pages into {}", folder.display()));
    written?;
    out::all(format!("{} pages in {}\n", pages.len(), folder.display()))
}

fn write(folder: &Path, pages: &[(String, Vec<u8>)]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    pages.iter().try_for_each(|(name, text)| fs::write(folder.join(name), text))
}

/// File names and texts, the page of the whole first.
fn pages(mut command: Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    // `help` says in a terminal what the pages say here; as pages of their own its commands would
    // only repeat the others.
    command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    gather(&command, &mut pages)?;
    Ok(pages)
}

fn gather(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    pages.push((format!("{}.1", title(command)), page(command)?));
    command
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .try_for_each(|command| gather(command, pages))
}

/// `clearway-bench-client`, whatever the name of the file that runs.
fn title(command: &Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).to_owned()
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let (about, examples) = divided(command);
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    // Without a date: pages of one version are the same whenever they are made.
    let (name, source) =
        (title(command).to_uppercase(), concat!("\"clearway ", env!("CARGO_PKG_VERSION"), "\""));
    writeln!(page, ".TH {name} 1 \"\" {source} \"Manual of Clearway\"")?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    section("DESCRIPTION", &about).to_writer(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if !examples.is_empty() {
        section("EXAMPLES", &examples).to_writer(&mut page)?;
    }
    let others = related(command);
    if !others.is_empty() {
        section("SEE ALSO", &others).to_writer(&mut page)?;
    }
    // An empty line between two breaks is how possible values are set off; one space says it
    // without a word from mandoc.
    let page = String::from_utf8_lossy(&page).replace("\n.br\n\n.br\n", "\n.sp\n");
    Ok(page.into_bytes())
}

/// The page above a command's own, and those below it.
fn related(command: &Command) -> String {
    let title = title(command);
    let above = title.rsplit_once('-').map(|(above, _)| above.to_owned());
    let below = command.get_subcommands().filter(|command| !command.is_hide_set()).map(self::title);
    above.into_iter().chain(below).map(|name| format!("{name}(1)")).collect::<Vec<_>>().join(", ")
}

/// What a command says of itself, and the examples that stand below it or after its options.
fn divided(command: &Command) -> (String, String) {
    let text =
        |text: Option<&clap::builder::StyledStr>| text.map(ToString::to_string).unwrap_or_default();
    let about = text(command.get_long_about().or(command.get_about()));
    let after = text(command.get_after_long_help().or(command.get_after_help()));
    let whole = format!("{about}\n\n{after}");
    match whole.split_once("Examples:\n") {
        Some((about, examples)) => (about.trim().to_owned(), examples.trim_end().to_owned()),
        None => (whole.trim().to_owned(), String::new()),
    }
}

/// A section: paragraphs are filled, and lines that are set in stand as they are.
fn section(name: &str, text: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [name]);
    let mut set_in = false;
    for (at, paragraph) in
        text.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()).enumerate()
    {
        if at > 0 {
            roff.control("PP", []);
        }
        for line in paragraph.lines() {
            if line.starts_with(' ') != set_in {
                set_in = !set_in;
                roff.control(if set_in { "nf" } else { "fi" }, []);
            }
            roff.text([roman(line)]);
        }
        if std::mem::take(&mut set_in) {
            roff.control("fi", []);
        }
    }
    roff
}

#[cfg(test)]
mod tests;
