//! A runner for a subset of packetdrill's language, against the core or against the Linux kernel.
//!
//! A script says which packets come, which calls the program makes, and what the stack under test
//! must answer, with the time of each. The same script runs against two stacks: Clearway's core in
//! virtual time, and the kernel of this machine, through a TUN device in a network namespace of its
//! own. Where both hold, the script says what TCP is; where one fails, somebody is wrong. See
//! `docs/scripts.md` for the language.

#![forbid(unsafe_code)]

pub mod ast;
pub mod backend;
pub mod errno;
pub mod expr;
pub mod flow;
pub mod lex;
pub mod parse;
pub mod run;
pub mod settings;
pub mod suite;

mod build;
mod calls;
mod compare;
mod show;

pub use backend::Backend;
pub use parse::parse;
pub use run::{Failure, Runner};
pub use settings::{IpVersion, Subject};
