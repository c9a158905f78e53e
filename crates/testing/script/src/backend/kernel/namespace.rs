//! A network namespace for one thread, and the knobs in it.

use std::fs;
use std::os::fd::OwnedFd;
use std::process::Command;

use nix::sched::{CloneFlags, unshare};

use crate::backend::Net;
use crate::settings::{knobs, only_knobs};

/// Knobs with the values that scripts may rely on. Everything that RFCs do not ask for and that is
/// newer than them is off, so that the kernel shows the behaviour that both stacks have in common.
const KNOBS: [(&str, &str); 28] = [
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
    ("net.ipv4.tcp_congestion_control", "cubic"),
    ("net.ipv4.tcp_syn_linear_timeouts", "0"),
    ("net.ipv4.tcp_ecn", "0"),
    ("net.ipv4.tcp_early_retrans", "0"),
    ("net.ipv4.tcp_no_metrics_save", "1"),
    ("net.ipv4.tcp_invalid_ratelimit", "0"),
    ("net.ipv4.tcp_challenge_ack_limit", "2147483647"),
    ("net.ipv4.tcp_autocorking", "0"),
    ("net.ipv4.tcp_timestamps", "1"),
    ("net.ipv4.tcp_sack", "1"),
    ("net.ipv4.tcp_dsack", "1"),
    ("net.ipv4.tcp_window_scaling", "1"),
    ("net.ipv4.tcp_fastopen", "0"),
    ("net.ipv4.tcp_frto", "0"),
    ("net.ipv4.tcp_mtu_probing", "0"),
    ("net.ipv4.tcp_slow_start_after_idle", "1"),
    ("net.ipv4.tcp_moderate_rcvbuf", "0"),
    ("net.ipv4.tcp_rmem", "4096 131072 4194304"),
    ("net.ipv4.tcp_wmem", "4096 262144 4194304"),
    ("net.ipv4.icmp_ratelimit", "0"),
    ("net.ipv6.icmp.ratelimit", "0"),
    ("net.ipv6.conf.all.accept_ra", "0"),
    ("net.ipv6.conf.default.accept_dad", "0"),
    ("net.ipv6.conf.default.autoconf", "0"),
    ("net.ipv6.conf.default.addr_gen_mode", "1"),
    ("net.ipv6.conf.default.router_solicitations", "0"),
];

/// Whether this process may make namespaces and TUN devices; Err says what is missing.
pub fn may_run() -> Result<(), String> {
    if !fs::exists("/dev/net/tun").unwrap_or(false) {
        return Err("/dev/net/tun is not there: load the driver with `modprobe tun`".into());
    }
    if Command::new("ip").arg("-V").output().is_err() {
        return Err("`ip` is not there: install the package iproute2".into());
    }
    // The namespace belongs to a thread that ends at once.
    match std::thread::spawn(|| unshare(CloneFlags::CLONE_NEWNET)).join() {
        Ok(Ok(())) => Ok(()),
        _ => Err("a network namespace cannot be made: run as root".into()),
    }
}

/// Moves this thread into a new network namespace.
pub(super) fn enter() -> Result<(), String> {
    unshare(CloneFlags::CLONE_NEWNET)
        .map_err(|error| format!("a network namespace cannot be made: {error}"))?;
    // Scripts are about time, so they go before the rest of a busy machine where that is allowed.
    // Linux takes this for one thread.
    let _ = rustix::process::setpriority_process(None, -15);
    for (name, value) in KNOBS {
        // A kernel may be older or newer than a knob.
        let _ = set(name, value);
    }
    Ok(())
}

/// A system may restrict which congestion control a namespace has by default, and then [`enter`]
/// could not set it; a socket of root may have any. Scripts run with CUBIC unless they say
/// otherwise, as on the core.
pub(super) fn choose_congestion(socket: &OwnedFd) {
    const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
    let is_ours = |name: &str| ["cubic", "reno"].contains(&name.trim());
    if fs::read_to_string(DEFAULT).is_ok_and(|name| !is_ours(&name)) {
        let _ = rustix::net::sockopt::set_tcp_congestion(socket, "cubic");
    }
}

/// Gives the device its addresses and a route to the peer, and brings it up.
pub(super) fn settle(device: &str, net: &Net) -> Result<(), String> {
    let mtu = net.mtu.to_string();
    ip(&["link", "set", "lo", "up"])?;
    ip(&["link", "set", device, "mtu", &mtu, "up"])?;
    if net.v6() {
        ip(&["-6", "addr", "add", &format!("{}/64", net.local), "dev", device, "nodad"])?;
        ip(&["-6", "route", "add", "default", "dev", device])
    } else {
        ip(&["addr", "add", &format!("{}/24", net.local), "dev", device])?;
        ip(&["route", "add", "default", "dev", device])
    }
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    run(Command::new("ip").args(arguments), &format!("ip {}", arguments.join(" ")))
}

fn run(command: &mut Command, name: &str) -> Result<(), String> {
    let output =
        command.output().map_err(|error| format!("`{name}` cannot be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("`{name}` failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// Files below `/proc/sys/net` belong to the namespace of the thread that opens them.
fn set(name: &str, value: &str) -> Result<(), String> {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    fs::write(&path, value).map_err(|error| format!("{name} cannot be set to {value}: {error}"))
}

/// Runs a script's command in this thread's namespace. What only sets knobs needs no shell.
pub(super) fn command(command: &str) -> Result<(), String> {
    if only_knobs(command) {
        return knobs(command).iter().try_for_each(|(name, value)| set(name, value));
    }
    run(Command::new("sh").args(["-c", command]), command)
}
