//! What a program is told about its host: by its environment, and by a file that the environment
//! names.
//!
//! | variable | says |
//! | --- | --- |
//! | `CLEARWAY_SOCKET` | the host's attach socket |
//! | `CLEARWAY_NS`, `CLEARWAY_SECRET` | the namespace and its secret |
//! | `CLEARWAY_CONFIG`, else `VCL_CONFIG` | a file, see [`file`](mod@file); what the variables above say goes before it |
//! | `CLEARWAY_REQUIRED=1` | rather fail than use the kernel |
//! | `CLEARWAY_CUT_THROUGH=1` | as `app-scope-local` in the file; 0: not, whatever the file says |
//! | `CLEARWAY_INTERFACES` | `both`, `clearway` or `kernel`: as `interfaces` in the file |
//! | `CLEARWAY_PROC_NET=1` | `/proc/net/tcp` and its like tell of the namespace's sockets |
//! | `CLEARWAY_DNS` | `clearway` or `system`: as `dns` in the file |
//! | `CLEARWAY_SPIN_US` | microseconds that a thread looks before it sleeps |

use std::ffi::OsString;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use clearway_errors::Code;
use clearway_shm::attach_socket::Secret;
use clearway_shm::paths;
use rustix::fs::{Mode, OFlags};

use crate::spin;

mod file;
#[cfg(test)]
mod tests;

/// The longest configuration file.
const MAX_FILE: usize = 64 * 1024;

/// How a program enters the host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AppConfig {
    /// The host's attach socket, or that of a namespace; None: the default place.
    pub socket: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`, where the default place lies, as it was when the program was started; None:
    /// as it is.
    pub runtime_folder: Option<OsString>,
    /// The namespace; empty for the default one.
    pub namespace: String,
    /// The namespace's secret.
    pub secret: Option<Secret>,
    /// Bytes of a receive FIFO; 0: the host's default.
    pub rx_fifo: u32,
    /// Bytes of a transmit FIFO; 0: the host's default.
    pub tx_fifo: u32,
    /// Who gets a stream that is bound to the wildcard address.
    pub wildcard: Wildcard,
    /// Connections to programs of the same host that want it too may go round the stack:
    /// `app-scope-local` in the file, `CLEARWAY_CUT_THROUGH=1`.
    pub cut_through: bool,
    /// Destinations that stay with the kernel although the namespace reaches them: address and
    /// prefix length.
    pub kernel: Vec<(IpAddr, u8)>,
    /// The environment asked for a host in words (socket, namespace or file), so its absence is
    /// worth a message.
    pub explicit: bool,
    /// The environment says that a program without a host shall fail rather than use the kernel
    /// (`CLEARWAY_REQUIRED=1`).
    pub required: bool,
    /// Whose interfaces a program is shown that asks which there are.
    pub interfaces: ShownInterfaces,
    /// A program that reads `/proc/net/tcp`, `tcp6`, `udp` or `udp6` is told of the sockets of its
    /// namespace, and not of the kernel's.
    pub proc_net: bool,
    /// Whose servers of names a program asks.
    pub dns: DnsOf,
    /// How long a thread looks before it sleeps, in microseconds; None: as the number of processors
    /// suggests.
    pub spin_us: Option<u32>,
}

/// Who gets a stream that is bound to 0.0.0.0 or ::.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Wildcard {
    /// Clearway.
    #[default]
    Clearway,
    /// The kernel.
    Kernel,
}

/// Whose interfaces `getifaddrs` and its like show.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ShownInterfaces {
    /// The namespace's, and the kernel's: the program can use the addresses of both.
    #[default]
    Both,
    /// The namespace's alone.
    Clearway,
    /// The kernel's alone.
    Kernel,
}

/// Whose servers of names a program asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DnsOf {
    /// The namespace's, when the host knows of any.
    #[default]
    Clearway,
    /// The system's, as /etc/resolv.conf says.
    System,
}

impl DnsOf {
    /// What a setting says.
    fn read(word: &str) -> Option<DnsOf> {
        match word {
            "clearway" => Some(DnsOf::Clearway),
            "system" => Some(DnsOf::System),
            _ => None,
        }
    }
}

impl ShownInterfaces {
    /// What a setting says.
    fn read(word: &str) -> Option<ShownInterfaces> {
        match word {
            "both" => Some(ShownInterfaces::Both),
            "clearway" => Some(ShownInterfaces::Clearway),
            "kernel" => Some(ShownInterfaces::Kernel),
            _ => None,
        }
    }
}

/// A setting that cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The file says something that is not understood.
    #[error("{}:{line}: {why}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what could stand there.
        why: String,
    },
    /// A variable of the environment says something that is not understood.
    #[error("{name}={value}: {why}")]
    Variable {
        /// The variable.
        name: &'static str,
        /// What it says.
        value: String,
        /// What could stand there.
        why: &'static str,
    },
}

impl ConfigError {
    /// Of which class it is.
    pub fn code(&self) -> Code {
        Code::ClientSettings
    }
}

impl AppConfig {
    /// What the environment of this process says.
    ///
    /// # Errors
    /// [`ConfigError`] with the variable, or the file and the line, and what could stand there.
    pub fn from_env() -> Result<AppConfig, ConfigError> {
        AppConfig::from_variables(|name| std::env::var_os(name))
    }

    /// What variables say, where `variable` answers what each was set to.
    ///
    /// # Errors
    /// As for [`AppConfig::from_env`].
    pub fn from_variables(
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<AppConfig, ConfigError> {
        let variable = |name| variable(name).filter(|value| !value.is_empty());
        let mut config = AppConfig::default();
        if let Some(path) = variable("CLEARWAY_CONFIG").or_else(|| variable("VCL_CONFIG")) {
            let path = PathBuf::from(path);
            let text = read(&path)
                .map_err(|error| ConfigError::Unreadable { path: path.clone(), error })?;
            config = AppConfig::parse(&text, &path)?;
        }
        config.runtime_folder = variable(paths::RUNTIME_VARIABLE);
        if let Some(socket) = variable(paths::SOCKET_VARIABLE) {
            config.socket = Some(socket.into());
            config.explicit = true;
        }
        if let Some(namespace) = variable("CLEARWAY_NS") {
            config.namespace = namespace.to_string_lossy().into_owned();
            config.explicit = true;
        }
        if let Some(secret) = variable("CLEARWAY_SECRET") {
            config.secret = Some(Secret(secret.to_string_lossy().into_owned()));
        }
        config.required = match variable("CLEARWAY_REQUIRED") {
            None => false,
            Some(value) => yes_or_no("CLEARWAY_REQUIRED", value)?,
        };
        if let Some(value) = variable("CLEARWAY_CUT_THROUGH") {
            config.cut_through = yes_or_no("CLEARWAY_CUT_THROUGH", value)?;
        }
        if let Some(value) = variable("CLEARWAY_PROC_NET") {
            config.proc_net = yes_or_no("CLEARWAY_PROC_NET", value)?;
        }
        if let Some(value) = variable("CLEARWAY_INTERFACES") {
            let name = "CLEARWAY_INTERFACES";
            config.interfaces =
                word(name, value, ShownInterfaces::read, "both, clearway or kernel")?;
        }
        if let Some(value) = variable("CLEARWAY_DNS") {
            config.dns = word("CLEARWAY_DNS", value, DnsOf::read, "clearway or system")?;
        }
        if let Some(value) = variable(spin::VARIABLE) {
            config.spin_us = Some(number(spin::VARIABLE, value)?);
        }
        Ok(config)
    }

    /// What the text of a file says; `path` is only named in errors.
    ///
    /// # Errors
    /// [`ConfigError::Wrong`] with the line and what could stand there.
    pub fn parse(text: &str, path: &Path) -> Result<AppConfig, ConfigError> {
        let mut config = AppConfig { explicit: true, ..AppConfig::default() };
        let parsed = file::parse(text, &mut config);
        parsed.map_err(|file::Wrong { line, why }| ConfigError::Wrong {
            path: path.into(),
            line,
            why,
        })?;
        Ok(config)
    }

    /// The attach socket to knock at. One that does not exist, but whose last part is the name of a
    /// namespace's attach socket in our runtime folder, is found there: files that were written for
    /// another host stack name a place of that one.
    pub(crate) fn attach_socket(&self) -> PathBuf {
        // Where a host is that was told no other place.
        let usual = || match &self.runtime_folder {
            Some(folder) => paths::untold_attach_socket(Some(folder.clone())),
            None => paths::attach_socket_of_host(),
        };
        let Some(socket) = &self.socket else { return usual() };
        let nearby =
            socket.file_name().map(|name| paths::namespace_attach_sockets(&usual()).join(name));
        match nearby {
            Some(nearby) if !exists(socket) && exists(&nearby) => nearby,
            _ => socket.clone(),
        }
    }
}

/// What a variable says, as `read` takes it; `why` is what could stand there.
fn word<T>(
    name: &'static str,
    value: OsString,
    read: impl FnOnce(&str) -> Option<T>,
    why: &'static str,
) -> Result<T, ConfigError> {
    value.to_str().and_then(read).ok_or_else(|| {
        let value = value.to_string_lossy().into_owned();
        ConfigError::Variable { name, value, why }
    })
}

fn yes_or_no(name: &'static str, value: OsString) -> Result<bool, ConfigError> {
    let read = |value: &str| match value {
        "1" => Some(true),
        "0" => Some(false),
        _ => None,
    };
    word(name, value, read, "1 or 0")
}

fn number(name: &'static str, value: OsString) -> Result<u32, ConfigError> {
    word(name, value, |value| value.parse().ok(), "a number of microseconds")
}

fn exists(path: &Path) -> bool {
    rustix::fs::stat(path).is_ok()
}

/// Reads a file without the C library, for which somebody may stand in.
fn read(path: &Path) -> std::io::Result<String> {
    let fd: OwnedFd = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = vec![0; MAX_FILE];
    let mut len = 0;
    while len < MAX_FILE {
        match rustix::io::read(&fd, &mut bytes[len..]) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    if len == MAX_FILE {
        return Err(std::io::Error::new(
            std::io::ErrorKind::FileTooLarge,
            "a configuration is at most 64 KiB long",
        ));
    }
    bytes.truncate(len);
    String::from_utf8(bytes)
        .map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error))
}
