#![allow(dead_code, reason = "not every test program uses all of it")]

//! Building C programs against the library, running them under valgrind, and a namespace with a TAP
//! device for them.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Where this test program's libraries and the programs that it makes lie.
fn beside() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    // The test programs lie in `deps`.
    exe.parent().and_then(Path::parent).unwrap().to_path_buf()
}

/// Builds the library once: cargo builds none for the tests of a package that has no Rust library.
fn library() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let path = BUILT.get_or_init(|| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--offline", "--package", "clearway-capi", "--lib"]);
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        // By itself always: with the features of the whole workspace it would hold DPDK's port, and
        // the program would have to be linked with DPDK.
        assert!(cargo.status().unwrap().success(), "building libclearway failed");
        beside().join("libclearway.a")
    });
    path.clone()
}

/// The shared one beside it.
pub(crate) fn shared_library() -> PathBuf {
    library().with_extension("so")
}

/// The compiler, as strict as it can be.
pub(crate) fn compiler(source: &Path, program: &Path) -> Command {
    let mut gcc = Command::new("gcc");
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    gcc.args(["-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"]).arg(home);
    gcc.arg(source).arg("-o").arg(program);
    gcc
}

/// A file that was made for one test, and goes with it.
pub(crate) struct Made(PathBuf);

impl Made {
    /// One that no other test has.
    pub(crate) fn new(name: &str) -> Made {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("{name}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Made(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name))
    }
}

impl std::ops::Deref for Made {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // It may not have come to be.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A program out of `examples`, linked with the library.
pub(crate) fn build(example: &str) -> Made {
    build_with(example, &[])
}

/// The same, linked with these libraries as well.
pub(crate) fn build_with(example: &str, libraries: &[&str]) -> Made {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(example);
    let program = Made::new("capi");
    let mut gcc = compiler(&source, &program);
    gcc.arg(library()).args(libraries).args(["-lpthread", "-ldl", "-lm"]);
    let output = gcc.output().expect("gcc cannot be started; `make setup` installs it");
    assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
    program
}

/// The same, linked with the shared library, which it then finds by itself.
pub(crate) fn build_shared(example: &str) -> Made {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(example);
    let (program, folder) = (Made::new("capi-shared"), library());
    let folder = folder.parent().unwrap_or(Path::new("."));
    let mut gcc = compiler(&source, &program);
    gcc.arg("-L").arg(folder).arg("-Wl,-Bdynamic").arg("-l:libclearway.so");
    let output = gcc.arg(format!("-Wl,-rpath,{}", folder.display())).output().unwrap();
    assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
    program
}

/// The library without an operating system, built once.
pub(crate) fn bare_library() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let path = BUILT.get_or_init(|| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([
            "rustc",
            "--quiet",
            "--offline",
            "--package",
            "clearway-capi",
            "--lib",
            "--no-default-features",
        ]);
        cargo.args(["--profile", "bare", "--crate-type", "staticlib"]);
        assert!(cargo.status().unwrap().success(), "building the bare libclearway failed");
        beside().with_file_name("bare").join("libclearway.a")
    });
    path.clone()
}

/// The functions that the header declares for the bare layer.
pub(crate) fn interface() -> Vec<String> {
    let header =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("clearway.h")).unwrap();
    let mut names = Vec::new();
    for line in header.lines().filter(|line| !line.starts_with([' ', '/', '*', '#', '}'])) {
        let Some((before, _)) = line.split_once('(') else { continue };
        let name = before.rsplit([' ', '*']).next().unwrap_or_default();
        if name.starts_with("clw_") && !name.starts_with("clw_host_") {
            names.push(name.to_owned());
        }
    }
    names
}

/// A program out of `examples` that has no C library.
pub(crate) fn build_alone(example: &str) -> Made {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(example);
    let program = Made::new("capi-alone");
    let mut gcc = compiler(&source, &program);
    gcc.args([
        "-ffreestanding",
        "-nostdlib",
        "-static",
        "-fno-stack-protector",
        "-fno-tree-loop-distribute-patterns",
    ]);
    let output =
        gcc.arg(bare_library()).output().expect("gcc cannot be started; `make setup` installs it");
    assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
    program
}

/// How valgrind is called: any error and any leak makes it end with 99.
const VALGRIND: &[&str] = &[
    "--quiet",
    "--error-exitcode=99",
    "--leak-check=full",
    "--show-leak-kinds=all",
    "--errors-for-leak-kinds=all",
];

/// Runs a program under valgrind; what it said. It must end well, without an error and without a
/// leak.
pub(crate) fn valgrind(program: &Path, args: &[&str]) -> String {
    let mut command = Command::new("valgrind");
    let output = command.args(VALGRIND).arg(program).args(args).output();
    let output = output.expect("valgrind cannot be started; `make setup` installs it");
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && err.is_empty(),
        "{}: {}\n{out}{err}",
        program.display(),
        output.status
    );
    out.into_owned()
}

/// What this machine lets us do.
pub(crate) mod have {
    use std::io::Write as _;
    use std::os::unix::fs::MetadataExt as _;

    /// Whether we are root. A test that cannot run says so, and with `CI` set it fails.
    pub(crate) fn root() -> bool {
        let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
        if !is_root {
            let name = std::thread::current().name().unwrap_or("a test").to_string();
            let in_ci = std::env::var("CI").is_ok_and(|ci| !ci.is_empty() && ci != "false");
            assert!(!in_ci, "{name} needs root, and with CI set it may not be skipped");
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED {name}: making a network namespace needs root"
            );
        }
        is_root
    }
}

/// A namespace with a TAP device on which the kernel has addresses; it goes when this does.
pub(crate) struct Tap {
    name: String,
}

/// A server that runs in the namespace, under valgrind.
pub(crate) struct Server {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Tap {
    pub(crate) const OURS: [&str; 2] = ["10.98.0.2", "fd98::2"];

    pub(crate) fn new() -> Tap {
        // Tests of one process run beside each other.
        static TAPS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = TAPS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let tap = Tap { name: format!("cw{number}-{}", std::process::id()) };
        ip(&["netns", "add", &tap.name]);
        for line in [
            "link set lo up",
            "tuntap add dev cw0 mode tap",
            "addr add 10.98.0.1/24 dev cw0",
            "addr add fd98::1/64 dev cw0 nodad",
            "link set cw0 up",
        ] {
            let mut args = vec!["-n", &tap.name];
            args.extend(line.split(' '));
            ip(&args);
        }
        tap
    }

    /// The name of the namespace.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Runs `work` in a thread that lives in the namespace.
    pub(crate) fn inside(&self, work: impl FnOnce() + Send) {
        let file = std::fs::File::open(format!("/run/netns/{}", self.name)).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                setns(file, CloneFlags::CLONE_NEWNET).unwrap();
                work();
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    }

    /// The echo server with both addresses; it is ready when this returns.
    pub(crate) fn serve(&self, program: &Path) -> Server {
        self.serve_with(program, &[])
    }

    /// The same, for a program that takes something before its port.
    pub(crate) fn serve_with(&self, program: &Path, first: &[&Path]) -> Server {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.name, "valgrind"])
            .args(VALGRIND)
            .arg(program)
            .args(first)
            .arg("tap:cw0");
        command.args(
            Tap::OURS.map(|addr| format!("{addr}/{}", if addr.contains(':') { 64 } else { 24 })),
        );
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut server = Server { said: BufReader::new(child.stdout.take().unwrap()), child };
        let mut line = String::new();
        server.said.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        server
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

impl Server {
    /// Tells it to stop; what it said. It must end well, without an error and without a leak.
    pub(crate) fn stop(mut self) -> String {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM).unwrap();
        let (mut out, mut err) = (String::new(), String::new());
        self.said.read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success() && err.is_empty(), "the server: {status}\n{out}{err}");
        out
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended already where the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ip(args: &[&str]) {
    let output = Command::new("ip")
        .args(args)
        .output()
        .expect("ip cannot be started; `make setup` installs it");
    assert!(output.status.success(), "ip {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}
