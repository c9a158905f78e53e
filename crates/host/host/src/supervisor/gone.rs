//! What is done when somebody is gone.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clearway_base::Handle;
use clearway_probes::{self as probes, Text};
use clearway_session::program::Program;
use clearway_shm::attach_socket::worker_of;

use super::state::{Entry, Process, SessionFd, Supervisor, traced};

/// Bytes of a program's memory that the system may have given beyond twice what is charged: what
/// lies in blocks that are being filled.
const UNCHARGED: u64 = 64 << 20;

impl Supervisor {
    /// A process has ended, or is served no more.
    pub(super) fn end_process(&mut self, handle: Handle<Process>) {
        let Some(process) = self.processes.remove(handle) else { return };
        // A worker that is about to answer may hold the socket for a moment longer, so closing it
        // is not left to chance.
        let _ = self.epoll.delete(process.attach_socket.socket.as_fd());
        process.attach_socket.hang_up();
        let Some(member) = process.member else { return self.strangers.remove(handle) };
        let number = member.number;
        tracing::info!(pid = process.pid, app = member.program.number, "detached");
        probes::detach(|| traced(process.pid, &member.program));
        for worker in 0..self.workers.count() {
            let remove = move |worker: &mut clearway_session::Worker| {
                let time = worker.time();
                let (sessions, stack) = worker.both();
                sessions.remove_queue_pair(time, stack, number);
            };
            self.workers.to_worker(worker, Box::new(remove));
        }
        if let Some(entry) = self.programs.get_mut(&member.program.number) {
            entry.processes = entry.processes.saturating_sub(1);
        }
        self.end_program_if_empty(member.program.number);
        for joined in process.joined {
            self.leave(number, joined);
        }
    }

    /// Nobody holds the session any more: it closes as by close(2).
    pub(super) fn end_session_fd(&mut self, handle: Handle<SessionFd>) {
        let Some(session_fd) = self.session_fds.remove(handle) else { return };
        self.cookies.remove(&session_fd.cookie);
        let ahead = session_fd.ahead.as_ref().map(|(fds, name)| fds.end(*name));
        if ahead == Some(0) {
            // It is no session's, or what claims it lies in a ring still: a process need not wake a
            // worker for that.
            self.hear_claims();
            return self.count_out(session_fd.program.number);
        }
        let is_held = self.has_another_session_fd(&session_fd);
        let SessionFd { program, worker, session, .. } = session_fd;
        let number = program.number;
        if is_held {
            return self.count_out(number);
        }
        // Who claimed it, if anybody, knows by now where the session is.
        let worker = ahead.map_or(worker, worker_of);
        // Whoever asks for the address next may ask another worker, which would hear of this from
        // the session's own worker too late.
        let id = session.load(Ordering::Acquire);
        if self.workers.is_branched(id) {
            for other in (0..self.workers.count()).filter(|other| *other != worker) {
                let cut = move |worker: &mut clearway_session::Worker| {
                    let (sessions, stack) = worker.both();
                    sessions.cut_remote_listener(stack, id);
                };
                self.workers.to_worker(other, Box::new(cut));
            }
        }
        // Behind the job that makes the session, if that is still on its way.
        let close = move |worker: &mut clearway_session::Worker| {
            // What was said before, an option, say, decides how it closes.
            let time = worker.time();
            let (sessions, stack) = worker.both();
            sessions.hear_program(time, stack, &program);
            sessions.close(stack, session.load(Ordering::Acquire));
        };
        self.workers.to_worker(worker, Box::new(close));
        self.count_out(number);
    }

    /// All workers take what processes have left for them by now.
    fn hear_claims(&self) {
        for worker in 0..self.workers.count() {
            let hear = |worker: &mut clearway_session::Worker| {
                let time = worker.time();
                let (sessions, stack) = worker.both();
                sessions.hear(time, stack);
            };
            self.workers.to_worker(worker, Box::new(hear));
        }
    }

    /// One session fd less.
    fn count_out(&mut self, program: u32) {
        if let Some(entry) = self.programs.get_mut(&program) {
            entry.session_fds = entry.session_fds.saturating_sub(1);
        }
        self.end_program_if_empty(program);
    }

    /// With the last process and the last session a program is gone. Its memory goes when the last
    /// connection that was closed has sent its bytes.
    pub(super) fn end_program_if_empty(&mut self, number: u32) {
        if self.programs.get(&number).is_some_and(Entry::is_empty) {
            self.programs.remove(&number);
        }
    }

    /// A program wrote something impossible: all its processes are let go, and its sessions are
    /// reset.
    pub(crate) fn cut_off(&mut self, number: u32, why: &str) {
        let Some(program) = self.programs.get(&number).map(|entry| Arc::clone(&entry.program))
        else {
            return;
        };
        self.counts.cut_off += 1;
        tracing::warn!(app = number, name = %program.name, namespace = %program.namespace, why,
            "program cut off");
        probes::cut_off(|| {
            let (name, namespace) = (Text::of(&program.name), Text::of(&program.namespace));
            (number.into(), name, namespace, Text::of(why))
        });
        for worker in 0..self.workers.count() {
            let program = Arc::clone(&program);
            let reset = move |worker: &mut clearway_session::Worker| {
                let (sessions, stack) = worker.both();
                sessions.drop_program(stack, &program);
            };
            self.workers.to_worker(worker, Box::new(reset));
        }
        let of = |p: &Arc<Program>| Arc::ptr_eq(p, &program);
        let members = self
            .processes
            .iter()
            .filter(|(_, p)| p.member.as_ref().is_some_and(|m| of(&m.program)));
        for handle in members.map(|(handle, _)| handle).collect::<Vec<_>>() {
            self.end_process(handle);
        }
        let session_fds = self.session_fds.iter().filter(|(_, l)| of(&l.program));
        for handle in session_fds.map(|(handle, _)| handle).collect::<Vec<_>>() {
            self.end_session_fd(handle);
        }
    }

    /// Compares what the system gave for each program's memory with what is charged to it. A
    /// program may touch what is none of its FIFOs: that is taken back, and one that goes on so
    /// beyond its limit is cut off.
    pub(crate) fn check_memory(&mut self) {
        let programs: Vec<_> =
            self.programs.values().map(|entry| Arc::clone(&entry.program)).collect();
        for program in programs {
            let memory = &program.memory;
            let most = |charged: u64| charged.saturating_mul(2).saturating_add(UNCHARGED);
            if memory.resident() <= most(memory.used()) {
                continue;
            }
            memory.sweep();
            let (resident, charged) = (memory.resident(), memory.used());
            if resident > most(charged) && resident > memory.account().capacity() {
                self.cut_off(program.number, "more memory than its FIFOs have");
            }
        }
    }

    /// Everybody is let go, and all attach sockets are closed.
    pub(crate) fn close_all(&mut self) {
        self.workers.stop();
        self.attach_sockets.clear();
        if let Some(folder) = self.own_folder.take() {
            // It stays when somebody else's attach sockets are in it by now.
            let _ = std::fs::remove_dir(folder);
        }
        for handle in self.processes.iter().map(|(handle, _)| handle).collect::<Vec<_>>() {
            self.end_process(handle);
        }
        for handle in self.session_fds.iter().map(|(handle, _)| handle).collect::<Vec<_>>() {
            self.session_fds.remove(handle);
        }
        self.inbox.mailbox.close();
    }
}
