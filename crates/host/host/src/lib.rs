//! The host: a stack on every core for programs that reach it over shared memory.
//!
//! One thread, the *supervisor*, lets processes in and notices their end. One *worker* per core
//! runs an engine; a session lives on exactly one worker. Whoever is not a worker reaches one by
//! sending it a job ([`HostHandle::post`]).

#![forbid(unsafe_code)]

mod answer;
mod autoconf;
pub mod by_hand;
mod capture;
pub mod config;
pub mod control;
pub mod descriptors;
pub mod error;
pub mod host;
mod leases;
mod link_mtus;
mod made;
pub mod namespaces;
mod outcome;
mod placements;
mod random;
pub mod setup;
mod show;
mod sockets;
mod supervisor;
mod tables;
mod teller;
mod workers;

pub use by_hand::HostByHand;
pub use clearway_session::{
    Gone, HostEnv, InterfaceEntry, InterfaceKind, Interfaces, NamesError, ProgramInfo,
    ProgramLimits, Quota, QuotaInfo, QuotaRow, SessionInfo, SessionKind, Sessions, SessionsReport,
    Thing, ThreadHook, Worker,
};
pub use config::{ControlOptions, Settings, SettingsError};
pub use control::{
    Control, ControlSocket, LeaseKeeper, MAX_DEPTH, MetricsFormat, OnDrain, OnReload, PortWatch,
    classic_metrics,
};
pub use descriptors::Descriptors;
pub use error::HostError;
pub use host::{Host, HostHandle};
pub use namespaces::{
    Namespace, NamespaceError, NamespaceLimits, NamespaceSpec, Namespaces, TogetherLimits,
};
pub use outcome::{Answer, CommandError, Outcome, Output};
pub use setup::Setup;
pub use supervisor::SupervisorCounts;
