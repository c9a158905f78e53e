//! Everything between the device and the transports: links, addresses, routes and neighbours, IP in
//! and out, ICMP, multicast groups.

pub(crate) mod arp;
pub(crate) mod emit;
pub(crate) mod frag;
pub(crate) mod group_reports;
pub(crate) mod groups;
pub(crate) mod icmp;
pub(crate) mod iface;
pub(crate) mod ip;
pub(crate) mod local;
pub(crate) mod ndp;
pub(crate) mod neigh;
pub(crate) mod output;
pub(crate) mod path_cache;
pub(crate) mod pmtu;
pub(crate) mod rate;
pub(crate) mod replies;
pub(crate) mod route;
pub(crate) mod routers;
