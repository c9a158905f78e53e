//! The protocol core: Ethernet, ARP, NDP, IPv4, IPv6, ICMP, UDP and TCP, driven by the caller.
//!
//! Three verbs drive it: [`Stack::ingest`] takes packets, [`Stack::expire`] looks at timers,
//! [`Stack::emit`] sends. The first two only *mark* what has to be done; only the third sends. The
//! core reads no clock, opens no socket, starts no thread and allocates nothing after it was built,
//! but for the queues of datagram sockets, which grow by use.

#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc)]

extern crate alloc;

pub mod config;
pub mod counters;
pub mod error;
pub mod event;
pub mod export;
pub mod limits;
pub mod store;

mod bind;
mod chains;
mod flow;
mod hash;
mod ids;
mod net;
mod payload;
mod ports;
mod records;
mod stack;
mod tcp;
mod trace;
mod udp;

#[cfg(test)]
mod testing;

pub use bind::{BindSpec, Sharing};
pub use config::{
    Admission, Config, Congestion, ConnOptions, EcnMode, FastOpenKeys, FastOpenMode, Keepalive,
    MtuProbing, TcpConfig, WhenFull, fast_open_keys,
};
pub use counters::{Counters, Drop};
pub use error::{BindError, ConnectError, Failure, ListenError, RecvError, SendError, Unreachable};
pub use event::{ConnEvents, Event, UdpEvents};
pub use ids::{BindId, BindTag, ConnId, ConnTag, ListenerId, ListenerTag, Table, UdpId, UdpTag};
pub use limits::{Limits, Population};
pub use net::groups::FilterMode;
pub use net::groups::change::{GroupChange, GroupError, GroupInfo, MulticastOptions};
pub use net::iface::{AddError, AddressInfo, InterfaceInfo, InterfaceSpec, Link};
pub use net::neigh::{NeighbourInfo, NeighbourState};
pub use net::route::{NextHop, Route};
pub use net::routers::RouterNews;
pub use payload::BufferMaker;
pub use stack::Stack;
pub use stack::misdelivered::MisdeliveredPacket;
pub use stack::survey::{Queues, QueuesMut};
pub use store::{Env, RxStore, TxStore};
pub use tcp::fast_open::{FastOpenConnect, FastOpenListener};
pub use tcp::summary::{ConnSummary, Holder, ListenerSummary};
pub use tcp::{
    BbrInfo, Carried, ConnectSpec, EcnFeedback, EcnInfo, ListenSpec, Phase, RunningTimer, State,
    TcpInfo, TimerKind,
};
pub use trace::{Ends, Trace, TracedSegment};
pub use udp::{
    Datagram, MAX_UDP_SEGMENTS, UdpError, UdpErrorReport, UdpFragmenting, UdpLeft, UdpOut, UdpSpec,
    UdpStamp, UdpStamped, UdpSummary,
};
