//! The record of an open connection. Its first two cache lines hold all that an in-order data
//! segment touches; what sending and acknowledging need comes next, and what is seldom needed last.

use super::clock::{DueFar, DueTick, Ms, Recent, Tick, stamp};
use super::held::Held;
use super::marks::Marks;
use clearway_base::{Instant, Link, Place};
use clearway_wire::Seq;

use super::cc::Window;
use super::loss::sent::Sent;
use super::options::MIN_MSS;
use super::rare_stats::RareStats;
use super::rate::DeliveryRate;
use super::rcv::{Rcv, RcvAhead};
use super::recovery::Status;
use super::rtt::Rtt;
use super::seldom::Seldom;
use super::settings::Settings;
use super::snd::{FitsTwice, Snd, SndAhead, half_of};
use super::state::{Cause, State, after};
use crate::error::Failure;
use crate::event::ConnEvents;
use crate::export::Fields;
use crate::flow::FlowKey;
use crate::net::path_cache::RouteCache;
use crate::store::{Env, RxStore, TxStore};
use crate::trace::Trace;

/// Deadlines and the times that they are reckoned from. The wheel knows one instant for each
/// connection: the earliest, or one before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// [`Timer::Retransmit`] or another that shares its deadline, which then has a mark.
    pub send: Instant,
    /// [`Timer::Keepalive`] or [`Timer::Orphan`].
    pub life: DueFar,
    /// When the segment that is being timed left.
    pub timed: Recent,
    /// Since when something waits for an acknowledgement without any progress, data in flight or a
    /// window that does not open, while [`Marks::STUCK`] says so.
    pub stuck_since: Ms,
    /// When something last left.
    pub sent: Ms,
}

impl Times {
    /// Its part of a record ([`crate::export`]).
    pub(crate) fn fields(&mut self, f: &mut impl Fields) {
        let Times { send, life, timed, stuck_since, sent } = self;
        f.instant(140, send);
        let mut at = life.seen_from(f.now());
        f.instant(141, &mut at);
        *life = DueFar::at(at);
        let mut at = timed.seen_from(f.now());
        f.instant(142, &mut at);
        *timed = Recent::of(at);
        stuck_since.field(143, f);
        sent.field(144, f);
    }
}

/// An open connection: every state from SYN-SENT to LAST-ACK, and afterwards until its owner
/// closes.
#[repr(C)]
pub(crate) struct Conn<E: Env> {
    // ---- what an in-order data segment touches
    pub key: FlowKey,
    pub state: State,
    /// Events that the owner has not been told.
    pub events: ConnEvents,
    pub marks: Marks,
    pub rcv: Rcv,
    pub snd: Snd,
    /// TS.Recent (RFC 7323 4.3).
    pub ts_recent: u32,
    /// The largest payload that we may send, options of every segment already taken off.
    pub mss: u16,
    /// The largest payload that the peer was seen to send: an estimate of its segment size.
    pub rcv_mss: u16,
    /// Segments received.
    pub segs_in: u32,
    /// When the peer was last heard.
    pub heard: Ms,
    /// When a delayed ACK must leave.
    pub delack: DueTick,
    /// In the line of connections that want a turn of emit.
    pub ready: Place,
    /// In the line of those with events for their owners.
    pub event_queue: Place,
    // ---- received and written bytes
    pub rx: <E::Rx as RxStore<E::Buf>>::Queue,
    pub tx: <E::Tx as TxStore>::Queue,
    /// Segments with payload received, and when the last one came.
    pub data_segs_in: u32,
    pub data_heard: Ms,
    // ---- what acknowledging and sending touch
    pub route: RouteCache,
    /// The congestion window; by which law it moves lies elsewhere ([`super::cold`]).
    pub cc: Window,
    /// How recovery stands; where it is lies elsewhere ([`super::cold`]).
    pub recovery: Status,
    pub rtt: Rtt,
    pub times: Times,
    pub snd_ahead: SndAhead,
    pub rcv_ahead: RcvAhead,
    /// The segment that is being timed: acknowledged when SND.UNA is at or past this.
    pub timed_seq: Seq,
    /// What the peer had when that segment left: SND.UNA, and as much further as it held
    /// selectively.
    pub delivered_then: Seq,
    /// How fast data arrives at the peer.
    pub rate: DeliveryRate,
    /// Segments sent, and those of them with payload.
    pub segs_out: u32,
    pub data_segs_out: u32,
    /// Milliseconds in which something waited for the peer, up to [`Times::stuck_since`].
    pub busy_ms: u32,
    /// The wheel looks at this connection in this tick, or before, while [`Marks::WATCHED`] says
    /// so.
    pub looked_at: Tick,
    /// On the accept queue of its listener while pending; among the orphans.
    pub owner: Link,
    pub sent: Held<Sent>,
    // ---- seldom
    /// The owner's word. While the connection waits to be accepted it has no owner, and this names
    /// its listener; of an orphan it says what [`Orphaned`] holds.
    pub token: u64,
    pub rare: Held<RareStats>,
    /// What is added to our clock in timestamps so that nobody learns it (RFC 7323 5.4).
    pub ts_offset: u32,
    /// What the peer announced as its largest segment, without options.
    pub peer_mss: u16,
    /// What we announced.
    pub our_mss: u16,
    pub settings: Settings,
    pub failure: Option<Failure>,
    /// What bounds segments for the sake of the peer's buffer.
    pub fits_twice: FitsTwice,
    pub iss: Seq,
    pub irs: Seq,
}

/// Where its received and its written bytes wait.
pub(crate) type Queues<E> =
    (<<E as Env>::Rx as RxStore<<E as Env>::Buf>>::Queue, <<E as Env>::Tx as TxStore>::Queue);

/// What a connection begins with, whoever began it.
pub(crate) struct Start {
    pub key: FlowKey,
    pub token: u64,
    pub settings: Settings,
    pub seldom: Seldom,
    pub iss: Seq,
    /// As [`Conn::ts_offset`].
    pub ts_offset: u32,
}

/// A connection without owner: how far it had come when that was looked at last, and what it had to
/// send when its owner went.
#[derive(Clone, Copy)]
pub(crate) struct Orphaned {
    pub una: Seq,
    pub bytes: u64,
}

impl<E: Env> Conn<E> {
    /// A connection whose SYN is not out yet. It is in SYN-SENT; what the peer says is filled in
    /// when it says so.
    #[inline(always)]
    pub(crate) fn fresh(now: Instant, start: &Start, (rx, tx): Queues<E>, our_mss: u16) -> Conn<E> {
        let Start { key, token, settings, seldom: _, iss, ts_offset } = *start;
        Conn {
            key,
            state: State::SynSent,
            events: ConnEvents(0),
            marks: Marks::default(),
            rcv: Rcv::default(),
            snd: Snd { una: iss, nxt: iss, ..Snd::default() },
            ts_recent: 0,
            mss: MIN_MSS,
            rcv_mss: FIRST_RCV_MSS.min(our_mss),
            segs_in: 0,
            heard: Ms::of(now),
            delack: DueTick::NEVER,
            ready: Place::OFF,
            event_queue: Place::OFF,
            rx,
            tx,
            data_segs_in: 0,
            data_heard: Ms::of(now),
            route: RouteCache::default(),
            cc: Window::new(MIN_MSS, 1),
            rtt: Rtt::new(),
            recovery: Status::NEW,
            times: Times {
                send: Instant::NEVER,
                life: DueFar::NEVER,
                timed: Recent::of(now),
                stuck_since: Ms::of(now),
                sent: Ms::of(now),
            },
            snd_ahead: SndAhead { max_wnd: 0, end: iss, small: iss },
            rcv_ahead: RcvAhead::default(),
            timed_seq: iss,
            delivered_then: iss,
            rate: DeliveryRate::default(),
            segs_out: 0,
            data_segs_out: 0,
            busy_ms: 0,
            looked_at: Tick::default(),
            owner: Link::OFF,
            sent: Held::NONE,
            rare: Held::NONE,
            token,
            settings,
            failure: None,
            fits_twice: FitsTwice::UNKNOWN,
            iss,
            irs: Seq(0),
            peer_mss: MIN_MSS,
            our_mss,
            ts_offset,
        }
    }

    /// What is known of it as an orphan.
    pub(crate) fn orphaned(&self) -> Orphaned {
        Orphaned { una: Seq(self.token as u32), bytes: self.token >> u32::BITS }
    }

    /// The owner is gone, and so many bytes are to be sent still.
    pub(crate) fn set_orphaned(&mut self, bytes: u32) {
        self.token = u64::from(bytes) << u32::BITS | u64::from(self.snd.una.0);
    }

    /// How many bytes were acknowledged since this was asked last, or since the owner went.
    pub(crate) fn take_orphan_progress(&mut self) -> u32 {
        let Orphaned { una, bytes } = self.orphaned();
        self.set_orphaned(bytes as u32);
        self.snd.una.since(una)
    }

    /// Moves to the state that the table says.
    #[inline]
    pub(crate) fn go(&mut self, cause: Cause) {
        match after(self.state, cause) {
            Some(to) => self.enter(to),
            None => {
                debug_assert!(false, "no transition from {} by {}", self.state, cause.name());
                self.fail(Failure::Broken);
            }
        }
    }

    /// It is in this state from now on. Those that go round the table end it.
    #[inline(always)]
    pub(crate) fn enter(&mut self, to: State) {
        if to != self.state {
            let (from, to) = (self.state.name(), to.name());
            E::trace(Trace::StateChange { ends: self.key.traced(), from, to });
        }
        self.state = to;
    }

    /// The owner shall look.
    #[inline]
    pub(crate) fn tell(&mut self, what: ConnEvents) {
        self.events |= what;
    }

    /// Something may have to leave.
    #[inline]
    pub(crate) fn wants_turn(&mut self) {
        self.marks.set(Marks::EMIT);
    }

    /// An ACK must leave in this turn.
    #[inline]
    pub(crate) fn ack_now(&mut self) {
        self.marks.set(Marks::ACK_NOW.with(Marks::EMIT));
    }

    /// The connection is over, for this reason. The record is taken out of the flow table when the
    /// operation ends.
    pub(crate) fn fail(&mut self, why: Failure) {
        self.failure.get_or_insert(why);
        self.end();
        self.tell(ConnEvents::FAILED);
    }

    /// The connection is over.
    pub(crate) fn end(&mut self) {
        self.enter(State::Closed);
        self.marks.clear(
            Marks::EMIT
                .with(Marks::ACK_NOW)
                .with(Marks::SYN_DUE)
                .with(Marks::PROBE_DUE)
                .with(Marks::FORCE),
        );
        self.marks.set(Marks::GONE);
    }

    /// A reset leaves with the next emit, and the connection is over.
    pub(crate) fn reset(&mut self) {
        // A peer that never heard of us needs no reset.
        let known = self.state != State::SynSent && self.state != State::Closed;
        self.enter(State::Closed);
        self.marks
            .clear(Marks::ACK_NOW.with(Marks::SYN_DUE).with(Marks::PROBE_DUE).with(Marks::FORCE));
        if known {
            self.marks.set(Marks::RST_DUE.with(Marks::EMIT));
        } else {
            self.marks.set(Marks::GONE);
        }
    }

    /// Nobody will read what the peer sends: with the next emit what may still leave leaves, and
    /// behind it a reset. Whoever wrote before he closed was told that his bytes were taken, so
    /// those that the windows let out are not kept back (as on Linux, where they left when they
    /// were written).
    pub(crate) fn reset_behind_data(&mut self) {
        if !self.state.may_transmit() {
            return self.reset();
        }
        self.marks.clear(Marks::ACK_NOW.with(Marks::PROBE_DUE));
        self.marks.set(Marks::RST_DUE.with(Marks::EMIT));
    }

    /// Whether the wheel looks before `at`.
    #[inline(always)]
    pub(crate) fn is_watched_before(&self, at: Instant) -> bool {
        self.marks.has(Marks::WATCHED) && self.looked_at.is_before(at)
    }

    /// The wheel was told to look at `due`, or looks earlier.
    #[inline]
    pub(crate) fn is_watched(&mut self, now: Instant, due: Instant) {
        let known = self.marks.has(Marks::WATCHED) && self.looked_at.is_before(due);
        if !known && due.since(now) < Tick::FAR {
            self.looked_at = Tick::of(due);
            self.marks.set(Marks::WATCHED);
        }
    }

    /// Something waits for the peer, from now on if nothing did before.
    #[inline]
    pub(crate) fn stuck(&mut self, now: Instant) {
        if !self.marks.has(Marks::STUCK) {
            self.progress(now, true);
        }
    }

    /// The peer took something; `more` says whether something still waits for it.
    #[inline]
    pub(crate) fn progress(&mut self, now: Instant, more: bool) {
        if self.marks.has(Marks::STUCK) {
            self.busy_ms = self.busy_ms.wrapping_add(self.times.stuck_since.ms_ago(now));
        }
        if !more {
            return self.marks.clear(Marks::STUCK);
        }
        self.marks.set(Marks::STUCK);
        if self.waits_since(now) {
            self.marks.set(Marks::REARM);
        }
    }

    /// Something waits for the peer from now on, and [`Marks::STUCK`] is to be set; true:
    /// [`Marks::REARM`] too.
    #[inline(always)]
    pub(crate) fn waits_since(&mut self, now: Instant) -> bool {
        self.times.stuck_since = Ms::of(now);
        self.settings.has_user_timeout()
    }

    /// Opened by a Fast Open cookie: the handshake is not complete, and yet data may leave (RFC
    /// 7413 4.2.2).
    #[inline]
    pub(crate) fn is_early(&self) -> bool {
        self.state == State::SynReceived && self.snd.una != self.iss
    }

    /// Takes the window of a segment (RFC 9293 3.10.7.4, step 5).
    #[inline]
    pub(crate) fn set_window(&mut self, wnd: u32, seq: Seq, ack: Seq) {
        if wnd > self.snd.wnd && wnd > self.snd_ahead.max_wnd {
            self.snd_ahead.max_wnd = wnd;
            if self.fits_twice.bytes() < self.mss.into() {
                self.larger_buffer(wnd);
            }
        }
        self.snd.wnd = wnd;
        self.snd.wl1 = seq;
        self.snd.wl2 = ack;
    }

    /// A window larger than any before, where these bound the segments.
    #[cold]
    fn larger_buffer(&mut self, wnd: u32) {
        let fits_twice = FitsTwice::of(half_of(wnd));
        if fits_twice.bytes() >= self.fits_twice.bytes() {
            self.fits_twice = fits_twice;
            self.snd.size_is_new();
        }
    }

    /// RFC 5961 5.2: SND.UNA - MAX.SND.WND ≤ SEG.ACK ≤ SND.NXT, in the part of the circle behind
    /// SND.NXT.
    #[inline]
    pub(crate) fn ack_is_acceptable(&self, ack: Seq) -> bool {
        ack.le(self.snd.nxt) && ack.ge(self.snd.una - self.snd_ahead.max_wnd.min(MAX_BEHIND))
    }

    /// Payload bytes that the peer has acknowledged, from the beginning; SND.UNA has passed zero so
    /// often.
    pub(crate) fn bytes_acked(&self, una_wraps: u16) -> u64 {
        if matches!(self.state, State::SynSent | State::SynReceived)
            || !self.snd.una.gt(self.iss) && una_wraps == 0
        {
            return 0;
        }
        let to = u64::from(una_wraps) << 32 | u64::from(self.snd.una.0);
        let fin = u64::from(self.marks.has(Marks::FIN_SENT) && self.snd.una.gt(self.snd_ahead.end));
        to.saturating_sub(u64::from((self.iss + 1).0) + fin)
    }

    /// Payload bytes sent, not counting repetitions.
    pub(crate) fn bytes_sent_once(&self, una_wraps: u16) -> u64 {
        let in_flight =
            if self.snd.una == self.iss && una_wraps == 0 { 0 } else { self.outstanding() };
        let fin = u32::from(self.marks.has(Marks::FIN_SENT) && self.snd.una.le(self.snd_ahead.end));
        self.bytes_acked(una_wraps) + u64::from(in_flight.saturating_sub(fin))
    }

    /// Our timestamp at `now`: milliseconds, and an offset that only we know.
    #[inline]
    pub(crate) fn stamp(&self, now: Instant) -> u32 {
        stamp(now, self.ts_offset)
    }

    /// Whether the owner's handle is good.
    #[inline]
    pub(crate) fn is_owned(&self) -> bool {
        !self.marks.any(Marks::ORPHAN.with(Marks::PENDING))
    }

    /// Bytes the owner has written, sent or not, counted from SND.UNA.
    #[inline]
    pub(crate) fn written(&self, tx: &E::Tx) -> u32 {
        if self.marks.has(Marks::SHUT) {
            self.snd_ahead.end.since(self.data_front())
        } else {
            tx.len(&self.tx)
        }
    }

    /// The sequence number of the oldest byte in the send queue.
    #[inline]
    pub(crate) fn data_front(&self) -> Seq {
        if matches!(self.state, State::SynSent | State::SynReceived) {
            self.iss + 1
        } else {
            self.snd.una.min(self.fin_seq())
        }
    }

    /// Where our FIN stands, once the owner has closed; far ahead before.
    #[inline]
    pub(crate) fn fin_seq(&self) -> Seq {
        if self.marks.has(Marks::SHUT) {
            self.snd_ahead.end
        } else {
            self.snd.una + (u32::MAX >> 1)
        }
    }

    /// Bytes of sequence space sent and not acknowledged.
    #[inline]
    pub(crate) fn outstanding(&self) -> u32 {
        self.snd.nxt.since(self.snd.una)
    }

    /// Whether something was written, or the FIN is due, beyond SND.NXT.
    pub(crate) fn has_unsent(&self, tx: &E::Tx) -> bool {
        let sent = self.snd.nxt.since(self.data_front());
        self.written(tx) > sent || (self.marks.has(Marks::SHUT) && !self.marks.has(Marks::FIN_SENT))
    }

    /// Bytes received in order, from the beginning.
    pub(crate) fn bytes_received(&self) -> u64 {
        let to = u64::from(self.rcv.wraps) << 32 | u64::from(self.rcv.nxt.0);
        let fin = u64::from(self.marks.has(Marks::PEER_FIN));
        to.saturating_sub(u64::from((self.irs + 1).0) + fin)
    }
}

/// How far behind SND.UNA an ACK may be at most: no window is larger (RFC 7323 2.3).
const MAX_BEHIND: u32 = 1 << 30;

/// What the peer's segments are taken to hold before one was seen (RFC 9293 3.7.1, the default of
/// IPv4).
const FIRST_RCV_MSS: u16 = 536;
