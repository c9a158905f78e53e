//! What goes wrong with a port on its way.

use std::io;
use std::path::PathBuf;

use clearway_dev::DevError;
use clearway_errors::Code;

use crate::guard::Keep;

/// Why a port cannot be had. Printed, each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// What was asked for makes no sense together.
    #[error("{0}")]
    Misuse(String),
    /// It would take an interface that this machine is reached over.
    #[error(
        "{port}: {keep}, so taking it may cut this machine off. Name another interface, or insist \
         with --force"
    )]
    Kept {
        /// The port, as the user named it.
        port: String,
        /// The interface, and why it is kept.
        keep: Keep,
    },
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

impl PortError {
    /// Of which class it is.
    pub fn code(&self) -> Code {
        match self {
            PortError::Misuse(_) => Code::PortMisuse,
            PortError::Kept { .. } => Code::PortKept,
            PortError::Device(error) => error.code(),
            PortError::Capture { .. } => Code::Unwritable,
        }
    }
}
