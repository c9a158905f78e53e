//! What goes wrong with a port on its way.

use std::io;
use std::path::PathBuf;

use clearway_dev::DevError;

/// Why a port cannot be had. Printed, each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// What was asked for makes no sense together.
    #[error("{0}")]
    Misuse(String),
    /// The device cannot be opened.
    #[error(transparent)]
    Device(#[from] DevError),
    /// The file for a port's packets cannot be written.
    #[error("cannot write the capture {}", path.display())]
    Capture {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}
