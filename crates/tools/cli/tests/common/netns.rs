//! Network namespaces that tests make and remove themselves, also when a test fails; and what a
//! test says that cannot run here.

use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

#[path = "skip.rs"]
mod skip;

pub(crate) use skip::or_skip;

/// Whether we are root; every test that makes a namespace begins with this, and ends there when it
/// is false.
pub(crate) fn root() -> bool {
    // Our own folder of the kernel's belongs to the user that we are.
    let uid = std::fs::metadata("/proc/self").unwrap().uid();
    or_skip(uid == 0, "making a network namespace needs root. Run these tests as root.")
}

/// A network namespace of the test's own, its loopback up.
pub(crate) struct Netns {
    pub(crate) name: String,
}

impl Netns {
    /// `kind` begins its name, which no other test and no other run has.
    pub(crate) fn new(kind: &str) -> Netns {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("{kind}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
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
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
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
    assert!(
        output.status.success(),
        "{program} {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
