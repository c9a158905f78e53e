//! The table of flows, the three phases of a connection's life, and what joins them.

use super::marks::Marks;
use super::records::{SynRcvd, TimeWait};
use clearway_base::{Handle, Instant, Line, List, Place, Rng, Slab, Wheel};
use clearway_pkt::{Buf, Sink};
use clearway_wire::tcp::Plain;
use clearway_wire::{Ecn, Flags, SackBlocks, Segment, Seq};

use crate::bind::Binds;
use crate::config::Config;
use crate::counters::{Counters, Drop};
use crate::error::Failure;
use crate::event::Event;
use crate::flow::{FlowKey, FlowRef, Flows, Found, LifePhase, MAX_INDEX, Name};
use crate::hash::AddrHash;
use crate::ids::ConnId;
use crate::net::icmp::IcmpError;
use crate::net::output::IpOut;
use crate::payload::Payload;
use crate::ports::Ports;
use crate::store::{Env, RxStore, TxStore};
use crate::tcp::listen_table::ListenTable;
use crate::trace::{Trace, TracedSegment};

use super::clock::{DueFar, Recent, Tick};
use super::conn::Conn;
use super::context::{Arrival, ConnCx, Cx, Pools};
use super::deadlines::Timer;
use super::ecn::Leaving;
use super::fast_open::FastOpen;
use super::held::Held16;
use super::isn::Secret;
use super::rare_stats::RecordEnds;
use super::sizes::Sizes;
use super::state::{Cause, State};
use super::{active, open, output, rtt, timers, turn, window};

/// Timers that one call of expire looks at, at most, so that many due at once do not hold up the
/// packets of the turn.
const TIMERS_PER_TURN: u64 = 4096;

/// Orphans whose peers take their bytes that are passed over when there are too many, before one of
/// them goes all the same.
const ORPHANS_SPARED: u32 = 32;

/// Connections that use up their quantum, or find their interface full, in one emit before it gives
/// up until the next one.
const BLOCKED_PER_TURN: u32 = 16;

/// Connections that one emit serves at most: what has arrived meanwhile waits for it to end.
const SERVED_PER_TURN: u32 = 2_048;

/// Connections that are prepared while the one before them has its turn.
pub(super) const AHEAD: u32 = 16;

/// Those who hold more than their minimum.
pub(crate) struct Borrowers {
    pub(super) line: List,
    /// When some of them are looked at; [`Instant::NEVER`] while memory is not short.
    pub(super) next_look: Instant,
    /// Those who were refused memory.
    pub(super) refused: Refused,
    /// Whether anybody is to be looked at, or told, some time.
    pub(super) busy: bool,
}

impl Default for Borrowers {
    fn default() -> Borrowers {
        let refused = Refused { at: 0, left: 0, next: Instant::NEVER };
        Borrowers { line: List::new(), next_look: Instant::NEVER, refused, busy: false }
    }
}

/// Where those are looked for who were refused memory and have nothing under way: no
/// acknowledgement of their own will tell them of room.
#[derive(Clone, Copy)]
pub(crate) struct Refused {
    /// The record where the search goes on.
    pub(super) at: u32,
    /// Records that are still to be looked at; 0 while nobody waits.
    pub(super) left: u32,
    /// When that is, if the record at `at` is none of them.
    pub(super) next: Instant,
}

/// All of TCP.
pub(crate) struct Tcp<E: Env> {
    /// The last instant that was told.
    pub(super) now: Instant,
    pub(super) secret: Secret,
    pub(super) flows: Flows,
    pub(super) syn_rcvd: Slab<SynRcvd>,
    pub(super) syn_rcvd_wheel: Wheel,
    pub(super) open: Slab<Conn<E>>,
    pub(super) wheel: Wheel,
    pub(super) time_wait: Slab<TimeWait>,
    pub(super) waits: List,
    pub(crate) listeners: ListenTable,
    pub(super) ports: Ports,
    /// Something was begun outside while other stacks share the ports.
    pub(super) reaches_out: bool,
    pub(crate) binds: Binds,
    pub(crate) pools: Pools<E>,
    /// Connections that want a turn of emit.
    pub(super) ready: Line,
    /// Connections with events for their owners.
    pub(super) event_queue: Line,
    /// Connections whose owner is gone, the one that has been without him longest in front.
    pub(super) orphans: List,
    /// The first of the orphans that have had no owner since before the time was last told
    /// ([`Tcp::set_now`]).
    pub(super) unclocked: Option<u32>,
    /// Connections that hold memory beyond their minimum.
    pub(super) borrowers: Borrowers,
    /// Bytes that the orphans had to send when their owners went.
    pub(super) orphan_bytes: u64,
    /// The window that a SYN-ACK offers, never scaled: what the store takes of a new connection.
    pub(super) first_window: u16,
    /// Until when an ACK to a listener may be a cookie.
    pub(super) cookies_until: Instant,
    /// The last emit ended because no device took anything more.
    pub(super) was_full: bool,
}

/// The configuration as it can be kept; the window that a SYN-ACK offers with it.
fn bounded<B: Buf>(config: &mut Config, rx: &impl RxStore<B>) -> u16 {
    config.tcp.max_receive_window = config.tcp.max_receive_window.min(rx.largest_room());
    config.tcp.rto_min = config.tcp.rto_min.max(rtt::GRANULARITY);
    config.tcp.rto_max = config.tcp.rto_max.min(Recent::FAR);
    config.tcp.delayed_ack = config.tcp.delayed_ack.min(Tick::FAR);
    for life in [&mut config.tcp.orphan, &mut config.tcp.fin_wait_2] {
        *life = (*life).min(DueFar::FAR);
    }
    window::syn_field(config.tcp.max_receive_window)
}

impl<E: Env> Tcp<E> {
    /// Heeds a configuration that was changed.
    pub(crate) fn reconfigured(&mut self, config: &mut Config) {
        self.first_window = bounded(config, &self.pools.rx);
    }

    /// Tables of the sizes that the configuration says. The receive window is bounded by what the
    /// store takes of a new connection, in `config` too: a scale that suits a larger one could say
    /// no window of such a store at all.
    pub(crate) fn new(config: &mut Config, rx: E::Rx, tx: E::Tx) -> Tcp<E> {
        let first_window = bounded(config, &rx);
        let limits = &config.limits;
        let secret = Secret::new(&config.secret);
        let word = |at: usize| {
            let mut w = [0; 8];
            w.copy_from_slice(&config.secret[at..at + 8]);
            u64::from_le_bytes(w)
        };
        // Tables have keys of their own, so that what one betrays by its timing helps against no
        // other.
        let key = |salt: u64| {
            (word(0).rotate_left(17) ^ word(16) ^ salt, word(8).rotate_left(29) ^ word(24) ^ !salt)
        };
        let flows =
            limits.connections.saturating_add(limits.half_open).saturating_add(limits.time_wait);
        Tcp {
            now: Instant::ZERO,
            secret,
            flows: Flows::new(flows.min(MAX_INDEX), key(1), config.tcp.ephemeral_ports),
            syn_rcvd: Slab::new(limits.half_open.min(MAX_INDEX)),
            syn_rcvd_wheel: Wheel::with_tick_shift(
                limits.half_open.min(MAX_INDEX),
                HALF_TICK_SHIFT,
                Instant::ZERO,
            ),
            open: Slab::new(limits.connections.min(MAX_INDEX)),
            wheel: Wheel::new(limits.connections.min(MAX_INDEX), Instant::ZERO),
            time_wait: Slab::new(limits.time_wait.min(MAX_INDEX)),
            waits: List::new(),
            listeners: ListenTable::new(limits.listeners, AddrHash::new(&config.secret, 6)),
            ports: Ports::new(config.tcp.ephemeral_ports),
            reaches_out: false,
            binds: Binds::new(limits.binds, key(4)),
            pools: Pools {
                rx,
                tx,
                reasm: Slab::new(limits.reassembly_maps),
                boards: Slab::new(limits.sack_maps),
                sent: Slab::new(limits.sack_maps),
                rare_stats: Slab::new(limits.connections.min(MAX_INDEX)),
                sizes: Sizes::new(&config.tcp),
                ts_echo: 0,
                record_ends: RecordEnds::new(),
                fast_open: FastOpen::new(),
                paced: Slab::new(limits.paced.min(Held16::MOST)),
                buffers: None,
                rng: Rng::seed(key(3).0),
                clock_step: config.tcp.clock_step,
                prague_fallback: config.tcp.prague_fallback,
                unread_since: Instant::NEVER,
                #[cfg(test)]
                instances: super::context::Instances::All,
            },
            ready: Line::new(limits.connections.min(MAX_INDEX)),
            event_queue: Line::new(limits.connections.min(MAX_INDEX)),
            orphans: List::new(),
            unclocked: None,
            borrowers: Borrowers::default(),
            orphan_bytes: 0,
            first_window,
            cookies_until: Instant::ZERO,
            was_full: false,
        }
    }

    /// Where the record of a flow probably lies: one look at the table, none at the record.
    #[inline(always)]
    pub(crate) fn lookup(&self, key: &FlowKey) -> Found {
        let hash = self.flows.hash(key);
        Found { hash, at: self.flows.candidate(hash) }
    }

    /// Asks the processor for the record, so that it is here when the segment is delivered.
    #[inline(always)]
    pub(crate) fn prefetch(&self, flow: FlowRef) {
        if flow.is_open() {
            return clearway_hint::prefetch_slice_at(self.open.entries(), flow.index() as usize);
        }
        if flow != FlowRef::NONE {
            self.prefetch_other(flow);
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn prefetch_other(&self, flow: FlowRef) {
        let index = flow.index() as usize;
        match flow.phase() {
            LifePhase::SynRcvd => clearway_hint::prefetch_slice_at(self.syn_rcvd.entries(), index),
            LifePhase::Open => clearway_hint::prefetch_slice_at(self.open.entries(), index),
            LifePhase::TimeWait => {
                clearway_hint::prefetch_slice_at(self.time_wait.entries(), index)
            }
        }
    }

    /// Whether the record at `at` is that of `key`.
    #[inline]
    pub(super) fn is_at(&self, at: FlowRef, key: &FlowKey) -> bool {
        let found = match at.phase() {
            LifePhase::SynRcvd => self.syn_rcvd.by_index(at.index()).map(|h| &h.key),
            LifePhase::Open => self
                .open
                .by_index(at.index())
                .filter(|c| !c.marks.has(Marks::DETACHED))
                .map(|c| &c.key),
            LifePhase::TimeWait => self.time_wait.by_index(at.index()).map(|w| &w.key),
        };
        found == Some(key)
    }

    /// The record of a flow, for certain.
    pub(super) fn find(&self, key: &FlowKey) -> Option<FlowRef> {
        self.flows.find(self.flows.hash(key), |at| self.is_at(at, key))
    }

    /// The place of the open connection at `flow`, if that is its `name` and `seg` with `len` bytes
    /// is what it expects.
    #[inline(always)]
    pub(crate) fn fast_path(
        &self,
        flow: FlowRef,
        name: Name<'_>,
        seg: &Plain,
        len: u32,
    ) -> Option<u32> {
        if !flow.is_open() {
            return None;
        }
        #[cfg(test)]
        if self.pools.instances > super::context::Instances::All {
            return None;
        }
        let c = self.open.by_index(flow.index())?;
        // What is established is not detached.
        (open::is_fast_path(c, seg, len) && name.is(&c.key)).then_some(flow.index())
    }

    /// The last instant that was told.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Says what time it is: before anything that takes a [`Cx`] of that time.
    #[inline]
    pub(crate) fn set_now(&mut self, now: Instant) {
        if self.unclocked.is_some() {
            self.clock_orphans(now);
        }
        self.now = now;
    }

    /// Whoever lets go of a connection does not say when. The lifetime of what it leaves behind
    /// began at the instant that was told before, perhaps long before: it begins now.
    #[cold]
    fn clock_orphans(&mut self, now: Instant) {
        let behind = now.since(self.now);
        let mut at = self.unclocked.take();
        while let Some(index) = at {
            if let Some(c) = self.open.by_index_mut(index) {
                if c.deadline(Timer::Orphan, now).is_set() {
                    c.move_deadline(Timer::Orphan, c.deadline(Timer::Orphan, now) + behind);
                }
            }
            at = self.orphans.next(&mut self.open.links(|c| &mut c.owner), index);
        }
    }

    /// The connection at `index` is the youngest orphan.
    pub(super) fn join_orphans(&mut self, index: u32) {
        if self.orphans.push_back(&mut self.open.links(|c| &mut c.owner), index) {
            self.unclocked.get_or_insert(index);
        }
    }

    /// The connection at `index` is no orphan any more.
    pub(super) fn leave_orphans(&mut self, index: u32) {
        let mut links = self.open.links(|c| &mut c.owner);
        if self.unclocked == Some(index) {
            self.unclocked = self.orphans.next(&mut links, index);
        }
        self.orphans.remove(&mut links, index);
    }

    /// Takes a segment that [`Tcp::fast_path`] found a place for.
    #[inline(always)]
    pub(crate) fn on_fast_path(
        &mut self,
        cx: &mut Cx<'_>,
        index: u32,
        seg: &Plain,
        payload: Payload<'_, E::Buf>,
    ) -> Result<(), Drop> {
        let Some(c) = self.open.by_index_mut(index) else { return Err(Drop::TcpPortClosed) };
        cx.counters.tcp.segs_in += 1;
        E::trace(Trace::SegmentIn(TracedSegment {
            ends: c.key.traced(),
            seq: seg.seq.0,
            ack: seg.ack.0,
            len: payload.len,
            flags: seg.flags.0,
        }));
        let work = &mut ConnCx { pools: &mut self.pools, stack: cx };
        let result = open::on_expected::<E, true>(c, work, (seg, &SackBlocks::NONE), payload);
        if c.marks.any(UNSETTLED.with(Marks::ORPHAN).with(Marks::PENDING)) {
            self.settle_received(cx.config, cx.counters, index);
        } else if !c.events.is_empty() && !self.event_queue.join(index, &mut c.event_queue) {
            self.join_after_all(index);
        }
        result
    }

    /// Takes a segment.
    #[cold]
    #[inline(never)]
    pub(crate) fn on_segment(
        &mut self,
        cx: &mut Cx<'_>,
        arrival: &mut Arrival<'_, E::Buf>,
    ) -> Result<(), Drop> {
        cx.counters.tcp.segs_in += 1;
        E::trace(Trace::SegmentIn(arrival.key.traced_segment(arrival.seg, arrival.len())));
        let at = arrival.found.at;
        if at.is_open() && self.is_at(at, arrival.key) {
            return self.deliver(cx, at.index(), arrival);
        }
        self.on_other_segment(cx, arrival)
    }

    /// A segment that is not for an open connection, or whose flow was not where it seemed to be.
    #[cold]
    #[inline(never)]
    pub(super) fn on_other_segment(
        &mut self,
        cx: &mut Cx<'_>,
        arrival: &mut Arrival<'_, E::Buf>,
    ) -> Result<(), Drop> {
        let (key, found) = (arrival.key, arrival.found);
        let at = match found.at {
            at if at != FlowRef::NONE && self.is_at(at, key) => Some(at),
            _ => self.flows.find(found.hash, |at| self.is_at(at, key)),
        };
        match at {
            Some(at) if at.phase() == LifePhase::Open => self.deliver(cx, at.index(), arrival),
            Some(at) if at.phase() == LifePhase::SynRcvd => {
                self.on_syn_rcvd(cx, at.index(), arrival)
            }
            Some(at) => self.on_wait(cx, at.index(), arrival),
            None => self.on_unknown(cx, arrival),
        }
    }

    /// Gives a segment to the open connection at `index`.
    #[inline]
    pub(super) fn deliver(
        &mut self,
        cx: &mut Cx<'_>,
        index: u32,
        arrival: &mut Arrival<'_, E::Buf>,
    ) -> Result<(), Drop> {
        let Some(c) = self.open.by_index_mut(index) else {
            return Err(Drop::TcpPortClosed);
        };
        let hash = arrival.found.hash;
        let work = &mut ConnCx { pools: &mut self.pools, stack: cx };
        let result = match c.state {
            State::SynSent => active::on_segment(c, work, arrival),
            _ => open::on_segment(c, work, arrival),
        };
        let is_over = c.marks.any(Marks::GONE.with(Marks::TO_WAIT));
        if c.marks.has(Marks::TO_WAIT) {
            self.last_ack(cx, index);
        }
        if is_over {
            self.leave(cx.config, cx.counters, index, Some(hash));
        } else {
            self.note_borrower(index);
            self.settle_here(cx.config, cx.counters, index);
        }
        result
    }

    /// The ACK of the peer's FIN, from a connection whose record is about to shrink.
    #[cold]
    pub(super) fn last_ack(&mut self, cx: &mut Cx<'_>, index: u32) {
        let Some(c) = self.open.by_index(index) else { return };
        if !c.marks.has(Marks::ACK_NOW) {
            return;
        }
        let ts = c.marks.has(Marks::TS).then(|| (c.stamp(cx.now), c.ts_recent));
        let flags =
            c.ecn(&self.pools).map_or(Flags::NONE, |ecn| ecn.stamp(Leaving::Ack, Ecn::NotEct).1);
        let seg = Segment {
            seq: c.snd.nxt,
            ack: c.rcv.nxt,
            flags: flags.union(Flags::ACK),
            wnd: (c.rcv.wnd() >> c.rcv.shift).min(u32::from(u16::MAX)) as u16,
            opts: clearway_wire::tcp::TcpOptions { ts, ..Default::default() },
            ..Segment::default()
        };
        let (key, tos, ttl) = (c.key, c.settings.tos, c.settings.ttl);
        // It is counted when it leaves, as every reply is.
        cx.reply(&key, seg, (tos, ttl));
    }

    /// Puts the connection on the lists that its marks ask for, and ends it when they say so.
    #[cold]
    #[inline(never)]
    pub(super) fn settle(&mut self, config: &Config, counters: &mut Counters, index: u32) {
        self.settle_here(config, counters, index);
    }

    /// As [`Tcp::settle`], after a segment was taken. The ACK that may wait leaves with the answer,
    /// most times, and that in the same turn. When the wheel lies far away it is only told after
    /// that turn, if the ACK still waits then ([`Conn::rearm_delack`]).
    #[cold]
    #[inline(never)]
    pub(super) fn settle_received(&mut self, config: &Config, counters: &mut Counters, index: u32) {
        if self.is_far() {
            if let Some(c) = self.open.by_index_mut(index) {
                if c.waits_only_to_ack(self.now, &self.pools) {
                    c.marks.clear(Marks::REARM);
                    c.wants_turn();
                }
            }
        }
        self.note_borrower(index);
        self.settle_here(config, counters, index);
    }

    /// [`Tcp::settle`], without a call: for where every segment passes.
    #[inline(always)]
    pub(super) fn settle_here(&mut self, config: &Config, counters: &mut Counters, index: u32) {
        let now = self.now;
        let Some(c) = self.open.by_index_mut(index) else { return };
        if c.is_settled() {
            return;
        }
        if c.marks.any(Marks::GONE.with(Marks::TO_WAIT)) {
            return self.leave(config, counters, index, None);
        }
        debug_assert!(!c.marks.has(Marks::DETACHED) || !c.marks.has(Marks::EMIT));
        if c.marks.has(Marks::REARM) {
            c.marks.clear(Marks::REARM);
            let due = timers::earliest(now, c, &self.pools);
            c.is_watched(now, due);
            self.wheel.arm_if_earlier(index, due);
        }
        let (turn, tell) = (c.marks.has(Marks::EMIT), !c.events.is_empty() && c.is_owned());
        let has_turn = !turn || self.ready.join(index, &mut c.ready);
        let has_told = !tell || self.event_queue.join(index, &mut c.event_queue);
        if !(has_turn && has_told) {
            self.join_after_all(index);
        }
    }

    /// A connection found one of the lines full of holes, left by those who went away: they close
    /// up, and it joins those that its marks ask for.
    #[cold]
    #[inline(never)]
    pub(super) fn join_after_all(&mut self, index: u32) {
        let Tcp { ready, event_queue, open, .. } = self;
        let mut at = |index: u32, moved: &mut dyn FnMut(&mut Conn<E>)| {
            if let Some(c) = open.by_index_mut(index) {
                moved(c);
            }
        };
        ready.close_up(|index, place| at(index, &mut |c| c.ready = place));
        event_queue.close_up(|index, place| at(index, &mut |c| c.event_queue = place));
        let Some(c) = open.by_index_mut(index) else { return };
        let tell = !c.events.is_empty() && c.is_owned();
        let joined = (!c.marks.has(Marks::EMIT) || ready.join(index, &mut c.ready))
            && (!tell || event_queue.join(index, &mut c.event_queue));
        debug_assert!(joined, "a line without holes has room for every connection");
    }

    /// The connection is over: its flow ends or moves on, and the record goes unless its owner
    /// still holds it. `hash` is that of its flow, for who has it.
    #[cold]
    pub(super) fn leave(
        &mut self,
        config: &Config,
        counters: &mut Counters,
        index: u32,
        hash: Option<u64>,
    ) {
        let Some(c) = self.open.by_index_mut(index) else { return };
        if !c.marks.has(Marks::DETACHED) {
            c.marks.set(Marks::DETACHED);
            let to_wait = c.marks.has(Marks::TO_WAIT);
            let (hash, port) = (hash.unwrap_or_else(|| self.flows.hash(&c.key)), c.key.local_port);
            if to_wait {
                self.enter_wait(config, counters, (index, hash));
            } else {
                self.flows.remove(hash, FlowRef::new(LifePhase::Open, index), port);
            }
        }
        self.wheel.disarm(index);
        let Some(c) = self.open.by_index_mut(index) else { return };
        self.ready.leave(&mut c.ready);
        c.stop();
        c.give_maps_back(&mut self.pools);
        c.sent.give_back(&mut self.pools.sent);
        if !c.cc.paced().is_none() {
            c.release_paced(&mut self.pools);
        }
        let marks = c.marks;
        if marks.has(Marks::PENDING) {
            // Nobody has seen it; nobody will.
            if let Some(listener) =
                crate::ids::ListenerId::from_bits(c.token).and_then(|id| self.listeners.get_mut(id))
            {
                listener.queue.remove(&mut self.open.links(|c| &mut c.owner), index);
            }
            self.free(index);
        } else if marks.has(Marks::ORPHAN) {
            self.orphan_bytes -= c.orphaned().bytes;
            self.leave_orphans(index);
            self.free(index);
        } else if !c.events.is_empty() && !self.event_queue.join(index, &mut c.event_queue) {
            self.join_after_all(index);
        }
    }

    /// The record's place and memory are free again. It is on no list.
    pub(super) fn free(&mut self, index: u32) {
        if let Some(handle) = self.open.handle_at(index) {
            self.discard(handle);
        }
    }

    pub(super) fn discard(&mut self, handle: Handle<Conn<E>>) {
        self.repaid(handle.index());
        if let Some(conn) = self.open.get_mut(handle) {
            if let Some(rare) = conn.rare.index().filter(|_| conn.settings.has_record_ends()) {
                self.pools.record_ends.forget(rare);
            }
            conn.rare.give_back(&mut self.pools.rare_stats);
            self.pools.fast_open.done(&conn.key);
        }
        // Of the whole record only the queues are moved.
        if let Some(conn) = self.open.remove(handle) {
            self.pools.rx.close(conn.rx);
            self.pools.tx.close(conn.tx);
        }
    }

    /// Whether one more connection can be had. When the table is full, the connection that has been
    /// without its owner longest makes room.
    pub(super) fn room_for_one(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.open.is_full() {
            if let Some(oldest) = self.orphans.front() {
                self.evict_orphan(cx, oldest);
            }
        }
        !self.open.is_full()
    }

    pub(super) fn has_too_many_orphans(&self, cx: &Cx<'_>) -> bool {
        let limits = &cx.config.limits;
        self.orphans.len() > limits.orphans || self.orphan_bytes > limits.orphan_bytes
    }

    /// Orphans beyond the limits go, the oldest first. One whose peer takes its bytes has a turn
    /// behind the others, and only what it still holds is counted then.
    #[cold]
    pub(super) fn relieve_orphans(&mut self, cx: &mut Cx<'_>) {
        let mut spared = 0;
        while self.has_too_many_orphans(cx) {
            let Some(oldest) = self.orphans.front() else { return };
            let Some(c) = self.open.by_index_mut(oldest) else { return };
            if spared == ORPHANS_SPARED || c.take_orphan_progress() == 0 {
                self.evict_orphan(cx, oldest);
                continue;
            }
            spared += 1;
            let (before, now) = (c.orphaned().bytes, self.pools.tx.len(&c.tx));
            c.set_orphaned(now);
            self.orphan_bytes = self.orphan_bytes - before + u64::from(now);
            // Its lifetime goes on as it was.
            let mut links = self.open.links(|c| &mut c.owner);
            if self.unclocked == Some(oldest) {
                self.unclocked = self.orphans.next(&mut links, oldest);
            }
            self.orphans.move_to_back(&mut links, oldest);
        }
    }

    /// A connection without owner is reset for want of room (THREATS 17, 18).
    pub(super) fn evict_orphan(&mut self, cx: &mut Cx<'_>, index: u32) {
        let Some(c) = self.open.by_index_mut(index) else { return };
        cx.counters.tcp.orphans_evicted += 1;
        if c.state.is_synchronized() {
            let reset = Segment {
                seq: c.snd.nxt,
                ack: c.rcv.nxt,
                flags: Flags::RST | Flags::ACK,
                ..Segment::default()
            };
            let key = c.key;
            cx.counters.tcp.resets_out += 1;
            cx.reply_plain(&key, reset);
        }
        c.end();
        self.leave(cx.config, cx.counters, index, None);
    }

    /// Looks at the timers that are due.
    pub(crate) fn expire(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        let mut work = TIMERS_PER_TURN;
        let mut due = [0; AHEAD as usize];
        loop {
            let mut n = 0;
            for place in &mut due {
                let Some(index) = self.wheel.next_expired_within(now, &mut work) else { break };
                self.prefetch_record(index);
                *place = index;
                n += 1;
            }
            for &index in &due[..n] {
                self.on_timer(cx, index);
            }
            if n < due.len() {
                break;
            }
        }
        while let Some(index) = self.syn_rcvd_wheel.next_expired_within(now, &mut work) {
            self.on_syn_rcvd_timeout(cx, index);
        }
        self.expire_waits(now, TIMERS_PER_TURN as u32);
        if self.next_look() <= now {
            self.look_after_memory(cx);
        }
    }

    pub(super) fn on_timer(&mut self, cx: &mut Cx<'_>, index: u32) {
        let Some(c) = self.open.by_index_mut(index) else { return };
        c.marks.clear(Marks::WATCHED);
        timers::on_time(c, &mut ConnCx { pools: &mut self.pools, stack: cx });
        if c.paced_until(&self.pools).is_some() {
            c.wants_turn();
        }
        c.marks.set(Marks::REARM);
        if self.is_short() {
            self.borrowed(index);
        }
        self.settle(cx.config, cx.counters, index);
    }

    /// When expire is to be called next.
    pub(crate) fn next_deadline(&self) -> Instant {
        self.wheel
            .next_deadline()
            .min(self.syn_rcvd_wheel.next_deadline())
            .min(self.next_wait())
            .min(self.next_look())
    }

    /// Whether emit has something to do.
    #[inline]
    pub(crate) fn wants_emit(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Lets connections send, each up to its quantum. True when some could not send all that they
    /// may.
    #[inline(never)]
    pub(crate) fn emit<S: Sink>(
        &mut self,
        now: Instant,
        config: &Config,
        out: &mut IpOut<'_, S>,
    ) -> bool {
        self.set_now(now);
        if self.ready.is_empty() {
            return false;
        }
        // Nobody is looked at in vain while no device takes anything.
        if self.was_full && out.is_full() {
            return true;
        }
        self.was_full = false;
        if self.is_far() {
            self.emit_far(now, config, out)
        } else {
            self.emit_ready::<S, false>(now, config, out)
        }
    }

    #[inline(never)]
    pub(super) fn emit_far<S: Sink>(
        &mut self,
        now: Instant,
        config: &Config,
        out: &mut IpOut<'_, S>,
    ) -> bool {
        self.prefetch_first();
        self.emit_ready::<S, true>(now, config, out)
    }

    /// One copy for connections that lie far away, so that the other asks nothing about it.
    #[inline(always)]
    pub(super) fn emit_ready<S: Sink, const FAR: bool>(
        &mut self,
        now: Instant,
        config: &Config,
        out: &mut IpOut<'_, S>,
    ) -> bool {
        let mut blocked = 0;
        // Those that come back during this call wait for the next one.
        let mut turns = self.ready.len().min(SERVED_PER_TURN);
        while turns > 0 {
            turns -= 1;
            if FAR {
                self.prefetch_ready();
            }
            let Some(index) = self.ready.serve() else { break };
            let Some(c) = self.open.by_index_mut(index) else { continue };
            c.ready = Place::OFF;
            let turn =
                turn::emit_conn(c, output::EmitCx { now, pools: &mut self.pools, config, out });
            if turn == output::Turn::Done && c.is_settled() {
                continue;
            }
            if turn == output::Turn::Full && out.is_full() {
                self.waits_on(config, out.counters, index);
                break;
            }
            blocked += u32::from(turn >= output::Turn::More);
            self.after_turn(config, out.counters, index, turn);
            if blocked >= BLOCKED_PER_TURN {
                break;
            }
        }
        !self.ready.is_empty()
    }

    /// A connection had a turn, and the devices take nothing more: it is the first in the next one.
    #[cold]
    #[inline(never)]
    pub(super) fn waits_on(&mut self, config: &Config, counters: &mut Counters, index: u32) {
        let Some(c) = self.open.by_index_mut(index) else { return };
        c.marks.set(Marks::EMIT);
        self.ready.unserve(index, &mut c.ready);
        self.settle_here(config, counters, index);
        self.was_full = true;
    }

    /// A connection had a turn, and there is more to be done about it.
    #[cold]
    #[inline(never)]
    pub(super) fn after_turn(
        &mut self,
        config: &Config,
        counters: &mut Counters,
        index: u32,
        turn: output::Turn,
    ) {
        let Some(c) = self.open.by_index_mut(index) else { return };
        if turn != output::Turn::Done {
            match turn {
                output::Turn::Paced => self.waits_for_pacing(index),
                _ => c.marks.set(Marks::EMIT),
            }
        }
        self.settle_here(config, counters, index);
    }

    /// The wheel wakes a connection when the time of its next data has come.
    #[cold]
    #[inline(never)]
    fn waits_for_pacing(&mut self, index: u32) {
        if let Some(at) = self.open.by_index(index).and_then(|c| c.paced_until(&self.pools)) {
            self.wheel.arm_if_earlier(index, at);
        }
    }

    /// The next event: listeners first, because those who wait there have no owner yet.
    #[inline]
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        if let Some((listener, token)) = self.listeners.next_marked() {
            return Some(Event::Incoming { listener, token });
        }
        let index = self.event_queue.serve()?;
        let (handle, c) = self.open.tenant_mut(index)?;
        c.event_queue = Place::OFF;
        let what = core::mem::take(&mut c.events);
        Some(Event::Conn { conn: ConnId::from_bits(handle.to_bits())?, token: c.token, what })
    }

    pub(super) fn id_at(&self, index: u32) -> Option<ConnId> {
        ConnId::from_bits(self.open.handle_at(index)?.to_bits())
    }

    /// An ICMP error that quotes a segment of ours with the sequence number `quoted` (RFC 5927 4.1:
    /// it must be one that is out).
    pub(crate) fn on_icmp_error(
        &mut self,
        cx: &mut Cx<'_>,
        key: &FlowKey,
        quoted: Seq,
        err: IcmpError,
    ) -> Result<(), Drop> {
        let Some(at) = self.find(key) else {
            return Err(Drop::IcmpUnmatched);
        };
        if at.phase() != LifePhase::Open {
            // Small records send nothing that could be too long, and a stranger's handshake ends by
            // itself.
            return match self.syn_rcvd.by_index(at.index()) {
                Some(syn_rcvd) if at.phase() == LifePhase::SynRcvd && syn_rcvd.iss == quoted => {
                    Ok(())
                }
                _ => Err(Drop::IcmpUnmatched),
            };
        }
        let Some(c) = self.open.by_index_mut(at.index()) else {
            return Err(Drop::IcmpUnmatched);
        };
        if c.outstanding() == 0 || !quoted.within(c.snd.una, c.outstanding()) {
            return Err(Drop::IcmpUnmatched);
        }
        match err {
            IcmpError::PacketTooBig { mtu } => {
                let before = c.mss;
                c.path_takes(mtu.min(u32::from(before) + MOST_HEADERS));
                if c.mss < before && c.state.is_synchronized() {
                    // What is out in larger segments will not arrive: it is sent again in smaller
                    // ones, without blaming congestion (RFC 8201 5.4).
                    c.forget_undo(&mut self.pools);
                    c.lose_all(&mut self.pools);
                    c.marks.clear(Marks::TIMING);
                    c.wants_turn();
                }
            }
            // RFC 5461 4.1, RFC 5927 5.2: hard errors end a handshake; once established, all are
            // soft.
            IcmpError::Unreachable(why) => match (c.state, why) {
                (State::SynSent, crate::Unreachable::Port | crate::Unreachable::Protocol) => {
                    cx.counters.tcp.attempt_fails += 1;
                    c.go(Cause::Timeout);
                    c.fail(Failure::Unreachable(why));
                }
                _ => c.note_rare(&mut self.pools, |t| t.cold.soft_error = Some(why)),
            },
            // It was asked for by three requests in as many seconds: nothing is gained by asking
            // for as long as a SYN is sent again. Who is connected has reason to wait (RFC 1122
            // 4.2.3.9).
            IcmpError::NoNeighbour if c.state == State::SynSent => {
                cx.counters.tcp.attempt_fails += 1;
                c.go(Cause::Timeout);
                c.fail(Failure::Unreachable(crate::Unreachable::Host));
            }
            IcmpError::NoNeighbour => {
                c.note_rare(&mut self.pools, |t| {
                    t.cold.soft_error = Some(crate::Unreachable::Host)
                });
            }
        }
        self.settle(cx.config, cx.counters, at.index());
        Ok(())
    }
}

/// Marks that settling acts on.
const UNSETTLED: Marks = Marks::GONE.with(Marks::TO_WAIT).with(Marks::REARM).with(Marks::EMIT);

impl<E: Env> Conn<E> {
    /// Whether settling would find nothing to do.
    #[inline(always)]
    pub(super) fn is_settled(&self) -> bool {
        !self.marks.any(UNSETTLED) && self.events.is_empty()
    }
}

/// IPv6 header, TCP header and timestamps: what stands before the payload at most.
const MOST_HEADERS: u32 = 60 + 12;

/// Handshakes are timed in ticks of 2^20 ns, about a millisecond.
const HALF_TICK_SHIFT: u32 = 20;
