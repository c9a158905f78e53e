//! What owners do to their connections and listeners. Each verb marks, and `settle` does the rest.

use super::fast_open::{FastOpenConnect, FastOpenListener};
use super::marks::Marks;
use clearway_base::{Handle, Instant, Link, List, Rng, Slab};
use clearway_wire::{Addr, Endpoint, Segment};

use super::cc::Law;
use super::conn::{Conn, Start};
use super::context::{Cx, Pools};
use super::deadlines::Timer;
use super::rare_stats::EarlySyn;
use super::rcv::{DELAYED, PUSHED, QUICK, QUICK_ACKS};
use super::seldom::Seldom;
use super::sizes::Sizes;
use super::state::State;
use super::summary::{ConnSummary, Holder};
use super::time_wait::Claim;
use super::{Tcp, isn};
use crate::bind::{BindSpec, Pair};
use crate::config::{Config, ConnOptions};
use crate::counters::Counters;
use crate::error::{ConnectError, Failure, ListenError, RecvError, SendError};
use crate::flow::{FlowKey, FlowRef, Found, LifePhase};
use crate::ids::{BindId, ConnId, ListenerId, Table};
use crate::limits::Population;
use crate::net::iface::Interface;
use crate::ports::Share;
use crate::store::{Env, RxStore, TxStore};
use crate::tcp::listen_table::Listener;
use crate::tcp::{ConnectSpec, ListenSpec};
use crate::trace::Trace;

impl<E: Env> Tcp<E> {
    fn handle(id: ConnId) -> Option<Handle<Conn<E>>> {
        Handle::from_bits(id.to_bits())
    }

    /// The connection that an owner's handle names.
    pub(crate) fn owned(&self, id: ConnId) -> Option<&Conn<E>> {
        self.open.get(Self::handle(id)?).filter(|c| c.is_owned())
    }

    pub(crate) fn owned_mut(&mut self, id: ConnId) -> Option<&mut Conn<E>> {
        self.open.get_mut(Self::handle(id)?).filter(|c| c.is_owned())
    }

    pub(crate) fn listen(
        &mut self,
        spec: ListenSpec,
        bound: Option<BindId>,
    ) -> Result<ListenerId, ListenError> {
        let addr = spec.local.addr;
        if addr.is_multicast() || addr.is_limited_broadcast() {
            return Err(ListenError::BadAddress);
        }
        if !spec.options.urgent_inline {
            return Err(ListenError::NotSupported);
        }
        let mut local = spec.local;
        let mut wanted = bound.and_then(|id| self.binds.spec(id)).unwrap_or(BindSpec {
            table: spec.table,
            local,
            v6_only: spec.v6_only,
            reuse_address: false,
            reuse_port: false,
            owner: 0,
        });
        if local.port == 0 {
            let mut rng = self.pools.rng.fork();
            let free = |port: &u16| {
                self.port_is_free(&BindSpec { local: Endpoint::new(addr, *port), ..wanted })
            };
            local.port = self.ports_from(&mut rng).find(free).ok_or(ListenError::NoPorts)?;
            wanted.local = local;
        }
        if self.binds.is_taken(&wanted, bound) {
            return Err(ListenError::InUse);
        }
        let id = self.listeners.insert(Listener {
            table: spec.table,
            local,
            bound,
            reuse_port: wanted.reuse_port,
            next: None,
            both: addr == Addr::ANY_V6 && !spec.v6_only,
            backlog: spec.backlog.max(1),
            defer: 0,
            fast_open: FastOpenListener::default(),
            token: spec.token,
            options: spec.options,
            settings: spec.options.into(),
            seldom: Seldom::of(&spec.options),
            syn_rcvd: 0,
            given: 0,
            queue: List::new(),
            event_queue: Link::OFF,
        })?;
        if let Some(bound) = bound {
            self.binds.set_listening(bound, true);
        }
        Ok(id)
    }

    /// Whether somebody may have the port who does not listen: no reservation and no listener
    /// without one stands in the way.
    pub(crate) fn port_is_free(&self, spec: &BindSpec) -> bool {
        let any =
            |addr| self.listeners.stands_alone(spec.table, Endpoint::new(addr, spec.local.port));
        let wildcard = match spec.local.addr {
            addr if addr.is_v4() => any(Addr::ANY_V4),
            Addr::ANY_V6 if !spec.v6_only => any(Addr::ANY_V6) || any(Addr::ANY_V4),
            _ => any(Addr::ANY_V6),
        };
        !(wildcard || any(spec.local.addr) || self.binds.is_taken(spec, None))
    }

    /// Whether this pair of endpoints can neither be used nor be taken over (RFC 6191).
    fn keeps(&self, config: &Config, table: Table, (local, remote): &Pair) -> bool {
        let key = FlowKey {
            local: local.addr,
            remote: remote.addr,
            local_port: local.port,
            remote_port: remote.port,
            table,
        };
        self.claim(config, &key, false) == Claim::Taken
    }

    /// The owner of a reservation gives it back, and the pair of endpoints of this connection keeps
    /// it while it is in use.
    pub(crate) fn unbind_after(&mut self, config: &Config, bind: BindId, conn: ConnId) {
        let key = self.owned(conn).map(|conn| conn.key);
        match key.map(|key| (key.table, (key.local_endpoint(), key.remote_endpoint()))) {
            Some((table, pair)) if self.keeps(config, table, &pair) => {
                self.binds.keep_for(bind, pair)
            }
            _ => self.binds.remove(bind),
        }
    }

    /// The port's reservations go that pairs of endpoints kept which are not in use any more.
    pub(crate) fn release_kept(&mut self, config: &Config, at: (Table, u16)) {
        while let Some(bind) =
            self.binds.kept(Some(at), |table, pair| !self.keeps(config, table, pair))
        {
            self.binds.remove(bind);
        }
    }

    /// Makes room for one more reservation, where all places are taken and pairs of endpoints keep
    /// some: those that are not in use any more go first.
    pub(crate) fn room_for_bind(&mut self, config: &Config) {
        if !self.binds.is_full() {
            return;
        }
        let ended = |table, pair: &Pair| !self.keeps(config, table, pair);
        if let Some(bind) =
            self.binds.kept(None, ended).or_else(|| self.binds.kept(None, |_, _| true))
        {
            self.binds.remove(bind);
        }
    }

    /// Whether a connection, TIME-WAIT included, has this ephemeral port.
    pub(crate) fn is_used(&self, port: u16) -> bool {
        self.flows.is_from(port)
    }

    /// All ephemeral ports, from a random one on (RFC 6056 3.3.1).
    pub(crate) fn ports_from(&self, rng: &mut Rng) -> impl Iterator<Item = u16> + use<E> {
        self.ports.all_from_anywhere(rng)
    }

    /// Stops listening; what was not accepted is reset. Handshakes in progress find no listener
    /// when they are complete, and end then.
    pub(crate) fn unlisten(&mut self, config: &Config, counters: &mut Counters, id: ListenerId) {
        let Some(mut listener) = self.listeners.remove(id) else { return };
        if let Some(bound) = listener.bound {
            self.binds.set_listening(bound, false);
        }
        while let Some(index) = listener.queue.pop_front(&mut self.open.links(|c| &mut c.owner)) {
            if let Some(c) = self.open.by_index_mut(index) {
                c.marks.clear(Marks::PENDING);
                self.abandon(config, counters, index, Parting::ResetNow);
            }
        }
    }

    pub(crate) fn accept(
        &mut self,
        config: &Config,
        counters: &mut Counters,
        id: ListenerId,
    ) -> Option<ConnId> {
        let Tcp { listeners, open, .. } = self;
        let listener = listeners.get_mut(id)?;
        let token = listener.token;
        let index = listener.queue.pop_front(&mut open.links(|c| &mut c.owner))?;
        let c = open.by_index_mut(index)?;
        c.marks.clear(Marks::PENDING);
        // The owner gives its word with `set_token`; until then it is the listener's.
        c.token = token;
        self.settle(config, counters, index);
        self.id_at(index)
    }

    pub(crate) fn connect(
        &mut self,
        cx: &mut Cx<'_>,
        spec: ConnectSpec,
        bound: Option<BindId>,
    ) -> Result<ConnId, ConnectError> {
        if !spec.options.urgent_inline {
            return Err(ConnectError::NotSupported);
        }
        let remote = spec.remote;
        let asked = spec.local.unwrap_or(Endpoint::new(Addr::ANY_V4, 0));
        let is_peer =
            |a: &Addr| !(a.is_unspecified() || a.is_multicast() || a.is_limited_broadcast());
        if remote.port == 0 || !is_peer(&remote.addr) {
            return Err(ConnectError::BadAddress);
        }
        let local = if asked.addr.is_unspecified() {
            cx.ip.source_for(spec.table, &remote.addr).ok_or(ConnectError::NoRoute)?
        } else {
            asked.addr
        };
        if local.is_v4() != remote.addr.is_v4() {
            return Err(ConnectError::BadAddress);
        }
        let key = |port| FlowKey {
            local,
            remote: remote.addr,
            local_port: port,
            remote_port: remote.port,
            table: spec.table,
        };
        if !cx.ip.is_ours(spec.table, &local) || cx.ip.known_link_mtu(&key(0)).is_none() {
            return Err(ConnectError::NoRoute);
        }
        if !self.room_for_one(cx) || self.flows.is_full() {
            return Err(ConnectError::TooMany);
        }
        let outside = !self.ports.share().is_whole() && !self.stays_inside(cx, &key(0));
        let (port, claim) = if asked.port != 0 {
            self.release_kept(cx.config, (spec.table, asked.port));
            let claim = self.claim(cx.config, &key(asked.port), false);
            let local = Endpoint::new(local, asked.port);
            // Whoever has a reservation was let in beside others with the same port: what tells
            // their connections apart is the peer.
            let is_taken =
                || bound.is_none() && self.binds.is_taken(&alone(spec.table, local), None);
            if claim == Claim::Taken || is_taken() {
                return Err(ConnectError::InUse);
            }
            (asked.port, claim)
        } else {
            self.choose_port(cx.config, &key, outside).ok_or(ConnectError::NoPorts)?
        };
        self.reaches_out |= outside;
        let key = key(port);
        if key.local_endpoint() == remote {
            // A connection of an endpoint with itself would only ever hear its own echo.
            return Err(ConnectError::BadAddress);
        }
        let mut iss = isn::isn(&self.secret, key.local_endpoint(), remote, cx.now);
        if let Claim::Again(record) = claim {
            iss = self.take_over(record, iss);
            cx.counters.tcp.time_wait_reused += 1;
        }
        let ts_offset =
            cx.ip.known_ts_offset(&key, || isn::ts_offset(&self.secret, key.local, key.remote));
        let start = Start {
            key,
            token: spec.token,
            settings: spec.options.into(),
            seldom: Seldom::of(&spec.options),
            iss,
            ts_offset,
        };
        let handle = self.add_conn(cx, &start).ok_or(ConnectError::NoMemory)?;
        if let Some(conn) = self.open.get_mut(handle) {
            conn.marks.set(Marks::SYN_DUE.with(Marks::EMIT));
            conn.wants_ecn(&mut self.pools, spec.options.ecn_of_handshake());
        }
        if !self.flows.insert(
            self.flows.hash(&key),
            FlowRef::new(LifePhase::Open, handle.index()),
            port,
        ) {
            self.discard(handle);
            return Err(ConnectError::TooMany);
        }
        cx.counters.tcp.active_opens += 1;
        self.settle(cx.config, cx.counters, handle.index());
        self.id_at(handle.index()).ok_or(ConnectError::TooMany)
    }

    /// An ephemeral port from which the peer is not yet connected to (RFC 6056 3.3.3). When the
    /// first of those that were looked at are all taken, one in TIME-WAIT is used again that may
    /// be. The search is bounded: a port that no flow has costs one look, and of the others so many
    /// are asked about.
    fn choose_port(
        &mut self,
        config: &Config,
        key: &dyn Fn(u16) -> FlowKey,
        outside: bool,
    ) -> Option<(u16, Claim)> {
        let probe = key(0);
        let offset = isn::port_offset(&self.secret, probe.local, probe.remote_endpoint());
        let mut rng = self.pools.rng.fork();
        let mut ports = core::mem::replace(&mut self.ports, crate::ports::Ports::new((1, 1)));
        let (mut chosen, mut asked) = (None, 0);
        let share = if outside { ports.share() } else { Share::WHOLE };
        ports.choose(&mut rng, offset, |port| {
            if !share.has(port) {
                return false;
            }
            let key = key(port);
            let local = key.local_endpoint();
            if local == key.remote_endpoint() {
                // The peer's own: nobody listens there, or it would not be free.
                return false;
            }
            if asked >= PORTS_ASKED && self.flows.is_from(port) {
                return false;
            }
            if self.listeners.has(key.table, local)
                || self.binds.is_taken(&alone(key.table, local), None)
            {
                return false;
            }
            let claim = match self.flows.is_from(port) {
                true => self.claim(config, &key, true),
                false => Claim::Free,
            };
            asked += 1;
            if claim == Claim::Free || (claim != Claim::Taken && chosen.is_none()) {
                chosen = Some((port, claim));
            }
            claim == Claim::Free || (chosen.is_some() && asked >= PORTS_BEFORE_REUSE)
        });
        self.ports = ports;
        chosen
    }

    pub(crate) fn set_share(&mut self, share: Share) {
        self.ports.set_share(share);
    }

    #[inline]
    pub(crate) fn reaches_out(&self) -> bool {
        self.reaches_out
    }

    /// Whether a connection never leaves this stack: it goes over a loopback interface.
    fn stays_inside(&self, cx: &Cx<'_>, key: &FlowKey) -> bool {
        let hop = cx.ip.hop(key.table, &key.local, &key.remote).ok();
        hop.and_then(|hop| cx.ip.interface(hop.iface)).is_some_and(Interface::is_loopback)
    }

    /// Whose segment it is that belongs to no connection and no listener here, when stacks with the
    /// same addresses share the ports: None when it is ours to answer. What begins a connection is
    /// always.
    pub(crate) fn owner_elsewhere(
        &self,
        key: &FlowKey,
        found: Found,
        seg: &Segment,
    ) -> Option<u16> {
        let share = self.ports.share();
        if share.has(key.local_port) || (seg.flags.syn() && !seg.flags.ack()) {
            return None;
        }
        let known = self.flows.find(found.hash, |at| self.is_at(at, key)).is_some();
        (!known && !self.listeners.has(key.table, key.local_endpoint()))
            .then(|| share.owner(key.local_port))
    }

    pub(crate) fn stores(&self) -> (&E::Rx, &E::Tx) {
        (&self.pools.rx, &self.pools.tx)
    }

    pub(crate) fn stores_mut(&mut self) -> (&mut E::Rx, &mut E::Tx) {
        (&mut self.pools.rx, &mut self.pools.tx)
    }

    /// Every record in the table of open connections.
    pub(crate) fn summaries(&self) -> impl Iterator<Item = ConnSummary> + '_ {
        self.open.iter().filter_map(|(handle, c)| {
            let holder = match ListenerId::from_bits(c.token) {
                _ if c.is_owned() => Holder::Owner(c.token),
                Some(listener) if c.marks.has(Marks::PENDING) => Holder::Listener(listener),
                _ => Holder::Nobody,
            };
            Some(ConnSummary {
                conn: ConnId::from_bits(handle.to_bits())?,
                table: c.key.table,
                local: c.key.local_endpoint(),
                remote: c.key.remote_endpoint(),
                state: c.state,
                holder,
            })
        })
    }

    pub(crate) fn population(&self) -> Population {
        Population {
            connections: self.open.len(),
            half_open: self.syn_rcvd.len(),
            time_wait: self.time_wait.len(),
            orphans: self.orphans.len(),
            orphan_bytes: self.orphan_bytes,
            listeners: self.listeners.len(),
            udp_sockets: 0,
        }
    }

    pub(crate) fn set_token(&mut self, id: ConnId, token: u64) {
        if let Some(c) = self.owned_mut(id) {
            c.token = token;
        }
    }

    #[inline(always)]
    pub(crate) fn send(
        &mut self,
        id: ConnId,
        bytes: &[u8],
        urgent: bool,
    ) -> Result<usize, SendError> {
        let Tcp { open, pools, ready, .. } = self;
        let c = writable(open, id)?;
        let (sizes, fixed, cc) = (&pools.sizes, c.settings.send_buffer, &c.cc);
        let taken = pools.tx.write(&mut c.tx, bytes, || sizes.send_limit(fixed, cc.cwnd(), 0));
        if taken < bytes.len() {
            return Ok(self.sent_in_part(id.index(), bytes, taken, urgent));
        }
        if taken == 0 {
            return Ok(0);
        }
        if urgent {
            c.mark_urgent(pools, 0);
        }
        c.wants_turn();
        // All that settling would find.
        if !ready.join(id.index(), &mut c.ready) {
            self.join_after_all(id.index());
        }
        Ok(taken)
    }

    /// Only the first `taken` bytes found room: the rest of [`Tcp::send`] for them. Who wants more
    /// than there is may hold more than its minimum.
    #[cold]
    #[inline(never)]
    fn sent_in_part(&mut self, index: u32, bytes: &[u8], mut taken: usize, urgent: bool) -> usize {
        self.borrowed(index);
        let Tcp { open, pools, ready, .. } = self;
        let Some(c) = open.by_index_mut(index) else { return 0 };
        if c.recovery.has_board() {
            // What the peer holds behind a hole takes no room from what can leave.
            let most = c.send_limit(pools);
            taken += pools.tx.write(&mut c.tx, bytes.get(taken..).unwrap_or_default(), || most);
        }
        if taken < bytes.len() {
            c.marks.set(Marks::WANT_ROOM);
        }
        if taken == 0 {
            if pools.tx.len(&c.tx) == 0 {
                self.was_refused();
            }
            return 0;
        }
        if urgent {
            c.mark_urgent(pools, 0);
        }
        c.wants_turn();
        if !ready.join(index, &mut c.ready) {
            self.join_after_all(index);
        }
        taken
    }

    /// More follows what was written last.
    pub(crate) fn say_more(&mut self, id: ConnId) -> Result<(), SendError> {
        let Tcp { open, pools, .. } = self;
        let c = writable(open, id)?;
        let end = c.data_front() + pools.tx.len(&c.tx);
        c.note_rare(pools, |t| t.more_behind = end);
        // Without a place to note it, what was written leaves.
        if !c.rare.is_none() {
            c.settings.say_more();
        }
        Ok(())
    }

    /// The SYN of a connection that was begun just now has the Fast Open option, or data without
    /// one. True when it leaves with the first bytes that are written.
    pub(crate) fn asks_fast_open(
        &mut self,
        now: Instant,
        id: ConnId,
        how: FastOpenConnect,
    ) -> bool {
        let Tcp { open, pools, .. } = self;
        let Some(c) = open.by_index_mut(id.index()).filter(|c| c.marks.has(Marks::SYN_DUE)) else {
            return false;
        };
        let ends = (c.key.local, c.key.remote);
        let waits = how.waits_for_data && pools.fast_open.may_carry(now, ends, how.without_cookie);
        c.note_rare(pools, |t| {
            t.fast_open = match (how.without_cookie, waits) {
                (false, false) => EarlySyn::Asks,
                (false, true) => EarlySyn::WaitsForData,
                (true, false) => EarlySyn::Bare,
                (true, true) => EarlySyn::BareWaitsForData,
            }
        });
        waits
    }

    /// Whether the end of one more record can be kept. If not, the owner is told when to try again.
    pub(crate) fn has_room_for_record(&mut self, id: ConnId) -> Result<bool, SendError> {
        let Tcp { open, pools, .. } = self;
        let c = writable(open, id)?;
        c.note_rare(pools, |_| {});
        let has_room =
            c.rare.index().is_some_and(|rare| pools.record_ends.has_room(rare, c.snd.una));
        if !has_room {
            c.marks.set(Marks::WANT_ROOM);
            if pools.tx.len(&c.tx) == 0 {
                self.was_refused();
            }
        }
        Ok(has_room)
    }

    /// A record ends behind what was written last.
    pub(crate) fn end_record(&mut self, id: ConnId) -> Result<(), SendError> {
        let Tcp { open, pools, .. } = self;
        let c = writable(open, id)?;
        let end = c.data_front() + pools.tx.len(&c.tx);
        if let Some(rare) = c.rare.index() {
            pools.record_ends.add(rare, end);
            c.settings.mark_records();
        }
        Ok(())
    }

    pub(crate) fn mark_urgent(&mut self, id: ConnId, ahead: u32) -> Result<(), SendError> {
        let Tcp { open, pools, .. } = self;
        let c = writable(open, id)?;
        c.mark_urgent(pools, ahead);
        Ok(())
    }

    pub(crate) fn wrote(
        &mut self,
        config: &Config,
        counters: &mut Counters,
        id: ConnId,
    ) -> Result<(), SendError> {
        writable(&mut self.open, id)?.wants_turn();
        self.settle(config, counters, id.index());
        Ok(())
    }

    #[inline]
    pub(crate) fn recv(&self, id: ConnId) -> Result<&[u8], RecvError> {
        let c = self.owned(id).ok_or(RecvError::Stale)?;
        let bytes = self.pools.rx.front(&c.rx);
        match c.failure {
            Some(why) if bytes.is_empty() => Err(RecvError::Failed(why)),
            _ => Ok(bytes),
        }
    }

    /// True when the peer may have to be told of the room: [`Tcp::tell_window`].
    #[inline(always)]
    pub(crate) fn consumed(&mut self, id: ConnId, n: u32) -> bool {
        let Some(handle) = Self::handle(id) else { return false };
        let Some(c) = self.open.get_mut(handle).filter(|c| c.is_owned()) else { return false };
        self.pools.rx.consume(&mut c.rx, n);
        if c.settings.urgent_waits() {
            c.reads_past_urgent(&self.pools);
        }
        !c.window_suffices(&self.pools)
    }

    /// The owner has read, and the peer may have to be told of the room.
    #[cold]
    #[inline(never)]
    pub(crate) fn tell_window(&mut self, config: &Config, counters: &mut Counters, index: u32) {
        let Some(c) = self.open.by_index_mut(index) else { return };
        if !c.marks.has(Marks::DETACHED) && c.window_update_is_due(&self.pools) {
            c.ack_now();
            self.settle(config, counters, index);
        }
    }

    pub(crate) fn urgent(&self, id: ConnId) -> Option<u32> {
        let c = self.owned(id).filter(|c| c.settings.urgent_waits())?;
        // Who reads without telling may be past the mark.
        let read_to = c.read_to(&self.pools.rx);
        let urgent = c.suffered(&self.pools).cold.rcv_urgent;
        urgent.gt(read_to).then(|| urgent.since(read_to))
    }

    pub(crate) fn queued(&self, id: ConnId) -> u32 {
        self.owned(id).map_or(0, |c| c.written(&self.pools.tx))
    }

    pub(crate) fn unsent(&self, id: ConnId) -> u32 {
        self.owned(id).map_or(0, |c| c.unsent(&self.pools.tx))
    }

    pub(crate) fn send_room(&self, id: ConnId) -> u32 {
        let open = |c: &&Conn<E>| {
            !c.marks.has(Marks::SHUT) && c.failure.is_none() && c.state != State::Closed
        };
        self.owned(id).filter(open).map_or(0, |c| c.send_room(&self.pools))
    }

    pub(crate) fn unread(&self, id: ConnId) -> u32 {
        self.owned(id).map_or(0, |c| self.pools.rx.unread(&c.rx))
    }

    pub(crate) fn peer_closed(&self, id: ConnId) -> bool {
        self.owned(id).is_some_and(|c| c.marks.has(Marks::PEER_FIN))
    }

    pub(crate) fn shutdown(
        &mut self,
        config: &Config,
        counters: &mut Counters,
        id: ConnId,
    ) -> Result<(), SendError> {
        let c = self.owned(id).ok_or(SendError::Stale)?;
        if let Some(why) = c.failure {
            return Err(SendError::Failed(why));
        }
        self.shut(id.index());
        self.settle(config, counters, id.index());
        Ok(())
    }

    /// Our FIN is due behind what was written so far.
    fn shut(&mut self, index: u32) {
        let Some(c) = self.open.by_index_mut(index) else { return };
        if c.marks.any(Marks::SHUT.with(Marks::DETACHED)) || c.state == State::Closed {
            return;
        }
        c.snd_ahead.end = c.data_front() + self.pools.tx.len(&c.tx);
        c.marks.set(Marks::SHUT);
        c.wants_turn();
    }

    /// The owner lets go (RFC 9293 3.10.4).
    pub(crate) fn close(&mut self, cx: &mut Cx<'_>, id: ConnId) {
        let Some(c) = self.owned(id) else { return };
        // RFC 2525 2.17: bytes that nobody will read are not acknowledged as if somebody had.
        let parting = if self.pools.rx.unread(&c.rx) > 0 { Parting::Reset } else { Parting::Fin };
        self.part(cx, id.index(), parting);
    }

    /// The owner lets go, and wants no FIN.
    pub(crate) fn close_with_reset(&mut self, cx: &mut Cx<'_>, id: ConnId) {
        if self.owned(id).is_some() {
            self.part(cx, id.index(), Parting::Reset);
        }
    }

    fn part(&mut self, cx: &mut Cx<'_>, index: u32, parting: Parting) {
        self.abandon(cx.config, cx.counters, index, parting);
        if self.has_too_many_orphans(cx) {
            self.relieve_orphans(cx);
        }
    }

    /// The owner gives up (RFC 9293 3.10.5).
    pub(crate) fn abort(&mut self, cx: &mut Cx<'_>, id: ConnId) {
        if self.owned(id).is_some() {
            self.abandon(cx.config, cx.counters, id.index(), Parting::ResetNow);
        }
    }

    /// The connection at `index`, which nobody is to accept any more, has no owner from now on.
    fn abandon(&mut self, config: &Config, counters: &mut Counters, index: u32, parting: Parting) {
        let Some(c) = self.open.by_index_mut(index) else { return };
        self.event_queue.leave(&mut c.event_queue);
        c.events = crate::event::ConnEvents(0);
        c.marks.set(Marks::ORPHAN);
        if c.marks.has(Marks::DETACHED) {
            return self.free(index);
        }
        self.join_orphans(index);
        let Some(c) = self.open.by_index_mut(index) else { return };
        let bytes = self.pools.tx.len(&c.tx);
        c.set_orphaned(bytes);
        self.orphan_bytes += u64::from(bytes);
        if parting != Parting::Fin || c.state == State::SynSent {
            // In SYN-SENT there is nothing to finish (RFC 9293 3.10.4, SYN-SENT STATE).
            match parting {
                _ if c.state == State::Closed => {}
                Parting::Reset => {
                    // What is still to leave has as long as other bytes without an owner.
                    c.arm(Timer::Orphan, self.now + config.tcp.orphan);
                    c.reset_behind_data();
                }
                Parting::ResetNow | Parting::Fin => c.reset(),
            }
        } else {
            let least = match c.state {
                State::FinWait2 => c.fin_wait_2(&self.pools, &config.tcp),
                _ => config.tcp.orphan,
            };
            c.arm(Timer::Orphan, self.now + least);
            self.shut(index);
        }
        self.settle(config, counters, index);
    }

    /// Every connection that has something to send that has not left yet ends with a reset, whoever
    /// it belongs to.
    pub(crate) fn reset_unsent(&mut self, config: &Config, counters: &mut Counters) {
        for index in 0..self.open.entries().len() as u32 {
            let Tcp { open, pools, .. } = self;
            let Some(c) = open.by_index_mut(index) else { continue };
            if c.state == State::Closed || c.marks.has(Marks::DETACHED) || !c.has_unsent(&pools.tx)
            {
                continue;
            }
            c.reset();
            self.settle(config, counters, index);
        }
    }

    pub(crate) fn failure(&self, id: ConnId) -> Option<Failure> {
        self.owned(id)?.failure
    }

    pub(crate) fn state(&self, id: ConnId) -> State {
        self.owned(id).map_or(State::Closed, |c| c.state)
    }

    pub(crate) fn set_quick_ack(
        &mut self,
        config: &Config,
        counters: &mut Counters,
        id: ConnId,
        on: bool,
    ) {
        let Some(c) = self.owned_mut(id) else { return };
        c.rcv.quick = if on { (QUICK_ACKS * QUICK) | PUSHED } else { DELAYED };
        if on && c.delack.is_set() {
            c.ack_now();
            c.wants_turn();
            self.settle(config, counters, id.index());
        }
    }

    /// A connection's options.
    pub(crate) fn options(&self, id: ConnId) -> Option<ConnOptions> {
        let c = self.owned(id)?;
        Some(c.with_seldom(&self.pools, c.settings.into()))
    }

    pub(crate) fn set_options(
        &mut self,
        config: &Config,
        counters: &mut Counters,
        id: ConnId,
        options: ConnOptions,
    ) {
        let (now, waits) = (self.now, self.unsent(id) > 0);
        if self.owned_mut(id).is_none() {
            return;
        }
        let Tcp { open, pools, .. } = self;
        let Some(c) = open.by_index_mut(id.index()) else { return };
        c.set_seldom(pools, Seldom::of(&options));
        let before = core::mem::replace(&mut c.settings, options.into());
        c.settings.set_urgent_waits(before.urgent_waits());
        if before.has_record_ends() {
            c.settings.mark_records();
        }
        c.marks.set(Marks::REARM);
        // TCP_NODELAY sends what waits under a cork too, also when it is set once more. A cork that
        // is pulled lets go of what waits for the rest of a message.
        let flushes = !before.nodelay() || before == c.settings || before.cork() && !options.cork;
        if options.nodelay && flushes && waits {
            c.marks.set(Marks::FORCE);
        }
        if c.may_be_paced() {
            let refused = c.choose_congestion(pools, now, options.congestion);
            counters.tcp.paced_refused += u64::from(refused);
        }
        if c.settings.congestion() != before.congestion() {
            if let Some(rare) = c.rare.get_mut(&mut pools.rare_stats) {
                // Another algorithm takes over the window as it is, and knows nothing from before.
                rare.cold.law = Law::NONE;
            }
        }
        if c.settings.receive_buffer != before.receive_buffer && c.state.is_synchronized() {
            // What was promised stays so: a smaller one holds from what is promised next.
            c.rcv.step = Sizes::first_step(c.settings.receive_buffer, c.snd.scales);
        }
        if c.marks.has(Marks::DETACHED) {
            return;
        }
        if options.max_segment != 0 {
            c.snd.size_is_new();
            c.peer_mss = c.peer_mss.min(options.max_segment.max(super::options::MIN_MSS));
        }
        let at = match options.keepalive {
            Some(keepalive) if c.state.is_synchronized() => {
                now + (keepalive.idle - c.heard.ago(now))
            }
            _ => Instant::NEVER,
        };
        c.arm(Timer::Keepalive, at);
        // What waited for company may leave now.
        c.wants_turn();
        self.settle(config, counters, id.index());
    }
}

impl<E: Env> Tcp<E> {
    /// The connection is over because its way is: the peer gets a reset, and the owner learns that
    /// the network is out of reach.
    pub(crate) fn abort_unreachable(&mut self, cx: &mut Cx<'_>, id: ConnId) {
        self.end_because(cx, id, Failure::Unreachable(crate::error::Unreachable::Network));
    }

    /// The connection is over because others need the memory that it holds.
    pub(crate) fn end_for_shortage(&mut self, cx: &mut Cx<'_>, id: ConnId) {
        if self.end_because(cx, id, Failure::NoMemory) {
            cx.counters.tcp.shortage_resets += 1;
            if let Some(c) = self.owned(id) {
                E::trace(Trace::ShortageReset { ends: c.key.traced() });
            }
        }
    }

    /// The owner has shut both sides, and what came will not be read.
    pub(crate) fn reset_unread(&mut self, cx: &mut Cx<'_>, id: ConnId) {
        if self.end_because(cx, id, Failure::Reset) {
            cx.counters.tcp.resets_after_close += 1;
        }
    }

    pub(crate) fn kill(&mut self, cx: &mut Cx<'_>, id: ConnId) -> bool {
        self.end_because(cx, id, Failure::Killed)
    }

    fn end_because(&mut self, cx: &mut Cx<'_>, id: ConnId, why: Failure) -> bool {
        let Some(c) = self.owned_mut(id).filter(|c| c.state != State::Closed) else { return false };
        c.failure.get_or_insert(why);
        c.tell(crate::event::ConnEvents::FAILED);
        c.reset();
        self.settle(cx.config, cx.counters, id.index());
        true
    }
}

/// Ports that other flows have and that one connection is asked about at most, before it takes only
/// a port that no flow has.
const PORTS_ASKED: u32 = 4_096;

/// Ports that are asked about before one in TIME-WAIT is used again.
const PORTS_BEFORE_REUSE: u32 = 64;

/// How a connection ends that its owner lets go of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parting {
    /// With a FIN behind its data.
    Fin,
    /// With a reset behind such data as may still leave.
    Reset,
    /// With a reset and nothing else.
    ResetNow,
}

/// What somebody wants who shares a port with nobody.
fn alone(table: Table, local: Endpoint) -> BindSpec {
    BindSpec { table, local, v6_only: true, reuse_address: false, reuse_port: false, owner: 0 }
}

/// The connection that bytes may be written to.
#[inline(always)]
fn writable<E: Env>(open: &mut Slab<Conn<E>>, id: ConnId) -> Result<&mut Conn<E>, SendError> {
    const SPECIAL: Marks = Marks::ORPHAN.with(Marks::PENDING).with(Marks::SHUT);
    let handle = Handle::from_bits(id.to_bits()).ok_or(SendError::Stale)?;
    let c = open.get_mut(handle).ok_or(SendError::Stale)?;
    if c.state == State::Established && !c.marks.any(SPECIAL) {
        return Ok(c);
    }
    match why_not_writable(c) {
        Some(why) => Err(why),
        None => Ok(c),
    }
}

#[cold]
#[inline(never)]
fn why_not_writable<E: Env>(c: &Conn<E>) -> Option<SendError> {
    match c.failure {
        _ if !c.is_owned() => Some(SendError::Stale),
        Some(why) => Some(SendError::Failed(why)),
        None if c.marks.has(Marks::SHUT) || matches!(c.state, State::Closed | State::TimeWait) => {
            Some(SendError::Closed)
        }
        None => None,
    }
}

impl<E: Env> Conn<E> {
    /// The first number that the owner has not consumed.
    pub(super) fn read_to(&self, rx: &E::Rx) -> clearway_wire::Seq {
        let fin = u32::from(self.marks.has(Marks::PEER_FIN));
        self.rcv.nxt - fin - rx.unread(&self.rx)
    }

    /// What lies so many bytes behind what was written, or before, is urgent.
    #[cold]
    fn mark_urgent(&mut self, p: &mut Pools<E>, ahead: u32) {
        let end = self.data_front() + p.tx.len(&self.tx).saturating_add(ahead);
        self.note_rare(p, |t| t.cold.snd_urgent = end);
        self.marks.set(Marks::SEND_URGENT);
    }

    /// Forgets the urgent mark when the owner has read past it.
    #[cold]
    fn reads_past_urgent(&mut self, p: &Pools<E>) {
        if self.suffered(p).cold.rcv_urgent.le(self.read_to(&p.rx)) {
            self.settings.set_urgent_waits(false);
        }
    }

    /// Bytes written and never sent.
    pub(super) fn unsent(&self, tx: &E::Tx) -> u32 {
        if self.state == State::Closed {
            return 0;
        }
        let fin = u32::from(self.marks.has(Marks::FIN_SENT));
        // In a handshake the SYN is out, unless Fast Open has opened the connection already.
        let sent = if self.snd.una == self.iss && !self.state.is_synchronized() {
            0
        } else {
            self.outstanding()
        };
        self.written(tx).saturating_sub(sent.saturating_sub(fin))
    }
}
