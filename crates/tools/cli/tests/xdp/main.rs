//! `clearway` over AF_XDP sockets on one end of a veth pair, with Linux, or another `clearway`, at
//! the other end.

#[path = "../common/netns.rs"]
mod netns;
mod rights;
mod serving;
mod world;
