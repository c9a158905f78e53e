//! `clearway` in processes, and two TAP devices on a bridge.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::netns::Netns;

/// Longer than anything here takes on a busy machine; only what hangs reaches it.
const TIME_LIMIT: Duration = Duration::from_secs(60);

pub(crate) const CLEARWAY: &str = env!("CARGO_BIN_EXE_clearway");

/// A namespace with a bridge and the TAP devices `near` and `far` on it.
pub(crate) fn bridged() -> Netns {
    let netns = Netns::new("cwframes");
    netns.ip("link add bridge type bridge mcast_snooping 0");
    netns.ip("link set bridge up");
    for name in ["near", "far"] {
        netns.ip(&format!("tuntap add dev {name} mode tap multi_queue"));
        netns.ip(&format!("link set {name} master bridge up txqueuelen 10000"));
    }
    netns
}

/// What a `clearway` said and how it ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) events: Vec<Value>,
    pub(crate) errors: String,
}

impl Ended {
    /// The events of this kind.
    pub(crate) fn all(&self, kind: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| event["event"] == kind).collect()
    }

    /// The last event, when it ended well.
    pub(crate) fn summary(&self) -> &Value {
        let last = self.events.last().unwrap_or(&Value::Null);
        assert_eq!(
            (self.code, &last["event"]),
            (Some(0), &Value::from("summary")),
            "{}",
            self.errors
        );
        last
    }
}

/// A running `clearway`.
pub(crate) struct Running {
    child: Child,
    events: Arc<Mutex<Vec<Value>>>,
    readers: Option<(thread::JoinHandle<()>, thread::JoinHandle<String>)>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Running {
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

    /// Waits for an event of this kind.
    pub(crate) fn wait_for(&mut self, kind: &str) {
        eventually(kind, || {
            let over = self.child.try_wait().unwrap().is_some();
            let so = self.events.lock().unwrap().iter().any(|event| event["event"] == kind);
            assert!(so || !over, "clearway ended before `{kind}`");
            so
        });
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        eventually("clearway ends", || self.child.try_wait().unwrap().is_some());
        let code = self.child.wait().unwrap().code();
        let (reader, errors) = self.readers.take().unwrap();
        reader.join().unwrap();
        let events = std::mem::take(&mut *self.events.lock().unwrap());
        Ended { code, events, errors: errors.join().unwrap() }
    }

    /// Ends it as Ctrl-C or a service manager does.
    pub(crate) fn stop(self, signal: Signal) -> Ended {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
        self.end()
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

fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIME_LIMIT;
    while !so() {
        assert!(Instant::now() < deadline, "{what}: not in {TIME_LIMIT:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// `clearway` with these words, outside of any namespace, to its end.
pub(crate) fn clearway(words: &str) -> Ended {
    let mut command = Command::new(CLEARWAY);
    command.args(words.split(' '));
    Running::start(command).end()
}

/// `clearway` with these words and `--json` in a namespace.
pub(crate) fn start_in(netns: &Netns, words: &str) -> Running {
    let args: Vec<&str> = words.split(' ').chain(["--json"]).collect();
    Running::start(netns.command(CLEARWAY, &args))
}

/// A reflector that is ready.
pub(crate) fn reflector(netns: &Netns, words: &str) -> Running {
    let mut running = start_in(netns, &format!("reflect --port tap:far{words}"));
    running.wait_for("ready");
    running
}

/// A number in an event.
pub(crate) fn number(event: &Value, key: &str) -> u64 {
    event[key].as_u64().unwrap_or_else(|| panic!("no number `{key}` in {event}"))
}
