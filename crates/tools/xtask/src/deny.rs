//! `cargo xtask deny`: what the crates that we build upon may be, asked of cargo-deny.
//!
//! Licences, duplicates, bans and sources are known from the crates themselves. What is known
//! *against* them (advisories) stands in a database on the network: where that cannot be reached,
//! the gate says so, and everything else is still checked.

use std::path::Path;
use std::process::Output;

use anyhow::{Context, Result, bail};

use crate::run::cargo;

/// What can be asked without the database of advisories.
const KNOWN_HERE: &[&str] = &["licenses", "bans", "sources"];

/// How the check ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Checked {
    /// Nothing is against any crate; the text says what was looked at.
    Holds(String),
    /// Something is, and was told.
    Refused(String),
    /// cargo-deny is not installed.
    Absent(String),
}

/// What cargo-deny says of one set of questions.
enum Verdict {
    Fine,
    Refused,
    /// It could not look: its own words.
    Unable(String),
}

/// Asks cargo-deny about the workspace at `root`.
///
/// # Errors
/// When cargo-deny is there and cannot look at the workspace at all.
pub fn deny(root: &Path) -> Result<Checked> {
    if !cargo(root, &["deny", "--version"]).output().context("cannot start cargo")?.status.success()
    {
        return Ok(Checked::Absent("cargo-deny is not installed: make setup".to_owned()));
    }
    // Cargo may have to download what other systems would build; without a network, what is here
    // has to do.
    let known = match ask(root, &["deny", "check"], KNOWN_HERE)? {
        Verdict::Unable(_) => ask(root, &["deny", "--offline", "check"], KNOWN_HERE)?,
        known => known,
    };
    let advisories = ask(root, &["deny", "check"], &["advisories"])?;
    both(known, advisories)
}

/// One answer out of two.
fn both(known: Verdict, advisories: Verdict) -> Result<Checked> {
    Ok(match (known, advisories) {
        (Verdict::Unable(why), _) => bail!("cargo-deny cannot look at the workspace: {why}"),
        (Verdict::Refused, _) => {
            Checked::Refused("a licence, a duplicate, a ban or a source".to_owned())
        }
        (_, Verdict::Refused) => Checked::Refused("an advisory".to_owned()),
        (Verdict::Fine, Verdict::Fine) => {
            Checked::Holds("licences, bans, sources, advisories".to_owned())
        }
        (Verdict::Fine, Verdict::Unable(why)) => {
            println!("advisories NOT checked: {why}");
            Checked::Holds(
                "licences, bans, sources; advisories NOT checked, no database here".to_owned(),
            )
        }
    })
}

fn ask(root: &Path, how: &[&str], questions: &[&str]) -> Result<Verdict> {
    let output = cargo(root, &[how, questions].concat()).output().context("cannot start cargo")?;
    let verdict = verdict(&output, questions);
    if matches!(verdict, Verdict::Refused) {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(verdict)
}

/// Its last line has one word for each question, "bans ok" or "bans FAILED". Without that line it
/// did not look.
fn verdict(output: &Output, questions: &[&str]) -> Verdict {
    let said = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    let said = String::from_utf8_lossy(&said);
    let looked = questions.iter().all(|question| {
        ["ok", "FAILED"]
            .iter()
            .any(|word| said.lines().any(|line| line.contains(&format!("{question} {word}"))))
    });
    match (looked, output.status.success()) {
        (true, true) => Verdict::Fine,
        (true, false) => Verdict::Refused,
        (false, _) => {
            let why = said
                .lines()
                .find(|line| line.to_lowercase().contains("error"))
                .unwrap_or("it said nothing")
                .trim();
            Verdict::Unable(why.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use super::*;

    fn output(code: i32, stderr: &str) -> Output {
        Output {
            status: ExitStatus::from_raw(code << 8),
            stdout: Vec::new(),
            stderr: stderr.as_bytes().to_vec(),
        }
    }

    #[test]
    fn a_finding_is_told_from_a_database_that_cannot_be_reached() {
        let told = |code, text| verdict(&output(code, text), &["advisories"]);
        assert!(matches!(told(0, "advisories ok\n"), Verdict::Fine));
        assert!(matches!(
            told(1, "error[vulnerability]: x\n\nadvisories FAILED\n"),
            Verdict::Refused
        ));
        let Verdict::Unable(why) =
            told(1, "2026 [ERROR] failed to fetch advisory database https://x\nCloning\n")
        else {
            panic!("it looked at nothing");
        };
        assert!(why.contains("failed to fetch"), "{why}");
        // One of two questions answered is not an answer.
        assert!(matches!(
            verdict(&output(0, "bans ok\n"), &["bans", "sources"]),
            Verdict::Unable(_)
        ));
    }

    #[test]
    fn what_is_known_here_is_refused_without_the_database_too() {
        let unable = || Verdict::Unable("no network".to_owned());
        assert!(matches!(both(Verdict::Refused, unable()).unwrap(), Checked::Refused(_)));
        assert!(matches!(both(Verdict::Fine, Verdict::Refused).unwrap(), Checked::Refused(_)));
        let Checked::Holds(note) = both(Verdict::Fine, unable()).unwrap() else {
            panic!("nothing was refused")
        };
        assert!(note.contains("advisories NOT checked"), "{note}");
        assert!(both(unable(), Verdict::Fine).is_err());
    }
}
