//! Sizes of windows and send queues: how many bytes may be offered and unread, and how many written
//! and not acknowledged.
//!
//! A size is a step in a table of the stack, so that the record of a connection needs one byte for
//! it. An owner who names a size (SO_RCVBUF) gets the step next to it, and keeps it.

use clearway_base::Instant;
use clearway_wire::Seq;

use crate::config::TcpConfig;

/// The step where a peer does not scale windows (RFC 7323 2): no more can be offered than 16 bits
/// can say, so it does not grow.
pub(crate) const UNSCALED: u8 = 0;
/// The step that a connection begins with.
pub(crate) const INITIAL: u8 = 1;
/// The last step of those that a window grows by.
const LAST: u8 = 31;
/// The first of the fixed steps: four of them for each doubling, from 1 KiB on.
const FIXED: u8 = LAST + 1;
const FIXED_SHIFT: u32 = 8;
/// The largest size of all (RFC 7323 2.3).
pub(super) const MOST: u32 = 1 << 30;
/// Sizes by step, and the bounds of send queues.
pub(crate) struct Sizes {
    windows: [u32; 256],
    send: (u32, u32),
}

impl Sizes {
    /// As the configuration says.
    pub(crate) fn new(tcp: &TcpConfig) -> Sizes {
        let most = tcp.max_receive_window.min(MOST);
        let first = tcp.initial_receive_window.clamp(1, most.max(1));
        let mut windows = [0; 256];
        for (step, size) in (0..=u8::MAX).zip(&mut windows) {
            *size = match step {
                UNSCALED => first,
                INITIAL..=LAST => (u64::from(first) << (step - INITIAL)).min(most.into()) as u32,
                fixed => fixed_size(fixed).min(most),
            };
        }
        let most = tcp.max_send_buffer.clamp(1, MOST);
        Sizes { windows, send: (tcp.initial_send_buffer.clamp(1, most), most) }
    }

    /// How many bytes may be offered and unread at this step.
    #[inline(always)]
    pub(crate) fn window(&self, step: u8) -> u32 {
        self.windows[usize::from(step)]
    }

    /// The step at which a connection begins whose owner has fixed this one, or none, when its peer
    /// `scales` windows.
    pub(crate) fn first_step(fixed: u8, scales: bool) -> u8 {
        match fixed {
            0 if scales => INITIAL,
            0 => UNSCALED,
            fixed => fixed,
        }
    }

    /// The next step that is larger, if this one grows at all.
    pub(super) fn next(&self, step: u8) -> Option<u8> {
        ((INITIAL..LAST).contains(&step) && self.window(step + 1) > self.window(step))
            .then_some(step + 1)
    }

    /// How many bytes an owner may have written that were not acknowledged: twice the congestion
    /// window (there is one flight on its way, and one to be sent as it arrives) beside what the
    /// peer has `held` behind a hole, or as many as the `fixed` step says.
    #[inline]
    pub(crate) fn send_limit(&self, fixed: u8, cwnd: u32, held: u32) -> u32 {
        match fixed {
            0 => cwnd.saturating_mul(2).saturating_add(held).clamp(self.send.0, self.send.1),
            fixed => fixed_size(fixed),
        }
    }
}

/// The fixed step of at least `size` bytes; 0 for 0, which is none.
pub(crate) fn fixed_step(size: u32) -> u8 {
    if size == 0 {
        return 0;
    }
    (FIXED..=u8::MAX).find(|&step| fixed_size(step) >= size.min(MOST)).unwrap_or(u8::MAX)
}

/// The size of a fixed step; 0 for none.
pub(crate) const fn fixed_size(step: u8) -> u32 {
    if step < FIXED {
        return 0;
    }
    let at = (step - FIXED) as u32;
    let (whole, quarter) = (at / 4 + FIXED_SHIFT, at % 4);
    if whole >= 28 { MOST } else { (4 + quarter) << whole }
}

/// What is known of the present measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// When it began, and how far the owner had read then.
    pub since: Instant,
    pub read: Seq,
    /// The shortest round trip of it, in microseconds.
    pub rtt_us: u32,
    /// The most that a round trip has brought in those before it.
    pub most: u32,
    /// The one before it brought about twice as much as any before that.
    pub doubled: bool,
}

impl Measured {
    /// None has begun.
    pub(crate) const NONE: Measured =
        Measured { since: Instant::NEVER, read: Seq(0), rtt_us: u32::MAX, most: 0, doubled: false };
}

#[cfg(test)]
mod tests;
