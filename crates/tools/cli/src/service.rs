//! What the service manager is told (sd_notify(3)): that the host is ready, reads its settings
//! again, ends, and still works. Without a service manager, nothing.

use std::time::{Duration, Instant};

use clearway_host::HostHandle;
use sd_notify::NotifyState;

/// The service manager that started this process, if one did.
pub(crate) struct ServiceManager {
    /// How often it wants to hear that the host works: half of what it waits for (`WatchdogSec=`).
    every: Option<Duration>,
    last: Instant,
}

impl ServiceManager {
    /// As the environment says.
    pub(crate) fn of_environment() -> ServiceManager {
        let every = sd_notify::watchdog_enabled().map(|limit| limit / 2);
        ServiceManager { every, last: Instant::now() }
    }

    /// Programs and commands are let in from now on.
    pub(crate) fn ready(&self, status: &str) {
        tell(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// What the host does just now, in a line.
    pub(crate) fn status(status: &str) {
        tell(&[NotifyState::Status(status)]);
    }

    /// The settings are read again; [`ServiceManager::ready`] says that this is over.
    pub(crate) fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => tell(&[NotifyState::Reloading, now]),
            Err(error) => tracing::warn!(%error, "no clock for the service manager"),
        }
    }

    /// The host ends.
    pub(crate) fn stopping(&self) {
        tell(&[NotifyState::Stopping]);
    }

    /// For how long one may wait until [`ServiceManager::tell_alive`].
    pub(crate) fn wait_limit(&self, most: Duration) -> Duration {
        self.every.map_or(most, |every| every.saturating_sub(self.last.elapsed()).min(most))
    }

    /// Says that the host works, when it is time for that: the supervisor and every worker answer.
    /// One that hangs does not, nothing is said, and the service manager starts the host anew.
    pub(crate) fn tell_alive(&mut self, host: &HostHandle) {
        let Some(every) = self.every else { return };
        if self.last.elapsed() < every {
            return;
        }
        if host.counts().is_ok() && host.ask_all(|_| ()).is_ok() {
            tell(&[NotifyState::Watchdog]);
        }
        self.last = Instant::now();
    }
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}
