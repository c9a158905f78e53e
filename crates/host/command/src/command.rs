//! What a line asks for.

use std::path::PathBuf;

use clearway_wire::{Addr, Cidr, Mac};
use zeroize::Zeroizing;

use crate::args::{PortRange, SessionName};

/// A command, and how its answer shall look.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// What to do.
    pub command: Command,
    /// `--json` was among the words.
    pub json: bool,
}

/// What to do.
#[derive(Clone, PartialEq, Debug)]
pub enum Command {
    /// Nothing: an empty line or a remark.
    Nothing,
    /// Say what may stand behind these words.
    Help(String),
    /// End this conversation; the host goes on.
    Quit,
    /// Stop the host.
    Stop,
    /// Do what a file of commands says.
    Exec(PathBuf),

    /// Make a loopback interface.
    CreateLoopback {
        /// The number in its name; the lowest free one by default.
        instance: Option<u32>,
        /// Its MTU.
        mtu: Option<u32>,
        /// What happens to its packets, as a specification of faults; what the host was started
        /// with by default.
        fault: Option<String>,
    },
    /// Make a TUN/TAP interface.
    CreateTap(TapSpec),
    /// Take an interface away.
    DeleteInterface {
        /// Its name.
        interface: String,
    },
    /// Bring an interface up or down.
    SetState {
        /// Its name.
        interface: String,
        /// Up.
        up: bool,
    },
    /// Give an interface an address, or take it away.
    SetAddress {
        /// Its name.
        interface: String,
        /// The address; none to take all away.
        prefix: Option<Cidr>,
        /// Give, not take.
        add: bool,
    },
    /// Put an interface into a routing table.
    SetTable {
        /// Its name.
        interface: String,
        /// The table.
        table: u32,
    },
    /// Set an interface's MTU.
    SetMtu {
        /// Its name.
        interface: String,
        /// For which packets.
        kind: MtuKind,
        /// Bytes.
        mtu: u32,
    },
    /// Make an interface over a port as the settings name it.
    CreatePort {
        /// What it is.
        port: String,
        /// The interface's name; the next free one by default.
        name: Option<String>,
        /// What happens to its packets.
        fault: Option<String>,
    },
    /// Read the settings again.
    Reload,
    /// Write what makes the state of the host into a script.
    Save(PathBuf),
    /// Set an interface's Ethernet address.
    SetMac {
        /// Its name.
        interface: String,
        /// The address.
        mac: Mac,
    },
    /// Let an interface receive frames for other link addresses, or not.
    SetPromiscuous {
        /// Its name.
        interface: String,
        /// Receive them.
        on: bool,
    },
    /// Have an interface configured by DHCP, or not.
    SetDhcp {
        /// Its name.
        interface: String,
        /// By DHCP.
        on: bool,
    },
    /// Have an interface configured by IPv6 routers, or not.
    SetSlaac {
        /// Its name.
        interface: String,
        /// By routers.
        on: bool,
    },
    /// How a worker waits for an interface's packets.
    SetRxMode {
        /// Its name.
        interface: String,
        /// One of its queues; all by default.
        queue: Option<u16>,
        /// How.
        mode: RxMode,
    },
    /// Which worker serves a queue of an interface.
    SetRxPlacement {
        /// Its name.
        interface: String,
        /// The queue.
        queue: u16,
        /// Where.
        on: PlaceOn,
    },
    /// Make a routing table, or take it away.
    Table {
        /// Its number.
        table: u32,
        /// Make, not take.
        add: bool,
    },
    /// Add a route, or take it away.
    Route {
        /// Where to.
        prefix: Cidr,
        /// In this table.
        table: u32,
        /// By which way; not needed to take it away.
        via: Option<RouteVia>,
        /// Add, not take.
        add: bool,
    },
    /// Make or change an application namespace.
    AddNamespace(AppNamespace),
    /// Take a namespace away; its programs are cut off.
    DeleteNamespace {
        /// Its id.
        id: String,
    },
    /// Another secret for a namespace, or none.
    SetSecret(NewSecret),
    /// The session layer on or off; it is always on.
    Session {
        /// On.
        enable: bool,
    },
    /// Reset a connection.
    KillSession(SessionName),
    /// Have new connections go to other machines.
    Drain(DrainMode),
    /// Take new connections again.
    Undrain,
    /// Capture packets.
    PcapTrace(PcapTrace),
    /// Make the conversation a stream of packets.
    PcapStream(PcapTrace),
    /// Stop capturing and finish the file.
    PcapOff,
    /// Add a rule.
    AclAdd(AclRule),
    /// Take a rule away, or all.
    AclDelete {
        /// Its number; all by default.
        rule: Option<u32>,
    },
    /// Show something.
    Show(Show),
    /// Set counters to zero.
    Clear(Clear),
    /// Something that this build does not have; the text says what.
    NotBuiltIn(&'static str),
}

/// Which sessions to show; what is None does not matter.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SessionFilter {
    /// Of this program.
    pub app: Option<u32>,
    /// In this state, as it is shown.
    pub state: Option<String>,
    /// 6 for connections and their listeners, 17 for datagrams.
    pub protocol: Option<u8>,
    /// Our address.
    pub local: Option<Cidr>,
    /// The peer's address.
    pub remote: Option<Cidr>,
    /// A port of either side.
    pub ports: Option<PortRange>,
}

/// Something to show.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(
    missing_docs,
    reason = "the names are the words of the grammar, which says what each shows"
)]
pub enum Show {
    Version,
    Plugins,
    Interface {
        interface: Option<String>,
    },
    InterfaceAddress {
        interface: Option<String>,
    },
    RxPlacement,
    Neighbors {
        version: IpVersion,
    },
    Fib {
        version: IpVersion,
        table: Option<u32>,
        prefix: Option<Cidr>,
    },
    Tables,
    Session {
        verbose: u8,
        filter: SessionFilter,
    },
    App {
        verbose: bool,
    },
    Namespaces,
    /// What programs, namespaces and the host have, and may have.
    Limits,
    Segments,
    Errors {
        all: bool,
    },
    Buffers,
    Tcp,
    Udp,
    /// Counters by the names of Linux.
    Nstat,
    /// What Prometheus is told.
    Metrics,
    /// A table of sockets as Linux has it below /proc/net.
    ProcNet {
        table: ProcNetTable,
        namespace: Option<String>,
    },
    Threads,
    /// Where the time of workers goes, by stage of a turn.
    Stages,
    /// Whether the host is drained, and what is left.
    Drain,
    Dhcp,
    Slaac,
    DpdkVersion,
    DpdkBuffers,
    DpdkMemory,
    Acl,
    Pcap,
    Explain {
        pid: Option<u32>,
    },
    Settings,
    RunningConfig {
        secrets: bool,
    },
}

/// A table of sockets below /proc/net.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcNetTable {
    /// `tcp`
    Tcp,
    /// `tcp6`
    Tcp6,
    /// `udp`
    Udp,
    /// `udp6`
    Udp6,
}

/// What a host that is drained does with new connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DrainMode {
    /// It takes them still, and only says that it is drained: routers need a moment.
    Announce,
    /// Each is refused with a reset.
    Refuse,
    /// Their SYNs are dropped.
    Silent,
}

/// Something to set to zero.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Clear {
    /// The counters of interfaces.
    Interfaces {
        /// One of them.
        interface: Option<String>,
    },
    /// Drop reasons.
    Errors,
    /// Counters of TCP.
    Tcp,
    /// Counters of rules.
    Acl,
}

/// A TUN/TAP interface.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TapSpec {
    /// The number in its name; the lowest free one by default.
    pub id: Option<u32>,
    /// Linux's name for it.
    pub host_name: Option<String>,
    /// Our Ethernet address.
    pub mac: Option<Mac>,
    /// An address for Linux's side.
    pub host_addresses: Vec<Cidr>,
    /// Its MTU.
    pub mtu: Option<u32>,
    /// The network namespace of Linux that it is in; our own by default.
    pub netns: Option<String>,
    /// IP packets without Ethernet.
    pub tun: bool,
    /// What happens to its packets, as a specification of faults.
    pub fault: Option<String>,
}

/// For which packets an MTU holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MtuKind {
    /// All.
    Packet,
    /// IPv4.
    Ip4,
    /// IPv6.
    Ip6,
    /// MPLS, which nobody here speaks.
    Mpls,
}

/// How a worker waits for packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RxMode {
    /// It never sleeps.
    Polling,
    /// It sleeps at once.
    Interrupt,
    /// It looks for a while before it sleeps.
    Adaptive,
}

/// Who serves a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlaceOn {
    /// A worker.
    Worker(u16),
    /// The main thread.
    Main,
}

/// IPv4, IPv6 or both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IpVersion {
    /// Only IPv4.
    V4,
    /// Only IPv6.
    V6,
    /// Both.
    Any,
}

/// Which way a route leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RouteVia {
    /// To a router, perhaps on a certain link.
    Gateway(Addr, Option<String>),
    /// The destination is on this link.
    Interface(String),
    /// Look in another table.
    Lookup(u32),
    /// Nowhere, in silence.
    Drop,
    /// Nowhere, and the sender is told.
    Unreachable,
}

impl Command {
    /// Whether carrying it out makes anything otherwise than it was.
    pub fn changes(&self) -> bool {
        !matches!(
            self,
            Command::Nothing
                | Command::Help(_)
                | Command::Quit
                | Command::PcapStream(_)
                | Command::Show(_)
        )
    }
}

/// An application namespace.
#[derive(Clone, PartialEq, Eq)]
pub struct AppNamespace {
    /// Its id.
    pub id: String,
    /// What a program must know to enter it. Wiped when this goes.
    pub secret: Option<Zeroizing<String>>,
    /// Its sessions use this interface's addresses first, and its table.
    pub interface: Option<String>,
    /// Its sessions use this table.
    pub table: Option<u32>,
    /// What each program in it may have.
    pub limits: AppLimits,
}

/// What each program of a namespace may have; None: as the settings say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AppLimits {
    /// Sessions at once.
    pub sessions: Option<u32>,
    /// Listeners at once.
    pub listeners: Option<u32>,
    /// Processes at once.
    pub processes: Option<u32>,
    /// UDP sockets at once.
    pub udp_sockets: Option<u32>,
    /// Bytes of shared memory.
    pub memory: Option<u64>,
    /// What all of them may have together.
    pub together: TogetherLimits,
}

/// What all programs of a namespace may have together; None: as much as the host has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TogetherLimits {
    /// Sessions at once.
    pub sessions: Option<u32>,
    /// Listeners at once.
    pub listeners: Option<u32>,
    /// Processes at once.
    pub processes: Option<u32>,
    /// UDP sockets at once.
    pub udp_sockets: Option<u32>,
    /// Bytes of shared memory.
    pub memory: Option<u64>,
}

/// Another secret for a namespace.
#[derive(Clone, PartialEq, Eq)]
pub struct NewSecret {
    /// The namespace's id.
    pub id: String,
    /// What programs must know that come from now on; None: whoever may knock comes in.
    pub secret: Option<Zeroizing<String>>,
}

impl std::fmt::Debug for NewSecret {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let secret = self.secret.as_ref().map(|_| "..");
        f.debug_struct("NewSecret").field("id", &self.id).field("secret", &secret).finish()
    }
}

impl std::fmt::Debug for AppNamespace {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppNamespace")
            .field("id", &self.id)
            .field("secret", &self.secret.as_ref().map(|_| ".."))
            .field("interface", &self.interface)
            .field("table", &self.table)
            .finish()
    }
}

/// Which way packets go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Into the stack.
    In,
    /// Out of it.
    Out,
}

/// What a rule does with a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gate {
    /// Lets it pass.
    Permit,
    /// Drops it.
    Deny,
}

/// The number of an IP protocol.
pub type Protocol = u8;

/// A rule; what is left out fits every packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AclRule {
    /// What it does.
    pub gate: Gate,
    /// One direction.
    pub direction: Option<Direction>,
    /// One interface.
    pub interface: Option<String>,
    /// One protocol.
    pub protocol: Option<Protocol>,
    /// Sources.
    pub src: Option<Cidr>,
    /// Destinations.
    pub dst: Option<Cidr>,
    /// Source ports.
    pub sport: Option<PortRange>,
    /// Destination ports.
    pub dport: Option<PortRange>,
}

/// What to capture; what is left out fits every packet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PcapTrace {
    /// Packets that come in.
    pub rx: bool,
    /// Packets that go out.
    pub tx: bool,
    /// Packets that are dropped, with the reason.
    pub drop: bool,
    /// Packets at most.
    pub max: Option<u64>,
    /// Bytes of each packet at most.
    pub max_bytes: Option<u32>,
    /// One interface.
    pub interface: Option<String>,
    /// Where to write.
    pub file: Option<PathBuf>,
    /// Only with an address of this prefix, as source or destination.
    pub prefix: Option<Cidr>,
    /// Only of this protocol.
    pub protocol: Option<Protocol>,
    /// Only with one of these ports, as source or destination.
    pub ports: Option<PortRange>,
    /// Only what this expression in tcpdump's language fits.
    pub filter: Option<String>,
    /// Sessions and their programs stand beside the packets.
    pub names: bool,
}
