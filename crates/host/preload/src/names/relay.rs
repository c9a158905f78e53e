//! Between the C library's resolver and the servers of names: on the one side sockets of the
//! kernel's on 127.0.0.1, on the other sockets as a program has them, which are Clearway's where
//! Clearway leads.

use std::collections::VecDeque;
use std::ffi::{c_int, c_short, c_void};
use std::mem::size_of;
use std::net::IpAddr;

use clearway_client::DnsServer;
use libc::{pollfd, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

use crate::interfaces::shown;
use crate::{errno, files, real, sockets, transfer, wait};

/// The port of servers of names.
const PORT: u16 = 53;
/// The longest question or answer in a datagram.
const LONGEST: usize = 65_535;
/// Questions in datagrams that wait for an answer, of each server.
const MOST_ASKED: usize = 64;
/// Streams at once, and the bytes that one holds for either side.
const MOST_STREAMS: usize = 8;
const HELD: usize = 64 * 1024;
/// How often a port is looked for that is free for both kinds.
const TRIES: u32 = 8;

const FLAGS: c_int = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;

/// 127.0.0.1 and a port.
pub(super) fn loopback(port: u16) -> sockaddr_in {
    // SAFETY: all-zero is an address.
    let mut addr: sockaddr_in = unsafe { std::mem::zeroed() };
    addr.sin_family = libc::AF_INET as libc::sa_family_t;
    addr.sin_port = port.to_be();
    addr.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
    addr
}

const V4_LEN: socklen_t = size_of::<sockaddr_in>() as socklen_t;

/// A descriptor that is closed with this; by the functions of this library, which know whose it is.
struct Fd(c_int);

impl Fd {
    fn of(fd: c_int) -> Option<Fd> {
        (fd >= 0).then_some(Fd(fd))
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        files::close_held(self.0);
    }
}

/// Says that the question was answered.
pub(super) struct Over(c_int);

impl Over {
    pub(super) fn tell(&self) {
        // SAFETY: the bytes are ours; the descriptor is open while the relay is.
        unsafe { real::write(self.0, (&1_u64 as *const u64).cast(), size_of::<u64>()) };
    }
}

/// A server, and its place here.
struct Server {
    at: DnsServer,
    port: u16,
    /// None: the server is out of reach, and who asks here is refused as there.
    datagrams: Option<Fd>,
    streams: Option<Fd>,
    /// Once something was asked.
    up: Option<Fd>,
    /// The number of each question, and who asked it.
    asked: VecDeque<([u8; 2], sockaddr_in)>,
}

/// A stream to one of them.
struct Stream {
    down: Fd,
    up: Fd,
    connected: bool,
    to_up: Vec<u8>,
    to_down: Vec<u8>,
    /// The server has said all.
    ended: bool,
}

/// The relay of one question.
pub(super) struct Relay {
    over: Fd,
    servers: Vec<Server>,
    streams: Vec<Stream>,
}

impl Relay {
    /// None: there is no 127.0.0.1 here, or nothing can be opened.
    pub(super) fn begin(servers: &[DnsServer]) -> Option<Relay> {
        // SAFETY: takes no pointers.
        let over = Fd::of(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })?;
        let servers: Option<Vec<Server>> = servers.iter().map(place_for).collect();
        Some(Relay { over, servers: servers?, streams: Vec::new() })
    }

    pub(super) fn ports(&self) -> Vec<u16> {
        self.servers.iter().map(|server| server.port).collect()
    }

    pub(super) fn over(&self) -> Over {
        Over(self.over.0)
    }

    /// Relays until the question was answered.
    pub(super) fn run(&mut self) {
        loop {
            let mut fds = self.wanted();
            // SAFETY: the list is ours and as long as it says.
            let ready = unsafe { wait::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, -1) };
            if ready < 0 {
                // A handler of the program's ran. Where it is anything else, nothing can be relayed
                // any more, and the C library gives up in its time.
                if errno::get() != libc::EINTR {
                    let mut over = pollfd { fd: self.over.0, events: libc::POLLIN, revents: 0 };
                    // SAFETY: the list is ours and has one entry.
                    unsafe { real::poll(&mut over, 1, -1) };
                    if over.revents != 0 {
                        return;
                    }
                }
                continue;
            }
            if fds.first().is_some_and(|over| over.revents != 0) {
                return;
            }
            let came = |at: usize| fds.get(at).is_some_and(|fd| fd.revents != 0);
            for at in 0..self.servers.len() {
                self.serve(at, [came(1 + 3 * at), came(2 + 3 * at), came(3 + 3 * at)]);
            }
            self.streams.retain_mut(Stream::turn);
        }
    }

    /// What is waited for: the end, three of each server, and two of each stream.
    fn wanted(&self) -> Vec<pollfd> {
        let one = |fd: Option<&Fd>, events: c_short| pollfd {
            fd: fd.map_or(-1, |fd| fd.0),
            events,
            revents: 0,
        };
        let mut fds = vec![one(Some(&self.over), libc::POLLIN)];
        let room = self.streams.len() < MOST_STREAMS;
        for server in &self.servers {
            fds.push(one(server.datagrams.as_ref(), libc::POLLIN));
            fds.push(one(server.streams.as_ref().filter(|_| room), libc::POLLIN));
            fds.push(one(server.up.as_ref(), libc::POLLIN));
        }
        for stream in &self.streams {
            let [down, up] = stream.wants();
            fds.push(one(Some(&stream.down).filter(|_| down != 0), down));
            fds.push(one(Some(&stream.up).filter(|_| up != 0), up));
        }
        fds
    }

    fn serve(&mut self, at: usize, [asks, opens, answers]: [bool; 3]) {
        let Some(server) = self.servers.get_mut(at) else { return };
        if asks {
            server.pass_up();
        }
        if answers {
            server.pass_down();
        }
        if opens {
            self.streams.extend(server.accept());
        }
    }
}

/// A place where who asks this server comes to: datagrams and streams at one port.
fn place_for(at: &DnsServer) -> Option<Server> {
    for left in (0..TRIES).rev() {
        let datagrams = bound(libc::SOCK_DGRAM, 0)?;
        let port = port_of(&datagrams)?;
        let streams = bound(libc::SOCK_STREAM, port);
        // SAFETY: takes no pointers.
        let listens = |fd: &Fd| unsafe { real::listen(fd.0, MOST_STREAMS as c_int) } == 0;
        let streams = streams.filter(listens);
        // At last one goes without streams, which only long answers need.
        if streams.is_some() || left == 0 {
            let (datagrams, asked) = (Some(datagrams), VecDeque::new());
            let at = at.clone();
            return Some(Server { at, port, datagrams, streams, up: None, asked });
        }
    }
    None
}

/// A socket of the kernel's at 127.0.0.1.
fn bound(kind: c_int, port: u16) -> Option<Fd> {
    let addr = loopback(port);
    // SAFETY: the address is one, and as long as it says.
    unsafe {
        let fd = Fd::of(real::socket(libc::AF_INET, kind | FLAGS, 0))?;
        (real::bind(fd.0, (&raw const addr).cast(), V4_LEN) == 0).then_some(fd)
    }
}

fn port_of(fd: &Fd) -> Option<u16> {
    let (mut addr, mut len) = (loopback(0), V4_LEN);
    // SAFETY: there is as much room as is said.
    let told = unsafe { real::getsockname(fd.0, (&raw mut addr).cast(), &mut len) };
    (told == 0).then(|| u16::from_be(addr.sin_port))
}

/// A socket as a program has it, on its way to a server.
fn towards(server: &DnsServer, kind: c_int) -> Option<Fd> {
    let family = if server.addr.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: all-zero is an address of either family.
    let (mut v4, mut v6) =
        unsafe { (std::mem::zeroed::<sockaddr_in>(), std::mem::zeroed::<sockaddr_in6>()) };
    let (to, len): (*const sockaddr, usize) = match server.addr {
        IpAddr::V4(addr) => {
            v4.sin_family = libc::AF_INET as libc::sa_family_t;
            v4.sin_port = PORT.to_be();
            v4.sin_addr.s_addr = u32::from_ne_bytes(addr.octets());
            ((&raw const v4).cast(), size_of::<sockaddr_in>())
        }
        IpAddr::V6(addr) => {
            v6.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            v6.sin6_port = PORT.to_be();
            v6.sin6_addr.s6_addr = addr.octets();
            v6.sin6_scope_id = shown(server.interface);
            ((&raw const v6).cast(), size_of::<sockaddr_in6>())
        }
    };
    // SAFETY: the address is one, and as long as it says.
    unsafe {
        let fd = Fd::of(sockets::socket(family, kind | FLAGS, 0))?;
        let begun = sockets::connect(fd.0, to, len as socklen_t) == 0;
        (begun || errno::get() == libc::EINPROGRESS).then_some(fd)
    }
}

/// Reads what there is, up to what fits. None: the end, or nothing will come any more.
fn read(fd: &Fd, into: &mut [u8]) -> Option<usize> {
    // SAFETY: there is as much room as is said.
    let got = unsafe {
        transfer::recv(fd.0, into.as_mut_ptr().cast::<c_void>(), into.len(), libc::MSG_DONTWAIT)
    };
    match usize::try_from(got) {
        Ok(0) => None,
        Ok(got) => Some(got),
        Err(_) if is_for_now() => Some(0),
        Err(_) => None,
    }
}

/// Sends what goes now. None: nothing will go any more.
fn write(fd: &Fd, bytes: &[u8]) -> Option<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the bytes are as many as is said.
    let sent = unsafe { transfer::send(fd.0, bytes.as_ptr().cast::<c_void>(), bytes.len(), flags) };
    match usize::try_from(sent) {
        Ok(sent) => Some(sent),
        Err(_) if is_for_now() => Some(0),
        Err(_) => None,
    }
}

fn is_for_now() -> bool {
    matches!(errno::get(), libc::EAGAIN | libc::EINTR)
}

impl Server {
    /// Questions go to the server.
    fn pass_up(&mut self) {
        let mut buf = vec![0; LONGEST];
        while let Some(place) = &self.datagrams {
            let (mut from, mut len) = (loopback(0), V4_LEN);
            // SAFETY: there is as much room as is said, for bytes and address.
            let got = unsafe {
                let into = buf.as_mut_ptr().cast::<c_void>();
                let from = (&raw mut from).cast();
                real::recvfrom(place.0, into, LONGEST, libc::MSG_DONTWAIT, from, &mut len)
            };
            let Ok(got) = usize::try_from(got) else { return };
            let Some(question) = buf.get(..got) else { return };
            let Some(number) = question.first_chunk::<2>() else { continue };
            if self.up.is_none() {
                self.up = towards(&self.at, libc::SOCK_DGRAM);
            }
            if self.up.as_ref().and_then(|up| write(up, question)).is_none() {
                // Who asks next is refused by the kernel, and goes on to the next server.
                self.datagrams = None;
                return;
            }
            if self.asked.len() >= MOST_ASKED {
                self.asked.pop_front();
            }
            self.asked.push_back((*number, from));
        }
    }

    /// Answers go to who asked.
    fn pass_down(&mut self) {
        let mut buf = vec![0; LONGEST];
        while let (Some(place), Some(up)) = (&self.datagrams, &self.up) {
            let answer = match read(up, &mut buf) {
                Some(0) => return,
                Some(len) => buf.get(..len).unwrap_or_default(),
                None => {
                    self.datagrams = None;
                    return;
                }
            };
            let Some(number) = answer.first_chunk::<2>() else { continue };
            let Some(at) = self.asked.iter().position(|(asked, _)| asked == number) else {
                continue;
            };
            let Some((_, to)) = self.asked.remove(at) else { continue };
            // SAFETY: bytes and address are as long as is said.
            unsafe {
                let to = (&raw const to).cast();
                let bytes = answer.as_ptr().cast::<c_void>();
                real::sendto(place.0, bytes, answer.len(), libc::MSG_DONTWAIT, to, V4_LEN);
            }
        }
    }

    fn accept(&mut self) -> Option<Stream> {
        let listener = self.streams.as_ref()?;
        // SAFETY: nobody wants the address.
        let down = unsafe {
            let none = std::ptr::null_mut();
            Fd::of(real::accept4(listener.0, none, std::ptr::null_mut(), FLAGS))?
        };
        let up = towards(&self.at, libc::SOCK_STREAM)?;
        let (to_up, to_down) = (Vec::new(), Vec::new());
        Some(Stream { down, up, connected: false, to_up, to_down, ended: false })
    }
}

impl Stream {
    /// What is waited for on either side.
    fn wants(&self) -> [c_short; 2] {
        let side = |reads: bool, writes: bool| {
            (if reads { libc::POLLIN } else { 0 }) | (if writes { libc::POLLOUT } else { 0 })
        };
        [
            side(self.to_up.len() < HELD, !self.to_down.is_empty()),
            side(
                self.connected && !self.ended && self.to_down.len() < HELD,
                !self.connected || !self.to_up.is_empty(),
            ),
        ]
    }

    /// Moves what can be moved. False: it is over.
    fn turn(&mut self) -> bool {
        self.try_turn().is_some()
    }

    fn try_turn(&mut self) -> Option<()> {
        let mut buf = [0; 4096];
        if self.to_up.len() < HELD {
            let len = read(&self.down, &mut buf)?;
            self.to_up.extend(buf.iter().take(len));
        }
        if !self.connected {
            let mut ready = pollfd { fd: self.up.0, events: libc::POLLOUT, revents: 0 };
            // SAFETY: the list is ours and has one entry.
            unsafe { wait::poll(&mut ready, 1, 0) };
            if ready.revents == 0 {
                return Some(());
            }
            self.connected = true;
        }
        if !self.to_up.is_empty() {
            let sent = write(&self.up, &self.to_up)?;
            self.to_up.drain(..sent.min(self.to_up.len()));
        }
        if !self.ended && self.to_down.len() < HELD {
            match read(&self.up, &mut buf) {
                Some(len) => self.to_down.extend(buf.iter().take(len)),
                None => self.ended = true,
            }
        }
        if !self.to_down.is_empty() {
            let sent = write(&self.down, &self.to_down)?;
            self.to_down.drain(..sent.min(self.to_down.len()));
        }
        (!self.ended || !self.to_down.is_empty()).then_some(())
    }
}
