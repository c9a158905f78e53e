//! What the stack answers, in Linux's numbers and in a sentence.

use clearway_proto::{BindError, ConnectError, Failure, ListenError, UdpError, Unreachable};
use nix::errno::Errno;

/// Why a request was not granted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// As Linux would say it.
    pub errno: Errno,
    /// A sentence for people.
    pub why: String,
}

/// A refusal in one line.
pub fn refuse(errno: Errno, why: impl Into<String>) -> Refusal {
    Refusal { errno, why: why.into() }
}

impl From<ListenError> for Refusal {
    fn from(error: ListenError) -> Refusal {
        let errno = match error {
            ListenError::InUse | ListenError::NoPorts => Errno::EADDRINUSE,
            ListenError::TooMany => Errno::ENOBUFS,
            ListenError::BadAddress => Errno::EADDRNOTAVAIL,
            ListenError::NoReservation => Errno::EBADF,
            ListenError::NotSupported => Errno::EOPNOTSUPP,
        };
        refuse(errno, error.to_string())
    }
}

impl From<BindError> for Refusal {
    fn from(error: BindError) -> Refusal {
        let errno = match error {
            BindError::InUse | BindError::NoPorts => Errno::EADDRINUSE,
            BindError::TooMany => Errno::ENOBUFS,
            BindError::BadAddress => Errno::EADDRNOTAVAIL,
        };
        refuse(errno, error.to_string())
    }
}

impl From<ConnectError> for Refusal {
    fn from(error: ConnectError) -> Refusal {
        let errno = match error {
            ConnectError::NoRoute | ConnectError::BadAddress => Errno::ENETUNREACH,
            ConnectError::InUse | ConnectError::NoPorts => Errno::EADDRNOTAVAIL,
            ConnectError::TooMany | ConnectError::NoMemory => Errno::ENOBUFS,
            ConnectError::NoReservation => Errno::EBADF,
            ConnectError::NotSupported => Errno::EOPNOTSUPP,
        };
        refuse(errno, error.to_string())
    }
}

impl From<UdpError> for Refusal {
    fn from(error: UdpError) -> Refusal {
        let (errno, why) = match error {
            UdpError::Stale => (Errno::EBADF, "the socket is gone"),
            UdpError::InUse => (Errno::EADDRINUSE, "another socket has this address and port"),
            UdpError::TooMany => {
                (Errno::ENOBUFS, "all places for UDP sockets are taken; raise limits.udp_sockets")
            }
            UdpError::NoPorts => {
                (Errno::EADDRINUSE, "no ephemeral port is free; widen tcp.ephemeral_ports")
            }
            UdpError::BadAddress => {
                (Errno::EADDRNOTAVAIL, "not an address of the namespace, or nobody's")
            }
            UdpError::NoRoute => {
                (Errno::ENETUNREACH, "no route or no source address to the peer; add one")
            }
            UdpError::Full => (Errno::EAGAIN, "the queue is full"),
            UdpError::BadSegmentSize => (
                Errno::EINVAL,
                "too many segments in one send, or segments longer than the way takes",
            ),
            UdpError::TooLong => (Errno::EMSGSIZE, "longer than a datagram can be"),
        };
        refuse(errno, why)
    }
}

/// The error of a connection that failed.
pub fn of_failure(failure: Failure) -> Errno {
    match failure {
        Failure::Reset => Errno::ECONNRESET,
        Failure::Refused => Errno::ECONNREFUSED,
        // Linux, too, ends with this number what it has no memory to go on with
        // (tcp_out_of_resources).
        Failure::TimedOut
        | Failure::UserTimeout
        | Failure::KeepaliveTimedOut
        | Failure::NoMemory => Errno::ETIMEDOUT,
        Failure::Unreachable(why) => of_unreachable(why),
        Failure::Broken | Failure::Killed => Errno::ECONNABORTED,
    }
}

/// The error that an ICMP error becomes (RFC 1122 4.2.3.9, with Linux's choice of numbers).
pub fn of_unreachable(why: Unreachable) -> Errno {
    match why {
        Unreachable::Network => Errno::ENETUNREACH,
        Unreachable::Host | Unreachable::TimeExceeded => Errno::EHOSTUNREACH,
        Unreachable::Protocol => Errno::ENOPROTOOPT,
        Unreachable::Port => Errno::ECONNREFUSED,
        Unreachable::Prohibited => Errno::EACCES,
        Unreachable::Parameter => Errno::EPROTO,
    }
}
