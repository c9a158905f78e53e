//! The thread that those who scrape talk to.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clearway_engine::Notifier;
use clearway_host::config::MetricsAddress;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::gather::Asker;
use super::talk::{MAX_TALKS, Stream, Talk};

/// How long nobody is accepted when the system has no descriptor for it.
const PAUSE: Duration = Duration::from_millis(100);

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    fn open(address: &MetricsAddress) -> io::Result<Listener> {
        let listener = match address {
            MetricsAddress::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Listener::Tcp(listener)
            }
            MetricsAddress::Unix(path) => {
                if UnixStream::connect(path).is_ok() {
                    return Err(io::Error::new(io::ErrorKind::AddrInUse, "somebody answers there"));
                }
                // What a host that died has left.
                remove_socket(path);
                let listener = UnixListener::bind(path)?;
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
                listener.set_nonblocking(true)?;
                Listener::Unix(listener)
            }
        };
        Ok(listener)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener) => listener.as_fd(),
        }
    }

    fn accept(&self) -> io::Result<Box<dyn Stream>> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(Box::new(stream))
            }
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(Box::new(stream))
            }
        }
    }
}

fn remove_socket(path: &Path) {
    if std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket()) {
        let _ = std::fs::remove_file(path);
    }
}

/// The thread and its socket. Both go when this is dropped.
pub(super) struct Server {
    stop: Notifier,
    thread: Option<JoinHandle<()>>,
    path: Option<PathBuf>,
}

impl Server {
    pub(super) fn begin(address: &MetricsAddress, asker: Asker) -> io::Result<Server> {
        let listener = Listener::open(address)?;
        let stop = Notifier::new()?;
        let told = stop.clone();
        let thread =
            std::thread::Builder::new().name("clearway-metrics".into()).spawn(move || {
                Serving { listener, asker, talks: Vec::new(), pause: None }.run(&told)
            })?;
        let path = match address {
            MetricsAddress::Unix(path) => Some(path.clone()),
            MetricsAddress::Tcp(_) => None,
        };
        Ok(Server { stop, thread: Some(thread), path })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.notify();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let Some(path) = &self.path {
            remove_socket(path);
        }
    }
}

struct Serving {
    listener: Listener,
    asker: Asker,
    talks: Vec<Talk>,
    /// The system had no descriptor a moment ago; until then nobody is accepted.
    pause: Option<Instant>,
}

impl Serving {
    fn run(mut self, stop: &Notifier) {
        loop {
            let (is_new, gone) = match self.wait(stop) {
                Ok(Some(found)) => found,
                Ok(None) => return,
                Err(error) => return tracing::error!(%error, "metrics are served no more"),
            };
            self.asker.notifier.clear();
            let now = Instant::now();
            let asker = &self.asker;
            let mut gone = gone.into_iter();
            self.talks.retain_mut(|talk| {
                // Nobody is there any more: poll would say so again and again.
                !gone.next().unwrap_or(false) && talk.go_on(now, asker)
            });
            if is_new {
                self.accept(now);
            }
        }
    }

    /// Waits until something is to be done; whether somebody has come, and who of the talks is
    /// gone. None: it is over.
    fn wait(&mut self, stop: &Notifier) -> io::Result<Option<(bool, Vec<bool>)>> {
        let now = Instant::now();
        self.pause = self.pause.filter(|until| now < *until);
        let come = if self.pause.is_some() { PollFlags::empty() } else { PollFlags::POLLIN };
        let mut fds = vec![
            PollFd::new(stop.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.asker.notifier.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.listener.fd(), come),
        ];
        for talk in &self.talks {
            let (read, write) = talk.waits_for();
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::POLLIN, read);
            flags.set(PollFlags::POLLOUT, write);
            fds.push(PollFd::new(talk.fd(), flags));
        }
        let due = self.talks.iter().map(Talk::due).chain(self.pause).min();
        let timeout = due.map_or(PollTimeout::NONE, |due| {
            // A millisecond more: not before it is due.
            let left = due.saturating_duration_since(now) + Duration::from_millis(1);
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
        });
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let is_set = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| !events.is_empty());
        let is_gone = |fd: &PollFd<'_>| {
            let ends = PollFlags::POLLHUP | PollFlags::POLLERR;
            fd.revents().is_some_and(|events| events.intersects(ends))
        };
        let gone = fds[3..].iter().map(is_gone).collect();
        Ok((!is_set(&fds[0])).then(|| (is_set(&fds[2]), gone)))
    }

    fn accept(&mut self, now: Instant) {
        let stream = match self.listener.accept() {
            Ok(stream) => stream,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                return;
            }
            Err(error) => {
                tracing::warn!(%error, "limit reached: nobody can ask for metrics for the moment");
                self.pause = Some(now + PAUSE);
                return;
            }
        };
        if self.talks.len() >= MAX_TALKS {
            // Who asks nothing makes room, the longest there first; when all have asked, who comes
            // is turned away.
            match self.talks.iter().position(Talk::is_silent) {
                Some(silent) => drop(self.talks.remove(silent)),
                None => return,
            }
        }
        let mut talk = Talk::new(stream, now);
        if talk.go_on(now, &self.asker) {
            self.talks.push(talk);
        }
    }
}
