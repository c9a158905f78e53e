//! What `show` answers: each view gathers from the workers and the supervisor, and gives text and
//! JSON of the same rows.

mod counters;
mod dhcp;
mod drain;
mod grid;
mod host;
mod interfaces;
mod last_looks;
mod limits;
mod linux;
mod look;
mod metrics;
mod proc_net;
mod programs;
mod routes;
mod running;
mod sessions;
mod slaac;
mod threads;

use clearway_command::Show;
use serde_json::json;
use zeroize::Zeroizing;

use crate::config::ControlOptions;
use crate::host::HostHandle;
use crate::outcome::{CommandError, Output};

use look::Look;

pub(crate) use interfaces::counters;
pub(crate) use last_looks::LastLooks;
pub(crate) use look::{Baselines, Drain, View};
/// The commands that make what the host has, secrets in them.
pub(crate) fn running_script(
    host: &HostHandle,
    options: &ControlOptions,
    view: View<'_>,
) -> Result<(Zeroizing<String>, usize), CommandError> {
    Look { host, options, view }.running_script()
}

pub(crate) use metrics::{classic, for_textfile};

/// One view.
pub(crate) fn show(
    host: &HostHandle,
    options: &ControlOptions,
    view: View<'_>,
    what: &Show,
) -> Result<Output, CommandError> {
    let look = Look { host, options, view };
    match what {
        Show::Version => Ok(look.version()),
        Show::Plugins => Ok(look.plugins()),
        Show::Settings => Ok(look.settings()),
        Show::RunningConfig { secrets } => look.running_config(*secrets),
        Show::Interface { interface } => look.interfaces(interface.as_deref()),
        Show::InterfaceAddress { interface } => look.addresses(interface.as_deref()),
        Show::RxPlacement => look.rx_placement(),
        Show::Neighbors { version } => look.neighbors(*version),
        Show::Fib { version, table, prefix } => look.fib(*version, *table, *prefix),
        Show::Tables => look.tables(),
        Show::Session { verbose, filter } => look.sessions(*verbose, filter),
        Show::App { verbose } => look.apps(*verbose),
        Show::Namespaces => Ok(look.namespaces()),
        Show::Limits => look.limits(),
        Show::Segments => look.segments(),
        Show::Explain { pid } => look.explain(*pid),
        Show::Errors { all } => look.errors(*all),
        Show::Buffers => look.buffers(),
        Show::Tcp => look.tcp(),
        Show::Udp => look.udp(),
        Show::Nstat => look.nstat(),
        Show::Metrics => look.metrics(),
        Show::ProcNet { table, namespace } => look.proc_net(*table, namespace.as_deref()),
        Show::Threads => look.threads(),
        Show::Stages => look.stages(),
        Show::Dhcp => look.dhcp(),
        Show::Slaac => look.slaac(),
        Show::Drain => look.drain(),
        Show::DpdkVersion => look.dpdk_version(),
        Show::DpdkBuffers => look.dpdk_buffers(),
        Show::DpdkMemory => look.dpdk_memory(),
        Show::Acl => look.acl(),
        Show::Pcap => Ok(look.pcap()),
    }
}

impl Look<'_> {
    fn version(&self) -> Output {
        let version = &self.options.version;
        Output::new(format!("{version}\n"), json!({ "version": version }))
    }

    fn plugins(&self) -> Output {
        let has_dpdk = clearway_ports::dpdk::version().is_some();
        let (mut there, mut absent) =
            (vec!["acl", "capture", "loopback", "pcap", "tap", "tun"], Vec::new());
        if has_dpdk {
            there.insert(2, "dpdk")
        } else {
            absent.push("dpdk")
        }
        let mut grid = grid::Grid::new(&["Part", "State"]);
        there.iter().for_each(|name| grid.row([(*name).into(), "built in".into()]));
        absent.iter().for_each(|name| grid.row([(*name).into(), "not built in".into()]));
        Output::new(grid.text(), json!({ "built-in": there, "not-built-in": absent }))
    }

    fn settings(&self) -> Output {
        let mut grid = grid::Grid::new(&["Setting", "Value"]);
        self.view.settings.iter().for_each(|(key, value)| grid.row([key.clone(), value.clone()]));
        let json: serde_json::Map<_, _> = self
            .view
            .settings
            .iter()
            .map(|(key, value)| (key.clone(), value.clone().into()))
            .collect();
        Output::new(grid.text(), json.into())
    }
}
