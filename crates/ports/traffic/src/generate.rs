//! The generator of one queue.

use clearway_base::Instant;
use clearway_dev::{Dev, DevError};
use clearway_pkt::{BURST, Buf, Burst, TxMeta};

use crate::account::Account;
use crate::frame::{Shape, Stamp, Template, TooShort, Trace};
use crate::pace::Pace;
use crate::rate::FramesPerSecond;

/// What one queue shall send.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Plan {
    /// What the frames are.
    pub shape: Shape,
    /// Bytes of each, from its first header to its last byte without a check sequence.
    pub size: usize,
    /// Flows of all queues together.
    pub flows: u32,
    /// Which queue this is …
    pub queue: u32,
    /// … of how many. The flows are dealt out one by one, and each queue has at least one.
    pub queues: u32,
    /// What this queue shall offer; None for as much as the port takes.
    pub rate: Option<FramesPerSecond>,
    /// When to begin.
    pub start: Instant,
    /// When to end.
    pub end: Instant,
}

/// What was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sent {
    /// Frames that the port was given.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that were due and were never given to the port, because it had no room for them in
    /// time.
    pub short: u64,
    /// How often the port had no room.
    pub no_room: u64,
}

impl Sent {
    /// Adds what another queue sent.
    pub fn add(&mut self, other: &Sent) {
        self.frames += other.frames;
        self.bytes += other.bytes;
        self.short += other.short;
        self.no_room += other.no_room;
    }
}

/// Sends numbered frames on one queue and keeps account of what comes back to it.
pub struct Generator {
    plan: Plan,
    template: Template,
    pace: Option<Pace>,
    sent: Sent,
    account: Account,
    /// The next frame: its flow among this queue's, and its number in the flow.
    turn_of: u32,
    round: u32,
    flows: u32,
    done: bool,
}

impl Generator {
    /// A generator that begins at `plan.start`. `account` is used on and emptied.
    pub fn new(plan: Plan, mut account: Account) -> Result<Generator, TooShort> {
        account.clear();
        let template = Template::new(plan.shape, plan.size)?;
        let pace = plan.rate.map(|rate| Pace::new(rate, plan.start));
        // Queue q of n has the flows q, q + n, q + 2n …
        let flows = plan.flows.saturating_sub(plan.queue).div_ceil(plan.queues.max(1)).max(1);
        let sent = Sent::default();
        Ok(Generator {
            plan,
            template,
            pace,
            sent,
            account,
            turn_of: 0,
            round: 0,
            flows,
            done: false,
        })
    }

    /// Takes what came in, sends what is due, and says whether there was anything to do.
    pub fn turn<D: Dev>(
        &mut self,
        now: Instant,
        dev: &mut D,
        burst: &mut Burst<D::Buf>,
    ) -> Result<bool, DevError> {
        dev.set_now(now);
        dev.rx(burst)?;
        let came = !burst.is_empty();
        for index in 0..burst.len() {
            if let Some((buf, _)) = burst.peek(index) {
                self.account.note(now, &self.template, buf.bytes());
            }
        }
        self.account.end_burst(now);
        burst.clear();
        let sent = !self.done && self.send(now, dev);
        dev.flush();
        Ok(came || sent)
    }

    fn send<D: Dev>(&mut self, now: Instant, dev: &mut D) -> bool {
        if now < self.plan.start {
            return false;
        }
        // What is due at the end is still sent, whenever the turn after it comes.
        let until = now.min(self.plan.end);
        let wanted = match &mut self.pace {
            Some(pace) => pace.allowed(until).min(BURST as u64) as usize,
            None if now >= self.plan.end => 0,
            None => BURST,
        };
        let stamp = Stamp::of(now);
        let size = self.template.len();
        let mut frames = 0;
        for _ in 0..wanted {
            let Some(room) = dev.reserve(size) else {
                self.sent.no_room += 1;
                break;
            };
            let flow = self.plan.queue + self.turn_of * self.plan.queues;
            self.template.write(room, Trace { flow, seq: self.round, stamp });
            dev.commit(size, TxMeta::default());
            frames += 1;
            self.turn_of += 1;
            if self.turn_of == self.flows {
                self.turn_of = 0;
                self.round = self.round.wrapping_add(1);
            }
        }
        self.sent.frames += frames;
        self.sent.bytes += frames * size as u64;
        if let Some(pace) = &mut self.pace {
            pace.sent(frames);
        }
        if now >= self.plan.end && frames < BURST as u64 {
            if let Some(pace) = &mut self.pace {
                pace.give_up(until);
                self.sent.short = pace.short();
            }
            self.done = true;
        }
        frames > 0
    }

    /// Whether everything was sent that shall be.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Sends nothing more; what comes back is still counted. `now` is when it was told so.
    pub fn stop(&mut self, now: Instant) {
        self.plan.end = self.plan.end.min(now);
    }

    /// When the next frame is due; [`Instant::NEVER`] when none is left.
    pub fn next_due(&self) -> Instant {
        match &self.pace {
            _ if self.done => Instant::NEVER,
            Some(pace) => pace.next().min(self.plan.end).max(self.plan.start),
            None => self.plan.start,
        }
    }

    /// What was sent.
    pub fn sent(&self) -> Sent {
        let short = self.pace.as_ref().map_or(0, Pace::short);
        Sent { short, ..self.sent }
    }

    /// What came back.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The account, for the next generator.
    pub fn into_account(self) -> Account {
        self.account
    }

    /// What it was told to do.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
}

#[cfg(test)]
mod tests;
