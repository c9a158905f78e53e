//! Tasks over a real host: two programs in two namespaces on two loopbacks.

mod cancelled;
mod datagrams;
mod endings;
mod guests;
mod idle;
mod streams;

#[path = "../../../../host/host/tests/host/eventually.rs"]
mod eventually;
#[path = "../../../../host/host/tests/host/world.rs"]
#[allow(dead_code, unreachable_pub, reason = "made for the host's own tests")]
mod world;
