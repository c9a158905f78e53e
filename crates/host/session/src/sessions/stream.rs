//! Connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clearway_base::Handle;
use clearway_engine::Time;
use clearway_probes as probes;
use clearway_proto::{BindSpec, ConnEvents, ConnId, ConnectSpec, FastOpenConnect};
use clearway_shm::attach_socket::SessionId;
use clearway_shm::layout::{event, state};
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
        session.bind = Some(bind);
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
        let peer = session.endpoint(remote)?;
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
                stack.close(*conn);
                session.clear_state(
                    state::CONNECTED | state::FAILED | state::CLOSED | state::PEER_CLOSED,
                );
                session.what = What::Fresh;
                session.known = Known::default();
            }
            What::Fresh | What::Datagrams(_) => {}
        }
        let no_memory =
            || refuse(Errno::ENOBUFS, "the program has all memory that it may (limits.memory)");
        let program = &session.program;
        let rx = FifoBlocks::take(&program.memory, program.rx_len(session.options.receive_buffer));
        let tx = FifoBlocks::take(&program.memory, program.tx_len(session.options.send_buffer));
        let token = Session::token(handle);
        self.fifo_plan.prepare(token, rx.ok_or_else(no_memory)?, tx.ok_or_else(no_memory)?);
        let spec = ConnectSpec {
            table: session.table,
            // The namespace's own addresses come first.
            local: session
                .interface
                .and_then(|iface| stack.source_of(iface, peer.addr))
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
        session.set_state(state::BOUND | if waits { state::CONNECTED } else { state::CONNECTING });
        probes::connect(|| session.traced());
        self.heed_stamping(stack, handle);
        Ok(())
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
            let errno = stack.failure(conn).map_or(Errno::ECONNABORTED, of_failure);
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
}
