//! A server made with this crate beside peers of the kernel's that read nothing.

mod peers;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use clearway::{Io, Net, Next, Stopper, serve};
use nix::sched::{CloneFlags, unshare};

/// Ends the run also when the test fails.
struct Stops(Stopper);

impl Drop for Stops {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn ip(args: &str) {
    let output = Command::new("ip").args(args.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Gives back what came, as far as there is room.
fn echo(io: &mut dyn Io) -> Next {
    while !io.recv().is_empty() {
        let bytes = io.recv().to_vec();
        let sent = io.send(&bytes);
        io.consumed(sent);
        if sent == 0 {
            return Next::Wait;
        }
    }
    if io.peer_closed() { Next::Close } else { Next::Wait }
}

fn honest_peers_are_served_beside_stuck_ones() {
    let mut net = Net::builder().port("tap:cwstuck0").address("10.96.0.2/24").open().unwrap();
    ip("addr add 10.96.0.1/24 dev cwstuck0");
    ip("link set cwstuck0 up");
    let stops = Stops(net.stopper());
    let running = thread::spawn(move || {
        net.run(serve(7, |_: &mut (), io: &mut dyn Io| echo(io))).map(|_| ())
    });
    let at = "10.96.0.2:7".parse().unwrap();
    let stuck = peers::stuck(at);
    peers::honest(at, 20);
    drop((stuck, stops));
    running.join().unwrap().unwrap();
}

/// The example as a program of its own; it ends with this.
struct Example(Child);

impl Example {
    fn start(args: &[&str]) -> Example {
        // Cargo builds no examples for a single test program.
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([
            "build",
            "--quiet",
            "--offline",
            "--package",
            "clearway",
            "--example",
            "bytes",
        ]);
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        // `cargo xtask ci` builds it with the features of the whole workspace.
        let is_built = std::env::var_os("CLEARWAY_TESTS_BUILT").is_some();
        assert!(is_built || cargo.status().unwrap().success(), "building the example failed");
        let tests = std::env::current_exe().unwrap();
        let path = tests.parent().and_then(Path::parent).unwrap().join("examples/bytes");
        let mut child =
            Command::new(&path).args(args).stdout(Stdio::piped()).spawn().expect("cargo built it");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Example(child)
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn the_example_answers() {
    ip("tuntap add dev cwbytes0 mode tap");
    ip("addr add 10.96.0.1/24 dev cwbytes0");
    ip("link set cwbytes0 up");
    let example = Example::start(&["tap:cwbytes0", "10.96.0.2/24", "10.96.0.1"]);
    for (head, expected) in [
        (
            "GET /random/9000000?seed=1 HTTP/1.1\r\n\r\n",
            "HTTP/1.0 200 OK\r\nContent-Length: 9000000\r\n\r\n",
        ),
        (
            "GET /other HTTP/1.0\r\nHost: x\r\n\r\n",
            "HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        ),
    ] {
        let mut stream = TcpStream::connect("10.96.0.2:80").unwrap();
        let (first, second) = head.as_bytes().split_at(7);
        stream.write_all(first).unwrap();
        stream.write_all(second).unwrap();
        let mut came = Vec::new();
        stream.read_to_end(&mut came).unwrap();
        assert!(
            came.starts_with(expected.as_bytes()),
            "{}",
            String::from_utf8_lossy(&came[..came.len().min(200)])
        );
        let len = if expected.contains("9000000") { 9_000_000 } else { 0 };
        assert_eq!(came.len() - expected.len(), len, "more than a send queue holds");
    }
    drop(example);
}

/// Runs in a network namespace that goes with the thread.
fn in_a_namespace(work: fn()) {
    let run = move || unshare(CloneFlags::CLONE_NEWNET).map(|()| work()).is_ok();
    if !thread::spawn(run).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
        assert!(std::env::var_os("CI").is_none(), "only root can make a network namespace");
        eprintln!("skipped: only root can make a network namespace");
    }
}

#[test]
fn the_example_answers_with_as_many_bytes_as_are_asked_for() {
    in_a_namespace(the_example_answers);
}

#[test]
fn peers_that_read_nothing_take_nothing_from_others_of_a_rust_program() {
    in_a_namespace(honest_peers_are_served_beside_stuck_ones);
}
