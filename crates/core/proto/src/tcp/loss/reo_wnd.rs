//! How long what is missing may be late before it is lost (RFC 8985 6.2, steps 3 and 4).

use clearway_wire::Seq;

use crate::export::Fields;

/// Recoveries for which a wider reordering window is kept (RFC 8985 6.2, step 4).
const RECOVERIES: u8 = 16;

/// How wide the reordering window is: so many times a quarter of the shortest round trip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReoWindow {
    /// RACK.reo_wnd_mult.
    pub(crate) quarters: u8,
    /// RACK.reo_wnd_persist.
    recoveries: u8,
    /// RACK.dsack_round: SND.NXT when it was last made wider, until that is acknowledged.
    round: Option<Seq>,
}

impl ReoWindow {
    pub(crate) const NEW: ReoWindow = ReoWindow { quarters: 1, recoveries: 0, round: None };

    /// A D-SACK came while SND.UNA was `una`: something was sent again in vain. Once in a round
    /// trip the window grows for it.
    pub(crate) fn on_dsack(&mut self, una: Seq, nxt: Seq) {
        if self.round.is_none_or(|round| una.ge(round)) {
            self.round = Some(nxt);
            self.quarters = self.quarters.saturating_add(1);
        }
        self.recoveries = RECOVERIES;
    }

    /// A recovery is over.
    pub(crate) fn on_recovered(&mut self) {
        self.recoveries = self.recoveries.saturating_sub(1);
        if self.recoveries == 0 {
            self.quarters = 1;
        }
    }
}

impl ReoWindow {
    /// Its part of a record ([`crate::export`]).
    pub(crate) fn fields(&mut self, f: &mut impl Fields) {
        let ReoWindow { quarters, recoveries, round } = self;
        f.u8(341, quarters);
        f.u8(342, recoveries);
        let (mut lasts, mut until) = (round.is_some(), round.unwrap_or_default());
        f.bool(343, &mut lasts);
        f.seq(344, &mut until);
        *round = lasts.then_some(until);
    }
}

#[cfg(test)]
mod tests;
