//! Numbers that nobody off the path may guess: initial sequence numbers (RFC 6528), timestamp
//! offsets (RFC 7323 7.1), port offsets (RFC 6056).

use clearway_base::Instant;
use clearway_base::sip::Sip24;
use clearway_wire::{Addr, Endpoint, Seq};

/// What a hash is for. It goes into the hash, so that an answer to one question says nothing about
/// another one.
#[derive(Clone, Copy)]
enum Purpose {
    Isn = 1,
    Timestamp = 2,
    Port = 3,
    Cookie = 4,
}

/// The stack's secret, from which everything here is derived: a hash under its first half with its
/// second half taken in, so that all 32 bytes count.
#[derive(Clone, Copy)]
pub(crate) struct Secret {
    sip: Sip24,
}

impl Secret {
    /// From the 32 random bytes of the configuration.
    pub(crate) fn new(bytes: &[u8; 32]) -> Secret {
        let word = |at: usize| {
            let mut w = [0; 8];
            w.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(w)
        };
        Secret { sip: Sip24::new((word(0), word(8)), [word(16), word(24)]) }
    }

    /// The hash of two ends and of `more`. Messages for the two families, and those with and
    /// without `more`, are of different lengths or purposes, so that no two different questions are
    /// the same message.
    #[inline]
    fn hash(
        &self,
        purpose: Purpose,
        local: Endpoint,
        remote: Endpoint,
        more: Option<[u64; 2]>,
    ) -> u64 {
        let head = purpose as u64 | u64::from(local.port) << 32 | u64::from(remote.port) << 48;
        if local.addr.is_v4() && remote.addr.is_v4() {
            let half = |addr: Addr| u64::from(u32::from_le_bytes(addr.v4_octets()));
            let both = half(local.addr) << 32 | half(remote.addr);
            return match more {
                None => self.sip.hash([head, both]),
                Some([a, b]) => self.sip.hash([head, both, a, b]),
            };
        }
        let halves = |addr: Addr| {
            let all = u128::from_le_bytes(*addr.octets());
            (all as u64, (all >> 64) as u64)
        };
        let ((a, b), (c, d)) = (halves(local.addr), halves(remote.addr));
        match more {
            None => self.sip.hash([head, a, b, c, d]),
            Some([e, f]) => self.sip.hash([head, a, b, c, d, e, f]),
        }
    }

    /// 64 bits that depend on both ends and on `more`, for SYN cookies.
    pub(super) fn cookie_hash(&self, local: Endpoint, remote: Endpoint, more: [u64; 2]) -> u64 {
        self.hash(Purpose::Cookie, local, remote, Some(more))
    }
}

/// An initial sequence number: M + F(ends, secret), where M is a clock of 4 microseconds (RFC 6528
/// 3), so that the numbers of one pair of ends only go up, and those of different pairs say nothing
/// about each other.
pub(crate) fn isn(secret: &Secret, local: Endpoint, remote: Endpoint, now: Instant) -> Seq {
    let m = (now.as_micros() / 4) as u32;
    Seq(m.wrapping_add(secret.hash(Purpose::Isn, local, remote, None) as u32))
}

/// What is added to the millisecond clock in timestamps sent to one peer. It is the same for all
/// connections between two addresses, because TIME-WAIT and PAWS lean on timestamps that grow from
/// one connection to the next (RFC 7323 5.8, RFC 6191), and it hides the host's uptime.
pub(crate) fn ts_offset(secret: &Secret, local: Addr, remote: Addr) -> u32 {
    secret.hash(Purpose::Timestamp, Endpoint::new(local, 0), Endpoint::new(remote, 0), None) as u32
}

/// Where the search for a free source port starts for one destination (RFC 6056 3.3.3).
pub(crate) fn port_offset(secret: &Secret, local: Addr, remote: Endpoint) -> u64 {
    secret.hash(Purpose::Port, Endpoint::new(local, 0), remote, None)
}

#[cfg(test)]
mod tests;
