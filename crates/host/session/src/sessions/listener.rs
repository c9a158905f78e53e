//! Listeners, and connections that wait to be accepted.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clearway_base::{Duration, Handle, Instant};
use clearway_options::stamping::notes_arrival;
use clearway_probes::{self as probes, Text};
use clearway_proto::{FastOpenListener, ListenSpec};
use clearway_shm::attach_socket::{self, Kind, SessionId, SocketOptions};
use clearway_shm::layout::{AcceptRecord, Message, event, flags, state};
use clearway_shm::{Hostile, Producer};
use clearway_wire::Endpoint;
use nix::errno::Errno;

use super::hold::When;
use super::listening::{Listening, RECORD, timeouts};
use super::queue_pair::QueuePair;
use super::session_options::{bound_queues, conn_options};
use super::state::{PartlyWoken, Session, Sessions, What, gone};
use super::verbs::Birth;
use crate::env::HostStack;
use crate::errno::{Refusal, refuse};
use crate::program::Program;
use crate::quota::{Permit, Thing};
use crate::store::{FifoBlocks, Sizes};

/// Connections that may wait at one listener at most, whatever the program asks
/// (net.core.somaxconn).
const MAX_BACKLOG: u32 = 4096;

/// How long a process that was woken for a connection has for taking it before the others are woken
/// too. Most take it in some microseconds; longer than a moment needs one that has no processor,
/// and then the others are no help, or one that is stopped or has become busy with something else.
const TAKEN_WITHIN: Duration = Duration::from_millis(5);

/// The queue pair of a process.
fn queue_pair_of(queue_pairs: &mut [QueuePair], process: u32) -> Option<&mut QueuePair> {
    // Queue pairs come in the order of their processes' numbers.
    let at = queue_pairs.binary_search_by_key(&process, |queue_pair| queue_pair.process).ok()?;
    queue_pairs.get_mut(at)
}

/// How large the FIFOs of a listener's connections are.
fn sizes_of(program: &Program, options: &SocketOptions) -> Sizes {
    Sizes {
        rx: program.rx_len(options.receive_buffer),
        tx: program.tx_len(options.send_buffer),
        notes_arrivals: notes_arrival(options.timestamping),
    }
}

impl Sessions {
    /// Listens.
    pub fn listen(
        &mut self,
        stack: &mut HostStack,
        program: &Arc<Program>,
        id: SessionId,
        backlog: u32,
    ) -> Result<attach_socket::Session, Refusal> {
        let handle = self.session(program, id)?;
        let session = self.table.get_mut(handle).ok_or_else(gone)?;
        session.forget_attempt(stack);
        match (&session.what, session.kind) {
            (_, Kind::Datagram) => {
                return Err(refuse(Errno::EOPNOTSUPP, "datagram sockets do not listen"));
            }
            // As on Linux, the backlog of a listener changes in place.
            (What::Listener(_), _) => {
                self.tune(stack, handle, Some(backlog.clamp(1, MAX_BACKLOG)));
                self.accept(stack, handle);
                return self.describe(stack, handle);
            }
            (What::Conn(_), _) => return Err(refuse(Errno::EINVAL, "the socket is connected")),
            _ => {}
        }
        let backlog = backlog.clamp(1, MAX_BACKLOG);
        let permit = Permit::take(&program.quota, Thing::Listener);
        let permit = permit.map_err(|scarce| refuse(Errno::ENOBUFS, scarce.to_string()))?;
        let no_memory =
            || refuse(Errno::ENOBUFS, "the program has all memory that it may (limits.memory)");
        let workers = self.context.workers() as u32;
        // Room for the longest backlog: it may become longer. What is not touched costs nothing.
        let blocks = FifoBlocks::take(&program.memory, MAX_BACKLOG * workers * RECORD)
            .ok_or_else(no_memory)?;
        // A socket that was never bound listens on any address and a free port, as on Linux.
        let address = session.bound_address.unwrap_or(session.any());
        let (bind, any) = (session.bind, Endpoint::new(address, 0));
        let bind = match bind {
            Some(bind) => bind,
            None => {
                self.bind_stream(stack, handle, any)?;
                self.table.get(handle).and_then(|s| s.bind).ok_or_else(gone)?
            }
        };
        let session = self.table.get_mut(handle).ok_or_else(gone)?;
        let token = Session::token(handle);
        let spec = ListenSpec {
            table: session.table,
            local: any,
            v6_only: session.options.v6_only,
            backlog,
            token,
            options: conn_options(&session.options, stack.defaults()),
        };
        let listener = stack.listen_bound(bind, spec)?;
        let sizes = sizes_of(program, &session.options);
        self.fifo_plan.listen(token, program.memory.clone(), sizes);
        let end = Producer::new(blocks.mem.clone());
        let mut listening = Listening {
            listener,
            end,
            blocks,
            _permit: permit,
            backlog,
            waiting: Vec::new(),
            left: VecDeque::new(),
            again: Vec::new(),
            is_partly_woken: false,
        };
        listening.limit_to(backlog * workers);
        session.fifos_ahead = None;
        session.what = What::Listener(Box::new(listening));
        session.local = stack.listener_local(listener).map(|local| session.shown(local));
        session.set_state(state::LISTENING | state::BOUND);
        probes::listen(|| {
            let (local, name) = (Text::of_any(session.local), Text::of(&program.name));
            (id, local, backlog.into(), name)
        });
        self.remote_listener_out(stack, handle, spec, sizes);
        self.tune(stack, handle, None);
        self.describe(stack, handle)
    }

    /// Tells the stack, and the other workers, of the backlog, of TCP_DEFER_ACCEPT, and of what the
    /// connections to come begin with.
    pub(super) fn tune(
        &mut self,
        stack: &mut HostStack,
        handle: Handle<Session>,
        backlog: Option<u32>,
    ) {
        let workers = self.context.workers() as u32;
        let Some(session) = self.table.get_mut(handle) else { return };
        let What::Listener(listening) = &mut session.what else { return };
        if let Some(backlog) = backlog {
            listening.backlog = backlog;
            listening.limit_to(backlog * workers);
        }
        let options = session.options;
        let defer = timeouts(options.defer_accept);
        stack.tune_listener(listening.listener, listening.backlog, defer);
        stack.set_listener_options(listening.listener, conn_options(&options, stack.defaults()));
        stack.set_fast_open(listening.listener, FastOpenListener::of_socket(&options));
        let (home, backlog) = (session.id, listening.backlog);
        let sizes = sizes_of(&session.program, &options);
        self.fifo_plan.listen(Session::token(handle), session.program.memory.clone(), sizes);
        self.tune_remote_listeners(home, backlog, options, sizes);
    }

    /// Takes connections from the stack as long as there is room for their records.
    pub(super) fn accept(&mut self, stack: &mut HostStack, handle: Handle<Session>) {
        self.leave_again(handle);
        let mut arrived = 0;
        loop {
            let Some(session) = self.table.get_mut(handle) else { return };
            let What::Listener(listening) = &mut session.what else { return };
            let listener = listening.listener;
            match listening.has_room() {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => {
                    let program = Arc::clone(&session.program);
                    self.cut_off(&program, "an impossible position in an accept FIFO");
                    return;
                }
            }
            let parent = session.id;
            let (program, v6, options) =
                (Arc::clone(&session.program), session.v6, session.options);
            let permit = Permit::take(&program.quota, Thing::Session).ok();
            let Some(permit) = permit.or_else(|| self.stall(handle, &program)) else { break };
            let Some(conn) = stack.accept(listener) else { break };
            let birth = Birth { kind: Kind::Stream, v6, options };
            match self.make(stack, &program, permit, birth) {
                Ok(child) => {
                    self.adopt(stack, parent, child, conn);
                    // There is room: it was looked at before, and only we fill it.
                    if self.record(stack, child).is_some_and(|record| self.admit(handle, record)) {
                        arrived += 1;
                    } else {
                        self.end(stack, child, true);
                    }
                }
                // No memory for a session: the peer learns that nobody takes it.
                Err(_) => stack.abort(conn),
            }
        }
        if arrived > 0 {
            self.tell_of_waiting(handle, arrived);
        }
    }

    /// A connection of the stack becomes the session `child`, which waits at its listener.
    pub(super) fn adopt(
        &mut self,
        stack: &mut HostStack,
        parent: SessionId,
        child: Handle<Session>,
        conn: clearway_proto::ConnId,
    ) {
        let token = Session::token(child);
        stack.set_token(conn, token);
        if let Some((rx, tx)) = stack.queues_mut(conn) {
            rx.set_token(token);
            tx.set_token(token);
        }
        let Some(session) = self.table.get_mut(child) else { return };
        session.what = What::Conn(conn);
        session.parent = Some(parent);
        session.is_incoming = true;
        session.local = stack.local(conn).map(|e| session.shown(e));
        session.remote = stack.remote(conn).map(|e| session.shown(e));
        session.set_state(state::CONNECTED | state::BOUND);
        probes::incoming(|| session.traced());
        if !session.options.quick_ack {
            stack.set_quick_ack(conn, false);
        }
        bound_queues(stack, conn, &session.options);
        self.heed_stamping(stack, child);
        self.settle_adopted(stack, child, conn);
        self.offer(stack, child);
    }

    /// Leaves the record of a connection that waits. False: there is no room for it.
    pub(super) fn admit(&mut self, listener: Handle<Session>, record: AcceptRecord) -> bool {
        let Some(What::Listener(listening)) = self.table.get_mut(listener).map(|s| &mut s.what)
        else {
            return false;
        };
        if !matches!(listening.has_room(), Ok(true)) {
            return false;
        }
        let is_there = matches!(listening.leave(record), Ok(true));
        if is_there {
            listening.waiting.push(record);
        }
        is_there
    }

    /// A process of the program died, perhaps with connections in its hands that it had not claimed
    /// yet.
    pub(super) fn recover_waiting(&mut self, listener: Handle<Session>) {
        if let Some(What::Listener(listening)) = self.table.get_mut(listener).map(|s| &mut s.what) {
            // A position that is impossible is found when records are left.
            let _ = listening.recover();
        }
        self.leave_again(listener);
    }

    /// A process that took this connection is gone, and had not claimed it.
    pub(super) fn offer_again(
        &mut self,
        stack: &mut HostStack,
        program: &Arc<Program>,
        listener: SessionId,
        child: SessionId,
    ) {
        let handle = self.find(program, listener);
        let listening = handle.and_then(|handle| match &mut self.table.get_mut(handle)?.what {
            What::Listener(listening) => Some(listening),
            _ => None,
        });
        let (Some(handle), Some(listening)) = (handle, listening) else {
            return self.end_child(stack, program, child);
        };
        if !listening.again.contains(&child) {
            listening.again.push(child);
        }
        self.leave_again(handle);
    }

    /// Leaves records of what was lost, when there is room.
    fn leave_again(&mut self, listener: Handle<Session>) {
        let Some(session) = self.table.get_mut(listener) else { return };
        let What::Listener(listening) = &mut session.what else { return };
        match listening.leave_again() {
            Ok(0) => {}
            Ok(left) => self.tell_of_waiting(listener, left),
            Err(Hostile) => {
                let program = Arc::clone(&session.program);
                self.cut_off(&program, "an impossible position in an accept FIFO");
            }
        }
    }

    /// So many connections more wait.
    pub(super) fn tell_of_waiting(&mut self, listener: Handle<Session>, arrived: u32) {
        let Some(session) = self.table.get(listener) else { return };
        let What::Listener(listening) = &session.what else { return };
        let is_first = listening.end.kick();
        if session.subscribers.len() > 1 {
            // Whoever was woken for the last one may not have looked yet, so another is woken for
            // this one although the listener was told of.
            self.wake_in_turn(listener, arrived);
        } else if is_first {
            self.tell(listener, event::READABLE);
        }
    }

    /// Of several processes that hold a listener one is woken for each connection, in turn, of
    /// those that wait for one, so that they share them as at the kernel. When all are woken the
    /// same one is first nearly always. Who does not sleep looks before it does.
    fn wake_in_turn(&mut self, listener: Handle<Session>, arrived: u32) {
        let Sessions { table, queue_pairs, report, .. } = self;
        let Some(session) = table.get_mut(listener) else { return };
        let message = Message { session: session.id, what: event::READABLE, aux: 0 };
        let mut woken = Vec::new();
        session.subscribers.retain(|process| {
            let Some(queue_pair) = queue_pair_of(queue_pairs, *process) else { return true };
            let (asleep, waits) = queue_pair.is_asleep(message.session);
            if waits && (woken.len() as u32) < arrived {
                queue_pair.leave(message, When::Now);
                report.events += 1;
                woken.push(*process);
                return false;
            }
            if !asleep {
                queue_pair.leave_quietly(message);
                report.events += 1;
            }
            true
        });
        if woken.is_empty() {
            // Who sleeps may have begun to wait for something else, and for this, since it lay
            // down.
            return self.tell(listener, event::READABLE);
        }
        session.subscribers.append(&mut woken);
        self.look_again(listener);
    }

    /// The listener is looked at again, when some of its processes and not all were woken.
    fn look_again(&mut self, handle: Handle<Session>) {
        let due = self.now + TAKEN_WITHIN;
        let Some(What::Listener(listening)) = self.table.get_mut(handle).map(|s| &mut s.what)
        else {
            return;
        };
        let Some(oldest) = listening.oldest().filter(|_| !listening.is_partly_woken) else {
            return;
        };
        listening.is_partly_woken = true;
        self.partly_woken.push_back(PartlyWoken { listener: handle, due, oldest });
    }

    /// When the next listener is looked at again.
    pub(super) fn wake_deadline(&self) -> Instant {
        self.partly_woken.front().map_or(Instant::NEVER, |next| next.due)
    }

    /// Where a connection waits still although a process was woken for it, all processes are woken.
    pub(super) fn wake_the_others(&mut self) {
        while self.wake_deadline() <= self.now {
            let Some(PartlyWoken { listener, oldest, .. }) = self.partly_woken.pop_front() else {
                return;
            };
            let Some(What::Listener(listening)) = self.table.get_mut(listener).map(|s| &mut s.what)
            else {
                continue;
            };
            listening.is_partly_woken = false;
            if listening.oldest() == Some(oldest) {
                self.tell(listener, event::READABLE);
            } else {
                self.look_again(listener);
            }
        }
    }

    /// What happened to the connection before it was a session: it may be readable, closed or
    /// failed already.
    fn settle_adopted(
        &mut self,
        stack: &mut HostStack,
        child: Handle<Session>,
        conn: clearway_proto::ConnId,
    ) {
        let Some(session) = self.table.get_mut(child) else { return };
        if stack.peer_closed(conn) {
            session.set_state(state::PEER_CLOSED);
        }
        if let Some(failure) = stack.failure(conn) {
            session.fail(crate::errno::of_failure(failure));
        }
    }

    /// Stops listening. Connections that nobody claimed are reset, as Linux does.
    pub(super) fn end_listening(
        &mut self,
        stack: &mut HostStack,
        (handle, id): (Handle<Session>, SessionId),
        program: &Arc<Program>,
        listening: Box<Listening>,
    ) {
        self.stalled.retain(|h| *h != handle);
        stack.unlisten(listening.listener);
        self.fifo_plan.forget(Session::token(handle));
        for child in listening.waiting {
            self.end_child(stack, program, child.session);
        }
        self.cut_remote_listeners(id);
    }

    /// `shutdown` of a listener: it keeps its address, and may listen again.
    pub(super) fn stop_listening(&mut self, stack: &mut HostStack, handle: Handle<Session>) {
        let Some(session) = self.table.get_mut(handle) else { return };
        session.clear_state(state::LISTENING);
        // As on Linux the socket is as it was before it listened.
        session.head.flags.fetch_and(!(flags::SHUT_READ | flags::SHUT_WRITE), Ordering::AcqRel);
        let (id, program) = (session.id, Arc::clone(&session.program));
        if let What::Listener(listening) = std::mem::replace(&mut session.what, What::Fresh) {
            self.end_listening(stack, (handle, id), &program, listening);
        }
        self.tell(handle, event::STATE);
    }

    /// The program has all sessions that it may: the listener is looked at again when one of them
    /// is gone, unless one is gone already.
    fn stall(&mut self, listener: Handle<Session>, program: &Arc<Program>) -> Option<Permit> {
        if !self.stalled.contains(&listener) {
            self.stalled.push(listener);
        }
        program.stall();
        Permit::take(&program.quota, Thing::Session).ok()
    }

    /// One of the program's sessions is gone. Its listeners may be on any worker.
    pub(super) fn unstall(&self, program: &Program) {
        if program.take_stalled() {
            for worker in 0..self.context.workers() {
                let retry = |sessions: &mut Sessions, stack: &mut HostStack| {
                    sessions.retry_stalled(stack);
                };
                self.to_worker(worker, Box::new(retry));
            }
        }
    }

    fn retry_stalled(&mut self, stack: &mut HostStack) {
        for handle in std::mem::take(&mut self.stalled) {
            self.accept(stack, handle);
        }
    }
}
