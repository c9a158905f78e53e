//! TIME-WAIT (RFC 9293 3.6, RFC 1337, RFC 6191): the last segments of a finished connection must
//! die before its pair of endpoints is used again.
//!
//! All records wait equally long, so they lie in the order in which they end: no timer is needed
//! but that of the oldest.

use super::clock::stamp;
use super::records::TimeWait;
use clearway_base::{Duration, Instant};
use clearway_wire::tcp::TcpOptions;
use clearway_wire::{Flags, Segment, Seq};

use super::context::{Arrival, Cx};
use super::passive::REUSE_GAP;
use super::{Tcp, isn};
use crate::config::Config;
use crate::counters::{Counters, Drop};
use crate::flow::{FlowKey, FlowRef, LifePhase};
use crate::store::Env;

/// How old a record is at least whose pair of endpoints the stack chooses again by itself: by then
/// a timestamp has moved on, whatever clock made it (RFC 7323 5.4).
const REUSE_AFTER: Duration = Duration::from_secs(1);

/// Whether a connection of ours may have a pair of endpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Claim {
    /// Nobody has it.
    Free,
    /// The record at this place in TIME-WAIT has it, and may be taken over.
    Again(u32),
    /// Somebody has it.
    Taken,
}

impl<E: Env> Tcp<E> {
    /// The flow of an open connection, which has `hash`, moves on to TIME-WAIT. When the table is
    /// full, the oldest record makes room.
    pub(super) fn enter_wait(
        &mut self,
        config: &Config,
        counters: &mut Counters,
        (open, hash): (u32, u64),
    ) {
        if self.time_wait.is_full() {
            counters.tcp.time_wait_evicted += 1;
            if let Some(oldest) = self.waits.front() {
                self.forget_wait(oldest);
            }
        }
        let Some(c) = self.open.by_index(open) else { return };
        let from = FlowRef::new(LifePhase::Open, open);
        let (record, port) = (TimeWait::of(c, self.now, config), c.key.local_port);
        match self.time_wait.insert(record) {
            Some(handle) => {
                self.waits.push_back(&mut self.time_wait.links(|w| &mut w.link), handle.index());
                self.flows.moved(hash, from, FlowRef::new(LifePhase::TimeWait, handle.index()));
            }
            // A stack without a single place for TIME-WAIT does without it.
            None => self.flows.remove(hash, from, port),
        }
    }

    /// The record goes, and its flow with it.
    pub(super) fn forget_wait(&mut self, index: u32) {
        let Some(handle) = self.time_wait.handle_at(index) else { return };
        self.waits.remove(&mut self.time_wait.links(|w| &mut w.link), index);
        if let Some(wait) = self.time_wait.remove(handle) {
            let hash = self.flows.hash(&wait.key);
            self.flows.remove(hash, FlowRef::new(LifePhase::TimeWait, index), wait.key.local_port);
        }
    }

    /// Records whose time is over go, at most `most` in one turn.
    pub(super) fn expire_waits(&mut self, now: Instant, most: u32) {
        for _ in 0..most {
            match self.waits.front() {
                Some(index)
                    if self
                        .time_wait
                        .by_index(index)
                        .is_none_or(|w| w.left(now) == Duration::ZERO) =>
                {
                    self.forget_wait(index)
                }
                _ => break,
            }
        }
    }

    /// When the oldest record ends, seen from `self.now`.
    pub(super) fn next_wait(&self) -> Instant {
        match self.waits.front().and_then(|index| self.time_wait.by_index(index)) {
            // The record knows whole milliseconds; it must not be looked at before they are over.
            Some(wait) => Instant::from_millis(self.now.as_millis()) + wait.left(self.now),
            None => Instant::NEVER,
        }
    }

    /// A segment for a connection in TIME-WAIT (RFC 9293 3.10.7.4; RFC 1337 for resets; RFC 6191
    /// for SYNs).
    pub(super) fn on_wait(
        &mut self,
        cx: &mut Cx<'_>,
        index: u32,
        arrival: &mut Arrival<'_, E::Buf>,
    ) -> Result<(), Drop> {
        let (key, seg, len) = (arrival.key, arrival.seg, arrival.len());
        let Some(wait) = self.time_wait.by_index(index) else {
            return Err(Drop::TcpPortClosed);
        };
        if seg.flags.rst() {
            // RFC 1337 3, fix F1: a reset does not end TIME-WAIT, or an old duplicate could.
            return Err(Drop::TcpResetInTimeWait);
        }
        let control = seg.flags.intersection(super::passive::CONTROL);
        if control == Flags::SYN && may_reuse(wait, seg) {
            if let Some(listener) = self.listeners.choose(key.table, key.local_endpoint()) {
                let after = wait.snd_nxt;
                self.forget_wait(index);
                cx.counters.tcp.time_wait_reused += 1;
                return self.on_first_syn(cx, listener, arrival, Some(after));
            }
        }
        let seq_len = seg.seq_len(len as usize);
        let is_paws_good =
            seg.opts.ts.is_none_or(|(val, _)| val.wrapping_sub(wait.ts_recent) as i32 >= 0);
        if seq_len == 0 {
            // A late ACK is all that may come without data; what else does is told where we are
            // (RFC 9293 3.10.7.4, step 1).
            let is_late_ack = seg.seq == wait.rcv_nxt && is_paws_good;
            if is_late_ack {
                return Ok(());
            }
            if wait.answers() == 0 {
                cx.counters.tcp.challenge_acks_limited += 1;
            } else {
                self.answer_wait(cx, index);
                self.time_wait.by_index_mut(index).into_iter().for_each(TimeWait::answered);
            }
            return Err(if is_paws_good { Drop::TcpOutOfWindow } else { Drop::TcpOldTimestamp });
        }
        self.answer_wait(cx, index);
        let Some(wait) = self.time_wait.by_index_mut(index) else {
            return Err(Drop::TcpPortClosed);
        };
        if seg.flags.fin() && seg.seq + seq_len == wait.rcv_nxt && is_paws_good {
            // The FIN again: our ACK was lost. The wait starts over.
            wait.ends = TimeWait::ending(cx.now + cx.config.tcp.time_wait);
            self.waits.move_to_back(&mut self.time_wait.links(|w| &mut w.link), index);
            return Ok(());
        }
        Err(if seg.flags.syn() { Drop::TcpSynInWindow } else { Drop::TcpAfterClose })
    }

    /// Whether a connection of ours may have this pair of endpoints. A pair in TIME-WAIT may be
    /// used again when timestamps tell old segments from new ones (RFC 6191, as `tcp_twsk_unique`
    /// of Linux): at once by who reserved the port, and where the stack chooses, not before
    /// [`REUSE_AFTER`].
    pub(super) fn claim(&self, config: &Config, key: &FlowKey, is_chosen: bool) -> Claim {
        let Some(at) = self.find(key) else { return Claim::Free };
        let wait =
            self.time_wait.by_index(at.index()).filter(|_| at.phase() == LifePhase::TimeWait);
        let Some(wait) = wait.filter(|wait| wait.has_stamps()) else { return Claim::Taken };
        let age = config.tcp.time_wait - wait.left(self.now);
        if is_chosen && age < REUSE_AFTER { Claim::Taken } else { Claim::Again(at.index()) }
    }

    /// A new connection takes the pair of endpoints of a record over, which goes. Numbers from
    /// `iss` on, or later ones, are beyond all of the old connection's.
    pub(super) fn take_over(&mut self, index: u32, iss: Seq) -> Seq {
        let old = self.time_wait.by_index(index).map(|wait| wait.snd_nxt);
        self.forget_wait(index);
        match old {
            Some(old) if iss.le(old) => old + REUSE_GAP,
            _ => iss,
        }
    }

    /// The last ACK again.
    fn answer_wait(&self, cx: &mut Cx<'_>, index: u32) {
        let Some(wait) = self.time_wait.by_index(index) else { return };
        let ts = wait.has_stamps().then(|| {
            (
                stamp(cx.now, isn::ts_offset(&self.secret, wait.key.local, wait.key.remote)),
                wait.ts_recent,
            )
        });
        let seg = Segment {
            seq: wait.snd_nxt,
            ack: wait.rcv_nxt,
            flags: Flags::ACK,
            wnd: wait.window & !1,
            opts: TcpOptions { ts, ..TcpOptions::NONE },
            ..Segment::default()
        };
        cx.reply_plain(&wait.key, seg);
    }
}

/// Whether a SYN can only be of a new connection (RFC 6191 2): its timestamp is later than all of
/// the old connection's, or its number is beyond them (RFC 9293 3.6.1, MAY-2).
fn may_reuse(wait: &TimeWait, syn: &Segment) -> bool {
    match syn.opts.ts.filter(|_| wait.has_stamps()) {
        Some((val, _)) => {
            let age = val.wrapping_sub(wait.ts_recent) as i32;
            age > 0 || (age == 0 && syn.seq.gt(wait.rcv_nxt))
        }
        None => syn.seq.gt(wait.rcv_nxt),
    }
}
