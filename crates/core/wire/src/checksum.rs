//! The Internet checksum (RFC 1071): sums of bytes, of pseudo headers, partial sums for devices
//! that finish them, and updates in place (RFC 1624).
//!
//! A [`Sum`] is kept in the byte order of the machine: the ones-complement sum of byte-swapped
//! words is the byte-swapped sum (RFC 1071 2(B)), so that the one swap is done at the end and not
//! per word.

use crate::addr::Addr;
use crate::ip::Proto;

/// A ones-complement sum that is not folded yet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sum(u64);

impl Sum {
    /// The sum of nothing.
    pub const ZERO: Sum = Sum(0);

    /// Both sums as one; the bytes behind `self` must be even in number when those of `other`
    /// follow them (see [`Sum::then`]).
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
        // At an odd offset every byte of `next` stands in the other half of its word (RFC 1071
        // 2(B)).
        if len % 2 == 0 {
            self.combine(next)
        } else {
            self.combine(Sum(fold_native(next.0).swap_bytes() as u64))
        }
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
        // What folds to all ones is m · 0xffff with m from 1 to ONES, for 0xffff · ONES = 2^64 - 1.
        // And (m · 0xffff) · ONES = -m modulo 2^64, whose complement is m - 1; no other number
        // comes out so small, because the multiplication loses nothing.
        const ONES: u64 = 0x0001_0001_0001_0001;
        !self.0.wrapping_mul(ONES) < ONES
    }
}

/// 64 bits to 16 with end-around carry; the byte order stays.
#[inline]
const fn fold_native(sum: u64) -> u16 {
    // A number plus itself with its halves exchanged has in its upper half the sum of the halves,
    // and the carry of the lower half on top: the end-around carry for nothing.
    let sum = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
}

/// The ones-complement sum of 16-bit words that were added up as numbers.
#[inline(always)]
pub(crate) const fn folded(sum: u64) -> u16 {
    fold_native(sum)
}

/// From this many bytes on the vector loop pays for its start and its end; below, additions with
/// carry are quicker.
const WIDE_FROM: usize = 256;

/// Adds `a` and `b` and the carry of the addition before, and says what is carried on: the shape
/// that LLVM makes one instruction of.
#[inline(always)]
const fn add_with_carry(a: u64, b: u64, carry: bool) -> (u64, bool) {
    let (sum, first) = a.overflowing_add(b);
    let (sum, second) = sum.overflowing_add(carry as u64);
    (sum, first | second)
}

/// Takes the first `N` bytes off `rest`, a multiple of 8, and adds them: a chain of additions with
/// carry, whose last carry is counted apart.
#[inline(always)]
fn add_chunk<const N: usize>(sum: &mut u64, carries: &mut u64, rest: &mut &[u8]) -> bool {
    let Some((chunk, after)) = rest.split_first_chunk::<N>() else { return false };
    let mut carry = false;
    for word in chunk.chunks_exact(8) {
        let word = word.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        (*sum, carry) = add_with_carry(*sum, word, carry);
    }
    *carries += u64::from(carry);
    *rest = after;
    true
}

/// The sum of few bytes, on top of `start`.
#[inline(always)]
fn sum_short(start: Sum, bytes: &[u8]) -> Sum {
    let (mut sum, mut carries, mut rest) = (start.0, 0, bytes);
    while add_chunk::<64>(&mut sum, &mut carries, &mut rest) {}
    add_chunk::<32>(&mut sum, &mut carries, &mut rest);
    while add_chunk::<8>(&mut sum, &mut carries, &mut rest) {}
    if !rest.is_empty() {
        carries += sum_tail(rest);
    }
    Sum(sum).combine(Sum(carries))
}

/// The sum of a header of known length, a multiple of 4: additions without carry, as many as there
/// are words.
#[inline(always)]
pub(crate) fn sum_words<const N: usize>(bytes: &[u8; N]) -> Sum {
    let mut sum = 0;
    for word in bytes.chunks_exact(4) {
        sum += word.first_chunk().map_or(0, |word| u64::from(u32::from_ne_bytes(*word)));
    }
    Sum(sum)
}

/// The sum of a header of five words, in three additions.
#[inline(always)]
pub(crate) fn sum_five_words(bytes: &[u8; 20]) -> Sum {
    let mut words = bytes.chunks(8);
    let mut next = || {
        let word = words.next().unwrap_or(&[]);
        Sum(match word.first_chunk::<8>() {
            Some(word) => u64::from_ne_bytes(*word),
            None => word.first_chunk().map_or(0, |word| u64::from(u32::from_ne_bytes(*word))),
        })
    };
    next().combine(next()).combine(next())
}

/// The sum of fewer than 8 bytes.
#[inline]
fn sum_tail(bytes: &[u8]) -> u64 {
    let mut sum = 0;
    let mut rest = bytes;
    if let Some((word, after)) = rest.split_first_chunk::<4>() {
        sum = u64::from(u32::from_ne_bytes(*word));
        rest = after;
    }
    match *rest {
        [a, b, c] => sum + u64::from(u32::from_ne_bytes([a, b, c, 0])),
        [a, b] => sum + u64::from(u32::from_ne_bytes([a, b, 0, 0])),
        [a] => sum + u64::from(u32::from_ne_bytes([a, 0, 0, 0])),
        _ => sum,
    }
}

/// Adds one 64-bit word, split into its halves, so that nothing can carry over: 2^32 words would be
/// needed. A plain loop over this is one that LLVM turns into vector code of any width, which a
/// chain of carries is not.
#[inline(always)]
fn add_halves(halves: &mut (u64, u64), word: &[u8]) {
    if let Some(word) = word.first_chunk() {
        let word = u64::from_ne_bytes(*word);
        halves.0 += word & 0xffff_ffff;
        halves.1 += word >> 32;
    }
}

/// The ones-complement sum of `bytes`; an odd last byte counts as the high half of a word (RFC 1071
/// 1).
#[inline(always)]
pub fn sum(bytes: &[u8]) -> Sum {
    sum_from(Sum::ZERO, bytes)
}

/// The sum of `bytes` and what `start` sums up: an even number of bytes, or a pseudo header.
#[inline(always)]
pub fn sum_from(start: Sum, bytes: &[u8]) -> Sum {
    if bytes.len() < WIDE_FROM { sum_short(start, bytes) } else { sum_wide(bytes).combine(start) }
}

#[inline(never)]
fn sum_wide(bytes: &[u8]) -> Sum {
    let words = bytes.chunks_exact(8);
    let tail = words.remainder();
    let mut halves = (0, 0);
    for word in words {
        add_halves(&mut halves, word);
    }
    Sum(halves.0).combine(Sum(halves.1)).combine(Sum(sum_tail(tail)))
}

/// Copies `src` to the start of `dst` and returns its sum, touching every byte once.
///
/// # Panics
/// When `dst` is shorter than `src`, which is a mistake of the caller.
pub fn copy_and_sum(src: &[u8], dst: &mut [u8]) -> Sum {
    let (words, tail) = src.split_at(src.len() / 8 * 8);
    let (places, tail_place) = dst[..src.len()].split_at_mut(words.len());
    let mut halves = (0, 0);
    for (word, place) in words.chunks_exact(8).zip(places.chunks_exact_mut(8)) {
        place.copy_from_slice(word);
        add_halves(&mut halves, word);
    }
    tail_place.copy_from_slice(tail);
    Sum(halves.0).combine(Sum(halves.1)).combine(Sum(sum_tail(tail)))
}

/// The sum of the pseudo header of TCP, UDP and ICMPv6, `len` being the length of the transport
/// header and its data (RFC 9293 3.1, RFC 8200 8.1).
///
/// Written once for both families: the `ff ff` of a mapped IPv4 address is zero in ones-complement
/// arithmetic, so the sum over sixteen bytes equals the sum over the four that IPv4 asks for.
#[inline(always)]
pub fn pseudo(src: &Addr, dst: &Addr, proto: Proto, len: u32) -> Sum {
    let mut sum = u64::from(u32::from(proto.0).to_be()) + u64::from(len.to_be());
    let mut carries = 0;
    for mut half in [&src.octets()[..], &dst.octets()[..]] {
        add_chunk::<16>(&mut sum, &mut carries, &mut half);
    }
    Sum(sum).combine(Sum(carries))
}

/// As [`pseudo`], for addresses of which it is known that they are IPv4's.
#[inline(always)]
pub fn pseudo_v4(src: [u8; 4], dst: [u8; 4], proto: Proto, len: u16) -> Sum {
    pseudo_of(addresses_v4(src, dst), proto, len)
}

/// The sum of two IPv4 addresses: what a header and the pseudo header of its payload have in
/// common.
#[inline(always)]
pub(crate) fn addresses_v4(src: [u8; 4], dst: [u8; 4]) -> Sum {
    Sum(u64::from(u32::from_ne_bytes(src)) + u64::from(u32::from_ne_bytes(dst)))
}

/// The sum of a pseudo header whose addresses are summed up already and nothing else with them.
#[inline(always)]
pub fn pseudo_of(addresses: Sum, proto: Proto, len: u16) -> Sum {
    Sum(addresses.0 + u64::from(u16::from(proto.0).to_be()) + u64::from(len.to_be()))
}

/// The checksum of a header, as its bytes stand in memory, out of its words of four bytes and the
/// sum of its addresses.
#[inline(always)]
pub(crate) fn of_words(words: [[u8; 4]; 3], addresses: Sum) -> [u8; 2] {
    let sum =
        words.iter().fold(addresses.0, |sum, word| sum + u64::from(u32::from_ne_bytes(*word)));
    (!fold_native(sum)).to_ne_bytes()
}

/// The checksum of a whole TCP, UDP or ICMPv6 message whose own checksum field is zero.
#[inline]
pub fn transport(src: &Addr, dst: &Addr, proto: Proto, message: &[u8]) -> u16 {
    sum_from(pseudo(src, dst, proto, message.len() as u32), message).finish()
}

/// A checksum as it is sent: UDP has all ones in place of zero, which means that there is none (RFC
/// 768), and for TCP both mean the same.
#[inline(always)]
pub fn never_zero(sum: u16) -> u16 {
    if sum == 0 { 0xffff } else { sum }
}

/// Whether a TCP, UDP or ICMPv6 message with its checksum in place is unharmed.
#[inline]
pub fn transport_is_valid(src: &Addr, dst: &Addr, proto: Proto, message: &[u8]) -> bool {
    sum_from(pseudo(src, dst, proto, message.len() as u32), message).is_valid()
}

/// What stands in the checksum field when the device finishes the checksum: the folded sum of the
/// pseudo header alone, not complemented, as the virtio specification (5.1.6.2) and Linux ask for.
#[inline]
pub fn partial(src: &Addr, dst: &Addr, proto: Proto, len: u32) -> u16 {
    pseudo(src, dst, proto, len).fold()
}

/// The checksum after one 16-bit word of the data changed from `old` to `new` (RFC 1624 3, equation
/// 3).
#[inline]
pub const fn update16(checksum: u16, old: u16, new: u16) -> u16 {
    Sum::ZERO.add16(!checksum).add16(!old).add16(new).finish()
}

/// The checksum after one 32-bit word of the data, at an even offset, changed from `old` to `new`.
#[inline]
pub const fn update32(checksum: u16, old: u32, new: u32) -> u16 {
    Sum::ZERO.add16(!checksum).add32(!old).add32(new).finish()
}

#[cfg(test)]
mod tests;
