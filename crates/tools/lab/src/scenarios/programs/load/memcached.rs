//! memcached, asked by memcaslap (memaslap, elsewhere).

use std::path::PathBuf;

use anyhow::Context as _;

use super::super::{P99, RATE};
use crate::place::Place;
use crate::process::Launch;
use crate::scenario::Measured;
use crate::world::World;

pub(super) const PORT: u16 = 11_211;

/// What it makes when it can be asked: it says nothing.
pub(super) fn port_file(world: &World<'_>) -> PathBuf {
    world.file("memcached.port")
}

/// As it comes, with its four threads.
pub(super) fn serve(world: &World<'_>, place: &Place, address: &str) -> anyhow::Result<Launch> {
    let made = port_file(world);
    if made.exists() {
        // Of the last one.
        std::fs::remove_file(&made)?;
    }
    let words = format!("-u root -l {address} -p {PORT}");
    let launch = place.launch(world, "memcached", &words);
    Ok(launch.env("MEMCACHED_PORT_FILENAME", made.to_string_lossy()))
}

/// Values of 64 bytes, a tenth of the requests store one; keys that fit into the server's memory
/// all together.
pub(super) fn ask(
    world: &World<'_>,
    place: &Place,
    address: &str,
    connections: u32,
    seconds: f64,
) -> Launch {
    // The distribution of times is printed only by who prints something each so many seconds.
    let words = format!(
        "-s {address}:{PORT} -T 1 -c {connections} -X 64 -w 1k -S {seconds}s -t {seconds}s"
    );
    place.launch(world, "memcaslap", &words)
}

/// The last line of memcaslap, and its distribution of times.
pub(super) fn read(out: &str) -> anyhow::Result<Measured> {
    let words: Vec<&str> = out
        .lines()
        .rev()
        .find(|line| line.starts_with("Run time:"))
        .map(|line| line.split_ascii_whitespace().collect())
        .context("memcaslap printed no figures")?;
    let after = words.iter().position(|word| *word == "TPS:").and_then(|at| words.get(at + 1));
    let rate = after.and_then(|rate| rate.parse::<f64>().ok());
    let mut measured = Measured::default();
    measured.set(RATE, rate.context("memcaslap printed no rate")?);
    measured.set(P99, percentile(out, 0.99));
    Ok(measured)
}

/// Microseconds below which this share is, between two powers of two as if all times there were
/// equally frequent: it tells only how many are between which.
///
/// ```text
/// Total Statistics (17887 events)
///    Min:       103
///    …
///    Log2 Dist:
///        4:        0        0        0        3
///        8:        7       27      100      642
/// ```
///
/// The first is of column 4, and column n is of those from 2^(n-1) to 2^n - 1.
fn percentile(out: &str, share: f64) -> Option<f64> {
    let of_all = out.rfind("Total Statistics (").map(|at| &out[at..])?;
    let (_, rows) = of_all.split_once("Log2 Dist:")?;
    let mut columns: Vec<(i32, f64)> = Vec::new();
    for row in rows.lines().skip(1) {
        let Some((first, counts)) = row.split_once(':') else { break };
        let Ok(first) = first.trim().parse::<i32>() else { break };
        let counts = counts.split_ascii_whitespace().filter_map(|count| count.parse().ok());
        columns.extend((first..).zip(counts));
    }
    let wanted = columns.iter().map(|(_, count)| count).sum::<f64>() * share;
    let mut below = 0.0;
    for (column, count) in columns {
        if count > 0.0 && below + count >= wanted {
            let least = 2_f64.powi(column - 1);
            return Some(least * (1.0 + (wanted - below) / count));
        }
        below += count;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUT: &str = "servers: 127.0.0.1:21211\nthreads count: 1\n\
        Get Statistics (100 events)\n   Min:       103\n   Log2 Dist:\n       4:        0        0        0        100\n\n\
        Total Statistics (200 events)\n   Min:       103\n   Max:     25928\n   Avg:      5613\n   Geo:   5004.82\n   Std:   2652.82\n   \
        Log2 Dist:\n       4:        0        0        0        3\n       8:        7      186        4        0\n\n\
        cmd_get: 180\ncmd_set: 20\n\nRun time: 2.0s Ops: 200 TPS: 100 Net_rate: 10.0M/s\n";

    #[test]
    fn what_memcaslap_says_is_read() {
        let measured = read(OUT).unwrap();
        assert_eq!(measured.values["requests_per_second"], 100.0);
        // 198 of 200: half of those from 512 to 1,023.
        assert_eq!(measured.values["p99_us"], 512.0 * 1.5);
        let bare = read("Run time: 2.0s Ops: 73315 TPS: 36655 Net_rate: 7.4M/s\n").unwrap();
        assert_eq!(bare.values["requests_per_second"], 36_655.0);
        assert!(!bare.values.contains_key("p99_us"));
        assert!(read("conn_sock_conn failed\n").is_err());
    }
}
