//! Why a command was understood and not carried out.

use std::io;
use std::path::PathBuf;

use clearway_command::ScriptError;
use clearway_dev::rules::RuleError;
use clearway_engine::EngineError;
use clearway_errors::Code;
use clearway_ports::PortError;
use clearway_proto::AddError;
use clearway_session::interfaces::NamesError;
use clearway_session::mailbox::Gone;
use thiserror::Error;

use crate::namespaces::NamespaceError;

/// Why a command was not carried out. Printed, it says what to do.
#[derive(Debug, Error)]
pub enum CommandError {
    /// No interface of that name.
    #[error("there is no interface `{0}`. `show interface` lists those that are")]
    NoInterface(String),
    /// The interface is of another kind.
    #[error("`{name}` {why}")]
    Interface {
        /// Its name.
        name: String,
        /// Why this cannot be done with it.
        why: String,
    },
    /// The stack refuses.
    #[error("{what}: {}", sentence(*.why))]
    Add {
        /// What was to be added.
        what: String,
        /// Why it was not.
        why: AddError,
    },
    /// No such thing.
    #[error("there is no {0}")]
    Missing(String),
    /// No routing table of that number.
    #[error("there is no table {0}. Make it with `ip table add {0}`")]
    NoTable(u32),
    /// The table is there.
    #[error("there is a table {0} already")]
    TableExists(u32),
    /// Something is in the table.
    #[error("table {0} is in use: by {1}")]
    TableInUse(u32, String),
    /// All tables are taken.
    #[error(
        "there are {0} tables, as many as the limits allow. Raise `tables` in the section [limits] \
         of the settings"
    )]
    TooManyTables(usize),
    /// A name is taken.
    #[error(transparent)]
    Names(#[from] NamesError),
    /// A namespace cannot be made.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// A port cannot be opened.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A device refuses.
    #[error(transparent)]
    Device(#[from] clearway_dev::DevError),
    /// An engine does not take a port.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A specification of faults is none.
    #[error("{0}")]
    Fault(clearway_dev::SpecError),
    /// The session layer cannot be switched off.
    #[error("the session layer is always on")]
    AlwaysOn,
    /// A rule makes no sense, or there is none of that number.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// There is a capture already.
    #[error("packets are captured into {} already. End that with `pcap trace off`", .0.display())]
    Capturing(PathBuf),
    /// A capture's filter cannot be understood.
    #[error(transparent)]
    Filter(#[from] clearway_dev::FilterError),
    /// A file cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// This build does not have it.
    #[error("{0} is not built in")]
    NotBuiltIn(&'static str),
    /// A program of the system failed.
    #[error("{0}")]
    System(String),
    /// A script cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Unreadable {
        /// The script.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A session is no connection, or its connection is over.
    #[error("session {0} is no connection that could be reset")]
    NoConnection(String),
    /// Not a script.
    #[error("{} is no script: a file of at most 1 MiB", .0.display())]
    NoScript(PathBuf),
    /// A script has a wrong line; nothing of it was done.
    #[error("{}: {error}\nNothing of the script was done.", path.display())]
    Script {
        /// The script.
        path: PathBuf,
        /// What is wrong.
        error: Box<ScriptError>,
    },
    /// A line of a script failed; those before it were done.
    #[error("{}: line {number}: {error}", path.display())]
    InScript {
        /// The script.
        path: PathBuf,
        /// The line, counted from 1.
        number: usize,
        /// Why.
        error: Box<CommandError>,
    },
    /// Scripts call scripts without end.
    #[error("scripts call each other too deeply")]
    TooDeep,
    /// Settings that are read again differ in what cannot change.
    #[error(
        "these settings cannot change while the host runs: {0}. Nothing was changed; start the \
         host anew for them, or take them back"
    )]
    Fixed(String),
    /// Somebody else could not do it, and says why.
    #[error("{1}")]
    Told(Code, String),
    /// A command that cannot be part of a script.
    #[error("`{0}` is no command of scripts: give it by itself")]
    ByItself(&'static str),
    /// The host has ended.
    #[error(transparent)]
    Gone(#[from] Gone),
}

impl CommandError {
    /// Of which class it is.
    pub fn code(&self) -> Code {
        match self {
            CommandError::NoInterface(_) | CommandError::Missing(_) | CommandError::NoTable(_) => {
                Code::NoSuchThing
            }
            CommandError::Interface { .. } | CommandError::NoConnection(_) => Code::WrongKind,
            CommandError::Add { why, .. } => class(*why),
            CommandError::TableExists(_) | CommandError::Names(NamesError::Exists(_)) => {
                Code::Exists
            }
            CommandError::TableInUse(..) | CommandError::Capturing(_) => Code::InUse,
            CommandError::TooManyTables(_) => Code::Full,
            CommandError::Namespace(error) => error.code(),
            CommandError::Port(error) => error.code(),
            CommandError::Device(error) => error.code(),
            CommandError::Engine(error) => error.code(),
            CommandError::Rule(RuleError::Full) => Code::Full,
            CommandError::Rule(RuleError::NoRule) => Code::NoSuchThing,
            CommandError::Fault(_) | CommandError::Rule(_) | CommandError::Filter(_) => {
                Code::BadFilter
            }
            CommandError::AlwaysOn | CommandError::NotBuiltIn(_) => Code::NotBuiltIn,
            CommandError::Unwritable { .. } => Code::Unwritable,
            CommandError::System(_) => Code::SystemRefuses,
            CommandError::Unreadable { .. } | CommandError::NoScript(_) => Code::ScriptUnreadable,
            CommandError::Script { error, .. } => error.code(),
            CommandError::InScript { error, .. } => error.code(),
            CommandError::TooDeep => Code::ScriptsTooDeep,
            CommandError::Fixed(_) => Code::SettingsFixed,
            CommandError::Told(code, _) => *code,
            CommandError::ByItself(_) => Code::Refused,
            CommandError::Gone(_) => Code::HostSilent,
        }
    }

    /// Whether the command itself was wrong, and not the state of things.
    pub(crate) fn is_wrong_use(&self) -> bool {
        matches!(self, CommandError::Script { .. } | CommandError::Fault(_))
    }
}

fn class(why: AddError) -> Code {
    match why {
        AddError::Full => Code::Full,
        AddError::NoInterface => Code::WrongKind,
        AddError::NoTable => Code::NoSuchThing,
        AddError::Exists => Code::Exists,
        AddError::BadAddress => Code::BadAddress,
        AddError::BadGateway => Code::BadRouter,
        AddError::BadMtu => Code::BadMtu,
    }
}

fn sentence(why: AddError) -> &'static str {
    match why {
        AddError::Full => {
            "there are as many as the limits allow. Raise them in the section [limits] of the \
             settings"
        }
        AddError::NoInterface => "the interface does not take it",
        AddError::NoTable => "the routing table is not there",
        AddError::Exists => "it is there already",
        AddError::BadAddress => {
            "this is not the address of one host on that link (a network's, broadcast or multicast \
             address), or does not fit the interface"
        }
        AddError::BadGateway => {
            "the router is on no link of ours, or is ourselves. Name a host in one of our \
             networks, or the interface behind it"
        }
        AddError::BadMtu => {
            "an MTU is 576 to 65535 bytes, and at least 1280 where there are IPv6 addresses"
        }
    }
}
