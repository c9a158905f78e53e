//! What processes may know: a connection's inner values, and where their namespace leads.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError};

use clearway_proto::{InterfaceInfo, Link, NextHop, Phase, State, TcpInfo};
use clearway_shm::attach_socket::{Info, Interface, SessionId};
use nix::errno::Errno;

use super::verbs::gone;
use super::{HostStack, Sessions, What, place};
use crate::errno::{Refusal, refuse};
use crate::interfaces::InterfaceEntry;
use crate::program::Program;

impl Sessions {
    /// TCP_INFO.
    pub fn tcp_info(&self, stack: &HostStack, program: &Arc<Program>, id: SessionId) -> Result<Info, Refusal> {
        let handle = self.session(program, id)?;
        let session = self.table.get(handle).ok_or_else(gone)?;
        match &session.what {
            What::Conn(conn) => {
                let info = stack.info(*conn).ok_or_else(gone)?;
                Ok(converted(&info))
            }
            What::Listener(listening) => {
                let (waiting, most) = listening.fill();
                // As Linux has it: unacked is what waits, sacked is the backlog.
                Ok(Info { state: State::Listen.linux_number(), unacked: waiting, sacked: most, ..Info::default() })
            }
            What::Fresh => Ok(Info { state: State::Closed.linux_number(), ..Info::default() }),
            What::Datagrams(_) => Err(refuse(Errno::ENOPROTOOPT, "a datagram socket has no TCP_INFO")),
        }
    }

    /// The namespace's own addresses, and where its routes lead, longest prefix first.
    pub fn prefixes(&self, stack: &HostStack, program: &Program) -> (Vec<IpAddr>, Vec<(IpAddr, u8)>) {
        let table = place::ground(&*self.context, stack, program).table;
        let in_table = |iface| stack.interfaces().any(|i| i.iface == iface && i.table == table);
        let local = stack.addresses().filter(|a| in_table(a.iface)).map(|a| a.cidr.addr.into()).collect();
        let leads = |via: &NextHop| !matches!(via, NextHop::Blackhole | NextHop::Unreachable);
        let mut routes: Vec<(IpAddr, u8)> = stack
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
            let info = stack.interfaces().find(|info| info.iface == entry.iface && info.table == table)?;
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
    Interface { number, name: name.to_owned(), up: info.up, loopback, mtu: info.mtu, link_addr, addresses }
}

/// TCPI_OPT_TIMESTAMPS, TCPI_OPT_SACK, TCPI_OPT_WSCALE.
const OPT_TIMESTAMPS: u8 = 1;
const OPT_SACK: u8 = 2;
const OPT_WSCALE: u8 = 4;

fn converted(info: &TcpInfo) -> Info {
    let mss = u32::from(info.snd_mss).max(1);
    let micros = |d: clearway_base::Duration| u32::try_from(d.as_micros()).unwrap_or(u32::MAX);
    let millis = |d: clearway_base::Duration| u32::try_from(d.as_millis()).unwrap_or(u32::MAX);
    let segments = |bytes: u32| bytes.div_ceil(mss);
    let mut options = 0;
    if info.timestamps {
        options |= OPT_TIMESTAMPS;
    }
    if info.sack {
        options |= OPT_SACK;
    }
    if info.snd_wscale.is_some() {
        options |= OPT_WSCALE;
    }
    Info {
        state: info.state.linux_number(),
        ca_state: match info.phase {
            Phase::Open => 0,
            Phase::Disorder => 1,
            Phase::Recovery => 3,
            Phase::Loss => 4,
        },
        retransmits: u8::try_from(info.retransmits).unwrap_or(u8::MAX),
        probes: info.probes,
        backoff: info.backoff,
        options,
        snd_wscale: info.snd_wscale.unwrap_or(0),
        rcv_wscale: info.rcv_wscale.unwrap_or(0),
        rto: micros(info.rto),
        ato: micros(info.ato),
        snd_mss: info.snd_mss.into(),
        rcv_mss: info.rcv_mss.into(),
        advmss: info.advertised_mss.into(),
        pmtu: info.path_mtu,
        rtt: micros(info.rtt),
        rttvar: micros(info.rttvar),
        min_rtt: micros(info.min_rtt),
        snd_ssthresh: if info.ssthresh == u32::MAX { i32::MAX as u32 } else { info.ssthresh / mss },
        snd_cwnd: info.cwnd / mss,
        snd_wnd: info.snd_wnd,
        rcv_wnd: info.rcv_wnd,
        unacked: segments(info.unacked),
        sacked: segments(info.sacked),
        lost: segments(info.lost),
        retrans: segments(info.retransmitted),
        total_retrans: info.total_retransmits,
        reordering: info.reordering,
        dsack_dups: info.dsack_dups,
        reord_seen: info.reord_seen,
        rcv_ooopack: info.rcv_ooo_segs,
        rcv_space: info.rcv_space,
        last_data_sent: millis(info.last_data_sent),
        last_data_recv: millis(info.last_data_received),
        last_ack_recv: millis(info.last_ack_received),
        notsent_bytes: info.unsent,
        bytes_acked: info.bytes_acked,
        bytes_received: info.bytes_received,
        bytes_sent: info.bytes_sent,
        bytes_retrans: info.bytes_retransmitted,
        segs_out: info.segs_out,
        segs_in: info.segs_in,
        data_segs_in: info.data_segs_in,
        data_segs_out: info.data_segs_out,
        delivered: info.delivered,
        delivery_rate: info.delivery_rate,
        delivery_rate_app_limited: info.delivery_rate_app_limited,
        pacing_rate: 0,
        busy_time: info.busy.as_micros(),
        rwnd_limited: info.rwnd_limited.as_micros(),
        sndbuf_limited: info.sndbuf_limited.as_micros(),
    }
}
