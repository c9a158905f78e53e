//! Requests of 64 bytes a second, served by tasks of tokio and by a loop over an epoll set of the
//! client library, in turn: docs/tokio.md.

use std::error::Error;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clearway_client::{
    AppConfig, Client, EpollEvent, EpollSet, Errno, Kind, Socket, SocketOptions,
};
use clearway_engine::PortOptions;
use clearway_host::{
    Host, InterfaceEntry, InterfaceKind, NamespaceLimits, NamespaceSpec, Setup, Worker,
};
use clearway_ports::Port;
use clearway_proto::Table;
use clearway_tokio::Net;
use rustix::event::epoll as kernel;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const LEN: usize = 64;
const ADDRESS: &str = "172.31.0.1";
const IN: u32 = libc::EPOLLIN as u32;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A socket and its session fd.
type Own = (Arc<Socket>, OwnedFd);

/// Sockets that one thread serves.
struct Loop {
    set: Arc<EpollSet>,
    epfd: OwnedFd,
    sockets: Vec<Own>,
}

impl Loop {
    fn new(client: &Arc<Client>) -> Result<Loop> {
        let epfd = kernel::create(kernel::CreateFlags::CLOEXEC)?;
        let set = EpollSet::new(client, epfd.as_raw_fd())?;
        Ok(Loop { set, epfd, sockets: Vec::new() })
    }

    fn add(&mut self, own: Own) -> Result<()> {
        let event = EpollEvent { events: IN, data: self.sockets.len() as u64 };
        self.set.add(own.1.as_raw_fd(), &own.0, event)?;
        self.sockets.push(own);
        Ok(())
    }

    /// Answers each request with as many bytes, until the peers end or `stop` is set. Returns how
    /// many there were.
    fn answer(&self, stop: &AtomicBool) -> Result<u64> {
        let (mut done, mut open) = (0, self.sockets.len());
        let mut events = [EpollEvent::default(); 64];
        while open > 0 && !stop.load(Ordering::Relaxed) {
            let timeout = Some(Duration::from_millis(100));
            let found = self.set.wait(self.epfd.as_raw_fd(), &mut events, timeout, None)?;
            for event in &events[..found] {
                let own = &self.sockets[event.data as usize];
                let mut bytes = [0; LEN];
                let mut into = [IoSliceMut::new(&mut bytes)];
                match own.0.recv(&mut into, libc::MSG_DONTWAIT) {
                    Ok(received) if received.len > 0 => {
                        own.0.send(&[IoSlice::new(&bytes[..received.len])], 0)?;
                        done += 1;
                    }
                    Err(Errno::AGAIN) => {}
                    _ => {
                        self.set.remove(own.1.as_raw_fd())?;
                        open -= 1;
                    }
                }
            }
        }
        Ok(done)
    }
}

/// A host with one loopback, in this process.
fn host(folder: &Path) -> Result<clearway_host::HostHandle> {
    let host = Host::start(Setup::new(folder.join("host.sock"), [3; 32]))?;
    let handle = host.handle();
    std::thread::spawn(move || host.run());
    let made = handle.ask_all(|worker: &mut Worker| {
        let port = Port::loopback(worker.pool(), 65_535);
        let options = PortOptions { name: "loop0".into(), table: Table(1), mtu: None };
        let iface = worker.engine().add_port(port, options).expect("a first port");
        let now = worker.time().now;
        let address = format!("{ADDRESS}/24").parse().expect("an address");
        worker.stack().add_address(now, iface, address).expect("a first address");
        iface
    })?;
    let entry =
        InterfaceEntry { name: "loop0".into(), iface: made[0], kind: InterfaceKind::Loopback };
    handle.interfaces().lock().expect("nobody panicked").add(entry)?;
    handle.routes_changed();
    handle.add_namespace(NamespaceSpec {
        id: "rate".into(),
        secret: None,
        table: Table(1),
        interface: Some("loop0".into()),
        limits: NamespaceLimits::default(),
    })??;
    Ok(handle)
}

/// Asks over so many connections for so long, and says how many answers came a second.
fn load(client: &Arc<Client>, port: u16, connections: usize, time: Duration) -> Result<f64> {
    let to = format!("{ADDRESS}:{port}").parse()?;
    let mut asking = Loop::new(client)?;
    for _ in 0..connections {
        let (socket, session_fd) = client.open(Kind::Stream, false, &SocketOptions::default())?;
        socket.connect(Some(to))?;
        asking.add((socket, session_fd))?;
    }
    let stop = AtomicBool::new(false);
    let began = Instant::now();
    let done = std::thread::scope(|scope| -> Result<u64> {
        scope.spawn(|| {
            std::thread::sleep(time);
            stop.store(true, Ordering::Relaxed);
        });
        for (socket, _) in &asking.sockets {
            socket.send(&[IoSlice::new(&[1; LEN])], 0)?;
        }
        asking.answer(&stop)
    })?;
    Ok(done as f64 / began.elapsed().as_secs_f64())
}

fn listener(client: &Arc<Client>, port: u16) -> Result<Own> {
    let (socket, session_fd) = client.open(Kind::Stream, false, &SocketOptions::default())?;
    socket.bind(format!("{ADDRESS}:{port}").parse()?)?;
    socket.listen(128)?;
    Ok((socket, session_fd))
}

/// Serves by a loop on one thread while `work` runs.
fn by_loop(client: &Arc<Client>, port: u16, connections: usize, work: Work<'_>) -> Result<f64> {
    let listening = listener(client, port)?;
    let mut serving = Loop::new(client)?;
    let thread = std::thread::spawn(move || {
        for _ in 0..connections {
            let (socket, session_fd, _) = listening.0.accept().expect("a connection");
            serving.add((socket, session_fd)).expect("a member");
        }
        serving.answer(&AtomicBool::new(false)).expect("the peers end");
    });
    let rate = work()?;
    thread.join().expect("it does not panic");
    Ok(rate)
}

/// Serves by tasks on one worker thread while `work` runs.
fn by_tasks(net: &Net, port: u16, connections: usize, work: Work<'_>) -> Result<f64> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let listener = runtime.block_on(net.listen((ADDRESS, port)))?;
    runtime.spawn(async move {
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            tokio::spawn(async move {
                let mut bytes = [0; LEN];
                while let Ok(len @ 1..) = stream.read(&mut bytes).await {
                    if stream.write_all(&bytes[..len]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    work()
}

type Work<'a> = &'a dyn Fn() -> Result<f64>;

fn argument<T: std::str::FromStr>(name: &str, or: &str) -> Result<Vec<T>> {
    let arguments: Vec<String> = std::env::args().collect();
    let at = arguments.iter().position(|argument| argument == name);
    let text = at.and_then(|at| arguments.get(at + 1)).map_or(or, String::as_str);
    let values = text.split(',').map(|value| value.parse().map_err(|_| format!("{name}: {value}")));
    Ok(values.collect::<std::result::Result<_, _>>()?)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<()> {
    let connections: Vec<usize> = argument("--connections", "1,16,64")?;
    let time = Duration::from_secs_f64(argument("--seconds", "2")?[0]);
    let rounds: usize = argument("--rounds", "3")?[0];
    let folder = std::env::temp_dir().join(format!("clearway-rate-{}", std::process::id()));
    let host = host(&folder)?;
    let config = || AppConfig {
        socket: Some(folder.join("host.sock")),
        namespace: "rate".into(),
        ..AppConfig::default()
    };
    let (ours, theirs) = (Client::attach(config())?, Client::attach(config())?);
    let net = Net::over(theirs.clone());
    println!("| connections | loop, requests/s | tokio, requests/s | ratio |");
    println!("| ---: | ---: | ---: | ---: |");
    let mut port = 9000;
    for connections in connections {
        let mut rates = [const { Vec::new() }; 2];
        for _ in 0..rounds {
            port += 2;
            let ours = &ours;
            let work = |port| move || load(ours, port, connections, time);
            rates[0].push(by_loop(&theirs, port, connections, &work(port))?);
            rates[1].push(by_tasks(&net, port + 1, connections, &work(port + 1))?);
        }
        let [by_loop, by_tasks] = rates.map(median);
        let ratio = by_tasks / by_loop;
        println!("| {connections} | {by_loop:.0} | {by_tasks:.0} | {ratio:.2} |");
    }
    host.stop();
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
