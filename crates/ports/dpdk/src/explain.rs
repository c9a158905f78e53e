//! What is wrong with a device, in words, and what mends it.

use std::io;
use std::path::Path;

use clearway_dev::{DevError, DpdkSpec};

use crate::{eal, sys};

/// The last words of DPDK, for the end of a sentence.
pub(crate) fn said() -> String {
    let log = sys::take_log();
    let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return String::new();
    }
    format!("; it says: {}", lines[lines.len().saturating_sub(3)..].join("; "))
}

pub(crate) fn start_remedy(huge: bool) -> String {
    if huge {
        "Run as root, or without huge pages: CLEARWAY_DPDK_HUGE=off".into()
    } else {
        "Look whether DPDK itself works here with: dpdk-testpmd --no-pci --no-huge -m 256 --vdev \
         net_null0 -- -i"
            .into()
    }
}

/// What can be seen to be wrong before DPDK is asked.
pub(crate) fn check(spec: &DpdkSpec) -> Result<(), DevError> {
    if spec.is_pci() {
        return check_pci(spec);
    }
    let port = spec.to_string();
    let kernel_interface =
        ["net_af_packet", "net_af_xdp"].iter().any(|driver| spec.device.starts_with(driver));
    if kernel_interface {
        let Some(name) = spec.arg("iface") else {
            let remedy = format!("Name the kernel's interface: dpdk:{},iface=eth1", spec.device);
            return Err(DevError::new(port, "its interface is missing", remedy));
        };
        if nix::net::if_::if_nametoindex(name).is_err() {
            let what = format!("the kernel has no interface {name} here");
            return Err(DevError::new(port, what, "Look which there are with: ip link"));
        }
    }
    Ok(())
}

fn check_pci(spec: &DpdkSpec) -> Result<(), DevError> {
    let port = spec.to_string();
    let device = Path::new("/sys/bus/pci/devices").join(pci_address(&spec.device));
    if !device.exists() {
        let remedy =
            "Look which devices there are with: dpdk-devbind.py --status-dev net (or lspci)";
        return Err(DevError::new(port, "there is no PCI device at this address", remedy));
    }
    let driver = std::fs::read_link(device.join("driver")).ok();
    let driver =
        driver.as_deref().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or("");
    // These are driven through the kernel's own driver, which stays.
    if ["vfio-pci", "igb_uio", "uio_pci_generic", "mlx4_core", "mlx5_core", "mana"]
        .contains(&driver)
    {
        return Ok(());
    }
    let bind =
        format!("as root: modprobe vfio-pci && dpdk-devbind.py --bind=vfio-pci {}", spec.device);
    let what = if driver.is_empty() {
        "no driver is bound to the device".into()
    } else {
        format!("the device belongs to the kernel's driver {driver}, not to vfio-pci")
    };
    Err(DevError::new(
        port,
        what,
        format!("Hand it over {bind}. The kernel loses its interface by that"),
    ))
}

/// With the domain that a short address leaves out.
pub(crate) fn pci_address(text: &str) -> String {
    if text.matches(':').count() == 1 { format!("0000:{text}") } else { text.to_owned() }
}

/// Why a device was not found.
pub(crate) fn not_found(spec: &DpdkSpec, error: io::Error) -> DevError {
    let port = spec.to_string();
    let said = said();
    let code = error.raw_os_error();
    if code == Some(libc::EBUSY) {
        let what = format!("this program has a device {} already", spec.device);
        return DevError::new(
            port,
            what,
            "Give each its own name: net_memif0, net_memif1 and so on",
        );
    }
    let driver = spec.device.trim_end_matches(|c: char| c.is_ascii_digit());
    let drivers = drivers();
    if !spec.is_pci() && !drivers.is_empty() && !drivers.iter().any(|known| driver == known) {
        let what = format!("DPDK has no driver {driver} here");
        return DevError::new(port, what, format!("There are {}", drivers.join(", ")));
    }
    // Many drivers answer -1, which is EPERM, to anything.
    let forbidden = ["not permitted", "ermission denied"].iter().any(|words| said.contains(words));
    let remedy = if code == Some(libc::EACCES) || forbidden {
        "Run as root, or give the program what it asks for with: setcap \
         cap_net_raw,cap_net_admin,cap_ipc_lock+ep"
    } else if said.contains("nvalid parameter")
        || said.contains("rror parsing")
        || said.contains("nvalid key")
    {
        "Look at the words behind the device's name; docs/ports.md has a line that works for \
         each driver"
    } else {
        "docs/ports.md has a line that works for each driver; dpdk-testpmd with the same --vdev \
         says more"
    };
    DevError::new(port, format!("its driver does not take it{said}"), remedy).with_source(error)
}

/// Why a device could not be set up. `call` is the function of DPDK that failed.
pub(crate) fn not_set_up(spec: &DpdkSpec, call: &str, error: io::Error) -> DevError {
    let said = said();
    let remedy = match error.raw_os_error() {
        Some(libc::ENOMEM) if eal::uses_huge_pages() == Some(true) => {
            "More huge pages help, as root: sysctl vm.nr_hugepages=256; so does doing without: \
             CLEARWAY_DPDK_HUGE=off"
        }
        Some(libc::ENOMEM) => "Huge pages help, as root: sysctl vm.nr_hugepages=256",
        Some(libc::EACCES) => "Run as root",
        Some(libc::EADDRINUSE) => {
            "Stop the other program that listens at this path, or choose another path"
        }
        _ => {
            "docs/ports.md has a line that works for each driver; dpdk-testpmd with the same \
             --vdev says more"
        }
    };
    let what = format!("the device cannot be set up: {call} failed{said}");
    DevError::new(spec.to_string(), what, remedy).with_source(error)
}

/// The names of the network drivers that DPDK has loaded, as its virtual devices are called.
fn drivers() -> Vec<String> {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return Vec::new() };
    let file = |line: &str| {
        line.rsplit('/').next().and_then(|file| file.split(".so").next()).map(str::to_owned)
    };
    let mut drivers: Vec<String> = maps
        .lines()
        .filter(|line| line.contains("librte_net_"))
        .filter_map(file)
        .filter_map(|name| name.strip_prefix("librte_").map(str::to_owned))
        .filter_map(|name| virtual_name(&name))
        .collect();
    drivers.sort();
    drivers.dedup();
    drivers
}

/// The drivers that make devices out of words; the others need a card.
fn virtual_name(library: &str) -> Option<String> {
    let known = [
        "net_af_packet",
        "net_af_xdp",
        "net_bond",
        "net_failsafe",
        "net_memif",
        "net_null",
        "net_pcap",
        "net_ring",
        "net_tap",
        "net_vhost",
        "net_virtio",
    ];
    match library {
        "net_virtio" => Some("net_virtio_user".into()),
        "net_bond" => Some("net_bonding".into()),
        name if known.contains(&name) => Some(name.into()),
        _ => None,
    }
}
