//! The protocol core: Ethernet, ARP, NDP, IPv4, IPv6, ICMP, UDP and TCP, driven by the caller.
//!
//! Three verbs drive it: [`Stack::ingest`] takes packets, [`Stack::expire`] looks at timers, [`Stack::emit`] sends.
//! The first two only *mark* what has to be done; only the third sends. The core reads no clock, opens no socket,
//! starts no thread and allocates nothing after it was built.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod config;
pub mod counters;
pub mod error;
pub mod event;
pub mod limits;
pub mod store;

mod arp;
mod bind;
mod emit;
mod flow;
mod frag;
mod groups;
mod hash;
mod icmp;
mod iface;
mod ingest;
mod ip;
mod links;
mod listen_table;
mod local;
mod ndp;
mod neigh;
mod pmtu;
mod ports;
mod rate;
mod records;
mod reply;
mod route;
mod sip;
mod stack;
mod strays;
mod survey;
mod tcp;
mod udp;
mod ways;

#[cfg(test)]
mod testing;

pub use bind::{BindSpec, Sharing};
pub use config::{Config, Congestion, ConnOptions, Keepalive, TcpConfig, WhenFull};
pub use counters::{Counters, Drop};
pub use error::{BindError, ConnectError, Failure, ListenError, RecvError, SendError, Unreachable};
pub use event::{ConnEvents, Event, UdpEvents};
pub use groups::{FilterMode, GroupChange, GroupError, GroupInfo, MulticastOptions};
pub use iface::{AddError, AddressInfo, InterfaceInfo, InterfaceSpec, Link};
pub use ingest::BufferMaker;
pub use limits::Limits;
pub use neigh::{NeighbourInfo, NeighbourState};
pub use route::{NextHop, Route};
pub use stack::{BindId, BindTag, ConnId, ConnTag, ListenerId, ListenerTag, Stack, Table, UdpId, UdpTag};
pub use store::{Env, RxStore, TxStore};
pub use strays::Stray;
pub use survey::{ConnSummary, Holder, ListenerSummary, Population, Queues, QueuesMut, UdpSummary};
pub use tcp::{ConnectSpec, ListenSpec, Phase, State, TcpInfo};
pub use udp::{Datagram, MAX_UDP_SEGMENTS, UdpError, UdpOut, UdpSpec};
