//! The workers of a host, as the others reach them: the supervisor, commands, and each other.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use clearway_session::interfaces::Interfaces;
use clearway_session::mailbox::{Inbox, Job};
use clearway_session::program::Program;
use clearway_session::sessions::{HostContext, SessionJob};
use clearway_session::worker::Worker;
use clearway_shm::attach_socket::SessionId;
use clearway_shm::{HostPage, sleep};
use nix::poll::{PollFd, PollFlags, PollTimeout};

/// Who is told what concerns a whole program.
pub(crate) trait SupervisorCalls: Send + Sync {
    /// The program of this number wrote something impossible, and is served no more.
    fn cut_off(&self, program: u32, why: &'static str);

    /// It is time to compare what the system gave programs with what is charged to them.
    fn check_memory(&self);

    /// Has a worker do something when all were told of the session fds that have hung up by now.
    fn behind_hangups(&self, worker: usize, job: Job<Worker>);
}

/// All workers of a host.
pub(crate) struct Workers {
    pub(crate) attach_sockets: Vec<Inbox<Worker>>,
    pub(crate) page: HostPage,
    pub(crate) interfaces: Arc<Mutex<Interfaces>>,
    pub(crate) stop: Arc<AtomicBool>,
    /// Listeners that have remote listeners on other workers; there are no more of them than there
    /// may be sessions.
    branched: Mutex<HashSet<SessionId>>,
    supervisor: Box<dyn SupervisorCalls>,
    /// Readable while session fds have hung up that the supervisor has not seen to.
    hangups: OnceLock<OwnedFd>,
}

impl Workers {
    pub(crate) fn new(
        attach_sockets: Vec<Inbox<Worker>>,
        page: HostPage,
        supervisor: Box<dyn SupervisorCalls>,
    ) -> Workers {
        let (interfaces, stop, branched) = (Arc::default(), Arc::default(), Mutex::default());
        let hangups = OnceLock::new();
        Workers { attach_sockets, page, interfaces, stop, branched, supervisor, hangups }
    }

    /// The supervisor watches session fds by this epoll set.
    pub(crate) fn watches_session_fds(&self, set: OwnedFd) {
        let _ = self.hangups.set(set);
    }

    pub(crate) fn count(&self) -> usize {
        self.attach_sockets.len()
    }

    /// Has a worker do something between two turns.
    pub(crate) fn to_worker(&self, worker: usize, job: Job<Worker>) {
        let Some(attach_socket) = self.attach_sockets.get(worker) else { return };
        // A worker that has ended has ended its sessions too. One that is awake looks into its
        // mailbox before it sleeps, so that a notifier would only cost both of us a system call:
        // there are several jobs for each connection that a program makes.
        if attach_socket.mailbox.put(job) && sleep::which_sleep(self.page.sleeps(worker)).is_some()
        {
            attach_socket.notifier.notify();
        }
    }

    pub(crate) fn is_branched(&self, session: SessionId) -> bool {
        self.branched.lock().unwrap_or_else(PoisonError::into_inner).contains(&session)
    }

    /// They end.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.attach_sockets.iter().for_each(|attach_socket| attach_socket.notifier.notify());
    }
}

impl HostContext for Workers {
    fn workers(&self) -> usize {
        self.count()
    }

    fn to_worker(&self, worker: usize, job: SessionJob) {
        let job = move |worker: &mut Worker| {
            let (sessions, stack) = worker.both();
            job(sessions, stack);
        };
        Workers::to_worker(self, worker, Box::new(job));
    }

    fn has_hung_up(&self) -> bool {
        let Some(set) = self.hangups.get() else { return false };
        let mut fds = [PollFd::new(set.as_fd(), PollFlags::POLLIN)];
        // Where it cannot be seen, the supervisor is asked.
        nix::poll::poll(&mut fds, PollTimeout::ZERO) != Ok(0)
    }

    fn connect_later(
        &self,
        worker: usize,
        behind_hangups: bool,
        (program, id): (Arc<Program>, SessionId),
    ) {
        let job = Box::new(move |worker: &mut Worker| {
            let time = worker.time();
            let (sessions, stack) = worker.both();
            sessions.connect_asked(time, stack, &program, id);
        });
        match behind_hangups {
            true => self.supervisor.behind_hangups(worker, job),
            false => Workers::to_worker(self, worker, job),
        }
    }

    fn page(&self) -> &HostPage {
        &self.page
    }

    fn interfaces(&self) -> &Mutex<Interfaces> {
        &self.interfaces
    }

    fn set_branched(&self, session: SessionId, is_branched: bool) {
        let mut branched = self.branched.lock().unwrap_or_else(PoisonError::into_inner);
        if is_branched {
            branched.insert(session);
        } else {
            branched.remove(&session);
        }
    }

    fn cut_off(&self, program: u32, why: &'static str) {
        self.supervisor.cut_off(program, why);
    }

    fn check_memory(&self) {
        self.supervisor.check_memory();
    }
}
