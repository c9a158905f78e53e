//! Socket options by Linux's names and numbers, and what becomes of each.

use crate::values::{Field, SocketOptions};

/// An error by Linux's number.
pub type Errno = i32;

const EINVAL: Errno = 22;
const ENOPROTOOPT: Errno = 92;

/// The protocol that an option belongs to, by its number in C.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Level {
    /// IPPROTO_IP.
    Ip = 0,
    /// SOL_SOCKET.
    Socket = 1,
    /// IPPROTO_TCP.
    Tcp = 6,
    /// IPPROTO_UDP.
    Udp = 17,
    /// IPPROTO_IPV6.
    Ipv6 = 41,
}

impl Level {
    /// Its name in C.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Ip => "IPPROTO_IP",
            Level::Socket => "SOL_SOCKET",
            Level::Tcp => "IPPROTO_TCP",
            Level::Udp => "IPPROTO_UDP",
            Level::Ipv6 => "IPPROTO_IPV6",
        }
    }
}

/// What an option does to a socket of Clearway.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// Every number but 0 switches the field on.
    Flag(Field),
    /// The field has the number, which must be in these bounds.
    Number {
        /// The field.
        field: Field,
        /// The least.
        low: i32,
        /// The largest.
        high: i32,
        /// A number outside of the bounds, and what it stands for.
        or: Option<(i32, i32)>,
    },
    /// The field has it, by a rule or in a shape of its own.
    Shaped(Field),
    /// It is the program's side that keeps or does it.
    Own,
    /// `getsockopt` tells this number, and it cannot be set.
    Told(i32),
    /// It may be switched off, which it is.
    OffOnly,
    /// Unknown to a socket of Clearway.
    Absent,
}

/// What becomes of a socket of the kernel's that an option was set on, when it would become
/// Clearway's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Going {
    /// It is set again, and has to succeed.
    Along,
    /// It is set again, and left out if that fails: a connection does the same without it.
    Tunes,
    /// The option makes it a different socket: it stays with the kernel, which has that.
    Stays,
}

/// A socket option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketOption {
    /// Its name in C, which is its word in scripts as well.
    pub name: &'static str,
    /// Its level.
    pub level: Level,
    /// Its number in C.
    pub number: i32,
    /// What it does.
    pub how: How,
    /// What becomes of a socket of the kernel's that has it.
    pub going: Going,
    /// What it does, for `docs/preload.md`; empty for one that is unknown to a socket of Clearway.
    pub does: &'static str,
}

use Field as F;
use Going::{Along, Stays, Tunes};
use How::{Absent, Flag, OffOnly, Own, Shaped, Told};
use Level::{Ip, Ipv6, Socket, Tcp, Udp};

const fn number(field: Field, low: i32, high: i32) -> How {
    How::Number { field, low, high, or: None }
}

const fn number_or(field: Field, low: i32, high: i32, special: i32, stands_for: i32) -> How {
    How::Number { field, low, high, or: Some((special, stands_for)) }
}

const fn row(
    level: Level,
    number: i32,
    name: &'static str,
    how: How,
    going: Going,
    does: &'static str,
) -> SocketOption {
    SocketOption { name, level, number, how, going, does }
}

/// Bounds that Linux has (`include/net/tcp.h`): MAX_TCP_KEEPIDLE and MAX_TCP_KEEPINTVL,
/// MAX_TCP_KEEPCNT, TCP_MIN_MSS, MAX_TCP_WINDOW.
const LONGEST_KEEP: i32 = 32767;
const MOST_KEEPS: i32 = 127;
const LEAST_SEGMENT: i32 = 88;
const LARGEST_SEGMENT: i32 = 32767;

const AS_LINUX: &str = "as on Linux";
const BY_STACK: &str = "done by the stack";
const BY_STACK_IN_BOUNDS: &str = "done by the stack, in Linux's bounds";
const BUFFERS: &str = "decide the size of the session's FIFOs when set before `connect` or \
    `listen`; told doubled, as Linux does. \
     Of a connection SO_SNDBUF bounds what this process leaves in its FIFO, and SO_RCVBUF what the \
     peer is offered, up to the sizes that these have; what was offered before is not taken back";
const DONE: &str = "done";
const BROADCAST: &str = "without it a datagram to 255.255.255.255 is EACCES; one to all of a subnet (10.0.0.255) leaves, \
    which Linux refuses too";
const KEPT: &str = "kept and told; nothing in the stack depends on them";
const OFF: &str = "off only";
const TOLD: &str = "told, not set";
const CONTROL: &str = "control messages with each datagram";
const ZERO_COPY: &str = "MSG_ZEROCOPY is taken, on streams and datagrams. Bytes are copied, and \
    completions on the error queue say so \
     (SO_EE_CODE_ZEROCOPY_COPIED): at once, as one range, to the process that sent";
const DISCOVER: &str = "of a datagram socket all six, as on Linux: DO, PROBE and INTERFACE refuse \
    what is longer than the path (the last \
     two: the first link) takes with EMSGSIZE, the others cut it; WANT, DO and PROBE set DF in \
     what leaves whole. Never set it is told as WANT, and DF is not \
     set. Of a stream WANT and DO; others ENOPROTOOPT";
const STAMPS: &str = "when the worker took the packet from its port, as a control message; of a \
    stream for the last byte that was read";
const STAMPING: &str = "software stamps: RX_SOFTWARE, TX_SCHED, TX_SOFTWARE and TX_ACK with \
    SOFTWARE, OPT_ID, OPT_ID_TCP, OPT_TSONLY, OPT_CMSG, and SO_TIMESTAMPING and SCM_TS_OPT_ID \
    beside a send. Flags for hardware are taken, and no stamp comes of them; OPT_STATS and \
    BIND_PHC are EOPNOTSUPP. See below";
const ERRORS: &str = "of a datagram socket: errors are kept one by one, also without a peer, for \
    `recvmsg` with MSG_ERRQUEUE, with POLLERR \
     while there are any: 16 of them, 8 KiB of what they quote; what is beyond is only SO_ERROR. \
     Of a stream it is told as it was set, and the calls tell the errors";
const EARLY: &str = "done by the stack (RFC 7413) as far as `fast-open` below `[tcp]` of the \
    host's configuration lets it; else connections are as ever";
const UNTUNED: &str =
    "told as Linux tells it of a socket that it was never set on; it cannot be set";
const GROUPS: &str =
    "done by the stack (IGMPv3, MLDv2), see below; whole filters (IP_MSFILTER) ENOPROTOOPT";
const AS_V4: &str = "as for IPv4";
const AS_V4_ONE: &str = "as for IPv4; a socket has one value for both families";

/// Every option that is done, told or known by name. Rows that do the same stand together: they are
/// one row in `docs/preload.md`.
#[rustfmt::skip]
pub const OPTIONS: &[SocketOption] = &[
    row(Socket, 4,  "SO_ERROR",         Own,                   Along, AS_LINUX),
    row(Socket, 3,  "SO_TYPE",          Own,                   Along, AS_LINUX),
    row(Socket, 38, "SO_PROTOCOL",      Own,                   Along, AS_LINUX),
    row(Socket, 39, "SO_DOMAIN",        Own,                   Along, AS_LINUX),
    row(Socket, 30, "SO_ACCEPTCONN",    Own,                   Along, AS_LINUX),
    row(Socket, 17, "SO_PEERCRED",      Own,                   Along, AS_LINUX),
    row(Socket, 19, "SO_SNDLOWAT",      Told(1),               Along, AS_LINUX),
    row(Socket, 56, "SO_INCOMING_NAPI_ID", Told(0),            Along, UNTUNED),
    row(Socket, 49, "SO_INCOMING_CPU",  Told(-1),              Tunes, UNTUNED),
    row(Socket, 74, "SO_TXREHASH",      Told(1),               Tunes, UNTUNED),
    row(Socket, 42, "SO_PEEK_OFF",      Told(-1),              Stays, UNTUNED),
    row(Socket, 2,  "SO_REUSEADDR",     Flag(F::ReuseAddress), Along, BY_STACK),
    row(Socket, 15, "SO_REUSEPORT",     Flag(F::ReusePort),    Along, BY_STACK),
    row(Socket, 9,  "SO_KEEPALIVE",     Flag(F::Keepalive),    Along, BY_STACK),
    row(Socket, 13, "SO_LINGER",        Shaped(F::Linger),     Along, BY_STACK),
    row(Socket, 10, "SO_OOBINLINE",     Flag(F::OobInline),    Along, BY_STACK),
    row(Socket, 47, "SO_MAX_PACING_RATE", Shaped(F::MaxPacingRate), Along, BY_STACK),
    row(Socket, 8,  "SO_RCVBUF",        Shaped(F::ReceiveBuffer), Along, BUFFERS),
    row(Socket, 33, "SO_RCVBUFFORCE",   Shaped(F::ReceiveBuffer), Along, BUFFERS),
    row(Socket, 7,  "SO_SNDBUF",        Shaped(F::SendBuffer), Along, BUFFERS),
    row(Socket, 32, "SO_SNDBUFFORCE",   Shaped(F::SendBuffer), Along, BUFFERS),
    row(Socket, 20, "SO_RCVTIMEO",      Own,                   Along, DONE),
    row(Socket, 21, "SO_SNDTIMEO",      Own,                   Along, DONE),
    row(Socket, 40, "SO_RXQ_OVFL",      Own,                   Along,
        "datagrams lost for want of room come as a control message"),
    row(Socket, 6,  "SO_BROADCAST",     Own,                   Along, BROADCAST),
    row(Socket, 12, "SO_PRIORITY",      Own,                   Along, KEPT),
    row(Socket, 46, "SO_BUSY_POLL",     Own,                   Along, KEPT),
    row(Socket, 18, "SO_RCVLOWAT",      Own,                   Along,
        "of a stream, up to half of its receive FIFO. It is this process's, and its children's"),
    row(Socket, 60, "SO_ZEROCOPY",      Own,                   Along, ZERO_COPY),
    row(Socket, 55, "SO_MEMINFO",       Own,                   Along, "bytes that were received \
        and not read, that were written and not acknowledged, their bounds, and drops; the \
        rest is 0"),
    row(Socket, 1,  "SO_DEBUG",         OffOnly,               Tunes, OFF),
    row(Socket, 5,  "SO_DONTROUTE",     OffOnly,               Stays, OFF),
    row(Socket, 36, "SO_MARK",          OffOnly,               Stays, OFF),
    row(Socket, 75, "SO_RCVMARK",       OffOnly,               Stays, OFF),
    row(Socket, 62, "SO_BINDTOIFINDEX", OffOnly,               Stays, OFF),
    row(Socket, 44, "SO_LOCK_FILTER",   OffOnly,               Stays, OFF),
    row(Socket, 45, "SO_SELECT_ERR_QUEUE", OffOnly,            Stays, OFF),
    row(Socket, 69, "SO_PREFER_BUSY_POLL", OffOnly,            Tunes, OFF),
    row(Socket, 72, "SO_BUF_LOCK",      OffOnly,               Tunes, OFF),
    row(Socket, 73, "SO_RESERVE_MEM",   OffOnly,               Tunes, OFF),
    row(Socket, 29, "SO_TIMESTAMP",     Shaped(F::Timestamping), Along, STAMPS),
    row(Socket, 63, "SO_TIMESTAMP_NEW", Shaped(F::Timestamping), Along, STAMPS),
    row(Socket, 35, "SO_TIMESTAMPNS",   Shaped(F::Timestamping), Along, STAMPS),
    row(Socket, 64, "SO_TIMESTAMPNS_NEW", Shaped(F::Timestamping), Along, STAMPS),
    row(Socket, 37, "SO_TIMESTAMPING",  Shaped(F::Timestamping), Along, STAMPING),
    row(Socket, 65, "SO_TIMESTAMPING_NEW", Shaped(F::Timestamping), Along, STAMPING),
    row(Socket, 25, "SO_BINDTODEVICE",  Own,                   Stays, "to the interface of the \
        namespace, where that has one alone: a socket that was not decided is Clearway's by it. \
        ENOPROTOOPT where it has several, ENODEV for a name that is none's"),
    row(Socket, 70, "SO_BUSY_POLL_BUDGET", Absent,             Tunes, ""),
    row(Socket, 26, "SO_ATTACH_FILTER", Absent,                Stays, ""),
    row(Socket, 50, "SO_ATTACH_BPF",    Absent,                Stays, ""),
    row(Socket, 51, "SO_ATTACH_REUSEPORT_CBPF", Absent,        Stays, ""),
    row(Socket, 52, "SO_ATTACH_REUSEPORT_EBPF", Absent,        Stays, ""),
    row(Socket, 61, "SO_TXTIME",        Absent,                Stays, ""),
    row(Socket, 71, "SO_NETNS_COOKIE",  Absent,                Stays, ""),

    row(Tcp, 1,  "TCP_NODELAY",         Flag(F::Nodelay),      Along, BY_STACK_IN_BOUNDS),
    row(Tcp, 3,  "TCP_CORK",            Flag(F::Cork),         Along, BY_STACK_IN_BOUNDS),
    row(Tcp, 12, "TCP_QUICKACK",        Flag(F::QuickAck),     Along, BY_STACK_IN_BOUNDS),
    row(Tcp, 2,  "TCP_MAXSEG",          number_or(F::MaxSegment, LEAST_SEGMENT, LARGEST_SEGMENT, 0,
        0), Along, BY_STACK_IN_BOUNDS),
    row(Tcp, 4,  "TCP_KEEPIDLE",        number(F::KeepIdle, 1, LONGEST_KEEP),     Along,
        BY_STACK_IN_BOUNDS),
    row(Tcp, 5,  "TCP_KEEPINTVL",       number(F::KeepInterval, 1, LONGEST_KEEP), Along,
        BY_STACK_IN_BOUNDS),
    row(Tcp, 6,  "TCP_KEEPCNT",         number(F::KeepCount, 1, MOST_KEEPS),      Along,
        BY_STACK_IN_BOUNDS),
    row(Tcp, 18, "TCP_USER_TIMEOUT",    number(F::UserTimeout, 0, i32::MAX),      Along,
        BY_STACK_IN_BOUNDS),
    row(Tcp, 9,  "TCP_DEFER_ACCEPT",    Shaped(F::DeferAccept), Along, BY_STACK_IN_BOUNDS),
    row(Tcp, 13, "TCP_CONGESTION",      Shaped(F::Congestion), Tunes,
        "reno, cubic, bbr, bbr1, prague; others are ENOENT"),
    row(Tcp, 11, "TCP_INFO",            Own,                   Along, "all fields that the stack \
        knows, in the layout of Linux 6; as much as the caller has room for"),
    row(Tcp, 7,  "TCP_SYNCNT",          Shaped(F::SynCount),   Along, BY_STACK_IN_BOUNDS),
    row(Tcp, 8,  "TCP_LINGER2",         Shaped(F::FinWait2),   Along, BY_STACK_IN_BOUNDS),
    row(Tcp, 10, "TCP_WINDOW_CLAMP",    Shaped(F::WindowClamp), Along,
        "what the peer is offered at most, but for 64 KiB that it is offered anyway"),
    row(Tcp, 16, "TCP_THIN_LINEAR_TIMEOUTS", Shaped(F::LinearTimeouts), Along, "done by the stack: \
        of fewer than four segments in flight the first six timeouts do not double"),
    row(Tcp, 23, "TCP_FASTOPEN",        Shaped(F::FastOpen),   Along, EARLY),
    row(Tcp, 30, "TCP_FASTOPEN_CONNECT", Shaped(F::FastOpenConnect), Along, EARLY),
    row(Tcp, 34, "TCP_FASTOPEN_NO_COOKIE", Shaped(F::FastOpenNoCookie), Along, EARLY),
    row(Tcp, 33, "TCP_FASTOPEN_KEY",    Shaped(F::FastOpenKeyCount), Along, "the keys of a \
        listener's cookies, the present one and the one before, as on Linux"),
    row(Tcp, 25, "TCP_NOTSENT_LOWAT",   Shaped(F::NotsentLowat), Along, "bytes that may be written \
        and not sent, 16 KiB at least; the socket is writable below half of it"),
    row(Tcp, 17, "TCP_THIN_DUPACK",     Own,                   Tunes, "does nothing, as on Linux"),
    row(Tcp, 26, "TCP_CC_INFO",         Own,                   Along,
        "for bbr its rate, round trip and gains; empty for others, as on Linux for reno and cubic"),
    row(Tcp, 36, "TCP_INQ",             Own,                   Along,
        "what is left to be read comes as a control message"),
    row(Tcp, 27, "TCP_SAVE_SYN",        OffOnly,               Tunes, OFF),
    row(Tcp, 14, "TCP_MD5SIG",          Absent,                Stays, ""),
    row(Tcp, 31, "TCP_ULP",             Absent,                Stays, ""),
    row(Tcp, 19, "TCP_REPAIR",          Absent,                Stays, ""),

    row(Ip, 1,  "IP_TOS",               Shaped(F::Tos),        Along,
        "done; a stream's ECN bits are its own"),
    row(Ip, 2,  "IP_TTL",               number_or(F::Ttl, 1, 255, -1, 64), Along,
        "done; a stream's ECN bits are its own"),
    row(Ip, 8,  "IP_PKTINFO",           Own,                   Along, CONTROL),
    row(Ip, 13, "IP_RECVTOS",           Own,                   Along, CONTROL),
    row(Ip, 12, "IP_RECVTTL",           Own,                   Along, CONTROL),
    row(Ip, 10, "IP_MTU_DISCOVER",      Shaped(F::Discover4),  Tunes, DISCOVER),
    row(Ip, 14, "IP_MTU",               Own,                   Along, "of a connected socket"),
    row(Ip, 11, "IP_RECVERR",           Shaped(F::ReceiveErrors), Tunes, ERRORS),
    row(Ip, 35, "IP_ADD_MEMBERSHIP",    Own,                   Stays, GROUPS),
    row(Ip, 36, "IP_DROP_MEMBERSHIP",   Own,                   Along, GROUPS),
    row(Ip, 39, "IP_ADD_SOURCE_MEMBERSHIP", Own,               Stays, GROUPS),
    row(Ip, 40, "IP_DROP_SOURCE_MEMBERSHIP", Own,              Along, GROUPS),
    row(Ip, 38, "IP_BLOCK_SOURCE",      Own,                   Along, GROUPS),
    row(Ip, 37, "IP_UNBLOCK_SOURCE",    Own,                   Along, GROUPS),
    row(Ip, 42, "MCAST_JOIN_GROUP",     Own,                   Stays, GROUPS),
    row(Ip, 45, "MCAST_LEAVE_GROUP",    Own,                   Along, GROUPS),
    row(Ip, 46, "MCAST_JOIN_SOURCE_GROUP", Own,                Along, GROUPS),
    row(Ip, 47, "MCAST_LEAVE_SOURCE_GROUP", Own,               Along, GROUPS),
    row(Ip, 43, "MCAST_BLOCK_SOURCE",   Own,                   Along, GROUPS),
    row(Ip, 44, "MCAST_UNBLOCK_SOURCE", Own,                   Along, GROUPS),
    row(Ip, 32, "IP_MULTICAST_IF",      Shaped(F::MulticastIface), Stays, DONE),
    row(Ip, 33, "IP_MULTICAST_TTL",     Shaped(F::MulticastTtl), Tunes, DONE),
    row(Ip, 34, "IP_MULTICAST_LOOP",    Shaped(F::MulticastLoop), Tunes, DONE),
    row(Ip, 49, "IP_MULTICAST_ALL",     Shaped(F::MulticastAll), Along, DONE),
    row(Ip, 24, "IP_BIND_ADDRESS_NO_PORT", Flag(F::BindAddressNoPort), Along, "a stream that binds \
        to port 0 gets its port when it connects: one that is free towards that peer"),
    row(Ip, 15, "IP_FREEBIND",          OffOnly,               Tunes, OFF),
    row(Ip, 19, "IP_TRANSPARENT",       OffOnly,               Stays, OFF),
    row(Ip, 20, "IP_RECVORIGDSTADDR",   OffOnly,               Stays, OFF),
    row(Ip, 6,  "IP_RECVOPTS",          OffOnly,               Along, OFF),
    row(Ip, 3,  "IP_HDRINCL",           OffOnly,               Along, OFF),
    row(Ip, 4,  "IP_OPTIONS",           Absent,                Stays, ""),

    row(Ipv6, 26, "IPV6_V6ONLY",        Shaped(F::V6Only),     Along, "before `bind`"),
    row(Ipv6, 67, "IPV6_TCLASS",        number_or(F::Tos, 0, 255, -1, 0), Along, AS_V4),
    row(Ipv6, 16, "IPV6_UNICAST_HOPS",  number_or(F::Ttl, 0, 255, -1, 64), Along, AS_V4),
    row(Ipv6, 49, "IPV6_RECVPKTINFO",   Own,                   Along, AS_V4),
    row(Ipv6, 66, "IPV6_RECVTCLASS",    Own,                   Along, AS_V4),
    row(Ipv6, 51, "IPV6_RECVHOPLIMIT",  Own,                   Along, AS_V4),
    row(Ipv6, 23, "IPV6_MTU_DISCOVER",  Shaped(F::Discover6),  Tunes, AS_V4),
    row(Ipv6, 25, "IPV6_RECVERR",       Shaped(F::ReceiveErrors), Tunes, AS_V4),
    row(Ipv6, 62, "IPV6_DONTFRAG",      Flag(F::DontFragment6), Along,
        "datagrams that are longer than the path takes are EMSGSIZE"),
    row(Ipv6, 24, "IPV6_MTU",           Shaped(F::Mtu),        Along, "told of a connected socket; \
        set, packets are no longer than it says: datagrams leave in fragments, segments are shorter"),
    row(Ipv6, 20, "IPV6_JOIN_GROUP",    Own,                   Stays, AS_V4_ONE),
    row(Ipv6, 21, "IPV6_LEAVE_GROUP",   Own,                   Along, AS_V4_ONE),
    row(Ipv6, 42, "MCAST_JOIN_GROUP",   Own,                   Stays, AS_V4_ONE),
    row(Ipv6, 45, "MCAST_LEAVE_GROUP",  Own,                   Along, AS_V4_ONE),
    row(Ipv6, 46, "MCAST_JOIN_SOURCE_GROUP", Own,              Along, AS_V4_ONE),
    row(Ipv6, 47, "MCAST_LEAVE_SOURCE_GROUP", Own,             Along, AS_V4_ONE),
    row(Ipv6, 43, "MCAST_BLOCK_SOURCE", Own,                   Along, AS_V4_ONE),
    row(Ipv6, 44, "MCAST_UNBLOCK_SOURCE", Own,                 Along, AS_V4_ONE),
    row(Ipv6, 17, "IPV6_MULTICAST_IF",  Shaped(F::MulticastIface), Stays, AS_V4_ONE),
    row(Ipv6, 18, "IPV6_MULTICAST_HOPS", Shaped(F::MulticastTtl), Tunes, AS_V4_ONE),
    row(Ipv6, 19, "IPV6_MULTICAST_LOOP", Shaped(F::MulticastLoop), Tunes, AS_V4_ONE),
    row(Ipv6, 29, "IPV6_MULTICAST_ALL", Shaped(F::MulticastAll), Along, AS_V4_ONE),
    row(Ipv6, 75, "IPV6_TRANSPARENT",   OffOnly,               Stays, OFF),
    row(Ipv6, 78, "IPV6_FREEBIND",      OffOnly,               Along, OFF),
    row(Ipv6, 33, "IPV6_FLOWINFO_SEND", OffOnly,               Tunes, OFF),
    row(Ipv6, 70, "IPV6_AUTOFLOWLABEL", Told(0),               Tunes, TOLD),
    row(Ipv6, 72, "IPV6_ADDR_PREFERENCES", Absent,             Tunes, ""),

    row(Udp, 103, "UDP_SEGMENT",        Own,                   Along,
        "several datagrams in one call"),
    row(Udp, 104, "UDP_GRO",            Own,                   Along,
        "several datagrams in one call"),
    row(Udp, 1,   "UDP_CORK",           OffOnly,               Stays, OFF),
    row(Udp, 101, "UDP_NO_CHECK6_TX",   OffOnly,               Along, OFF),
    row(Udp, 102, "UDP_NO_CHECK6_RX",   OffOnly,               Along, OFF),
    row(Udp, 100, "UDP_ENCAP",          OffOnly,               Stays, OFF),
];

impl SocketOption {
    /// The option of that level and number in C.
    pub fn of(level: i32, number: i32) -> Option<&'static SocketOption> {
        OPTIONS.iter().find(|option| (option.level as i32, option.number) == (level, number))
    }

    /// The option of that name in C. Options for groups (`MCAST_…`) have one name at two levels:
    /// the first is IPv4's.
    pub fn named(name: &str) -> Option<&'static SocketOption> {
        OPTIONS.iter().find(|option| option.name == name)
    }

    /// The field that holds it.
    pub fn field(&self) -> Option<Field> {
        match self.how {
            How::Flag(field) | How::Number { field, .. } | How::Shaped(field) => Some(field),
            How::Own | How::Told(_) | How::OffOnly | How::Absent => None,
        }
    }

    /// Sets it to a number, as `setsockopt` does. What has a rule of its own is the caller's to do
    /// first.
    ///
    /// # Errors
    /// EINVAL outside of its bounds; ENOPROTOOPT for what cannot be set by a number.
    pub fn set(&self, options: &mut SocketOptions, number: i32) -> Result<(), Errno> {
        let (field, value) = match self.how {
            How::Flag(field) => (field, i32::from(number != 0)),
            How::Number { field, or: Some((special, stands_for)), .. } if number == special => {
                (field, stands_for)
            }
            How::Number { field, low, high, .. } if (low..=high).contains(&number) => {
                (field, number)
            }
            How::Number { .. } => return Err(EINVAL),
            How::OffOnly if number == 0 => return Ok(()),
            How::Shaped(_) | How::Own | How::Told(_) | How::OffOnly | How::Absent => {
                return Err(ENOPROTOOPT);
            }
        };
        let value = u64::try_from(value).map_err(|_| EINVAL)?;
        if options.put(field, value) { Ok(()) } else { Err(EINVAL) }
    }

    /// The number that `getsockopt` tells. What has a rule of its own is the caller's to do first.
    ///
    /// # Errors
    /// ENOPROTOOPT for what is not a number or not known.
    pub fn get(&self, options: &SocketOptions) -> Result<i32, Errno> {
        match self.how {
            How::Flag(field) | How::Number { field, .. } => {
                Ok(i32::try_from(options.get(field)).unwrap_or(i32::MAX))
            }
            How::Told(number) => Ok(number),
            How::OffOnly => Ok(0),
            How::Shaped(_) | How::Own | How::Absent => Err(ENOPROTOOPT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_options_are_one() {
        for (at, option) in OPTIONS.iter().enumerate() {
            let same = |other: &&SocketOption| {
                (other.level, other.number) == (option.level, option.number)
            };
            assert!(!OPTIONS[..at].iter().any(|other| same(&other)), "{}", option.name);
            let known = option.name.starts_with("MCAST_")
                || SocketOption::named(option.name).is_some_and(|o| same(&o));
            assert!(known, "two options are called {}", option.name);
        }
    }

    #[test]
    fn every_field_has_an_option() {
        // The option of the keys goes as several numbers, and is named by how many keys there are.
        let named_by = |field| match field {
            Field::FastOpenKeyLow
            | Field::FastOpenKeyHigh
            | Field::FastOpenOldKeyLow
            | Field::FastOpenOldKeyHigh => Field::FastOpenKeyCount,
            // An address names the interface, and is the source as well.
            Field::MulticastSource => Field::MulticastIface,
            field => field,
        };
        for &field in Field::ALL {
            let name = named_by(field);
            assert!(OPTIONS.iter().any(|option| option.field() == Some(name)), "{field:?}");
        }
    }

    #[test]
    fn what_is_known_says_what_it_does_and_what_is_unknown_does_not() {
        for option in OPTIONS {
            assert_eq!(
                option.does.is_empty(),
                matches!(option.how, How::Absent),
                "{}",
                option.name
            );
        }
    }

    #[test]
    fn numbers_are_held_to_their_bounds_and_come_back() {
        for option in OPTIONS {
            let mut options = SocketOptions::default();
            match option.how {
                How::Flag(_) => {
                    for (number, told) in [(5, 1), (0, 0), (-1, 1)] {
                        assert_eq!(option.set(&mut options, number), Ok(()), "{}", option.name);
                        assert_eq!(option.get(&options), Ok(told), "{}", option.name);
                    }
                }
                How::Number { low, high, or, .. } => {
                    for number in [low, high] {
                        assert_eq!(option.set(&mut options, number), Ok(()), "{}", option.name);
                        assert_eq!(option.get(&options), Ok(number), "{}", option.name);
                    }
                    for number in [low.wrapping_sub(1), high.wrapping_add(1)] {
                        let special = or.filter(|(special, _)| *special == number);
                        assert_eq!(
                            option.set(&mut options, number),
                            special.map(|_| ()).ok_or(EINVAL),
                            "{}",
                            option.name
                        );
                    }
                }
                How::OffOnly => {
                    assert_eq!(
                        (option.set(&mut options, 0), option.set(&mut options, 1)),
                        (Ok(()), Err(ENOPROTOOPT))
                    );
                    assert_eq!(option.get(&options), Ok(0));
                }
                How::Told(number) => {
                    assert_eq!(
                        (option.set(&mut options, number), option.get(&options)),
                        (Err(ENOPROTOOPT), Ok(number))
                    );
                }
                How::Shaped(_) | How::Own | How::Absent => {
                    assert_eq!(option.set(&mut options, 0), Err(ENOPROTOOPT), "{}", option.name);
                }
            }
        }
    }
}
