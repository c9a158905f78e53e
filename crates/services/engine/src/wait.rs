//! Sleeping until something happens: a port has frames, somebody rings, or time has come.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use clearway_base::{Duration, Instant};
use clearway_dev::Facts;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use nix::unistd;

/// Wakes one sleeping engine from any thread. Clones notify it.
#[derive(Clone, Debug)]
pub struct Notifier {
    fd: Arc<OwnedFd>,
}

impl Notifier {
    /// A notifier that nobody has notified.
    ///
    /// # Errors
    /// When the system has no descriptors left.
    pub fn new() -> io::Result<Notifier> {
        let fd = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Notifier::from_fd(fd.into()))
    }

    /// A notifier around an eventfd that exists, for somebody who has other ways to ring it. It
    /// must be nonblocking.
    pub fn from_fd(eventfd: OwnedFd) -> Notifier {
        Notifier { fd: Arc::new(eventfd) }
    }

    /// Wakes the sleeper, or keeps it from falling asleep next time.
    pub fn notify(&self) {
        // The counter can only be full when nobody has heard the notifier for 2^64 - 1 rings; it
        // rings then anyway.
        let _ = unistd::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Makes it as if nobody had notified.
    pub fn clear(&self) {
        let _ = unistd::read(&self.fd, &mut [0; 8]);
    }
}

impl AsFd for Notifier {
    /// Readable while the notifier is set.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Sleeps until `notifier` rings, `other` or one of the ports is readable, or `deadline`; not at
/// all when it has passed. Waking early is allowed. Answers whether `other` is readable.
pub(crate) fn sleep<'a, D: Facts + 'a>(
    notifier: &Notifier,
    other: Option<BorrowedFd<'a>>,
    ports: impl Iterator<Item = &'a D>,
    now: Instant,
    deadline: Instant,
) -> io::Result<bool> {
    let mut fds: [PollFd<'_>; 2 + MAX_PORTS] =
        std::array::from_fn(|_| PollFd::new(notifier.fd.as_fd(), PollFlags::POLLIN));
    let mut count = 1;
    let has_other = other.is_some();
    for fd in other.into_iter().chain(ports.filter_map(Facts::wait_fd)) {
        if let Some(place) = fds.get_mut(count) {
            *place = PollFd::new(fd, PollFlags::POLLIN);
            count += 1;
        }
    }
    // Nothing is polled too long even when it is asked for "never": a year.
    let wait = deadline.since(now).min(Duration::from_secs(365 * 86_400));
    let timeout = deadline.is_set().then(|| TimeSpec::from_duration(wait.into()));
    match ppoll(&mut fds[..count], timeout, None) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    let notified = fds[0].revents().is_some_and(|r| !r.is_empty());
    if notified {
        notifier.clear();
    }
    Ok(has_other && fds[1].revents().is_some_and(|r| !r.is_empty()))
}

/// Ports that one engine drives at most.
pub(crate) const MAX_PORTS: usize = 64;
