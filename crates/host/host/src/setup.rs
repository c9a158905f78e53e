//! What a host is started with.

use std::path::PathBuf;
use std::sync::Arc;

use clearway_dev::PoolBudget;
use clearway_engine::Mode;
use clearway_proto::{Config, Limits};
use clearway_session::program::ProgramLimits;
use clearway_session::worker::{ThreadHook, WorkerSetup};
use clearway_shm::activation::Given;

/// Everything that a host needs to know before it starts.
#[derive(Clone)]
pub struct Setup {
    /// The socket at which programs are let in. The attach sockets of namespaces lie in the folder
    /// [`ATTACH_SOCKETS`] beside it.
    pub socket: PathBuf,
    /// The file mode of the sockets: who may knock.
    pub socket_mode: u32,
    /// The group that the sockets belong to; None: that of who runs the host.
    pub socket_group: Option<u32>,
    /// That socket, when it listens already: the service manager made it.
    pub given: Option<Arc<Given>>,
    /// One worker for each; Some pins its thread to that core.
    pub workers: Vec<Option<usize>>,
    /// What workers do when there is nothing to do.
    pub mode: Mode,
    /// Packet buffers of each worker.
    pub pool: PoolBudget,
    /// Every worker's stack.
    pub stack: Config,
    /// What one program may have.
    pub program: ProgramLimits,
    /// Programs at once.
    pub programs: u32,
    /// Processes of all programs at once.
    pub processes: u32,
    /// Sessions of one worker at once.
    pub sessions: u32,
    /// Bytes of shared memory of all programs.
    pub memory: u64,
    /// Programs are let in from the start. Otherwise they wait at the attach sockets until
    /// [`crate::HostHandle::open_attach_sockets`] is called: whoever comes while namespaces are
    /// being made finds all of them, or none of us.
    pub open: bool,
    /// There is no attach socket, and nothing in the file system: who comes in is brought by
    /// [`crate::HostByHand::connect`].
    pub is_private: bool,
    /// Called on each worker's thread first.
    pub on_thread: Option<ThreadHook>,
}

/// Sessions of a worker. One program by itself can have a quarter of them: a large one 65,536.
const SESSIONS: u32 = 4 * 65_536;

/// UDP sockets, listeners and reserved ports: more than a stack by itself has, because programs
/// share them. Memory is taken as they are used.
const UDP_SOCKETS: u32 = 16_384;
const LISTENERS: u32 = 4_096;
const BINDS: u32 = 65_536;

/// One part in so many of the machine's memory is the programs'.
const MEMORY_SHARE: u64 = 4;

fn stack_limits() -> Limits {
    let limits = Limits::default();
    // What closed connections still have to send may be a part of what all may have.
    let orphan_bytes = memory_share() / 4;
    Limits {
        connections: SESSIONS,
        udp_sockets: UDP_SOCKETS,
        listeners: LISTENERS,
        binds: BINDS,
        orphan_bytes,
        ..limits
    }
}

/// The part of this machine's memory that programs may fill with what they send and receive.
fn memory_share() -> u64 {
    let info = nix::sys::sysinfo::sysinfo();
    // A machine that does not tell has little.
    info.map_or(1 << 30, |info| info.ram_total()) / MEMORY_SHARE
}

/// The folder of the namespaces' attach sockets, beside the main socket.
pub const ATTACH_SOCKETS: &str = "app_ns_sockets";

impl Setup {
    /// What there may be of each thing in all.
    pub(crate) fn counted(&self) -> clearway_session::quota::Limits {
        let limits = &self.stack.limits;
        let sessions = self.sessions.saturating_mul(self.workers.len() as u32);
        // UDP sockets live on the first worker, and every worker listens for all listeners.
        [sessions, limits.udp_sockets, limits.listeners, self.processes]
    }

    /// What this worker is made of.
    pub(crate) fn worker(&self, index: usize) -> WorkerSetup {
        WorkerSetup {
            core: self.workers.get(index).copied().flatten(),
            on_thread: self.on_thread.clone(),
            stack: self.stack.clone(),
            pool: self.pool,
            mode: self.mode,
            sessions: self.sessions,
            largest_fifo: self.program.max_fifo,
        }
    }

    /// One worker without a core of its own, and the usual sizes. `secret` is for the stack's
    /// hashes and comes from the system's random source.
    pub fn new(socket: PathBuf, secret: [u8; 32]) -> Setup {
        Setup {
            socket,
            socket_mode: 0o660,
            socket_group: None,
            given: None,
            workers: vec![None],
            mode: Mode::Interrupt,
            pool: PoolBudget::default(),
            stack: Config { limits: stack_limits(), ..Config::new(secret) },
            program: ProgramLimits::default(),
            programs: 256,
            // Servers with a process for each client have hundreds; a process costs two descriptors
            // and one for each worker.
            processes: 8_192,
            sessions: SESSIONS,
            memory: memory_share(),
            open: true,
            is_private: false,
            on_thread: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cookies of SYNs and of Fast Open, and initial numbers, follow from the secret: a peer comes
    /// to another worker with its next connection.
    #[test]
    fn workers_share_the_secret_and_the_keys_of_cookies() {
        let mut setup = Setup::new(PathBuf::from("/nowhere"), [7; 32]);
        setup.workers = vec![None; 3];
        setup.stack.tcp.fast_open_keys = [Some([1; 16]), Some([2; 16])];
        for index in 0..3 {
            let stack = setup.worker(index).stack;
            assert_eq!(
                (stack.secret, stack.tcp.fast_open_keys),
                ([7; 32], [Some([1; 16]), Some([2; 16])])
            );
        }
    }
}
