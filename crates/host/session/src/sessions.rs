//! The sessions of one worker: what the processes' sockets are here.

mod carried;
mod claim;
mod close;
mod cut_throughs;
mod datagram;
mod datagram_fifos;
mod drain;
mod errors;
mod facts;
mod forwarder;
mod groups;
mod hold;
mod host_sockets;
mod info;
mod listener;
mod listening;
mod membership;
mod messages;
mod place;
mod queue_pair;
mod reclaim;
mod remote;
mod remote_listener;
mod rounds;
mod session_options;
mod stamps;
mod state;
mod stream;
mod turn;
mod verbs;

pub use drain::{Left, generation_of};
pub use info::{SessionInfo, SessionKind};
pub use membership::Wish;
pub use queue_pair::{QUEUE_PAIR_SLOTS, QueuePair};
pub use state::{
    Hears, HearsRouters, HostContext, MAX_SESSIONS, Session, SessionJob, Sessions, SessionsReport,
};
