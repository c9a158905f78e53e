//! The knobs of Linux that scripts set, as they stand in this network namespace.

use std::fs;

use clearway_script::backend::stack::KNOBS;

/// The commands that would set them so.
pub(crate) fn knobs() -> Vec<String> {
    let read = |name: &&str| {
        let text = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?;
        Some(format!("sysctl -q net.ipv4.{name}='{}'", text.trim()))
    };
    KNOBS.iter().filter_map(read).collect()
}
