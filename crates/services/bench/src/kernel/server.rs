//! The server over the kernel's sockets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use clearway_base::{Handle, Instant, Slab};
use clearway_engine::Seat;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags, SocketAddrAny, SocketFlags, SocketType, sockopt};

use super::{NOTIFIER, SCRATCH, Watch, socket};
use crate::plan::ServerPlan;
use crate::server::{Answerer, Line, ServerReport, Talk};

/// Handshakes that may wait to be accepted; the system allows no more than its own limit.
const BACKLOG: i32 = 65_535;

/// Names of listeners and datagram sockets are below this, where no handle's bits reach; 0 is the
/// notifier's.
const NAMES: u64 = 1 << 32;

/// Datagrams answered in one go, so that connections have their turn.
const DATAGRAMS: usize = 64;

/// What one thread listens on. Made for all threads before any begins, so that an address that is
/// taken is told of at once.
pub struct ListeningSockets {
    listeners: Vec<OwnedFd>,
    datagrams: Vec<OwnedFd>,
}

/// Opens the listening sockets of one of several threads: every one has its own, and the kernel
/// deals connections out among them.
pub fn bind(addresses: &[SocketAddr]) -> Result<ListeningSockets, String> {
    let open = |address: &SocketAddr, kind: SocketType| -> io::Result<OwnedFd> {
        let fd = socket(address, kind)?;
        sockopt::set_socket_reuseport(&fd, true)?;
        if kind == SocketType::STREAM {
            sockopt::set_socket_reuseaddr(&fd, true)?;
        }
        net::bind(&fd, address)?;
        if kind == SocketType::STREAM {
            net::listen(&fd, BACKLOG)?;
        }
        Ok(fd)
    };
    let told = |address: &SocketAddr, error: io::Error| {
        format!(
            "cannot listen on {address}: {error}. Choose a free port with -p, and addresses of \
             this machine"
        )
    };
    let mut listening_sockets = ListeningSockets { listeners: Vec::new(), datagrams: Vec::new() };
    for address in addresses {
        listening_sockets
            .listeners
            .push(open(address, SocketType::STREAM).map_err(|error| told(address, error))?);
        listening_sockets
            .datagrams
            .push(open(address, SocketType::DGRAM).map_err(|error| told(address, error))?);
    }
    Ok(listening_sockets)
}

struct Socket {
    fd: OwnedFd,
    talk: Talk,
    /// Bytes that were read while there was no room for answers.
    unread: Vec<u8>,
}

struct SocketLine<'a> {
    fd: &'a OwnedFd,
    bytes: &'a [u8],
    failed: bool,
}

impl Line for SocketLine<'_> {
    #[inline]
    fn recv(&self) -> &[u8] {
        self.bytes
    }

    #[inline]
    fn consumed(&mut self, n: usize) {
        self.bytes = &self.bytes[n..];
    }

    #[inline]
    fn send(&mut self, bytes: &[u8]) -> usize {
        match net::send(self.fd, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => sent,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(_) => {
                self.failed = true;
                0
            }
        }
    }
}

struct Server {
    answerer: Answerer,
    sockets: Slab<Socket>,
    scratch: Vec<u8>,
}

/// How a step with a socket went.
#[derive(PartialEq, Eq)]
enum Went {
    On,
    Closed,
    Failed,
}

impl Server {
    fn on_socket(&mut self, id: Handle<Socket>, flags: EventFlags) {
        let over = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        let went = match self.sockets.get_mut(id) {
            Some(socket) => talk(&mut self.answerer, socket, &mut self.scratch, over),
            None => return,
        };
        if went != Went::On {
            self.sockets.remove(id);
            self.answerer.report.open -= 1;
            self.answerer.report.failed += u64::from(went == Went::Failed);
        }
    }

    fn on_datagrams(&mut self, socket: &OwnedFd) {
        for _ in 0..DATAGRAMS {
            match net::recvfrom(socket, &mut self.scratch[..], RecvFlags::empty()) {
                Ok((_, len, Some(from))) => {
                    if self.answerer.on_datagram(len) {
                        let sent = net::sendto(
                            socket,
                            self.answerer.message(),
                            SendFlags::NOSIGNAL,
                            &SocketAddrAny::clone(&from),
                        );
                        self.answerer.on_answered(sent.is_ok());
                    }
                }
                Ok((_, _, None)) => {}
                // An ICMP error of an earlier answer is told here; the next read goes on.
                Err(Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

/// Reads and answers until there is no more, or no room.
fn talk(answerer: &mut Answerer, socket: &mut Socket, scratch: &mut [u8], over: bool) -> Went {
    let kept = std::mem::take(&mut socket.unread);
    let mut line = SocketLine { fd: &socket.fd, bytes: &kept, failed: false };
    let mut done = answerer.answer(&mut socket.talk, &mut line);
    if line.failed {
        return Went::Failed;
    }
    if !done {
        socket.unread = line.bytes.to_vec();
        return Went::On;
    }
    loop {
        match net::recv(socket.fd.as_fd(), &mut *scratch, RecvFlags::empty()) {
            Ok((_, 0)) => return Went::Closed,
            Ok((_, len)) => {
                let mut line = SocketLine { fd: &socket.fd, bytes: &scratch[..len], failed: false };
                done = answerer.answer(&mut socket.talk, &mut line);
                if line.failed {
                    return Went::Failed;
                }
                if !done {
                    socket.unread = line.bytes.to_vec();
                    return Went::On;
                }
                // A read that was not filled has read all there was; what comes later is an edge of
                // its own.
                if len < scratch.len() && !over {
                    return Went::On;
                }
            }
            Err(Errno::AGAIN) => return Went::On,
            Err(Errno::INTR) => {}
            Err(_) => return Went::Failed,
        }
    }
}

/// Runs one thread's server until the team is told to stop. An error is a sentence.
pub fn run_server(
    seat: Seat<ServerReport>,
    plan: &ServerPlan,
    listening_sockets: ListeningSockets,
) -> Result<(), String> {
    let told = |error: io::Error| format!("cannot wait for sockets: {error}");
    let mut watch = Watch::new(seat).map_err(told)?;
    let listeners = listening_sockets.listeners.len() as u64;
    for (index, listening_socket) in
        listening_sockets.listeners.iter().chain(&listening_sockets.datagrams).enumerate()
    {
        watch.add(listening_socket, 1 + index as u64, EventFlags::IN).map_err(told)?;
    }
    let mut server = Server {
        answerer: Answerer::new(plan),
        sockets: Slab::new(plan.connections),
        scratch: vec![0; SCRATCH],
    };
    server.answerer.report.from = watch.now;
    let cycles = clearway_hint::cycles();
    let report = |server: &Server, watch: &Watch<ServerReport>| ServerReport {
        at: watch.now,
        busy: watch.busy,
        cycles: clearway_hint::cycles().wrapping_sub(cycles),
        ..server.answerer.report.clone()
    };
    while watch.wait(Instant::NEVER).map_err(told)? {
        for at in 0..watch.events.len() {
            let (name, flags) = (watch.events[at].data.u64(), watch.events[at].flags);
            match name {
                NOTIFIER => watch.seat.notifier().clear(),
                name if name <= listeners => {
                    accept(&mut server, &watch, &listening_sockets.listeners[name as usize - 1])
                }
                name if name < NAMES => server
                    .on_datagrams(&listening_sockets.datagrams[(name - listeners) as usize - 1]),
                bits => {
                    if let Some(id) = Handle::from_bits(bits) {
                        server.on_socket(id, flags);
                    }
                }
            }
        }
        if watch.wants_report() {
            watch.look_at_cpu();
            let report = report(&server, &watch);
            watch.publish(report);
        }
    }
    watch.look_at_cpu();
    let report = report(&server, &watch);
    watch.publish(report);
    Ok(())
}

fn accept(server: &mut Server, watch: &Watch<ServerReport>, listener: &OwnedFd) {
    while let Ok(fd) = net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        let place = server.sockets.insert_with(|_| Socket {
            fd,
            talk: Talk::default(),
            unread: Vec::new(),
        });
        let Some(id) = place else {
            server.answerer.report.no_room += 1;
            continue;
        };
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        let added = server
            .sockets
            .get(id)
            .is_some_and(|socket| watch.add(&socket.fd, id.to_bits(), flags).is_ok());
        if !added {
            server.sockets.remove(id);
            server.answerer.report.no_room += 1;
            continue;
        }
        server.answerer.report.accepted += 1;
        server.answerer.report.open += 1;
    }
}
