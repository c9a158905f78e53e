//! The command language: one grammar for the startup script, the interactive shell and one-shot
//! arguments.
//!
//! A command is a line of words. The grammar is a table of patterns ([`forms`]), such as
//! `set interface state INTERFACE (up|down)`; words in small letters stand for themselves, and may
//! be shortened as long as only one word fits; words in capitals are arguments. [`parse`] makes a
//! [`Command`] of a line or tells which word is wrong and what could stand in its place.
//! [`complete`] and [`help`] answer from the same table, so that the shell, the documentation and
//! the parser cannot differ.
//!
//! This crate only understands commands; it does nothing. Any bytes may come in, from anybody.

#![forbid(unsafe_code)]

mod args;
mod command;
mod complete;
mod error;
mod grammar;
mod lex;
mod mask;
mod matcher;
mod pattern;
mod script;
mod table;

pub use args::{Kind, PortRange, SessionName};
pub use command::{
    AclRule, AppLimits, AppNamespace, Clear, Command, Direction, DrainMode, Gate, IpVersion, Line,
    MtuKind, NewSecret, PcapTrace, PlaceOn, ProcNetTable, Protocol, RouteVia, RxMode,
    SessionFilter, Show, TapSpec, TogetherLimits,
};
pub use complete::{Candidate, Names, NoNames, complete, help};
pub use error::{ParseError, Problem};
pub use grammar::{Form, forms, parse};
pub use lex::{MAX_LINE, MAX_WORDS};
pub use mask::{has_secret, without_secrets};
pub use script::{ScriptError, Statement, Statements, statements};
pub use table::markdown;
