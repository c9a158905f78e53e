//! Network namespaces that tests make and remove themselves, also when a test fails; and what a test says that cannot run here.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// Whether we are root; every test that makes a namespace begins with this, and ends there when it is false.
pub(crate) fn root() -> bool {
    // Our own folder of the kernel's belongs to the user that we are.
    let uid = std::fs::metadata("/proc/self").unwrap().uid();
    or_skip(uid == 0, "making a network namespace needs root. Run these tests as root.")
}

/// A test that did nothing must not look as if it had held. So this says so where the harness does not swallow it, and with `CI` set,
/// where somebody relies on the tests having run, it is a failure.
pub(crate) fn or_skip(can_run: bool, why_not: &str) -> bool {
    if !can_run {
        let name = thread::current().name().unwrap_or("a test").to_string();
        assert!(!in_ci(), "{name} cannot run, and with CI set it may not be skipped: {why_not}");
        // Not `eprintln!`: the harness keeps that to itself when a test ends well.
        let _ = writeln!(std::io::stderr(), "SKIPPED {name}: {why_not}");
    }
    can_run
}

/// Whether `CI` is set, as every service that builds for others sets it; `CI=` and `CI=false` are the same as without.
fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|ci| !ci.is_empty() && ci != "false")
}

/// A network namespace of the test's own, its loopback up.
pub(crate) struct Netns {
    pub(crate) name: String,
}

impl Netns {
    /// `kind` begins its name, which no other test and no other run has.
    pub(crate) fn new(kind: &str) -> Netns {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{kind}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        run("ip", &["netns", "add", &name]);
        let netns = Netns { name };
        netns.ip("link set lo up");
        netns
    }

    /// `ip` with these words, in the namespace.
    pub(crate) fn ip(&self, words: &str) {
        let mut args = vec!["-n", &self.name];
        args.extend(words.split(' '));
        run("ip", &args);
    }

    /// A command that runs in the namespace.
    pub(crate) fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]).args(args);
        command
    }

    /// Runs a program in the namespace to its end.
    pub(crate) fn run(&self, program: &str, args: &[&str]) -> Output {
        self.command(program, args).stdin(Stdio::null()).output().unwrap()
    }

    /// The same, when it has to succeed; its output.
    pub(crate) fn text(&self, program: &str, args: &[&str]) -> String {
        let output = self.run(program, args);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{program} {args:?}: {}\n{out}{err}", output.status);
        out.into_owned()
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

fn run(program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}
