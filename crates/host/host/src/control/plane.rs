//! Who carries commands out, and what commands have made that the host itself does not know.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard};

use clearway_command::{Command, Line, NoNames, Show, help, parse, statements, without_secrets};
use clearway_errors::Code;
use clearway_pkt::Iface;
use clearway_proto::Table;
use serde_json::json;
use zeroize::Zeroizing;

use crate::autoconf::Autoconf;
use crate::capture::Packets;
use crate::config::ControlOptions;
use crate::host::HostHandle;
use crate::leases::Leases;
use crate::link_mtus::LinkMtus;
use crate::made::Made;
use crate::outcome::{Answer, CommandError, Output, locked};
use crate::placements::Placements;
use crate::show::{self, Baselines, Drain, LastLooks, View};
use crate::tables::Tables;
use crate::teller::Teller;

/// What commands have made that the host itself does not know.
pub(super) struct State {
    pub(super) tables: Tables,
    pub(super) packets: Packets,
    pub(super) baselines: Baselines,
    pub(super) placements: Placements,
    pub(super) made: Made,
    /// Interfaces that are configured by DHCP.
    pub(super) leases: Leases,
    /// Interfaces that are configured by IPv6 routers.
    pub(super) autoconf: Autoconf,
    /// MTUs that servers and routers said.
    pub(super) link_mtus: LinkMtus,
    /// The loopback of each table for what is sent to our own addresses.
    pub(super) locals: Vec<(Table, Iface)>,
    /// Scripts that run scripts.
    pub(super) depth: usize,
    /// Since when new connections go to other machines, and how.
    pub(super) drain: Option<Drain>,
    /// What workers had done when somebody looked.
    pub(super) last_looks: RefCell<LastLooks>,
    /// Rows of `show settings`, as they are now.
    pub(super) settings: Vec<(String, String)>,
    /// Numbers the faults of interfaces, so that each has its own.
    pub(super) fault_seed: u64,
}

impl State {
    /// What is shown of it.
    pub(super) fn view(&self) -> View<'_> {
        View {
            tables: &self.tables,
            packets: &self.packets,
            baselines: &self.baselines,
            placements: &self.placements,
            made: &self.made,
            leases: &self.leases,
            autoconf: &self.autoconf,
            link_mtus: &self.link_mtus,
            drain: self.drain.as_ref(),
            settings: &self.settings,
            last_looks: &self.last_looks,
        }
    }

    pub(super) fn next_fault_seed(&mut self) -> u64 {
        self.fault_seed += 1;
        self.fault_seed
    }
}

/// How metrics are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricsFormat {
    /// The text of OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' older text, without the names that node_exporter has itself: for the collector
    /// of files in it.
    TextFile,
}

/// Hears whether the host is drained, when that changes.
pub type OnDrain = Box<dyn Fn(bool) + Send>;

/// Reads the settings again and takes them over; answers what was done, as a sentence, or why
/// nothing was.
pub type OnReload = Box<dyn Fn() -> Result<String, (Code, String)> + Send>;

/// Prometheus' older text, out of that of OpenMetrics.
pub fn classic_metrics(open_metrics: &str) -> String {
    show::classic(open_metrics)
}

/// Scripts that call each other at most.
pub const MAX_DEPTH: usize = 8;

/// Bytes of a script at most.
const MAX_SCRIPT: u64 = 1 << 20;

/// Carries out commands.
pub struct Control {
    pub(super) host: HostHandle,
    pub(super) options: ControlOptions,
    pub(super) state: Mutex<State>,
    pub(super) is_draining: AtomicBool,
    pub(super) on_drain: Mutex<Option<OnDrain>>,
    pub(super) on_reload: Mutex<Option<OnReload>>,
}

impl Control {
    /// The control plane of a host.
    pub fn new(host: HostHandle, options: ControlOptions) -> Control {
        let state = State {
            tables: Tables::new(options.tables),
            packets: Packets::of(host.clone()),
            baselines: Baselines::default(),
            placements: Placements::default(),
            made: Made::default(),
            leases: Leases::default(),
            autoconf: Autoconf::default(),
            link_mtus: LinkMtus::default(),
            locals: Vec::new(),
            depth: 0,
            drain: None,
            last_looks: RefCell::default(),
            settings: options.settings.clone(),
            fault_seed: 0,
        };
        Control {
            host,
            options,
            state: Mutex::new(state),
            is_draining: AtomicBool::new(false),
            on_drain: Mutex::default(),
            on_reload: Mutex::default(),
        }
    }

    /// Carries out one line.
    pub fn execute(&self, line: &str) -> Answer {
        let parsed = parse(line);
        if let Ok(Line { command: Command::Reload, json }) = parsed {
            return self.ask_reload(json);
        }
        let mut state = self.lock();
        match parsed {
            Ok(parsed) => match self.command(&mut state, &parsed.command) {
                Ok(output) => {
                    if parsed.command.changes() {
                        tracing::info!(line = without_secrets(line), "command");
                    }
                    Answer::of(output, parsed.json)
                }
                Err(error) => {
                    tracing::warn!(line = without_secrets(line), %error, "command failed");
                    Answer::failed(&error, parsed.json)
                }
            },
            Err(error) => Answer::wrong_use(&error, asks_for_json(line)),
        }
    }

    /// Carries out a script. The first line that fails ends it.
    pub fn run_script(&self, path: &Path) -> Result<Output, CommandError> {
        self.script(&mut self.lock(), path)
    }

    /// All that is measured, for Prometheus.
    pub fn metrics(&self, format: MetricsFormat) -> Result<String, CommandError> {
        let text = self.run(&Command::Show(Show::Metrics))?.text;
        Ok(match format {
            MetricsFormat::OpenMetrics => text,
            MetricsFormat::TextFile => show::for_textfile(&text),
        })
    }

    /// Carries out one command, of the settings for example.
    pub fn run(&self, command: &Command) -> Result<Output, CommandError> {
        self.command(&mut self.lock(), command)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Tells processes that what they know of addresses and routes is stale.
    pub(super) fn changed(&self) {
        self.host.routes_changed();
    }

    pub(super) fn script(&self, state: &mut State, path: &Path) -> Result<Output, CommandError> {
        let text = read_script(path)?;
        if state.depth >= MAX_DEPTH {
            return Err(CommandError::TooDeep);
        }
        let in_script = |error: CommandError, number: usize| CommandError::InScript {
            path: path.to_owned(),
            number,
            error: Box::new(error),
        };
        let lines = statements(&text).map_err(|error| CommandError::Script {
            path: path.to_owned(),
            error: Box::new(error),
        })?;
        state.depth += 1;
        tracing::info!(script = %path.display(), commands = lines.len(), "script");
        let done = lines.iter().try_fold(String::new(), |mut text, (statement, line)| {
            let output = self
                .command(state, &line.command)
                .map_err(|error| in_script(error, statement.number))?;
            text.push_str(&output.text);
            Ok(text)
        });
        state.depth -= 1;
        done.map(|text| {
            Output::new(
                text.clone(),
                json!({ "script": path, "commands": lines.len(), "output": text }),
            )
        })
    }

    pub(super) fn command(
        &self,
        state: &mut State,
        command: &Command,
    ) -> Result<Output, CommandError> {
        match command {
            Command::Nothing => Ok(Output::done()),
            Command::Help(line) => Ok(Output::text(help(line, &NoNames))),
            Command::Quit => Ok(Output::quit()),
            Command::Stop => {
                self.host.stop();
                Ok(Output::text("The host stops.\n"))
            }
            Command::Exec(path) => self.script(state, path),
            Command::CreateLoopback { instance, mtu, fault } => {
                self.create_loopback(state, *instance, *mtu, fault.as_deref())
            }
            Command::CreateTap(spec) => self.create_tap(state, spec),
            Command::CreatePort { port, name, fault } => {
                self.create_port(state, port, name.as_deref(), fault.as_deref())
            }
            Command::Reload => Err(CommandError::ByItself("reload")),
            Command::Save(path) => self.save(state, path),
            Command::DeleteInterface { interface } => self.delete_interface(state, interface),
            Command::SetState { interface, up } => self.set_state(state, interface, *up),
            Command::SetAddress { interface, prefix, add } => {
                self.set_address(state, interface, *prefix, *add)
            }
            Command::SetTable { interface, table } => self.set_table(state, interface, *table),
            Command::SetMtu { interface, kind, mtu } => self.set_mtu(interface, *kind, *mtu),
            Command::SetMac { interface, mac } => self.set_mac(state, interface, *mac),
            Command::SetPromiscuous { interface, .. } => self.set_promiscuous(interface),
            Command::SetDhcp { interface, on } => {
                self.configure(state, interface, Teller::Dhcp, *on)
            }
            Command::SetSlaac { interface, on } => {
                self.configure(state, interface, Teller::Router, *on)
            }
            Command::SetRxMode { interface, queue, mode } => {
                self.set_rx_mode(state, interface, *queue, *mode)
            }
            Command::SetRxPlacement { interface, queue, on } => {
                self.set_rx_placement(state, interface, *queue, *on)
            }
            Command::Table { table, add: true } => {
                state.tables.add(*table).map(|()| Output::done())
            }
            Command::Table { table, add: false } => self.delete_table(state, *table),
            Command::Route { prefix, table, via, add: true } => {
                self.add_route(state, *prefix, *table, via.as_ref())
            }
            Command::Route { prefix, table, add: false, .. } => {
                self.delete_route(state, *prefix, *table)
            }
            Command::AddNamespace(spec) => self.add_namespace(state, spec),
            Command::DeleteNamespace { id } => self.delete_namespace(id),
            Command::SetSecret(new) => self.set_secret(new),
            Command::Session { enable: true } => {
                Ok(Output::text("The session layer is always on.\n"))
            }
            Command::Session { enable: false } => Err(CommandError::AlwaysOn),
            Command::KillSession(name) => self.kill_session(*name),
            Command::Drain(mode) => self.drain(state, *mode),
            Command::Undrain => self.undrain(state),
            Command::PcapTrace(wanted) => self.pcap_trace(state, wanted),
            Command::PcapStream(wanted) => Self::pcap_stream(wanted),
            Command::PcapOff => self.pcap_off(state),
            Command::AclAdd(rule) => self.acl_add(state, rule),
            Command::AclDelete { rule } => self.acl_delete(state, *rule),
            Command::Clear(what) => self.clear(state, what),
            Command::Show(what) => show::show(&self.host, &self.options, state.view(), what),
            Command::NotBuiltIn(what) => Err(CommandError::NotBuiltIn(what)),
        }
    }
}

fn asks_for_json(line: &str) -> bool {
    line.split_whitespace().any(|word| word == "--json")
}

fn read_script(path: &Path) -> Result<Zeroizing<String>, CommandError> {
    let unreadable = |error| CommandError::Unreadable { path: path.to_owned(), error };
    let meta = std::fs::metadata(path).map_err(unreadable)?;
    if !meta.is_file() || meta.len() > MAX_SCRIPT {
        return Err(CommandError::NoScript(PathBuf::from(path)));
    }
    std::fs::read_to_string(path).map(Zeroizing::new).map_err(unreadable)
}

#[cfg(test)]
pub(super) mod tests;
