//! `clearway` against the Linux kernel over a TAP device, each test in a network namespace of its
//! own. They need root: without it they say that they are skipped, or fail where `CI` is set.

mod baselines;
mod basics;
mod bench;
mod bulk;
mod flood;
mod http;
mod load;
#[path = "../common/netns.rs"]
mod netns;
mod stuck;
mod world;
