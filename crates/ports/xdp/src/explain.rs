//! What went wrong, in a sentence with a remedy.

use std::io;

use clearway_dev::{DevError, XdpSpec};

use crate::open::MAX_MTU;
use crate::socket::Step;

/// What was being done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Interface,
    BringUp,
    Memory,
    Load,
    Attach,
    Socket(Step),
    Lead,
}

/// Why a port cannot be had, and what helps.
pub(crate) fn explain(spec: &XdpSpec, part: Part, error: io::Error) -> DevError {
    let name = &spec.name;
    let (what, remedy) = match (part, error.raw_os_error()) {
        (_, Some(libc::EPERM | libc::EACCES)) => (
            "the rights for AF_XDP are missing".to_owned(),
            "Run as root, or give the program what it needs to start with: setcap \
             cap_net_raw,cap_net_admin,cap_bpf+ep PROGRAM"
                .to_owned(),
        ),
        (Part::Interface, _) => (
            format!("there is no interface {name}"),
            "ip link shows what there is, in this network namespace".into(),
        ),
        (Part::BringUp, _) => (
            "the interface cannot be brought up".into(),
            format!("Bring it up as root with: ip link set {name} up"),
        ),
        (Part::Memory | Part::Socket(Step::Memory), Some(libc::ENOBUFS | libc::ENOMEM)) => (
            "the packet memory cannot be had, or may not be locked".into(),
            "Raise the limit of locked memory, which is 8 MiB for each queue and twice that with \
             an MTU above 1770: ulimit -l unlimited, or LimitMEMLOCK= of the service"
                .into(),
        ),
        (Part::Attach, Some(libc::EBUSY | libc::EEXIST)) => (
            format!("another program of XDP is attached to {name}"),
            format!("Stop who uses it, or take it away as root with: ip link set {name} xdp off"),
        ),
        (Part::Attach, Some(libc::EOPNOTSUPP)) => (
            format!("the driver of {name} knows nothing of XDP"),
            "Leave mode= out, or say mode=generic".into(),
        ),
        (Part::Attach, Some(libc::ERANGE | libc::EINVAL)) => (
            format!("the driver of {name} does not take a program of XDP as it is set now"),
            format!(
                "The MTU of the interface, or of the other end of a veth pair, may be too long \
                 for it: ip link set {name} mtu 1500; or say mode=generic; dmesg may say more"
            ),
        ),
        (Part::Socket(Step::Socket), Some(libc::EAFNOSUPPORT)) => (
            "this kernel was built without AF_XDP".into(),
            "Use one that has CONFIG_XDP_SOCKETS, or another port: dpdk:net_af_packet0,iface=…"
                .into(),
        ),
        (Part::Socket(Step::Bind { queue }), Some(libc::EBUSY)) => (
            format!("queue {queue} of {name} is in use by another program"),
            format!("Stop that program, or name other queues: xdp:{name}:FIRST-LAST"),
        ),
        (Part::Socket(Step::Bind { queue }), Some(libc::EINVAL)) => (
            format!("queue {queue} of {name} cannot be had"),
            format!("Look which queues it has with: ethtool -l {name}"),
        ),
        _ => (
            "AF_XDP does not work here".into(),
            "It needs Linux 5.11 or later, and a driver that knows XDP or mode=generic".into(),
        ),
    };
    DevError::new(spec.to_string(), what, remedy).with_source(error)
}

pub(crate) fn no_ethernet(spec: &XdpSpec) -> DevError {
    let what = format!("{} carries no Ethernet", spec.name);
    DevError::new(spec.to_string(), what, "Name an Ethernet interface; ip link shows their kinds")
}

pub(crate) fn no_such_queue(spec: &XdpSpec, there: u32, wanted: u32) -> DevError {
    let name = &spec.name;
    let what = format!("{name} has {there} queue(s), counted from 0, and none of number {wanted}");
    let remedy = format!("Name fewer, or make more as root with: ethtool -L {name} combined N");
    DevError::new(spec.to_string(), what, remedy)
}

pub(crate) fn too_long(spec: &XdpSpec, mtu: usize) -> DevError {
    let what = format!(
        "the MTU of {} is {mtu}, and a frame of AF_XDP takes packets of {MAX_MTU} bytes at most",
        spec.name
    );
    let remedy = format!("Set it as root with: ip link set {} mtu {MAX_MTU}", spec.name);
    DevError::new(spec.to_string(), what, remedy)
}

pub(crate) fn longer_than_the_link(spec: &XdpSpec, wanted: usize, mtu: usize) -> DevError {
    let name = &spec.name;
    let what = format!("the MTU of {name} is {mtu}, shorter than {wanted}");
    let remedy = format!(
        "Leave mtu= out, or set it as root with: ip link set {name} mtu {wanted} (at most \
         {MAX_MTU})"
    );
    DevError::new(spec.to_string(), what, remedy)
}
