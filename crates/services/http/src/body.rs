//! Where the bytes of a response come from, piece by piece, so that a body of any length takes no
//! more memory than one piece.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// A range of bytes that are made or read as they are asked for.
pub struct Body {
    source: Source,
    at: u64,
    end: u64,
}

enum Source {
    /// A repeated line of text.
    Text,
    /// Numbers that the seed decides.
    Random(u64),
    File(File),
}

/// The line that fixed content repeats: 64 bytes, so that its place follows from the position.
pub const LINE: &[u8; 64] = b"Clearway: the road on which nothing may stop. 0123456789 abcdef\n";

impl Body {
    /// Nothing.
    pub fn empty() -> Body {
        Body { source: Source::Text, at: 0, end: 0 }
    }

    /// Bytes `from` up to `to` of the endless repetition of [`LINE`].
    pub fn text(from: u64, to: u64) -> Body {
        Body { source: Source::Text, at: from, end: to }
    }

    /// The first `len` bytes of the endless sequence that `seed` stands for; see [`random`].
    pub fn random(seed: u64, len: u64) -> Body {
        Body { source: Source::Random(seed), at: 0, end: len }
    }

    /// Bytes `from` up to `to` of a file.
    pub fn file(file: File, from: u64, to: u64) -> Body {
        Body { source: Source::File(file), at: from, end: to }
    }

    /// Bytes that are left.
    pub fn remaining(&self) -> u64 {
        self.end - self.at
    }

    /// Puts the next bytes into `out` without moving on; returns how many. An error, or a file that
    /// has become shorter than was promised, means that the rest cannot be had.
    pub fn peek(&self, out: &mut [u8]) -> std::io::Result<usize> {
        let len = usize::try_from(self.remaining()).unwrap_or(usize::MAX).min(out.len());
        let out = &mut out[..len];
        match &self.source {
            Source::Text => text(self.at, out),
            Source::Random(seed) => random(*seed, self.at, out),
            Source::File(file) => file.read_exact_at(out, self.at)?,
        }
        Ok(len)
    }

    /// Moves on over `n` bytes.
    pub fn skip(&mut self, n: usize) {
        self.at = self.at.saturating_add(n as u64).min(self.end);
    }
}

/// Fills `out` with the repeated [`LINE`] from position `at`.
pub fn text(at: u64, out: &mut [u8]) {
    let mut phase = (at % LINE.len() as u64) as usize;
    let mut left = out;
    while !left.is_empty() {
        let n = left.len().min(LINE.len() - phase);
        let (now, later) = left.split_at_mut(n);
        now.copy_from_slice(&LINE[phase..phase + n]);
        left = later;
        phase = 0;
    }
}

/// Fills `out` with the bytes that stand from position `at` in the sequence of `seed`: the word of
/// eight bytes (little endian) at position 8 i is the finaliser of SplitMix64 applied to
/// `seed + (i + 1) * 0x9e3779b97f4a7c15`. Any position can be had without those before it.
pub fn random(seed: u64, at: u64, out: &mut [u8]) {
    let mut index = at / 8;
    let skip = (at % 8) as usize;
    let (first, rest) = out.split_at_mut(((8 - skip) % 8).min(out.len()));
    if !first.is_empty() {
        first.copy_from_slice(&word(seed, index)[skip..skip + first.len()]);
        index += 1;
    }
    let mut words = rest.chunks_exact_mut(8);
    for chunk in &mut words {
        chunk.copy_from_slice(&word(seed, index));
        index += 1;
    }
    let last = words.into_remainder();
    last.copy_from_slice(&word(seed, index)[..last.len()]);
}

fn word(seed: u64, index: u64) -> [u8; 8] {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)).to_le_bytes()
}

#[cfg(test)]
mod tests;
