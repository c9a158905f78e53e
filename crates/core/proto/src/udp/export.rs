//! UDP sockets as records ([`crate::export`]): what they are bound and connected to, what their
//! owners set, and their queues.

use alloc::vec::Vec;

use clearway_pkt::Iface;
use clearway_wire::{Addr, Endpoint};

use super::report::UdpFragmenting;
use super::{Arrival, Departure, Socket, Udp, UdpSpec, to_handle, to_id};
use crate::bind::Sharing;
use crate::export::{Fault, Fields, Imported, Kind, Reader, UNREACHABLE, Writer};
use crate::ids::{Table, UdpId};
use crate::net::groups::FilterMode;
use crate::net::groups::change::GroupChange;
use crate::net::ip::Ip;

/// No datagram is longer.
const MOST_BYTES: u64 = 65_535;

/// No socket's filter names more sources.
const MOST_SOURCES: u64 = 64;

/// A row of values of fixed length in a field: written one after the other, and read so.
struct Row<'a> {
    bytes: &'a mut Vec<u8>,
    /// How far they were read; when they are written, they are read nowhere.
    at: Option<usize>,
    short: bool,
}

impl Row<'_> {
    fn number(&mut self, value: &mut u64, len: usize) {
        match &mut self.at {
            None => self.bytes.extend_from_slice(&value.to_le_bytes()[..len]),
            Some(at) => {
                let bytes = self.bytes.get(*at..*at + len);
                self.short |= bytes.is_none();
                *value =
                    bytes.unwrap_or(&[]).iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
                *at += len;
            }
        }
    }

    fn u8(&mut self, value: &mut u8) {
        let mut number = (*value).into();
        self.number(&mut number, 1);
        *value = number as u8;
    }

    fn u16(&mut self, value: &mut u16) {
        let mut number = (*value).into();
        self.number(&mut number, 2);
        *value = number as u16;
    }

    fn addr(&mut self, value: &mut Addr) {
        let mut octets = *value.octets();
        octets.iter_mut().for_each(|byte| self.u8(byte));
        *value = Addr::v6(octets);
    }

    /// An interface or none, which is the number that no interface has.
    fn iface(&mut self, value: &mut Option<Iface>) {
        let mut number = value.map_or(u16::MAX, |iface| iface.0);
        self.u16(&mut number);
        *value = (number != u16::MAX).then_some(Iface(number));
    }

    fn payload(&mut self, value: &mut Vec<u8>) {
        let mut len = value.len() as u64;
        self.number(&mut len, 4);
        match &mut self.at {
            None => self.bytes.extend_from_slice(value),
            Some(at) => {
                let bytes = self.bytes.get(*at..(*at).saturating_add(len.min(MOST_BYTES) as usize));
                self.short |= bytes.is_none() || len > MOST_BYTES;
                *value = bytes.unwrap_or(&[]).to_vec();
                *at += value.len();
            }
        }
    }

    /// Whether there is more to read.
    fn goes_on(&self) -> bool {
        !self.short && self.at.is_some_and(|at| at < self.bytes.len())
    }
}

impl Arrival {
    fn row(&mut self, row: &mut Row<'_>) {
        // A record's length is what older ones have: the time is told by none, as where nobody told
        // the stack.
        let Arrival { from, to, tos, ttl, iface, segment_size, .. } = self;
        row.addr(&mut from.addr);
        row.u16(&mut from.port);
        row.addr(to);
        row.u8(tos);
        row.u8(ttl);
        row.u16(&mut iface.0);
        row.u16(segment_size);
    }
}

impl Departure {
    fn row(&mut self, row: &mut Row<'_>) {
        // Who hears of what has left is the owner here, not the one that takes it over.
        let Departure { from, to, tos, ttl, segment_size, via, .. } = self;
        row.addr(from);
        row.addr(&mut to.addr);
        row.u16(&mut to.port);
        row.u8(tos);
        row.u8(ttl);
        row.u16(segment_size);
        row.iface(via);
    }
}

const NOBODY: Endpoint = Endpoint::new(Addr::ANY_V4, 0);

impl Socket {
    /// Everything but memberships and queues. Places in lists, the way out and what it depends on
    /// are made anew.
    fn fields(&mut self, f: &mut impl Fields) {
        f.u16(2, &mut self.table.0);
        f.endpoint(3, &mut self.local);
        f.endpoint(5, &mut self.bound);
        let mut peer = self.remote.unwrap_or(NOBODY);
        f.endpoint(7, &mut peer);
        self.remote = (peer.port != 0).then_some(peer);
        f.bool(9, &mut self.dual);
        let Sharing { reuse_address, reuse_port, owner } = &mut self.sharing;
        f.bool(10, reuse_address);
        f.bool(11, reuse_port);
        f.u32(12, owner);
        f.u64(13, &mut self.token);
        f.u32(14, &mut self.cut);
        f.bool(15, &mut self.gro);
        f.u8(16, &mut self.tos);
        f.u8(17, &mut self.ttl);
        f.u16(18, &mut self.mtu);
        f.choice(19, &mut self.error, &UNREACHABLE);
        f.u8(20, &mut self.multicast.ttl);
        f.bool(21, &mut self.multicast.loop_back);
        f.bool(22, &mut self.multicast.all);
        let mut iface = self.multicast.iface.map_or(0, |iface| u32::from(iface.0) + 1);
        f.u32(23, &mut iface);
        self.multicast.iface = iface.checked_sub(1).and_then(|n| u16::try_from(n).ok()).map(Iface);
        let mut source = self.multicast.source.unwrap_or(Addr::ANY_V4);
        f.addr(33, &mut source);
        self.multicast.source = Some(source).filter(|source| !source.is_unspecified());
        f.bool(24, &mut self.wants_room);
        f.u8(25, &mut self.events.0);
        f.u64(26, &mut self.dropped);
        for (tag, family) in [27, 28].into_iter().zip(&mut self.fragmenting) {
            let UdpFragmenting { refused, dont_fragment, link_mtu_only } = family;
            let mut bits = u64::from(*refused)
                | u64::from(*dont_fragment) << 1
                | u64::from(*link_mtu_only) << 2;
            f.number(tag, &mut bits, 7);
            (*refused, *dont_fragment, *link_mtu_only) =
                (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
        }
    }

    fn export(&mut self, ip: &Ip, w: &mut Writer) {
        self.fields(w);
        // Errors that wait are lost, as the network may lose them.
        w.bool(29, &mut self.reports.is_some());
        let (mut memberships, mut received, mut written) = (Vec::new(), Vec::new(), Vec::new());
        let mut row = Row { bytes: &mut memberships, at: None, short: false };
        for (iface, mut group) in ip.groups.of_socket(self.joined) {
            let Some((mode, sources)) = ip.groups.filter(self.joined, iface, &group) else {
                continue;
            };
            row.u16(&mut { iface.0 });
            row.addr(&mut group);
            row.u8(&mut u8::from(mode == FilterMode::Exclude));
            row.u8(&mut (sources.len() as u8));
            sources.iter().for_each(|source| row.addr(&mut { *source }));
        }
        let mut row = Row { bytes: &mut received, at: None, short: false };
        for (arrival, payload) in self.rx.iter() {
            { *arrival }.row(&mut row);
            row.payload(&mut payload.to_vec());
        }
        let mut row = Row { bytes: &mut written, at: None, short: false };
        for (departure, payload) in self.tx.iter() {
            { *departure }.row(&mut row);
            row.payload(&mut payload.to_vec());
        }
        w.bytes(30, &mut memberships);
        w.bytes(31, &mut received);
        w.bytes(32, &mut written);
    }
}

impl Udp {
    /// Writes all sockets that somebody has. Those that share addresses come in the order in which
    /// they were bound.
    pub(crate) fn export(&mut self, ip: &Ip, w: &mut Writer) {
        let behind = |index: u32| self.chain(index).count();
        let mut all: Vec<(usize, u32)> = self
            .sockets
            .iter()
            .filter(|(_, s)| !s.closed)
            .map(|(handle, _)| (behind(handle.index()), handle.index()))
            .collect();
        all.sort_unstable();
        for (_, index) in all {
            let Some(mut id) = self.sockets.handle_at(index).map(|handle| handle.to_bits()) else {
                continue;
            };
            let Some(socket) = self.sockets.by_index_mut(index) else { continue };
            w.record(Kind::UdpSocket, |w| {
                w.u64(1, &mut id);
                socket.export(ip, w);
            });
        }
    }

    /// Makes a socket of a record.
    pub(crate) fn import(
        &mut self,
        ip: &mut Ip,
        r: &mut Reader<'_>,
        made: &mut Imported,
    ) -> Result<(), Fault> {
        let mut bits = 0;
        r.u64(1, &mut bits);
        let old = UdpId::from_bits(bits).ok_or(Fault::Field(1))?;
        if self.sockets.is_full() {
            return Err(Fault::Full);
        }
        let spec = UdpSpec { table: Table(0), local: NOBODY, token: 0, v6_only: false };
        let mut socket = self.fresh(&spec, NOBODY, &Sharing::default());
        socket.fields(r);
        let mut reports = false;
        r.bool(29, &mut reports);
        let (mut memberships, mut received, mut written) = (Vec::new(), Vec::new(), Vec::new());
        r.bytes(30, &mut memberships);
        r.bytes(31, &mut received);
        r.bytes(32, &mut written);
        r.check()?;
        if socket.bound.port == 0 || socket.local.port != socket.bound.port {
            return Err(Fault::Contradiction("a socket without a port of its own"));
        }
        if socket.remote.is_some_and(|peer| peer.addr.is_v4() != socket.local.addr.is_v4()) {
            return Err(Fault::Contradiction("a peer of another family"));
        }
        fill_queues(&mut socket, &mut received, &mut written)?;
        let (table, port, is_empty) = (socket.table, socket.bound.port, socket.tx.is_empty());
        let tells = socket.events.0 != 0 || !socket.rx.is_empty();
        let handle = self.sockets.insert(socket).ok_or(Fault::Full)?;
        let (index, hash) = (handle.index(), self.hash_of_port(table, port));
        if self.ports_taken.insert(&mut self.sockets, hash, index).is_err()
            || self.enter(index).is_err()
        {
            self.ports_taken.remove(&mut self.sockets, hash, index);
            self.sockets.remove(handle);
            return Err(Fault::Full);
        }
        let id = to_id(handle).ok_or(Fault::Full)?;
        self.set_reports(id, reports).map_err(|_| Fault::Missing)?;
        if let Err(why) = self.import_memberships(ip, id, &mut memberships) {
            self.close(&mut ip.groups, id);
            return Err(why);
        }
        if !is_empty {
            self.ready.push_back(&mut self.sockets.links(|s| &mut s.ready), index);
        }
        if tells {
            self.told.push_back(&mut self.sockets.links(|s| &mut s.told), index);
        }
        made.sockets.push((old, id));
        Ok(())
    }

    /// A socket becomes a member of the groups that its record names, as its owner had it join
    /// them.
    fn import_memberships(
        &mut self,
        ip: &mut Ip,
        id: UdpId,
        bytes: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let mut row = Row { bytes, at: Some(0), short: false };
        while row.goes_on() {
            let (mut iface, mut group, mut mode, mut count) = (0, Addr::ANY_V4, 0, 0);
            row.u16(&mut iface);
            row.addr(&mut group);
            row.u8(&mut mode);
            row.u8(&mut count);
            let mut sources = Vec::new();
            for _ in 0..u64::from(count).min(MOST_SOURCES) {
                let mut source = Addr::ANY_V4;
                row.addr(&mut source);
                sources.push(source);
            }
            if row.short || !group.is_multicast() {
                return Err(Fault::Field(30));
            }
            if ip.interface(Iface(iface)).is_none() {
                return Err(Fault::Missing);
            }
            let socket = to_handle(id)
                .and_then(|handle| self.sockets.get_mut(handle))
                .ok_or(Fault::Missing)?;
            let mode = if mode == 0 { FilterMode::Include } else { FilterMode::Exclude };
            let change = GroupChange::Filter(mode, &sources);
            ip.groups
                .change(&mut socket.joined, Iface(iface), group, change)
                .map_err(|_| Fault::Full)?;
        }
        if row.short { Err(Fault::Field(30)) } else { Ok(()) }
    }

    /// What UDP knows beside its sockets.
    pub(crate) fn state_fields(&mut self, f: &mut impl Fields) {
        f.bool(20, &mut self.reaches_out);
        let mut seed = self.rng.next_u64();
        f.u64(21, &mut seed);
        self.rng = clearway_base::Rng::seed(seed);
    }
}

/// Puts datagrams into the queues of a new socket.
fn fill_queues(
    socket: &mut Socket,
    received: &mut Vec<u8>,
    written: &mut Vec<u8>,
) -> Result<(), Fault> {
    let mut row = Row { bytes: received, at: Some(0), short: false };
    while row.goes_on() {
        let mut arrival = Arrival {
            from: NOBODY,
            to: Addr::ANY_V4,
            tos: 0,
            ttl: 0,
            iface: Iface(0),
            segment_size: 0,
            arrived: clearway_base::Duration::ZERO,
        };
        let mut payload = Vec::new();
        arrival.row(&mut row);
        row.payload(&mut payload);
        if row.short {
            return Err(Fault::Field(31));
        }
        if !socket.rx.push(arrival, &[&payload]) {
            return Err(Fault::Full);
        }
    }
    let mut row = Row { bytes: written, at: Some(0), short: false };
    while row.goes_on() {
        let mut departure = Departure {
            from: Addr::ANY_V4,
            to: NOBODY,
            tos: 0,
            ttl: 0,
            segment_size: 0,
            via: None,
            stamp: None,
        };
        let mut payload = Vec::new();
        departure.row(&mut row);
        row.payload(&mut payload);
        let mixed = departure.from.is_v4() != departure.to.addr.is_v4();
        if row.short || mixed || departure.to.port == 0 {
            return Err(Fault::Field(32));
        }
        if !socket.tx.push(departure, &[&payload]) {
            return Err(Fault::Full);
        }
    }
    let front = socket.tx.front().map_or(0, |(_, payload)| payload.len());
    if socket.cut != 0 && socket.cut as usize >= front {
        return Err(Fault::Contradiction("more of a datagram has left than there is"));
    }
    Ok(())
}
