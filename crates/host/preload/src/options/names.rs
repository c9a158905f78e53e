//! Options by name, and which of them a socket can go without.

use std::ffi::c_int;

/// Tuning: a connection does the same without it.
const TUNING: &[(c_int, c_int, &str)] = &[
    (libc::SOL_SOCKET, libc::SO_INCOMING_CPU, "SO_INCOMING_CPU"),
    (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, "SO_MAX_PACING_RATE"),
    (libc::SOL_SOCKET, libc::SO_ZEROCOPY, "SO_ZEROCOPY"),
    (libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, "SO_PREFER_BUSY_POLL"),
    (libc::SOL_SOCKET, libc::SO_BUSY_POLL_BUDGET, "SO_BUSY_POLL_BUDGET"),
    (libc::SOL_SOCKET, libc::SO_DEBUG, "SO_DEBUG"),
    (libc::IPPROTO_TCP, libc::TCP_SYNCNT, "TCP_SYNCNT"),
    (libc::IPPROTO_TCP, libc::TCP_LINGER2, "TCP_LINGER2"),
    (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, "TCP_WINDOW_CLAMP"),
    (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, "TCP_NOTSENT_LOWAT"),
    (libc::IPPROTO_TCP, libc::TCP_FASTOPEN, "TCP_FASTOPEN"),
    (libc::IPPROTO_TCP, libc::TCP_THIN_LINEAR_TIMEOUTS, "TCP_THIN_LINEAR_TIMEOUTS"),
    (libc::IPPROTO_TCP, libc::TCP_THIN_DUPACK, "TCP_THIN_DUPACK"),
    (libc::IPPROTO_TCP, libc::TCP_SAVE_SYN, "TCP_SAVE_SYN"),
    (libc::IPPROTO_TCP, libc::TCP_CONGESTION, "TCP_CONGESTION"),
    (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, "IP_BIND_ADDRESS_NO_PORT"),
    (libc::IPPROTO_IP, libc::IP_RECVERR, "IP_RECVERR"),
    (libc::IPPROTO_IP, libc::IP_FREEBIND, "IP_FREEBIND"),
    (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, "IP_MTU_DISCOVER"),
    (libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, "IP_MULTICAST_TTL"),
    (libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, "IP_MULTICAST_LOOP"),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVERR, "IPV6_RECVERR"),
    (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, "IPV6_MTU_DISCOVER"),
    (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS, "IPV6_MULTICAST_HOPS"),
    (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP, "IPV6_MULTICAST_LOOP"),
    (libc::IPPROTO_IPV6, IPV6_FLOWINFO_SEND, "IPV6_FLOWINFO_SEND"),
    (libc::IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, "IPV6_AUTOFLOWLABEL"),
    (libc::IPPROTO_IPV6, IPV6_ADDR_PREFERENCES, "IPV6_ADDR_PREFERENCES"),
];

/// What makes a socket a different one: it stays with the kernel, which has these.
const KERNELS: &[(c_int, c_int, &str)] = &[
    (libc::SOL_SOCKET, libc::SO_BINDTODEVICE, "SO_BINDTODEVICE"),
    (libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, "SO_BINDTOIFINDEX"),
    (libc::SOL_SOCKET, libc::SO_MARK, "SO_MARK"),
    (libc::SOL_SOCKET, libc::SO_DONTROUTE, "SO_DONTROUTE"),
    (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, "SO_ATTACH_FILTER"),
    (libc::SOL_SOCKET, libc::SO_ATTACH_BPF, "SO_ATTACH_BPF"),
    (libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, "SO_ATTACH_REUSEPORT_CBPF"),
    (libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_EBPF, "SO_ATTACH_REUSEPORT_EBPF"),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMP, "SO_TIMESTAMP"),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, "SO_TIMESTAMPNS"),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPING, "SO_TIMESTAMPING"),
    (libc::SOL_SOCKET, libc::SO_TXTIME, "SO_TXTIME"),
    (libc::SOL_SOCKET, libc::SO_NETNS_COOKIE, "SO_NETNS_COOKIE"),
    (libc::IPPROTO_TCP, libc::TCP_MD5SIG, "TCP_MD5SIG"),
    (libc::IPPROTO_TCP, libc::TCP_ULP, "TCP_ULP"),
    (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, "TCP_FASTOPEN_CONNECT"),
    (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_KEY, "TCP_FASTOPEN_KEY"),
    (libc::IPPROTO_TCP, libc::TCP_REPAIR, "TCP_REPAIR"),
    (libc::IPPROTO_IP, libc::IP_TRANSPARENT, "IP_TRANSPARENT"),
    (libc::IPPROTO_IP, libc::IP_OPTIONS, "IP_OPTIONS"),
    (libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, "IP_ADD_MEMBERSHIP"),
    (libc::IPPROTO_IP, libc::IP_ADD_SOURCE_MEMBERSHIP, "IP_ADD_SOURCE_MEMBERSHIP"),
    (libc::IPPROTO_IP, libc::IP_MULTICAST_IF, "IP_MULTICAST_IF"),
    (libc::IPPROTO_IP, libc::IP_RECVORIGDSTADDR, "IP_RECVORIGDSTADDR"),
    (libc::IPPROTO_IP, libc::MCAST_JOIN_GROUP, "MCAST_JOIN_GROUP"),
    (libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT, "IPV6_TRANSPARENT"),
    (libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP, "IPV6_ADD_MEMBERSHIP"),
    (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF, "IPV6_MULTICAST_IF"),
    (libc::IPPROTO_IPV6, libc::MCAST_JOIN_GROUP, "MCAST_JOIN_GROUP"),
    (libc::IPPROTO_UDP, UDP_ENCAP, "UDP_ENCAP"),
    (libc::IPPROTO_UDP, libc::UDP_CORK, "UDP_CORK"),
];

/// From `linux/in6.h`; the `libc` crate does not have these.
pub(crate) const IPV6_FLOWINFO_SEND: c_int = 33;
pub(crate) const IPV6_AUTOFLOWLABEL: c_int = 70;
const IPV6_ADDR_PREFERENCES: c_int = 72;
/// From `linux/udp.h`.
const UDP_ENCAP: c_int = 100;

fn find(list: &'static [(c_int, c_int, &'static str)], level: c_int, name: c_int) -> Option<&'static str> {
    list.iter().find(|entry| (entry.0, entry.1) == (level, name)).map(|entry| entry.2)
}

/// A socket of Clearway may do without this option.
pub(super) fn only_tunes(level: c_int, name: c_int) -> bool {
    find(TUNING, level, name).is_some()
}

/// A socket with this option stays with the kernel.
pub(super) fn is_only_the_kernels(level: c_int, name: c_int) -> bool {
    find(KERNELS, level, name).is_some()
}

/// The option's name as in C, or its numbers.
pub(super) fn name(level: c_int, name: c_int) -> String {
    match find(TUNING, level, name).or_else(|| find(KERNELS, level, name)) {
        Some(known) => known.to_owned(),
        None => format!("socket option {name} of level {level}"),
    }
}
