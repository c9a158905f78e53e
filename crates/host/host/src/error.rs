//! Why a host did not start, or ended.

use std::io;
use std::path::PathBuf;

use clearway_engine::EngineError;
use clearway_errors::Code;
use clearway_session::worker::Failed;
use clearway_shm::ShmError;
use clearway_shm::activation::ActivationError;
use clearway_shm::host::MAX_WORKERS;
use thiserror::Error;

/// Why a host did not start, or ended.
#[derive(Debug, Error)]
pub enum HostError {
    /// Another host answers at the socket.
    #[error("a host is running at {0}: stop it, or choose another --socket")]
    Running(PathBuf),
    /// The socket cannot be made.
    #[error("cannot make the socket {0}: {1}")]
    Socket(PathBuf, io::Error),
    /// A socket that the service manager handed over.
    #[error("{0}")]
    Given(#[from] ActivationError),
    /// The system refused something that every host needs.
    #[error("cannot {0}: {1}")]
    System(&'static str, io::Error),
    /// Memory for the host page.
    #[error("cannot make the host page: {0}")]
    Page(#[from] ShmError),
    /// None, or too many.
    #[error("a host has 1 to {MAX_WORKERS} workers")]
    Workers,
    /// A worker could not begin.
    #[error("worker {0}: {1}")]
    Thread(usize, String),
    /// A worker failed.
    #[error("worker {0}: {1}")]
    Engine(usize, EngineError),
}

impl HostError {
    /// Of which class it is.
    pub fn code(&self) -> Code {
        match self {
            HostError::Running(_) => Code::HostRuns,
            HostError::Socket(..) | HostError::Given(_) => Code::SocketFailed,
            HostError::System(..) | HostError::Page(_) => Code::SystemRefuses,
            HostError::Workers => Code::Senseless,
            HostError::Thread(..) => Code::WorkerFailed,
            HostError::Engine(_, error) => error.code(),
        }
    }

    /// A worker did not begin.
    pub(crate) fn of_worker(worker: usize, failed: Failed) -> HostError {
        match failed {
            Failed::Start(sentence) => HostError::Thread(worker, sentence),
            Failed::Engine(error) => HostError::Engine(worker, error),
        }
    }
}
