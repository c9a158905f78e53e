//! Starting DPDK, once per process.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, PoisonError};

use clearway_dev::DevError;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

use crate::{explain, sys};

/// How DPDK was started, if it was.
static STARTED: Mutex<Option<Started>> = Mutex::new(None);

#[derive(Clone, Copy)]
struct Started {
    pci: bool,
    huge: bool,
}

/// Huge pages that have to be free to be worth it: a few ports with their buffers fit.
const HUGE_AT_LEAST: u64 = 64 << 20;

/// Memory that DPDK may take without huge pages, in MiB. Pages that were never used cost nothing.
const PLAIN_MIB: usize = 512;

/// What DPDK calls the files of this process, with the process's number behind it.
const PREFIX: &str = "clearway-";

/// Set to `off`, huge pages are not used though there are some.
const HUGE_VARIABLE: &str = "CLEARWAY_DPDK_HUGE";

/// DPDK's version, such as `DPDK 22.11.11`.
pub fn version() -> String {
    sys::version()
}

/// Whether DPDK's memory is in huge pages, how many bytes it has, and how many of them are free;
/// None when it does not run.
pub fn memory() -> Option<(bool, u64, u64)> {
    let huge = uses_huge_pages()?;
    let (bytes, free) = sys::memory();
    Some((huge, bytes, free))
}

/// Whether DPDK's memory is in huge pages; None when it was not started.
pub(crate) fn uses_huge_pages() -> Option<bool> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner).map(|started| started.huge)
}

/// Sees to it that DPDK runs. `pci` says that the port is a PCI device, which DPDK has to be told
/// at its start.
pub(crate) fn ensure(port: &str, pci: bool) -> Result<(), DevError> {
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(started) = *started {
        if pci && !started.pci {
            let what = "DPDK runs already in this program, and was started without PCI devices";
            return Err(DevError::new(
                port,
                what,
                "Name the PCI device before the other dpdk ports",
            ));
        }
        return Ok(());
    }
    sweep();
    let huge = wants_huge_pages();
    let result = sys::start(&arguments(pci, huge));
    leave_nothing();
    result.map_err(|error| {
        let said = explain::said();
        let what = format!("DPDK does not start{said}");
        DevError::new(port, what, explain::start_remedy(huge)).with_source(error)
    })?;
    // What the drivers say while they are loaded is of no use later.
    let _ = sys::take_log();
    if !huge {
        eprintln!(
            "clearway: no huge pages are free, so DPDK works without them. To give it 256 MiB, as \
             root: sysctl vm.nr_hugepages=128"
        );
    }
    *started = Some(Started { pci, huge });
    Ok(())
}

fn arguments(pci: bool, huge: bool) -> Vec<CString> {
    let mut words = vec!["clearway".to_owned()];
    let mut add = |list: &[&str]| words.extend(list.iter().map(|word| (*word).to_owned()));
    add(&["--no-telemetry", "--file-prefix", &format!("{PREFIX}{}", process::id())]);
    // Nothing of DPDK's memory gets a name in the file system, so nothing can be left behind, even
    // by kill -9.
    if huge {
        // vhost and virtio-user hand each piece of memory to the peer as a file descriptor, and
        // have room for eight.
        add(&["--in-memory", "--single-file-segments"]);
    } else {
        add(&["--no-shconf", "--no-huge", "-m", &PLAIN_MIB.to_string()]);
    }
    if pci {
        // A list of devices that are wanted, in which there is none: each is probed when it is
        // asked for.
        add(&["--allow", "ffff:ff:1f.7"]);
    } else {
        add(&["--no-pci", "--iova-mode", "va"]);
    }
    // One thread of DPDK's counting, which may run wherever this one may: cores are chosen by who
    // calls.
    add(&["--lcores", &format!("0@({})", allowed_cores())]);
    words.into_iter().filter_map(|word| CString::new(word).ok()).collect()
}

fn allowed_cores() -> String {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    let list: Vec<String> = (0..CpuSet::count())
        .filter(|core| set.is_set(*core).unwrap_or(false))
        .map(|core| core.to_string())
        .collect();
    if list.is_empty() { "0".into() } else { list.join(",") }
}

fn wants_huge_pages() -> bool {
    if std::env::var(HUGE_VARIABLE).is_ok_and(|value| value == "off") {
        return false;
    }
    let Ok(sizes) = fs::read_dir("/sys/kernel/mm/hugepages") else { return false };
    let free: u64 = sizes.flatten().filter_map(|size| free_bytes(&size.path())).sum();
    free >= HUGE_AT_LEAST
}

/// Free bytes in `hugepages-2048kB` and its like.
fn free_bytes(size: &Path) -> Option<u64> {
    let kib: u64 =
        size.file_name()?.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
    let free: u64 = fs::read_to_string(size.join("free_hugepages")).ok()?.trim().parse().ok()?;
    Some(free * (kib << 10))
}

/// Where DPDK makes a folder for each prefix.
fn runtime() -> PathBuf {
    let base = match std::env::var_os("RUNTIME_DIRECTORY") {
        Some(folder) => PathBuf::from(folder),
        None if is_root() => PathBuf::from("/var/run"),
        None => {
            std::env::var_os("XDG_RUNTIME_DIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
        }
    };
    base.join("dpdk")
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Removes the folders of processes that are no more.
fn sweep() {
    let Ok(folders) = fs::read_dir(runtime()) else { return };
    for folder in folders.flatten() {
        let name = folder.file_name();
        let pid = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX))
            .and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            let _ = fs::remove_dir_all(folder.path());
        }
    }
}

/// With its memory nameless, DPDK's folder is empty, and nobody looks for it.
fn leave_nothing() {
    let _ = fs::remove_dir_all(runtime().join(format!("{PREFIX}{}", process::id())));
    // Stays when another program uses DPDK.
    let _ = fs::remove_dir(runtime());
}
