//! What programs' sockets are in the host: sessions, the FIFOs between them and the stack, and one
//! worker's engine.
//!
//! It knows no attach socket and nobody who supervises: what a program asks for comes as a call on
//! the session's worker, by a [`mailbox::Job`], and what sessions need of the rest of the host is a
//! trait ([`sessions::HostContext`]).

#![forbid(unsafe_code)]

pub mod env;
pub mod errno;
pub mod interfaces;
pub mod mailbox;
pub mod memory;
pub mod program;
pub mod quota;
pub mod session_fds;
pub mod sessions;
pub mod store;
mod traced;
pub mod traffic;
pub mod worker;

pub use env::HostEnv;
pub use interfaces::{InterfaceEntry, InterfaceKind, Interfaces, NamesError};
pub use mailbox::Gone;
pub use program::{Program, ProgramInfo, ProgramLimits};
pub use quota::{Quota, QuotaInfo, QuotaRow, Thing};
pub use sessions::{HostContext, SessionInfo, SessionKind, Sessions, SessionsReport};
pub use worker::{ThreadHook, Worker, WorkerSetup};
