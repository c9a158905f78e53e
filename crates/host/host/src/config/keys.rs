//! Every key of the settings, once.

use clearway_base::Duration;
use clearway_dev::{FaultSpec, PoolBudget};
use clearway_engine::{Cores, Mode};
use clearway_proto::{
    Congestion, EcnMode, FastOpenKeys, FastOpenMode, MtuProbing, WhenFull, fast_open_keys,
};
use clearway_shm::attach_socket::Secret;
use clearway_wire::Addr;

use super::error::Wrong;
use super::settings::{
    LogFormat, LogLevel, MetricsAddress, NamespaceSetting, Policy, PortSetting, SPIN_US, Settings,
};
use super::value::{Set, Value};

/// A key of the settings.
pub struct Key {
    /// The section that it stands in.
    pub section: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it sets, what is allowed, and what holds without it.
    pub what: &'static str,
    pub(super) set: fn(&mut Settings, &Value<'_, '_>) -> Set,
}

const fn key(
    section: &'static str,
    name: &'static str,
    what: &'static str,
    set: fn(&mut Settings, &Value<'_, '_>) -> Set,
) -> Key {
    Key { section, name, what, set }
}

/// Sections whose keys may change while the host runs: it takes them over when it is asked to read
/// its settings again.
pub(super) fn may_change(section: &str, name: &str) -> bool {
    match section {
        "namespaces" | "metrics" => true,
        "log" => matches!(name, "level" | "targets"),
        "dns" => matches!(name, "servers" | "search"),
        // What each program may have is decided when it comes.
        "limits" => name.starts_with("program-"),
        _ => false,
    }
}

/// Sets a field to a value.
macro_rules! to {
    ($($field:ident).+ = $convert:expr) => {
        |settings, value| {
            settings.$($field).+ = ($convert)(value)?;
            Ok(())
        }
    };
}

const MAX: u64 = u32::MAX as u64;
/// What a table of the stack holds at most (`Limits::check`).
const MOST: u64 = clearway_proto::limits::MOST as u64;

#[rustfmt::skip]
/// Every key, section by section.
pub const KEYS: &[Key] = &[
    key("cores", "main", "The core of the main thread. Without it: any.",
        to!(main_core = |v: &Value<'_, '_>| v.number(0..=1023).map(Some))),
    key("cores", "workers", "The cores of the workers, one thread each: \"1\", \"1,2\" or \"1-3\". Without it: one worker on any core.",
        set_workers),
    key("cores", "policy", "How the system divides the workers' time: \"other\", \"batch\", \"fifo\" or \"rr\". Without it: \"other\".",
        to!(policy = |v: &Value<'_, '_>| v.one_of(&[("other", Policy::Other),
            ("batch", Policy::Batch), ("fifo", Policy::Fifo), ("rr", Policy::RoundRobin)]))),
    key("cores", "priority", "The workers' priority under \"fifo\" and \"rr\", 1 to 99. Without \
        it: 1.",
        to!(priority = |v: &Value<'_, '_>| v.number(1..=99))),
    key("cores", "mode", "What a worker does when there is nothing to do: \"interrupt\" sleeps at once, \"adaptive\" looks for a while first, \"polling\" never sleeps. Without it: \"adaptive\".",
        set_mode),
    key("cores", "spin-us", "How long an adaptive worker looks for packets before it sleeps, in \
        microseconds, 0 to 1000000. Without it: 20.",
        set_spin),

    key("buffers", "bytes", "Bytes of packet buffers for each worker, half for ordinary frames and \
        half for long ones, such as \"32M\". Without it: \"32M\".",
        set_buffer_bytes),
    key("buffers", "small-count", "How many buffers for ordinary frames.",
        to!(pool.small_count = |v: &Value<'_, '_>| v.number(64..=MAX))),
    key("buffers", "small-len", "Bytes of a buffer for ordinary frames, 256 to 65664.",
        to!(pool.small_len = |v: &Value<'_, '_>| v.number(256..=65_664))),
    key("buffers", "large-count", "How many buffers for long frames.",
        to!(pool.large_count = |v: &Value<'_, '_>| v.number(8..=MAX))),

    key("ports", "port", "What it is: \"tap:NAME\", \"tun:NAME\", \"loop\", \"pcap:FILE\", \"dpdk:DEVICE\" or \"xdp:INTERFACE\", with options behind commas.",
        |s, v| port(s, v, |port, v| { port.port = Some(v.parsed()?); Ok(()) })),
    key("ports", "name", "The interface's name. Without it: tap0, loop0 and so on.",
        |s, v| port(s, v, |port, v| { port.name = Some(v.text()?); Ok(()) })),
    key("ports", "addresses", "Addresses with prefix lengths: [\"172.16.3.1/24\", \"2001:db8::1/64\"].",
        |s, v| port(s, v, |port, v| { port.addresses = v.list(|one| one.parsed())?; Ok(()) })),
    key("ports", "gateways", "The router behind it, one for each family.",
        |s, v| port(s, v, |port, v| { port.gateways = v.list(|one| one.parsed())?; Ok(()) })),
    key("ports", "dhcp", "Whether its IPv4 address, routes and MTU come from a DHCP server: true or false. Without it: false.",
        |s, v| port(s, v, |port, v| { port.dhcp = v.boolean()?; Ok(()) })),
    key("ports", "slaac", "Whether its IPv6 addresses, routes and MTU come from routers: true or false. Without it: false.",
        |s, v| port(s, v, |port, v| { port.slaac = v.boolean()?; Ok(()) })),
    key("ports", "table", "The number of its routing table. Without it: 0.",
        |s, v| port(s, v, |port, v| { port.table = v.number(0..=MAX)?; Ok(()) })),
    key("ports", "fault", "What happens to its packets, for tests: \"loss=0.1%,delay=10ms\".",
        |s, v| port(s, v, |port, v| { port.fault = Some(v.parsed()?); Ok(()) })),

    key("tcp", "congestion", "Congestion control of connections that choose none: \"cubic\", \"reno\", \"bbr\", \"bbr1\" (which Linux names bbr) or \"prague\". Without it: \"cubic\".",
        to!(tcp.defaults.congestion = |v: &Value<'_,
            '_>| v.one_of(&[("cubic", Congestion::Cubic), ("reno", Congestion::Reno),
                ("bbr", Congestion::Bbr), ("bbr1", Congestion::Bbr1), ("prague", Congestion::Prague)]))),
    key("tcp", "ecn", "Explicit congestion notification, by the numbers of Linux's tcp_ecn: 0 \
        none, 1 asked for and accepted, 2 accepted, 3 AccECN asked for and accepted, 4 AccECN \
        accepted and ECN asked for, 5 AccECN accepted. Without it: 2.",
        to!(tcp.defaults.ecn = |v: &Value<'_,
            '_>| v.number(0..=5).map(|n: u64| EcnMode::of(n).unwrap_or_default()))),
    key("tcp", "nodelay",
        "Small segments do not wait for company: true or false. Without it: false.",
        to!(tcp.defaults.nodelay = |v: &Value<'_, '_>| v.boolean())),
    key("tcp", "sack", "Selective acknowledgements: true or false. Without it: true.",
        to!(tcp.sack = |v: &Value<'_, '_>| v.boolean())),
    key("tcp", "tail-loss-probe",
        "Probes for the loss of the last segments (RFC 8985): true or false. Without it: true.",
        to!(tcp.tail_loss_probe = |v: &Value<'_, '_>| v.boolean())),
    key("tcp", "prague-fallback",
        "Prague answers a mark as NewReno does where the queue that marks seems to be one of RFC 3168: true or false. Without it: true.",
        to!(tcp.prague_fallback = |v: &Value<'_, '_>| v.boolean())),
    key("tcp", "timestamps", "Timestamps: true or false. Without it: true.",
        to!(tcp.timestamps = |v: &Value<'_, '_>| v.boolean())),
    key("tcp", "window-scaling", "Windows beyond 64 KiB: true or false. Without it: true.",
        to!(tcp.window_scaling = |v: &Value<'_, '_>| v.boolean())),
    key("tcp", "syn-cookies",
        "SYN cookies when the table of handshakes is full: true or false. Without it: true.",
            to!(tcp.syn_cookies = |v: &Value<'_, '_>| v.boolean())),
    key("tcp", "when-full",
        "What becomes of a new connection when every place for connections is taken: \"make-room\" resets the idlest of the busiest source, \"reset\" resets the new one, \"drop\" drops its SYN. Without it: \"make-room\".",
        to!(tcp.when_full = |v: &Value<'_, '_>| v.one_of(&[("make-room", WhenFull::MakeRoom), (
            "reset", WhenFull::Reset), ("drop", WhenFull::Drop)]))),
    key("tcp", "mtu-probing", "When connections look for the longest packet that a path carries: \"never\", \"black-holes\" when full segments vanish, \"always\". Without it: \"black-holes\".",
        to!(tcp.mtu_probing = |v: &Value<'_, '_>| v.one_of(&[("never", MtuProbing::Never), (
            "black-holes", MtuProbing::BlackHoles), ("always", MtuProbing::Always)]))),
    key("tcp", "initial-window",
        "Segments that a connection may send at first, 1 to 64. Without it: 10.",
            to!(tcp.initial_window = |v: &Value<'_, '_>| v.number(1..=64))),
    key("tcp", "max-segment",
        "Payload bytes of a segment at most, 0 for what the link carries. Without it: 0.",
            to!(tcp.defaults.max_segment = |v: &Value<'_, '_>| v.number(0..=65_495))),
    key("tcp", "max-receive-window", "Bytes of receive window at most, 64K to 1G; never more than \
        a receive FIFO may hold. Without it: 32M.",
        set_window),
    key("tcp", "rto-min-ms",
        "The shortest retransmission timeout in milliseconds, 1 to 10000. Without it: 200.",
            to!(tcp.rto_min = |v: &Value<'_, '_>| millis(v, 1..=10_000))),
    key("tcp", "delayed-ack-ms", "How long an acknowledgement may wait for company in \
        milliseconds, 0 to 500. Without it: 40.",
            to!(tcp.delayed_ack = |v: &Value<'_, '_>| millis(v, 0..=500))),
    key("tcp", "time-wait-ms", "How long the remains of a connection stay in milliseconds, 0 to \
        240000. Without it: 60000.", to!(tcp.time_wait = |v: &Value<'_,
            '_>| millis(v, 0..=240_000))),
    key("tcp", "orphan-ms", "How long a closed connection may have next to nothing acknowledged \
        although its peer answers, in milliseconds, 1000 to 600000. Without it: 60000.",
            to!(tcp.orphan = |v: &Value<'_, '_>| millis(v, 1_000..=600_000))),
    key("tcp", "fin-wait-2-ms", "How long a closed connection waits for its peer in milliseconds, \
        0 to 600000. Without it: 60000.",
            to!(tcp.fin_wait_2 = |v: &Value<'_, '_>| millis(v, 0..=600_000))),
    key("tcp", "syn-retries", "How often a SYN is sent again, 0 to 127. Without it: 6.",
        to!(tcp.syn_retries = |v: &Value<'_, '_>| v.number(0..=127))),
    key("tcp", "fast-open", "Who may use Fast Open, the sum of numbers that are those of Linux's \
        tcp_fastopen: 1 programs that connect, 2 programs that listen, each when it asks for it; \
        4 data leaves without a cookie, 512 it is taken without, 1024 every listener takes it. \
        Without it: 1.",
        to!(tcp.fast_open = fast_open_mode)),
    key("tcp", "fast-open-key", "The key of Fast Open cookies in the words of Linux's \
        tcp_fastopen_key: four groups of hexadecimal digits with hyphens between them, and the \
        key before behind a comma, whose cookies are still taken. Without it each run has its own.",
        to!(tcp.fast_open_keys = fast_open_key)),
    key("tcp", "retries",
        "How often data is sent again before the connection fails, 0 to 127. Without it: 15.",
            to!(tcp.retries = |v: &Value<'_, '_>| v.number(0..=127))),
    key("tcp", "ephemeral-ports",
        "The ports that the stack chooses from: [first, last]. Without it: [32768, 60999].",
            set_ephemeral_ports),

    key("sessions", "rx-fifo",
        "Bytes of a receive FIFO of programs that ask for none, 4K to 1G. Without it: \"1M\".",
            to!(program.rx_fifo = |v: &Value<'_, '_>| v.number(4096..=1 << 30))),
    key("sessions", "tx-fifo",
        "Bytes of a transmit FIFO of programs that ask for none, 4K to 1G. Without it: \"1M\".",
            to!(program.tx_fifo = |v: &Value<'_, '_>| v.number(4096..=1 << 30))),
    key("sessions", "max-fifo",
        "Bytes of a FIFO that a program may ask for, 4K to 1G. Without it: \"64M\".",
            to!(program.max_fifo = |v: &Value<'_, '_>| v.number(4096..=1 << 30))),

    key("limits", "programs", "Programs at once.",
        to!(programs = |v: &Value<'_, '_>| v.number(1..=MAX))),
    key("limits", "processes", "Processes of all programs at once.",
        to!(processes = |v: &Value<'_, '_>| v.number(1..=MAX))),
    key("limits", "sessions", "Sessions of each worker at once.",
        to!(sessions = |v: &Value<'_, '_>| v.number(1..=(1 << 24)))),
    key("limits", "program-sessions", "Sessions of one program at once.",
        to!(program.sessions = |v: &Value<'_, '_>| v.number(1..=MAX))),
    key("limits", "program-listeners", "Listeners of one program at once.",
        to!(program.listeners = |v: &Value<'_, '_>| v.number(1..=MAX))),
    key("limits", "program-processes", "Processes of one program at once.",
        to!(program.processes = |v: &Value<'_, '_>| v.number(1..=MAX))),
    key("limits", "program-memory", "Bytes of shared memory of one program, such as \"1G\".",
        to!(program.memory = |v: &Value<'_, '_>| v.number((1 << 20)..=(1 << 44)))),
    key("limits", "program-udp-sockets", "UDP sockets of one program at once.",
        to!(program.udp_sockets = |v: &Value<'_, '_>| v.number(1..=MAX))),
    key("limits", "memory", "Bytes of shared memory of all programs, such as \"4G\". Without it: a quarter of the machine's memory.", to!(memory = |v: &Value<'_, '_>| v.number((1 << 20)..=(1 << 44)))),
    key("limits", "orphans", "Connections of each worker that were closed and wait for their peers.", to!(limits.orphans = |v: &Value<'_, '_>| v.number(1..=MOST))),
    key("limits", "orphan-memory",
        "Bytes of each worker that such connections still have to send, such as \"256M\".",
            to!(limits.orphan_bytes = |v: &Value<'_, '_>| v.number((1 << 16)..=(1 << 44)))),
    key("limits", "binds", "Reserved TCP ports of each worker.",
        to!(limits.binds = |v: &Value<'_, '_>| v.number(1..=MOST))),
    key("limits", "connections", "Connections of each worker at once.",
        to!(limits.connections = |v: &Value<'_, '_>| v.number(1..=MOST))),
    key("limits", "half-open",
        "Handshakes of strangers of each worker at once; beyond this, SYN cookies.",
            to!(limits.half_open = |v: &Value<'_, '_>| v.number(1..=MOST))),
    key("limits", "time-wait", "Remains of connections of each worker.",
        to!(limits.time_wait = |v: &Value<'_, '_>| v.number(1..=MOST))),
    key("limits", "listeners", "Listeners of each worker.",
        to!(limits.listeners = |v: &Value<'_, '_>| v.number(1..=65_535))),
    key("limits", "udp-sockets", "UDP sockets of each worker.",
        to!(limits.udp_sockets = |v: &Value<'_, '_>| v.number(1..=65_535))),
    key("limits", "interfaces", "Interfaces, 1 to 1024. Without it: 64.",
        to!(limits.interfaces = |v: &Value<'_, '_>| v.number(1..=1024))),
    key("limits", "addresses", "Addresses over all interfaces. Without it: 256.",
        to!(limits.addresses = |v: &Value<'_, '_>| v.number(1..=65_535))),
    key("limits", "routes", "Routes over all tables. Without it: 1024.",
        to!(limits.routes = |v: &Value<'_, '_>| v.number(1..=MOST))),
    key("limits", "tables", "Routing tables, 1 to 65535. Without it: 64.",
        to!(limits.tables = |v: &Value<'_, '_>| v.number(1..=65_535))),
    key("limits", "neighbours", "Neighbours over all interfaces. Without it: 1024.",
        to!(limits.neighbours = |v: &Value<'_, '_>| v.number(1..=MOST))),

    key("control", "socket",
        "The socket at which programs are let in. Without it: host.sock in the runtime folder.",
            to!(socket = |v: &Value<'_, '_>| v.text().map(|t| Some(t.into())))),
    key("control", "socket-mode", "The file mode of that socket, who may knock, such as \"660\". Without it: \"660\".", set_socket_mode),
    key("control", "socket-group", "The group that the socket and those of namespaces belong to, by name \
        or number. Without it: the host's own.",
        to!(socket_group = |v: &Value<'_, '_>| group(v).map(Some))),
    key("control", "command-group", "A group whose users may give commands besides root and the host's \
        user, by name or number: all commands, secrets among what they show. Without it: none.",
        to!(command_group = |v: &Value<'_, '_>| group(v).map(Some))),
    key("control", "command-socket",
        "The socket of the command language. Without it: beside the other, ending in .ctl.",
            to!(control = |v: &Value<'_, '_>| v.text().map(|t| Some(t.into())))),
    key("control", "script", "Commands to begin with, a file.",
        to!(script = |v: &Value<'_, '_>| v.text().map(|t| Some(t.into())))),
    key("control", "fault",
        "What happens to packets of interfaces that say nothing about it, for tests.",
            to!(fault = |v: &Value<'_, '_>| v.parsed::<FaultSpec>().map(Some))),
    key("control", "core-dumps", "Whether the system may write the host's memory, with secrets and \
        bytes of all programs, into a core dump, and debuggers of its user may read it: true or \
        false. Without it: false.", to!(core_dumps = |v: &Value<'_, '_>| v.boolean())),

    key("metrics", "listen", "Where metrics are served over HTTP: an address with a port, such as \
        \"127.0.0.1:9466\", or the path of a socket. Without it: nowhere.",
        to!(metrics.listen = |v: &Value<'_, '_>| v.parsed::<MetricsAddress>().map(Some))),
    key("metrics", "file", "A file of metrics for node_exporter's textfile collector, which takes \
        those that end in .prom. Without it: none.",
        to!(metrics.file = |v: &Value<'_, '_>| v.text().map(|t| Some(t.into())))),
    key("metrics", "file-seconds", "How often that file is written, in seconds, 1 to 3600. \
        Without it: 15.",
        to!(metrics.file_every = |v: &Value<'_, '_>| v.number(1..=3_600).map(Duration::from_secs))),

    key("log", "file", "The file that the log goes to. Without it: standard error; of a host in \
        the background as docs/install.md says.",
            to!(log_file = |v: &Value<'_, '_>| v.text().map(|t| Some(t.into())))),
    key("log", "level", "How much goes into the log: \"off\", \"error\", \"warn\", \"info\" or \"debug\". Without it: \"info\".",
        to!(log.level = |v: &Value<'_, '_>| v.one_of(&LogLevel::NAMES))),
    key("log", "targets", "How much of single parts of the code goes into the log, as a line of it names them: \
        [\"clearway_host::supervisor=debug\", \"clearway_session=warn\"]. The longest path that fits counts.",
            to!(log.targets = |v: &Value<'_, '_>| v.list(log_target))),
    key("log", "format", "How a line of the log is written: \"text\" or \"json\". Without it: \"text\".",
        to!(log.format = |v: &Value<'_, '_>| v.one_of(&[("text", LogFormat::Text), ("json", LogFormat::Json)]))),

    key("dns", "servers", "Programs of all namespaces ask these servers for names, the best first: [\"10.0.0.53\"]. At most 3. \
        Without it: those that DHCP servers and routers name, or the system's /etc/resolv.conf.",
        to!(dns.servers = |v: &Value<'_, '_>| few(v, 3, name_server))),
    key("dns", "search", "The domains that short names are looked up in, at most 6: [\"example.net\"]. Without it: DHCP's.",
        to!(dns.search = |v: &Value<'_, '_>| few(v, 6, domain))),
    key("dns", "learned", "Whether programs ask the servers that DHCP servers and routers name, where `servers` names none: true or false. Without it: true.",
        to!(dns.learned = |v: &Value<'_, '_>| v.boolean())),

    key("namespaces", "id", "Its name: letters, digits, `-`, `_` and `.`.",
        |s, v| namespace(s, v, |n, v| { n.id = v.text()?; Ok(()) })),
    key("namespaces", "secret",
        "What a program must know to enter it. Without it: whoever may knock comes in.",
        |s, v| namespace(s, v, |n, v| { n.secret = Some(Secret(v.text()?)); Ok(()) })),
    key("namespaces", "interface",
        "Programs use the addresses of this interface first, and its table.",
        |s, v| namespace(s, v, |n, v| { n.interface = Some(v.text()?); Ok(()) })),
    key("namespaces", "table", "Programs use this routing table. Without it: the interface's, or 0.",
        |s, v| namespace(s, v, |n, v| { n.table = Some(v.number(0..=MAX)?); Ok(()) })),
    key("namespaces", "program-sessions", "As in `limits`, for each program in this namespace.",
        |s, v| namespace(s, v, |n, v| { n.limits.sessions = Some(v.number(1..=MAX)?); Ok(()) })),
    key("namespaces", "program-listeners", "As in `limits`, for each program in this namespace.",
        |s, v| namespace(s, v, |n, v| { n.limits.listeners = Some(v.number(1..=MAX)?); Ok(()) })),
    key("namespaces", "program-processes", "As in `limits`, for each program in this namespace.",
        |s, v| namespace(s, v, |n, v| { n.limits.processes = Some(v.number(1..=MAX)?); Ok(()) })),
    key("namespaces", "program-udp-sockets", "As in `limits`, for each program in this namespace.",
        |s, v| namespace(s, v, |n, v| { n.limits.udp_sockets = Some(v.number(1..=MAX)?); Ok(()) })),
    key("namespaces", "sessions", "Sessions of all programs in this namespace together.",
        |s, v| namespace(s, v, |n, v| { n.limits.together.sessions = Some(v.number(1..=MAX)?);
            Ok(()) })),
    key("namespaces", "listeners", "Listeners of all programs in this namespace together.",
        |s, v| namespace(s, v, |n, v| { n.limits.together.listeners = Some(v.number(1..=MAX)?);
            Ok(()) })),
    key("namespaces", "processes", "Processes of all programs in this namespace together.",
        |s, v| namespace(s, v, |n, v| { n.limits.together.processes = Some(v.number(1..=MAX)?);
            Ok(()) })),
    key("namespaces", "udp-sockets", "UDP sockets of all programs in this namespace together.",
        |s, v| namespace(s, v, |n, v| { n.limits.together.udp_sockets = Some(v.number(1..=MAX)?);
            Ok(()) })),
    key("namespaces", "memory", "Bytes of shared memory of all programs in this namespace together.",
        |s, v| namespace(s, v, |n, v| { n.limits.together.memory = Some(v.number((1 << 20)..=(1 << 44))?); Ok(()) })),
    key("namespaces", "program-memory", "As in `limits`, for each program in this namespace.",
        |s, v| namespace(s, v, |n, v| { n.limits.memory = Some(v.number((1 << 20)..=(1 << 44))?);
            Ok(()) })),
];

fn millis(value: &Value<'_, '_>, bounds: std::ops::RangeInclusive<u64>) -> Result<Duration, Wrong> {
    value.number(bounds).map(Duration::from_millis)
}

fn fast_open_mode(value: &Value<'_, '_>) -> Result<FastOpenMode, Wrong> {
    let number: u32 = value.number(0..=u64::from(FastOpenMode::BITS))?;
    if number & !FastOpenMode::BITS != 0 {
        return Err(value.wrong("expected a sum of 1, 2, 4, 512 and 1024"));
    }
    Ok(FastOpenMode::of(number))
}

fn fast_open_key(value: &Value<'_, '_>) -> Result<FastOpenKeys, Wrong> {
    fast_open_keys(&value.text()?).ok_or_else(|| {
        value.wrong("expected four groups of up to eight hexadecimal digits with hyphens between")
    })
}

fn set_workers(settings: &mut Settings, value: &Value<'_, '_>) -> Set {
    let cores = value.list(|one| one.number(0..=1023).or(Ok(usize::MAX)))?;
    let cores =
        if cores.contains(&usize::MAX) { value.parsed::<Cores>()?.list().to_vec() } else { cores };
    if let Some(twice) = cores.iter().enumerate().find(|(at, core)| cores[..*at].contains(core)) {
        return Err(
            value.wrong(format!("core {} is named twice: one worker runs on each core", twice.1))
        );
    }
    settings.workers = cores.into_iter().map(Some).collect();
    Ok(())
}

fn set_mode(settings: &mut Settings, value: &Value<'_, '_>) -> Set {
    let spin = match settings.mode {
        Mode::Adaptive(spin) => spin,
        Mode::Interrupt | Mode::Polling => Duration::from_micros(SPIN_US),
    };
    let modes = [
        ("interrupt", Mode::Interrupt),
        ("adaptive", Mode::Adaptive(spin)),
        ("polling", Mode::Polling),
    ];
    settings.mode = value.one_of(&modes)?;
    Ok(())
}

fn set_spin(settings: &mut Settings, value: &Value<'_, '_>) -> Set {
    let spin = Duration::from_micros(value.number(0..=1_000_000)?);
    if let Mode::Adaptive(current) = &mut settings.mode {
        *current = spin;
        return Ok(());
    }
    Err(value.wrong("spin-us goes with mode = \"adaptive\" only"))
}

fn set_buffer_bytes(settings: &mut Settings, value: &Value<'_, '_>) -> Set {
    settings.pool = PoolBudget::of_bytes(value.number((1 << 20)..=(1 << 40))?);
    Ok(())
}

fn set_window(settings: &mut Settings, value: &Value<'_, '_>) -> Set {
    settings.tcp.max_receive_window = value.number((64 << 10)..=(1 << 30))?;
    Ok(())
}

fn set_ephemeral_ports(settings: &mut Settings, value: &Value<'_, '_>) -> Set {
    match value.list(|one| one.number::<u16>(1..=65_535))?.as_slice() {
        &[first, last] if first <= last => settings.tcp.ephemeral_ports = (first, last),
        _ => return Err(value.wrong("expected [first, last] with first not above last")),
    }
    Ok(())
}

fn set_socket_mode(settings: &mut Settings, value: &Value<'_, '_>) -> Set {
    let text = value.text()?;
    let mode = u32::from_str_radix(&text, 8).ok().filter(|mode| *mode <= 0o777);
    settings.socket_mode =
        mode.ok_or_else(|| value.wrong("expected a file mode such as \"660\""))?;
    Ok(())
}

/// A group of the system, by its name or its number.
fn group(value: &Value<'_, '_>) -> Result<u32, Wrong> {
    if let Ok(number) = value.number(0..=MAX - 1) {
        return Ok(number);
    }
    let name = value.text()?;
    match nix::unistd::Group::from_name(&name) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        _ => Err(value.wrong(format!("there is no group {name}. `getent group` lists them"))),
    }
}

fn port(
    settings: &mut Settings,
    value: &Value<'_, '_>,
    set: fn(&mut PortSetting, &Value<'_, '_>) -> Set,
) -> Set {
    settings.ports.last_mut().map_or(Ok(()), |port| set(port, value))
}

fn namespace(
    settings: &mut Settings,
    value: &Value<'_, '_>,
    set: fn(&mut NamespaceSetting, &Value<'_, '_>) -> Set,
) -> Set {
    settings.namespaces.last_mut().map_or(Ok(()), |namespace| set(namespace, value))
}

/// A list of so many at most.
fn few<T>(
    value: &Value<'_, '_>,
    most: usize,
    each: impl Fn(&Value<'_, '_>) -> Result<T, Wrong>,
) -> Result<Vec<T>, Wrong> {
    let list = value.list(each)?;
    if list.len() > most {
        return Err(value.wrong(format!("expected at most {most}")));
    }
    Ok(list)
}

/// The address of a server of names.
fn name_server(value: &Value<'_, '_>) -> Result<Addr, Wrong> {
    let addr: Addr = value.parsed()?;
    if addr.is_unspecified() || addr.is_multicast() {
        return Err(value.wrong("no server has this address"));
    }
    if addr.is_link_local() {
        return Err(
            value.wrong("expected an address that is no link's own: it holds for all namespaces")
        );
    }
    Ok(addr)
}

/// A domain. It is put into a text that programs read, so it has no other characters than these.
fn domain(value: &Value<'_, '_>) -> Result<String, Wrong> {
    let text = value.text()?;
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if text.len() > 253 || !text.chars().all(good) {
        return Err(value.wrong("expected a domain of letters, digits, `-`, `_` and `.`"));
    }
    Ok(text)
}

/// A part of the code, and how much of it goes into the log.
fn log_target(value: &Value<'_, '_>) -> Result<(String, LogLevel), Wrong> {
    let text = value.text()?;
    let is_path = |path: &str| {
        !path.is_empty() && path.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c))
    };
    let level = |name: &str| LogLevel::NAMES.iter().find(|(known, _)| *known == name);
    let split = text.split_once('=').filter(|(path, _)| is_path(path));
    let found = split.and_then(|(path, name)| Some((path.to_owned(), level(name)?.1)));
    found.ok_or_else(|| {
        value.wrong(
            "expected a path and a level, such as \"clearway_host::supervisor=debug\"; levels are \
             off, error, warn, info and debug",
        )
    })
}
