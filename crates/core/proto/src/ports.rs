//! The choice of source ports: a keyed hash of the destination and a random step, so that nobody
//! off the path can guess the next one (RFC 6056 3.3.3, algorithm 3, with the counter replaced by
//! random steps as in algorithm 5).

use clearway_base::Rng;

/// Chooses source ports.
pub(crate) struct Ports {
    range: (u16, u16),
    /// Moves on by a random step with every choice. One counter for all destinations shows nothing
    /// to an observer, because what he sees is shifted by a secret that differs for each
    /// destination.
    next: u32,
    share: Share,
}

/// Which ports are one stack's, of several that have the same addresses: those whose number leaves
/// `index` when divided by `of`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Share {
    pub(crate) index: u16,
    pub(crate) of: u16,
}

impl Share {
    /// All ports.
    pub(crate) const WHOLE: Share = Share { index: 0, of: 1 };

    pub(crate) fn is_whole(self) -> bool {
        self.of <= 1
    }

    pub(crate) fn has(self, port: u16) -> bool {
        self.is_whole() || self.owner(port) == self.index
    }

    /// Whose port it is.
    pub(crate) fn owner(self, port: u16) -> u16 {
        port.checked_rem(self.of).unwrap_or(0)
    }
}

/// The largest step: it bounds how well successive ports to one destination can be guessed from
/// each other.
const LARGEST_STEP: u64 = 500;

impl Ports {
    /// Ports within `range`, both ends included.
    pub(crate) fn new(range: (u16, u16)) -> Ports {
        let (low, high) = (range.0.min(range.1).max(1), range.0.max(range.1).max(1));
        Ports { range: (low, high), next: 0, share: Share::WHOLE }
    }

    /// Takes ports of this share only, where it matters.
    pub(crate) fn set_share(&mut self, share: Share) {
        self.share = share;
    }

    pub(crate) fn share(&self) -> Share {
        self.share
    }

    /// Every port once, from a random one on; those of our share first, because they serve for
    /// whatever follows.
    pub(crate) fn all_from_anywhere(&self, rng: &mut Rng) -> impl Iterator<Item = u16> + use<> {
        let ((low, high), share) = (self.range, self.share);
        let count = u32::from(high - low) + 1;
        let first = rng.below(count.into()) as u32;
        let all = move || (0..count).map(move |step| low + ((first + step) % count) as u16);
        all()
            .filter(move |port| share.has(*port))
            .chain(all().filter(move |port| !share.has(*port)))
    }

    /// A port for which `is_free` says yes; None when there is none. Every port of the range is
    /// asked about once at most. `offset` is the destination's secret shift
    /// ([`crate::tcp::isn::port_offset`]).
    pub(crate) fn choose(
        &mut self,
        rng: &mut Rng,
        offset: u64,
        mut is_free: impl FnMut(u16) -> bool,
    ) -> Option<u16> {
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
