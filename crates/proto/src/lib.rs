//! The protocol core: IPv4, IPv6, ARP, NDP, ICMP, UDP and TCP, driven by the caller.

#![no_std]
#![forbid(unsafe_code)]
