//! `clearway run`: an unmodified program over the host.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clearway_dev::PortSpec;
use clearway_errors::Code;
use clearway_shm::paths;
use clearway_wire::Addr;

use crate::error::{Coded, WrongUse};
use crate::net::Address;

mod fit;
pub(crate) mod inproc;
mod told;
pub(crate) mod trap;

/// Run an unmodified program over the host stack, where its namespace reaches.
///
/// Everything else (other addresses, Unix sockets, name resolution) stays with the kernel;
/// `clearway explain` says what did, and why.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  clearway run -- curl http://172.16.3.2/
  clearway run --ns server --secret 1234 -- iperf3 -s
  clearway run --config server.conf -- nginx
  clearway run --inproc --port tap:cw0 -a 10.0.0.2/24 -- redis-server
  clearway run --trap -- ./a-server-written-in-go

A program into which the library cannot be put (statically linked, written in Go, with another C \
library, set-uid, for another
machine) is started with a warning, and with --required it is not started. --trap takes over all but \
the last two.")]
pub(crate) struct Args {
    /// The host's socket [default: $CLEARWAY_SOCKET, or host.sock in the runtime folder]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// The application namespace to enter [default: the default one]
    #[arg(long, value_name = "ID")]
    ns: Option<String>,

    /// Its secret. Others may see a command line: --secret-file and $CLEARWAY_SECRET are better
    #[arg(long, value_name = "SECRET", conflicts_with = "secret_file")]
    secret: Option<String>,

    /// A file whose first line is the secret
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,

    /// A file with `vcl { … }` that says all this and more
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Fail rather than leave a socket to the kernel because the host is not there, or because the
    /// library cannot be put into the program
    #[arg(long)]
    required: bool,

    /// Let connections to programs of the same host that want it too go round the stack
    #[arg(long)]
    cut_through: bool,

    /// Tell the program of the sockets of its namespace where it reads /proc/net/tcp, tcp6, udp or
    /// udp6
    #[arg(long, conflicts_with = "inproc")]
    proc_net: bool,

    /// Microseconds that a thread looks before it sleeps
    #[arg(long, value_name = "US")]
    spin: Option<u32>,

    /// Put the stack into the program's own process: no host, no other core. One process has it;
    /// say --port and -a with it
    #[arg(long, requires = "ports", requires = "addresses", conflicts_with_all = ["socket", "ns",
        "secret", "secret_file", "config", "cut_through"])]
    inproc: bool,

    /// With --inproc: a port of the stack: tap:NAME, tun:NAME or loop; may be repeated
    #[arg(long = "port", value_name = "PORT", requires = "inproc")]
    ports: Vec<PortSpec>,

    /// With --inproc: an address of the stack with its prefix length, IPv4 or IPv6; may be
    /// repeated. @N puts it on the port of that number, counted from 0
    #[arg(short, long = "address", value_name = "ADDR/LEN[@N]", requires = "inproc")]
    addresses: Vec<Address>,

    /// With --inproc: the router for everything that is not on a link; one for IPv4 and one for
    /// IPv6
    #[arg(short, long = "gateway", value_name = "ADDR", requires = "inproc")]
    gateways: Vec<Addr>,

    /// Take over the system calls of programs into which the library cannot be put, such as those
    /// in Go: at the cost of a signal each. It is so for what the program executes, too
    #[arg(long, conflicts_with = "inproc")]
    trap: bool,

    /// The library to load into the program [default: found beside this program]
    #[arg(long, value_name = "FILE")]
    preload: Option<PathBuf>,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// The library's file.
pub(crate) const LIBRARY: &str = "libclearway_preload.so";

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let library = match &args.preload {
        Some(path) => checked(path)?,
        None => find_library()?,
    };
    let unfit = fit::unfit(&args.command[0], &library);
    let required =
        args.required || std::env::var_os("CLEARWAY_REQUIRED").is_some_and(|value| value == "1");
    let trap = if args.trap { Some(trap::plan(&args.command[0], unfit.as_ref())?) } else { None };
    let unfit = unfit.filter(|_| trap.is_none());
    if let Some(unfit) = unfit.as_ref().filter(|unfit| required && !unfit.in_part) {
        let sentence = format!(
            "{} {}; with --required it is not started{}",
            unfit.path.display(),
            unfit.why,
            trap::advice(unfit)
        );
        return Err(Coded::wrong_use(Code::Unfit, sentence).into());
    }
    let mut command = match &trap {
        Some(trap) => trap.command(&args.command[0]),
        None => trap::none(&args.command[0]),
    };
    command.args(&args.command[1..]);
    command.env("LD_PRELOAD", preload_list(&library, std::env::var_os("LD_PRELOAD")));
    // By it an environment that a program emptied is told from one that lacks the library on purpose.
    command.env("CLEARWAY_RUN", "1");
    if let Some(path) = &args.socket {
        command.env(paths::SOCKET_VARIABLE, std::path::absolute(path)?);
    }
    if let Some(ns) = &args.ns {
        command.env("CLEARWAY_NS", ns);
    }
    if let Some(secret) = secret(&args)? {
        command.env("CLEARWAY_SECRET", secret);
    }
    if let Some(path) = &args.config {
        let path = std::path::absolute(path)?;
        std::fs::File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
        command.env("CLEARWAY_CONFIG", path);
    }
    if args.required {
        command.env("CLEARWAY_REQUIRED", "1");
    }
    if args.cut_through {
        command.env("CLEARWAY_CUT_THROUGH", "1");
    }
    if args.proc_net {
        command.env("CLEARWAY_PROC_NET", "1");
    }
    if args.inproc {
        inproc::prepare(&args, &library, &mut command)?;
    } else {
        // This command may itself have been started from a program that has its stack inside.
        command.env_remove(clearway_shm::in_process::SETTINGS_VARIABLE);
    }
    if let Some(spin) = args.spin {
        command.env("CLEARWAY_SPIN_US", spin.to_string());
    }
    if let Some(unfit) = &unfit {
        eprintln!(
            "clearway: {} {}: {}{}",
            unfit.path.display(),
            unfit.why,
            if unfit.in_part { "it may wait for ever" } else { "its sockets stay with the kernel" },
            trap::advice(unfit)
        );
        if !args.inproc && !unfit.in_part {
            told::tell(&args, &command, unfit);
        }
    }
    // Only comes back when the program could not be started.
    let error = command.exec();
    let sentence = format!("cannot run {}", Path::new(&args.command[0]).display());
    Err(error).with_context(|| Coded::new(Code::CannotRun, sentence))
}

fn secret(args: &Args) -> anyhow::Result<Option<String>> {
    let Some(path) = &args.secret_file else { return Ok(args.secret.clone()) };
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(Some(line.to_owned())),
        _ => Err(WrongUse(format!("{} has no first line", path.display())).into()),
    }
}

/// Ours first, then what was there.
fn preload_list(library: &Path, before: Option<OsString>) -> OsString {
    let mut list = library.as_os_str().to_owned();
    if let Some(before) = before.filter(|list| !list.is_empty()) {
        list.push(":");
        list.push(before);
    }
    list
}

fn checked(path: &Path) -> anyhow::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    loadable(&path)?;
    if !path.is_file() {
        let sentence = format!("{} is not there", path.display());
        return Err(Coded::wrong_use(Code::NoLibrary, sentence).into());
    }
    Ok(path)
}

/// The loader takes spaces and colons for the end of a name.
pub(crate) fn loadable(path: &Path) -> Result<(), Coded> {
    if path.as_os_str().as_encoded_bytes().iter().any(|byte| matches!(byte, b' ' | b':')) {
        let sentence = format!(
            "{}: the loader takes no path with spaces or colons. Put the library elsewhere",
            path.display()
        );
        return Err(Coded::wrong_use(Code::NoLibrary, sentence));
    }
    Ok(())
}

/// Beside this program, in the folder for libraries next to its own, or where cargo leaves what
/// tests need.
pub(crate) fn find_library() -> anyhow::Result<PathBuf> {
    find_part(LIBRARY, ", or name it with --preload").and_then(|path| checked(&path))
}

/// A file that is installed with this program.
pub(crate) fn find_part(name: &str, else_what: &str) -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("cannot find out where this program is")?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places = places(folder, name);
    if let Some(place) = places.iter().find(|place| place.is_file()) {
        return Ok(std::path::absolute(place)?);
    }
    let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    let sentence = format!(
        "{name} is not there. Build it with `cargo build --release`{else_what}. Looked at {}",
        places.join(", ")
    );
    Err(Coded::wrong_use(Code::NoLibrary, sentence).into())
}

fn places(folder: &Path, name: &str) -> Vec<PathBuf> {
    let mut places = vec![folder.join(name), folder.join("deps").join(name)];
    if let Some(parent) = folder.parent() {
        let architecture = format!("{}-linux-gnu", std::env::consts::ARCH);
        let below = [OsStr::new("lib"), OsStr::new("lib/clearway"), OsStr::new("lib64")];
        places.extend(below.iter().map(|place| parent.join(place).join(name)));
        places.push(parent.join("lib").join(architecture).join(name));
        places.push(parent.join(name));
    }
    places
}

#[cfg(test)]
mod tests;
