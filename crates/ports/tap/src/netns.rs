//! Network namespaces of Linux other than our own.

use std::fs::File;
use std::path::{Path, PathBuf};

use clearway_dev::DevError;
use nix::sched::{CloneFlags, setns};

/// Where `ip netns` keeps them by name.
const NAMED: &str = "/run/netns";

/// Does something in the network namespace of that name or path, or where we are. A thread of its
/// own enters it: this one, and whoever it starts, stays outside.
pub fn within<T: Send>(
    netns: Option<&str>,
    what: impl FnOnce() -> Result<T, DevError> + Send,
) -> Result<T, DevError> {
    let Some(name) = netns else { return what() };
    let path =
        if name.starts_with('/') { PathBuf::from(name) } else { Path::new(NAMED).join(name) };
    let namespace = File::open(&path).map_err(|error| {
        let remedy = format!("Make it as root with: ip netns add {name}; `ip netns` lists them");
        DevError::new(name, "the network namespace is not there", remedy).with_source(error)
    })?;
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            setns(&namespace, CloneFlags::CLONE_NEWNET).map_err(|errno| {
                let what = "the network namespace may not be entered";
                DevError::new(name, what, "Run as root, or with CAP_SYS_ADMIN")
                    .with_source(errno.into())
            })?;
            what()
        });
        inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
