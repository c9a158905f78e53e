//! The knobs of Linux that scripts set before their first socket, as they stand in this network namespace.

use std::fs;

/// Those that the core has too.
const KNOBS: &[&str] = &[
    "tcp_timestamps",
    "tcp_sack",
    "tcp_window_scaling",
    "tcp_syncookies",
    "tcp_syn_retries",
    "tcp_synack_retries",
    "tcp_retries2",
    "tcp_fin_timeout",
    "tcp_congestion_control",
];

/// The commands that would set them so.
pub(crate) fn knobs() -> Vec<String> {
    let read = |name: &&str| {
        let text = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?;
        Some(format!("sysctl -q net.ipv4.{name}={}", text.trim()))
    };
    KNOBS.iter().filter_map(read).collect()
}
