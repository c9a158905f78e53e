//! What was found out about the paths to peers, for the next who asks: one handshake asks three
//! times, and the next connection with the same peer asks again.
//!
//! The table is small and of fixed size, and who comes later takes the place of who was there
//! before: strangers who are many make each other look again at the routes, and no more. An entry
//! holds as long as the tables from which it was made
//! ([`Ip::generation`](crate::net::ip::Ip::generation)).

use alloc::boxed::Box;

use clearway_base::Handle;
use clearway_pkt::Iface;
use clearway_wire::Addr;

use crate::flow::FlowKey;
use crate::ids::Table;
use crate::net::neigh::Neighbour;

/// What a flow remembers of its path out, so that the next packet needs no lookup. The default is
/// unresolved.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct RouteCache {
    /// The state of the tables in which the rest is right; 0 never is.
    pub generation: u32,
    /// The longest IP packet, 65535 at most.
    pub mtu: u16,
    pub iface: Iface,
    /// None on a link without addresses.
    pub neighbour: Option<Handle<Neighbour>>,
}

impl RouteCache {
    /// The longest IP packet of the path that was last used; 0 before.
    pub(crate) fn mtu(&self) -> u32 {
        self.mtu.into()
    }
}

/// PathCache that are remembered: a power of two. An entry is a cache line.
const ENTRIES: usize = 256;

#[derive(Clone, Copy)]
struct Path {
    local: Addr,
    remote: Addr,
    /// The tables in which the rest is right; 0 never is.
    generation: u32,
    /// The longest IP packet of the first link.
    link_mtu: u32,
    table: Table,
    /// What is added to our clock in timestamps towards the peer; 0 while nobody has asked.
    ts_offset: u32,
    /// How packets leave, once one did.
    route: RouteCache,
}

/// The table.
pub(crate) struct PathCache {
    paths: Box<[Path]>,
}

impl PathCache {
    pub(crate) fn new() -> PathCache {
        let none = Path {
            local: Addr::ANY_V6,
            remote: Addr::ANY_V6,
            generation: 0,
            link_mtu: 0,
            table: Table(0),
            ts_offset: 0,
            route: RouteCache::default(),
        };
        PathCache { paths: alloc::vec![none; ENTRIES].into_boxed_slice() }
    }

    #[inline]
    fn place(&self, key: &FlowKey) -> usize {
        let low = |addr: &Addr| u128::from_ne_bytes(*addr.octets());
        let both = low(&key.remote) ^ low(&key.local).rotate_left(43);
        let folded = (both as u64).rotate_left(29) ^ (both >> 64) as u64 ^ u64::from(key.table.0);
        (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - ENTRIES.trailing_zeros())) as usize
    }

    #[inline]
    fn find(&self, generation: u32, key: &FlowKey) -> Option<&Path> {
        let path = self.paths.get(self.place(key))?;
        let is_it = path.generation == generation
            && path.remote == key.remote
            && path.local == key.local
            && path.table == key.table;
        is_it.then_some(path)
    }

    /// The longest IP packet of the first link from `key.local` to `key.remote`, if that is
    /// remembered.
    #[inline]
    pub(crate) fn link_mtu(&self, generation: u32, key: &FlowKey) -> Option<u32> {
        self.find(generation, key).map(|path| path.link_mtu)
    }

    /// How packets leave from `key.local` to `key.remote`, if that is remembered; the default
    /// otherwise.
    #[inline]
    pub(crate) fn route(&self, generation: u32, key: &FlowKey) -> RouteCache {
        self.find(generation, key).map_or(RouteCache::default(), |path| path.route)
    }

    /// Remembers a path; `route` is the default while nobody has asked how packets leave.
    pub(crate) fn put(&mut self, generation: u32, key: &FlowKey, link_mtu: u32, route: RouteCache) {
        let place = self.place(key);
        let ts_offset = self.find(generation, key).map_or(0, |path| path.ts_offset);
        if let Some(path) = self.paths.get_mut(place) {
            *path = Path {
                local: key.local,
                remote: key.remote,
                generation,
                link_mtu,
                table: key.table,
                ts_offset,
                route,
            };
        }
    }

    /// What `make` says of the two addresses, which is always the same; it is asked when that is
    /// not remembered.
    #[inline]
    pub(crate) fn ts_offset(
        &mut self,
        generation: u32,
        key: &FlowKey,
        make: impl FnOnce() -> u32,
    ) -> u32 {
        let Some(known) = self.find(generation, key).map(|path| path.ts_offset) else {
            return make();
        };
        if known != 0 {
            return known;
        }
        let (place, made) = (self.place(key), make());
        if let Some(path) = self.paths.get_mut(place) {
            path.ts_offset = made;
        }
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(last: u8, table: u16) -> FlowKey {
        let (local, remote) = (Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 1, last]));
        FlowKey { local, remote, local_port: 1, remote_port: 2, table: Table(table) }
    }

    #[test]
    fn a_path_is_remembered_for_its_ends_and_its_table_while_nothing_changed() {
        let mut paths = PathCache::new();
        paths.put(1, &key(7, 0), 1500, RouteCache::default());
        assert_eq!(paths.link_mtu(1, &key(7, 0)), Some(1500));
        let other_port = FlowKey { local_port: 9, remote_port: 9, ..key(7, 0) };
        assert_eq!(paths.link_mtu(1, &other_port), Some(1500));
        let turned = FlowKey { local: key(7, 0).remote, remote: key(7, 0).local, ..key(7, 0) };
        for (generation, key) in [(2, key(7, 0)), (1, key(8, 0)), (1, key(7, 1)), (1, turned)] {
            assert_eq!(paths.link_mtu(generation, &key), None, "{generation} {key:?}");
        }
    }

    #[test]
    fn an_offset_is_made_once_for_a_path_that_is_remembered() {
        let mut paths = PathCache::new();
        assert_eq!(paths.ts_offset(1, &key(7, 0), || 5), 5);
        // Nothing was known of the path, so that nothing was kept.
        assert_eq!(paths.ts_offset(1, &key(7, 0), || 6), 6);
        paths.put(1, &key(7, 0), 1500, RouteCache::default());
        assert_eq!(paths.ts_offset(1, &key(7, 0), || 7), 7);
        paths.put(1, &key(7, 0), 1400, RouteCache::default());
        assert_eq!(paths.ts_offset(1, &key(7, 0), || 8), 7);
        assert_eq!(paths.ts_offset(2, &key(7, 0), || 9), 9);
    }

    #[test]
    fn neighbouring_peers_have_places_of_their_own_mostly() {
        let mut paths = PathCache::new();
        for last in 0..128 {
            paths.put(1, &key(last, 0), 1500, RouteCache::default());
        }
        let kept = (0..128).filter(|&last| paths.link_mtu(1, &key(last, 0)).is_some()).count();
        assert!(kept > 64, "{kept} of 128");
    }

    #[test]
    fn an_entry_is_a_cache_line() {
        assert!(size_of::<Path>() <= 64, "{}", size_of::<Path>());
    }
}
