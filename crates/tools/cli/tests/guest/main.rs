//! A vhost-user port with what stands at its other end: a real Linux guest in QEMU, peers that come
//! and go, and a peer that means harm. See docs/guest.md.

mod archive;
mod clearway;
mod front;
mod hostile;
mod image;
mod lifecycle;
mod link;
mod machine;
#[path = "../common/preload.rs"]
mod preload;
#[path = "../common/skip.rs"]
mod skip;
mod wire;
mod withdraw;
