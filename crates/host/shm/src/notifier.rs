//! What a sleeper waits for together with its descriptors.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};

#[cfg(test)]
mod tests;

/// A descriptor that is readable from when it was notified until it is silenced. An event counter
/// when made by [`Notifier::new`].
///
/// Whoever holds the descriptor can also silence it, or make it block. So a notifier that one
/// program gets must be neither another program's nor one that the host reads: a worker gives each
/// process an event counter of its own, and watches them with [`NotifierSet`].
#[derive(Clone, Debug)]
pub struct Notifier(Arc<OwnedFd>);

impl Notifier {
    /// A new event counter.
    pub fn new() -> io::Result<Notifier> {
        let fd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Notifier::from_fd(fd))
    }

    /// A notifier that another process made.
    pub fn from_fd(fd: OwnedFd) -> Notifier {
        Notifier(Arc::new(fd))
    }

    /// Rings. A notifier that already rings goes on notifying.
    pub fn notify(&self) {
        // The only errors are a full counter, which is readable, and a descriptor that is no event
        // counter, for which there is no remedy here.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    /// Stops notifying. What was notified for must be looked at after this call.
    pub fn clear(&self) {
        let mut buffer = [0; CLEARED_AT_ONCE];
        while rustix::io::read(&*self.0, &mut buffer) == Ok(CLEARED_AT_ONCE) {}
    }
}

/// Bytes taken from a notifier at once: enough for the counter of 8 bytes, and for many rings of a
/// [`RemoteNotifier`].
const CLEARED_AT_ONCE: usize = 64;

impl AsFd for Notifier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Notifies it of a process that is not trusted. Never blocks, whatever that process does to its
/// end: the two ends are sockets with flags of their own.
#[derive(Debug)]
pub struct RemoteNotifier(OwnedFd);

impl RemoteNotifier {
    /// A remote notifier, and the descriptor of the notifier ([`Notifier::from_fd`]) that it rings.
    pub fn new() -> io::Result<(RemoteNotifier, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        crate::socket::refuse_descriptors(ours.as_fd());
        Ok((RemoteNotifier(ours), theirs))
    }

    /// Rings. False when nobody holds the notifier any more.
    pub fn notify(&self) -> bool {
        let sent = rustix::net::send(&self.0, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        // A full socket is readable at the other end.
        matches!(sent, Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM))
    }
}

/// The notifiers of many processes, as one descriptor to sleep on. Each rings by its edge and none
/// is ever read, so a process can silence only its own.
#[derive(Debug)]
pub struct NotifierSet(OwnedFd);

impl NotifierSet {
    /// A set of notifiers without notifiers.
    pub fn new() -> io::Result<NotifierSet> {
        Ok(NotifierSet(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Listens to a notifier.
    pub fn add(&self, notifier: &Notifier) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        Ok(epoll::add(&self.0, notifier, epoll::EventData::new_u64(0), flags)?)
    }

    /// Listens to it no more.
    pub fn remove(&self, notifier: &Notifier) -> io::Result<()> {
        Ok(epoll::delete(&self.0, notifier)?)
    }

    /// After waking up: the descriptor is not readable again before another notifier is set. When
    /// very many notified it may be, which does no harm.
    pub fn settle(&self) {
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); SETTLE];
        let now = epoll::wait(&self.0, &mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        debug_assert!(now.is_ok(), "an epoll descriptor can be asked without waiting");
    }
}

/// Notifiers that are heard in one call. The others keep the descriptor readable.
const SETTLE: usize = 128;

impl AsFd for NotifierSet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
