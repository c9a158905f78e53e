//! A question that a process asked over its socket, on its way to the answer.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clearway_session::errno::Refusal;
use clearway_session::program::Program;
use clearway_session::worker::Worker;
use clearway_shm::attach_socket::{Reply, SessionId};
use clearway_shm::socket;
use nix::sys::socket::{Shutdown, shutdown};

/// The attach socket of one process.
pub(crate) struct Doorway {
    pub(crate) socket: OwnedFd,
    /// A question waits for its answer; who asks another one is cut off.
    pub(crate) is_busy: AtomicBool,
}

impl Doorway {
    pub(crate) fn answer(&self, reply: &Reply, descriptors: &[BorrowedFd<'_>]) {
        // Before the answer: the process may ask again as soon as it has it.
        self.is_busy.store(false, Ordering::Release);
        if socket::send(self.socket.as_fd(), reply, descriptors).is_err() {
            self.hang_up();
        }
    }

    /// The supervisor sees it, and lets the process go.
    pub(crate) fn hang_up(&self) {
        let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Both);
    }
}

/// Who asked.
#[derive(Clone)]
pub(crate) struct Asker {
    pub(crate) attach_socket: Arc<Doorway>,
    pub(crate) process: u32,
    pub(crate) program: Arc<Program>,
}

impl Asker {
    /// What its program said before it asked is heard before it is answered, and is done by then.
    pub(crate) fn hear(&self, worker: &mut Worker) {
        let time = worker.time();
        let (sessions, stack) = worker.both();
        sessions.hear_before_answer(time, stack, &self.program);
    }

    /// As whom it asks about this session: one that joined the session's program asks as that.
    pub(crate) fn about(self, worker: &mut Worker, session: SessionId) -> Asker {
        let program = worker.sessions().acts_for(&self.program, self.process, session);
        Asker { program, ..self }
    }

    /// Answers, with the descriptors that belong to a good answer.
    pub(crate) fn answer(&self, result: Result<Reply, Refusal>, descriptors: &[BorrowedFd<'_>]) {
        match result {
            Ok(reply) => self.attach_socket.answer(&reply, descriptors),
            Err(Refusal { errno, why }) => {
                self.attach_socket.answer(&Reply::Error { errno: errno as i32, why }, &[])
            }
        }
    }
}
