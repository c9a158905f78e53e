//! Requests and answers.

use clearway_base::Instant;

use super::{BEGUN_PER_TURN, Client, Conn, Ending, Phase, State};
use crate::framing::Unreadable;
use crate::net::{Net, Token};
use crate::plan::Protocol;

/// Bytes that one connection sends in a burst before the next one's turn comes, and datagrams.
const BURST_BYTES: u64 = 64 * 1024;
const BURST_DATAGRAMS: u64 = 32;

impl<I: Copy + Eq> Client<I> {
    /// When the n-th request of an open loop is due.
    fn due(&self, n: u64) -> Instant {
        let every = u128::from(self.plan.every_ps.unwrap_or(0));
        let ns = u128::from(n) * every / 1_000;
        Instant::from_nanos(
            self.t0.as_nanos().saturating_add(u64::try_from(ns).unwrap_or(u64::MAX)),
        )
    }

    /// How many requests of an open loop were due by now, the end of the time at most.
    pub(super) fn due_count(&self, now: Instant) -> u64 {
        let Some(every) = self.plan.every_ps else { return 0 };
        if !self.until.is_set() {
            return 0;
        }
        // The last one is due before the end.
        let until = now.min(Instant::from_nanos(self.until.as_nanos().saturating_sub(1)));
        let ps = u128::from(until.since(self.t0).as_nanos()) * 1_000 + 999;
        u64::try_from(ps / u128::from(every.max(1))).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// When the next request of an open loop can be made; NEVER when only an answer makes it
    /// possible.
    pub(super) fn next_due(&self) -> Instant {
        if self.plan.every_ps.is_none() || self.free.is_empty() {
            return Instant::NEVER;
        }
        let at = self.due(self.made);
        if at < self.until { at } else { Instant::NEVER }
    }

    /// Whether there is something to ask at once.
    pub(super) fn asks_more(&self) -> bool {
        self.plan.every_ps.is_none() && (self.begun < self.plan.active || !self.free.is_empty())
    }

    /// Makes the requests that are due; false when there was none.
    pub(super) fn ask<N: Net<Id = I>>(&mut self, net: &mut N, now: Instant) -> bool {
        if self.plan.every_ps.is_some() {
            return self.ask_what_is_due(net, now);
        }
        let from = self.begun;
        let to = (from + BEGUN_PER_TURN).min(self.plan.active);
        for slot in from..to {
            match (self.plan.answered(), self.plan.depth) {
                (true, depth) => (0..depth).for_each(|_| self.make(net, now, slot, now)),
                (false, _) => self.free.push_back(slot),
            }
        }
        self.begun = to;
        let bursts = if self.plan.answered() { 0 } else { self.free.len() };
        for _ in 0..bursts {
            if let Some(slot) = self.free.pop_front() {
                self.burst(net, now, slot);
            }
        }
        to > from || bursts > 0
    }

    fn ask_what_is_due<N: Net<Id = I>>(&mut self, net: &mut N, now: Instant) -> bool {
        let due = self.due_count(now);
        let before = self.made;
        while self.made < due {
            let Some(slot) = self.free.pop_front() else { break };
            let at = self.due(self.made);
            self.made += 1;
            if at >= self.measure_from {
                self.report.delay.record(now.since(at).as_nanos());
            }
            self.make(net, now, slot, at);
        }
        self.made > before
    }

    /// A request that was due at `due` is made on a slot's connection.
    fn make<N: Net<Id = I>>(&mut self, net: &mut N, now: Instant, slot: u32, due: Instant) {
        let depth = self.plan.depth;
        let Some(s) = self.slots.get_mut(slot as usize) else { return };
        s.unsent += self.plan.message.len() as u64;
        let conn = s.conn;
        if self.plan.answered() {
            let mut place = s.oldest + s.outstanding;
            if place >= depth {
                place -= depth;
            }
            self.times[slot as usize * depth as usize + place as usize] = due;
            if s.outstanding == 0 {
                s.deadline = now + self.plan.timeout;
                if s.deadline < s.looked_at {
                    s.looked_at = s.deadline;
                    self.timers.arm(slot, s.deadline);
                }
            }
            s.outstanding += 1;
            self.in_flight += 1;
            self.report.requests += u64::from(due >= self.measure_from);
        }
        match self.conns[conn as usize].state {
            State::OPEN => self.flush(net, Token { conn, slot }),
            State::CLOSED if self.plan.close_after.is_some() => self.open(net, now, conn),
            // It leaves when the connection is there.
            _ => {}
        }
    }

    /// Sends as much as one connection may in its turn.
    fn burst<N: Net<Id = I>>(&mut self, net: &mut N, now: Instant, slot: u32) {
        let len = self.plan.message.len() as u64;
        let messages = if self.plan.protocol == Protocol::Udp {
            BURST_DATAGRAMS
        } else {
            (BURST_BYTES / len.max(1)).max(1)
        };
        let Some(s) = self.slots.get_mut(slot as usize) else { return };
        s.unsent += (messages - 1) * len;
        self.make(net, now, slot, now);
    }

    /// Hands over what was not yet. In a burst the slot may send again once all of it is gone.
    pub(super) fn flush<N: Net<Id = I>>(&mut self, net: &mut N, token: Token) {
        let len = self.plan.message.len() as u64;
        let Some(s) = self.slots.get_mut(token.slot as usize) else { return };
        let Some(&Conn { id: Some(id), state: State::OPEN }) = self.conns.get(s.conn as usize)
        else {
            return;
        };
        let before = s.unsent;
        while s.unsent > 0 {
            // The rest of the message that was begun, and then whole ones.
            let from = (len - s.unsent % len) % len;
            let to = (from + s.unsent).min(self.text.len() as u64);
            let sent = net.send(token, id, &self.text[from as usize..to as usize]) as u64;
            s.unsent -= sent;
            if sent < to - from {
                break;
            }
        }
        self.report.bytes_out += before - s.unsent;
        if !self.plan.answered() {
            let (unsent, counts) =
                (s.unsent, self.now >= self.measure_from && self.now < self.until);
            self.report.requests +=
                if counts { before.div_ceil(len) - unsent.div_ceil(len) } else { 0 };
            if unsent == 0 && before > 0 {
                self.free.push_back(token.slot);
            }
        }
    }

    /// There is room again.
    pub fn on_writable<N: Net<Id = I>>(&mut self, net: &mut N, token: Token) {
        if token.slot != Token::IDLE {
            self.flush(net, token);
        }
    }

    /// Bytes came, or one datagram; [`Client::go_on`] follows when there are no more.
    #[inline]
    pub fn on_bytes(&mut self, now: Instant, token: Token, bytes: &[u8]) -> Result<(), Unreadable> {
        self.report.bytes_in += bytes.len() as u64;
        if !self.plan.answered() || self.report.phase >= Phase::Closing {
            return Ok(());
        }
        let Some(s) = self.slots.get_mut(token.slot as usize) else {
            self.report.unexpected += 1;
            return Ok(());
        };
        let (found, refused) =
            if self.plan.protocol == Protocol::Udp || self.reader.is_one(&s.reading, bytes) {
                (1, 0)
            } else {
                let found = self.reader.read(&mut s.reading, bytes)?;
                (found.ended, found.refused)
            };
        self.report.refused += u64::from(refused);
        let depth = self.plan.depth;
        let ended = found.min(s.outstanding);
        self.report.unexpected += u64::from(found - ended);
        for _ in 0..ended {
            let due = self.times[token.slot as usize * depth as usize + s.oldest as usize];
            s.oldest += 1;
            if s.oldest == depth {
                s.oldest = 0;
            }
            if due >= self.measure_from {
                self.report.answers += 1;
                self.report.latency.record(now.since(due).as_nanos());
            }
        }
        s.outstanding -= ended;
        s.answered += ended;
        s.freed += ended;
        s.deadline = now + self.plan.timeout;
        self.in_flight -= u64::from(ended);
        if ended > 0 {
            self.failures = 0;
        }
        Ok(())
    }

    /// Answers were told: what follows from them.
    #[inline]
    pub fn go_on<N: Net<Id = I>>(&mut self, net: &mut N, now: Instant, token: Token) {
        let Some(s) = self.slots.get_mut(token.slot as usize) else { return };
        let freed = std::mem::take(&mut s.freed);
        if freed == 0 {
            return;
        }
        if self.plan.close_after.is_some_and(|most| s.answered >= most && s.outstanding == 0) {
            self.close(net, token);
        }
        self.replace(net, now, token, freed);
    }

    /// `count` requests of a slot are over.
    pub(super) fn replace<N: Net<Id = I>>(
        &mut self,
        net: &mut N,
        now: Instant,
        token: Token,
        count: u32,
    ) {
        for _ in 0..count {
            if self.plan.every_ps.is_some() {
                self.free.push_back(token.slot);
            } else if self.report.phase == Phase::Running && now < self.until {
                self.make(net, now, token.slot, now);
            }
        }
    }

    fn close<N: Net<Id = I>>(&mut self, net: &mut N, token: Token) {
        let conn = &mut self.conns[token.conn as usize];
        if let Some(id) = conn.id.take() {
            conn.state = State::CLOSED;
            self.report.open -= 1;
            if self.plan.reset { net.abort(id) } else { net.close(id) }
        }
        if let Some(s) = self.slots.get_mut(token.slot as usize) {
            s.answered = 0;
            s.reading = Default::default();
        }
    }

    /// What was asked on a connection that is no more has no answer; answers how many requests that
    /// were.
    pub(super) fn lose(&mut self, token: Token, why: Ending) -> u32 {
        let depth = self.plan.depth;
        let Some(s) = self.slots.get_mut(token.slot as usize) else { return 0 };
        let lost = std::mem::take(&mut s.outstanding);
        for n in 0..lost {
            let place = token.slot as usize * depth as usize + ((s.oldest + n) % depth) as usize;
            let counts = u64::from(self.times[place] >= self.measure_from);
            if why == Ending::TimedOut {
                self.report.timeouts += counts;
            } else {
                self.report.failed += counts;
            }
        }
        self.in_flight -= u64::from(lost);
        let was_blocked = s.unsent > 0;
        (s.unsent, s.oldest, s.answered, s.reading) = (0, 0, 0, Default::default());
        if self.plan.answered() {
            return lost;
        }
        // A burst that was cut off goes on with the next connection.
        if was_blocked {
            self.free.push_back(token.slot);
        }
        0
    }

    pub(super) fn on_timer<N: Net<Id = I>>(&mut self, net: &mut N, now: Instant, slot: u32) {
        let Some(s) = self.slots.get_mut(slot as usize) else { return };
        s.looked_at = Instant::NEVER;
        if s.outstanding == 0 {
            return;
        }
        if s.deadline > now {
            s.looked_at = s.deadline;
            self.timers.arm(slot, s.deadline);
            return;
        }
        let token = Token { conn: s.conn, slot };
        if self.conns[s.conn as usize].id.is_some() {
            self.on_ended(net, now, token, Ending::TimedOut);
        } else {
            // It waits for a connection that does not come.
            let lost = self.lose(token, Ending::TimedOut);
            self.replace(net, now, token, lost);
        }
    }

    /// The end of a burst: behind what was sent comes our FIN, and the server's follows when it has
    /// read all.
    pub(super) fn end_streams<N: Net<Id = I>>(&mut self, net: &mut N) {
        for s in &mut self.slots {
            s.unsent = 0;
            if let Some(id) = self.conns[s.conn as usize].id {
                net.shutdown(id);
                self.streams += u32::from(self.plan.protocol == Protocol::Tcp);
            }
        }
    }
}
