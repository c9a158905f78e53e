//! Segments for which there is no flow: a listener's SYNs and cookies, and everything that gets a
//! reset (RFC 9293 3.10.7.1 and 3.10.7.2).

use super::clock::stamp;
use super::marks::Marks;
use super::records::{SACKS, SCALING, STAMPS, Seeds, SynRcvd, ecn_bits};
use super::rtt::LONGEST;
use clearway_base::{Duration, Handle, Instant};
use clearway_wire::tcp::FastOpenCookie;
use clearway_wire::{Flags, Segment, Seq};

use super::conn::{Conn, Start};
use super::context::{Arrival, ConnCx, Cx};
use super::cookie::{self, CookieOptions};
use super::ecn::{Feedback, Handshake, TOS_BITS};
use super::established::established;
use super::fast_open::{self, Judged};
use super::options::{self, Agreed, Offered};
use super::rare_stats::EarlySyn;
use super::seldom::Seldom;
use super::state::State;
use super::syn_rcvd::SynAck;
use super::{Tcp, isn, open, payload, window};
use crate::config::EcnMode;
use crate::counters::Drop;
use crate::flow::{FlowKey, FlowRef, LifePhase};
use crate::ids::ListenerId;
use crate::store::{Env, RxStore, TxStore};
use crate::trace::Trace;

/// How long after the last cookie an ACK is still held against cookies: as long as one may be good.
const COOKIE_LIFE: Duration = Duration::from_secs(128);

/// What a new ISN stays ahead of the old connection's numbers at least, when a TIME-WAIT pair is
/// used again (RFC 9293 3.6.1).
pub(super) const REUSE_GAP: u32 = 1 << 17;

/// What becomes of a SYN.
enum Opening {
    /// A handshake as ever, whose SYN-ACK may bring a Fast Open cookie.
    Plain(Option<FastOpenCookie>),
    /// Its data is taken at once, and the SYN-ACK may bring a cookie made with a newer key.
    Early(Option<FastOpenCookie>),
}

impl<E: Env> Tcp<E> {
    /// A segment that belongs to no flow.
    pub(super) fn on_unknown(
        &mut self,
        cx: &mut Cx<'_>,
        arrival: &mut Arrival<'_, E::Buf>,
    ) -> Result<(), Drop> {
        let (key, seg, len) = (arrival.key, arrival.seg, arrival.len());
        if seg.flags.rst() {
            return Err(Drop::TcpResetForNobody);
        }
        let Some(listener) = self.listeners.choose(key.table, key.local_endpoint()) else {
            cx.reset_for(key, seg, len);
            return Err(Drop::TcpPortClosed);
        };
        if seg.flags.ack() {
            if !seg.flags.syn() && self.cookies_until >= cx.now {
                return self.on_cookie(cx, listener, arrival);
            }
            cx.reset_for(key, seg, len);
            return Err(Drop::TcpNoHandshake);
        }
        if !seg.flags.syn() || seg.flags.fin() {
            // Nothing that opens a connection: no flags at all, FIN alone, or SYN and FIN at once.
            // Nobody honest sends that, and silence tells a scanner least (RFC 9293 3.10.7.2, third
            // to fifth).
            return Err(Drop::TcpBadFlags);
        }
        self.on_first_syn(cx, listener, arrival, None)
    }

    /// A SYN that begins a connection, with data perhaps that a Fast Open cookie lets in.
    pub(super) fn on_first_syn(
        &mut self,
        cx: &mut Cx<'_>,
        id: ListenerId,
        arrival: &mut Arrival<'_, E::Buf>,
        after: Option<Seq>,
    ) -> Result<(), Drop> {
        match self.on_syn(cx, id, arrival, after)? {
            Some(index) => self.take_early_data(cx, index, arrival),
            None => Ok(()),
        }
    }

    /// A stranger's SYN for a listener. `after`: the numbers that the new connection must stay
    /// ahead of. The connection that it has opened at once, if it has.
    fn on_syn(
        &mut self,
        cx: &mut Cx<'_>,
        id: ListenerId,
        arrival: &Arrival<'_, E::Buf>,
        after: Option<Seq>,
    ) -> Result<Option<u32>, Drop> {
        let (key, seg, now) = (arrival.key, arrival.seg, cx.now);
        let Some(listener) = self.listeners.get(id) else {
            return Err(Drop::TcpPortClosed);
        };
        if listener.queue.len() >= listener.backlog {
            return Err(Drop::TcpAcceptQueueFull);
        }
        self.refuse_syn(cx, key, seg)?;
        let full = listener.syn_rcvd >= listener.backlog
            || self.syn_rcvd.is_full()
            || self.flows.is_full();
        if full && !cx.config.tcp.syn_cookies {
            return Err(Drop::TcpBacklogFull);
        }
        let max_segment = listener.options.max_segment;
        let offered = Offered::from(&seg.opts);
        let link_mss = cx.link_mss(key);
        let agreed = Agreed {
            ecn: Handshake::of_syn(listener.options.ecn_of_handshake(), seg.flags, arrival.mark),
            ..options::agree(&cx.config.tcp, &offered, key.remote.is_v6(), link_mss, max_segment)
        };
        if full {
            self.answer_with_cookie(cx, id, arrival, agreed);
            return Ok(None);
        }
        let mut iss = isn::isn(&self.secret, key.local_endpoint(), key.remote_endpoint(), now);
        if let Some(old) = after.filter(|old| iss.le(*old)) {
            iss = old + REUSE_GAP;
        }
        let opening = if seg.opts.fast_open.is_some() || arrival.len() > 0 {
            self.judge_fast_open(cx, id, (key, seg))
        } else {
            Opening::Plain(None)
        };
        let cookie = match opening {
            Opening::Plain(cookie) => cookie,
            Opening::Early(renewed) => {
                let how = (iss, agreed, offered, renewed);
                return self.open_early(cx, id, arrival, how).map(Some);
            }
        };
        let bits = |on: bool, bit| if on { bit } else { 0 };
        let syn_rcvd = SynRcvd {
            key: *key,
            tries: 0,
            challenges: 0,
            irs: seg.seq,
            iss,
            ts_recent: offered.ts.map_or(0, |(val, _)| val),
            mss: agreed.mss,
            snd_scale: agreed.snd_scale,
            agreed: bits(agreed.scaling, SCALING)
                | bits(agreed.ts, STAMPS)
                | bits(agreed.sack, SACKS)
                | ecn_bits(agreed.ecn),
            since_us: now.as_micros() as u32,
            ts_offset: cx
                .ip
                .known_ts_offset(key, || isn::ts_offset(&self.secret, key.local, key.remote)),
            listener: id,
        };
        self.answer_syn_rcvd(cx, &syn_rcvd, (&agreed, link_mss), cookie);
        let Some(handle) = self.syn_rcvd.insert(syn_rcvd) else {
            return Err(Drop::TcpBacklogFull);
        };
        if !self.flows.insert(
            arrival.found.hash,
            FlowRef::new(LifePhase::SynRcvd, handle.index()),
            key.local_port,
        ) {
            self.syn_rcvd.remove(handle);
            return Err(Drop::TcpBacklogFull);
        }
        self.syn_rcvd_wheel.arm(handle.index(), now + cx.config.tcp.rto_initial);
        if let Some(listener) = self.listeners.get_mut(id) {
            listener.syn_rcvd += 1;
        }
        Ok(None)
    }

    /// What becomes of a SYN with the Fast Open option, or with data (RFC 7413 4.2.2).
    #[cold]
    fn judge_fast_open(
        &mut self,
        cx: &mut Cx<'_>,
        id: ListenerId,
        (key, seg): (&FlowKey, &Segment),
    ) -> Opening {
        let Some(listener) = self.listeners.get(id) else { return Opening::Plain(None) };
        let (how, mode) = (listener.fast_open, cx.config.tcp.fast_open);
        let limit = how.limit(mode, listener.backlog);
        let without_cookie = mode.server_without_cookie || how.without_cookie;
        if limit == 0 {
            return Opening::Plain(None);
        }
        let config = cx.config;
        let fresh = || fast_open::fresh_cookie(config, &how.keys, key);
        let mut renewed = None;
        match seg.opts.fast_open {
            _ if without_cookie => {}
            None => return Opening::Plain(None),
            Some(brought) if brought.is_request() => {
                cx.counters.tcp.fast_open_cookies_given += 1;
                E::trace(Trace::FastOpen { ends: key.traced(), what: "cookie-given" });
                return Opening::Plain(fresh());
            }
            Some(brought) => match fast_open::judge(config, &how.keys, key, &brought) {
                Judged::Good => {}
                Judged::Old => renewed = fresh(),
                Judged::Wrong => {
                    cx.counters.tcp.fast_open_cookies_refused += 1;
                    E::trace(Trace::FastOpen { ends: key.traced(), what: "cookie-refused" });
                    return Opening::Plain(fresh());
                }
            },
        }
        // A SYN that ends the stream as well is not worth a state of its own.
        if seg.flags.fin() {
            return Opening::Plain(None);
        }
        if !self.pools.fast_open.may_open(id, limit)
            || !self.room_for_one(cx)
            || self.flows.is_full()
        {
            cx.counters.tcp.fast_open_overflows += 1;
            E::trace(Trace::FastOpen { ends: key.traced(), what: "overflow" });
            return Opening::Plain(None);
        }
        Opening::Early(renewed)
    }

    /// Makes the connection that a cookie opens: in SYN-RECEIVED, its SYN-ACK due, and to be
    /// accepted at once.
    #[cold]
    fn open_early(
        &mut self,
        cx: &mut Cx<'_>,
        id: ListenerId,
        arrival: &Arrival<'_, E::Buf>,
        (iss, agreed, offered, renewed): (Seq, Agreed, Offered, Option<FastOpenCookie>),
    ) -> Result<u32, Drop> {
        let (key, seg) = (arrival.key, arrival.seg);
        let seeds = Seeds {
            key: *key,
            hash: arrival.found.hash,
            listener: id,
            irs: seg.seq,
            iss,
            // Such handshakes do without ECN.
            agreed: Agreed { ecn: Handshake::default(), ..agreed },
            ts_recent: offered.ts.map_or(0, |(val, _)| val),
            round_trip: None,
            ts_offset: cx
                .ip
                .known_ts_offset(key, || isn::ts_offset(&self.secret, key.local, key.remote)),
            tries: 0,
            syn_rcvd: None,
        };
        // The window of a SYN is never scaled (RFC 7323 2.2): it is set again below.
        let first = Segment { wnd: seg.wnd >> agreed.snd_scale, ack: iss + 1, ..*seg };
        let index = self.make_open(cx, &seeds, &first)?;
        self.pools.fast_open.opened(*key, id, renewed);
        cx.counters.tcp.fast_open_passive += 1;
        E::trace(Trace::FastOpen { ends: key.traced(), what: "opened" });
        let (from, to) = (State::Listen.name(), State::SynReceived.name());
        E::trace(Trace::StateChange { ends: key.traced(), from, to });
        if let Some(c) = self.open.by_index_mut(index) {
            c.state = State::SynReceived;
            c.segs_out = 0;
            c.set_window(u32::from(seg.wnd), seg.seq, iss + 1);
            c.marks.set(Marks::SYN_DUE.with(Marks::EMIT));
        }
        Ok(index)
    }

    /// The data that came with the SYN.
    #[cold]
    fn take_early_data(
        &mut self,
        cx: &mut Cx<'_>,
        index: u32,
        arrival: &mut Arrival<'_, E::Buf>,
    ) -> Result<(), Drop> {
        let Tcp { open, pools, .. } = self;
        let Some(c) = open.by_index_mut(index) else { return Err(Drop::TcpPortClosed) };
        let after = Segment { seq: arrival.seg.seq + 1, flags: Flags::ACK, ..*arrival.seg };
        let len = arrival.len();
        let taken = match len {
            0 => Ok(()),
            _ => {
                c.note_rare(pools, |t| t.fast_open = EarlySyn::Taken);
                payload::count(cx.now, c, arrival.meta.segment_size, len);
                open::step_7_and_8(c, &mut ConnCx { pools, stack: cx }, &after, arrival)
            }
        };
        self.note_borrower(index);
        self.settle(cx.config, cx.counters, index);
        taken
    }

    /// There is no room to remember the SYN: the SYN-ACK carries all that must be known (RFC 4987
    /// 3.6).
    fn answer_with_cookie(
        &mut self,
        cx: &mut Cx<'_>,
        id: ListenerId,
        arrival: &Arrival<'_, E::Buf>,
        mut agreed: Agreed,
    ) {
        let (key, seg, now) = (arrival.key, arrival.seg, cx.now);
        let Some(listener) = self.listeners.get(id) else { return };
        let iss = cookie::make(
            &self.secret,
            key.local_endpoint(),
            key.remote_endpoint(),
            seg.seq,
            agreed.mss,
            now,
        );
        let stamps = seg.opts.ts.filter(|_| agreed.ts).map(|(val, _)| {
            let ours = stamp(now, isn::ts_offset(&self.secret, key.local, key.remote));
            let kept = CookieOptions {
                sack: agreed.sack,
                ecn: agreed.ecn.feedback != Feedback::None,
                scale: agreed.scaling.then_some(agreed.snd_scale),
            };
            (cookie::put_options(ours, kept), val)
        });
        if stamps.is_none() {
            // Without timestamps there is no place to keep them.
            agreed.sack = false;
            agreed.scaling = false;
            agreed.ecn = Handshake::default();
        }
        let max_segment = listener.options.max_segment;
        let link_mss = cx.link_mss(key);
        let our_mss =
            options::ours(&cx.config.tcp, link_mss, max_segment).mss.unwrap_or(options::MIN_MSS);
        let window = self.first_window;
        let syn_ack =
            SynAck { key, iss, irs: seg.seq, window, our_mss, stamps, repeated: 0, cookie: None };
        let (tos, ttl) = (listener.options.tos & !TOS_BITS, listener.options.ttl);
        self.cookies_until = now + COOKIE_LIFE;
        cx.counters.tcp.syn_cookies_sent += 1;
        cx.reply(key, syn_ack.segment(&agreed), (tos, ttl));
    }

    /// Whether `seg` acknowledges a cookie that we gave to its sender.
    pub(super) fn is_cookie(&self, now: Instant, key: &FlowKey, seg: &Segment) -> bool {
        let (local, remote) = (key.local_endpoint(), key.remote_endpoint());
        self.cookies_until >= now
            && cookie::check(&self.secret, local, remote, seg.seq - 1, seg.ack - 1, now).is_some()
    }

    /// An ACK for a listener: a cookie that comes back, perhaps.
    pub(super) fn on_cookie(
        &mut self,
        cx: &mut Cx<'_>,
        id: ListenerId,
        arrival: &mut Arrival<'_, E::Buf>,
    ) -> Result<(), Drop> {
        let (key, seg, now) = (arrival.key, arrival.seg, cx.now);
        let (local, remote) = (key.local_endpoint(), key.remote_endpoint());
        let (irs, iss) = (seg.seq - 1, seg.ack - 1);
        let Some(mss) = cookie::check(&self.secret, local, remote, irs, iss, now) else {
            // No reset: an honest peer whose first segment was lost sends its second, which carries
            // no cookie, and then repeats the first.
            cx.counters.tcp.syn_cookies_failed += 1;
            return Err(Drop::TcpNoHandshake);
        };
        let kept = seg
            .opts
            .ts
            .filter(|_| cx.config.tcp.timestamps)
            .map(|(_, echo)| cookie::take_options(echo));
        let scale = kept.and_then(|k| k.scale);
        let mode = self
            .listeners
            .get(id)
            .map_or(EcnMode::Off, |listener| listener.options.ecn_of_handshake());
        let agreed = Agreed {
            snd_scale: scale.unwrap_or(0).min(window::MAX_SCALE),
            rcv_scale: if scale.is_some() {
                window::scale_for(cx.config.tcp.max_receive_window)
            } else {
                0
            },
            scaling: scale.is_some(),
            ts: kept.is_some(),
            sack: kept.is_some_and(|k| k.sack) && cx.config.tcp.sack,
            mss,
            ecn: if kept.is_some_and(|k| k.ecn) {
                Handshake::of_cookie(mode, seg.flags)
            } else {
                Handshake::default()
            },
        };
        let ts_recent = seg.opts.ts.map_or(0, |(val, _)| val);
        let seeds = Seeds {
            key: *key,
            hash: arrival.found.hash,
            listener: id,
            irs,
            iss,
            agreed,
            ts_recent,
            round_trip: None,
            ts_offset: isn::ts_offset(&self.secret, key.local, key.remote),
            tries: 0,
            syn_rcvd: None,
        };
        let open = self.make_open(cx, &seeds, seg)?;
        let (from, to) = (State::SynReceived.name(), State::Established.name());
        E::trace(Trace::StateChange { ends: seeds.key.traced(), from, to });
        cx.counters.tcp.syn_cookies_accepted += 1;
        self.deliver(cx, open, arrival)
    }

    /// A stranger's handshake is complete: makes the open connection, in ESTABLISHED, and queues it
    /// for accept. Its first segment, `seg`, is still to be delivered. When there is no room the
    /// stranger is told by a reset.
    pub(super) fn make_open(
        &mut self,
        cx: &mut Cx<'_>,
        seeds: &Seeds,
        seg: &Segment,
    ) -> Result<u32, Drop> {
        let Some(listener) = self.listeners.get(seeds.listener) else {
            if let Some(index) = seeds.syn_rcvd {
                self.forget_syn_rcvd(index);
            }
            cx.reset_for(&seeds.key, seg, 0);
            return Err(Drop::TcpPortClosed);
        };
        if listener.queue.len() >= listener.backlog {
            return Err(Drop::TcpAcceptQueueFull);
        }
        let (token, settings, seldom) = (listener.token, listener.settings, listener.seldom);
        if !self.room_for_one(cx) || (seeds.syn_rcvd.is_none() && self.flows.is_full()) {
            return Err(self.refuse_open(cx, seeds, seg));
        }
        let start = Start {
            key: seeds.key,
            token,
            settings,
            seldom,
            iss: seeds.iss,
            ts_offset: seeds.ts_offset,
        };
        let index = self.add_conn(cx, &start).ok_or(Drop::TcpNoMemory)?.index();
        let Tcp { open, pools, .. } = self;
        let Some(conn) = open.by_index_mut(index) else { return Err(Drop::TcpConnectionsFull) };
        conn.state = State::Established;
        conn.marks.set(Marks::PENDING);
        conn.token = seeds.listener.to_bits();
        conn.irs = seeds.irs;
        conn.rcv.nxt = seeds.irs + 1;
        conn.rcv.acked = conn.rcv.nxt;
        conn.rcv.edge = conn.rcv.nxt + u32::from(self.first_window);
        conn.apply(&seeds.agreed, seeds.ts_recent, cx.now);
        if seeds.agreed.ecn.feedback != Feedback::None {
            conn.serves_ecn(pools, &mut cx.counters.tcp, (seeds.agreed.ecn, seeds.tries));
        }
        conn.snd.nxt = seeds.iss + 1;
        conn.rtt.syn_repeated = seeds.tries > 0;
        // The SYN and its answers, which no record of this kind has seen.
        (conn.segs_in, conn.segs_out) = (1, 1 + u32::from(seeds.tries));
        if seeds.tries > 0 {
            conn.note_rare(pools, |t| t.syns_retransmitted = seeds.tries.into());
        }
        if let Some(round_trip) = seeds.round_trip {
            conn.rtt.on_sample(round_trip.min(LONGEST), 1, conn.mss);
        }
        conn.set_window(u32::from(seg.wnd) << conn.snd.shift, seg.seq, seg.ack);
        // The SYN-ACK has found the way, most times.
        conn.route = cx.ip.known_route(&seeds.key);
        if conn.route.mtu() != 0 {
            conn.path_takes(conn.route.mtu());
        }
        established(conn, &mut ConnCx { pools, stack: cx });
        let to = FlowRef::new(LifePhase::Open, index);
        let hash = seeds.hash;
        match seeds.syn_rcvd {
            Some(syn_rcvd) => {
                self.take_syn_rcvd(syn_rcvd);
                self.flows.moved(hash, FlowRef::new(LifePhase::SynRcvd, syn_rcvd), to);
            }
            None => {
                // There is room: it was looked at above. Should the table refuse all the same, the
                // connection goes again.
                if !self.flows.insert(hash, to, seeds.key.local_port) {
                    self.free(index);
                    return Err(Drop::TcpConnectionsFull);
                }
            }
        }
        if let Some(listener) = self.listeners.get_mut(seeds.listener) {
            listener.given = listener.given.wrapping_add(1);
            listener.queue.push_back(&mut self.open.links(|c| &mut c.owner), index);
        }
        self.listeners.mark(seeds.listener);
        cx.counters.tcp.passive_opens += 1;
        self.keep_room(cx);
        Ok(index)
    }

    /// Makes a record with everything that is the same for all new connections; None when there is
    /// no place for it, or the stores have no memory for it.
    pub(super) fn add_conn(&mut self, cx: &mut Cx<'_>, start: &Start) -> Option<Handle<Conn<E>>> {
        if self.open.is_full() {
            return None;
        }
        let rx = self.pools.rx.open(start.token)?;
        let Some(tx) = self.pools.tx.open(start.token) else {
            self.pools.rx.close(rx);
            return None;
        };
        let link_mss = cx.link_mss(&start.key);
        let our_mss = options::ours(&cx.config.tcp, link_mss, start.seldom.max_segment).mss;
        let our_mss = our_mss.unwrap_or(options::MIN_MSS);
        let handle = self.open.insert_with(|_| Conn::fresh(cx.now, start, (rx, tx), our_mss))?;
        if start.seldom != Seldom::NONE {
            if let Some(conn) = self.open.get_mut(handle) {
                conn.set_seldom(&mut self.pools, start.seldom);
            }
        }
        Some(handle)
    }
}

/// Control bits that say what a segment is for.
pub(crate) const CONTROL: Flags = Flags(Flags::SYN.0 | Flags::ACK.0 | Flags::RST.0 | Flags::FIN.0);
