//! Target `peer`: a program that says anything to the host, at the attach socket, in its rings and
//! in every word of the memory that it shares with it.
//!
//! Whatever it does, the host must not panic, an honest pair of programs beside it must not lose a
//! byte, and when it is gone nothing of it may be left. The host is one without threads, at a time
//! of its own, so that the same input does the same.

mod honest;
mod host;
mod hostile;

use clearway_base::Duration;

use honest::Pair;
use host::Home;
use hostile::Hostile;

/// Times that may pass at once, in milliseconds: nothing, acknowledgements that wait,
/// retransmissions, and the longest that anything waits.
const TIMES: [u64; 8] = [0, 1, 40, 200, 1_000, 3_000, 30_000, 130_000];

/// Bytes that an honest program sends each time.
const HONEST: usize = 3_000;

/// The bytes of an input that were not used yet.
pub(crate) struct Input<'a>(&'a [u8]);

impl Input<'_> {
    /// The next byte; at the end there are zeros.
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u32 {
        u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    fn long(&mut self) -> u64 {
        u64::from(self.word()) | u64::from(self.word()) << 32
    }

    fn bytes(&mut self, most: usize) -> &[u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// The first byte says whether both sides ask for cut-through; what follows is a program of steps,
/// each of one byte and what it needs.
pub fn peer(data: &[u8]) {
    let mut input = Input(data);
    let ways = input.byte();
    let mut home = Home::new();
    let mut pair = Pair::new(&mut home, ways & 1 != 0);
    pair.exchange(&mut home, HONEST);
    let mut hostile = Hostile::new(&mut home, ways & 2 != 0);
    while !input.0.is_empty() {
        match input.byte() % 16 {
            15 => home.pass(Duration::from_millis(TIMES[usize::from(input.byte()) % TIMES.len()])),
            14 => pair.exchange(&mut home, 1 + usize::from(input.byte())),
            step => hostile.step(&mut home, step, &mut input),
        }
        home.turn();
    }
    pair.exchange(&mut home, HONEST);
    drop(hostile);
    home.rest(2);
    pair.exchange(&mut home, HONEST);
    pair.again(&mut home);
    drop(pair);
    home.rest(0);
}
