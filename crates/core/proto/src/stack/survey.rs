//! What a stack holds, for whoever shows it and for owners of stores: these verbs may walk tables,
//! and none is for the packet path.

use super::Stack;
use crate::ids::ConnId;
use crate::limits::Population;
use crate::store::{Env, RxStore, TxStore};
use crate::tcp::summary::{ConnSummary, Holder, ListenerSummary};
use crate::udp::UdpSummary;

/// What a connection keeps in the two stores.
pub type Queues<'a, E> = (
    &'a <<E as Env>::Rx as RxStore<<E as Env>::Buf>>::Queue,
    &'a <<E as Env>::Tx as TxStore>::Queue,
);

/// As [`Queues`], to be changed.
pub type QueuesMut<'a, E> = (
    &'a mut <<E as Env>::Rx as RxStore<<E as Env>::Buf>>::Queue,
    &'a mut <<E as Env>::Tx as TxStore>::Queue,
);

impl<E: Env> Stack<E> {
    /// Both stores, for what only the owner knows how to do with them. What a queue of theirs holds
    /// in sequence space is the stack's to say.
    pub fn stores(&mut self) -> (&mut E::Rx, &mut E::Tx) {
        self.tcp.stores_mut()
    }

    /// Both stores, to be looked at.
    pub fn stores_ref(&self) -> (&E::Rx, &E::Tx) {
        self.tcp.stores()
    }

    /// What a connection keeps in the two stores; None when the handle names none.
    pub fn queues(&self, conn: ConnId) -> Option<Queues<'_, E>> {
        self.tcp.owned(conn).map(|c| (&c.rx, &c.tx))
    }

    /// As [`Stack::queues`], to be changed.
    pub fn queues_mut(&mut self, conn: ConnId) -> Option<QueuesMut<'_, E>> {
        self.tcp.owned_mut(conn).map(|c| (&mut c.rx, &mut c.tx))
    }

    /// Whether two connections of this stack are the two ends of one: what each expects next is
    /// what the other has sent last, or is about to send. Numbers begin at random, so two
    /// connections that only have the same addresses do not agree in both.
    pub fn are_joined(&self, one: ConnId, other: ConnId) -> bool {
        self.tcp.expects(one, other) && self.tcp.expects(other, one)
    }

    /// The names of all connections that have an owner.
    pub fn conn_ids(&self) -> impl Iterator<Item = ConnId> + '_ {
        self.connections().filter(|c| matches!(c.holder, Holder::Owner(_))).map(|c| c.conn)
    }

    /// Every connection, whoever has it. Handshakes of strangers and TIME-WAIT are only counted, in
    /// [`Stack::population`].
    pub fn connections(&self) -> impl Iterator<Item = ConnSummary> + '_ {
        self.tcp.summaries()
    }

    /// Whether both ends of a connection are in this stack, as far as routes say.
    pub fn is_inside(&self, conn: &ConnSummary) -> bool {
        self.ip.stays_inside(conn.table, &conn.local.addr, &conn.remote.addr)
    }

    /// Every listener.
    pub fn listeners(&self) -> impl Iterator<Item = ListenerSummary> + '_ {
        self.tcp.listeners.summaries()
    }

    /// Every UDP socket.
    pub fn udp_sockets(&self) -> impl Iterator<Item = UdpSummary> + '_ {
        self.udp.summaries()
    }

    /// How many of each thing there are.
    pub fn population(&self) -> Population {
        Population { udp_sockets: self.udp.len(), ..self.tcp.population() }
    }

    /// The tables that connections and sockets fill: how many there are, and how many there may be.
    pub fn tables(&self) -> [(&'static str, u64, u64); 7] {
        let (held, limits) = (self.population(), &self.config.limits);
        let of = |count: u32, limit: u32| (u64::from(count), u64::from(limit));
        [
            ("connections", of(held.connections, limits.connections)),
            ("half-open", of(held.half_open, limits.half_open)),
            ("time-wait", of(held.time_wait, limits.time_wait)),
            ("orphans", of(held.orphans, limits.orphans)),
            ("orphan-memory", (held.orphan_bytes, limits.orphan_bytes)),
            ("listeners", of(held.listeners, limits.listeners)),
            ("udp-sockets", of(held.udp_sockets, limits.udp_sockets)),
        ]
        .map(|(name, (used, limit))| (name, used, limit))
    }
}

#[cfg(test)]
mod tests;
