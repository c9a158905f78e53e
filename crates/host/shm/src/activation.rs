//! Sockets that a service manager made before the host began, and hands over to it
//! (sd_listen_fds(3)): who comes before the host is ready waits there.
//!
//! Which is which is told by their types, in whatever order they come: programs come to a socket of
//! packets, commands to a stream.

use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Gid, Mode};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, sockopt};

use crate::socket::{BACKLOG, refuse_descriptors};

#[cfg(test)]
mod tests;

/// The first descriptor that is handed over.
const FIRST: RawFd = 3;

/// How many a host takes.
const MOST: u32 = 2;

/// A socket that listens, and whose file somebody else made and removes.
#[derive(Debug)]
pub struct Given {
    /// The socket. It does not block.
    pub fd: OwnedFd,
    /// Its file.
    pub path: PathBuf,
}

/// What was handed over.
#[derive(Debug, Default)]
pub struct GivenSockets {
    /// Where programs are let in.
    pub programs: Option<Given>,
    /// Where commands are taken.
    pub commands: Option<Given>,
}

/// Why what was handed over is of no use.
#[derive(Debug, thiserror::Error)]
pub enum ActivationError {
    /// A variable that is no number.
    #[error("LISTEN_FDS is `{0}`, which is no number of sockets")]
    NoNumber(String),
    /// More than a host has.
    #[error(
        "LISTEN_FDS is {0}: a host takes {MOST} sockets at most, one for programs and one for \
         commands"
    )]
    TooMany(u32),
    /// It is something else, or cannot be looked at.
    #[error("descriptor {0} of LISTEN_FDS is no socket: {1}")]
    NoSocket(RawFd, io::Error),
    /// A socket of another kind.
    #[error(
        "descriptor {0} of LISTEN_FDS is {1}; programs come to ListenSequentialPacket=, commands \
         to ListenStream=, each with the path of a file"
    )]
    OtherKind(RawFd, &'static str),
    /// Two for the same.
    #[error("LISTEN_FDS has two sockets for {0}: {1} and {2}")]
    Twice(&'static str, PathBuf, PathBuf),
    /// The host would listen elsewhere.
    #[error(
        "the service manager listens for {what} at {given}, and the host was told {wanted}: name \
         the same path in the socket unit and in --socket or the settings"
    )]
    OtherPath {
        /// Who comes there.
        what: &'static str,
        /// The path of the socket that was handed over.
        given: PathBuf,
        /// The path that was wanted.
        wanted: PathBuf,
    },
}

/// Takes what the service manager handed over to this process: nothing where there is none, or
/// where it was another process's. The first call gets it, others nothing.
///
/// # Errors
/// When it is not what a host has.
pub fn take() -> Result<GivenSockets, ActivationError> {
    static IS_TAKEN: AtomicBool = AtomicBool::new(false);
    let count = handed_over(
        std::env::var("LISTEN_PID").ok().as_deref(),
        std::env::var("LISTEN_FDS").ok().as_deref(),
        std::process::id(),
    )?;
    if count == 0 || IS_TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(GivenSockets::default());
    }
    let numbers = FIRST..FIRST + count as RawFd;
    // SAFETY: LISTEN_PID names this process, so who began it left these descriptors open for it to
    // own, before anything in it opened one; and they are taken once.
    sort(numbers.map(|fd| (fd, unsafe { OwnedFd::from_raw_fd(fd) })))
}

/// How many descriptors the variables tell this process of.
fn handed_over(
    listen_pid: Option<&str>,
    listen_fds: Option<&str>,
    own: u32,
) -> Result<u32, ActivationError> {
    let (Some(pid), Some(count)) = (listen_pid, listen_fds) else { return Ok(0) };
    // What this process inherited, and what was its parent's, is not its own.
    if pid.parse() != Ok(own) {
        return Ok(0);
    }
    match count.parse() {
        Ok(count) if count > MOST => Err(ActivationError::TooMany(count)),
        Ok(count) => Ok(count),
        Err(_) => Err(ActivationError::NoNumber(count.to_owned())),
    }
}

fn sort(fds: impl Iterator<Item = (RawFd, OwnedFd)>) -> Result<GivenSockets, ActivationError> {
    let mut given = GivenSockets::default();
    for (number, fd) in fds {
        let (kind, path) = look(number, &fd)?;
        let (what, place) = match kind {
            SocketType::SEQPACKET => ("programs", &mut given.programs),
            _ => ("commands", &mut given.commands),
        };
        if let Some(other) = place {
            return Err(ActivationError::Twice(what, other.path.clone(), path));
        }
        *place = Some(Given { fd, path });
    }
    Ok(given)
}

/// What kind of socket it is, and where it listens. It is as one that this process made.
fn look(number: RawFd, fd: &OwnedFd) -> Result<(SocketType, PathBuf), ActivationError> {
    let no_socket = |errno: rustix::io::Errno| ActivationError::NoSocket(number, errno.into());
    let other = |what| ActivationError::OtherKind(number, what);
    let kind = sockopt::socket_type(fd).map_err(no_socket)?;
    if sockopt::socket_domain(fd).map_err(no_socket)? != AddressFamily::UNIX {
        return Err(other("no Unix socket"));
    }
    if kind != SocketType::SEQPACKET && kind != SocketType::STREAM {
        return Err(other("a socket of datagrams"));
    }
    if !sockopt::socket_acceptconn(fd).map_err(no_socket)? {
        return Err(other("a socket that does not listen"));
    }
    let address = rustix::net::getsockname(fd).map_err(no_socket)?;
    let address = SocketAddrUnix::try_from(address).map_err(no_socket)?;
    let path = address.path().and_then(|path| Some(PathBuf::from(path.to_str().ok()?)));
    let path = path.ok_or_else(|| other("a socket without a file"))?;
    rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC).map_err(no_socket)?;
    rustix::io::ioctl_fionbio(fd, true).map_err(no_socket)?;
    refuse_descriptors(fd.as_fd());
    Ok((kind, path))
}

impl Given {
    /// The socket, when it is where the host would listen for `what`.
    ///
    /// # Errors
    /// [`ActivationError::OtherPath`] when it is elsewhere.
    pub fn at(self, what: &'static str, wanted: &Path) -> Result<Given, ActivationError> {
        let is_same = self.path == wanted || same_file(&self.path, wanted);
        match is_same {
            true => Ok(self),
            false => {
                let (given, wanted) = (self.path, wanted.to_owned());
                Err(ActivationError::OtherPath { what, given, wanted })
            }
        }
    }

    /// Its file has this mode and group from now on, as one that the host made would have; who comes
    /// from now on sees that this process listens.
    ///
    /// # Errors
    /// When the file is somebody else's and not as wanted, or gone.
    pub fn take_over(&self, mode: u32, group: Option<u32>) -> io::Result<()> {
        let is = rustix::fs::stat(&self.path)?;
        let wrong = |what: fmt::Arguments<'_>, error: rustix::io::Errno| {
            let kind = io::Error::from(error).kind();
            io::Error::new(kind, format!("the service manager's file cannot get {what}: {error}"))
        };
        if let Some(group) = group.filter(|group| is.st_gid != *group) {
            rustix::fs::chown(&self.path, None, Some(Gid::from_raw(group)))
                .map_err(|error| wrong(format_args!("the group {group}"), error))?;
        }
        if is.st_mode & 0o777 != mode {
            rustix::fs::chmod(&self.path, Mode::from_raw_mode(mode))
                .map_err(|error| wrong(format_args!("the mode {mode:o}"), error))?;
        }
        // Linux notes anew who listens.
        Ok(rustix::net::listen(&self.fd, BACKLOG)?)
    }
}

fn same_file(one: &Path, other: &Path) -> bool {
    let of = |path: &Path| rustix::fs::stat(path).ok().map(|stat| (stat.st_dev, stat.st_ino));
    of(one).is_some_and(|one| Some(one) == of(other))
}
