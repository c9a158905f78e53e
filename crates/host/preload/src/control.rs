//! Control messages of `sendmsg` and `recvmsg`.

use std::ffi::c_int;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use clearway_client::{Arrived, ErrorReport, SendTo, SentStamp, flags};
use clearway_options::stamping;
use libc::{cmsghdr, in_pktinfo, in6_pktinfo};

use crate::addr;
use crate::errno::{Answer, fail};
use crate::interfaces;
use crate::object::Ours;
use crate::options::stamps;
use crate::options::tcp::TCP_INQ;

#[cfg(test)]
mod tests;

/// Length of a control message's head, which is followed by its data and then by so many bytes that
/// the next begins aligned.
const HEAD: usize = size_of::<cmsghdr>();

/// Alignment of control messages.
const ALIGN: usize = size_of::<usize>();

/// What of the socket that sends decides what may be said beside a send.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Sender {
    pub(crate) is_stream: bool,
    pub(crate) v6: bool,
    /// SOF_TIMESTAMPING_OPT_ID.
    pub(crate) has_keys: bool,
}

impl Sender {
    pub(crate) fn of(ours: &Ours) -> Sender {
        let has_keys = ours.socket.stamping() & stamping::OPT_ID != 0;
        Sender { is_stream: ours.is_stream(), v6: ours.socket.is_v6(), has_keys }
    }
}

/// Reads what a program says beside a datagram, or beside bytes of a stream. `over_v4`: the datagram
/// goes over IPv4, which is asked only where it matters.
pub(crate) fn read(
    by: Sender,
    over_v4: impl Fn() -> bool,
    control: &[u8],
    how: &mut SendTo,
) -> Answer<()> {
    let mut rest = control;
    while rest.len() >= HEAD {
        // SAFETY: there are bytes enough, and any are a head.
        let head = unsafe { rest.as_ptr().cast::<cmsghdr>().read_unaligned() };
        let len = head.cmsg_len;
        if len < HEAD || len > rest.len() {
            return fail(libc::EINVAL);
        }
        let data = &rest[HEAD..len];
        if head.cmsg_level == libc::SOL_SOCKET {
            of_socket(by, head.cmsg_type, data, how)?;
        } else if !by.is_stream {
            // A stream looks at no others, as in Linux.
            let of_ip = matches!(head.cmsg_level, libc::IPPROTO_IP | libc::IPPROTO_IPV6);
            let to_v4 = of_ip && over_v4();
            one((by.v6, to_v4), (head.cmsg_level, head.cmsg_type), data, how)?;
        }
        rest = rest.get(len.next_multiple_of(ALIGN)..).unwrap_or(&[]);
    }
    Ok(())
}

/// SCM_TS_OPT_ID.
const SCM_TS_OPT_ID: c_int = 81;

/// What any socket heeds (`sock_cmsg_send` of Linux).
fn of_socket(by: Sender, kind: c_int, data: &[u8], how: &mut SendTo) -> Answer<()> {
    match kind {
        libc::SO_TIMESTAMPING | stamps::SO_TIMESTAMPING_NEW => {
            let flags: u32 = plain(data)?;
            if flags & !stamping::TX_RECORD != 0 {
                return fail(libc::EINVAL);
            }
            how.stamping = Some(flags);
        }
        SCM_TS_OPT_ID => {
            if by.is_stream || !by.has_keys {
                return fail(libc::EINVAL);
            }
            how.stamp_key = Some(plain(data)?);
        }
        // As the options: one is kept and does nothing, the other may be switched off.
        libc::SO_PRIORITY => {
            plain::<u32>(data)?;
        }
        libc::SO_MARK if plain::<u32>(data)? == 0 => {}
        // Only a Unix socket makes something of these.
        libc::SCM_RIGHTS | libc::SCM_CREDENTIALS => {}
        _ => return fail(libc::EINVAL),
    }
    Ok(())
}

/// What a datagram heeds: of the level IPPROTO_IP over IPv4, of IPPROTO_IPV6 over IPv6, and
/// IPPROTO_UDP. Linux passes others over, so who does not know where it goes says both.
fn one(
    (from_v6, to_v4): (bool, bool),
    message: (c_int, c_int),
    data: &[u8],
    how: &mut SendTo,
) -> Answer<()> {
    match message {
        (libc::IPPROTO_IP, _) if !to_v4 => {}
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) if to_v4 && from_v6 => {
            let info: in6_pktinfo = plain(data)?;
            let from = Ipv6Addr::from(info.ipi6_addr.s6_addr).to_canonical();
            if from.is_ipv6() {
                return fail(libc::EINVAL);
            }
            (how.iface, how.from) = (index(info.ipi6_ifindex)?, some(from));
        }
        (libc::IPPROTO_IPV6, _) if to_v4 => {}
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            let info: in_pktinfo = plain(data)?;
            how.iface = index(info.ipi_ifindex as u32)?;
            how.from = some(IpAddr::V4(Ipv4Addr::from(u32::from_be(info.ipi_spec_dst.s_addr))));
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let info: in6_pktinfo = plain(data)?;
            how.iface = index(info.ipi6_ifindex)?;
            how.from = some(Ipv6Addr::from(info.ipi6_addr.s6_addr).to_canonical());
        }
        (libc::IPPROTO_IP, libc::IP_TOS) if data.len() == 1 => how.tos = Some(data[0]),
        (libc::IPPROTO_IP, libc::IP_TOS) => how.tos = Some(byte(data, 0)?),
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => how.tos = byte_or_default(data)?,
        (libc::IPPROTO_IP, libc::IP_TTL) => how.ttl = Some(byte(data, 1)?),
        (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => how.ttl = byte_or_default(data)?,
        (libc::IPPROTO_UDP, libc::UDP_SEGMENT) => how.segment_size = plain(data)?,
        (libc::IPPROTO_IP | libc::IPPROTO_IPV6 | libc::IPPROTO_UDP, _) => {
            return fail(libc::EINVAL);
        }
        _ => {}
    }
    Ok(())
}

/// The interface of Clearway's that a program means; to a socket of Clearway's there are no others.
fn index(index: u32) -> Answer<u32> {
    match interfaces::inner(index) {
        Some(number) => Ok(number),
        None => fail(libc::ENODEV),
    }
}

fn some(ip: IpAddr) -> Option<IpAddr> {
    (!ip.is_unspecified()).then_some(ip)
}

/// A number that has to fit a byte.
fn byte(data: &[u8], least: c_int) -> Answer<u8> {
    match u8::try_from(plain::<c_int>(data)?) {
        Ok(byte) if c_int::from(byte) >= least => Ok(byte),
        _ => fail(libc::EINVAL),
    }
}

/// As [`byte`] for IPv6, where −1 stands for what the socket does anyway.
fn byte_or_default(data: &[u8]) -> Answer<Option<u8>> {
    if plain::<c_int>(data)? == -1 { Ok(None) } else { byte(data, 0).map(Some) }
}

/// Plain numbers and structures of such, for which any bytes are a value.
trait Plain: Copy {}
impl Plain for u16 {}
impl Plain for c_int {}
impl Plain for u32 {}
impl Plain for [u32; 3] {}
impl Plain for [i64; 2] {}
impl Plain for [[i64; 2]; 3] {}
impl Plain for in_pktinfo {}
impl Plain for in6_pktinfo {}

fn plain<T: Plain>(data: &[u8]) -> Answer<T> {
    if data.len() != size_of::<T>() {
        return fail(libc::EINVAL);
    }
    // SAFETY: there are bytes enough, and any are a value of the type.
    Ok(unsafe { data.as_ptr().cast::<T>().read_unaligned() })
}

/// The socket may want to know something of the datagram.
pub(crate) fn may_tell(ours: &Ours, arrived: &Arrived) -> bool {
    const WANTED: u32 = flags::PKTINFO | flags::RECVTOS | flags::RECVTTL | flags::RXQ_OVFL;
    arrived.segment_size != 0 || ours.socket.flag(WANTED)
}

/// Writes control messages into a program's buffer.
pub(crate) struct Writer<'a> {
    out: &'a mut [u8],
    used: usize,
    cut: bool,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(out: &'a mut [u8]) -> Writer<'a> {
        Writer { out, used: 0, cut: false }
    }

    /// Bytes written, and whether there was too little room.
    pub(crate) fn finish(self) -> (usize, bool) {
        (self.used, self.cut)
    }

    fn put<T: Plain>(&mut self, level: c_int, kind: c_int, value: T) {
        let whole = HEAD + size_of::<T>();
        let room = self.out.len() - self.used;
        // As much of the data as fits, if the head does.
        let len = whole.min(room);
        self.cut |= len < whole;
        if len < HEAD {
            return;
        }
        let head = cmsghdr { cmsg_len: len as _, cmsg_level: level, cmsg_type: kind };
        let at = self.out[self.used..].as_mut_ptr();
        // SAFETY: `len` bytes are writable there.
        unsafe {
            at.cast::<cmsghdr>().write_unaligned(head);
            at.add(HEAD).copy_from_nonoverlapping((&raw const value).cast(), len - HEAD);
        }
        self.used += whole.next_multiple_of(ALIGN).min(room);
    }

    /// That it is the kernel that speaks, to whoever wants to know who does (SO_PASSCRED):
    /// `struct ucred` of no process and of root.
    pub(crate) fn credentials_of_kernel(&mut self) {
        self.put(libc::SOL_SOCKET, libc::SCM_CREDENTIALS, [0_u32; 3]);
    }

    /// And to which of its groups: to none (NETLINK_PKTINFO, `struct nl_pktinfo`).
    pub(crate) fn of_no_group(&mut self) {
        self.put(libc::SOL_NETLINK, libc::NETLINK_PKTINFO, 0_u32);
    }

    /// When something came, or, for `sent`, what was sent did something, as this socket wants to
    /// know it. Nothing where nobody has noted it.
    pub(crate) fn stamps(&mut self, ours: &Ours, at: u64, sent: bool) {
        let word = ours.socket.stamping();
        if at == 0 || word == 0 {
            return;
        }
        let [seconds, nanoseconds] = stamps::parts(at);
        let new = word & stamping::NEW != 0;
        if word & stamping::STAMP != 0 {
            let (kind, rest) = match (word & stamping::NANOSECONDS != 0, new) {
                (false, false) => (libc::SO_TIMESTAMP, nanoseconds / 1000),
                (false, true) => (stamps::SO_TIMESTAMP_NEW, nanoseconds / 1000),
                (true, false) => (libc::SO_TIMESTAMPNS, nanoseconds),
                (true, true) => (stamps::SO_TIMESTAMPNS_NEW, nanoseconds),
            };
            self.put(libc::SOL_SOCKET, kind, [seconds, rest]);
        }
        if word & stamping::SOFTWARE != 0 && (sent || word & stamping::RX_SOFTWARE != 0) {
            let kind = if new { stamps::SO_TIMESTAMPING_NEW } else { libc::SO_TIMESTAMPING };
            // The other two are of devices.
            self.put(libc::SOL_SOCKET, kind, [[seconds, nanoseconds], [0; 2], [0; 2]]);
        }
    }

    /// Something that was sent has left, or was acknowledged.
    pub(crate) fn sent(&mut self, ours: &Ours, report: &ErrorReport, stamp: &SentStamp) {
        let v6 = ours.socket.is_v6();
        self.stamps(ours, report.at, true);
        let head = ExtendedError {
            errno: report.errno as u32,
            origin: SO_EE_ORIGIN_TIMESTAMPING,
            kind: 0,
            code: 0,
            pad: 0,
            info: stamp.kind,
            data: stamp.key,
        };
        // By which interface, and from where, goes with the packet only; over IPv6 also where nobody
        // asks by OPT_CMSG.
        let tells = (v6 || ours.socket.stamping() & stamping::OPT_CMSG != 0)
            && stamp.iface != 0
            && !report.payload.is_empty();
        let from = stamp.from.filter(|_| tells);
        if from.is_some() {
            self.went(ours, report, stamp);
        }
        let offender = from.map_or(Offender6([0; 7]), |ip| offender(ip, v6));
        self.extended(head, offender, v6);
    }

    /// IP_PKTINFO and IPV6_PKTINFO of a datagram that has left.
    fn went(&mut self, ours: &Ours, report: &ErrorReport, stamp: &SentStamp) {
        let wants = ours.extra().wants;
        let iface = interfaces::shown(stamp.iface);
        let v4 = |ip: Option<IpAddr>| match ip {
            Some(IpAddr::V4(ip)) => libc::in_addr { s_addr: u32::from(ip).to_be() },
            _ => libc::in_addr { s_addr: 0 },
        };
        if wants.pktinfo6 {
            let to = match report.to.ip() {
                IpAddr::V4(to) => to.to_ipv6_mapped(),
                IpAddr::V6(to) => to,
            };
            let addr = libc::in6_addr { s6_addr: to.octets() };
            let info = in6_pktinfo { ipi6_addr: addr, ipi6_ifindex: iface };
            self.put(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
        }
        let to = report.to.ip().to_canonical();
        if to.is_ipv4() && wants.pktinfo {
            let info = in_pktinfo {
                ipi_ifindex: iface as c_int,
                ipi_spec_dst: v4(stamp.from.map(|from| from.to_canonical())),
                ipi_addr: v4(Some(to)),
            };
            self.put(libc::IPPROTO_IP, libc::IP_PKTINFO, info);
        }
    }

    /// What this socket wants to know of a datagram. What came over IPv4 is told at the level
    /// IPPROTO_IP, by an IPv6 socket too.
    pub(crate) fn datagram(&mut self, ours: &Ours, arrived: &Arrived) {
        let socket = &ours.socket;
        let wants = ours.extra().wants;
        if socket.flag(flags::RXQ_OVFL) && arrived.drops > 0 {
            self.put(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, arrived.drops);
        }
        if arrived.segment_size != 0 {
            self.put(libc::IPPROTO_UDP, libc::UDP_GRO, c_int::from(arrived.segment_size));
        }
        let v4 = arrived.from.ip().to_canonical().is_ipv4();
        if wants.pktinfo6 {
            self.put(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, pktinfo6(arrived));
        }
        if v4 && wants.pktinfo {
            self.put(libc::IPPROTO_IP, libc::IP_PKTINFO, pktinfo(arrived));
        }
        if v4 && wants.ttl {
            self.put(libc::IPPROTO_IP, libc::IP_TTL, c_int::from(arrived.ttl));
        }
        if v4 && wants.tos {
            self.put_byte(libc::IPPROTO_IP, libc::IP_TOS, arrived.tos);
        }
        if !v4 && wants.hop_limit {
            self.put(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, c_int::from(arrived.ttl));
        }
        if !v4 && wants.tclass {
            self.put(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, c_int::from(arrived.tos));
        }
    }

    /// What became of a datagram (IP_RECVERR, IPV6_RECVERR): `struct sock_extended_err`, and who
    /// said so. An IPv6 socket is told of IPv4 with mapped addresses.
    pub(crate) fn error(&mut self, report: &ErrorReport, v6: bool) {
        let origin = match report.offender {
            None => SO_EE_ORIGIN_LOCAL,
            Some(IpAddr::V4(_)) => SO_EE_ORIGIN_ICMP,
            Some(IpAddr::V6(_)) => SO_EE_ORIGIN_ICMP6,
        };
        let head = ExtendedError {
            errno: report.errno as u32,
            origin,
            kind: report.icmp.0,
            code: report.icmp.1,
            pad: 0,
            info: report.mtu,
            data: 0,
        };
        // All-zero is AF_UNSPEC, as which Linux gives the offender of an error of its own.
        let offender = report.offender.map_or(Offender6([0; 7]), |ip| offender(ip, v6));
        self.extended(head, offender, v6);
    }

    fn extended(&mut self, head: ExtendedError, offender: Offender6, v6: bool) {
        if v6 {
            self.put(libc::IPPROTO_IPV6, libc::IPV6_RECVERR, Told(head, offender));
        } else {
            let Offender6(words) = offender;
            self.put(
                libc::IPPROTO_IP,
                libc::IP_RECVERR,
                Told(head, [words[0], words[1], words[2], words[3]]),
            );
        }
    }

    /// TCP_INQ: what is left to be read.
    pub(crate) fn inq(&mut self, bytes: usize) {
        self.put(libc::IPPROTO_TCP, TCP_INQ, c_int::try_from(bytes).unwrap_or(c_int::MAX));
    }

    /// These sends with MSG_ZEROCOPY are done, and their bytes were copied.
    pub(crate) fn zero_copy(&mut self, (first, last): (u32, u32), v6: bool) {
        let head = ExtendedError {
            errno: 0,
            origin: SO_EE_ORIGIN_ZEROCOPY,
            kind: 0,
            code: SO_EE_CODE_ZEROCOPY_COPIED,
            pad: 0,
            info: first,
            data: last,
        };
        if v6 {
            self.put(libc::IPPROTO_IPV6, libc::IPV6_RECVERR, Told(head, Offender6([0; 7])));
        } else {
            self.put(libc::IPPROTO_IP, libc::IP_RECVERR, Told(head, [0; 4]));
        }
    }

    fn put_byte(&mut self, level: c_int, kind: c_int, value: u8) {
        self.put(level, kind, Byte(value));
    }
}

/// `struct sock_extended_err` of `linux/errqueue.h`.
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(dead_code, reason = "only written to the program's memory")]
struct ExtendedError {
    errno: u32,
    origin: u8,
    kind: u8,
    code: u8,
    pad: u8,
    info: u32,
    data: u32,
}

/// A `sockaddr_in6`, or a `sockaddr_in` in its first four words.
#[derive(Clone, Copy)]
#[repr(C)]
struct Offender6([u32; 7]);

const SO_EE_ORIGIN_LOCAL: u8 = 1;
const SO_EE_ORIGIN_ICMP: u8 = 2;
const SO_EE_ORIGIN_ICMP6: u8 = 3;
const SO_EE_ORIGIN_TIMESTAMPING: u8 = 4;
const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;

/// An address, as a socket of this family writes it.
fn offender(ip: IpAddr, v6: bool) -> Offender6 {
    let mut offender = Offender6([0; 7]);
    let (raw, len) = addr::Raw::new((ip, 0).into(), v6);
    // SAFETY: `len` bytes are readable there, and an address of either family fits.
    unsafe {
        std::ptr::copy_nonoverlapping(
            raw.as_ptr().cast::<u8>(),
            (&raw mut offender).cast(),
            len as usize,
        )
    };
    offender
}

/// An error, and who told of it.
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(dead_code, reason = "only written to the program's memory")]
struct Told<T>(ExtendedError, T);
impl Plain for Told<Offender6> {}
impl Plain for Told<[u32; 4]> {}

/// One byte: IP_TOS is the only message that is so short.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Byte(#[allow(dead_code, reason = "only written to the program's memory")] u8);
impl Plain for Byte {}

fn pktinfo(arrived: &Arrived) -> in_pktinfo {
    let to = match arrived.to.map(|to| to.to_canonical()) {
        Some(IpAddr::V4(to)) => u32::from(to).to_be(),
        _ => 0,
    };
    let addr = libc::in_addr { s_addr: to };
    in_pktinfo {
        ipi_ifindex: interfaces::shown(arrived.iface) as c_int,
        ipi_spec_dst: addr,
        ipi_addr: addr,
    }
}

fn pktinfo6(arrived: &Arrived) -> in6_pktinfo {
    let to = match arrived.to {
        Some(IpAddr::V4(to)) => to.to_ipv6_mapped(),
        Some(IpAddr::V6(to)) => to,
        None => Ipv6Addr::UNSPECIFIED,
    };
    in6_pktinfo {
        ipi6_addr: libc::in6_addr { s6_addr: to.octets() },
        ipi6_ifindex: interfaces::shown(arrived.iface),
    }
}
