//! Who has a connection that was accepted: a process claims it, by a message in its ring or by a
//! question.
//!
//! Who takes a record out of an accept FIFO exchanges the session's name in its claim word for its
//! own mark, so of several that have the record one has the session. The message that follows says
//! which session fd is its. What the word says is believed only as far as the program itself is
//! concerned: whether a session waits to be claimed is known here (`parent`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use clearway_base::Handle;
use clearway_probes as probes;
use clearway_shm::attach_socket::{self, SessionId, worker_of};
use clearway_shm::layout::{AcceptRecord, Message, taken_by};
use nix::errno::Errno;

use super::queue_pair::QueuePair;
use super::state::{Session, Sessions, gone};
use crate::env::HostStack;
use crate::errno::{Refusal, refuse};
use crate::program::Program;
use crate::session_fds::{Claimed, SessionFds};

impl Session {
    /// It waits to be claimed, and what stands in the claim word is exchanged, if it is this.
    /// False: it was something else, and stays.
    fn exchange_claim(&self, from: u64, to: u64) -> bool {
        self.head.claim.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl Sessions {
    /// What a listener's FIFO holds of a connection that is made. From now on it can be claimed.
    pub(super) fn record(&self, stack: &HostStack, child: Handle<Session>) -> Option<AcceptRecord> {
        let described = self.describe(stack, child).ok()?;
        let session = self.table.get(child)?;
        session.head.describe(&described);
        session.head.claim.store(session.id, Ordering::Release);
        Some(AcceptRecord::at(session.id, described.head))
    }

    /// A process asks for a connection that waited to be accepted.
    pub fn claim(
        &mut self,
        stack: &mut HostStack,
        program: &Arc<Program>,
        process: u32,
        id: SessionId,
    ) -> Result<attach_socket::Session, Refusal> {
        let handle = self.session(program, id)?;
        let session = self.table.get(handle).ok_or_else(gone)?;
        let mine = taken_by(process);
        if session.parent.is_none()
            || !(session.exchange_claim(id, mine) || session.exchange_claim(mine, mine))
        {
            return Err(refuse(Errno::EINVAL, "the connection was claimed already"));
        }
        self.claimed(stack, program, (handle, id), process);
        self.describe(stack, handle)
    }

    /// A process says that it took a connection, and which session fd it has for it.
    pub(super) fn on_claim(&mut self, stack: &mut HostStack, at: usize, message: Message) {
        let queue_pair = &self.queue_pairs[at];
        let (process, fds) = (queue_pair.process, Arc::clone(&queue_pair.session_fds));
        let id = message.session;
        let waits = |handle: Handle<Session>| {
            let session = self.table.get(handle).filter(|session| session.parent.is_some())?;
            Some((handle, Arc::clone(&session.program)))
        };
        let Some((handle, program)) = self.find_for(at, id).and_then(waits) else {
            self.report.stray_messages += 1;
            return;
        };
        self.claimed(stack, &program, (handle, id), process);
        if !self.is_held_by((&fds, message.aux), id) {
            // It was closed before we came to hear of it.
            self.end(stack, handle, false);
        }
    }

    /// A session is held by this session fd of its process from now on. False: that has hung up, so
    /// nobody holds it.
    pub fn is_held_by(&mut self, (fds, name): (&SessionFds, u32), id: SessionId) -> bool {
        match fds.claim(name, id) {
            Claimed::Free => true,
            Claimed::Gone => false,
            Claimed::Instead(before) => {
                // Its end lies in another worker's ring, or was never said.
                let close = move |sessions: &mut Sessions, stack: &mut HostStack| {
                    sessions.close(stack, before);
                };
                self.to_worker(worker_of(before), Box::new(close));
                true
            }
        }
    }

    /// A process says that nobody holds the session any more, and that its session fd, which no
    /// other process has, is free.
    pub(super) fn on_close(&mut self, stack: &mut HostStack, at: usize, message: Message) {
        let queue_pair = &self.queue_pairs[at];
        let (program, fds) = (Arc::clone(&queue_pair.program), Arc::clone(&queue_pair.session_fds));
        match self.find_for(at, message.session) {
            Some(handle) => self.end(stack, handle, false),
            None => self.report.stray_messages += 1,
        }
        fds.release(message.aux, message.session, &program.quota);
    }

    fn claimed(
        &mut self,
        stack: &mut HostStack,
        program: &Arc<Program>,
        (handle, id): (Handle<Session>, SessionId),
        process: u32,
    ) {
        let Some(session) = self.table.get_mut(handle) else { return };
        let untold = std::mem::take(&mut session.untold);
        probes::accept(|| session.traced());
        if let Some(parent) = session.parent.take() {
            self.waits_no_more(stack, program, parent, id);
        }
        self.subscribe_to(handle, process);
        // The process may have looked already, when nobody told it of what came then.
        if untold != 0 {
            self.tell(handle, untold);
        }
    }

    /// Nobody will claim it from a listener any more: it ends with a reset, unless a process has
    /// taken it and is about to say so.
    pub(super) fn end_unclaimed(&mut self, stack: &mut HostStack, handle: Handle<Session>) {
        let Some(session) = self.table.get(handle) else { return };
        // Where no process is left nobody will say so, whatever stands there.
        if session.exchange_claim(session.id, 0) || !self.has_queue_pair_of(&session.program) {
            self.end(stack, handle, true);
        }
    }

    fn has_queue_pair_of(&self, program: &Arc<Program>) -> bool {
        self.queue_pairs_of(program).next().is_some()
    }

    fn queue_pairs_of<'a>(
        &'a self,
        program: &'a Arc<Program>,
    ) -> impl Iterator<Item = &'a QueuePair> {
        let admits =
            |queue_pair: &&QueuePair| program.admits(&queue_pair.program, queue_pair.process);
        self.queue_pairs.iter().filter(admits)
    }

    /// A process of the program, or one that joined it, is gone. What it took and did not claim is offered again; so is
    /// what somebody took of whom nobody knows.
    pub fn recover_taken(&mut self, stack: &mut HostStack, program: &Arc<Program>) {
        let is_empty = !self.has_queue_pair_of(program);
        let lives = |word: u64| {
            self.queue_pairs_of(program).any(|queue_pair| taken_by(queue_pair.process) == word)
        };
        let of_nobody = |session: &Session| {
            let word = session.head.claim.load(Ordering::Acquire);
            let is_ours = session.parent.is_some() && Arc::ptr_eq(&session.program, program);
            is_ours && (is_empty || word != session.id && !lives(word))
        };
        let lost = self.table.iter().filter(|(_, session)| of_nobody(session));
        let lost: Vec<_> =
            lost.map(|(handle, session)| (handle, session.id, session.parent)).collect();
        for (handle, id, parent) in lost {
            let Some(session) = self.table.get(handle) else { continue };
            session.head.claim.store(id, Ordering::Release);
            match parent {
                Some(parent) if worker_of(parent) == self.index => {
                    self.offer_again(stack, program, parent, id)
                }
                Some(parent) => {
                    let program = Arc::clone(program);
                    let offer = move |sessions: &mut Sessions, stack: &mut HostStack| {
                        sessions.offer_again(stack, &program, parent, id);
                    };
                    self.to_worker(worker_of(parent), Box::new(offer));
                }
                None => {}
            }
        }
    }
}
