//! The small records: of a handshake that a stranger began, of a finished connection, and of what
//! an open connection grows from.

use clearway_base::{Duration, Instant, Link};
use clearway_wire::{Ecn, Seq};

use super::conn::Conn;
use super::ecn::{Feedback, Handshake};
use super::marks::Marks;
use super::options::Agreed;
use super::window;
use crate::config::Config;
use crate::flow::FlowKey;
use crate::ids::ListenerId;
use crate::store::Env;

/// What is remembered of a stranger's SYN.
pub(crate) struct SynRcvd {
    pub key: FlowKey,
    /// How often the SYN-ACK was repeated.
    pub tries: u8,
    /// Challenge ACKs sent.
    pub challenges: u8,
    pub irs: Seq,
    pub iss: Seq,
    /// TS.Recent.
    pub ts_recent: u32,
    /// The largest segment that both sides take.
    pub mss: u16,
    /// The shift of the peer's windows.
    pub snd_scale: u8,
    /// [`SCALING`], [`STAMPS`], [`SACKS`], [`ACKED`], and what [`ecn_bits`] makes.
    pub agreed: u8,
    /// When the first SYN-ACK was planned: microseconds of the clock, modulo 2^32.
    pub since_us: u32,
    /// As `Conn::ts_offset`.
    pub ts_offset: u32,
    pub listener: ListenerId,
}

/// Bits of [`SynRcvd::agreed`].
pub(crate) const SCALING: u8 = 1;
pub(crate) const STAMPS: u8 = 2;
pub(crate) const SACKS: u8 = 4;
/// Not agreed on, but kept here: the ACK has come, and the listener waits for data.
pub(crate) const ACKED: u8 = 8;

/// What was agreed on about ECN, and how the SYN was marked, as bits of [`SynRcvd::agreed`].
pub(crate) fn ecn_bits(ecn: Handshake) -> u8 {
    (ecn.feedback as u8) << 4 | (ecn.syn_mark as u8) << 6
}

impl SynRcvd {
    /// How long ago the first SYN-ACK was planned, if that is less than an hour.
    pub(super) fn age(&self, now: Instant) -> Duration {
        Duration::from_micros(u64::from((now.as_micros() as u32).wrapping_sub(self.since_us)))
    }

    /// What both sides agreed on.
    pub(crate) fn agreed(&self, config: &Config) -> Agreed {
        let scaling = self.agreed & SCALING != 0;
        Agreed {
            snd_scale: self.snd_scale,
            rcv_scale: if scaling { window::scale_for(config.tcp.max_receive_window) } else { 0 },
            scaling,
            ts: self.agreed & STAMPS != 0,
            sack: self.agreed & SACKS != 0,
            mss: self.mss,
            ecn: Handshake {
                feedback: match self.agreed >> 4 & 3 {
                    1 => Feedback::Classic,
                    2 => Feedback::Accurate,
                    _ => Feedback::None,
                },
                syn_mark: Ecn::of(self.agreed >> 6),
            },
        }
    }
}

/// What is remembered of a finished connection: 64 bytes.
pub(crate) struct TimeWait {
    pub key: FlowKey,
    /// The window that our ACKs repeat; its lowest bit says that timestamps are in use.
    pub window: u16,
    pub rcv_nxt: Seq,
    pub snd_nxt: Seq,
    /// TS.Recent.
    pub ts_recent: u32,
    /// When it ends, and the [`TimeWait::answers`] that are left.
    pub ends: u32,
    /// On the list of all, the one that ends first in front.
    pub link: Link,
}

impl TimeWait {
    pub(super) fn has_stamps(&self) -> bool {
        self.window & 1 == 1
    }

    /// What says that it ends at `at`, in milliseconds modulo 2^28 (three days), and that
    /// [`ANSWERS`] are left.
    pub(super) fn ending(at: Instant) -> u32 {
        (at.as_millis() as u32) << ANSWER_BITS | ANSWERS
    }

    /// It ends when so much time has passed, or after [`FARTHEST`].
    pub(super) fn set_left(&mut self, now: Instant, left: Duration) {
        self.ends = TimeWait::ending(now + left.min(FARTHEST)) & !ANSWERS | self.answers();
    }

    /// How long it has left at `now`.
    pub(super) fn left(&self, now: Instant) -> Duration {
        let left =
            (self.ends & !ANSWERS).wrapping_sub((now.as_millis() as u32) << ANSWER_BITS) as i32;
        Duration::from_millis(u64::from(left.max(0).unsigned_abs() >> ANSWER_BITS))
    }

    /// How many segments without data are still answered: with a bound, or two ends that disagree
    /// would answer each other for ever.
    pub(super) fn answers(&self) -> u32 {
        self.ends & ANSWERS
    }

    /// One was answered.
    pub(super) fn answered(&mut self) {
        self.ends -= u32::from(self.answers() > 0);
    }
}

/// The longest time that [`TimeWait::ends`] can tell from one that has passed: a day and a half.
const FARTHEST: Duration = Duration::from_millis((1 << (31 - ANSWER_BITS)) - 1);

/// Segments without data that one TIME-WAIT answers, unless it starts over.
pub(super) const ANSWERS: u32 = (1 << ANSWER_BITS) - 1;
const ANSWER_BITS: u32 = 4;

impl TimeWait {
    /// What is to be remembered of `c`.
    pub(super) fn of<E: Env>(c: &Conn<E>, now: Instant, config: &Config) -> TimeWait {
        let window = (c.rcv.wnd() >> c.rcv.shift).min(u32::from(u16::MAX)) as u16;
        TimeWait {
            key: c.key,
            window: window & !1 | u16::from(c.marks.has(Marks::TS)),
            rcv_nxt: c.rcv.nxt,
            snd_nxt: c.snd.nxt,
            ts_recent: c.ts_recent,
            ends: TimeWait::ending(now + config.tcp.time_wait),
            link: Link::OFF,
        }
    }
}

/// What an open connection grows from when a stranger's handshake is complete.
pub(crate) struct Seeds {
    pub key: FlowKey,
    /// The hash of `key`.
    pub hash: u64,
    pub listener: ListenerId,
    pub irs: Seq,
    pub iss: Seq,
    pub agreed: Agreed,
    pub ts_recent: u32,
    /// From SYN-ACK to ACK, when only one SYN-ACK was sent.
    pub round_trip: Option<Duration>,
    /// As `Conn::ts_offset`.
    pub ts_offset: u32,
    /// How often the SYN-ACK was repeated.
    pub tries: u8,
    /// The half-open record that it replaces; None for a cookie.
    pub syn_rcvd: Option<u32>,
}
