//! Connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clearway_base::Handle;
use clearway_engine::Time;
use clearway_probes as probes;
use clearway_proto::{BindSpec, ConnEvents, ConnId, ConnectSpec, Failure, FastOpenConnect};
use clearway_shm::attach_socket::{self, FifoPlace, Kind, SessionId, SocketOptions};
use clearway_shm::layout::{event, flags, state};
use clearway_wire::Endpoint;
use nix::errno::Errno;

use super::hold::When;
use super::session_options::{bound_queues, conn_options};
use super::state::{Session, Sessions, What, gone};
use crate::env::HostStack;
use crate::errno::{Refusal, of_failure, refuse};
use crate::program::Program;
use crate::store::FifoBlocks;
use crate::traffic::Known;

/// Streams that are opened ahead have their FIFOs at once while the program has used less than one
/// in so many bytes that it may.
const PLENTY: u64 = 2;

impl Session {
    /// The sizes of its buffers are those that the namespace gives.
    fn has_default_buffers(&self) -> bool {
        (self.options.receive_buffer, self.options.send_buffer) == (0, 0)
    }

    /// The FIFOs of a connection that is about to be made: those that it has ahead, or others.
    fn fifos(&mut self) -> Result<(FifoBlocks, FifoBlocks), Refusal> {
        let ahead = self.fifos_ahead.take();
        if let Some(ahead) = ahead.filter(|_| self.has_default_buffers()) {
            return Ok(*ahead);
        }
        let no_memory =
            || refuse(Errno::ENOBUFS, "the program has all memory that it may (limits.memory)");
        let Program { memory, .. } = &*self.program;
        let rx = FifoBlocks::take(memory, self.program.rx_len(self.options.receive_buffer));
        let tx = FifoBlocks::take(memory, self.program.tx_len(self.options.send_buffer));
        Ok((rx.ok_or_else(no_memory)?, tx.ok_or_else(no_memory)?))
    }

    /// An attempt to connect that failed is forgotten, and with it the port that only it had.
    fn forget_conn(&mut self, stack: &mut HostStack, conn: ConnId) {
        stack.close(conn);
        self.clear_state(state::CONNECTED | state::FAILED | state::CLOSED | state::PEER_CLOSED);
        self.what = What::Fresh;
        self.known = Known::default();
        let bound = self.bind.and_then(|bind| stack.bound_local(bind));
        self.local = bound.map(|local| self.shown(local));
        self.remote = None;
    }

    /// The process was told that its attempt to connect has failed: it binds, or listens, as with a
    /// socket that never tried.
    pub(super) fn forget_attempt(&mut self, stack: &mut HostStack) {
        let What::Conn(conn) = self.what else { return };
        let is_told = self.head.flags.load(Ordering::Acquire) & flags::DISCONNECTED != 0;
        if is_told && self.head.state.load(Ordering::Relaxed) & state::FAILED != 0 {
            self.forget_conn(stack, conn);
        }
    }

    /// Describes it in its words, with FIFOs that lie there.
    fn describe_stream(&self, places: Option<(FifoPlace, FifoPlace)>) {
        self.head.describe(&attach_socket::Session {
            id: self.id,
            kind: self.kind,
            v6: self.v6,
            head: self.head_block.place(),
            rx: places.map(|places| places.0),
            tx: places.map(|places| places.1),
            local: self.local,
            remote: self.remote,
            options: self.options,
        });
    }
}

impl Sessions {
    /// Reserves the address and port.
    pub(super) fn bind_stream(
        &mut self,
        stack: &mut HostStack,
        handle: Handle<Session>,
        local: Endpoint,
    ) -> Result<Endpoint, Refusal> {
        let session = self.table.get_mut(handle).ok_or_else(gone)?;
        let spec = BindSpec {
            table: session.table,
            local,
            v6_only: session.options.v6_only,
            reuse_address: session.options.reuse_address,
            reuse_port: session.options.reuse_port,
            owner: session.program.owner,
        };
        let bind = stack.bind(spec)?;
        (session.bind, session.bound_address) = (Some(bind), None);
        Ok(stack.bound_local(bind).unwrap_or(local))
    }

    pub(super) fn connect_stream(
        &mut self,
        time: Time,
        stack: &mut HostStack,
        handle: Handle<Session>,
        remote: SocketAddr,
    ) -> Result<(), Refusal> {
        let session = self.table.get_mut(handle).ok_or_else(gone)?;
        let address = session.bound_address;
        let bound = session.bind.and_then(|bind| stack.bound_local(bind));
        let local = bound.or(address.map(|address| Endpoint::new(address, 0)));
        let peer = session.peer(remote, local)?;
        match &session.what {
            What::Listener(_) => return Err(refuse(Errno::EISCONN, "the socket listens")),
            What::Conn(conn) => {
                let now = session.head.state.load(Ordering::Relaxed);
                if now & state::CONNECTING != 0 {
                    return Err(refuse(Errno::EALREADY, "a connection is being made"));
                }
                if now & (state::CONNECTED | state::FAILED) == state::CONNECTED {
                    return Err(refuse(Errno::EISCONN, "the socket is connected"));
                }
                // An attempt that failed: Linux lets a socket try again.
                session.forget_conn(stack, *conn);
            }
            // One that could not be made by a message may be made yet.
            What::Fresh | What::Datagrams(_) => session.clear_state(state::FAILED),
        }
        if peer.port == 0 {
            // Linux asks there, and is told so by whoever is asked.
            return Err(refuse(Errno::ECONNREFUSED, "nobody listens at port 0"));
        }
        let (rx, tx) = session.fifos()?;
        let places = (rx.place, tx.place);
        let token = Session::token(handle);
        self.fifo_plan.prepare(token, rx, tx);
        let spec = ConnectSpec {
            table: session.table,
            // The namespace's own addresses come first.
            local: address
                .filter(|address| !address.is_unspecified())
                .or_else(|| session.interface.and_then(|iface| stack.source_of(iface, peer.addr)))
                .map(|addr| Endpoint::new(addr, 0)),
            remote: peer,
            token,
            options: conn_options(&session.options, stack.defaults()),
        };
        let begun = match session.bind {
            Some(bind) => stack.connect_bound(time.now, bind, spec),
            None => stack.connect(time.now, spec),
        };
        self.fifo_plan.forget(token);
        let conn = begun?;
        // As on Linux the program goes on as if it were connected when the SYN waits for its first
        // bytes.
        let how = FastOpenConnect {
            waits_for_data: true,
            without_cookie: session.options.fast_open_no_cookie,
        };
        let waits = session.options.fast_open_connect && stack.begin_fast_open(time.now, conn, how);
        if !session.options.quick_ack {
            stack.set_quick_ack(conn, false);
        }
        bound_queues(stack, conn, &session.options);
        session.what = What::Conn(conn);
        session.local = stack.local(conn).map(|local| session.shown(local));
        session.remote = Some(remote);
        session.describe_stream(Some(places));
        session.set_state(state::BOUND | if waits { state::CONNECTED } else { state::CONNECTING });
        probes::connect(|| session.traced());
        self.heed_stamping(stack, handle);
        Ok(())
    }

    /// Makes a stream that a process will connect later. It has its FIFOs already where memory is
    /// plenty, and can be connected by a message then.
    pub fn open_ahead(
        &mut self,
        stack: &mut HostStack,
        program: &Arc<Program>,
        process: u32,
        v6: bool,
    ) -> Result<attach_socket::Session, Refusal> {
        let birth = (Kind::Stream, v6, SocketOptions::default());
        let opened = self.open(stack, program, process, birth)?;
        let session = self.find(program, opened.id).and_then(|handle| self.table.get_mut(handle));
        if let Some(session) = session {
            if program.memory.used() < program.memory.limit() / PLENTY {
                session.fifos_ahead = session.fifos().ok().map(Box::new);
            }
            let places = session.fifos_ahead.as_ref().map(|fifos| (fifos.0.place, fifos.1.place));
            session.describe_stream(places);
        }
        Ok(opened)
    }

    /// A process connects a stream that was opened ahead. An address that was given up before it
    /// said so is free, and a listener that was closed refuses: so the end of their session fds is
    /// heard first.
    pub(super) fn on_connect(
        &mut self,
        time: Time,
        stack: &mut HostStack,
        handle: Handle<Session>,
    ) {
        let Some(session) = self.table.get_mut(handle) else { return };
        let behind_hangups = !self.answers && self.context.has_hung_up();
        if behind_hangups || !self.answers && (self.is_asked)() {
            session.connects_later = true;
            let named = (Arc::clone(&session.program), session.id);
            return self.context.connect_later(self.index, behind_hangups, named);
        }
        self.connect_ahead(time, stack, handle);
    }

    /// The same where other things came first, unless it was done because of a question.
    pub fn connect_asked(
        &mut self,
        time: Time,
        stack: &mut HostStack,
        program: &Arc<Program>,
        id: SessionId,
    ) {
        let Some(handle) = self.find(program, id) else { return };
        let Some(session) = self.table.get_mut(handle) else { return };
        if !std::mem::take(&mut session.connects_later) {
            return;
        }
        self.connect_ahead(time, stack, handle);
        // What was said meanwhile was said of no connection.
        let shuts =
            |session: &Session| session.head.flags.load(Ordering::Acquire) & flags::SHUT_WRITE != 0;
        if self.table.get(handle).is_some_and(shuts) {
            self.shut_write(time, stack, handle);
            self.reads_no_more(stack, handle);
        }
    }

    fn connect_ahead(&mut self, time: Time, stack: &mut HostStack, handle: Handle<Session>) {
        let Some(session) = self.table.get(handle) else { return };
        // Whoever set sizes of buffers since has to ask where the FIFOs are.
        if !matches!(session.what, What::Fresh)
            || session.fifos_ahead.is_none()
            || !session.has_default_buffers()
        {
            self.report.stray_messages += 1;
            return;
        }
        let begun = match session.head.destination() {
            Some(remote) => self.connect_stream(time, stack, handle, remote),
            None => Err(refuse(Errno::EINVAL, "no address stands in the session's words")),
        };
        let Err(refusal) = begun else { return };
        if let Some(session) = self.table.get_mut(handle) {
            session.fail(refusal.errno);
        }
        self.tell(handle, event::READABLE | event::WRITABLE | event::STATE);
    }

    /// The last of the next `ahead` bytes that the process writes is urgent.
    pub fn mark_urgent(
        &mut self,
        stack: &mut HostStack,
        program: &Arc<Program>,
        id: SessionId,
        ahead: u32,
    ) -> Result<(), Refusal> {
        let handle = self.session(program, id)?;
        // The mark may end up in another program's memory, and positions there are only so far
        // apart.
        if self.tx_limit(stack, handle).is_some_and(|limit| ahead > limit) {
            return Err(refuse(
                Errno::EINVAL,
                "urgent data lies behind more bytes than the transmit FIFO holds",
            ));
        }
        if self.passes_urgent(stack, handle, ahead) {
            return Ok(());
        }
        match self.table.get(handle).map(|s| &s.what) {
            // A connection that failed or was shut down sends no more; the process sees that in the
            // session's state.
            Some(What::Conn(conn)) => stack.mark_urgent(*conn, ahead).or(Ok(())),
            _ => Err(refuse(Errno::EPIPE, "only a connection has urgent data")),
        }
    }

    fn tx_limit(&self, stack: &HostStack, handle: Handle<Session>) -> Option<u32> {
        match self.table.get(handle)?.what {
            What::Conn(conn) => stack.queues(conn).map(|(_, tx)| tx.place().limit),
            _ => None,
        }
    }

    /// Events of the stack for a connection.
    pub(super) fn on_conn(
        &mut self,
        stack: &mut HostStack,
        token: u64,
        conn: ConnId,
        what: ConnEvents,
    ) {
        let Some(handle) = Handle::<Session>::from_bits(token) else { return };
        let Some(session) = self.table.get_mut(handle) else { return };
        let mut events = 0;
        if what.has(ConnEvents::CONNECTED) {
            // In this order: who sees that the handshake is over sees how it ended.
            session.set_state(state::CONNECTED);
            session.clear_state(state::CONNECTING);
            events |= event::STATE | event::WRITABLE;
            self.offer(stack, handle);
        }
        let arrived =
            if what.has(ConnEvents::READABLE) { self.arrived(stack, handle, conn) } else { None };
        let Some(session) = self.table.get_mut(handle) else { return };
        if arrived.is_some() {
            events |= event::READABLE;
        }
        if what.has(ConnEvents::URGENT) {
            // The mark is in the FIFO already.
            events |= event::STATE;
        }
        if what.has(ConnEvents::PEER_CLOSED) {
            session.set_state(state::PEER_CLOSED);
            events |= event::READABLE | event::STATE;
        }
        if what.has(ConnEvents::FAILED) {
            let failure = stack.failure(conn);
            let has_ended = session.head.state.load(Ordering::Relaxed) & state::PEER_CLOSED != 0;
            let writes = session.head.flags.load(Ordering::Relaxed) & flags::SHUT_WRITE == 0;
            let errno = match failure {
                // As in Linux: to who still writes a peer that has ended is one who reads no more.
                Some(Failure::Reset) if has_ended && writes => Errno::EPIPE,
                failure => failure.map_or(Errno::ECONNABORTED, of_failure),
            };
            session.fail(errno);
            events |= event::READABLE | event::WRITABLE | event::STATE;
        }
        if what.has(ConnEvents::CLOSED) {
            session.set_state(state::CLOSED);
            events |= event::STATE;
        }
        match events {
            0 => {}
            event::READABLE => self.tell_when(handle, events, arrived.unwrap_or(When::Now)),
            _ => self.tell(handle, events),
        }
        if what.has(ConnEvents::FAILED) || what.has(ConnEvents::CLOSED) {
            self.unjoin(stack, handle);
        }
    }

    /// More bytes are there. Some: the process must be told, and how soon. One that was told
    /// already is woken when its FIFO is half full.
    fn arrived(
        &mut self,
        stack: &mut HostStack,
        handle: Handle<Session>,
        conn: ConnId,
    ) -> Option<When> {
        let (rx, _) = stack.queues(conn)?;
        if rx.refuses() {
            stack.reset_unread(conn);
            return None;
        }
        let when = || When::for_bytes(rx.fill(), rx.granted());
        if rx.kick() {
            return Some(when());
        }
        if self.holds_notifiers && when() == When::Now {
            self.flush(handle);
        }
        None
    }

    /// Our side ends behind what the process has written.
    pub(super) fn shut_write(
        &mut self,
        _time: Time,
        stack: &mut HostStack,
        handle: Handle<Session>,
    ) {
        let Some(What::Conn(conn)) = self.table.get(handle).map(|s| &s.what) else { return };
        let conn = *conn;
        if self.shuts_later(stack, handle) {
            return;
        }
        if let Some((_, tx)) = stack.queues(conn) {
            tx.freeze();
        }
        // A connection that failed has nothing left to end.
        let _ = stack.shutdown(conn);
    }

    /// As on Linux, the stream is told of an end of reading only when writing ends as well: what
    /// comes from then on is answered with a reset, so that the peer does not send for ever.
    pub(super) fn reads_no_more(&mut self, stack: &mut HostStack, handle: Handle<Session>) {
        const BOTH: u32 = flags::SHUT_READ | flags::SHUT_WRITE;
        let Some(session) = self.table.get(handle) else { return };
        let What::Conn(conn) = session.what else { return };
        if session.head.flags.load(Ordering::Acquire) & BOTH != BOTH {
            return;
        }
        self.part_both(stack, handle);
        if let Some((rx, _)) = stack.queues(conn) {
            rx.refuse();
        }
    }
}
