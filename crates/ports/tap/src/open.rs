//! Attaching to a TUN/TAP interface, and what to do when that fails.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clearway_dev::device::mac_of_name;
use clearway_dev::{DevError, Mac, TapMode, TapSpec};
use clearway_pkt::Offloads;
use clearway_wire::Cidr;

use crate::netns::within;
use crate::{address, sys, vnet};

const TUN_FILE: &str = "/dev/net/tun";

/// One queue of an open interface, on its way to the thread that will use it.
#[derive(Debug)]
pub struct TapFd {
    pub(crate) file: Attached,
    pub(crate) port: String,
    pub(crate) name: String,
    pub(crate) netns: Option<String>,
    pub(crate) mtu: usize,
    pub(crate) mac: Option<Mac>,
    pub(crate) offloads: Offloads,
}

impl TapFd {
    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the kernel agreed to do for us.
    pub fn offloads(&self) -> Offloads {
        self.offloads
    }

    /// The longest IP packet in bytes.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// Our Ethernet address; None on a TUN interface.
    pub fn mac(&self) -> Option<Mac> {
        self.mac
    }
}

/// Attaches to the interface that `spec` names, or makes it, with as many queues as it says.
///
/// An interface that exists and belongs to the user needs no privilege: one made with
/// `ip tuntap add dev NAME mode tap user USER multi_queue`, for example. An interface made here
/// goes away with its last queue. The MTU is read once, here. What the kernel was told of checksums
/// and large frames is taken back when the last queue is dropped.
pub fn open(spec: &TapSpec) -> Result<Vec<TapFd>, DevError> {
    within(spec.netns.as_deref(), || open_here(spec))
}

/// Whether the interface that `spec` names exists already. Making none, it asks for no privilege but
/// that of entering another network namespace.
pub fn exists(spec: &TapSpec) -> Result<bool, DevError> {
    within(spec.netns.as_deref(), || Ok(sys::mtu(&spec.name).is_ok()))
}

fn open_here(spec: &TapSpec) -> Result<Vec<TapFd>, DevError> {
    let first = attach_first(spec)?;
    let multi_queue = first.multi_queue;
    sys::set_header_len(&first.file, vnet::HEADER_LEN as libc::c_int)
        .map_err(|error| too_old(spec, error))?;
    let offloads = negotiate(spec, &first.file)?;
    let mut files = vec![Attached { file: first.file, queues: Arc::new(AtomicUsize::new(1)) }];
    for _ in 1..spec.queues {
        let file = attach(spec, multi_queue).map_err(|error| explain(spec, error))?;
        files.push(files[0].beside(file));
    }
    let mtu = settle_mtu(spec)?;
    let mac = choose_mac(spec)?;
    lengthen_queue(&spec.name);
    let fd = |file| TapFd {
        file,
        port: spec.to_string(),
        name: spec.name.clone(),
        netns: spec.netns.clone(),
        mtu,
        mac,
        offloads,
    };
    Ok(files.into_iter().map(fd).collect())
}

/// Frames that wait for us in an interface at most. A thousand clients with a request each fill
/// what Linux has, while the core works for somebody else, and each that is dropped costs its
/// client a retransmission timeout.
const QUEUE_LEN: libc::c_int = 5_000;

/// What Linux makes it: 1,000 of Ethernet, 500 without.
const LINUX_QUEUE_LENS: [libc::c_int; 2] = [1_000, 500];

/// Makes the interface's queue longer, unless somebody has chosen its length. Whoever may not
/// (CAP_NET_ADMIN) has it as it is.
fn lengthen_queue(name: &str) {
    if sys::queue_len(name).is_ok_and(|frames| LINUX_QUEUE_LENS.contains(&frames)) {
        let _ = sys::set_queue_len(name, QUEUE_LEN);
    }
}

/// Gives the kernel's side of an interface an address, as `ip address add` does; one that it has
/// already is fine. Asks for CAP_NET_ADMIN.
pub fn add_host_address(name: &str, cidr: Cidr) -> Result<(), DevError> {
    address::add(name, cidr).map_err(|error| {
        let what = format!("Linux's side of the interface cannot have the address {cidr}");
        let remedy = format!("Give it as root with: ip address add {cidr} dev {name}");
        DevError::new(name, what, remedy).with_source(error)
    })
}

/// Brings an interface up, which asks for the right to configure the network (CAP_NET_ADMIN).
pub fn bring_up(name: &str) -> Result<(), DevError> {
    sys::set_up(name).map_err(|error| {
        let remedy = format!("Bring it up as root with: ip link set {name} up");
        DevError::new(name, "the interface cannot be brought up", remedy).with_source(error)
    })
}

/// A queue's file. The last one of an interface to be closed takes back what [`negotiate`] told the
/// kernel: an interface that outlives us would go on handing out long frames without checksums, and
/// who opens it next without a virtio-net header could not tell them from damage.
#[derive(Debug)]
pub(crate) struct Attached {
    file: File,
    /// Files of the interface that are open.
    queues: Arc<AtomicUsize>,
}

impl Attached {
    /// `file` is another queue of the same interface.
    fn beside(&self, file: File) -> Attached {
        self.queues.fetch_add(1, Ordering::Relaxed);
        Attached { file, queues: Arc::clone(&self.queues) }
    }
}

impl Deref for Attached {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if self.queues.fetch_sub(1, Ordering::AcqRel) == 1 {
            // An interface that was removed needs nothing taken back.
            let _ = sys::set_offload(&self.file, 0);
        }
    }
}

struct First {
    file: File,
    multi_queue: bool,
}

/// The first queue says what kind of interface this is. One that exists has or has not several
/// queues, and the kernel wants to hear the same from us.
fn attach_first(spec: &TapSpec) -> Result<First, DevError> {
    let wanted = spec.queues > 1;
    match attach(spec, wanted) {
        Ok(file) => Ok(First { file, multi_queue: wanted }),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) && !wanted => {
            match attach(spec, true) {
                Ok(file) => Ok(First { file, multi_queue: true }),
                Err(_) => Err(explain(spec, error)),
            }
        }
        Err(error) => Err(explain(spec, error)),
    }
}

fn attach(spec: &TapSpec, multi_queue: bool) -> io::Result<File> {
    let file =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(TUN_FILE)?;
    let kind = match spec.mode {
        TapMode::Tap => libc::IFF_TAP,
        TapMode::Tun => libc::IFF_TUN,
    };
    let queues = if multi_queue { libc::IFF_MULTI_QUEUE } else { 0 };
    sys::set_interface(&file, &spec.name, kind | libc::IFF_NO_PI | libc::IFF_VNET_HDR | queues)?;
    Ok(file)
}

/// The steps down from all that we can use. UDP segmentation of both families is only granted
/// together, and older kernels know neither.
const OFFERS: [libc::c_uint; 4] = [
    libc::TUN_F_CSUM
        | libc::TUN_F_TSO4
        | libc::TUN_F_TSO6
        | libc::TUN_F_TSO_ECN
        | libc::TUN_F_USO4
        | libc::TUN_F_USO6,
    libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN,
    libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6,
    libc::TUN_F_CSUM,
];

/// Tells the kernel what it may leave to us, and learns by that what it will do for us: it takes
/// from us every kind that it can hand out.
fn negotiate(spec: &TapSpec, file: &File) -> Result<Offloads, DevError> {
    let offers = if spec.offload { &OFFERS[..] } else { &[] };
    for &offer in offers {
        match sys::set_offload(file, offer) {
            Ok(()) => return Ok(granted(offer, spec.mode)),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(error) => return Err(too_old(spec, error)),
        }
    }
    sys::set_offload(file, 0).map_err(|error| too_old(spec, error))?;
    Ok(Offloads::default())
}

fn granted(offer: libc::c_uint, mode: TapMode) -> Offloads {
    let has = |flag| offer & flag != 0;
    let ethernet = if mode == TapMode::Tap { clearway_dev::device::ETHERNET_LEN } else { 0 };
    let segmented =
        if has(libc::TUN_F_TSO4) { clearway_dev::device::MAX_IP_PACKET + ethernet } else { 0 };
    Offloads {
        tx_checksum: has(libc::TUN_F_CSUM),
        trusted_link: false,
        tso4: has(libc::TUN_F_TSO4),
        tso6: has(libc::TUN_F_TSO6),
        uso: has(libc::TUN_F_USO4) && has(libc::TUN_F_USO6),
        max_segmented_frame: segmented as u32,
    }
}

/// The MTU that was asked for is set when the interface has another; without one, the interface's
/// own counts.
fn settle_mtu(spec: &TapSpec) -> Result<usize, DevError> {
    let port = spec.to_string();
    match spec.mtu {
        Some(wanted) => set_mtu(&port, &spec.name, wanted).map(|()| wanted),
        None => current_mtu(&port, &spec.name),
    }
}

fn current_mtu(port: &str, name: &str) -> Result<usize, DevError> {
    sys::mtu(name).map_err(|error| {
        DevError::new(
            port,
            "the interface's MTU cannot be read",
            "Look whether it still exists with: ip link",
        )
        .with_source(error)
    })
}

/// Sets the MTU of the interface unless it has it already.
pub(crate) fn set_mtu(port: &str, name: &str, wanted: usize) -> Result<(), DevError> {
    let current = current_mtu(port, name)?;
    if wanted == current {
        return Ok(());
    }
    sys::set_mtu(name, wanted).map_err(|error| {
        let what = format!("the interface's MTU is {current} and cannot be set to {wanted}");
        let remedy = format!(
            "Leave mtu={wanted} out, or set it as root with: ip link set {name} mtu {wanted}"
        );
        DevError::new(port, what, remedy).with_source(error)
    })
}

/// Our address on the link. The interface's own address belongs to the kernel at the other end, so
/// ours has to differ.
fn choose_mac(spec: &TapSpec) -> Result<Option<Mac>, DevError> {
    if spec.mode == TapMode::Tun {
        return Ok(None);
    }
    let port = spec.to_string();
    let theirs = sys::hardware_addr(&spec.name).map_err(|error| {
        DevError::new(
            &port,
            "the interface's Ethernet address cannot be read",
            "Look whether it still exists with: ip link",
        )
        .with_source(error)
    })?;
    match spec.mac {
        Some(ours) if ours.0 == theirs => Err(DevError::new(
            &port,
            format!("{ours} is the address of the interface itself, which the kernel uses"),
            "Choose another with mac=, or leave mac= out",
        )),
        Some(ours) => Ok(Some(ours)),
        None => {
            let mut ours = mac_of_name(&spec.name);
            if ours.0 == theirs {
                ours.0[5] ^= 1;
            }
            Ok(Some(ours))
        }
    }
}

fn too_old(spec: &TapSpec, error: io::Error) -> DevError {
    DevError::new(
        spec.to_string(),
        "the kernel's TUN/TAP driver lacks what is needed",
        "Use Linux 4.0 or later",
    )
    .with_source(error)
}

/// Why an interface could not be attached, and what helps.
fn explain(spec: &TapSpec, error: io::Error) -> DevError {
    let name = &spec.name;
    let mode = if spec.mode == TapMode::Tap { "tap" } else { "tun" };
    let queues = if spec.queues > 1 { " multi_queue" } else { "" };
    let (what, remedy) = match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => (
            format!("{TUN_FILE} is not there"),
            "Load the driver as root with: modprobe tun; in a container, pass the device in with: \
             --device /dev/net/tun"
                .into(),
        ),
        Some(libc::EACCES) => (
            format!("{TUN_FILE} may not be opened"),
            format!("Run as root, or let everyone open it with: chmod 666 {TUN_FILE}"),
        ),
        Some(libc::EPERM) => (
            format!("interface {name} may not be made or attached"),
            format!(
                "Run as root, or let root make it for you with: ip tuntap add dev {name} mode \
                 {mode} user $USER{queues}"
            ),
        ),
        Some(libc::EBUSY) => (
            format!("interface {name} is in use by another program"),
            "Stop that program, or choose another name".into(),
        ),
        Some(libc::E2BIG) => (
            format!("interface {name} has no more queues free"),
            "Ask for fewer with queues=, or stop the other program that uses it".into(),
        ),
        Some(libc::EINVAL) => (
            format!(
                "interface {name} exists and is not a {mode} interface that takes {} queue(s)",
                spec.queues
            ),
            format!(
                "Choose another name, or make it anew with: ip tuntap add dev {name} mode \
                {mode}{queues}"
            ),
        ),
        _ => (format!("interface {name} cannot be attached"), "Look at it with: ip -d link".into()),
    };
    DevError::new(spec.to_string(), what, remedy).with_source(error)
}

#[cfg(test)]
mod tests;
