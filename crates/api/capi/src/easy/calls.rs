//! The engine's application: it turns events into calls of the program's functions.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;

use clearway_base::{Handle, Instant, Slab};
use clearway_engine::{App, Stores, Time};
use clearway_proto::{ConnEvents, ConnId, Event, ListenerId, Stack, UdpEvents, UdpId};

use super::clw_host;
use crate::config::clw_config;
use crate::status::clw_status;

/// The program's functions for a listener and what it accepts, for a connection, or for a UDP
/// socket. Any of them may be NULL. All of them may use the host they are given, but for
/// `clw_host_step`, `clw_host_run`, `clw_host_free` and `clw_host_add_port`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct clw_handlers {
    /// Somebody has connected; `conn` names the connection from now on, with the functions and the
    /// `ctx` of its listener.
    pub accepted: Option<unsafe extern "C" fn(host: *mut clw_host, conn: u64, ctx: *mut c_void)>,
    /// The connection that the program began is there.
    pub connected: Option<unsafe extern "C" fn(host: *mut clw_host, conn: u64, ctx: *mut c_void)>,
    /// Bytes are there to be read, or the end of them (`CLW_END`); for a UDP socket, datagrams. It
    /// is called again while it reads a part of the bytes.
    pub readable: Option<unsafe extern "C" fn(host: *mut clw_host, handle: u64, ctx: *mut c_void)>,
    /// There is room again after a send was cut short.
    pub writable: Option<unsafe extern "C" fn(host: *mut clw_host, handle: u64, ctx: *mut c_void)>,
    /// The connection has ended, and the program did not end it: `CLW_OK` when both sides were done
    /// and, where there is a `readable`, all bytes were read; until then it waits. It is called
    /// once. Bytes that were not read can be read in it; afterwards they are lost and the handle is
    /// dead.
    pub closed: Option<
        unsafe extern "C" fn(host: *mut clw_host, conn: u64, why: clw_status, ctx: *mut c_void),
    >,
    /// Handed to all of them.
    pub ctx: *mut c_void,
}

/// A connection and its functions.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) conn: Option<ConnId>,
    pub(super) handlers: clw_handlers,
}

/// A listener or a UDP socket and its functions.
#[derive(Clone, Copy)]
pub(super) struct Post<T> {
    pub(super) id: Option<T>,
    pub(super) handlers: clw_handlers,
}

/// What the host's calls and the engine's application both use, on one thread.
pub(crate) struct Shared {
    pub(super) host: Cell<*mut clw_host>,
    /// The stack while a callback runs.
    pub(super) stack: Cell<Option<NonNull<Stack<Stores>>>>,
    pub(super) now: Cell<Instant>,
    /// When the engine shall sleep no more.
    pub(super) wake_at: Cell<Instant>,
    pub(super) conns: RefCell<Slab<Place>>,
    pub(super) listeners: RefCell<Slab<Post<ListenerId>>>,
    pub(super) sockets: RefCell<Slab<Post<UdpId>>>,
}

impl Shared {
    pub(super) fn new(config: &clw_config) -> Shared {
        Shared {
            host: Cell::new(null_mut()),
            stack: Cell::new(None),
            now: Cell::new(Instant::ZERO),
            wake_at: Cell::new(Instant::NEVER),
            conns: RefCell::new(Slab::new(config.connections)),
            listeners: RefCell::new(Slab::new(config.listeners)),
            sockets: RefCell::new(Slab::new(config.udp_sockets)),
        }
    }

    /// The connection behind the program's number.
    pub(super) fn conn(&self, bits: u64) -> Result<ConnId, clw_status> {
        let place =
            Handle::from_bits(bits).and_then(|handle| self.conns.borrow().get(handle).copied());
        place.and_then(|place| place.conn).ok_or(clw_status::CLW_STALE)
    }

    /// The UDP socket behind the program's number.
    pub(super) fn socket(&self, bits: u64) -> Result<UdpId, clw_status> {
        let post =
            Handle::from_bits(bits).and_then(|handle| self.sockets.borrow().get(handle).copied());
        post.and_then(|post| post.id).ok_or(clw_status::CLW_STALE)
    }

    /// Forgets a connection; its functions, the first time.
    pub(super) fn forget(&self, bits: u64) -> Option<Place> {
        Handle::from_bits(bits).and_then(|handle| self.conns.borrow_mut().remove(handle))
    }
}

/// The application.
pub(super) struct Calls {
    shared: Rc<Shared>,
    /// Connections whose both sides are done, and that have bytes which the program did not read
    /// yet: `closed` waits for that.
    ending: Vec<u64>,
}

/// A function of the program's for a connection, if it is there.
type Call = Option<unsafe extern "C" fn(*mut clw_host, u64, *mut c_void)>;

impl Calls {
    pub(super) fn new(shared: Rc<Shared>) -> Calls {
        Calls { shared, ending: Vec::new() }
    }

    fn call(&self, call: Call, handle: u64, ctx: *mut c_void) {
        if let Some(call) = call {
            // SAFETY: the program gave function and context together. No borrow is held here: what
            // the function does to the host finds it as between two events.
            unsafe { call(self.shared.host.get(), handle, ctx) };
        }
    }

    fn place(&self, bits: u64) -> Option<Place> {
        Handle::from_bits(bits).and_then(|handle| self.shared.conns.borrow().get(handle).copied())
    }

    fn closed(&self, bits: u64, why: clw_status) {
        let Some(Place { handlers, .. }) = self.place(bits) else { return };
        if let Some(closed) = handlers.closed {
            // SAFETY: as in `call`.
            unsafe { closed(self.shared.host.get(), bits, why, handlers.ctx) };
        }
    }

    fn on_incoming(&self, stack: NonNull<Stack<Stores>>, token: u64) {
        loop {
            let post = Handle::from_bits(token)
                .and_then(|handle| self.shared.listeners.borrow().get(handle).copied());
            // The program may have stopped listening in the callback before.
            let Some(Post { id: Some(listener), handlers }) = post else { return };
            // SAFETY: the engine lends the stack to this turn, and nobody else uses it between two
            // callbacks.
            let stack = unsafe { &mut *stack.as_ptr() };
            let Some(conn) = stack.accept(listener) else { return };
            let place = self.shared.conns.borrow_mut().insert(Place { conn: Some(conn), handlers });
            match place {
                Some(handle) => {
                    stack.set_token(conn, handle.to_bits());
                    self.call(handlers.accepted, handle.to_bits(), handlers.ctx);
                    // The first bytes may have come with the last segment of the handshake.
                    self.on_readable(handle.to_bits());
                }
                None => stack.abort(conn),
            }
        }
    }

    fn on_readable(&self, bits: u64) {
        let Some(Place { conn: Some(conn), handlers }) = self.place(bits) else { return };
        let Some(stack) = self.shared.stack.get() else { return };
        // SAFETY: as in `on_incoming`. The reference ends with the expression, before the program
        // is called.
        let unread = || unsafe { stack.as_ref() }.unread(conn);
        // SAFETY: as above.
        let has_end = unsafe { stack.as_ref() }.peer_closed(conn);
        let mut left = unread();
        if left == 0 && has_end {
            return self.call(handlers.readable, bits, handlers.ctx);
        }
        // Nothing else would call a program that reads a part and waits for the next call.
        while left > 0 {
            self.call(handlers.readable, bits, handlers.ctx);
            let now = if self.place(bits).is_some_and(|place| place.conn == Some(conn)) {
                unread()
            } else {
                0
            };
            if now >= left {
                return;
            }
            left = now;
        }
    }

    fn on_conn(
        &mut self,
        stack: NonNull<Stack<Stores>>,
        conn: ConnId,
        bits: u64,
        what: ConnEvents,
    ) {
        let is_this = |place: Place| place.conn == Some(conn);
        if !self.place(bits).is_some_and(is_this) {
            return;
        }
        // Whatever the functions do, the next one is called only while the connection is still
        // there.
        if what.has(ConnEvents::CONNECTED) {
            let handlers = self.place(bits).map(|place| place.handlers);
            handlers.inspect(|h| self.call(h.connected, bits, h.ctx));
        }
        if what.has(ConnEvents::READABLE) || what.has(ConnEvents::PEER_CLOSED) {
            self.on_readable(bits);
        }
        if what.has(ConnEvents::WRITABLE) {
            let handlers = self.place(bits).map(|place| place.handlers);
            handlers.inspect(|h| self.call(h.writable, bits, h.ctx));
        }
        let over = what.has(ConnEvents::FAILED) || what.has(ConnEvents::CLOSED);
        let Some(place) = self.place(bits).filter(|place| over && is_this(*place)) else { return };
        // SAFETY: as in `on_incoming`.
        let (why, unread) = unsafe { (stack.as_ref().failure(conn), stack.as_ref().unread(conn)) };
        // The peer believes that they were taken. A program that is never told of bytes reads them
        // in `closed`, or not at all.
        if why.is_none() && unread > 0 && place.handlers.readable.is_some() {
            self.ending.push(bits);
            return;
        }
        self.over(stack, conn, bits, why.map_or(clw_status::CLW_OK, clw_status::from));
    }

    fn over(&self, stack: NonNull<Stack<Stores>>, conn: ConnId, bits: u64, why: clw_status) {
        self.closed(bits, why);
        if self.shared.forget(bits).is_some() {
            // SAFETY: as in `on_incoming`.
            unsafe { &mut *stack.as_ptr() }.close(conn);
        }
    }

    /// Connections that waited for the program to read their last bytes, which it may have done
    /// between two rounds.
    fn end_those_read(&mut self, stack: NonNull<Stack<Stores>>) {
        for bits in std::mem::take(&mut self.ending) {
            // The program may have closed it.
            let Some(Place { conn: Some(conn), .. }) = self.place(bits) else { continue };
            // SAFETY: as in `on_incoming`.
            match unsafe { stack.as_ref() }.unread(conn) {
                0 => self.over(stack, conn, bits, clw_status::CLW_OK),
                _ => self.ending.push(bits),
            }
        }
    }

    fn on_udp(&self, token: u64, what: UdpEvents) {
        let post = || {
            Handle::from_bits(token)
                .and_then(|handle| self.shared.sockets.borrow().get(handle).copied())
        };
        if what.has(UdpEvents::READABLE) || what.has(UdpEvents::ERROR) {
            post().inspect(|post| self.call(post.handlers.readable, token, post.handlers.ctx));
        }
        if what.has(UdpEvents::WRITABLE) {
            post().inspect(|post| self.call(post.handlers.writable, token, post.handlers.ctx));
        }
    }
}

impl App<Stores> for Calls {
    type Report = ();

    fn start(&mut self, time: Time, _stack: &mut Stack<Stores>) -> Result<(), String> {
        self.shared.now.set(time.now);
        Ok(())
    }

    fn on_events(&mut self, time: Time, stack: &mut Stack<Stores>) {
        self.shared.now.set(time.now);
        let stack = NonNull::from(stack);
        self.shared.stack.set(Some(stack));
        // SAFETY: the engine lends the stack to this call. From here on it is used through this
        // pointer only, by one call at a time.
        while let Some(event) = unsafe { &mut *stack.as_ptr() }.next_event() {
            match event {
                Event::Incoming { token, .. } => self.on_incoming(stack, token),
                Event::Conn { conn, token, what } => self.on_conn(stack, conn, token, what),
                Event::Udp { token, what, .. } => self.on_udp(token, what),
            }
        }
        self.end_those_read(stack);
        self.shared.stack.set(None);
    }

    fn next_deadline(&self) -> Instant {
        self.shared.wake_at.get()
    }

    fn stop(&mut self, time: Time, stack: &mut Stack<Stores>) {
        self.shared.now.set(time.now);
        let stack = NonNull::from(stack);
        self.shared.stack.set(Some(stack));
        let open: Vec<_> =
            self.shared.conns.borrow().iter().map(|(handle, _)| handle.to_bits()).collect();
        for bits in open {
            self.closed(bits, clw_status::CLW_STOPPED);
            if let Some(Place { conn: Some(conn), .. }) = self.shared.forget(bits) {
                // SAFETY: as in `on_events`.
                unsafe { &mut *stack.as_ptr() }.close(conn);
            }
        }
        self.shared.stack.set(None);
    }

    fn report(&self) {}
}
