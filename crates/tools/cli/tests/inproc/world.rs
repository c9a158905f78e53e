//! A network namespace with a TAP interface, whose kernel side is 10.0.0.1; the program with the
//! stack inside is 10.0.0.2.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::netns::{Netns, or_skip, root};

/// Debian's own: what stands first in somebody's path may be a script that starts another one.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// Longer than anything here takes on a busy machine; only what hangs reaches it.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(300);

pub(crate) struct World {
    pub(crate) netns: Netns,
    pub(crate) folder: PathBuf,
}

/// Builds both libraries once, by themselves: together with the command, the one with the stack
/// would be linked with DPDK.
pub(crate) fn build() {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([
            "build",
            "--quiet",
            "--package",
            "clearway-preload",
            "--package",
            "clearway-inproc",
        ]);
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        // `cargo xtask ci` builds it with the features of the whole workspace.
        let is_built = std::env::var_os("CLEARWAY_TESTS_BUILT").is_some();
        assert!(is_built || cargo.status().unwrap().success(), "building the libraries failed");
    });
}

impl World {
    /// None: this test cannot run here, and has said so.
    pub(crate) fn with(programs: &[&str]) -> Option<World> {
        let is_there = |program: &&str| {
            Command::new("which")
                .arg(program)
                .stdout(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
        };
        if !root()
            || !or_skip(
                programs.iter().all(is_there),
                &format!("one of {programs:?} is not installed"),
            )
        {
            return None;
        }
        build();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("cwinproc-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let netns = Netns::new("cwinproc");
        netns.ip("tuntap add dev cw0 mode tap");
        netns.ip("address add 10.0.0.1/24 dev cw0");
        netns.ip("link set cw0 up");
        Some(World { netns, folder })
    }

    /// A program with the stack inside.
    pub(crate) fn inside(&self, words: &[&str]) -> Command {
        let options = ["run", "--inproc", "--port", "tap:cw0", "-a", "10.0.0.2/24", "--"];
        let args: Vec<&str> = options.iter().chain(words).copied().collect();
        self.netns.command(env!("CARGO_BIN_EXE_clearway"), &args)
    }

    /// A file of the test's own.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Starts a command, its output into a file.
    pub(crate) fn start(&self, mut command: Command, log: &str) -> Running {
        let file = fs::File::create(self.file(log)).unwrap();
        let child = command
            .stdin(Stdio::null())
            .stderr(file.try_clone().unwrap())
            .stdout(file)
            .spawn()
            .unwrap();
        Running { child, log: self.file(log) }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A program that runs until the test ends.
pub(crate) struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits for its end, which has to be a good one; what it said.
    pub(crate) fn end(&mut self) -> String {
        let until = Instant::now() + TIME_LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert!(status.success(), "{status}: {}", self.log());
                return self.log();
            }
            assert!(Instant::now() < until, "it does not end: {}", self.log());
            sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let until = Instant::now() + TIME_LIMIT;
        while !is_so() {
            assert!(Instant::now() < until, "never so: {what}\n{}", self.log());
            sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a command says that has to end well.
pub(crate) fn text(output: &Output) -> String {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}{err}", output.status);
    out.into_owned()
}
