//! What the supervisor does about those who have not been let in.

use super::state::Supervisor;

impl Supervisor {
    /// After anything that may have changed whether the timer is needed.
    pub(super) fn set_timer(&mut self) {
        let wanted = !self.strangers.is_empty() || self.is_shut;
        self.strangers.tick(wanted);
    }

    pub(super) fn on_tick(&mut self) {
        // What is in it does not matter: late ticks are as good as one.
        let _ = nix::unistd::read(self.strangers.timer(), &mut [0; 8]);
        self.strangers.now += 1;
        while let Some(handle) = self.strangers.overdue() {
            self.counts.silent += 1;
            tracing::warn!(
                pid = self.processes.get(handle).map_or(0, |p| p.pid),
                "silent: connected for 10 s and said nothing"
            );
            self.end_process(handle);
        }
        self.open_after_pause();
    }

    /// Somebody who was not let in is gone, so that another one may come. False when there is
    /// nobody.
    pub(super) fn make_room(&mut self) -> bool {
        let Some(handle) = self.strangers.victim() else { return false };
        self.counts.silent += 1;
        tracing::warn!(
            pid = self.processes.get(handle).map_or(0, |p| p.pid),
            "silent: made room for another one, of the user and process with most silent \
             connections"
        );
        self.end_process(handle);
        true
    }
}
