//! One segment, or one written byte, on its way through a stack: `scripts/walk.py` follows it from
//! function to function, in a build without optimisation, between [`begins`] and [`ends`].

use std::hint::black_box;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use clearway_base::Instant;
use clearway_pkt::PoolBuf;
use clearway_proto::{ConnId, ConnOptions, ConnectSpec, Limits, ListenSpec, Table};
use clearway_wire::Endpoint;

use crate::couple::{PORT, SLOTS, Shape, Side, TURN, addresses};

/// What is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Walk {
    /// A segment with data, in order, while nothing is lost
    Segment,
    /// A segment with data behind one that is missing
    Early,
    /// The segment that was missing
    Late,
    /// An ACK with a SACK block
    Sack,
    /// A byte that is written and leaves, while nothing is lost
    Byte,
    /// A byte that is written and leaves while the peer misses a segment
    ByteInLoss,
}

/// The walk begins when this is called.
#[inline(never)]
pub fn begins() {
    black_box(());
}

/// The walk has ended when this is called.
#[inline(never)]
pub fn ends() {
    black_box(());
}

/// Bytes of what fills a segment.
const FULL: &[u8] = &[b'a'; 1400];

struct Pair {
    server: Side,
    client: Side,
    conn: ConnId,
    now: Instant,
}

impl Pair {
    fn open() -> Result<Pair> {
        let (a, b) = addresses(false)?;
        let limits = Limits { connections: 16, half_open: 16, time_wait: 16, ..Limits::default() };
        let shape = |addr| Shape { addr, limits, bufs: 2 * SLOTS, offload: false };
        let (mut server, mut client) = (Side::new(&shape(a)), Side::new(&shape(b)));
        let options = ConnOptions { nodelay: true, ..ConnOptions::default() };
        let (table, local) = (Table(0), Endpoint::new(a, PORT));
        server.stack.listen(ListenSpec {
            table,
            local,
            v6_only: false,
            backlog: 16,
            token: 0,
            options,
        })?;
        let now = Instant::from_millis(1);
        let spec = ConnectSpec { table, local: None, remote: local, token: 0, options };
        let conn = client.stack.connect(now, spec)?;
        let mut pair = Pair { server, client, conn, now };
        pair.settle();
        // The second write finds everything that the first one had to look up.
        pair.write(FULL)?;
        pair.settle();
        pair.write(FULL)?;
        pair.settle();
        Ok(pair)
    }

    /// Turns both sides until nothing is on its way.
    fn settle(&mut self) {
        loop {
            self.now += TURN;
            turn(&mut self.client, self.now);
            let there = self.server.take_from(&mut self.client, Side::meta(false));
            turn(&mut self.server, self.now);
            let back = self.client.take_from(&mut self.server, Side::meta(false));
            if there + back == 0 {
                return;
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        ensure!(self.client.stack.send(self.conn, bytes)? == bytes.len(), "the queue is full");
        self.client.stack.emit(self.now, &mut self.client.out);
        Ok(())
    }

    /// Writes a segment and takes it off the wire.
    fn take_segment(&mut self) -> Result<PoolBuf> {
        self.now += TURN;
        self.write(FULL)?;
        self.client.out.pop().context("nothing has left")
    }

    fn give(side: &mut Side, segment: PoolBuf) -> Result<()> {
        side.burst.push(segment, Side::meta(false)).ok().context("the burst is full")
    }

    fn walk_in(side: &mut Side, now: Instant) {
        begins();
        side.stack.ingest(now, &mut side.burst);
        ends();
        side.burst.clear();
    }

    fn walk_out(&mut self) -> Result<()> {
        self.now += TURN;
        begins();
        let written = self.client.stack.send(self.conn, b"b")?;
        self.client.stack.emit(self.now, &mut self.client.out);
        ends();
        ensure!(written == 1, "the queue is full");
        self.client.out.pop().map(drop).context("the byte has not left")
    }

    /// The client hears that its first segment is missing.
    fn miss_one(&mut self) -> Result<PoolBuf> {
        let (first, second) = (self.take_segment()?, self.take_segment()?);
        Pair::give(&mut self.server, second)?;
        turn(&mut self.server, self.now);
        ensure!(self.client.take_from(&mut self.server, Side::meta(false)) == 1, "no ACK came");
        Ok(first)
    }
}

fn turn(side: &mut Side, now: Instant) {
    side.stack.ingest(now, &mut side.burst);
    side.burst.clear();
    side.stack.expire(now);
    while side.stack.next_event().is_some() {}
    side.stack.emit(now, &mut side.out);
}

/// Brings two stacks to where the walk begins, and walks.
///
/// # Errors
/// Something did not come about that the walk is about.
pub fn walk(what: Walk) -> Result<()> {
    let mut pair = Pair::open()?;
    match what {
        Walk::Segment => {
            let segment = pair.take_segment()?;
            Pair::give(&mut pair.server, segment)?;
            Pair::walk_in(&mut pair.server, pair.now);
        }
        Walk::Early => {
            let (_missing, early) = (pair.take_segment()?, pair.take_segment()?);
            Pair::give(&mut pair.server, early)?;
            Pair::walk_in(&mut pair.server, pair.now);
        }
        Walk::Late => {
            let late = pair.miss_one()?;
            Pair::give(&mut pair.server, late)?;
            Pair::walk_in(&mut pair.server, pair.now);
        }
        Walk::Sack => {
            pair.miss_one()?;
            Pair::walk_in(&mut pair.client, pair.now);
        }
        Walk::Byte => pair.walk_out()?,
        Walk::ByteInLoss => {
            pair.miss_one()?;
            turn(&mut pair.client, pair.now);
            while pair.client.out.pop().is_some() {}
            pair.walk_out()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_walk_comes_to_its_end() {
        for what in Walk::value_variants() {
            walk(*what).unwrap_or_else(|error| panic!("{what:?}: {error:#}"));
        }
    }
}
