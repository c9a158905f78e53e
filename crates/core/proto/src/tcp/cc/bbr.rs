//! BBR, in two versions: a model of the path, made of the rate at which data arrives and of the
//! shortest round trip, says how fast data leaves and how much is in flight. A loss is one sign
//! among others, so that a path that loses a little is still filled.
//!
//! ```text
//!   Bbr ─┬─ Third   BBRv3: bounds by losses and marks   ─┐
//!        └─ First   Linux's "bbr": a cycle of gains      ─┴─ Model: rate, round trip, pace
//! ```
//!
//! There are no floating-point numbers: rates are bytes in a second, gains are hundredths.

use clearway_base::{Duration, Instant, Rng};

use super::window::Window;
use crate::config::Congestion;
use crate::tcp::api::BbrInfo;
use first::First;
use model::{Mode, Model};
use third::Third;
pub(crate) use values::{Input, Known};

mod first;
mod highest;
mod model;
mod third;
mod values;

/// The state of one connection.
#[derive(Clone, Debug)]
pub(crate) enum Bbr {
    /// [`Congestion::Bbr1`].
    First(First),
    /// [`Congestion::Bbr`].
    Third(Third),
}

impl Bbr {
    /// For a connection with this window, whose round trips take `srtt` as far as is known.
    pub(crate) fn new(
        kind: Congestion,
        w: &Window,
        now: Instant,
        srtt: Option<Duration>,
        delivered: u64,
    ) -> Bbr {
        let model = Model::new(w, now, srtt, delivered);
        match kind {
            Congestion::Bbr1 => Bbr::First(First::new(model)),
            _ => Bbr::Third(Third::new(model, delivered)),
        }
    }

    /// Which version it is.
    pub(crate) fn kind(&self) -> Congestion {
        match self {
            Bbr::First(_) => Congestion::Bbr1,
            Bbr::Third(_) => Congestion::Bbr,
        }
    }

    fn model(&self) -> &Model {
        match self {
            Bbr::First(first) => &first.model,
            Bbr::Third(third) => &third.model,
        }
    }

    /// Bytes in a second at which data leaves.
    pub(crate) fn pacing_rate(&self) -> u64 {
        self.model().pacing_rate()
    }

    /// What it tells of itself.
    pub(crate) fn info(&self) -> BbrInfo {
        self.model().info()
    }

    /// Less is in flight than the path would take, to see how long a round trip is: what is
    /// measured meanwhile says nothing of rates.
    pub(crate) fn holds_back(&self) -> bool {
        self.model().mode == Mode::ProbeRtt
    }

    /// What another stack has to know.
    pub(crate) fn known(&self) -> Known {
        match self {
            Bbr::First(first) => first.known(),
            Bbr::Third(third) => third.known(),
        }
    }

    /// Goes on from what another stack has known.
    pub(crate) fn resume(&mut self, w: &Window, known: Known, now: Instant) {
        match self {
            Bbr::First(first) => first.resume(w, known, now),
            Bbr::Third(third) => third.resume(w, known, now),
        }
    }

    /// Every ACK.
    pub(crate) fn on_ack(&mut self, w: &mut Window, i: &Input, rng: &mut Rng) {
        match self {
            Bbr::First(first) => first.on_ack(w, i, rng),
            Bbr::Third(third) => third.on_ack(w, i, rng),
        }
    }

    /// About to send with nothing in flight. `limited`: the owner had too little to send.
    pub(crate) fn on_restart(
        &mut self,
        w: &mut Window,
        limited: bool,
        now: Instant,
        rng: &mut Rng,
        delivered: u64,
    ) {
        match self {
            _ if !limited => {}
            Bbr::First(first) => first.on_restart(w, now, rng),
            Bbr::Third(third) => third.on_restart(w, now, rng, delivered),
        }
    }

    /// Fast recovery begins, or the timer ran out.
    pub(crate) fn on_trouble(&mut self, w: &mut Window, timeout: bool) {
        match self {
            Bbr::First(first) => first.on_trouble(w, timeout),
            Bbr::Third(third) => third.on_trouble(w, timeout),
        }
    }

    /// A recovery that was not needed.
    pub(crate) fn on_undone(&mut self, w: &mut Window, delivered: u64) {
        match self {
            Bbr::First(first) => first.on_undone(w),
            Bbr::Third(third) => third.on_undone(w, delivered),
        }
    }

    /// The peer says, in the way of RFC 3168, that something was marked.
    pub(crate) fn on_marked(&mut self, w: &Window, delivered: u64) {
        match self {
            Bbr::First(_) => {}
            Bbr::Third(third) => third.on_marked(w, delivered),
        }
    }
}

#[cfg(test)]
mod tests;
