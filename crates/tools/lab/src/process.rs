//! Programs that are measured: started on their cores, waited for, and ended by their own number.
//!
//! Each is the leader of a session. So Ctrl-C reaches only this program, which ends the others in
//! order; and the scheduler, which shares time between sessions, can be asked to put them first.
//! The kernel kills them when this program is killed.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// How long a program may take to be ready, and to end after it was asked to.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// How often a program is looked at while it is waited for.
const LOOK: Duration = Duration::from_millis(5);

/// Gives the new session this weight, and becomes what the other arguments say. Without root the
/// scheduler does not let us, and then it is as it is.
const WEIGHED: &str = r#"{ echo "$0" >/proc/self/autogroup; } 2>/dev/null || :; exec "$@""#;

/// How nice a session is: before all others of the machine, or as one begins.
const FIRST: &str = "-20";
const ALIKE: &str = "0";

/// Bytes of a program's output that are kept; the rest is read and forgotten.
const OUTPUT_LIMIT: usize = 16 << 20;

/// Bytes of it that an error shows.
const SHOWN: usize = 600;

/// Somebody asked this program to end.
#[derive(Debug)]
pub struct Stopped;

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("stopped")
    }
}

impl std::error::Error for Stopped {}

/// A program was ended by a signal that it had not been sent.
#[derive(Debug)]
pub(crate) struct Died {
    name: String,
    signal: i32,
    said: String,
}

impl std::fmt::Display for Died {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} failed (signal {}): {}", self.name, self.signal, self.said)
    }
}

impl std::error::Error for Died {}

/// What tells that a program is ready.
pub(crate) enum Ready {
    /// It prints this.
    Says(&'static str),
    /// This file is there, which is not there before.
    Makes(PathBuf),
}

/// A program to be started.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    program: OsString,
    args: Vec<String>,
    env: Vec<(&'static str, String)>,
    cores: Option<String>,
    /// The process whose namespaces it gets.
    inside: Option<Pid>,
    nice: &'static str,
}

impl Launch {
    pub(crate) fn new(program: impl AsRef<Path>) -> Launch {
        let program = program.as_ref().as_os_str().to_owned();
        Launch {
            program,
            args: Vec::new(),
            env: Vec::new(),
            cores: None,
            inside: None,
            nice: FIRST,
        }
    }

    /// Adds words, which spaces part.
    pub(crate) fn words(mut self, words: &str) -> Launch {
        self.args.extend(words.split_ascii_whitespace().map(str::to_string));
        self
    }

    /// Adds one argument as it is.
    pub(crate) fn arg(mut self, arg: impl Into<String>) -> Launch {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments as they are.
    pub(crate) fn args(mut self, args: &[String]) -> Launch {
        self.args.extend_from_slice(args);
        self
    }

    pub(crate) fn env(mut self, name: &'static str, value: impl Into<String>) -> Launch {
        self.env.push((name, value.into()));
        self
    }

    /// Lets it run on these cores only.
    pub(crate) fn on(mut self, cores: &[usize]) -> Launch {
        self.cores = Some(list(cores));
        self
    }

    pub(crate) fn inside(mut self, holder: Pid) -> Launch {
        self.inside = Some(holder);
        self
    }

    /// Does not put it before sessions that it, or what it is measured with, begins itself.
    pub(crate) fn alike(mut self) -> Launch {
        self.nice = ALIKE;
        self
    }

    /// The command line as somebody would type it.
    pub(crate) fn text(&self) -> String {
        let mut words: Vec<String> =
            self.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if let Some(cores) = &self.cores {
            words.push(format!("taskset -c {cores}"));
        }
        words.push(self.program.to_string_lossy().into_owned());
        words.extend(self.args.iter().map(|arg| quoted(arg)));
        words.join(" ")
    }

    fn name(&self) -> String {
        Path::new(&self.program).file_name().unwrap_or(&self.program).to_string_lossy().into_owned()
    }

    fn command(&self) -> Command {
        // Each of these becomes the next, so that the number of the process stays the same.
        let mut words: Vec<OsString> =
            ["setpriv", "--pdeathsig", "KILL", "setsid", "sh", "-c", WEIGHED, self.nice]
                .map(OsString::from)
                .to_vec();
        if let Some(holder) = self.inside {
            words.extend(["nsenter", "--net", "--mount", "--target"].map(OsString::from));
            words.push(holder.to_string().into());
        }
        if let Some(cores) = &self.cores {
            words.extend(["taskset", "-c"].map(OsString::from));
            words.push(cores.into());
        }
        words.push(self.program.clone());
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts it.
    pub(crate) fn start(&self) -> anyhow::Result<Running> {
        let mut command = self.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start setpriv. Install util-linux")?;
        let input = child.stdin.take();
        let (out, out_reader) = collect(child.stdout.take());
        let (errors, error_reader) = collect(child.stderr.take());
        let readers = [out_reader, error_reader].into_iter().flatten().collect();
        Ok(Running { name: self.name(), child, input, out, errors, readers })
    }

    /// Starts it and waits until its output holds `text`.
    pub(crate) fn start_until(&self, text: &str, stop: &AtomicBool) -> anyhow::Result<Running> {
        self.start_when(|running| running.said(text), stop)
    }

    /// Starts it and waits until it is ready.
    pub(crate) fn start_until_ready(
        &self,
        ready: &Ready,
        stop: &AtomicBool,
    ) -> anyhow::Result<Running> {
        match ready {
            Ready::Says(text) => self.start_until(text, stop),
            Ready::Makes(file) => self.start_when(|_| file.exists(), stop),
        }
    }

    fn start_when(
        &self,
        is_ready: impl Fn(&Running) -> bool,
        stop: &AtomicBool,
    ) -> anyhow::Result<Running> {
        let mut running = self.start()?;
        let deadline = Instant::now() + TIME_LIMIT;
        while !is_ready(&running) {
            if let Some(status) = running.ended()? {
                let name = running.name.clone();
                bail!(
                    "{name} ended before it was ready ({}): {}",
                    reason(status),
                    running.finished(status).complaint()
                );
            }
            if Instant::now() > deadline {
                bail!("{} is not ready after {TIME_LIMIT:?}: {}", running.name, running.tail());
            }
            pause(stop)?;
        }
        Ok(running)
    }

    /// Runs it to its end, which has to come in time and be a good one.
    pub(crate) fn run(&self, limit: Duration, stop: &AtomicBool) -> anyhow::Result<Ended> {
        self.start()?.succeed(limit, stop)
    }
}

/// `0,1,2`.
pub(crate) fn list(cores: &[usize]) -> String {
    cores.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn quoted(arg: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./:,@%".contains(c);
    if !arg.is_empty() && arg.chars().all(plain) {
        arg.into()
    } else {
        format!("'{}'", arg.replace('\'', r"'\''"))
    }
}

fn reason(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (_, Some(signal)) => format!("signal {signal}"),
        _ => status.to_string(),
    }
}

/// Waits a moment, unless somebody asked to end.
pub(crate) fn pause(stop: &AtomicBool) -> Result<(), Stopped> {
    if stop.load(Ordering::Relaxed) {
        return Err(Stopped);
    }
    thread::sleep(LOOK);
    Ok(())
}

type Text = Arc<Mutex<Vec<u8>>>;

fn collect(from: Option<impl Read + Send + 'static>) -> (Text, Option<JoinHandle<()>>) {
    let text = Text::default();
    let mine = Arc::clone(&text);
    let reader = from.map(|mut from| {
        thread::spawn(move || {
            let mut piece = [0; 65_536];
            while let Ok(len) = from.read(&mut piece) {
                if len == 0 {
                    break;
                }
                let mut text = mine.lock().unwrap_or_else(PoisonError::into_inner);
                let room = OUTPUT_LIMIT - text.len();
                text.extend_from_slice(&piece[..len.min(room)]);
            }
        })
    });
    (text, reader)
}

/// A started program. It is killed when this goes.
pub(crate) struct Running {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    out: Text,
    errors: Text,
    readers: Vec<JoinHandle<()>>,
}

/// A program that has ended.
pub(crate) struct Ended {
    name: String,
    status: ExitStatus,
    pub(crate) out: String,
    pub(crate) errors: String,
}

impl Running {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    fn said(&self, text: &str) -> bool {
        let holds = |output: &Text| {
            let output = output.lock().unwrap_or_else(PoisonError::into_inner);
            String::from_utf8_lossy(&output).contains(text)
        };
        holds(&self.out) || holds(&self.errors)
    }

    /// The last thing that it said.
    fn tail(&self) -> String {
        let of = |output: &Text| {
            let output = output.lock().unwrap_or_else(PoisonError::into_inner);
            String::from_utf8_lossy(&output).into_owned()
        };
        let (out, errors) = (of(&self.out), of(&self.errors));
        if errors.trim().is_empty() {
            last(&out, SHOWN)
        } else {
            format!("{}; {}", last(&errors, SHOWN / 2), last(&out, SHOWN / 2))
        }
    }

    /// The same for the error of another program, which it may explain.
    pub(crate) fn last_words(&self) -> String {
        format!("while {} had said at last: {}", self.name, self.tail())
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    fn finished(&mut self, status: ExitStatus) -> Ended {
        self.input = None;
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
        let of = |output: &Text| {
            let output = output.lock().unwrap_or_else(PoisonError::into_inner);
            String::from_utf8_lossy(&output).into_owned()
        };
        Ended { name: self.name.clone(), status, out: of(&self.out), errors: of(&self.errors) }
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self, limit: Duration, stop: &AtomicBool) -> anyhow::Result<Ended> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.ended()? {
                return Ok(self.finished(status));
            }
            if Instant::now() > deadline {
                bail!("{} does not end: {}", self.name, self.tail());
            }
            pause(stop)?;
        }
    }

    /// Waits for its end, which has to be a good one.
    pub(crate) fn succeed(mut self, limit: Duration, stop: &AtomicBool) -> anyhow::Result<Ended> {
        self.wait(limit, stop)?.good()
    }

    /// Ends it with a signal; the end has to be a good one.
    pub(crate) fn stop(mut self, signal: Signal, stop: &AtomicBool) -> anyhow::Result<Ended> {
        if self.ended()?.is_none() {
            kill(self.pid(), signal).with_context(|| format!("cannot end {}", self.name))?;
        }
        self.wait(TIME_LIMIT, stop)?.good()
    }

    /// Ends it by closing its standard input.
    pub(crate) fn close(mut self, stop: &AtomicBool) -> anyhow::Result<Ended> {
        self.input = None;
        self.wait(TIME_LIMIT, stop)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // As long as nobody has waited for it, the number is its own.
        if self.child.try_wait().ok().flatten().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Ended {
    fn good(self) -> anyhow::Result<Ended> {
        match (self.status.success(), self.status.signal()) {
            (true, _) => Ok(self),
            (_, Some(signal)) => {
                Err(Died { name: self.name.clone(), signal, said: self.complaint() }.into())
            }
            _ => {
                Err(anyhow!("{} failed ({}): {}", self.name, reason(self.status), self.complaint()))
            }
        }
    }

    fn complaint(&self) -> String {
        complaint(&self.out, &self.errors)
    }

    /// The last object that it printed of this kind.
    pub(crate) fn event(&self, kind: &str) -> anyhow::Result<Value> {
        let found = events(&self.out).into_iter().rfind(|event| event["event"] == kind);
        found.with_context(|| format!("{} printed no `{kind}`: {}", self.name, self.complaint()))
    }
}

fn events(text: &str) -> Vec<Value> {
    text.lines()
        .filter(|line| line.starts_with('{'))
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// What was said on standard error, or else the end of what was printed.
fn complaint(out: &str, errors: &str) -> String {
    last(if errors.trim().is_empty() { out } else { errors }, SHOWN)
}

/// The last lines as one.
fn last(text: &str, shown: usize) -> String {
    let text =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    let from = text.len().saturating_sub(shown);
    let from = (from..text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
    if text.is_empty() { "it said nothing".into() } else { text[from..].into() }
}

/// What a program prints when it is run for a moment; none when it is not there or fails.
pub(crate) fn answer(program: impl AsRef<Path>, args: &[&str]) -> Option<String> {
    let output = Command::new(program.as_ref())
        .args(args)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_string();
    (output.status.success() && !text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests;
