//! The settings themselves, and what is made of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;

use clearway_command::AppLimits;
use clearway_dev::{FaultSpec, PoolBudget, PortSpec};
use clearway_engine::Mode;
use clearway_proto::{Config, Limits, TcpConfig};
use clearway_session::program::ProgramLimits;
use clearway_shm::attach_socket::Secret;
use clearway_wire::{Addr, Cidr};

use crate::setup::Setup;

/// What the control plane needs to know besides the host.
#[derive(Clone, Debug)]
pub struct ControlOptions {
    /// The version of the program, as people see it.
    pub version: String,
    /// What happens to packets of interfaces that say nothing about it.
    pub fault: Option<FaultSpec>,
    /// Whether an interface may be taken that this machine is reached over.
    pub force: bool,
    /// Routing tables that each stack has room for.
    pub tables: u16,
    /// The core of each worker.
    pub cores: Vec<Option<usize>>,
    /// How long an adaptive worker looks before it sleeps.
    pub spin: clearway_base::Duration,
    /// When the host began, in seconds of the calendar since 1970.
    pub started: u64,
    /// Programs ask the servers of names that DHCP servers and routers name.
    pub dns_learned: bool,
    /// Rows for `show settings`.
    pub settings: Vec<(String, String)>,
}

/// How the system divides the time of a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// As for every program.
    #[default]
    Other,
    /// As for programs that compute for long.
    Batch,
    /// Before every other program, until it sleeps.
    Fifo,
    /// The same, in turn with others of its priority.
    RoundRobin,
}

impl Policy {
    /// Its name in the settings.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Other => "other",
            Policy::Batch => "batch",
            Policy::Fifo => "fifo",
            Policy::RoundRobin => "rr",
        }
    }
}

/// How much goes into the log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug, Default)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What is broken.
    Error,
    /// What was refused, cut off, or met a limit.
    Warn,
    /// Who came and went, and what commands changed.
    #[default]
    Info,
    /// Everything.
    Debug,
}

/// How a line of the log is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// An object of JSON.
    Json,
}

/// What goes into the log, and how.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogSpec {
    /// How much of parts that `targets` does not name.
    pub level: LogLevel,
    /// How much of the parts of the code whose paths begin so; the longest path that fits counts.
    pub targets: Vec<(String, LogLevel)>,
    /// How its lines are written.
    pub format: LogFormat,
}

impl LogLevel {
    /// All of them, by their names in the settings.
    pub const NAMES: [(&'static str, LogLevel); 5] = [
        ("off", LogLevel::Off),
        ("error", LogLevel::Error),
        ("warn", LogLevel::Warn),
        ("info", LogLevel::Info),
        ("debug", LogLevel::Debug),
    ];
}

/// A port that is there from the start.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PortSetting {
    /// What it is.
    pub port: Option<PortSpec>,
    /// How its interface is called; `tap0`, `loop0` and so on by default.
    pub name: Option<String>,
    /// Its addresses.
    pub addresses: Vec<Cidr>,
    /// The router behind it, one for each family.
    pub gateways: Vec<Addr>,
    /// Its IPv4 address, routes and MTU come from a DHCP server.
    pub dhcp: bool,
    /// Its IPv6 addresses, routes and MTU come from routers.
    pub slaac: bool,
    /// Its routing table.
    pub table: u32,
    /// What happens to its packets.
    pub fault: Option<FaultSpec>,
}

/// A namespace that is there from the start.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct NamespaceSetting {
    /// Its id.
    pub id: String,
    /// Its secret.
    pub secret: Option<Secret>,
    /// Its interface.
    pub interface: Option<String>,
    /// Its routing table.
    pub table: Option<u32>,
    /// What each program in it may have.
    pub limits: AppLimits,
}

impl std::fmt::Debug for NamespaceSetting {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NamespaceSetting").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Whom programs ask for names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DnsSettings {
    /// Programs of all namespaces ask these, the best first; none: those of DHCP
    /// servers and routers, or the system's.
    pub servers: Vec<Addr>,
    /// The domains that short names are looked up in.
    pub search: Vec<String>,
    /// Programs ask the servers that DHCP servers and routers name, where there are no others.
    pub learned: bool,
}

impl Default for DnsSettings {
    fn default() -> DnsSettings {
        DnsSettings { servers: Vec::new(), search: Vec::new(), learned: true }
    }
}

/// Where those who scrape metrics come to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MetricsAddress {
    /// An address of the kernel's.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl std::fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MetricsAddress::Tcp(address) => write!(f, "{address}"),
            MetricsAddress::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl std::str::FromStr for MetricsAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<MetricsAddress, &'static str> {
        if text.starts_with('/') {
            return Ok(MetricsAddress::Unix(text.into()));
        }
        let address = text.parse().map(MetricsAddress::Tcp);
        address.map_err(|_| "expected an address with a port, or a path that begins with /")
    }
}

/// Who is told what is measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MetricsSettings {
    /// Where those who scrape come to.
    pub listen: Option<MetricsAddress>,
    /// A file for node_exporter's textfile collector.
    pub file: Option<PathBuf>,
    /// How often that file is written.
    pub file_every: clearway_base::Duration,
}

impl Default for MetricsSettings {
    fn default() -> MetricsSettings {
        let file_every = clearway_base::Duration::from_secs(METRICS_FILE_EVERY_S);
        MetricsSettings { listen: None, file: None, file_every }
    }
}

/// How often the file of metrics is written, in seconds.
const METRICS_FILE_EVERY_S: u64 = 15;

/// All settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The main thread runs on this core.
    pub main_core: Option<usize>,
    /// One worker for each; Some pins it to that core.
    pub workers: Vec<Option<usize>>,
    /// How the system divides the workers' time.
    pub policy: Policy,
    /// The priority under `fifo` and `rr`.
    pub priority: u8,
    /// What workers do when there is nothing to do.
    pub mode: Mode,
    /// Packet buffers of each worker.
    pub pool: PoolBudget,
    /// Ports.
    pub ports: Vec<PortSetting>,
    /// TCP.
    pub tcp: TcpConfig,
    /// What each stack may have.
    pub limits: Limits,
    /// What each program may have.
    pub program: ProgramLimits,
    /// Programs at once.
    pub programs: u32,
    /// Processes at once.
    pub processes: u32,
    /// Sessions of a worker at once.
    pub sessions: u32,
    /// Bytes of shared memory of all programs.
    pub memory: u64,
    /// The socket at which programs are let in.
    pub socket: Option<PathBuf>,
    /// Its file mode.
    pub socket_mode: u32,
    /// The group that it belongs to.
    pub socket_group: Option<u32>,
    /// The group that may give commands.
    pub command_group: Option<u32>,
    /// The socket of the command language.
    pub control: Option<PathBuf>,
    /// Commands to begin with.
    pub script: Option<PathBuf>,
    /// Who is told what is measured.
    pub metrics: MetricsSettings,
    /// Whom programs ask for names.
    pub dns: DnsSettings,
    /// Namespaces.
    pub namespaces: Vec<NamespaceSetting>,
    /// What happens to packets of interfaces that say nothing about it.
    pub fault: Option<FaultSpec>,
    /// The system may write the memory of a host that breaks into a file, with the secrets and
    /// bytes of all programs.
    pub core_dumps: bool,
    /// The file that the log goes to; standard error without it.
    pub log_file: Option<PathBuf>,
    /// What goes into the log, and how.
    pub log: LogSpec,
    /// What the file said where it cannot change while the host runs, by section and key.
    pub(crate) fixed: BTreeMap<String, String>,
}

/// How long an adaptive worker looks for packets before it sleeps, in microseconds.
pub(super) const SPIN_US: u64 = 20;

/// Interfaces, addresses, routes and tables: more than the stack's own defaults, because here they
/// come and go at run time.
pub(super) const INTERFACES: u16 = 64;
pub(super) const ADDRESSES: u16 = 256;
pub(super) const TABLES: u16 = 64;

/// Packets that wait for one neighbour's address, and for all: a program's burst of datagrams to
/// somebody new is not lost, as it is not at the kernel, which keeps 208 KiB for each.
pub(super) const NEIGHBOUR_QUEUE: u8 = 128;
pub(super) const WAITING_FRAMES: u16 = 1_024;

impl Default for Settings {
    fn default() -> Settings {
        let setup = Setup::new(PathBuf::new(), [0; 32]);
        let limits = Limits {
            interfaces: INTERFACES,
            addresses: ADDRESSES,
            tables: TABLES,
            neighbour_queue: NEIGHBOUR_QUEUE,
            waiting_frames: WAITING_FRAMES,
            ..setup.stack.limits
        };
        Settings {
            main_core: None,
            workers: setup.workers,
            policy: Policy::Other,
            priority: 1,
            mode: Mode::Adaptive(clearway_base::Duration::from_micros(SPIN_US)),
            pool: setup.pool,
            ports: Vec::new(),
            tcp: setup.stack.tcp,
            limits,
            program: setup.program,
            programs: setup.programs,
            processes: setup.processes,
            sessions: setup.sessions,
            memory: setup.memory,
            socket: None,
            socket_mode: setup.socket_mode,
            socket_group: setup.socket_group,
            command_group: None,
            control: None,
            script: None,
            metrics: MetricsSettings::default(),
            dns: DnsSettings::default(),
            namespaces: Vec::new(),
            fault: None,
            core_dumps: false,
            log_file: None,
            log: LogSpec::default(),
            fixed: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// Keys, as `section.key`, that another text of the settings says otherwise and that cannot
    /// change while the host runs.
    pub(crate) fn differs_for_good(&self, other: &Settings) -> Vec<String> {
        let keys: BTreeSet<&String> = self.fixed.keys().chain(other.fixed.keys()).collect();
        keys.into_iter()
            .filter(|key| self.fixed.get(*key) != other.fixed.get(*key))
            .cloned()
            .collect()
    }

    /// What the control plane needs to know of them.
    pub fn control(&self, version: String) -> ControlOptions {
        let spin = match self.mode {
            Mode::Adaptive(spin) => spin,
            Mode::Interrupt | Mode::Polling => clearway_base::Duration::from_micros(SPIN_US),
        };
        ControlOptions {
            version,
            fault: self.fault,
            force: false,
            tables: self.limits.tables,
            cores: self.workers.clone(),
            spin,
            started: 0,
            dns_learned: self.dns.learned,
            settings: self.shown(),
        }
    }

    /// Rows for `show settings`; no secret is among them.
    pub(crate) fn shown(&self) -> Vec<(String, String)> {
        let shared = |limit: u64, none: u64| {
            if limit == none { "shared".to_owned() } else { limit.to_string() }
        };
        let core = |core: &Option<usize>| core.map_or("any".to_owned(), |core| core.to_string());
        let workers: Vec<String> = self.workers.iter().map(core).collect();
        let servers: Vec<String> = self.dns.servers.iter().map(ToString::to_string).collect();
        let rows = [
            ("cores.main", core(&self.main_core)),
            ("cores.workers", workers.join(",")),
            ("cores.policy", self.policy.name().to_owned()),
            ("cores.priority", self.priority.to_string()),
            ("cores.mode", format!("{:?}", self.mode).to_lowercase()),
            ("buffers.bytes", self.pool.bytes().to_string()),
            ("tcp.congestion", format!("{:?}", self.tcp.defaults.congestion).to_lowercase()),
            ("tcp.ecn", (self.tcp.defaults.ecn as u8).to_string()),
            ("sessions.rx-fifo", self.program.rx_fifo.to_string()),
            ("sessions.tx-fifo", self.program.tx_fifo.to_string()),
            ("sessions.max-fifo", self.program.max_fifo.to_string()),
            ("limits.programs", self.programs.to_string()),
            ("limits.processes", self.processes.to_string()),
            ("limits.sessions", self.sessions.to_string()),
            ("limits.udp-sockets", self.limits.udp_sockets.to_string()),
            ("limits.listeners", self.limits.listeners.to_string()),
            ("limits.memory", self.memory.to_string()),
            ("limits.orphans", self.limits.orphans.to_string()),
            ("limits.orphan-memory", self.limits.orphan_bytes.to_string()),
            ("limits.program-sessions", shared(self.program.sessions.into(), u32::MAX.into())),
            (
                "limits.program-udp-sockets",
                shared(self.program.udp_sockets.into(), u32::MAX.into()),
            ),
            ("limits.program-memory", shared(self.program.memory, u64::MAX)),
            ("limits.program-listeners", shared(self.program.listeners.into(), u32::MAX.into())),
            ("limits.program-processes", shared(self.program.processes.into(), u32::MAX.into())),
            ("limits.connections", self.limits.connections.to_string()),
            ("limits.interfaces", self.limits.interfaces.to_string()),
            ("limits.tables", self.limits.tables.to_string()),
            ("limits.routes", self.limits.routes.to_string()),
            ("dns.servers", servers.join(" ")),
            ("dns.search", self.dns.search.join(" ")),
            ("dns.learned", self.dns.learned.to_string()),
        ];
        rows.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// What a host is started with. `secret` comes from the system's random source.
    pub fn setup(&self, socket: PathBuf, secret: [u8; 32]) -> Setup {
        let stack = Config { limits: self.limits, tcp: self.tcp.clone(), secret };
        let mut setup = Setup::new(socket, secret);
        setup.socket_mode = self.socket_mode;
        setup.socket_group = self.socket_group;
        setup.workers = self.workers.clone();
        setup.mode = self.mode;
        setup.pool = self.pool;
        setup.stack = stack;
        setup.program = self.program;
        setup.programs = self.programs;
        setup.processes = self.processes;
        setup.sessions = self.sessions;
        setup.memory = self.memory;
        setup.on_thread = self.thread_hook();
        setup
    }
}
