//! Network namespaces of Linux other than our own.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
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
    let path = path_of(name);
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

/// Which network namespace it is that has a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NetnsId {
    device: u64,
    inode: u64,
}

impl NetnsId {
    /// That of the network namespace with this name or path; None where there is none. It is none
    /// either for a path below /proc: that is the namespace of a process, and the next process of
    /// the same number has nothing to do with it.
    pub fn of(netns: &str) -> Option<NetnsId> {
        let path = path_of(netns);
        let meta = std::fs::metadata(&path).ok().filter(|_| !path.starts_with("/proc"))?;
        Some(NetnsId { device: meta.dev(), inode: meta.ino() })
    }
}

fn path_of(netns: &str) -> PathBuf {
    if netns.starts_with('/') { PathBuf::from(netns) } else { Path::new(NAMED).join(netns) }
}
