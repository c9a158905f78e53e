//! The host stack with programs that know nothing of it, as an ordinary user would run it: no root,
//! no device. Each test has a host of its own in a folder of its own.

mod again;
mod capture;
mod chapter;
mod cut_through;
mod death;
mod dhcp;
mod drain;
mod early;
mod ethernet;
#[path = "../common/executable.rs"]
mod executable;
mod ip;
mod iperf;
mod json;
mod lost;
#[path = "../common/netns.rs"]
mod netns;
mod nstat;
mod orderly;
#[path = "../common/preload.rs"]
mod preload;
mod probes;
mod proc_net;
mod programs;
#[path = "../common/schema.rs"]
mod schema;
mod slaac;
mod ss;
mod stamps;
mod stuck;
mod top;
mod traffic;
#[cfg(target_arch = "x86_64")]
mod trap;
mod trust;
mod unfit;
mod world;
mod xdp;
