//! What a house is started with.

use std::path::PathBuf;
use std::sync::Arc;

use clearway_dev::PoolBudget;
use clearway_engine::Mode;
use clearway_proto::Config;

use crate::program::ProgramLimits;

/// Called on each worker's thread before its first turn, with the worker's number: to set a scheduling policy, say. An error is a sentence for the user.
pub type ThreadHook = Arc<dyn Fn(usize) -> Result<(), String> + Send + Sync>;

/// Everything that a house needs to know before it starts.
#[derive(Clone)]
pub struct Setup {
    /// The socket at which programs are let in. The doors of namespaces lie in the folder [`DOORS`] beside it.
    pub socket: PathBuf,
    /// The file mode of the sockets: who may knock.
    pub socket_mode: u32,
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
    /// Programs are let in from the start. Otherwise they wait at the doors until [`crate::HouseHandle::open_doors`] is called: whoever comes while
    /// namespaces are being made finds all of them, or none of us.
    pub open: bool,
    /// Called on each worker's thread first.
    pub on_thread: Option<ThreadHook>,
}

/// The folder of the namespaces' doors, beside the main socket.
pub const DOORS: &str = "app_ns_sockets";

impl Setup {
    /// One worker without a core of its own, and the usual sizes. `secret` is for the stack's hashes and comes from the system's random source.
    pub fn new(socket: PathBuf, secret: [u8; 32]) -> Setup {
        Setup {
            socket,
            socket_mode: 0o660,
            workers: vec![None],
            mode: Mode::Interrupt,
            pool: PoolBudget::default(),
            stack: Config::new(secret),
            program: ProgramLimits::default(),
            programs: 256,
            processes: 1024,
            sessions: 65_536,
            open: true,
            on_thread: None,
        }
    }
}
