//! NewReno: additive increase, halving on loss (RFC 5681, with the byte counting of RFC 3465).

use super::window::{MAX_CWND, Window};
use crate::tcp::ack_info::AckInfo;

/// Reno's state is the window alone.
pub(super) struct Reno;

impl Reno {
    pub(super) fn on_ack(w: &mut Window, ack: &AckInfo) {
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

    pub(super) fn on_loss(w: &mut Window, flight: u32) {
        // RFC 5681 3.2, step 2 and 3; the inflation by three segments is in `recovery`.
        w.cut(flight / 2);
        w.cwnd = w.ssthresh;
    }

    pub(super) fn on_rto(w: &mut Window, flight: u32, again: bool) {
        if !again {
            w.cut(flight / 2);
        }
        w.collapse();
    }
}
