//! Folders of a user, as the XDG base directory specification has them.

use std::path::PathBuf;

/// Where what should outlive a program's run and is nobody's document lies: `$XDG_STATE_HOME`, or
/// `~/.local/state`. A path that is not absolute counts for nothing, as the specification says.
pub(crate) fn state() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let own = || std::env::home_dir().map(|home| home.join(".local/state"));
    named.filter(|path| path.is_absolute()).or_else(own).filter(|path| path.is_absolute())
}
