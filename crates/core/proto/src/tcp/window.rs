//! The receive window: how much room to promise, and when a promise is worth a segment of its own
//! (RFC 9293 3.8.6.2.2, RFC 7323 2).
//!
//! ```text
//!              RCV.NXT              edge promised        what the store would take
//!  ───────────────┬────────────────────┬─────────────────────┬──────▶
//!     received    │ window             │ news, worth telling │
//!                                        only when large
//! ```

use clearway_wire::Seq;

/// RFC 7323 2.3: a shift beyond this is taken as this.
pub(crate) const MAX_SCALE: u8 = 14;

/// The largest value of the window field.
const MAX_FIELD: u32 = 0xffff;

/// The smallest shift with which a window of `max_window` bytes can be said.
pub(crate) fn scale_for(max_window: u32) -> u8 {
    let bits = u32::BITS - max_window.leading_zeros();
    (bits.saturating_sub(u16::BITS) as u8).min(MAX_SCALE)
}

/// The window field of a SYN or SYN-ACK, which is never scaled (RFC 7323 2.2).
pub(crate) fn syn_field(room: u32) -> u16 {
    room.min(MAX_FIELD) as u16
}

/// A window to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Offer {
    /// The field, scaled down.
    pub(crate) field: u16,
    /// The right edge that is promised with it, or was before: segments up to here are to be taken.
    pub(crate) edge: Seq,
}

/// What a window is chosen from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// RCV.NXT.
    pub(crate) nxt: Seq,
    /// The right edge promised so far (RCV.NXT + RCV.WND).
    pub(crate) edge: Seq,
    /// What the store would take now, in bytes past RCV.NXT.
    pub(crate) room: u32,
    /// The most that it would ever take.
    pub(crate) limit: u32,
    /// The size of the segments that the peer sends.
    pub(crate) mss: u32,
    /// Our shift.
    pub(crate) scale: u8,
}

impl Room {
    /// What was promised and not used yet.
    fn promised(&self) -> u32 {
        if self.edge.gt(self.nxt) { self.edge.since(self.nxt) } else { 0 }
    }

    /// Steps below this are not told, so that the peer never gets used to small segments (silly
    /// window, RFC 9293 3.8.6.2.2).
    fn worthwhile(&self) -> u32 {
        (self.limit / 2).min(self.mss).max(1)
    }

    /// Whether so little is promised that what the owner reads may double it, and be worth telling
    /// at once ([`Room::worth_telling`]).
    pub(crate) fn is_low(&self) -> bool {
        self.promised() <= self.limit.min(MAX_FIELD << self.scale.min(MAX_SCALE)) / 2
    }

    /// The window to send now.
    ///
    /// The promised edge is never taken back. With a scale, a promise that is not a multiple of
    /// 2^scale cannot be said exactly. It is then rounded up, as long as that stays within one such
    /// step of what the store takes; otherwise the field comes out less than one step short of the
    /// promise, which RFC 7323 2.4 foresees, and `edge` still holds. Always rounding up would let
    /// the edge creep ahead of the memory with every ACK.
    #[inline(always)]
    pub(crate) fn offer(&self) -> Offer {
        let scale = u32::from(self.scale.min(MAX_SCALE));
        let step = 1u32 << scale;
        let most = MAX_FIELD << scale;
        let room = self.room.min(most);
        let promised = self.promised().min(most);
        let fresh = room >> scale << scale;
        if fresh >= promised && fresh - promised >= self.worthwhile() {
            return self.say(fresh, scale);
        }
        let up = (promised + (step - 1)) >> scale << scale;
        let backed = u64::from(up) < u64::from(self.room) + u64::from(step);
        self.say(if backed { up.min(most) } else { promised >> scale << scale }, scale)
    }

    #[inline(always)]
    fn say(&self, window: u32, scale: u32) -> Offer {
        Offer {
            field: (window >> scale) as u16,
            edge: self.edge.max(self.nxt).max(self.nxt + window),
        }
    }

    /// Whether the owner's reading has opened the window so far that the peer should be told at
    /// once and not with the next segment: it grows by two segments or half of all, it was less
    /// than that and doubles, or it was (nearly) shut.
    ///
    /// A peer whose segments are as long as half of all, which is not a multiple of the scale's
    /// step, would else wait for a delayed ACK with each of them.
    #[inline(always)]
    pub(crate) fn worth_telling(&self) -> bool {
        let scale = u32::from(self.scale.min(MAX_SCALE));
        let step = 1u32 << scale;
        let fresh = self.room.min(MAX_FIELD << scale) >> scale << scale;
        let grows = fresh.saturating_sub(self.promised());
        let was_shut = self.promised() < self.worthwhile().max(step);
        if was_shut {
            grows >= self.worthwhile()
        } else {
            grows >= (2 * self.mss).min(self.limit / 2).max(1)
                || self.is_low() && grows >= self.promised()
        }
    }
}

#[cfg(test)]
mod tests;
