//! What records cost, and how many cache lines an in-order segment touches.

extern crate std;

use core::mem::{offset_of, size_of};

use crate::tcp::conn::Conn;
use crate::tcp::loss::sent::Sent;
use crate::tcp::paced::Paced;
use crate::tcp::rare_stats::RareStats;
use crate::tcp::reasm::Reasm;
use crate::tcp::records::{SynRcvd, TimeWait};
use crate::tcp::sack::Scoreboard;
use crate::testing::TestEnv;

/// A slab's own part of each entry.
const SLAB: usize = 8;
/// A node of the timer wheel.
const TIMER: usize = 16;
/// A slot of the flow table; at the highest load there are two for each flow, just above a
/// doubling.
const FLOW: usize = 2 * 8;

#[test]
fn an_idle_connection_costs_at_most_408_bytes_all_tables_counted() {
    let all = size_of::<Conn<TestEnv>>() + SLAB + TIMER + FLOW;
    assert!(all <= 408, "{all} bytes, the record alone {}", size_of::<Conn<TestEnv>>());
}

#[test]
fn a_handshake_costs_at_most_128_bytes_and_time_wait_64() {
    let all = size_of::<SynRcvd>() + SLAB + TIMER + FLOW;
    assert!(all <= 128, "{all} bytes");
    assert!(size_of::<TimeWait>() <= 64, "{} bytes", size_of::<TimeWait>());
}

#[test]
fn what_is_kept_of_rare_things_costs_at_most_416_bytes() {
    assert!(size_of::<RareStats>() <= 416, "{} bytes", size_of::<RareStats>());
}

#[test]
fn what_an_in_order_data_segment_touches_fits_two_cache_lines() {
    type C = Conn<TestEnv>;
    // The slab's generation stands before the record.
    let end = SLAB + offset_of!(C, rx);
    assert!(end <= 128, "{end} bytes");
    for at in [
        offset_of!(C, key),
        offset_of!(C, marks),
        offset_of!(C, rcv),
        offset_of!(C, snd),
        offset_of!(C, delack),
    ] {
        assert!(at < offset_of!(C, rx));
    }
}

#[test]
fn the_table_of_records_in_the_docs_says_what_they_weigh() {
    let page = include_str!("../../../../../../docs/cost.md");
    let records = [
        ("connection", size_of::<Conn<TestEnv>>()),
        ("what is rare of a connection", size_of::<RareStats>()),
        ("handshake (SYN-RECEIVED)", size_of::<SynRcvd>()),
        ("TIME-WAIT", size_of::<TimeWait>()),
        ("what was sent, and when", size_of::<Sent>()),
        ("scoreboard", size_of::<Scoreboard>()),
        ("map of early bytes", size_of::<Reasm>()),
        ("pacing and BBR", size_of::<Paced>()),
    ];
    for (name, bytes) in records {
        let row = std::format!("| {name} | {bytes} |");
        assert!(page.contains(&row), "docs/cost.md has no row that begins with `{row}`");
    }
}
