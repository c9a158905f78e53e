//! Entering the host, and what a process has from then on.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clearway_errors::Code;
use clearway_shm::attach_socket::{self, Handoff, Hello, Reply, Request, Token, Welcome};
use clearway_shm::in_process::Stack;
use clearway_shm::layout::Message;
use clearway_shm::socket::{self, AttachSocketError};
use clearway_shm::wait::{self, PollFd};
use clearway_shm::{HostView, QueuePairView, RingConsumer, RingProducer, Segment, ShmError};

use crate::internal::Internal;
use crate::{AppConfig, Errno};

/// A host that does not answer for so long counts as gone.
const REPLY_TIME_LIMIT: Duration = Duration::from_secs(30);

/// Between two looks for an answer of a stack that another thread turns.
const PAUSE: Duration = Duration::from_micros(200);

/// Processes that take the same session fd's exec handoff at once; with more, some may find none.
const INHERITORS: usize = 64;

/// Descriptors beside the welcome, without the workers' notifiers: queue pair, host page, the
/// process's notifier.
const FIXED_DESCRIPTORS: usize = 3;

/// Counts attachments, so that each has a number of its own in this process and those that it was
/// forked from.
static ATTACHMENTS: AtomicU32 = AtomicU32::new(1);

/// Why a process was not let in.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// Nobody listens there.
    #[error("no host at {}: {error} (start one with `clearway up`)", path.display())]
    NoHost {
        /// The attach socket.
        path: PathBuf,
        /// As Linux says it.
        error: Errno,
    },
    /// Somebody may listen there, but the file's mode, or that of a folder above it, does not let
    /// this user in.
    #[error(
        "permission denied at {}: user {uid} may not use the host's socket (set `socket-mode` and \
         the socket's group in the host's settings, or attach before the \
         change of user)",
        path.display()
    )]
    Denied {
        /// The attach socket.
        path: PathBuf,
        /// The user that asked.
        uid: u32,
    },
    /// The host answered no: an unknown namespace, a wrong or missing secret, or a limit.
    #[error("the host at {} refused: {why}", path.display())]
    Refused {
        /// The attach socket.
        path: PathBuf,
        /// As Linux says it.
        errno: Errno,
        /// The host's sentence.
        why: String,
    },
    /// This is a forked child of a process that has its stack inside.
    #[error("the stack is inside of the process that this one was forked from")]
    Left,
    /// The conversation broke, or the host is of another version.
    #[error("the host at {} cannot be understood: {why}", path.display())]
    Garbled {
        /// The attach socket.
        path: PathBuf,
        /// What was wrong.
        why: String,
    },
}

impl AttachError {
    /// Of which class it is.
    pub fn code(&self) -> Code {
        match self {
            AttachError::NoHost { .. } => Code::NoHost,
            AttachError::Denied { .. } => Code::NotHeard,
            AttachError::Refused { errno, .. } => match errno.0 {
                libc::EMFILE | libc::ENFILE | libc::EUSERS | libc::ENOMEM => Code::NoRoom,
                _ => Code::NoEntry,
            },
            AttachError::Left => Code::WrongKind,
            AttachError::Garbled { .. } => Code::HostSilent,
        }
    }

    /// What a call fails with that needed the host.
    pub fn errno(&self) -> Errno {
        match self {
            AttachError::NoHost { .. } => Errno::NETDOWN,
            AttachError::Left => crate::inside::LEFT,
            AttachError::Denied { .. } => Errno(libc::EACCES),
            AttachError::Refused { errno, .. } => *errno,
            AttachError::Garbled { .. } => Errno::PROTO,
        }
    }
}

/// One entry into one host by this process.
pub(crate) struct Attachment {
    /// Which entry this is.
    pub(crate) number: u32,
    /// What names the program: which start of the host, and its number there.
    pub(crate) program: (u64, u32),
    /// This process's number at the host.
    pub(crate) process: u32,
    /// Lets a forked child in.
    pub(crate) token: Token,
    /// The host's page.
    pub(crate) host: HostView,
    /// Bytes of the FIFOs.
    pub(crate) fifo_sizes: (u32, u32),
    requests: Vec<Worker>,
    /// Some worker slept when a message was left for it quietly, and was not woken since.
    owes_notification: AtomicBool,
    dead: AtomicBool,
}

/// The way to one worker.
struct Worker {
    ring: Mutex<RingProducer>,
    notifier: Internal,
    /// It slept when a message was left for it quietly, and was not woken since.
    owed: AtomicBool,
    /// Which of its sleeps it was notified in last. It looks at the rings when that ends, so a busy
    /// process notifies it once, whatever it leaves until then.
    notified_in: AtomicU64,
}

/// Everything that entering brings.
pub(crate) struct Entered {
    pub(crate) attachment: Arc<Attachment>,
    pub(crate) channel: Box<dyn ControlChannel>,
    /// A copy of the attach socket, by which its end can be noticed.
    pub(crate) hangup_fd: Internal,
    pub(crate) queue_pair: QueuePairView,
    pub(crate) events: Vec<RingConsumer>,
    pub(crate) notifier: Internal,
    /// None, when the attach socket was not reached by its file.
    pub(crate) way_back: Option<WayBack>,
}

/// How a host is reached whose attach socket's file is out of reach, by a program that was let in
/// before: by a name, where whoever listens must be who listened at the attach socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WayBack {
    name: Vec<u8>,
    host: u32,
}

impl WayBack {
    /// As it is found by who has the attach socket before itself.
    fn learn(path: &Path, attach_socket: &AttachSocket) -> Option<WayBack> {
        let host = socket::peer_credentials(attach_socket.socket.as_fd()).ok()?.uid;
        Some(WayBack { name: clearway_shm::paths::way_back(path)?, host })
    }

    /// Enters by it as a part of the program that the token names. None: nobody is there, or
    /// somebody else.
    pub(crate) fn enter(&self, path: &Path, config: &AppConfig, token: Token) -> Option<Entered> {
        let attach_socket = AttachSocket::of(socket::connect_by_name(&self.name).ok()?).ok()?;
        let host = socket::peer_credentials(attach_socket.socket.as_fd()).ok()?.uid;
        if host != self.host {
            return None;
        }
        say_hello(attach_socket, path, config, Some(token), None).ok()
    }
}

impl Attachment {
    /// The host is there, as far as is known.
    pub(crate) fn is_alive(&self) -> bool {
        !self.dead.load(Ordering::Acquire)
    }

    /// The host is gone.
    pub(crate) fn mark_dead(&self) {
        self.dead.store(true, Ordering::Release);
    }

    /// Whether the process may have one more descriptor just now.
    pub(crate) fn has_free_number(&self) -> Result<(), Errno> {
        let Some(worker) = self.requests.first() else { return Ok(()) };
        rustix::io::fcntl_dupfd_cloexec(&worker.notifier, 0)?;
        Ok(())
    }

    /// Puts a message into the ring to the session's worker, and wakes it if it sleeps. While the
    /// ring is full, `look` finds out whether there is a host at all.
    pub(crate) fn push(&self, message: Message, look: impl Fn()) {
        let index = attach_socket::worker_of(message.session);
        let Some(worker) = self.requests.get(index) else { return };
        self.leave(worker, message, look);
        if let Some(sleep) = self.host.which_sleep(index) {
            worker.owed.store(false, Ordering::Relaxed);
            worker.wake(sleep);
        }
    }

    /// Puts a message into the ring of which the worker need not hear before this process waits for
    /// something, or tells it more. Whatever else wakes the worker makes it hear of it too.
    pub(crate) fn push_quietly(&self, message: Message, look: impl Fn()) {
        let index = attach_socket::worker_of(message.session);
        let Some(worker) = self.requests.get(index) else { return };
        self.leave(worker, message, look);
        if self
            .host
            .which_sleep(index)
            .is_some_and(|sleep| worker.notified_in.load(Ordering::Relaxed) != sleep)
        {
            worker.owed.store(true, Ordering::Relaxed);
            self.owes_notification.store(true, Ordering::Release);
        }
    }

    /// Puts a message into the ring that the worker need not hear of before it turns for another
    /// reason. Where there is no room, or another thread leaves one just now, it is given up.
    pub(crate) fn push_idly(&self, message: Message) {
        let worker = self.requests.get(attach_socket::worker_of(message.session));
        if let Some(mut ring) = worker.and_then(|worker| worker.ring.try_lock().ok()) {
            let _ = ring.push(message);
        }
    }

    /// A thread of this process is about to sleep: workers hear of what was left for them quietly.
    pub(crate) fn notify_owed_workers(&self) {
        if !self.owes_notification.load(Ordering::Relaxed)
            || !self.owes_notification.swap(false, Ordering::AcqRel)
        {
            return;
        }
        for (index, worker) in self.requests.iter().enumerate() {
            if worker.owed.swap(false, Ordering::Relaxed) {
                // One that is awake looks before it sleeps.
                if let Some(sleep) = self.host.which_sleep(index) {
                    worker.wake(sleep);
                }
            }
        }
    }

    /// Puts a message into a worker's ring.
    fn leave(&self, worker: &Worker, message: Message, look: impl Fn()) {
        loop {
            let pushed = worker.ring.lock().unwrap_or_else(PoisonError::into_inner).push(message);
            if pushed.is_ok() {
                break;
            }
            // The worker is behind. Messages are never given up: a mark that is lost is a
            // connection that stands still.
            worker.notify();
            look();
            if !self.is_alive() {
                return;
            }
            std::thread::yield_now();
        }
    }
}

impl Worker {
    /// Wakes it from this sleep. Another thread that is about to do so may notify it once more.
    fn wake(&self, sleep: u64) {
        if self.notified_in.load(Ordering::Relaxed) != sleep {
            self.notify();
            // Behind the notification: who sees this relies on it.
            self.notified_in.store(sleep, Ordering::Relaxed);
        }
    }

    fn notify(&self) {
        // A full counter rings already.
        let _ = rustix::io::write(&self.notifier, &1u64.to_ne_bytes());
    }
}

/// How this process asks the host.
pub(crate) trait ControlChannel: Send {
    /// Asks, and waits for the answer, which may bring so many descriptors.
    fn ask(
        &self,
        request: &Request,
        descriptors: usize,
    ) -> Result<(Reply, Vec<OwnedFd>), AttachSocketError>;
}

/// The attach socket.
pub(crate) struct AttachSocket {
    socket: Internal,
    /// Whoever asks a stack inside of this process turns it until the answer is there.
    inside: Option<Stack>,
}

impl AttachSocket {
    pub(crate) fn of(socket: OwnedFd) -> std::io::Result<AttachSocket> {
        let socket = Internal::new(socket);
        let timeout = rustix::net::sockopt::Timeout::Recv;
        rustix::net::sockopt::set_socket_timeout(&socket, timeout, Some(REPLY_TIME_LIMIT))?;
        Ok(AttachSocket { socket, inside: None })
    }

    /// Turns the stack inside of this process until the answer is there.
    fn await_answer(&self, stack: Stack) {
        let until = Instant::now() + REPLY_TIME_LIMIT;
        let mut fds =
            [PollFd { fd: self.socket.as_fd().as_raw_fd(), events: libc::POLLIN, found: 0 }];
        let mut timeout = Duration::ZERO;
        loop {
            let worked = stack.turn_and_attend().worked();
            let there = matches!(wait::poll(&mut fds, Some(timeout), None), Ok(found) if found > 0);
            if there || Instant::now() >= until {
                return;
            }
            // Another thread may be turning it.
            timeout = if worked { Duration::ZERO } else { PAUSE };
        }
    }
}

impl ControlChannel for AttachSocket {
    fn ask(
        &self,
        request: &Request,
        descriptors: usize,
    ) -> Result<(Reply, Vec<OwnedFd>), AttachSocketError> {
        loop {
            match socket::send(self.socket.as_fd(), request, &[]) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                sent => break sent?,
            }
        }
        if let Some(stack) = self.inside {
            self.await_answer(stack);
        }
        loop {
            match socket::recv(self.socket.as_fd(), descriptors) {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => {
                    return Err(AttachSocketError::Io(std::io::ErrorKind::ConnectionReset.into()));
                }
                Err(AttachSocketError::Io(error))
                    if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Finds the host at `path`.
fn knock(path: &Path) -> Result<AttachSocket, AttachError> {
    let no_host = |error: std::io::Error| match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            AttachError::Denied { path: path.into(), uid: rustix::process::geteuid().as_raw() }
        }
        _ => AttachError::NoHost { path: path.into(), error: error.into() },
    };
    AttachSocket::of(socket::connect(path).map_err(no_host)?).map_err(no_host)
}

/// Asks for what belongs to whoever holds a session fd. None: it is none of this host's.
pub(crate) fn handoff(channel: &dyn ControlChannel, session_fd: BorrowedFd<'_>) -> Option<Handoff> {
    let cookie = socket::cookie(session_fd).ok()?;
    for _ in 0..INHERITORS {
        let (Reply::Done, _) = channel.ask(&Request::Inherit { cookie }, 0).ok()? else {
            return None;
        };
        // Another process that holds it too may have been quicker.
        if let Some(handoff) = socket::take_handoff(session_fd) {
            return Some(handoff);
        }
    }
    None
}

/// What the holder of a session fd gets before it is let in.
pub(crate) fn handoff_at(
    path: &Path,
    session_fd: BorrowedFd<'_>,
) -> Result<Option<Handoff>, AttachError> {
    Ok(handoff(&knock(path)?, session_fd))
}

/// Enters the host at `path`; as a part of the program that `inherit` names, when there is one and
/// the host knows it.
pub(crate) fn enter(
    path: &Path,
    config: &AppConfig,
    inherit: Option<Token>,
) -> Result<Entered, AttachError> {
    let attach_socket = knock(path)?;
    let way_back = WayBack::learn(path, &attach_socket);
    say_hello(attach_socket, path, config, inherit, way_back)
}

/// Enters by a connection that the host made for this process.
pub(crate) fn enter_by(
    attach_socket: AttachSocket,
    config: &AppConfig,
    inherit: Option<Token>,
) -> Result<Entered, AttachError> {
    say_hello(attach_socket, &config.attach_socket(), config, inherit, None)
}

/// Enters the stack that is inside of this process.
pub(crate) fn enter_inside(stack: Stack, config: &AppConfig) -> Result<Entered, AttachError> {
    let path = Path::new("(inside of this process)");
    let garbled =
        |error: std::io::Error| AttachError::Garbled { path: path.into(), why: error.to_string() };
    let mut attach_socket = stack.connect().and_then(AttachSocket::of).map_err(garbled)?;
    attach_socket.inside = Some(stack);
    say_hello(attach_socket, path, config, None, None)
}

fn say_hello(
    attach_socket: AttachSocket,
    path: &Path,
    config: &AppConfig,
    inherit: Option<Token>,
    way_back: Option<WayBack>,
) -> Result<Entered, AttachError> {
    let hello = Request::Hello(Hello {
        version: attach_socket::VERSION,
        namespace: config.namespace.clone(),
        secret: config.secret.clone(),
        program: program(),
        rx_fifo: config.rx_fifo,
        tx_fifo: config.tx_fifo,
        inherit,
        cut_through: config.cut_through,
    });
    let garbled = |why: String| AttachError::Garbled { path: path.into(), why };
    match attach_socket
        .ask(&hello, socket::MAX_DESCRIPTORS)
        .map_err(|error| garbled(error.to_string()))?
    {
        (Reply::Welcome(welcome), descriptors) => {
            settle(attach_socket, way_back, &welcome, descriptors)
                .map_err(|error| garbled(error.to_string()))
        }
        (Reply::Error { errno, why }, _) => {
            Err(AttachError::Refused { path: path.into(), errno: Errno(errno), why })
        }
        _ => Err(garbled("it answers something that was not asked".into())),
    }
}

/// Maps what came with the welcome.
fn settle(
    attach_socket: AttachSocket,
    way_back: Option<WayBack>,
    welcome: &Welcome,
    descriptors: Vec<OwnedFd>,
) -> Result<Entered, ShmError> {
    let workers = welcome.rings.len();
    let missing = || ShmError::Io(std::io::ErrorKind::UnexpectedEof.into());
    if descriptors.len() != FIXED_DESCRIPTORS + workers {
        return Err(missing());
    }
    let mut descriptors = descriptors.into_iter();
    let mut next = || descriptors.next().ok_or_else(missing);
    let queue_pair = Arc::new(Segment::map(next()?.as_fd(), welcome.queue_pair_len as usize)?);
    let host =
        Arc::new(Segment::map_read_only(next()?.as_fd(), welcome.host_len as usize)?).host()?;
    let notifier = Internal::new(next()?);
    let mut requests = Vec::with_capacity(workers);
    let mut events = Vec::with_capacity(workers);
    for rings in &welcome.rings {
        let ring = Mutex::new(RingProducer::new(&queue_pair, rings.requests, rings.slots)?);
        requests.push(Worker {
            ring,
            notifier: Internal::new(next()?),
            owed: AtomicBool::new(false),
            notified_in: AtomicU64::new(0),
        });
        events.push(RingConsumer::new(&queue_pair, rings.events, rings.slots)?);
    }
    let attachment = Arc::new(Attachment {
        number: ATTACHMENTS.fetch_add(1, Ordering::Relaxed),
        program: (welcome.boot, welcome.app),
        process: welcome.process,
        token: welcome.token,
        host,
        fifo_sizes: (welcome.rx_fifo, welcome.tx_fifo),
        requests,
        owes_notification: AtomicBool::new(false),
        dead: AtomicBool::new(false),
    });
    let hangup_fd =
        rustix::io::fcntl_dupfd_cloexec(&attach_socket.socket, 0).map_err(std::io::Error::from)?;
    let (hangup_fd, queue_pair) = (Internal::new(hangup_fd), queue_pair.queue_pair()?);
    Ok(Entered {
        attachment,
        channel: Box::new(attach_socket),
        hangup_fd,
        queue_pair,
        events,
        notifier,
        way_back,
    })
}

/// This program's name.
fn program() -> String {
    let name = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&name).file_name().unwrap_or_default();
    name.to_string_lossy().chars().take(64).collect()
}

#[cfg(test)]
mod tests;
