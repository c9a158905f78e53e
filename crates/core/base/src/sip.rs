//! SipHash (Aumasson and Bernstein, 2012): the keyed hash of tables whose keys strangers choose,
//! and of numbers that nobody may guess.
//!
//! The only one of this workspace. The messages of the packet path have a length that is known
//! beforehand, so nothing is collected there; tests compare all three forms with the crate
//! `siphasher`.

/// What the state starts from, before anything is taken in.
#[inline(always)]
const fn start((k0, k1): (u64, u64)) -> [u64; 4] {
    [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ]
}

#[inline(always)]
fn take<const ROUNDS: usize>(v: &mut [u64; 4], word: u64) {
    v[3] ^= word;
    for _ in 0..ROUNDS {
        round(v);
    }
    v[0] ^= word;
}

#[inline(always)]
fn finish<const ROUNDS: usize>(mut v: [u64; 4]) -> u64 {
    v[2] ^= 0xff;
    for _ in 0..ROUNDS {
        round(&mut v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

#[inline(always)]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32).wrapping_add(v[3]);
    v[2] = v[2].wrapping_add(v[1]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

/// SipHash-1-3 of `N` whole little-endian words and six bytes: for tables whose keys strangers
/// choose.
#[inline(always)]
pub fn sip_1_3<const N: usize>(key: (u64, u64), words: [u64; N], six: u64) -> u64 {
    let mut v = start(key);
    for word in words {
        take::<1>(&mut v, word);
    }
    // The last word holds the length in bytes and what was left over.
    take::<1>(&mut v, (N as u64 * 8 + 6) << 56 | six);
    finish::<3>(v)
}

/// SipHash-2-4 under a key, with the first two words of every message taken in already: for numbers
/// that nobody may guess.
#[derive(Clone, Copy)]
pub struct Sip24 {
    v: [u64; 4],
}

impl Sip24 {
    /// Under `key`; every message begins with `first`.
    pub fn new(key: (u64, u64), first: [u64; 2]) -> Sip24 {
        let mut v = start(key);
        for word in first {
            take::<2>(&mut v, word);
        }
        Sip24 { v }
    }

    /// The hash of what every message begins with and of `words` behind it, little-endian.
    #[inline(always)]
    pub fn hash<const N: usize>(&self, words: [u64; N]) -> u64 {
        let mut v = self.v;
        for word in words {
            take::<2>(&mut v, word);
        }
        take::<2>(&mut v, ((N as u64 + 2) * 8) << 56);
        finish::<4>(v)
    }
}

/// SipHash-2-4 of `parts` one after the other, under a key of 16 bytes: for what is hashed seldom
/// and has any length.
pub fn sip_2_4_bytes<'a>(key: &[u8; 16], parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let half =
        |at: usize| key[at..at + 8].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    let mut v = start((half(0), half(8)));
    let (mut word, mut len) = (0_u64, 0_u64);
    for &byte in parts.into_iter().flatten() {
        word |= u64::from(byte) << (len % 8 * 8);
        len += 1;
        if len % 8 == 0 {
            take::<2>(&mut v, word);
            word = 0;
        }
    }
    take::<2>(&mut v, len << 56 | word);
    finish::<4>(v)
}

#[cfg(test)]
mod tests {
    use core::hash::Hasher;
    use std::vec::Vec;

    use proptest::prelude::*;

    use siphasher::sip::{SipHasher13, SipHasher24};

    use super::*;

    const KEY: (u64, u64) = (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);

    #[test]
    fn the_short_hash_is_siphash_1_3() {
        let mut known = SipHasher13::new_with_keys(KEY.0, KEY.1);
        known.write(&7u64.to_le_bytes());
        known.write(&[1, 2, 3, 4, 5, 6]);
        assert_eq!(sip_1_3(KEY, [7], 0x0605_0403_0201), known.finish());
    }

    #[test]
    fn the_long_hash_is_siphash_2_4() {
        let mut known = SipHasher24::new_with_keys(KEY.0, KEY.1);
        for word in [1u64, 2, u64::MAX, 0x1234_5678_9abc_def0, 5] {
            known.write(&word.to_le_bytes());
        }
        assert_eq!(
            Sip24::new(KEY, [1, 2]).hash([u64::MAX, 0x1234_5678_9abc_def0, 5]),
            known.finish()
        );
    }

    proptest! {
        #[test]
        fn the_hash_of_any_bytes_is_siphash_2_4_however_they_are_cut(
            key in any::<[u8; 16]>(),
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..6),
        ) {
            let mut known = SipHasher24::new_with_key(&key);
            known.write(&parts.concat());
            prop_assert_eq!(sip_2_4_bytes(&key, parts.iter().map(Vec::as_slice)), known.finish());
        }
    }
}
