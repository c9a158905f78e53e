//! What flows in the streams: bytes that can be told from their place alone, so that neither side
//! has to keep them.

/// A stream of bytes without end, named by a number. The byte at a place is a mix of the name and
/// the place, so that a byte that is lost, doubled, moved, or taken from another stream is seen at
/// once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream(pub u64);

impl Stream {
    fn word(self, index: u64) -> [u8; 8] {
        let mut z = self.0 ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).to_le_bytes()
    }

    /// Writes the bytes from place `at` on.
    pub fn fill(self, at: u64, out: &mut [u8]) {
        let mut done = 0;
        while done < out.len() {
            let place = at + done as u64;
            let word = self.word(place / 8);
            let from = (place % 8) as usize;
            let n = (8 - from).min(out.len() - done);
            out[done..done + n].copy_from_slice(&word[from..from + n]);
            done += n;
        }
    }

    /// The first place at which `bytes`, said to begin at `at`, are not the stream's; None when all
    /// are right.
    pub fn first_wrong(self, at: u64, bytes: &[u8]) -> Option<u64> {
        let mut done = 0;
        while done < bytes.len() {
            let place = at + done as u64;
            let word = self.word(place / 8);
            let from = (place % 8) as usize;
            let n = (8 - from).min(bytes.len() - done);
            if bytes[done..done + n] != word[from..from + n] {
                let wrong = (0..n).find(|i| bytes[done + i] != word[from + i]).unwrap_or(0);
                return Some(place + wrong as u64);
            }
            done += n;
        }
        None
    }
}

#[cfg(test)]
mod tests;
