//! `clearway up`, `ctl` and `run` as a user meets them, with no program attached.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::executable::executable;
use clearway_shm::attach_socket::{Hello, Kind, Reply, Request, Secret, SocketOptions, VERSION};
use clearway_shm::socket;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

#[path = "common/executable.rs"]
mod executable;
#[path = "common/skip.rs"]
mod skip;

/// Only what hangs takes so long.
const TIME_LIMIT: Duration = Duration::from_secs(60);

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
        command
            .args(args)
            .env("CLEARWAY_SOCKET", self.0.join("host.sock"))
            .current_dir(&self.0)
            .stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.clearway(args).output().unwrap()
    }

    /// A command that has to end with this code; what it said on standard output, and on standard
    /// error.
    fn ends(&self, code: i32, args: &[&str]) -> (String, String) {
        let output = self.run(args);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{args:?}: {out}{err}");
        (out, err)
    }

    /// Starts a host and waits until it says that it is ready.
    fn up(&self, args: &[&str]) -> Up {
        let mut child = self
            .clearway(&[&["up"], args].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
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
        while begun.elapsed() < TIME_LIMIT {
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

/// What the service manager at the other end hears next.
fn heard(manager: &UnixDatagram) -> String {
    let mut words = [0; 1024];
    let n = manager.recv(&mut words).expect("the host says something");
    text(&words[..n])
}

#[test]
fn a_service_manager_is_told_of_readiness_reloads_life_and_the_end() {
    let folder = Folder::new();
    let place = folder.0.join("notify");
    let manager = UnixDatagram::bind(&place).unwrap();
    manager.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    let child = folder
        .clearway(&["up"])
        .env("NOTIFY_SOCKET", &place)
        .env("WATCHDOG_USEC", "200000")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut up = Up(child);
    let ready = heard(&manager);
    assert!(ready.starts_with("READY=1\nSTATUS=1 worker, programs at "), "{ready}");
    // It lives, and goes on saying so.
    for _ in 0..3 {
        assert_eq!(heard(&manager).trim(), "WATCHDOG=1");
    }
    up.signal(Signal::SIGHUP);
    let mut said = heard(&manager);
    while said.starts_with("WATCHDOG=1") {
        said = heard(&manager);
    }
    assert!(said.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{said}");
    assert!(heard(&manager).starts_with("READY=1\n"));
    let next = || {
        let mut said = heard(&manager);
        while said.starts_with("WATCHDOG=1") {
            said = heard(&manager);
        }
        said.trim().to_owned()
    };
    folder.ends(0, &["ctl", "drain", "--no-wait"]);
    assert_eq!(next(), "STATUS=draining: new connections go to other machines");
    folder.ends(0, &["ctl", "undrain"]);
    assert!(next().starts_with("STATUS=1 worker, programs at "));
    up.signal(Signal::SIGTERM);
    assert_eq!(next(), "STOPPING=1");
    assert_eq!(up.code(), Some(0));
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
    for args in [
        &["ctl", "--json", "show", "interface"][..],
        &["ctl", "show", "interface", "--json"],
        &["explain", "--json"],
    ] {
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
    let mut child = folder
        .clearway(&["ctl"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
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
    let settings =
        folder.file("host.toml", "[[ports]]\nport = \"loop\"\naddresses = [\"10.0.0.1/24\"]\n");
    let script = folder
        .file("script", "create loopback interface\nset interface ip address loop1 10.1.0.1/24\n");
    let _up = folder.up(&[
        "-c",
        settings.to_str().unwrap(),
        "--script",
        script.to_str().unwrap(),
        "--pcap",
        "all.pcapng",
    ]);
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
    assert!(
        err.contains("host.toml:3: `wokers` is no key of [cores]. Did you mean `workers`?"),
        "{err}"
    );
    let script = folder.file("script", "create loopback interface\nset interface state loop7 up\n");
    let (_, err) = folder.ends(1, &["up", "--script", script.to_str().unwrap()]);
    assert!(err.contains("script: line 2: there is no interface `loop7`"), "{err}");
    assert_eq!(sockets(&folder.0), 0, "a host that did not begin leaves nothing");
}

#[test]
fn in_the_background_the_log_of_a_users_host_lies_in_the_folder_for_state() {
    if !skip::or_skip(nix::unistd::geteuid().is_root(), "only root maps itself to another user") {
        return;
    }
    let folder = Folder::new();
    let [runtime, state] = ["run", "state"].map(|name| folder.0.join(name));
    // Another user, to itself; the files stay ours.
    let as_user = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-user=1000", "--map-group=1000"])
            .arg(env!("CARGO_BIN_EXE_clearway"))
            .args(args)
            .env_remove("CLEARWAY_SOCKET")
            .env("XDG_RUNTIME_DIR", &runtime)
            .env("XDG_STATE_HOME", &state)
            .stdin(Stdio::null());
        let output = command.output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{args:?}: {said}");
        said
    };
    let said = as_user(&["up", "--daemon"]);
    let log = state.join("clearway/host.log");
    assert!(said.contains(&format!("what it says goes to {}", log.display())), "{said}");
    assert!(fs::read_to_string(&log).unwrap().contains("the host is ready"));
    as_user(&["ctl", "stop"]);
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
        assert!(begun.elapsed() < TIME_LIMIT, "the host does not end");
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
    let args = [
        "run",
        "--preload",
        library.to_str().unwrap(),
        "--ns",
        "a",
        "--secret-file",
        secret.to_str().unwrap(),
    ];
    let (out, _) = folder.ends(
        0,
        &[&args[..], &["--required", "--spin", "7", "--cut-through", "--", "env"]].concat(),
    );
    for line in [
        "CLEARWAY_RUN=1",
        "CLEARWAY_NS=a",
        "CLEARWAY_SECRET=hush",
        "CLEARWAY_REQUIRED=1",
        "CLEARWAY_SPIN_US=7",
        "CLEARWAY_CUT_THROUGH=1",
    ] {
        assert!(out.lines().any(|other| other == line), "{line}: {out}");
    }
    assert!(out.contains(&format!("LD_PRELOAD={}", library.display())), "{out}");
    let (_, err) = folder.ends(1, &[&args[..], &["--", "no-such-program"]].concat());
    assert!(err.contains("cannot run no-such-program"), "{err}");
    folder.ends(2, &["run", "--preload", "/no/such.so", "--", "env"]);
    folder.ends(2, &["run"]);
}

/// A host that may have so many descriptors.
fn up_with_descriptors(folder: &Folder, limit: u32) -> Up {
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "ulimit -n $0 && exec \"$1\" up",
            &limit.to_string(),
            env!("CARGO_BIN_EXE_clearway"),
        ])
        .env("CLEARWAY_SOCKET", folder.0.join("host.sock"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(fs::File::create(folder.0.join("up.log")).unwrap());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("clearway is ready: "), "{line}");
    Up(child)
}

/// The command's output, or None when it hangs.
fn answered(folder: &Folder, args: &[&str]) -> Option<Output> {
    let mut child =
        folder.clearway(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while begun.elapsed() < TIME_LIMIT {
        if child.try_wait().unwrap().is_some() {
            return Some(child.wait_with_output().unwrap());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

fn knock(folder: &Folder) -> OwnedFd {
    let fd = socket::connect(&folder.0.join("host.sock")).unwrap();
    // Against hangs only.
    let time_limit = nix::sys::time::TimeVal::new(TIME_LIMIT.as_secs() as i64, 0);
    nix::sys::socket::setsockopt(&fd, nix::sys::socket::sockopt::ReceiveTimeout, &time_limit)
        .unwrap();
    fd
}

fn ask(attach_socket: &OwnedFd, request: &Request) -> (Reply, Vec<OwnedFd>) {
    socket::send(attach_socket.as_fd(), request, &[]).unwrap();
    socket::recv(attach_socket.as_fd(), 16).expect("an answer in time").expect("an answer")
}

fn hello(namespace: &str, secret: Option<&str>) -> Request {
    Request::Hello(Hello {
        version: VERSION,
        namespace: namespace.into(),
        secret: secret.map(|secret| Secret(secret.into())),
        program: "guest".into(),
        rx_fifo: 0,
        tx_fifo: 0,
        inherit: None,
        cut_through: false,
    })
}

#[test]
fn a_secret_is_changed_by_command_for_who_comes_from_then_on() {
    let folder = Folder::new();
    let _up = folder.up(&[]);
    folder.ends(0, &["ctl", "app ns add id shop secret one table 0"]);
    let enters = |secret: Option<&str>| {
        let (reply, _) = ask(&knock(&folder), &hello("shop", secret));
        matches!(reply, Reply::Welcome(_))
    };
    assert!(enters(Some("one")));
    let (out, err) = folder.ends(0, &["ctl", "app ns set shop secret two"]);
    assert!(!out.contains("two") && !err.contains("two"), "{out}{err}");
    assert!(!enters(Some("one")) && !enters(None) && enters(Some("two")));
    let shown = folder.ends(0, &["ctl", "show running-config secrets"]).0;
    assert!(shown.contains("secret two") && !shown.contains("secret one"), "{shown}");
    folder.ends(0, &["ctl", "app ns set id shop no-secret"]);
    assert!(enters(None));
    let (_, err) = folder.ends(1, &["ctl", "app ns set nobody secret two"]);
    assert!(err.contains("no namespace nobody") && !err.contains("two"), "{err}");
}

/// Time of the processor that a process has taken, in ticks of 10 ms.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// This test holds more descriptors than its host may have.
fn raise_own_limit() {
    let (_, hard) =
        nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).unwrap();
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, hard, hard).unwrap();
}

#[test]
fn who_is_silent_at_the_attach_socket_keeps_nobody_out() {
    raise_own_limit();
    let folder = Folder::new();
    let up = up_with_descriptors(&folder, 256);
    // More than there are descriptors, at both sockets.
    let silent: Vec<OwnedFd> = (0..600).map(|_| knock(&folder)).collect();
    let commands: Vec<UnixStream> =
        (0..300).map(|_| UnixStream::connect(folder.0.join("host.ctl")).unwrap()).collect();
    let before = cpu_ticks(up.0.id());
    let begun = Instant::now();
    std::thread::sleep(Duration::from_secs(1));
    let (took, elapsed) = (cpu_ticks(up.0.id()) - before, begun.elapsed().as_millis() as u64 / 10);
    assert!(took < elapsed / 2, "the host runs round: {took} ticks of {elapsed}");
    for _ in 0..3 {
        let shown = answered(&folder, &["ctl", "show", "version"]).expect("commands are answered");
        assert!(shown.status.success());
        let attach_socket = knock(&folder);
        assert!(
            matches!(ask(&attach_socket, &hello("", None)).0, Reply::Welcome(_)),
            "a program is let in"
        );
    }
    drop((silent, commands));
    // Nobody wants its place, and it is let go nevertheless.
    let one = knock(&folder);
    assert!(matches!(socket::recv::<Reply>(one.as_fd(), 0), Ok(None)), "it may be silent for ever");
}

#[test]
fn one_program_with_all_sessions_that_there_are_descriptors_for_leaves_room_for_others() {
    raise_own_limit();
    let folder = Folder::new();
    let _up = up_with_descriptors(&folder, 256);
    let attach_socket = knock(&folder);
    assert!(matches!(ask(&attach_socket, &hello("", None)).0, Reply::Welcome(_)));
    let open = || {
        ask(
            &attach_socket,
            &Request::Open {
                kind: Kind::Stream,
                v6: false,
                options: SocketOptions::default(),
                port: 0,
            },
        )
    };
    let mut all = Vec::new();
    let refused = loop {
        match open() {
            (Reply::Opened(_), session_fd) => all.push(session_fd),
            (Reply::Error { errno, why }, _) => break (errno, why),
            (other, _) => panic!("{other:?}"),
        }
        assert!(all.len() < 256, "more sessions than descriptors");
    };
    assert_eq!(refused.0, nix::errno::Errno::ENFILE as i32);
    assert!(
        refused.1.contains("ulimit -n") && all.len() > 100,
        "{} sessions, then {}",
        all.len(),
        refused.1
    );
    let other = knock(&folder);
    assert!(
        matches!(ask(&other, &hello("", None)).0, Reply::Welcome(_)),
        "another program is let in"
    );
    assert!(
        answered(&folder, &["ctl", "show", "app"]).expect("commands are answered").status.success()
    );
    // What is given back can be taken again.
    all.truncate(10);
    let begun = Instant::now();
    while !matches!(open(), (Reply::Opened(_), _)) {
        assert!(begun.elapsed() < TIME_LIMIT, "no session although there are descriptors");
    }
}

#[test]
fn signals_that_mean_nothing_do_nothing_and_hup_reads_the_settings_again_all_of_them_or_none() {
    let folder = Folder::new();
    let text = |workers: &str, more: &str| {
        format!("[cores]\nmode = \"{workers}\"\n[log]\nfile = \"host.log\"\n{more}")
    };
    let one = "[[namespaces]]\nid = \"one\"\nsecret = \"hush-one\"\n";
    let settings = folder.file("host.toml", &text("interrupt", one));
    let up = folder.up(&["-c", settings.to_str().unwrap()]);
    let pid = Pid::from_raw(up.0.id() as i32);
    let log = || fs::read_to_string(folder.0.join("host.log")).unwrap_or_default();
    let until_logged = |what: &str, times: usize| {
        let begun = Instant::now();
        while log().matches(what).count() < times {
            assert!(begun.elapsed() < TIME_LIMIT, "{what:?} is not in the log: {}", log());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let enters = |namespace: &str, secret: &str| {
        matches!(ask(&knock(&folder), &hello(namespace, Some(secret))).0, Reply::Welcome(_))
    };
    for signal in [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGHUP] {
        kill(pid, signal).unwrap();
    }
    until_logged("nothing to take over", 1);
    assert!(enters("one", "hush-one"));
    // Another secret, and one more.
    let two = "[[namespaces]]\nid = \"one\"\nsecret = \"hush-other\"\n[[namespaces]]\nid = \"two\"\nsecret = \"hush-two\"\n";
    fs::write(&settings, text("interrupt", two)).unwrap();
    fs::rename(folder.0.join("host.log"), folder.0.join("host.log.1")).unwrap();
    kill(pid, Signal::SIGHUP).unwrap();
    until_logged("namespaces added: two; changed: one", 1);
    assert!(enters("one", "hush-other") && enters("two", "hush-two") && !enters("one", "hush-one"));
    // What cannot change is named, and the rest of the file is not taken either.
    fs::write(&settings, text("polling", one)).unwrap();
    kill(pid, Signal::SIGHUP).unwrap();
    until_logged("cores.mode", 1);
    assert!(enters("two", "hush-two"), "nothing was changed");
    fs::write(
        &settings,
        text("interrupt", "[[namespaces]]\nid = \"three\"\n[[namespaces]]\nid = \"fo/ur\"\n"),
    )
    .unwrap();
    kill(pid, Signal::SIGHUP).unwrap();
    until_logged("fo/ur", 1);
    assert!(enters("two", "hush-two") && !enters("three", ""));
    fs::write(&settings, text("interrupt", one)).unwrap();
    kill(pid, Signal::SIGHUP).unwrap();
    until_logged("taken away: two", 1);
    assert!(enters("one", "hush-one") && !enters("two", "hush-two"));
    let (shown, _) = folder.ends(0, &["ctl", "show", "app", "ns"]);
    assert!(shown.contains("Refused"), "{shown}");
    let refused =
        log().lines().filter(|line| line.contains(" WARN ") && line.contains("refused")).count();
    assert_eq!(refused, 3, "{}", log());
    assert!(!log().contains("hush"), "a secret is in the log: {}", log());
    let mode = fs::metadata(folder.0.join("host.log")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    kill(pid, Signal::SIGTERM).unwrap();
}

/// Whether these bytes are anywhere in the memory that a process may write.
fn is_in_memory(pid: u32, what: &[u8]) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    maps.lines().filter(|line| line.contains(" rw-p ")).any(|line| {
        let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let (from, to) =
            (u64::from_str_radix(from, 16).unwrap(), u64::from_str_radix(to, 16).unwrap());
        let mut piece = vec![0; 1 << 20];
        let mut at = from;
        while at < to {
            let wanted = piece.len().min((to - at) as usize);
            let Ok(n) = memory.read_at(&mut piece[..wanted], at) else { return false };
            if n == 0 {
                return false;
            }
            // Pages that were never touched are zero and quickly passed over.
            if piece[..n].windows(what.len()).any(|window| window[0] == what[0] && window == what) {
                return true;
            }
            at += (n as u64).max(what.len() as u64)
                - if n == wanted && at + (n as u64) < to { what.len() as u64 } else { 0 };
        }
        false
    })
}

#[test]
fn a_secret_is_in_no_log_no_answer_and_when_it_was_used_in_no_memory() {
    let folder = Folder::new();
    let script = folder.file("script", "app ns add id server secert xyzzy-script if loop0\n");
    let (out, _) = folder.ends(1, &["up", "--daemon", "--script", script.to_str().unwrap()]);
    let (_, err) = folder.ends(1, &["up", "--script", script.to_str().unwrap()]);
    let log = fs::read_to_string(folder.0.join("host.log")).unwrap();
    for said in [&out, &err, &log] {
        assert!(!said.contains("xyzzy"), "{said}");
    }
    assert!(err.contains("secert ***"), "{err}");
    assert_eq!(
        fs::metadata(folder.0.join("host.log")).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let up = folder.up(&["--log", "other.log"]);
    let (_, err) =
        folder.ends(2, &["ctl", "app", "ns", "add", "id", "server", "sercet", "xyzzy-command"]);
    assert!(err.contains("***") && !err.contains("xyzzy"), "{err}");
    folder.ends(0, &["ctl", "app", "ns", "add", "id", "gone", "secret", "xyzzy-gone"]);
    folder.ends(0, &["ctl", "app", "ns", "del", "id", "gone"]);
    folder.ends(0, &["ctl", "app", "ns", "add", "id", "kept", "secret", "xyzzy-kept"]);
    let attach_socket = knock(&folder);
    assert!(matches!(
        ask(&attach_socket, &hello("kept", Some("xyzzy-wrong"))).0,
        Reply::Error { .. }
    ));
    let log = fs::read_to_string(folder.0.join("other.log")).unwrap();
    assert!(
        log.contains("the secret of the namespace kept is wrong") && !log.contains("xyzzy"),
        "{log}"
    );
    assert!(
        is_in_memory(up.0.id(), b"xyzzy-kept"),
        "one that is needed is there, so that this test can see"
    );
    for gone in ["xyzzy-wrong", "xyzzy-gone", "xyzzy-command"] {
        // The answer may be here a moment before what it was asked with is wiped.
        let begun = Instant::now();
        while is_in_memory(up.0.id(), gone.as_bytes()) {
            assert!(begun.elapsed() < TIME_LIMIT, "{gone} is still in memory");
        }
    }
    let limits = fs::read_to_string(format!("/proc/{}/limits", up.0.id())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
}

#[test]
fn the_log_says_when_how_grave_and_what_happened() {
    let folder = Folder::new();
    let settings = "[log]\nfile = \"host.log\"\n[limits]\nprocesses = 1\n";
    let settings = folder.file("host.toml", settings);
    let mut up = folder.up(&["-c", settings.to_str().unwrap()]);
    let log = || fs::read_to_string(folder.0.join("host.log")).unwrap_or_default();
    let until_logged = |level: &str, what: &[&str]| {
        let begun = Instant::now();
        let is_it = |line: &str| line.contains(level) && what.iter().all(|w| line.contains(w));
        while !log().lines().any(is_it) {
            assert!(begun.elapsed() < TIME_LIMIT, "{what:?} is not in the log: {}", log());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let own = format!("pid={}", std::process::id());
    let wrong = ask(&knock(&folder), &hello("absent", None)).0;
    assert!(matches!(wrong, Reply::Error { .. }));
    until_logged(" WARN ", &["refused", &own, "namespace=\"absent\"", "why="]);
    let first = knock(&folder);
    assert!(matches!(ask(&first, &hello("", None)).0, Reply::Welcome(_)));
    until_logged(" INFO ", &["attached", &own]);
    // Whose place it is keeps it; who comes then hears nothing but the end.
    let second = knock(&folder);
    let _ = socket::send(second.as_fd(), &hello("", None), &[]);
    assert!(!matches!(socket::recv::<Reply>(second.as_fd(), 16), Ok(Some(_))));
    until_logged(" WARN ", &["limit reached: limits.processes", &own]);
    drop(first);
    until_logged(" INFO ", &["detached", &own]);
    folder.ends(0, &["ctl", "app", "ns", "add", "id", "new"]);
    until_logged(" INFO ", &["app ns add id new"]);
    up.signal(Signal::SIGTERM);
    assert_eq!(up.code(), Some(0));
    for line in log().lines() {
        let mut words = line.split_whitespace();
        let (time, level) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        assert!(time.starts_with("20") && time.contains('T') && time.ends_with('Z'), "{line}");
        assert!(["ERROR", "WARN", "INFO"].contains(&level), "{line}");
    }
}

#[test]
fn what_is_in_the_way_is_said() {
    let folder = Folder::new();
    let plain = folder.file("plain.sock", "mine");
    let (_, err) = folder.ends(1, &["up", "--socket", plain.to_str().unwrap()]);
    assert!(err.contains("plain.sock is a file and no socket"), "{err}");
    assert_eq!(fs::read_to_string(&plain).unwrap(), "mine");
    let (_, err) = folder.ends(
        1,
        &["ctl", "--socket", folder.file("plain.ctl", "").to_str().unwrap(), "show", "version"],
    );
    assert!(err.contains("plain.ctl is no host's socket"), "{err}");
    let (_, err) = folder.ends(1, &["up", "--cores", "777"]);
    assert!(
        err.contains("core 777") && err.contains("may run on") && err.contains("this machine has"),
        "{err}"
    );
    if !skip::or_skip(nix::unistd::geteuid().is_root(), "only root runs programs as another user") {
        return;
    }
    let _up = folder.up(&[]);
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).unwrap();
    let nobody = |folder: &Folder| {
        // The program itself may lie where only root reads.
        let copy = folder.0.join("clearway");
        executable(&copy, &fs::read(env!("CARGO_BIN_EXE_clearway")).unwrap(), 0o755);
        let mut command = Command::new(copy);
        command.args(["ctl", "show", "version"]).env("CLEARWAY_SOCKET", folder.0.join("host.sock"));
        let output = command.uid(65_534).gid(65_534).stdin(Stdio::null()).output().unwrap();
        text(&output.stderr)
    };
    let err = nobody(&folder);
    assert!(
        err.contains("permission denied") && err.contains("uid 0") && err.contains("sudo"),
        "{err}"
    );
    // Somebody opened the socket to others: they are told by the host.
    fs::set_permissions(folder.0.join("host.ctl"), fs::Permissions::from_mode(0o666)).unwrap();
    let err = nobody(&folder);
    assert!(err.contains("permission denied") && err.contains("uid 0"), "{err}");
}

#[test]
fn settings_and_scripts_are_checked_without_a_host() {
    let folder = Folder::new();
    let file = |name: &str, text: &str| {
        let path = folder.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let inner = file("inner", "show version\n");
    let good = file("good", &format!("create loopback interface\n# a remark\nexec {inner}\n"));
    let (out, _) = folder.ends(0, &["up", "--check", "--script", &good]);
    assert_eq!(out, "well-formed: settings, 1 scripts with 3 commands\n");
    let bad = file("bad", "create loopback interface\nset interface stat3 loop0 up\n");
    let (_, err) = folder.ends(2, &["up", "--check", "--script", &bad]);
    assert!(err.contains("bad: ") && err.contains("stat3"), "{err}");
    let endless = folder.0.join("endless");
    std::fs::write(&endless, format!("exec {}\n", endless.display())).unwrap();
    let (_, err) = folder.ends(2, &["up", "--check", "--script", endless.to_str().unwrap()]);
    assert!(err.contains("too deeply"), "{err}");
    let wrong = file("wrong.toml", "[tcp]\nno-such-key = 1\n");
    let (_, err) = folder.ends(2, &["up", "--check", "-c", &wrong]);
    assert!(err.contains("no-such-key"), "{err}");
    assert!(!folder.0.join("host.sock").exists(), "nothing was started");
}

#[test]
fn errors_have_a_code_that_help_explains() {
    let folder = Folder::new();
    let begins = |err: &str, code: &str| {
        assert!(err.starts_with(&format!("clearway: error[{code}]: ")), "{code}: {err}");
    };
    begins(&folder.ends(2, &["up", "--no-such-option"]).1, "E0001");
    begins(&folder.ends(2, &["no-such-command"]).1, "E0001");
    begins(&folder.ends(1, &["ctl", "show", "version"]).1, "E0601");
    begins(&folder.ends(2, &["run", "--preload", "/no/such.so", "--", "env"]).1, "E0701");
    begins(&folder.ends(2, &["up", "-c", "none.toml"]).1, "E0101");
    for (text, code) in [
        ("[cores", "E0102"),
        ("cores = 1", "E0102"),
        ("[cores]\nwokers = 1", "E0103"),
        ("[kores]", "E0103"),
        ("[cores]\nmode = \"fast\"", "E0104"),
        ("[[ports]]\nname = \"x\"", "E0105"),
    ] {
        folder.file("bad.toml", text);
        begins(&folder.ends(2, &["up", "--check", "-c", "bad.toml"]).1, code);
    }
    folder.file("bad.txt", "show nothing\n");
    begins(&folder.ends(2, &["up", "--check", "--script", "bad.txt"]).1, "E0203");
    let _up = folder.up(&[]);
    // Said once, and a log that lies elsewhere has it, too.
    let (_, err) = folder.ends(1, &["up"]);
    begins(&err, "E0501");
    assert_eq!(err.lines().count(), 1, "{err}");
    begins(&folder.ends(1, &["up", "--log", "second.log"]).1, "E0501");
    let log = fs::read_to_string(folder.0.join("second.log")).unwrap();
    assert!(log.contains("the host ends") && log.contains("a host is running at"), "{log}");
    begins(&folder.ends(1, &["ctl", "delete", "tap", "tap7"]).1, "E0301");
    begins(&folder.ends(2, &["ctl", "show", "nothing"]).1, "E0203");
    let (out, err) = folder.ends(1, &["ctl", "--json", "delete", "tap", "tap7"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["code"], "E0301", "{out}");
    begins(&err, "E0301");
    begins(&folder.ends(1, &["up", "--daemon"]).1, "E0501");

    let (out, _) = folder.ends(0, &["help", "E0501"]);
    assert!(out.starts_with("E0501: a host runs there already\n"), "{out}");
    assert!(out.contains("What to do:\n  `clearway ctl show version` asks it"), "{out}");
    let (list, _) = folder.ends(0, &["help", "errors"]);
    assert!(list.lines().count() > 50 && list.contains("E0501  a host runs"), "{list}");
    begins(&folder.ends(2, &["help", "E9999"]).1, "E0002");
    assert!(folder.ends(0, &["help", "up"]).0.contains("Run the host stack"));
}

#[test]
fn reload_says_what_was_taken_over_or_why_nothing_was() {
    let folder = Folder::new();
    let settings = folder.file("host.toml", "[limits]\nprogram-sessions = 100\n");
    let up = folder.up(&["-c", settings.to_str().unwrap(), "--log", "host.log"]);
    let reload = |code, text: &str| {
        fs::write(&settings, text).unwrap();
        folder.ends(code, &["ctl", "reload"])
    };
    let (out, _) = reload(0, "[limits]\nprogram-sessions = 100\n");
    assert_eq!(out, "nothing to take over\n");
    let (out, _) = reload(0, "[limits]\nprogram-sessions = 7\n[log]\nlevel = \"debug\"\n");
    assert_eq!(out, "limits.program-sessions 7 (was 100); levels of the log\n");
    let shown: serde_json::Value =
        serde_json::from_str(&folder.ends(0, &["ctl", "--json", "show", "settings"]).0).unwrap();
    assert_eq!(shown["limits.program-sessions"], "7");
    // Metrics come, move and go.
    let metrics = |name: &str| {
        format!(
            "[metrics]\nlisten = \"{}\"\n[limits]\nprogram-sessions = 7\n",
            folder.0.join(name).display()
        )
    };
    let answers = |name: &str| UnixStream::connect(folder.0.join(name)).is_ok();
    let (out, _) = reload(0, &metrics("first"));
    assert!(out.contains("metrics at ") && answers("first"), "{out}");
    // What cannot be had is told, and all else stays as it is: also what could change.
    folder.file("taken", "not a socket");
    let refused = format!("{}program-memory = \"5M\"\n", metrics("taken"));
    let (_, err) = reload(1, &refused);
    assert!(err.contains("cannot serve metrics at"), "{err}");
    assert!(answers("first"));
    let (_, err) = reload(1, &format!("{}[cores]\nmode = \"polling\"\n", metrics("second")));
    assert!(err.starts_with("clearway: error[E0106]: ") && err.contains("cores.mode"), "{err}");
    assert!(answers("first") && !answers("second"));
    let (_, err) = reload(1, "[limits\n");
    assert!(err.starts_with("clearway: error[E0102]: "), "{err}");
    let (out, _) = reload(0, &metrics("second"));
    assert!(out.contains("second") && answers("second") && !folder.0.join("first").exists());
    let (out, _) = reload(0, "");
    assert!(out.contains("metrics nowhere") && out.contains("(was 7)"), "{out}");
    assert!(!answers("second"));
    let script = folder.file("script", "reload\n");
    let (_, err) = folder.ends(1, &["ctl", "exec", script.to_str().unwrap()]);
    assert!(err.contains("no command of scripts"), "{err}");
    drop(up);
    let _up = folder.up(&[]);
    assert!(folder.ends(0, &["ctl", "reload"]).0.contains("no file of settings"));
}

#[test]
fn a_group_may_use_the_sockets() {
    if !skip::or_skip(nix::unistd::geteuid().is_root(), "only root gives sockets to any group") {
        return;
    }
    use std::os::unix::fs::MetadataExt as _;
    let folder = Folder::new();
    let settings =
        folder.file("host.toml", "[control]\nsocket-group = 4711\ncommand-group = 4712\n");
    let _up = folder.up(&["-c", settings.to_str().unwrap()]);
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).unwrap();
    for (name, group) in [("host.sock", 4711), ("host.ctl", 4712)] {
        let meta = fs::metadata(folder.0.join(name)).unwrap();
        assert_eq!((meta.gid(), meta.mode() & 0o777), (group, 0o660), "{name}");
    }
    // The program itself may lie where only root reads.
    let copy = folder.0.join("clearway");
    executable(&copy, &fs::read(env!("CARGO_BIN_EXE_clearway")).unwrap(), 0o755);
    let as_group = |gid| {
        let mut command = Command::new(&copy);
        command.args(["ctl", "show", "version"]).env("CLEARWAY_SOCKET", folder.0.join("host.sock"));
        command.uid(65_534).gid(gid).stdin(Stdio::null()).output().unwrap()
    };
    let in_group = as_group(4712);
    assert!(in_group.status.success(), "{}", text(&in_group.stderr));
    let outside = as_group(4713);
    let err = text(&outside.stderr);
    assert!(err.starts_with("clearway: error[E0602]: "), "{err}");
    folder.file("bad.toml", "[control]\nsocket-group = \"no-such-group\"\n");
    let (_, err) = folder.ends(2, &["up", "--check", "-c", "bad.toml"]);
    assert!(err.contains("there is no group no-such-group"), "{err}");
}

#[test]
fn a_host_started_from_what_was_saved_shows_the_same() {
    let first = Folder::new();
    let settings = first.file(
        "host.toml",
        "[[ports]]\nport = \"loop\"\nname = \"inner\"\naddresses = [\"10.1.0.1/24\"]\n\
         gateways = [\"10.1.0.2\"]\ntable = 5\n[[namespaces]]\nid = \"a\"\n\
         secret = \"hush hush\"\ninterface = \"inner\"\n",
    );
    let _first = first.up(&["-c", settings.to_str().unwrap(), "--fault", "loss=1%"]);
    first.ends(0, &["ctl", "acl", "add", "deny", "proto", "icmp"]);
    let (shown, _) = first.ends(0, &["ctl", "show", "running-config", "secrets"]);
    assert!(shown.contains("secret \"hush hush\" if inner"), "{shown}");
    first.ends(0, &["ctl", "save", "saved"]);
    let second = Folder::new();
    fs::copy(first.0.join("saved"), second.0.join("saved")).unwrap();
    let _second = second.up(&["--script", "saved"]);
    assert_eq!(second.ends(0, &["ctl", "show", "running-config", "secrets"]).0, shown);
}
