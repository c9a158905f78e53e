//! Conversations: applications that answer each connection by itself, written once for every kind
//! of connection.
//!
//! A [`Service`] leads the conversations and sees a connection only as [`Io`]. [`Talks`] runs a
//! service on a stack, inside the turn; the same service can be run over sockets of the operating
//! system, to be compared or where there is no stack.

use clearway_base::{Handle, Instant, Slab, Wheel};
use clearway_proto::{
    ConnEvents, ConnId, ConnOptions, ConnectSpec, Env, Event, Failure, ListenSpec, ListenerId,
    Stack, Table,
};
use clearway_wire::{Addr, Endpoint};

use crate::{App, Time};

/// A connection as a conversation sees it.
pub trait Io {
    /// The oldest bytes that were received and not consumed and that lie together; empty when there
    /// are none now.
    fn recv(&self) -> &[u8];
    /// The oldest `n` of them are done with.
    fn consumed(&mut self, n: usize);
    /// Nothing comes after what [`Io::recv`] still has.
    fn peer_closed(&self) -> bool;
    /// Bytes that [`Io::send`] would take now, as far as is known.
    fn room(&self) -> usize;
    /// Sends; returns how many bytes were taken. Fewer than all: the conversation is called again
    /// when there is room.
    fn send(&mut self, bytes: &[u8]) -> usize;
    /// As [`Io::send`], and more follows soon: what does not fill a segment waits for it, for a
    /// fraction of a second at most. A kind of connection that cannot do so sends at once.
    fn send_more(&mut self, bytes: &[u8]) -> usize {
        self.send(bytes)
    }
    /// Ends our side of the stream behind what was sent.
    fn shutdown(&mut self);
    /// Our side, where the kind of connection knows it.
    fn local(&self) -> Option<Endpoint> {
        None
    }
    /// The peer's side, where the kind of connection knows it.
    fn remote(&self) -> Option<Endpoint> {
        None
    }
}

/// What to do with the connection after a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Come back when something happens, or at the conversation's deadline.
    Wait,
    /// Close: what was sent still goes out.
    Close,
    /// Reset it.
    Abort,
}

/// How a conversation ended that the service did not end itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The connection failed, where it is known why.
    Failed(Option<Failure>),
    /// Both sides were done, and all that came was consumed.
    Closed,
    /// Both sides were done, and the service left bytes where they lay: it was called until it took
    /// no more, and named no deadline.
    Unread,
    /// The program ends.
    Stopped,
    /// There was no place for one more; the conversation never began.
    NoRoom,
}

/// Leads conversations.
pub trait Service {
    /// The state of one conversation.
    type Talk;
    /// What is told to the outside.
    type Report: Clone + Default + Send + 'static;

    /// Once per turn, before anything else: what time it is.
    fn tick(&mut self, time: Time) {
        let _ = time;
    }

    /// A connection is there.
    fn begin(&mut self, now: Instant) -> Self::Talk;

    /// Something happened to the connection: goes on as far as its bytes and its room allow. When
    /// the connection is over, it is called for as long as it consumes bytes and there are more:
    /// then nothing else would call it.
    fn on_ready<I: Io>(&mut self, now: Instant, talk: &mut Self::Talk, io: &mut I) -> Next;

    /// When [`Service::on_timeout`] is due if nothing happens before; every step may move it.
    fn deadline(&self, talk: &Self::Talk) -> Instant;

    /// The deadline has passed.
    fn on_timeout<I: Io>(&mut self, now: Instant, talk: &mut Self::Talk, io: &mut I) -> Next;

    /// Whether closing the connection now would cut nothing off.
    fn is_idle(&self, talk: &Self::Talk) -> bool;

    /// The conversation is over; None when the service itself said so.
    fn end(&mut self, talk: Option<Self::Talk>, why: Option<Ended>);

    /// Whether there is nothing left to do at all.
    fn is_finished(&self) -> bool {
        false
    }

    /// The state of affairs.
    fn report(&self) -> Self::Report;
}

/// Where conversations come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// Others connect to this port of any address of ours, IPv4 or IPv6.
    Listen(u16),
    /// We connect to them, so many times.
    Connect(Endpoint, u32),
}

/// Handshakes in progress, and finished ones not yet accepted, at most. They are accepted in the
/// turn in which they finish, so this bounds the handshakes of one round trip; beyond it the stack
/// answers with SYN cookies.
const BACKLOG: u32 = 4_096;

/// Ticks of 2^24 ns, about 17 ms: fine enough for timeouts that people choose, in seconds.
const TICK_SHIFT: u32 = 24;

/// A service on a stack.
pub struct Talks<S: Service> {
    service: S,
    source: Source,
    listener: Option<ListenerId>,
    talks: Slab<Place<S::Talk>>,
    timers: Wheel,
}

struct Place<T> {
    conn: ConnId,
    talk: T,
    /// Both sides are done, and there are bytes that the service has not consumed yet.
    is_over: bool,
}

struct StackIo<'a, E: Env> {
    stack: &'a mut Stack<E>,
    conn: ConnId,
}

impl<E: Env> Io for StackIo<'_, E> {
    #[inline]
    fn recv(&self) -> &[u8] {
        self.stack.recv(self.conn).unwrap_or_default()
    }

    #[inline]
    fn consumed(&mut self, n: usize) {
        // What was received together is shorter than 4 GiB.
        self.stack.consumed(self.conn, n as u32);
    }

    #[inline]
    fn peer_closed(&self) -> bool {
        self.stack.peer_closed(self.conn)
    }

    #[inline]
    fn room(&self) -> usize {
        self.stack.send_room(self.conn) as usize
    }

    #[inline]
    fn send(&mut self, bytes: &[u8]) -> usize {
        // A connection that failed takes nothing; its event is on the way.
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

impl<S: Service> Talks<S> {
    /// Room for `places` conversations at a time.
    pub fn new(service: S, source: Source, places: u32) -> Talks<S> {
        let timers = Wheel::with_tick_shift(places, TICK_SHIFT, Instant::ZERO);
        Talks { service, source, listener: None, talks: Slab::new(places), timers }
    }

    /// The service.
    pub fn service(&mut self) -> &mut S {
        &mut self.service
    }

    fn begin<E: Env>(
        &mut self,
        now: Instant,
        stack: &mut Stack<E>,
        conn: ConnId,
    ) -> Option<Handle<Place<S::Talk>>> {
        let talk = self.service.begin(now);
        let place = self.talks.insert(Place { conn, talk, is_over: false });
        match place {
            Some(handle) => stack.set_token(conn, handle.to_bits()),
            None => {
                stack.abort(conn);
                self.service.end(None, Some(Ended::NoRoom));
            }
        }
        place
    }

    fn accept<E: Env>(&mut self, now: Instant, stack: &mut Stack<E>, listener: ListenerId) {
        while let Some(conn) = stack.accept(listener) {
            if let Some(handle) = self.begin(now, stack, conn) {
                // The first bytes may have come with the last segment of the handshake.
                self.ready(now, stack, handle);
            }
        }
    }

    #[inline]
    fn ready<E: Env>(
        &mut self,
        now: Instant,
        stack: &mut Stack<E>,
        handle: Handle<Place<S::Talk>>,
    ) {
        let Some(Place { conn, talk, .. }) = self.talks.get_mut(handle) else { return };
        let conn = *conn;
        let next = self.service.on_ready(now, talk, &mut StackIo { stack, conn });
        self.after(stack, handle, next);
    }

    #[inline]
    fn after<E: Env>(&mut self, stack: &mut Stack<E>, handle: Handle<Place<S::Talk>>, next: Next) {
        let Some(place) = self.talks.get(handle) else { return };
        let conn = place.conn;
        match next {
            // A deadline that only moved away is looked at when the timer fires.
            Next::Wait => {
                self.timers.arm_if_earlier(handle.index(), self.service.deadline(&place.talk));
            }
            Next::Close => {
                self.remove(handle, None);
                stack.close(conn);
            }
            Next::Abort => {
                self.remove(handle, None);
                stack.abort(conn);
            }
        }
    }

    fn remove(&mut self, handle: Handle<Place<S::Talk>>, why: Option<Ended>) {
        self.timers.disarm(handle.index());
        if let Some(place) = self.talks.remove(handle) {
            self.service.end(Some(place.talk), why);
        }
    }

    #[inline]
    fn on_conn<E: Env>(
        &mut self,
        now: Instant,
        stack: &mut Stack<E>,
        conn: ConnId,
        token: u64,
        what: ConnEvents,
    ) {
        let Some(handle) = Handle::from_bits(token) else { return };
        if self.talks.get(handle).is_none_or(|place| place.conn != conn) {
            return;
        }
        if what.has(ConnEvents::FAILED) {
            return self.over(now, stack, handle, Ended::Failed(stack.failure(conn)));
        }
        self.ready(now, stack, handle);
        if what.has(ConnEvents::CLOSED) {
            self.over(now, stack, handle, Ended::Closed);
        }
    }

    /// Nothing comes or goes on this connection any more. What came before is heard first, all of
    /// it: it was acknowledged, so the peer believes that it was.
    #[cold]
    fn over<E: Env>(
        &mut self,
        now: Instant,
        stack: &mut Stack<E>,
        handle: Handle<Place<S::Talk>>,
        why: Ended,
    ) {
        let Some(&Place { conn, .. }) = self.talks.get(handle) else { return };
        let mut unread = stack.unread(conn);
        while unread > 0 {
            self.ready(now, stack, handle);
            let Some(place) = self.talks.get_mut(handle) else { return };
            let left = stack.unread(conn);
            if left == unread {
                if why == Ended::Closed && self.service.deadline(&place.talk) < Instant::NEVER {
                    // It takes its time, and says when it goes on.
                    place.is_over = true;
                    return;
                }
                break;
            }
            unread = left;
        }
        let why = if unread > 0 && why == Ended::Closed { Ended::Unread } else { why };
        self.remove(handle, Some(why));
        stack.close(conn);
    }

    fn on_timer<E: Env>(&mut self, now: Instant, stack: &mut Stack<E>, index: u32) {
        let Some(handle) = self.talks.handle_at(index) else { return };
        let Some(Place { conn, talk, is_over }) = self.talks.get_mut(handle) else { return };
        let is_over = *is_over;
        let next = if self.service.deadline(talk) > now {
            Next::Wait
        } else {
            let conn = *conn;
            self.service.on_timeout(now, talk, &mut StackIo { stack, conn })
        };
        self.after(stack, handle, next);
        if is_over {
            self.over(now, stack, handle, Ended::Closed);
        }
    }
}

impl<S: Service, E: Env> App<E> for Talks<S> {
    type Report = S::Report;

    fn start(&mut self, time: Time, stack: &mut Stack<E>) -> Result<(), String> {
        self.timers = Wheel::with_tick_shift(self.talks.capacity(), TICK_SHIFT, time.now);
        self.service.tick(time);
        let options = ConnOptions { nodelay: true, ..*stack.defaults() };
        match self.source {
            Source::Listen(0) => {
                return Err("nobody could name port 0: say which port to listen on".into());
            }
            Source::Listen(port) => {
                // The IPv6 wildcard without v6_only takes IPv4 too.
                let local = Endpoint::new(Addr::ANY_V6, port);
                let spec = ListenSpec {
                    table: Table(0),
                    local,
                    v6_only: false,
                    backlog: BACKLOG,
                    token: 0,
                    options,
                };
                let listener = stack
                    .listen(spec)
                    .map_err(|error| format!("cannot listen on port {port}: {error}"))?;
                self.listener = Some(listener);
            }
            Source::Connect(remote, count) => {
                for _ in 0..count {
                    let spec =
                        ConnectSpec { table: Table(0), local: None, remote, token: 0, options };
                    let conn = stack
                        .connect(time.now, spec)
                        .map_err(|error| format!("cannot connect to {remote}: {error}"))?;
                    self.begin(time.now, stack, conn);
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn on_events(&mut self, time: Time, stack: &mut Stack<E>) {
        self.service.tick(time);
        while let Some(event) = stack.next_event() {
            match event {
                Event::Conn { conn, token, what } => {
                    self.on_conn(time.now, stack, conn, token, what)
                }
                Event::Incoming { listener, .. } => self.accept(time.now, stack, listener),
                Event::Udp { .. } => {}
            }
        }
        while let Some(index) = self.timers.next_expired(time.now) {
            self.on_timer(time.now, stack, index);
        }
    }

    fn next_deadline(&self) -> Instant {
        self.timers.next_deadline()
    }

    fn is_finished(&self) -> bool {
        self.service.is_finished()
    }

    #[cold]
    fn drain(&mut self, _time: Time, stack: &mut Stack<E>) -> bool {
        if let Some(listener) = self.listener.take() {
            stack.unlisten(listener);
        }
        // Nobody is waited for who has nothing under way.
        let idle = self.talks.iter().filter(|(_, place)| self.service.is_idle(&place.talk));
        let idle: Vec<_> = idle.map(|(handle, place)| (handle, place.conn)).collect();
        for (handle, conn) in idle {
            self.remove(handle, Some(Ended::Stopped));
            stack.close(conn);
        }
        self.talks.is_empty()
    }

    fn stop(&mut self, _time: Time, stack: &mut Stack<E>) {
        if let Some(listener) = self.listener.take() {
            stack.unlisten(listener);
        }
        // Whoever waits for the rest of an answer learns by a reset that it will not come; an idle
        // connection just ends.
        let open: Vec<_> = self.talks.iter().map(|(handle, _)| handle).collect();
        for handle in open {
            if let Some(place) = self.talks.get(handle) {
                let (conn, idle) = (place.conn, self.service.is_idle(&place.talk));
                self.remove(handle, Some(Ended::Stopped));
                if idle { stack.close(conn) } else { stack.abort(conn) }
            }
        }
    }

    fn report(&self) -> S::Report {
        self.service.report()
    }
}
