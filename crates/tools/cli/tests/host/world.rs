//! A host with two namespaces that are joined as in the documents' loopback chapter, and everything
//! gone at the end, also when a test fails.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::netns::Netns;
use crate::preload;

/// The address of the namespace `server`; that of the namespace `client` is 172.16.2.1.
pub(crate) const SERVER: &str = "172.16.1.1";
/// The same in IPv6.
pub(crate) const SERVER_V6: &str = "fd00:1::1";
pub(crate) const CLIENT_V6: &str = "fd00:2::1";

/// Longer than anything here takes on a busy machine; only what hangs reaches it.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(300);

/// The commands of the chapter, as written there.
pub(crate) const CHAPTER: &[&str] = &[
    "create loopback interface",
    "set interface state loop0 up",
    "create loopback interface",
    "set interface state loop1 up",
    "ip table add 1",
    "set interface ip table loop0 1",
    "ip table add 2",
    "set interface ip table loop1 2",
    "set interface ip address loop0 172.16.1.1/24",
    "set interface ip address loop1 172.16.2.1/24",
    "app ns add id server secret 1234 if loop0",
    "app ns add id client secret 5678 if loop1",
    "ip route add 172.16.1.1/32 table 2 via lookup in table 1",
    "ip route add 172.16.2.1/32 table 1 via lookup in table 2",
];

/// The same for IPv6.
const CHAPTER_V6: &[&str] = &[
    "set interface ip address loop0 fd00:1::1/64",
    "set interface ip address loop1 fd00:2::1/64",
    "ip route add fd00:1::1/128 table 2 via lookup in table 1",
    "ip route add fd00:2::1/128 table 1 via lookup in table 2",
];

/// A namespace with its secret.
#[derive(Clone, Copy)]
pub(crate) struct Namespace {
    pub(crate) id: &'static str,
    pub(crate) secret: &'static str,
}

pub(crate) const IN_SERVER: Namespace = Namespace { id: "server", secret: "1234" };
pub(crate) const IN_CLIENT: Namespace = Namespace { id: "client", secret: "5678" };

/// A running host.
pub(crate) struct Host {
    pub(crate) folder: Folder,
    child: Child,
}

/// A folder that no other test has; gone with this.
pub(crate) struct Folder(PathBuf);

impl Deref for Folder {
    type Target = PathBuf;

    fn deref(&self) -> &PathBuf {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Makes one.
pub(crate) fn folder() -> Folder {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("cwhost-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).unwrap();
    Folder(folder)
}

impl Host {
    /// A host whose devices are in a network namespace, with these options of `clearway up` and
    /// these commands to begin with.
    pub(crate) fn inside(netns: &Netns, options: &[&str], commands: &[&str]) -> Host {
        let folder = folder();
        let script = folder.join("script");
        fs::write(&script, commands.join("\n")).unwrap();
        let args = [&["up", "--script", script.to_str().unwrap()], options].concat();
        let command = netns.command(env!("CARGO_BIN_EXE_clearway"), &args);
        let child = start_as(command, &folder);
        let host = Host { folder, child };
        host.await_ready();
        host
    }

    /// A host without anything in it.
    pub(crate) fn bare(options: &[&str]) -> Host {
        let host = Host::without_waiting(options);
        host.await_ready();
        host
    }

    /// The same, when it may not be ready yet.
    pub(crate) fn without_waiting(options: &[&str]) -> Host {
        let folder = folder();
        let child = start(&folder, options);
        Host { folder, child }
    }

    /// A host with the two namespaces, IPv4 and IPv6.
    pub(crate) fn new() -> Host {
        Host::with(&[], &[])
    }

    /// The same with options of `clearway up`, and commands that come after those of the chapter.
    pub(crate) fn with(options: &[&str], commands: &[&str]) -> Host {
        let folder = folder();
        let script = folder.join("script");
        let lines: Vec<&str> = CHAPTER.iter().chain(CHAPTER_V6).chain(commands).copied().collect();
        fs::write(&script, lines.join("\n")).unwrap();
        let mut all = vec!["--script", script.to_str().unwrap()];
        all.extend(options);
        let child = start(&folder, &all);
        let host = Host { folder, child };
        host.await_ready();
        host
    }

    pub(crate) fn await_ready(&self) {
        eventually("the host is ready", || self.try_ctl(&["show", "version"]).status.success());
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("host.sock")
    }

    /// Runs one command of the command language.
    pub(crate) fn try_ctl(&self, words: &[&str]) -> Output {
        self.clearway("ctl").args(words).stdin(Stdio::null()).output().unwrap()
    }

    /// The same, when it has to succeed; its output.
    pub(crate) fn ctl(&self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        text(&format!("clearway ctl {line}"), &self.try_ctl(&words))
    }

    /// The same as JSON.
    pub(crate) fn json(&self, line: &str) -> Value {
        let mut words = vec!["--json"];
        words.extend(line.split(' '));
        let out = text(&format!("clearway ctl --json {line}"), &self.try_ctl(&words));
        let value =
            serde_json::from_str(&out).unwrap_or_else(|error| panic!("{line}: {error}: {out}"));
        crate::json::hold_shown(line, &value);
        value
    }

    pub(crate) fn clearway(&self, subcommand: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clearway"));
        command.arg(subcommand).env("CLEARWAY_SOCKET", self.socket());
        command
    }

    /// A program in a namespace, not started yet.
    pub(crate) fn command(&self, namespace: Namespace, program: &str, args: &[&str]) -> Command {
        self.command_with(&[], namespace, program, args)
    }

    /// The same with options of `clearway run`.
    pub(crate) fn command_with(
        &self,
        options: &[&str],
        namespace: Namespace,
        program: &str,
        args: &[&str],
    ) -> Command {
        preload::build();
        let mut command = self.clearway("run");
        command
            .args(options)
            .args(["--ns", namespace.id, "--secret", namespace.secret, "--", program])
            .args(args);
        command.stdin(Stdio::null());
        command
    }

    /// Starts a program in a namespace; its output goes to a file.
    pub(crate) fn spawn(&self, namespace: Namespace, program: &str, args: &[&str]) -> Running {
        self.spawn_with(&[], namespace, program, args)
    }

    /// The same with options of `clearway run`.
    pub(crate) fn spawn_with(
        &self,
        options: &[&str],
        namespace: Namespace,
        program: &str,
        args: &[&str],
    ) -> Running {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let log = self.folder.join(format!("log-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        let file = fs::File::create(&log).unwrap();
        let mut command = self.command_with(options, namespace, program, args);
        let child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        Running { child, log, what: format!("{program} {args:?}") }
    }

    /// Runs a program in a namespace to its end; it has to succeed; its standard output.
    pub(crate) fn run(&self, namespace: Namespace, program: &str, args: &[&str]) -> String {
        let mut running = self.spawn(namespace, program, args);
        running.succeed()
    }

    /// An iperf3 server for one test.
    pub(crate) fn iperf_server(&self, more: &[&str]) -> Running {
        let mut args = vec!["-s", "-1", "--forceflush"];
        args.extend(more);
        let server = self.spawn(IN_SERVER, "iperf3", &args);
        server.await_text("Server listening");
        server
    }

    /// Runs an iperf3 client against a server for one test; its report.
    pub(crate) fn iperf(&self, args: &[&str]) -> Value {
        let mut server = self.iperf_server(&[]);
        let mut all = vec!["-J"];
        if !args.contains(&"-c") {
            all.extend(["-c", SERVER]);
        }
        all.extend(args);
        let out = self.run(IN_CLIENT, "iperf3", &all);
        server.succeed();
        report(&out)
    }

    /// Waits until no program is attached, no session is left and no memory is taken.
    pub(crate) fn await_empty(&self) {
        let empty = || {
            let sessions = self.json("show session verbose");
            let segments = self.json("show segments");
            let apps = self.json("show app");
            [&sessions["sessions"], &segments["segments"], &apps["apps"]].iter().all(|list| {
                list.as_array().unwrap_or_else(|| panic!("{sessions} {segments} {apps}")).is_empty()
            })
        };
        eventually("no program, session and segment is left", empty);
    }

    /// Kills the host as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts a host again in the same place, with the two namespaces.
    pub(crate) fn start_again(&mut self) {
        let script = self.folder.join("script");
        self.child = start(&self.folder, &["--script", script.to_str().unwrap()]);
        self.await_ready();
    }

    /// Ends the host as Ctrl-C does; it has to end well.
    pub(crate) fn stop(mut self) {
        kill(Pid::from_raw(self.pid()), Signal::SIGINT).unwrap();
        let ended = wait(&mut self.child).expect("the host does not end");
        assert!(ended.success(), "{ended}: {}", self.log());
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("up.log")).unwrap_or_default()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("what the host said:\n{}", self.log());
        }
        self.kill();
    }
}

fn start(folder: &Path, options: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_clearway"));
    command.arg("up").args(options);
    start_as(command, folder)
}

fn start_as(mut command: Command, folder: &Path) -> Child {
    let log = fs::File::options().create(true).append(true).open(folder.join("up.log")).unwrap();
    command
        .env("CLEARWAY_SOCKET", folder.join("host.sock"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// A program that runs; it is killed when this goes.
pub(crate) struct Running {
    pub(crate) child: Child,
    log: PathBuf,
    what: String,
}

impl Running {
    pub(crate) fn text(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(crate) fn await_text(&self, part: &str) {
        eventually(&format!("{} says {part:?}; it says {:?}", self.what, self.text()), || {
            self.text().contains(part)
        });
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for its end, however it ends; false when it goes on.
    pub(crate) fn ends(&mut self) -> bool {
        wait(&mut self.child).is_some()
    }

    /// Waits for its end, which has to be a success; all that it said.
    pub(crate) fn succeed(&mut self) -> String {
        let ended = wait(&mut self.child);
        let text = self.text();
        match ended {
            Some(status) => assert!(status.success(), "{}: {status}: {text}", self.what),
            None => panic!("{} does not end: {text}", self.what),
        }
        text
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

fn wait(child: &mut Child) -> Option<std::process::ExitStatus> {
    let until = Instant::now() + TIME_LIMIT;
    while Instant::now() < until {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        sleep(Duration::from_millis(5));
    }
    None
}

/// What iperf3 says with `-J`.
pub(crate) fn report(said: &str) -> Value {
    // A warning may stand before the report.
    let json = said.find('{').map_or(said, |at| &said[at..]);
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// Waits until it is so.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + TIME_LIMIT;
    while !is_so() {
        assert!(Instant::now() < until, "this never came true: {what}");
        sleep(Duration::from_millis(20));
    }
}

/// Whether `address` answers a ping from `netns`. That asked too early finds nobody, and says so
/// for seconds: it is to be asked again ([`eventually`]).
pub(crate) fn answers(netns: &Netns, address: &str) -> bool {
    netns.run("ping", &["-c", "1", "-W", "5", address]).status.success()
}

fn text(what: &str, output: &Output) -> String {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{what}: {}\n{out}{err}", output.status);
    out.into_owned()
}

/// How often a thing is done that the full run does 100 times: `HOST_ROUNDS` says it, 5 otherwise.
pub(crate) fn rounds() -> u32 {
    std::env::var("HOST_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5)
}
