//! What this process may do.

use std::io::ErrorKind;

use super::Findings;
use super::files::{Files, Module};

/// The device behind every `tap:` and `tun:` port.
pub(super) fn tun(files: &Files, found: &mut Findings) {
    const TUN: &str = "dev/net/tun";
    match files.open(TUN) {
        Ok(()) => found.ok("tun", "tap: and tun: ports can be made"),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            found.missing(
                "tun",
                "this user may not open /dev/net/tun, so there are no tap: and tun: ports",
                "chmod 0666 /dev/net/tun",
            );
        }
        Err(_) => {
            // A container sees the drivers of its kernel, and often neither its modules nor a file.
            let misc = files.text("proc/misc").unwrap_or_default();
            let is_running = misc.lines().any(|line| line.split_whitespace().nth(1) == Some("tun"));
            let module = if is_running { Module::Loaded } else { files.module("tun") };
            let (why, remedy) = match (module, files.exists(TUN)) {
                (Module::Loadable, _) => ("its module is not loaded", "modprobe tun"),
                (Module::Absent, _) => {
                    ("this kernel has no TUN", "apt-get install linux-image-amd64 && reboot")
                }
                (Module::Loaded, true) => {
                    ("it cannot be opened", "rm /dev/net/tun && mknod /dev/net/tun c 10 200")
                }
                (Module::Loaded, false) => (
                    "the file is not there, as in a container",
                    "mkdir -p /dev/net && mknod /dev/net/tun c 10 200 && chmod 0666 /dev/net/tun",
                ),
            };
            found.missing(
                "tun",
                format!("/dev/net/tun: {why}, so there are no tap: and tun: ports"),
                remedy,
            );
        }
    }
}

// Of linux/capability.h.
const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
const CAP_IPC_LOCK: u32 = 14;

fn capability(files: &Files, number: u32) -> Option<bool> {
    let status = files.text("proc/self/status")?;
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    Some(u64::from_str_radix(set.trim(), 16).ok()? >> number & 1 != 0)
}

/// Whether interfaces may be made and packets taken from them.
pub(super) fn capabilities(files: &Files, found: &mut Findings) {
    match (capability(files, CAP_NET_ADMIN), capability(files, CAP_NET_RAW)) {
        (Some(true), Some(true)) => found.ok("rights", "interfaces may be made and taken"),
        (Some(_), Some(_)) => found.advice(
            "rights",
            "without CAP_NET_ADMIN and CAP_NET_RAW only interfaces that belong to this user can \
             be ports",
            "ip tuntap add dev clearway0 mode tap multi_queue user $SUDO_USER",
        ),
        _ => {}
    }
}

/// Descriptors that a busy host needs: two for each socket of its programs.
const DESCRIPTORS: u64 = 65_536;

/// Memory that DPDK locks without huge pages, with room to spare.
const LOCKED: u64 = 256 << 20;

/// What the system lets one process have.
pub(super) fn limits(files: &Files, found: &mut Findings) {
    let Some(limits) = files.text("proc/self/limits") else { return };
    // The name may hold spaces; the soft limit is the first word behind it.
    let soft = |name: &str| {
        let word =
            limits.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?;
        if word == "unlimited" { Some(u64::MAX) } else { word.parse().ok() }
    };
    match soft("Max open files") {
        Some(files) if files < DESCRIPTORS => found.advice(
            "nofile",
            format!("{files} open files at most; a host with many programs wants {DESCRIPTORS}"),
            format!(
                "ulimit -n {DESCRIPTORS}    # for good: echo '* - nofile {DESCRIPTORS}' > \
                /etc/security/limits.d/80-clearway.conf"
            ),
        ),
        Some(_) => found.ok("nofile", "enough files may be open"),
        None => {}
    }
    match soft("Max locked memory") {
        Some(bytes) if bytes < LOCKED && capability(files,
            CAP_IPC_LOCK) != Some(true) => found.advice(
            "memlock",
            format!(
                "{} MiB of memory may be locked; DPDK without root and without huge pages wants {}",
                bytes >> 20,
                LOCKED >> 20
            ),
            "ulimit -l unlimited    # for good: echo '* - memlock unlimited' > \
             /etc/security/limits.d/81-clearway.conf",
        ),
        Some(_) => found.ok("memlock", "enough memory may be locked"),
        None => {}
    }
}
