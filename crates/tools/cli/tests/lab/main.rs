//! `clearway lab` end to end: small runs over every kind of link, what they leave, and what
//! comparing says.

#[path = "../common/preload.rs"]
mod preload;
#[path = "../common/skip.rs"]
mod skip;

mod browser;
mod comparing;
mod ending;
mod links;
mod usage;
mod world;
