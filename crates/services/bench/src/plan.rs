//! What is to be done.

use std::sync::atomic::{AtomicUsize, Ordering};

use clearway_base::Duration;

use crate::framing::Framing;

/// What carries the messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

/// Who speaks when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// Each request is answered.
    PingPong,
    /// The client sends, and nobody answers.
    Burst,
}

/// What one core's client does.
#[derive(Clone, Debug)]
pub struct ClientPlan {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// Ping-pong or burst.
    pub pattern: Pattern,
    /// Connections.
    pub connections: u32,
    /// How many of them are asked.
    pub active: u32,
    /// Requests on their way on one connection at most.
    pub depth: u32,
    /// The request.
    pub message: Vec<u8>,
    /// Where an answer ends.
    pub answers: Framing,
    /// When set: a request is due every so many picoseconds, whatever became of those before.
    pub every_ps: Option<u64>,
    /// When set: a connection is closed after so many answers, and another one opened for the next
    /// request.
    pub close_after: Option<u32>,
    /// Such a connection is ended by a reset, so that it leaves nothing behind.
    pub reset: bool,
    /// How long requests are counted.
    pub duration: Duration,
    /// How long before that they are made without being counted.
    pub warmup: Duration,
    /// How long a connection may go without an answer that it waits for.
    pub timeout: Duration,
    /// Handshakes in progress at most.
    pub connecting: u32,
}

impl ClientPlan {
    /// This core's part of a plan for several.
    pub fn part(&self, core: usize, cores: usize) -> ClientPlan {
        let share = |all: u32| all / cores as u32 + u32::from((core as u32) < all % cores as u32);
        let mut part = self.clone();
        part.connections = share(self.connections);
        part.active = share(self.active).min(part.connections);
        // Each core makes requests in proportion to the connections that it asks.
        part.every_ps = self.every_ps.map(|every| {
            let ps = u128::from(every) * u128::from(self.active) / u128::from(part.active.max(1));
            u64::try_from(ps).unwrap_or(u64::MAX)
        });
        part
    }

    /// Requests that may be on their way at the same time on all connections together.
    pub fn places(&self) -> usize {
        self.active as usize * self.depth as usize
    }

    pub(crate) fn answered(&self) -> bool {
        self.pattern == Pattern::PingPong
    }
}

/// What a server does.
#[derive(Clone, Debug)]
pub struct ServerPlan {
    /// The port, for TCP and for UDP.
    pub port: u16,
    /// Answer, or only count.
    pub pattern: Pattern,
    /// The answer.
    pub message: Vec<u8>,
    /// Where a request ends.
    pub requests: Framing,
    /// Connections that one core may have at a time.
    pub connections: u32,
}

/// Where the cores of one client meet: none begins to ask before all have their connections, and
/// none goes home before all are done.
#[derive(Debug)]
pub struct Start {
    missing: AtomicUsize,
    working: AtomicUsize,
}

impl Start {
    /// A meeting of so many.
    pub fn new(cores: usize) -> Start {
        Start { missing: AtomicUsize::new(cores), working: AtomicUsize::new(cores) }
    }

    pub(crate) fn arrive(&self) {
        self.missing.fetch_sub(1, Ordering::AcqRel);
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.missing.load(Ordering::Acquire) == 0
    }

    pub(crate) fn done(&self) {
        self.working.fetch_sub(1, Ordering::AcqRel);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.working.load(Ordering::Acquire) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_plan_sum_up_to_it() {
        let plan = ClientPlan {
            protocol: Protocol::Tcp,
            pattern: Pattern::PingPong,
            connections: 10,
            active: 7,
            depth: 1,
            message: vec![0; 64],
            answers: Framing::Fixed(64),
            every_ps: Some(1_000_000),
            close_after: None,
            reset: false,
            duration: Duration::from_secs(1),
            warmup: Duration::ZERO,
            timeout: Duration::from_secs(1),
            connecting: 16,
        };
        let parts: Vec<ClientPlan> = (0..3).map(|core| plan.part(core, 3)).collect();
        assert_eq!(parts.iter().map(|p| p.connections).collect::<Vec<_>>(), [4, 3, 3]);
        assert_eq!(parts.iter().map(|p| p.active).collect::<Vec<_>>(), [3, 2, 2]);
        let rate: f64 = parts.iter().map(|p| 1e12 / p.every_ps.unwrap() as f64).sum();
        assert!((rate - 1e6).abs() < 10.0, "{rate}");
    }
}
