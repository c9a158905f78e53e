//! Seeded random numbers: the same seed gives the same numbers on every machine.

/// A generator of random numbers (xoshiro256++ by Blackman and Vigna, seeded by SplitMix64).
///
/// **Not for secrets.** Whoever sees a few numbers can tell all that follow. It is for the
/// simulator, for jitter, and for choices that nobody gains by guessing; sequence numbers, ports
/// and cookies come from a keyed hash instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The generator that `seed` names; every seed is good.
    pub const fn seed(seed: u64) -> Rng {
        let mut at = seed;
        let mut state = [0; 4];
        let mut i = 0;
        while i < 4 {
            at = at.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = at;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            state[i] = z ^ (z >> 31);
            i += 1;
        }
        Rng { state }
    }

    /// A second generator whose numbers have nothing visible to do with those of this one: one for
    /// each link or host of a simulated world, so that a change to one does not shift the luck of
    /// the others.
    pub fn fork(&mut self) -> Rng {
        Rng::seed(self.next_u64())
    }

    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let out = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        out
    }

    /// 32 random bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// A number from 0 to `n - 1`, each as likely as the others; 0 when `n` is 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        // Lemire, "Fast Random Integer Generation in an Interval": the high half of a 128-bit
        // product is the answer. Of the 2^64 low halves, the first 2^64 mod n would favour some
        // answers; those are thrown again.
        let mut product = u128::from(self.next_u64()) * u128::from(n);
        if (product as u64) < n {
            let unfair = n.wrapping_neg() % n;
            while (product as u64) < unfair {
                product = u128::from(self.next_u64()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }

    /// A number from `low` to `high`, both included; `low` when they are the wrong way round.
    #[inline]
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        match high.saturating_sub(low).checked_add(1) {
            Some(n) => low + self.below(n),
            None => self.next_u64(),
        }
    }

    /// True with the probability of `parts_per_million`: never at 0, always at 1,000,000 or more.
    #[inline]
    pub fn chance(&mut self, parts_per_million: u32) -> bool {
        self.below(1_000_000) < u64::from(parts_per_million)
    }

    /// Random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests;
