//! A runner for a subset of packetdrill's language, against the core or against the Linux kernel.
