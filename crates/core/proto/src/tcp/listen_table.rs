//! Listening sockets, found by table, address and port: the specific address before the family's
//! wildcard, and that before a wildcard of both families (RFC 9293 3.9.1.1).

use clearway_base::{FlowMap, Link, List, Slab};
use clearway_wire::{Addr, Endpoint};

use crate::config::ConnOptions;
use crate::error::ListenError;
use crate::hash::AddrHash;
use crate::ids::Table;
use crate::ids::{BindId, ListenerId};
use crate::tcp::fast_open::FastOpenListener;
use crate::tcp::seldom::Seldom;
use crate::tcp::settings::Settings;
use crate::tcp::summary::ListenerSummary;

/// One listening socket.
pub(crate) struct Listener {
    pub table: Table,
    pub local: Endpoint,
    /// The reservation that it was made with.
    pub bound: Option<BindId>,
    /// Others may listen beside it (SO_REUSEPORT).
    pub reuse_port: bool,
    /// The next of those that share its address and port; the first of them alone is in the map.
    pub next: Option<u32>,
    /// `::` that takes IPv4 too.
    pub both: bool,
    pub backlog: u32,
    /// Timeouts of the SYN-ACK for which a handshake is not complete before data comes
    /// (TCP_DEFER_ACCEPT of Linux); 0: it is complete with the ACK.
    pub defer: u8,
    /// Whether data is taken with a SYN.
    pub fast_open: FastOpenListener,
    pub token: u64,
    pub options: ConnOptions,
    /// The same as its connections keep it ([`Listener::set_options`]).
    pub settings: Settings,
    pub seldom: Seldom,
    /// Handshakes in progress.
    pub syn_rcvd: u32,
    /// Connections that it was given so far.
    pub given: u32,
    /// Finished handshakes, oldest first, linked through the connections.
    pub queue: List,
    /// On the list of listeners that have news for their owner.
    pub event_queue: Link,
}

impl Listener {
    /// What connections begin with from now on.
    pub(crate) fn set_options(&mut self, options: ConnOptions) {
        (self.options, self.settings, self.seldom) =
            (options, options.into(), Seldom::of(&options));
    }
}

/// All listening sockets.
pub(crate) struct ListenTable {
    slab: Slab<Listener>,
    map: FlowMap,
    hash: AddrHash,
    /// Listeners that have news for their owner.
    event_queue: List,
}

impl ListenTable {
    /// A table for `capacity` listeners.
    pub(crate) fn new(capacity: u32, hash: AddrHash) -> ListenTable {
        // A wildcard of both families stands in the table twice, once for each family.
        ListenTable {
            slab: Slab::new(capacity),
            map: FlowMap::new(capacity.saturating_mul(2)),
            hash,
            event_queue: List::new(),
        }
    }

    fn hash(&self, table: Table, addr: &Addr, port: u16) -> u64 {
        self.hash.of(u64::from(table.0) << 16 | u64::from(port), addr)
    }

    /// The first listener with this address and port: for IPv4's wildcard one that is for IPv4
    /// alone before one for both families, as Linux prefers it.
    fn exact(&self, table: Table, addr: &Addr, port: u16) -> Option<u32> {
        let own = self.first(table, addr, port, |l| l.local.addr == *addr);
        if own.is_some() || *addr != Addr::ANY_V4 {
            return own;
        }
        self.first(table, addr, port, |l| l.both)
    }

    /// The first of those that share address and port with a listener, and whether they are for
    /// both families.
    fn first_of_group(&self, table: Table, local: Endpoint, both: bool) -> Option<u32> {
        self.first(table, &local.addr, local.port, |l| l.local.addr == local.addr && l.both == both)
    }

    fn first(
        &self,
        table: Table,
        addr: &Addr,
        port: u16,
        fits: impl Fn(&Listener) -> bool,
    ) -> Option<u32> {
        let is_it = |l: &Listener| l.table == table && l.local.port == port && fits(l);
        self.map.find(self.hash(table, addr, port), |index| {
            self.slab.by_index(index).is_some_and(is_it)
        })
    }

    /// Whether somebody who does not share keeps this listener from its address and port.
    fn is_taken(&self, listener: &Listener) -> bool {
        let other = |addr: &Addr, fits: &dyn Fn(&Listener) -> bool| {
            let keeps = |l: &Listener| fits(l) && !(l.reuse_port && listener.reuse_port);
            self.first(listener.table, addr, listener.local.port, keeps).is_some()
        };
        let addr = listener.local.addr;
        other(&addr, &|l| l.local.addr == addr || (l.both && addr == Addr::ANY_V4))
            || (listener.both && other(&Addr::ANY_V4, &|_| true))
    }

    /// The listener that a new connection to `local` is for: of several that share the port, the
    /// one that has the fewest waiting.
    pub(crate) fn choose(&self, table: Table, local: Endpoint) -> Option<ListenerId> {
        let first = self.find(table, local)?;
        let mut best = (self.load(first.index()), first.index());
        let mut next = self.get(first)?.next;
        while let Some(index) = next {
            best = best.min((self.load(index), index));
            next = self.slab.by_index(index)?.next;
        }
        self.id_at(best.1)
    }

    /// Connections that a listener was given and that nobody has accepted yet, and then all that it
    /// was ever given.
    fn load(&self, index: u32) -> (u32, u32) {
        self.slab.by_index(index).map_or((u32::MAX, 0), |l| (l.syn_rcvd + l.queue.len(), l.given))
    }

    /// Whether a listener without reservation has this address and port.
    pub(crate) fn stands_alone(&self, table: Table, local: Endpoint) -> bool {
        let found =
            self.exact(table, &local.addr, local.port).and_then(|index| self.slab.by_index(index));
        found.is_some_and(|l| l.bound.is_none())
    }

    /// The listener that a SYN to `local` is for; the first of several that share the port.
    pub(crate) fn find(&self, table: Table, local: Endpoint) -> Option<ListenerId> {
        if self.slab.is_empty() {
            return None;
        }
        let any = if local.addr.is_v4() { Addr::ANY_V4 } else { Addr::ANY_V6 };
        let index = self
            .exact(table, &local.addr, local.port)
            .or_else(|| self.exact(table, &any, local.port))?;
        self.id_at(index)
    }

    /// Whether some listener has the port, on whatever address: a connection must not take it as
    /// its ephemeral port.
    pub(crate) fn has(&self, table: Table, local: Endpoint) -> bool {
        self.find(table, local).is_some()
    }

    /// The name of the listener at `index`.
    pub(crate) fn id_at(&self, index: u32) -> Option<ListenerId> {
        ListenerId::from_bits(self.slab.handle_at(index)?.to_bits())
    }

    fn handle(id: ListenerId) -> Option<clearway_base::Handle<Listener>> {
        clearway_base::Handle::from_bits(id.to_bits())
    }

    /// Adds a listener.
    pub(crate) fn insert(&mut self, listener: Listener) -> Result<ListenerId, ListenError> {
        let (table, local, both) = (listener.table, listener.local, listener.both);
        if self.is_taken(&listener) {
            return Err(ListenError::InUse);
        }
        if let Some(first) = self.first_of_group(table, local, both) {
            return self.join(first, listener);
        }
        let hash = self.hash(table, &local.addr, local.port);
        let hash_v4 = self.hash(table, &Addr::ANY_V4, local.port);
        let handle = self.slab.insert(listener).ok_or(ListenError::TooMany)?;
        let placed = self.map.insert(hash, handle.index()).is_ok();
        let placed_v4 = !both || self.map.insert(hash_v4, handle.index()).is_ok();
        if !(placed && placed_v4) {
            self.map.remove(hash, |v| v == handle.index());
            self.map.remove(hash_v4, |v| v == handle.index());
            self.slab.remove(handle);
            return Err(ListenError::TooMany);
        }
        ListenerId::from_bits(handle.to_bits()).ok_or(ListenError::TooMany)
    }

    /// Adds a listener behind `first`, which shares address and port with it.
    fn join(&mut self, first: u32, listener: Listener) -> Result<ListenerId, ListenError> {
        let next = match self.slab.by_index(first) {
            Some(l) => l.next,
            None => return Err(ListenError::InUse),
        };
        let handle = self.slab.insert(Listener { next, ..listener }).ok_or(ListenError::TooMany)?;
        if let Some(l) = self.slab.by_index_mut(first) {
            l.next = Some(handle.index());
        }
        ListenerId::from_bits(handle.to_bits()).ok_or(ListenError::TooMany)
    }

    /// Takes a listener out.
    pub(crate) fn remove(&mut self, id: ListenerId) -> Option<Listener> {
        let handle = Self::handle(id)?;
        let (table, local, both, next) = {
            let l = self.slab.get(handle)?;
            (l.table, l.local, l.both, l.next)
        };
        self.event_queue.remove(&mut self.slab.links(|l| &mut l.event_queue), handle.index());
        let first =
            self.first_of_group(table, local, both).filter(|first| *first != handle.index());
        if let Some(first) = first {
            self.unlink(first, handle.index(), next);
            return self.slab.remove(handle);
        }
        if let Some(next) = next {
            // The second becomes the first.
            self.map.replace(self.hash(table, &local.addr, local.port), handle.index(), next);
            if both {
                self.map.replace(self.hash(table, &Addr::ANY_V4, local.port), handle.index(), next);
            }
            return self.slab.remove(handle);
        }
        self.map.remove(self.hash(table, &local.addr, local.port), |v| v == handle.index());
        if both {
            self.map.remove(self.hash(table, &Addr::ANY_V4, local.port), |v| v == handle.index());
        }
        self.slab.remove(handle)
    }

    /// Takes `index` out of those behind `first`; `next` follows it.
    fn unlink(&mut self, first: u32, index: u32, next: Option<u32>) {
        let mut here = first;
        while let Some(l) = self.slab.by_index_mut(here) {
            match l.next {
                Some(after) if after == index => {
                    l.next = next;
                    return;
                }
                Some(after) => here = after,
                None => return,
            }
        }
    }

    pub(crate) fn get(&self, id: ListenerId) -> Option<&Listener> {
        self.slab.get(Self::handle(id)?)
    }

    pub(crate) fn get_mut(&mut self, id: ListenerId) -> Option<&mut Listener> {
        self.slab.get_mut(Self::handle(id)?)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u32 {
        self.slab.len()
    }

    /// Every listener.
    pub(crate) fn summaries(&self) -> impl Iterator<Item = ListenerSummary> + '_ {
        self.slab.iter().filter_map(|(handle, l)| {
            Some(ListenerSummary {
                listener: ListenerId::from_bits(handle.to_bits())?,
                table: l.table,
                local: l.local,
                token: l.token,
                backlog: l.backlog,
                half_open: l.syn_rcvd,
                pending: l.queue.len(),
            })
        })
    }

    /// The owner shall look at the listener.
    pub(crate) fn mark(&mut self, id: ListenerId) {
        if self.get(id).is_some() {
            self.event_queue.push_back(&mut self.slab.links(|l| &mut l.event_queue), id.index());
        }
    }

    /// The next listener that its owner shall look at, with the owner's word.
    pub(crate) fn next_marked(&mut self) -> Option<(ListenerId, u64)> {
        let index = self.event_queue.pop_front(&mut self.slab.links(|l| &mut l.event_queue))?;
        let token = self.slab.by_index(index)?.token;
        Some((self.id_at(index)?, token))
    }
}

#[cfg(test)]
mod tests;
