//! What a verb may answer instead of doing its work: one small enum per verb, and why a connection
//! failed.

use core::fmt;

/// Why a connection failed. It is told with [`crate::ConnEvents::FAILED`] and stays readable until
/// the owner closes the handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The peer reset the connection (RFC 9293 3.10.7.4, step 2).
    Reset,
    /// The peer answered our SYN with a reset: nobody listens there.
    Refused,
    /// The peer did not answer within the allowed number of retransmissions (RFC 9293 3.8.3, R2).
    TimedOut,
    /// Data stayed unacknowledged for longer than the user timeout (RFC 9293 3.8.3, RFC 5482).
    UserTimeout,
    /// The keepalive probes went unanswered (RFC 9293 3.8.4).
    KeepaliveTimedOut,
    /// The network said that the peer cannot be reached, and it did not answer either (RFC 5461).
    Unreachable(Unreachable),
    /// Others needed the room: memory is short, and this connection held more than its minimum and
    /// moved too little (RFC 9293 3.8.6.1 leaves that to who has the resources), or the table is
    /// full and this connection was idle.
    NoMemory,
    /// The stack found its own state of this connection to be impossible, and gave it up rather
    /// than go on with it.
    Broken,
    /// An operator ended it.
    Killed,
}

/// What an ICMP or ICMPv6 error said about the way to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreachable {
    /// No route to the network, or none from here (ICMP 3/0, ICMPv6 1/0).
    Network,
    /// The host does not answer (ICMP 3/1, ICMPv6 1/3).
    Host,
    /// The host does not speak the protocol (ICMP 3/2).
    Protocol,
    /// Nobody at this port (ICMP 3/3, ICMPv6 1/4).
    Port,
    /// Forbidden by an administrator (ICMP 3/9, 3/10, 3/13, ICMPv6 1/1, 1/5).
    Prohibited,
    /// The packet lived too long on the way (ICMP 11, ICMPv6 3).
    TimeExceeded,
    /// A router or the peer did not like the packet's header (ICMP 12, ICMPv6 4).
    Parameter,
}

/// Why [`crate::Stack::bind`] refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BindError {
    /// Somebody else has the address and port, and not both allow that it is shared.
    InUse,
    /// All places for reservations are taken (`Limits::binds`).
    TooMany,
    /// All ephemeral ports are taken (only when port 0 was asked for).
    NoPorts,
    /// Not an address of ours.
    BadAddress,
}

/// Why [`crate::Stack::listen`] refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListenError {
    /// Another listener has this address and port.
    InUse,
    /// All places for listeners are taken (`Limits::listeners`).
    TooMany,
    /// All ephemeral ports are taken (only when port 0 was asked for).
    NoPorts,
    /// The address is a multicast or broadcast address: nobody can listen there with TCP.
    BadAddress,
    /// The reservation names none (any more).
    NoReservation,
    /// An option that is not there: urgent data out of the stream
    /// ([`crate::ConnOptions::urgent_inline`]).
    NotSupported,
}

/// Why [`crate::Stack::connect`] refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectError {
    /// Neither route nor source address leads to the peer.
    NoRoute,
    /// The remote address or port is one that nobody can be connected to: unspecified, multicast,
    /// broadcast or port 0; or the families differ.
    BadAddress,
    /// The local address and port are already connected to this remote address and port.
    InUse,
    /// No ephemeral port is free towards this peer.
    NoPorts,
    /// All places for connections are taken (`Limits::connections`).
    TooMany,
    /// The stores have no memory for one more connection.
    NoMemory,
    /// The reservation names none (any more).
    NoReservation,
    /// An option that is not there: urgent data out of the stream
    /// ([`crate::ConnOptions::urgent_inline`]).
    NotSupported,
}

/// Why [`crate::Stack::send`] and its kin refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendError {
    /// The handle names no connection (any more).
    Stale,
    /// This side was already shut down.
    Closed,
    /// The connection failed.
    Failed(Failure),
}

/// Why [`crate::Stack::recv`] refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecvError {
    /// The handle names no connection (any more).
    Stale,
    /// The connection failed, and nothing is left to read.
    Failed(Failure),
}

macro_rules! sentences {
    ($($ty:ident { $($pat:pat => $text:expr),+ $(,)? })+) => {$(
        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $($pat => f.write_str($text),)+
                    #[allow(unreachable_patterns)]
                    other => write!(f, "{other:?}"),
                }
            }
        }
        impl core::error::Error for $ty {}
    )+};
}

sentences! {
    Unreachable {
        Unreachable::Network => "the network is unreachable",
        Unreachable::Host => "the host is unreachable",
        Unreachable::Protocol => "the host does not speak TCP",
        Unreachable::Port => "nobody at this port",
        Unreachable::Prohibited => "an administrator forbids it",
        Unreachable::TimeExceeded => "the packet lived too long on its way",
        Unreachable::Parameter => "a header was refused on the way",
    }
    BindError {
        BindError::InUse => "somebody else has this address and port",
        BindError::TooMany => "all places for reserved ports are taken; raise limits.binds",
        BindError::NoPorts => "no ephemeral port is free; widen tcp.ephemeral_ports",
        BindError::BadAddress => "not an address of this host",
    }
    ListenError {
        ListenError::InUse => "another listener has this address and port",
        ListenError::TooMany => "all places for listeners are taken; raise limits.listeners",
        ListenError::NoPorts => "no ephemeral port is free; widen tcp.ephemeral_ports",
        ListenError::BadAddress => "nobody can listen on a multicast or broadcast address",
        ListenError::NoReservation => "the port is not reserved any more",
        ListenError::NotSupported => "urgent data out of the stream is not supported",
    }
    ConnectError {
        ConnectError::NoRoute => "no route or no source address to the peer; add one",
        ConnectError::BadAddress => "the remote address or port is one that nobody can be \
            connected to",
        ConnectError::InUse => "the same two endpoints are already connected",
        ConnectError::NoPorts => "no ephemeral port is free towards this peer; widen \
            tcp.ephemeral_ports",
        ConnectError::TooMany => "all places for connections are taken; raise limits.connections",
        ConnectError::NoMemory => "no buffer memory for one more connection",
        ConnectError::NoReservation => "the port is not reserved any more",
        ConnectError::NotSupported => "urgent data out of the stream is not supported",
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Reset => f.write_str("reset by the peer"),
            Failure::Refused => f.write_str("refused by the peer"),
            Failure::TimedOut => f.write_str("the peer does not answer"),
            Failure::UserTimeout => {
                f.write_str("data stayed unacknowledged for longer than the user timeout")
            }
            Failure::KeepaliveTimedOut => f.write_str("keepalive probes stayed without an answer"),
            Failure::Unreachable(why) => fmt::Display::fmt(why, f),
            Failure::NoMemory => f.write_str(
                "others needed the room: this connection was idle, or held memory and \
                    moved too little",
            ),
            Failure::Killed => f.write_str("ended by an operator"),
            Failure::Broken => {
                f.write_str("given up because its state was impossible; this is a bug of the stack")
            }
        }
    }
}

impl core::error::Error for Failure {}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Stale => f.write_str("the handle names no connection"),
            SendError::Closed => f.write_str("this side of the connection was already shut down"),
            SendError::Failed(why) => fmt::Display::fmt(why, f),
        }
    }
}

impl core::error::Error for SendError {}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvError::Stale => f.write_str("the handle names no connection"),
            RecvError::Failed(why) => fmt::Display::fmt(why, f),
        }
    }
}

impl core::error::Error for RecvError {}
