//! What processes may know: a connection's inner values, and where their namespace leads.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError};

use clearway_proto::{InterfaceInfo, Link, NextHop, State};
use clearway_shm::attach_socket::{Info, Interface, InterfaceCounts, SessionId};
use nix::errno::Errno;

use super::place;
use super::state::{Sessions, What, gone};
use crate::env::HostStack;
use crate::errno::{Refusal, refuse};
use crate::interfaces::InterfaceEntry;
use crate::program::Program;

/// Addresses, each with the length of its prefix.
type Nets = Vec<(IpAddr, u8)>;

impl Sessions {
    /// TCP_INFO.
    pub fn tcp_info(
        &self,
        stack: &HostStack,
        program: &Arc<Program>,
        id: SessionId,
    ) -> Result<Info, Refusal> {
        let handle = self.session(program, id)?;
        let session = self.table.get(handle).ok_or_else(gone)?;
        match &session.what {
            What::Conn(conn) => {
                let info = stack.info(*conn).ok_or_else(gone)?;
                Ok(info.to_linux())
            }
            What::Listener(listening) => {
                let (waiting, most) = listening.fill();
                // As Linux has it: unacked is what waits, sacked is the backlog.
                Ok(Info {
                    state: State::Listen.linux_number(),
                    unacked: waiting,
                    sacked: most,
                    ..Info::default()
                })
            }
            What::Fresh => Ok(Info { state: State::Closed.linux_number(), ..Info::default() }),
            What::Datagrams(_) => {
                Err(refuse(Errno::ENOPROTOOPT, "a datagram socket has no TCP_INFO"))
            }
        }
    }

    /// The namespace's own addresses with their prefixes, and where its routes lead, longest prefix
    /// first.
    pub fn prefixes(&self, stack: &HostStack, program: &Program) -> (Nets, Nets) {
        let table = place::ground(&*self.context, stack, program).table;
        let in_table = |iface| stack.interfaces().any(|i| i.iface == iface && i.table == table);
        let local = stack.addresses().filter(|a| in_table(a.iface));
        let local = local.map(|a| (a.cidr.addr.into(), a.cidr.prefix_len)).collect();
        let leads = |via: &NextHop| !matches!(via, NextHop::Blackhole | NextHop::Unreachable);
        let mut routes: Nets = stack
            .routes()
            .filter(|r| r.table == table && leads(&r.via))
            .map(|r| (r.dst.addr.into(), r.dst.prefix_len))
            .collect();
        routes.sort_by_key(|(_, len)| std::cmp::Reverse(*len));
        (local, routes)
    }

    /// The namespace's interfaces, in the order in which they were made.
    pub fn interfaces(&self, stack: &HostStack, program: &Program) -> Vec<Interface> {
        let table = place::ground(&*self.context, stack, program).table;
        let names = self.context.interfaces().lock().unwrap_or_else(PoisonError::into_inner);
        let of_it = |iface| {
            stack
                .addresses()
                .filter(move |a| a.iface == iface)
                .map(|a| (a.cidr.addr.into(), a.cidr.prefix_len))
                .collect()
        };
        let known = |entry: &InterfaceEntry| {
            let info =
                stack.interfaces().find(|info| info.iface == entry.iface && info.table == table)?;
            Some(told(&info, &entry.name, of_it(info.iface)))
        };
        names.iter().filter_map(known).collect()
    }
}

/// An interface as processes are told of it.
fn told(info: &InterfaceInfo, name: &str, addresses: Vec<(IpAddr, u8)>) -> Interface {
    let (loopback, link_addr) = match info.link {
        Link::Ethernet(mac) => (false, Some(mac.0)),
        Link::Raw => (false, None),
        Link::Loopback => (true, None),
    };
    // Linux counts interfaces from 1, and so do the heads of datagrams.
    let number = u32::from(info.iface.0) + 1;
    Interface {
        number,
        name: name.to_owned(),
        up: info.up,
        loopback,
        mtu: info.mtu,
        link_addr,
        addresses,
        // Every worker counts what passes by it; who asks adds that up.
        counts: InterfaceCounts::default(),
    }
}
