//! The stack as its owner sees it: its verbs for connections, and what it tells back. The verbs for links, addresses and UDP stand in their own files.

use clearway_base::{Handle, Instant};
use clearway_wire::Endpoint;

use crate::config::{Config, ConnOptions};
use crate::counters::Counters;
use crate::error::{ConnectError, Failure, ListenError, RecvError, SendError};
use crate::event::Event;
use crate::ip::Ip;
use crate::reply::Replies;
use crate::store::Env;
use crate::tcp::{ConnectSpec, ListenSpec, State, TcpInfo};
use crate::udp::Udp;

/// What a [`ConnId`] names.
#[derive(Debug)]
pub enum ConnTag {}
/// What a [`ListenerId`] names.
#[derive(Debug)]
pub enum ListenerTag {}
/// What a [`UdpId`] names.
#[derive(Debug)]
pub enum UdpTag {}

/// Names a connection. It stops working when the owner closes it.
pub type ConnId = Handle<ConnTag>;
/// Names a listener.
pub type ListenerId = Handle<ListenerTag>;
/// Names a UDP socket.
pub type UdpId = Handle<UdpTag>;

/// A routing table (VRF). `Table(0)` is the default one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Table(pub u16);

/// A whole TCP/IP host stack for one core.
pub struct Stack<E: Env> {
    pub(crate) config: Config,
    pub(crate) counters: Counters,
    pub(crate) ip: Ip,
    pub(crate) replies: Replies,
    pub(crate) udp: Udp,
    env: core::marker::PhantomData<E>,
}

impl<E: Env> Stack<E> {
    /// A stack over two stores. All memory for its tables is reserved here.
    pub fn new(config: Config, rx: E::Rx, tx: E::Tx) -> Stack<E> {
        let _ = (rx, tx);
        let (ip, replies, udp) = (Ip::new(&config), Replies::new(&config), Udp::new(&config));
        Stack { config, counters: Counters::default(), ip, replies, udp, env: core::marker::PhantomData }
    }

    /// Everything that was counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Looks at all timers that are due.
    pub fn expire(&mut self, _now: Instant) {
        todo!()
    }

    /// When [`Stack::expire`] must be called next; [`Instant::NEVER`] when no timer runs. May be early, never late.
    pub fn next_deadline(&self) -> Instant {
        todo!()
    }

    /// Whether [`Stack::emit`] has something to send.
    pub fn wants_emit(&self) -> bool {
        todo!()
    }

    /// The next thing for the owner to look at.
    pub fn next_event(&mut self) -> Option<Event> {
        todo!()
    }

    /// Listens. Handshakes are answered at once; finished ones wait for [`Stack::accept`], and [`Event::Incoming`] tells of them.
    pub fn listen(&mut self, _spec: ListenSpec) -> Result<ListenerId, ListenError> {
        todo!()
    }

    /// Stops listening. Connections that were not accepted are reset.
    pub fn unlisten(&mut self, _listener: ListenerId) {
        todo!()
    }

    /// The address and port of a listener.
    pub fn listener_local(&self, _listener: ListenerId) -> Option<Endpoint> {
        todo!()
    }

    /// Takes the oldest finished handshake; the owner then gives it a token with [`Stack::set_token`].
    pub fn accept(&mut self, _listener: ListenerId) -> Option<ConnId> {
        todo!()
    }

    /// Begins a connection (RFC 9293 3.10.1). [`crate::ConnEvents::CONNECTED`] tells of its success. Bytes may be sent into it before.
    pub fn connect(&mut self, _now: Instant, _spec: ConnectSpec) -> Result<ConnId, ConnectError> {
        todo!()
    }

    /// Gives a connection its owner's word, which comes with its events.
    pub fn set_token(&mut self, _conn: ConnId, _token: u64) {
        todo!()
    }

    /// Writes bytes to be sent; returns how many were taken. Fewer than all: [`crate::ConnEvents::WRITABLE`] will tell when there is room again.
    pub fn send(&mut self, _conn: ConnId, _bytes: &[u8]) -> Result<usize, SendError> {
        todo!()
    }

    /// Tells that bytes were put into the connection's send queue from outside (by the other side of a shared-memory FIFO).
    pub fn wrote(&mut self, _conn: ConnId) -> Result<(), SendError> {
        todo!()
    }

    /// As [`Stack::send`], and the last byte taken is announced as urgent (RFC 9293 3.8.5, RFC 6093).
    pub fn send_urgent(&mut self, _conn: ConnId, _bytes: &[u8]) -> Result<usize, SendError> {
        todo!()
    }

    /// The oldest unread bytes that lie together. Empty and [`Stack::peer_closed`]: the end of the stream. Empty and not: later.
    pub fn recv(&self, _conn: ConnId) -> Result<&[u8], RecvError> {
        todo!()
    }

    /// The owner is done with the oldest `n` unread bytes.
    pub fn consumed(&mut self, _conn: ConnId, _n: u32) {
        todo!()
    }

    /// How many unread bytes lie before the byte behind the urgent mark (RFC 6093: the mark is the first byte *behind* urgent data); None when there is no urgent data ahead.
    pub fn urgent(&self, _conn: ConnId) -> Option<u32> {
        todo!()
    }

    /// The peer's FIN arrived: nothing comes after what is unread now.
    pub fn peer_closed(&self, _conn: ConnId) -> bool {
        todo!()
    }

    /// Bytes written and not acknowledged, sent or not.
    pub fn queued(&self, _conn: ConnId) -> u32 {
        todo!()
    }

    /// Bytes written and not sent.
    pub fn unsent(&self, _conn: ConnId) -> u32 {
        todo!()
    }

    /// Bytes that [`Stack::send`] would take now.
    pub fn send_room(&self, _conn: ConnId) -> u32 {
        todo!()
    }

    /// Bytes received in order and not consumed.
    pub fn unread(&self, _conn: ConnId) -> u32 {
        todo!()
    }

    /// Our FIN goes out behind all bytes written so far (half close); the peer may go on sending.
    pub fn shutdown(&mut self, _conn: ConnId) -> Result<(), SendError> {
        todo!()
    }

    /// The owner lets go; the handle is dead. What was written still goes out, then our FIN. Bytes that the owner did not read, and bytes that
    /// arrive later, are answered with a reset, so that the peer learns that nobody took them (RFC 9293 3.6.1, RFC 2525 2.17).
    pub fn close(&mut self, _conn: ConnId) {
        todo!()
    }

    /// A reset goes out; the handle is dead (RFC 9293 3.10.5).
    pub fn abort(&mut self, _conn: ConnId) {
        todo!()
    }

    /// Why the connection failed, if it did.
    pub fn failure(&self, _conn: ConnId) -> Option<Failure> {
        todo!()
    }

    /// Our side of the connection.
    pub fn local(&self, _conn: ConnId) -> Option<Endpoint> {
        todo!()
    }

    /// The peer's side of the connection.
    pub fn remote(&self, _conn: ConnId) -> Option<Endpoint> {
        todo!()
    }

    /// The state; CLOSED for a handle that names nothing.
    pub fn state(&self, _conn: ConnId) -> State {
        todo!()
    }

    /// Changes a connection's options; they hold from the next segment on.
    pub fn set_options(&mut self, _conn: ConnId, _options: ConnOptions) {
        todo!()
    }

    /// A connection's options.
    pub fn options(&self, _conn: ConnId) -> Option<ConnOptions> {
        todo!()
    }

    /// A connection's inner values.
    pub fn info(&self, _conn: ConnId) -> Option<TcpInfo> {
        todo!()
    }
}
