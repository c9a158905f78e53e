//! `clearway up`, `ctl` and `run` as a user meets them, with no program attached.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Only what hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder that no other test has; gone with this.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("cwup-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn clearway(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clearway"));
        command.args(args).env("CLEARWAY_SOCKET", self.0.join("host.sock")).current_dir(&self.0).stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.clearway(args).output().unwrap()
    }

    /// A command that has to end with this code; what it said on standard output, and on standard error.
    fn ends(&self, code: i32, args: &[&str]) -> (String, String) {
        let output = self.run(args);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{args:?}: {out}{err}");
        (out, err)
    }

    /// Starts a host and waits until it says that it is ready.
    fn up(&self, args: &[&str]) -> Up {
        let mut child =
            self.clearway(&[&["up"], args].concat()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let up = Up(child);
        assert!(line.starts_with("clearway is ready: "), "{line}");
        up
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running host; killed with this.
struct Up(Child);

impl Up {
    /// Waits for its end.
    fn code(&mut self) -> Option<i32> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the host does not end");
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn sockets(folder: &Path) -> usize {
    ["host.sock", "host.ctl"].iter().filter(|name| folder.join(name).exists()).count()
}

#[test]
fn a_host_says_when_it_is_ready_and_a_signal_ends_it_with_nothing_left() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let folder = Folder::new();
        let mut up = folder.up(&[]);
        assert_eq!(sockets(&folder.0), 2);
        up.signal(signal);
        assert_eq!(up.code(), Some(0));
        assert_eq!(sockets(&folder.0), 0);
    }
}

#[test]
fn one_shot_commands_end_with_the_code_that_they_deserve() {
    let folder = Folder::new();
    let mut up = folder.up(&[]);
    assert!(folder.ends(0, &["ctl", "show", "version"]).0.starts_with("clearway "));
    assert_eq!(folder.ends(0, &["ctl", "create", "loopback", "interface"]).0, "loop0\n");
    let (_, err) = folder.ends(2, &["ctl", "set", "interface", "stat3", "loop0", "up"]);
    assert!(err.contains("Did you mean `state`?") && err.contains("^^^^^"), "{err}");
    let (_, err) = folder.ends(1, &["ctl", "set", "interface", "state", "loop9", "up"]);
    assert!(err.contains("there is no interface `loop9`"), "{err}");
    for args in
        [&["ctl", "--json", "show", "interface"][..], &["ctl", "show", "interface", "--json"], &["explain", "--json"]]
    {
        let (out, _) = folder.ends(0, args);
        assert!(serde_json::from_str::<serde_json::Value>(&out).unwrap().is_object(), "{out}");
    }
    let socket = folder.0.join("host.sock");
    folder.ends(0, &["ctl", "--socket", socket.to_str().unwrap(), "show interface"]);
    folder.ends(0, &["ctl", "stop"]);
    assert_eq!(up.code(), Some(0));
    let (_, err) = folder.ends(1, &["ctl", "show", "version"]);
    assert!(err.contains("no host answers at") && err.contains("clearway up"), "{err}");
}

#[test]
fn from_a_pipe_each_line_is_a_command_until_one_fails() {
    let folder = Folder::new();
    let _up = folder.up(&[]);
    let mut child =
        folder.clearway(&["ctl"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let script = "create loopback interface\ncomment {\nnothing of this\n}\ncreate loopback interface\nno such\ncreate loopback interface\n";
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("loop0\nloop1\n", Some(2)));
    assert!(folder.ends(1, &["ctl", "show", "interface", "loop2"]).1.contains("no interface"));
}

#[test]
fn a_live_host_is_left_alone_and_the_sockets_of_a_dead_one_are_replaced() {
    let folder = Folder::new();
    let mut up = folder.up(&[]);
    let (_, err) = folder.ends(1, &["up"]);
    assert!(err.contains("a host is running at"), "{err}");
    folder.ends(0, &["ctl", "show", "version"]);
    up.0.kill().unwrap();
    up.code();
    assert_eq!(sockets(&folder.0), 2, "what a killed host leaves");
    let _up = folder.up(&[]);
    folder.ends(0, &["ctl", "show", "version"]);
}

#[test]
fn a_control_socket_that_another_holds_ends_the_host() {
    let folder = Folder::new();
    let _other = UnixListener::bind(folder.0.join("host.ctl")).unwrap();
    let (_, err) = folder.ends(1, &["up"]);
    assert!(err.contains("host.ctl") && err.contains("another host answers there"), "{err}");
    assert!(!folder.0.join("host.sock").exists());
}

#[test]
fn settings_and_scripts_are_carried_out_before_it_is_ready() {
    let folder = Folder::new();
    let settings = folder.file("host.toml", "[[ports]]\nport = \"loop\"\naddresses = [\"10.0.0.1/24\"]\n");
    let script = folder.file("script", "create loopback interface\nset interface ip address loop1 10.1.0.1/24\n");
    let _up =
        folder.up(&["-c", settings.to_str().unwrap(), "--script", script.to_str().unwrap(), "--pcap", "all.pcapng"]);
    assert_eq!(
        folder.ends(0, &["ctl", "show", "int", "addr"]).0,
        "loop0 (up):\n  L3 10.0.0.1/24\nloop1 (dn):\n  L3 10.1.0.1/24\n"
    );
    assert!(folder.ends(0, &["ctl", "pcap", "trace", "off"]).0.contains("all.pcapng"));
}

#[test]
fn wrong_settings_and_scripts_are_told_with_their_line() {
    let folder = Folder::new();
    let settings = folder.file("host.toml", "[cores]\n\nwokers = 1\n");
    let (_, err) = folder.ends(2, &["up", "-c", settings.to_str().unwrap()]);
    assert!(err.contains("host.toml:3: `wokers` is no key of [cores]. Did you mean `workers`?"), "{err}");
    let script = folder.file("script", "create loopback interface\nset interface state loop7 up\n");
    let (_, err) = folder.ends(1, &["up", "--script", script.to_str().unwrap()]);
    assert!(err.contains("script: line 2: there is no interface `loop7`"), "{err}");
    assert_eq!(sockets(&folder.0), 0, "a host that did not begin leaves nothing");
}

#[test]
fn in_the_background_it_answers_when_the_command_is_back() {
    let folder = Folder::new();
    let (out, _) = folder.ends(0, &["up", "--daemon"]);
    assert!(out.starts_with("clearway is ready: ") && out.contains("host.log"), "{out}");
    folder.ends(0, &["ctl", "show", "version"]);
    folder.ends(0, &["ctl", "stop"]);
    let begun = Instant::now();
    while sockets(&folder.0) > 0 {
        assert!(begun.elapsed() < PATIENCE, "the host does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    let (_, err) = folder.ends(1, &["up", "--daemon", "--script", "/no/such/script"]);
    assert!(err.contains("cannot read /no/such/script"), "{err}");
}

#[test]
fn a_program_runs_with_the_library_and_the_words_of_its_namespace() {
    let folder = Folder::new();
    // Any library will do to see what the program is given.
    let library = folder.file("libclearway_preload.so", "");
    let secret = folder.file("secret", "hush\n");
    let args = ["run", "--preload", library.to_str().unwrap(), "--ns", "a", "--secret-file", secret.to_str().unwrap()];
    let (out, _) = folder.ends(0, &[&args[..], &["--required", "--spin", "7", "--cut-through", "--", "env"]].concat());
    for line in
        ["CLEARWAY_NS=a", "CLEARWAY_SECRET=hush", "CLEARWAY_REQUIRED=1", "CLEARWAY_SPIN_US=7", "CLEARWAY_CUT_THROUGH=1"]
    {
        assert!(out.lines().any(|other| other == line), "{line}: {out}");
    }
    assert!(out.contains(&format!("LD_PRELOAD={}", library.display())), "{out}");
    let (_, err) = folder.ends(1, &[&args[..], &["--", "no-such-program"]].concat());
    assert!(err.contains("cannot run no-such-program"), "{err}");
    folder.ends(2, &["run", "--preload", "/no/such.so", "--", "env"]);
    folder.ends(2, &["run"]);
}
