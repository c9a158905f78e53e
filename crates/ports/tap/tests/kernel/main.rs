//! The port against the Linux kernel, in network namespaces of the tests' own. These tests need
//! root, and fail without it.

mod attach;
mod common;
mod exchange;
