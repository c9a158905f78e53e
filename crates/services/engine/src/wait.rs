//! Sleeping until something happens: a port has frames, somebody rings, or time has come.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use clearway_base::{Duration, Instant};
use clearway_dev::Facts;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::prctl;
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

/// What ended a sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Woken {
    /// The descriptor that is no port's is readable, or may be.
    pub(crate) rung: bool,
    /// Ports whose descriptors were asked in the same moment and had nothing, when that descriptor
    /// was what ended the sleep: bit `n` stands for the port at place `n`.
    pub(crate) quiet: u64,
}

/// Sleeps until `notifier` rings, `other` or one of the ports is readable, or `deadline`; not at
/// all when it has passed. Waking early is allowed. The ports come with their places.
pub(crate) fn sleep<'a, D: Facts + 'a>(
    notifier: &Notifier,
    other: Option<BorrowedFd<'a>>,
    ports: impl Iterator<Item = (usize, &'a D)>,
    now: Instant,
    deadline: Instant,
) -> io::Result<Woken> {
    let mut fds: [PollFd<'_>; 2 + MAX_PORTS] =
        std::array::from_fn(|_| PollFd::new(notifier.fd.as_fd(), PollFlags::POLLIN));
    let mut places = [0; 2 + MAX_PORTS];
    let mut count = 1;
    let has_other = other.is_some();
    let ports = ports.filter_map(|(place, port)| Some((place, port.wait_fd()?)));
    for (place, fd) in other.into_iter().map(|fd| (0, fd)).chain(ports) {
        if let (Some(slot), Some(at)) = (fds.get_mut(count), places.get_mut(count)) {
            *slot = PollFd::new(fd, PollFlags::POLLIN);
            *at = place;
            count += 1;
        }
    }
    // Nothing is polled too long even when it is asked for "never": a year.
    let wait = deadline.since(now).min(Duration::from_secs(365 * 86_400));
    let timeout = deadline.is_set().then(|| TimeSpec::from_duration(wait.into()));
    be_woken_in_time();
    match ppoll(&mut fds[..count], timeout, None) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    let is_found = |fd: &PollFd<'_>| fd.revents().is_some_and(|r| !r.is_empty());
    if is_found(&fds[0]) {
        notifier.clear();
    }
    let rung = has_other && is_found(&fds[1]);
    // When the time was over, a port may have something of which its descriptor says nothing.
    let asked = if rung { 2..count } else { 0..0 };
    let quiet = asked.filter(|at| !is_found(&fds[*at])).map(|at| places[at]);
    let quiet = quiet.filter(|place| *place < MAX_PORTS).fold(0, |quiet, place| quiet | 1 << place);
    Ok(Woken { rung, quiet })
}

/// How much later than asked for the system may wake a thread that drives ports, to wake it for
/// several things at once.
const TIMER_SLACK_NS: u64 = 1_000;

/// Without being told so the system takes 50 µs, which is longer than most sleeps beside a port of
/// which no descriptor tells, and than many a pause between paced segments.
fn be_woken_in_time() {
    thread_local! {
        static IS_TOLD: Cell<bool> = const { Cell::new(false) };
    }
    if !IS_TOLD.replace(true) {
        // Where it is forbidden, as some sandboxes do, it is as late as before.
        let _ = prctl::set_timerslack(TIMER_SLACK_NS);
    }
}

/// Ports that one engine drives at most.
pub(crate) const MAX_PORTS: usize = 64;

// Each has a bit.
const _: () = assert!(MAX_PORTS <= u64::BITS as usize);

#[cfg(test)]
mod tests;
