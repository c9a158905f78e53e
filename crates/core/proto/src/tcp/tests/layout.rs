//! What records cost, and how many cache lines an in-order segment touches.

use core::mem::{offset_of, size_of};

use crate::tcp::conn::Conn;
use crate::tcp::rare_stats::RareStats;
use crate::tcp::records::{SynRcvd, TimeWait};
use crate::testing::TestEnv;

/// A slab's own part of each entry.
const SLAB: usize = 8;
/// A node of the timer wheel.
const TIMER: usize = 16;
/// A slot of the flow table; at the highest load there are two for each flow, just above a doubling.
const FLOW: usize = 2 * 8;

#[test]
fn an_idle_connection_costs_at_most_472_bytes_all_tables_counted() {
    let all = size_of::<Conn<TestEnv>>() + SLAB + TIMER + FLOW;
    assert!(all <= 472, "{all} bytes, the record alone {}", size_of::<Conn<TestEnv>>());
}

#[test]
fn a_handshake_costs_at_most_128_bytes_and_time_wait_64() {
    let all = size_of::<SynRcvd>() + SLAB + TIMER + FLOW;
    assert!(all <= 128, "{all} bytes");
    assert!(size_of::<TimeWait>() <= 64, "{} bytes", size_of::<TimeWait>());
}

#[test]
fn what_is_kept_of_rare_things_costs_at_most_360_bytes() {
    assert!(size_of::<RareStats>() <= 360, "{} bytes", size_of::<RareStats>());
}

#[test]
fn what_an_in_order_data_segment_touches_fits_two_cache_lines() {
    type C = Conn<TestEnv>;
    // The slab's generation stands before the record.
    let end = SLAB + offset_of!(C, rx);
    assert!(end <= 128, "{end} bytes");
    for at in [offset_of!(C, key), offset_of!(C, marks), offset_of!(C, rcv), offset_of!(C, snd), offset_of!(C, delack)]
    {
        assert!(at < offset_of!(C, rx));
    }
}
