//! What the command says when it fails: with the class of the error, and the exit code.

use std::fmt;
use std::io;

use clearway_command::ParseError;
use clearway_dev::DevError;
use clearway_engine::EngineError;
use clearway_errors::Code;
use clearway_host::{CommandError, HostError, SettingsError};
use clearway_ports::PortError;

/// The command was understood and asks for something that makes no sense: exit code 2.
#[derive(Debug)]
pub(crate) struct WrongUse(pub(crate) String);

impl fmt::Display for WrongUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongUse {}

/// A failure whose class is known where it is told.
#[derive(Debug)]
pub(crate) struct Coded {
    code: Option<Code>,
    text: String,
    is_wrong_use: bool,
}

impl Coded {
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Coded {
        Coded { code: Some(code), text: text.into(), is_wrong_use: false }
    }

    /// The same with the exit code of wrong use.
    pub(crate) fn wrong_use(code: Code, text: impl Into<String>) -> Coded {
        Coded { is_wrong_use: true, ..Coded::new(code, text) }
    }

    /// What another process said, which may begin with its class, behind what is to be said first.
    pub(crate) fn heard(before: &str, said: &str) -> Coded {
        let (code, text) = Code::split(said);
        Coded { code, text: format!("{before}{text}"), is_wrong_use: false }
    }

    /// With the exit code of wrong use, if that is what it was.
    pub(crate) fn if_wrong_use(self, is_wrong_use: bool) -> Coded {
        Coded { is_wrong_use, ..self }
    }
}

impl fmt::Display for Coded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Coded {}

/// The exit code of a failure.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    let is_wrong_use = error.is::<WrongUse>()
        || error.downcast_ref::<Coded>().is_some_and(|coded| coded.is_wrong_use);
    if is_wrong_use { 2 } else { 1 }
}

/// Of which class a failure is.
pub(crate) fn code(error: &anyhow::Error) -> Code {
    fn of<E>(error: &anyhow::Error, code: fn(&E) -> Code) -> Option<Code>
    where
        E: fmt::Display + fmt::Debug + Send + Sync + 'static,
    {
        error.downcast_ref::<E>().map(code)
    }
    error
        .downcast_ref::<Coded>()
        .and_then(|coded| coded.code)
        .or_else(|| of(error, SettingsError::code))
        .or_else(|| of(error, CommandError::code))
        .or_else(|| of(error, HostError::code))
        .or_else(|| of(error, PortError::code))
        .or_else(|| of(error, EngineError::code))
        .or_else(|| of(error, DevError::code))
        .or_else(|| of(error, ParseError::code))
        .or_else(|| error.is::<WrongUse>().then_some(Code::Senseless))
        .or_else(|| error.chain().find_map(|cause| system(cause.downcast_ref()?)))
        .unwrap_or(Code::Failed)
}

/// The class of what the system said.
fn system(error: &io::Error) -> Option<Code> {
    match error.kind() {
        io::ErrorKind::NotFound => Some(Code::NotThere),
        io::ErrorKind::PermissionDenied => Some(Code::NoPermission),
        io::ErrorKind::AddrInUse => Some(Code::AddressInUse),
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::TimedOut => Some(Code::Unreachable),
        _ => None,
    }
}

/// What a failure is told as, behind the command's name.
pub(crate) fn told(error: &anyhow::Error) -> String {
    code(error).before(format_args!("{error:#}")).to_string()
}

#[cfg(test)]
mod tests;
