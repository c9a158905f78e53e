//! The `clearway-cost` program; `cargo xtask cost` runs it under callgrind and by itself.

mod counting_alloc;

use std::time::Instant;

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};
use clearway_cost::bulk::{Bulk, SEGMENTS};
use clearway_cost::memory::{Life, weigh};
use clearway_cost::request::PingPong;
use clearway_cost::short::{End, Short};
use clearway_cost::walk::{Walk, walk};
use serde_json::json;

/// What a request and a connection cost, without a device.
#[derive(Parser)]
#[command(name = "clearway-cost", version)]
struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// 64 bytes there and 64 bytes back, ROUNDS times on each of CONNECTIONS
    Request {
        /// Connections
        #[arg(short, long, default_value_t = 128)]
        connections: u32,
        /// Requests on each connection, after 16 that warm up
        #[arg(short, long, default_value_t = 100)]
        rounds: u64,
        /// Over IPv6
        #[arg(long)]
        v6: bool,
        /// The link takes care of transport checksums, as a network card does
        #[arg(long)]
        offload: bool,
    },
    /// Connect, 64 bytes there and 64 bytes back, and the end; ROUNDS times with CONNECTIONS
    /// together
    Short {
        /// Connections that are made together
        #[arg(short, long, default_value_t = 64)]
        connections: u32,
        /// Rounds, after 16 that warm up
        #[arg(short, long, default_value_t = 100)]
        rounds: u64,
        /// Over IPv6
        #[arg(long)]
        v6: bool,
        /// The client resets instead of closing
        #[arg(long)]
        reset: bool,
    },
    /// A stream of full segments, 64 in each of ROUNDS
    Bulk {
        /// Streams: one
        #[arg(short, long, default_value_t = 1)]
        connections: u32,
        /// Rounds, after 16 that warm up
        #[arg(short, long, default_value_t = 100)]
        rounds: u64,
        /// Over IPv6
        #[arg(long)]
        v6: bool,
        /// One segment in so many is lost; 0: none
        #[arg(long, default_value_t = 0)]
        one_in: u64,
    },
    /// Resident bytes of each of COUNT connections
    Memory {
        /// In which phase of life
        #[arg(value_enum)]
        life: Life,
        /// How many
        #[arg(short, long, default_value_t = 1_000_000)]
        count: u32,
    },
    /// One segment or byte, for `scripts/walk.py` to follow
    Walk {
        /// Which
        #[arg(value_enum)]
        what: Walk,
    },
}

fn main() -> Result<()> {
    let answer = match Args::parse().what {
        What::Request { connections, rounds, v6, offload } => {
            let mut couple = PingPong::open(connections, v6, offload)?;
            couple.run(16)?;
            let (segments, before) = (couple.server_segments(), counting_alloc::count());
            couple.run(rounds)?;
            let allocated = counting_alloc::count() - before;
            let (seen, sent) = couple.server_segments();
            ensure!(
                couple.retransmitted() == 0,
                "something was sent twice on a link that loses nothing"
            );
            json!({
                "connections": connections, "requests": rounds * u64::from(connections),
                    "allocations": allocated,
                "server_segments_in": seen - segments.0, "server_segments_out": sent - segments.1,
            })
        }
        What::Short { connections, rounds, v6, reset } => {
            let mut couple =
                Short::new(connections, v6, if reset { End::Reset } else { End::Close })?;
            couple.run(16, connections)?;
            let (segments, before) = (couple.server_segments(), counting_alloc::count());
            couple.run(rounds, connections)?;
            let allocated = counting_alloc::count() - before;
            let (seen, sent) = couple.server_segments();
            ensure!(
                couple.retransmitted() == 0,
                "something was sent twice on a link that loses nothing"
            );
            json!({
                "connections": rounds * u64::from(connections), "allocations": allocated,
                "server_segments_in": seen - segments.0, "server_segments_out": sent - segments.1,
            })
        }
        What::Bulk { connections, rounds, v6, one_in } => {
            ensure!(connections == 1, "there is one stream");
            let mut couple = Bulk::open(v6, false, one_in)?;
            couple.run(16)?;
            let (segments, before) = (couple.server_segments(), counting_alloc::count());
            let again = couple.retransmitted();
            couple.run(rounds)?;
            let allocated = counting_alloc::count() - before;
            let (seen, sent) = couple.server_segments();
            json!({
                "segments": rounds * SEGMENTS, "allocations": allocated,
                "server_segments_in": seen - segments.0, "server_segments_out": sent - segments.1,
                "retransmitted": couple.retransmitted() - again,
            })
        }
        What::Memory { life, count } => {
            let start = Instant::now();
            let weight = weigh(life, count, || start.elapsed().as_nanos() as u64)?;
            json!({
                "life": format!("{life:?}"), "connections": weight.connections,
                    "bytes_each": weight.bytes_each,
                "server_ns_each": weight.nanoseconds_each,
                    "one_was_asked_and_answered": weight.answered,
            })
        }
        What::Walk { what } => {
            walk(what)?;
            json!({ "walked": format!("{what:?}") })
        }
    };
    println!("{answer}");
    Ok(())
}
