//! Application namespaces: what a program may see of the stack, and the secret that lets it in.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use clearway_errors::Code;
use clearway_proto::Table;
use clearway_session::program::ProgramLimits;
use clearway_session::quota::Limits;
use clearway_session::traffic::Traffic;
use clearway_shm::attach_socket::Secret;
use thiserror::Error;

pub use clearway_command::{AppLimits as NamespaceLimits, TogetherLimits};

mod name_servers;

use name_servers::NameServers;

/// What one program may have, where the namespace does not say otherwise.
pub(crate) fn within(limits: ProgramLimits, namespace: &NamespaceLimits) -> ProgramLimits {
    ProgramLimits {
        sessions: namespace.sessions.unwrap_or(limits.sessions),
        listeners: namespace.listeners.unwrap_or(limits.listeners),
        processes: namespace.processes.unwrap_or(limits.processes),
        udp_sockets: namespace.udp_sockets.unwrap_or(limits.udp_sockets),
        memory: namespace.memory.unwrap_or(limits.memory),
        ..limits
    }
}

/// What all programs of a namespace may have together, as it is counted.
pub(crate) fn counted(together: &TogetherLimits) -> Limits {
    let TogetherLimits { sessions, udp_sockets, listeners, processes, .. } = together;
    [sessions, udp_sockets, listeners, processes].map(|limit| limit.unwrap_or(u32::MAX))
}

/// Namespaces at most.
pub const MAX_NAMESPACES: usize = 1024;

/// The longest name of a namespace, in bytes. It becomes a file name.
pub const MAX_ID: usize = 64;

/// The longest secret, in bytes.
pub const MAX_SECRET: usize = 256;

/// The namespace of programs that name none.
pub const DEFAULT: &str = "default";

/// A namespace to be added.
#[derive(Clone, PartialEq, Eq)]
pub struct NamespaceSpec {
    /// Its name: letters, digits, `-`, `_` and `.`.
    pub id: String,
    /// What a program must show; None lets in whoever may open the socket.
    pub secret: Option<Secret>,
    /// The routing table that its sessions use.
    pub table: Table,
    /// The name of the interface whose addresses come first for its sessions.
    pub interface: Option<String>,
    /// What each program in it may have.
    pub limits: NamespaceLimits,
}

impl fmt::Debug for NamespaceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamespaceSpec")
            .field("id", &self.id)
            .field("secret", &self.secret)
            .field("table", &self.table)
            .field("interface", &self.interface)
            .field("limits", &self.limits)
            .finish()
    }
}

/// Namespaces that shall be otherwise.
#[derive(Debug)]
pub struct NamespaceChanges {
    /// To be added, or to take the place of the one of this name.
    pub put: Vec<NamespaceSpec>,
    /// To be taken away, if they are there.
    pub remove: Vec<String>,
    /// What each program may have that comes from now on, where its namespace says nothing else.
    pub program: Option<ProgramLimits>,
}

/// A namespace.
#[derive(Clone, Debug)]
pub struct Namespace {
    /// Its number; never given to another one.
    pub number: u32,
    /// What it was made of.
    pub spec: NamespaceSpec,
    /// Processes that were let in.
    pub attached: u64,
    /// Processes that asked for it and were not let in: for want of its secret, or by a limit.
    pub refused: u64,
    /// What its programs' sessions have carried.
    pub traffic: Arc<Traffic>,
}

impl Namespace {
    fn new(number: u32, spec: NamespaceSpec) -> Namespace {
        Namespace { number, spec, attached: 0, refused: 0, traffic: Arc::default() }
    }

    /// Whether this is what a program must show. Takes the same time for every wrong secret of one
    /// length.
    pub fn admits(&self, shown: Option<&Secret>) -> bool {
        match (&self.spec.secret, shown) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(wanted), Some(shown)) => same_bytes(wanted.0.as_bytes(), shown.0.as_bytes()),
        }
    }
}

/// Compares without stopping at the first difference, so that time tells nothing of the bytes.
pub(crate) fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let different = a.iter().zip(b).fold(0, |all, (x, y)| std::hint::black_box(all | (x ^ y)));
    std::hint::black_box(different) == 0
}

/// Whether there can be such a namespace.
pub(crate) fn check(spec: &NamespaceSpec) -> Result<(), NamespaceError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if spec.id.is_empty()
        || spec.id.len() > MAX_ID
        || spec.id.starts_with('.')
        || !spec.id.chars().all(fits)
    {
        return Err(NamespaceError::BadId(spec.id.clone()));
    }
    check_secret(spec.secret.as_ref())
}

fn check_secret(secret: Option<&Secret>) -> Result<(), NamespaceError> {
    match secret {
        Some(secret) if secret.0.is_empty() || secret.0.len() > MAX_SECRET => {
            Err(NamespaceError::BadSecret)
        }
        _ => Ok(()),
    }
}

/// Why a namespace was not added.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum NamespaceError {
    /// The name is taken.
    #[error("there is a namespace {0} already")]
    Exists(String),
    /// The name cannot be one.
    #[error(
        "`{0}` cannot be the name of a namespace: use 1 to {MAX_ID} letters, digits, `-`, `_`, and \
         `.` but not in front"
    )]
    BadId(String),
    /// The secret is too short or too long.
    #[error("a secret has 1 to {MAX_SECRET} bytes")]
    BadSecret,
    /// There is none of that name.
    #[error("there is no namespace {0}")]
    Unknown(String),
    /// Its socket cannot be made.
    #[error("cannot make the namespace's socket {0}: {1}")]
    AttachSocket(PathBuf, String),
    /// The table is full.
    #[error("there are {MAX_NAMESPACES} namespaces; take one away first")]
    TooMany,
}

impl NamespaceError {
    /// Of which class it is.
    pub fn code(&self) -> Code {
        match self {
            NamespaceError::Exists(_) => Code::Exists,
            NamespaceError::BadId(_)
            | NamespaceError::BadSecret
            | NamespaceError::AttachSocket(..) => Code::BadNamespace,
            NamespaceError::Unknown(_) => Code::NoSuchThing,
            NamespaceError::TooMany => Code::Full,
        }
    }
}

/// All namespaces.
#[derive(Debug)]
pub struct Namespaces {
    list: Vec<Namespace>,
    next: u32,
    /// Whom programs ask for names.
    pub(crate) dns: NameServers,
}

impl Default for Namespaces {
    /// The default one: table 0 and no secret.
    fn default() -> Namespaces {
        let limits = NamespaceLimits::default();
        let spec = NamespaceSpec {
            id: DEFAULT.into(),
            secret: None,
            table: Table(0),
            interface: None,
            limits,
        };
        let list = vec![Namespace::new(0, spec)];
        Namespaces { list, next: 1, dns: NameServers::default() }
    }
}

impl Namespaces {
    /// Adds one. Its attach socket is made by [`crate::HostHandle::add_namespace`].
    pub(crate) fn add(&mut self, spec: NamespaceSpec) -> Result<u32, NamespaceError> {
        check(&spec)?;
        if self.find(&spec.id).is_some() {
            return Err(NamespaceError::Exists(spec.id));
        }
        if self.list.len() >= MAX_NAMESPACES {
            return Err(NamespaceError::TooMany);
        }
        let number = self.next;
        self.next += 1;
        self.list.push(Namespace::new(number, spec));
        Ok(number)
    }

    /// The one of this name is of this kind from now on.
    pub(crate) fn replace(&mut self, spec: NamespaceSpec) {
        if let Some(namespace) = self.list.iter_mut().find(|n| n.spec.id == spec.id) {
            namespace.spec = spec;
        }
    }

    /// Who comes into the one of this name must know this secret from now on.
    pub(crate) fn set_secret(
        &mut self,
        id: &str,
        secret: Option<Secret>,
    ) -> Result<(), NamespaceError> {
        check_secret(secret.as_ref())?;
        let namespace = self.list.iter_mut().find(|n| n.spec.id == id);
        let namespace = namespace.ok_or_else(|| NamespaceError::Unknown(id.into()))?;
        namespace.spec.secret = secret;
        Ok(())
    }

    /// Counts a process that was let into the namespace, or was not.
    pub(crate) fn count(&mut self, id: &str, is_in: bool) {
        if let Some(namespace) = self.list.iter_mut().find(|n| n.spec.id == id) {
            *(if is_in { &mut namespace.attached } else { &mut namespace.refused }) += 1;
        }
    }

    /// Takes one away. Programs that are in it stay.
    pub(crate) fn remove(&mut self, id: &str) -> Result<Namespace, NamespaceError> {
        let at = self.list.iter().position(|n| n.spec.id == id);
        at.map(|at| self.list.remove(at)).ok_or_else(|| NamespaceError::Unknown(id.into()))
    }

    /// The one of this name.
    pub fn find(&self, id: &str) -> Option<&Namespace> {
        self.list.iter().find(|n| n.spec.id == id)
    }

    /// The one of this number.
    pub fn by_number(&self, number: u32) -> Option<&Namespace> {
        self.list.iter().find(|n| n.number == number)
    }

    /// All of them, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Namespace> {
        self.list.iter()
    }
}

#[cfg(test)]
mod tests;
