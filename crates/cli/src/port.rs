//! Opening the ports that a command names, one queue for each core.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use clearway_base::Instant;
use clearway_dev::{
    Capture, Dev, DevCounters, DevError, Fault, FaultSpec, FramePool, Loopback, Mac, PortSpec, Replay, TapMode,
};
use clearway_engine::Clock;
use clearway_pkt::{Burst, Offloads, PoolBuf, TxMeta};
use clearway_tap::{TapFd, TapQueue};

use crate::error::WrongUse;

/// A port of one core. The kinds that are meant to be fast are called directly; whatever else there is, wrappers for tests among them, through a pointer.
pub(crate) enum Port {
    Tap(TapQueue),
    Loop(Loopback),
    Other(Box<dyn Dev<Buf = PoolBuf>>),
}

macro_rules! each {
    ($port:expr, $dev:ident => $call:expr) => {
        match $port {
            Port::Tap($dev) => $call,
            Port::Loop($dev) => $call,
            Port::Other($dev) => $call,
        }
    };
}

impl Dev for Port {
    type Buf = PoolBuf;

    #[inline]
    fn rx(&mut self, burst: &mut Burst<PoolBuf>) -> Result<(), DevError> {
        each!(self, dev => dev.rx(burst))
    }

    #[inline]
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        each!(self, dev => dev.reserve(len))
    }

    #[inline]
    fn commit(&mut self, len: usize, meta: TxMeta) {
        each!(self, dev => dev.commit(len, meta));
    }

    #[inline]
    fn flush(&mut self) {
        each!(self, dev => dev.flush());
    }

    fn offloads(&self) -> Offloads {
        each!(self, dev => dev.offloads())
    }

    fn mtu(&self) -> usize {
        each!(self, dev => dev.mtu())
    }

    fn mac(&self) -> Option<Mac> {
        each!(self, dev => dev.mac())
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        each!(self, dev => dev.wait_fd())
    }

    fn must_poll(&self) -> bool {
        each!(self, dev => dev.must_poll())
    }

    fn counters(&self) -> DevCounters {
        each!(self, dev => dev.counters())
    }

    #[inline]
    fn set_now(&mut self, now: Instant) {
        each!(self, dev => dev.set_now(now));
    }

    #[inline]
    fn next_deadline(&self) -> Instant {
        each!(self, dev => dev.next_deadline())
    }
}

/// What goes round every port.
#[derive(Clone, Default)]
pub(crate) struct Wrap {
    pub(crate) fault: Option<FaultSpec>,
    pub(crate) fault_seed: u64,
    pub(crate) pcap: Option<PathBuf>,
}

/// A port on its way to the thread that will use it.
pub(crate) struct Unwrapped {
    kind: Kind,
    name: String,
    wrap: Arc<Wrap>,
    /// Where its packets are written, with the numbers of port and core when there are several.
    pcap: Option<PathBuf>,
    core: u64,
}

enum Kind {
    Tap(TapFd),
    Loop,
    Replay(PathBuf),
}

impl Unwrapped {
    /// The device, for the thread that calls this.
    pub(crate) fn into_port(self, pool: &FramePool) -> anyhow::Result<Port> {
        let port = match self.kind {
            Kind::Tap(fd) => Port::Tap(fd.into_queue(pool.clone())),
            Kind::Loop => Port::Loop(Loopback::new(pool.clone())),
            Kind::Replay(path) => Port::Other(Box::new(Replay::open(&path, pool.clone())?)),
        };
        let port = match &self.pcap {
            None => port,
            // The capture stands next to the device, so that it shows what was on the wire and not what a fault made of it.
            Some(path) => {
                let file = std::fs::File::create(path)
                    .with_context(|| format!("cannot write the capture {}", path.display()))?;
                let time = Clock::new().read();
                let at_zero = time.since_1970.as_nanos().saturating_sub(time.now.as_nanos());
                let capture = Capture::new(port, std::io::BufWriter::new(file), &self.name, at_zero)
                    .with_context(|| format!("cannot write the capture {}", path.display()))?;
                Port::Other(Box::new(capture))
            }
        };
        Ok(match &self.wrap.fault {
            None => port,
            Some(spec) => {
                let seed = self.wrap.fault_seed.wrapping_add(self.core);
                Port::Other(Box::new(Fault::new(port, *spec, seed, pool.clone())))
            }
        })
    }
}

/// Opens every port with one queue for each of `cores` cores; the answer is a list of ports for each core.
pub(crate) fn open(
    specs: &[PortSpec],
    mtu: Option<usize>,
    wrap: &Wrap,
    cores: usize,
) -> anyhow::Result<Vec<Vec<Unwrapped>>> {
    let wrap = Arc::new(wrap.clone());
    let mut of_cores: Vec<Vec<Unwrapped>> = (0..cores).map(|_| Vec::new()).collect();
    for (index, spec) in specs.iter().enumerate() {
        let kinds = kinds(spec, mtu, cores)?;
        for (core, kind) in kinds.into_iter().enumerate() {
            let pcap = wrap.pcap.as_deref().map(|path| numbered(path, specs.len(), index, cores, core));
            of_cores[core].push(Unwrapped {
                kind,
                name: describe(spec),
                wrap: Arc::clone(&wrap),
                pcap,
                core: core as u64,
            });
        }
    }
    Ok(of_cores)
}

fn kinds(spec: &PortSpec, mtu: Option<usize>, cores: usize) -> anyhow::Result<Vec<Kind>> {
    match spec {
        PortSpec::Tap(tap) => {
            let mut tap = tap.clone();
            if tap.queues != 1 && usize::from(tap.queues) != cores {
                let sentence = format!(
                    "{spec} has {} queues for {cores} cores. Leave queues= out: each core gets one queue.",
                    tap.queues
                );
                return Err(WrongUse(sentence).into());
            }
            tap.queues = u16::try_from(cores).unwrap_or(u16::MAX);
            tap.mtu = tap.mtu.or(mtu);
            let queues = clearway_tap::open(&tap)?;
            clearway_tap::bring_up(&tap.name)?;
            Ok(queues.into_iter().map(Kind::Tap).collect())
        }
        PortSpec::Loop => Ok((0..cores).map(|_| Kind::Loop).collect()),
        PortSpec::Pcap(path) if cores == 1 => Ok(vec![Kind::Replay(path.clone())]),
        PortSpec::Pcap(_) => Err(WrongUse(format!("{spec} can feed one core only. Use --cores with one core.")).into()),
    }
}

/// A port's name without its options.
pub(crate) fn describe(spec: &PortSpec) -> String {
    match spec {
        PortSpec::Tap(tap) if tap.mode == TapMode::Tun => format!("tun:{}", tap.name),
        PortSpec::Tap(tap) => format!("tap:{}", tap.name),
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
