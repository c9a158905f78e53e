//! Processes that hold sockets of another program, which that handed to them (SCM_RIGHTS).

use std::sync::Arc;

use clearway_base::Handle;
use clearway_session::errno::{Refusal, refuse};
use clearway_session::quota::{Permit, Thing};
use clearway_shm::attach_socket::{Reply, Token};
use nix::errno::Errno;

use super::state::{Entry, Joined, Process, Supervisor};
use crate::answer::Asker;

impl Entry {
    /// Nobody has anything of it. Connections that processes which joined it took from its listeners
    /// have session fds of those processes' programs; they are sessions of this one all the same.
    pub(super) fn is_empty(&self) -> bool {
        self.processes == 0
            && self.session_fds == 0
            && (self.program.foreign.is_empty() || self.program.quota.count(Thing::Session) == 0)
    }
}

impl Supervisor {
    /// A process shows what lay in a session fd that it was handed.
    pub(super) fn ask_join(&mut self, handle: Handle<Process>, asker: &Asker, token: &Token) {
        let joined = self.join(handle, asker, token);
        asker.answer(joined.map(|app| Reply::Joined { app }), &[]);
    }

    fn join(
        &mut self,
        handle: Handle<Process>,
        asker: &Asker,
        token: &Token,
    ) -> Result<u32, Refusal> {
        self.leave_empty_programs(handle);
        let no_program = || refuse(Errno::ENOENT, "there is no such program");
        let process = self.processes.get(handle).ok_or_else(no_program)?;
        let program = self.program_of(token, process.through.as_deref()).ok_or_else(no_program)?;
        let number = program.number;
        let has_joined = process.joined.iter().any(|of| Arc::ptr_eq(&of.program, &program));
        if has_joined || Arc::ptr_eq(&asker.program, &program) {
            return Ok(number);
        }
        let permit = Permit::take(&program.quota, Thing::Process);
        let permit = permit.map_err(|scarce| refuse(Errno::EUSERS, scarce.to_string()))?;
        tracing::info!(app = asker.program.number, of = number, "has a socket of another program");
        program.foreign.add(asker.process);
        if let Some(process) = self.processes.get_mut(handle) {
            process.joined.push(Joined { program, _permit: permit });
        }
        Ok(number)
    }

    /// The process leaves programs of which nothing is left but that it has joined them: so it keeps
    /// no more of them than have something.
    fn leave_empty_programs(&mut self, handle: Handle<Process>) {
        let Some(process) = self.processes.get_mut(handle) else { return };
        let Some(number) = process.member.as_ref().map(|member| member.number) else { return };
        let programs = &self.programs;
        let is_empty = |of: &Joined| programs.get(&of.program.number).is_none_or(Entry::is_empty);
        let (left, stays) = std::mem::take(&mut process.joined).into_iter().partition(is_empty);
        process.joined = stays;
        let left: Vec<_> = left;
        left.into_iter().for_each(|of| self.leave(number, of));
    }

    /// A process has ended, or has no use for a program that it had joined.
    pub(super) fn leave(&mut self, process: u32, of: Joined) {
        let Joined { program, .. } = of;
        program.foreign.remove(process);
        for worker in 0..self.workers.count() {
            let program = Arc::clone(&program);
            let recover = move |worker: &mut clearway_session::Worker| {
                let (sessions, stack) = worker.both();
                sessions.recover_taken(stack, &program);
            };
            self.workers.to_worker(worker, Box::new(recover));
        }
        self.end_program_if_empty(program.number);
    }
}
