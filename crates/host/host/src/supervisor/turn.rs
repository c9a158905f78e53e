//! The supervisor's turn: what its descriptors have, one after the other.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use clearway_base::{Handle, Slab};
use clearway_session::Worker;
use clearway_session::mailbox::{Inbox, Job};
use clearway_session::quota::Quota;
use clearway_shm::attach_socket::MAX_AHEAD;
use clearway_shm::socket;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::descriptors::Descriptors;
use crate::error::HostError;
use crate::namespaces::Namespaces;
use crate::setup::Setup;
use crate::workers::Workers;

use super::back::stranger;
use super::key::Key;
use super::state::*;
use super::waiting::Waiting;

/// Session fds at most for each worker's session.
const SESSION_FDS: u32 = 1 << 24;

/// Descriptors looked at before the inbox is read again.
const EVENTS: usize = 64;

impl Supervisor {
    pub(crate) fn new(
        setup: &Setup,
        (workers, inbox): (Arc<Workers>, Inbox<Supervisor>),
        (namespaces, quota): (Arc<Mutex<Namespaces>>, Arc<Quota>),
        (page_fd, boot): (OwnedFd, u64),
    ) -> Result<Supervisor, HostError> {
        let system = |what| move |errno: Errno| HostError::System(what, errno.into());
        let epoll =
            Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(system("make an epoll set"))?;
        let notifier = EpollEvent::new(EpollFlags::EPOLLIN, KIND_NOTIFIER);
        epoll.add(&inbox.notifier, notifier).map_err(system("watch a notifier"))?;
        let lines =
            Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(system("make an epoll set"))?;
        let event = EpollEvent::new(EpollFlags::EPOLLIN, KIND_SESSION_FDS << KIND_SHIFT);
        epoll.add(&lines.0, event).map_err(system("watch an epoll set"))?;
        let watched = lines.0.as_fd().try_clone_to_owned();
        workers
            .watches_session_fds(watched.map_err(|e| HostError::System("copy an epoll set", e))?);
        let descriptors = Descriptors::of_system();
        let strangers = Waiting::new(descriptors.strangers()).map_err(system("make a timer"))?;
        let event = EpollEvent::new(EpollFlags::EPOLLIN, KIND_TIMER << KIND_SHIFT);
        epoll.add(strangers.timer(), event).map_err(system("watch a timer"))?;
        let sessions = setup.sessions.saturating_mul(setup.workers.len() as u32);
        let session_fds = sessions.saturating_add(setup.processes.saturating_mul(MAX_AHEAD));
        let mut supervisor = Supervisor {
            workers,
            inbox,
            namespaces,
            quota,
            setup: setup.clone(),
            boot,
            page_fd,
            epoll,
            lines,
            attach_sockets: Vec::new(),
            own_folder: None,
            is_open: setup.open,
            is_shut: false,
            strangers,
            descriptors,
            processes: Slab::new(setup.processes),
            session_fds: Slab::new(session_fds.min(SESSION_FDS)),
            cookies: HashMap::new(),
            programs: BTreeMap::new(),
            spaces: BTreeMap::new(),
            next_program: 1,
            next_process: 1,
            next_worker: 0,
            shared_ports: HashMap::new(),
            counts: SupervisorCounts::default(),
            key: Key::for_this_start()
                .map_err(|error| HostError::System("read random bytes", error))?,
        };
        if setup.is_private {
            return Ok(supervisor);
        }
        supervisor.open_main_attach_socket()?;
        // Behind the attach socket's folder, which is there now and is not somebody else's.
        match Key::beside(&setup.socket) {
            Ok(key) => supervisor.key = key,
            Err(error) => {
                tracing::warn!(%error,
                    "programs of an earlier start are not known without their secrets")
            }
        }
        Ok(supervisor)
    }

    /// Readable while one of its descriptors has something.
    pub(crate) fn wait_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }

    /// Keeps host until it is stopped.
    pub(crate) fn run(&mut self) -> Result<(), HostError> {
        while !self.workers.stop.load(Ordering::Acquire) {
            self.round(EpollTimeout::NONE)?;
        }
        Ok(())
    }

    /// Waits at most so long for something to do, and does it. Answers whether there was something.
    pub(crate) fn round(&mut self, most: EpollTimeout) -> Result<bool, HostError> {
        let mut events = [EpollEvent::empty(); EVENTS];
        let found = match self.epoll.wait(&mut events, most) {
            Ok(found) => found,
            Err(Errno::EINTR) => 0,
            Err(errno) => return Err(HostError::System("wait for programs", errno.into())),
        };
        for event in &events[..found] {
            self.on_descriptor(event);
        }
        let jobs = self.inbox.mailbox.take();
        let any = found > 0 || !jobs.is_empty();
        for job in jobs {
            job(self);
        }
        self.set_timer();
        Ok(any)
    }

    pub(super) fn on_descriptor(&mut self, event: &EpollEvent) {
        match name(event.data()) {
            Some(Name::Notifier) => self.inbox.notifier.clear(),
            Some(Name::AttachSocket(index)) => self.let_in(index),
            Some(Name::Process(handle)) => self.hear(handle),
            Some(Name::SessionFds) => self.end_session_fds(),
            Some(Name::Timer) => self.on_tick(),
            Some(Name::SessionFd(_)) | None => {}
        }
    }

    /// Sees to all session fds that have hung up by now. Each that is seen to is gone, so there are
    /// no more rounds than there were session fds, whatever programs do.
    pub(super) fn end_session_fds(&mut self) {
        let mut events = [EpollEvent::empty(); EVENTS];
        for _ in 0..=self.session_fds.len() as usize / EVENTS {
            // It does not wait, so nothing interrupts it; what else is wrong is seen in the other
            // set.
            let found = self.lines.wait(&mut events, EpollTimeout::ZERO).unwrap_or(0);
            for event in &events[..found] {
                if let Some(Name::SessionFd(handle)) = name(event.data()) {
                    self.end_session_fd(handle);
                }
            }
            if found < EVENTS {
                return;
            }
        }
    }

    /// Has a worker do something that comes behind the ends of session fds.
    pub(super) fn behind_hangups(&mut self, worker: usize, job: Job<Worker>) {
        self.end_session_fds();
        self.workers.to_worker(worker, job);
    }

    /// Takes the next message of a process, or its end.
    pub(super) fn hear(&mut self, handle: Handle<Process>) {
        let Some(process) = self.processes.get(handle) else { return };
        let attach_socket = Arc::clone(&process.attach_socket);
        let by_way_back = process.by_way_back && process.member.is_none();
        match socket::recv(attach_socket.socket.as_fd(), 0) {
            Ok(Some((request, _))) => {
                // Asking again before the answer, or before it was read, is against the rules:
                // answers that nobody takes would hold descriptors of ours.
                if attach_socket.is_busy.swap(true, Ordering::AcqRel)
                    || socket::has_unread(attach_socket.socket.as_fd())
                {
                    let pid = self.processes.get(handle).map_or(0, |p| p.pid);
                    tracing::warn!(pid, "cut off: it asks before it has read the answer");
                    self.counts.cut_off += 1;
                    self.end_process(handle);
                    return;
                }
                if self.is_a_stranger_at_the_back(by_way_back, &request) {
                    self.counts.refused_other += 1;
                    attach_socket.answer(&stranger(), &[]);
                    self.end_process(handle);
                    return;
                }
                self.on_request(handle, request);
            }
            Ok(None) => self.end_process(handle),
            Err(socket::AttachSocketError::Io(error))
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted
                ) => {}
            Err(_) => {
                self.counts.cut_off += 1;
                self.end_process(handle);
            }
        }
    }
}
