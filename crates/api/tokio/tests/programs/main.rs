//! The examples as they stand, over a TAP device, asked by curl in the kernel's half of a network
//! namespace of the test's own.

#[path = "../../../../host/host/tests/host/eventually.rs"]
mod eventually;
#[path = "../../../../host/host/tests/host/world.rs"]
#[allow(dead_code, unreachable_pub, reason = "made for the host's own tests")]
mod world;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use clearway_dev::PortSpec;
use clearway_engine::PortOptions;
use clearway_host::{InterfaceEntry, InterfaceKind, Worker};
use clearway_pkt::Iface;
use clearway_ports::Wrap;
use clearway_proto::Table;
use nix::sched::{CloneFlags, unshare};

use crate::world::World;

/// Where the examples listen.
const ADDRESS: &str = "10.9.0.2";

/// One test at a time: a program that one starts holds the descriptors of all others until it runs,
/// and with them their interfaces.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A host with a TAP device in a namespace of this thread's own.
struct Site {
    world: World,
    _turn: MutexGuard<'static, ()>,
}

impl Site {
    fn new() -> Site {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            panic!("these tests make a network namespace, which needs root ({error})");
        }
        let world = World::new();
        let spec: PortSpec = "tap:cw0".parse().unwrap();
        let mut queues = clearway_ports::open_one(&spec, &Wrap::default(), 1).unwrap();
        clearway_ports::add_host_address("cw0", "10.9.0.1/24".parse().unwrap()).unwrap();
        let queue = queues.pop().unwrap();
        let made = world.host.ask(0, move |worker: &mut Worker| {
            let port = queue.into_port(worker.pool()).unwrap();
            let options = PortOptions { name: "tap0".into(), table: Table(3), mtu: None };
            let iface = worker.engine().add_port(port, options).unwrap();
            let now = worker.time().now;
            worker
                .stack()
                .add_address(now, iface, format!("{ADDRESS}/24").parse().unwrap())
                .unwrap();
            iface
        });
        let iface: Iface = made.unwrap();
        let kind = InterfaceKind::Tap { host_name: "cw0".into() };
        let entry = InterfaceEntry { name: "tap0".into(), iface, kind };
        world.host.interfaces().lock().unwrap().add(entry).unwrap();
        world.host.routes_changed();
        world.namespace("web", "unheard-of", "tap0", 3);
        Site { world, _turn: turn }
    }

    /// Starts an example, which listens at this port.
    fn start(&self, name: &str, port: u16, arguments: &[&Path]) -> Running {
        let mut child = Command::new(example(name))
            .arg(format!("{ADDRESS}:{port}"))
            .args(arguments)
            .env("CLEARWAY_SOCKET", self.world.attach_socket())
            .env("CLEARWAY_NS", "web")
            .env("CLEARWAY_SECRET", "unheard-of")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, format!("listening on {ADDRESS}:{port}\n"));
        Running(child)
    }
}

/// A program that ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An example of this crate, built.
fn example(name: &str) -> PathBuf {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        if std::env::var_os("CLEARWAY_TESTS_BUILT").is_none() {
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let mut build = Command::new(cargo);
            build.args(["build", "--quiet", "-p", "clearway-tokio", "--examples"]);
            // What cargo tells this test of its package is nothing to the build scripts of others,
            // which would run again for it.
            for (name, _) in std::env::vars_os() {
                let told = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_"];
                if told.iter().any(|begin| name.to_string_lossy().starts_with(begin)) {
                    build.env_remove(name);
                }
            }
            assert!(build.status().unwrap().success(), "the examples are built");
        }
    });
    let here = std::env::current_exe().unwrap();
    let target = here.parent().and_then(Path::parent).unwrap();
    target.join("examples").join(name)
}

fn curl(arguments: &[&str]) -> String {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--fail", "--max-time", "120", "--noproxy", "*"])
        .args(arguments)
        .output()
        .expect("the program curl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn hyper_answers_curl() {
    let site = Site::new();
    let _server = site.start("hyper", 8080, &[]);
    let url = format!("http://{ADDRESS}:8080");
    assert_eq!(curl(&[&format!("{url}/here")]), "/here over Clearway\n");
    // Over one connection, and over several at once.
    let answers = curl(&[&format!("{url}/[1-200]")]);
    let wanted: String = (1..=200).map(|at| format!("/{at} over Clearway\n")).collect();
    assert_eq!(answers, wanted);
    let answers = curl(&["--parallel", &format!("{url}/[1-100]")]);
    assert_eq!(answers.lines().filter(|line| line.ends_with("over Clearway")).count(), 100);
}

#[test]
fn axum_answers_curl() {
    let site = Site::new();
    let _server = site.start("axum", 8081, &[]);
    assert_eq!(curl(&[&format!("http://{ADDRESS}:8081/hello/you")]), "hello you\n");
    let missing = Command::new("curl")
        .args(["--silent", "--noproxy", "*", "--max-time", "120"])
        .args(["--output", "/dev/null", "--write-out", "%{http_code}"])
        .arg(format!("http://{ADDRESS}:8081/elsewhere"))
        .output()
        .unwrap();
    assert_eq!(missing.stdout, b"404");
}

#[test]
fn rustls_answers_curl_which_checks_its_certificate() {
    let site = Site::new();
    let folder = site.world.folder();
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-days", "2", "-subj", "/CN=clearway"])
        .args(["-addext", &format!("subjectAltName=IP:{ADDRESS}")])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .expect("the program openssl");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let _server = site.start("tls", 8443, &[&certificate, &key]);
    let url = format!("https://{ADDRESS}:8443/");
    for _ in 0..5 {
        let answer = curl(&["--cacert", certificate.to_str().unwrap(), &url]);
        assert_eq!(answer, "over TLS over Clearway\n");
    }
    // Who does not know the certificate is not served, and the server goes on.
    let strange = Command::new("curl")
        .args(["--silent", "--noproxy", "*", "--max-time", "120", &url])
        .status()
        .unwrap();
    assert_eq!(strange.code(), Some(60), "the certificate is nobody's whom curl knows");
    assert_eq!(
        curl(&["--cacert", certificate.to_str().unwrap(), &url]),
        "over TLS over Clearway\n"
    );
}

#[test]
fn a_stream_of_the_kernel_is_echoed_whole() {
    let site = Site::new();
    let _server = site.start("echo", 7, &[]);
    let mut stream = std::net::TcpStream::connect((ADDRESS, 7)).unwrap();
    let sent: Vec<u8> = (0..3_000_000u32).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect();
    let mut writer = stream.try_clone().unwrap();
    let writes = sent.clone();
    let writing = std::thread::spawn(move || {
        writer.write_all(&writes).unwrap();
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut seen = Vec::new();
    stream.read_to_end(&mut seen).unwrap();
    writing.join().unwrap();
    assert!(seen == sent);
}
