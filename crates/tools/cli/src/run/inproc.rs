//! `clearway run --inproc`: what the library in the program is told, and what can be found wrong
//! before the program is started.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clearway_dev::PortSpec;
use clearway_ports::{PortError, Wrap};
use clearway_shm::in_process::{LIBRARY_VARIABLE, SETTINGS_VARIABLE};
use clearway_shm::paths;
use clearway_wire::Addr;

use super::{Args, checked};
use crate::error::WrongUse;

/// The library with the stack, beside the one that is loaded into every program.
pub(crate) const LIBRARY: &str = "libclearway_inproc.so";

/// The name of one of DPDK's libraries, which stands in whatever is linked with them.
const OF_DPDK: &[u8] = b"librte_eal.so";

/// Says how a host is entered: not by a program that has its stack inside.
const OF_A_HOST: [&str; 6] = [
    paths::SOCKET_VARIABLE,
    "CLEARWAY_NS",
    "CLEARWAY_SECRET",
    "CLEARWAY_CONFIG",
    "VCL_CONFIG",
    "CLEARWAY_CUT_THROUGH",
];

/// Checks the options and the ports, and tells the program.
pub(super) fn prepare(args: &Args, preload: &Path, command: &mut Command) -> anyhow::Result<()> {
    check(args)?;
    let library = beside(preload)?;
    try_ports(&args.ports)?;
    command.env(SETTINGS_VARIABLE, settings(args));
    command.env(LIBRARY_VARIABLE, library);
    for name in OF_A_HOST {
        command.env_remove(name);
    }
    Ok(())
}

fn check(args: &Args) -> Result<(), WrongUse> {
    for port in &args.ports {
        if !matches!(port, PortSpec::Tap(_) | PortSpec::Loop) {
            let sentence = format!(
                "--port {port}: with --inproc a port is tap:NAME, tun:NAME or loop; the others \
                 belong to a host (clearway up)."
            );
            return Err(WrongUse(sentence));
        }
    }
    for address in &args.addresses {
        if usize::from(address.port) >= args.ports.len() {
            let (port, count) = (address.port, args.ports.len());
            return Err(WrongUse(format!(
                "{address}@{port}: there is no port {port}, only {count}."
            )));
        }
    }
    for gateway in &args.gateways {
        if !gateway.is_link_local() && port_of(args, *gateway).is_none() {
            let sentence = format!(
                "gateway {gateway}: a router is another host on a link of ours. Give an address in \
                 one of the networks of -a."
            );
            return Err(WrongUse(sentence));
        }
    }
    Ok(())
}

/// The port in one of whose networks the address lies.
fn port_of(args: &Args, addr: Addr) -> Option<u16> {
    args.addresses.iter().find(|one| one.cidr.contains(&addr)).map(|one| one.port)
}

fn beside(preload: &Path) -> Result<PathBuf, WrongUse> {
    let library = preload.with_file_name(LIBRARY);
    let build = "Build it by itself: cargo build --release -p clearway-preload -p clearway-inproc";
    let library = checked(&library).map_err(|_| {
        WrongUse(format!("{} is not there, beside {}. {build}", library.display(), super::LIBRARY))
    })?;
    let bytes = std::fs::read(&library)
        .map_err(|error| WrongUse(format!("{}: {error}", library.display())))?;
    // Built together with the command, it has the command's ports.
    if bytes.windows(OF_DPDK.len()).any(|part| part == OF_DPDK) {
        return Err(WrongUse(format!("{} was linked with DPDK. {build}", library.display())));
    }
    Ok(library)
}

/// Opens the ports and lets go of them again: what is wrong with them is told here, and not from
/// inside of the program.
fn try_ports(ports: &[PortSpec]) -> anyhow::Result<()> {
    clearway_ports::try_open(ports, &Wrap::default()).map_err(|error| match error {
        PortError::Misuse(sentence) => WrongUse(sentence).into(),
        other => other.into(),
    })
}

/// The ports in the language of the host's settings.
fn settings(args: &Args) -> String {
    let mut text = String::new();
    for (number, port) in args.ports.iter().enumerate() {
        let is_here = |at: u16| usize::from(at) == number;
        let addresses =
            args.addresses.iter().filter(|one| is_here(one.port)).map(|one| quoted(&one.cidr));
        let behind = |gateway: &&Addr| is_here(port_of(args, **gateway).unwrap_or(0));
        let gateways = args.gateways.iter().filter(behind).map(quoted);
        let (addresses, gateways): (Vec<_>, Vec<_>) = (addresses.collect(), gateways.collect());
        // Writing to a string does not fail.
        let _ = writeln!(text, "[[ports]]\nport = {}", quoted(port));
        let _ = writeln!(
            text,
            "addresses = [{}]\ngateways = [{}]",
            addresses.join(", "),
            gateways.join(", ")
        );
    }
    text
}

/// A text of JSON is one of TOML too.
fn quoted(what: &impl ToString) -> String {
    serde_json::Value::String(what.to_string()).to_string()
}
