//! Numbers that nobody off the path may guess: initial sequence numbers (RFC 6528), timestamp offsets (RFC 7323 7.1), port offsets (RFC 6056).

use core::hash::Hasher;

use clearway_base::Instant;
use clearway_wire::{Addr, Endpoint, Seq};
use siphasher::sip::SipHasher24;

/// What a hash is for. It goes into the hash, so that an answer to one question says nothing about another one.
#[derive(Clone, Copy)]
enum Purpose {
    Isn = 1,
    Timestamp = 2,
    Port = 3,
    Cookie = 4,
}

/// The stack's secret key, from which everything here is derived.
#[derive(Clone, Copy)]
pub(crate) struct Secret {
    key: (u64, u64),
    salt: (u64, u64),
}

impl Secret {
    /// From the 32 random bytes of the configuration.
    pub(crate) fn new(bytes: &[u8; 32]) -> Secret {
        let word = |at: usize| {
            let mut w = [0; 8];
            w.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(w)
        };
        Secret { key: (word(0), word(8)), salt: (word(16), word(24)) }
    }

    fn hash(&self, purpose: Purpose, parts: &[&[u8]]) -> u64 {
        let mut h = SipHasher24::new_with_keys(self.key.0, self.key.1);
        // The other half of the secret is hashed too, so that all 32 bytes count.
        h.write_u64(self.salt.0);
        h.write_u64(self.salt.1);
        h.write_u8(purpose as u8);
        for part in parts {
            h.write(part);
        }
        h.finish()
    }

    /// 64 bits that depend on both ends and on `more`, for SYN cookies.
    pub(super) fn cookie_hash(&self, local: Endpoint, remote: Endpoint, more: &[u8]) -> u64 {
        self.hash(Purpose::Cookie, &[&ends(local, remote), more])
    }
}

/// Both ends in fixed places, so that no two different pairs give the same bytes.
fn ends(local: Endpoint, remote: Endpoint) -> [u8; 36] {
    let mut b = [0; 36];
    b[..16].copy_from_slice(local.addr.octets());
    b[16..32].copy_from_slice(remote.addr.octets());
    b[32..34].copy_from_slice(&local.port.to_be_bytes());
    b[34..].copy_from_slice(&remote.port.to_be_bytes());
    b
}

/// An initial sequence number: M + F(ends, secret), where M is a clock of 4 microseconds (RFC 6528 3), so that the numbers of one pair of ends
/// only go up, and those of different pairs say nothing about each other.
pub(crate) fn isn(secret: &Secret, local: Endpoint, remote: Endpoint, now: Instant) -> Seq {
    let m = (now.as_micros() / 4) as u32;
    Seq(m.wrapping_add(secret.hash(Purpose::Isn, &[&ends(local, remote)]) as u32))
}

/// What is added to the millisecond clock in timestamps sent to one peer. It is the same for all connections between two addresses,
/// because TIME-WAIT and PAWS lean on timestamps that grow from one connection to the next (RFC 7323 5.8, RFC 6191), and it hides the host's uptime.
pub(crate) fn ts_offset(secret: &Secret, local: Addr, remote: Addr) -> u32 {
    secret.hash(Purpose::Timestamp, &[local.octets(), remote.octets()]) as u32
}

/// Where the search for a free source port starts for one destination (RFC 6056 3.3.3).
pub(crate) fn port_offset(secret: &Secret, local: Addr, remote: Endpoint) -> u64 {
    secret.hash(Purpose::Port, &[&ends(Endpoint::new(local, 0), remote)])
}

#[cfg(test)]
mod tests;
