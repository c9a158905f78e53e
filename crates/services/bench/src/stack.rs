//! Client and server inside the engine's turn.

use clearway_base::{Duration, Instant};
use clearway_engine::{App, Time};
use clearway_proto::{
    ConnEvents, ConnId, ConnOptions, ConnectError, ConnectSpec, Env, Event, Failure, ListenSpec,
    ListenerId, NeighbourState, Stack, Table, UdpError, UdpId, UdpSpec,
};
use clearway_wire::{Addr, Endpoint};

use crate::client::{Client, ClientReport, Ending};
use crate::net::{Net, OpenError, Token};
use crate::plan::{ClientPlan, Protocol, ServerPlan};
use crate::server::{Answerer, Line, ServerReport, Talk};

/// Handshakes in progress, and finished ones that were not yet accepted, at most.
const BACKLOG: u32 = 16_384;

/// As the stack has it for all of its connections, such as the congestion control.
fn options<E: Env>(stack: &Stack<E>) -> ConnOptions {
    ConnOptions { nodelay: true, ..*stack.defaults() }
}

struct TcpNet<'a, E: Env> {
    stack: &'a mut Stack<E>,
    server: Endpoint,
}

impl<E: Env> Net for TcpNet<'_, E> {
    type Id = ConnId;

    fn open(
        &mut self,
        now: Instant,
        token: Token,
        from: Option<Endpoint>,
    ) -> Result<ConnId, OpenError> {
        let spec = ConnectSpec {
            table: Table(0),
            local: from,
            remote: self.server,
            token: token.to_bits(),
            options: options(self.stack),
        };
        self.stack.connect(now, spec).map_err(|why| match why {
            ConnectError::InUse => OpenError::Taken,
            why => OpenError::Failed(format!("cannot connect to {}: {why}", self.server)),
        })
    }

    #[inline]
    fn send(&mut self, _token: Token, id: ConnId, bytes: &[u8]) -> usize {
        // A connection that failed takes nothing; its event is on the way.
        self.stack.send(id, bytes).unwrap_or(0)
    }

    fn shutdown(&mut self, id: ConnId) {
        // An error means that it is shut down or gone already.
        let _ = self.stack.shutdown(id);
    }

    fn close(&mut self, id: ConnId) {
        self.stack.close(id);
    }

    fn abort(&mut self, id: ConnId) {
        self.stack.abort(id);
    }
}

struct UdpNet<'a, E: Env> {
    stack: &'a mut Stack<E>,
    server: Endpoint,
}

impl<E: Env> Net for UdpNet<'_, E> {
    type Id = UdpId;

    fn open(
        &mut self,
        _now: Instant,
        token: Token,
        from: Option<Endpoint>,
    ) -> Result<UdpId, OpenError> {
        let any = if self.server.addr.is_v4() { Addr::ANY_V4 } else { Addr::ANY_V6 };
        let local = from.unwrap_or(Endpoint::new(any, 0));
        let spec = UdpSpec { table: Table(0), local, token: token.to_bits(), v6_only: false };
        let why = |why| match why {
            UdpError::InUse => OpenError::Taken,
            why => OpenError::Failed(format!("cannot send to {}: {why:?}", self.server)),
        };
        let socket = self.stack.udp_bind(spec).map_err(why)?;
        match self.stack.udp_connect(socket, self.server) {
            Ok(()) => Ok(socket),
            Err(error) => {
                self.stack.udp_close(socket);
                Err(why(error))
            }
        }
    }

    #[inline]
    fn send(&mut self, _token: Token, id: UdpId, bytes: &[u8]) -> usize {
        match self.stack.udp_send(id, None, None, bytes) {
            Ok(()) => bytes.len(),
            // Full: the stack tells when there is room. Anything else ends in the timeout of the
            // answer.
            Err(_) => 0,
        }
    }

    fn shutdown(&mut self, _id: UdpId) {}

    fn close(&mut self, id: UdpId) {
        self.stack.udp_close(id);
    }

    fn abort(&mut self, id: UdpId) {
        self.stack.udp_close(id);
    }
}

enum Kind {
    Tcp(Client<ConnId>),
    Udp(Client<UdpId>),
}

/// Whether it is known which way the server lies. Packets that wait for a neighbour's address are
/// few by design, so that the first requests of many connections would be lost.
#[derive(Clone, Copy)]
enum Way {
    Unknown,
    /// A packet that nobody wants is on its way there.
    Asked(UdpId, Instant),
    Known,
}

/// The discard service (RFC 863): whoever gets something there throws it away.
const DISCARD: u16 = 9;

/// How long a neighbour may take to tell its address; after that requests are made all the same.
const NEIGHBOUR_WITHIN: Duration = Duration::from_secs(2);

/// How often one looks whether it did.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

impl Way {
    fn is_known<E: Env>(&mut self, now: Instant, stack: &mut Stack<E>, server: &Endpoint) -> bool {
        match *self {
            Way::Known => true,
            Way::Unknown => {
                let any = if server.addr.is_v4() { Addr::ANY_V4 } else { Addr::ANY_V6 };
                let spec = UdpSpec {
                    table: Table(0),
                    local: Endpoint::new(any, 0),
                    token: 0,
                    v6_only: true,
                };
                let to = Endpoint::new(server.addr, DISCARD);
                *self = match stack.udp_bind(spec) {
                    Ok(socket) if stack.udp_send(socket, to, None, &[]).is_ok() => {
                        Way::Asked(socket, now)
                    }
                    Ok(socket) => {
                        stack.udp_close(socket);
                        Way::Known
                    }
                    Err(_) => Way::Known,
                };
                matches!(self, Way::Known)
            }
            Way::Asked(socket, since) => {
                let waits = stack.wants_emit()
                    || stack.neighbours().any(|n| n.state == NeighbourState::Incomplete);
                if waits && now.since(since) < NEIGHBOUR_WITHIN {
                    return false;
                }
                stack.udp_close(socket);
                *self = Way::Known;
                true
            }
        }
    }
}

/// A client as an application of the engine.
pub struct ClientApp {
    kind: Kind,
    server: Endpoint,
    way: Way,
    now: Instant,
    /// Told and not yet looked at; empty between two turns.
    events: Vec<Event>,
    had_work: bool,
}

/// Events that are taken together, so that what the later ones need is on its way while the earlier
/// ones are looked at.
const TOGETHER: usize = 64;

/// Takes some events; false when there was none.
#[inline]
fn take_events<E: Env>(
    events: &mut Vec<Event>,
    stack: &mut Stack<E>,
    prefetch: impl Fn(Token),
) -> bool {
    while events.len() < TOGETHER {
        let Some(event) = stack.next_event() else { break };
        if let Event::Conn { token, .. } = event {
            prefetch(Token::from_bits(token));
        }
        events.push(event);
    }
    !events.is_empty()
}

macro_rules! each {
    ($app:expr, $client:ident => $call:expr) => {
        match &$app.kind {
            Kind::Tcp($client) => $call,
            Kind::Udp($client) => $call,
        }
    };
}

impl ClientApp {
    /// A client that asks `server`. What it gives must hold all connections: the limits of its
    /// stack are the caller's to set.
    pub fn new(
        plan: ClientPlan,
        server: Endpoint,
        sources: Option<crate::Sources>,
        start: std::sync::Arc<crate::Start>,
        now: Instant,
    ) -> ClientApp {
        let kind = match plan.protocol {
            Protocol::Tcp => Kind::Tcp(Client::new(plan, sources, start, now)),
            Protocol::Udp => Kind::Udp(Client::new(plan, sources, start, now)),
        };
        ClientApp {
            kind,
            server,
            way: Way::Unknown,
            now,
            events: Vec::with_capacity(TOGETHER),
            had_work: false,
        }
    }
}

fn in_words(why: Option<Failure>) -> &'static str {
    match why {
        Some(Failure::Reset) => "reset by the server",
        Some(Failure::Refused) => "refused by the server; is it listening there?",
        Some(Failure::TimedOut | Failure::UserTimeout | Failure::KeepaliveTimedOut) => {
            "the server does not answer"
        }
        Some(Failure::Unreachable(_)) => "the network says that the server cannot be reached",
        Some(Failure::NoMemory) => "no memory",
        Some(Failure::Broken | Failure::Killed) | None => "the connection broke",
    }
}

#[inline]
fn on_tcp_event<E: Env>(
    client: &mut Client<ConnId>,
    net: &mut TcpNet<'_, E>,
    now: Instant,
    conn: ConnId,
    token: Token,
    what: ConnEvents,
) {
    if !client.owns(token, conn) {
        return;
    }
    if what.has(ConnEvents::CONNECTED) {
        client.on_connected(net, now, token);
    }
    // Answers that came before the connection failed are answers too.
    loop {
        let bytes = net.stack.recv(conn).unwrap_or_default();
        let len = bytes.len();
        if len == 0 {
            break;
        }
        if let Err(why) = client.on_bytes(now, token, bytes) {
            client.give_up(why.0.into());
            return;
        }
        // What lies together is shorter than 4 GiB.
        net.stack.consumed(conn, len as u32);
    }
    if what.has(ConnEvents::FAILED) {
        let why = in_words(net.stack.failure(conn));
        client.on_ended(net, now, token, Ending::Failed(why));
        return;
    }
    let is_over = what.has(ConnEvents::PEER_CLOSED) || what.has(ConnEvents::CLOSED);
    if is_over {
        // Told first, so that what follows from the last answers goes to another connection.
        client.on_ended(net, now, token, Ending::PeerClosed);
    }
    client.go_on(net, now, token);
    if what.has(ConnEvents::WRITABLE) && !is_over {
        client.on_writable(net, token);
    }
}

#[inline]
fn on_udp_event<E: Env>(
    client: &mut Client<UdpId>,
    net: &mut UdpNet<'_, E>,
    now: Instant,
    socket: UdpId,
    token: Token,
) {
    if !client.owns(token, socket) {
        return;
    }
    while let Some(datagram) = net.stack.udp_recv(socket) {
        // One datagram is one answer, whatever it says.
        let _ = client.on_bytes(now, token, datagram.payload);
    }
    if net.stack.udp_error(socket).is_some() {
        client.on_ended(
            net,
            now,
            token,
            Ending::Failed(
                "the network says that the server cannot be reached; is it listening there?",
            ),
        );
    }
    client.go_on(net, now, token);
    client.on_writable(net, token);
}

impl<E: Env> App<E> for ClientApp {
    type Report = ClientReport;

    fn start(&mut self, _time: Time, _stack: &mut Stack<E>) -> Result<(), String> {
        Ok(())
    }

    #[inline]
    fn on_turn(&mut self, busy: Duration) {
        match &mut self.kind {
            Kind::Tcp(client) => client.set_busy(busy),
            Kind::Udp(client) => client.set_busy(busy),
        }
    }

    #[inline]
    fn on_events(&mut self, time: Time, stack: &mut Stack<E>) {
        let (now, server) = (time.now, self.server);
        self.now = now;
        if !self.way.is_known(now, stack, &server) {
            return;
        }
        match &mut self.kind {
            Kind::Tcp(client) => {
                let mut net = TcpNet { stack, server };
                while take_events(&mut self.events, net.stack, |token| client.prefetch(token)) {
                    for event in self.events.drain(..) {
                        if let Event::Conn { conn, token, what } = event {
                            on_tcp_event(
                                client,
                                &mut net,
                                now,
                                conn,
                                Token::from_bits(token),
                                what,
                            );
                        }
                    }
                }
                client.pump(&mut net, now);
                self.had_work = client.take_had_work();
            }
            Kind::Udp(client) => {
                let mut net = UdpNet { stack, server };
                while let Some(event) = net.stack.next_event() {
                    if let Event::Udp { socket, token, .. } = event {
                        on_udp_event(client, &mut net, now, socket, Token::from_bits(token));
                    }
                }
                client.pump(&mut net, now);
                self.had_work = client.take_had_work();
            }
        }
    }

    #[inline]
    fn next_deadline(&self) -> Instant {
        if !matches!(self.way, Way::Known) {
            return self.now + LOOK_AGAIN;
        }
        each!(self, client => client.next_deadline())
    }

    fn had_work(&self) -> bool {
        self.had_work
    }

    fn is_finished(&self) -> bool {
        each!(self, client => client.is_finished())
    }

    fn stop(&mut self, _time: Time, stack: &mut Stack<E>) {
        let server = self.server;
        match &mut self.kind {
            Kind::Tcp(client) => client.stop(&mut TcpNet { stack, server }),
            Kind::Udp(client) => client.stop(&mut UdpNet { stack, server }),
        }
    }

    fn report(&self) -> ClientReport {
        each!(self, client => client.report())
    }
}

struct StackLine<'a, E: Env> {
    stack: &'a mut Stack<E>,
    conn: ConnId,
}

impl<E: Env> Line for StackLine<'_, E> {
    #[inline]
    fn recv(&self) -> &[u8] {
        self.stack.recv(self.conn).unwrap_or_default()
    }

    #[inline]
    fn consumed(&mut self, n: usize) {
        self.stack.consumed(self.conn, n as u32);
    }

    #[inline]
    fn send(&mut self, bytes: &[u8]) -> usize {
        self.stack.send(self.conn, bytes).unwrap_or(0)
    }
}

/// A server as an application of the engine.
pub struct ServerApp {
    answerer: Answerer,
    port: u16,
    listener: Option<ListenerId>,
    socket: Option<UdpId>,
    now: Instant,
    cycles: u64,
    busy: Duration,
}

impl ServerApp {
    /// A server for `plan`.
    pub fn new(plan: &ServerPlan) -> ServerApp {
        ServerApp {
            answerer: Answerer::new(plan),
            port: plan.port,
            listener: None,
            socket: None,
            now: Instant::ZERO,
            cycles: 0,
            busy: Duration::ZERO,
        }
    }

    #[inline]
    fn on_conn<E: Env>(
        &mut self,
        stack: &mut Stack<E>,
        conn: ConnId,
        token: u64,
        what: ConnEvents,
    ) {
        if what.has(ConnEvents::FAILED) {
            self.answerer.report.failed += 1;
            self.answerer.report.open -= 1;
            stack.close(conn);
            return;
        }
        let mut talk = Talk::from_bits(token);
        // Asked now, because sending marks the connection, and whoever reads the marks right after
        // that waits for them to be written.
        let peer_closed = stack.peer_closed(conn);
        let done = self.answerer.answer(&mut talk, &mut StackLine { stack, conn });
        if talk.to_bits() != token {
            stack.set_token(conn, talk.to_bits());
        }
        let is_over = what.has(ConnEvents::CLOSED) || (done && peer_closed);
        if is_over {
            self.answerer.report.open -= 1;
            stack.close(conn);
        }
    }

    fn accept<E: Env>(&mut self, stack: &mut Stack<E>, listener: ListenerId) {
        while let Some(conn) = stack.accept(listener) {
            self.answerer.report.accepted += 1;
            self.answerer.report.open += 1;
            stack.set_token(conn, Talk::default().to_bits());
            // The first bytes may have come with the last segment of the handshake.
            self.on_conn(stack, conn, Talk::default().to_bits(), ConnEvents::default());
        }
    }

    #[inline]
    fn on_datagrams<E: Env>(&mut self, stack: &mut Stack<E>, socket: UdpId) {
        while let Some(datagram) = stack.udp_recv(socket) {
            let (from, to, len) = (datagram.from, datagram.to, datagram.payload.len());
            if self.answerer.on_datagram(len) {
                let taken = stack.udp_send(socket, from, Some(to), self.answerer.message()).is_ok();
                self.answerer.on_answered(taken);
            }
        }
    }
}

impl<E: Env> App<E> for ServerApp {
    type Report = ServerReport;

    fn start(&mut self, time: Time, stack: &mut Stack<E>) -> Result<(), String> {
        let port = self.port;
        // The IPv6 wildcard without v6_only takes IPv4 too.
        let local = Endpoint::new(Addr::ANY_V6, port);
        let spec = ListenSpec {
            table: Table(0),
            local,
            v6_only: false,
            backlog: BACKLOG,
            token: 0,
            options: options(stack),
        };
        let listener =
            stack.listen(spec).map_err(|error| format!("cannot listen on port {port}: {error}"))?;
        self.listener = Some(listener);
        let spec = UdpSpec { table: Table(0), local, token: 0, v6_only: false };
        let socket = stack
            .udp_bind(spec)
            .map_err(|error| format!("cannot bind UDP port {port}: {error:?}"))?;
        self.socket = Some(socket);
        self.answerer.report.from = time.now;
        self.cycles = clearway_hint::cycles();
        Ok(())
    }

    #[inline]
    fn on_turn(&mut self, busy: Duration) {
        self.busy = busy;
    }

    #[inline]
    fn on_events(&mut self, time: Time, stack: &mut Stack<E>) {
        self.now = time.now;
        while let Some(event) = stack.next_event() {
            match event {
                Event::Conn { conn, token, what } => self.on_conn(stack, conn, token, what),
                Event::Incoming { listener, .. } => self.accept(stack, listener),
                Event::Udp { socket, .. } => self.on_datagrams(stack, socket),
            }
        }
    }

    fn stop(&mut self, _time: Time, stack: &mut Stack<E>) {
        if let Some(listener) = self.listener.take() {
            stack.unlisten(listener);
        }
        if let Some(socket) = self.socket.take() {
            stack.udp_close(socket);
        }
        let open: Vec<ConnId> = stack.conn_ids().collect();
        open.into_iter().for_each(|conn| stack.abort(conn));
    }

    fn report(&self) -> ServerReport {
        let cycles = clearway_hint::cycles().wrapping_sub(self.cycles);
        ServerReport { at: self.now, busy: self.busy, cycles, ..self.answerer.report.clone() }
    }
}
