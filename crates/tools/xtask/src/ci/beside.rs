//! Gates that run beside the tests: most tests wait for clocks and peers most of their time.

use std::path::Path;
use std::process::{self, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::step::{Outcome, Step};
use crate::tally::Tally;

/// The gates that may: they count instructions, orders of steps or simulated time, so that what else
/// runs changes nothing about them. The first two build where the tests do not, so that neither
/// waits for the other; `goodput`, which uses what the tests build, comes last.
const MAY: &[&str] = &["loom", "cost", "goodput"];

/// How one of them ended, and how long it took.
type Ended = (Result<Outcome>, Duration);

/// Gates under way.
pub(super) struct Beside {
    names: Vec<&'static str>,
    ended: Receiver<Ended>,
}

impl Beside {
    /// Begins those of `steps` that may run beside the tests, one after the other, at the lowest
    /// priority. They end only by themselves, so that this is for a run that keeps going whatever
    /// fails.
    pub(super) fn begin(root: &Path, steps: &[&Step]) -> Beside {
        let names: Vec<&'static str> =
            steps.iter().map(|step| step.name).filter(|name| MAY.contains(name)).collect();
        let (sender, ended) = channel();
        let (root, todo) = (root.to_path_buf(), names.clone());
        thread::spawn(move || {
            for name in todo {
                let began = Instant::now();
                let outcome = alone(&root, name);
                // Nobody listens when an earlier gate has ended the run.
                if sender.send((outcome, began.elapsed())).is_err() {
                    break;
                }
            }
        });
        Beside { names, ended }
    }

    /// Waits for the gate `name`; none when it is not one of these.
    pub(super) fn ended(&mut self, name: &str) -> Option<Ended> {
        (self.names.first() == Some(&name)).then(|| {
            self.names.remove(0);
            let gone =
                || (Err(anyhow::anyhow!("the thread that ran it has ended")), Duration::ZERO);
            self.ended.recv().unwrap_or_else(|_| gone())
        })
    }
}

/// Runs one gate in a process of its own and shows what it printed when it has ended.
fn alone(root: &Path, name: &str) -> Result<Outcome> {
    // By this process, and not by its path: the tests' build may have put another program there.
    let program = format!("/proc/{}/exe", process::id());
    let mut command = Command::new("nice");
    command.args(["-n", "19", &program, "ci", "--only", name]).current_dir(root);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start the gate {name}"))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    print!(
        "── {name}, run beside the tests:\n{printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut tally = Tally::default();
    printed.lines().filter_map(Tally::from_line).for_each(|line| tally.add(line));
    Ok(match (output.status.success(), tally == Tally::default()) {
        (true, true) => Outcome::Holds("beside the tests".to_owned()),
        (true, false) => Outcome::Tested(tally, None),
        (false, true) => Outcome::Refused(format!("see what it printed ({})", output.status)),
        (false, false) => {
            Outcome::Tested(tally, Some(format!("see what it printed ({})", output.status)))
        }
    })
}
