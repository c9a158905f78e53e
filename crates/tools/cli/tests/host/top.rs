//! `clearway top` in a terminal of 80 by 24, over a host whose programs talk.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::world::{Host, IN_CLIENT, IN_SERVER, eventually};

/// Echoes what comes over connections and as datagrams.
const SERVER: &str = "
import socket, threading
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(('172.16.1.1', 9053))
listener = socket.create_server(('172.16.1.1', 9080))
print('listens', flush=True)
def echo_datagrams():
    while True:
        data, peer = datagrams.recvfrom(2000)
        datagrams.sendto(data, peer)
threading.Thread(target=echo_datagrams, daemon=True).start()
def echo(conn):
    try:
        while data := conn.recv(65536):
            conn.sendall(data)
    except OSError:
        pass
while True:
    conn, _ = listener.accept()
    threading.Thread(target=echo, args=(conn,), daemon=True).start()
";

/// One connection and one datagram socket that never rest, and a connection that waits.
const CLIENT: &str = "
import socket, threading
idle = socket.create_connection(('172.16.1.1', 9080))
busy = socket.create_connection(('172.16.1.1', 9080))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.connect(('172.16.1.1', 9053))
def ask(s, size):
    while True:
        s.sendall(b'x' * size)
        left = size
        while left:
            left -= len(s.recv(left))
threading.Thread(target=ask, args=(busy, 1000), daemon=True).start()
threading.Thread(target=ask, args=(datagrams, 100), daemon=True).start()
print('idle', idle.getsockname()[1], 'end', flush=True)
try:
    print('idle got', idle.recv(1), flush=True)
except ConnectionResetError:
    print('idle was reset', flush=True)
threading.Event().wait()
";

/// Runs a program in a terminal, passes bytes on both ways, and tells at the end how it ended and
/// whether the terminal is as it was.
const RELAY: &str = r#"
import fcntl, os, select, struct, subprocess, sys, termios
master, slave = os.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
before = termios.tcgetattr(slave)
child = subprocess.Popen(sys.argv[1:], stdin=slave, stdout=slave, stderr=slave,
    start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
os.write(1, b'<<pid %d>>' % child.pid)
sources = [master, 0]
while True:
    ended = child.poll() is not None
    ready, _, _ = select.select(sources, [], [], 0.05)
    if 0 in ready:
        data = os.read(0, 1000)
        if data: os.write(master, data)
        else: sources.remove(0)
    if master in ready:
        os.write(1, os.read(master, 65536))
    elif ended:
        break
same = termios.tcgetattr(slave) == before
os.write(1, b'<<ended %d, terminal %s>>' % (child.returncode, b'restored' if same else b'lost'))
"#;

const ROWS: usize = 24;
const COLUMNS: usize = 80;

/// What a terminal shows that was sent these bytes, as far as programs of our kind need.
fn screen(bytes: &[u8]) -> Vec<String> {
    let mut cells = vec![vec![' '; COLUMNS]; ROWS];
    let (mut row, mut column) = (0, 0);
    let text = String::from_utf8_lossy(bytes);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == '\x1b' && letters.peek() == Some(&'[') {
            letters.next();
            let mut words = String::new();
            let end = loop {
                match letters.next() {
                    Some(letter) if letter.is_ascii_alphabetic() => break letter,
                    Some(letter) => words.push(letter),
                    None => break ' ',
                }
            };
            let number = |at: usize| words.split(';').nth(at).and_then(|word| word.parse().ok());
            match (end, words.as_str()) {
                ('H', _) => {
                    (row, column) = (number(0).unwrap_or(1) - 1, number(1).unwrap_or(1) - 1)
                }
                ('J', "2") | ('h' | 'l', "?1049") => cells = vec![vec![' '; COLUMNS]; ROWS],
                _ => {}
            }
        } else if letter != '\x1b' && row < ROWS && column < COLUMNS {
            cells[row][column] = letter;
            column += 1;
        }
    }
    cells.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned()).collect()
}

/// `clearway top` in a terminal.
struct Top {
    relay: Child,
    said: Arc<Mutex<Vec<u8>>>,
}

impl Top {
    fn start(host: &Host, options: &[&str]) -> Top {
        let mut relay = Command::new("python3")
            .args(["-c", RELAY, env!("CARGO_BIN_EXE_clearway"), "top"])
            .args(options)
            .env("CLEARWAY_SOCKET", host.socket())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let (mut out, mine) = (relay.stdout.take().unwrap(), Arc::clone(&said));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(len @ 1..) = out.read(&mut bytes) {
                mine.lock().unwrap().extend_from_slice(&bytes[..len]);
            }
        });
        Top { relay, said }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.said.lock().unwrap()).into_owned()
    }

    fn screen(&self) -> Vec<String> {
        screen(&self.said.lock().unwrap())
    }

    fn press(&mut self, keys: &str) {
        self.relay.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    fn await_screen(&self, what: &str, is_so: impl Fn(&[String]) -> bool) {
        eventually(what, || is_so(&self.screen()));
    }

    fn pid(&self) -> i32 {
        let text = self.text();
        let pid = text.split_once("<<pid ").and_then(|(_, rest)| rest.split_once(">>"));
        pid.unwrap().0.parse().unwrap()
    }

    /// It has ended well, and the terminal is as it was.
    fn has_ended(mut self) {
        eventually("top ends", || self.text().contains("<<ended "));
        let text = self.text();
        assert!(text.ends_with("<<ended 0, terminal restored>>"), "{text}");
        let last = text.rsplit_once("\x1b[?1049l").expect("the other screen is left").1;
        assert!(last.contains("\x1b[?25h"), "the cursor is shown again: {text}");
        self.relay.wait().unwrap();
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("what top showed:\n{}", self.screen().join("\n"));
        }
        let _ = self.relay.kill();
        let _ = self.relay.wait();
    }
}

/// Bytes a second, out and in, of the sessions on a screen, from above.
fn busy(lines: &[String]) -> Vec<bool> {
    let below = lines.iter().skip_while(|line| !line.starts_with("SESSION")).skip(1);
    let rows = below.filter(|line| line.starts_with("0:"));
    rows.map(|line| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        cells[cells.len() - 3..cells.len() - 1] != ["0", "0"]
    })
    .collect()
}

#[test]
fn top_shows_who_is_busy_obeys_keys_and_leaves_the_terminal_as_it_was() {
    let mut host = Host::new();
    let server = host.spawn(IN_SERVER, "python3", &["-c", SERVER]);
    server.await_text("listens");
    let client = host.spawn(IN_CLIENT, "python3", &["-c", CLIENT]);
    client.await_text("end");
    let port = client.text().split_whitespace().nth(1).unwrap().to_owned();

    let mut top = Top::start(&host, &["--interval", "0.3"]);
    top.await_screen("the busiest session is the first", |lines| {
        let busy = busy(lines);
        busy.first() == Some(&true) && busy.last() == Some(&false)
    });
    top.await_screen("programs, a worker and its stages are there", |lines| {
        let text = lines.join("\n");
        ["python3 (server)", "python3 (client)", "worker 0", " app "]
            .iter()
            .all(|part| text.contains(part))
    });
    top.press("i");
    top.await_screen("the busiest session is the last", |lines| {
        let busy = busy(lines);
        busy.first() == Some(&false) && busy.last() == Some(&true)
    });
    // The server's end of the connection that waits.
    top.press(&format!("/9080 172.16.2.1:{port}\r"));
    top.await_screen("one session is left", |lines| busy(lines).len() == 1);
    top.press("\x1b[B");
    top.press("k");
    top.await_screen("it asks", |lines| lines[ROWS - 1].contains("? y / n"));
    top.press("y");
    client.await_text("idle was reset");
    top.await_screen("it is gone", |lines| busy(lines).is_empty());

    host.kill();
    top.await_screen("it says so", |lines| lines.join("\n").contains("the host is gone"));
    host.start_again();
    top.await_screen("it is back", |lines| {
        let text = lines.join("\n");
        !text.contains("the host is gone") && text.contains("0 programs, 0 sessions")
    });
    top.press("q");
    top.has_ended();

    let top = Top::start(&host, &[]);
    top.await_screen("it shows something", |lines| lines.join("\n").contains("worker 0"));
    kill(Pid::from_raw(top.pid()), Signal::SIGTERM).unwrap();
    top.has_ended();
    drop((server, client));
}

#[test]
fn top_tells_scripts_once_what_it_would_show() {
    let host = Host::new();
    let server = host.spawn(IN_SERVER, "python3", &["-c", SERVER]);
    server.await_text("listens");
    let client = host.spawn(IN_CLIENT, "python3", &["-c", CLIENT]);
    client.await_text("end");
    let top = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clearway"));
        let command = command.arg("top").args(args).env("CLEARWAY_SOCKET", host.socket());
        let out = command.stdin(Stdio::null()).output().unwrap();
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    let rate = |session: &Value, way: &str| session[way]["per-second"].as_f64().unwrap();
    let mut shown = Value::Null;
    eventually("connections and datagrams both have rates", || {
        shown = serde_json::from_str(&top(&["--json", "--interval", "0.5"])).unwrap();
        let is_busy = |kind: &str| {
            shown["sessions"].as_array().unwrap().iter().any(|session| {
                session["kind"] == kind
                    && rate(session, "rx-bytes") > 0.0
                    && rate(session, "tx-bytes") > 0.0
            })
        };
        is_busy("stream") && is_busy("datagram")
    });
    assert!(rate(&shown["total"], "rx-bytes") > 0.0, "{shown:#}");
    assert!(rate(&shown["segments"], "out") > 0.0, "{shown:#}");
    assert_eq!(shown["programs"].as_array().unwrap().len(), 2, "{shown:#}");
    assert!(shown["uptime-seconds"].is_u64(), "{shown:#}");
    // Standard output is no terminal: text, once.
    let text = top(&["--interval", "0.2", "--filter", "9080"]);
    assert!(text.contains("SESSION") && text.contains(":9080") && !text.contains('\x1b'), "{text}");
    assert!(!text.contains(":9053"), "{text}");
    drop((server, client));
}
