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

/// A descriptor that is readable from when it was rung until it is silenced. An event counter when made by [`Bell::new`].
///
/// Whoever holds the descriptor can also silence it, or make it block. So a bell that one program gets must be neither another program's nor
/// one that the host reads: a worker gives each process an event counter of its own, and watches them with [`Belfry`].
#[derive(Clone, Debug)]
pub struct Bell(Arc<OwnedFd>);

impl Bell {
    /// A new event counter.
    pub fn new() -> io::Result<Bell> {
        let fd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Bell::from_fd(fd))
    }

    /// A bell that another process made.
    pub fn from_fd(fd: OwnedFd) -> Bell {
        Bell(Arc::new(fd))
    }

    /// Rings. A bell that already rings goes on ringing.
    pub fn ring(&self) {
        // The only errors are a full counter, which is readable, and a descriptor that is no event counter, for which there is no remedy here.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    /// Stops ringing. What was rung for must be looked at after this call.
    pub fn silence(&self) {
        let mut buffer = [0; SILENCE];
        while rustix::io::read(&*self.0, &mut buffer) == Ok(SILENCE) {}
    }
}

/// Bytes taken from a bell at once: enough for the counter of 8 bytes, and for many rings of a [`Ringer`].
const SILENCE: usize = 64;

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Rings the bell of a process that is not trusted. Never blocks, whatever that process does to its end: the two ends are sockets with flags of their own.
#[derive(Debug)]
pub struct Ringer(OwnedFd);

impl Ringer {
    /// A ringer, and the descriptor of the bell ([`Bell::from_fd`]) that it rings.
    pub fn new() -> io::Result<(Ringer, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, theirs) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        crate::socket::refuse_descriptors(ours.as_fd());
        Ok((Ringer(ours), theirs))
    }

    /// Rings. False when nobody holds the bell any more.
    pub fn ring(&self) -> bool {
        let sent = rustix::net::send(&self.0, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        // A full socket is readable at the other end.
        matches!(sent, Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM))
    }
}

/// The bells of many processes, as one descriptor to sleep on. Each rings by its edge and none is ever read, so a process can silence only its own.
#[derive(Debug)]
pub struct Belfry(OwnedFd);

impl Belfry {
    /// A belfry without bells.
    pub fn new() -> io::Result<Belfry> {
        Ok(Belfry(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Listens to a bell.
    pub fn add(&self, bell: &Bell) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        Ok(epoll::add(&self.0, bell, epoll::EventData::new_u64(0), flags)?)
    }

    /// Listens to it no more.
    pub fn remove(&self, bell: &Bell) -> io::Result<()> {
        Ok(epoll::delete(&self.0, bell)?)
    }

    /// After waking up: the descriptor is not readable again before another bell rings. When very many rang it may be, which does no harm.
    pub fn settle(&self) {
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); SETTLE];
        let now = epoll::wait(&self.0, &mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        debug_assert!(now.is_ok(), "an epoll descriptor can be asked without waiting");
    }
}

/// Bells that are heard in one call. The others keep the descriptor readable.
const SETTLE: usize = 128;

impl AsFd for Belfry {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
