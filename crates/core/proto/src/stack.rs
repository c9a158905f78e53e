//! The stack as its owner sees it: its verbs for connections, and what it tells back. The verbs for
//! links, addresses and UDP stand in their own files.

mod binds;
mod classify;
mod emit;
mod export;
mod groups;
mod ingest;
mod links;
pub(crate) mod misdelivered;
mod sharing;
pub(crate) mod survey;
mod udp;

use clearway_base::{Duration, Instant};
use clearway_wire::Endpoint;

use classify::Scratch;
use misdelivered::Misdelivered;

use crate::config::{Config, ConnOptions, TcpConfig};
use crate::counters::Counters;
use crate::error::{ConnectError, Failure, ListenError, RecvError, SendError};
use crate::event::Event;
use crate::ids::{ConnId, ListenerId};
use crate::net::ip::Ip;
use crate::net::replies::Replies;
use crate::store::{Env, RxStore, TxStore};
use crate::tcp::{Carried, ConnectSpec, Cx, ListenSpec, RunningTimer, State, Tcp, TcpInfo};
use crate::udp::Udp;

/// A whole TCP/IP host stack for one core.
pub struct Stack<E: Env> {
    pub(crate) config: Config,
    pub(crate) counters: Counters,
    pub(crate) ip: Ip,
    pub(crate) replies: Replies,
    pub(crate) udp: Udp,
    pub(crate) scratch: Scratch,
    pub(crate) misdelivered: Misdelivered<E::Buf>,
    pub(crate) tcp: Tcp<E>,
    wants_calendar: bool,
}

impl<E: Env> Stack<E> {
    /// A stack over two stores. All memory for its tables is reserved here.
    pub fn new(mut config: Config, rx: E::Rx, tx: E::Tx) -> Stack<E> {
        let tcp = Tcp::new(&mut config, rx, tx);
        let (ip, replies, udp) = (Ip::new(&config), Replies::new(&config), Udp::new(&config));
        let scratch = Scratch::new(&config);
        Stack {
            config,
            counters: Counters::default(),
            ip,
            replies,
            udp,
            scratch,
            misdelivered: Misdelivered::new(),
            tcp,
            wants_calendar: false,
        }
    }

    /// Changes TCP's settings while the stack runs: what connections agree on in their handshakes
    /// holds for those that begin later, the rest for all at once. The range of ephemeral ports
    /// stays as it was.
    pub fn reconfigure_tcp(&mut self, change: impl FnOnce(&mut TcpConfig)) {
        let ports = self.config.tcp.ephemeral_ports;
        change(&mut self.config.tcp);
        self.config.tcp.ephemeral_ports = ports;
        self.tcp.reconfigured(&mut self.config);
    }

    /// Whether somebody wants to know when packets came and when they leave, by the calendar:
    /// whoever drives the stack tells it then ([`Stack::set_calendar`]) before each burst is taken
    /// in, and before each [`Stack::emit`].
    #[inline]
    pub fn wants_calendar(&self) -> bool {
        self.wants_calendar
    }

    /// Says whether somebody does.
    pub fn want_calendar(&mut self, on: bool) {
        self.wants_calendar = on;
        if !on {
            self.set_calendar(Duration::ZERO);
        }
    }

    /// What the calendar shows, since the start of 1970. It is the time of what comes and of what
    /// leaves from now on, for those who ask, and of nothing else.
    pub fn set_calendar(&mut self, since_1970: Duration) {
        self.udp.set_calendar(since_1970);
        let (rx, tx) = self.tcp.stores_mut();
        rx.set_calendar(since_1970);
        tx.set_calendar(since_1970);
    }

    /// Everything that was counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What holds for a connection whose owner set nothing.
    pub fn defaults(&self) -> &ConnOptions {
        &self.config.tcp.defaults
    }

    /// Says whether frames that came before `now` wait to be read after this burst. A timer that
    /// would find something lost waits for them, some milliseconds at most: the acknowledgement may
    /// be among them. Whoever never says it has timers that fire when they are due.
    #[inline]
    pub fn set_unread(&mut self, now: Instant, unread: bool) {
        let since = &mut self.tcp.pools.unread_since;
        *since = if unread { now.min(*since) } else { Instant::NEVER };
    }

    /// Looks at all timers that are due.
    pub fn expire(&mut self, now: Instant) {
        self.expire_links(now);
        self.tcp.set_now(now);
        let (tcp, mut cx) = self.split();
        tcp.expire(&mut cx);
    }

    /// TCP, and what it needs of the rest, at the last instant that it was told.
    pub(crate) fn split(&mut self) -> (&mut Tcp<E>, Cx<'_>) {
        let Stack { config, counters, ip, replies, tcp, .. } = self;
        let now = tcp.now();
        (tcp, Cx { now, config, counters, replies, ip })
    }

    /// When [`Stack::expire`] must be called next; [`Instant::NEVER`] when no timer runs. May be
    /// early, never late.
    pub fn next_deadline(&self) -> Instant {
        self.tcp.next_deadline().min(self.links_deadline())
    }

    /// Whether [`Stack::emit`] has something to send.
    pub fn wants_emit(&self) -> bool {
        self.tcp.wants_emit() || self.links_want_emit()
    }

    /// The next thing for the owner to look at.
    #[inline]
    pub fn next_event(&mut self) -> Option<Event> {
        self.tcp.next_event().or_else(|| self.udp.next_event())
    }

    /// Listens. Handshakes are answered at once; finished ones wait for [`Stack::accept`], and
    /// [`Event::Incoming`] tells of them.
    ///
    /// # Errors
    /// [`ListenError`]: the port is taken, the tables are full, or nobody can listen there.
    pub fn listen(&mut self, spec: ListenSpec) -> Result<ListenerId, ListenError> {
        // Nobody would ever come to an address that is not ours.
        if !spec.local.addr.is_unspecified() && !self.ip.is_ours(spec.table, &spec.local.addr) {
            return Err(ListenError::BadAddress);
        }
        self.tcp.release_kept(&self.config, (spec.table, spec.local.port));
        self.tcp.listen(spec, None)
    }

    /// Stops listening. Connections that were not accepted are reset.
    pub fn unlisten(&mut self, listener: ListenerId) {
        self.tcp.unlisten(&self.config, &mut self.counters, listener)
    }

    /// The address and port of a listener.
    pub fn listener_local(&self, listener: ListenerId) -> Option<Endpoint> {
        self.tcp.listeners.get(listener).map(|l| l.local)
    }

    /// Takes the oldest finished handshake; the owner then gives it a token with
    /// [`Stack::set_token`].
    pub fn accept(&mut self, listener: ListenerId) -> Option<ConnId> {
        self.tcp.accept(&self.config, &mut self.counters, listener)
    }

    /// Begins a connection (RFC 9293 3.10.1). [`crate::ConnEvents::CONNECTED`] tells of its
    /// success. Bytes may be sent into it before.
    ///
    /// # Errors
    /// [`ConnectError`]: no route, an address that nobody can be connected to, no port, no place or
    /// no memory.
    pub fn connect(&mut self, now: Instant, spec: ConnectSpec) -> Result<ConnId, ConnectError> {
        self.tcp.set_now(now);
        let (tcp, mut cx) = self.split();
        tcp.connect(&mut cx, spec, None)
    }

    /// Gives a connection its owner's word, which comes with its events.
    pub fn set_token(&mut self, conn: ConnId, token: u64) {
        self.tcp.set_token(conn, token)
    }

    /// Writes bytes to be sent; returns how many were taken. Fewer than all:
    /// [`crate::ConnEvents::WRITABLE`] will tell when there is room again.
    ///
    /// # Errors
    /// [`SendError`]: the handle names no connection, this side was shut down, or the connection
    /// failed.
    #[inline(always)]
    pub fn send(&mut self, conn: ConnId, bytes: &[u8]) -> Result<usize, SendError> {
        self.tcp.send(conn, bytes, false)
    }

    /// As [`Stack::send`], and the owner is about to send more: what does not fill a segment waits
    /// for it (`MSG_MORE`), for [`crate::limits::CORK`] at most.
    ///
    /// # Errors
    /// As [`Stack::send`].
    pub fn send_more(&mut self, conn: ConnId, bytes: &[u8]) -> Result<usize, SendError> {
        let taken = self.tcp.send(conn, bytes, false)?;
        if taken == bytes.len() && taken > 0 {
            self.tcp.say_more(conn)?;
        }
        Ok(taken)
    }

    /// As [`Stack::send`], and the last byte ends a record: it shares no segment with what is
    /// written later (`MSG_EOR`). When only a part was taken, or nothing because too many ends are
    /// remembered already ([`crate::limits::RECORD_ENDS`]), the rest is a record to be sent later.
    ///
    /// # Errors
    /// As [`Stack::send`].
    pub fn send_record(&mut self, conn: ConnId, bytes: &[u8]) -> Result<usize, SendError> {
        if !self.tcp.has_room_for_record(conn)? {
            return Ok(0);
        }
        let taken = self.tcp.send(conn, bytes, false)?;
        if taken == bytes.len() && taken > 0 {
            self.tcp.end_record(conn)?;
        }
        Ok(taken)
    }

    /// Tells that bytes were put into the connection's send queue from outside (by the other side
    /// of a shared-memory FIFO).
    ///
    /// # Errors
    /// As [`Stack::send`].
    pub fn wrote(&mut self, conn: ConnId) -> Result<(), SendError> {
        self.tcp.wrote(&self.config, &mut self.counters, conn)
    }

    /// As [`Stack::send`], and the last byte taken is announced as urgent (RFC 9293 3.8.5, RFC
    /// 6093).
    ///
    /// # Errors
    /// As [`Stack::send`].
    pub fn send_urgent(&mut self, conn: ConnId, bytes: &[u8]) -> Result<usize, SendError> {
        self.tcp.send(conn, bytes, true)
    }

    /// The last of the next `ahead` bytes that the owner writes is urgent, for an owner who writes
    /// behind the stack's back: told before they are written, it is announced with the first
    /// segment that carries any of them (RFC 6093).
    ///
    /// # Errors
    /// As [`Stack::send`].
    pub fn mark_urgent(&mut self, conn: ConnId, ahead: u32) -> Result<(), SendError> {
        self.tcp.mark_urgent(conn, ahead)
    }

    /// The oldest unread bytes that lie together. Empty and [`Stack::peer_closed`]: the end of the
    /// stream. Empty and not: later.
    ///
    /// # Errors
    /// [`RecvError`]: the handle names no connection, or it failed and nothing is left to read.
    #[inline]
    pub fn recv(&self, conn: ConnId) -> Result<&[u8], RecvError> {
        self.tcp.recv(conn)
    }

    /// The owner is done with the oldest `n` unread bytes.
    #[inline(always)]
    pub fn consumed(&mut self, conn: ConnId, n: u32) {
        if self.tcp.consumed(conn, n) {
            self.tcp.tell_window(&self.config, &mut self.counters, conn.index());
        }
    }

    /// How many unread bytes lie before the byte behind the urgent mark (RFC 6093: the mark is the
    /// first byte *behind* urgent data); None when there is no urgent data ahead.
    pub fn urgent(&self, conn: ConnId) -> Option<u32> {
        self.tcp.urgent(conn)
    }

    /// The peer's FIN arrived: nothing comes after what is unread now.
    pub fn peer_closed(&self, conn: ConnId) -> bool {
        self.tcp.peer_closed(conn)
    }

    /// Bytes written and not acknowledged, sent or not.
    pub fn queued(&self, conn: ConnId) -> u32 {
        self.tcp.queued(conn)
    }

    /// Bytes written and not sent.
    pub fn unsent(&self, conn: ConnId) -> u32 {
        self.tcp.unsent(conn)
    }

    /// Bytes that [`Stack::send`] would take now.
    pub fn send_room(&self, conn: ConnId) -> u32 {
        self.tcp.send_room(conn)
    }

    /// Bytes received in order and not consumed.
    pub fn unread(&self, conn: ConnId) -> u32 {
        self.tcp.unread(conn)
    }

    /// Our FIN goes out behind all bytes written so far (half close); the peer may go on sending.
    ///
    /// # Errors
    /// [`SendError::Stale`], [`SendError::Closed`] when it was shut down already,
    /// [`SendError::Failed`].
    pub fn shutdown(&mut self, conn: ConnId) -> Result<(), SendError> {
        self.tcp.shutdown(&self.config, &mut self.counters, conn)
    }

    /// The owner lets go; the handle is dead. What was written still goes out, then our FIN. Bytes
    /// that the owner did not read, and bytes that arrive later, are answered with a reset, so that
    /// the peer learns that nobody took them (RFC 9293 3.6.1, RFC 2525 2.17); what was written
    /// leaves before that reset, as much of it as the windows let out.
    pub fn close(&mut self, conn: ConnId) {
        let (tcp, mut cx) = self.split();
        tcp.close(&mut cx, conn)
    }

    /// The owner lets go, and the connection ends with a reset whatever was read; the handle is
    /// dead. What was written leaves before it, as much of that as the windows let out now
    /// (SO_LINGER with no time, on Linux).
    pub fn close_with_reset(&mut self, conn: ConnId) {
        let (tcp, mut cx) = self.split();
        tcp.close_with_reset(&mut cx, conn)
    }

    /// A reset goes out, and nothing else; the handle is dead (RFC 9293 3.10.5).
    pub fn abort(&mut self, conn: ConnId) {
        let (tcp, mut cx) = self.split();
        tcp.abort(&mut cx, conn)
    }

    /// Every connection that has something to send that has not left yet is reset, so that its peer
    /// learns that the rest does not come. For an owner who goes for good: the next `emit` is the
    /// last one.
    pub fn reset_unsent(&mut self) {
        self.tcp.reset_unsent(&self.config, &mut self.counters)
    }

    /// A reset goes out, and the connection fails with [`Failure::Unreachable`]: for one whose way
    /// is about to go. Its owner keeps the handle until it closes.
    pub fn abort_unreachable(&mut self, conn: ConnId) {
        let (tcp, mut cx) = self.split();
        tcp.abort_unreachable(&mut cx, conn)
    }

    /// A reset goes out, and the connection fails with [`Failure::NoMemory`]: memory is short, and
    /// it held some and moved too little. For owners whose stores lie outside and are watched
    /// there. The owner keeps the handle until it closes.
    pub fn end_for_shortage(&mut self, conn: ConnId) {
        let (tcp, mut cx) = self.split();
        tcp.end_for_shortage(&mut cx, conn)
    }

    /// Bytes came that the owner, who has shut both sides, will not read: a reset tells the peer so
    /// (RFC 9293 3.6.1), and the connection fails with [`Failure::Reset`]. The owner keeps the
    /// handle until it closes.
    pub fn reset_unread(&mut self, conn: ConnId) {
        let (tcp, mut cx) = self.split();
        tcp.reset_unread(&mut cx, conn)
    }

    /// A reset goes out, and the connection fails with [`Failure::Killed`]: for operators, who do
    /// not ask its owner. The owner keeps the handle until it closes. False when it was over.
    pub fn kill(&mut self, conn: ConnId) -> bool {
        let (tcp, mut cx) = self.split();
        tcp.kill(&mut cx, conn)
    }

    /// Why the connection failed, if it did.
    pub fn failure(&self, conn: ConnId) -> Option<Failure> {
        self.tcp.failure(conn)
    }

    /// Our side of the connection.
    pub fn local(&self, conn: ConnId) -> Option<Endpoint> {
        Some(self.tcp.owned(conn)?.key.local_endpoint())
    }

    /// The peer's side of the connection.
    pub fn remote(&self, conn: ConnId) -> Option<Endpoint> {
        Some(self.tcp.owned(conn)?.key.remote_endpoint())
    }

    /// The state; CLOSED for a handle that names nothing.
    pub fn state(&self, conn: ConnId) -> State {
        self.tcp.state(conn)
    }

    /// ACKs leave without delay for a while, as at the start of a connection, or from now on only
    /// when they are due (TCP_QUICKACK).
    pub fn set_quick_ack(&mut self, conn: ConnId, on: bool) {
        self.tcp.set_quick_ack(&self.config, &mut self.counters, conn, on)
    }

    /// Changes a connection's options; they hold from the next segment on.
    pub fn set_options(&mut self, conn: ConnId, options: ConnOptions) {
        self.tcp.set_options(&self.config, &mut self.counters, conn, options)
    }

    /// A connection's options.
    pub fn options(&self, conn: ConnId) -> Option<ConnOptions> {
        self.tcp.options(conn)
    }

    /// What a connection has carried.
    pub fn carried(&self, conn: ConnId) -> Option<Carried> {
        self.tcp.carried(conn)
    }

    /// The timer of a connection that waits for its peer; None when none runs.
    pub fn running_timer(&self, conn: ConnId) -> Option<RunningTimer> {
        self.tcp.running_timer(conn)
    }

    /// A connection's inner values.
    pub fn info(&self, conn: ConnId) -> Option<TcpInfo> {
        self.tcp.info(&self.config, conn)
    }
}
