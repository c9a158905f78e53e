//! Why an engine ended, or could not do what it was told.

use std::fmt;
use std::io;

use clearway_dev::DevError;
use clearway_errors::Code;
use clearway_pkt::Iface;
use clearway_proto::AddError;

use crate::wait::MAX_PORTS;

/// Why an engine ended, or a port was not taken.
#[derive(Debug)]
pub enum EngineError {
    /// A port is of no more use.
    Device(DevError),
    /// The system does not let us sleep.
    Wait(io::Error),
    /// The application could not begin; in its own words.
    App(String),
    /// A port could not become an interface of the stack.
    Interface {
        /// The port's name.
        name: String,
        /// What the stack has against it.
        why: AddError,
    },
    /// The stack has an interface of this number that this engine did not make.
    InterfaceTaken(Iface),
    /// The interface has no port.
    NoPort(Iface),
    /// The stack takes no such MTU for this interface.
    Mtu(AddError),
    /// More ports than one engine drives.
    TooManyPorts,
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EngineError::Device(error) => error.fmt(f),
            EngineError::Wait(error) => write!(f, "cannot wait for packets: {error}"),
            EngineError::App(sentence) => f.write_str(sentence),
            EngineError::Interface { name, why } => {
                let why = match why {
                    AddError::Full => "there are as many interfaces as the limits allow",
                    AddError::NoTable => {
                        "its routing table is not there; raise the limit of tables"
                    }
                    AddError::BadMtu => "its MTU is not between 576 and 65535 bytes",
                    AddError::BadAddress => "its Ethernet address is a group's or none",
                    AddError::Exists | AddError::NoInterface | AddError::BadGateway => {
                        "the stack refuses it"
                    }
                };
                write!(f, "{name} cannot be an interface: {why}")
            }
            EngineError::InterfaceTaken(iface) => {
                write!(f, "the stack has an interface {} already that no port belongs to", iface.0)
            }
            EngineError::NoPort(iface) => write!(f, "interface {} has no port", iface.0),
            EngineError::Mtu(_) => f.write_str(
                "an MTU is from 576 to 65535 bytes, and at least 1280 on an interface \
                    with IPv6 addresses",
            ),
            EngineError::TooManyPorts => write!(f, "one engine drives {MAX_PORTS} ports at most"),
        }
    }
}

impl EngineError {
    /// Of which class it is.
    pub fn code(&self) -> Code {
        match self {
            EngineError::Device(error) => error.code(),
            EngineError::Wait(_) => Code::SystemRefuses,
            EngineError::App(_) => Code::WorkerFailed,
            EngineError::Interface { .. } => Code::PortFailed,
            EngineError::InterfaceTaken(_) => Code::Exists,
            EngineError::NoPort(_) => Code::NoSuchThing,
            EngineError::Mtu(_) => Code::BadMtu,
            EngineError::TooManyPorts => Code::Full,
        }
    }
}

impl std::error::Error for EngineError {}

impl From<DevError> for EngineError {
    fn from(error: DevError) -> EngineError {
        EngineError::Device(error)
    }
}
