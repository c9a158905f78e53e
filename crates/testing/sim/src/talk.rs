//! Conversations: what two applications do over one connection, said as two parts, and the player
//! that acts one part.

use std::collections::VecDeque;

use clearway_base::{Duration, Instant};
use clearway_proto::{
    ConnEvents, ConnId, ConnOptions, Failure, RecvError, SendError, Stack, Unreachable,
};

use crate::conditions::Bounds;
use crate::stores::SimEnv;
use crate::stream::Stream;

/// What a player does next with the sending side, in order.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Act {
    /// Sends so many bytes of its stream.
    Send(u64),
    /// Sends so many bytes, the last of which is urgent.
    Urgent(u64),
    /// Waits until so many bytes in all were read.
    AwaitRead(u64),
    /// Waits for the end of the peer's stream.
    AwaitEnd,
    /// Waits until everything sent was acknowledged.
    AwaitAcked,
    /// Does nothing for so long.
    Pause(Duration),
    /// Ends its stream; reading goes on.
    Shutdown,
    /// Lets go of the connection at once, whatever was not read.
    Close,
    /// Resets the connection.
    Abort,
}

/// How a player reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// Everything at once.
    Eager,
    /// So many bytes at a time, with a pause between.
    Slow(u32, Duration),
    /// Nothing for so long, then everything.
    Late(Duration),
    /// Nothing ever.
    Never,
}

/// What one side does.
#[derive(Clone, PartialEq, Debug)]
pub struct Part {
    /// With the sending side.
    pub acts: Vec<Act>,
    /// With the receiving side.
    pub reading: Reading,
    /// The options of the connection.
    pub options: ConnOptions,
    /// Lets go when its acts are done and the peer's stream has ended. False: when its acts are
    /// done.
    pub waits_for_end: bool,
}

impl Part {
    /// A part with these acts, reading everything at once.
    pub fn new(acts: Vec<Act>) -> Part {
        Part { acts, reading: Reading::Eager, options: ConnOptions::default(), waits_for_end: true }
    }

    /// Bytes it will send when nothing fails.
    pub fn bytes(&self) -> u64 {
        self.acts.iter().map(|a| if let Act::Send(n) | Act::Urgent(n) = a { *n } else { 0 }).sum()
    }
}

/// How a conversation must end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expect {
    /// Both sides get everything.
    Whole,
    /// Both sides get a prefix, and it may fail.
    Prefix,
    /// The side that connected must be told of a failure.
    Fails,
}

/// What became of one side.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Fate {
    /// The player has begun.
    pub begun: bool,
    /// The handshake was seen to succeed.
    pub opened: bool,
    /// Bytes that the connection took.
    pub sent: u64,
    /// Bytes read, all of which were the right ones.
    pub read: u64,
    /// The player ended its stream.
    pub shut: bool,
    /// The player saw the end of the peer's stream.
    pub saw_end: bool,
    /// The player let go.
    pub over: bool,
    /// What it was told.
    pub failure: Option<Failure>,
    /// Urgent data was announced.
    pub urgent: bool,
    /// When it was over.
    pub at: Instant,
    /// How long the player had been there then.
    pub lived: Duration,
    /// Bytes that had arrived a minute before it was over (as long as an owner who has gone is
    /// waited for), and then.
    pub arrived: [u64; 2],
}

/// A connection whose owner has let go has to get [`ORPHAN_PROGRESS`] bytes to its peer in each
/// minute, or is reset (`clearway_proto`, `TcpConfig::orphan`); a stack counts it in milliseconds.
const ORPHAN: Duration = Duration::from_millis(60_000 - 1);
const ORPHAN_PROGRESS: u64 = 4096;

/// Who has heard of a connection that was not opened forgets it after its answer and five more,
/// the last of which waits for 32 s (`clearway_proto`, `TcpConfig::syn_ack_retries`).
const HALF_OPEN: Duration = Duration::from_secs(63);

/// A conversation and what became of it.
#[derive(Clone, Debug)]
pub struct Conversation {
    /// What each side does; the first connects.
    pub parts: [Part; 2],
    /// How it must end.
    pub expect: Expect,
    /// What became of each side.
    pub fates: [Fate; 2],
}

impl Conversation {
    /// A conversation that has not begun.
    pub fn new(connects: Part, accepts: Part, expect: Expect) -> Conversation {
        Conversation { parts: [connects, accepts], expect, fates: [Fate::default(); 2] }
    }

    /// How long all that is said takes at the most.
    pub fn time(&self, bounds: &Bounds) -> Duration {
        let segments = self.parts.iter().map(|part| part.options.max_segment);
        let max_segment = segments.filter(|size| *size > 0).min().unwrap_or(0);
        bounds.time_of(self.parts.iter().map(Part::bytes).sum(), max_segment)
    }

    /// The last segment that opens the connection was lost, and who accepts has forgotten it or
    /// never knew of it (a cookie). Who connects waits for the other one to speak.
    pub fn was_never_heard_of(&self) -> bool {
        let [a, b] = &self.fates;
        a.opened && a.sent == 0 && !a.shut && !b.begun
    }

    /// Nothing more will happen.
    pub fn is_over(&self) -> bool {
        let [a, b] = &self.fates;
        let never_met = a.over && a.failure.is_some() && !b.begun;
        never_met || (a.over && b.over) || (a.over && !b.begun && self.expect != Expect::Whole)
    }

    /// The link lost every question for the peer's link address, or every answer: who connects is
    /// told that nobody is there, and there is nothing else to be held against.
    fn found_nobody(&self) -> bool {
        let [a, b] = &self.fates;
        !a.opened && !b.begun && a.failure == Some(Failure::Unreachable(Unreachable::Host))
    }

    /// Side `me` was reset because the other one had been let go of, and what it still had to send
    /// went too slowly.
    fn was_given_up(&self, me: usize) -> bool {
        let (mine, theirs) = (&self.fates[me], &self.fates[1 - me]);
        let [before, then] = mine.arrived;
        let let_go = theirs.over && theirs.failure.is_none();
        mine.failure == Some(Failure::Reset)
            && let_go
            && mine.at.since(theirs.at) >= ORPHAN
            && then - before < ORPHAN_PROGRESS
    }

    /// The link lost everything that would have opened the connection for who accepts, until that
    /// side had forgotten it.
    fn was_forgotten(&self) -> bool {
        let [a, b] = &self.fates;
        a.failure == Some(Failure::Reset) && !b.begun && a.lived >= HALF_OPEN
    }

    /// Holds what happened against what had to. Err says what is wrong.
    pub fn judge(&self) -> Result<(), String> {
        let is_given_up = self.was_given_up(0) || self.was_given_up(1);
        let is_excused =
            is_given_up || self.was_forgotten() || self.was_never_heard_of() || self.found_nobody();
        for (me, other) in [(0, 1), (1, 0)] {
            let (mine, theirs) = (&self.fates[me], &self.fates[other]);
            if mine.read > theirs.sent {
                return Err(format!(
                    "side {me} read {} bytes of the {} that were sent",
                    mine.read, theirs.sent
                ));
            }
            if mine.saw_end && !theirs.shut {
                return Err(format!("side {me} saw the end of a stream that was not ended"));
            }
            if mine.saw_end && mine.read != theirs.sent {
                return Err(format!(
                    "side {me} saw the end after {} of {} bytes",
                    mine.read, theirs.sent
                ));
            }
            if self.expect == Expect::Whole && !is_excused {
                if let Some(failure) = mine.failure {
                    return Err(format!("side {me} failed: {failure}"));
                }
                if !mine.over {
                    return Err(format!("side {me} never ended: {mine:?}"));
                }
                let wanted = self.parts[other].bytes();
                if mine.saw_end && mine.read != wanted {
                    return Err(format!("side {me} read {} bytes of {wanted}", mine.read));
                }
            }
        }
        if self.expect == Expect::Fails && self.fates[0].failure.is_none() {
            return Err(format!("no failure was told: {:?}", self.fates[0]));
        }
        Ok(())
    }
}

/// Acts one part of a conversation.
pub struct Player {
    /// Which conversation.
    pub conversation: usize,
    /// Which side of it.
    pub side: usize,
    /// Over which connection.
    pub conn: ConnId,
    /// What became of it so far.
    pub fate: Fate,
    part: Part,
    step: usize,
    done_in_step: u64,
    pause_until: Option<Instant>,
    /// The last write was cut short: only the WRITABLE event may wake us.
    write_blocked: bool,
    read_from: Instant,
    out: Stream,
    inward: Stream,
    scratch: Vec<u8>,
    /// The place of the first byte in it.
    scratch_at: u64,
    chunk: usize,
    wrong: Option<String>,
    begun: Instant,
    /// When how much had arrived, as far back as that matters.
    arrived: VecDeque<(Instant, u64)>,
}

/// The stream that one side of a conversation sends.
pub fn stream_of(conversation: usize, side: usize) -> Stream {
    Stream((conversation as u64 * 2 + side as u64 + 1).wrapping_mul(0xd134_2543_de82_ef95))
}

impl Player {
    /// Whether it has this side of this conversation.
    pub fn is_of(&self, conversation: usize, side: usize) -> bool {
        (self.conversation, self.side) == (conversation, side)
    }

    /// A player over a connection. `chunk`: how many bytes it writes at a time at most.
    pub fn new(
        conversation: usize,
        side: usize,
        conn: ConnId,
        part: Part,
        now: Instant,
        chunk: usize,
    ) -> Player {
        let read_from = if let Reading::Late(wait) = part.reading { now + wait } else { now };
        Player {
            conversation,
            side,
            conn,
            fate: Fate { begun: true, ..Fate::default() },
            part,
            step: 0,
            done_in_step: 0,
            pause_until: None,
            write_blocked: false,
            read_from,
            out: stream_of(conversation, side),
            inward: stream_of(conversation, 1 - side),
            scratch: Vec::new(),
            scratch_at: 0,
            chunk,
            wrong: None,
            begun: now,
            arrived: VecDeque::from([(now, 0)]),
        }
    }

    /// What went wrong with the bytes, if anything did.
    pub fn wrong(&mut self) -> Option<String> {
        self.wrong.take()
    }

    /// Something happened to the connection.
    pub fn on_events(&mut self, now: Instant, stack: &mut Stack<SimEnv>, what: ConnEvents) {
        if what.has(ConnEvents::CONNECTED) {
            self.fate.opened = true;
        }
        if what.has(ConnEvents::URGENT) {
            self.fate.urgent = true;
        }
        if what.has(ConnEvents::WRITABLE) {
            self.write_blocked = false;
        }
        self.note_arrived(now, stack);
        if what.has(ConnEvents::FAILED) {
            let failure = stack.failure(self.conn);
            if failure.is_none() {
                self.wrong = Some("FAILED was told, and there is no failure".to_owned());
            }
            self.read(now, stack);
            self.fate.failure = failure;
            stack.close(self.conn);
            self.over(now);
            return;
        }
        self.act(now, stack);
    }

    /// Does whatever can be done now.
    fn act(&mut self, now: Instant, stack: &mut Stack<SimEnv>) {
        loop {
            let read = !self.fate.over && self.read(now, stack);
            let acted = !self.fate.over && self.step(now, stack);
            if !read && !acted {
                break;
            }
        }
        let done = self.step >= self.part.acts.len();
        if !self.fate.over && done && (self.fate.saw_end || !self.part.waits_for_end) {
            self.let_go(now, stack);
        }
    }

    /// When the player wants to be woken without an event.
    pub fn wake(&self, stack: &Stack<SimEnv>) -> Option<Instant> {
        if self.fate.over {
            return None;
        }
        let slow = !matches!(self.part.reading, Reading::Eager | Reading::Never);
        let more = slow
            && !self.fate.saw_end
            && (stack.unread(self.conn) > 0 || stack.peer_closed(self.conn));
        let read_at = more.then_some(self.read_from);
        match (self.pause_until, read_at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn let_go(&mut self, now: Instant, stack: &mut Stack<SimEnv>) {
        self.fate.shut = true;
        stack.close(self.conn);
        self.over(now);
    }

    fn over(&mut self, now: Instant) {
        self.fate.over = true;
        self.fate.at = now;
        self.fate.lived = now.since(self.begun);
        let [first, last] = [self.arrived.front(), self.arrived.back()];
        self.fate.arrived = [first, last].map(|at| at.map_or(0, |(_, bytes)| *bytes));
    }

    /// Writes down how much has arrived, and forgets what was long before.
    fn note_arrived(&mut self, now: Instant, stack: &Stack<SimEnv>) {
        let bytes = self.fate.read + u64::from(stack.unread(self.conn));
        if self.arrived.back().is_none_or(|(_, known)| *known < bytes) {
            self.arrived.push_back((now, bytes));
        }
        while self.arrived.get(1).is_some_and(|(at, _)| now.since(*at) >= ORPHAN) {
            self.arrived.pop_front();
        }
    }

    /// Does one act; false when it has to wait.
    fn step(&mut self, now: Instant, stack: &mut Stack<SimEnv>) -> bool {
        let Some(&act) = self.part.acts.get(self.step) else { return false };
        let go_on = match act {
            Act::Send(n) => return self.send(stack, n, false),
            Act::Urgent(n) => return self.send(stack, n, true),
            Act::AwaitRead(n) => self.fate.read >= n,
            Act::AwaitEnd => self.fate.saw_end,
            Act::AwaitAcked => {
                let acked = stack.queued(self.conn) == 0;
                self.pause_until = (!acked).then_some(now + Duration::from_millis(10));
                acked
            }
            Act::Pause(wait) => {
                let until = *self.pause_until.get_or_insert(now + wait);
                if until <= now {
                    self.pause_until = None;
                }
                until <= now
            }
            Act::Shutdown => {
                self.fate.shut = true;
                match stack.shutdown(self.conn) {
                    Ok(()) | Err(SendError::Failed(_)) => {}
                    Err(why) => self.wrong = Some(format!("shutdown refused: {why}")),
                }
                true
            }
            Act::Close => {
                self.let_go(now, stack);
                return true;
            }
            Act::Abort => {
                stack.abort(self.conn);
                self.over(now);
                return true;
            }
        };
        if go_on {
            self.step += 1;
            self.done_in_step = 0;
        }
        go_on
    }

    fn send(&mut self, stack: &mut Stack<SimEnv>, total: u64, urgent: bool) -> bool {
        if self.write_blocked {
            return false;
        }
        let left = total - self.done_in_step;
        let n = left.min(self.chunk as u64) as usize;
        let from = self.fate.sent;
        let end = self.scratch_at + self.scratch.len() as u64;
        let is_ready = self.scratch_at <= from && from + n as u64 <= end;
        if !is_ready {
            // More than is offered, for what is not taken is offered again.
            self.scratch_at = from;
            self.scratch.resize(2 * n, 0);
            self.out.fill(from, &mut self.scratch);
        }
        let at = (from - self.scratch_at) as usize;
        let bytes = &self.scratch[at..at + n];
        let last = n as u64 == left;
        let took = match urgent && last {
            true => stack.send_urgent(self.conn, bytes),
            false => stack.send(self.conn, bytes),
        };
        match took {
            Ok(took) => {
                if took > n {
                    self.wrong = Some(format!("send took {took} bytes of {n}"));
                }
                self.fate.sent += took as u64;
                self.done_in_step += took as u64;
                self.write_blocked = took < n;
                if self.done_in_step >= total {
                    self.step += 1;
                    self.done_in_step = 0;
                    self.write_blocked = false;
                    return true;
                }
                took > 0
            }
            // The event comes, too.
            Err(SendError::Failed(_)) => false,
            Err(why) => {
                self.wrong = Some(format!("send refused: {why}"));
                false
            }
        }
    }

    /// Reads what the reading allows; true when something was read.
    fn read(&mut self, now: Instant, stack: &mut Stack<SimEnv>) -> bool {
        let (mut budget, every) = match self.part.reading {
            Reading::Never => return false,
            Reading::Slow(n, every) => (n as usize, Some(every)),
            Reading::Eager | Reading::Late(_) => (usize::MAX, None),
        };
        if now < self.read_from {
            return false;
        }
        let mut any = false;
        while budget > 0 {
            let n = match stack.recv(self.conn) {
                Ok([]) => {
                    if stack.peer_closed(self.conn) && !self.fate.saw_end {
                        self.fate.saw_end = true;
                        any = true;
                    }
                    break;
                }
                Ok(bytes) => {
                    let n = bytes.len().min(budget);
                    if let Some(place) = self.inward.first_wrong(self.fate.read, &bytes[..n]) {
                        self.wrong = Some(format!("byte {place} of the stream is wrong"));
                    }
                    n
                }
                Err(RecvError::Failed(_)) => break,
                Err(why) => {
                    self.wrong = Some(format!("recv refused: {why}"));
                    break;
                }
            };
            self.fate.read += n as u64;
            stack.consumed(self.conn, n as u32);
            budget -= n;
            any = true;
        }
        if let (true, Some(every)) = (any, every) {
            self.read_from = now + every;
        }
        any
    }
}
