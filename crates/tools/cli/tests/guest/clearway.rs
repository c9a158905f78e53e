//! `clearway` as a process beside the guest, and a folder for both.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Longer than any step takes on a busy machine; only what hangs reaches it.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(600);

/// The tests here take turns: a guest is slow without hardware help, and one of them counts what
/// this process has open. So each takes its turn before it opens anything: programs that make a
/// guest's image are read through pipes.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until it is so.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + TIME_LIMIT;
    while !is_so() {
        assert!(Instant::now() < until, "this never came true: {what}");
        sleep(Duration::from_millis(5));
    }
}

/// A folder that no other test has; gone with this.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("cwguest-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A path in it, as text.
    pub(crate) fn join(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// `clearway` with these arguments, not started yet.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clearway"));
        command.args(args).env("CLEARWAY_SOCKET", self.join("host.sock")).stdin(Stdio::null());
        command
    }

    /// Starts a program; what it says goes to a file.
    pub(crate) fn spawn(&self, mut command: Command) -> Process {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let log = self.0.join(format!("log-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        let file = File::create(&log).unwrap();
        let what = format!("{command:?}");
        let child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        Process { child, log, what }
    }

    /// `clearway` with these arguments; it is ready when this returns.
    pub(crate) fn clearway(&self, args: &[&str]) -> Process {
        let process = self.spawn(self.command(args));
        process.await_text(if args[0] == "up" {
            "clearway is ready"
        } else {
            r#""event":"ready""#
        });
        process
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program that runs; it is killed when this goes.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
    what: String,
}

impl Process {
    /// All that it said.
    pub(crate) fn text(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(crate) fn await_text(&self, part: &str) {
        let until = Instant::now() + TIME_LIMIT;
        while !self.text().contains(part) {
            assert!(
                Instant::now() < until,
                "{} never says {part:?}; it says {:?}",
                self.what,
                self.text()
            );
            sleep(Duration::from_millis(5));
        }
    }

    /// Ends it as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The same, while the caller goes on with what it does until the process is gone.
    pub(crate) fn kill_while<T>(&mut self, mut work: impl FnMut() -> T) {
        self.child.kill().unwrap();
        while self.lives() {
            work();
        }
    }

    /// Whether it is still there.
    pub(crate) fn lives(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for its end; how it ended, and the last JSON that it said.
    pub(crate) fn wait(&mut self) -> (ExitStatus, Value) {
        let until = Instant::now() + TIME_LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                let text = self.text();
                let last = text.lines().rev().find_map(|line| serde_json::from_str(line).ok());
                return (status, last.unwrap_or_default());
            }
            assert!(Instant::now() < until, "{} does not end: {}", self.what, self.text());
            sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Ends it as a service manager does; it has to end well. The last JSON that it said.
    pub(crate) fn stop(mut self) -> Value {
        self.signal(Signal::SIGTERM);
        let (status, last) = self.wait();
        assert!(status.success(), "{}: {status}: {}", self.what, self.text());
        last
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} said:\n{}", self.what, self.text());
        }
        self.kill();
    }
}
