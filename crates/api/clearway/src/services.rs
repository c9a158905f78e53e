//! Several services and outgoing connections on one stack.

use clearway_base::{Duration, Handle, Instant, Slab, Wheel};
use clearway_engine::{App, Ended, Io, Next, Stores, Time};
use clearway_proto::{
    ConnEvents, ConnId, ConnOptions, ConnectError, ConnectSpec, Event, ListenSpec, ListenerId,
    Stack, Table, UdpError, UdpId, UdpSpec,
};
use clearway_wire::{Addr, Endpoint};

use crate::talk::Tally;

/// Conversations at a time, where [`Services::places`] says nothing.
const PLACES: u32 = 4096;

/// Handshakes in progress, and finished ones not yet accepted.
const BACKLOG: u32 = 1024;

/// How long a conversation whose connection is over may leave bytes where they lie, since it was
/// called last: as long as a stream that is stuck elsewhere is waited for.
const HELD: Duration = Duration::from_millis(60_000);

/// Ticks of 2^20 ns, about a millisecond.
const TICK_SHIFT: u32 = 20;

/// What is done for a conversation whenever something happened to it.
type Step = Box<dyn FnMut(&mut Call<'_>) -> Next>;

/// Makes the step of each conversation that others begin.
type Steps = Box<dyn FnMut() -> Step>;

/// What is done for a socket whenever something happened to it.
type OnSocket = Box<dyn FnMut(&mut Socket<'_>)>;

/// An application of several parts: TCP services, UDP sockets and outgoing connections on one
/// stack, which may begin further connections and wake each other.
///
/// The run ends when somebody ends it ([`crate::Stopper`], [`Call::finish`]), and by itself when
/// there are neither listeners nor sockets and the last conversation is over.
///
/// It costs an allocation for each connection and a call through a pointer for each step; where one
/// service is enough, [`crate::serve`] has neither.
///
/// ```
/// use clearway::{Endpoint, Io, Next, Pair, Services, connect};
///
/// // A service that greets, and one that counts the bytes of whoever calls.
/// let services = Services::new()
///     .listen(13, || {
///         |call| {
///             call.send(b"good day\n");
///             Next::Close
///         }
///     })
///     .listen(7, || {
///         let mut count = 0;
///         move |call| {
///             count += call.recv().len();
///             call.consumed(call.recv().len());
///             if !call.peer_closed() {
///                 return Next::Wait;
///             }
///             call.send(format!("{count}\n").as_bytes());
///             Next::Close
///         }
///     });
/// let remote: Endpoint = "10.0.0.1:7".parse::<std::net::SocketAddr>()?.into();
/// let mut asked = false;
/// let client = connect(remote, 1, move |answer: &mut Vec<u8>, io| {
///     if !std::mem::replace(&mut asked, true) {
///         io.send(b"1234567");
///         io.shutdown();
///     }
///     answer.extend_from_slice(io.recv());
///     io.consumed(io.recv().len());
///     if !io.peer_closed() {
///         return Next::Wait;
///     }
///     assert_eq!(answer, b"7\n");
///     Next::Close
/// });
/// let (served, _) = Pair::new(("10.0.0.1/24", services), ("10.0.0.2/24", client))?.run()?;
/// assert_eq!((served.begun, served.ended), (1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Services {
    parts: Parts,
    /// What is to begin when the stack is there.
    begin: Vec<Begin>,
    listeners: Vec<(ListenerId, Steps)>,
    sockets: Vec<Bound>,
}

enum Begin {
    Listen(u16, Steps),
    Connect(Endpoint, Step),
    Udp(u16, OnSocket),
}

struct Bound {
    id: UdpId,
    /// None while it is called.
    step: Option<OnSocket>,
}

/// What a step may change, beside what it is for.
struct Parts {
    places: u32,
    talks: Slab<Talk>,
    timers: Wheel,
    /// Who is called once more in this turn.
    woken: Vec<u64>,
    /// UDP sockets that are called once more in this turn.
    woken_sockets: Vec<usize>,
    tally: Tally,
    is_over: bool,
}

struct Talk {
    conn: ConnId,
    /// None while it is called.
    step: Option<Step>,
    /// Until when it may take what it left of a connection that is over; NEVER while it is not.
    held_until: Instant,
}

/// Names a conversation of a [`Services`] for as long as it lasts; a name that is old names nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key(u64);

/// A conversation, while it is called.
pub struct Call<'a> {
    now: Instant,
    stack: &'a mut Stack<Stores>,
    parts: &'a mut Parts,
    conn: ConnId,
    key: u64,
    ended: Option<Ended>,
}

/// A UDP socket, while it is called.
pub struct Socket<'a> {
    now: Instant,
    stack: &'a mut Stack<Stores>,
    parts: &'a mut Parts,
    id: UdpId,
    index: usize,
}

impl Default for Services {
    fn default() -> Services {
        Services::new()
    }
}

impl Services {
    /// None yet.
    pub fn new() -> Services {
        let timers = Wheel::with_tick_shift(1, TICK_SHIFT, Instant::ZERO);
        let parts = Parts {
            places: PLACES,
            talks: Slab::new(1),
            timers,
            woken: Vec::new(),
            woken_sockets: Vec::new(),
            tally: Tally::default(),
            is_over: false,
        };
        Services { parts, begin: Vec::new(), listeners: Vec::new(), sockets: Vec::new() }
    }

    /// Conversations at a time, 4096 otherwise. A connection beyond them is reset.
    #[must_use]
    pub fn places(mut self, places: u32) -> Services {
        self.parts.places = places.max(1);
        self
    }

    /// Listens on a TCP port of every address, IPv4 and IPv6. `make` makes the step of each
    /// connection; that is called whenever something happens to it, the first time when it is
    /// there, and for the last time with [`Call::ended`]. Bytes that it leaves where they lie are
    /// kept for it after both sides are done, for a minute from its last call.
    #[must_use]
    pub fn listen<F, S>(mut self, port: u16, mut make: F) -> Services
    where
        F: FnMut() -> S + 'static,
        S: FnMut(&mut Call<'_>) -> Next + 'static,
    {
        self.begin.push(Begin::Listen(port, Box::new(move || Box::new(make()))));
        self
    }

    /// Makes a connection. `step` is called whenever something happens to it, the first time at
    /// once: what it sends then leaves with the handshake's end.
    #[must_use]
    pub fn connect<S>(mut self, remote: Endpoint, step: S) -> Services
    where
        S: FnMut(&mut Call<'_>) -> Next + 'static,
    {
        self.begin.push(Begin::Connect(remote, Box::new(step)));
        self
    }

    /// Binds a UDP port of every address, IPv4 and IPv6; 0 has one chosen. `step` is called whenever
    /// something happens to it, the first time when it is bound.
    #[must_use]
    pub fn udp<S: FnMut(&mut Socket<'_>) + 'static>(mut self, port: u16, step: S) -> Services {
        self.begin.push(Begin::Udp(port, Box::new(step)));
        self
    }

    fn listen_now(
        &mut self,
        stack: &mut Stack<Stores>,
        port: u16,
        steps: Steps,
    ) -> Result<(), String> {
        if port == 0 {
            return Err("nobody could name port 0: say which port to listen on".into());
        }
        // The IPv6 wildcard without v6_only takes IPv4 too.
        let local = Endpoint::new(Addr::ANY_V6, port);
        let token = self.listeners.len() as u64;
        let options = options(stack);
        let spec =
            ListenSpec { table: Table(0), local, v6_only: false, backlog: BACKLOG, token, options };
        let listener =
            stack.listen(spec).map_err(|why| format!("cannot listen on port {port}: {why}"))?;
        self.listeners.push((listener, steps));
        Ok(())
    }

    fn bind_now(
        &mut self,
        stack: &mut Stack<Stores>,
        port: u16,
        step: OnSocket,
    ) -> Result<(), String> {
        let local = Endpoint::new(Addr::ANY_V6, port);
        let token = self.sockets.len() as u64;
        let spec = UdpSpec { table: Table(0), local, token, v6_only: false };
        let id = stack
            .udp_bind(spec)
            .map_err(|why| format!("cannot bind UDP port {port}: {}", words(why)))?;
        self.parts.woken_sockets.push(self.sockets.len());
        self.sockets.push(Bound { id, step: Some(step) });
        Ok(())
    }

    fn accept(&mut self, now: Instant, stack: &mut Stack<Stores>, index: usize) {
        let Some((listener, steps)) = self.listeners.get_mut(index) else { return };
        while let Some(conn) = stack.accept(*listener) {
            let step = steps();
            if let Some(key) = self.parts.enter(stack, conn, step) {
                self.parts.call(now, stack, key, None);
            }
        }
    }

    fn on_conn(
        &mut self,
        now: Instant,
        stack: &mut Stack<Stores>,
        conn: ConnId,
        token: u64,
        what: ConnEvents,
    ) {
        let parts = &mut self.parts;
        if parts.talk(token).is_none_or(|talk| talk.conn != conn) {
            return;
        }
        if what.has(ConnEvents::FAILED) {
            return parts.over(now, stack, token, Ended::Failed(stack.failure(conn)));
        }
        parts.call(now, stack, token, None);
        if what.has(ConnEvents::CLOSED) {
            parts.over(now, stack, token, Ended::Closed);
        }
    }

    fn call_socket(&mut self, now: Instant, stack: &mut Stack<Stores>, index: usize) {
        let Some(bound) = self.sockets.get_mut(index) else { return };
        let id = bound.id;
        let Some(mut step) = bound.step.take() else { return };
        step(&mut Socket { now, stack, parts: &mut self.parts, id, index });
        self.sockets[index].step = Some(step);
    }

    /// Calls who was woken, until nobody is.
    fn call_woken(&mut self, now: Instant, stack: &mut Stack<Stores>) {
        // Two that wake each other for ever go on in the next turn.
        for _ in 0..64 {
            let woken = std::mem::take(&mut self.parts.woken);
            let sockets = std::mem::take(&mut self.parts.woken_sockets);
            if woken.is_empty() && sockets.is_empty() {
                return;
            }
            for key in woken {
                self.parts.go_on(now, stack, key);
            }
            for index in sockets {
                self.call_socket(now, stack, index);
            }
        }
    }
}

fn words(why: UdpError) -> &'static str {
    match why {
        UdpError::InUse => "somebody has it already",
        UdpError::TooMany => "all places for sockets are taken (Limits::udp_sockets)",
        UdpError::NoPorts => "no port is free that could be chosen",
        _ => "the stack refuses it",
    }
}

fn options(stack: &Stack<Stores>) -> ConnOptions {
    ConnOptions { nodelay: true, ..*stack.defaults() }
}

impl Parts {
    fn talk(&self, key: u64) -> Option<&Talk> {
        self.talks.get(Handle::from_bits(key)?)
    }

    fn enter(&mut self, stack: &mut Stack<Stores>, conn: ConnId, step: Step) -> Option<u64> {
        let Some(handle) =
            self.talks.insert(Talk { conn, step: Some(step), held_until: Instant::NEVER })
        else {
            stack.abort(conn);
            self.tally.begun += 1;
            self.tally.ended += 1;
            self.tally.failed += 1;
            return None;
        };
        self.tally.begun += 1;
        stack.set_token(conn, handle.to_bits());
        Some(handle.to_bits())
    }

    fn connect(
        &mut self,
        now: Instant,
        stack: &mut Stack<Stores>,
        remote: Endpoint,
        step: Step,
    ) -> Result<Key, ConnectError> {
        let options = options(stack);
        let spec = ConnectSpec { table: Table(0), local: None, remote, token: 0, options };
        let conn = stack.connect(now, spec)?;
        let key = self.enter(stack, conn, step).ok_or(ConnectError::TooMany)?;
        self.woken.push(key);
        Ok(Key(key))
    }

    fn call(&mut self, now: Instant, stack: &mut Stack<Stores>, key: u64, ended: Option<Ended>) {
        let Some(handle) = Handle::from_bits(key) else { return };
        let Some(talk) = self.talks.get_mut(handle) else { return };
        let conn = talk.conn;
        let Some(mut step) = talk.step.take() else { return };
        let next = step(&mut Call { now, stack, parts: self, conn, key, ended });
        match next {
            Next::Wait => {
                if let Some(talk) = self.talks.get_mut(handle) {
                    talk.step = Some(step);
                }
            }
            Next::Close => {
                self.remove(handle, ended);
                stack.close(conn);
            }
            Next::Abort => {
                self.remove(handle, ended);
                stack.abort(conn);
            }
        }
    }

    fn remove(&mut self, handle: Handle<Talk>, why: Option<Ended>) {
        self.timers.disarm(handle.index());
        if self.talks.remove(handle).is_some() {
            self.tally.ended += 1;
            self.tally.failed += u64::from(!matches!(why, None | Some(Ended::Closed)));
        }
    }

    /// Calls it because something happened. A connection that is over, and of which it left bytes, is
    /// looked at again: nothing else would end it.
    fn go_on(&mut self, now: Instant, stack: &mut Stack<Stores>, key: u64) {
        match self.talk(key).map(|talk| talk.held_until) {
            None => {}
            Some(Instant::NEVER) => self.call(now, stack, key, None),
            Some(_) => self.over(now, stack, key, Ended::Closed),
        }
    }

    /// The connection is over: all that came before is heard, since it was acknowledged, and then
    /// why it ended. Who has no room for it now, as a proxy whose other side is slow, is woken for
    /// the rest.
    fn over(&mut self, now: Instant, stack: &mut Stack<Stores>, key: u64, why: Ended) {
        let Some(&Talk { conn, held_until, .. }) = self.talk(key) else { return };
        let mut unread = stack.unread(conn);
        while unread > 0 {
            self.call(now, stack, key, None);
            if self.talk(key).is_none() {
                return;
            }
            let left = stack.unread(conn);
            if left == unread {
                break;
            }
            unread = left;
        }
        if unread > 0 && why == Ended::Closed && now < held_until {
            return self.hold(key, now + HELD);
        }
        let why = if unread > 0 && why == Ended::Closed { Ended::Unread } else { why };
        self.call(now, stack, key, Some(why));
        if let Some(handle) = Handle::from_bits(key) {
            if self.talks.get(handle).is_some() {
                self.remove(handle, Some(why));
                stack.close(conn);
            }
        }
    }

    fn hold(&mut self, key: u64, until: Instant) {
        let Some(handle) = Handle::<Talk>::from_bits(key) else { return };
        if let Some(talk) = self.talks.get_mut(handle) {
            talk.held_until = until;
            self.timers.arm_if_earlier(handle.index(), until);
        }
    }
}

impl Call<'_> {
    /// What time it is.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// This conversation, for others that want to wake it.
    pub fn key(&self) -> Key {
        Key(self.key)
    }

    /// Why it ended, in the last call: what the step answers then does not matter.
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Calls this conversation at that time, too. A later call of this replaces an earlier one.
    pub fn wake_at(&mut self, at: Instant) {
        if let Some(handle) = Handle::<Talk>::from_bits(self.key) {
            let held = self.parts.talks.get(handle).map_or(Instant::NEVER, |talk| talk.held_until);
            self.parts.timers.arm(handle.index(), at.min(held));
        }
    }

    /// Calls another conversation in this turn, too; nothing happens when it has ended.
    pub fn wake(&mut self, other: Key) {
        self.parts.woken.push(other.0);
    }

    /// Makes a connection, as [`Services::connect`] does.
    ///
    /// # Errors
    /// [`ConnectError`]: no route, no port, or no place.
    pub fn connect<S>(&mut self, remote: Endpoint, step: S) -> Result<Key, ConnectError>
    where
        S: FnMut(&mut Call<'_>) -> Next + 'static,
    {
        self.parts.connect(self.now, self.stack, remote, Box::new(step))
    }

    /// The whole application is finished: the run ends as if it had been stopped.
    pub fn finish(&mut self) {
        self.parts.is_over = true;
    }
}

impl Io for Call<'_> {
    fn recv(&self) -> &[u8] {
        self.stack.recv(self.conn).unwrap_or_default()
    }

    fn consumed(&mut self, n: usize) {
        // What was received together is shorter than 4 GiB.
        self.stack.consumed(self.conn, n as u32);
    }

    fn peer_closed(&self) -> bool {
        self.stack.peer_closed(self.conn)
    }

    fn room(&self) -> usize {
        self.stack.send_room(self.conn) as usize
    }

    fn send(&mut self, bytes: &[u8]) -> usize {
        // A connection that failed takes nothing; why is told in its last call.
        self.stack.send(self.conn, bytes).unwrap_or(0)
    }

    fn send_more(&mut self, bytes: &[u8]) -> usize {
        self.stack.send_more(self.conn, bytes).unwrap_or(0)
    }

    fn shutdown(&mut self) {
        // An error means that it is shut down or gone already.
        let _ = self.stack.shutdown(self.conn);
    }

    fn local(&self) -> Option<Endpoint> {
        self.stack.local(self.conn)
    }

    fn remote(&self) -> Option<Endpoint> {
        self.stack.remote(self.conn)
    }
}

impl Socket<'_> {
    /// What time it is.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The oldest datagram that came: who sent it, the address of ours that it was sent to, and its
    /// bytes.
    pub fn recv(&mut self) -> Option<(Endpoint, Addr, Vec<u8>)> {
        let datagram = self.stack.udp_recv(self.id)?;
        Some((datagram.from, datagram.to, datagram.payload.to_vec()))
    }

    /// Sends a datagram, from that address of ours or one that the routes choose.
    ///
    /// # Errors
    /// [`UdpError`]: no route, too long, or no room; the step is called when there is some.
    pub fn send(&mut self, to: Endpoint, from: Option<Addr>, bytes: &[u8]) -> Result<(), UdpError> {
        self.stack.udp_send(self.id, to, from, bytes)
    }

    /// Makes a connection, as [`Services::connect`] does.
    ///
    /// # Errors
    /// [`ConnectError`]: no route, no port, or no place.
    pub fn connect<S>(&mut self, remote: Endpoint, step: S) -> Result<Key, ConnectError>
    where
        S: FnMut(&mut Call<'_>) -> Next + 'static,
    {
        self.parts.connect(self.now, self.stack, remote, Box::new(step))
    }

    /// Calls a conversation in this turn, too; nothing happens when it has ended.
    pub fn wake(&mut self, other: Key) {
        self.parts.woken.push(other.0);
    }

    /// Calls this socket at that time, too.
    pub fn wake_at(&mut self, at: Instant) {
        // Behind the places of the conversations.
        self.parts.timers.arm(self.parts.places + self.index as u32, at);
    }

    /// The whole application is finished: the run ends as if it had been stopped.
    pub fn finish(&mut self) {
        self.parts.is_over = true;
    }
}

impl App<Stores> for Services {
    type Report = Tally;

    fn start(&mut self, time: Time, stack: &mut Stack<Stores>) -> Result<(), String> {
        let sockets = self.begin.iter().filter(|begin| matches!(begin, Begin::Udp(..))).count();
        let places = self.parts.places;
        self.parts.talks = Slab::new(places);
        let timers = places + sockets as u32;
        self.parts.timers = Wheel::with_tick_shift(timers, TICK_SHIFT, time.now);
        for begin in std::mem::take(&mut self.begin) {
            match begin {
                Begin::Listen(port, steps) => self.listen_now(stack, port, steps)?,
                Begin::Udp(port, step) => self.bind_now(stack, port, step)?,
                Begin::Connect(remote, step) => {
                    let begun = self.parts.connect(time.now, stack, remote, step);
                    begun.map_err(|why| format!("cannot connect to {remote}: {why}"))?;
                }
            }
        }
        Ok(())
    }

    fn on_events(&mut self, time: Time, stack: &mut Stack<Stores>) {
        while let Some(event) = stack.next_event() {
            match event {
                Event::Conn { conn, token, what } => {
                    self.on_conn(time.now, stack, conn, token, what);
                }
                Event::Incoming { token, .. } => self.accept(time.now, stack, token as usize),
                Event::Udp { token, .. } => self.call_socket(time.now, stack, token as usize),
            }
        }
        while let Some(index) = self.parts.timers.next_expired(time.now) {
            match index.checked_sub(self.parts.places) {
                Some(socket) => self.call_socket(time.now, stack, socket as usize),
                None => {
                    if let Some(handle) = self.parts.talks.handle_at(index) {
                        self.parts.go_on(time.now, stack, handle.to_bits());
                    }
                }
            }
        }
        self.call_woken(time.now, stack);
    }

    fn next_deadline(&self) -> Instant {
        match self.parts.woken.is_empty() && self.parts.woken_sockets.is_empty() {
            true => self.parts.timers.next_deadline(),
            false => Instant::ZERO,
        }
    }

    fn is_finished(&self) -> bool {
        // With nobody who could begin another one, the last conversation was the last.
        let is_last = self.begin.is_empty() && self.listeners.is_empty() && self.sockets.is_empty();
        self.parts.is_over || (is_last && self.parts.talks.is_empty())
    }

    fn drain(&mut self, _time: Time, stack: &mut Stack<Stores>) -> bool {
        for (listener, _) in self.listeners.drain(..) {
            stack.unlisten(listener);
        }
        self.parts.talks.is_empty()
    }

    fn stop(&mut self, time: Time, stack: &mut Stack<Stores>) {
        for (listener, _) in self.listeners.drain(..) {
            stack.unlisten(listener);
        }
        let open: Vec<_> =
            self.parts.talks.iter().map(|(handle, talk)| (handle, talk.conn)).collect();
        for (handle, conn) in open {
            self.parts.call(time.now, stack, handle.to_bits(), Some(Ended::Stopped));
            if self.parts.talks.contains(handle) {
                self.parts.remove(handle, Some(Ended::Stopped));
                stack.abort(conn);
            }
        }
        for bound in self.sockets.drain(..) {
            stack.udp_close(bound.id);
        }
    }

    fn report(&self) -> Tally {
        self.parts.tally
    }
}

#[cfg(test)]
mod tests;
