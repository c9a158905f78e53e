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
        let (before, from) = (out.len().min(to_next_word(at)), (at % 8) as usize);
        let (head, rest) = out.split_at_mut(before);
        head.copy_from_slice(&self.word(at / 8)[from..from + before]);
        let (mut words, mut index) = (rest.chunks_exact_mut(WORD), (at + before as u64) / 8);
        for word in &mut words {
            word.copy_from_slice(&self.word(index));
            index += 1;
        }
        let tail = words.into_remainder();
        tail.copy_from_slice(&self.word(index)[..tail.len()]);
    }

    /// The first place at which `bytes`, said to begin at `at`, are not the stream's; None when all
    /// are right.
    pub fn first_wrong(self, at: u64, bytes: &[u8]) -> Option<u64> {
        let (head, rest) = bytes.split_at(bytes.len().min(to_next_word(at)));
        let (words, tail) = rest.split_at(rest.len() / WORD * WORD);
        let behind = at + head.len() as u64;
        let is_right = |(word, index): (&[u8], u64)| *word == self.word(index);
        let wrong = words.chunks_exact(WORD).zip(behind / 8..).position(|pair| !is_right(pair));
        // Byte by byte only where something is wrong, or a word is not whole.
        let here = |at: u64, bytes: &[u8]| {
            let byte = |place: u64| self.word(place / 8)[(place % 8) as usize];
            (at..).zip(bytes).find(|(place, told)| byte(*place) != **told).map(|(place, _)| place)
        };
        let in_words = |nth: usize| {
            let from = nth * WORD;
            here(behind + from as u64, &words[from..from + WORD])
        };
        let in_tail = || here(behind + words.len() as u64, tail);
        here(at, head).or_else(|| wrong.and_then(in_words)).or_else(in_tail)
    }
}

/// Bytes of a word.
const WORD: usize = 8;

/// Bytes from a place to where the next word begins.
fn to_next_word(at: u64) -> usize {
    (at.wrapping_neg() % 8) as usize
}

#[cfg(test)]
mod tests;
