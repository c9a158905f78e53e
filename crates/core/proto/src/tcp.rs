//! TCP (RFC 9293): the table of flows, the three phases of a connection's life, and what joins
//! them.
//!
//! Receiving, timers and the owner's verbs only *mark* a connection: something to send, an event, a
//! deadline, the end. `settle` then puts it on the lists that the marks ask for, so none of them
//! needs to know about lists.

mod ack;
mod ack_info;
mod active;
mod api;
mod black_hole;
mod cc;
mod clock;
mod cold;
mod congestion;
mod conn;
mod context;
mod cookie;
mod deadlines;
mod delivery;
mod ecn;
mod established;
mod export;
pub(crate) mod fast_open;
mod full;
mod held;
mod info;
mod isn;
mod limited;
mod linux_info;
pub(crate) mod listen_table;
mod loss;
mod marking;
mod marks;
mod mtu_search;
mod nagle;
mod open;
mod options;
mod output;
mod paced;
mod pacer;
mod passive;
mod payload;
mod prefetch;
mod probe;
mod rack;
mod ranges;
mod rare;
mod rare_stats;
mod rate;
mod rcv;
mod reasm;
mod records;
mod recovery;
mod retries;
mod right_size;
mod rtt;
mod sack;
mod seldom;
mod settings;
mod shortage;
mod sizes;
mod snd;
mod span;
mod state;
pub(crate) mod summary;
mod syn_rcvd;
mod table;
mod time_wait;
mod timers;
mod turn;
mod verbs;
mod window;

pub use api::{
    BbrInfo, Carried, ConnectSpec, EcnFeedback, EcnInfo, ListenSpec, Phase, RunningTimer, TcpInfo,
    TimerKind,
};
pub(crate) use context::{Arrival, Cx};
pub use state::State;
pub(crate) use table::Tcp;

#[cfg(test)]
mod tests;
