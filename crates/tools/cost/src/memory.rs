//! What a connection weighs: resident memory of this process, read from the system before and after
//! N of them exist.

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use clearway_base::{Duration, Instant};
use clearway_pkt::{Buf, Pool, PoolBuf};
use clearway_proto::{ConnOptions, Limits, ListenSpec, ListenerId, Table};
use clearway_wire::{Addr, Endpoint, Flags};

use crate::couple::{BUF_LEN, SLOTS, Shape, Side};
use crate::fake_peer::FakePeer;
use crate::request::server_turn;

const PORT: u16 = 80;
const DEPTH: usize = 1024;

/// The phase of life in which the connections are weighed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Life {
    /// A SYN came, the handshake is not finished.
    HalfOpen,
    /// Established, accepted, silent.
    Idle,
}

/// What was weighed.
#[derive(Debug)]
pub struct Weight {
    /// Connections that exist.
    pub connections: u32,
    /// Resident bytes that each of them added.
    pub bytes_each: f64,
    /// Server time to bring all of them into being, in nanoseconds each. A figure for people;
    /// nothing is decided by it.
    pub nanoseconds_each: f64,
    /// One of them was asked and has answered.
    pub answered: bool,
}

/// Resident memory of this process in bytes.
pub fn resident() -> Result<u64> {
    let statm = fs::read_to_string("/proc/self/statm").context("reading /proc/self/statm")?;
    let pages: u64 =
        statm.split(' ').nth(1).context("/proc/self/statm has no second field")?.parse()?;
    Ok(pages * 4096)
}

/// Opens `connections` towards a server and weighs them. `clock` gives a monotonic time in
/// nanoseconds.
pub fn weigh(life: Life, connections: u32, clock: impl Fn() -> u64) -> Result<Weight> {
    let server_addr: Addr = "10.255.255.1".parse()?;
    let limits = Limits {
        connections: if life == Life::Idle { connections } else { 16 },
        half_open: if life == Life::HalfOpen { connections } else { 4096 },
        time_wait: 16,
        ..Limits::default()
    };
    let mut server =
        Side::new(&Shape { addr: server_addr, limits, bufs: SLOTS + 4 * DEPTH, offload: true });
    let options = ConnOptions { nodelay: true, ..ConnOptions::default() };
    let listener = server.stack.listen(ListenSpec {
        table: Table(0),
        local: Endpoint::new(server_addr, PORT),
        v6_only: false,
        backlog: if life == Life::HalfOpen { connections } else { DEPTH as u32 * 2 },
        token: 0,
        options,
    })?;
    let mut fake_peer =
        FakePeer::new(server_addr, PORT, connections, Pool::new(4 * DEPTH, BUF_LEN));
    // What the fake peer and the buffers weigh must not be counted: touch all of it first.
    touch(&mut fake_peer, &mut server);
    let mut drive =
        Drive { server: &mut server, listener, now: Instant::from_millis(1), spent: 0, clock };
    let before = resident()?;
    for from in (0..connections).step_by(DEPTH) {
        let to = connections.min(from + DEPTH as u32);
        drive.open(&mut fake_peer, from..to, life)?;
    }
    let bytes = resident()?.saturating_sub(before);
    let spent = drive.spent;
    let answered = life == Life::Idle && drive.ask(&mut fake_peer, connections / 2)?;
    Ok(Weight {
        connections,
        bytes_each: bytes as f64 / f64::from(connections),
        nanoseconds_each: spent as f64 / f64::from(connections),
        answered,
    })
}

fn touch(fake_peer: &mut FakePeer, server: &mut Side) {
    fake_peer.touch();
    server.out.touch();
}

struct Drive<'a, C: Fn() -> u64> {
    server: &'a mut Side,
    listener: ListenerId,
    now: Instant,
    spent: u64,
    clock: C,
}

impl<C: Fn() -> u64> Drive<'_, C> {
    fn turn(&mut self) {
        self.now += Duration::from_micros(10);
        let start = (self.clock)();
        server_turn(self.server, self.listener, self.now);
        self.spent += (self.clock)() - start;
    }

    fn open(
        &mut self,
        fake_peer: &mut FakePeer,
        range: std::ops::Range<u32>,
        life: Life,
    ) -> Result<()> {
        let mut answered = Vec::with_capacity(DEPTH);
        for n in range.clone() {
            self.deliver(fake_peer.syn(n))?;
        }
        self.turn();
        while let Some(packet) = self.server.out.pop() {
            match fake_peer.read(packet.bytes()) {
                Some((n, flags, 0)) if flags.contains(Flags::SYN | Flags::ACK) => answered.push(n),
                other => bail!("expected a SYN-ACK, the server sent {other:?}"),
            }
        }
        ensure!(answered.len() == range.len(), "{} SYNs, {} SYN-ACKs", range.len(), answered.len());
        if life == Life::HalfOpen {
            return Ok(());
        }
        for n in answered {
            self.deliver(fake_peer.ack(n))?;
        }
        self.turn();
        ensure!(self.server.out.pop().is_none(), "an ACK that ends a handshake wants no answer");
        Ok(())
    }

    fn deliver(&mut self, packet: Option<PoolBuf>) -> Result<()> {
        let packet = packet.context("the fake peer has no buffer left")?;
        if self.server.burst.room() == 0 {
            self.turn();
        }
        if self.server.burst.push(packet, Side::meta(true)).is_err() {
            bail!("a burst that was just emptied is full");
        }
        Ok(())
    }

    fn ask(&mut self, fake_peer: &mut FakePeer, n: u32) -> Result<bool> {
        self.deliver(fake_peer.request(n, &[b'q'; 64]))?;
        self.turn();
        let Some(packet) = self.server.out.pop() else { return Ok(false) };
        Ok(fake_peer.read(packet.bytes()).is_some_and(|(who, _, len)| who == n && len == 64))
    }
}
