//! What ICMP told of the paths' MTUs (RFC 1191, RFC 8201): a bounded cache whose entries go away by
//! themselves.

use clearway_base::{Duration, FlowMap, Instant, Slab};
use clearway_wire::Addr;

use crate::hash::AddrHash;
use crate::ids::Table;

/// The smallest IPv4 path MTU that is believed: what Linux holds too, because nothing real is
/// smaller and every hostile message wants it so.
pub(crate) const MIN_V4: u32 = 552;
/// The smallest IPv6 path MTU (RFC 8200 5; RFC 8201 4 forbids to go below).
pub(crate) const MIN_V6: u32 = 1280;
/// How long a path MTU is believed before a larger one may be tried (RFC 8201 4: about ten
/// minutes).
const LIFETIME: Duration = Duration::from_secs(600);

struct PathMtu {
    table: Table,
    remote: Addr,
    mtu: u32,
    ends: Instant,
}

/// Path MTUs by destination.
pub(crate) struct PathMtus {
    map: FlowMap,
    entries: Slab<PathMtu>,
    hash: AddrHash,
    next_end: Instant,
}

impl PathMtus {
    /// Room for `capacity` destinations.
    pub(crate) fn new(capacity: u32, hash: AddrHash) -> PathMtus {
        PathMtus {
            map: FlowMap::new(capacity),
            entries: Slab::new(capacity),
            hash,
            next_end: Instant::NEVER,
        }
    }

    /// The path MTU to a destination when something smaller than the link's was learned.
    pub(crate) fn get(&self, table: Table, remote: &Addr) -> Option<u32> {
        if self.entries.is_empty() {
            return None;
        }
        self.entries.by_index(self.index(table, remote)?).map(|e| e.mtu)
    }

    fn index(&self, table: Table, remote: &Addr) -> Option<u32> {
        self.map.find(self.hash.of(u64::from(table.0), remote), |index| {
            self.entries.by_index(index).is_some_and(|e| e.table == table && e.remote == *remote)
        })
    }

    /// Notes a smaller path MTU; true when something changed. A larger one than known is not
    /// believed: it only ever comes by expiry.
    pub(crate) fn learn(&mut self, now: Instant, table: Table, remote: &Addr, mtu: u32) -> bool {
        let ends = now + LIFETIME;
        self.next_end = self.next_end.min(ends);
        if let Some(entry) =
            self.index(table, remote).and_then(|index| self.entries.by_index_mut(index))
        {
            let smaller = mtu < entry.mtu;
            if smaller {
                entry.mtu = mtu;
            }
            entry.ends = ends;
            return smaller;
        }
        if self.entries.is_full() {
            self.drop_oldest();
        }
        let Some(at) = self.entries.insert(PathMtu { table, remote: *remote, mtu, ends }) else {
            return false;
        };
        if self.map.insert(self.hash.of(u64::from(table.0), remote), at.index()).is_err() {
            self.entries.remove(at);
            return false;
        }
        true
    }

    fn drop_oldest(&mut self) {
        let oldest = self.entries.iter().min_by_key(|(_, e)| e.ends).map(|(at, _)| at.index());
        if let Some(index) = oldest {
            self.remove(index);
        }
    }

    fn remove(&mut self, index: u32) {
        let Some(at) = self.entries.handle_at(index) else { return };
        let Some(entry) = self.entries.remove(at) else { return };
        self.map
            .remove(self.hash.of(u64::from(entry.table.0), &entry.remote), |value| value == index);
    }

    /// Every entry: destination, path MTU, and when it ends.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Table, Addr, u32, Instant)> {
        self.entries.iter().map(|(_, e)| (e.table, e.remote, e.mtu, e.ends))
    }

    /// Notes a path MTU that was learned before and holds until `ends`, at the latest as long as
    /// one learned now; false when there is no room.
    pub(crate) fn restore(
        &mut self,
        now: Instant,
        (table, remote): (Table, &Addr),
        mtu: u32,
        ends: Instant,
    ) -> bool {
        self.learn(now, table, remote, mtu);
        let Some(entry) =
            self.index(table, remote).and_then(|index| self.entries.by_index_mut(index))
        else {
            return false;
        };
        entry.ends = entry.ends.min(ends);
        self.next_end = self.next_end.min(entry.ends);
        true
    }

    /// Forgets what is too old; true when something changed.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
        if now < self.next_end {
            return false;
        }
        self.next_end = Instant::NEVER;
        let mut changed = false;
        for index in 0..self.entries.capacity() {
            let Some(ends) = self.entries.by_index(index).map(|e| e.ends) else { continue };
            if ends <= now {
                self.remove(index);
                changed = true;
            } else {
                self.next_end = self.next_end.min(ends);
            }
        }
        changed
    }

    /// When [`PathMtus::expire`] has something to do.
    pub(crate) fn next_deadline(&self) -> Instant {
        self.next_end
    }
}

#[cfg(test)]
mod tests;
