//! Listeners of other workers. A peer's SYN comes to whatever worker its queue belongs to, so each
//! worker listens for every listener: the session itself is on one worker, its *home*, and a
//! *remote listener* on each of the others. A connection that a remote listener accepts becomes a
//! session on the remote listener's worker; only its record goes home.

use std::sync::Arc;

use clearway_base::Handle;
use clearway_proto::{BindSpec, FastOpenListener, ListenSpec};
use clearway_shm::attach_socket::{Kind, SessionId, SocketOptions, worker_of};
use clearway_shm::layout::AcceptRecord;
use clearway_wire::Endpoint;

use super::listening::timeouts;
use super::remote::{MARK, RemoteListener};
use super::session_options::conn_options;
use super::state::{Session, Sessions, What};
use super::verbs::Birth;
use crate::env::HostStack;
use crate::program::Program;
use crate::quota::{Permit, Thing};
use crate::store::Sizes;

/// What a remote listener is made of.
#[derive(Clone)]
struct Seed {
    home: SessionId,
    program: Arc<Program>,
    bind: BindSpec,
    listen: ListenSpec,
    sizes: Sizes,
    v6: bool,
    options: SocketOptions,
}

impl Sessions {
    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let me = self.index;
        (0..self.context.workers()).filter(move |worker| *worker != me)
    }

    /// All other workers listen for this session too.
    pub(super) fn remote_listener_out(
        &mut self,
        stack: &HostStack,
        handle: Handle<Session>,
        listen: ListenSpec,
        sizes: Sizes,
    ) {
        let Some(session) = self.table.get(handle) else { return };
        let local = session.bind.and_then(|bind| stack.bound_local(bind));
        let options = session.options;
        let bind = BindSpec {
            table: session.table,
            local: local.unwrap_or(Endpoint::new(session.any(), 0)),
            v6_only: options.v6_only,
            reuse_address: options.reuse_address,
            reuse_port: options.reuse_port,
            owner: session.program.owner,
        };
        let (home, program, v6) = (session.id, Arc::clone(&session.program), session.v6);
        let seed = Seed { home, program, bind, listen, sizes, v6, options };
        if self.context.workers() > 1 {
            self.context.set_branched(home, true);
        }
        for worker in self.others() {
            let seed = seed.clone();
            let listen = move |sessions: &mut Sessions, stack: &mut HostStack| {
                sessions.add_remote_listener(stack, seed);
            };
            self.to_worker(worker, Box::new(listen));
        }
    }

    /// The backlog of a listener and what its connections begin with are these from now on, on all
    /// other workers too.
    pub(super) fn tune_remote_listeners(
        &self,
        home: SessionId,
        backlog: u32,
        options: SocketOptions,
        sizes: Sizes,
    ) {
        for worker in self.others() {
            let tune = move |sessions: &mut Sessions, stack: &mut HostStack| {
                let mine = sessions
                    .remote_listeners
                    .iter_mut()
                    .find(|(_, remote_listener)| remote_listener.home == home);
                let Some((handle, remote_listener)) = mine else { return };
                (remote_listener.backlog, remote_listener.options) = (backlog, options);
                if let Some(listener) = remote_listener.listener {
                    stack.tune_listener(listener, backlog, timeouts(options.defer_accept));
                    stack.set_listener_options(listener, conn_options(&options, stack.defaults()));
                    stack.set_fast_open(listener, FastOpenListener::of_socket(&options));
                    let memory = remote_listener.program.memory.clone();
                    sessions.fifo_plan.listen(handle.to_bits() | MARK, memory, sizes);
                }
                sessions.accept_at_remote_listener(stack, handle);
            };
            self.to_worker(worker, Box::new(tune));
        }
    }

    fn add_remote_listener(&mut self, stack: &mut HostStack, seed: Seed) {
        let Ok(bind) = stack.bind(seed.bind) else {
            // The port was free at home, so somebody here connects from it just now. Home listens
            // all the same.
            tracing::warn!(worker = self.index, local = %seed.bind.local,
                "the port is taken on this worker");
            return;
        };
        let (memory, sizes) = (seed.program.memory.clone(), seed.sizes);
        let remote_listener = RemoteListener {
            home: seed.home,
            program: seed.program,
            listener: None,
            bind,
            v6: seed.v6,
            options: seed.options,
            backlog: seed.listen.backlog,
            waiting: 0,
        };
        let Some(handle) = self.remote_listeners.insert(remote_listener) else {
            return stack.unbind(bind);
        };
        let token = handle.to_bits() | MARK;
        let listener = stack.listen_bound(bind, ListenSpec { token, ..seed.listen }).ok();
        if listener.is_some() {
            self.fifo_plan.listen(token, memory, sizes);
        }
        if let Some(remote_listener) = self.remote_listeners.get_mut(handle) {
            remote_listener.listener = listener;
        }
    }

    /// The listener is gone from all other workers.
    pub(super) fn cut_remote_listeners(&self, home: SessionId) {
        self.context.set_branched(home, false);
        for worker in self.others() {
            let cut = move |sessions: &mut Sessions, stack: &mut HostStack| {
                sessions.cut_remote_listener(stack, home);
            };
            self.to_worker(worker, Box::new(cut));
        }
    }

    /// The listener is gone from this worker; it may have gone before.
    pub fn cut_remote_listener(&mut self, stack: &mut HostStack, home: SessionId) {
        let mine = self
            .remote_listeners
            .iter()
            .find(|(_, remote_listener)| remote_listener.home == home)
            .map(|(handle, _)| handle);
        let Some((handle, remote_listener)) =
            mine.and_then(|handle| Some((handle, self.remote_listeners.remove(handle)?)))
        else {
            return;
        };
        if let Some(listener) = remote_listener.listener {
            stack.unlisten(listener);
        }
        stack.unbind(remote_listener.bind);
        self.fifo_plan.forget(handle.to_bits() | MARK);
    }

    /// Takes connections that came to this worker, as many as may wait, and sends their records
    /// home.
    pub(super) fn accept_at_remote_listener(
        &mut self,
        stack: &mut HostStack,
        handle: Handle<RemoteListener>,
    ) {
        loop {
            let Some(remote_listener) = self.remote_listeners.get_mut(handle) else { return };
            let Some(listener) = remote_listener
                .listener
                .filter(|_| remote_listener.waiting < remote_listener.backlog)
            else {
                return;
            };
            let (home, program) = (remote_listener.home, Arc::clone(&remote_listener.program));
            let birth = Birth {
                kind: Kind::Stream,
                v6: remote_listener.v6,
                options: remote_listener.options,
            };
            let Some(conn) = stack.accept(listener) else { return };
            let made = Permit::take(&program.quota, Thing::Session)
                .ok()
                .map(|permit| self.make(stack, &program, permit, birth));
            let Some(Ok(child)) = made else {
                // The program has no room for it: the peer learns that nobody takes it.
                stack.abort(conn);
                continue;
            };
            self.adopt(stack, home, child, conn);
            if let Some(remote_listener) = self.remote_listeners.get_mut(handle) {
                remote_listener.waiting += 1;
            }
            let Some(record) = self.record(stack, child) else { continue };
            let bring = move |sessions: &mut Sessions, stack: &mut HostStack| {
                sessions.take_from_remote_listener(stack, &program, home, record);
            };
            self.to_worker(worker_of(home), Box::new(bring));
        }
    }

    /// At home: a connection of a remote listener waits.
    fn take_from_remote_listener(
        &mut self,
        stack: &mut HostStack,
        program: &Arc<Program>,
        home: SessionId,
        record: AcceptRecord,
    ) {
        let listener = self.find(program, home);
        if listener.is_some_and(|listener| self.admit(listener, record)) {
            listener.into_iter().for_each(|listener| self.tell_of_waiting(listener, 1));
        } else {
            self.end_child(stack, program, record.session);
        }
    }

    /// A connection that nobody claimed is reset, whatever worker it is on.
    pub(super) fn end_child(
        &mut self,
        stack: &mut HostStack,
        program: &Arc<Program>,
        child: SessionId,
    ) {
        match self.find(program, child) {
            Some(handle) => self.end_unclaimed(stack, handle),
            None => self.end_elsewhere(program, child),
        }
    }

    fn end_elsewhere(&self, program: &Arc<Program>, child: SessionId) {
        let program = Arc::clone(program);
        let end = move |sessions: &mut Sessions, stack: &mut HostStack| {
            if let Some(handle) = sessions.find(&program, child) {
                sessions.end_unclaimed(stack, handle);
            }
        };
        self.to_worker(worker_of(child), Box::new(end));
    }

    /// A connection was claimed, or has ended before.
    pub(super) fn waits_no_more(
        &mut self,
        stack: &mut HostStack,
        program: &Arc<Program>,
        parent: SessionId,
        child: SessionId,
    ) {
        if worker_of(parent) == self.index {
            let Some(handle) = self.find(program, parent) else { return };
            if let Some(What::Listener(listening)) = self.table.get_mut(handle).map(|s| &mut s.what)
            {
                listening.claimed(child);
                // As many as may wait did so, perhaps, and the stack holds more: nobody else looks,
                // when the process took the records before.
                self.accept(stack, handle);
            }
            return;
        }
        let mine = self
            .remote_listeners
            .iter()
            .find(|(_, remote_listener)| remote_listener.home == parent)
            .map(|(handle, _)| handle);
        if let Some(handle) = mine {
            if let Some(remote_listener) = self.remote_listeners.get_mut(handle) {
                remote_listener.waiting = remote_listener.waiting.saturating_sub(1);
            }
            self.accept_at_remote_listener(stack, handle);
        }
        let program = Arc::clone(program);
        let tell = move |sessions: &mut Sessions, stack: &mut HostStack| {
            sessions.waits_no_more(stack, &program, parent, child);
        };
        self.to_worker(worker_of(parent), Box::new(tell));
    }
}
