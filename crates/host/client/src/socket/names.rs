//! What a socket is called, and how it is told to behave.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;

use clearway_shm::attach_socket::{Field, GroupChange, Kind, Reply, Request, SocketOptions};
use clearway_shm::layout::{flags, option_word, request, state};

use crate::ready::ALL;
use crate::{Errno, Socket, destination};

/// Options that have to hold for the write that comes next: they bound it, or it is stamped.
const FOR_THE_NEXT_WRITE: [Field; 3] =
    [Field::SendBuffer, Field::NotsentLowat, Field::Timestamping];

impl Socket {
    /// Gives it its own address.
    ///
    /// # Errors
    /// As `bind(2)`: `EADDRINUSE`, `EADDRNOTAVAIL`, `EINVAL` when it has an address.
    pub fn bind(&self, local: SocketAddr) -> Result<(), Errno> {
        match self.ask(&Request::Bind { session: self.core.id(), local })? {
            Reply::Bound(local) => self.with(|socket| {
                socket.bound = Some(local);
                socket.local = socket.bound;
            }),
            _ => return Err(Errno::PROTO),
        }
        if self.core.kind == Kind::Datagram && self.core.rx().is_none() {
            // A bound datagram socket receives. Where its FIFOs lie is said on subscribing.
            self.ask_session(&Request::Subscribe { session: self.core.id() })?;
        }
        Ok(())
    }

    /// Listens, or changes the backlog.
    ///
    /// # Errors
    /// As `listen(2)`: `EADDRINUSE`, `EINVAL`; `ENFILE` at a limit.
    pub fn listen(&self, backlog: u32) -> Result<(), Errno> {
        self.ask_session(&Request::Listen { session: self.core.id(), backlog })?;
        self.core.backlog.store(backlog.max(1), std::sync::atomic::Ordering::Relaxed);
        self.client.hub().listens(self.core.key);
        // After a `shutdown` for reading, which ends listening.
        self.set_flag(flags::SHUT_READ | flags::SHUT_WRITE, false);
        Ok(())
    }

    /// Connects. None takes a datagram socket's peer away. A stream that does not block answers
    /// EINPROGRESS.
    ///
    /// # Errors
    /// As `connect(2)`: `EINPROGRESS`, `EALREADY`, `EISCONN`, `ECONNREFUSED`, `ETIMEDOUT`,
    /// `ENETUNREACH`, `EADDRNOTAVAIL`.
    pub fn connect(&self, remote: Option<SocketAddr>) -> Result<(), Errno> {
        self.connect_with(remote, 0)
    }

    /// The same with flags: with MSG_DONTWAIT the handshake is not waited for.
    ///
    /// # Errors
    /// As [`Socket::connect`].
    pub fn connect_with(&self, remote: Option<SocketAddr>, flags: i32) -> Result<(), Errno> {
        let remote = remote.map(|remote| destination(remote, || self.local().ip()));
        match self.core.kind {
            Kind::Datagram => {
                self.ask_session(&Request::Connect { session: self.core.id(), remote })
            }
            Kind::Stream => self.connect_stream(remote.ok_or(Errno::OPNOTSUPP)?, flags),
        }
    }

    fn connect_stream(&self, remote: SocketAddr, how: i32) -> Result<(), Errno> {
        let state = self.core.state();
        let begun = self.with(|socket| socket.connecting);
        if state & state::LISTENING != 0 {
            return Err(Errno::ISCONN);
        }
        if begun {
            return match state & state::CONNECTING != 0 && !self.blocks(how) {
                true => Err(Errno::ALREADY),
                false => self.finish_connect(),
            };
        }
        if state & state::CONNECTED != 0 {
            // Also when it failed since: only an attempt that failed is forgotten.
            return Err(Errno::ISCONN);
        }
        if !self.connect_by_message(remote)? {
            self.ask_to_connect(remote)?;
        }
        self.with(|socket| socket.connecting = true);
        let waits_for_data =
            self.options().fast_open_connect && self.core.state() & state::CONNECTING == 0;
        match self.blocks(how) || waits_for_data {
            true => self.finish_connect(),
            // Linux does not look whether it is done already either.
            false => Err(Errno::INPROGRESS),
        }
    }

    fn ask_to_connect(&self, remote: SocketAddr) -> Result<(), Errno> {
        let attachment = self.attachment()?;
        let again = self.flag(flags::DISCONNECTED);
        self.set_flag(flags::DISCONNECTED | flags::CONNECT_ASKED, false);
        let question = Request::Connect { session: self.core.id(), remote: Some(remote) };
        match self.ask_session(&question) {
            Ok(()) => {
                self.client.has_connected_to(&attachment, remote.ip());
                Ok(())
            }
            Err(errno) => {
                self.set_flag(flags::DISCONNECTED, again);
                Err(errno)
            }
        }
    }

    /// Connects without waiting for the worker, which finds a message. So only where all that
    /// `connect` of Linux says at once is known: there is a way to the peer, for one like it was
    /// connected to before. False: the host is to be asked.
    fn connect_by_message(&self, remote: SocketAddr) -> Result<bool, Errno> {
        let Some(line) = self.line.get().filter(|line| line.has_stream) else { return Ok(false) };
        let attachment = self.attachment()?;
        let options = self.options();
        let is_plain = self.core.words().state.load(Ordering::Acquire) == 0
            && !self.flag(flags::DISCONNECTED | flags::CONNECT_ASKED)
            && !self.is_bound()
            && (options.receive_buffer, options.send_buffer) == (0, 0)
            && !options.fast_open_connect;
        // Where the stack is inside of this process, a question is a call.
        if !is_plain
            || self.client.is_inside()
            || line.attachment != attachment.number
            || remote.port() == 0
            || remote.is_ipv6() != self.core.v6
            || !self.client.connected_to(&attachment, remote.ip())
        {
            return Ok(false);
        }
        let described = self.core.described(options);
        if described.rx.is_none() || described.tx.is_none() {
            return Ok(false);
        }
        let fifos = self.client.fifos(&attachment, self.core.app(), &described)?;
        let before = self.core.words().flags.fetch_or(flags::CONNECT_ASKED, Ordering::AcqRel);
        if before & flags::CONNECT_ASKED != 0 {
            // Another thread has just asked, and this one is told what comes of that.
            return Ok(false);
        }
        self.core.words().set_destination(remote);
        self.with(|socket| {
            socket.core.set_fifos(fifos);
            socket.remote = Some(remote);
        });
        attachment.push(self.message(request::CONNECT, 0), || self.client.poll_once());
        Ok(true)
    }

    /// The name of a stream that was connected by a message: in its words, as soon as the worker
    /// has heard of it, for which a question waits.
    fn name_of_asked(&self) -> Option<SocketAddr> {
        if !self.core.is_bound() {
            self.ask_session(&Request::Subscribe { session: self.core.id() }).ok()?;
            return self.with(|socket| socket.local);
        }
        let local = self.core.described(self.options()).local;
        self.with(|socket| socket.local = local);
        local
    }

    /// Waits for the handshake to end and says how it did.
    fn finish_connect(&self) -> Result<(), Errno> {
        let over = || self.core.state() & state::CONNECTING == 0 || !self.is_alive();
        if !over() {
            let waited = self.client.wait_for(&self.core, ALL, self.send_deadline(), over);
            waited
                .map_err(|errno| if errno == Errno::AGAIN { Errno::INPROGRESS } else { errno })?;
        }
        self.with(|socket| socket.connecting = false);
        let failed = self.core.state() & (state::CONNECTED | state::FAILED) != state::CONNECTED
            || !self.is_alive();
        let error = self.take_error();
        if failed {
            // It has a port that is shown, if it was given one.
            self.local();
            self.set_flag(flags::CONNECT_ASKED, false);
            self.set_flag(flags::SHUT_READ | flags::SHUT_WRITE, false);
            self.set_flag(flags::DISCONNECTED, true);
            // An address that only the attempt gave it is free again. Linux goes on showing the
            // port.
            let any = self.unspecified().ip();
            self.with(|socket| {
                let shown = socket.local.map(|local| SocketAddr::new(any, local.port()));
                socket.local = socket.bound.or(shown);
            });
        }
        match error {
            Some(errno) => Err(errno),
            None if failed => Err(Errno::CONNABORTED),
            None => Ok(()),
        }
    }

    /// getsockname. Before it is bound: the wildcard address and port 0.
    pub fn local(&self) -> SocketAddr {
        if self.core.is_unlearnt() {
            self.learn();
        }
        let known = self.with(|socket| socket.local);
        // A datagram socket that has sent something has a port, which the worker chose.
        let has_sent = || self.core.kind == Kind::Datagram && self.core.tx().is_some();
        let is_named = self.flag(flags::CONNECT_ASKED) || known.is_none() && has_sent();
        let asked = || is_named.then(|| self.name_of_asked()).flatten();
        known.or_else(asked).unwrap_or_else(|| self.unspecified())
    }

    /// getpeername. None while a stream is not connected, or not any more.
    pub fn remote(&self) -> Option<SocketAddr> {
        let phase = self.core.state() & (state::CONNECTED | state::FAILED | state::CLOSED);
        let connected = self.core.kind == Kind::Datagram || phase == state::CONNECTED;
        let known = self.with(|socket| socket.remote).filter(|_| connected);
        if known.is_none() && phase == state::CONNECTED {
            // Another process connected it.
            self.learn();
            return self.with(|socket| socket.remote);
        }
        known
    }

    /// Changes the membership of a datagram socket in a group, on the interface of this number; 0:
    /// as the route says.
    ///
    /// # Errors
    /// `EADDRINUSE` when it is a member, `EADDRNOTAVAIL` when it is none, `ENODEV`, `EINVAL`,
    /// `ENOBUFS` at a limit.
    pub fn change_group(
        &self,
        iface: u32,
        group: IpAddr,
        change: GroupChange,
    ) -> Result<(), Errno> {
        self.ask(&Request::Group { session: self.core.id(), iface, group, change }).map(drop)
    }

    /// The options as they were set last.
    pub fn options(&self) -> SocketOptions {
        SocketOptions { timestamping: self.stamping(), ..self.with(|socket| socket.options) }
    }

    /// Sets all of them. A stream refuses none, so its worker is told by the ring, and nobody
    /// waits, but for what the next write has to find.
    ///
    /// # Errors
    /// When the host is gone.
    pub fn set_options(&self, options: &SocketOptions) -> Result<(), Errno> {
        let told = match self.option_words(options) {
            Some(words) => self.tell_options(&words),
            None => {
                self.ask(&Request::Options { session: self.core.id(), options: *options }).map(drop)
            }
        };
        // One that comes back has them when it does.
        if told.is_err() && (self.is_alive() || !self.core.comes_back()) {
            return told;
        }
        self.set_flag(flags::OOB_INLINE, options.oob_inline);
        self.core.words().stamping.store(options.timestamping, Ordering::Release);
        self.core.heed(options);
        self.with(|socket| socket.options = *options);
        Ok(())
    }

    /// What a message says of each option that is another than before. None: the host is to be
    /// asked.
    fn option_words(&self, options: &SocketOptions) -> Option<Vec<u32>> {
        if self.core.kind != Kind::Stream {
            return None;
        }
        let known = self.options();
        let differs = |field: &&Field| known.get(**field) != options.get(**field);
        let mut fields: Vec<Field> = Field::ALL.iter().filter(differs).copied().collect();
        if fields.iter().any(|field| FOR_THE_NEXT_WRITE.contains(field)) {
            return None;
        }
        if fields.is_empty() {
            // Set once more it still sends what waits.
            fields.push(Field::Nodelay);
        }
        fields.into_iter().map(|field| option_word(field, options.get(field))).collect()
    }

    fn tell_options(&self, words: &[u32]) -> Result<(), Errno> {
        let attachment = self.attachment()?;
        // Bytes may wait for what was set. Otherwise the worker need not hear of it before it hears
        // of anything else.
        let may_act = self.unsent_bytes() > 0;
        for word in words {
            let message = self.message(request::OPTION, *word);
            let look = || self.client.poll_once();
            match may_act {
                true => attachment.push(message, look),
                false => attachment.push_quietly(message, look),
            }
        }
        Ok(())
    }
}
