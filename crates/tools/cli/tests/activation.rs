//! Sockets that a service manager made before the host: who comes early waits, and the sockets stay
//! when the host goes.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clearway_shm::socket;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

#[path = "common/preload.rs"]
mod preload;

/// Only what hangs takes so long.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The script of each host.
const NETWORK: &str = "network.txt";

/// A folder that no other test has; gone with this.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("cwact-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let network = "create loopback interface\nset interface state loop0 up\n\
                       set interface ip address loop0 10.1.1.1/24\n";
        fs::write(folder.join(NETWORK), network).unwrap();
        Folder(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn clearway(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clearway"));
        command.args(args).env("CLEARWAY_SOCKET", self.path("host.sock")).stdin(Stdio::null());
        command
    }

    /// A program that is no program without a host.
    fn program(&self) -> Command {
        let binds =
            "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind(('10.1.1.1', 9))";
        self.clearway(&["run", "--required", "--", "python3", "-c", binds])
    }

    /// What the service manager would have made.
    fn sockets(&self) -> (OwnedFd, OwnedFd) {
        let programs = socket::listen(&self.path("host.sock"), 0o666, None).unwrap();
        (programs, UnixListener::bind(self.path("host.ctl")).unwrap().into())
    }

    /// Starts a host that is given these two, as many as `count` says, in this order.
    fn up(&self, [first, second]: [&OwnedFd; 2], count: u32, args: &[&str]) -> Running {
        let log = fs::File::create(self.path("log")).unwrap();
        let script =
            "exec 3<&0 4<&1 </dev/null >&2; export LISTEN_PID=$$ LISTEN_FDS=$COUNT; exec \"$@\"";
        let mut command = Command::new("sh");
        command
            .args(["-c", script, "sh", env!("CARGO_BIN_EXE_clearway"), "up"])
            .args(args)
            .env("COUNT", count.to_string())
            .env_remove("CLEARWAY_SOCKET")
            .current_dir(&self.0)
            .stdin(first.try_clone().unwrap())
            .stdout(second.try_clone().unwrap())
            .stderr(log);
        start(&mut command)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// How a host ended that was given what it cannot use.
    fn refused(&self, fds: [&OwnedFd; 2], count: u32, args: &[&str]) -> String {
        let mut host = self.up(fds, count, args);
        assert!(!ended(&mut host).success(), "{}", self.log());
        self.log()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the host said: {}", self.log());
        }
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A child that is killed with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(command: &mut Command) -> Running {
    Running(command.spawn().unwrap())
}

fn ended(Running(child): &mut Running) -> std::process::ExitStatus {
    let until = Instant::now() + TIME_LIMIT;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(Instant::now() < until, "it does not end");
        sleep(Duration::from_millis(10));
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn who_comes_before_the_host_waits_for_it_and_the_sockets_outlive_it() {
    preload::build();
    let folder = Folder::new();
    let (programs, commands) = folder.sockets();
    for order in [[&programs, &commands], [&commands, &programs]] {
        // Both come while nobody is there who could answer.
        let mut program = start(&mut folder.program());
        let mut command = start(folder.clearway(&["ctl", "show", "version"]).stdout(Stdio::null()));
        let mut host = folder.up(order, 2, &["--script", NETWORK]);
        assert!(ended(&mut command).success());
        assert!(ended(&mut program).success());
        // As if the host had made them.
        assert_eq!(
            (mode(&folder.path("host.sock")), mode(&folder.path("host.ctl"))),
            (0o660, 0o600)
        );
        kill(Pid::from_raw(host.0.id() as i32), Signal::SIGTERM).unwrap();
        assert!(ended(&mut host).success());
        assert!(folder.path("host.sock").exists() && folder.path("host.ctl").exists());
        assert!(!folder.path("app_ns_sockets").exists());
    }
}

#[test]
fn sockets_that_are_not_the_hosts_end_the_start_and_are_named() {
    let folder = Folder::new();
    let (programs, commands) = folder.sockets();
    let said = folder.refused([&programs, &commands], 2, &["--socket", "elsewhere.sock"]);
    assert!(said.contains("E0502") && said.contains("/host.sock"), "{said}");
    assert!(said.contains("elsewhere.sock"), "{said}");
    let said = folder.refused([&programs, &commands], 3, &[]);
    assert!(said.contains("LISTEN_FDS is 3"), "{said}");
    let said = folder.refused([&programs, &programs], 2, &[]);
    assert!(said.contains("two sockets for programs"), "{said}");
    let datagrams: OwnedFd = UnixDatagram::bind(folder.path("datagrams")).unwrap().into();
    let said = folder.refused([&programs, &datagrams], 2, &[]);
    assert!(said.contains("descriptor 4 of LISTEN_FDS is a socket of datagrams"), "{said}");
    let said = folder.refused([&programs, &commands], 2, &["--daemon"]);
    assert!(said.contains("without --daemon"), "{said}");
    let aside = UnixListener::bind(folder.path("aside.ctl")).unwrap().into();
    let said = folder.refused([&programs, &aside], 2, &[]);
    assert!(said.contains("listens for commands at") && said.contains("host.ctl"), "{said}");
}

#[test]
fn systemd_starts_the_host_when_the_first_program_comes() {
    preload::build();
    let folder = Folder::new();
    let socket = folder.path("host.sock");
    let log = fs::File::create(folder.path("log")).unwrap();
    let mut activate = Command::new("systemd-socket-activate");
    let activate = activate
        .args(["--seqpacket", "-l"])
        .arg(&socket)
        .args([env!("CARGO_BIN_EXE_clearway"), "up", "--script", NETWORK])
        .current_dir(&folder.0)
        .env_remove("CLEARWAY_SOCKET")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    let mut systemd = start(activate);
    let until = Instant::now() + TIME_LIMIT;
    while !socket.exists() {
        assert!(Instant::now() < until, "systemd does not listen");
        sleep(Duration::from_millis(10));
    }
    let mut program = start(&mut folder.program());
    assert!(ended(&mut program).success());
    // It made the socket for commands itself.
    let mut stop = start(folder.clearway(&["ctl", "stop"]).stdout(Stdio::null()));
    assert!(ended(&mut stop).success());
    assert!(ended(&mut systemd).success());
}
