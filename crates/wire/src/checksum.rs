//! The Internet checksum (RFC 1071): sums of bytes, of pseudo headers, partial sums for devices that finish them, and updates in place (RFC 1624).
//!
//! A [`Sum`] is kept in the byte order of the machine: the ones-complement sum of byte-swapped words is the byte-swapped sum
//! (RFC 1071 2(B)), so that the one swap is done at the end and not per word.

use crate::addr::Addr;
use crate::ip::Proto;

/// A ones-complement sum that is not folded yet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sum(u64);

impl Sum {
    /// The sum of nothing.
    pub const ZERO: Sum = Sum(0);

    /// Both sums as one; the bytes behind `self` must be even in number when those of `other` follow them (see [`Sum::then`]).
    #[inline]
    #[must_use]
    pub const fn combine(self, other: Sum) -> Sum {
        let (sum, carry) = self.0.overflowing_add(other.0);
        Sum(sum + carry as u64)
    }

    /// The sum of `len` bytes behind `self` followed by the bytes of `next`, for odd `len` too.
    #[inline]
    #[must_use]
    pub const fn then(self, len: usize, next: Sum) -> Sum {
        // At an odd offset every byte of `next` stands in the other half of its word (RFC 1071 2(B)).
        if len % 2 == 0 { self.combine(next) } else { self.combine(Sum(fold_native(next.0).swap_bytes() as u64)) }
    }

    /// With one more 16-bit word, given as the number that the wire bytes stand for.
    #[inline]
    #[must_use]
    pub const fn add16(self, word: u16) -> Sum {
        self.combine(Sum(word.to_be() as u64))
    }

    /// With one more 32-bit word, given as the number that the wire bytes stand for.
    #[inline]
    #[must_use]
    pub const fn add32(self, word: u32) -> Sum {
        self.combine(Sum(word.to_be() as u64))
    }

    /// The 16-bit ones-complement sum as a number. It is 0 only when every byte summed was 0.
    #[inline]
    pub const fn fold(self) -> u16 {
        u16::from_be(fold_native(self.0))
    }

    /// The checksum to be written: the complement of the sum.
    #[inline]
    pub const fn finish(self) -> u16 {
        !self.fold()
    }

    /// Whether data that holds its own checksum is unharmed: its sum is then all ones.
    #[inline]
    pub const fn is_valid(self) -> bool {
        fold_native(self.0) == 0xffff
    }
}

/// 64 bits to 16 with end-around carry; the byte order stays.
#[inline]
const fn fold_native(sum: u64) -> u16 {
    // Adding the halves keeps the value modulo 2^16 - 1, and two more rounds take in the carries of the round before.
    let s = (sum & 0xffff_ffff) + (sum >> 32);
    let s = (s & 0xffff) + ((s >> 16) & 0xffff) + (s >> 32);
    let s = (s & 0xffff) + (s >> 16);
    let s = (s & 0xffff) + (s >> 16);
    s as u16
}

/// Bytes summed in one step of the wide loop: eight 64-bit lanes, which LLVM turns into vector registers.
const STEP: usize = 64;

/// Adds 64 bytes to the accumulators. Each 64-bit lane is split into its halves, so that no lane can carry over:
/// 2^32 steps would be needed, and a packet has at most 2^10.
#[inline(always)]
fn add_step(low: &mut [u64; 4], high: &mut [u64; 4], step: &[u8; STEP]) {
    for half in 0..2 {
        for lane in 0..4 {
            let at = half * 32 + lane * 8;
            let mut word = [0; 8];
            word.copy_from_slice(&step[at..at + 8]);
            let word = u64::from_ne_bytes(word);
            low[lane] += word & 0xffff_ffff;
            high[lane] += word >> 32;
        }
    }
}

/// The sum of fewer than 64 bytes, or of any number when speed does not matter.
#[inline]
fn sum_short(bytes: &[u8]) -> u64 {
    let (words, tail) = bytes.as_chunks_4();
    let mut sum = 0u64;
    for word in words {
        sum += u64::from(u32::from_ne_bytes(*word));
    }
    match *tail {
        [a, b, c] => sum + u64::from(u32::from_ne_bytes([a, b, c, 0])),
        [a, b] => sum + u64::from(u32::from_ne_bytes([a, b, 0, 0])),
        [a] => sum + u64::from(u32::from_ne_bytes([a, 0, 0, 0])),
        _ => sum,
    }
}

/// The ones-complement sum of `bytes`; an odd last byte counts as the high half of a word (RFC 1071 1).
#[inline]
pub fn sum(bytes: &[u8]) -> Sum {
    if bytes.len() < STEP { Sum(sum_short(bytes)) } else { sum_long(bytes) }
}

fn sum_long(bytes: &[u8]) -> Sum {
    let (mut low, mut high) = ([0u64; 4], [0u64; 4]);
    let mut rest = bytes;
    while let Some((step, after)) = rest.split_first_chunk::<STEP>() {
        add_step(&mut low, &mut high, step);
        rest = after;
    }
    total(&low, &high).combine(Sum(sum_short(rest)))
}

#[inline]
fn total(low: &[u64; 4], high: &[u64; 4]) -> Sum {
    let mut sum = 0;
    for lane in 0..4 {
        sum += low[lane] + high[lane];
    }
    Sum(sum)
}

/// Copies `src` to the start of `dst` and returns its sum, touching every byte once.
///
/// # Panics
/// When `dst` is shorter than `src`, which is a mistake of the caller.
pub fn copy_and_sum(src: &[u8], dst: &mut [u8]) -> Sum {
    let (mut low, mut high) = ([0u64; 4], [0u64; 4]);
    let mut steps = src.chunks_exact(STEP);
    let mut places = dst[..src.len()].chunks_exact_mut(STEP);
    for (step, place) in steps.by_ref().zip(places.by_ref()) {
        place.copy_from_slice(step);
        if let Some(step) = step.first_chunk() {
            add_step(&mut low, &mut high, step);
        }
    }
    let rest = steps.remainder();
    places.into_remainder().copy_from_slice(rest);
    total(&low, &high).combine(Sum(sum_short(rest)))
}

/// The sum of the pseudo header of TCP, UDP and ICMPv6, `len` being the length of the transport header and its data
/// (RFC 9293 3.1, RFC 8200 8.1).
///
/// Written once for both families: the `ff ff` of a mapped IPv4 address is zero in ones-complement arithmetic,
/// so the sum over sixteen bytes equals the sum over the four that IPv4 asks for.
#[inline]
pub fn pseudo(src: &Addr, dst: &Addr, proto: Proto, len: u32) -> Sum {
    let sum = sum_short(src.octets()) + sum_short(dst.octets());
    Sum(sum + u64::from(u32::from(proto.0).to_be()) + u64::from(len.to_be()))
}

/// The checksum of a whole TCP, UDP or ICMPv6 message whose own checksum field is zero.
#[inline]
pub fn transport(src: &Addr, dst: &Addr, proto: Proto, message: &[u8]) -> u16 {
    pseudo(src, dst, proto, message.len() as u32).combine(sum(message)).finish()
}

/// Whether a TCP, UDP or ICMPv6 message with its checksum in place is unharmed.
#[inline]
pub fn transport_is_valid(src: &Addr, dst: &Addr, proto: Proto, message: &[u8]) -> bool {
    pseudo(src, dst, proto, message.len() as u32).combine(sum(message)).is_valid()
}

/// What stands in the checksum field when the device finishes the checksum: the folded sum of the pseudo header alone, not complemented,
/// as the virtio specification (5.1.6.2) and Linux ask for.
#[inline]
pub fn partial(src: &Addr, dst: &Addr, proto: Proto, len: u32) -> u16 {
    pseudo(src, dst, proto, len).fold()
}

/// The checksum after one 16-bit word of the data changed from `old` to `new` (RFC 1624 3, equation 3).
#[inline]
pub const fn update16(checksum: u16, old: u16, new: u16) -> u16 {
    Sum::ZERO.add16(!checksum).add16(!old).add16(new).finish()
}

/// The checksum after one 32-bit word of the data, at an even offset, changed from `old` to `new`.
#[inline]
pub const fn update32(checksum: u16, old: u32, new: u32) -> u16 {
    Sum::ZERO.add16(!checksum).add32(!old).add32(new).finish()
}

/// `slice::as_chunks::<4>` for the oldest compiler this workspace takes.
trait Chunks {
    fn as_chunks_4(&self) -> (impl Iterator<Item = &[u8; 4]>, &[u8]);
}

impl Chunks for [u8] {
    #[inline(always)]
    fn as_chunks_4(&self) -> (impl Iterator<Item = &[u8; 4]>, &[u8]) {
        let chunks = self.chunks_exact(4);
        let tail = chunks.remainder();
        (chunks.filter_map(|c| c.first_chunk()), tail)
    }
}

#[cfg(test)]
mod tests;
