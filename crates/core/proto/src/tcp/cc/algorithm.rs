//! What a congestion control algorithm hears and says: four calls, and all that goes through them
//! is values.

use clearway_base::Duration;

use super::window::Window;
use crate::tcp::ack_info::AckInfo;
use crate::tcp::rtt::Rtt;

/// What happened that is no acknowledgement of new data outside of recovery.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A loss was detected, not by the timer, with `flight` bytes outstanding: once per recovery.
    Loss {
        /// FlightSize (RFC 5681 3.1).
        flight: u32,
    },
    /// The peer says that a segment was marked "congestion experienced" (RFC 3168 6.1.2), with
    /// `flight` bytes outstanding: once per round trip, and not in a round trip in which a loss was
    /// answered already.
    Marked {
        /// FlightSize.
        flight: u32,
    },
    /// Fast recovery is over with `flight` bytes outstanding.
    Recovered {
        /// FlightSize.
        flight: u32,
    },
    /// The retransmission timer ran out with `flight` bytes outstanding. `again`: it did so before
    /// for the same data.
    Timeout {
        /// FlightSize.
        flight: u32,
        /// ssthresh was cut then.
        again: bool,
    },
    /// A loss or a timeout was none: what it did is taken back.
    Undone,
    /// About to send after `idle` without anything in flight.
    Idle {
        /// Since something last left.
        idle: Duration,
        /// The retransmission timeout.
        rto: Duration,
    },
}

impl Event {
    /// What had been acknowledged towards the next step of growth does not count any more.
    pub(super) fn ends_growth(&self) -> bool {
        match *self {
            Event::Loss { .. } | Event::Marked { .. } | Event::Timeout { .. } => true,
            Event::Idle { idle, rto } => idle > rto,
            Event::Recovered { .. } | Event::Undone => false,
        }
    }
}

/// What it says of sending, beside the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Advice {
    /// Within fast recovery, proportional rate reduction says how much leaves (RFC 9937): the
    /// algorithm has no model of its own for that.
    pub uses_prr: bool,
}

/// An algorithm. The window is kept by `Cc`, which does what all have in common.
pub(super) trait Algorithm {
    /// An ACK of new data arrived outside of fast recovery.
    fn on_ack(&mut self, w: &mut Window, ack: &AckInfo, rtt: &Rtt);
    /// Something else happened. What it means for the window of every algorithm is done by
    /// `Cc::on_event`.
    fn on_event(&mut self, w: &mut Window, event: &Event);
    /// What it says of sending.
    fn advice(&self) -> Advice;
}

impl Advice {
    /// What algorithms say that know nothing of rates.
    pub(super) const BY_WINDOW: Advice = Advice { uses_prr: true };
}
