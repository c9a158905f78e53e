//! The examples as they stand, over a TAP device in a network namespace of each test's own, asked by
//! programs of the kernel's half of it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};

/// Only what hangs takes so long.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The stack's address.
const OURS: &str = "10.95.0.2";

/// The kernel's.
const KERNELS: &str = "10.95.0.1";

/// One test at a time: a program that one starts holds the descriptors of all others until it runs,
/// and with them their interfaces.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A namespace of this thread's own.
struct Site(
    #[allow(dead_code, reason = "held for as long as the test lasts")] MutexGuard<'static, ()>,
);

impl Site {
    /// With a TAP device whose far end an example may take; None for who is not root, which is said.
    fn new() -> Option<Site> {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(why) = unshare(CloneFlags::CLONE_NEWNET) {
            let in_ci = std::env::var("CI").is_ok_and(|ci| !ci.is_empty() && ci != "false");
            assert!(
                !in_ci,
                "a network namespace needs root, and with CI set it may not be skipped"
            );
            let _ = writeln!(std::io::stderr(), "SKIPPED: a network namespace needs root ({why})");
            return None;
        }
        ip("link set lo up");
        ip("tuntap add dev cwex mode tap");
        ip(&format!("addr add {KERNELS}/24 dev cwex"));
        ip("link set cwex up");
        Some(Site(turn))
    }
}

fn ip(args: &str) {
    let output = Command::new("ip").args(args.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A program that ends with this.
struct Running {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Running {
    fn spawn(command: &mut Command) -> Running {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Running { child, said }
    }

    /// An example over the TAP device, when it is ready.
    fn example(name: &str, arguments: &[&str]) -> Running {
        let mut command = example(name);
        let mut running = Running::spawn(command.args(arguments));
        assert_eq!(running.line(), "ready");
        running
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An example of this crate, built, with port and address.
fn example(name: &str) -> Command {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        if std::env::var_os("CLEARWAY_TESTS_BUILT").is_none() {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["build", "--quiet", "--offline", "-p", "clearway", "--examples"]);
            if !cfg!(debug_assertions) {
                cargo.arg("--release");
            }
            assert!(cargo.status().unwrap().success(), "the examples are built");
        }
    });
    let here = std::env::current_exe().unwrap();
    let target = here.parent().and_then(Path::parent).unwrap();
    let mut command = Command::new(target.join("examples").join(name));
    command.arg("tap:cwex").arg(format!("{OURS}/24"));
    command
}

fn connect(port: u16) -> TcpStream {
    let at: SocketAddr = format!("{OURS}:{port}").parse().unwrap();
    let stream = TcpStream::connect_timeout(&at, TIME_LIMIT).unwrap();
    stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    stream.set_write_timeout(Some(TIME_LIMIT)).unwrap();
    stream
}

/// A folder that is gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("clearway-examples-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn curl_asks_over_tls() {
    let Some(_site) = Site::new() else { return };
    let folder = Folder::new("tls");
    let (key, certificate) = (folder.0.join("key.pem"), folder.0.join("cert.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=cw"])
        .args(["-addext", &format!("subjectAltName=IP:{OURS}")])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let files = [certificate.to_str().unwrap(), key.to_str().unwrap()];
    let _server = Running::example("https", &files);
    for (trust, version) in
        [(&["-k"][..], "--tlsv1.3"), (&["--cacert", files[0]][..], "--tls-max=1.2")]
    {
        let (version, max) = version.split_once('=').map_or((version, None), |(a, b)| (a, Some(b)));
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--max-time", "60", "--noproxy", "*"])
            .args(trust)
            .arg(version)
            .args(max)
            .arg(format!("https://{OURS}/"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "over TLS over a stack of its own\n");
    }
    // Who speaks no TLS is told so by an alert (RFC 8446 6), and the next one is served.
    let mut plain = connect(443);
    plain.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert_eq!(answer.first(), Some(&21), "an alert: {answer:?}");
}
