//! The request: 64 bytes to a server, 64 bytes back, over connections that stay open.

use anyhow::{Result, bail, ensure};
use clearway_base::Instant;
use clearway_proto::{
    ConnEvents, ConnId, ConnOptions, ConnectSpec, Event, Limits, ListenSpec, ListenerId, Table,
};
use clearway_wire::Endpoint;

use crate::couple::{self, PORT, SLOTS, Shape, Side, TURN, addresses};

/// Bytes of a request, and of an answer.
pub const MESSAGE: usize = 64;

/// A server and clients that have connected to it.
pub struct PingPong {
    server: Side,
    client: Side,
    listener: ListenerId,
    conns: Vec<ConnId>,
    now: Instant,
    offload: bool,
    answered: u64,
}

fn limits(connections: u32) -> Limits {
    Limits {
        connections: connections.max(16),
        half_open: connections.max(256),
        time_wait: 1024,
        ..Limits::default()
    }
}

impl PingPong {
    /// `connections` clients connect to one server, over IPv4 or IPv6.
    pub fn open(connections: u32, v6: bool, offload: bool) -> Result<PingPong> {
        let (a, b) = addresses(v6)?;
        // Enough that no burst ever waits for a buffer.
        let bufs = 2 * SLOTS;
        let shape = |addr| Shape { addr, limits: limits(connections), bufs, offload };
        let mut server = Side::new(&shape(a));
        let client = Side::new(&shape(b));
        let options = ConnOptions { nodelay: true, ..ConnOptions::default() };
        let listener = server.stack.listen(ListenSpec {
            table: Table(0),
            local: Endpoint::new(a, PORT),
            v6_only: false,
            backlog: 1024,
            token: 0,
            options,
        })?;
        let mut couple = PingPong {
            server,
            client,
            listener,
            conns: Vec::new(),
            now: Instant::from_millis(1),
            offload,
            answered: 0,
        };
        // Ports above 1024, so that more than one ephemeral range's worth of clients fit one
        // address pair.
        for n in 0..connections {
            let spec = ConnectSpec {
                table: Table(0),
                local: Some(Endpoint::new(b, 1024 + u16::try_from(n)?)),
                remote: Endpoint::new(a, PORT),
                token: u64::from(n),
                options,
            };
            couple.conns.push(couple.client.stack.connect(couple.now, spec)?);
            if n % 64 == 63 {
                couple.settle();
            }
        }
        couple.settle();
        ensure!(couple.answered == 0, "nothing was asked yet");
        Ok(couple)
    }

    // Turns until nothing is on its way.
    fn settle(&mut self) {
        while self.turn() > 0 {}
    }

    // One turn of each side; the packets that moved.
    fn turn(&mut self) -> usize {
        self.now += TURN;
        couple::turn(
            (&mut self.server, &mut self.client),
            Side::meta(self.offload),
            |client| client_turn(client, self.now, &mut self.answered),
            |server| server_turn(server, self.listener, self.now),
        )
    }

    /// `rounds` times: every connection asks once and is answered once.
    pub fn run(&mut self, rounds: u64) -> Result<()> {
        let before = self.answered;
        for _ in 0..rounds {
            let want = self.answered + self.conns.len() as u64;
            for i in 0..self.conns.len() {
                ensure!(
                    self.client.stack.send(self.conns[i], &[b'q'; MESSAGE])? == MESSAGE,
                    "the send queue is full"
                );
                if i % 64 == 63 {
                    self.settle();
                }
            }
            self.settle();
            if self.answered != want {
                bail!("{} of {} requests were answered", self.answered - before, want - before);
            }
        }
        Ok(())
    }

    /// Segments that had to be sent twice, on both sides: none, or the figure is not that of a
    /// clean exchange.
    pub fn retransmitted(&self) -> u64 {
        self.server.stack.counters().tcp.retransmitted_segs
            + self.client.stack.counters().tcp.retransmitted_segs
    }

    /// Segments that the server has sent and received.
    pub fn server_segments(&self) -> (u64, u64) {
        self.server.segments()
    }
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
            Event::Incoming { .. } => while stack.accept(listener).is_some() {},
            Event::Conn { conn, what, .. } if what.has(ConnEvents::READABLE) => {
                let Ok(bytes) = stack.recv(conn) else { continue };
                let n = bytes.len();
                stack.consumed(conn, n as u32);
                for _ in 0..n / MESSAGE {
                    let _ = stack.send(conn, &[b'a'; MESSAGE]);
                }
            }
            _ => {}
        }
    }
    stack.emit(now, out);
}

#[inline(never)]
fn client_turn(client: &mut Side, now: Instant, answered: &mut u64) -> usize {
    let Side { stack, out, burst } = client;
    let n = burst.len();
    stack.ingest(now, burst);
    burst.clear();
    stack.expire(now);
    while let Some(event) = stack.next_event() {
        if let Event::Conn { conn, what, .. } = event {
            if what.has(ConnEvents::READABLE) {
                if let Ok(bytes) = stack.recv(conn) {
                    let n = bytes.len();
                    stack.consumed(conn, n as u32);
                    *answered += (n / MESSAGE) as u64;
                }
            }
        }
    }
    stack.emit(now, out);
    n
}
