//! The host's open files: what of them is kept free, so that programs can never take the last one.
//!
//! The system gives the lowest number that is free. So the number of a new descriptor says how many
//! are open at least, and a program's descriptor whose number lies in what is kept is closed again:
//! no count has to be kept, and what DPDK, a capture or a library opens is counted with it.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Kept for commands, captures, ports and the log: this many, or an eighth of all.
const FOR_CONTROL: i32 = 128;

/// Numbers for which the kernel has a table from the beginning. A table that is full doubles, and a
/// process with threads waits for an RCU grace period then, 10 to 40 ms, with all who ask it
/// something. Half a MiB of the kernel's memory.
const TABLE: i32 = 65_536;

/// Kept above what sessions may take for programs that come, and for those that have said nothing
/// yet: this many, or an eighth of all.
const FOR_ATTACHING: i32 = 256;

/// Where the numbers end that each kind of descriptor may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptors {
    limit: i32,
}

impl Descriptors {
    /// As many as the system lets this process have.
    pub fn of_system() -> Descriptors {
        let soft = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
        Descriptors { limit: i32::try_from(soft).unwrap_or(i32::MAX) }
    }

    /// Raises what this process may have to what it may ask for. Answers how many descriptors that
    /// are.
    pub fn raise() -> u64 {
        let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 0 };
        match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
            Ok(()) => hard,
            Err(_) => soft,
        }
    }

    /// Has the kernel make its table of them now. Call before the process has threads; what goes
    /// wrong comes back when descriptors are wanted.
    pub fn make_table() {
        let highest = Descriptors::of_system().limit.min(TABLE) - 1;
        if let Ok(root) = std::fs::File::open("/") {
            drop(clearway_shm::socket::copy_from(root.as_fd(), highest, true));
        }
    }

    /// Descriptors that are kept for control.
    pub fn for_control(self) -> usize {
        (self.limit / 8).clamp(1, FOR_CONTROL) as usize
    }

    fn for_attaching(self) -> i32 {
        (self.limit / 8).clamp(1, FOR_ATTACHING)
    }

    /// Processes that may be connected without having said who they are.
    pub(crate) fn strangers(self) -> usize {
        (self.for_attaching() / 2).max(1) as usize
    }

    /// The descriptor, if one that serves to let a process in may have its number. One whose number
    /// is too high by chance moves to a lower one that is free.
    pub(crate) fn for_process(self, fd: OwnedFd) -> Option<OwnedFd> {
        let end = self.limit - self.for_control() as i32;
        if fd.as_raw_fd() < end {
            return Some(fd);
        }
        let moved = fd.try_clone().ok()?;
        (moved.as_raw_fd() < end).then_some(moved)
    }

    /// Whether a descriptor that a process got may have its number.
    pub(crate) fn fits_process(self, fd: impl AsFd) -> bool {
        fd.as_fd().as_raw_fd() < self.limit - self.for_control() as i32
    }

    /// Whether half of what sessions may have is free still behind this one's number.
    pub(crate) fn is_plenty(self, fd: impl AsFd) -> bool {
        fd.as_fd().as_raw_fd() < (self.limit - self.for_control() as i32 - self.for_attaching()) / 2
    }

    /// Whether a descriptor that a session got may have its number.
    pub(crate) fn fits_session(self, fd: impl AsFd) -> bool {
        fd.as_fd().as_raw_fd() < self.limit - self.for_control() as i32 - self.for_attaching()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_has_its_table_of_descriptors_before_they_are_wanted() {
        Descriptors::make_table();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let size = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
        let wanted = Descriptors::of_system().limit.min(TABLE);
        assert!(size.trim().parse::<i32>().unwrap() >= wanted, "{size} of {wanted}");
    }
}
