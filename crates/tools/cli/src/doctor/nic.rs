//! Network cards: who drives them, whether they can be ports, and with how many queues.

use clearway_dev::{DpdkSpec, PortSpec};
use clearway_ports::guard::{self, Keep, Machine};

use super::Findings;
use super::files::{Files, Module, list as numbers};

/// A network card on the PCI bus or on a hypervisor's.
pub(super) struct Nic {
    /// Its address on the bus: `0000:17:00.0` for PCI.
    address: String,
    /// The folder that the bus has for it.
    folder: String,
    /// The kernel's driver.
    driver: Option<String>,
    /// The kernel's interfaces on it.
    interfaces: Vec<String>,
    is_pci: bool,
}

const PCI: &str = "sys/bus/pci/devices";
const VMBUS: &str = "sys/bus/vmbus/devices";

/// Drivers that hand a card to a program.
const HANDED_OVER: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];

fn list_pci(files: &Files) -> Vec<Nic> {
    // PCI class 02, network controller: Ethernet and InfiniBand. Others, such as wireless ones,
    // cannot be ports.
    let is_network = |address: &&String| {
        files
            .text(&format!("{PCI}/{address}/class"))
            .is_some_and(|class| class.starts_with("0x0200") || class.starts_with("0x0207"))
    };
    files
        .names(PCI)
        .iter()
        .filter(is_network)
        .map(|address| nic(files, PCI, address, true))
        .collect()
}

/// All network cards.
pub(super) fn list(files: &Files) -> Vec<Nic> {
    let mut nics = list_pci(files);
    let synthetic =
        files.names(VMBUS).into_iter().map(|address| nic(files, VMBUS, &address, false));
    nics.extend(synthetic.filter(|nic| nic.driver.as_deref() == Some("hv_netvsc")));
    nics
}

fn nic(files: &Files, bus: &str, address: &str, is_pci: bool) -> Nic {
    let folder = format!("{bus}/{address}");
    let driver = files.target(&format!("{folder}/driver"));
    let mut interfaces = files.names(&format!("{folder}/net"));
    // The interface of a virtio card stands below the virtio device.
    for name in files.names(&folder).iter().filter(|name| name.starts_with("virtio")) {
        interfaces.extend(files.names(&format!("{folder}/{name}/net")));
    }
    Nic { address: address.into(), folder, driver, interfaces, is_pci }
}

/// Whose machine this is, when it is a cloud's.
pub(super) fn machine(files: &Files, found: &mut Findings) {
    let field = |name: &str| files.text(&format!("sys/class/dmi/id/{name}")).unwrap_or_default();
    let (vendor, product) = (field("sys_vendor"), field("product_name"));
    let cloud = match (vendor.as_str(), product.as_str()) {
        ("Amazon EC2", _) => {
            "Amazon EC2: its cards are ENA; a second card can be a dpdk: port (driver net_ena)"
        }
        ("Google", _) => "Google Compute Engine: its cards are gVNIC (driver net_gve) or virtio",
        ("Microsoft Corporation", "Virtual Machine") => {
            "Azure or Hyper-V: a card is a netvsc device with a MANA or mlx5 function beside it"
        }
        ("Alibaba Cloud", _) => "Alibaba Cloud: its cards are virtio",
        ("QEMU" | "Red Hat", _) | (_, "KVM" | "Standard PC (Q35 + ICH9, 2009)") => {
            "a KVM guest: its cards are virtio"
        }
        _ => return,
    };
    found.info("machine", cloud);
}

fn wants_vfio(nic: &Nic) -> bool {
    nic.is_pci && !drives_from_kernel(nic)
}

/// Cards whose DPDK driver works beside the kernel's, on the same card.
fn drives_from_kernel(nic: &Nic) -> bool {
    matches!(nic.driver.as_deref(), Some("mlx5_core" | "mlx4_core" | "mana"))
}

/// The module that hands cards over.
pub(super) fn vfio(files: &Files, nics: &[Nic], found: &mut Findings) {
    if !nics.iter().any(wants_vfio) {
        return found.info("vfio", "no card here would need it");
    }
    match files.module("vfio-pci") {
        Module::Loaded => found.ok("vfio", "vfio-pci is loaded, so cards can be handed over"),
        Module::Loadable => found.advice(
            "vfio",
            "vfio-pci is not loaded; it hands a card over to dpdk: ports",
            "modprobe vfio-pci    # for good: echo vfio-pci > /etc/modules-load.d/clearway.conf",
        ),
        Module::Absent => found.info(
            "vfio",
            "this kernel has no vfio-pci, so no card can be handed over; \
             xdp:NAME and dpdk:net_af_packet0,iface=NAME need none",
        ),
    }
}

/// With an IOMMU a card reaches only the memory that it was given.
pub(super) fn iommu(files: &Files, nics: &[Nic], found: &mut Findings) {
    if !nics.iter().any(wants_vfio) || files.module("vfio-pci") == Module::Absent {
        return;
    }
    if !files.names("sys/kernel/iommu_groups").is_empty() {
        return found.ok("iommu", "cards reach only the memory that they are given");
    }
    let cpu = files.text("proc/cpuinfo").unwrap_or_default();
    if cpu.split_whitespace().any(|word| word == "hypervisor") {
        let unsafe_mode = files.text("sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
        if unsafe_mode.as_deref() == Some("Y") {
            return found.info(
                "iommu",
                "there is none, and vfio is told to do without: a card can reach all memory",
            );
        }
        return found.advice(
            "iommu",
            "this virtual machine has none; vfio hands cards over only when told to do without, \
             and a card can then reach all memory",
            "modprobe vfio enable_unsafe_noiommu_mode=1 && echo 1 > \
             /sys/module/vfio/parameters/enable_unsafe_noiommu_mode",
        );
    }
    let word = if cpu.contains("GenuineIntel") {
        "intel_iommu=on iommu=pt"
    } else {
        "amd_iommu=on iommu=pt"
    };
    found.advice(
        "iommu",
        "it is off, so vfio hands no card over. Switch it on in the firmware (VT-d, AMD-Vi) and \
         for the kernel",
        format!(
            "sed -i 's/^GRUB_CMDLINE_LINUX=\"/&{word} /' /etc/default/grub && update-grub && \
            reboot"
        ),
    );
}

/// Every card.
pub(super) fn each(files: &Files, nics: &[Nic], found: &mut Findings) {
    if nics.is_empty() {
        return found
            .info("nic", "there is no network card; tap:, loop and memory ports need none");
    }
    // The login of whoever asks says nothing about another machine's files.
    let ssh = files.is_here().then(guard::ssh_connection).flatten();
    let machine = Machine::read(files.root(), ssh.as_deref());
    for nic in nics {
        let kept = nic.interfaces.iter().find_map(|name| machine.keeps(&af_packet(name)));
        one(files, nic, kept.as_ref(), found);
        // How many queues it has matters where it can be a port.
        if kept.is_none() {
            nic.interfaces.iter().for_each(|interface| queues(files, nic, interface, found));
        }
    }
}

fn one(files: &Files, nic: &Nic, kept: Option<&Keep>, found: &mut Findings) {
    let (address, driver) = (&nic.address, nic.driver.as_deref());
    let node = files.number(&format!("{}/numa_node", nic.folder)).filter(|&node| node >= 0);
    let near = node.filter(|_| files.exists("sys/devices/system/node/node1")).map(|node| {
        let cores =
            files.text(&format!("sys/devices/system/node/node{node}/cpulist")).unwrap_or_default();
        format!(", on memory node {node} (--cores of {cores})")
    });
    let near = near.unwrap_or_default();
    let names =
        if nic.interfaces.is_empty() { "no interface".into() } else { nic.interfaces.join(" ") };
    match (driver, kept) {
        (Some(driver), _) if HANDED_OVER.contains(&driver) => {
            found.ok("nic", format!("{address} is with {driver}{near}: --port dpdk:{address}"));
        }
        (driver, Some(keep)) => {
            let driver = driver.unwrap_or("no driver");
            found.info("nic", format!("{address} ({driver}, {names}){near}: {keep}, and is kept"));
        }
        (Some(driver @ ("mlx5_core" | "mlx4_core" | "mana")), None) => {
            let what = format!(
                "{address} ({driver}, {names}){near} stays with the kernel's \
                driver: --port dpdk:{address}"
            );
            let library = if driver == "mana" { "libmana" } else { "libmlx5" };
            match has_verbs(files, library) {
                true => found.ok("nic", what),
                false => found.advice(
                    "nic",
                    format!("{what}, once {library} is installed"),
                    "apt-get install ibverbs-providers rdma-core",
                ),
            }
        }
        (Some("hv_netvsc"), None) => found.advice(
            "nic",
            format!(
                "{address} (hv_netvsc, {names}){near} is with the kernel; \
                dpdk:net_af_packet0,iface={names} works at once, and as a device of the VM bus \
                when handed over"
            ),
            format!(
                "modprobe uio_hv_generic && echo f8615163-df3e-46c5-913f-f2d2f965ed0e > \
                 /sys/bus/vmbus/drivers/uio_hv_generic/new_id; \
                 echo {address} > /sys/bus/vmbus/drivers/hv_netvsc/unbind && echo {address} > \
                 /sys/bus/vmbus/drivers/uio_hv_generic/bind"
            ),
        ),
        (driver, None) => found.add(
            "nic",
            super::Severity::Info,
            format!(
                "{address} ({}, {names}){near} is with the kernel; to make it a port, hand it \
                over",
                driver.unwrap_or("no driver")
            ),
            Some(hand_over(address, driver)),
        ),
    }
}

/// With what the kernel itself offers, so that no tool is needed.
fn hand_over(address: &str, driver: Option<&str>) -> String {
    let device = format!("/sys/bus/pci/devices/{address}");
    let release =
        driver.map_or(String::new(), |_| format!("echo {address} > {device}/driver/unbind; "));
    format!(
        "modprobe vfio-pci; echo vfio-pci > {device}/driver_override; {release}echo {address} > \
         /sys/bus/pci/drivers_probe"
    )
}

fn has_verbs(files: &Files, library: &str) -> bool {
    [
        "usr/lib/x86_64-linux-gnu/libibverbs",
        "usr/lib/aarch64-linux-gnu/libibverbs",
        "usr/lib64/libibverbs",
    ]
    .iter()
    .any(|folder| files.names(folder).iter().any(|name| name.starts_with(library)))
}

fn af_packet(interface: &str) -> PortSpec {
    PortSpec::Dpdk(DpdkSpec::new("net_af_packet0", format!("iface={interface}")))
}

/// As many queues as cores, so that the card can spread flows over them.
fn queues(files: &Files, nic: &Nic, interface: &str, found: &mut Findings) {
    let names = files.names(&format!("sys/class/net/{interface}/queues"));
    let count = |way: &str| names.iter().filter(|name| name.starts_with(way)).count();
    let (rx, tx) = (count("rx-"), count("tx-"));
    let cores = numbers(&files.text("sys/devices/system/cpu/online").unwrap_or_default()).len();
    if rx == 0 || cores == 0 {
        return;
    }
    let virtio = nic.driver.as_deref().is_some_and(|driver| driver.starts_with("virtio"));
    let has = format!("{interface} has {rx} receive and {tx} transmit queues for {cores} cores");
    // Without several queues there is nothing to spread, and beyond a few cores nobody needs one
    // for each.
    let enough = cores.min(8);
    if rx >= enough {
        found.ok("queues", format!("{has}; how it spreads flows: ethtool -x {interface}"));
    } else if virtio {
        found.advice(
            "queues",
            format!(
                "{has}; its hypervisor has to give it more (QEMU: -netdev …,queues={enough} \
                -device virtio-net-pci,mq=on)"
            ),
            format!("ethtool -L {interface} combined {enough}"),
        );
    } else {
        found.advice(
            "queues",
            format!("{has}, so flows meet on few cores"),
            format!("ethtool -L {interface} combined {enough}"),
        );
    }
}
