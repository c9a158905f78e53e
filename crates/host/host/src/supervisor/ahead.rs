//! What processes ask for ahead of need, many at a time, so that a connection costs no question:
//! session fds for those that they will accept, and streams to connect with.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use clearway_base::Handle;
use clearway_session::errno::refuse;
use clearway_session::quota::Thing;
use clearway_session::session_fds::SessionFds;
use clearway_shm::attach_socket::{MAX_AHEAD, Reply};
use nix::errno::Errno;

use super::questions::no_session_fd;
use super::state::{Process, SessionFd, Supervisor};
use crate::answer::Asker;

/// Of what a program may still have, one in so many at most is opened ahead of need.
const AHEAD_OF_FREE: u32 = 16;

/// A session fd, the word that will name its session, and the host's end.
type Made = (OwnedFd, Arc<AtomicU64>, Handle<SessionFd>);

impl Supervisor {
    /// Session fds for connections that a process will accept. One that accepts many at once has
    /// said so in its ring for each, which makes room for others, and nobody may have looked there.
    pub(super) fn ask_session_fds(&mut self, asker: Asker, handle: Handle<Process>, count: u32) {
        let member = self.processes.get(handle).and_then(|process| process.member.as_ref());
        if member.is_some_and(|member| member.session_fds.room() < count.min(MAX_AHEAD)) {
            return self.when_all_have_heard(move |supervisor| {
                supervisor.give_session_fds(asker, handle, count);
            });
        }
        self.give_session_fds(asker, handle, count);
    }

    fn give_session_fds(&mut self, asker: Asker, handle: Handle<Process>, count: u32) {
        let member = self.processes.get(handle).and_then(|process| process.member.as_ref());
        let Some(fds) = member.map(|member| Arc::clone(&member.session_fds)) else { return };
        let count = count.min(fds.room());
        if count == 0 {
            let why = "the process has all session fds ahead of need that it may (MAX_AHEAD)";
            return asker.answer(Err(refuse(Errno::ENFILE, why)), &[]);
        }
        let made = match self.several(&asker, 0, count) {
            Ok(made) => made,
            Err(errno) => return asker.answer(Err(no_session_fd(errno)), &[]),
        };
        let first = self.name(&fds, &made);
        let descriptors: Vec<_> = made.iter().map(|(theirs, ..)| theirs.as_fd()).collect();
        asker.answer(Ok(Reply::SessionFds { first }), &descriptors);
    }

    /// They are free session fds of this process. Answers the first one's name, which the others'
    /// follow.
    fn name(&mut self, fds: &Arc<SessionFds>, made: &[Made]) -> u32 {
        let mut first = None;
        for (_, word, handle) in made {
            let name = fds.add(word);
            first.get_or_insert(name);
            if let Some(session_fd) = self.session_fds.get_mut(*handle) {
                session_fd.ahead = Some((Arc::clone(fds), name));
            }
        }
        first.unwrap_or(0)
    }

    /// Streams that a process will connect, the first of them with session fds that it has.
    pub(super) fn ask_open_ahead(
        &mut self,
        asker: Asker,
        handle: Handle<Process>,
        v6: bool,
        (count, mut known): (u32, Vec<u32>),
    ) {
        let worker = self.next_worker();
        let member = self.processes.get(handle).and_then(|process| process.member.as_ref());
        let Some(fds) = member.map(|member| Arc::clone(&member.session_fds)) else { return };
        // They count as sessions, so no more of them than leave most of what the program may still
        // have.
        let count = count
            .clamp(1, MAX_AHEAD)
            .min(1 + asker.program.quota.free(Thing::Session) / AHEAD_OF_FREE);
        known.truncate(count as usize);
        let made = match self.several(&asker, worker, count - known.len() as u32) {
            Ok(made) => made,
            Err(errno) => return asker.answer(Err(no_session_fd(errno)), &[]),
        };
        let first = self.name(&fds, &made);
        let job = move |worker: &mut clearway_session::Worker| {
            asker.hear(worker);
            let (sessions, stack) = worker.both();
            let mut opened = Vec::new();
            let mut refusal = None;
            for name in
                known.iter().copied().chain((0..made.len() as u32).map(|at| first.wrapping_add(at)))
            {
                match sessions.open_ahead(stack, &asker.program, asker.process, v6) {
                    Ok(session) if sessions.is_held_by((&fds, name), session.id) => {
                        opened.push((session.id, session.head));
                    }
                    // The process has named a session fd that it has not.
                    Ok(session) => {
                        sessions.close(stack, session.id);
                        refusal = Some(refuse(Errno::EBADF, "there is no such session fd"));
                        break;
                    }
                    // What is there is enough; those without a session close by themselves.
                    Err(why) => {
                        refusal = Some(why);
                        break;
                    }
                }
            }
            match refusal.filter(|_| opened.is_empty()) {
                Some(why) => asker.answer(Err(why), &[]),
                None => {
                    let beyond = opened.len().saturating_sub(known.len());
                    let descriptors: Vec<_> =
                        made.iter().take(beyond).map(|(fd, ..)| fd.as_fd()).collect();
                    asker.answer(Ok(Reply::OpenedAhead { sessions: opened, first }), &descriptors);
                }
            }
        };
        self.workers.to_worker(worker, Box::new(job));
    }

    /// So many session fds, or fewer: one at least, and beyond that only such as leave half of the
    /// host's descriptors to what is needed now.
    fn several(&mut self, asker: &Asker, worker: usize, count: u32) -> Result<Vec<Made>, Errno> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut made = vec![self.new_session_fd(&asker.program, worker, 0)?];
        while (made.len() as u32) < count {
            let Ok(one) = self.new_session_fd(&asker.program, worker, 0) else { break };
            if !self.descriptors.is_plenty(&one.0) {
                // It closes, and with it the other end.
                break;
            }
            made.push(one);
        }
        Ok(made)
    }
}
