//! Interfaces that are not taken unless somebody insists: those over which this machine, or whoever
//! sits at it, reaches the network.
//!
//! What is looked at is text of the kernel's, and all that is decided here is decided from that
//! text; so tests hand in the text of other machines.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use clearway_dev::{DpdkSpec, PortSpec};

/// Why an interface is kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kept {
    /// A default route leaves through it.
    DefaultRoute,
    /// The session that started this program came in through it.
    Login,
}

/// An interface that a port names and that is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Keep {
    /// The interface of the kernel's.
    pub interface: String,
    /// Why.
    pub why: Kept,
}

impl std::fmt::Display for Keep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self.why {
            Kept::DefaultRoute => "carries the default route of this machine",
            Kept::Login => "carries the login that started this program",
        };
        write!(f, "{} {what}", self.interface)
    }
}

/// A route of the kernel's.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Route {
    prefix: IpAddr,
    len: u32,
    interface: String,
}

/// What the kernel says of a machine's network, as far as it matters here.
#[derive(Clone, Default, Debug)]
pub struct Machine {
    routes: Vec<Route>,
    login: Login,
    /// Interfaces, those that each stands on (a bond's, a bridge's, a VLAN's), and the PCI device
    /// of each that has one.
    links: Vec<Link>,
}

#[derive(Clone, Default, Debug)]
struct Link {
    name: String,
    below: Vec<String>,
    pci: Option<String>,
}

/// Where a login came from and came to.
#[derive(Clone, Default, Debug)]
struct Login {
    addresses: Vec<IpAddr>,
    /// The interfaces that link-local addresses name.
    interfaces: Vec<String>,
}

// Of linux/route.h and linux/ipv6_route.h.
const RTF_UP: u32 = 1;
const RTF_REJECT: u32 = 0x200;

impl Machine {
    /// Reads it from the files below `root`, which is `/` but in tests. What cannot be read is
    /// taken as not there: where there is no `/sys` or `/proc`, there is nothing to keep either.
    pub fn read(root: &Path, ssh_connection: Option<&str>) -> Machine {
        let net = |name: &str| {
            // A thread may live in another network namespace than its process.
            let own = fs::read_to_string(root.join("proc/thread-self/net").join(name));
            own.or_else(|_| fs::read_to_string(root.join("proc/net").join(name)))
                .unwrap_or_default()
        };
        let routes = routes_v4(&net("route")).chain(routes_v6(&net("ipv6_route"))).collect();
        let login = ssh_connection.map(login).unwrap_or_default();
        Machine { routes, login, links: links(&root.join("sys/class/net")) }
    }

    /// The interfaces that are kept, with those that they stand on.
    fn kept(&self) -> BTreeSet<(String, Kept)> {
        let mut kept = BTreeSet::new();
        for route in self.routes.iter().filter(|route| route.len == 0) {
            self.keep(&mut kept, &route.interface, Kept::DefaultRoute);
        }
        self.login.interfaces.iter().for_each(|name| self.keep(&mut kept, name, Kept::Login));
        for address in &self.login.addresses {
            let to_it = self
                .routes
                .iter()
                .filter(|route| covers(route, address))
                .max_by_key(|route| route.len);
            if let Some(route) = to_it {
                self.keep(&mut kept, &route.interface, Kept::Login);
            }
        }
        kept
    }

    fn keep(&self, kept: &mut BTreeSet<(String, Kept)>, name: &str, why: Kept) {
        if name == "lo" || !kept.insert((name.to_owned(), why)) {
            return;
        }
        for link in self.links.iter().filter(|link| link.name == name) {
            link.below.iter().for_each(|below| self.keep(kept, below, why));
        }
    }

    /// Whether a port would take an interface that is kept.
    pub fn keeps(&self, spec: &PortSpec) -> Option<Keep> {
        let names = match spec {
            // Nobody comes to this machine by what is in another network namespace.
            PortSpec::Tap(tap) if tap.netns.is_some() => return None,
            PortSpec::Tap(tap) => vec![tap.name.clone()],
            PortSpec::Xdp(xdp) => vec![xdp.name.clone()],
            PortSpec::Dpdk(dpdk) => self.named_by(dpdk),
            PortSpec::Loop | PortSpec::Pcap(_) => return None,
        };
        let kept = self.kept();
        kept.into_iter()
            .find(|(kept, _)| names.contains(kept))
            .map(|(interface, why)| Keep { interface, why })
    }

    /// The interfaces of the kernel's that a device of DPDK's stands for.
    fn named_by(&self, dpdk: &DpdkSpec) -> Vec<String> {
        if dpdk.is_pci() {
            let wanted = full_pci_address(&dpdk.device);
            let of_device = self.links.iter().filter(|link| link.pci.as_deref() == Some(&wanted));
            return of_device.map(|link| link.name.clone()).collect();
        }
        // The words with which drivers name an interface: af_packet and af_xdp, pcap, and the tap
        // driver's other end.
        const WORDS: [&str; 6] =
            ["iface", "rx_iface", "rx_iface_in", "tx_iface", "remote", "ifname"];
        let words = dpdk.args.split(',').filter_map(|word| word.split_once('='));
        words.filter(|(key, _)| WORDS.contains(key)).map(|(_, name)| name.to_owned()).collect()
    }
}

/// `SSH_CONNECTION`, of this process or of the nearest one above it that has it: `sudo` takes it
/// out of the environment.
pub fn ssh_connection() -> Option<String> {
    std::env::var("SSH_CONNECTION").ok().or_else(|| {
        let mut pid = std::process::id();
        // A chain of processes is short; the bound is for one that changes while it is read.
        for _ in 0..64 {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The name in parentheses may hold anything; the parent is the second word behind it.
            pid = stat
                .rsplit_once(')')?
                .1
                .split_whitespace()
                .nth(1)?
                .parse()
                .ok()
                .filter(|&pid| pid > 1)?;
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let found = environment
                .split(|&byte| byte == 0)
                .find_map(|word| word.strip_prefix(b"SSH_CONNECTION="));
            if let Some(value) = found {
                return String::from_utf8(value.to_vec()).ok();
            }
        }
        None
    })
}

/// The far and the near address: `CLIENT PORT SERVER PORT`, where a link-local address has its
/// interface behind a percent sign.
fn login(text: &str) -> Login {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut login = Login::default();
    for word in [0, 2].into_iter().filter_map(|index| words.get(index)) {
        let (address, zone) =
            word.split_once('%').map_or((*word, None), |(address, zone)| (address, Some(zone)));
        let Ok(address) = address.parse::<IpAddr>() else { continue };
        match zone {
            Some(zone) => login.interfaces.push(zone.to_owned()),
            None if address.to_canonical().is_loopback() => {}
            None => login.addresses.push(address.to_canonical()),
        }
    }
    login
}

/// `/proc/net/route`: interface, destination, gateway, flags, three numbers, mask, each address as
/// the machine keeps it in memory.
fn routes_v4(text: &str) -> impl Iterator<Item = Route> {
    text.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |index: usize| u32::from_str_radix(words.get(index)?, 16).ok();
        let (prefix, flags, mask) = (number(1)?.to_ne_bytes(), number(3)?, number(7)?);
        let interface = (*words.first()?).to_owned();
        usable(flags).then(|| Route { prefix: prefix.into(), len: mask.count_ones(), interface })
    })
}

/// `/proc/net/ipv6_route`: destination and its length, source and its length, next hop, three
/// numbers, flags, interface.
fn routes_v6(text: &str) -> impl Iterator<Item = Route> {
    text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let prefix = u128::from_str_radix(words.first()?, 16).ok()?.to_be_bytes();
        let len = u32::from_str_radix(words.get(1)?, 16).ok().filter(|&len| len <= 128)?;
        let flags = u32::from_str_radix(words.get(8)?, 16).ok()?;
        let interface = (*words.get(9)?).to_owned();
        usable(flags).then(|| Route { prefix: prefix.into(), len, interface })
    })
}

fn usable(flags: u32) -> bool {
    flags & RTF_UP != 0 && flags & RTF_REJECT == 0
}

fn covers(route: &Route, address: &IpAddr) -> bool {
    match (route.prefix, address) {
        (IpAddr::V4(prefix), IpAddr::V4(address)) => {
            (u32::from(prefix) ^ u32::from(*address)).checked_shr(32 - route.len).unwrap_or(0) == 0
        }
        (IpAddr::V6(prefix), IpAddr::V6(address)) => {
            (u128::from(prefix) ^ u128::from(*address)).checked_shr(128 - route.len).unwrap_or(0)
                == 0
        }
        _ => false,
    }
}

fn links(folder: &Path) -> Vec<Link> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(Result::ok).map(|entry| link(&entry.path())).collect()
}

fn link(path: &Path) -> Link {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let files = fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    let below = names.filter_map(|name| name.strip_prefix("lower_").map(str::to_owned)).collect();
    // A virtio device stands below its PCI device, so the last address on the way is the one.
    let device = where_it_is(&path.join("device"));
    let pci = device.and_then(|device| {
        let parts: Vec<String> =
            device.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        parts.into_iter().rev().find(|part| DpdkSpec::new(part.as_str(), "").is_pci())
    });
    Link { name, below, pci }
}

/// The folder, without links on the way. Not by `canonicalize`: what the C library's `realpath` hands
/// out is of the program's allocator, and a stack inside of a program gives it back to the C
/// library's own, which ends a program that brought another one.
fn where_it_is(folder: &Path) -> Option<PathBuf> {
    let open = fs::File::open(folder).ok()?;
    fs::read_link(format!("/proc/self/fd/{}", open.as_raw_fd())).ok()
}

/// With its domain, as the kernel writes it.
fn full_pci_address(text: &str) -> String {
    let text = text.to_ascii_lowercase();
    if text.matches(':').count() == 1 { format!("0000:{text}") } else { text }
}

#[cfg(test)]
mod tests;
