//! The responder: what a connection's bytes are answered with, whoever owns the connection.

use clearway_base::{Duration, Instant};

use crate::framing::{Framing, Partial};
use crate::plan::{Pattern, ServerPlan};

/// What a server has done so far.
#[derive(Clone, Debug, Default)]
pub struct ServerReport {
    /// When this was so, and when the server began.
    pub at: Instant,
    /// When it began.
    pub from: Instant,
    /// Connections taken, and those that are open.
    pub accepted: u64,
    /// Connections that are open.
    pub open: u64,
    /// Connections that ended by a reset or for another failure.
    pub failed: u64,
    /// Connections for which there was no room.
    pub no_room: u64,
    /// Requests that were read to their end.
    pub requests: u64,
    /// Answers given; of UDP those for which there was room.
    pub answers: u64,
    /// Bytes of both.
    pub bytes_in: u64,
    /// Bytes of answers.
    pub bytes_out: u64,
    /// How long the core was busy.
    pub busy: Duration,
    /// Cycles of the processor's counter since the server began.
    pub cycles: u64,
}

impl ServerReport {
    /// Adds another core's.
    pub fn add(&mut self, other: &ServerReport) {
        self.accepted += other.accepted;
        self.open += other.open;
        self.failed += other.failed;
        self.no_room += other.no_room;
        self.requests += other.requests;
        self.answers += other.answers;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.busy = self.busy + other.busy;
        self.cycles = self.cycles.max(other.cycles);
        self.at = self.at.max(other.at);
        self.from = self.from.min(other.from);
    }

    /// All cores together.
    pub fn sum<'a>(reports: impl IntoIterator<Item = &'a ServerReport>) -> ServerReport {
        let mut reports = reports.into_iter();
        let mut sum = reports.next().cloned().unwrap_or_default();
        reports.for_each(|report| sum.add(report));
        sum
    }
}

/// How far into its talk a connection is: so little that it fits the word that its owner keeps
/// anyway, so a connection costs the server nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Talk {
    /// How much of a request is there.
    pub partial: Partial,
    /// Bytes of answers that have not been handed over.
    pub owed: u32,
}

impl Talk {
    /// As one number.
    #[inline]
    pub fn to_bits(self) -> u64 {
        u64::from(self.owed) << 32 | u64::from(self.partial.0)
    }

    /// What [`Talk::to_bits`] made into `bits`.
    #[inline]
    pub fn from_bits(bits: u64) -> Talk {
        Talk { partial: Partial(bits as u32), owed: (bits >> 32) as u32 }
    }
}

/// A connection as the responder sees it.
pub trait Line {
    /// The oldest bytes that were received and not consumed; empty when there are none now.
    fn recv(&self) -> &[u8];
    /// The oldest `n` of them are done with.
    fn consumed(&mut self, n: usize);
    /// Sends; answers how many bytes were taken.
    fn send(&mut self, bytes: &[u8]) -> usize;
}

/// Bytes of answers that one connection may be owed.
const MOST_OWED: u32 = 1 << 30;

/// One core's responder.
#[derive(Debug)]
pub struct Answerer {
    requests: Framing,
    answers: bool,
    len: u32,
    /// The answer again and again.
    text: Vec<u8>,
    /// What it has done.
    pub report: ServerReport,
}

impl Answerer {
    /// A responder for `plan`.
    pub fn new(plan: &ServerPlan) -> Answerer {
        let len = plan.message.len();
        Answerer {
            requests: plan.requests,
            answers: plan.pattern == Pattern::PingPong,
            len: len as u32,
            text: plan.message.repeat((64 * 1024 / len.max(1)).max(1)),
            report: ServerReport::default(),
        }
    }

    /// One answer.
    pub fn message(&self) -> &[u8] {
        &self.text[..self.len as usize]
    }

    /// Reads and answers, until there is nothing to read or no room for answers. False when no room
    /// was left: come back when there is.
    #[inline]
    pub fn answer(&mut self, talk: &mut Talk, line: &mut impl Line) -> bool {
        loop {
            while talk.owed > 0 {
                let from = (self.len - talk.owed % self.len) % self.len;
                let to = (from as usize + talk.owed as usize).min(self.text.len());
                let wanted = to - from as usize;
                let sent = line.send(&self.text[from as usize..to]);
                talk.owed -= sent as u32;
                self.report.bytes_out += sent as u64;
                if sent < wanted {
                    return false;
                }
            }
            let bytes = line.recv();
            if bytes.is_empty() {
                return true;
            }
            let most = (MOST_OWED / self.len.max(1)).max(1);
            let found = self.requests.requests(&mut talk.partial, bytes, most);
            self.report.bytes_in += found.used as u64;
            self.report.requests += u64::from(found.ended);
            line.consumed(found.used);
            if self.answers {
                self.report.answers += u64::from(found.ended);
                talk.owed = found.ended * self.len;
            }
        }
    }

    /// A datagram of this length came; whether it is to be answered.
    #[inline]
    pub fn on_datagram(&mut self, len: usize) -> bool {
        self.report.requests += 1;
        self.report.bytes_in += len as u64;
        self.answers
    }

    /// The answer to a datagram was taken, or there was no room for it.
    #[inline]
    pub fn on_answered(&mut self, taken: bool) {
        if taken {
            self.report.answers += 1;
            self.report.bytes_out += u64::from(self.len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Pieces {
        input: Vec<u8>,
        room: usize,
        output: Vec<u8>,
    }

    impl Line for Pieces {
        fn recv(&self) -> &[u8] {
            &self.input[..self.input.len().min(10)]
        }
        fn consumed(&mut self, n: usize) {
            self.input.drain(..n);
        }
        fn send(&mut self, bytes: &[u8]) -> usize {
            let n = bytes.len().min(self.room);
            self.room -= n;
            self.output.extend_from_slice(&bytes[..n]);
            n
        }
    }

    fn plan(pattern: Pattern, message: &[u8], requests: Framing) -> ServerPlan {
        ServerPlan { port: 1, pattern, message: message.to_vec(), requests, connections: 1 }
    }

    #[test]
    fn answers_go_on_where_room_ended_and_nothing_is_read_before() {
        let mut server = Answerer::new(&plan(Pattern::PingPong, b"abcde", Framing::Fixed(4)));
        let mut line = Pieces { input: vec![b'x'; 23], room: 7, output: Vec::new() };
        let mut talk = Talk::default();
        let mut rounds = 0;
        while !server.answer(&mut talk, &mut line) {
            talk = Talk::from_bits(talk.to_bits());
            line.room += 3;
            rounds += 1;
            assert!(rounds < 100);
        }
        assert_eq!(line.output, b"abcdeabcdeabcdeabcdeabcde");
        assert_eq!(
            (talk, server.report.requests, server.report.answers),
            (Talk { partial: Partial(3), owed: 0 }, 5, 5)
        );
        assert_eq!((server.report.bytes_in, server.report.bytes_out), (23, 25));
    }

    #[test]
    fn a_burst_is_counted_and_not_answered() {
        let mut server = Answerer::new(&plan(Pattern::Burst, b"abcde", Framing::Fixed(4)));
        let mut line = Pieces { input: vec![b'x'; 9], room: 7, output: Vec::new() };
        assert!(server.answer(&mut Talk::default(), &mut line));
        assert_eq!((server.report.requests, server.report.answers, line.output.len()), (2, 0, 0));
    }
}
