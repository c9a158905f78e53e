//! What the supervisor knows: processes, programs, the session fds that it holds, and what watches
//! them.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, Weak};

use clearway_base::{Handle, Slab};
use clearway_probes::Text;
use clearway_session::mailbox::Inbox;
use clearway_session::program::Program;
use clearway_session::quota::{Permit, Quota};
use clearway_session::session_fds::SessionFds;
use clearway_shm::attach_socket::SessionId;
use clearway_shm::notifier::RemoteNotifier;
use clearway_shm::socket;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use super::key::Key;
use super::waiting::Waiting;
use crate::answer::Doorway;
use crate::descriptors::Descriptors;
use crate::namespaces::Namespaces;
use crate::setup::Setup;
use crate::workers::Workers;

/// What a program's sockets were called in an earlier start, and what they are now.
pub(super) type Revived = Vec<((u64, SessionId), Weak<AtomicU64>, usize)>;

/// One socket. Its file goes with it, if it was made here.
pub(super) struct AttachSocket {
    pub(super) fd: OwnedFd,
    pub(super) path: PathBuf,
    /// Lets into this namespace only.
    pub(super) namespace: Option<String>,
    /// It has no file, and lets in only who was let in before.
    pub(super) is_way_back: bool,
    /// The service manager made it, and listens there when the host is gone.
    pub(super) is_given: bool,
}

impl Drop for AttachSocket {
    fn drop(&mut self) {
        if !self.is_way_back && !self.is_given {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// What the supervisor has counted since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SupervisorCounts {
    /// Processes that were let in.
    pub attached: u64,
    /// Processes that showed no secret, or a wrong one.
    pub refused_secret: u64,
    /// Processes that were refused for any other reason.
    pub refused_other: u64,
    /// Processes that were let go because they said nothing: for too long, or while others wanted
    /// their place.
    pub silent: u64,
    /// Processes that did not keep to the rules of the socket, and programs that wrote something
    /// impossible into shared memory.
    pub cut_off: u64,
    /// Questions that were heard.
    pub questions: u64,
    /// Processes now.
    pub processes: u32,
    /// Programs now.
    pub programs: u32,
    /// Session fds of sessions now.
    pub session_fds: u32,
}

/// A process, or somebody who knocked and has not said who it is.
pub(crate) struct Process {
    pub(super) attach_socket: Arc<Doorway>,
    /// The process id at the kernel, 0 when it is in a PID namespace that we do not see.
    pub(super) pid: u32,
    /// Its user, as the host sees users.
    pub(super) uid: u32,
    /// The namespace whose attach socket it came through.
    pub(super) through: Option<String>,
    /// It came by the way back.
    pub(super) by_way_back: bool,
    pub(super) member: Option<Member>,
    /// Programs that handed it sockets, its own aside.
    pub(super) joined: Vec<Joined>,
}

/// A program that a process has joined.
pub(super) struct Joined {
    pub(super) program: Arc<Program>,
    pub(super) _permit: Permit,
}

/// A process that was let in.
pub(super) struct Member {
    pub(super) number: u32,
    pub(super) program: Arc<Program>,
    // Kept for its descriptor: when this is dropped, the notifier's other end hangs up.
    pub(super) _notifier: Arc<RemoteNotifier>,
    pub(super) _permit: Permit,
    pub(super) session_fds: Arc<SessionFds>,
}

/// The host's end of a session's session fd.
pub(super) struct SessionFd {
    pub(super) fd: OwnedFd,
    /// The kernel's name for the program's end.
    pub(super) cookie: u64,
    /// What `/proc` calls the program's end.
    pub(super) inode: u64,
    pub(super) program: Arc<Program>,
    pub(super) worker: usize,
    /// 0 until the worker has made it.
    pub(super) session: Arc<AtomicU64>,
    /// It was handed out before there was a session: among whose, and its name there.
    pub(super) ahead: Option<(Arc<SessionFds>, u32)>,
}

/// A program and what only the supervisor knows of it.
pub(super) struct Entry {
    pub(super) program: Arc<Program>,
    pub(super) processes: u32,
    pub(super) session_fds: u32,
    /// Sockets that stayed with the kernel: what, why, how often.
    pub(super) stayed: Vec<(String, String, u64)>,
    /// Its sockets of earlier starts of the host.
    pub(super) revived: Revived,
}

/// What a descriptor in the epoll set is.
pub(super) enum Name {
    Notifier,
    AttachSocket(usize),
    Process(Handle<Process>),
    SessionFds,
    SessionFd(Handle<SessionFd>),
    Timer,
}

/// The supervisor's thread has this.
pub(crate) struct Supervisor {
    pub(super) workers: Arc<Workers>,
    pub(super) inbox: Inbox<Supervisor>,
    pub(super) namespaces: Arc<Mutex<Namespaces>>,
    /// What the host has, and may have.
    pub(super) quota: Arc<Quota>,
    pub(super) setup: Setup,
    pub(super) boot: u64,
    pub(super) page_fd: OwnedFd,
    pub(super) epoll: Epoll,
    /// The session fds, in a set of their own within the other: so those that hung up before a
    /// question was asked can be seen to before it is answered.
    pub(super) lines: Epoll,
    pub(super) attach_sockets: Vec<Option<AttachSocket>>,
    /// The folder of the namespaces' attach sockets, when it was made for this host.
    pub(super) own_folder: Option<PathBuf>,
    /// Somebody who knocks is let in. Before that, the attach sockets are there, so that who knocks
    /// waits.
    pub(super) is_open: bool,
    /// Nobody can be accepted for the moment, so the attach sockets are not watched.
    pub(super) is_shut: bool,
    /// Who was accepted and not let in.
    pub(super) strangers: Waiting<Process>,
    pub(super) descriptors: Descriptors,
    pub(super) processes: Slab<Process>,
    pub(super) session_fds: Slab<SessionFd>,
    /// Session fds by their cookies.
    pub(super) cookies: HashMap<u64, Handle<SessionFd>>,
    pub(super) programs: BTreeMap<u32, Entry>,
    /// What namespaces have, by their numbers.
    pub(super) spaces: BTreeMap<u32, Arc<Quota>>,
    pub(super) next_program: u32,
    pub(super) next_process: u32,
    pub(super) next_worker: usize,
    /// How many datagram sockets came to each port that several share.
    pub(super) shared_ports: HashMap<u16, usize>,
    pub(super) counts: SupervisorCounts,
    pub(super) key: Key,
}

/// Slots are below 2^24, so the upper bits of the low word say what kind of thing it is.
pub(super) const KIND_SHIFT: u32 = 24;
pub(super) const KIND_NOTIFIER: u64 = 0;
pub(super) const KIND_ATTACH_SOCKET: u64 = 1;
pub(super) const KIND_PROCESS: u64 = 2;
pub(super) const KIND_SESSION_FD: u64 = 3;
pub(super) const KIND_SESSION_FDS: u64 = 4;
pub(super) const KIND_TIMER: u64 = 5;

pub(super) fn word<T>(kind: u64, handle: Handle<T>) -> u64 {
    handle.to_bits() | kind << KIND_SHIFT
}

pub(super) fn name(word: u64) -> Option<Name> {
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
    /// Makes a session fd for a session that a worker is about to make (0) or has made. Answers the
    /// program's end.
    pub(super) fn session_fd(
        &mut self,
        program: &Arc<Program>,
        worker: usize,
        session: u64,
    ) -> Result<(OwnedFd, Arc<AtomicU64>), Errno> {
        let (theirs, session, _) = self.new_session_fd(program, worker, session)?;
        Ok((theirs, session))
    }

    /// The same, and which it is.
    pub(super) fn new_session_fd(
        &mut self,
        program: &Arc<Program>,
        worker: usize,
        session: u64,
    ) -> Result<(OwnedFd, Arc<AtomicU64>, Handle<SessionFd>), Errno> {
        let system = |error: std::io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(0));
        let (ours, theirs) = socket::session_fd().map_err(system)?;
        if !self.descriptors.fits_session(&theirs) || !self.descriptors.fits_session(&ours) {
            // What is left is for programs that come, and for commands.
            tracing::warn!(
                app = program.number,
                "limit reached: open files; a session was refused"
            );
            return Err(Errno::ENFILE);
        }
        let cookie = socket::cookie(theirs.as_fd()).map_err(system)?;
        let inode = socket::inode(theirs.as_fd()).map_err(system)?;
        let session = Arc::new(AtomicU64::new(session));
        let (program_too, session_too) = (Arc::clone(program), Arc::clone(&session));
        let session_fd = SessionFd {
            fd: ours,
            cookie,
            inode,
            program: program_too,
            worker,
            session: session_too,
            ahead: None,
        };
        let handle = self.session_fds.insert(session_fd).ok_or(Errno::ENFILE)?;
        // Nothing is asked for: a hang-up is told in any case, and what a program writes into its
        // end is refused.
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
    pub(super) fn new(socket: OwnedFd) -> Doorway {
        Doorway { socket, is_busy: AtomicBool::new(false) }
    }
}

/// What probes tell of a process.
pub(super) fn traced(pid: u32, program: &Program) -> (u64, Text, Text, u64) {
    let (name, namespace) = (Text::of(&program.name), Text::of(&program.namespace));
    (pid.into(), name, namespace, program.number.into())
}
