//! Entering the host, and what a process has from then on.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clearway_shm::door::{self, Heirloom, Hello, Reply, Request, Token, Welcome};
use clearway_shm::layout::Message;
use clearway_shm::socket::{self, DoorError};
use clearway_shm::{HouseView, LaneView, RingConsumer, RingProducer, Segment, ShmError};

use crate::internal::Internal;
use crate::{AppConfig, Errno};

/// A host that does not answer for so long counts as gone.
const REPLY_PATIENCE: Duration = Duration::from_secs(30);

/// Processes that take the same lifeline's heirloom at once; with more, some may find none.
const HEIRS: usize = 64;

/// Descriptors beside the welcome, without the workers' bells: lane, house page, the process's bell.
const FIXED_DESCRIPTORS: usize = 3;

/// Counts attachments, so that each has a number of its own in this process and those that it was forked from.
static ATTACHMENTS: AtomicU32 = AtomicU32::new(1);

/// Why a process was not let in.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// Nobody listens there.
    #[error("no host at {}: {error} (start one with `clearway up`)", path.display())]
    NoHost {
        /// The door.
        path: PathBuf,
        /// As Linux says it.
        error: Errno,
    },
    /// Somebody may listen there, but the file's mode, or that of a folder above it, does not let this user in.
    #[error(
        "permission denied at {}: user {uid} may not use the host's socket (set `socket-mode` and the socket's group in the host's settings, or attach before the \
         change of user)",
        path.display()
    )]
    Denied {
        /// The door.
        path: PathBuf,
        /// The user that asked.
        uid: u32,
    },
    /// The host answered no: an unknown namespace, a wrong or missing secret, or a limit.
    #[error("the host at {} refused: {why}", path.display())]
    Refused {
        /// The door.
        path: PathBuf,
        /// As Linux says it.
        errno: Errno,
        /// The host's sentence.
        why: String,
    },
    /// The conversation broke, or the host is of another version.
    #[error("the host at {} cannot be understood: {why}", path.display())]
    Garbled {
        /// The door.
        path: PathBuf,
        /// What was wrong.
        why: String,
    },
}

impl AttachError {
    /// What a call fails with that needed the host.
    pub fn errno(&self) -> Errno {
        match self {
            AttachError::NoHost { .. } => Errno::NETDOWN,
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
    pub(crate) house: HouseView,
    /// Bytes of the FIFOs.
    pub(crate) fifo_sizes: (u32, u32),
    requests: Vec<Worker>,
    dead: AtomicBool,
}

/// The way to one worker.
struct Worker {
    ring: Mutex<RingProducer>,
    bell: Internal,
}

/// Everything that entering brings.
pub(crate) struct Entered {
    pub(crate) attachment: Arc<Attachment>,
    pub(crate) channel: Box<dyn ControlChannel>,
    /// A copy of the attach socket, by which its end can be noticed.
    pub(crate) pulse: Internal,
    pub(crate) lane: LaneView,
    pub(crate) events: Vec<RingConsumer>,
    pub(crate) bell: Internal,
    /// None, when the door was not reached by its file.
    pub(crate) way_back: Option<WayBack>,
}

/// How a host is reached whose door's file is out of reach, by a program that was let in before: by a name, where whoever listens must be who listened at the door.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WayBack {
    name: Vec<u8>,
    host: u32,
}

impl WayBack {
    /// As it is found by who has the door before itself.
    fn learn(path: &Path, door: &Door) -> Option<WayBack> {
        let host = socket::peer_credentials(door.socket.as_fd()).ok()?.uid;
        Some(WayBack { name: clearway_shm::paths::way_back(path)?, host })
    }

    /// Enters by it as a part of the program that the token names. None: nobody is there, or somebody else.
    pub(crate) fn enter(&self, path: &Path, config: &AppConfig, token: Token) -> Option<Entered> {
        let door = Door::of(socket::connect_by_name(&self.name).ok()?).ok()?;
        let host = socket::peer_credentials(door.socket.as_fd()).ok()?.uid;
        if host != self.host {
            return None;
        }
        say_hello(door, path, config, Some(token), None).ok()
    }
}

impl Attachment {
    /// The host is there, as far as is known.
    pub(crate) fn is_alive(&self) -> bool {
        !self.dead.load(Ordering::Acquire)
    }

    /// The host is gone.
    pub(crate) fn bury(&self) {
        self.dead.store(true, Ordering::Release);
    }

    /// Whether the process may have one more descriptor just now.
    pub(crate) fn has_free_number(&self) -> Result<(), Errno> {
        let Some(worker) = self.requests.first() else { return Ok(()) };
        rustix::io::fcntl_dupfd_cloexec(&worker.bell, 0)?;
        Ok(())
    }

    /// Puts a message into the ring to the session's worker, and wakes it if it sleeps. While the ring is full, `look` finds out whether there is a host at all.
    pub(crate) fn push(&self, message: Message, look: impl Fn()) {
        let index = door::worker_of(message.session);
        let Some(worker) = self.requests.get(index) else { return };
        loop {
            let pushed = worker.ring.lock().unwrap_or_else(PoisonError::into_inner).push(message);
            if pushed.is_ok() {
                break;
            }
            // The worker is behind. Messages are never given up: a mark that is lost is a connection that stands still.
            worker.ring();
            look();
            if !self.is_alive() {
                return;
            }
            std::thread::yield_now();
        }
        if self.house.is_asleep(index) {
            worker.ring();
        }
    }
}

impl Worker {
    fn ring(&self) {
        // A full counter rings already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

/// How this process asks the host. Today that is the attach socket; sessions in this process would be asked by a call.
pub(crate) trait ControlChannel: Send {
    /// Asks, and waits for the answer, which may bring so many descriptors.
    fn ask(&self, request: &Request, descriptors: usize) -> Result<(Reply, Vec<OwnedFd>), DoorError>;
}

/// The attach socket.
pub(crate) struct Door {
    socket: Internal,
}

impl Door {
    pub(crate) fn of(socket: OwnedFd) -> std::io::Result<Door> {
        let socket = Internal::new(socket);
        let timeout = rustix::net::sockopt::Timeout::Recv;
        rustix::net::sockopt::set_socket_timeout(&socket, timeout, Some(REPLY_PATIENCE))?;
        Ok(Door { socket })
    }
}

impl ControlChannel for Door {
    fn ask(&self, request: &Request, descriptors: usize) -> Result<(Reply, Vec<OwnedFd>), DoorError> {
        loop {
            match socket::send(self.socket.as_fd(), request, &[]) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                sent => break sent?,
            }
        }
        loop {
            match socket::recv(self.socket.as_fd(), descriptors) {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => return Err(DoorError::Io(std::io::ErrorKind::ConnectionReset.into())),
                Err(DoorError::Io(error)) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Finds the host at `path`.
fn knock(path: &Path) -> Result<Door, AttachError> {
    let no_host = |error: std::io::Error| match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            AttachError::Denied { path: path.into(), uid: rustix::process::geteuid().as_raw() }
        }
        _ => AttachError::NoHost { path: path.into(), error: error.into() },
    };
    Door::of(socket::connect(path).map_err(no_host)?).map_err(no_host)
}

/// Asks for what belongs to whoever holds a lifeline. None: it is none of this host's.
pub(crate) fn heirloom(channel: &dyn ControlChannel, lifeline: BorrowedFd<'_>) -> Option<Heirloom> {
    let cookie = socket::cookie(lifeline).ok()?;
    for _ in 0..HEIRS {
        let (Reply::Done, _) = channel.ask(&Request::Inherit { cookie }, 0).ok()? else { return None };
        // Another process that holds it too may have been quicker.
        if let Some(heirloom) = socket::take_heirloom(lifeline) {
            return Some(heirloom);
        }
    }
    None
}

/// What the holder of a lifeline gets before it is let in.
pub(crate) fn heirloom_at(path: &Path, lifeline: BorrowedFd<'_>) -> Result<Option<Heirloom>, AttachError> {
    Ok(heirloom(&knock(path)?, lifeline))
}

/// Enters the host at `path`; as a part of the program that `inherit` names, when there is one and the host knows it.
pub(crate) fn enter(path: &Path, config: &AppConfig, inherit: Option<Token>) -> Result<Entered, AttachError> {
    let door = knock(path)?;
    let way_back = WayBack::learn(path, &door);
    say_hello(door, path, config, inherit, way_back)
}

/// Enters by a connection that the host made for this process.
pub(crate) fn enter_by(door: Door, config: &AppConfig, inherit: Option<Token>) -> Result<Entered, AttachError> {
    say_hello(door, &config.door(), config, inherit, None)
}

fn say_hello(
    door: Door,
    path: &Path,
    config: &AppConfig,
    inherit: Option<Token>,
    way_back: Option<WayBack>,
) -> Result<Entered, AttachError> {
    let hello = Request::Hello(Hello {
        version: door::VERSION,
        namespace: config.namespace.clone(),
        secret: config.secret.clone(),
        program: program(),
        rx_fifo: config.rx_fifo,
        tx_fifo: config.tx_fifo,
        inherit,
        cut_through: config.cut_through,
    });
    let garbled = |why: String| AttachError::Garbled { path: path.into(), why };
    match door.ask(&hello, socket::MAX_DESCRIPTORS).map_err(|error| garbled(error.to_string()))? {
        (Reply::Welcome(welcome), descriptors) => {
            settle(door, way_back, &welcome, descriptors).map_err(|error| garbled(error.to_string()))
        }
        (Reply::Error { errno, why }, _) => Err(AttachError::Refused { path: path.into(), errno: Errno(errno), why }),
        _ => Err(garbled("it answers something that was not asked".into())),
    }
}

/// Maps what came with the welcome.
fn settle(
    door: Door,
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
    let lane = Arc::new(Segment::map(next()?.as_fd(), welcome.lane_len as usize)?);
    let house = Arc::new(Segment::map_read_only(next()?.as_fd(), welcome.house_len as usize)?).house()?;
    let bell = Internal::new(next()?);
    let mut requests = Vec::with_capacity(workers);
    let mut events = Vec::with_capacity(workers);
    for rings in &welcome.rings {
        let ring = Mutex::new(RingProducer::new(&lane, rings.requests, rings.slots)?);
        requests.push(Worker { ring, bell: Internal::new(next()?) });
        events.push(RingConsumer::new(&lane, rings.events, rings.slots)?);
    }
    let attachment = Arc::new(Attachment {
        number: ATTACHMENTS.fetch_add(1, Ordering::Relaxed),
        program: (welcome.boot, welcome.app),
        process: welcome.process,
        token: welcome.token,
        house,
        fifo_sizes: (welcome.rx_fifo, welcome.tx_fifo),
        requests,
        dead: AtomicBool::new(false),
    });
    let pulse = rustix::io::fcntl_dupfd_cloexec(&door.socket, 0).map_err(std::io::Error::from)?;
    let (pulse, lane) = (Internal::new(pulse), lane.lane()?);
    Ok(Entered { attachment, channel: Box::new(door), pulse, lane, events, bell, way_back })
}

/// This program's name.
fn program() -> String {
    let name = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&name).file_name().unwrap_or_default();
    name.to_string_lossy().chars().take(64).collect()
}
