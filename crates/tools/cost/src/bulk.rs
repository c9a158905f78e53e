//! A stream: a server that sends, over a link that loses one full segment in so many, or none.

use anyhow::{Result, ensure};
use clearway_base::Instant;
use clearway_pkt::Buf;
use clearway_proto::{
    ConnEvents, ConnId, ConnOptions, ConnectSpec, Event, Limits, ListenSpec, ListenerId, Table,
};
use clearway_wire::Endpoint;

use crate::couple::{PORT, SLOTS, Shape, Side, TURN, addresses};

/// Full segments that the server writes in a round.
pub const SEGMENTS: u64 = 64;

/// Payload of a full segment, beside timestamps.
const PAYLOAD: usize = 1448;

/// Frames that are longer carry data.
const DATA_FRAME: usize = 1000;

/// What is written at once.
const PIECE: [u8; PAYLOAD] = [b'a'; PAYLOAD];

/// A server and one client that has connected to it.
pub struct Bulk {
    server: Side,
    client: Side,
    conn: ConnId,
    now: Instant,
    offload: bool,
    /// One in so many is lost; 0: none.
    one_in: u64,
    left: u64,
    received: u64,
}

impl Bulk {
    /// A client connects to a server.
    pub fn open(v6: bool, offload: bool, one_in: u64) -> Result<Bulk> {
        let (a, b) = addresses(v6)?;
        let limits =
            Limits { connections: 16, half_open: 256, time_wait: 1024, ..Limits::default() };
        let shape = |addr| Shape { addr, limits, bufs: 2 * SLOTS, offload };
        let mut server = Side::new(&shape(a));
        let mut client = Side::new(&shape(b));
        let options = ConnOptions::default();
        let table = Table(0);
        let listener = server.stack.listen(ListenSpec {
            table,
            local: Endpoint::new(a, PORT),
            v6_only: false,
            backlog: 16,
            token: 0,
            options,
        })?;
        let now = Instant::from_millis(1);
        let local = Some(Endpoint::new(b, 1024));
        let remote = Endpoint::new(a, PORT);
        client.stack.connect(now, ConnectSpec { table, local, remote, token: 0, options })?;
        let (conn, now) = handshake((&mut server, &mut client), listener, now, offload)?;
        Ok(Bulk { server, client, conn, now, offload, one_in, left: 0, received: 0 })
    }

    /// `rounds` times: the server writes [`SEGMENTS`], and the client gets all of them.
    pub fn run(&mut self, rounds: u64) -> Result<()> {
        let meta = Side::meta(self.offload);
        for _ in 0..rounds {
            let mut owed = SEGMENTS * PAYLOAD as u64;
            let want = self.received + owed;
            while self.received < want {
                self.now += TURN;
                client_turn(&mut self.client, self.now, &mut self.received);
                self.server.take_from(&mut self.client, meta);
                let was_idle = self.server.burst.is_empty() && owed == 0;
                server_turn(&mut self.server, self.conn, self.now, &mut owed);
                if was_idle && self.server.out.is_empty() && self.client.out.is_empty() {
                    // All that is on its way was lost: the next thing is a timer's.
                    let deadline = self.server.stack.next_deadline();
                    let deadline = deadline.min(self.client.stack.next_deadline());
                    ensure!(deadline != Instant::NEVER, "nothing will ever happen");
                    self.now = self.now.max(deadline);
                }
                self.cross();
            }
        }
        Ok(())
    }

    /// What the server has sent comes to the client's burst, or is lost.
    fn cross(&mut self) {
        while self.client.burst.room() > 0 {
            let Some(frame) = self.server.out.pop() else { return };
            if frame.bytes().len() > DATA_FRAME && self.one_in > 0 {
                self.left += 1;
                if self.left % self.one_in == 0 {
                    continue;
                }
            }
            let _ = self.client.burst.push(frame, Side::meta(self.offload));
        }
    }

    /// Segments that the server had to send again.
    pub fn retransmitted(&self) -> u64 {
        self.server.stack.counters().tcp.retransmitted_segs
    }

    /// Segments that the server has received and sent.
    pub fn server_segments(&self) -> (u64, u64) {
        self.server.segments()
    }
}

/// Turns until the server has its connection.
fn handshake(
    (server, client): (&mut Side, &mut Side),
    listener: ListenerId,
    mut now: Instant,
    offload: bool,
) -> Result<(ConnId, Instant)> {
    let meta = Side::meta(offload);
    for _ in 0..8 {
        now += TURN;
        client_turn(client, now, &mut 0);
        server.take_from(client, meta);
        let Side { stack, out, burst } = &mut *server;
        stack.ingest(now, burst);
        burst.clear();
        stack.emit(now, out);
        if let Some(conn) = stack.accept(listener) {
            return Ok((conn, now));
        }
        client.take_from(server, meta);
    }
    anyhow::bail!("no connection came about")
}

/// The server's side of a turn, and nothing else: this is the function whose instructions are
/// counted.
#[inline(never)]
pub fn server_turn(server: &mut Side, conn: ConnId, now: Instant, owed: &mut u64) {
    let Side { stack, out, burst } = server;
    stack.ingest(now, burst);
    burst.clear();
    stack.expire(now);
    while stack.next_event().is_some() {}
    while *owed > 0 {
        let piece = (*owed).min(PAYLOAD as u64) as usize;
        match stack.send(conn, &PIECE[..piece]) {
            Ok(n) if n > 0 => *owed -= n as u64,
            _ => break,
        }
    }
    stack.emit(now, out);
}

#[inline(never)]
fn client_turn(client: &mut Side, now: Instant, received: &mut u64) {
    let Side { stack, out, burst } = client;
    stack.ingest(now, burst);
    burst.clear();
    stack.expire(now);
    while let Some(event) = stack.next_event() {
        let Event::Conn { conn, what, .. } = event else { continue };
        if !what.has(ConnEvents::READABLE) {
            continue;
        }
        while let Ok(bytes) = stack.recv(conn) {
            let n = bytes.len();
            if n == 0 {
                break;
            }
            stack.consumed(conn, n as u32);
            *received += n as u64;
        }
    }
    stack.emit(now, out);
}
