//! The examples as they stand, over a TAP device in a network namespace of each test's own, asked by
//! programs of the kernel's half of it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

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
    fn new(queues: &str) -> Option<Site> {
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
        ip(&format!("tuntap add dev cwex mode tap{queues}"));
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

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// What it says until it ends, which it has to do well.
    fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {rest}");
        rest
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

fn read(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
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
fn several_services_answer_on_one_stack_and_say_who_called_and_how_it_ended() {
    let Some(_site) = Site::new("") else { return };
    let mut echo = Running::example("services", &[]);
    assert_eq!(read(connect(13)), "hello and good-bye\n");
    let mut stream = connect(7);
    stream.write_all(b"echo me").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let from = stream.local_addr().unwrap();
    assert_eq!(read(stream), "echo me");
    assert_eq!(echo.line(), format!("{from} has asked {OURS}:7 for its last byte"));

    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    socket.send_to(b"a datagram", (OURS, 7)).unwrap();
    let mut buffer = [0; 64];
    let (len, answerer) = socket.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..len], answerer.to_string()), (&b"a datagram"[..], format!("{OURS}:7")));

    // A reset: the reason is told. Of a connection that is reset before it was served nothing is
    // said, so a byte goes there and back first.
    let mut stream = connect(7);
    stream.write_all(b"x").unwrap();
    stream.read_exact(&mut [0]).unwrap();
    let from = stream.local_addr().unwrap();
    nix::sys::socket::setsockopt(
        &stream,
        nix::sys::socket::sockopt::Linger,
        &nix::libc::linger { l_onoff: 1, l_linger: 0 },
    )
    .unwrap();
    drop(stream);
    let line = echo.line();
    assert!(line.starts_with(&format!("{from} ended: Failed(")), "{line}");
    assert!(line.contains("Reset"), "{line}");
}

#[test]
fn a_proxy_carries_bytes_both_ways_and_ends_both_sides() {
    let Some(_site) = Site::new("") else { return };
    let server = std::net::TcpListener::bind((KERNELS, 8080)).unwrap();
    let _proxy = Running::example("proxy", &[&format!("{KERNELS}:8080")]);
    // More than any of the buffers between holds, both ways at once.
    let up: Vec<u8> =
        (0..3_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let serving = std::thread::spawn(move || {
        let (stream, peer) = server.accept().unwrap();
        assert_eq!(peer.ip().to_string(), OURS, "it comes from the stack");
        let mut writer = stream.try_clone().unwrap();
        let mut reader = stream;
        let writing = std::thread::spawn(move || {
            writer.write_all(&vec![7; 2_000_000]).unwrap();
            writer.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut came = Vec::new();
        reader.read_to_end(&mut came).unwrap();
        writing.join().unwrap();
        came
    });
    let mut stream = connect(80);
    let mut reader = stream.try_clone().unwrap();
    let reading = std::thread::spawn(move || {
        let mut came = Vec::new();
        reader.read_to_end(&mut came).unwrap();
        came
    });
    stream.write_all(&up).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(serving.join().unwrap() == up);
    assert!(reading.join().unwrap() == vec![7; 2_000_000]);
}

#[test]
fn a_proxy_whose_server_refuses_ends_the_connection() {
    let Some(_site) = Site::new("") else { return };
    let _proxy = Running::example("proxy", &[&format!("{KERNELS}:8080")]);
    // The reset may come before anybody has looked whether the handshake is done.
    let at: SocketAddr = format!("{OURS}:80").parse().unwrap();
    let mut answer = Vec::new();
    let why = TcpStream::connect_timeout(&at, TIME_LIMIT)
        .and_then(|mut stream| {
            stream.set_read_timeout(Some(TIME_LIMIT))?;
            stream.read_to_end(&mut answer)
        })
        .unwrap_err();
    assert_eq!((why.kind(), answer), (std::io::ErrorKind::ConnectionReset, vec![]));
}

#[test]
fn a_name_is_asked_of_dnsmasq_and_its_host_for_a_page() {
    let Some(_site) = Site::new("") else { return };
    let server = std::net::TcpListener::bind((KERNELS, 8080)).unwrap();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().unwrap();
        let mut head = [0; 1024];
        let len = stream.read(&mut head).unwrap();
        stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nthe page\n").unwrap();
        String::from_utf8_lossy(&head[..len]).into_owned()
    });
    let records =
        [format!("--address=/host.example/{KERNELS}"), "--cname=www.example,host.example".into()];
    let mut dnsmasq = Command::new("dnsmasq");
    dnsmasq.args(["--keep-in-foreground", "--no-resolv", "--no-hosts", "--conf-file=/dev/null"]);
    dnsmasq.args(["--port=5353", "--bind-interfaces", "--pid-file=", "--user=root"]);
    dnsmasq.arg(format!("--listen-address={KERNELS}")).args(&records);
    dnsmasq.args(["--host-record=host.example,10.95.0.1"]);
    // The first question may come before it listens: it is sent again.
    let _dnsmasq = Running::spawn(&mut dnsmasq);

    let ask = |name: &str| {
        example("dns").args([&format!("{KERNELS}:5353"), name, "8080"]).output().unwrap()
    };
    let output = ask("www.example");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complained}");
    assert!(said.starts_with(&format!("www.example is {KERNELS}\n")), "{said}");
    assert!(said.ends_with("\r\n\r\nthe page\n"), "{said}");
    let head = serving.join().unwrap();
    assert!(head.contains("Host: www.example\r\n"), "{head}");

    let output = ask("nobody.invalid");
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{complained}");
    assert!(complained.contains("nobody.invalid"), "{complained}");
}

#[test]
fn a_server_that_is_told_to_end_finishes_its_answers_and_takes_no_more() {
    let Some(_site) = Site::new("") else { return };
    let mut server = Running::example("signals", &["8000000", "60"]);
    let mut busy = connect(80);
    let request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    busy.write_all(request).unwrap();
    let mut first = [0; 64];
    busy.read_exact(&mut first).unwrap();
    let mut idle = connect(80);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.line(), "draining");
    // An idle connection is closed, and that it was says that the drain has begun.
    assert_eq!(idle.read(&mut [0; 1]).unwrap(), 0);
    let at: SocketAddr = format!("{OURS}:80").parse().unwrap();
    let refused = TcpStream::connect_timeout(&at, TIME_LIMIT).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    // The answer under way comes to its end, all of it, and with it the connection.
    let mut rest = Vec::new();
    busy.read_to_end(&mut rest).unwrap();
    assert!(rest.len() + first.len() > 8_000_000, "{}", rest.len());
    assert_eq!(server.rest(), "answered 1 requests\n");
}

/// A connection whose answer is under way.
fn under_way() -> TcpStream {
    let mut busy = connect(80);
    busy.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    busy.read_exact(&mut [0; 64]).unwrap();
    busy
}

/// The server ends, says whom it cut off, and that one sees a reset.
fn ends_and_cuts_off(server: &mut Running, busy: &mut TcpStream) {
    let from = busy.local_addr().unwrap();
    let said = server.rest();
    assert_eq!(said, format!("{from} was cut off in Established\nanswered 1 requests\n"));
    let why = busy.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(why.kind(), std::io::ErrorKind::ConnectionReset, "the answer is cut off");
}

#[test]
fn a_second_signal_ends_a_server_that_waits_for_an_answer() {
    let Some(_site) = Site::new("") else { return };
    let mut server = Running::example("signals", &["8000000", "60"]);
    let mut busy = under_way();
    server.signal(Signal::SIGTERM);
    assert_eq!(server.line(), "draining");
    server.signal(Signal::SIGINT);
    ends_and_cuts_off(&mut server, &mut busy);
}

#[test]
fn a_drain_ends_with_its_patience_and_names_who_was_cut_off() {
    let Some(_site) = Site::new("") else { return };
    let mut server = Running::example("signals", &["8000000", "1"]);
    let mut busy = under_way();
    server.signal(Signal::SIGTERM);
    assert_eq!(server.line(), "draining");
    // It reads nothing more, and the answer is longer than what buffers hold.
    ends_and_cuts_off(&mut server, &mut busy);
}

#[test]
fn two_cores_share_connections_and_report_each_of_theirs() {
    let Some(_site) = Site::new(" multi_queue") else { return };
    let mut server = Running::example("cores", &["0,1"]);
    let mut of_cores = [0; 2];
    for _ in 0..64 {
        let answer = read(connect(7));
        let core = answer.strip_prefix("core ").unwrap().trim_end().parse::<usize>().unwrap();
        of_cores[core] += 1;
    }
    server.signal(Signal::SIGTERM);
    let [first, second] = of_cores;
    let wanted = format!("connections of each core: [{first}, {second}], together 64\n");
    assert_eq!(server.rest(), wanted);
    assert!(first > 0 && second > 0, "both cores have some: {of_cores:?}");
}

#[test]
fn curl_asks_over_tls() {
    let Some(_site) = Site::new("") else { return };
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
