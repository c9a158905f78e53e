//! Programs, hosts, and where everything is. What is started here ends with the test, also when
//! that fails.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The programs that say the same over the kernel and over Clearway.
pub(crate) const PROGRAMS: [&str; 12] = [
    "errnos",
    "forks",
    "execs",
    "edges",
    "threads",
    "signals",
    "streams",
    "listeners",
    "numbers",
    "redirected",
    "options",
    "stamps",
];

/// Longer than a host takes to start on a busy machine; only what hangs reaches it.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// One namespace, whose loopback has an address of either family.
const SCRIPT: &str = "\
create loopback interface
set interface state loop0 up
set interface ip address loop0 172.16.1.1/24
set interface ip address loop0 fd00:1::1/64
app ns add id here secret 1234 if loop0
";

/// The folder of this test's executable, where the library lies too.
fn beside() -> PathBuf {
    std::env::current_exe()
        .expect("the test knows where it is")
        .parent()
        .expect("in a folder")
        .to_owned()
}

fn library() -> PathBuf {
    beside().join("libclearway_preload.so")
}

/// The `clearway` command, built when it is not there.
fn clearway() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", "clearway-cli", "--package", "clearway-trap"]);
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        // `cargo xtask ci` builds it with the features of the whole workspace.
        let is_built = std::env::var_os("CLEARWAY_TESTS_BUILT").is_some();
        let builds = is_built || cargo.status().is_ok_and(|status| status.success());
        assert!(builds, "the clearway command does not compile");
        Some(beside().parent()?.join("clearway")).filter(|path| path.exists())
    };
    FOUND.get_or_init(find).as_deref()
}

/// Is all here that the test needs?
pub(crate) fn prepared(host: bool) -> bool {
    let compiler = Command::new("cc")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    let missing = match (compiler, !host || clearway().is_some()) {
        (true, true) => return true,
        (false, _) => "there is no C compiler (cc)",
        (true, false) => "there is no clearway command",
    };
    assert!(std::env::var_os("CI").is_none(), "{missing}, and with CI set nothing may be skipped");
    eprintln!("SKIPPED: {missing}");
    false
}

/// A folder that no other test has, for the length of this process.
fn folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("cwpreload-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).expect("a temporary folder");
    folder
}

/// A C program, compiled.
pub(crate) struct Program {
    folder: PathBuf,
    path: PathBuf,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Compiles a program.
pub(crate) fn build(name: &str) -> Program {
    compile(name, &[])
}

/// The same without a loader, with all of the C library in it.
pub(crate) fn build_static(name: &str) -> Program {
    compile(name, &["-static", "-DSTATIC"])
}

/// The same with a module of its source beside it, which it finds by `module.so` alone.
pub(crate) fn build_with_module(name: &str) -> Program {
    let program = compile(name, &["-Wl,--enable-new-dtags,-rpath,$ORIGIN"]);
    let module = program.folder.join("module.so");
    compile_to(name, &["-shared", "-fPIC", "-DMODULE"], &module);
    program
}

fn compile(name: &str, options: &[&str]) -> Program {
    let folder = folder();
    let path = folder.join(name);
    compile_to(name, options, &path);
    Program { folder, path }
}

fn compile_to(name: &str, options: &[&str], path: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/preload/programs")
        .join(format!("{name}.c"));
    // The programs call functions wrongly on purpose.
    let status = Command::new("cc")
        .args(["-O1", "-w", "-pthread"])
        .args(options)
        .arg("-o")
        .arg(path)
        .arg(source)
        .status()
        .expect("cc runs");
    assert!(status.success(), "{name}.c does not compile");
}

/// What a program said.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    status: String,
}

fn run(command: &mut Command) -> Run {
    let output = command.stdin(Stdio::null()).output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Run {
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
        status: output.status.to_string(),
    }
}

/// Runs a program as it is.
pub(crate) fn plain(program: &Program, addr: &str) -> Run {
    run(Command::new(&program.path).arg(addr))
}

/// Runs a program with the library.
pub(crate) fn preloaded(program: &Program, addr: &str, environment: &[(&str, String)]) -> Run {
    let mut command = Command::new(&program.path);
    command
        .arg(addr)
        .env("LD_PRELOAD", library())
        .env("CLEARWAY_SOCKET", program.folder.join("nobody.sock"));
    command.envs(environment.iter().map(|(name, value)| (*name, OsStr::new(value))));
    run(&mut command)
}

/// Runs a program whose system calls are trapped, as `clearway run --trap` does.
pub(crate) fn trapped(program: &Program, addr: &str, environment: &[(&str, String)]) -> Run {
    let carrier = beside().parent().expect("in a folder").join("clearway-trap");
    let mut command = Command::new(carrier);
    command
        .arg0(&program.path)
        .arg(addr)
        .env("LD_PRELOAD", library())
        .env("CLEARWAY_TRAP_PROGRAM", &program.path);
    command.envs(environment.iter().map(|(name, value)| (*name, OsStr::new(value))));
    run(&mut command)
}

/// Both must have ended well and said the same.
pub(crate) fn compare(what: &str, expected: &Run, found: &Run) {
    let pairs = expected.stdout.lines().zip(found.stdout.lines());
    let mut differences: Vec<String> = pairs
        .enumerate()
        .filter(|(_, (expected, found))| expected != found)
        .map(|(at, (expected, found))| {
            format!("line {}\n  kernel   {expected}\n  Clearway {found}", at + 1)
        })
        .collect();
    let (lines, lines_found) = (expected.stdout.lines().count(), found.stdout.lines().count());
    if lines != lines_found {
        let last = found.stdout.lines().last().unwrap_or_default();
        differences
            .push(format!("{lines} lines expected, {lines_found} found, the last of them: {last}"));
    }
    if expected.status != found.status {
        differences.push(format!(
            "{} expected, found {}: {}",
            expected.status, found.status, found.stderr
        ));
    } else if expected.status != "exit status: 0" {
        // A program that ends early by its alarm compares nothing of what was to come.
        differences.push(format!("both ended by {}: {}", expected.status, expected.stderr));
    }
    assert!(differences.is_empty(), "{what}:\n{}", differences.join("\n"));
}

/// A running host with one namespace.
pub(crate) struct Host {
    folder: PathBuf,
    child: Child,
}

impl Host {
    /// The namespace's addresses.
    pub(crate) const ADDRESSES: [&str; 2] = ["172.16.1.1", "fd00:1::1"];

    pub(crate) fn start() -> Host {
        Host::start_with("")
    }

    /// One whose namespace has more than the others'.
    pub(crate) fn start_with(more: &str) -> Host {
        Host::configured(more, "")
    }

    /// One that has a file with these settings too.
    pub(crate) fn configured(more: &str, settings: &str) -> Host {
        let clearway = clearway().expect("`prepared` saw it");
        let folder = folder();
        let script = folder.join("script");
        fs::write(&script, format!("{SCRIPT}{more}")).expect("the folder is ours");
        let log = fs::File::create(folder.join("log")).expect("the folder is ours");
        let mut command = Command::new(clearway);
        command.args(["up", "--script"]).arg(&script).arg("--socket").arg(folder.join("host.sock"));
        if !settings.is_empty() {
            let config = folder.join("host.toml");
            fs::write(&config, settings).expect("the folder is ours");
            command.arg("-c").arg(config);
        }
        let child = command
            .stdin(Stdio::null())
            .stderr(log.try_clone().expect("a file"))
            .stdout(log)
            .spawn()
            .expect("it starts");
        let host = Host { folder, child };
        host.await_ready(clearway);
        host
    }

    fn await_ready(&self, clearway: &Path) {
        let until = Instant::now() + TIME_LIMIT;
        let ready = || {
            let mut command = Command::new(clearway);
            command
                .args(["ctl", "show app ns"])
                .env("CLEARWAY_SOCKET", self.folder.join("host.sock"))
                .stdin(Stdio::null());
            command.output().is_ok_and(|output| {
                output.status.success() && String::from_utf8_lossy(&output.stdout).contains("here")
            })
        };
        while !ready() {
            let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(Instant::now() < until, "the host is not ready: {log}");
            sleep(Duration::from_millis(50));
        }
    }

    /// What `show tcp stats` says of a counter.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        let mut command = Command::new(clearway().expect("`prepared` saw it"));
        command
            .args(["ctl", "show tcp stats"])
            .env("CLEARWAY_SOCKET", self.folder.join("host.sock"));
        let said = run(&mut command).stdout;
        let mut words = said.split_whitespace().skip_while(|word| *word != name);
        words
            .nth(1)
            .and_then(|count| count.parse().ok())
            .unwrap_or_else(|| panic!("no {name}: {said}"))
    }

    /// What tells a program of the host and the namespace.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let socket = self.folder.join("host.sock").to_string_lossy().into_owned();
        vec![
            ("CLEARWAY_SOCKET", socket),
            ("CLEARWAY_NS", "here".to_owned()),
            ("CLEARWAY_SECRET", "1234".to_owned()),
        ]
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
