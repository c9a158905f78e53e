//! Neighbours: the link addresses of hosts on our links, for ARP and NDP alike (RFC 4861 7.3,
//! simplified), and the frames that wait for them.
//!
//! ```text
//!   used ──▶ Incomplete ──answer──▶ Reachable ──30 s──▶ (used) Delay ──5 s──▶ Probe ──answer──▶ Reachable
//!               │ 3 requests, no answer                                         │ 3 requests, no answer
//!               ▼ gone                                                           ▼ gone
//!   claimed by a packet that was not asked for ──▶ Stale ──used──▶ Delay
//!   known, and another link address claims the address ──▶ Probe
//! ```
//!
//! Nothing on a link is authentic, and so no message of another link address ever takes a known
//! neighbour's place, however many come. A claim only begins a question to the link address that is
//! known: its answer keeps it, and when it says nothing until the end of the probe it is forgotten
//! and all are asked. That is stricter than RFC 4861 7.2.5, which lets an advertisement with the
//! override flag replace what is known.
//!
//! The table is bounded. Entries that nobody answered for, and entries that we never sent to, make
//! room first, so that a flood of spoofed addresses cannot push out a neighbour that is in use (RFC
//! 6583).

pub(crate) mod probe;

use alloc::boxed::Box;
use alloc::vec::Vec;

use clearway_base::{Duration, FlowMap, Handle, Instant, Link, List, Rng, Slab};
use clearway_pkt::{Iface, TxMeta};
use clearway_wire::{Addr, Mac};

use crate::counters::NeighbourCounters;
use crate::hash::AddrHash;

/// Time between two requests (RFC 4861 10, RETRANS_TIMER).
const RETRANS: Duration = Duration::from_secs(1);
/// Requests to all before a neighbour is given up (MAX_MULTICAST_SOLICIT).
const MAX_MULTICAST_SOLICIT: u8 = 3;
/// Requests to the neighbour alone before it is given up (MAX_UNICAST_SOLICIT).
const MAX_UNICAST_SOLICIT: u8 = 3;
/// How long an answer is believed, before it is varied by half (REACHABLE_TIME).
const REACHABLE: Duration = Duration::from_secs(30);
/// How long the first packets to a stale neighbour may bring an answer before it is asked
/// (DELAY_FIRST_PROBE_TIME).
const DELAY: Duration = Duration::from_secs(5);
/// A neighbour that we sent to within this time is not evicted.
const IN_USE: Duration = Duration::from_secs(60);
/// Timers are rounded up to this, so that one walk serves many.
const TICK_NS: u64 = 16_000_000;
/// Entries looked at when one must go.
const EVICTION_TRIES: u32 = 8;

/// What is known of a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NeighbourState {
    /// It was asked for and has not answered.
    Incomplete,
    /// It answered not long ago.
    Reachable,
    /// Its address is known, but it was not heard of for a while.
    Stale,
    /// As stale, and we have sent to it; if nothing is heard it will be asked.
    Delay,
    /// It is being asked whether it is still there.
    Probe,
    /// Set by configuration; it never changes.
    Permanent,
}

/// What can be seen of a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeighbourInfo {
    /// Its link.
    pub iface: Iface,
    /// Its address.
    pub addr: Addr,
    /// Its link address, once it is known.
    pub mac: Option<Mac>,
    /// What is known of it.
    pub state: NeighbourState,
}

/// One neighbour.
pub(crate) struct Neighbour {
    iface: Iface,
    addr: Addr,
    mac: Mac,
    state: NeighbourState,
    /// Requests sent in this state.
    tries: u8,
    /// When the state ends: Reachable, Incomplete, Delay, Probe.
    due: Instant,
    /// When a question to it was last begun; [`Instant::ZERO`] when never.
    asked: Instant,
    /// When we last sent to it; [`Instant::ZERO`] when never.
    used: Instant,
    /// Its place among those that may be evicted, and which list that is.
    order: Link,
    on: On,
    /// Its place among those to be asked for.
    ask: Link,
}

/// Which list an entry's `order` is on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    None,
    Spare,
    Known,
}

/// A request to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    pub(crate) iface: Iface,
    pub(crate) addr: Addr,
    /// To this link address alone; to all when None.
    pub(crate) to: Option<Mac>,
}

/// How a packet tells of a neighbour's link address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Claim {
    pub(crate) iface: Iface,
    pub(crate) addr: Addr,
    pub(crate) mac: Option<Mac>,
    /// It is an answer to a request of ours, as far as the packet can tell.
    pub(crate) solicited: bool,
    /// It should replace what is known.
    pub(crate) override_: bool,
}

/// What became of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Claimed {
    /// The neighbour was waited for, or what is known of it changed or was confirmed.
    Taken,
    /// Nobody asked and nothing is known of this neighbour.
    Unknown,
}

/// A neighbour that was asked for, and has answered.
#[derive(Clone, Copy)]
pub(crate) struct Resolved {
    pub(crate) iface: Iface,
    pub(crate) addr: Addr,
    pub(crate) mac: Mac,
}

/// A frame that waits for a neighbour.
struct Waiting {
    bytes: Box<[u8]>,
    len: u16,
    meta: TxMeta,
    to: Option<Handle<Neighbour>>,
    /// By which interface it was to leave, once nobody has answered.
    iface: Iface,
}

/// All neighbours of all interfaces.
pub(crate) struct Neighbours {
    map: FlowMap,
    entries: Slab<Neighbour>,
    hash: AddrHash,
    rng: Rng,
    /// Never sent to, or never answered; the oldest first.
    spare: List,
    /// Sent to; the one used longest ago first, roughly.
    known: List,
    /// To be asked for.
    asking: List,
    waiting: Vec<Waiting>,
    waiting_links: Box<[Link]>,
    /// Frames that wait, the oldest first, places for more, and frames that nobody answered for,
    /// whose senders have not heard of it yet.
    queue: List,
    free: List,
    unreached: List,
    per_neighbour: u8,
    /// Some neighbour that frames wait for may have answered.
    released: bool,
    /// One that has answered, until somebody asks who.
    resolved: Option<Resolved>,
    /// No entry's state ends before this.
    next_due: Instant,
}

impl Neighbour {
    /// Whether a question to it is open.
    fn is_asked(&self) -> bool {
        matches!(self.state, NeighbourState::Incomplete | NeighbourState::Probe) && self.tries > 0
    }

    /// Its link address is known: believed until then, or not confirmed.
    fn settle(&mut self, reachable_until: Option<Instant>) {
        self.tries = 0;
        (self.state, self.due) = match reachable_until {
            Some(until) => (NeighbourState::Reachable, until),
            None => (NeighbourState::Stale, Instant::NEVER),
        };
    }
}

impl Neighbours {
    /// Room for `capacity` neighbours, `frames` frames that wait in all and `per_neighbour` of them
    /// for each.
    pub(crate) fn new(
        capacity: u32,
        per_neighbour: u8,
        frames: u16,
        hash: AddrHash,
        rng: Rng,
    ) -> Neighbours {
        let mut waiting = Vec::new();
        waiting.resize_with(usize::from(frames), || Waiting {
            bytes: Box::default(),
            len: 0,
            meta: TxMeta::default(),
            to: None,
            iface: Iface(0),
        });
        let mut waiting_links = alloc::vec![Link::OFF; usize::from(frames)].into_boxed_slice();
        let mut free = List::new();
        for place in 0..u32::from(frames) {
            free.push_back(&mut *waiting_links, place);
        }
        Neighbours {
            map: FlowMap::new(capacity),
            entries: Slab::new(capacity),
            hash,
            rng,
            spare: List::new(),
            known: List::new(),
            asking: List::new(),
            waiting,
            waiting_links,
            queue: List::new(),
            free,
            unreached: List::new(),
            per_neighbour,
            released: false,
            resolved: None,
            next_due: Instant::NEVER,
        }
    }

    /// Frames of up to `len` bytes will wait: their places are made at least that long. For the
    /// time of configuration.
    pub(crate) fn fit_frames(&mut self, len: usize) {
        for slot in &mut self.waiting {
            if slot.bytes.len() < len {
                let mut bytes = alloc::vec![0; len].into_boxed_slice();
                bytes[..slot.bytes.len()].copy_from_slice(&slot.bytes);
                slot.bytes = bytes;
            }
        }
    }

    /// The link address of a neighbour that is known, and a note that we send to it now. None: it
    /// must be resolved first.
    #[inline]
    pub(crate) fn usable(&mut self, at: Handle<Neighbour>, now: Instant) -> Option<Mac> {
        let entry = self.entries.get_mut(at)?;
        entry.used = now;
        match entry.state {
            NeighbourState::Reachable if now < entry.due => {}
            NeighbourState::Permanent | NeighbourState::Delay | NeighbourState::Probe => {}
            NeighbourState::Incomplete => return None,
            NeighbourState::Stale | NeighbourState::Reachable => {
                entry.state = NeighbourState::Delay;
                entry.tries = 0;
                entry.due = tick(now + DELAY);
                self.next_due = self.next_due.min(entry.due);
            }
        }
        Some(entry.mac)
    }

    /// The entry of a neighbour that we want to send to; it is made, and asked for, when there is
    /// none. None when the table is full of neighbours in use.
    pub(crate) fn resolve(
        &mut self,
        now: Instant,
        iface: Iface,
        addr: &Addr,
        counters: &mut NeighbourCounters,
    ) -> Option<Handle<Neighbour>> {
        if let Some(at) = self.find(iface, addr) {
            let entry = self.entries.get_mut(at)?;
            entry.used = now;
            if !matches!(entry.state, NeighbourState::Incomplete | NeighbourState::Permanent) {
                self.put_on(at, On::Known);
            }
            return Some(at);
        }
        let at = self.make(now, iface, addr, counters)?;
        let entry = self.entries.get_mut(at)?;
        (entry.used, entry.asked) = (now, now);
        entry.due = tick(now + RETRANS);
        self.next_due = self.next_due.min(entry.due);
        self.asking.push_back(&mut self.entries.links(|e| &mut e.ask), at.index());
        Some(at)
    }

    /// A packet that needs an answer told us who sent it: keep that in mind, but only while there
    /// is plenty of room, because strangers can send any number of such packets.
    pub(crate) fn learn(
        &mut self,
        now: Instant,
        iface: Iface,
        addr: &Addr,
        mac: Mac,
        counters: &mut NeighbourCounters,
    ) {
        let claim = Claim { iface, addr: *addr, mac: Some(mac), solicited: false, override_: true };
        if self.claim(now, &claim) == Claimed::Taken
            || self.entries.len() >= self.entries.capacity() / 2
        {
            return;
        }
        if let Some(at) = self.make(now, iface, addr, counters) {
            if let Some(entry) = self.entries.get_mut(at) {
                entry.mac = mac;
                entry.state = NeighbourState::Stale;
            }
        }
    }

    /// A packet tells of a neighbour's link address (RFC 4861 7.2.5, and RFC 826 seen the same
    /// way). It never makes an entry.
    pub(crate) fn claim(&mut self, now: Instant, claim: &Claim) -> Claimed {
        let Some(at) = self.find(claim.iface, &claim.addr) else { return Claimed::Unknown };
        let reachable_until = now + self.reachable_time();
        let Some(entry) = self.entries.get_mut(at) else { return Claimed::Unknown };
        let other = claim.mac.is_some_and(|mac| mac != entry.mac);
        // A packet may well call itself an answer: it is one only while a question of ours is open.
        let answer = claim.solicited && entry.is_asked();
        match entry.state {
            NeighbourState::Permanent => {}
            NeighbourState::Incomplete => {
                // Without a link address the answer says nothing yet (RFC 4861 7.2.5).
                let Some(mac) = claim.mac else { return Claimed::Taken };
                entry.mac = mac;
                entry.settle(answer.then_some(reachable_until));
                self.asking.remove(&mut self.entries.links(|e| &mut e.ask), at.index());
                self.resolved = Some(Resolved { iface: claim.iface, addr: claim.addr, mac });
                self.put_on(at, On::Known);
                self.released = true;
            }
            _ if other && claim.override_ => self.check(at, now),
            // RFC 4861 7.2.5, I: believed no longer, but not replaced either.
            NeighbourState::Reachable if other => entry.settle(None),
            _ if other => {}
            _ if answer => {
                entry.settle(Some(reachable_until));
                self.asking.remove(&mut self.entries.links(|e| &mut e.ask), at.index());
            }
            _ => {}
        }
        Claimed::Taken
    }

    /// Another link address claims a known neighbour's address: the one that is known is asked,
    /// itself alone. Whoever claims it meanwhile changes nothing, and however many claims there
    /// are, they bring it one question in the time between two requests.
    fn check(&mut self, at: Handle<Neighbour>, now: Instant) {
        let Some(entry) = self.entries.get_mut(at) else { return };
        if entry.state == NeighbourState::Probe {
            return;
        }
        entry.state = NeighbourState::Probe;
        if entry.asked != Instant::ZERO && now < entry.asked + RETRANS {
            entry.tries = 0;
            entry.due = tick(entry.asked + RETRANS);
        } else {
            entry.tries = 1;
            entry.asked = now;
            entry.due = tick(now + RETRANS);
            self.asking.push_back(&mut self.entries.links(|e| &mut e.ask), at.index());
        }
        self.next_due = self.next_due.min(self.entries.get(at).map_or(Instant::NEVER, |e| e.due));
    }

    /// Sets a neighbour by configuration.
    pub(crate) fn set_permanent(
        &mut self,
        now: Instant,
        iface: Iface,
        addr: &Addr,
        mac: Mac,
    ) -> bool {
        let mut counters = NeighbourCounters::default();
        let at = self.find(iface, addr).or_else(|| self.make(now, iface, addr, &mut counters));
        let Some(at) = at else { return false };
        let Some(entry) = self.entries.get_mut(at) else { return false };
        entry.mac = mac;
        entry.state = NeighbourState::Permanent;
        entry.due = Instant::NEVER;
        self.asking.remove(&mut self.entries.links(|e| &mut e.ask), at.index());
        self.put_on(at, On::None);
        self.released = true;
        true
    }

    /// Forgets a neighbour, or all of an interface.
    pub(crate) fn forget(
        &mut self,
        iface: Iface,
        addr: Option<&Addr>,
        counters: &mut NeighbourCounters,
    ) {
        for index in 0..self.entries.capacity() {
            let matches = |e: &Neighbour| e.iface == iface && addr.is_none_or(|a| *a == e.addr);
            if self.entries.by_index(index).is_some_and(matches) {
                self.remove(index, counters);
            }
        }
    }

    /// The randomised time that an answer is believed (RFC 4861 6.3.2): half to one and a half
    /// times the base.
    fn reachable_time(&mut self) -> Duration {
        let base = REACHABLE.as_nanos();
        Duration::from_nanos(self.rng.between(base / 2, base / 2 * 3))
    }

    fn find(&self, iface: Iface, addr: &Addr) -> Option<Handle<Neighbour>> {
        let hash = self.hash.of(u64::from(iface.0), addr);
        let is_it = |index| {
            self.entries.by_index(index).is_some_and(|e| e.iface == iface && e.addr == *addr)
        };
        self.entries.handle_at(self.map.find(hash, is_it)?)
    }

    /// A new entry, incomplete and not yet asked for, the last of the spare ones.
    fn make(
        &mut self,
        now: Instant,
        iface: Iface,
        addr: &Addr,
        counters: &mut NeighbourCounters,
    ) -> Option<Handle<Neighbour>> {
        if self.entries.is_full() && !self.evict(now, counters) {
            counters.table_full += 1;
            return None;
        }
        let at = self.entries.insert(Neighbour {
            iface,
            addr: *addr,
            mac: Mac::ZERO,
            state: NeighbourState::Incomplete,
            tries: 1,
            due: Instant::NEVER,
            asked: Instant::ZERO,
            used: Instant::ZERO,
            order: Link::OFF,
            on: On::None,
            ask: Link::OFF,
        })?;
        if self.map.insert(self.hash.of(u64::from(iface.0), addr), at.index()).is_err() {
            self.entries.remove(at);
            counters.table_full += 1;
            return None;
        }
        self.put_on(at, On::Spare);
        Some(at)
    }

    /// Makes room for one more; false when every neighbour is in use.
    fn evict(&mut self, now: Instant, counters: &mut NeighbourCounters) -> bool {
        if let Some(index) = self.spare.front() {
            self.remove(index, counters);
            counters.evicted += 1;
            return true;
        }
        for _ in 0..EVICTION_TRIES {
            let Some(index) = self.known.front() else { return false };
            let used = self.entries.by_index(index).map_or(Instant::ZERO, |e| e.used);
            if now.since(used) > IN_USE {
                self.remove(index, counters);
                counters.evicted += 1;
                return true;
            }
            self.known.move_to_back(&mut self.entries.links(|e| &mut e.order), index);
        }
        false
    }

    /// Moves an entry to the end of a list of those that may be evicted, or off them.
    fn put_on(&mut self, at: Handle<Neighbour>, on: On) {
        let Some(entry) = self.entries.get_mut(at) else { return };
        let was = core::mem::replace(&mut entry.on, on);
        let mut links = self.entries.links(|e| &mut e.order);
        match was {
            On::None => false,
            On::Spare => self.spare.remove(&mut links, at.index()),
            On::Known => self.known.remove(&mut links, at.index()),
        };
        match on {
            On::None => false,
            On::Spare => self.spare.push_back(&mut links, at.index()),
            On::Known => self.known.push_back(&mut links, at.index()),
        };
    }

    /// Nobody answered for the entry at `index`: it is forgotten, and the senders of the frames
    /// that wait for it are to hear of that ([`Neighbours::next_unreached`]).
    fn give_up(&mut self, index: u32, counters: &mut NeighbourCounters) {
        counters.failures += 1;
        let Some((at, iface)) =
            self.entries.handle_at(index).zip(self.entries.by_index(index).map(|e| e.iface))
        else {
            return;
        };
        let mut next = self.queue.front();
        while let Some(place) = next {
            next = self.queue.next(&mut *self.waiting_links, place);
            let slot = &mut self.waiting[place as usize];
            if slot.to == Some(at) {
                (slot.to, slot.iface) = (None, iface);
                self.queue.remove(&mut *self.waiting_links, place);
                self.unreached.push_back(&mut *self.waiting_links, place);
                counters.frames_dropped += 1;
            }
        }
        self.remove(index, counters);
    }

    /// Whom the packet that was just taken is the answer of, told once.
    pub(crate) fn take_resolved(&mut self) -> Option<Resolved> {
        self.resolved.take()
    }

    /// The oldest frame that nobody answered for, and the interface that it was to leave by. It
    /// stays until [`Neighbours::drop_unreached`].
    pub(crate) fn next_unreached(&self) -> Option<(u32, Iface)> {
        let place = self.unreached.front()?;
        Some((place, self.waiting.get(place as usize)?.iface))
    }

    /// The sender of the frame that [`Neighbours::next_unreached`] gave has heard of it.
    pub(crate) fn drop_unreached(&mut self) {
        if let Some(place) = self.unreached.pop_front(&mut *self.waiting_links) {
            self.free.push_front(&mut *self.waiting_links, place);
        }
    }

    /// Forgets the entry at `index`, and drops the frames that wait for it.
    fn remove(&mut self, index: u32, counters: &mut NeighbourCounters) {
        let Some(at) = self.entries.handle_at(index) else { return };
        self.put_on(at, On::None);
        self.asking.remove(&mut self.entries.links(|e| &mut e.ask), index);
        let Some(entry) = self.entries.remove(at) else { return };
        self.map
            .remove(self.hash.of(u64::from(entry.iface.0), &entry.addr), |value| value == index);
        let mut next = self.queue.front();
        while let Some(place) = next {
            next = self.queue.next(&mut *self.waiting_links, place);
            if self.waiting[place as usize].to == Some(at) {
                self.drop_frame(place);
                counters.frames_dropped += 1;
            }
        }
    }

    fn drop_frame(&mut self, place: u32) {
        self.queue.remove(&mut *self.waiting_links, place);
        self.waiting[place as usize].to = None;
        self.free.push_front(&mut *self.waiting_links, place);
    }

    /// Ends the states whose time is over: asks again, gives up.
    ///
    /// Tells `on_failed` of each that did not answer.
    pub(crate) fn expire(
        &mut self,
        now: Instant,
        counters: &mut NeighbourCounters,
        on_failed: &mut dyn FnMut(Iface, Addr),
    ) {
        if now < self.next_due {
            return;
        }
        self.next_due = Instant::NEVER;
        for index in 0..self.entries.capacity() {
            let Some(entry) = self.entries.by_index_mut(index) else { continue };
            if !matches!(
                entry.state,
                NeighbourState::Incomplete | NeighbourState::Delay | NeighbourState::Probe
            ) {
                continue;
            }
            if now < entry.due {
                self.next_due = self.next_due.min(entry.due);
                continue;
            }
            let most = if entry.state == NeighbourState::Incomplete {
                MAX_MULTICAST_SOLICIT
            } else {
                MAX_UNICAST_SOLICIT
            };
            if entry.tries >= most {
                on_failed(entry.iface, entry.addr);
                self.give_up(index, counters);
                continue;
            }
            if entry.state == NeighbourState::Delay {
                entry.state = NeighbourState::Probe;
            }
            entry.tries += 1;
            entry.asked = now;
            entry.due = tick(now + RETRANS);
            self.next_due = self.next_due.min(entry.due);
            self.asking.push_back(&mut self.entries.links(|e| &mut e.ask), index);
        }
    }

    /// When [`Neighbours::expire`] has something to do.
    pub(crate) fn next_deadline(&self) -> Instant {
        self.next_due
    }

    /// Whether requests or released frames are to be sent.
    pub(crate) fn wants_emit(&self) -> bool {
        self.released || !self.asking.is_empty()
    }

    /// The next neighbour to be asked for. It stays until [`Neighbours::asked`].
    pub(crate) fn next_request(&self) -> Option<Request> {
        let entry = self.entries.by_index(self.asking.front()?)?;
        let alone = entry.state == NeighbourState::Probe;
        Some(Request { iface: entry.iface, addr: entry.addr, to: alone.then_some(entry.mac) })
    }

    /// The request that [`Neighbours::next_request`] gave was sent, or cannot be.
    pub(crate) fn asked(&mut self) {
        self.asking.pop_front(&mut self.entries.links(|e| &mut e.ask));
    }

    /// A place for a frame of up to `len` bytes to a neighbour that is not known yet. Nothing waits
    /// until [`Neighbours::wait`]. None when frames never are so long.
    ///
    /// When all places are taken, the oldest frame gives way; a neighbour's own oldest when it has
    /// its share (RFC 4861 7.2.2: at least one, the newest kept).
    pub(crate) fn place(
        &mut self,
        to: Handle<Neighbour>,
        len: usize,
        counters: &mut NeighbourCounters,
    ) -> Option<(u32, &mut [u8])> {
        let mut own = 0u8;
        let mut own_oldest = None;
        let mut next = self.queue.front();
        while let Some(place) = next {
            if self.waiting[place as usize].to == Some(to) {
                own = own.saturating_add(1);
                own_oldest = own_oldest.or(Some(place));
            }
            next = self.queue.next(&mut *self.waiting_links, place);
        }
        let victim = match (own >= self.per_neighbour, self.free.is_empty()) {
            (true, _) => own_oldest,
            (false, true) => self.queue.front(),
            (false, false) => None,
        };
        if let Some(victim) = victim {
            self.drop_frame(victim);
            counters.frames_dropped += 1;
        }
        let place = self.free.front()?;
        let bytes = self.waiting.get_mut(place as usize)?.bytes.get_mut(..len)?;
        Some((place, bytes))
    }

    /// The first `len` bytes of a place that [`Neighbours::place`] gave wait for the neighbour.
    pub(crate) fn wait(&mut self, place: u32, to: Handle<Neighbour>, len: usize, meta: TxMeta) {
        let Some(slot) = self.waiting.get_mut(place as usize) else { return };
        if !self.free.remove(&mut *self.waiting_links, place) {
            return;
        }
        slot.len = len as u16;
        slot.meta = meta;
        slot.to = Some(to);
        self.queue.push_back(&mut *self.waiting_links, place);
    }

    /// The oldest frame whose neighbour is known by now: its place, the interface, and the link
    /// address. It stays until [`Neighbours::sent`].
    pub(crate) fn next_released(&mut self, now: Instant) -> Option<(u32, Iface, Mac)> {
        if !self.released {
            return None;
        }
        let mut next = self.queue.front();
        while let Some(place) = next {
            if let Some(to) = self.waiting[place as usize].to {
                if let Some(mac) = self.usable(to, now) {
                    return Some((place, self.entries.get(to)?.iface, mac));
                }
            }
            next = self.queue.next(&mut *self.waiting_links, place);
        }
        self.released = false;
        None
    }

    /// The bytes of a waiting frame.
    pub(crate) fn frame(&self, place: u32) -> (&[u8], TxMeta) {
        match self.waiting.get(place as usize) {
            Some(slot) => (slot.bytes.get(..usize::from(slot.len)).unwrap_or(&[]), slot.meta),
            None => (&[], TxMeta::default()),
        }
    }

    /// A released frame was sent, or cannot be.
    pub(crate) fn sent(&mut self, place: u32) {
        self.drop_frame(place);
    }

    /// Every neighbour.
    pub(crate) fn iter(&self) -> impl Iterator<Item = NeighbourInfo> {
        self.entries.iter().map(|(_, e)| NeighbourInfo {
            iface: e.iface,
            addr: e.addr,
            mac: (e.state != NeighbourState::Incomplete).then_some(e.mac),
            state: e.state,
        })
    }
}

/// Rounds up to a common tick.
fn tick(at: Instant) -> Instant {
    Instant::from_nanos(at.as_nanos().div_ceil(TICK_NS).saturating_mul(TICK_NS))
}

#[cfg(test)]
mod tests;
