//! SYN cookies (RFC 4987 3.6): when there is no room to remember a stranger's SYN, the answer
//! itself remembers, and the stranger brings it back.
//!
//! Our initial sequence number is the cookie:
//!
//! ```text
//!   31    29 28                                   0
//!  ┌────────┬──────────────────────────────────────┐
//!  │ MSS ⊕  │ keyed hash over both ends, the peer's │     The hash changes every 64 seconds;
//!  │ 3 bits │ initial number, and the epoch         │     the epoch itself is not sent.
//!  └────────┴──────────────────────────────────────┘
//! ```
//!
//! With timestamps, the low six bits of ours carry the other options: scale (4 bits, 15 for none),
//! SACK, ECN.

use clearway_base::Instant;
use clearway_wire::{Endpoint, Seq};

use super::isn::Secret;

/// Seconds that one epoch lasts. A cookie is good in its own epoch and in the next: at least 64 and
/// at most 128 seconds.
const EPOCH_SECS: u64 = 64;

/// Epochs that are tried, the present one included.
const EPOCHS: u64 = 2;

/// Bits of the hash that are in the cookie.
const HASH_BITS: u32 = 29;

/// Segment sizes that a cookie can name, chosen where peers are: the floor, the defaults, tunnels,
/// PPPoE, Ethernet, jumbo frames.
const MSS_V4: [u16; 8] = [88, 256, 536, 1220, 1360, 1440, 1460, 8960];
const MSS_V6: [u16; 8] = [88, 536, 1220, 1360, 1400, 1420, 1440, 8940];

/// Options of the peer's SYN that our timestamp carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CookieOptions {
    /// SACK permitted.
    pub(crate) sack: bool,
    /// The SYN asked for ECN (RFC 3168 6.1.1).
    pub(crate) ecn: bool,
    /// The peer's shift, at most 14; None when it offered no scaling.
    pub(crate) scale: Option<u8>,
}

/// Bits of the timestamp that carry options.
const OPTION_BITS: u32 = 6;
const NO_SCALE: u32 = 15;

fn sizes(local: Endpoint) -> &'static [u16; 8] {
    if local.addr.is_v4() { &MSS_V4 } else { &MSS_V6 }
}

fn epoch_hash(
    secret: &Secret,
    local: Endpoint,
    remote: Endpoint,
    peer_isn: Seq,
    epoch: u64,
) -> u64 {
    secret.cookie_hash(local, remote, [epoch, peer_isn.0.into()])
}

/// Splits a hash into what is compared and what hides the size.
fn split(hash: u64) -> (u32, u32) {
    (hash as u32 & ((1 << HASH_BITS) - 1), (hash >> 61) as u32)
}

/// The cookie for a SYN with the number `peer_isn`, whose sender takes segments of `mss`: our
/// initial sequence number. The size is rounded down to one that a cookie can name.
pub(crate) fn make(
    secret: &Secret,
    local: Endpoint,
    remote: Endpoint,
    peer_isn: Seq,
    mss: u16,
    now: Instant,
) -> Seq {
    let index = sizes(local).iter().rposition(|&m| m <= mss).unwrap_or(0) as u32;
    let (tag, mask) = split(epoch_hash(
        secret,
        local,
        remote,
        peer_isn,
        now.as_nanos() / (EPOCH_SECS * 1_000_000_000),
    ));
    Seq((index ^ mask) << HASH_BITS | tag)
}

/// Whether `ours` (SEG.ACK - 1) is a cookie that we gave to this peer for `peer_isn` (SEG.SEQ - 1)
/// in this epoch or the one before. Returns the segment size that it names.
pub(crate) fn check(
    secret: &Secret,
    local: Endpoint,
    remote: Endpoint,
    peer_isn: Seq,
    ours: Seq,
    now: Instant,
) -> Option<u16> {
    let epoch = now.as_nanos() / (EPOCH_SECS * 1_000_000_000);
    (epoch.saturating_sub(EPOCHS - 1)..=epoch).rev().find_map(|epoch| {
        let (tag, mask) = split(epoch_hash(secret, local, remote, peer_isn, epoch));
        let (theirs, index) = (ours.0 & ((1 << HASH_BITS) - 1), ours.0 >> HASH_BITS ^ mask);
        // `index` has three bits.
        (theirs == tag).then(|| sizes(local)[index as usize & 7])
    })
}

/// Our timestamp for the SYN-ACK, with the options in its low bits; at most 63 ticks older than
/// `tsval`, never newer, so that the timestamps of the connection that follows do not run backwards
/// (RFC 7323 5.3).
pub(crate) fn put_options(tsval: u32, options: CookieOptions) -> u32 {
    let scale = options.scale.map_or(NO_SCALE, |s| u32::from(s.min(14)));
    let bits = scale | u32::from(options.sack) << 4 | u32::from(options.ecn) << 5;
    let mask = (1 << OPTION_BITS) - 1;
    let with = tsval & !mask | bits;
    if bits > tsval & mask { with.wrapping_sub(mask + 1) } else { with }
}

/// The options that [`put_options`] put into a timestamp which the peer now echoes.
pub(crate) fn take_options(tsecr: u32) -> CookieOptions {
    let scale = tsecr & NO_SCALE;
    CookieOptions {
        sack: tsecr >> 4 & 1 == 1,
        ecn: tsecr >> 5 & 1 == 1,
        scale: (scale != NO_SCALE).then_some(scale as u8),
    }
}

#[cfg(test)]
mod tests;
