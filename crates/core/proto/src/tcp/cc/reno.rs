//! NewReno: additive increase, halving on loss (RFC 5681, with the byte counting of RFC 3465).

use super::algorithm::{Advice, Algorithm, Event};
use super::window::{MAX_CWND, Window};
use crate::tcp::ack_info::AckInfo;
use crate::tcp::rtt::Rtt;

/// Reno's state is the window alone.
pub(super) struct Reno;

impl Algorithm for Reno {
    fn on_ack(&mut self, w: &mut Window, ack: &AckInfo, _: &Rtt) {
        if !ack.cwnd_limited {
            return;
        }
        let mut acked = ack.acked;
        if w.in_slow_start() {
            acked = w.slow_start(acked);
        }
        if w.in_slow_start() {
            return;
        }
        // RFC 3465 2.1: a window's worth of acknowledged bytes is worth one segment.
        w.credit = w.credit.saturating_add(acked.min(w.cwnd));
        if w.credit >= w.cwnd {
            w.credit -= w.cwnd;
            w.cwnd = (w.cwnd + w.mss()).min(MAX_CWND);
        }
    }

    fn on_event(&mut self, w: &mut Window, event: &Event) {
        match *event {
            // RFC 5681 3.2, step 2 and 3; the inflation by three segments is in `recovery`.
            Event::Loss { flight } => w.cut_to(flight / 2),
            // RFC 8511 3.1: a mark comes from a short queue, where eight tenths are enough.
            Event::Marked { flight } => w.cut_to((u64::from(flight) * 4 / 5) as u32),
            Event::Timeout { flight, again } => {
                if !again {
                    w.cut(flight / 2);
                }
                w.collapse();
            }
            Event::Recovered { .. } | Event::Undone | Event::Idle { .. } => {}
        }
    }

    fn advice(&self) -> Advice {
        Advice::BY_WINDOW
    }
}
