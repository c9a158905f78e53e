//! What a server counts.

/// What a server has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections open now.
    pub open: u64,
    /// Responses begun, by the first digit of their status: 2xx, 3xx, 4xx, 5xx.
    pub responses: [u64; 4],
    /// Body bytes sent.
    pub body_out: u64,
    /// Body bytes received.
    pub body_in: u64,
    /// Deadlines that passed.
    pub timeouts: u64,
    /// Connections that failed under us (reset by the peer, timed out).
    pub failed: u64,
    /// Connections refused because the table of conversations was full.
    pub refused: u64,
}

impl Stats {
    /// Counts a response.
    #[inline]
    pub fn answered(&mut self, status: u16) {
        let class = usize::from(status / 100).saturating_sub(2);
        if let Some(count) = self.responses.get_mut(class) {
            *count += 1;
        }
    }

    /// All responses.
    pub fn requests(&self) -> u64 {
        self.responses.iter().sum()
    }

    /// Adds another core's counts.
    pub fn add(&mut self, other: &Stats) {
        self.accepted += other.accepted;
        self.open += other.open;
        for (mine, theirs) in self.responses.iter_mut().zip(other.responses) {
            *mine += theirs;
        }
        self.body_out += other.body_out;
        self.body_in += other.body_in;
        self.timeouts += other.timeouts;
        self.failed += other.failed;
        self.refused += other.refused;
    }
}
