//! The owner's verbs for the whole state as a value: what a stack holds is written, and another
//! stack goes on with it.

use alloc::vec::Vec;

use clearway_base::{Instant, Rng};
use clearway_pkt::{Iface, Offloads};
use clearway_wire::{Addr, Cidr, Endpoint, Mac};

use super::Stack;
use crate::bind::BindSpec;
use crate::export::{Fault, Fields, ImportError, Imported, Kind, Reader, Writer, read};
use crate::ids::{BindId, Table};
use crate::net::iface::{AddError, InterfaceInfo, InterfaceSpec, Link};
use crate::net::neigh::NeighbourState;
use crate::net::route::{NextHop, Route};
use crate::store::Env;

impl<E: Env> Stack<E> {
    /// Everything that a peer could notice and everything that owners set, as bytes
    /// ([`crate::export`]): interfaces, addresses, routes, neighbours, path MTUs, reserved ports,
    /// listeners, half-open connections, connections with their bytes, TIME-WAIT, and UDP sockets
    /// with their datagrams. Answers that wait to be sent, frames that wait for a neighbour and
    /// datagrams under reassembly are not in it: they are lost, as the network may lose them
    /// ([`Stack::has_packets_in_hand`]). Best done behind an `emit` that left nothing. This stack
    /// should do nothing any more afterwards.
    ///
    /// The second value says how many connections are missing because their store did not give all
    /// bytes ([`crate::RxStore::peek`]).
    pub fn export(&mut self, now: Instant) -> (Vec<u8>, u32) {
        self.tcp.set_now(now);
        let mut w = Writer::new(now);
        w.record(Kind::Stack, |w| self.state_fields(w));
        let interfaces: Vec<InterfaceInfo> = self.interfaces().collect();
        for mut info in interfaces {
            w.record(Kind::Interface, |w| interface_fields(&mut info, w));
        }
        for address in self.addresses() {
            w.record(Kind::Address, |w| {
                address_fields(&mut { address.iface }, &mut { address.cidr }, w)
            });
        }
        for route in self.routes() {
            w.record(Kind::Route, |w| route_fields(&mut { route }, w));
        }
        for n in self.neighbours() {
            let Some(mut mac) = n.mac else { continue };
            let (mut iface, mut addr) = (n.iface, n.addr);
            let mut permanent = n.state == NeighbourState::Permanent;
            w.record(Kind::Neighbour, |w| {
                neighbour_fields((&mut iface, &mut addr, &mut mac), &mut permanent, w)
            });
        }
        for (mut table, mut remote, mut mtu, mut ends) in self.ip.path_mtus.iter() {
            w.record(Kind::PathMtu, |w| {
                path_mtu_fields((&mut table, &mut remote), &mut mtu, &mut ends, w)
            });
        }
        for (id, mut spec) in self.tcp.binds.iter() {
            w.record(Kind::Bind, |w| bind_fields(&mut { id.to_bits() }, &mut spec, w));
        }
        let left_out = self.tcp.export(&mut w);
        self.udp.export(&self.ip, &mut w);
        (w.finish(), left_out)
    }

    /// Whether there are packets in hand that an export leaves out: answers that wait to be sent,
    /// frames that wait for a neighbour, datagrams under reassembly. Who cannot bear their loss
    /// exports at another moment.
    pub fn has_packets_in_hand(&self) -> bool {
        let asking = self.neighbours().any(|n| n.state == NeighbourState::Incomplete);
        asking || !self.replies.is_empty() || self.scratch.fragments.next_deadline().is_set()
    }

    /// Goes on with what another stack has written. This one has the same configuration, secret
    /// included, the same clock, and something to make buffers with ([`Stack::set_buffer_maker`]).
    /// An interface, an address, a route or a neighbour that is here already stays as it is;
    /// interfaces mean the same by their numbers.
    ///
    /// # Errors
    /// A record that is refused, and why. Those before it were taken, those behind it were not
    /// looked at.
    pub fn import(&mut self, now: Instant, export: &[u8]) -> Result<Imported, ImportError> {
        let mut made = Imported::default();
        self.tcp.begin_import(now);
        made.skipped = read(now, export, |kind, r| self.import_record(kind, r, &mut made))?;
        self.ip.changed();
        Ok(made)
    }

    fn import_record(
        &mut self,
        kind: Kind,
        r: &mut Reader<'_>,
        made: &mut Imported,
    ) -> Result<(), Fault> {
        match kind {
            Kind::Stack => {
                self.state_fields(r);
                r.check()
            }
            Kind::Interface => self.import_interface(r),
            Kind::Address => self.import_address(r),
            Kind::Route => self.import_route(r),
            Kind::Neighbour => self.import_neighbour(r),
            Kind::PathMtu => self.import_path_mtu(r),
            Kind::Bind => self.import_bind(r, made),
            Kind::Listener => self.tcp.import_listener(r, made),
            Kind::HalfOpen => self.tcp.import_syn_rcvd(r, made),
            Kind::Connection => {
                let (tcp, mut cx) = self.split();
                tcp.import_conn(&mut cx, r, made)
            }
            Kind::TimeWait => {
                let (tcp, cx) = self.split();
                tcp.import_wait(&cx, r)
            }
            Kind::UdpSocket => self.udp.import(&mut self.ip, r, made),
        }
    }

    /// What is known beside all tables.
    fn state_fields(&mut self, f: &mut impl Fields) {
        let mut seed = self.ip.rng.next_u64();
        f.u64(1, &mut seed);
        self.ip.rng = Rng::seed(seed);
        self.tcp.state_fields(f);
        self.udp.state_fields(f);
    }

    fn import_interface(&mut self, r: &mut Reader<'_>) -> Result<(), Fault> {
        let mut info = InterfaceInfo {
            iface: Iface(u16::MAX),
            link: Link::Raw,
            up: true,
            mtu: 0,
            table: Table(0),
            offloads: Offloads::default(),
        };
        interface_fields(&mut info, r);
        r.check()?;
        if self.ip.interface(info.iface).is_some() {
            return Ok(());
        }
        // Numbers are given in order, and records stand in it.
        if usize::from(info.iface.0) != self.ip.ifaces.len() {
            return Err(Fault::Missing);
        }
        let InterfaceInfo { iface, link, up, mtu, table, offloads } = info;
        self.add_interface(InterfaceSpec { link, mtu, offloads, table }).map_err(refused)?;
        // Its own address comes with its record, if it still has it.
        if let Some(own) = self.own_link_local(iface) {
            self.remove_address(iface, own);
        }
        self.set_up(iface, up);
        Ok(())
    }

    fn import_address(&mut self, r: &mut Reader<'_>) -> Result<(), Fault> {
        let (mut iface, mut cidr) = (Iface(u16::MAX), Cidr { addr: Addr::ANY_V4, prefix_len: 0 });
        address_fields(&mut iface, &mut cidr, r);
        r.check()?;
        kept(self.put_address(iface, cidr))
    }

    fn import_route(&mut self, r: &mut Reader<'_>) -> Result<(), Fault> {
        let mut route = Route {
            table: Table(0),
            dst: Cidr { addr: Addr::ANY_V4, prefix_len: 0 },
            via: NextHop::Blackhole,
        };
        route_fields(&mut route, r);
        r.check()?;
        if route.table.0 >= self.ip.routes.tables() {
            return Err(Fault::Missing);
        }
        // The route to a subnet came with the address in it.
        if self.routes().any(|known| known == route) {
            return Ok(());
        }
        kept(self.add_route(route.table, route.dst, route.via))
    }

    fn import_neighbour(&mut self, r: &mut Reader<'_>) -> Result<(), Fault> {
        let (mut iface, mut addr, mut mac, mut permanent) =
            (Iface(u16::MAX), Addr::ANY_V4, Mac::ZERO, false);
        neighbour_fields((&mut iface, &mut addr, &mut mac), &mut permanent, r);
        r.check()?;
        if permanent {
            return self.add_static_neighbour(r.now(), iface, addr, mac).map_err(refused);
        }
        let interface = self.ip.interface(iface).ok_or(Fault::Missing)?;
        if !interface.is_ethernet()
            || mac.is_multicast()
            || addr.is_multicast()
            || addr.is_unspecified()
        {
            return Err(Fault::Contradiction("a neighbour that cannot be one"));
        }
        // What was known is believed until it is used and does not answer. A full table forgets
        // somebody, as ever.
        self.ip.neighbours.learn(r.now(), iface, &addr, mac, &mut self.counters.neighbours);
        Ok(())
    }

    fn import_path_mtu(&mut self, r: &mut Reader<'_>) -> Result<(), Fault> {
        let (mut table, mut remote, mut mtu, mut ends) = (Table(0), Addr::ANY_V4, 0, r.now());
        path_mtu_fields((&mut table, &mut remote), &mut mtu, &mut ends, r);
        r.check()?;
        if !(crate::net::iface::MIN_MTU..=crate::net::iface::MAX_MTU).contains(&mtu) {
            return Err(Fault::Contradiction("an MTU that no path has"));
        }
        let restored = self.ip.path_mtus.restore(r.now(), (table, &remote), mtu, ends);
        restored.then_some(()).ok_or(Fault::Full)
    }

    fn import_bind(&mut self, r: &mut Reader<'_>, made: &mut Imported) -> Result<(), Fault> {
        let (mut bits, mut spec) = (
            0,
            BindSpec {
                table: Table(0),
                local: Endpoint::new(Addr::ANY_V4, 0),
                v6_only: false,
                reuse_address: false,
                reuse_port: false,
                owner: 0,
            },
        );
        bind_fields(&mut bits, &mut spec, r);
        r.check()?;
        let old = BindId::from_bits(bits).ok_or(Fault::Field(1))?;
        if spec.local.port == 0 {
            return Err(Fault::Contradiction("a reservation of no port"));
        }
        let id = self.tcp.binds.insert(spec, false).ok_or(Fault::Full)?;
        made.binds.push((old, id));
        Ok(())
    }
}

/// What is here already stays.
fn kept(result: Result<(), AddError>) -> Result<(), Fault> {
    match result {
        Ok(()) | Err(AddError::Exists) => Ok(()),
        Err(why) => Err(refused(why)),
    }
}

fn refused(why: AddError) -> Fault {
    match why {
        AddError::Full => Fault::Full,
        AddError::NoInterface | AddError::NoTable => Fault::Missing,
        AddError::Exists => Fault::Exists,
        AddError::BadAddress => Fault::Contradiction("an address that nobody can have there"),
        AddError::BadGateway => Fault::Contradiction("a gateway that nothing leads to"),
        AddError::BadMtu => Fault::Contradiction("an MTU that no link has"),
    }
}

/// A link address, which is six bytes.
fn mac_field(tag: u16, mac: &mut Mac, f: &mut impl Fields) {
    let mut bytes = mac.0.to_vec();
    f.bytes(tag, &mut bytes);
    match bytes.try_into() {
        Ok(bytes) => mac.0 = bytes,
        Err(_) => f.refuse(Fault::Field(tag)),
    }
}

/// An address with its prefix length, under `tag` and the next number.
fn cidr_field(tag: u16, cidr: &mut Cidr, f: &mut impl Fields) {
    f.addr(tag, &mut cidr.addr);
    f.u8(tag + 1, &mut cidr.prefix_len);
    match Cidr::new(cidr.addr, cidr.prefix_len) {
        Some(_) => {}
        None => f.refuse(Fault::Field(tag + 1)),
    }
}

fn interface_fields(info: &mut InterfaceInfo, f: &mut impl Fields) {
    let InterfaceInfo { iface, link, up, mtu, table, offloads } = info;
    f.u16(1, &mut iface.0);
    let (mut kind, mut mac) = match *link {
        Link::Raw => (0, Mac::ZERO),
        Link::Loopback => (1, Mac::ZERO),
        Link::Ethernet(mac) => (2, mac),
    };
    f.number(2, &mut kind, 2);
    mac_field(3, &mut mac, f);
    *link = match kind {
        0 => Link::Raw,
        1 => Link::Loopback,
        _ => Link::Ethernet(mac),
    };
    f.bool(4, up);
    f.u32(5, mtu);
    f.u16(6, &mut table.0);
    let Offloads { tx_checksum, trusted_link, tso4, tso6, uso, max_segmented_frame } = offloads;
    f.bool(7, tx_checksum);
    f.bool(8, trusted_link);
    f.bool(9, tso4);
    f.bool(10, tso6);
    f.bool(11, uso);
    f.u32(12, max_segmented_frame);
}

fn address_fields(iface: &mut Iface, cidr: &mut Cidr, f: &mut impl Fields) {
    f.u16(1, &mut iface.0);
    cidr_field(2, cidr, f);
}

fn route_fields(route: &mut Route, f: &mut impl Fields) {
    let Route { table, dst, via, .. } = route;
    f.u16(1, &mut table.0);
    cidr_field(2, dst, f);
    let (mut kind, mut iface, mut addr, mut next) = match *via {
        NextHop::Interface(iface) => (0, iface, Addr::ANY_V4, Table(0)),
        NextHop::GatewayOn { iface, addr } => (1, iface, addr, Table(0)),
        NextHop::Gateway(addr) => (2, Iface(0), addr, Table(0)),
        NextHop::Lookup(table) => (3, Iface(0), Addr::ANY_V4, table),
        NextHop::Blackhole => (4, Iface(0), Addr::ANY_V4, Table(0)),
        NextHop::Unreachable => (5, Iface(0), Addr::ANY_V4, Table(0)),
    };
    f.number(4, &mut kind, 5);
    f.u16(5, &mut iface.0);
    f.addr(6, &mut addr);
    f.u16(7, &mut next.0);
    *via = match kind {
        0 => NextHop::Interface(iface),
        1 => NextHop::GatewayOn { iface, addr },
        2 => NextHop::Gateway(addr),
        3 => NextHop::Lookup(next),
        4 => NextHop::Blackhole,
        _ => NextHop::Unreachable,
    };
}

fn neighbour_fields(
    (iface, addr, mac): (&mut Iface, &mut Addr, &mut Mac),
    permanent: &mut bool,
    f: &mut impl Fields,
) {
    f.u16(1, &mut iface.0);
    f.addr(2, addr);
    mac_field(3, mac, f);
    f.bool(4, permanent);
}

fn path_mtu_fields(
    (table, remote): (&mut Table, &mut Addr),
    mtu: &mut u32,
    ends: &mut Instant,
    f: &mut impl Fields,
) {
    f.u16(1, &mut table.0);
    f.addr(2, remote);
    f.u32(3, mtu);
    f.instant(4, ends);
}

fn bind_fields(id: &mut u64, spec: &mut BindSpec, f: &mut impl Fields) {
    let BindSpec { table, local, v6_only, reuse_address, reuse_port, owner } = spec;
    f.u64(1, id);
    f.u16(2, &mut table.0);
    f.endpoint(3, local);
    f.bool(5, v6_only);
    f.bool(6, reuse_address);
    f.bool(7, reuse_port);
    f.u32(8, owner);
}

#[cfg(test)]
mod tests;
