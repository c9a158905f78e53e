//! What processes ask over their sockets, done on the session's worker.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clearway_base::Handle;
use clearway_engine::Time;
use clearway_probes::{self as probes, Text};
use clearway_proto::ConnOptions;
use clearway_shm::attach_socket::{self, Kind, SessionId, SocketOptions};
use clearway_shm::layout::{Message, SessionHead, event, state};
use nix::errno::Errno;

use super::place;
use super::queue_pair::QueuePair;
use super::session_options::{about_errors, bound_queues, conn_options, multicast_options};
use super::state::{Session, Sessions, What, gone};
use crate::env::HostStack;
use crate::errno::{Refusal, refuse};
use crate::memory::Block;
use crate::program::Program;
use crate::quota::{Permit, Thing};
use crate::traffic::Known;

const HEAD_LEN: u32 = size_of::<SessionHead>() as u32;

/// What a session is made of.
pub(super) struct Birth {
    pub(super) kind: Kind,
    pub(super) v6: bool,
    pub(super) options: SocketOptions,
}

impl Sessions {
    /// A process is there.
    pub fn add_queue_pair(&mut self, queue_pair: QueuePair) {
        if self.notifier_set.add(&queue_pair.our_notifier).is_err() {
            // A process that cannot wake us is better off without us.
            let program = Arc::clone(&queue_pair.program);
            self.cut_off(&program, "its notifier cannot be watched");
        }
        debug_assert!(
            self.queue_pairs.last().is_none_or(|last| last.process < queue_pair.process),
            "queue pairs come in order"
        );
        self.queue_pairs.push(queue_pair);
    }

    /// The process is gone: nobody tells it anything any more. Its sessions live on while another
    /// process holds them.
    pub fn remove_queue_pair(&mut self, time: Time, stack: &mut HostStack, process: u32) {
        self.take_last(time, stack, process);
        if let Some(queue_pair) = self.queue_pair(process) {
            let notifier = queue_pair.our_notifier.clone();
            // The process may hold it still; a notifier that was never added needs no removing.
            let _ = self.notifier_set.remove(&notifier);
        }
        let program = self.queue_pair(process).map(|queue_pair| Arc::clone(&queue_pair.program));
        self.queue_pairs.retain(|queue_pair| queue_pair.process != process);
        let mut listeners = Vec::new();
        for (handle, session) in self.table.iter_mut() {
            if matches!(session.what, What::Listener(_)) && session.subscribers.contains(&process) {
                listeners.push(handle);
            }
            session.subscribers.retain(|p| *p != process);
        }
        for listener in listeners {
            self.recover_waiting(listener);
        }
        if let Some(program) = program {
            self.recover_taken(stack, &program);
        }
        self.notify_all();
    }

    /// Makes a session; datagram sessions have their FIFOs at once.
    pub fn open(
        &mut self,
        stack: &mut HostStack,
        program: &Arc<Program>,
        process: u32,
        (kind, v6, options): (Kind, bool, SocketOptions),
    ) -> Result<attach_socket::Session, Refusal> {
        let permit = Permit::take(&program.quota, Thing::Session);
        let permit = permit.map_err(|scarce| refuse(Errno::ENFILE, scarce.to_string()))?;
        let handle = self.make(stack, program, permit, Birth { kind, v6, options })?;
        if kind == Kind::Datagram {
            if let Err(refusal) = self.make_datagrams(handle) {
                self.end(stack, handle, false);
                return Err(refusal);
            }
        }
        self.heed_stamping(stack, handle);
        self.subscribe_to(handle, process);
        self.describe(stack, handle)
    }

    pub(super) fn make(
        &mut self,
        stack: &HostStack,
        program: &Arc<Program>,
        permit: Permit,
        birth: Birth,
    ) -> Result<Handle<Session>, Refusal> {
        let no_memory =
            || refuse(Errno::ENOBUFS, "the program has all memory that it may (limits.memory)");
        let head_block = program.memory.take(HEAD_LEN).ok_or_else(no_memory)?;
        let head = fresh_head(&head_block).ok_or_else(no_memory)?;
        let ground = place::ground(&*self.context, stack, program);
        let index = self.index;
        let made = self.table.insert_with(|handle| Session {
            id: super::state::id_of(index, handle),
            program: Arc::clone(program),
            permit,
            head,
            head_block,
            kind: birth.kind,
            v6: birth.v6,
            table: ground.table,
            interface: ground.interface,
            options: birth.options,
            what: What::Fresh,
            fifos_ahead: None,
            connects_later: false,
            bind: None,
            bound_address: None,
            local: None,
            remote: None,
            subscribers: Vec::new(),
            errors: 0,
            is_incoming: false,
            parent: None,
            cut_through: None,
            offered: None,
            leaves_at: None,
            stuck: 0,
            untold: 0,
            passed: (0, 0),
            known: Known::default(),
            asks_stamps: false,
            asks_everywhere: false,
        });
        let handle = made.ok_or_else(|| {
            refuse(Errno::ENFILE, "the host has all sessions that it may (limits.sessions)")
        })?;
        if let Some(session) = self.table.get(handle) {
            session.head.stamping.store(session.options.timestamping, Ordering::Release);
        }
        probes::session_open(|| {
            let kind = if birth.kind == Kind::Datagram { "datagram" } else { "stream" };
            let id = super::state::id_of(index, handle);
            (id, Text::of(kind), Text::of(&program.name), Text::of(&program.namespace))
        });
        Ok(handle)
    }

    pub(super) fn subscribe_to(&mut self, handle: Handle<Session>, process: u32) {
        if self.queue_pair(process).is_none() {
            return;
        }
        if let Some(session) = self.table.get_mut(handle) {
            if !session.subscribers.contains(&process) {
                session.subscribers.push(process);
            }
        }
    }

    /// A process holds a connection no more: it need not wake for what another one reads. The
    /// connection may be over already, when nobody held it besides.
    pub(super) fn on_leave(&mut self, at: usize, message: Message) {
        let queue_pair = &self.queue_pairs[at];
        let process = queue_pair.process;
        let Some(handle) = self.find_for(at, message.session) else { return };
        if let Some(session) = self.table.get_mut(handle) {
            // A listener may have woken this process for a connection that it does not take; that
            // is seen to when the process is gone.
            if matches!(session.what, What::Conn(_)) {
                session.subscribers.retain(|subscriber| *subscriber != process);
            }
        }
    }

    pub(super) fn session(
        &self,
        program: &Arc<Program>,
        id: SessionId,
    ) -> Result<Handle<Session>, Refusal> {
        self.find(program, id).ok_or_else(gone)
    }

    /// The session as its processes need to know it.
    pub(super) fn describe(
        &self,
        stack: &HostStack,
        handle: Handle<Session>,
    ) -> Result<attach_socket::Session, Refusal> {
        let session = self.table.get(handle).ok_or_else(gone)?;
        let (rx, tx) = match &session.what {
            What::Fresh => (None, None),
            What::Listener(listening) => (Some(listening.place()), None),
            What::Conn(conn) => {
                let queues = stack.queues(*conn);
                (queues.map(|q| q.0.place()), queues.map(|q| q.1.place()))
            }
            What::Datagrams(datagrams) => {
                let (rx, tx) = datagrams.places();
                (Some(rx), Some(tx))
            }
        };
        Ok(attach_socket::Session {
            id: session.id,
            kind: session.kind,
            v6: session.v6,
            head: session.head_block.place(),
            rx,
            tx,
            local: session.local,
            remote: session.remote,
            options: session.options,
        })
    }

    /// Gives a session its own address.
    pub fn bind(
        &mut self,
        stack: &mut HostStack,
        program: &Arc<Program>,
        id: SessionId,
        local: SocketAddr,
    ) -> Result<SocketAddr, Refusal> {
        let handle = self.session(program, id)?;
        let session = self.table.get_mut(handle).ok_or_else(gone)?;
        session.forget_attempt(stack);
        let endpoint = session.endpoint(local)?;
        // As on Linux, who has an address without a port may have another.
        let has_port = session.local.is_some_and(|local| local.port() != 0);
        if has_port || !matches!(session.what, What::Fresh | What::Datagrams(_)) {
            return Err(refuse(Errno::EINVAL, "the socket is bound already"));
        }
        // Who binds to a group takes what is sent to it.
        let is_group = session.kind == Kind::Datagram && endpoint.addr.is_multicast();
        let is_any = is_group || endpoint.addr.is_unspecified();
        if !is_any && !stack.is_ours(session.table, &endpoint.addr) {
            return Err(refuse(
                Errno::EADDRNOTAVAIL,
                format!("{} is not an address of the namespace", endpoint.addr),
            ));
        }
        let is_without_port = session.options.bind_address_no_port && endpoint.port == 0;
        let bound = match session.kind {
            Kind::Stream if is_without_port => {
                let session = self.table.get_mut(handle).ok_or_else(gone)?;
                session.bound_address = Some(endpoint.addr);
                endpoint
            }
            Kind::Stream => self.bind_stream(stack, handle, endpoint)?,
            Kind::Datagram => self.bind_datagrams(stack, handle, endpoint)?,
        };
        let session = self.table.get_mut(handle).ok_or_else(gone)?;
        let shown = session.shown(bound);
        session.local = Some(shown);
        session.set_state(state::BOUND);
        Ok(shown)
    }

    /// Begins a connection, or sets a datagram session's peer.
    pub fn connect(
        &mut self,
        time: Time,
        stack: &mut HostStack,
        program: &Arc<Program>,
        id: SessionId,
        remote: Option<SocketAddr>,
    ) -> Result<attach_socket::Session, Refusal> {
        let handle = self.session(program, id)?;
        let session = self.table.get(handle).ok_or_else(gone)?;
        match (session.kind, remote) {
            (Kind::Stream, Some(remote)) => self.connect_stream(time, stack, handle, remote)?,
            (Kind::Stream, None) => {
                return Err(refuse(Errno::EAFNOSUPPORT, "a stream cannot lose its peer"));
            }
            (Kind::Datagram, remote) => self.connect_datagrams(stack, handle, remote)?,
        }
        self.describe(stack, handle)
    }

    /// Another process of the program holds the session too.
    pub fn subscribe(
        &mut self,
        stack: &mut HostStack,
        program: &Arc<Program>,
        process: u32,
        id: SessionId,
    ) -> Result<attach_socket::Session, Refusal> {
        let handle = self.session(program, id)?;
        self.subscribe_to(handle, process);
        self.describe(stack, handle)
    }

    /// From now on these options hold.
    pub fn set_options(
        &mut self,
        stack: &mut HostStack,
        program: &Arc<Program>,
        id: SessionId,
        options: SocketOptions,
    ) -> Result<(), Refusal> {
        let handle = self.session(program, id)?;
        let session = self.table.get_mut(handle).ok_or_else(gone)?;
        let quick_ack =
            (options.quick_ack != session.options.quick_ack).then_some(options.quick_ack);
        session.options = options;
        if let Some(bind) = session.bind {
            stack.set_bind_sharing(bind, session.sharing());
        }
        match &session.what {
            What::Conn(conn) => {
                let conn = *conn;
                // Who names no congestion control goes on with the one that there is.
                let congestion =
                    stack.options(conn).map_or(stack.defaults().congestion, |now| now.congestion);
                let default = ConnOptions { congestion, ..*stack.defaults() };
                stack.set_options(conn, conn_options(&options, &default));
                bound_queues(stack, conn, &options);
                if let Some(on) = quick_ack {
                    stack.set_quick_ack(conn, on);
                }
            }
            What::Datagrams(datagrams) => {
                if let Some(socket) = datagrams.socket {
                    stack.udp_set_hops(socket, options.tos, options.ttl)?;
                    stack.udp_set_mtu(socket, options.mtu)?;
                    about_errors(stack, socket, &options)?;
                    session.show_reports(stack, socket);
                    stack.udp_set_multicast(socket, multicast_options(&options))?;
                    let sharing = session.sharing();
                    stack.udp_set_sharing(socket, sharing)?;
                    self.at_forwarders(handle, move |stack, socket| {
                        let _ = stack.udp_set_sharing(socket, sharing);
                    });
                }
            }
            What::Listener(_) => self.tune(stack, handle, None),
            What::Fresh => {}
        }
        self.heed_stamping(stack, handle);
        Ok(())
    }

    /// An error that is found later than it was made.
    pub(super) fn error_later(&mut self, handle: Handle<Session>, errno: Errno) {
        if let Some(session) = self.table.get_mut(handle) {
            session.set_error(errno);
            self.tell(handle, event::STATE);
        }
    }
}

/// Words of a session that nobody has written.
fn fresh_head(block: &Block) -> Option<clearway_shm::SessionView> {
    use std::sync::atomic::Ordering::Release;
    let head = block.segment().session(block.place().offset).ok()?;
    for word in [&head.state, &head.error, &head.rx_drops, &head.unacked, &head.error_reports] {
        word.store(0, Release);
    }
    for word in [&head.error_seen, &head.flags, &head.rx_lock, &head.tx_lock] {
        word.store(0, Release);
    }
    for word in [&head.stamping, &head.stamp_key] {
        word.store(0, Release);
    }
    for word in [&head.receive_timeout, &head.send_timeout, &head.claim] {
        word.store(0, Release);
    }
    Some(head)
}
