//! `clearway` in processes, a folder for their sockets, and everything gone at the end, also when a
//! test fails.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Longer than anything here takes on a busy machine; only what hangs reaches it.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A folder that no other test has.
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
}

impl Folder {
    pub(crate) fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("cwdpdk-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder { path }
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.path.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Whether DPDK may use huge pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Memory {
    Plain,
    Huge,
}

/// `clearway` with these arguments.
pub(crate) fn clearway(memory: Memory, args: &[&str]) -> Command {
    with_memory(Command::new(env!("CARGO_BIN_EXE_clearway")), memory, args)
}

pub(crate) fn with_memory(mut command: Command, memory: Memory, args: &[&str]) -> Command {
    command.args(args).stdin(Stdio::null());
    match memory {
        Memory::Plain => command.env("CLEARWAY_DPDK_HUGE", "off"),
        Memory::Huge => command.env_remove("CLEARWAY_DPDK_HUGE"),
    };
    command
}

/// A running `clearway`.
pub(crate) struct Running {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    errors: Option<thread::JoinHandle<String>>,
    reader: Option<thread::JoinHandle<()>>,
}

impl Running {
    /// Starts it and waits until it is ready.
    pub(crate) fn start(mut command: Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let reader = {
            let lines = Arc::clone(&lines);
            thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    lines.lock().unwrap().push(line);
                }
            })
        };
        let errors = thread::spawn(move || {
            let mut text = Vec::new();
            let _ = err.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let mut running = Running { child, lines, errors: Some(errors), reader: Some(reader) };
        eventually("clearway is ready", || running.is_ready());
        running
    }

    fn is_ready(&mut self) -> bool {
        if self.events().iter().any(|event| event["event"] == "ready") {
            return true;
        }
        if let Some(status) = self.child.try_wait().unwrap() {
            let said = self.errors.take().map(|errors| errors.join().unwrap());
            panic!(
                "clearway ended with {status} before it was ready: {}",
                said.unwrap_or_default()
            );
        }
        false
    }

    fn events(&self) -> Vec<Value> {
        self.lines
            .lock()
            .unwrap()
            .iter()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Ends it without a chance to clean up.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it as Ctrl-C or a service manager does; the summary, and what it wrote on standard
    /// error.
    pub(crate) fn stop(mut self, signal: Signal) -> (Value, String) {
        kill(self.pid(), signal).unwrap();
        eventually("clearway ends", || self.child.try_wait().unwrap().is_some());
        let status = self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
        let said = self.errors.take().unwrap().join().unwrap();
        let summary = self.events().pop().unwrap_or_default();
        assert_eq!(
            (status.code(), &summary["event"]),
            (Some(0), &Value::from("summary")),
            "{said}"
        );
        (summary, said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.try_wait().ok().flatten().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Asks again and again until it is so.
pub(crate) fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIME_LIMIT;
    while !so() {
        assert!(Instant::now() < deadline, "{what}: not in {TIME_LIMIT:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Runs a command to its end, which has to come in time.
pub(crate) fn finish(mut command: Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_raw(child.id() as i32);
    let (tell, told) = mpsc::channel();
    let reader = thread::spawn(move || tell.send(child.wait_with_output().unwrap()));
    let in_time = told.recv_timeout(TIME_LIMIT);
    if in_time.is_err() {
        // Nobody has waited for it, so the number is still its own.
        let _ = kill(pid, Signal::SIGKILL);
        let output = told.recv().unwrap();
        panic!("{command:?} does not end: {}", text(&output));
    }
    reader.join().unwrap().unwrap();
    in_time.unwrap()
}

/// Both outputs of a program.
pub(crate) fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Sends so many bytes each way over a link whose ends are these two ports, and asserts that what
/// arrives is what was sent.
pub(crate) fn transfer(memory: Memory, client: &str, bytes: &str, extra: &[&str]) -> Value {
    let mut args =
        vec!["bulk", "client", "--port", client, "-a", "10.98.0.2/24", "-s", "10.98.0.1"];
    args.extend(["--bytes", bytes, "--sha256", "--json"]);
    args.extend(extra);
    let output = finish(clearway(memory, &args));
    assert!(output.status.success(), "{}", text(&output));
    let out = String::from_utf8_lossy(&output.stdout);
    let result: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(result["verified"], Value::Bool(true), "{out}");
    result
}

/// A server for [`transfer`], at this port.
pub(crate) fn serve(memory: Memory, port: &str, extra: &[&str]) -> Running {
    let mut args = vec!["bulk", "server", "--port", port, "-a", "10.98.0.1/24", "--json"];
    args.extend(extra);
    Running::start(clearway(memory, &args))
}

/// What DPDK keeps in the file system for a process.
pub(crate) fn dpdk_folder_of(pid: Pid) -> PathBuf {
    Path::new("/var/run/dpdk").join(format!("clearway-{pid}"))
}

/// More huge pages than there were, until the test ends.
pub(crate) struct HugePages {
    before: String,
    // Two tests at a time would each put back a number that is not the system's.
    _alone: MutexGuard<'static, ()>,
}

const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";

/// How often the system is asked, while it makes room between.
const TRIES: usize = 10;

impl HugePages {
    /// None when the system does not give them.
    pub(crate) fn reserve(more: u64) -> Option<HugePages> {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::fs::read_to_string(HUGE_PAGES).ok()?;
        let wanted = before.trim().parse::<u64>().ok()? + more;
        let pages = HugePages { before, _alone: alone };
        for _ in 0..TRIES {
            std::fs::write(HUGE_PAGES, wanted.to_string()).ok()?;
            let got = std::fs::read_to_string(HUGE_PAGES).ok()?.trim().parse::<u64>().ok()?;
            if got >= wanted {
                return Some(pages);
            }
            // A build leaves files in all of the memory, and hardly two megabytes in one piece.
            let _ = std::fs::write("/proc/sys/vm/drop_caches", "1");
            let _ = std::fs::write("/proc/sys/vm/compact_memory", "1");
            thread::sleep(Duration::from_millis(200));
        }
        None
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let _ = std::fs::write(HUGE_PAGES, self.before.trim());
    }
}
