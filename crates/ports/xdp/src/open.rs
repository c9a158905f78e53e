//! From a port's name to an end of it for each core.

use std::ops::RangeInclusive;
use std::sync::Arc;

use clearway_dev::device::max_frame;
use clearway_dev::{DevError, FramePool, Mac, XdpMode, XdpSpec};
use clearway_pkt::Offloads;

use crate::explain::{self, Part};
use crate::interface::Interface;
use crate::port::XdpPort;
use crate::program::{Hook, Program};
use crate::queue::XdpQueue;
use crate::socket::{First, RING, Socket, first, further};
use crate::umem::{Frame, Memory, TX_OFFSET};

/// Bytes that the kernel keeps free before a received frame (`XDP_PACKET_HEADROOM`).
const RX_OFFSET: usize = 256;

/// Lengths of a frame of the packet memory: the kernel takes 2,048 bytes at least and a page at
/// most.
const FRAME_LENS: [usize; 2] = [2_048, 4_096];

/// The longest MTU of an interface whose frames fit.
pub(crate) const MAX_MTU: usize = FRAME_LENS[1] - RX_OFFSET - max_frame(0, true);

/// One core's end of an interface, on its way to the thread that will use it.
pub struct XdpFd {
    pub(crate) port: String,
    pub(crate) name: String,
    /// Goes before the memory that it names.
    pub(crate) first: First,
    pub(crate) further: Vec<Socket>,
    pub(crate) memory: Memory,
    pub(crate) free: Vec<Frame>,
    pub(crate) interface: Interface,
    pub(crate) program: Arc<Program>,
    pub(crate) mtu: usize,
    pub(crate) offload: bool,
    pub(crate) is_first_core: bool,
}

impl XdpFd {
    /// The port's name without its options.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The longest IP packet in bytes.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// Our Ethernet address, which is the interface's.
    pub fn mac(&self) -> Mac {
        self.interface.mac
    }

    /// What the kernel does for us.
    pub fn offloads(&self) -> Offloads {
        // A device that reads our memory itself may not know what a checksum is.
        let tx_checksum = self.offload && self.first.metadata && !self.first.zero_copy;
        Offloads { tx_checksum, ..Offloads::default() }
    }

    /// The device whose received frames stay in the packet memory, for the thread that calls this.
    pub fn into_queue(self) -> XdpQueue {
        XdpQueue::new(self)
    }

    /// The device that copies them to `pool`, for the thread that calls this.
    pub fn into_port(self, pool: FramePool) -> XdpPort {
        XdpPort::new(XdpQueue::new(self), pool)
    }
}

/// Attaches to the interface that `spec` names: an end for each core, but no more than there are
/// queues, which are dealt out.
///
/// Asks for the rights to make such sockets (CAP_NET_RAW), to load a program (CAP_BPF) and to
/// attach it (CAP_NET_ADMIN); none of them is needed afterwards. An interface that is down is
/// brought up, and stays so.
pub fn open(spec: &XdpSpec, cores: usize) -> Result<Vec<XdpFd>, DevError> {
    let wrong = |part| move |error| explain::explain(spec, part, error);
    let interface = Interface::find(&spec.name)
        .map_err(wrong(Part::Interface))?
        .ok_or_else(|| explain::no_ethernet(spec))?;
    let queues = choose_queues(spec, &interface)?;
    let frame_len = frame_len(spec, &interface)?;
    let mtu = choose_mtu(spec, &interface)?;
    interface.bring_up().map_err(wrong(Part::BringUp))?;
    let loaded =
        Program::load(interface.rx_queues.max(queues.end() + 1)).map_err(wrong(Part::Load))?;
    let (program, hook) = attach(spec, &interface, loaded)?;
    let program = Arc::new(program);
    let mut fds = Vec::new();
    for core in 0..cores.min(queues.clone().count()) {
        let mine: Vec<u32> = queues.clone().skip(core).step_by(cores).collect();
        let count = RING * (1 + mine.len() as u32);
        let memory = Memory::new(count, frame_len as u32).map_err(wrong(Part::Memory))?;
        let copy = spec.mode == XdpMode::Copy || hook == Hook::Generic;
        let sockets = sockets(spec, &interface, &memory, &mine, copy)?;
        let free = memory.all_frames();
        fds.push(XdpFd {
            port: spec.to_string(),
            name: format!("xdp:{}", spec.name),
            first: sockets.0,
            further: sockets.1,
            memory,
            free,
            interface: interface.clone(),
            program: Arc::clone(&program),
            mtu,
            offload: spec.offload,
            is_first_core: core == 0,
        });
    }
    for fd in &mut fds {
        fd.fill_and_lead().map_err(wrong(Part::Lead))?;
    }
    Ok(fds)
}

impl XdpFd {
    /// Frames for the kernel first, so that it has some when the first one comes.
    fn fill_and_lead(&mut self) -> std::io::Result<()> {
        for socket in std::iter::once(&mut self.first.socket).chain(&mut self.further) {
            for _ in 0..RING {
                let Some(frame) = self.free.pop() else { break };
                socket.fill.push(self.memory.address_of(&frame));
            }
            socket.fill.publish();
            self.program.lead(socket.queue, socket.fd())?;
        }
        Ok(())
    }
}

fn choose_queues(spec: &XdpSpec, interface: &Interface) -> Result<RangeInclusive<u32>, DevError> {
    let all = 0..=interface.rx_queues - 1;
    let Some(queues) = &spec.queues else { return Ok(all) };
    let wanted = u32::from(*queues.start())..=u32::from(*queues.end());
    if wanted.end() > all.end() {
        return Err(explain::no_such_queue(spec, interface.rx_queues, *wanted.end()));
    }
    Ok(wanted)
}

/// The shortest frame that takes all that the interface may receive, however little of it we want.
fn frame_len(spec: &XdpSpec, interface: &Interface) -> Result<usize, DevError> {
    let frame = max_frame(interface.mtu, true);
    let fits = |len: &usize| frame + RX_OFFSET.max(TX_OFFSET) <= *len;
    FRAME_LENS.into_iter().find(fits).ok_or_else(|| explain::too_long(spec, interface.mtu))
}

/// Ours may be shorter than the interface's and not longer.
fn choose_mtu(spec: &XdpSpec, interface: &Interface) -> Result<usize, DevError> {
    match spec.mtu {
        Some(mtu) if mtu > interface.mtu => {
            Err(explain::longer_than_the_link(spec, mtu, interface.mtu))
        }
        other => Ok(other.unwrap_or(interface.mtu)),
    }
}

/// In the driver where it can, in the kernel otherwise.
fn attach(
    spec: &XdpSpec,
    interface: &Interface,
    loaded: crate::program::Loaded,
) -> Result<(Program, Hook), DevError> {
    let wrong = |error| explain::explain(spec, Part::Attach, error);
    let generic =
        |loaded: crate::program::Loaded| match loaded.attach(interface.index, Hook::Generic) {
            Ok(program) => Ok((program, Hook::Generic)),
            Err((_, error)) => Err(wrong(error)),
        };
    if spec.mode == XdpMode::Generic {
        return generic(loaded);
    }
    match loaded.attach(interface.index, Hook::Native) {
        Ok(program) => Ok((program, Hook::Native)),
        Err((loaded, error))
            if spec.mode == XdpMode::Auto && error.raw_os_error() == Some(libc::EOPNOTSUPP) =>
        {
            generic(loaded)
        }
        Err((_, error)) => Err(wrong(error)),
    }
}

fn sockets(
    spec: &XdpSpec,
    interface: &Interface,
    memory: &Memory,
    queues: &[u32],
    copy: bool,
) -> Result<(First, Vec<Socket>), DevError> {
    let wrong = |(step, error)| explain::explain(spec, Part::Socket(step), error);
    let [queue, others @ ..] = queues else {
        return Err(explain::no_such_queue(spec, interface.rx_queues, interface.rx_queues));
    };
    let first = first(memory, interface, *queue, copy).map_err(wrong)?;
    let further = others
        .iter()
        .map(|&queue| further(&first.socket, interface, queue))
        .collect::<Result<_, _>>()
        .map_err(wrong)?;
    Ok((first, further))
}
