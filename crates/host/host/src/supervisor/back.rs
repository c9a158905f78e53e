//! Programs that come back from an earlier start of the host: how they are known, and how the
//! sockets that they share are found again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clearway_session::errno::{Refusal, refuse};
use clearway_shm::attach_socket::{Reply, Request, Token};
use clearway_shm::{paths, socket};
use nix::errno::Errno;

use super::state::{SessionFd, Supervisor};
use crate::answer::Asker;
use crate::namespaces::Namespace;

/// Sockets of earlier starts that one program can have found again; what is behind them is
/// forgotten first.
const MAX_REVIVED: usize = 4096;

impl Supervisor {
    /// A process of a program that had a socket in an earlier start of the host asks for it.
    pub(super) fn ask_revive(&mut self, asker: Asker, request: Request) {
        let Request::Revive { was, kind, v6, options, local, remote, backlog } = request else {
            return;
        };
        let number = asker.program.number;
        let known = self.programs.get_mut(&number).and_then(|entry| {
            entry.revived.retain(|(_, session, _)| session.strong_count() > 0);
            let found = entry.revived.iter().find(|(name, _, _)| *name == was);
            found.and_then(|(_, session, worker)| Some((session.upgrade()?, *worker)))
        });
        if let Some((session, worker)) = known {
            return match self.session_fd_of(&asker.program, worker, &session) {
                Ok(theirs) => {
                    let shared = Arc::clone(&session);
                    self.delegate_with(worker, asker, (theirs, session), move |worker, asker| {
                        let id = shared.load(Ordering::Acquire);
                        let (sessions, stack) = worker.both();
                        sessions.subscribe(stack, &asker.program, asker.process, id)
                    });
                }
                Err(errno) => {
                    asker.answer(Err(refuse(errno, "no descriptor for one more session")), &[])
                }
            };
        }
        let port = local.map_or(0, |local| local.port());
        let worker = self.worker_for(kind, port, &options);
        let (theirs, session) = match self.session_fd(&asker.program, worker, 0) {
            Ok(session_fd) => session_fd,
            Err(errno) => {
                return asker.answer(Err(refuse(errno, "no descriptor for one more session")), &[]);
            }
        };
        if let Some(entry) = self.programs.get_mut(&number) {
            if entry.revived.len() == MAX_REVIVED {
                entry.revived.remove(0);
            }
            entry.revived.push((was, Arc::downgrade(&session), worker));
        }
        self.delegate_with(worker, asker, (theirs, session), move |worker, asker| {
            let time = worker.time();
            let (sessions, stack) = worker.both();
            let program = &asker.program;
            let id = sessions.open(stack, program, asker.process, (kind, v6, options))?.id;
            let made = (|| -> Result<(), Refusal> {
                if let Some(local) = local {
                    sessions.bind(stack, program, id, local)?;
                }
                match (backlog, remote) {
                    (Some(backlog), _) => sessions.listen(stack, program, id, backlog).map(drop),
                    (None, Some(remote)) => {
                        sessions.connect(time, stack, program, id, Some(remote)).map(drop)
                    }
                    (None, None) => Ok(()),
                }
            })();
            if let Err(refusal) = made {
                sessions.close(stack, id);
                return Err(refusal);
            }
            sessions.subscribe(stack, program, asker.process, id)
        });
    }

    /// Another session fd of a session that has one.
    fn session_fd_of(
        &mut self,
        program: &Arc<clearway_session::program::Program>,
        worker: usize,
        session: &Arc<AtomicU64>,
    ) -> Result<std::os::fd::OwnedFd, Errno> {
        let (theirs, own) = self.session_fd(program, worker, 0)?;
        let cookie = socket::cookie(std::os::fd::AsFd::as_fd(&theirs)).map_err(|_| Errno::EBADF)?;
        drop(own);
        let handle = *self.cookies.get(&cookie).ok_or(Errno::EBADF)?;
        self.session_fds.get_mut(handle).ok_or(Errno::EBADF)?.session = Arc::clone(session);
        Ok(theirs)
    }

    /// Another session fd of the same session is held by somebody. Only sessions of programs that
    /// came back have several.
    pub(super) fn has_another_session_fd(&self, ended: &SessionFd) -> bool {
        // The one that ended is one, and an answer that is on its way may be another.
        Arc::strong_count(&ended.session) > 1
            && self
                .session_fds
                .iter()
                .any(|(_, session_fd)| Arc::ptr_eq(&session_fd.session, &ended.session))
    }

    /// Whether the token lets a stranger into this namespace: a program of an earlier start that
    /// was let in.
    pub(super) fn remembers(&self, token: Option<&Token>, namespace: &Namespace) -> bool {
        token.is_some_and(|token| self.key.made(token, namespace))
    }

    /// Opens the way back: a socket without a file, at which only programs are let in that show a
    /// token. Without it programs come back by the attach socket alone.
    pub(super) fn open_way_back(&self) -> Option<std::os::fd::OwnedFd> {
        let name = paths::way_back(&self.setup.socket)?;
        match socket::listen_by_name(&name) {
            Ok(fd) => Some(fd),
            Err(error) => {
                tracing::warn!(%error, "programs that changed their user cannot come back after a \
                    restart of the host");
                None
            }
        }
    }

    /// What a process that came by the way back asks first must be to be let in by a token. True:
    /// it is refused.
    pub(super) fn is_a_stranger_at_the_back(&self, by_way_back: bool, request: &Request) -> bool {
        by_way_back && !matches!(request, Request::Hello(hello) if hello.inherit.is_some())
    }
}

/// How the answer to somebody at the way back reads who shows nothing.
pub(super) fn stranger() -> Reply {
    Reply::Error {
        errno: Errno::EACCES as i32,
        why: "only programs that were let in before come in here".into(),
    }
}
