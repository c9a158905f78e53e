//! The port over veth pairs, in network namespaces of the tests' own. These tests need root, and
//! fail without it.

mod attach;
mod common;
mod exchange;
mod own_buffers;
