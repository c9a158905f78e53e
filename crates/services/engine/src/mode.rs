//! What an engine does while there is nothing to do.

use clearway_base::Duration;

/// What the engine does when there is nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Asks the ports again and again; the core is never idle.
    Polling,
    /// Sleeps at once.
    Interrupt,
    /// Goes on asking for this long after the last packet, then sleeps; sleeps at once while
    /// packets come at longer intervals than that.
    Adaptive(Duration),
}

impl Mode {
    /// The one of the two that looks longer: an engine has one sleep for all its ports.
    pub(crate) fn or_longer(self, other: Mode) -> Mode {
        match (self, other) {
            (Mode::Polling, _) | (_, Mode::Polling) => Mode::Polling,
            (Mode::Adaptive(a), Mode::Adaptive(b)) => Mode::Adaptive(a.max(b)),
            (Mode::Adaptive(spin), Mode::Interrupt) | (Mode::Interrupt, Mode::Adaptive(spin)) => {
                Mode::Adaptive(spin)
            }
            (Mode::Interrupt, Mode::Interrupt) => Mode::Interrupt,
        }
    }

    /// How long it looks for more before it sleeps.
    pub(crate) fn spin(self) -> Duration {
        match self {
            Mode::Adaptive(spin) => spin,
            Mode::Interrupt | Mode::Polling => Duration::ZERO,
        }
    }
}
