//! The supervisor: lets processes in, hands their questions to the workers, and notices when a process or the last holder of a session is gone. It sleeps in
//! the kernel until one of its descriptors has something; no packet passes it.

mod ahead;
mod attach;
mod attach_sockets;
mod back;
mod gone;
mod questions;
mod strangers;

pub use attach::SupervisorCounts;

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use clearway_base::{Handle, Slab};
use clearway_session::mailbox::Inbox;
use clearway_session::program::Program;
use clearway_session::quota::{Permit, Quota};
use clearway_session::session_fds::SessionFds;
use clearway_shm::attach_socket::MAX_AHEAD;
use clearway_shm::notifier::RemoteNotifier;
use clearway_shm::socket;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::answer::Doorway;
use crate::descriptors::Descriptors;
use crate::error::HostError;
use crate::namespaces::Namespaces;
use crate::setup::Setup;
use crate::workers::{SupervisorCalls, Workers};

use attach_sockets::AttachSocket;
use strangers::Strangers;

/// Session fds at most for each worker's session.
const SESSION_FDS: u32 = 1 << 24;

/// Descriptors looked at before the inbox is read again.
const EVENTS: usize = 64;

/// A process, or somebody who knocked and has not said who it is.
pub(crate) struct Process {
    attach_socket: Arc<Doorway>,
    /// The process id at the kernel, 0 when it is in a PID namespace that we do not see.
    pid: u32,
    /// Its user, as the host sees users.
    uid: u32,
    /// The namespace whose attach socket it came through.
    through: Option<String>,
    /// It came by the way back.
    by_way_back: bool,
    member: Option<Member>,
}

/// A process that was let in.
struct Member {
    number: u32,
    program: Arc<Program>,
    // Kept for its descriptor: when this is dropped, the notifier's other end hangs up.
    _notifier: Arc<RemoteNotifier>,
    _permit: Permit,
    session_fds: Arc<SessionFds>,
}

/// The host's end of a session's session fd.
struct SessionFd {
    fd: OwnedFd,
    /// The kernel's name for the program's end.
    cookie: u64,
    program: Arc<Program>,
    worker: usize,
    /// 0 until the worker has made it.
    session: Arc<AtomicU64>,
    /// It was handed out before there was a session: among whose, and its name there.
    ahead: Option<(Arc<SessionFds>, u32)>,
}

/// A program and what only the supervisor knows of it.
struct Entry {
    program: Arc<Program>,
    processes: u32,
    session_fds: u32,
    /// Sockets that stayed with the kernel: what, why, how often.
    stayed: Vec<(String, String, u64)>,
    /// Its sockets of earlier starts of the host.
    revived: back::Revived,
}

/// What a descriptor in the epoll set is.
enum Name {
    Notifier,
    AttachSocket(usize),
    Process(Handle<Process>),
    SessionFds,
    SessionFd(Handle<SessionFd>),
    Timer,
}

/// The supervisor's thread has this.
pub(crate) struct Supervisor {
    workers: Arc<Workers>,
    inbox: Inbox<Supervisor>,
    namespaces: Arc<Mutex<Namespaces>>,
    /// What the host has, and may have.
    quota: Arc<Quota>,
    setup: Setup,
    boot: u64,
    page_fd: OwnedFd,
    epoll: Epoll,
    /// The session fds, in a set of their own within the other: so those that hung up before a question was asked can be seen to before it is answered.
    lines: Epoll,
    attach_sockets: Vec<Option<AttachSocket>>,
    /// The folder of the namespaces' attach sockets, when it was made for this host.
    own_folder: Option<PathBuf>,
    /// Somebody who knocks is let in. Before that, the attach sockets are there, so that who knocks waits.
    is_open: bool,
    /// Nobody can be accepted for the moment, so the attach sockets are not watched.
    is_shut: bool,
    /// Who was accepted and not let in.
    strangers: Strangers,
    descriptors: Descriptors,
    processes: Slab<Process>,
    session_fds: Slab<SessionFd>,
    /// Session fds by their cookies.
    cookies: HashMap<u64, Handle<SessionFd>>,
    programs: BTreeMap<u32, Entry>,
    /// What namespaces have, by their numbers.
    spaces: BTreeMap<u32, Arc<Quota>>,
    next_program: u32,
    next_process: u32,
    next_worker: usize,
    counts: SupervisorCounts,
    key: back::Key,
}

/// How workers reach the supervisor.
pub(crate) struct ToSupervisor(pub(crate) Inbox<Supervisor>);

impl SupervisorCalls for ToSupervisor {
    fn cut_off(&self, program: u32, why: &'static str) {
        // A supervisor that has ended has closed all attach sockets.
        let _ = self.0.post(Box::new(move |supervisor| supervisor.cut_off(program, why)));
    }

    fn check_memory(&self) {
        let _ = self.0.post(Box::new(|supervisor| supervisor.check_memory()));
    }
}

/// Slots are below 2^24, so the upper bits of the low word say what kind of thing it is.
const KIND_SHIFT: u32 = 24;
const KIND_NOTIFIER: u64 = 0;
const KIND_ATTACH_SOCKET: u64 = 1;
const KIND_PROCESS: u64 = 2;
const KIND_SESSION_FD: u64 = 3;
const KIND_SESSION_FDS: u64 = 4;
const KIND_TIMER: u64 = 5;

fn word<T>(kind: u64, handle: Handle<T>) -> u64 {
    handle.to_bits() | kind << KIND_SHIFT
}

fn name(word: u64) -> Option<Name> {
    let bits = word & !(0xff << KIND_SHIFT);
    match word >> KIND_SHIFT & 0xff {
        KIND_NOTIFIER => Some(Name::Notifier),
        KIND_ATTACH_SOCKET => Some(Name::AttachSocket(bits as u32 as usize)),
        KIND_PROCESS => Handle::from_bits(bits).map(Name::Process),
        KIND_SESSION_FDS => Some(Name::SessionFds),
        KIND_TIMER => Some(Name::Timer),
        KIND_SESSION_FD => Handle::from_bits(bits).map(Name::SessionFd),
        _ => None,
    }
}

impl Supervisor {
    pub(crate) fn new(
        setup: &Setup,
        (workers, inbox): (Arc<Workers>, Inbox<Supervisor>),
        (namespaces, quota): (Arc<Mutex<Namespaces>>, Arc<Quota>),
        (page_fd, boot): (OwnedFd, u64),
    ) -> Result<Supervisor, HostError> {
        let system = |what| move |errno: Errno| HostError::System(what, errno.into());
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(system("make an epoll set"))?;
        let notifier = EpollEvent::new(EpollFlags::EPOLLIN, KIND_NOTIFIER);
        epoll.add(&inbox.notifier, notifier).map_err(system("watch a notifier"))?;
        let lines = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(system("make an epoll set"))?;
        let event = EpollEvent::new(EpollFlags::EPOLLIN, KIND_SESSION_FDS << KIND_SHIFT);
        epoll.add(&lines.0, event).map_err(system("watch an epoll set"))?;
        let descriptors = Descriptors::of_system();
        let strangers = Strangers::new(descriptors.strangers()).map_err(system("make a timer"))?;
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
            counts: SupervisorCounts::default(),
            key: back::Key::for_this_start().map_err(|error| HostError::System("read random bytes", error))?,
        };
        supervisor.open_main_attach_socket()?;
        // Behind the attach socket's folder, which is there now and is not somebody else's.
        match back::Key::beside(&setup.socket) {
            Ok(key) => supervisor.key = key,
            Err(error) => tracing::warn!(%error, "programs of an earlier start are not known without their secrets"),
        }
        Ok(supervisor)
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

    fn on_descriptor(&mut self, event: &EpollEvent) {
        match name(event.data()) {
            Some(Name::Notifier) => self.inbox.notifier.clear(),
            Some(Name::AttachSocket(index)) => self.let_in(index),
            Some(Name::Process(handle)) => self.hear(handle),
            Some(Name::SessionFds) => self.end_session_fds(),
            Some(Name::Timer) => self.on_tick(),
            Some(Name::SessionFd(_)) | None => {}
        }
    }

    /// Sees to all session fds that have hung up by now. Each that is seen to is gone, so there are no more rounds than there were session fds, whatever programs do.
    pub(super) fn end_session_fds(&mut self) {
        let mut events = [EpollEvent::empty(); EVENTS];
        for _ in 0..=self.session_fds.len() as usize / EVENTS {
            // It does not wait, so nothing interrupts it; what else is wrong is seen in the other set.
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

    /// Takes the next message of a process, or its end.
    fn hear(&mut self, handle: Handle<Process>) {
        let Some(process) = self.processes.get(handle) else { return };
        let attach_socket = Arc::clone(&process.attach_socket);
        let by_way_back = process.by_way_back && process.member.is_none();
        match socket::recv(attach_socket.socket.as_fd(), 0) {
            Ok(Some((request, _))) => {
                // Asking again before the answer, or before it was read, is against the rules: answers that nobody takes would hold descriptors of ours.
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
                    attach_socket.answer(&back::stranger(), &[]);
                    self.end_process(handle);
                    return;
                }
                self.on_request(handle, request);
            }
            Ok(None) => self.end_process(handle),
            Err(socket::AttachSocketError::Io(error))
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted) => {}
            Err(_) => {
                self.counts.cut_off += 1;
                self.end_process(handle);
            }
        }
    }

    /// Makes a session fd for a session that a worker is about to make (0) or has made. Answers the program's end.
    fn session_fd(
        &mut self,
        program: &Arc<Program>,
        worker: usize,
        session: u64,
    ) -> Result<(OwnedFd, Arc<AtomicU64>), Errno> {
        let (theirs, session, _) = self.new_session_fd(program, worker, session)?;
        Ok((theirs, session))
    }

    /// The same, and which it is.
    fn new_session_fd(
        &mut self,
        program: &Arc<Program>,
        worker: usize,
        session: u64,
    ) -> Result<(OwnedFd, Arc<AtomicU64>, Handle<SessionFd>), Errno> {
        let system = |error: std::io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(0));
        let (ours, theirs) = socket::session_fd().map_err(system)?;
        if !self.descriptors.fits_session(&theirs) || !self.descriptors.fits_session(&ours) {
            // What is left is for programs that come, and for commands.
            tracing::warn!(app = program.number, "limit reached: open files; a session was refused");
            return Err(Errno::ENFILE);
        }
        let cookie = socket::cookie(theirs.as_fd()).map_err(system)?;
        let session = Arc::new(AtomicU64::new(session));
        let (program_too, session_too) = (Arc::clone(program), Arc::clone(&session));
        let session_fd =
            SessionFd { fd: ours, cookie, program: program_too, worker, session: session_too, ahead: None };
        let handle = self.session_fds.insert(session_fd).ok_or(Errno::ENFILE)?;
        // Nothing is asked for: a hang-up is told in any case, and what a program writes into its end is refused.
        let event = EpollEvent::new(EpollFlags::empty(), word(KIND_SESSION_FD, handle));
        let watched = match self.session_fds.get(handle) {
            Some(session_fd) => self.lines.add(&session_fd.fd, event),
            None => Err(Errno::ENFILE),
        };
        if let Err(errno) = watched {
            self.session_fds.remove(handle);
            return Err(errno);
        }
        self.cookies.insert(cookie, handle);
        if let Some(entry) = self.programs.get_mut(&program.number) {
            entry.session_fds += 1;
        }
        Ok((theirs, session, handle))
    }
}

impl Doorway {
    fn new(socket: OwnedFd) -> Doorway {
        Doorway { socket, is_busy: AtomicBool::new(false) }
    }
}
