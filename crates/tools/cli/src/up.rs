//! `clearway up`: the host stack.

use std::borrow::Cow;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use clearway_command::{Command, PcapTrace, statements};
use clearway_dev::{FaultSpec, PortSpec};
use clearway_engine::{Cores, Notifier, cores};
use clearway_errors::Code;
use clearway_host::config::{LogFormat, MetricsSettings, PortSetting};
use clearway_host::control::socket_beside;
use clearway_host::{
    Control, ControlSocket, Descriptors, Host, HostError, HostHandle, MAX_DEPTH, OnReload, Settings,
};
use clearway_shm::activation::{self, ActivationError, Given, GivenSockets};
use clearway_shm::paths;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use zeroize::Zeroizing;

use crate::error::{self, Coded};
use crate::folders;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::out;
use crate::service::ServiceManager;
use crate::signals::{Signals, Woken};

/// Run the host stack until it is told to stop.
///
/// Programs reach it with `clearway run`, commands with `clearway ctl`. Without devices it needs no
/// root.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  clearway up --script network.txt
  clearway up -c host.toml --cores 1,2
  clearway up -c host.toml --check
  clearway up --socket /tmp/my/host.sock --fault loss=0.1% --pcap all.pcapng")]
pub(crate) struct Args {
    /// Settings, a TOML file
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Commands to begin with, a file; may be repeated
    #[arg(long = "script", value_name = "FILE")]
    scripts: Vec<PathBuf>,

    /// A port whose IPv4 address, routes and MTU come from a DHCP server, such as xdp:eth1 or
    /// tap:cw0; may be repeated
    #[arg(long = "dhcp", value_name = "PORT")]
    dhcp: Vec<PortSpec>,

    /// A port whose IPv6 addresses, routes and MTU come from routers (SLAAC); the same port may be
    /// named with --dhcp too
    #[arg(long = "slaac", value_name = "PORT")]
    slaac: Vec<PortSpec>,

    /// The socket at which programs are let in [default: the one that the service manager gives,
    /// $CLEARWAY_SOCKET, or host.sock in the runtime folder]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Cores of the workers, one thread each, such as 1 or 1,2 or 1-3 [default: one worker on any
    /// core]
    #[arg(long, value_name = "LIST")]
    cores: Option<Cores>,

    /// Make the links of interfaces bad, for tests: loss=0.1%,delay=10ms
    #[arg(long, value_name = "SPEC")]
    fault: Option<FaultSpec>,

    /// Write all packets to this file (pcapng), from when the scripts are done
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,

    /// Take an interface also when it carries the default route of this machine or the login that
    /// started this
    #[arg(long)]
    force: bool,

    /// Only read settings and scripts, say what is wrong with them, and end
    #[arg(long, conflicts_with = "daemon")]
    check: bool,

    /// Go on in the background once everything is ready
    #[arg(long)]
    daemon: bool,

    /// The file that the log goes to [default: standard error; in the background
    /// /var/log/clearway/host.log of root's host, clearway/host.log in $XDG_STATE_HOME of another
    /// user's, and the socket's path ending in .log for a socket that was named]
    #[arg(long, value_name = "FILE", overrides_with = "log")]
    log: Option<PathBuf>,
}

/// How long a host in the background may take until it is ready.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// How long settings may take to be read again.
const RELOADED_WITHIN: Duration = Duration::from_secs(30);

/// The folder for logs of root's host (FHS 3.0, 5.10).
const SYSTEM_LOGS: &str = "/var/log/clearway";

/// How the line begins by which a host says so.
const READY: &str = "clearway is ready";

/// What the service manager shows of a host that is drained.
const DRAINING: &str = "draining: new connections go to other machines";

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let settings = settings(&args)?;
    if args.check {
        return check(&args, &settings);
    }
    let given = activation::take().map_err(HostError::Given)?;
    let of_manager = given.programs.as_ref().map(|given| given.path.clone());
    let socket = args
        .socket
        .clone()
        .or_else(|| settings.socket.clone())
        .or(of_manager)
        .unwrap_or_else(paths::attach_socket);
    let given = in_their_places(given, &settings, &socket).map_err(HostError::Given)?;
    if args.daemon {
        if given.programs.is_some() || given.commands.is_some() {
            let why = "a service manager that gives sockets starts the host without --daemon";
            return Err(Coded::wrong_use(Code::Senseless, why.to_owned()).into());
        }
        let log = settings.log_file.clone().unwrap_or_else(|| log_in_background(&socket));
        return in_background(&control_path(&settings, &socket), &log);
    }
    keep_private(&settings)?;
    Descriptors::raise();
    Descriptors::make_table();
    let log = Log::begin(settings.log_file.clone(), &settings.log)?;
    let served = serve(&args, &settings, &socket, given, &log);
    // Whoever started us is told by the caller, on the standard error output. A log of lines there
    // would say it a second time.
    let apart = settings.log_file.is_some() || settings.log.format == LogFormat::Json;
    if let Some(error) = served.as_ref().err().filter(|_| apart) {
        tracing::error!(error = format!("{error:#}"), "the host ends");
    }
    log.settle();
    served
}

/// Says whether settings and scripts are well-formed. What only a host can know, whether an interface
/// is there for one, is not looked at.
fn check(args: &Args, settings: &Settings) -> anyhow::Result<()> {
    let mut lines = 0;
    for script in settings.script.iter().chain(&args.scripts) {
        lines += check_script(script, 0)?;
    }
    let scripts = settings.script.iter().chain(&args.scripts).count();
    Ok(writeln!(out::stdout(), "well-formed: settings, {scripts} scripts with {lines} commands")?)
}

/// How many commands a script has, with those of scripts that it names.
fn check_script(path: &Path, depth: usize) -> anyhow::Result<usize> {
    let wrong = |code, why| Coded::wrong_use(code, format!("{}: {why}", path.display()));
    if depth >= MAX_DEPTH {
        let why = "scripts call each other too deeply".into();
        return Err(wrong(Code::ScriptsTooDeep, why).into());
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| wrong(Code::ScriptUnreadable, error.to_string()))?;
    let text = Zeroizing::new(text);
    let all = statements(&text).map_err(|error| wrong(error.code(), error.to_string()))?;
    all.iter().try_fold(0, |count, (_, line)| match &line.command {
        Command::Exec(inner) => Ok(count + 1 + check_script(inner, depth + 1)?),
        _ => Ok(count + 1),
    })
}

/// What programs show and send stays in this process: the system writes no file of its memory when
/// it breaks, and nobody but root reads it.
fn keep_private(settings: &Settings) -> anyhow::Result<()> {
    if settings.core_dumps {
        return Ok(());
    }
    nix::sys::prctl::set_dumpable(false).context("cannot switch core dumps off")?;
    let (_, most) = getrlimit(Resource::RLIMIT_CORE)?;
    Ok(setrlimit(Resource::RLIMIT_CORE, 0, most)?)
}

/// The settings of the file, and what the command line says instead.
fn settings(args: &Args) -> anyhow::Result<Settings> {
    let mut settings = match &args.config {
        None => Settings::default(),
        Some(path) => Settings::load(path)
            .map_err(|error| Coded::wrong_use(error.code(), error.to_string()))?,
    };
    if let Some(cores) = &args.cores {
        settings.workers = cores.list().iter().copied().map(Some).collect();
    }
    settings.fault = args.fault.or(settings.fault);
    let mut given: Vec<&PortSpec> = Vec::new();
    for port in args.dhcp.iter().chain(&args.slaac) {
        if !given.contains(&port) {
            given.push(port);
        }
    }
    settings.ports.extend(given.into_iter().map(|port| PortSetting {
        port: Some(port.clone()),
        dhcp: args.dhcp.contains(port),
        slaac: args.slaac.contains(port),
        ..PortSetting::default()
    }));
    settings.log_file = args.log.clone().or(settings.log_file);
    Ok(settings)
}

/// Sockets that the service manager gave, which are where this host listens.
fn in_their_places(
    given: GivenSockets,
    settings: &Settings,
    socket: &Path,
) -> Result<GivenSockets, ActivationError> {
    let GivenSockets { programs, commands } = given;
    let path = control_path(settings, socket);
    Ok(GivenSockets {
        programs: programs.map(|given| given.at("programs", socket)).transpose()?,
        commands: commands.map(|given| given.at("commands", &path)).transpose()?,
    })
}

fn control_path(settings: &Settings, socket: &Path) -> PathBuf {
    settings.control.clone().unwrap_or_else(|| socket_beside(socket))
}

fn serve(
    args: &Args,
    settings: &Settings,
    socket: &Path,
    given: GivenSockets,
    log: &Log,
) -> anyhow::Result<()> {
    let signals = Signals::take_with_reload()?;
    let mut secret = [0; 32];
    let mut random =
        std::fs::File::open("/dev/urandom").context("cannot open the system's random source")?;
    io::Read::read_exact(&mut random, &mut secret)
        .context("cannot read the system's random source")?;
    let mut setup = settings.setup(socket.to_owned(), secret);
    // The scripts make the namespaces that programs want to enter.
    setup.open = false;
    setup.given = given.programs.map(Arc::new);
    let host = Host::start(setup)?;
    // Workers without a core of their own would inherit this one, so it comes after they were
    // started.
    if let Some(core) = settings.main_core {
        cores::pin(core)?;
    }
    let (handle, over) = (host.handle(), Notifier::new()?);
    let commands = Mutex::new(given.commands);
    let butler = Butler { args, settings, socket, commands, signals: &signals, over: &over, log };
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let served = butler.serve(&handle);
            handle.stop();
            served
        });
        let kept = host.run();
        over.notify();
        let served = serving.join().unwrap_or_else(|_| {
            Err(anyhow!("the control plane panicked; this is a bug of clearway"))
        });
        kept?;
        served
    })
}

/// Serves while the main thread keeps host: settings and scripts first, then commands, until a
/// signal comes or the host ends by itself.
struct Butler<'a> {
    args: &'a Args,
    settings: &'a Settings,
    socket: &'a Path,
    /// The socket for commands, if the service manager gave one.
    commands: Mutex<Option<Given>>,
    signals: &'a Signals,
    over: &'a Notifier,
    log: &'a Log,
}

impl Butler<'_> {
    fn serve(&self, host: &HostHandle) -> anyhow::Result<()> {
        let mut options = self.settings.control(crate::cli::version_text());
        options.force = self.args.force;
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        options.started = since_1970.map_or(0, |time| time.as_secs());
        let control = Arc::new(Control::new(host.clone(), options));
        let leases = control.keep_leases().context("cannot start a thread")?;
        let ports = control.watch_ports().context("cannot start a thread")?;
        let scripts: Vec<PathBuf> =
            self.settings.script.iter().chain(&self.args.scripts).cloned().collect();
        control.begin(self.settings, &scripts)?;
        if let Some(path) = &self.args.pcap {
            let everything = PcapTrace {
                rx: true,
                tx: true,
                drop: true,
                file: Some(path.clone()),
                ..PcapTrace::default()
            };
            control.run(&Command::PcapTrace(everything))?;
        }
        let path = control_path(self.settings, self.socket);
        let given = self.commands.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (group, plane) = (self.settings.command_group, Arc::clone(&control));
        let commands = match given {
            Some(given) => ControlSocket::take_over(given, group, plane),
            None => ControlSocket::open(&path, group, plane),
        };
        let commands = commands
            .with_context(|| format!("cannot make the control socket {}", path.display()))?;
        let mut metrics = Some(Metrics::begin(self.settings, &control, host)?);
        host.open_attach_sockets()?;
        let status = self.tell_ready(commands.path(), host.workers())?;
        let mut manager = ServiceManager::of_environment();
        manager.ready(&status);
        let ready = status.clone();
        control.set_on_drain(Box::new(move |draining| {
            ServiceManager::status(if draining { DRAINING } else { &ready });
        }));
        tracing::info!(version = crate::cli::version_text(), socket = %self.socket.display(),
            "the host is ready");
        let asked = Asked::default();
        control.set_on_reload(asked.hook());
        let mut current = Cow::Borrowed(self.settings);
        loop {
            match self.signals.wait(self.over, manager.wait_limit(Duration::from_secs(3600)))? {
                Woken::Timeout => {}
                Woken::Reload => {
                    manager.reloading();
                    let who = asked.take();
                    let done = self.reload(&control, host, &mut current, &mut metrics);
                    Asked::answer(who, &done);
                    manager.ready(if control.is_draining() { DRAINING } else { &status });
                }
                Woken::Signal | Woken::Notifier => break,
            }
            manager.tell_alive(host);
        }
        manager.stopping();
        tracing::info!("the host stops");
        drop((metrics, commands, leases, ports));
        // A capture that goes on is made whole.
        let _ = control.run(&Command::PcapOff);
        Ok(())
    }

    /// Opens the log anew and reads the settings again. Whatever is wrong with them is logged, and
    /// the host goes on as it is.
    fn reload(
        &self,
        control: &Arc<Control>,
        host: &HostHandle,
        current: &mut Cow<'_, Settings>,
        metrics: &mut Option<Metrics>,
    ) -> anyhow::Result<String> {
        // By its old levels, which count until all of the new settings are taken over.
        if let Err(error) = self.log.reopen(&current.log) {
            tracing::error!(error = format!("{error:#}"), "the log stays in the file that is open");
        }
        let done = match self.args.config {
            Some(_) => self.take_over(control, host, current, metrics),
            None => Ok("there is no file of settings".into()),
        };
        match &done {
            Ok(said) => tracing::info!("settings read again: {said}"),
            Err(error) => {
                tracing::error!(error = format!("{error:#}"), "settings read again and not taken")
            }
        }
        done
    }

    /// All that the settings say otherwise, or nothing. What may fail comes first, and what cannot
    /// be taken back last.
    fn take_over(
        &self,
        control: &Arc<Control>,
        host: &HostHandle,
        current: &mut Cow<'_, Settings>,
        metrics: &mut Option<Metrics>,
    ) -> anyhow::Result<String> {
        let new = settings(self.args)?;
        current.may_become(&new)?;
        let begin = |settings: &Settings| Metrics::begin(settings, control, host);
        let mut also = Vec::new();
        if new.metrics == current.metrics {
            also.push(control.reload(current, &new)?);
        } else {
            // Of one address there can be one listener; another is made before the old one goes.
            let is_same_place = new.metrics.listen == current.metrics.listen;
            let old = metrics.take().filter(|_| !is_same_place);
            let done = begin(&new).and_then(|made| Ok((made, control.reload(current, &new)?)));
            match done {
                Ok((made, said)) => {
                    *metrics = Some(made);
                    also.extend([said, format!("metrics {}", told(&new.metrics))]);
                }
                Err(error) => {
                    *metrics = match old {
                        Some(old) => Some(old),
                        None => begin(current).ok(),
                    };
                    return Err(error);
                }
            }
        }
        if new.log != current.log {
            // The file was opened a moment ago.
            let _ = self.log.reopen(&new.log);
            also.push("levels of the log".into());
        }
        let nothing = "nothing to take over";
        if also.len() > 1 {
            also.retain(|said| said != nothing);
        }
        *current = Cow::Owned(new);
        Ok(also.join("; "))
    }

    /// Says so on standard output; returns what the service manager is to be told.
    fn tell_ready(&self, control: &Path, workers: usize) -> anyhow::Result<String> {
        let workers =
            if workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") };
        let (socket, control) = (self.socket.display(), control.display());
        let status = format!("{workers}, programs at {socket}, commands at {control}");
        let mut out = out::stdout();
        writeln!(out, "{READY}: {status}")?;
        out.flush()?;
        Ok(status)
    }
}

/// Where metrics go, in words.
fn told(metrics: &MetricsSettings) -> String {
    let listen = metrics.listen.as_ref().map(|address| format!("at {address}"));
    let file = metrics.file.as_ref().map(|path| format!("in {}", path.display()));
    let all: Vec<String> = listen.into_iter().chain(file).collect();
    if all.is_empty() { "nowhere".into() } else { all.join(" and ") }
}

/// What became of a reload.
type Reloaded = Result<String, (Code, String)>;

/// Who gave the command `reload` and waits for what becomes of it.
#[derive(Default)]
struct Asked(Arc<Mutex<Vec<mpsc::Sender<Reloaded>>>>);

impl Asked {
    /// What the command does: the signal says to the thread that reloads that somebody waits.
    fn hook(&self) -> OnReload {
        let all = Arc::clone(&self.0);
        Box::new(move || {
            let failed = |why: String| (Code::HostSilent, why);
            let (tell, told) = mpsc::channel();
            all.lock().unwrap_or_else(PoisonError::into_inner).push(tell);
            kill(Pid::this(), Signal::SIGHUP).map_err(|errno| failed(errno.to_string()))?;
            told.recv_timeout(RELOADED_WITHIN)
                .unwrap_or_else(|error| Err(failed(format!("the settings are not read: {error}"))))
        })
    }

    fn take(&self) -> Vec<mpsc::Sender<Reloaded>> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn answer(who: Vec<mpsc::Sender<Reloaded>>, done: &anyhow::Result<String>) {
        for tell in who {
            let told = match done {
                Ok(said) => Ok(said.clone()),
                Err(error) => Err((error::code(error), format!("{error:#}"))),
            };
            // Who waited too long has gone.
            let _ = tell.send(told);
        }
    }
}

/// Where the log of a host in the background goes that was told nothing: for the host of this user's
/// runtime folder the folder for logs, for any other beside its socket, so that each has its own.
fn log_in_background(socket: &Path) -> PathBuf {
    let is_usual = socket == paths::default_attach_socket();
    let folder = match nix::unistd::geteuid().is_root() {
        true => Some(PathBuf::from(SYSTEM_LOGS)),
        false => folders::state().map(|state| state.join("clearway")),
    };
    let folder = folder.filter(|_| is_usual);
    folder.map_or_else(|| socket.with_extension("log"), |folder| folder.join("host.log"))
}

/// Starts this program again without `--daemon`, and leaves it when it answers.
fn in_background(control: &Path, log: &Path) -> anyhow::Result<()> {
    use std::os::unix::process::CommandExt as _;
    if let Some(folder) = log.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    let file = crate::log::open(log)?;
    // What earlier hosts said stays in it.
    let before = file.metadata().map_or(0, |meta| meta.len());
    let said = || -> anyhow::Result<String> {
        let mut text = Vec::new();
        let mut file = std::fs::File::open(log)?;
        file.seek(SeekFrom::Start(before))?;
        file.read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    };
    // The line with which it says that it is ready, and what went wrong before, stand beside the
    // log's own lines.
    let arguments = std::env::args_os().skip(1).filter(|argument| argument != "--daemon");
    let mut child = std::process::Command::new(std::env::current_exe()?)
        .args(arguments)
        .args(["--log".as_ref(), log.as_os_str()])
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        // Signals of this terminal are not for it.
        .process_group(0)
        .spawn()
        .context("cannot start again in the background")?;
    let begun = Instant::now();
    while begun.elapsed() < READY_WITHIN {
        if let Some(status) = child.try_wait()? {
            let said = said().unwrap_or_default();
            // Behind the log's own lines it says what it would say on a terminal.
            let last = said.rsplit_once("\nclearway: ").map_or(said.as_str(), |(_, last)| last);
            let last = last.trim().trim_start_matches("clearway: ");
            return Err(Coded::heard(&format!("the host ended ({status}): "), last).into());
        }
        // It answers a moment before it says so, and what it says is to be passed on.
        let said = said()?;
        let ready =
            said.split_inclusive('\n').find(|line| line.starts_with(READY) && line.ends_with('\n'));
        if let Some(ready) =
            ready.filter(|_| std::os::unix::net::UnixStream::connect(control).is_ok())
        {
            writeln!(out::stdout(), "{}", ready.trim())?;
            writeln!(
                out::stdout(),
                "process {}; what it says goes to {}",
                child.id(),
                log.display()
            )?;
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill()?;
    bail!("the host was not ready within {} seconds; see {}", READY_WITHIN.as_secs(), log.display())
}
