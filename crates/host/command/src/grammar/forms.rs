//! The table of forms.

use super::{Form, Got, Made, Refusal};
use crate::command::*;

const fn form(pattern: &'static str, help: &'static str, make: fn(&Got<'_>) -> Made) -> Form {
    Form { pattern, help, make }
}

#[rustfmt::skip]
pub(super) const FORMS: &[Form] = &[
    form("create loopback interface { instance N | mtu MTU | fault FAULT }",
        "Make a loopback interface: loop0, loop1 and so on. Its answer is its name.",
            create_loopback),
    form("create tap { id N | host-if-name HOST-INTERFACE | hw-addr MAC | host-ip4-addr \
        PREFIX:host4 | host-ip6-addr PREFIX:host6 | host-mtu-size MTU | host-ns NETNS | tun | fault FAULT }",
        "Make a TAP interface of Linux, in another network namespace with host-ns, and the interface tapN on it. Its answer is its name.",
            create_tap),
    form("create port PORT { name INTERFACE | fault FAULT }",
        "Make an interface over a port as `[[ports]]` of the settings names it. Its answer is its \
         name.", create_port),
    form("delete loopback interface [intfc] INTERFACE",
        "Take a loopback interface away. Connections that use its addresses are reset.",
            delete_interface),
    form("delete tap INTERFACE",
        "Take a TAP interface away. Connections that use its addresses are reset.",
            delete_interface),

    form("set interface state INTERFACE (up|down)",
        "Bring an interface up or down.", set_state),
    form("set interface ip address INTERFACE PREFIX",
        "Give an interface an address.", add_address),
    form("set interface ip address (del|delete) INTERFACE (PREFIX|all)",
        "Take an address of an interface away, or all that it was given: its own link-local \
         address stays.", del_address),
    form("set interface (ip|ip6) table INTERFACE TABLE",
        "Put an interface into a routing table. Connections that use its addresses are reset.",
            set_table),
    form("set interface mtu [(packet|ip4|ip6|mpls)] MTU INTERFACE",
        "Set an interface's MTU in bytes.", set_mtu),
    form("set interface mac address INTERFACE MAC",
        "Set an interface's Ethernet address.", set_mac),
    form("set interface promiscuous (on|off) INTERFACE",
        "Let an interface receive frames for other link addresses, or not.", set_promiscuous),
    form("set interface dhcp INTERFACE (on|off)",
        "Have an interface's IPv4 address, routes and MTU given by a DHCP server, or give them \
         back.", set_dhcp),
    form("set interface slaac INTERFACE (on|off)",
        "Have an interface's IPv6 addresses, routes and MTU given by routers, or give them up.",
        set_slaac),
    form("set interface rx-mode INTERFACE [queue QUEUE] (polling|interrupt|adaptive)",
        "How workers wait for an interface's packets: polling never sleeps, interrupt sleeps at \
         once, adaptive looks for a while first.", set_rx_mode),
    form("set interface rx-placement INTERFACE [queue QUEUE] (worker WORKER|main)",
        "Which worker serves a queue of an interface.", set_rx_placement),

    form("(ip|ip6) table (add|del|delete) TABLE",
        "Make a routing table, or take it away. Table 0 is always there.", table),
    form("(ip|ip6) route add PREFIX [table TABLE] via (ADDRESS [INTERFACE]|INTERFACE|lookup in \
        table TABLE:inner|drop|unreachable)",
        "Add a route. `lookup` goes on in another table; `drop` drops in silence; `unreachable` \
         tells the sender.", add_route),
    form("(ip|ip6) route (del|delete) PREFIX [table TABLE] [via (ADDRESS \
        [INTERFACE]|INTERFACE|lookup in table TABLE:inner|drop|unreachable)]",
        "Take a route away.", del_route),

    form("app ns add id NAMESPACE { secret SECRET | if INTERFACE | table TABLE | sessions \
        N:sessions | listeners N:listeners | processes N:processes | udp-sockets N:udp-sockets | \
        memory N:memory | all-sessions N:all-sessions | all-listeners N:all-listeners | \
        all-processes N:all-processes | all-udp-sockets N:all-udp-sockets | all-memory \
        N:all-memory }",
        "Make an application namespace. Programs enter it with its secret, use the addresses of \
         its interface and see its table. sessions, listeners, processes, udp-sockets and memory \
         (bytes) bound each program in it, in place of the settings' limits; with all- before \
         them, all of its programs together.", add_namespace),
    form("app ns (del|delete) [id] NAMESPACE",
        "Take a namespace away: nobody enters it any more. Programs in it stay.", delete_namespace),
    form("app ns set [id] NAMESPACE (secret SECRET|no-secret)",
        "Another secret for a namespace, or none, for programs that come from now on. Programs in \
         it stay.", set_secret),
    form("session (enable|disable)",
        "The session layer is always on; `enable` is here for scripts that say it.", session),

    form("session kill SESSION",
        "Reset a connection, whatever its program does with it; the program is told ECONNABORTED. \
         With its generation, only if the slot is still that session's.", kill_session),

    form("drain [(announce|refuse|silent)]",
        "Have new connections from other machines go elsewhere: health says so, and each is \
         refused with a reset. `silent` drops their SYNs in place of that; `announce` takes them \
         still, until routers know. What is connected goes on.", drain),
    form("undrain", "Take new connections again.", |_| Ok(Command::Undrain)),

    form("pcap trace status",
        "Show what is captured, and how much there is of it.", |_| show(Show::Pcap)),
    form("pcap trace off",
        "Stop capturing, and finish the file.", |_| Ok(Command::PcapOff)),
    form("pcap trace (rx|tx|drop) { rx | tx | drop | max N | max-bytes-per-pkt N:bytes | intfc \
        (INTERFACE|any) | file FILE | net NET | proto PROTOCOL | port PORTS | filter FILTER | \
        names }",
        "Capture packets into a pcapng file: that come in, go out or are dropped (these with the \
         reason as a comment). net, proto, port and filter are the filter; names has the session \
         and its program as comments.", pcap_trace),
    form("pcap stream (rx|tx|drop) { rx | tx | drop | max N | max-bytes-per-pkt N:bytes | intfc \
        (INTERFACE|any) | filter FILTER | names }",
        "For `clearway capture`: the next line, `go`, makes this conversation a pcapng stream of \
         packets until its other side is shut.", pcap_stream),

    form("acl add (permit|deny) { (in|out) | intfc (INTERFACE|any) | proto PROTOCOL | src NET:src \
        | dst NET:dst | sport PORTS:sport | dport PORTS:dport }",
        "Add a rule. The first rule that fits decides; what none fits may pass. Its answer is its \
         number.", acl_add),
    form("acl (del|delete) (N|all)",
        "Take a rule away, or all.", acl_delete),

    form("show version", "The version of the host.", |_| show(Show::Version)),
    form("show plugins", "What is built in.", |_| show(Show::Plugins)),
    form("show interface/interfaces [INTERFACE]", "Interfaces: state, MTU, counters.",
        |got| show(Show::Interface { interface: got.text("INTERFACE") })),
    form("show interface/interfaces address [INTERFACE]", "Interfaces and their addresses.",
        |got| show(Show::InterfaceAddress { interface: got.text("INTERFACE") })),
    form("show interface/interfaces rx-placement",
        "Which worker serves which queue, and how it waits.", |_| show(Show::RxPlacement)),
    form("show (ip|ip6) neighbors/neighbor", "Neighbours on links, and their Ethernet addresses.",
        |got| show(Show::Neighbors { version: version(got) })),
    form("show (ip|ip6) (fib|route) [table TABLE] [NET]",
        "Routes, or the one that a destination takes.", show_fib),
    form("show (ip|ip6) table/tables", "Routing tables.", |_| show(Show::Tables)),
    form("show session/sessions [verbose [N]] { app N:app | state STATE | proto PROTOCOL | local \
        NET:local | remote NET:remote | port PORTS }",
        "Sessions of programs; verbose 2 shows each in full. The words behind that are a filter: of \
         one program, in one state, of tcp or udp, with such an address of ours or of the peer, with \
         a port of either side.", show_session),
    form("show app/apps [verbose]", "Programs that are attached.",
        |got| show(Show::App { verbose: got.has("verbose") })),
    form("show app ns", "Application namespaces. Secrets are never shown.",
        |_| show(Show::Namespaces)),
    form("show limits/limit",
        "How much of each thing the host, namespaces and programs have, and may have.",
            |_| show(Show::Limits)),
    form("show segments/segment", "Shared memory of programs.", |_| show(Show::Segments)),
    form("show errors/error [all]", "Why packets were dropped; all shows also what never happened.",
        |got| show(Show::Errors { all: got.has("all") })),
    form("show buffers/buffer", "Packet buffers.", |_| show(Show::Buffers)),
    form("show tcp [stats]", "Counters of TCP.", |_| show(Show::Tcp)),
    form("show udp [stats]", "Counters of UDP.", |_| show(Show::Udp)),
    form("show nstat", "Counters by the names of Linux, as nstat(8) has them.",
        |_| show(Show::Nstat)),
    form("show metrics", "All that is measured, as the text of OpenMetrics.",
        |_| show(Show::Metrics)),
    form("show proc-net (tcp|tcp6|udp|udp6) [ns NAMESPACE]",
        "Sockets of programs, or of those in one namespace, in the lines that Linux has below \
         /proc/net.", show_proc_net),
    form("show threads/thread",
        "How long the host runs, and its workers: core, mode, turns, sleeps, and how busy they are.",
        |_| show(Show::Threads)),
    form("show stages/stage", "Where the time of workers goes, by stage of a turn. It is counted \
while somebody asks, and for some ten seconds after.", |_| show(Show::Stages)),
    form("show dhcp", "Interfaces that are configured by DHCP: leases, and what was dropped.",
        |_| show(Show::Dhcp)),
    form("show slaac", "Interfaces that are configured by IPv6 routers: addresses, routers, and what \
         was dropped.",
        |_| show(Show::Slaac)),
    form("show drain", "Whether the host is drained, and which connections are left.",
        |_| show(Show::Drain)),
    form("show acl", "Rules, and how many packets each fitted.", |_| show(Show::Acl)),
    form("show pcap", "The same as `pcap trace status`.", |_| show(Show::Pcap)),
    form("show explain [PID]", "Sockets of programs that stayed with the kernel, and why.",
        show_explain),
    form("show settings", "The settings that the host runs with.", |_| show(Show::Settings)),
    form("show running-config [secrets]",
        "The commands that make what the host has: interfaces, tables, routes, namespaces, rules. \
         Namespaces with a secret are behind a `#`; `secrets` shows them.",
        |got| show(Show::RunningConfig { secrets: got.has("secrets") })),

    form("clear interface/interfaces [INTERFACE]", "Set counters of interfaces to zero.",
        |got| clear(Clear::Interfaces { interface: got.text("INTERFACE") })),
    form("clear errors/error", "Set the counters of drop reasons to zero.",
        |_| clear(Clear::Errors)),
    form("clear tcp [stats]", "Set the counters of TCP to zero.", |_| clear(Clear::Tcp)),
    form("clear acl [stats]", "Set the counters of rules to zero.", |_| clear(Clear::Acl)),
    form("show dpdk version", "The version of DPDK that was built in.",
        |_| show(Show::DpdkVersion)),
    form("show dpdk buffer", "The buffers that DPDK has for each interface.",
        |_| show(Show::DpdkBuffers)),
    form("show dpdk physmem", "The memory that DPDK has.", |_| show(Show::DpdkMemory)),
    form("test dpdk buffer [(allocate|free) N]",
        "Not offered: DPDK's buffers are taken and given back by the ports only.",
            |_| Ok(Command::NotBuiltIn("taking DPDK's buffers by hand"))),

    form("save FILE", "Write these commands, with secrets, into a script that only the host's user \
        may read.", save),
    form("exec FILE", "Do what a file of commands says.", exec),
    form("help [all]", "What commands there are.", |_| Ok(Command::Help(String::new()))),
    form("reload", "Read the file of settings again, as on SIGHUP, and say what was taken over. All of \
        what changed is, or nothing.", |_| Ok(Command::Reload)),
    form("(quit|exit)", "End this conversation; the host goes on.", |_| Ok(Command::Quit)),
    form("stop", "Stop the host.", |_| Ok(Command::Stop)),
];

fn show(what: Show) -> Made {
    Ok(Command::Show(what))
}

fn clear(what: Clear) -> Made {
    Ok(Command::Clear(what))
}

fn create_loopback(got: &Got<'_>) -> Made {
    let (instance, mtu) = (got.small("N")?, got.small("MTU")?);
    Ok(Command::CreateLoopback { instance, mtu, fault: got.text("FAULT") })
}

fn create_tap(got: &Got<'_>) -> Made {
    let mut host_addresses = got.prefixes("host4");
    host_addresses.extend(got.prefixes("host6"));
    Ok(Command::CreateTap(TapSpec {
        id: got.small("N")?,
        host_name: got.text("HOST-INTERFACE"),
        mac: got.mac("MAC"),
        host_addresses,
        mtu: got.small("MTU")?,
        netns: got.text("NETNS"),
        tun: got.has("tun"),
        fault: got.text("FAULT"),
    }))
}

fn create_port(got: &Got<'_>) -> Made {
    let port = got.text("PORT").ok_or_else(|| Refusal::line("the port is missing"))?;
    Ok(Command::CreatePort { port, name: got.text("INTERFACE"), fault: got.text("FAULT") })
}

fn save(got: &Got<'_>) -> Made {
    let file = got.path("FILE").ok_or_else(|| Refusal::line("the file is missing"))?;
    Ok(Command::Save(file))
}

fn delete_interface(got: &Got<'_>) -> Made {
    Ok(Command::DeleteInterface { interface: got.interface() })
}

fn set_state(got: &Got<'_>) -> Made {
    Ok(Command::SetState { interface: got.interface(), up: got.has("up") })
}

fn add_address(got: &Got<'_>) -> Made {
    Ok(Command::SetAddress { interface: got.interface(), prefix: got.prefix("PREFIX"), add: true })
}

fn del_address(got: &Got<'_>) -> Made {
    Ok(Command::SetAddress { interface: got.interface(), prefix: got.prefix("PREFIX"), add: false })
}

fn set_table(got: &Got<'_>) -> Made {
    Ok(Command::SetTable { interface: got.interface(), table: got.table("TABLE")?.unwrap_or(0) })
}

fn set_mtu(got: &Got<'_>) -> Made {
    let kind = match () {
        () if got.has("ip4") => MtuKind::Ip4,
        () if got.has("ip6") => MtuKind::Ip6,
        () if got.has("mpls") => MtuKind::Mpls,
        () => MtuKind::Packet,
    };
    Ok(Command::SetMtu { interface: got.interface(), kind, mtu: got.small("MTU")?.unwrap_or(0) })
}

fn set_mac(got: &Got<'_>) -> Made {
    let mac = got.mac("MAC").ok_or_else(|| Refusal::line("the Ethernet address is missing"))?;
    if mac.is_multicast() {
        return Err(Refusal::of(
            "MAC",
            "this is the address of a group. One link address's address has an even first byte.",
        ));
    }
    Ok(Command::SetMac { interface: got.interface(), mac })
}

fn set_dhcp(got: &Got<'_>) -> Made {
    Ok(Command::SetDhcp { interface: got.interface(), on: got.has("on") })
}

fn set_slaac(got: &Got<'_>) -> Made {
    Ok(Command::SetSlaac { interface: got.interface(), on: got.has("on") })
}

fn set_promiscuous(got: &Got<'_>) -> Made {
    Ok(Command::SetPromiscuous { interface: got.interface(), on: got.has("on") })
}

fn set_rx_mode(got: &Got<'_>) -> Made {
    let mode = match () {
        () if got.has("polling") => RxMode::Polling,
        () if got.has("interrupt") => RxMode::Interrupt,
        () => RxMode::Adaptive,
    };
    Ok(Command::SetRxMode { interface: got.interface(), queue: got.small("QUEUE")?, mode })
}

fn set_rx_placement(got: &Got<'_>) -> Made {
    let on = got.small("WORKER")?.map_or(PlaceOn::Main, PlaceOn::Worker);
    Ok(Command::SetRxPlacement {
        interface: got.interface(),
        queue: got.small("QUEUE")?.unwrap_or(0),
        on,
    })
}

fn table(got: &Got<'_>) -> Made {
    let (table, add) = (got.table("TABLE")?.unwrap_or(0), got.has("add"));
    if table == 0 && !add {
        return Err(Refusal::of("TABLE", "table 0 is always there"));
    }
    Ok(Command::Table { table, add })
}

fn via(got: &Got<'_>) -> Result<Option<RouteVia>, Refusal> {
    Ok(match (got.address("ADDRESS"), got.text("INTERFACE"), got.table("inner")?) {
        (Some(address), interface, _) => Some(RouteVia::Gateway(address, interface)),
        (None, Some(interface), _) => Some(RouteVia::Interface(interface)),
        (None, None, Some(table)) => Some(RouteVia::Lookup(table)),
        (None, None, None) if got.has("drop") => Some(RouteVia::Drop),
        (None, None, None) if got.has("unreachable") => Some(RouteVia::Unreachable),
        (None, None, None) => None,
    })
}

fn route(got: &Got<'_>, add: bool) -> Made {
    let prefix = got.prefix("PREFIX").ok_or_else(|| Refusal::line("the prefix is missing"))?;
    let via = via(got)?;
    match &via {
        Some(RouteVia::Gateway(router, _)) if router.is_v4() != prefix.addr.is_v4() => {
            return Err(Refusal::of("ADDRESS", "the router must be of the prefix's family"));
        }
        Some(RouteVia::Lookup(table)) if *table == got.table("TABLE")?.unwrap_or(0) => {
            return Err(Refusal::of(
                "inner",
                "this table is where the route is: it would lead to itself",
            ));
        }
        _ => {}
    }
    Ok(Command::Route { prefix, table: got.table("TABLE")?.unwrap_or(0), via, add })
}

fn add_route(got: &Got<'_>) -> Made {
    route(got, true)
}

fn del_route(got: &Got<'_>) -> Made {
    route(got, false)
}

fn add_namespace(got: &Got<'_>) -> Made {
    Ok(Command::AddNamespace(AppNamespace {
        id: got.text("NAMESPACE").unwrap_or_default(),
        secret: got.secret("SECRET"),
        interface: got.text("INTERFACE"),
        table: got.table("TABLE")?,
        limits: AppLimits {
            sessions: at_least(got.small("sessions")?, "sessions", 1)?,
            listeners: at_least(got.small("listeners")?, "listeners", 1)?,
            processes: at_least(got.small("processes")?, "processes", 1)?,
            udp_sockets: at_least(got.small("udp-sockets")?, "udp-sockets", 1)?,
            memory: at_least(got.number("memory"), "memory", MIN_MEMORY)?,
            together: TogetherLimits {
                sessions: at_least(got.small("all-sessions")?, "all-sessions", 1)?,
                listeners: at_least(got.small("all-listeners")?, "all-listeners", 1)?,
                processes: at_least(got.small("all-processes")?, "all-processes", 1)?,
                udp_sockets: at_least(got.small("all-udp-sockets")?, "all-udp-sockets", 1)?,
                memory: at_least(got.number("all-memory"), "all-memory", MIN_MEMORY)?,
            },
        },
    }))
}

/// Bytes of memory without which no program can open a socket.
const MIN_MEMORY: u64 = 1 << 20;

fn at_least<N: Copy + PartialOrd + std::fmt::Display>(
    given: Option<N>,
    key: &'static str,
    least: N,
) -> Result<Option<N>, Refusal> {
    match given {
        Some(number) if number < least => {
            Err(Refusal::of(key, format!("{number} is too little: at least {least}")))
        }
        other => Ok(other),
    }
}

fn delete_namespace(got: &Got<'_>) -> Made {
    Ok(Command::DeleteNamespace { id: got.text("NAMESPACE").unwrap_or_default() })
}

fn set_secret(got: &Got<'_>) -> Made {
    let id = got.text("NAMESPACE").unwrap_or_default();
    Ok(Command::SetSecret(NewSecret { id, secret: got.secret("SECRET") }))
}

fn session(got: &Got<'_>) -> Made {
    Ok(Command::Session { enable: got.has("enable") })
}

fn kill_session(got: &Got<'_>) -> Made {
    let name = got.session("SESSION").ok_or_else(|| Refusal::line("the session is missing"))?;
    Ok(Command::KillSession(name))
}

fn drain(got: &Got<'_>) -> Made {
    Ok(Command::Drain(match () {
        () if got.has("announce") => DrainMode::Announce,
        () if got.has("silent") => DrainMode::Silent,
        () => DrainMode::Refuse,
    }))
}

fn pcap_trace(got: &Got<'_>) -> Made {
    Ok(Command::PcapTrace(capture(got)?))
}

fn pcap_stream(got: &Got<'_>) -> Made {
    Ok(Command::PcapStream(capture(got)?))
}

fn capture(got: &Got<'_>) -> Result<PcapTrace, Refusal> {
    Ok(PcapTrace {
        rx: got.has("rx"),
        tx: got.has("tx"),
        drop: got.has("drop"),
        max: got.number("N"),
        max_bytes: got.small("bytes")?,
        interface: got.text("INTERFACE"),
        file: got.path("FILE"),
        prefix: got.prefix("NET"),
        protocol: got.protocol("PROTOCOL"),
        ports: got.ports("PORTS"),
        filter: got.text("FILTER"),
        names: got.has("names"),
    })
}

fn acl_add(got: &Got<'_>) -> Made {
    let direction = match (got.has("in"), got.has("out")) {
        (true, _) => Some(Direction::In),
        (_, true) => Some(Direction::Out),
        _ => None,
    };
    let rule = AclRule {
        gate: if got.has("permit") { Gate::Permit } else { Gate::Deny },
        direction,
        interface: got.text("INTERFACE"),
        protocol: got.protocol("PROTOCOL"),
        src: got.prefix("src"),
        dst: got.prefix("dst"),
        sport: got.ports("sport"),
        dport: got.ports("dport"),
    };
    let portless = rule.protocol.is_some_and(|protocol| ![6, 17].contains(&protocol));
    if portless && (rule.sport.is_some() || rule.dport.is_some()) {
        return Err(Refusal::of("PROTOCOL", "only tcp and udp have ports"));
    }
    if let (Some(src), Some(dst)) = (rule.src, rule.dst) {
        if src.addr.is_v4() != dst.addr.is_v4() {
            return Err(Refusal::of("dst", "source and destination must be of one family"));
        }
    }
    Ok(Command::AclAdd(rule))
}

fn acl_delete(got: &Got<'_>) -> Made {
    Ok(Command::AclDelete { rule: got.small("N")? })
}

fn version(got: &Got<'_>) -> IpVersion {
    if got.has("ip6") { IpVersion::V6 } else { IpVersion::Any }
}

fn show_fib(got: &Got<'_>) -> Made {
    show(Show::Fib { version: version(got), table: got.table("TABLE")?, prefix: got.prefix("NET") })
}

fn show_proc_net(got: &Got<'_>) -> Made {
    let table = match () {
        () if got.has("tcp") => ProcNetTable::Tcp,
        () if got.has("tcp6") => ProcNetTable::Tcp6,
        () if got.has("udp") => ProcNetTable::Udp,
        () => ProcNetTable::Udp6,
    };
    show(Show::ProcNet { table, namespace: got.text("NAMESPACE") })
}

fn show_session(got: &Got<'_>) -> Made {
    let verbose = match (got.has("verbose"), got.small("N")?) {
        (_, Some(level)) => level,
        (true, None) => 1,
        (false, None) => 0,
    };
    let protocol = got.protocol("PROTOCOL");
    if protocol.is_some_and(|protocol| ![6, 17].contains(&protocol)) {
        return Err(Refusal::of("PROTOCOL", "sessions are of tcp or udp"));
    }
    let filter = SessionFilter {
        app: got.small("app")?,
        state: got.text("STATE"),
        protocol,
        local: got.prefix("local"),
        remote: got.prefix("remote"),
        ports: got.ports("PORTS"),
    };
    show(Show::Session { verbose, filter })
}

fn show_explain(got: &Got<'_>) -> Made {
    show(Show::Explain { pid: got.small("PID")? })
}

fn exec(got: &Got<'_>) -> Made {
    let file = got.path("FILE").ok_or_else(|| Refusal::line("the file is missing"))?;
    Ok(Command::Exec(file))
}
