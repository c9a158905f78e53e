//! The server's turn: take what has arrived, answer on the sockets that were woken, send.
//!
//! smoltcp walks over all its sockets for each packet that arrives and each time that it sends. So
//! that nothing is added to that, sockets say themselves when there is something to do (their
//! wakers), and smoltcp is asked to send only after something happened, or when a timer may be due.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use clearway_base::{Duration, Instant};
use clearway_bench::framing::Partial;
use clearway_bench::{Framing, Pattern, ServerReport};
use clearway_dev::{DevError, Facts as _};
use clearway_engine::Clock;
use clearway_wire::{Addr, Cidr};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use smoltcp::iface::{
    Config, Interface, PollIngressSingleResult, PollResult, SocketHandle, SocketSet,
};
use smoltcp::socket::{tcp, udp};
use smoltcp::time;
use smoltcp::wire::{IpAddress, IpCidr, IpListenEndpoint};

use crate::link::Link;
use crate::told::Signals;

/// What the user asks for.
pub(crate) struct Plan {
    pub(crate) port: u16,
    pub(crate) answer: Vec<u8>,
    pub(crate) requests: Framing,
    pub(crate) pattern: Pattern,
    pub(crate) connections: usize,
}

/// Bytes of one connection's receive and send buffer, at least: what is not used of them is not
/// touched.
const BUFFER: usize = 4 << 10;

/// The same at most. A burst has this at once, since its window is all of it.
const LARGEST_BUFFER: usize = 256 << 10;

/// Datagrams and bytes of each queue of UDP.
const DATAGRAMS: usize = 4_096;
const DATAGRAM_BYTES: usize = 4 << 20;

/// Answers that are handed over together, in bytes.
const TOGETHER: usize = 64 << 10;

/// How often smoltcp looks at its timers: each time walks over all sockets.
const LOOK_AT_TIMERS: Duration = Duration::from_millis(1);

/// How often one looks for a signal.
const LOOK_FOR_SIGNALS: Duration = Duration::from_millis(10);

/// How long one looks for more packets before sleeping, and the longest sleep over a port that
/// cannot wake anybody.
const SPIN: Duration = Duration::from_micros(100);
const NAP: Duration = Duration::from_micros(100);
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// Times that smoltcp is asked to send in one turn at most: each time brings one segment of each
/// socket.
const ROUNDS: usize = 64;

/// The names of sockets that were woken.
type Woken = Arc<Mutex<Vec<usize>>>;

struct Notifier {
    name: usize,
    woken: Woken,
}

impl Wake for Notifier {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).push(self.name);
    }
}

/// A connection's side of the application.
struct Conn {
    handle: SocketHandle,
    waker: Waker,
    partial: Partial,
    /// Bytes of answers that have not been handed over.
    owed: u64,
    is_open: bool,
    peer_closed: bool,
}

pub(crate) struct Server {
    link: Link,
    iface: Interface,
    sockets: SocketSet<'static>,
    plan: Plan,
    /// The answer again and again.
    text: Vec<u8>,
    buffer: usize,
    conns: Vec<Conn>,
    /// Connections without a peer whose sockets do not listen.
    free: Vec<usize>,
    /// The one that waits for the next SYN.
    listening: Option<usize>,
    woken: Woken,
    datagrams: SocketHandle,
    datagram_notifier: Waker,
    report: ServerReport,
}

/// The name of the UDP socket among the woken.
const UDP: usize = usize::MAX;

fn address(addr: Addr) -> IpAddress {
    std::net::IpAddr::from(addr).into()
}

fn smol(now: Instant) -> time::Instant {
    time::Instant::from_micros((now.as_nanos() / 1_000) as i64)
}

impl Server {
    pub(crate) fn new(
        mut link: Link,
        plan: Plan,
        addresses: &[Cidr],
        gateways: &[Addr],
    ) -> anyhow::Result<Server> {
        let now = Clock::new().read().now;
        let mut config = Config::new(link.hardware_address());
        config.random_seed = clearway_hint::cycles() ^ now.as_nanos();
        let mut iface = Interface::new(config, &mut link, smol(now));
        iface.update_ip_addrs(|ours| {
            // There are no more than fit, as the command line was asked already.
            ours.extend(
                addresses.iter().map(|cidr| IpCidr::new(address(cidr.addr), cidr.prefix_len)),
            );
        });
        for gateway in gateways {
            let added = match address(*gateway) {
                IpAddress::Ipv4(gateway) => {
                    iface.routes_mut().add_default_ipv4_route(gateway).is_ok()
                }
                IpAddress::Ipv6(gateway) => {
                    iface.routes_mut().add_default_ipv6_route(gateway).is_ok()
                }
            };
            anyhow::ensure!(
                added,
                "smoltcp has no place for the route by {gateway}: give fewer --gateway"
            );
        }
        let woken = Woken::default();
        let queue = || {
            udp::PacketBuffer::new(
                vec![udp::PacketMetadata::EMPTY; DATAGRAMS],
                vec![0; DATAGRAM_BYTES],
            )
        };
        let mut socket = udp::Socket::new(queue(), queue());
        let port = plan.port;
        socket
            .bind(port)
            .map_err(|error| anyhow::anyhow!("smoltcp cannot bind UDP port {port}: {error}"))?;
        let datagram_notifier =
            Waker::from(Arc::new(Notifier { name: UDP, woken: Arc::clone(&woken) }));
        socket.register_recv_waker(&datagram_notifier);
        let mut sockets = SocketSet::new(Vec::new());
        let datagrams = sockets.add(socket);
        let longest = match plan.requests {
            Framing::Fixed(len) => plan.answer.len().max(len as usize),
            _ => plan.answer.len(),
        };
        let buffer = if plan.pattern == Pattern::Burst {
            LARGEST_BUFFER
        } else {
            (2 * longest).clamp(BUFFER, LARGEST_BUFFER)
        };
        let text = plan.answer.repeat((TOGETHER / plan.answer.len()).max(1));
        let (conns, free, report) = (Vec::new(), Vec::new(), ServerReport::default());
        let mut server = Server {
            link,
            iface,
            sockets,
            plan,
            text,
            buffer,
            conns,
            free,
            listening: None,
            woken,
            datagrams,
            datagram_notifier,
            report,
        };
        server.listen();
        Ok(server)
    }

    pub(crate) fn report(&self) -> &ServerReport {
        &self.report
    }

    /// Runs turns until a signal comes, or for so long.
    pub(crate) fn serve(
        &mut self,
        signals: &Signals,
        time: Option<std::time::Duration>,
        poll: bool,
    ) -> anyhow::Result<()> {
        let mut clock = Clock::new();
        let began = clock.read().now;
        let cycles = clearway_hint::cycles();
        let end = time
            .map_or(Instant::NEVER, |time| began + Duration::from_nanos(time.as_nanos() as u64));
        let (mut before, mut worked, mut pending) = (began, false, false);
        let (mut timers_at, mut signals_at, mut worked_at) = (began, began, began);
        self.report.from = began;
        loop {
            // One reading of the clock ends a turn and begins the next; only turns that found
            // something to do count.
            let mut now = clock.read().now;
            if worked {
                self.report.busy = self.report.busy + now.since(before);
                worked_at = now;
            }
            if now >= end || (now >= signals_at && signals.came()) {
                break;
            }
            if now >= signals_at {
                signals_at = now + LOOK_FOR_SIGNALS;
            }
            if !worked && !pending && !poll && now.since(worked_at) >= SPIN {
                self.sleep(now, end, signals)?;
                now = clock.read().now;
                signals_at = now;
            }
            before = now;
            let received = self.receive(now)?;
            let woken = self.answer_woken();
            if received || woken || pending || now >= timers_at {
                timers_at = now + LOOK_AT_TIMERS;
                pending = self.send(now);
            }
            worked = received || woken || pending;
            self.link.flush();
        }
        self.report.at = clock.read().now;
        self.report.cycles = clearway_hint::cycles().wrapping_sub(cycles);
        Ok(())
    }

    /// Sleeps until the port has something, a timer is due, or a signal comes.
    fn sleep(&mut self, now: Instant, end: Instant, signals: &Signals) -> anyhow::Result<()> {
        let timer = self
            .iface
            .poll_delay(smol(now), &self.sockets)
            .map(|delay| Duration::from_micros(delay.micros()));
        let port = self.link.port();
        let longest = if port.must_poll() { NAP } else { LONGEST_SLEEP };
        let wait = timer
            .unwrap_or(longest)
            .min(longest)
            .min(end.since(now))
            .min(port.next_deadline().since(now));
        let mut fds = vec![PollFd::new(std::os::fd::AsFd::as_fd(signals), PollFlags::POLLIN)];
        fds.extend(port.wait_fd().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        let timeout = TimeSpec::from_duration(std::time::Duration::from_nanos(wait.as_nanos()));
        match ppoll(&mut fds, Some(timeout), None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Gives smoltcp what has arrived; whether there was anything.
    fn receive(&mut self, now: Instant) -> Result<bool, DevError> {
        if self.link.fill(now)? == 0 {
            return Ok(false);
        }
        let now = smol(now);
        while self.iface.poll_ingress_single(now, &mut self.link, &mut self.sockets)
            != PollIngressSingleResult::None
        {
            // A SYN takes the socket that listens, and the next one wants another.
            self.listen();
        }
        Ok(true)
    }

    /// Lets smoltcp send; whether it may have more.
    fn send(&mut self, now: Instant) -> bool {
        for _ in 0..ROUNDS {
            if self.iface.poll_egress(smol(now), &mut self.link, &mut self.sockets)
                == PollResult::None
            {
                return false;
            }
            let more = self.sockets.get::<udp::Socket<'_>>(self.datagrams).send_queue() > 0;
            // Answers that fit one segment went with the first round, and the next turn finds out
            // whether there is more.
            if !more && self.plan.answer.len() <= smallest_segment(self.link.port().mtu()) {
                return true;
            }
        }
        true
    }

    /// Sees to it that a socket listens, as long as there may be more connections.
    fn listen(&mut self) {
        if let Some(index) = self.listening
            && self.sockets.get::<tcp::Socket<'_>>(self.conns[index].handle).is_listening()
        {
            return;
        }
        self.listening = None;
        if self.conns.len() - self.free.len() >= self.plan.connections {
            return;
        }
        let index = self.free.pop().unwrap_or_else(|| self.new_conn());
        let conn = &mut self.conns[index];
        (conn.partial, conn.owed, conn.is_open, conn.peer_closed) =
            (Partial::default(), 0, false, false);
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(conn.handle);
        // A socket that is closed listens, whatever it was before.
        if socket.listen(IpListenEndpoint { addr: None, port: self.plan.port }).is_ok() {
            self.listening = Some(index);
        }
        watch(socket, &conn.waker);
    }

    fn new_conn(&mut self) -> usize {
        let buffer = || tcp::SocketBuffer::new(vec![0; self.buffer]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        let index = self.conns.len();
        let waker = Waker::from(Arc::new(Notifier { name: index, woken: Arc::clone(&self.woken) }));
        let handle = self.sockets.add(socket);
        self.conns.push(Conn {
            handle,
            waker,
            partial: Partial::default(),
            owed: 0,
            is_open: false,
            peer_closed: false,
        });
        index
    }

    /// Looks at the sockets that were woken; whether there was one.
    fn answer_woken(&mut self) -> bool {
        let mut any = false;
        loop {
            let names =
                std::mem::take(&mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner));
            if names.is_empty() {
                return any;
            }
            any = true;
            for name in names {
                if name == UDP {
                    self.answer_datagrams();
                } else {
                    self.answer(name);
                }
            }
        }
    }

    fn answer(&mut self, index: usize) {
        let conn = &mut self.conns[index];
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(conn.handle);
        match socket.state() {
            tcp::State::Listen | tcp::State::SynReceived => return watch(socket, &conn.waker),
            tcp::State::Closed => {
                if conn.is_open {
                    conn.is_open = false;
                    self.report.open -= 1;
                    self.report.failed += u64::from(!conn.peer_closed);
                }
                // Woken twice it is here twice, and free once.
                if self.listening != Some(index) && !self.free.contains(&index) {
                    self.free.push(index);
                    self.listen();
                }
                return;
            }
            _ if !conn.is_open => {
                conn.is_open = true;
                self.report.accepted += 1;
                self.report.open += 1;
            }
            _ => {}
        }
        talk(conn, socket, &self.plan, &self.text, &mut self.report);
        watch(socket, &conn.waker);
    }

    fn answer_datagrams(&mut self) {
        let socket = self.sockets.get_mut::<udp::Socket<'_>>(self.datagrams);
        while let Ok((bytes, from)) = socket.recv() {
            self.report.requests += 1;
            self.report.bytes_in += bytes.len() as u64;
            if self.plan.pattern == Pattern::PingPong
                && socket.send_slice(&self.plan.answer, from).is_ok()
            {
                self.report.answers += 1;
                self.report.bytes_out += self.plan.answer.len() as u64;
            }
        }
        socket.register_recv_waker(&self.datagram_notifier);
    }
}

/// Bytes that fit one segment for certain: IPv6 and TCP headers with room for options.
fn smallest_segment(mtu: usize) -> usize {
    mtu.saturating_sub(40 + 60)
}

/// A socket wakes once.
fn watch(socket: &mut tcp::Socket<'_>, waker: &Waker) {
    socket.register_recv_waker(waker);
    socket.register_send_waker(waker);
}

/// Reads and answers, until there is nothing to read or no room for answers.
fn talk(
    conn: &mut Conn,
    socket: &mut tcp::Socket<'_>,
    plan: &Plan,
    text: &[u8],
    report: &mut ServerReport,
) {
    let len = plan.answer.len() as u64;
    loop {
        while conn.owed > 0 {
            let from = ((len - conn.owed % len) % len) as usize;
            let to = (from as u64 + conn.owed).min(text.len() as u64) as usize;
            let sent = socket.send_slice(&text[from..to]).unwrap_or(0);
            conn.owed -= sent as u64;
            report.bytes_out += sent as u64;
            if sent < to - from {
                return;
            }
        }
        let read = socket.recv(|bytes| {
            let found = plan.requests.requests(&mut conn.partial, bytes, u32::MAX);
            (found.used, found)
        });
        match read {
            Ok(found) if found.used > 0 => {
                report.bytes_in += found.used as u64;
                report.requests += u64::from(found.ended);
                if plan.pattern == Pattern::PingPong {
                    report.answers += u64::from(found.ended);
                    conn.owed += u64::from(found.ended) * len;
                }
            }
            Ok(_) => return,
            Err(_) => {
                // The peer has said all, and has all its answers.
                conn.peer_closed = true;
                return socket.close();
            }
        }
    }
}
