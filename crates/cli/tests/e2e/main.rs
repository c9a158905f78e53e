//! `clearway` against the Linux kernel over a TAP device, each test in a network namespace of its own. They need root, and say so and do nothing without it.

mod basics;
mod bulk;
mod flood;
mod http;
mod load;
mod world;
