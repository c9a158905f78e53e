//! What TCP holds as records ([`crate::export`]): listeners, half-open connections, connections
//! with their bytes, and TIME-WAIT.

use alloc::vec::Vec;

use clearway_base::{Duration, Instant, Link, List};
use clearway_pkt::Buf;
use clearway_wire::Seq;

use super::Tcp;
use super::cc::{Cc, Known, Law};
use super::clock::{DueTick, stamp};
use super::cold::Cold;
use super::conn::{Conn, Start};
use super::context::{Cx, Pools};
use super::ecn::{EcnState, Feedback};
use super::fast_open::FastOpenListener;
use super::loss::sent::Sent;
use super::marks::Marks;
use super::mtu_search::MtuSearch;
use super::options::{LEAST_PAYLOAD, MIN_MSS};
use super::rare_stats::{RareStats, Undo};
use super::reasm::Reasm;
use super::records::{ANSWERS, SynRcvd, TimeWait};
use super::sack::Scoreboard;
use super::seldom::Seldom;
use super::span::Span;
use super::state::State;
use super::window::MAX_SCALE;
use crate::config::{Congestion, ConnOptions, EcnMode, Keepalive};
use crate::error::{Failure, ListenError, Unreachable};
use crate::export::{Fault, Fields, Imported, Kind, Reader, Writer};
use crate::flow::{FlowKey, FlowRef, LifePhase};
use crate::ids::{BindId, ConnId, ListenerId};
use crate::store::{Env, RxStore, TxStore};
use crate::tcp::listen_table::Listener;

/// Marks that are told, each by the bit that is its place here.
const MARKS: [Marks; 28] = [
    Marks::EMIT,
    Marks::ACK_NOW,
    Marks::SYN_DUE,
    Marks::RST_DUE,
    Marks::PROBE_DUE,
    Marks::FORCE,
    Marks::PERSIST,
    Marks::SHUT,
    Marks::FIN_SENT,
    Marks::PEER_FIN,
    Marks::ORPHAN,
    Marks::PENDING,
    Marks::DETACHED,
    Marks::TS,
    Marks::SACK,
    Marks::WANT_ROOM,
    Marks::TIMING,
    Marks::HOLE,
    Marks::SEND_URGENT,
    Marks::NONE,
    Marks::DUPLICATE,
    Marks::PROBING,
    Marks::FIN_WAITS,
    Marks::RWND_LIMITED,
    Marks::SNDBUF_LIMITED,
    Marks::STUCK,
    Marks::REORDERING,
    Marks::ECN,
];

/// The bit among those of [`MARKS`] that says that urgent data waits for the owner.
const URGENT_BIT: u64 = 1 << 19;

/// States by number.
const STATES: [State; 11] = [
    State::Closed,
    State::Listen,
    State::SynSent,
    State::SynReceived,
    State::Established,
    State::FinWait1,
    State::FinWait2,
    State::CloseWait,
    State::Closing,
    State::LastAck,
    State::TimeWait,
];

/// Why connections failed by number, 0 for none; from 8 to 14 with the network's error.
const FAILURES: [Option<Failure>; 16] = [
    None,
    Some(Failure::Reset),
    Some(Failure::Refused),
    Some(Failure::TimedOut),
    Some(Failure::UserTimeout),
    Some(Failure::KeepaliveTimedOut),
    Some(Failure::NoMemory),
    Some(Failure::Broken),
    Some(Failure::Unreachable(Unreachable::Network)),
    Some(Failure::Unreachable(Unreachable::Host)),
    Some(Failure::Unreachable(Unreachable::Protocol)),
    Some(Failure::Unreachable(Unreachable::Port)),
    Some(Failure::Unreachable(Unreachable::Prohibited)),
    Some(Failure::Unreachable(Unreachable::TimeExceeded)),
    Some(Failure::Unreachable(Unreachable::Parameter)),
    Some(Failure::Killed),
];

/// No window is larger (RFC 7323 2.3).
const MOST_WINDOW: u32 = 1 << 30;

/// What a buffer is tried with first when received bytes are to be kept again; what it does not
/// take is tried in halves.
const PIECE: usize = 65_535;

/// Bits of the number that tells which of [`MARKS`] are set.
const BITS: u64 = (1 << MARKS.len()) - 1;

/// The names of a flow, under 1 to 5.
fn key_fields(key: &mut FlowKey, f: &mut impl Fields) {
    f.addr(1, &mut key.local);
    f.addr(2, &mut key.remote);
    f.u16(3, &mut key.local_port);
    f.u16(4, &mut key.remote_port);
    f.u16(5, &mut key.table.0);
    if key.local.is_v4() != key.remote.is_v4() || key.local_port == 0 || key.remote_port == 0 {
        f.refuse(Fault::Contradiction("two ends that cannot be those of a connection"));
    }
}

/// What an owner may set, under 270 to 285.
fn option_fields(options: &mut ConnOptions, f: &mut impl Fields) {
    let ConnOptions {
        nodelay,
        cork,
        keepalive,
        user_timeout,
        max_segment,
        congestion,
        tos,
        ttl,
        urgent_inline,
        ecn,
        max_pacing_rate,
        receive_buffer,
        send_buffer,
        // Of a connection these are in the record of what is rare.
        syn_retries: _,
        fin_wait_2: _,
        linear_timeouts: _,
    } = options;
    f.bool(270, nodelay);
    f.bool(271, cork);
    let (mut probes, mut every) = (keepalive.is_some(), keepalive.unwrap_or_default());
    f.bool(272, &mut probes);
    f.duration(273, &mut every.idle);
    f.duration(274, &mut every.interval);
    f.u8(275, &mut every.count);
    let Keepalive { idle: _, interval: _, count: _ } = every;
    *keepalive = probes.then_some(every);
    f.duration(276, user_timeout);
    f.u16(277, max_segment);
    f.choice(278, congestion, &Congestion::ALL);
    f.u8(279, tos);
    f.u8(280, ttl);
    f.bool(281, urgent_inline);
    f.choice(284, ecn, &EcnMode::ALL);
    f.u32(282, receive_buffer);
    f.u32(283, send_buffer);
    let mut most = max_pacing_rate.unwrap_or(u64::MAX);
    f.u64(285, &mut most);
    *max_pacing_rate = Some(most).filter(|rate| *rate != u64::MAX);
}

impl<E: Env> Conn<E> {
    /// Everything of the record but its name, its options, its bytes and its maps. Places in lists
    /// and lines, the way out, and what the wheel knows are made anew.
    fn fields(&mut self, f: &mut impl Fields) {
        let now = f.now();
        let is_set = |mark: &Marks| *mark != Marks::NONE && self.marks.has(*mark);
        let mut bits = MARKS
            .iter()
            .enumerate()
            .filter(|(_, mark)| is_set(mark))
            .fold(0, |n, (i, _)| n | 1 << i);
        bits |= if self.settings.urgent_waits() { URGENT_BIT } else { 0 };
        f.number(7, &mut bits, BITS);
        self.marks = Marks::default();
        for (_, mark) in MARKS.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1) {
            self.marks.set(*mark);
        }
        self.settings.set_urgent_waits(bits & URGENT_BIT != 0);
        f.choice(8, &mut self.state, &STATES);
        f.u8(9, &mut self.events.0);
        f.u64(10, &mut self.token);
        f.seq(11, &mut self.iss);
        f.seq(12, &mut self.irs);
        // The clock of timestamps goes on from what it shows now.
        let mut shown = stamp(now, self.ts_offset);
        f.u32(13, &mut shown);
        self.ts_offset = shown.wrapping_sub(stamp(now, 0));
        f.u16(14, &mut self.our_mss);
        f.u16(15, &mut self.peer_mss);
        f.u16(16, &mut self.mss);
        f.u16(17, &mut self.rcv_mss);
        f.u32(18, &mut self.ts_recent);
        f.u32(20, &mut self.segs_in);
        f.u32(21, &mut self.data_segs_in);
        f.u32(22, &mut self.segs_out);
        f.u32(23, &mut self.data_segs_out);
        f.u32(24, &mut self.busy_ms);
        self.heard.field(25, f);
        self.data_heard.field(26, f);
        let mut delack = self.delack.seen_from(now);
        f.instant(27, &mut delack);
        self.delack = DueTick::at(delack);
        f.seq(31, &mut self.timed_seq);
        f.seq(32, &mut self.delivered_then);
        f.choice(36, &mut self.failure, &FAILURES);
        self.snd.fields(f);
        self.snd_ahead.fields(f);
        self.fits_twice.fields(f);
        self.rcv.fields(f);
        self.rcv_ahead.fields(f);
        self.times.fields(f);
        self.rtt.fields(f);
        self.cc.fields(160, f);
        self.recovery.fields(f);
        self.rate.fields(f);
    }

    /// What in the record cannot be, when its send queue holds `written` bytes.
    fn contradiction(&self, cold: &Cold, written: u32) -> Option<&'static str> {
        let c = self;
        let (fin_sent, shut, peer_fin) =
            (c.marks.has(Marks::FIN_SENT), c.marks.has(Marks::SHUT), c.marks.has(Marks::PEER_FIN));
        if c.marks.has(Marks::DETACHED) {
            let over = matches!(c.state, State::Closed | State::TimeWait) && c.is_owned();
            return (!over).then_some("what is over has a state of its own, and an owner");
        }
        if c.marks.has(Marks::ORPHAN) && c.marks.has(Marks::PENDING) {
            return Some("an owner who is gone, and one who is still to come");
        }
        if matches!(c.state, State::Listen | State::TimeWait)
            || (c.state == State::Closed && !c.marks.has(Marks::RST_DUE))
        {
            return Some("a state that no connection has");
        }
        let handshake = matches!(c.state, State::SynSent | State::SynReceived);
        // A Fast Open cookie opens a connection before its handshake is done.
        let early = c.is_early();
        if c.marks.has(Marks::PENDING) && handshake && !early {
            return Some("a handshake that is done and is not");
        }
        if !c.snd.una.le(c.snd.nxt)
            || c.outstanding() > MOST_WINDOW
            || !cold.points.fits(c.snd.una, c.snd.nxt)
        {
            return Some("numbers that were acknowledged and never sent");
        }
        if c.snd.shift > MAX_SCALE
            || c.rcv.shift > MAX_SCALE
            || c.snd.wnd > MOST_WINDOW
            || c.snd_ahead.max_wnd > MOST_WINDOW
        {
            return Some("a window that no peer can offer");
        }
        if c.mss < LEAST_PAYLOAD || c.peer_mss < MIN_MSS || c.our_mss == 0 || c.rcv_mss == 0 {
            return Some("segments without room");
        }
        if c.state == State::Closed {
            return None;
        }
        // Data goes with a SYN (RFC 7413 4.1), or behind a SYN-ACK, only for who opens with a
        // cookie, and has been written.
        let most = match c.state {
            State::SynSent => 1 + written,
            State::SynReceived if early => written,
            _ => 1,
        };
        if handshake && (c.outstanding() > most || c.snd.una != c.iss + u32::from(early)) {
            return Some("data in a handshake");
        }
        let end = c.snd_ahead.end;
        let all_there = match (shut, fin_sent) {
            (true, true) => c.snd.nxt == end + 1 && end.since(c.data_front()) == written,
            (true, false) => handshake || c.snd.nxt.le(end) && end.since(c.data_front()) == written,
            (false, true) => false,
            (false, false) => handshake || c.outstanding() <= written,
        };
        if !all_there {
            return Some("bytes that were sent and are not there");
        }
        if c.state == State::FinWait2 && !(fin_sent && c.outstanding() == 0) {
            return Some("a FIN that was acknowledged and never sent");
        }
        if peer_fin != matches!(c.state, State::CloseWait | State::Closing | State::LastAck) {
            return Some("a peer who has closed and has not");
        }
        let far =
            c.rcv.edge.since(c.rcv.nxt) > MOST_WINDOW || c.rcv.nxt.since(c.rcv.acked) > MOST_WINDOW;
        if c.state != State::SynSent && far {
            return Some("a window that was never offered");
        }
        let fin_lies_there = c.rcv_ahead.look.ge(c.rcv.nxt) && c.rcv_ahead.look.le(c.rcv.edge);
        (c.marks.has(Marks::FIN_WAITS) && !fin_lies_there).then_some("a FIN beyond the window")
    }
}

/// Whether `sent` tells when what is in flight left.
fn is_recorded<E: Env>(c: &Conn<E>, sent: &Sent) -> bool {
    let outstanding = Span::new(c.snd.una, c.snd.nxt);
    c.marks.has(Marks::SACK)
        && !c.marks.has(Marks::DETACHED)
        && !outstanding.is_empty()
        && sent.fits(outstanding)
}

/// Spans as pairs.
fn pairs(spans: &[Span]) -> Vec<(Seq, Seq)> {
    spans.iter().map(|span| (span.start, span.end)).collect()
}

impl<E: Env> Tcp<E> {
    /// Writes listeners, half-open connections, connections and TIME-WAIT. What one store cannot
    /// give of its bytes is left out; the second value says how many connections that were.
    pub(crate) fn export(&mut self, w: &mut Writer) -> u32 {
        let listeners: Vec<ListenerId> = self.listeners.summaries().map(|l| l.listener).collect();
        for id in &listeners {
            self.export_listener(w, *id);
        }
        for index in 0..self.syn_rcvd.capacity() {
            self.export_syn_rcvd(w, index);
        }
        let mut left_out = 0;
        for index in self.in_order(&listeners) {
            left_out += u32::from(!self.export_conn(w, index));
        }
        let mut next = self.waits.front();
        while let Some(index) = next {
            self.export_wait(w, index);
            next = self.waits.next(&mut self.time_wait.links(|w| &mut w.link), index);
        }
        left_out
    }

    /// All connections: those that wait to be accepted and those without owner in the order of
    /// their lists, the others in any.
    fn in_order(&mut self, listeners: &[ListenerId]) -> Vec<u32> {
        const LISTED: Marks = Marks::PENDING.with(Marks::ORPHAN);
        let mut all: Vec<u32> = self
            .open
            .iter()
            .filter(|(_, c)| !c.marks.any(LISTED))
            .map(|(handle, _)| handle.index())
            .collect();
        let Tcp { open, listeners: table, orphans, .. } = self;
        let mut follow = |list: &List| {
            let mut next = list.front();
            while let Some(index) = next {
                all.push(index);
                next = list.next(&mut open.links(|c| &mut c.owner), index);
            }
        };
        for listener in listeners.iter().filter_map(|id| table.get(*id)) {
            follow(&listener.queue);
        }
        follow(orphans);
        all
    }

    fn export_listener(&mut self, w: &mut Writer, id: ListenerId) {
        let Some(listener) = self.listeners.get_mut(id) else { return };
        w.record(Kind::Listener, |w| {
            let mut bits = id.to_bits();
            w.u64(1, &mut bits);
            listener_fields(listener, w);
        });
    }

    fn export_syn_rcvd(&mut self, w: &mut Writer, index: u32) {
        let mut due = self.syn_rcvd_wheel.deadline(index).unwrap_or(Instant::NEVER);
        let Some(syn_rcvd) = self.syn_rcvd.by_index_mut(index) else { return };
        // Whoever is answered when there is no listener any more is answered with a reset, record
        // or not.
        if self.listeners.get(syn_rcvd.listener).is_none() {
            return;
        }
        w.record(Kind::HalfOpen, |w| {
            half_fields(syn_rcvd, w);
            w.instant(18, &mut due);
        });
    }

    /// False: the store did not give all bytes.
    fn export_conn(&mut self, w: &mut Writer, index: u32) -> bool {
        let Some(mut id) = self.open.handle_at(index).map(|handle| handle.to_bits()) else {
            return true;
        };
        let Tcp { open, pools, .. } = self;
        let Some(c) = open.by_index_mut(index) else { return true };
        let unread = pools.rx.unread(&c.rx);
        let reasm = c.reasm(pools);
        let spans = reasm.get(&pools.reasm).map_or(Vec::new(), |map| pairs(map.parts().0));
        let early_at = |start: Seq| unread + start.since(c.rcv.nxt);
        let mut parts = Vec::new();
        parts.extend((unread > 0).then_some((0, unread)));
        parts.extend(spans.iter().map(|(start, end)| (early_at(*start), end.since(*start))));
        let mut received = Vec::new();
        for (at, len) in parts {
            if !copy_received::<E>(pools, c, at, len, &mut received) {
                return false;
            }
        }
        let mut written = alloc::vec![0; pools.tx.len(&c.tx) as usize];
        if pools.tx.peek(&mut c.tx, 0, &mut written) != written.len() {
            return false;
        }
        let Seldom { user_timeout, max_segment, .. } = c.suffered(pools).seldom;
        let mut options = ConnOptions { user_timeout, max_segment, ..c.settings.into() };
        w.record(Kind::Connection, |w| {
            key_fields(&mut c.key, w);
            w.u64(6, &mut id);
            option_fields(&mut options, w);
            let (marks, sent) = (c.marks, c.sent.get(&pools.sent));
            if !sent.is_some_and(|sent| is_recorded(c, sent)) {
                // As with whoever reads it: without the record, the timer is the one of
                // retransmission.
                c.marks.clear(Marks::REORDERING);
            }
            c.fields(w);
            c.marks = marks;
            c.told(&c.cold(pools)).fields(w);
            if let Some(rare) = c.rare.get(&pools.rare_stats) {
                let mut rare = rare.clone();
                // What another law had is of no use to this one.
                rare.undo = rare.undo.filter(|undo| undo.cc.kind() == c.settings.congestion());
                let una = c.snd.una;
                w.unless(
                    |w| RareStats::at(una).fields(w),
                    |w| {
                        rare.fields(w);
                        if let Some(mut ecn) = rare.ecn {
                            ecn.fields(w);
                        }
                    },
                );
            }
            let mut is_paced = c.may_be_paced() && c.marks.has(Marks::PACED);
            w.bool(633, &mut is_paced);
            if let Some(mut known) = c.known_of_path(pools) {
                known.fields(w);
            }
            if let Some(mut sent) =
                c.sent.get(&pools.sent).filter(|sent| is_recorded(c, sent)).cloned()
            {
                sent.fields(w);
            }
            if let Some(map) = reasm.get(&pools.reasm).filter(|map| !map.is_empty()) {
                let mut recent: Vec<(Seq, Seq)> =
                    map.parts().1.iter().map(|mark| (*mark, *mark)).collect();
                w.spans(250, &mut spans.clone());
                w.spans(251, &mut recent);
            }
            if let Some(board) = c.board(pools).filter(|board| !board.spans().is_empty()) {
                w.spans(260, &mut pairs(board.spans()));
            }
            let mut early = received.split_off(unread as usize);
            w.bytes(300, &mut received);
            w.bytes(301, &mut early);
            w.bytes(302, &mut written);
        });
        true
    }

    fn export_wait(&mut self, w: &mut Writer, index: u32) {
        let Some(wait) = self.time_wait.by_index_mut(index) else { return };
        w.record(Kind::TimeWait, |w| wait_fields(wait, w));
    }

    /// Makes a listener of a record.
    pub(crate) fn import_listener(
        &mut self,
        r: &mut Reader<'_>,
        made: &mut Imported,
    ) -> Result<(), Fault> {
        let mut listener = Listener {
            table: Default::default(),
            local: clearway_wire::Endpoint::new(clearway_wire::Addr::ANY_V4, 0),
            bound: None,
            reuse_port: false,
            next: None,
            both: false,
            backlog: 1,
            defer: 0,
            fast_open: FastOpenListener::default(),
            token: 0,
            options: ConnOptions::default(),
            settings: ConnOptions::default().into(),
            seldom: Seldom::NONE,
            syn_rcvd: 0,
            given: 0,
            queue: List::new(),
            event_queue: Link::OFF,
        };
        let mut bits = 0;
        r.u64(1, &mut bits);
        listener_fields(&mut listener, r);
        r.check()?;
        listener.set_options(listener.options);
        listener.backlog = listener.backlog.max(1);
        if let Some(old) = listener.bound {
            listener.bound = made.binds.iter().find(|(was, _)| *was == old).map(|(_, is)| *is);
        }
        let old = ListenerId::from_bits(bits).ok_or(Fault::Field(1))?;
        if listener.local.port == 0 || listener.local.addr.is_multicast() {
            return Err(Fault::Contradiction("an address that nobody can listen on"));
        }
        let bound = listener.bound;
        let id = self.listeners.insert(listener).map_err(|why| match why {
            ListenError::InUse => Fault::Exists,
            _ => Fault::Full,
        })?;
        if let Some(bound) = bound {
            self.binds.set_listening(bound, true);
        }
        made.listeners.push((old, id));
        Ok(())
    }

    /// Makes a half-open connection of a record.
    pub(crate) fn import_syn_rcvd(
        &mut self,
        r: &mut Reader<'_>,
        made: &Imported,
    ) -> Result<(), Fault> {
        let nobody = ListenerId::from_bits(1 << u32::BITS).ok_or(Fault::Missing)?;
        let mut syn_rcvd = SynRcvd {
            key: NO_FLOW,
            tries: 0,
            challenges: 0,
            irs: Seq(0),
            iss: Seq(0),
            ts_recent: 0,
            mss: MIN_MSS,
            snd_scale: 0,
            agreed: 0,
            since_us: 0,
            ts_offset: 0,
            listener: nobody,
        };
        let (now, mut due) = (r.now(), Instant::NEVER);
        half_fields(&mut syn_rcvd, r);
        r.instant(18, &mut due);
        r.check()?;
        syn_rcvd.listener = made
            .listeners
            .iter()
            .find(|(was, _)| *was == syn_rcvd.listener)
            .map(|(_, is)| *is)
            .ok_or(Fault::Missing)?;
        if syn_rcvd.mss < LEAST_PAYLOAD || syn_rcvd.snd_scale > MAX_SCALE {
            return Err(Fault::Contradiction("a window or a segment that no peer can offer"));
        }
        if self.find(&syn_rcvd.key).is_some() {
            return Err(Fault::Exists);
        }
        let (hash, port, listener) =
            (self.flows.hash(&syn_rcvd.key), syn_rcvd.key.local_port, syn_rcvd.listener);
        let handle = self.syn_rcvd.insert(syn_rcvd).ok_or(Fault::Full)?;
        if !self.flows.insert(hash, FlowRef::new(LifePhase::SynRcvd, handle.index()), port) {
            self.syn_rcvd.remove(handle);
            return Err(Fault::Full);
        }
        // A record that nobody would look at again would never go.
        self.syn_rcvd_wheel.arm(handle.index(), due.min(now + LONGEST_WAIT));
        if let Some(listener) = self.listeners.get_mut(listener) {
            listener.syn_rcvd += 1;
        }
        Ok(())
    }

    /// Makes a connection of a record.
    pub(crate) fn import_conn(
        &mut self,
        cx: &mut Cx<'_>,
        r: &mut Reader<'_>,
        made: &mut Imported,
    ) -> Result<(), Fault> {
        let now = r.now();
        let (mut key, mut id, mut options) = (NO_FLOW, 0, ConnOptions::default());
        key_fields(&mut key, r);
        r.u64(6, &mut id);
        option_fields(&mut options, r);
        r.check()?;
        let old = ConnId::from_bits(id).ok_or(Fault::Field(6))?;
        if self.open.is_full() {
            return Err(Fault::Full);
        }
        let rx = self.pools.rx.open(0).ok_or(Fault::Full)?;
        let Some(tx) = self.pools.tx.open(0) else {
            self.pools.rx.close(rx);
            return Err(Fault::Full);
        };
        let mut c: Conn<E> = {
            let start = Start {
                key,
                token: 0,
                settings: options.into(),
                seldom: Seldom::of(&options),
                iss: Seq(0),
                ts_offset: 0,
            };
            Conn::fresh(now, &start, (rx, tx), LEAST_PAYLOAD)
        };
        let index = match self.fill(r, &mut c, Seldom::of(&options), made) {
            Ok(()) => self.place(c)?,
            Err(why) => {
                self.drop_filled(c);
                return Err(why);
            }
        };
        let handle =
            self.open.handle_at(index).and_then(|handle| ConnId::from_bits(handle.to_bits()));
        made.conns.extend(handle.map(|is| (old, is)));
        self.borrowed(index);
        self.settle(cx.config, cx.counters, index);
        Ok(())
    }

    /// Fills a new connection with what a record says, its bytes and maps too.
    fn fill(
        &mut self,
        r: &mut Reader<'_>,
        c: &mut Conn<E>,
        seldom: Seldom,
        made: &Imported,
    ) -> Result<(), Fault> {
        c.fields(r);
        let (mut spans, mut recent, mut sacked) = (Vec::new(), Vec::new(), Vec::new());
        r.spans(250, &mut spans);
        r.spans(251, &mut recent);
        r.spans(260, &mut sacked);
        let (mut unread, mut early, mut written) = (Vec::new(), Vec::new(), Vec::new());
        r.bytes(300, &mut unread);
        r.bytes(301, &mut early);
        r.bytes(302, &mut written);
        let kind = c.settings.congestion();
        let undo = r.has(350).then_some(Undo {
            cc: Cc::new(kind, c.mss, 1),
            una: c.snd.una,
            bytes: 0,
            stamp: None,
        });
        let mut rare = RareStats::at(c.snd.una);
        (rare.cold.law, rare.seldom) = (Law::new(kind), seldom);
        rare.cold.fields(r);
        rare.undo = undo;
        rare.search = r.has(421).then(|| MtuSearch::from_base(c.key.remote.is_v6(), u16::MAX));
        let outstanding = Span::new(c.snd.una, c.snd.nxt);
        let mut flights = Sent::new(outstanding, r.now(), Duration::ZERO);
        flights.fields(r);
        let troubled = r.has(230) || c.needs(&rare.cold) || rare.seldom != Seldom::NONE;
        let mut ecn = EcnState::new(Feedback::None);
        ecn.fields(r);
        rare.fields(r);
        let (mut is_paced, mut known) = (false, Known::default());
        r.bool(633, &mut is_paced);
        known.fields(r);
        // A connection that went by another algorithm, because no place was free for BBR, has known
        // nothing.
        let known = Some(known).filter(|_| r.has(630));
        r.check()?;
        if u32::try_from(written.len()).is_err() || u32::try_from(unread.len()).is_err() {
            return Err(Fault::Full);
        }
        if let Some(what) = c.contradiction(&rare.cold, written.len() as u32) {
            return Err(Fault::Contradiction(what));
        }
        if !c.marks.has(Marks::DETACHED) && self.find(&c.key).is_some() {
            return Err(Fault::Exists);
        }
        if c.marks.has(Marks::PENDING) {
            let was = ListenerId::from_bits(c.token);
            let is = made.listeners.iter().find(|(old, _)| Some(*old) == was).map(|(_, is)| *is);
            c.token = is.ok_or(Fault::Missing)?.to_bits();
        }
        if c.marks.has(Marks::WANT_ROOM) && written.is_empty() {
            self.was_refused();
        }
        let p = &mut self.pools;
        if troubled {
            c.rare.take(&mut p.rare_stats, rare);
        }
        if p.tx.write(&mut c.tx, &written, || u32::MAX) != written.len() {
            return Err(Fault::Full);
        }
        keep_in_order(p, c, &unread)?;
        c.marks.clear(Marks::HOLE);
        if !spans.is_empty() {
            let bounds = Span::new(c.rcv.nxt, c.rcv.edge);
            let recent: Vec<Seq> = recent.iter().map(|(mark, _)| *mark).collect();
            let map = Reasm::of(&spans, &recent, bounds)
                .ok_or(Fault::Contradiction("bytes outside of the window"))?;
            keep_early(p, c, &spans, &early)?;
            c.take_reasm(p, map);
            // Without a place for its map, what came early comes again.
            c.marks.put(Marks::HOLE, !c.reasm(p).is_none());
        }
        if !sacked.is_empty() {
            let held = Span::new(c.snd.una - 1, c.snd.nxt);
            let board = Scoreboard::of(&sacked, held)
                .ok_or(Fault::Contradiction("bytes that were held and never sent"))?;
            c.take_board(p, board);
        }
        // What is not a record of what is in flight is none: losses are counted then.
        if r.has(400) && is_recorded(c, &flights) {
            c.sent.take(&mut p.sent, flights);
        }
        c.marks.put(Marks::FLIGHTS, !c.sent.is_none());
        if c.sent.is_none() {
            // Without the record, the timer is the one of retransmission.
            c.marks.clear(Marks::REORDERING);
        }
        if ecn.feedback != Feedback::None {
            c.note_rare(p, |t| t.ecn = Some(ecn));
        } else {
            c.marks.clear(Marks::ECN);
        }
        // One that was refused a place takes none from those that had one.
        if c.may_be_paced() && (is_paced || c.settings.goes_by_rates()) {
            c.choose_congestion(p, r.now(), c.settings.congestion());
            c.resume(p, r.now(), known);
        }
        if c.marks.has(Marks::DETACHED) {
            c.stop();
        } else {
            c.marks.set(Marks::REARM);
        }
        Ok(())
    }

    /// Puts a filled connection where segments, lists and its owner find it; says where.
    fn place(&mut self, c: Conn<E>) -> Result<u32, Fault> {
        let (marks, key, listener) = (c.marks, c.key, ListenerId::from_bits(c.token));
        let bytes = c.orphaned().bytes;
        let Some(handle) = self.open.insert(c) else { return Err(Fault::Full) };
        let index = handle.index();
        let hash = self.flows.hash(&key);
        if !marks.has(Marks::DETACHED)
            && !self.flows.insert(hash, FlowRef::new(LifePhase::Open, index), key.local_port)
        {
            if let Some(c) = self.open.remove(handle) {
                self.drop_filled(c);
            }
            return Err(Fault::Full);
        }
        if marks.has(Marks::PACED) && !marks.has(Marks::DETACHED) {
            // The pacer begins anew and waits for nothing: what waited for its time in the other
            // stack has its turn here, or nobody would look at it again.
            if let Some(c) = self.open.by_index_mut(index) {
                if !self.ready.join(index, &mut c.ready) {
                    c.marks.set(Marks::EMIT);
                    self.join_after_all(index);
                }
            }
        }
        let mut links = self.open.links(|c| &mut c.owner);
        if marks.has(Marks::ORPHAN) {
            self.orphan_bytes += bytes;
            self.orphans.push_back(&mut links, index);
        } else if marks.has(Marks::PENDING) {
            if let Some(id) = listener {
                if let Some(listener) = self.listeners.get_mut(id) {
                    listener.queue.push_back(&mut links, index);
                }
                self.listeners.mark(id);
            }
        }
        Ok(index)
    }

    /// A connection that cannot be is taken apart again.
    fn drop_filled(&mut self, mut c: Conn<E>) {
        c.give_maps_back(&mut self.pools);
        c.sent.give_back(&mut self.pools.sent);
        c.rare.give_back(&mut self.pools.rare_stats);
        c.release_paced(&mut self.pools);
        self.pools.rx.close(c.rx);
        self.pools.tx.close(c.tx);
    }

    /// Makes a TIME-WAIT record.
    pub(crate) fn import_wait(&mut self, cx: &Cx<'_>, r: &mut Reader<'_>) -> Result<(), Fault> {
        let mut wait = TimeWait {
            key: NO_FLOW,
            window: 0,
            rcv_nxt: Seq(0),
            snd_nxt: Seq(0),
            ts_recent: 0,
            ends: TimeWait::ending(r.now()),
            link: Link::OFF,
        };
        wait_fields(&mut wait, r);
        r.check()?;
        // None waits longer than the configuration says.
        if wait.left(r.now()) > cx.config.tcp.time_wait {
            wait.set_left(r.now(), cx.config.tcp.time_wait);
        }
        if self.find(&wait.key).is_some() {
            return Err(Fault::Exists);
        }
        let (hash, port) = (self.flows.hash(&wait.key), wait.key.local_port);
        let handle = self.time_wait.insert(wait).ok_or(Fault::Full)?;
        if !self.flows.insert(hash, FlowRef::new(LifePhase::TimeWait, handle.index()), port) {
            self.time_wait.remove(handle);
            return Err(Fault::Full);
        }
        self.waits.push_back(&mut self.time_wait.links(|w| &mut w.link), handle.index());
        Ok(())
    }

    /// What TCP knows beside its tables.
    pub(crate) fn state_fields(&mut self, f: &mut impl Fields) {
        f.bool(10, &mut self.reaches_out);
        f.instant(11, &mut self.cookies_until);
        // Numbers that nobody can guess go on from a new seed, so that none comes twice.
        let mut seed = self.pools.rng.next_u64();
        f.u64(12, &mut seed);
        self.pools.rng = clearway_base::Rng::seed(seed);
    }

    /// Says what time it is, before records are taken.
    pub(crate) fn begin_import(&mut self, now: Instant) {
        self.set_now(self.now.max(now));
    }
}

/// A record that waits for nothing longer than this.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// No flow: what a record begins with before its name is read.
const NO_FLOW: FlowKey = FlowKey {
    local: clearway_wire::Addr::ANY_V4,
    remote: clearway_wire::Addr::ANY_V4,
    local_port: 0,
    remote_port: 0,
    table: crate::ids::Table(0),
};

/// Copies `len` received bytes that lie `at` bytes behind the oldest unread one to the end of
/// `out`. False: the store has not got them all.
fn copy_received<E: Env>(p: &Pools<E>, c: &Conn<E>, at: u32, len: u32, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    out.resize(start + len as usize, 0);
    let mut done = 0;
    while done < len as usize {
        match p.rx.peek(&c.rx, at + done as u32, &mut out[start + done..]) {
            0 => return false,
            n => done += n,
        }
    }
    true
}

/// Keeps bytes that had come in order.
fn keep_in_order<E: Env>(p: &mut Pools<E>, c: &mut Conn<E>, bytes: &[u8]) -> Result<(), Fault> {
    pieces(p, bytes, |p, buf, _| {
        let len = buf.bytes().len() as u32;
        p.rx.append(&mut c.rx, buf) == len
    })
}

/// Keeps bytes that had come early: those of all spans, one after the other.
fn keep_early<E: Env>(
    p: &mut Pools<E>,
    c: &mut Conn<E>,
    spans: &[(Seq, Seq)],
    bytes: &[u8],
) -> Result<(), Fault> {
    let mut rest = bytes;
    for &(start, end) in spans {
        let (here, behind) = rest
            .split_at_checked(end.since(start) as usize)
            .ok_or(Fault::Contradiction("fewer bytes than came early"))?;
        rest = behind;
        let at = start.since(c.rcv.nxt);
        pieces(p, here, |p, buf, done| {
            let len = buf.bytes().len() as u32;
            p.rx.write(&mut c.rx, at + done, buf) == len
        })?;
    }
    if rest.is_empty() { Ok(()) } else { Err(Fault::Contradiction("more bytes than came early")) }
}

/// Gives bytes to `keep` in buffers as large as there are, each with how many were kept before it.
fn pieces<E: Env>(
    p: &mut Pools<E>,
    bytes: &[u8],
    mut keep: impl FnMut(&mut Pools<E>, E::Buf, u32) -> bool,
) -> Result<(), Fault> {
    let (mut done, mut most) = (0, PIECE);
    while done < bytes.len() {
        let piece = &bytes[done..][..most.min(bytes.len() - done)];
        let maker = p.buffers.as_mut().ok_or(Fault::NoBuffers)?;
        match maker(piece) {
            Some(buf) => {
                if !keep(p, buf, done as u32) {
                    return Err(Fault::Full);
                }
                done += piece.len();
            }
            None if piece.len() > 1 => most = piece.len() / 2,
            None => return Err(Fault::Full),
        }
    }
    Ok(())
}

/// A listener but for its name, under 2 to 18 and 270 on. Who waits to be accepted is told with the
/// connections.
fn listener_fields(listener: &mut Listener, f: &mut impl Fields) {
    let Listener {
        table,
        local,
        bound,
        reuse_port,
        next: _,
        both,
        backlog,
        defer,
        token,
        options,
        ..
    } = listener;
    f.u16(2, &mut table.0);
    f.endpoint(3, local);
    let mut bits = bound.map_or(0, |id| id.to_bits());
    f.u64(5, &mut bits);
    *bound = if bits == 0 { None } else { BindId::from_bits(bits) };
    f.bool(6, reuse_port);
    f.bool(7, both);
    f.u32(8, backlog);
    f.u8(9, defer);
    f.u64(10, token);
    f.u32(11, &mut listener.given);
    fast_open_fields(&mut listener.fast_open, f);
    option_fields(options, f);
}

/// How a listener has Fast Open, under 12 to 18. Its own keys travel with it, as
/// all else that its program set.
fn fast_open_fields(how: &mut FastOpenListener, f: &mut impl Fields) {
    let FastOpenListener { pending, without_cookie, keys } = how;
    f.u32(12, pending);
    f.bool(13, without_cookie);
    let mut count = keys.iter().flatten().count() as u8;
    f.u8(14, &mut count);
    for (index, number) in [(0, 15), (1, 17)] {
        let mut halves = keys[index].map_or((0, 0), |key| {
            let key = u128::from_le_bytes(key);
            (key as u64, (key >> 64) as u64)
        });
        f.u64(number, &mut halves.0);
        f.u64(number + 1, &mut halves.1);
        let key = (u128::from(halves.1) << 64 | u128::from(halves.0)).to_le_bytes();
        keys[index] = (index < usize::from(count)).then_some(key);
    }
}

/// A half-open connection but for its deadline, under 1 to 17.
fn half_fields(syn_rcvd: &mut SynRcvd, f: &mut impl Fields) {
    let now = f.now();
    let SynRcvd {
        key,
        tries,
        challenges,
        irs,
        iss,
        ts_recent,
        mss,
        snd_scale,
        agreed,
        since_us,
        ts_offset,
        listener,
    } = syn_rcvd;
    key_fields(key, f);
    let mut bits = listener.to_bits();
    f.u64(6, &mut bits);
    match ListenerId::from_bits(bits) {
        Some(id) => *listener = id,
        None => f.refuse(Fault::Field(6)),
    }
    f.u8(7, tries);
    f.u8(8, challenges);
    f.seq(9, irs);
    f.seq(10, iss);
    f.u32(11, ts_recent);
    f.u16(12, mss);
    f.u8(13, snd_scale);
    f.u8(14, agreed);
    let mut age = (now.as_micros() as u32).wrapping_sub(*since_us);
    f.u32(15, &mut age);
    *since_us = (now.as_micros() as u32).wrapping_sub(age);
    let mut shown = stamp(now, *ts_offset);
    f.u32(16, &mut shown);
    *ts_offset = shown.wrapping_sub(stamp(now, 0));
}

/// A TIME-WAIT record, under 1 to 11.
fn wait_fields(wait: &mut TimeWait, f: &mut impl Fields) {
    let now = f.now();
    let (mut left, mut answered) = (wait.left(now).as_millis() as u32, ANSWERS - wait.answers());
    let TimeWait { key, window, rcv_nxt, snd_nxt, ts_recent, ends: _, link: _ } = wait;
    key_fields(key, f);
    f.u16(6, window);
    f.seq(7, rcv_nxt);
    f.seq(8, snd_nxt);
    f.u32(9, ts_recent);
    f.u32(10, &mut left);
    f.u32(11, &mut answered);
    wait.ends = ANSWERS;
    wait.set_left(now, Duration::from_millis(left.into()));
    (0..answered.min(ANSWERS)).for_each(|_| wait.answered());
}
