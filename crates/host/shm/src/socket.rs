//! The attach socket, and session fds.
//!
//! One packet is one message of at most [`MAX_MESSAGE`] bytes, with at most [`MAX_DESCRIPTORS`]
//! descriptors. What does not keep to that ends the conversation; descriptors that came along are
//! closed.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags,
    SocketType, sockopt::Timeout,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroize as _;

use crate::attach_socket::{Handoff, MAX_MESSAGE};

#[cfg(test)]
mod tests;

/// The most descriptors beside a message; Linux itself takes no more (`SCM_MAX_FD`).
pub const MAX_DESCRIPTORS: usize = 253;

/// Connections that wait to be let in.
pub(crate) const BACKLOG: i32 = 128;

/// What ends a conversation, but for [`AttachSocketError::Io`] with [`io::ErrorKind::WouldBlock`]
/// or [`io::ErrorKind::Interrupted`].
#[derive(Debug, thiserror::Error)]
pub enum AttachSocketError {
    /// The kernel said no.
    #[error("the attach socket failed")]
    Io(#[from] io::Error),
    /// Longer than any message.
    #[error("a message of more than {MAX_MESSAGE} bytes")]
    TooLong,
    /// It does not decode, or something follows it.
    #[error("a message that means nothing")]
    Garbage,
    /// More than this message may bring.
    #[error("more descriptors than the message may bring")]
    TooManyDescriptors,
}

impl From<Errno> for AttachSocketError {
    fn from(errno: Errno) -> AttachSocketError {
        AttachSocketError::Io(errno.into())
    }
}

/// Closes several descriptors: those that stand side by side, as most of one message do, in one
/// call, where the process may make any call.
pub fn close_all(fds: Vec<OwnedFd>) {
    if crate::wait::is_confined() {
        return;
    }
    let mut fds = fds.into_iter().peekable();
    while let Some(first) = fds.next() {
        let mut run = vec![first];
        let end = run[0].as_raw_fd();
        while let Some(next) = fds.next_if(|next| next.as_raw_fd() == end + run.len() as i32) {
            run.push(next);
        }
        close_side_by_side(run);
    }
}

/// The numbers of these follow each other.
fn close_side_by_side(fds: Vec<OwnedFd>) {
    let (Some(first), Some(last), true) = (fds.first(), fds.last(), fds.len() > 1) else { return };
    // SAFETY: these numbers, and no others, are the descriptors of `fds`, which nobody uses any
    // more.
    if unsafe { libc::syscall(libc::SYS_close_range, first.as_raw_fd(), last.as_raw_fd(), 0) } == 0
    {
        fds.into_iter().map(IntoRawFd::into_raw_fd).for_each(|_closed| {});
    }
}

/// A copy of a descriptor at the lowest number that is free from here on.
pub fn copy_from(fd: BorrowedFd<'_>, lowest: i32, close_on_exec: bool) -> io::Result<OwnedFd> {
    let command = if close_on_exec { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
    // SAFETY: takes a number, and no pointers.
    let copy = unsafe { libc::fcntl(fd.as_raw_fd(), command, lowest) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was just made, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Sends a message with descriptors. [`io::ErrorKind::WouldBlock`] on a socket that does not block:
/// the peer does not read.
pub fn send(
    fd: BorrowedFd<'_>,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    send_with(fd, message, descriptors, SendFlags::NOSIGNAL)
}

/// The same without descriptors, and without waiting whatever the socket is.
pub fn send_now(fd: BorrowedFd<'_>, message: &impl Serialize) -> io::Result<()> {
    send_with(fd, message, &[], SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}

fn send_with(
    fd: BorrowedFd<'_>,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> io::Result<()> {
    let mut buffer = [0; MAX_MESSAGE];
    let invalid = |error: postcard::Error| io::Error::new(io::ErrorKind::InvalidInput, error);
    let message = postcard::to_slice(message, &mut buffer).map_err(invalid)?;
    if descriptors.len() > MAX_DESCRIPTORS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        let fits = control.push(SendAncillaryMessage::ScmRights(descriptors));
        debug_assert!(fits, "the space was made for the most there can be");
    }
    let sent = rustix::net::sendmsg(fd, &[IoSlice::new(message)], &mut control, flags);
    // It may hold a secret, so nothing of it stays behind.
    message.zeroize();
    sent?;
    Ok(())
}

/// Whether the peer has not read all that was sent. Descriptors in such messages are open without
/// having a number, and the system counts them against who sent them.
pub fn has_unread(fd: BorrowedFd<'_>) -> bool {
    let mut bytes: libc::c_int = 0;
    // SAFETY: TIOCOUTQ, which sockets call SIOCOUTQ, writes one `int` through the pointer.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    done == 0 && bytes > 0
}

/// Receives a message with at most `most` descriptors. None: the peer is gone.
pub fn recv<T: DeserializeOwned>(
    fd: BorrowedFd<'_>,
    most: usize,
) -> Result<Option<(T, Vec<OwnedFd>)>, AttachSocketError> {
    // One byte more than a message may have, so that a longer one shows.
    let mut buffer = [0; MAX_MESSAGE + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    // Without a place for them, the kernel does not even open the descriptors.
    let mut control = if most == 0 {
        RecvAncillaryBuffer::default()
    } else {
        RecvAncillaryBuffer::new(&mut space)
    };
    let parts = &mut [IoSliceMut::new(&mut buffer)];
    let received = rustix::net::recvmsg(fd, parts, &mut control, RecvFlags::CMSG_CLOEXEC);
    let received = match received {
        Err(Errno::CONNRESET) => return Ok(None),
        received => received?,
    };
    // Taken into our hands first: what is dropped from here on is closed.
    let descriptors = take(&mut control);
    if received.bytes > MAX_MESSAGE || received.flags.contains(ReturnFlags::TRUNC) {
        return Err(AttachSocketError::TooLong);
    }
    if received.flags.contains(ReturnFlags::CTRUNC) || descriptors.len() > most {
        return Err(AttachSocketError::TooManyDescriptors);
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    let meant = match postcard::take_from_bytes(&buffer[..received.bytes]) {
        Ok((message, [])) => Ok(Some((message, descriptors))),
        _ => Err(AttachSocketError::Garbage),
    };
    // As in `send`.
    buffer[..received.bytes].zeroize();
    meant
}

fn take(control: &mut RecvAncillaryBuffer<'_>) -> Vec<OwnedFd> {
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    descriptors
}

/// `SO_PASSRIGHTS`, since Linux 6.16; the same number wherever Linux uses its generic socket
/// options.
const SO_PASSRIGHTS: libc::c_int = 83;

/// Lets nobody send descriptors to this socket, so that none has to be closed here. Closing
/// another's descriptor may take as long as that one likes: a TCP socket lingers, a file of a FUSE
/// daemon is flushed.
///
/// Older kernels cannot; there [`recv`] at least does not take descriptors out that are not wanted.
pub(crate) fn refuse_descriptors(fd: BorrowedFd<'_>) {
    // A kernel that does not know the option is not asked for each session again.
    static IS_UNKNOWN: AtomicBool = AtomicBool::new(false);
    if IS_UNKNOWN.load(Ordering::Relaxed) {
        return;
    }
    let (off, len) = (0 as libc::c_int, size_of::<libc::c_int>() as libc::socklen_t);
    let option = (&raw const off).cast();
    // SAFETY: the pointer is to an `int`, and its length is given.
    let done =
        unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, SO_PASSRIGHTS, option, len) };
    if done != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOPROTOOPT) {
        IS_UNKNOWN.store(true, Ordering::Relaxed);
    }
}

/// A pair of sockets: a session's session fd. The first end is the host's and does not block.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    refuse_descriptors(ours.as_fd());
    Ok((ours, theirs))
}

/// A connection as [`connect`] and [`accept`] make one. The first end is the host's and does not
/// block.
pub fn connection() -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = SocketType::SEQPACKET;
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    refuse_descriptors(ours.as_fd());
    Ok((ours, theirs))
}

/// How long the kernel lets somebody wait who reads from a session fd. It is the shortest time that
/// it knows.
const NO_BYTES: Duration = Duration::from_micros(1);

/// A session's session fd: the host's end, which is used by [`send_now`] only and needs not be told
/// that it shall not block, and the program's. Of a type that programs seldom have, so that it is
/// found again after `exec`.
///
/// Bytes of the program go through shared memory. Whoever reads or writes this descriptor by a way
/// that knows nothing of that is refused by the kernel: a write fails with EPIPE, since nothing is
/// received at the other end, and a read with EAGAIN, after a moment also where it would block.
/// Nothing is taken that nobody gets.
pub fn session_fd() -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = SocketType::SEQPACKET;
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    refuse_descriptors(ours.as_fd());
    rustix::net::shutdown(&ours, Shutdown::Read)?;
    rustix::net::sockopt::set_socket_timeout(&theirs, Timeout::Recv, Some(NO_BYTES))?;
    Ok((ours, theirs))
}

/// May the descriptor be the program's end of a session fd?
pub fn may_be_session_fd(fd: BorrowedFd<'_>) -> bool {
    rustix::net::sockopt::socket_type(fd) == Ok(SocketType::SEQPACKET)
        && rustix::net::sockopt::socket_domain(fd) == Ok(AddressFamily::UNIX)
}

/// The kernel's name for a socket: no two have the same.
pub fn cookie(fd: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(rustix::net::sockopt::socket_cookie(fd)?)
}

/// The number by which `/proc/PID/fd` and `/proc/net` name a socket.
pub fn inode(fd: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(rustix::fs::fstat(fd)?.st_ino)
}

/// Takes what the host left in a session fd, without waiting for it.
pub fn take_handoff(fd: BorrowedFd<'_>) -> Option<Handoff> {
    let mut buffer = [0; 64];
    let (len, _) = rustix::net::recv(fd, &mut buffer, RecvFlags::DONTWAIT).ok()?;
    postcard::from_bytes(buffer.get(..len)?).ok()
}

/// Listens at `path`, without blocking; `mode` is who may connect, and `group` whose the file is.
/// Nobody can send descriptors to
/// the sockets that it accepts. A socket that nobody listens at any more is replaced;
/// [`io::ErrorKind::AddrInUse`] says that somebody does.
pub fn listen(path: &Path, mode: u32, group: Option<u32>) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let fd = socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    refuse_descriptors(fd.as_fd());
    // Linux gives the file the mode of the socket, less the umask. So there is no moment at which
    // others may connect.
    rustix::fs::fchmod(&fd, rustix::fs::Mode::from_raw_mode(mode))?;
    match rustix::net::bind(&fd, &address) {
        Err(Errno::ADDRINUSE) if is_stale(path, &address) => {
            rustix::fs::unlink(path)?;
            rustix::net::bind(&fd, &address)?;
        }
        bound => bound?,
    }
    // Before anybody can come: a socket that does not listen yet refuses who connects.
    if let Some(group) = group {
        rustix::fs::chown(path, None, Some(rustix::fs::Gid::from_raw(group)))?;
    }
    // The umask may have taken away more than was wanted.
    rustix::fs::chmod(path, rustix::fs::Mode::from_raw_mode(mode))?;
    rustix::net::listen(&fd, BACKLOG)?;
    Ok(fd)
}

/// Listens at a name that is no file's, without blocking: whoever is in this network namespace may
/// connect.
pub fn listen_by_name(name: &[u8]) -> io::Result<OwnedFd> {
    let fd = socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    refuse_descriptors(fd.as_fd());
    rustix::net::bind(&fd, &SocketAddrUnix::new_abstract_name(name)?)?;
    rustix::net::listen(&fd, BACKLOG)?;
    Ok(fd)
}

/// Connects to a host by a name that is no file's. The socket blocks. Anybody may have taken the
/// name: who it is must be looked at ([`peer_credentials`]).
pub fn connect_by_name(name: &[u8]) -> io::Result<OwnedFd> {
    let fd = socket(SocketFlags::CLOEXEC)?;
    rustix::net::connect(&fd, &SocketAddrUnix::new_abstract_name(name)?)?;
    Ok(fd)
}

/// An error that names what lies at `path`, when that is no socket: nobody listens there, and it is
/// not ours to remove.
pub fn refuse_other_files(path: &Path) -> io::Result<()> {
    let Ok(stat) = rustix::fs::lstat(path) else { return Ok(()) };
    let what = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Socket => return Ok(()),
        FileType::RegularFile => "a file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        _ => "something else",
    };
    let sentence = format!(
        "what lies at {} is {what} and no socket; move it away, or name another path",
        path.display()
    );
    Err(io::Error::new(io::ErrorKind::AlreadyExists, sentence))
}

/// Whether there is a socket that nobody listens at. Any other file refuses connections too, and is
/// not ours to remove.
fn is_stale(path: &Path, address: &SocketAddrUnix) -> bool {
    let socket_file =
        |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket;
    if !rustix::fs::lstat(path).is_ok_and(socket_file) {
        return false;
    }
    let Ok(fd) = socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) else { return false };
    rustix::net::connect(&fd, address) == Err(Errno::CONNREFUSED)
}

/// The next connection of a listener, which does not block either.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(rustix::net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?)
}

/// Connects to a host. The socket blocks.
pub fn connect(path: &Path) -> io::Result<OwnedFd> {
    let fd = socket(SocketFlags::CLOEXEC)?;
    rustix::net::connect(&fd, &SocketAddrUnix::new(path)?)?;
    Ok(fd)
}

fn socket(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// Who is at the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credentials {
    /// The process that connected. 0 when it cannot be named in our PID namespace.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// Who connected, as the kernel saw it then.
pub fn peer_credentials(fd: BorrowedFd<'_>) -> io::Result<Credentials> {
    // Not by rustix, whose type for it has no process 0.
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let (option, value) = (libc::SO_PEERCRED, (&raw mut peer).cast());
    // SAFETY: the pointers are to a `ucred` and to its length.
    let done = unsafe {
        libc::getsockopt(fd.as_fd().as_raw_fd(), libc::SOL_SOCKET, option, value, &raw mut len)
    };
    match done {
        0 => Ok(Credentials { pid: peer.pid as u32, uid: peer.uid, gid: peer.gid }),
        _ => Err(io::Error::last_os_error()),
    }
}
