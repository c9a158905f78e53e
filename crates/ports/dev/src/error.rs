//! What goes wrong with a device, said in a sentence with a remedy.

use std::fmt;
use std::io;

use clearway_errors::Code;

/// A device that cannot be opened or is of no more use.
#[derive(Debug)]
pub struct DevError {
    port: String,
    what: String,
    remedy: String,
    source: Option<io::Error>,
}

impl DevError {
    /// `port` as the user named it, `what` went wrong, and what the user can do about it: both a
    /// sentence without the full stop.
    pub fn new(
        port: impl Into<String>,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> DevError {
        DevError { port: port.into(), what: what.into(), remedy: remedy.into(), source: None }
    }

    /// The same, with what the system said.
    pub fn with_source(mut self, source: io::Error) -> DevError {
        self.source = Some(source);
        self
    }

    /// Of which class it is, as far as the system has said.
    pub fn code(&self) -> Code {
        match self.source.as_ref().map(io::Error::kind) {
            Some(io::ErrorKind::PermissionDenied) => Code::PortDenied,
            Some(io::ErrorKind::ResourceBusy | io::ErrorKind::AddrInUse) => Code::PortBusy,
            Some(io::ErrorKind::NotFound) => Code::PortAbsent,
            _ => Code::PortFailed,
        }
    }

    /// The port, as the user named it.
    pub fn port(&self) -> &str {
        &self.port
    }

    /// What went wrong.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// What the user can do about it.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}

impl fmt::Display for DevError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.port, self.what)?;
        if let Some(source) = &self.source {
            write!(f, " ({source})")?;
        }
        write!(f, ". {}.", self.remedy)
    }
}

impl std::error::Error for DevError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The system's words are part of the sentence already; a printer of error chains must not
        // say them twice.
        None
    }
}
