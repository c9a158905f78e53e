//! Clients against a real host: two programs in two namespaces on two loopbacks.

mod datagrams;
mod death;
mod epoll;
mod guests;
mod inheritors;
mod poll;
mod streams;
mod threads;

#[path = "../../../host/tests/host/eventually.rs"]
mod eventually;
#[path = "../../../host/tests/host/world.rs"]
#[allow(dead_code, unreachable_pub, reason = "made for the host's own tests")]
mod world;
