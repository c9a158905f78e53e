//! A network namespace with a TAP device in it, a server on the device, and everything gone at the
//! end, also when a test fails.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

pub(crate) use crate::netns::root;
use crate::netns::{Netns, or_skip};

/// The kernel's side of the device.
pub(crate) const KERNEL_V4: &str = "10.99.0.1";
pub(crate) const KERNEL_V6: &str = "fd99::1";
/// Our stack's side.
pub(crate) const OURS_V4: &str = "10.99.0.2";
pub(crate) const OURS_V6: &str = "fd99::2";

/// Our addresses, both families.
pub(crate) fn ours() -> [IpAddr; 2] {
    [OURS_V4.parse().unwrap(), OURS_V6.parse().unwrap()]
}

/// The name of the device in every namespace.
pub(crate) const TAP: &str = "cw0";

/// Far beyond what anything takes, also on a machine whose cores are busy with something else.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(300);

/// Whether there are this many cores to run on.
pub(crate) fn cores(count: usize) -> bool {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    or_skip(cores >= count, &format!("it needs {count} cores, and may run on {cores}."))
}

/// A namespace of its own, with a TAP device that the kernel has addresses on.
pub(crate) struct World {
    netns: Netns,
    pub(crate) folder: PathBuf,
}

impl World {
    pub(crate) fn new() -> World {
        World::with("mode tap")
    }

    /// `mode` as `ip tuntap` has it, such as `mode tap multi_queue`.
    pub(crate) fn with(mode: &str) -> World {
        let netns = Netns::new("cwe2e");
        let folder = std::env::temp_dir().join(&netns.name);
        std::fs::create_dir_all(&folder).unwrap();
        netns.ip(&format!("tuntap add dev {TAP} {mode}"));
        netns.ip(&format!("addr add {KERNEL_V4}/24 dev {TAP}"));
        netns.ip(&format!("addr add {KERNEL_V6}/64 dev {TAP} nodad"));
        netns.ip(&format!("link set {TAP} up"));
        World { netns, folder }
    }

    /// Runs a program in the namespace to its end.
    pub(crate) fn run(&self, program: &str, args: &[&str]) -> Output {
        self.netns.run(program, args)
    }

    /// The same, when it has to succeed; its output.
    pub(crate) fn text(&self, program: &str, args: &[&str]) -> String {
        self.netns.text(program, args)
    }

    /// A command that runs in the namespace.
    pub(crate) fn command(&self, program: &str, args: &[&str]) -> Command {
        self.netns.command(program, args)
    }

    /// Runs `work` in a thread that lives in the namespace.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let file = std::fs::File::open(format!("/run/netns/{}", self.netns.name)).unwrap();
        thread::scope(|scope| {
            let thread = scope.spawn(move || {
                setns(file, CloneFlags::CLONE_NEWNET).unwrap();
                work()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// A connection to our stack.
    pub(crate) fn connect(&self, address: IpAddr, port: u16) -> std::io::Result<TcpStream> {
        self.inside(|| {
            let stream = TcpStream::connect_timeout(&SocketAddr::new(address, port), TIME_LIMIT)?;
            stream.set_read_timeout(Some(TIME_LIMIT))?;
            stream.set_write_timeout(Some(TIME_LIMIT))?;
            Ok(stream)
        })
    }

    /// Sends `request` and reads until the server closes; a reset counts as an end too.
    pub(crate) fn ask(&self, request: &[u8]) -> String {
        let mut stream = self.connect(ours()[0], 80).unwrap();
        stream.write_all(request).unwrap();
        read_to_end(&mut stream)
    }

    /// `clearway` on the device with both addresses, and `args` besides; it is ready when this
    /// returns.
    pub(crate) fn serve(&self, args: &[&str]) -> Server {
        let port = format!("tap:{TAP}");
        self.serve_on(&port, args)
    }

    pub(crate) fn serve_on(&self, port: &str, args: &[&str]) -> Server {
        let (v4, v6) = (format!("{OURS_V4}/24"), format!("{OURS_V6}/64"));
        let mut all = vec!["http", "--port", port, "-a", &v4, "-a", &v6, "--json"];
        all.extend(args);
        let server = self.clearway(&all);
        if port.starts_with(&format!("tap:{TAP}")) {
            self.wait_for_link();
        }
        server
    }

    /// The kernel drops what is sent before it has seen that the device has somebody at its other
    /// end, and that it sees in its own time.
    fn wait_for_link(&self) {
        let deadline = Instant::now() + TIME_LIMIT;
        loop {
            let link = self.text("ip", &["-oneline", "link", "show", "dev", TAP]);
            if !link.contains("NO-CARRIER") && !link.contains("state DOWN") {
                return;
            }
            assert!(Instant::now() < deadline, "{link}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// `clearway` with these arguments in the namespace; it is ready when this returns.
    pub(crate) fn clearway(&self, args: &[&str]) -> Server {
        self.start(env!("CARGO_BIN_EXE_clearway"), args)
    }

    /// The same for another program that speaks of itself as `clearway` does.
    pub(crate) fn start(&self, program: &str, args: &[&str]) -> Server {
        let mut child = self
            .command(program, args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let out = BufReader::new(child.stdout.take().unwrap());
        let reader = {
            let lines = Arc::clone(&lines);
            thread::spawn(move || {
                for line in out.lines().map_while(Result::ok) {
                    lines.lock().unwrap().push(line);
                }
            })
        };
        let mut server = Server { child, lines, reader: Some(reader) };
        server.wait_for("ready");
        server
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A running `clearway`. `ip netns exec` becomes the program it runs, so the child is `clearway`
/// itself.
pub(crate) struct Server {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<thread::JoinHandle<()>>,
}

impl Server {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn events(&self) -> Vec<Value> {
        self.lines
            .lock()
            .unwrap()
            .iter()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Waits for the first event of this name.
    pub(crate) fn wait_for(&mut self, event: &str) -> Value {
        let deadline = Instant::now() + TIME_LIMIT;
        loop {
            if let Some(found) = self.events().into_iter().find(|e| e["event"] == event) {
                return found;
            }
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("clearway ended with {status} before `{event}`");
            }
            assert!(Instant::now() < deadline, "no `{event}` from clearway");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for the end that comes by itself; exit code and the last event.
    pub(crate) fn wait(mut self) -> (Option<i32>, Value) {
        let deadline = Instant::now() + 3 * TIME_LIMIT;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "clearway does not end");
            thread::sleep(Duration::from_millis(10));
        }
        self.ended()
    }

    /// Sends a signal as Ctrl-C or a service manager does; exit code and summary.
    pub(crate) fn stop(mut self, signal: Signal) -> (Option<i32>, Value) {
        kill(Pid::from_raw(self.pid() as i32), signal).unwrap();
        let deadline = Instant::now() + TIME_LIMIT;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "clearway does not stop");
            thread::sleep(Duration::from_millis(5));
        }
        self.ended()
    }

    fn ended(&mut self) -> (Option<i32>, Value) {
        let code = self.child.wait().unwrap().code();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        (code, self.events().pop().unwrap_or_default())
    }

    /// Stops it and asserts that it ended well; the summary.
    pub(crate) fn summary(self) -> Value {
        let (code, summary) = self.stop(Signal::SIGTERM);
        assert_eq!((code, &summary["event"]), (Some(0), &Value::from("summary")));
        summary
    }

    /// Processor time used so far, in clock ticks of 10 ms.
    pub(crate) fn cpu_ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        // The name in parentheses may hold spaces; user and system time are the 14th and 15th
        // fields.
        let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.try_wait().ok().flatten().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Reads until the other side closes or resets.
pub(crate) fn read_to_end(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => all.extend_from_slice(&piece[..n]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            // A read with a timeout is not taken up again by the kernel after the process was
            // stopped for a moment.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("{error} after {} bytes", all.len()),
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// Reads exactly one response with a Content-Length.
pub(crate) fn read_response(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let mut byte = [0; 1];
    while !all.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        all.push(byte[0]);
    }
    let head = String::from_utf8(all).unwrap();
    let len: usize =
        head.lines().find_map(|l| l.strip_prefix("Content-Length: ")).unwrap().parse().unwrap();
    let mut body = vec![0; len];
    stream.read_exact(&mut body).unwrap();
    head + &String::from_utf8_lossy(&body)
}
