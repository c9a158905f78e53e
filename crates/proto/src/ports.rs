//! The choice of source ports: a keyed hash of the destination and a random step, so that nobody off the path can guess the next one
//! (RFC 6056 3.3.3, algorithm 3, with the counter replaced by random steps as in algorithm 5).

use clearway_base::Rng;

/// Chooses source ports.
pub(crate) struct Ports {
    range: (u16, u16),
    /// Moves on by a random step with every choice. One counter for all destinations shows nothing to an observer, because what
    /// he sees is shifted by a secret that differs for each destination.
    next: u32,
}

/// The largest step: it bounds how well successive ports to one destination can be guessed from each other.
const LARGEST_STEP: u64 = 500;

impl Ports {
    /// Ports within `range`, both ends included.
    pub(crate) fn new(range: (u16, u16)) -> Ports {
        let (low, high) = (range.0.min(range.1).max(1), range.0.max(range.1).max(1));
        Ports { range: (low, high), next: 0 }
    }

    /// Every port once, from a random one on.
    pub(crate) fn all_from_anywhere(&self, rng: &mut Rng) -> impl Iterator<Item = u16> + use<> {
        let (low, high) = self.range;
        let count = u32::from(high - low) + 1;
        let first = rng.below(count.into()) as u32;
        (0..count).map(move |step| low + ((first + step) % count) as u16)
    }

    /// A port for which `is_free` says yes; None when there is none. Every port of the range is asked about once at most.
    /// `offset` is the destination's secret shift ([`crate::tcp::isn::port_offset`]).
    pub(crate) fn choose(&mut self, rng: &mut Rng, offset: u64, mut is_free: impl FnMut(u16) -> bool) -> Option<u16> {
        let count = u32::from(self.range.1 - self.range.0) + 1;
        self.next = self.next.wrapping_add(1 + rng.below(LARGEST_STEP) as u32);
        let first = (offset as u32).wrapping_add(self.next) % count;
        for i in 0..count {
            let port = self.range.0 + ((first + i) % count) as u16;
            if is_free(port) {
                self.next = self.next.wrapping_add(i);
                return Some(port);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
