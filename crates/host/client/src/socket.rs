//! A socket of the program: what can be done to it.

use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use clearway_shm::attach_socket::{Info, Kind, Reply, Request};
use clearway_shm::layout::{Message, flags, request, state};

use crate::ahead::Line;
use crate::attach::Attachment;
use crate::core::Core;
use crate::hub::Watched;
use crate::internal::Internal;
use crate::ready::{self, ALL, OUT};
use crate::wait::Deadline;
use crate::{Client, Errno, poll};

mod datagram;
mod errors;
mod file;
mod names;
mod stamps;
mod stream;
mod urgent;
mod zero_copy;

pub(crate) use stamps::StampFifos;
pub(crate) use zero_copy::Completions;

/// Which half of a connection is shut down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// SHUT_RD.
    Read,
    /// SHUT_WR.
    Write,
    /// SHUT_RDWR.
    Both,
}

/// What [`Socket::recv`] brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Received {
    /// Bytes copied; with MSG_TRUNC on a datagram socket the length of the datagram; 0 at the end
    /// of a stream.
    pub len: usize,
    /// What msg_flags says: MSG_TRUNC, MSG_OOB.
    pub flags: i32,
    /// More about a datagram; None for a stream.
    pub datagram: Option<Arrived>,
    /// When it came, of a stream when the last byte did, in nanoseconds since the start of 1970; 0:
    /// nobody knows, or the program did not ask.
    pub arrived: u64,
}

/// Where a datagram came from, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrived {
    /// Who sent it. On an IPv6 socket IPv4 senders appear as mapped addresses.
    pub from: SocketAddr,
    /// The address of ours that it was sent to (IP_PKTINFO); None when that is not known.
    pub to: Option<IpAddr>,
    /// The interface that it came by.
    pub iface: u32,
    /// IPv4 TOS or IPv6 traffic class.
    pub tos: u8,
    /// TTL or hop limit.
    pub ttl: u8,
    /// When not 0, the payload is several datagrams of this size, the last perhaps shorter
    /// (UDP_GRO).
    pub segment_size: u16,
    /// Datagrams lost so far for want of room (SO_RXQ_OVFL).
    pub drops: u32,
}

/// Where a datagram goes, and how. The default: to the connected peer, as the socket's options say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendTo {
    /// Who shall get it.
    pub to: Option<SocketAddr>,
    /// From this address of ours (IP_PKTINFO).
    pub from: Option<IpAddr>,
    /// By this interface; 0: as the routes say.
    pub iface: u32,
    /// IPv4 TOS or IPv6 traffic class.
    pub tos: Option<u8>,
    /// TTL or hop limit.
    pub ttl: Option<u8>,
    /// Cut into datagrams of this size (UDP_SEGMENT); 0: whole.
    pub segment_size: u16,
    /// What is to be told of it: flags of SO_TIMESTAMPING in place of the socket's.
    pub stamping: Option<u32>,
    /// Its number there (SCM_TS_OPT_ID).
    pub stamp_key: Option<u32>,
}

/// A session in the host, held by this process.
///
/// `flags` are Linux's MSG_* bits. A call blocks unless MSG_DONTWAIT is among them or the socket is
/// non-blocking; SO_RCVTIMEO and SO_SNDTIMEO bound it. A signal ends it with EINTR, unless there is
/// no such bound and all the program's handlers have SA_RESTART.
pub struct Socket {
    client: Arc<Client>,
    pub(crate) core: Arc<Core>,
    /// A copy of the session fd, see [`Socket::hold`].
    held: Mutex<Option<Internal>>,
    pub(crate) line: OnceLock<Line>,
    /// [`Client::copies`] when it was made: when there were some since, another process may hold
    /// it.
    copies: u32,
}

impl Drop for Socket {
    fn drop(&mut self) {
        let mut hub = self.client.hub();
        if self.copies != self.client.copies() && !self.client.is_inside() {
            self.client.leave(&hub, &self.core);
        }
        let removed = hub.remove_socket(self.core.key);
        drop(hub);
        // Outside of the lock: memory may be unmapped here.
        drop(removed);
    }
}

impl Socket {
    pub(crate) fn new(client: Arc<Client>, core: Arc<Core>) -> Socket {
        let copies = client.copies();
        Socket { client, core, held: Mutex::new(None), line: OnceLock::new(), copies }
    }

    /// Which session fd it has.
    pub(crate) fn has_line(&self, line: Line) {
        let _ = self.line.set(line);
    }

    /// It has an address that the program chose.
    pub(crate) fn is_bound(&self) -> bool {
        self.with(|socket| socket.bound.is_some())
    }

    /// The client that it belongs to.
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// What names it in this process ([`crate::Renew`]).
    pub fn key(&self) -> usize {
        self.core.key
    }

    /// Stream or datagram.
    pub fn kind(&self) -> Kind {
        self.core.kind
    }

    /// Made as IPv6.
    pub fn is_v6(&self) -> bool {
        self.core.v6
    }

    /// Sends on a stream, or a datagram to the connected peer. The caller raises SIGPIPE for EPIPE.
    ///
    /// # Errors
    /// As `send(2)`: `EAGAIN`, `EPIPE`, `ECONNRESET`, `ENOTCONN`, `EMSGSIZE`, `EINTR`, and the
    /// socket's own error once.
    pub fn send(&self, from: &[IoSlice<'_>], flags: i32) -> Result<usize, Errno> {
        self.send_to(from, &SendTo::default(), flags)
    }

    /// Sends a datagram; on a stream, where it goes is not looked at, as in Linux.
    ///
    /// # Errors
    /// As `sendmsg(2)`; see [`Socket::send`].
    pub fn send_to(&self, from: &[IoSlice<'_>], how: &SendTo, flags: i32) -> Result<usize, Errno> {
        let sent = match self.core.kind {
            Kind::Stream => self.send_stream(from, how, flags),
            Kind::Datagram => self.send_datagram(from, how, flags),
        };
        if self.client.is_inside() && sent.is_ok() {
            self.client.sent_inside(self.blocks(flags));
        }
        sent
    }

    /// Receives from a stream or a datagram.
    ///
    /// # Errors
    /// As `recv(2)`: `EAGAIN`, `ENOTCONN`, `EINTR`, and the socket's own error once.
    pub fn recv(&self, into: &mut [IoSliceMut<'_>], flags: i32) -> Result<Received, Errno> {
        match self.core.kind {
            Kind::Stream => self.recv_stream(into, flags),
            Kind::Datagram => self.recv_datagram(into, flags),
        }
    }

    /// Ends one or both directions.
    ///
    /// # Errors
    /// `ENOTCONN` when there is no connection.
    pub fn shutdown(&self, how: How) -> Result<(), Errno> {
        if self.core.is_listening() && how != How::Write && !self.is_alive() {
            // It does not come back.
            self.set_flag(flags::SHUT_READ, true);
            self.client.hub().mark(self.core.key, ALL);
            return Ok(());
        }
        let attachment = self.attachment().map_err(|_| Errno::NOTCONN)?;
        let state = self.core.state();
        let begun = state & (state::CONNECTED | state::CONNECTING | state::LISTENING) != 0;
        let over = state & (state::FAILED | state::CLOSED) != 0;
        let connected = match self.core.kind {
            Kind::Stream => begun && !over,
            Kind::Datagram => self.remote().is_some(),
        };
        let parts = [
            (How::Read, flags::SHUT_READ, request::SHUT_READ),
            (How::Write, flags::SHUT_WRITE, request::SHUT_WRITE),
        ];
        let asked = |part: How| how == part || how == How::Both;
        let bits = parts.iter().filter(|(part, ..)| asked(*part)).fold(0, |bits, p| bits | p.1);
        // Both at once: who is woken by the first message sees the second side shut, too.
        let before = self.core.words().flags.fetch_or(bits, Ordering::AcqRel);
        // A datagram socket without a peer has waiters, too; what a stream is that never began is
        // seen at once.
        let is_told = connected || self.core.kind == Kind::Datagram;
        for (_, _, what) in parts.iter().filter(|p| is_told && bits & !before & p.1 != 0) {
            attachment.push(self.message(*what, 0), || self.client.poll_once());
        }
        self.client.turn_inside();
        if state & state::LISTENING != 0 && asked(How::Read) {
            self.await_end_of_listening();
        }
        // Other threads may be waiting for what does not come any more, and the host tells other
        // processes. As in Linux they are told also where this is an error: some programs wake
        // their threads so.
        self.client.hub().mark(self.core.key, ALL);
        if connected { Ok(()) } else { Err(Errno::NOTCONN) }
    }

    /// What comes next finds a socket that does not listen, as with a kernel. A host that does not
    /// come to it is not waited for longer.
    fn await_end_of_listening(&self) {
        const LIMIT: Duration = Duration::from_secs(1);
        let is_over = || !self.is_listener() || !self.is_alive();
        if !is_over() {
            // A signal is no reason to say something else.
            let _ = self.client.wait_for(&self.core, ALL, Deadline::after(Some(LIMIT)), is_over);
        }
    }

    /// A call that only looks is about to: a stack inside of this process is turned first, so that
    /// what has come by now is seen, as with a kernel, which needs no turning.
    pub fn refresh(&self) {
        self.client.turn_inside();
    }

    /// SO_ERROR: what went wrong since the last time it was asked.
    pub fn take_error(&self) -> Option<Errno> {
        self.core.take_error(self.is_alive())
    }

    /// What it is ready for: bits as `poll` and `epoll_wait` return them (POLLIN, POLLOUT, POLLERR,
    /// POLLHUP, POLLPRI, POLLRDHUP, and the NORM and BAND bits).
    pub fn readiness(&self) -> u32 {
        let found = self.core.readiness(self.is_alive());
        // A stream with a FIFO and nothing to do is writable, so these are asked seldom.
        match found & OUT == 0 && self.core.is_unlearnt() {
            true => {
                self.learn();
                self.core.readiness(self.is_alive())
            }
            false => found,
        }
    }

    /// Asks what another process has made of the socket: where its FIFOs lie, and what it is
    /// called. Whatever goes wrong, the next call asks again.
    #[cold]
    pub(crate) fn learn(&self) {
        let _ = self.ask_session(&Request::Subscribe { session: self.core.id() });
    }

    /// The connection's inner values, for TCP_INFO.
    ///
    /// # Errors
    /// When the host is gone.
    pub fn info(&self) -> Result<Info, Errno> {
        match self.ask(&Request::Info { session: self.core.id() })? {
            Reply::Info(info) => Ok(*info),
            _ => Err(Errno::PROTO),
        }
    }

    /// SIOCINQ: bytes to be read; for datagrams the length of the next one.
    pub fn readable_bytes(&self) -> usize {
        let Some(rx) = self.core.rx() else { return 0 };
        match self.core.kind {
            Kind::Stream => {
                let there = ready::bytes_in(&rx.mem);
                let mark = self
                    .core
                    .urgent()
                    .filter(|mark| mark.distance < there && !self.core.is_oob_inline());
                // What can be read at once.
                mark.map_or(there, |mark| mark.distance) as usize
            }
            Kind::Datagram => self.next_datagram_len(),
        }
    }

    /// SIOCOUTQ: bytes written and not acknowledged. They stay in the FIFO until then.
    pub fn unsent_bytes(&self) -> usize {
        self.core.tx().map_or(0, |tx| ready::bytes_in(&tx.mem) as usize)
    }

    /// What close(2) waits for where SO_LINGER says some seconds: until the peer has acknowledged
    /// all that was written, they are over, the connection is, or a signal comes. Where another
    /// process may hold the socket, that is not the last close, and nothing is waited for; nor is
    /// where bytes that nobody read make a reset of the end. To be called after `before_close`.
    pub fn linger(&self) {
        /// Between two looks, at first and at most.
        const PAUSES: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(10)];
        let seconds = self.options().linger.unwrap_or(0);
        if seconds == 0 || self.copies != self.client.copies() || self.is_listener() {
            return;
        }
        let drained = self.core.rx().map(|rx| rx.mem.head().drained.load(Ordering::Acquire));
        if drained == Some(0) {
            return;
        }
        let deadline = Deadline::after(Some(Duration::from_secs(seconds.into())));
        let mut pause = PAUSES[0];
        let goes_on = || {
            self.core.state() & (state::FAILED | state::CLOSED) == 0 && self.attachment().is_ok()
        };
        while self.unsent_bytes() > 0 && goes_on() {
            let left = deadline.left().unwrap_or(Duration::ZERO);
            if left.is_zero() || poll(&self.client, &mut [], Some(pause.min(left)), None).is_err() {
                return;
            }
            pause = PAUSES[1].min(pause * 2);
        }
    }

    /// What TCP_INQ tells with each receive: bytes to be read, and the end of the stream counts as
    /// one.
    pub fn readable_hint(&self) -> usize {
        self.readable_bytes() + usize::from(self.core.state() & state::PEER_CLOSED != 0)
    }

    /// Datagrams lost so far for want of room.
    pub fn dropped(&self) -> u32 {
        self.core.words().rx_drops.load(Ordering::Relaxed)
    }

    /// SO_ACCEPTCONN.
    pub fn is_listener(&self) -> bool {
        self.core.state() & state::LISTENING != 0
    }

    /// SO_RCVBUF and SO_SNDBUF: bytes that the FIFOs hold, or will hold (not doubled).
    pub fn buffer_sizes(&self) -> (u32, u32) {
        let defaults = self.client.alive().map_or((0, 0), |attachment| attachment.fifo_sizes);
        let rx = self.core.rx().map_or(defaults.0, |rx| rx.mem.limit());
        let tx = self.core.tx().map_or(defaults.1, |tx| tx.mem.limit());
        (rx, tx)
    }

    /// SO_RCVLOWAT: so many bytes make a stream readable, and a blocked receive returns with no
    /// fewer.
    pub fn receive_lowat(&self) -> u32 {
        self.core.lowat()
    }

    /// Sets SO_RCVLOWAT, which is at most half of the receive FIFO.
    pub fn set_receive_lowat(&self, lowat: u32) {
        self.core.set_lowat(lowat.min(self.buffer_sizes().0 / 2));
        // Who waits looks again.
        self.client.hub().mark(self.core.key, ALL);
    }

    /// Sets SO_SNDBUF of a connection: no more bytes than this lie in its transmit FIFO from now
    /// on. One that does not exist yet is made as its options say.
    pub fn set_send_limit(&self, limit: u32) {
        if self.core.kind == Kind::Stream && self.core.tx().is_some() {
            self.core.set_send_limit(limit.max(1));
            self.client.hub().mark(self.core.key, ALL);
        }
    }

    /// A bit of [`crate::flags`] that all copies of the socket share: NONBLOCK, RXQ_OVFL, PKTINFO,
    /// RECVTOS, RECVTTL, UDP_GRO.
    pub fn flag(&self, bit: u32) -> bool {
        self.core.flags() & bit != 0
    }

    /// Sets or clears such a bit.
    pub fn set_flag(&self, bit: u32, on: bool) {
        match on {
            true => self.core.words().flags.fetch_or(bit, Ordering::AcqRel),
            false => self.core.words().flags.fetch_and(!bit, Ordering::AcqRel),
        };
    }

    /// SO_RCVTIMEO and SO_SNDTIMEO; None: for ever.
    pub fn timeouts(&self) -> (Option<Duration>, Option<Duration>) {
        let words = self.core.words();
        let time = |micros: u64| (micros != 0).then(|| Duration::from_micros(micros));
        (
            time(words.receive_timeout.load(Ordering::Relaxed)),
            time(words.send_timeout.load(Ordering::Relaxed)),
        )
    }

    /// Sets SO_RCVTIMEO.
    pub fn set_receive_timeout(&self, timeout: Option<Duration>) {
        self.core.words().receive_timeout.store(micros(timeout), Ordering::Relaxed);
    }

    /// Sets SO_SNDTIMEO.
    pub fn set_send_timeout(&self, timeout: Option<Duration>) {
        self.core.words().send_timeout.store(micros(timeout), Ordering::Relaxed);
    }

    /// Call before the program's last descriptor of this socket in this process is closed: bytes
    /// that are there now make a reset of the end, and what comes until the host hears of it does
    /// not.
    pub fn before_close(&self) {
        if let Some(rx) = self.core.rx().filter(|_| self.core.kind == Kind::Stream) {
            let is_empty = ready::bytes_in(&rx.mem) == 0;
            rx.mem.head().drained.store(is_empty.into(), Ordering::Release);
        }
    }

    /// Call before the program's last descriptor of this socket in this process is closed while
    /// other threads may be inside a call on it: keeps a copy of the session fd until the last of
    /// them is out, as Linux keeps an open file. Without others, drop the last `Arc` instead.
    pub fn hold(&self, session_fd: BorrowedFd<'_>) {
        let copy = rustix::io::fcntl_dupfd_cloexec(session_fd, 0).ok().map(Internal::new);
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = copy;
    }

    /// Call after the program has closed its last descriptor of this socket in this process. A
    /// datagram socket, which others may send to right away, has then given up its address when
    /// this returns, as after close(2), unless another process holds it; for others this is seen to
    /// when an address is next asked for.
    pub fn closed(&self) {
        if self.core.kind == Kind::Datagram && self.local().port() != 0 {
            // Without a host there is nothing to give up.
            let _ = self.ask(&Request::Settle { session: self.core.id() });
        }
        self.client.closed_inside();
    }

    /// The attachment, or what is wrong without one.
    pub(crate) fn attachment(&self) -> Result<Arc<Attachment>, Errno> {
        let guard = self.client.of(&self.core).ok_or(Errno::CONNRESET)?;
        guard.as_ref().cloned().ok_or(Errno::CONNRESET)
    }

    fn is_alive(&self) -> bool {
        self.client.is_alive(&self.core)
    }

    /// Sends a message to the session's worker. Without a host there is nobody to tell.
    fn tell(&self, what: u32, aux: u32) {
        if let Some(guard) = self.client.of(&self.core) {
            if let Some(attachment) = guard.as_ref() {
                attachment.push(self.message(what, aux), || self.client.poll_once());
            }
        }
    }

    pub(crate) fn message(&self, what: u32, aux: u32) -> Message {
        Message { session: self.core.id(), what, aux }
    }

    /// Asks the host something about this session.
    fn ask(&self, request: &Request) -> Result<Reply, Errno> {
        let attachment = self.attachment()?;
        Ok(self.client.ask(&attachment, request)?.0)
    }

    /// Asks for something that may change where the session's FIFOs lie or how it is called.
    fn ask_session(&self, request: &Request) -> Result<(), Errno> {
        let attachment = self.attachment()?;
        let (session, _) = self.client.ask_session(&attachment, request)?;
        let fifos = self.client.fifos(&attachment, self.core.app(), &session)?;
        self.with(|socket| {
            socket.core.set_fifos(fifos);
            socket.local = session.local.or(socket.local);
            socket.remote = session.remote;
        });
        Ok(())
    }

    /// Works with what the hub knows of the socket.
    fn with<R>(&self, work: impl FnOnce(&mut Watched) -> R) -> R {
        let mut hub = self.client.hub();
        work(
            hub.sockets.get_mut(self.core.key).expect("a socket is in the hub until it is dropped"),
        )
    }

    fn receive_deadline(&self) -> Deadline {
        Deadline::after(self.timeouts().0)
    }

    fn send_deadline(&self) -> Deadline {
        Deadline::after(self.timeouts().1)
    }

    fn blocks(&self, flags: i32) -> bool {
        flags & libc::MSG_DONTWAIT == 0 && !self.core.is_nonblocking()
    }

    /// The wildcard address, as this socket's family writes it.
    fn unspecified(&self) -> SocketAddr {
        match self.core.v6 {
            true => SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0),
            false => SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        }
    }
}

fn micros(timeout: Option<Duration>) -> u64 {
    // Zero is for ever, so less than a microsecond is one.
    timeout.map_or(0, |timeout| u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX).max(1))
}

/// The session's memory cannot be believed: the program itself wrote over it.
fn broken(_: clearway_shm::Hostile) -> Errno {
    Errno::IO
}

impl Socket {
    /// Takes the next connection: socket, session fd, and who it is.
    ///
    /// # Errors
    /// As `accept(2)`: `EAGAIN`, `EINVAL` when it does not listen, `EMFILE`, `ECONNABORTED` once
    /// when the host went away.
    pub fn accept(&self) -> Result<(Arc<Socket>, OwnedFd, SocketAddr), Errno> {
        self.accept_stream(true)
    }

    /// The same, with a session fd that `exec` leaves open.
    ///
    /// # Errors
    /// As [`Socket::accept`].
    pub fn accept_for_exec(&self) -> Result<(Arc<Socket>, OwnedFd, SocketAddr), Errno> {
        self.accept_stream(false)
    }
}
