//! What BBR's first version keeps beside what the third does.

/// BBRBtlBwFilterLen is ten round trips: five slots of two.
const SLOTS: usize = 5;
const SLOT_ROUNDS: u64 = 2;

/// What it keeps of its own.
#[derive(Clone, Debug)]
pub(super) struct First {
    /// The highest rates of the last round trips, by slot.
    rates: [u64; SLOTS],
    slot: u8,
    slot_round: u64,
    /// Which gain of the cycle.
    pub(super) phase: u8,
    pub(super) recovery: Recovery,
}

/// Where a recovery is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Recovery {
    /// No ACK has come since it began.
    Begins,
    /// In its first round trip no more leaves than arrives.
    Conserves,
    /// In the others, and without any, the window grows as ever.
    Grows,
}

impl First {
    pub(super) const NEW: First =
        First { rates: [0; SLOTS], slot: 0, slot_round: 0, phase: 0, recovery: Recovery::Grows };

    /// Another stack has measured this rate.
    pub(super) fn knows(rate: u64) -> First {
        First { rates: [rate, 0, 0, 0, 0], ..First::NEW }
    }

    pub(super) fn take(&mut self, round: u64, rate: u64) {
        if round.wrapping_sub(self.slot_round) >= SLOT_ROUNDS {
            self.slot_round = round;
            self.slot = (self.slot + 1) % SLOTS as u8;
            self.rates[usize::from(self.slot)] = 0;
        }
        let slot = &mut self.rates[usize::from(self.slot)];
        *slot = rate.max(*slot);
    }

    pub(super) fn most(&self) -> u64 {
        self.rates.iter().copied().max().unwrap_or_default()
    }
}
