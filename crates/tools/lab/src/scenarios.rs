//! The scenarios, a file each.

pub(crate) mod connections;
pub(crate) mod http;
pub(crate) mod iperf3_ethernet;
pub(crate) mod iperf3_loopback;
pub(crate) mod latency;
pub(crate) mod pingpong;
pub(crate) mod programs;
pub(crate) mod rate;
pub(crate) mod udp_flood;
pub(crate) mod vhost;
