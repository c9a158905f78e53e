//! NewReno: additive increase, halving on loss (RFC 5681, with the byte counting of RFC 3465).

use super::algorithm::{Advice, Algorithm, Event};
use super::window::{MAX_CWND, Window};
use crate::export::Fields;
use crate::tcp::ack_info::AckInfo;
use crate::tcp::rtt::Rtt;

/// Reno's state beyond the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reno {
    /// Acknowledged bytes that wait until they are worth a segment's growth.
    credit: u32,
}

impl Reno {
    pub(super) const NEW: Reno = Reno { credit: 0 };

    /// Its part of a record ([`crate::export`]).
    pub(super) fn fields(&mut self, tag: u16, f: &mut impl Fields) {
        let Reno { credit } = self;
        f.u32(tag, credit);
    }
}

/// What a mark leaves of what is in flight. RFC 8511 3.1: it comes from a short queue, where eight
/// tenths are enough.
pub(super) fn marked(flight: u32) -> u32 {
    (u64::from(flight) * 4 / 5) as u32
}

/// What a loss, a mark and a timeout do to the window.
pub(super) fn answer(w: &mut Window, event: &Event) {
    match *event {
        // RFC 5681 3.2, step 2 and 3; the inflation by three segments is in `recovery`.
        Event::Loss { flight } => w.cut_to(flight / 2),
        Event::Marked { flight } => w.cut_finely_to(marked(flight)),
        Event::Timeout { flight, again } => {
            if !again {
                w.cut(flight / 2);
            }
            w.collapse();
        }
        Event::Recovered { .. } | Event::Undone | Event::Idle { .. } => {}
    }
}

impl Algorithm for Reno {
    fn on_ack(&mut self, w: &mut Window, ack: &AckInfo, _: &Rtt) {
        if !ack.cwnd_limited {
            return;
        }
        let mut acked = ack.credit;
        if w.in_slow_start() {
            acked = w.slow_start(acked);
        }
        if w.in_slow_start() {
            return;
        }
        // RFC 3465 2.1: a window's worth of acknowledged bytes is worth one segment.
        self.credit = self.credit.saturating_add(acked.min(w.cwnd));
        if self.credit >= w.cwnd {
            self.credit -= w.cwnd;
            w.cwnd = (w.cwnd + w.mss()).min(MAX_CWND);
        }
    }

    fn on_event(&mut self, w: &mut Window, event: &Event) {
        if event.ends_growth() {
            self.credit = 0;
        }
        answer(w, event);
    }

    fn advice(&self) -> Advice {
        Advice::BY_WINDOW
    }
}
