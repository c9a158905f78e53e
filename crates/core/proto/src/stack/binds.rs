//! The owner's verbs for reserved ports.

use clearway_base::{Instant, Rng};
use clearway_wire::{Addr, Endpoint};

use super::Stack;
use crate::bind::{BindSpec, Sharing};
use crate::config::ConnOptions;
use crate::error::{BindError, ConnectError, ListenError};
use crate::ids::{BindId, ConnId, ListenerId};
use crate::store::Env;
use crate::tcp::fast_open::{FastOpenConnect, FastOpenListener};
use crate::tcp::{ConnectSpec, ListenSpec};

impl<E: Env> Stack<E> {
    /// Reserves a port for somebody who will listen or connect. Whoever binds, listens or connects
    /// without it keeps off.
    ///
    /// # Errors
    /// [`BindError`]: taken, not ours, no port free, or no place for one more reservation.
    pub fn bind(&mut self, spec: BindSpec) -> Result<BindId, BindError> {
        let addr = spec.local.addr;
        if !addr.is_unspecified() && !self.ip.is_ours(spec.table, &addr) {
            return Err(BindError::BadAddress);
        }
        let mut spec = spec;
        let is_numbered = spec.local.port != 0;
        if is_numbered {
            self.tcp.release_kept(&self.config, (spec.table, spec.local.port));
        }
        if !is_numbered {
            // A port that was not asked for by number is shared with nobody, as Linux prefers it
            // too.
            let alone = BindSpec { reuse_address: false, reuse_port: false, ..spec };
            let mut rng: Rng = self.ip.rng.fork();
            let free = |port| {
                self.tcp.port_is_free(&BindSpec { local: Endpoint::new(addr, port), ..alone })
            };
            // One that no connection has either, or who connects from it later may find its peer
            // connected to from there already.
            let unused = |port: &u16| !self.tcp.is_used(*port) && free(*port);
            let port = self.tcp.ports_from(&mut rng).find(unused);
            let port = port.or_else(|| self.tcp.ports_from(&mut rng).find(|port| free(*port)));
            spec.local.port = port.ok_or(BindError::NoPorts)?;
        } else if !self.tcp.port_is_free(&spec) {
            return Err(BindError::InUse);
        }
        self.tcp.room_for_bind(&self.config);
        self.tcp.binds.insert(spec, is_numbered).ok_or(BindError::TooMany)
    }

    /// Gives a reservation back. A listener or a connection that was made with it stays.
    pub fn unbind(&mut self, bind: BindId) {
        self.tcp.binds.remove(bind);
    }

    /// Gives a reservation back whose connection is about to be closed. If the port was asked for
    /// by number, it is free only when nothing is in the way of another connection between the
    /// same endpoints: until then who asks for it by number takes another, as on Linux.
    pub fn unbind_after(&mut self, bind: BindId, conn: ConnId) {
        self.tcp.unbind_after(&self.config, bind, conn)
    }

    /// From now on these may have the port beside it. Who has it already keeps it.
    pub fn set_bind_sharing(&mut self, bind: BindId, sharing: Sharing) {
        if let Some(spec) = self.tcp.binds.spec_mut(bind) {
            (spec.reuse_address, spec.reuse_port, spec.owner) =
                (sharing.reuse_address, sharing.reuse_port, sharing.owner);
        }
    }

    /// What was reserved, with the port that was chosen.
    pub fn bound_local(&self, bind: BindId) -> Option<Endpoint> {
        self.tcp.binds.spec(bind).map(|spec| spec.local)
    }

    /// As [`Stack::listen`], on a reserved port: table, address, port and `v6_only` are the
    /// reservation's, whatever `spec` says.
    ///
    /// # Errors
    /// As [`Stack::listen`], and [`ListenError::NoReservation`].
    pub fn listen_bound(
        &mut self,
        bind: BindId,
        spec: ListenSpec,
    ) -> Result<ListenerId, ListenError> {
        let bound = self.tcp.binds.spec(bind).ok_or(ListenError::NoReservation)?;
        let spec =
            ListenSpec { table: bound.table, local: bound.local, v6_only: bound.v6_only, ..spec };
        self.tcp.listen(spec, Some(bind))
    }

    /// Changes how many finished handshakes may wait at a listener. With `defer`, a handshake is
    /// not complete before data comes, for so many timeouts of the SYN-ACK (TCP_DEFER_ACCEPT of
    /// Linux). Handshakes that are complete are not touched.
    pub fn tune_listener(&mut self, listener: ListenerId, backlog: u32, defer: u8) {
        if let Some(listener) = self.tcp.listeners.get_mut(listener) {
            (listener.backlog, listener.defer) = (backlog, defer);
        }
    }

    /// What connections begin with that come to a listener from now on.
    pub fn set_listener_options(&mut self, listener: ListenerId, options: ConnOptions) {
        if let Some(listener) = self.tcp.listeners.get_mut(listener) {
            listener.set_options(options);
        }
    }

    /// Up to `pending` connections of a listener may be there whose data came with a SYN and whose
    /// handshakes are not complete (Fast Open, RFC 7413; TCP_FASTOPEN of Linux). Who asks for a
    /// cookie is given one. 0 ends that. The data of such a SYN may come twice, so only who can
    /// bear that asks for it (RFC 7413 2.1). While [`TcpConfig::fast_open`](crate::TcpConfig) does
    /// not let listeners, nothing comes of it.
    pub fn set_fast_open(&mut self, listener: ListenerId, how: FastOpenListener) {
        if let Some(listener) = self.tcp.listeners.get_mut(listener) {
            listener.fast_open = how;
        }
    }

    /// As [`Stack::connect`], and what is written before the next emit leaves with the SYN if the
    /// server gave us a cookie before (Fast Open, RFC 7413); otherwise the SYN asks for one. When
    /// it is lost, the next is an ordinary one, and for a while all to that server are.
    ///
    /// # Errors
    /// As [`Stack::connect`].
    pub fn connect_fast_open(
        &mut self,
        now: Instant,
        spec: ConnectSpec,
    ) -> Result<ConnId, ConnectError> {
        let conn = self.connect(now, spec)?;
        self.begin_fast_open(now, conn, FastOpenConnect::default());
        Ok(conn)
    }

    /// The same for a connection that was begun by [`Stack::connect_bound`], say, and of which
    /// nothing has left. True when the SYN leaves with the first bytes that are written. Where
    /// [`TcpConfig::fast_open`](crate::TcpConfig) does not let clients, nothing comes of it.
    pub fn begin_fast_open(&mut self, now: Instant, conn: ConnId, how: FastOpenConnect) -> bool {
        let mode = self.config.tcp.fast_open;
        let without_cookie = how.without_cookie || mode.client_without_cookie;
        let how = FastOpenConnect { without_cookie, ..how };
        mode.client && self.tcp.asks_fast_open(now, conn, how)
    }

    /// As [`Stack::connect`], from a reserved port: table and local side are the reservation's,
    /// whatever `spec` says.
    ///
    /// # Errors
    /// As [`Stack::connect`], and [`ConnectError::NoReservation`].
    pub fn connect_bound(
        &mut self,
        now: Instant,
        bind: BindId,
        spec: ConnectSpec,
    ) -> Result<ConnId, ConnectError> {
        let bound = self.tcp.binds.spec(bind).ok_or(ConnectError::NoReservation)?;
        let mut local = bound.local;
        if local.addr == Addr::ANY_V6 && !bound.v6_only && spec.remote.addr.is_v4() {
            local.addr = Addr::ANY_V4;
        }
        let spec = ConnectSpec { table: bound.table, local: Some(local), ..spec };
        self.tcp.set_now(now);
        let (tcp, mut cx) = self.split();
        tcp.connect(&mut cx, spec, Some(bind))
    }
}

#[cfg(test)]
mod tests;
