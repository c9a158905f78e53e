//! Two network namespaces with a veth pair between them, and `clearway` in processes.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::netns::Netns;

/// Longer than anything here takes even on a busy machine; only what hangs reaches it.
const TIME_LIMIT: Duration = Duration::from_secs(300);

pub(crate) const CLEARWAY: &str = env!("CARGO_BIN_EXE_clearway");

/// `ours` in one namespace, and in another `theirs` with addresses of the kernel's, whose checksums
/// are left as the kernel leaves them.
pub(crate) struct Pair {
    pub(crate) near: Netns,
    pub(crate) far: Netns,
}

pub(crate) fn pair(queues: usize) -> Pair {
    let (near, far) = (Netns::new("cwxdp"), Netns::new("cwxdp"));
    let count = format!("numrxqueues {queues} numtxqueues {queues}");
    near.ip(&format!(
        "link add ours {count} type veth peer name theirs {count} netns {}",
        far.name
    ));
    near.ip("link set ours addrgenmode none");
    far.ip("addr add 10.97.0.1/24 dev theirs");
    far.ip("addr add fd97::1/64 dev theirs nodad");
    far.ip("link set theirs up");
    Pair { near, far }
}

impl Pair {
    /// Whether a program hangs on our end.
    pub(crate) fn has_program(&self) -> bool {
        self.near.text("ip", &["link", "show", "dev", "ours"]).contains("prog/xdp")
    }

    /// A command in our namespace with `--json`, that is ready.
    pub(crate) fn start(&self, words: &str) -> Running {
        self.start_by(&[], words)
    }

    /// The same with a program before it that starts it.
    pub(crate) fn start_by(&self, before: &[&str], words: &str) -> Running {
        let args: Vec<&str> =
            before.iter().copied().chain([CLEARWAY]).chain(words.split(' ')).collect();
        let mut running = Running::start(self.near.command(args[0], &args[1..]).arg("--json"));
        running.wait_ready();
        running
    }

    /// A command of the other end, to its end; what it said.
    pub(crate) fn by_linux(&self, words: &str) -> String {
        let words: Vec<&str> = words.split(' ').collect();
        self.far.text(words[0], &words[1..])
    }
}

/// A running `clearway`, whose events are kept.
pub(crate) struct Running {
    child: Child,
    events: Arc<Mutex<Vec<Value>>>,
    readers: Option<(thread::JoinHandle<()>, thread::JoinHandle<String>)>,
}

impl Running {
    fn start(command: &mut Command) -> Running {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let events: Arc<Mutex<Vec<Value>>> = Arc::default();
        let kept = Arc::clone(&events);
        let reader = thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                kept.lock().unwrap().extend(serde_json::from_str::<Value>(&line).ok());
            }
        });
        let errors = thread::spawn(move || {
            let mut text = String::new();
            let _ = err.read_to_string(&mut text);
            text
        });
        Running { child, events, readers: Some((reader, errors)) }
    }

    fn wait_ready(&mut self) {
        eventually("clearway is ready", || {
            let ready = self.events.lock().unwrap().iter().any(|event| event["event"] == "ready");
            if let (false, Some(status)) = (ready, self.child.try_wait().unwrap()) {
                let said = self.readers.take().map(|(_, errors)| errors.join().unwrap());
                panic!("it ended with {status} before it was ready: {}", said.unwrap_or_default());
            }
            ready
        });
    }

    /// Its last event, after it was told to end.
    pub(crate) fn stop(mut self) -> Value {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM).unwrap();
        eventually("clearway ends", || self.child.try_wait().unwrap().is_some());
        let (reader, errors) = self.readers.take().unwrap();
        reader.join().unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{}", errors.join().unwrap());
        self.events.lock().unwrap().pop().unwrap_or_default()
    }

    /// Ends it without a chance to clean up.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it has ended by itself; what it said on standard error.
    pub(crate) fn failed(mut self) -> String {
        eventually("clearway ends", || self.child.try_wait().unwrap().is_some());
        assert_eq!(self.child.wait().unwrap().code(), Some(1));
        self.readers.take().unwrap().1.join().unwrap()
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

pub(crate) fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIME_LIMIT;
    while !so() {
        assert!(Instant::now() < deadline, "{what}: not in {TIME_LIMIT:?}");
        thread::sleep(Duration::from_millis(5));
    }
}
