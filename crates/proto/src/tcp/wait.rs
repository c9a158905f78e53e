//! TIME-WAIT (RFC 9293 3.6, RFC 1337, RFC 6191): the last segments of a finished connection must die before its pair of endpoints is used again.
//!
//! All records wait equally long, so they lie in the order in which they end: no timer is needed but that of the oldest.

use clearway_base::{Duration, Instant, Link};
use clearway_wire::tcp::TcpOptions;
use clearway_wire::{Flags, Segment, Seq};

use super::conn::{Conn, Marks, stamp};
use super::{Cx, Tcp, isn};
use crate::config::Config;
use crate::counters::{Counters, Drop};
use crate::flow::{FlowKey, FlowRef, LifePhase};
use crate::store::Env;

/// What is remembered of a finished connection: 64 bytes.
pub(crate) struct Wait {
    pub key: FlowKey,
    /// The window that our ACKs repeat; its lowest bit says that timestamps are in use.
    pub window: u16,
    pub rcv_nxt: Seq,
    pub snd_nxt: Seq,
    /// TS.Recent.
    pub ts_recent: u32,
    /// When it ends: milliseconds of the clock, modulo 2^32.
    pub ends_ms: u32,
    /// On the list of all, the one that ends first in front.
    pub link: Link,
}

impl Wait {
    fn has_stamps(&self) -> bool {
        self.window & 1 == 1
    }

    /// How long it has left at `now`.
    fn left(&self, now: Instant) -> Duration {
        let left = self.ends_ms.wrapping_sub(now.as_millis() as u32) as i32;
        Duration::from_millis(u64::from(left.max(0).unsigned_abs()))
    }
}

impl<E: Env> Tcp<E> {
    /// The flow of an open connection, which has `hash`, moves on to TIME-WAIT. When the table is full, the oldest record makes room.
    pub(super) fn enter_wait(&mut self, now: Instant, config: &Config, counters: &mut Counters, open: u32, hash: u64) {
        if self.wait.is_full() {
            counters.tcp.time_wait_evicted += 1;
            if let Some(oldest) = self.waits.front() {
                self.forget_wait(oldest);
            }
        }
        let Some(c) = self.open.by_index(open) else { return };
        let from = FlowRef::new(LifePhase::Open, open);
        let record = Wait::of(c, now, config);
        match self.wait.insert(record) {
            Some(handle) => {
                self.waits.push_back(&mut self.wait.links(|w| &mut w.link), handle.index());
                self.flows.moved(hash, from, FlowRef::new(LifePhase::Wait, handle.index()));
            }
            // A stack without a single place for TIME-WAIT does without it.
            None => self.flows.remove(hash, from),
        }
    }

    /// The record goes, and its flow with it.
    pub(super) fn forget_wait(&mut self, index: u32) {
        let Some(handle) = self.wait.handle_at(index) else { return };
        self.waits.remove(&mut self.wait.links(|w| &mut w.link), index);
        if let Some(wait) = self.wait.remove(handle) {
            let hash = self.flows.hash(&wait.key);
            self.flows.remove(hash, FlowRef::new(LifePhase::Wait, index));
        }
    }

    /// Records whose time is over go, at most `most` in one turn.
    pub(super) fn expire_waits(&mut self, now: Instant, most: u32) {
        for _ in 0..most {
            match self.waits.front() {
                Some(index) if self.wait.by_index(index).is_none_or(|w| w.left(now) == Duration::ZERO) => {
                    self.forget_wait(index)
                }
                _ => break,
            }
        }
    }

    /// When the oldest record ends, seen from `self.now`.
    pub(super) fn next_wait(&self) -> Instant {
        match self.waits.front().and_then(|index| self.wait.by_index(index)) {
            // The record knows whole milliseconds; it must not be looked at before they are over.
            Some(wait) => Instant::from_millis(self.now.as_millis()) + wait.left(self.now),
            None => Instant::NEVER,
        }
    }

    /// A segment for a connection in TIME-WAIT (RFC 9293 3.10.7.4; RFC 1337 for resets; RFC 6191 for SYNs).
    pub(super) fn on_wait(
        &mut self,
        now: Instant,
        cx: &mut Cx<'_>,
        index: u32,
        (key, hash): (&FlowKey, u64),
        seg: &Segment,
        len: u32,
    ) -> Result<(), Drop> {
        let Some(wait) = self.wait.by_index(index) else {
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
                return self.on_syn(now, cx, (key, hash), listener, seg, Some(after));
            }
        }
        let seq_len = seg.seq_len(len as usize);
        if seq_len == 0 {
            // A late ACK; answering it could make two finished ends talk for ever.
            return Ok(());
        }
        self.answer_wait(now, cx, index);
        let Some(wait) = self.wait.by_index_mut(index) else {
            return Err(Drop::TcpPortClosed);
        };
        let is_paws_good = seg.opts.ts.is_none_or(|(val, _)| val.wrapping_sub(wait.ts_recent) as i32 >= 0);
        if seg.flags.fin() && seg.seq + seq_len == wait.rcv_nxt && is_paws_good {
            // The FIN again: our ACK was lost. The wait starts over.
            wait.ends_ms = (now + cx.config.tcp.time_wait).as_millis() as u32;
            self.waits.move_to_back(&mut self.wait.links(|w| &mut w.link), index);
            return Ok(());
        }
        Err(if seg.flags.syn() { Drop::TcpSynInWindow } else { Drop::TcpAfterClose })
    }

    /// The last ACK again.
    fn answer_wait(&self, now: Instant, cx: &mut Cx<'_>, index: u32) {
        let Some(wait) = self.wait.by_index(index) else { return };
        let ts = wait
            .has_stamps()
            .then(|| (stamp(now, isn::ts_offset(&self.secret, wait.key.local, wait.key.remote)), wait.ts_recent));
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

/// Whether a SYN can only be of a new connection (RFC 6191 2): its timestamp is later than all of the old connection's, or its number is beyond them
/// (RFC 9293 3.6.1, MAY-2).
fn may_reuse(wait: &Wait, syn: &Segment) -> bool {
    match syn.opts.ts.filter(|_| wait.has_stamps()) {
        Some((val, _)) => {
            let age = val.wrapping_sub(wait.ts_recent) as i32;
            age > 0 || (age == 0 && syn.seq.gt(wait.rcv_nxt))
        }
        None => syn.seq.gt(wait.rcv_nxt),
    }
}

impl Wait {
    /// What is to be remembered of `c`.
    fn of<E: Env>(c: &Conn<E>, now: Instant, config: &Config) -> Wait {
        let window = (c.rcv.wnd() >> c.rcv.shift).min(u32::from(u16::MAX)) as u16;
        Wait {
            key: c.key,
            window: window & !1 | u16::from(c.marks.has(Marks::TS)),
            rcv_nxt: c.rcv.nxt,
            snd_nxt: c.snd.nxt,
            ts_recent: c.ts_recent,
            ends_ms: (now + config.tcp.time_wait).as_millis() as u32,
            link: Link::OFF,
        }
    }
}
