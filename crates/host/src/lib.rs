//! The host: a stack on every core for programs that reach it over shared memory.
//!
//! One thread, the *keeper*, lets processes in and notices their end. One *worker* per core runs an engine; a session lives on exactly one worker.
//! Whoever is not a worker reaches one by sending it a job ([`HouseHandle::post`]).

#![forbid(unsafe_code)]

mod answer;
pub mod by_hand;
mod capture;
pub mod config;
pub mod control;
pub mod descriptors;
pub mod env;
mod errno;
pub mod house;
pub mod interfaces;
mod keeper;
pub mod mailbox;
pub mod memory;
pub mod namespaces;
pub mod program;
pub mod quota;
mod session_fds;
pub mod sessions;
pub mod setup;
mod show;
pub mod store;
pub mod worker;

pub use by_hand::HouseByHand;
pub use config::{Settings, SettingsError};
pub use control::{Answer, CommandError, Control, ControlOptions, ControlSocket, Outcome};
pub use descriptors::Descriptors;
pub use env::HostEnv;
pub use house::{Gone, House, HouseError, HouseHandle};
pub use interfaces::{InterfaceEntry, InterfaceKind, Interfaces, NamesError};
pub use keeper::KeeperCounts;
pub use namespaces::{Namespace, NamespaceError, NamespaceSpec, Namespaces};
pub use program::{NamespaceLimits, ProgramInfo, ProgramLimits, TogetherLimits};
pub use quota::{Quota, QuotaInfo, QuotaRow, Thing};
pub use sessions::{SessionInfo, SessionKind, Sessions, SessionsReport};
pub use setup::{Setup, ThreadHook};
pub use worker::Worker;
