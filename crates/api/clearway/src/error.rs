//! What goes wrong.

use clearway_engine::EngineError;
use clearway_ports::PortError;

/// Why a [`crate::Net`] or a [`crate::Pair`] cannot be had or has ended. Printed, each says what to
/// do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for makes no sense.
    #[error("{0}")]
    Misuse(String),
    /// A port cannot be opened.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The engine has ended.
    #[error("{0}")]
    Engine(EngineError),
    /// The system refuses something.
    #[error("{what}: {source}")]
    System {
        /// What was wanted.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The applications of a pair were not finished within the time.
    #[error(
        "not finished after {0} seconds of their own time; something waits for what never comes"
    )]
    NotFinished(u64),
}

impl From<EngineError> for Error {
    fn from(why: EngineError) -> Error {
        Error::Engine(why)
    }
}

pub(crate) fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::System { what, source }
}
