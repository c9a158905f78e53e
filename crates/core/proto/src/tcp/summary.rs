//! Connections and listeners at one glance, for whoever shows them.

use clearway_wire::Endpoint;

use super::state::State;
use crate::ids::{ConnId, ListenerId, Table};

/// Who a connection belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holder {
    /// An owner, who gave it this word.
    Owner(u64),
    /// Nobody yet: it waits to be accepted from this listener.
    Listener(ListenerId),
    /// Nobody any more: it was closed, and waits for the peer.
    Nobody,
}

/// A connection at one glance; [`crate::Stack::info`] says more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnSummary {
    /// Its name, which only the owner's verbs take while there is an owner.
    pub conn: ConnId,
    /// The routing table of its packets.
    pub table: Table,
    /// Our side.
    pub local: Endpoint,
    /// The peer's side.
    pub remote: Endpoint,
    /// Its state.
    pub state: State,
    /// Whose it is.
    pub holder: Holder,
}

/// A listener at one glance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListenerSummary {
    /// Its name.
    pub listener: ListenerId,
    /// The routing table whose interfaces it listens on.
    pub table: Table,
    /// Address and port.
    pub local: Endpoint,
    /// The owner's word.
    pub token: u64,
    /// Handshakes in progress, and again finished ones that wait, at most.
    pub backlog: u32,
    /// Handshakes in progress.
    pub half_open: u32,
    /// Finished handshakes that wait to be accepted.
    pub pending: u32,
}
