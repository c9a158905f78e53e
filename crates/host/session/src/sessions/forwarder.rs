//! Datagrams that come to another worker than the one that their session is on, its *home*. A port
//! with several queues brings a flow to whatever worker it likes: so the others hold each bound port
//! too (a *forwarder*), and send home what arrives there.
//!
//! Whether an address is free, one worker says for all: the one whose share of the ports it is of.
//! Sessions that are bound to a port live there, except those of a port that several share
//! (SO_REUSEPORT), which are spread; theirs is held there before they are told that they have it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clearway_base::Handle;
use clearway_proto::{Sharing, UdpId, UdpSpec};
use clearway_shm::attach_socket::{SessionId, worker_of};
use clearway_shm::layout::state;
use clearway_wire::Endpoint;

use super::datagram_fifos::head_of;
use super::remote::{Forwarded, Forwarder, MARK, Road};
use super::state::{Session, Sessions, What};
use crate::env::HostStack;
use crate::program::Program;

/// Payload of one forwarder on its way home, which it takes faster than it is taken there, at most.
const MAX_ON_THE_WAY: u32 = 1 << 20;

/// What a datagram costs on the way besides its payload.
const LETTER: u32 = 128;

impl Sessions {
    fn other_workers(&self) -> impl Iterator<Item = usize> + use<> {
        let me = self.index;
        (0..self.context.workers()).filter(move |worker| *worker != me)
    }

    /// All other workers hold the session's port too.
    pub(super) fn forwarder_out(&self, stack: &HostStack, handle: Handle<Session>) {
        let Some(session) = self.table.get(handle) else { return };
        let What::Datagrams(datagrams) = &session.what else { return };
        let Some(local) = datagrams.socket.and_then(|socket| stack.udp_local(socket)) else {
            return;
        };
        let spec =
            UdpSpec { table: session.table, local, token: 0, v6_only: session.options.v6_only };
        let sharing = session.sharing();
        for worker in self.other_workers() {
            let (home, program, road) =
                (session.id, Arc::clone(&session.program), Arc::clone(&datagrams.road));
            let add = move |sessions: &mut Sessions, stack: &mut HostStack| {
                sessions.add_forwarder(stack, (spec, sharing), home, program, road);
            };
            self.to_worker(worker, Box::new(add));
        }
    }

    fn add_forwarder(
        &mut self,
        stack: &mut HostStack,
        (spec, sharing): (UdpSpec, Sharing),
        home: SessionId,
        program: Arc<Program>,
        road: Arc<Road>,
    ) {
        let index = self.index;
        // The socket's word is the forwarder's handle, and the forwarder holds the socket: so the
        // place comes first.
        let made = self.forwarders.insert_with(|handle| {
            let socket = stack
                .udp_bind_shared(UdpSpec { token: handle.to_bits() | MARK, ..spec }, sharing)
                .ok();
            if let Some(socket) = socket {
                // It was just bound, so it is there.
                let _ = stack.udp_stand_in(socket);
            }
            Forwarder { home, program, socket, road }
        });
        if made
            .and_then(|handle| self.forwarders.get(handle))
            .is_none_or(|forwarder| forwarder.socket.is_none())
        {
            tracing::warn!(worker = index, local = %spec.local,
                "datagrams that come to this worker find nobody");
            if let Some(handle) = made {
                self.forwarders.remove(handle);
            }
        }
    }

    /// The worker that says for all whether the session's port was free; None: the session is no
    /// datagram session, has none, or there is no other worker.
    pub fn port_owner(&self, program: &Arc<Program>, id: SessionId) -> Option<usize> {
        let workers = self.context.workers();
        let session = self.table.get(self.find(program, id)?)?;
        let port = session.local.filter(|_| matches!(session.what, What::Datagrams(_)))?.port();
        (workers > 1).then(|| usize::from(port) % workers)
    }

    /// Whether this worker holds the port of another worker's session.
    pub fn stands_in_for(&self, id: SessionId) -> bool {
        self.forwarders.iter().any(|(_, f)| f.home == id && f.socket.is_some())
    }

    /// The session has no address after all: somebody else had it.
    pub fn unbind(&mut self, stack: &mut HostStack, program: &Arc<Program>, id: SessionId) {
        let Some(handle) = self.find(program, id) else { return };
        let Some(session) = self.table.get_mut(handle) else { return };
        let What::Datagrams(datagrams) = &mut session.what else { return };
        if let Some(socket) = datagrams.socket.take() {
            stack.udp_close(socket);
        }
        session.local = None;
        session.clear_state(state::BOUND);
        self.cut_forwarders(id);
    }

    /// Does the same to the sockets of all forwarders of a session.
    pub(super) fn at_forwarders(
        &self,
        handle: Handle<Session>,
        what: impl Fn(&mut HostStack, UdpId) + Clone + Send + 'static,
    ) {
        let Some(home) = self.table.get(handle).map(|session| session.id) else { return };
        for worker in self.other_workers() {
            let what = what.clone();
            let job = move |sessions: &mut Sessions, stack: &mut HostStack| {
                let mine = sessions.forwarders.iter().find(|(_, forwarder)| forwarder.home == home);
                if let Some(socket) = mine.and_then(|(_, forwarder)| forwarder.socket) {
                    what(stack, socket);
                }
            };
            self.to_worker(worker, Box::new(job));
        }
    }

    /// The session hears this peer only, or everybody again: so do the forwarders, or datagrams of
    /// others would come to them that are for sockets beside it.
    pub(super) fn forwarders_hear(&self, handle: Handle<Session>, peer: Option<Endpoint>) {
        self.at_forwarders(handle, move |stack, socket| {
            // Where a worker has no way to the peer, nothing of the peer's comes there either.
            let _ = match peer {
                Some(peer) => stack.udp_connect(socket, peer),
                None => stack.udp_disconnect(socket),
            };
        });
    }

    /// The session's port is held by no other worker any more.
    pub(super) fn cut_forwarders(&self, home: SessionId) {
        for worker in self.other_workers() {
            let cut = move |sessions: &mut Sessions, stack: &mut HostStack| {
                let mine = sessions
                    .forwarders
                    .iter()
                    .find(|(_, forwarder)| forwarder.home == home)
                    .map(|(handle, _)| handle);
                let forwarder = mine.and_then(|handle| sessions.forwarders.remove(handle));
                if let Some(socket) = forwarder.and_then(|forwarder| forwarder.socket) {
                    stack.udp_close(socket);
                }
            };
            self.to_worker(worker, Box::new(cut));
        }
    }

    /// Sends home what has come.
    pub(super) fn carry_home(&mut self, stack: &mut HostStack, handle: Handle<Forwarder>) {
        let Some(forwarder) = self.forwarders.get(handle) else { return };
        let Some(socket) = forwarder.socket else { return };
        let mut forwarded: Vec<Forwarded> = Vec::new();
        let mut bytes = 0;
        while let Some(datagram) = stack.udp_recv(socket) {
            // A payload is no longer than a datagram, so neither sum overflows.
            let len = datagram.payload.len() as u32 + LETTER;
            if forwarder.road.bytes.load(Ordering::Relaxed) + bytes + len > MAX_ON_THE_WAY {
                forwarder.road.lost.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            bytes += len;
            forwarded.push(Forwarded {
                head: head_of(&datagram, false),
                from: SocketAddr::from(datagram.from),
                payload: datagram.payload.to_vec(),
                arrived: datagram.arrived,
            });
        }
        if forwarded.is_empty() {
            return;
        }
        forwarder.road.bytes.fetch_add(bytes, Ordering::Relaxed);
        let (home, program, road) =
            (forwarder.home, Arc::clone(&forwarder.program), Arc::clone(&forwarder.road));
        let bring = move |sessions: &mut Sessions, stack: &mut HostStack| {
            road.bytes.fetch_sub(bytes, Ordering::Relaxed);
            if let Some(handle) = sessions.find(&program, home) {
                let lost = sessions.take_forwarded(stack, handle, forwarded);
                road.lost.fetch_add(lost, Ordering::Relaxed);
                sessions.show_drops(stack, handle);
            }
        };
        self.to_worker(worker_of(home), Box::new(bring));
    }
}
