//! Ctrl-C and friends as something to wait for.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use clearway_engine::Notifier;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;

/// SIGINT, SIGTERM and SIGHUP, which from now on only this tells of; SIGUSR1 and SIGUSR2 do
/// nothing. Make it before starting threads: they inherit that.
pub(crate) struct Signals {
    fd: SignalFd,
    /// SIGHUP asks for the settings to be read again, and not for the end.
    reloads: bool,
}

/// Why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Woken {
    /// Somebody asks the program to end.
    Signal,
    /// Somebody asks the program to read its settings again.
    Reload,
    /// The notifier notified.
    Notifier,
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
    /// Takes them; each asks the program to end.
    pub(crate) fn take() -> anyhow::Result<Signals> {
        Signals::taken(false)
    }

    /// Takes them; SIGHUP asks for the settings to be read again.
    pub(crate) fn take_with_reload() -> anyhow::Result<Signals> {
        Signals::taken(true)
    }

    fn taken(reloads: bool) -> anyhow::Result<Signals> {
        let told = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
        // Those that are held back and that nobody asks for wait for ever: they would end the
        // program, and mean nothing to it.
        let held = SigSet::from_iter([Signal::SIGUSR1, Signal::SIGUSR2]);
        told.thread_block()?;
        held.thread_block()?;
        let fd = SignalFd::with_flags(&told, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Signals { fd, reloads })
    }

    /// Takes those that have come.
    pub(crate) fn clear(&self) -> anyhow::Result<()> {
        while self.fd.read_signal()?.is_some() {}
        Ok(())
    }

    /// Waits for a signal, for the notifier, or for `timeout`.
    pub(crate) fn wait(&self, notifier: &Notifier, timeout: Duration) -> anyhow::Result<Woken> {
        let mut fds = [
            PollFd::new(self.fd.as_fd(), PollFlags::POLLIN),
            PollFd::new(notifier.as_fd(), PollFlags::POLLIN),
        ];
        match ppoll(&mut fds, Some(TimeSpec::from_duration(timeout)), None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| !events.is_empty());
        let (signal, notified) = (ready(&fds[0]), ready(&fds[1]));
        if signal {
            let hang_up = Signal::SIGHUP as u32;
            return match self.fd.read_signal() {
                Ok(Some(told)) if self.reloads && told.ssi_signo == hang_up => Ok(Woken::Reload),
                _ => Ok(Woken::Signal),
            };
        }
        if notified {
            notifier.clear();
            return Ok(Woken::Notifier);
        }
        Ok(Woken::Timeout)
    }
}
