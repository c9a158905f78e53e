//! `clearway doctor`: what this machine lacks, and the command that mends it.
//!
//! Everything is read from files below one folder, which is `/` but in tests: there it holds the
//! files of other machines.

mod cores;
mod files;
mod memory;
mod nic;
mod rights;

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::json;

use crate::figures::{self, Form};
use files::Files;

/// Look at this machine and say what its ports lack, with the command that mends it
///
/// Nothing is changed. Exit codes: 0 nothing is missing, 1 something is missing, 2 wrong use.
///
/// Examples:
///   clearway doctor
///   clearway doctor --json | jq 'select(.severity == "missing")'
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Say only what could be better
    #[arg(short, long)]
    quiet: bool,

    /// Print findings as JSON, an object per line
    #[arg(long)]
    json: bool,

    /// Read /proc, /sys and /dev below this folder, such as a copy of another machine's
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

/// How much a finding matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    /// As it should be.
    Ok,
    /// Good to know.
    Info,
    /// Everything works, and would work better otherwise.
    Advice,
    /// A kind of port cannot be used.
    Missing,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Ok => "ok",
            Severity::Info => "info",
            Severity::Advice => "advice",
            Severity::Missing => "missing",
        })
    }
}

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Finding {
    /// What was looked at.
    check: &'static str,
    severity: Severity,
    /// What was found, in a sentence.
    what: String,
    /// A command, as root unless it says otherwise.
    remedy: Option<String>,
}

/// What was found so far.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(
        &mut self,
        check: &'static str,
        severity: Severity,
        what: impl Into<String>,
        remedy: Option<String>,
    ) {
        self.0.push(Finding { check, severity, what: what.into(), remedy });
    }

    fn ok(&mut self, check: &'static str, what: impl Into<String>) {
        self.add(check, Severity::Ok, what, None);
    }

    fn info(&mut self, check: &'static str, what: impl Into<String>) {
        self.add(check, Severity::Info, what, None);
    }

    fn advice(&mut self, check: &'static str, what: impl Into<String>, remedy: impl Into<String>) {
        self.add(check, Severity::Advice, what, Some(remedy.into()));
    }

    fn missing(&mut self, check: &'static str, what: impl Into<String>, remedy: impl Into<String>) {
        self.add(check, Severity::Missing, what, Some(remedy.into()));
    }
}

/// Looks at everything.
fn examine(files: &Files) -> Vec<Finding> {
    let mut findings = Findings::default();
    rights::tun(files, &mut findings);
    rights::capabilities(files, &mut findings);
    rights::limits(files, &mut findings);
    memory::huge_pages(files, &mut findings);
    memory::numa(files, &mut findings);
    cores::isolation(files, &mut findings);
    cores::siblings(files, &mut findings);
    cores::governor(files, &mut findings);
    cores::clock(files, &mut findings);
    cores::autogroup(files, &mut findings);
    let nics = nic::list(files);
    nic::machine(files, &mut findings);
    nic::vfio(files, &nics, &mut findings);
    nic::iommu(files, &nics, &mut findings);
    nic::each(files, &nics, &mut findings);
    findings.0
}

/// Runs the command; the exit code says whether something is missing.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let findings = examine(&Files::new(&args.root));
    let form = Form::choose(args.json);
    let shown =
        findings.iter().filter(|finding| !args.quiet || finding.severity >= Severity::Advice);
    for finding in shown {
        if form == Form::Json {
            figures::json(&json!({
                "event": "finding", "check": finding.check, "severity": finding.severity,
                    "what": finding.what, "remedy": finding.remedy,
            }))?;
            continue;
        }
        figures::line(&format!("{:<8} {:<12} {}", finding.severity, finding.check, finding.what))?;
        if let Some(remedy) = &finding.remedy {
            figures::line(&format!("{:21} $ {remedy}", ""))?;
        }
    }
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let [ok, info, advice, missing] =
        [Severity::Ok, Severity::Info, Severity::Advice, Severity::Missing].map(count);
    if form == Form::Json {
        figures::json(&json!({ "event": "summary", "ok": ok, "info": info, "advice": advice,
                "missing": missing }))?;
    } else {
        figures::line(&format!(
            "{ok} ok, {info} to know, {advice} could be better, {missing} missing"
        ))?;
    }
    Ok(if missing > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
