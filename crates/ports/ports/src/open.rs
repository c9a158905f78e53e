//! Opening the ports that a user named, one queue for each core.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clearway_dev::device::MAX_IP_PACKET;
use clearway_dev::{
    Absent, Capture, DpdkSpec, Fault, FaultSpec, FramePool, Loopback, PortSpec, Replay, TapMode,
    TapSpec, XdpSpec,
};
#[cfg(feature = "dpdk")]
use clearway_dpdk::DpdkFd;
use clearway_tap::TapFd;
use clearway_xdp::XdpFd;

use crate::guard::{self, Machine};
use crate::{Port, PortError};

/// What goes round every port.
#[derive(Clone, Default, Debug)]
pub struct Wrap {
    /// Makes the link bad.
    pub fault: Option<FaultSpec>,
    /// The same faults again for the same number; each core adds its own.
    pub fault_seed: u64,
    /// Writes all packets down.
    pub pcap: Option<CaptureTo>,
    /// Whether a port may take an interface that this machine is reached over.
    pub force: bool,
}

/// Where packets are written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CaptureTo {
    /// The file; several cores or ports write several, numbered behind this name.
    pub path: PathBuf,
    /// What the wall clock showed, in nanoseconds since 1970 (UTC), when the monotonic clock of the
    /// ports' owner stood at zero.
    pub unix_ns_at_zero: u64,
}

/// A port on its way to the thread that will use it.
pub struct Unwrapped {
    kind: Kind,
    name: String,
    wrap: Arc<Wrap>,
    // Numbered when there are several ports or cores.
    pcap: Option<CaptureTo>,
    core: u64,
}

enum Kind {
    Tap(TapFd),
    Xdp(Box<XdpFd>),
    Loop {
        mtu: usize,
    },
    #[cfg(feature = "dpdk")]
    Dpdk(DpdkFd),
    Replay(PathBuf),
    Absent(Absent),
}

impl Unwrapped {
    /// The port's name, as [`describe`] gives it.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn from_tap(fd: TapFd) -> Unwrapped {
        let name = fd.name().to_owned();
        Unwrapped { kind: Kind::Tap(fd), name, wrap: Arc::default(), pcap: None, core: 0 }
    }

    pub(crate) fn from_xdp(fd: XdpFd) -> Unwrapped {
        let name = fd.name().to_owned();
        Unwrapped { kind: Kind::Xdp(Box::new(fd)), name, wrap: Arc::default(), pcap: None, core: 0 }
    }

    #[cfg(feature = "dpdk")]
    pub(crate) fn from_dpdk(fd: DpdkFd) -> Unwrapped {
        let name = fd.name().to_owned();
        Unwrapped { kind: Kind::Dpdk(fd), name, wrap: Arc::default(), pcap: None, core: 0 }
    }

    pub(crate) fn from_absent(absent: Absent) -> Unwrapped {
        Unwrapped {
            kind: Kind::Absent(absent),
            name: String::new(),
            wrap: Arc::default(),
            pcap: None,
            core: 0,
        }
    }

    /// The device, for the thread that calls this.
    pub fn into_port(self, pool: &FramePool) -> Result<Port, PortError> {
        let is_loopback = matches!(self.kind, Kind::Loop { .. });
        let port = match self.kind {
            Kind::Tap(fd) => Port::Tap(fd.into_queue(pool.clone())),
            Kind::Xdp(fd) => Port::Xdp(Box::new(fd.into_port(pool.clone()))),
            Kind::Loop { mtu } => Port::Loop(Loopback::with_mtu(pool.clone(), mtu)),
            #[cfg(feature = "dpdk")]
            Kind::Dpdk(fd) => Port::Dpdk(Box::new(fd.into_queue(pool.clone()))),
            Kind::Absent(absent) => return Ok(Port::Absent(absent)),
            Kind::Replay(path) => Port::Other(Box::new(Replay::open(&path, pool.clone())?)),
        };
        // The capture stands next to the device, so that it shows what was on the wire and not what
        // a fault made of it.
        let port = match &self.pcap {
            None => port,
            Some(to) => captured(port, to, &self.name)
                .map_err(|source| PortError::Capture { path: to.path.clone(), source })?,
        };
        Ok(match &self.wrap.fault {
            None => port,
            Some(spec) => {
                let seed = self.wrap.fault_seed.wrapping_add(self.core);
                Port::Other(Box::new(if is_loopback {
                    Fault::on_loopback(port, spec.rx, seed, pool.clone())
                } else {
                    Fault::new(port, *spec, seed, pool.clone())
                }))
            }
        })
    }
}

fn captured(port: Port, to: &CaptureTo, name: &str) -> io::Result<Port> {
    let file = BufWriter::new(File::create(&to.path)?);
    Ok(Port::Other(Box::new(Capture::new(port, file, name, to.unix_ns_at_zero)?)))
}

/// Refuses a port that would take the interface of the default route or of the login.
fn check_kept(specs: &[PortSpec], wrap: &Wrap) -> Result<(), PortError> {
    let harmless = |spec: &PortSpec| matches!(spec, PortSpec::Loop | PortSpec::Pcap(_));
    if wrap.force || specs.iter().all(harmless) {
        return Ok(());
    }
    let machine = Machine::read(Path::new("/"), guard::ssh_connection().as_deref());
    let kept = specs.iter().find_map(|spec| machine.keeps(spec).map(|keep| (spec, keep)));
    kept.map_or(Ok(()), |(spec, keep)| Err(PortError::Kept { port: describe(spec), keep }))
}

/// Opens one port for each of `cores` cores. A TUN/TAP interface that cannot have so many queues,
/// because it was made before with one, gets one, for the first core, and the others have an absent
/// one ([`Port::is_absent`]); so do the cores beyond the queues that it asks for itself.
pub fn open_one(spec: &PortSpec, wrap: &Wrap, cores: usize) -> Result<Vec<Unwrapped>, PortError> {
    check_kept(std::slice::from_ref(spec), wrap)?;
    if *spec == PortSpec::Loop {
        check_one_wire(wrap.fault.as_ref())?;
    }
    let kinds = match spec {
        PortSpec::Tap(tap) => tap_kinds_or_fewer(tap, cores)?,
        PortSpec::Xdp(xdp) => xdp_kinds_or_fewer(xdp, cores)?,
        PortSpec::Dpdk(dpdk) => dpdk_kinds(dpdk, None, cores, Share::Flows)?,
        other => kinds(other, None, cores, Share::Flows)?,
    };
    let wrap = Arc::new(wrap.clone());
    let unwrapped = |(core, kind)| {
        let number = |to: &CaptureTo| numbered(&to.path, 1, 0, cores, core);
        let pcap = wrap.pcap.as_ref().map(|to| CaptureTo { path: number(to), ..*to });
        Unwrapped { kind, name: describe(spec), wrap: Arc::clone(&wrap), pcap, core: core as u64 }
    };
    Ok(kinds.into_iter().enumerate().map(unwrapped).collect())
}

fn tap_kinds_or_fewer(tap: &TapSpec, cores: usize) -> Result<Vec<Kind>, PortError> {
    let wanted = if tap.queues == 1 { cores } else { usize::from(tap.queues).min(cores) };
    let queues = open_tap(tap, wanted)
        .or_else(|error| if wanted > 1 { open_tap(tap, 1) } else { Err(error) })?;
    let absent = queues.first().map(|queue| {
        (cores.saturating_sub(queues.len()), queue.mtu(), queue.mac(), queue.offloads())
    });
    let mut kinds: Vec<Kind> = queues.into_iter().map(Kind::Tap).collect();
    if let Some((count, mtu, mac, offloads)) = absent {
        kinds.extend((0..count).map(|_| Kind::Absent(Absent::new(mtu, mac, offloads))));
    }
    Ok(kinds)
}

fn xdp_kinds_or_fewer(xdp: &XdpSpec, cores: usize) -> Result<Vec<Kind>, PortError> {
    let fds = clearway_xdp::open(xdp, cores)?;
    let absent =
        fds.first().map(|fd| (cores.saturating_sub(fds.len()), fd.mtu(), fd.mac(), fd.offloads()));
    let mut kinds: Vec<Kind> = fds.into_iter().map(|fd| Kind::Xdp(Box::new(fd))).collect();
    if let Some((count, mtu, mac, offloads)) = absent {
        kinds.extend((0..count).map(|_| Kind::Absent(Absent::new(mtu, Some(mac), offloads))));
    }
    Ok(kinds)
}

/// Every core gets queues, or it is said that there are not enough.
fn xdp_kinds(xdp: &XdpSpec, mtu: Option<usize>, cores: usize) -> Result<Vec<Kind>, PortError> {
    let spec = XdpSpec { mtu: xdp.mtu.or(mtu), ..xdp.clone() };
    let fds = clearway_xdp::open(&spec, cores)?;
    if fds.len() < cores {
        return Err(PortError::Misuse(format!(
            "{xdp} has {} queue(s) for {cores} cores. Name fewer cores, or make more queues as \
             root with: ethtool -L {} combined {cores}.",
            fds.len(),
            xdp.name
        )));
    }
    Ok(fds.into_iter().map(|fd| Kind::Xdp(Box::new(fd))).collect())
}

fn open_tap(tap: &TapSpec, queues: usize) -> Result<Vec<TapFd>, PortError> {
    let tap = TapSpec { queues: u16::try_from(queues).unwrap_or(u16::MAX), ..tap.clone() };
    let queues = clearway_tap::open(&tap)?;
    clearway_tap::within(tap.netns.as_deref(), || clearway_tap::bring_up(&tap.name))?;
    Ok(queues)
}

/// What several cores do with a port together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Share {
    /// Each flow belongs to one core, whatever queue it comes on: for a stack on each core.
    Flows,
    /// Each core has a queue and what comes on it: for frames without a stack.
    Queues,
}

/// Opens every port for each of `cores` cores, so that all of a flow comes to the same one; the
/// answer is a list of ports for each core. `mtu` counts for the ports that name none.
pub fn open(
    specs: &[PortSpec],
    mtu: Option<usize>,
    wrap: &Wrap,
    cores: usize,
) -> Result<Vec<Vec<Unwrapped>>, PortError> {
    open_shared(specs, mtu, wrap, cores, Share::Flows)
}

/// The same for those who have no flows: what comes on a queue is for the core of that queue.
pub fn open_queues(
    specs: &[PortSpec],
    mtu: Option<usize>,
    wrap: &Wrap,
    cores: usize,
) -> Result<Vec<Vec<Unwrapped>>, PortError> {
    open_shared(specs, mtu, wrap, cores, Share::Queues)
}

/// Opens every port for one core and closes it again, to hear what is wrong with it. An interface
/// that is not there is made by another name: whoever waits for it to appear would configure what is
/// about to go away.
pub fn try_open(specs: &[PortSpec], wrap: &Wrap) -> Result<(), PortError> {
    let aside: Vec<PortSpec> = specs.iter().map(|spec| named_aside(spec, specs)).collect();
    // What is wrong is said of the name that was given.
    open(&aside, None, wrap, 1).or_else(|_| open(specs, None, wrap, 1)).map(drop)
}

/// The same port by a name that only this process uses, when its interface would have to be made.
/// Ports of one name keep one name.
fn named_aside(spec: &PortSpec, among: &[PortSpec]) -> PortSpec {
    let name_of = |spec: &PortSpec| match spec {
        PortSpec::Tap(tap) => Some((tap.name.clone(), tap.netns.clone())),
        _ => None,
    };
    let mut spec = spec.clone();
    let first = among.iter().position(|other| name_of(other) == name_of(&spec));
    if let PortSpec::Tap(tap) = &mut spec {
        // What cannot be asked about is opened by its own name, and says why.
        if clearway_tap::exists(tap).is_ok_and(|exists| !exists) {
            tap.name = format!("cw{}.{}", std::process::id(), first.unwrap_or(0));
        }
    }
    spec
}

fn open_shared(
    specs: &[PortSpec],
    mtu: Option<usize>,
    wrap: &Wrap,
    cores: usize,
    share: Share,
) -> Result<Vec<Vec<Unwrapped>>, PortError> {
    check_kept(specs, wrap)?;
    let wrap = Arc::new(wrap.clone());
    let mut of_cores: Vec<Vec<Unwrapped>> = (0..cores).map(|_| Vec::new()).collect();
    for (index, spec) in specs.iter().enumerate() {
        if *spec == PortSpec::Loop {
            check_one_wire(wrap.fault.as_ref())?;
        }
        for (core, kind) in kinds(spec, mtu, cores, share)?.into_iter().enumerate() {
            let number = |to: &CaptureTo| numbered(&to.path, specs.len(), index, cores, core);
            let pcap = wrap.pcap.as_ref().map(|to| CaptureTo { path: number(to), ..*to });
            let (name, wrap) = (describe(spec), Arc::clone(&wrap));
            of_cores[core].push(Unwrapped { kind, name, wrap, pcap, core: core as u64 });
        }
    }
    Ok(of_cores)
}

fn kinds(
    spec: &PortSpec,
    mtu: Option<usize>,
    cores: usize,
    share: Share,
) -> Result<Vec<Kind>, PortError> {
    match spec {
        PortSpec::Tap(tap) => {
            let mut tap = tap.clone();
            if tap.queues != 1 && usize::from(tap.queues) != cores {
                return Err(PortError::Misuse(format!(
                    "{spec} has {} queues for {cores} cores. Leave queues= out: each core gets one \
                     queue.",
                    tap.queues
                )));
            }
            tap.mtu = tap.mtu.or(mtu);
            Ok(open_tap(&tap, cores)?.into_iter().map(Kind::Tap).collect())
        }
        PortSpec::Loop => {
            let mtu = mtu.unwrap_or(MAX_IP_PACKET);
            Ok((0..cores).map(|_| Kind::Loop { mtu }).collect())
        }
        PortSpec::Dpdk(dpdk) => dpdk_kinds(dpdk, mtu, cores, share),
        PortSpec::Xdp(xdp) => xdp_kinds(xdp, mtu, cores),
        PortSpec::Pcap(path) if cores == 1 => Ok(vec![Kind::Replay(path.clone())]),
        PortSpec::Pcap(_) => Err(PortError::Misuse(format!(
            "{spec} can feed one core only. Use --cores with one core."
        ))),
    }
}

#[cfg(feature = "dpdk")]
fn dpdk_kinds(
    dpdk: &DpdkSpec,
    mtu: Option<usize>,
    cores: usize,
    share: Share,
) -> Result<Vec<Kind>, PortError> {
    let dpdk = DpdkSpec { mtu: dpdk.mtu.or(mtu), ..dpdk.clone() };
    let share = match share {
        Share::Flows => clearway_dpdk::Share::Flows,
        Share::Queues => clearway_dpdk::Share::Queues,
    };
    let queues = clearway_dpdk::open(&dpdk, cores, share)?;
    let absent = queues.first().map(|queue| {
        (cores.saturating_sub(queues.len()), queue.mtu(), queue.mac(), queue.offloads())
    });
    let mut kinds: Vec<Kind> = queues.into_iter().map(Kind::Dpdk).collect();
    if let Some((count, mtu, mac, offloads)) = absent {
        kinds.extend((0..count).map(|_| Kind::Absent(Absent::new(mtu, Some(mac), offloads))));
    }
    Ok(kinds)
}

#[cfg(not(feature = "dpdk"))]
fn dpdk_kinds(
    dpdk: &DpdkSpec,
    _mtu: Option<usize>,
    _cores: usize,
    _share: Share,
) -> Result<Vec<Kind>, PortError> {
    Err(PortError::Misuse(format!(
        "{dpdk}: this program was built without DPDK. Install libdpdk-dev and build it with: cargo \
         build --release -p clearway-cli --features dpdk. \
         Or use tap:NAME, which needs nothing installed."
    )))
}

/// A loopback is one wire: what is sent on it is received from it.
pub(crate) fn check_one_wire(fault: Option<&FaultSpec>) -> Result<(), PortError> {
    match fault {
        Some(fault) if fault.rx != fault.tx => Err(PortError::Misuse(
            "a loopback has one wire, so its faults have no direction. Leave rx. and tx. out."
                .into(),
        )),
        _ => Ok(()),
    }
}

/// A port's name without its options.
pub fn describe(spec: &PortSpec) -> String {
    match spec {
        PortSpec::Tap(tap) if tap.mode == TapMode::Tun => format!("tun:{}", tap.name),
        PortSpec::Tap(tap) => format!("tap:{}", tap.name),
        PortSpec::Dpdk(dpdk) => format!("dpdk:{}", dpdk.device),
        PortSpec::Xdp(xdp) => format!("xdp:{}", xdp.name),
        other => other.to_string(),
    }
}

fn numbered(path: &Path, ports: usize, port: usize, cores: usize, core: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    if ports > 1 {
        name.push(format!(".port{port}"));
    }
    if cores > 1 {
        name.push(format!(".core{core}"));
    }
    name.into()
}

#[cfg(test)]
mod tests;
