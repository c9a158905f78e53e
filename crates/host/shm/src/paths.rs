//! Where a host and its programs find each other in the file system.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

#[cfg(test)]
mod tests;

/// The environment's word for the host's attach socket.
pub const SOCKET_VARIABLE: &str = "CLEARWAY_SOCKET";

/// The environment's word for the folder in which this user's runtime folders lie.
pub const RUNTIME_VARIABLE: &str = "XDG_RUNTIME_DIR";

/// The runtime folder of the system's host.
const SYSTEM_FOLDER: &str = "/run/clearway";

/// The host's attach socket in the runtime folder.
const ATTACH_SOCKET: &str = "host.sock";

/// The folder, beside the host's attach socket, with an attach socket for each namespace.
const NAMESPACE_ATTACH_SOCKETS: &str = "app_ns_sockets";

/// Where a program finds its host: what `CLEARWAY_SOCKET` says, or [`default_attach_socket`], or
/// the system's host when this user runs none.
pub fn attach_socket_of_host() -> PathBuf {
    let is_told = std::env::var_os(SOCKET_VARIABLE).is_some_and(|path| !path.is_empty());
    if is_told { attach_socket() } else { untold_attach_socket(std::env::var_os(RUNTIME_VARIABLE)) }
}

/// Where a program finds its host that was told of no socket: `host.sock` in this user's runtime
/// folder, which lies in the folder that `XDG_RUNTIME_DIR` said, or the system's host when this
/// user runs none.
pub fn untold_attach_socket(runtime: Option<OsString>) -> PathBuf {
    own_or_systems(attach_socket_in(runtime), Path::new(SYSTEM_FOLDER))
}

fn own_or_systems(own: PathBuf, system: &Path) -> PathBuf {
    let systems = system.join(ATTACH_SOCKET);
    if !own.exists() && systems.exists() { systems } else { own }
}

/// The host's attach socket: what `CLEARWAY_SOCKET` says, or [`default_attach_socket`].
pub fn attach_socket() -> PathBuf {
    match std::env::var_os(SOCKET_VARIABLE) {
        Some(path) if !path.is_empty() => path.into(),
        _ => default_attach_socket(),
    }
}

/// The attach socket of a host that was told nothing: `host.sock` in this user's runtime folder.
pub fn default_attach_socket() -> PathBuf {
    attach_socket_in(std::env::var_os(RUNTIME_VARIABLE))
}

fn attach_socket_in(runtime: Option<OsString>) -> PathBuf {
    let uid = rustix::process::geteuid().as_raw();
    runtime_folder(uid, runtime).join(ATTACH_SOCKET)
}

/// The name, which is no file's, of the way back into the host whose attach socket this is: for
/// programs that were let in there before and cannot reach the file any more, or may not. The same
/// for every start of the host, and for whoever writes the path otherwise. None when the attach
/// socket's folder is not there.
pub fn way_back(attach_socket: &Path) -> Option<Vec<u8>> {
    let folder = std::fs::canonicalize(
        attach_socket.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new(".")),
    )
    .ok()?;
    let path = folder.join(attach_socket.file_name()?);
    // FNV-1a: a name has room for some hundred bytes, a path for more. Who takes a name on purpose
    // gets nothing by it.
    let hash =
        path.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
    Some(format!("clearway-back-{hash:016x}").into_bytes())
}

/// The host's key beside its attach socket, by which it knows tokens of its earlier starts.
pub fn key(attach_socket: &Path) -> PathBuf {
    let mut name = attach_socket.as_os_str().to_owned();
    name.push(".key");
    name.into()
}

/// The attach socket of a namespace of the host whose own attach socket is `attach_socket`.
pub fn namespace_attach_socket(attach_socket: &Path, namespace: &str) -> PathBuf {
    namespace_attach_sockets(attach_socket).join(namespace)
}

/// The folder with the attach sockets of the namespaces of the host whose own attach socket is
/// `attach_socket`.
pub fn namespace_attach_sockets(attach_socket: &Path) -> PathBuf {
    attach_socket.parent().unwrap_or(Path::new("")).join(NAMESPACE_ATTACH_SOCKETS)
}

/// Root's is the system's. Who has a session has a folder of its own; who has none shares `/tmp`
/// with others, and the host must see to it that the folder there is its user's own.
fn runtime_folder(uid: u32, session: Option<OsString>) -> PathBuf {
    match session {
        _ if uid == 0 => SYSTEM_FOLDER.into(),
        Some(session) if !session.is_empty() => Path::new(&session).join("clearway"),
        _ => format!("/tmp/clearway-{uid}").into(),
    }
}
