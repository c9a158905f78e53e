//! The conversation of `clearway bulk`: the client sends a line that says what it wants, then one
//! side sends and the other counts.
//!
//! ```text
//!   clearway-bulk/1 up bytes=1048576 seed=7\n      the client sends; after its FIN the server answers with a JSON line
//!   clearway-bulk/1 down ms=10000 plain\n          the server sends, and ends with its FIN
//! ```
//!
//! With `seed=` the stream is the sequence of [`clearway_http::body::random`] and the receiver
//! takes its SHA-256; with `plain` it is a repeated text.

use std::fmt;
use std::str::FromStr;

use clearway_base::{Duration, Instant};
use clearway_engine::{Ended, Io, Next, Service};
use clearway_http::body;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Who sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    /// The client.
    Up,
    /// The server.
    Down,
}

/// How much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Amount {
    Bytes(u64),
    Millis(u64),
}

/// What the client wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Order {
    pub(crate) direction: Direction,
    pub(crate) amount: Amount,
    pub(crate) seed: Option<u64>,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = if self.direction == Direction::Up { "up" } else { "down" };
        write!(f, "clearway-bulk/1 {direction} ")?;
        match self.amount {
            Amount::Bytes(bytes) => write!(f, "bytes={bytes} ")?,
            Amount::Millis(ms) => write!(f, "ms={ms} ")?,
        }
        match self.seed {
            Some(seed) => write!(f, "seed={seed}"),
            None => f.write_str("plain"),
        }
    }
}

impl FromStr for Order {
    type Err = ();

    fn from_str(text: &str) -> Result<Order, ()> {
        let words: Vec<&str> = text.trim_end().split(' ').collect();
        let [name, direction, amount, content] = words[..] else { return Err(()) };
        let number =
            |text: &str, name: &str| text.strip_prefix(name).and_then(|n| n.parse::<u64>().ok());
        let direction = match (name, direction) {
            ("clearway-bulk/1", "up") => Direction::Up,
            ("clearway-bulk/1", "down") => Direction::Down,
            _ => return Err(()),
        };
        let amount = match (number(amount, "bytes="), number(amount, "ms=")) {
            (Some(bytes), _) => Amount::Bytes(bytes),
            (_, Some(ms)) => Amount::Millis(ms),
            _ => return Err(()),
        };
        let seed = match content {
            "plain" => None,
            _ => Some(number(content, "seed=").ok_or(())?),
        };
        Ok(Order { direction, amount, seed })
    }
}

/// What a receiver tells of a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) bytes: u64,
    pub(crate) sha256: Option<String>,
}

/// One stream that is over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) receipt: Receipt,
    pub(crate) seconds: f64,
    pub(crate) error: Option<String>,
}

/// What a service has seen so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) open: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Streams that are over; a server keeps the latest only.
    pub(crate) outcomes: Vec<Outcome>,
}

/// Which side of the conversation this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Server,
    /// With what it wants, and of how many streams.
    Client(Order, u32),
}

/// Both sides of the conversation.
pub(crate) struct Bulk {
    role: Role,
    text: Vec<u8>,
    scratch: Vec<u8>,
    report: Report,
}

/// The longest order or receipt, in bytes.
const MAX_LINE: usize = 256;

/// Bytes handed over at a time. More would leave the cache before it is in packets.
const PIECE: usize = 128 * 1024;

/// How long nothing may happen.
const TIME_LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct Talk {
    phase: Phase,
    started: Instant,
    deadline: Instant,
    order: Option<Order>,
    outcome: Outcome,
}

enum Phase {
    /// The server waits for the order.
    Listening(Vec<u8>),
    /// The client has an order, or the server a receipt, to hand over.
    Saying(Vec<u8>),
    Sending(u64),
    Receiving(Option<Sha256>),
    /// The client has sent everything and waits for the receipt.
    Awaiting(Vec<u8>),
    /// Everything is said; the peer's FIN is waited for.
    Ending,
}

impl Bulk {
    pub(crate) fn new(role: Role) -> Bulk {
        let mut text = vec![0; PIECE];
        body::text(0, &mut text);
        Bulk { role, text, scratch: vec![0; PIECE], report: Report::default() }
    }

    fn is_server(&self) -> bool {
        self.role == Role::Server
    }

    fn listen<I: Io>(&mut self, now: Instant, talk: &mut Talk, io: &mut I) -> Option<Next> {
        let Phase::Listening(line) = &mut talk.phase else { return None };
        let bytes = io.recv();
        let (taken, complete) = match bytes.iter().position(|&b| b == b'\n') {
            Some(end) => (end + 1, true),
            None => (bytes.len(), false),
        };
        if taken == 0 {
            return Some(if io.peer_closed() { Next::Abort } else { Next::Wait });
        }
        line.extend_from_slice(&bytes[..taken]);
        io.consumed(taken);
        if line.len() > MAX_LINE {
            return Some(Next::Abort);
        }
        if !complete {
            return None;
        }
        let order = std::str::from_utf8(line).ok().and_then(|line| line.parse::<Order>().ok());
        let Some(order) = order else { return Some(Next::Abort) };
        self.follow(now, talk, order);
        None
    }

    // The order is known on this side: send or receive.
    fn follow(&mut self, now: Instant, talk: &mut Talk, order: Order) {
        talk.order = Some(order);
        talk.started = now;
        let sends = (order.direction == Direction::Up) != self.is_server();
        talk.phase = if sends {
            Phase::Sending(0)
        } else {
            Phase::Receiving(order.seed.map(|_| Sha256::new()))
        };
        talk.deadline = now + TIME_LIMIT;
    }

    fn say<I: Io>(&mut self, now: Instant, talk: &mut Talk, io: &mut I) -> Option<Next> {
        let Phase::Saying(line) = &mut talk.phase else { return None };
        let sent = io.send(line);
        line.drain(..sent);
        if !line.is_empty() {
            return Some(Next::Wait);
        }
        match (self.role, talk.order) {
            (Role::Client(order, _), None) => self.follow(now, talk, order),
            _ => {
                io.shutdown();
                talk.phase = Phase::Ending;
            }
        }
        None
    }

    fn send<I: Io>(&mut self, now: Instant, talk: &mut Talk, io: &mut I) -> Option<Next> {
        let (Phase::Sending(at), Some(order)) = (&mut talk.phase, talk.order) else { return None };
        loop {
            let left = match order.amount {
                Amount::Bytes(bytes) => bytes - *at,
                Amount::Millis(ms) if now.since(talk.started) < Duration::from_millis(ms) => {
                    u64::MAX
                }
                Amount::Millis(_) => 0,
            };
            if left == 0 {
                break;
            }
            let len = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE);
            let bytes = match order.seed {
                None => &self.text[..len],
                Some(seed) => {
                    // One byte more than there is room for, so that a send that is cut short wakes
                    // us.
                    let len = len.min(io.room().saturating_add(1));
                    body::random(seed, *at, &mut self.scratch[..len]);
                    &self.scratch[..len]
                }
            };
            let sent = io.send(bytes);
            *at += sent as u64;
            self.report.sent += sent as u64;
            if sent > 0 {
                talk.deadline = now + TIME_LIMIT;
            }
            if let Amount::Millis(ms) = order.amount {
                talk.deadline = talk.deadline.min(talk.started + Duration::from_millis(ms));
            }
            if sent < bytes.len() {
                return Some(Next::Wait);
            }
        }
        talk.outcome.receipt.bytes = *at;
        io.shutdown();
        talk.phase = if self.is_server() { Phase::Ending } else { Phase::Awaiting(Vec::new()) };
        talk.deadline = now + TIME_LIMIT;
        None
    }

    fn receive<I: Io>(&mut self, now: Instant, talk: &mut Talk, io: &mut I) -> Option<Next> {
        let Phase::Receiving(digest) = &mut talk.phase else { return None };
        let bytes = io.recv();
        let len = bytes.len();
        if len > 0 {
            if let Some(digest) = digest {
                digest.update(bytes);
            }
            io.consumed(len);
            talk.outcome.receipt.bytes += len as u64;
            self.report.received += len as u64;
            talk.deadline = now + TIME_LIMIT;
            return None;
        }
        if !io.peer_closed() {
            return Some(Next::Wait);
        }
        talk.outcome.receipt.sha256 = digest.take().map(|digest| hex(&digest.finalize()));
        talk.outcome.seconds = seconds_between(talk.started, now);
        if self.is_server() {
            // A number and a string are always JSON.
            let mut line = serde_json::to_string(&talk.outcome.receipt).unwrap_or_default();
            line.push('\n');
            talk.phase = Phase::Saying(line.into_bytes());
        } else {
            talk.phase = Phase::Ending;
            io.shutdown();
        }
        None
    }

    fn await_receipt<I: Io>(&mut self, now: Instant, talk: &mut Talk, io: &mut I) -> Option<Next> {
        let Phase::Awaiting(line) = &mut talk.phase else { return None };
        let bytes = io.recv();
        let len = bytes.len();
        line.extend_from_slice(bytes);
        io.consumed(len);
        if len > 0 && line.len() <= MAX_LINE {
            return None;
        }
        if !io.peer_closed() && line.len() <= MAX_LINE {
            return Some(Next::Wait);
        }
        talk.outcome.seconds = seconds_between(talk.started, now);
        match serde_json::from_slice::<Receipt>(line) {
            Ok(receipt) if receipt.bytes == talk.outcome.receipt.bytes => {
                talk.outcome.receipt = receipt
            }
            Ok(receipt) => {
                talk.outcome.error = Some(format!(
                    "the server received {} of {} bytes",
                    receipt.bytes, talk.outcome.receipt.bytes
                ));
            }
            Err(_) => talk.outcome.error = Some("the server ended without a receipt".into()),
        }
        talk.phase = Phase::Ending;
        None
    }
}

fn seconds_between(from: Instant, to: Instant) -> f64 {
    to.since(from).as_nanos() as f64 / 1e9
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 of the first `len` bytes of the sequence of `seed`.
pub(crate) fn digest_of(seed: u64, len: u64) -> String {
    let mut digest = Sha256::new();
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while at < len {
        let n = usize::try_from(len - at).unwrap_or(usize::MAX).min(PIECE);
        body::random(seed, at, &mut piece[..n]);
        digest.update(&piece[..n]);
        at += n as u64;
    }
    hex(&digest.finalize())
}

impl Service for Bulk {
    type Talk = Talk;
    type Report = Report;

    fn begin(&mut self, now: Instant) -> Talk {
        self.report.open += 1;
        let phase = match self.role {
            Role::Server => Phase::Listening(Vec::new()),
            Role::Client(order, _) => Phase::Saying(format!("{order}\n").into_bytes()),
        };
        Talk {
            phase,
            started: now,
            deadline: now + TIME_LIMIT,
            order: None,
            outcome: Outcome::default(),
        }
    }

    fn on_ready<I: Io>(&mut self, now: Instant, talk: &mut Talk, io: &mut I) -> Next {
        loop {
            let next = match talk.phase {
                Phase::Listening(_) => self.listen(now, talk, io),
                Phase::Saying(_) => self.say(now, talk, io),
                Phase::Sending(_) => self.send(now, talk, io),
                Phase::Receiving(_) => self.receive(now, talk, io),
                Phase::Awaiting(_) => self.await_receipt(now, talk, io),
                Phase::Ending => match io.recv().len() {
                    0 if io.peer_closed() => Some(Next::Close),
                    0 => Some(Next::Wait),
                    n => {
                        io.consumed(n);
                        None
                    }
                },
            };
            if let Some(next) = next {
                return next;
            }
        }
    }

    fn deadline(&self, talk: &Talk) -> Instant {
        talk.deadline
    }

    fn on_timeout<I: Io>(&mut self, now: Instant, talk: &mut Talk, io: &mut I) -> Next {
        let sends_for_a_time = matches!(talk.phase, Phase::Sending(_))
            && matches!(talk.order, Some(Order { amount: Amount::Millis(ms),
                .. }) if now >= talk.started + Duration::from_millis(ms));
        if sends_for_a_time {
            return self.on_ready(now, talk, io);
        }
        talk.outcome.error = Some(format!("nothing happened for {} s", TIME_LIMIT.as_secs()));
        Next::Abort
    }

    fn is_idle(&self, talk: &Talk) -> bool {
        matches!(talk.phase, Phase::Ending)
    }

    fn end(&mut self, talk: Option<Talk>, why: Option<Ended>) {
        self.report.open -= 1;
        let Some(mut talk) = talk else { return };
        let over = matches!(talk.phase, Phase::Ending);
        if !over && talk.outcome.error.is_none() {
            talk.outcome.error = Some(match why {
                Some(Ended::Failed(Some(failure))) => failure.to_string(),
                Some(Ended::Stopped) => "stopped before the end".into(),
                _ => "the connection ended too early".into(),
            });
        }
        if self.is_server() && self.report.outcomes.len() >= 16 {
            self.report.outcomes.remove(0);
        }
        self.report.outcomes.push(talk.outcome);
    }

    fn is_finished(&self) -> bool {
        matches!(self.role, Role::Client(_,
            streams) if self.report.outcomes.len() >= streams as usize)
    }

    fn report(&self) -> Report {
        self.report.clone()
    }
}

#[cfg(test)]
mod tests;
