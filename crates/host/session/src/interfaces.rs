//! The names of interfaces. Every worker has the same interfaces under the same numbers.

use clearway_pkt::Iface;
use thiserror::Error;

/// What kind of port is behind an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InterfaceKind {
    /// What is sent comes back.
    Loopback,
    /// A TAP or TUN device of this name.
    Tap {
        /// The device's name at the kernel.
        host_name: String,
    },
    /// Something else, as the user named it.
    Other(String),
}

/// One interface's name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InterfaceEntry {
    /// Its name.
    pub name: String,
    /// Its number in every stack.
    pub iface: Iface,
    /// What is behind it.
    pub kind: InterfaceKind,
}

/// Why a name was not taken.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum NamesError {
    /// The name is taken.
    #[error("there is an interface {0} already")]
    Exists(String),
}

/// All interfaces by name.
#[derive(Debug, Default)]
pub struct Interfaces {
    list: Vec<InterfaceEntry>,
}

impl Interfaces {
    /// Adds a name.
    pub fn add(&mut self, entry: InterfaceEntry) -> Result<(), NamesError> {
        if self.find(&entry.name).is_some() {
            return Err(NamesError::Exists(entry.name));
        }
        self.list.push(entry);
        Ok(())
    }

    /// Forgets a name.
    pub fn remove(&mut self, name: &str) -> Option<InterfaceEntry> {
        let at = self.list.iter().position(|e| e.name == name)?;
        Some(self.list.remove(at))
    }

    /// The interface of this name.
    pub fn find(&self, name: &str) -> Option<&InterfaceEntry> {
        self.list.iter().find(|e| e.name == name)
    }

    /// The interface of this number.
    pub fn by_iface(&self, iface: Iface) -> Option<&InterfaceEntry> {
        self.list.iter().find(|e| e.iface == iface)
    }

    /// The first free name that begins with `stem` and ends with a number: `loop0`, `loop1`.
    pub fn free_name(&self, stem: &str) -> String {
        (0..)
            .map(|n: u32| format!("{stem}{n}"))
            .find(|name| self.find(name).is_none())
            .unwrap_or_default()
    }

    /// All of them, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &InterfaceEntry> {
        self.list.iter()
    }
}
