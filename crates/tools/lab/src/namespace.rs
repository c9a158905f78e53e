//! Network namespaces without a name: a process holds each, and the kernel removes it with
//! everything in it when that process is gone, however that came about.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nix::unistd::Pid;

use crate::process::{Launch, Running};

/// How long a change to a namespace may take.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// The folder of the kernel's that shows interfaces shows those of the namespace in which it was
/// mounted.
const HOLD: &str =
    "mount -t sysfs sysfs /sys; ip link set lo up && echo held && exec sleep infinity";

/// A network namespace, its loopback up.
pub(crate) struct Namespace {
    holder: Running,
}

impl Namespace {
    pub(crate) fn new(stop: &AtomicBool) -> anyhow::Result<Namespace> {
        let launch =
            Launch::new("unshare").words("--net --mount --propagation slave sh -c").arg(HOLD);
        Ok(Namespace { holder: launch.start_until("held", stop)? })
    }

    /// The process that holds it.
    pub(crate) fn holder(&self) -> Pid {
        self.holder.pid()
    }

    /// `ip` with these words, inside.
    pub(crate) fn ip(&self, words: &str, stop: &AtomicBool) -> anyhow::Result<()> {
        Launch::new("ip").words(words).inside(self.holder()).run(TIME_LIMIT, stop)?;
        Ok(())
    }
}
