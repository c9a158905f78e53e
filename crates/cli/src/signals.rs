//! Ctrl-C and friends as something to wait for.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use clearway_engine::Bell;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;

/// SIGINT and SIGTERM, which from now on only this tells of. Make it before starting threads: they inherit that.
pub(crate) struct Signals {
    fd: SignalFd,
}

/// Why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Woken {
    /// Somebody asks the program to end.
    Signal,
    /// The bell rang.
    Bell,
    /// The time is over.
    Timeout,
}

impl AsFd for Signals {
    /// Readable when one has come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Signals {
    /// Takes both signals.
    pub(crate) fn take() -> anyhow::Result<Signals> {
        let mut set = SigSet::empty();
        set.add(Signal::SIGINT);
        set.add(Signal::SIGTERM);
        set.thread_block()?;
        let fd = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Signals { fd })
    }

    /// Waits for a signal, for the bell, or for `timeout`.
    pub(crate) fn wait(&self, bell: &Bell, timeout: Duration) -> anyhow::Result<Woken> {
        let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN), PollFd::new(bell.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut fds, Some(TimeSpec::from_duration(timeout)), None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| !events.is_empty());
        let (signal, rung) = (ready(&fds[0]), ready(&fds[1]));
        if signal {
            let _ = self.fd.read_signal();
            return Ok(Woken::Signal);
        }
        if rung {
            bell.silence();
            return Ok(Woken::Bell);
        }
        Ok(Woken::Timeout)
    }
}
