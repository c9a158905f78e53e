//! A host that is drained, with a Linux peer: new connections are kept out, old ones go on, and
//! whoever asks for the host's health hears of it. And connections that an operator ends.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use crate::netns::{Netns, root};
use crate::world::{Host, Namespace, Running, eventually, folder};

const WIRE: Namespace = Namespace { id: "wire", secret: "abc" };

/// Sends back what comes, on as many connections as come; says how each ends.
const SERVER: &str = "
import socket, threading
def serve(conn):
    conn.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    try:
        while data := conn.recv(4096):
            conn.sendall(data)
        print('closed', flush=True)
    except OSError as error:
        print('failed', error.errno, flush=True)
    conn.close()
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(('10.97.1.2', 9000))
listener.listen(64)
print('listens', flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],)).start()
";

/// Connects, and passes on lines until its input ends.
const CLIENT: &str = "
import socket, sys
try:
    s = socket.create_connection(('10.97.1.2', 9000))
except OSError as error:
    print('failed', error.errno, flush=True)
    sys.exit(0)
print('connected', flush=True)
try:
    for line in sys.stdin:
        s.sendall(line.encode())
        print(s.recv(4096).decode().strip() or 'closed', flush=True)
except OSError as error:
    print('failed', error.errno, flush=True)
";

const REFUSED: i32 = 111;

struct World {
    netns: Netns,
    host: Host,
    _server: Running,
}

impl World {
    fn new() -> World {
        let netns = Netns::new("cwdrain");
        let folder = folder();
        let file = folder.join("host.toml");
        let metrics = file.with_file_name("metrics.sock");
        std::fs::write(&file, format!("[metrics]\nlisten = {metrics:?}\n")).unwrap();
        let commands = [
            "create tap id 0 host-if-name cw0",
            "set interface state tap0 up",
            "set interface ip address tap0 10.97.1.2/24",
            "app ns add id wire secret abc if tap0",
        ];
        let host = Host::inside(&netns, &["-c", file.to_str().unwrap()], &commands);
        std::fs::rename(&metrics, host.folder.join("metrics.sock")).unwrap();
        netns.ip("addr add 10.97.1.1/24 dev cw0");
        netns.ip("link set cw0 up");
        let server = host.spawn(WIRE, "python3", &["-c", SERVER]);
        server.await_text("listens");
        World { netns, host, _server: server }
    }

    fn client(&self) -> Client {
        let mut command = self.netns.command("python3", &["-uc", CLIENT]);
        Client::start(&mut command)
    }

    fn clearway(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clearway"));
        command.args(args).env("CLEARWAY_SOCKET", self.host.socket());
        command
    }

    fn once(&self, args: &[&str]) -> Output {
        self.clearway(args).output().unwrap()
    }

    /// The exit code of `clearway health`, and what it says.
    fn health(&self) -> (i32, String) {
        let out = self.once(&["health"]);
        (out.status.code().unwrap(), String::from_utf8_lossy(&out.stdout).trim().to_owned())
    }

    fn healthz(&self) -> String {
        let path = self.host.folder.join("metrics.sock");
        let mut stream = std::os::unix::net::UnixStream::connect(path).unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default().trim();
        format!("{} {body}", answer.split(' ').nth(1).unwrap_or_default())
    }

    fn kept_out(&self) -> u64 {
        self.host.json("show drain")["kept-out"].as_u64().unwrap()
    }
}

/// A client over the kernel; ended when it goes.
struct Client {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Client {
    fn start(command: &mut Command) -> Client {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Client { child, said }
    }

    fn says(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn asks(&mut self, what: &str) -> String {
        writeln!(self.child.stdin.as_mut().unwrap(), "{what}").unwrap();
        self.says()
    }

    fn ends(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_drained_host_refuses_new_connections_and_keeps_the_old_to_their_end() {
    if !root() {
        return;
    }
    let world = World::new();
    let mut old = world.client();
    assert_eq!(old.says(), "connected");
    assert_eq!(world.health(), (0, "healthy workers 1 programs 1 connections 1".into()));
    assert_eq!(world.healthz(), "200 ok");

    let mut draining = world.clearway(&["ctl", "drain"]);
    let mut draining = draining.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut progress = BufReader::new(draining.stderr.take().unwrap());
    let mut line = String::new();
    progress.read_line(&mut line).unwrap();
    assert!(line.starts_with("draining: 1 of 1 connections left (open 1, "), "{line}");
    assert_eq!(world.health(), (3, "draining workers 1 programs 1 connections 1".into()));
    assert_eq!(world.healthz(), "503 draining");
    assert!(world.host.ctl("show metrics").contains("\nclearway_draining 1\n"));
    assert!(world.host.ctl("show drain").contains("drained since"));

    assert_eq!(world.client().says(), format!("failed {REFUSED}"));
    assert_eq!(world.kept_out(), 1);
    assert_eq!(old.asks("still here"), "still here");
    // Programs of the host reach each other as ever.
    let mut command = world.host.command(WIRE, "python3", &["-uc", CLIENT]);
    let mut inside = Client::start(&mut command);
    assert_eq!(inside.says(), "connected");
    assert_eq!(inside.asks("inside"), "inside");
    assert_eq!(world.health().1, "draining workers 1 programs 2 connections 1");

    old.ends();
    let out = draining.wait_with_output().unwrap();
    assert!(out.status.success(), "{out:?}");
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(said.starts_with("drained: 1 connections ended within "), "{said}");
    assert!(said.ends_with("1 SYNs were kept out\n"), "{said}");
    let (code, said) = world.health();
    assert_eq!((code, said.starts_with("drained workers 1 ")), (3, true), "{said}");
    assert_eq!(world.once(&["health", "--alive"]).status.code(), Some(0));
    assert_eq!(inside.asks("inside still"), "inside still");
    inside.ends();

    world.host.ctl("undrain");
    assert_eq!(world.client().says(), "connected");
    assert_eq!((world.health().0, world.healthz().as_str()), (0, "200 ok"));
    world.host.stop();
}

#[test]
fn draining_waits_no_longer_than_it_may_and_can_be_taken_back() {
    if !root() {
        return;
    }
    let world = World::new();
    let mut old = world.client();
    assert_eq!(old.says(), "connected");
    let out = world.once(&["ctl", "drain", "--timeout", "0", "--json"]);
    assert_eq!(out.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((&json["drained"], &json["connections"]), (&false.into(), &1.into()), "{json}");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("1 connections are left after"), "{said}");
    assert_eq!(world.health().0, 3, "it stays drained");

    // Who waits is told when somebody takes it back.
    let mut waiting = world.clearway(&["ctl", "drain"]);
    let mut waiting = waiting.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(waiting.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.starts_with("draining: 1 of 1 "), "{line}");
    world.host.ctl("undrain");
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("somebody has taken the draining back"), "{rest}");
    assert_eq!(waiting.wait().unwrap().code(), Some(1));

    world.host.ctl("drain announce");
    eventually("the host is drained", || world.health().0 == 3);
    let mut new = world.client();
    assert_eq!(new.says(), "connected", "while it is announced, new ones are taken");
    world.host.ctl("undrain");
    assert_eq!(old.asks("hello"), "hello");

    let out = world.once(&["ctl", "drain", "soon"]);
    assert_eq!(out.status.code(), Some(2), "{out:?}");
    world.host.stop();
}

#[test]
fn a_host_that_is_drained_in_silence_leaves_syns_to_be_repeated() {
    if !root() {
        return;
    }
    let world = World::new();
    let out = world.once(&["ctl", "drain", "silent"]);
    assert!(out.status.success(), "nothing is left to wait for: {out:?}");
    let mut new = world.client();
    eventually("its SYN came", || world.kept_out() > 0);
    world.host.ctl("undrain");
    assert_eq!(new.says(), "connected", "by a SYN that was repeated");
    assert_eq!(new.asks("hello"), "hello");
    world.host.stop();
}

#[test]
fn an_operator_ends_connections_by_the_words_of_ss() {
    if !root() {
        return;
    }
    let world = World::new();
    let (mut one, mut other) = (world.client(), world.client());
    assert_eq!((one.says(), other.says()), ("connected".into(), "connected".into()));
    assert_eq!((one.asks("a"), other.asks("b")), ("a".into(), "b".into()));
    let sockets = |args: &[&str]| {
        let out = world.once(&[&["ss"], args].concat());
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stdout).unwrap()
    };
    let before = sockets(&["-tnH"]);
    let peers: Vec<&str> =
        before.lines().map(|line| line.split_whitespace().nth(4).unwrap()).collect();
    assert_eq!(peers.len(), 2, "{before}");
    let killed = sockets(&["-KtnH", "dst", peers[0]]);
    assert_eq!(killed.split_whitespace().nth(4), Some(peers[0]), "{killed}");
    let rest = || sockets(&["-tnH", "state", "established"]);
    assert!(rest().contains(peers[1]) && !rest().contains(peers[0]), "{}", rest());
    // Its program is told what Linux tells it.
    world._server.await_text("failed 103");
    // One of the clients is reset, the other goes on.
    let said = [one.asks("c"), other.asks("d")];
    let failed = said.iter().filter(|said| said.starts_with("failed ") || *said == "closed");
    assert_eq!(failed.count(), 1, "{said:?}");

    // Its server asked for a sign of life every two hours.
    eventually("what was sent is acknowledged", || {
        sockets(&["-tonH"]).contains("timer:(keepalive,1")
    });

    // A listener is no connection, and a name that is nobody's is told.
    assert_eq!(sockets(&["-KltnH"]), "");
    for (line, why) in [
        ("session kill 0:4000000", "there is no session 0:4000000"),
        ("session kill 9:0", "there is no session 9:0"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let out = world.host.try_ctl(&words);
        assert_eq!(out.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&out.stderr).contains(why), "{out:?}");
    }
    world.host.stop();
}
