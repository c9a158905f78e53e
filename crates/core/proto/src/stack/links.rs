//! The verbs for interfaces, addresses, routes and neighbours. They are for the control plane: they
//! may walk tables and allocate.

use alloc::vec::Vec;

use clearway_base::Instant;
use clearway_pkt::Iface;
use clearway_wire::{Addr, Cidr, Endpoint, Mac, Proto, eth, icmpv4, icmpv6, ip as wire_ip, udp};

use super::Stack;
use crate::error::Unreachable;
use crate::flow::FlowKey;
use crate::ids::Table;
use crate::net::icmp::IcmpError;
use crate::net::iface::{
    AddError, AddressInfo, Interface, InterfaceInfo, InterfaceSpec, Link, MAX_MTU, MIN_MTU,
    link_local,
};
use crate::net::local::{Kind, may_be_ours};
use crate::net::neigh::NeighbourInfo;
use crate::net::pmtu::MIN_V6;
use crate::net::replies::{LinkWhat, ReplyLink};
use crate::net::route::{NextHop, Route, RouteError, masked};
use crate::net::routers::RouterNews;
use crate::store::Env;
use crate::tcp::Cx;
use crate::trace::Trace;
use crate::udp::UdpErrorReport;

/// Type and code of the ICMP errors that say what this host says to itself: nobody answers on the
/// link (RFC 792, RFC 4443 3.1).
const HOST_UNREACHABLE: (u8, u8) = (3, icmpv4::UNREACHABLE_HOST);
const ADDRESS_UNREACHABLE: (u8, u8) = (1, icmpv6::UNREACHABLE_ADDRESS);

impl From<RouteError> for AddError {
    fn from(why: RouteError) -> AddError {
        match why {
            RouteError::Full => AddError::Full,
            RouteError::Exists => AddError::Exists,
            RouteError::NoTable => AddError::NoTable,
        }
    }
}

impl<E: Env> Stack<E> {
    /// Adds an interface; it is up. An Ethernet interface gets an IPv6 link-local address when its
    /// MTU allows IPv6.
    ///
    /// # Errors
    /// [`AddError::Full`], [`AddError::BadMtu`], [`AddError::NoTable`], [`AddError::BadAddress`]
    /// for a link address that no host can have.
    pub fn add_interface(&mut self, spec: InterfaceSpec) -> Result<Iface, AddError> {
        if !(MIN_MTU..=MAX_MTU).contains(&spec.mtu) {
            return Err(AddError::BadMtu);
        }
        if spec.table.0 >= self.ip.routes.tables() {
            return Err(AddError::NoTable);
        }
        if matches!(spec.link, Link::Ethernet(mac) if mac.is_multicast() || mac == Mac::ZERO) {
            return Err(AddError::BadAddress);
        }
        let iface = self.ip.add_interface(Interface::new(&spec)).ok_or(AddError::Full)?;
        if let Link::Ethernet(mac) = spec.link {
            self.ip.neighbours.fit_frames(eth::HEADER_LEN + spec.mtu as usize);
            if spec.mtu >= MIN_V6 {
                // RFC 4291 2.1: every interface has one. A full address table is no reason to
                // refuse the interface.
                let cidr = Cidr { addr: link_local(mac), prefix_len: 64 };
                let _ = self.put_address(iface, cidr);
            }
        }
        Ok(iface)
    }

    /// Sets an interface up or down. While it is down nothing goes in or out; neighbours are
    /// forgotten.
    pub fn set_up(&mut self, iface: Iface, up: bool) {
        let Some(interface) = self.ip.ifaces.get_mut(usize::from(iface.0)) else { return };
        if interface.up == up {
            return;
        }
        interface.up = up;
        if up {
            self.ip.groups.tell_anew(iface);
        } else {
            self.ip.neighbours.forget(iface, None, &mut self.counters.neighbours);
        }
        self.ip.changed();
    }

    /// Changes an interface's MTU.
    ///
    /// # Errors
    /// [`AddError::NoInterface`]; [`AddError::BadMtu`] outside of what links have, or below 1280
    /// while there is an IPv6 address.
    pub fn set_mtu(&mut self, iface: Iface, mtu: u32) -> Result<(), AddError> {
        let has_v6 = self.ip.locals.unicast().any(|l| l.iface == iface && l.cidr.addr.is_v6());
        let interface =
            self.ip.ifaces.get_mut(usize::from(iface.0)).ok_or(AddError::NoInterface)?;
        if !(MIN_MTU..=MAX_MTU).contains(&mtu) || (has_v6 && mtu < MIN_V6) {
            return Err(AddError::BadMtu);
        }
        interface.mtu = mtu;
        if interface.is_ethernet() {
            self.ip.neighbours.fit_frames(eth::HEADER_LEN + mtu as usize);
        }
        self.ip.changed();
        Ok(())
    }

    /// Moves an interface to another routing table, with its addresses and the routes to their
    /// subnets. Connections that use them stay behind and end for want of an answer. When it cannot
    /// be, nothing changes.
    ///
    /// # Errors
    /// [`AddError::NoInterface`], [`AddError::NoTable`], [`AddError::Exists`] or [`AddError::Full`]
    /// when the other table cannot take its routes.
    pub fn set_interface_table(&mut self, iface: Iface, table: Table) -> Result<(), AddError> {
        let old = self.ip.interface(iface).ok_or(AddError::NoInterface)?.table;
        if table.0 >= self.ip.routes.tables() {
            return Err(AddError::NoTable);
        }
        if table == old {
            return Ok(());
        }
        let moved: Vec<Cidr> =
            self.addresses().filter(|a| a.iface == iface).map(|a| a.cidr).collect();
        for cidr in &moved {
            self.remove_address(iface, cidr.addr);
        }
        let result = self.put_all(iface, table, &moved);
        if result.is_err() {
            for cidr in &moved {
                self.remove_address(iface, cidr.addr);
            }
            // They fitted before, and nobody has taken their places.
            let _ = self.put_all(iface, old, &moved);
        }
        self.ip.changed();
        result
    }

    fn put_all(&mut self, iface: Iface, table: Table, addresses: &[Cidr]) -> Result<(), AddError> {
        let interface =
            self.ip.ifaces.get_mut(usize::from(iface.0)).ok_or(AddError::NoInterface)?;
        interface.table = table;
        addresses.iter().try_for_each(|cidr| self.put_address(iface, *cidr))
    }

    /// Changes the link address's address of an Ethernet interface. Its IPv6 link-local address
    /// follows, if it was made of the old one, and all addresses are announced anew with the next
    /// `emit`.
    ///
    /// # Errors
    /// [`AddError::NoInterface`], [`AddError::BadAddress`] when it is no Ethernet or the address is
    /// no host's.
    pub fn set_interface_mac(&mut self, iface: Iface, mac: Mac) -> Result<(), AddError> {
        let interface =
            self.ip.ifaces.get_mut(usize::from(iface.0)).ok_or(AddError::NoInterface)?;
        if !interface.is_ethernet() || mac.is_multicast() || mac == Mac::ZERO {
            return Err(AddError::BadAddress);
        }
        let old = core::mem::replace(&mut interface.mac, mac);
        interface.link = Link::Ethernet(mac);
        if self.remove_address(iface, link_local(old)) {
            // The place of the old one is free.
            let _ = self.put_address(iface, Cidr { addr: link_local(mac), prefix_len: 64 });
        }
        self.announce(iface);
        self.ip.changed();
        Ok(())
    }

    /// Tells the link anew which addresses we have, with the next `emit`: whoever knew them elsewhere
    /// looks here from now on. RFC 5227 2.3 wants it where an address begins to be used, and so it is
    /// where a port came back on which others may never have heard of us.
    pub fn announce(&mut self, iface: Iface) {
        if !self.ip.interface(iface).is_some_and(Interface::is_ethernet) {
            return;
        }
        let announced: Vec<Addr> =
            self.addresses().filter(|a| a.iface == iface).map(|a| a.cidr.addr).collect();
        for ours in announced {
            if !self.replies.link(ReplyLink { iface, ours, what: LinkWhat::Announcement }) {
                self.counters.icmp.replies_lost += 1;
            }
        }
    }

    /// Gives an interface an address and the route to its subnet, and announces it to the link (RFC
    /// 5227 2.3, RFC 4861 7.2.6) with the next `emit`. The address is used at once: no probe is
    /// made whether somebody else has it, but somebody who claims it is answered.
    ///
    /// # Errors
    /// [`AddError`]: no such interface, not the address of one host, there already, the tables are
    /// full, or an MTU too small for IPv6.
    pub fn add_address(&mut self, now: Instant, iface: Iface, cidr: Cidr) -> Result<(), AddError> {
        self.put_address(iface, cidr)?;
        let ours = cidr.addr;
        let is_ethernet = self.ip.interface(iface).is_some_and(Interface::is_ethernet);
        if is_ethernet && self.replies.link(ReplyLink { iface, ours, what: LinkWhat::Announcement })
        {
            if let Some(local) = self.ip.interface(iface).map(|i| i.table) {
                if let Some(local) = self.ip.locals.find_mut(local, iface, &ours) {
                    local.defended = Some(now);
                }
            }
        }
        Ok(())
    }

    /// Says whether an address of an interface is not for new connections while there is another
    /// (RFC 4862 5.5.4). False when there is no such address.
    pub fn deprecate_address(&mut self, iface: Iface, addr: Addr, deprecated: bool) -> bool {
        let Some(table) = self.ip.interface(iface).map(|i| i.table) else { return false };
        let local = self.ip.locals.find_mut(table, iface, &addr);
        let Some(local) = local.filter(|l| l.kind == Kind::Unicast && l.iface == iface) else {
            return false;
        };
        local.deprecated = deprecated;
        true
    }

    /// Hears the routers of an Ethernet interface from now on, or no more; what they say comes out
    /// of [`Stack::next_router_news`].
    ///
    /// # Errors
    /// [`AddError::NoInterface`]; [`AddError::BadAddress`] when it is no Ethernet,
    /// [`AddError::BadMtu`] below 1280, which IPv6 needs; [`AddError::Full`] for an interface
    /// behind the 64th.
    pub fn hear_routers(&mut self, iface: Iface, on: bool) -> Result<(), AddError> {
        let interface = self.ip.interface(iface).ok_or(AddError::NoInterface)?;
        if on && !interface.is_ethernet() {
            return Err(AddError::BadAddress);
        }
        if on && interface.mtu < MIN_V6 {
            return Err(AddError::BadMtu);
        }
        if self.ip.routers.watch(iface, on) || !on { Ok(()) } else { Err(AddError::Full) }
    }

    /// Asks the routers of a link to say who they are (RFC 4861 6.3.7); it leaves with the next
    /// `emit`. How often is the owner's to say.
    ///
    /// # Errors
    /// [`AddError::NoInterface`], [`AddError::BadAddress`] when it is no Ethernet,
    /// [`AddError::Full`] when too many answers wait to be sent.
    pub fn solicit_routers(&mut self, iface: Iface) -> Result<(), AddError> {
        let interface = self.ip.interface(iface).ok_or(AddError::NoInterface)?;
        if !interface.is_ethernet() {
            return Err(AddError::BadAddress);
        }
        let solicit = ReplyLink { iface, ours: Addr::ANY_V6, what: LinkWhat::RouterSolicit };
        if self.replies.link(solicit) { Ok(()) } else { Err(AddError::Full) }
    }

    /// The oldest news of routers, on interfaces where they are heard.
    #[inline]
    pub fn next_router_news(&mut self) -> Option<RouterNews<'_>> {
        if self.ip.routers.is_empty() {
            return None;
        }
        self.ip.routers.pop()
    }

    /// Looks out for somebody who has an address that is not ours, or probes for it as well, until
    /// [`Stack::unwatch_address`].
    ///
    /// # Errors
    /// [`AddError::NoInterface`], [`AddError::BadAddress`] for what no host has or what is not on
    /// an Ethernet link, [`AddError::Full`] when 64 addresses are watched.
    pub fn watch_address(&mut self, iface: Iface, addr: Addr) -> Result<(), AddError> {
        let interface = self.ip.interface(iface).ok_or(AddError::NoInterface)?;
        let whole = if addr.is_v4() { 32 } else { 128 };
        if !interface.is_ethernet() || !may_be_ours(&Cidr { addr, prefix_len: whole }) {
            return Err(AddError::BadAddress);
        }
        let is_new = !self.ip.probes.watches(iface, &addr);
        if !self.ip.probes.watch(iface, addr) {
            return Err(AddError::Full);
        }
        if is_new {
            // RFC 4862 5.4.2: who else probes for it is heard in its group.
            self.join_by_address(iface, &addr, true);
        }
        Ok(())
    }

    /// Asks the link once whether somebody has an address (RFC 5227 2.1.1, RFC 4862 5.4.2); it
    /// leaves with the next `emit`. How often and how long to wait is the owner's to say.
    ///
    /// # Errors
    /// [`AddError::NoInterface`], [`AddError::BadAddress`] for what is not on an Ethernet link,
    /// [`AddError::Full`] when too many answers wait to be sent.
    pub fn probe_address(&mut self, iface: Iface, addr: Addr) -> Result<(), AddError> {
        let interface = self.ip.interface(iface).ok_or(AddError::NoInterface)?;
        if !interface.is_ethernet() || addr.is_unspecified() {
            return Err(AddError::BadAddress);
        }
        let probe = ReplyLink { iface, ours: addr, what: LinkWhat::Probe };
        if self.replies.link(probe) { Ok(()) } else { Err(AddError::Full) }
    }

    /// Who has an address that is watched, as far as he has shown himself.
    pub fn address_holder(&self, iface: Iface, addr: Addr) -> Option<Mac> {
        self.ip.probes.found(iface, &addr)
    }

    /// Watches an address no more; who had it.
    pub fn unwatch_address(&mut self, iface: Iface, addr: Addr) -> Option<Mac> {
        if self.ip.probes.watches(iface, &addr) {
            self.join_by_address(iface, &addr, false);
        }
        self.ip.probes.unwatch(iface, &addr)
    }

    pub(super) fn put_address(&mut self, iface: Iface, cidr: Cidr) -> Result<(), AddError> {
        let interface = self.ip.interface(iface).ok_or(AddError::NoInterface)?;
        let (table, mtu, loopback) = (interface.table, interface.mtu, interface.is_loopback());
        if !may_be_ours(&cidr) || (cidr.addr.is_loopback() && !loopback) {
            return Err(AddError::BadAddress);
        }
        if cidr.addr.is_v6() && mtu < MIN_V6 {
            return Err(AddError::BadMtu);
        }
        match self.ip.locals.find(table, iface, &cidr.addr).map(|l| l.kind) {
            Some(Kind::Unicast) => return Err(AddError::Exists),
            Some(Kind::Broadcast) => return Err(AddError::BadAddress),
            None => {}
        }
        if !self.ip.locals.add(table, iface, cidr) {
            return Err(AddError::Full);
        }
        self.join_by_address(iface, &cidr.addr, true);
        // Link-local packets leave by the link of their source, and need no route.
        let routed = !(cidr.addr.is_v6() && cidr.addr.is_link_local());
        if routed {
            match self.ip.routes.add(table, cidr, NextHop::Interface(iface)) {
                // Another address of the subnet brought the route, or an operator chose another
                // way.
                Ok(()) | Err(RouteError::Exists) => {}
                Err(why) => {
                    self.ip.locals.remove(table, iface, &cidr.addr);
                    self.join_by_address(iface, &cidr.addr, false);
                    return Err(why.into());
                }
            }
        }
        self.ip.changed();
        Ok(())
    }

    /// The link-local address that an Ethernet interface has by itself (RFC 4291 2.1); None on
    /// other links.
    pub fn own_link_local(&self, iface: Iface) -> Option<Addr> {
        self.ip.interface(iface).filter(|i| i.is_ethernet()).map(|i| link_local(i.mac))
    }

    /// RFC 4291 2.8: who has an IPv6 address is in its solicited-node group.
    fn join_by_address(&mut self, iface: Iface, addr: &Addr, joins: bool) {
        if addr.is_v6() && self.ip.interface(iface).is_some_and(Interface::is_ethernet) {
            self.ip.groups.by_address(iface, &addr.solicited_node(), joins);
        }
    }

    /// Takes an address from its interface; false when it was not there. The route to the subnet
    /// goes with the last address in it.
    pub fn remove_address(&mut self, iface: Iface, addr: Addr) -> bool {
        let Some(table) = self.ip.interface(iface).map(|i| i.table) else { return false };
        let Some(gone) = self.ip.locals.remove(table, iface, &addr) else { return false };
        self.join_by_address(iface, &addr, false);
        let subnet = masked(addr, gone.cidr.prefix_len);
        let other = |l: &crate::net::local::Local| {
            l.iface == iface && masked(l.cidr.addr, l.cidr.prefix_len) == subnet
        };
        let ours =
            |r: &Route| r.table == table && r.dst == subnet && r.via == NextHop::Interface(iface);
        if !self.ip.locals.unicast().any(other) && self.ip.routes.iter().any(ours) {
            self.ip.routes.remove(table, subnet);
        }
        self.ip.changed();
        true
    }

    /// Adds a route. A gateway has to be a host that a route leads to already, or one on the link
    /// that is named with it.
    ///
    /// # Errors
    /// [`AddError::NoTable`], [`AddError::NoInterface`], [`AddError::BadGateway`],
    /// [`AddError::Exists`], [`AddError::Full`].
    pub fn add_route(&mut self, table: Table, dst: Cidr, via: NextHop) -> Result<(), AddError> {
        match via {
            NextHop::Interface(iface) | NextHop::GatewayOn { iface, .. }
                if self.ip.interface(iface).is_none() =>
            {
                return Err(AddError::NoInterface);
            }
            NextHop::Lookup(table) if table.0 >= self.ip.routes.tables() => {
                return Err(AddError::NoTable);
            }
            NextHop::Gateway(addr) | NextHop::GatewayOn { addr, .. } => {
                let nobody =
                    addr.is_unspecified() || addr.is_multicast() || addr.is_limited_broadcast();
                if nobody || addr.is_v4() != dst.addr.is_v4() {
                    return Err(AddError::BadAddress);
                }
                // What nothing leads to, or leads back to us, is no router.
                let leads =
                    matches!(via, NextHop::GatewayOn { .. }) || self.ip.is_routed(table, &addr);
                if !leads || self.ip.is_ours(table, &addr) {
                    return Err(AddError::BadGateway);
                }
            }
            _ => {}
        }
        self.ip.routes.add(table, dst, via)?;
        self.ip.changed();
        Ok(())
    }

    /// Takes a route away; false when there was none.
    pub fn remove_route(&mut self, table: Table, dst: Cidr) -> bool {
        let removed = self.ip.routes.remove(table, dst);
        self.ip.changed();
        removed
    }

    /// Sets a neighbour's link address for good: it is never asked for and never changes by itself.
    ///
    /// # Errors
    /// [`AddError::NoInterface`], [`AddError::BadAddress`], [`AddError::Full`].
    pub fn add_static_neighbour(
        &mut self,
        now: Instant,
        iface: Iface,
        addr: Addr,
        mac: Mac,
    ) -> Result<(), AddError> {
        let interface = self.ip.interface(iface).ok_or(AddError::NoInterface)?;
        if !interface.is_ethernet()
            || mac.is_multicast()
            || addr.is_multicast()
            || addr.is_unspecified()
        {
            return Err(AddError::BadAddress);
        }
        if self.ip.neighbours.set_permanent(now, iface, &addr, mac) {
            Ok(())
        } else {
            Err(AddError::Full)
        }
    }

    /// Forgets a neighbour, a static one too.
    pub fn remove_neighbour(&mut self, iface: Iface, addr: Addr) {
        self.ip.neighbours.forget(iface, Some(&addr), &mut self.counters.neighbours);
    }

    /// Every interface.
    pub fn interfaces(&self) -> impl Iterator<Item = InterfaceInfo> + '_ {
        self.ip.ifaces.iter().enumerate().map(|(at, i)| InterfaceInfo {
            iface: Iface(at as u16),
            link: i.link,
            up: i.up,
            mtu: i.mtu,
            table: i.table,
            offloads: i.offloads,
        })
    }

    /// Every address of every interface.
    pub fn addresses(&self) -> impl Iterator<Item = AddressInfo> + '_ {
        self.ip.locals.unicast().map(|l| AddressInfo {
            iface: l.iface,
            cidr: l.cidr,
            deprecated: l.deprecated,
        })
    }

    /// Whether packets of `table` to `addr` are for this host: its own addresses, and all of
    /// 127.0.0.0/8 that one of them has for its prefix (RFC 1122 3.2.1.3 g).
    pub fn is_ours(&self, table: Table, addr: &Addr) -> bool {
        self.ip.is_ours(table, addr)
    }

    /// Every route of every table.
    pub fn routes(&self) -> impl Iterator<Item = Route> + '_ {
        self.ip.routes.iter().copied()
    }

    /// Every neighbour that is known or asked for.
    pub fn neighbours(&self) -> impl Iterator<Item = NeighbourInfo> + '_ {
        self.ip.neighbours.iter()
    }

    /// The address of ours that packets to `remote` would come from; None when nothing leads there.
    pub fn source_for(&self, table: Table, remote: Addr) -> Option<Addr> {
        self.ip.source_for(table, &remote)
    }

    /// The address of this interface that packets to `remote` come from when they are to come from
    /// one of its; None when it has none of that family.
    pub fn source_of(&self, iface: Iface, remote: Addr) -> Option<Addr> {
        self.ip.source_of(iface, &remote)
    }

    /// The longest IP packet in bytes that the way to `remote` takes, as far as is known; None when
    /// nothing leads there.
    pub fn path_mtu(&self, table: Table, remote: Addr) -> Option<u32> {
        self.ip.path_mtu(table, &self.ip.source_for(table, &remote)?, &remote)
    }

    /// Looks at the timers below TCP.
    pub(crate) fn expire_links(&mut self, now: Instant) {
        self.ip.expire(now, &mut self.counters, &mut |iface, addr| {
            E::trace(Trace::NeighbourFailed { iface, addr });
        });
        while let Some((place, iface)) = self.ip.neighbours.next_unreached() {
            self.tell_unreached(now, place, iface);
            self.ip.neighbours.drop_unreached();
        }
        self.udp.expire(now, &mut self.counters);
        self.expire_fragments(now);
    }

    /// Tells whoever sent this frame that nobody on the link answers for the address that it must
    /// go to, as a router at the end of a route would (RFC 1122 3.2.2.1).
    #[cold]
    fn tell_unreached(&mut self, now: Instant, place: u32, iface: Iface) {
        let Stack { config, counters, ip, replies, tcp, udp, .. } = self;
        let Some((link_len, table)) = ip.interface(iface).map(|i| (i.link_len, i.table)) else {
            return;
        };
        let (frame, _) = ip.neighbours.frame(place);
        let Ok(quote) = wire_ip::quote(frame.get(usize::from(link_len)..).unwrap_or(&[])) else {
            return;
        };
        // A later fragment of a datagram has no ports; its first one waits here too, or was told
        // of.
        let Some((local_port, remote_port)) = quote.ports() else { return };
        let key = FlowKey { local: quote.src, remote: quote.dst, local_port, remote_port, table };
        if let Some(seq) = quote.tcp_seq() {
            tcp.set_now(now);
            let mut cx = Cx { now, config, counters, replies, ip };
            // Who sent it may have ended meanwhile.
            let _ = tcp.on_icmp_error(&mut cx, &key, seq, IcmpError::NoNeighbour);
        } else if quote.proto == Proto::UDP {
            let icmp = if key.local.is_v4() { HOST_UNREACHABLE } else { ADDRESS_UNREACHABLE };
            let to = Endpoint::new(key.remote, key.remote_port);
            let report = UdpErrorReport {
                why: Some(Unreachable::Host),
                to,
                offender: Some(key.local),
                icmp,
                mtu: 0,
                at: udp.calendar(),
            };
            udp.on_error(&key, &report, quote.upper.get(udp::HEADER_LEN..).unwrap_or(&[]));
        }
    }

    /// When [`Stack::expire_links`] has something to do.
    pub(crate) fn links_deadline(&self) -> Instant {
        self.ip
            .next_deadline()
            .min(self.scratch.fragments.next_deadline())
            .min(self.udp.next_deadline())
    }

    /// Whether something below TCP is to be sent.
    pub(crate) fn links_want_emit(&self) -> bool {
        self.ip.neighbours.wants_emit()
            || !self.replies.is_empty()
            || self.udp.wants_emit()
            || self.ip.groups.wants_emit()
    }
}
