//! A load generator and a responder, for our stack and for the kernel's sockets.
//!
//! [`Client`] decides what is asked when, and what an answer took; it sees connections only as a
//! [`Net`]. [`stack`] runs it inside the engine's turn, [`kernel`] over sockets of the operating
//! system with epoll, so that it can drive any server. [`Answerer`] is the other side in the same
//! manner.
//!
//! Nothing in here walks over all connections in a turn, and what a connection costs that exists
//! and is not asked is 16 bytes.

#![forbid(unsafe_code)]

pub mod client;
pub mod framing;
pub mod kernel;
pub mod net;
pub mod plan;
pub mod server;
pub mod source;
pub mod stack;
pub mod text;

pub use client::{Client, ClientReport, Phase};
pub use framing::Framing;
pub use net::{Net, OpenError, Token};
pub use plan::{ClientPlan, Pattern, Protocol, ServerPlan, Start};
pub use server::{Answerer, ServerReport};
pub use source::{AddressRange, Sources};
