//! How much leaves while a loss is repaired (RFC 9937): as much less than what arrives as the
//! window is to shrink, spread over the round trip, and never a burst. What is in flight comes
//! down, or up, to ssthresh, whatever was lost.

use crate::export::Fields;

/// What one ACK in fast recovery says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    /// DeliveredData: bytes that the peer was not known to have.
    pub(crate) delivered: u32,
    /// Bytes that are taken to be in the network now.
    pub(crate) pipe: u32,
    pub(crate) ssthresh: u32,
    /// SafeACK: it acknowledges new data, and nothing more was found lost.
    pub(crate) safe: bool,
    pub(crate) mss: u32,
}

/// The variables of one fast recovery, in bytes, with the RFC's names.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Prr {
    /// RecoverFS: what was in flight when it began.
    recover_fs: u32,
    /// prr_delivered: what has arrived since.
    delivered: u32,
    /// prr_out: what has left since, beyond `due`.
    out: u32,
    /// cwnd: what may be in flight until the next ACK.
    window: u32,
    /// What ACKs before the one that began it had let go, and has not left yet.
    due: u32,
}

impl Prr {
    /// Fast recovery begins with so much in flight that the peer was not known to have. `due`: what
    /// ACKs of the same burst had let go, and had not left yet. It counts as in flight, as if it
    /// had left when they came, and leaves with the first repetition.
    pub(crate) fn begin(recover_fs: u32, due: u32) -> Prr {
        let recover_fs = recover_fs.saturating_add(due).max(1);
        Prr { recover_fs, due, ..Prr::default() }
    }

    /// Takes an ACK, the one that began it too (RFC 9937 6.2).
    pub(crate) fn on_ack(&mut self, ack: &Delivery) {
        let Delivery { delivered, pipe, ssthresh, safe, mss } = *ack;
        let pipe = pipe.saturating_add(self.due);
        self.delivered = self.delivered.saturating_add(delivered);
        let mut count = if pipe > ssthresh {
            let share = (u64::from(self.delivered) * u64::from(ssthresh))
                .div_ceil(u64::from(self.recover_fs));
            u32::try_from(share).unwrap_or(u32::MAX).saturating_sub(self.out)
        } else {
            let arrived = self.delivered.saturating_sub(self.out).max(delivered);
            let grown = if safe { arrived.saturating_add(mss) } else { arrived };
            grown.min(ssthresh - pipe)
        };
        if self.out == 0 {
            // The first repetition leaves at once.
            count = count.max(mss);
        }
        self.window = pipe.saturating_add(count);
    }

    /// Bytes have left, new ones or others.
    pub(crate) fn on_sent(&mut self, bytes: u32) {
        let due = self.due.min(bytes);
        self.due -= due;
        self.out = self.out.saturating_add(bytes - due);
    }

    /// What may be in flight.
    pub(crate) fn window(&self) -> u32 {
        self.window
    }
}

impl Prr {
    /// Its part of a record ([`crate::export`]).
    pub(crate) fn fields(&mut self, f: &mut impl Fields) {
        let Prr { recover_fs, delivered, out, window, due } = self;
        f.u32(496, recover_fs);
        f.u32(497, delivered);
        f.u32(498, out);
        f.u32(499, window);
        f.u32(486, due);
        *recover_fs = (*recover_fs).max(1);
    }
}

#[cfg(test)]
mod tests;
