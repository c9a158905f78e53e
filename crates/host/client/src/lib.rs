#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc)]
//! A program's side of the host: attach, streams, listeners, datagrams, readiness, fork.
//!
//! A process has one [`Client`]. It makes [`Socket`]s, which live in the host and whose bytes lie
//! in memory that both share; [`poll`] and [`EpollSet`] wait for them together with descriptors of
//! the kernel. What is done to a socket fails with the [`Errno`] that Linux would give.
//!
//! Everything may be called from any thread. All system calls go around the C library, so a library
//! that stands in for the C library's functions can be built on this one.

mod ahead;
mod attach;
mod back;
mod client;
mod config;
mod core;
mod epoll;
mod errno;
mod event_source;
mod fork;
mod hub;
mod inside;
mod internal;
mod notifier;
mod poll;
mod ready;
mod routes;
mod session_fd;
mod socket;
mod spin;
mod wait;

pub use attach::AttachError;
pub use back::Renew;
pub use clearway_shm::attach_socket::{
    Congestion, Dns, DnsServer, ErrorReport, GroupChange, Info, Interface, InterfaceCounts, Kind,
    LONGEST_QUOTE, SentStamp, SocketOptions, SocketTable,
};
pub use clearway_shm::fault;
pub use clearway_shm::in_process;
pub use clearway_shm::interrupt;
pub use clearway_shm::layout::flags;
pub use clearway_shm::wait::{PollFd, every_handler_restarts_but, is_confined, sleep_poll};
pub use client::Client;
pub use config::{AppConfig, ConfigError, DnsOf, ShownInterfaces, Wildcard};
pub use epoll::{EpollEvent, EpollSet};
pub use errno::Errno;
pub use event_source::EventSource;
pub use internal::is_internal;
pub use notifier::Notifier;
pub use poll::{PollEntry, Target, poll};
pub use routes::destination;
pub use session_fd::{cookie, may_be_session_fd};
pub use socket::{Arrived, How, Received, SendTo, Socket};
