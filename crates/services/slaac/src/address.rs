//! An address of ours: where it stands and how long it lasts (RFC 4862 5.5.3, 5.5.4).

use clearway_base::{Duration, Instant};
use clearway_wire::{Addr, Cidr};

/// RFC 4862 5.5.3 e: nobody who is not known to be a router makes an address end sooner.
const TWO_HOURS: Duration = Duration::from_secs(7200);
/// RFC 4861 4.6.2: all ones is for ever.
const FOR_EVER: u32 = u32::MAX;

/// Where an address stands, by the words of ip(8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Somebody may have it: it is not used yet.
    Tentative,
    /// In use.
    Preferred,
    /// In use, and not for new connections while there is another.
    Deprecated,
    /// Somebody has it, and had those that were tried before.
    Duplicate,
}

impl Phase {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Tentative => "tentative",
            Phase::Preferred => "preferred",
            Phase::Deprecated => "deprecated",
            Phase::Duplicate => "dadfailed",
        }
    }
}

/// An address of the interface.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    /// The address, with the length of its prefix.
    pub cidr: Cidr,
    /// Where it stands.
    pub phase: Phase,
    /// Until when it is for new connections.
    pub preferred: Instant,
    /// Until when it is ours.
    pub valid: Instant,
    /// How many were tried before it in its prefix.
    pub(crate) conflicts: u8,
    /// Whether a probe for it has left.
    pub(crate) is_probed: bool,
    /// When its probe is to leave, or has had its time.
    pub(crate) next: Instant,
}

/// When so many seconds are over.
pub(crate) fn after(now: Instant, seconds: u32) -> Instant {
    if seconds == FOR_EVER { Instant::NEVER } else { now + Duration::from_secs(seconds.into()) }
}

impl Address {
    /// Whether packets come and go by it.
    pub fn is_used(&self) -> bool {
        matches!(self.phase, Phase::Preferred | Phase::Deprecated)
    }

    /// Its prefix is advertised again with these lifetimes in seconds. False: the valid one was not
    /// taken.
    pub(crate) fn renew(&mut self, now: Instant, preferred_s: u32, valid_s: u32) -> bool {
        self.preferred = after(now, preferred_s);
        let (wanted, left) = (after(now, valid_s), self.valid.since(now));
        if wanted.since(now) > TWO_HOURS || wanted >= self.valid {
            self.valid = wanted;
            return true;
        }
        // It is shorter than what is left and than two hours.
        if left > TWO_HOURS {
            self.valid = now + TWO_HOURS;
        }
        false
    }

    /// When something is to be done about it.
    pub(crate) fn deadline(&self) -> Instant {
        let next = match self.phase {
            Phase::Tentative => self.next,
            Phase::Preferred => self.preferred,
            Phase::Deprecated | Phase::Duplicate => Instant::NEVER,
        };
        next.min(self.valid)
    }

    /// Whether it is the one that was made in this prefix.
    pub(crate) fn is_in(&self, prefix: &Addr) -> bool {
        self.cidr.contains(prefix)
    }
}
