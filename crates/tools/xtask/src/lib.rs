//! The developer tasks of this workspace: the gates that every commit passes, and the checks behind
//! them.
//!
//! The checks take the root of a tree as an argument and return findings, so that the tests of this
//! crate can hand them small trees with one rule broken on purpose.

pub mod book;
pub mod built;
pub mod ci;
pub mod cli;
pub mod cost;
pub mod deny;
pub mod drawing;
pub mod finding;
pub mod floors;
pub mod layers;
pub mod modules;
pub mod order;
pub mod packages;
pub mod page;
pub mod programs;
pub mod rfc;
pub mod run;
pub mod source;
mod suite;
pub mod tally;
pub mod tidy;
