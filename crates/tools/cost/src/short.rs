//! The short connection: connect, ask 64 bytes, be answered with 64 bytes, and over.

use anyhow::{Result, ensure};
use clearway_base::Instant;
use clearway_proto::{
    ConnEvents, ConnId, ConnOptions, ConnectSpec, Event, Limits, ListenSpec, ListenerId, Table,
};
use clearway_wire::{Addr, Endpoint};

use crate::couple::{self, PORT, SLOTS, Shape, Side, TURN, addresses};
use crate::request::MESSAGE;

// Ports of the client, each used once by each of its addresses: no pair of endpoints comes again.
const PORTS: std::ops::Range<u16> = 1024..65_000;

/// Who ends a connection that was answered, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The client closes, and then the server: four segments, and the client has the TIME-WAIT.
    Close,
    /// The client resets.
    Reset,
}

/// A server and clients that come and go.
pub struct Short {
    server: Side,
    client: Side,
    addrs: (Addr, Addr),
    listener: ListenerId,
    now: Instant,
    next_port: u16,
    end: End,
    tally: Tally,
}

#[derive(Default)]
struct Tally {
    answered: u64,
    ended: u64,
}

impl Short {
    /// Two stacks that have not met; `at_a_time` connections are made together.
    pub fn new(at_a_time: u32, v6: bool, end: End) -> Result<Short> {
        let (a, b) = addresses(v6)?;
        let room = at_a_time.max(256);
        let limits =
            Limits { connections: room, half_open: room, time_wait: 1024, ..Limits::default() };
        let shape = |addr| Shape { addr, limits, bufs: 2 * SLOTS, offload: false };
        let mut server = Side::new(&shape(a));
        let client = Side::new(&shape(b));
        let listener = server.stack.listen(ListenSpec {
            table: Table(0),
            local: Endpoint::new(a, PORT),
            v6_only: false,
            backlog: room,
            token: 0,
            options: options(),
        })?;
        let now = Instant::from_millis(1);
        Ok(Short {
            server,
            client,
            addrs: (a, b),
            listener,
            now,
            next_port: PORTS.start,
            end,
            tally: Tally::default(),
        })
    }

    /// `rounds` times: `at_a_time` connections are made, used and ended.
    pub fn run(&mut self, rounds: u64, at_a_time: u32) -> Result<()> {
        for _ in 0..rounds {
            let want = self.tally.ended + u64::from(at_a_time);
            for n in 0..at_a_time {
                self.connect()?;
                if n % 64 == 63 {
                    while self.turn() > 0 {}
                }
            }
            while self.turn() > 0 {}
            let Tally { answered, ended } = self.tally;
            ensure!(
                answered == want && ended == want,
                "of {want} connections {answered} were answered, {ended} ended"
            );
        }
        let left = self.server.stack.population();
        ensure!(
            left.connections == 0 && left.half_open == 0,
            "the server still has connections: {left:?}"
        );
        Ok(())
    }

    fn connect(&mut self) -> Result<()> {
        ensure!(PORTS.contains(&self.next_port), "more connections than the client has ports");
        let (a, b) = self.addrs;
        let local = Some(Endpoint::new(b, self.next_port));
        self.next_port += 1;
        let remote = Endpoint::new(a, PORT);
        let spec = ConnectSpec { table: Table(0), local, remote, token: 0, options: options() };
        self.client.stack.connect(self.now, spec)?;
        Ok(())
    }

    // One turn of each side; the packets that moved.
    fn turn(&mut self) -> usize {
        self.now += TURN;
        couple::turn(
            (&mut self.server, &mut self.client),
            Side::meta(false),
            |client| client_turn(client, self.now, self.end, &mut self.tally),
            |server| server_turn(server, self.listener, self.now),
        )
    }

    /// Segments that had to be sent twice, on both sides: none, or the figure is not that of a
    /// clean exchange.
    pub fn retransmitted(&self) -> u64 {
        let tcp = |side: &Side| {
            side.stack.counters().tcp.retransmitted_segs
                + side.stack.counters().tcp.syn_acks_repeated
        };
        tcp(&self.server) + tcp(&self.client)
    }

    /// Segments that the server has sent and received.
    pub fn server_segments(&self) -> (u64, u64) {
        self.server.segments()
    }
}

fn options() -> ConnOptions {
    ConnOptions { nodelay: true, ..ConnOptions::default() }
}

/// The server's side of a turn, and nothing else: this is the function whose instructions are
/// counted.
#[inline(never)]
pub fn server_turn(server: &mut Side, listener: ListenerId, now: Instant) {
    let Side { stack, out, burst } = server;
    stack.ingest(now, burst);
    burst.clear();
    stack.expire(now);
    while let Some(event) = stack.next_event() {
        match event {
            Event::Incoming { .. } => {
                while let Some(conn) = stack.accept(listener) {
                    serve(stack, conn, ConnEvents::default());
                }
            }
            Event::Conn { conn, what, .. } => serve(stack, conn, what),
            Event::Udp { .. } => {}
        }
    }
    stack.emit(now, out);
}

#[inline]
fn serve(
    stack: &mut clearway_proto::Stack<crate::couple::InMemory>,
    conn: ConnId,
    what: ConnEvents,
) {
    if what.has(ConnEvents::FAILED) {
        return stack.close(conn);
    }
    let peer_closed = stack.peer_closed(conn);
    let n = stack.recv(conn).map_or(0, <[u8]>::len);
    if n > 0 {
        stack.consumed(conn, n as u32);
        for _ in 0..n / MESSAGE {
            let _ = stack.send(conn, &[b'a'; MESSAGE]);
        }
    }
    if peer_closed || what.has(ConnEvents::CLOSED) {
        stack.close(conn);
    }
}

#[inline(never)]
fn client_turn(client: &mut Side, now: Instant, end: End, tally: &mut Tally) -> usize {
    let Side { stack, out, burst } = client;
    let n = burst.len();
    stack.ingest(now, burst);
    burst.clear();
    stack.expire(now);
    while let Some(event) = stack.next_event() {
        let Event::Conn { conn, what, .. } = event else { continue };
        if what.has(ConnEvents::CONNECTED) {
            let _ = stack.send(conn, &[b'q'; MESSAGE]);
        }
        let bytes = stack.recv(conn).map_or(0, <[u8]>::len);
        if bytes > 0 {
            stack.consumed(conn, bytes as u32);
            tally.answered += (bytes / MESSAGE) as u64;
            tally.ended += 1;
            match end {
                End::Close => stack.close(conn),
                End::Reset => stack.abort(conn),
            }
        }
    }
    stack.emit(now, out);
    n
}
