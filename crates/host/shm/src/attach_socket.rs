//! What a program's process and the host say to each other over the attach socket ("the attach
//! socket").
//!
//! The socket is a Unix socket of type `SOCK_SEQPACKET`: one message, one packet of at most
//! [`MAX_MESSAGE`] bytes, encoded with postcard. The process asks, the host answers, one at a time:
//! a process that asks again before it was answered is cut off. Descriptors travel beside the
//! answer (`SCM_RIGHTS`) in the order that the answer's text says. Whatever does not decode ends
//! the conversation.
//!
//! What is asked often does not go this way: bytes go through FIFOs, and marks through rings, in
//! shared memory.

use std::net::{IpAddr, SocketAddr};

pub use clearway_options::{Congestion, Field, Info, SocketOptions, stamping};
use serde::{Deserialize, Serialize};
use zeroize::Zeroize as _;

use crate::additive;

/// The version of everything in this crate. Host and process must agree. A new option or a new
/// value of TCP_INFO does not raise it.
pub const VERSION: u32 = 18;

/// Bytes of a packet that a report quotes at most, so that it fits into a message.
pub const LONGEST_QUOTE: usize = 7 * 1024;

/// The longest message.
pub const MAX_MESSAGE: usize = 8192;

/// Names a session to the process and to the host: worker in the top 8 bits, slot in the next 24,
/// generation below.
pub type SessionId = u64;

/// The worker that a session lives on.
pub const fn worker_of(session: SessionId) -> usize {
    (session >> 56) as usize
}

/// Some bytes of a segment of the program's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Place {
    /// Which segment; the process asks for those that it does not know ([`Request::Segment`]).
    pub segment: u32,
    /// Where in it.
    pub offset: u32,
}

/// Where a FIFO lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FifoPlace {
    /// Its head ([`crate::layout::FifoHead`]).
    pub head: Place,
    /// Its bytes.
    pub data: Place,
    /// How many bytes lie there; a power of two.
    pub capacity: u32,
    /// How many of them may be filled.
    pub limit: u32,
}

/// What kind of socket a session is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Kind {
    /// TCP: fresh, a listener or a connection.
    Stream,
    /// UDP. Its FIFOs hold records, see [`crate::layout::DatagramHead`].
    Datagram,
}

/// A session, as the process needs to know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Session {
    /// Its name.
    pub id: SessionId,
    /// What it is.
    pub kind: Kind,
    /// Opened as IPv6.
    pub v6: bool,
    /// Its words ([`crate::layout::SessionHead`]).
    pub head: Place,
    /// Bytes to read. For a listener, [`crate::layout::AcceptRecord`]s. None before there can be
    /// any.
    pub rx: Option<FifoPlace>,
    /// Bytes to send. None for a listener, and before there can be any.
    pub tx: Option<FifoPlace>,
    /// Our side, once it is known.
    pub local: Option<SocketAddr>,
    /// The peer's side, once there is one.
    pub remote: Option<SocketAddr>,
    /// The options that hold.
    #[serde(with = "additive::options")]
    pub options: SocketOptions,
}

/// What whoever holds a session's session fd gets by it when [`Request::Inherit`] was asked: what
/// lets it into the program, and the session's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Handoff {
    /// For [`Hello::inherit`].
    pub token: Token,
    /// For [`Request::Subscribe`].
    pub session: SessionId,
}

/// Lets a process in that a process of the same program forked. Secret: who has it is that program.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token(pub [u8; 16]);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

/// What a program shows to be let into a namespace. Never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(pub String);

impl Drop for Secret {
    /// Nothing of it stays in memory that somebody else gets.
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The first thing that a process says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`].
    pub version: u32,
    /// The namespace to enter; empty for the default one.
    pub namespace: String,
    /// The namespace's secret; compared in constant time, on every path.
    pub secret: Option<Secret>,
    /// The program's name, for people to read.
    pub program: String,
    /// Bytes in a receive FIFO; 0: the host's default.
    pub rx_fifo: u32,
    /// Bytes in a transmit FIFO; 0: the host's default.
    pub tx_fifo: u32,
    /// The program that this process belongs to, when it was forked. Namespace and secret are then
    /// those of the program.
    pub inherit: Option<Token>,
    /// Connections to programs of the same host that say this too may go round the stack
    /// (cut-through).
    pub cut_through: bool,
}

/// Where the rings between a process and one worker lie in the process's queue pair
/// ([`crate::layout::QueuePairHead`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RingPlaces {
    /// The ring from the process to the worker.
    pub requests: u32,
    /// The ring from the worker to the process.
    pub events: u32,
    /// Messages that each holds; a power of two.
    pub slots: u32,
}

/// The answer to a [`Hello`] that was let in. Descriptors: the queue pair (memory), the host page
/// (memory, read only), the process's own notifier (see [`crate::notifier::RemoteNotifier`]), and
/// for each worker a notifier that only this process has (see [`crate::notifier::NotifierSet`]).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Welcome {
    /// Which start of the host this is.
    pub boot: u64,
    /// The program's number.
    pub app: u32,
    /// The process's number.
    pub process: u32,
    /// What a forked child shows.
    pub token: Token,
    /// Bytes of the queue pair.
    pub queue_pair_len: u32,
    /// Bytes of the host page.
    pub host_len: u32,
    /// The rings, one pair for each worker.
    pub rings: Vec<RingPlaces>,
    /// Bytes in a receive FIFO.
    pub rx_fifo: u32,
    /// Bytes in a transmit FIFO.
    pub tx_fifo: u32,
}

/// What becomes of a session's membership in a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum GroupChange {
    /// It joins, for all sources.
    Join,
    /// It leaves.
    Leave,
    /// It joins for this source, or for one more.
    JoinSource(IpAddr),
    /// This source is wanted no longer.
    LeaveSource(IpAddr),
    /// Nothing more of this source.
    Block(IpAddr),
    /// This source again.
    Unblock(IpAddr),
}

/// What a process asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Lets me in. Answer: [`Reply::Welcome`].
    Hello(Hello),
    /// What is Clearway's in my namespace? Answer: [`Reply::Prefixes`].
    Prefixes,
    /// A new session. Answer: [`Reply::Opened`] and one descriptor: the session's session fd.
    Open {
        /// Of this kind.
        kind: Kind,
        /// For IPv6, and IPv4 mapped into it.
        v6: bool,
        /// With these options.
        #[serde(with = "additive::options")]
        options: SocketOptions,
        /// The port that the session will be bound to, when that was asked for by number, or, a
        /// datagram session's, that it sends to on this host; 0: none. It decides the worker, so
        /// that answers find it, and who sends is on the worker of who receives.
        port: u16,
    },
    /// Gives a session its own address. Port 0: the host chooses. Answer: [`Reply::Bound`]. A
    /// datagram session then receives.
    Bind {
        /// The session.
        session: SessionId,
        /// The address and port.
        local: SocketAddr,
    },
    /// Listens. A session that was not bound is bound to a free port. Called again it only changes
    /// the backlog. Answer: [`Reply::Opened`] without descriptor.
    Listen {
        /// The session.
        session: SessionId,
        /// Connections that may wait to be accepted.
        backlog: u32,
    },
    /// Begins a connection, or sets (and with None takes away) a datagram session's peer. Answer:
    /// [`Reply::Opened`] without descriptor. For a stream the handshake has only begun;
    /// [`crate::layout::state`] tells how it went.
    Connect {
        /// The session.
        session: SessionId,
        /// The peer.
        remote: Option<SocketAddr>,
    },
    /// Session fds that belong to no session yet, for connections that will be accepted
    /// ([`crate::layout::request::CLAIM`]): so many, or fewer. Answer: [`Reply::SessionFds`] and
    /// the descriptors.
    SessionFds {
        /// How many; at most [`MAX_AHEAD`] that were not used are there at once.
        count: u32,
    },
    /// New streams, as by `Open` with the options that a socket begins with: so many, or fewer, on
    /// one worker. Answer: [`Reply::OpenedAhead`], and a descriptor for each of them beyond those
    /// for which the process has one. Those whose words describe FIFOs can be connected by
    /// [`crate::layout::request::CONNECT`].
    OpenAhead {
        /// For IPv6, and IPv4 mapped into it.
        v6: bool,
        /// How many; at most [`MAX_AHEAD`].
        count: u32,
        /// Names of session fds of this process that are free, for the first of them.
        fds: Vec<u32>,
    },
    /// Takes over a session that an accept record names. Answer: [`Reply::Opened`] and one
    /// descriptor: its session fd.
    Claim {
        /// The session.
        session: SessionId,
    },
    /// This process holds the session too (it was inherited by fork or received from another
    /// process) and wants its events. Answer: [`Reply::Opened`] without descriptor.
    Subscribe {
        /// The session.
        session: SessionId,
    },
    /// From now on these options hold. Answer: [`Reply::Done`].
    Options {
        /// The session.
        session: SessionId,
        /// All of them.
        #[serde(with = "additive::options")]
        options: SocketOptions,
    },
    /// A connection's inner values. Answer: [`Reply::Info`].
    Info {
        /// The session.
        session: SessionId,
    },
    /// A segment of a program's memory: this process's own program's, or of one that it has joined
    /// ([`Request::Join`]). Answer: [`Reply::Segment`] and one descriptor.
    Segment {
        /// Whose.
        app: u32,
        /// Which.
        segment: u32,
    },
    /// A socket of this process stays with the kernel, for `explain`. Answer: [`Reply::Done`].
    Stayed {
        /// What the program did: `connect 127.0.0.1:53`.
        what: String,
        /// Why that is not Clearway's.
        why: String,
    },
    /// The last of the next `ahead` bytes that will be put into the session's transmit FIFO is
    /// urgent (MSG_OOB). Asked before they are published, so that no segment can leave with them
    /// and without the announcement. Answer: [`Reply::Done`].
    Urgent {
        /// The session.
        session: SessionId,
        /// Bytes.
        ahead: u32,
    },
    /// This process holds a descriptor that may be a session's session fd and knows no more of it,
    /// since it was handed over by `exec`. May be asked before [`Request::Hello`], and by anybody:
    /// the answer is only [`Reply::Done`], and the [`Handoff`] lies in the session fd, where who
    /// holds it can read it.
    Inherit {
        /// The socket's SO_COOKIE.
        cookie: u64,
    },
    /// A socket of the program's that an earlier start of the host had, and that does not live
    /// without one: a listener, or a datagram socket. The first process of the program that asks
    /// has it made anew; the others that had it too, which name it alike, come to the same one.
    /// Answer: [`Reply::Opened`] and one descriptor: its session fd.
    Revive {
        /// Which start of the host had it, and its name there, as when the program first had it.
        was: (u64, SessionId),
        /// Of this kind.
        kind: Kind,
        /// For IPv6, and IPv4 mapped into it.
        v6: bool,
        /// With these options.
        #[serde(with = "additive::options")]
        options: SocketOptions,
        /// Bound so.
        local: Option<SocketAddr>,
        /// A datagram socket's peer.
        remote: Option<SocketAddr>,
        /// A listener's: connections that may wait to be accepted. None: it does not listen.
        backlog: Option<u32>,
    },
    /// This process has just closed a descriptor of the session. When it is answered, and that was
    /// the last one, the session has given up its address. Answer: [`Reply::Done`].
    Settle {
        /// The session.
        session: SessionId,
    },
    /// Which interfaces does my namespace have? Answer: [`Reply::Interfaces`].
    Interfaces,
    /// A datagram session's membership in a group on an interface changes. Answer: [`Reply::Done`].
    Group {
        /// The session.
        session: SessionId,
        /// The interface's number; 0: that which the route to the group leads by.
        iface: u32,
        /// The group.
        group: IpAddr,
        /// How.
        change: GroupChange,
    },
    /// What does the path to a peer take, and may a datagram of `len` bytes leave? Answer:
    /// [`Reply::PathMtu`], or EMSGSIZE.
    PathMtu {
        /// The session.
        session: SessionId,
        /// The peer; None: the one that it is connected to.
        remote: Option<SocketAddr>,
        /// Payload bytes; 0: none, only the path is asked for.
        len: u32,
    },
    /// A child that this process is about to fork enters by the descriptor that comes with the
    /// answer, and says [`Request::Hello`] there: it may be where the attach socket is out of its
    /// reach, by its user, its root or its network namespace. Answer: [`Reply::Done`] and one
    /// descriptor.
    Child,
    /// The oldest error of a datagram session that asked for them one by one. Answer:
    /// [`Reply::ErrorReport`].
    ErrorReport {
        /// The session.
        session: SessionId,
    },
    /// Where are the FIFOs of a stream's stamps? Asked when SO_TIMESTAMP or one of its like is set.
    /// Answer: [`Reply::Stamps`].
    Stamps {
        /// The session.
        session: SessionId,
    },
    /// Some lines of a table of my namespace's sockets, as the kernel has it below /proc/net. Answer:
    /// [`Reply::SocketLines`].
    SocketLines {
        /// Which table.
        table: SocketTable,
        /// Where to go on; as it is made by default for the beginning.
        from: TablePlace,
    },
    /// This process holds a session of another program, which that handed to it, and may do with
    /// the sessions of that program from now on what its own processes may. Answer:
    /// [`Reply::Joined`].
    Join {
        /// As it lay in the session fd ([`Handoff`]).
        token: Token,
    },
}

/// A table of sockets as the kernel has it below /proc/net.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SocketTable {
    /// `tcp`
    Tcp,
    /// `tcp6`
    Tcp6,
    /// `udp`
    Udp,
    /// `udp6`
    Udp6,
}

/// A place in a table of sockets. Between two questions sockets may come and go, as they may
/// between two reads of the kernel's file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TablePlace {
    /// The worker whose sessions come next.
    pub worker: u32,
    /// The first slot of them.
    pub slot: u32,
    /// The number of the next line.
    pub line: u32,
}

/// What the host answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// Come in.
    Welcome(Welcome),
    /// What is Clearway's.
    Prefixes(Prefixes),
    /// The session as it is now.
    Opened(Session),
    /// The address that it got.
    Bound(SocketAddr),
    /// The values.
    Info(#[serde(with = "additive::info")] Box<Info>),
    /// The segment's length in bytes.
    Segment {
        /// Bytes.
        len: u32,
    },
    /// Done.
    Done,
    /// Not done.
    Error {
        /// As Linux would say it.
        errno: i32,
        /// A sentence for people, for `explain` and for the host's log.
        why: String,
    },
    /// What is there.
    Interfaces(Vec<Interface>),
    /// The longest IP packet.
    PathMtu(u32),
    /// The error, if there was one.
    ErrorReport(Option<ErrorReport>),
    /// The session fds, as many as there are descriptors. They have names that follow each other.
    SessionFds {
        /// The first one's.
        first: u32,
    },
    /// Sessions that nobody has used. Those beyond the session fds that the question named have the
    /// descriptors.
    OpenedAhead {
        /// Their names, and where their words lie.
        sessions: Vec<(SessionId, Place)>,
        /// The name of the first descriptor; the others follow.
        first: u32,
    },
    /// FIFOs of [`crate::layout::StampRecord`]s, as far as there are any.
    Stamps {
        /// When bytes came, from the host.
        rx: Option<FifoPlace>,
        /// Of which bytes it is to be told that they have left, from the processes.
        tx: Option<FifoPlace>,
    },
    /// Whole lines, the heading among the first.
    SocketLines {
        /// The text.
        text: String,
        /// Where the next lines are; None: there are no more.
        next: Option<TablePlace>,
    },
    /// The program's number ([`Welcome::app`]).
    Joined {
        /// Its number.
        app: u32,
    },
}

/// What became of a datagram that did not arrive (`sock_extended_err` of Linux).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ErrorReport {
    /// As Linux would say it.
    pub errno: i32,
    /// To whom it was sent.
    pub to: SocketAddr,
    /// Who said so by ICMP; None: the host refused it.
    pub offender: Option<IpAddr>,
    /// Type and code of the ICMP message.
    pub icmp: (u8, u8),
    /// The longest IP packet that passes, when it was longer.
    pub mtu: u32,
    /// What is known of its payload.
    pub payload: Vec<u8>,
    /// When that was, in nanoseconds since the start of 1970; 0: nobody asked for it.
    pub at: u64,
    /// It is no error: what was asked to be told of it.
    pub stamp: Option<SentStamp>,
}

/// Something that was sent has left, or was acknowledged (SO_TIMESTAMPING).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SentStamp {
    /// What of it: 0 it has left, 1 it was scheduled, 2 it was acknowledged (`SCM_TSTAMP_*`).
    pub kind: u32,
    /// Its number.
    pub key: u32,
    /// The interface that it left by; 0: not told.
    pub iface: u32,
    /// The address of ours that it came from.
    pub from: Option<IpAddr>,
}

/// Session fds that a process holds ahead of need at most, and streams likewise.
pub const MAX_AHEAD: u32 = 32;

/// An interface of a namespace, as `getifaddrs` would say it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Interface {
    /// Its number, from 1: what datagrams that came by it say ([`crate::layout::DatagramHead`]).
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Packets pass.
    pub up: bool,
    /// What is sent comes back.
    pub loopback: bool,
    /// The longest IP packet.
    pub mtu: u32,
    /// The link address's address, where frames have such.
    pub link_addr: Option<[u8; 6]>,
    /// Its addresses with their prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// What passed by it.
    pub counts: InterfaceCounts,
}

/// Frames and bytes of an interface since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct InterfaceCounts {
    /// Frames received.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Frames lost on the way in.
    pub rx_dropped: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Frames lost on the way out.
    pub tx_dropped: u64,
}

/// Bytes of the longest list of interfaces, encoded; those that do not fit are left out.
pub const MAX_INTERFACES_LEN: usize = MAX_MESSAGE - 64;

/// What addresses a namespace reaches. Stale as soon as [`crate::layout::HostHead`]'s `routes` has
/// moved on from `generation`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Prefixes {
    /// The value of `routes` in the host page when this was put together.
    pub generation: u32,
    /// Addresses of the namespace's own.
    pub local: Vec<IpAddr>,
    /// A prefix whose addresses are all its own: that of an address of 127.0.0.0/8, the shortest.
    pub loopback: Option<(IpAddr, u8)>,
    /// Where its routes lead, longest prefix first.
    pub routes: Vec<(IpAddr, u8)>,
    /// There were more than fit ([`MAX_PREFIXES`]); connect is then asked of the host.
    pub more: bool,
    /// Whom programs ask for names.
    pub dns: Dns,
}

/// Servers of names that a program asks at most: as many as the C library takes.
pub const MAX_DNS_SERVERS: usize = 3;

/// A server of names.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DnsServer {
    /// Where it is.
    pub addr: IpAddr,
    /// The interface on whose link a link-local address is; 0: another address.
    pub interface: u32,
}

impl DnsServer {
    /// One whose address says by itself where it is.
    pub fn of(addr: IpAddr) -> DnsServer {
        DnsServer { addr, interface: 0 }
    }
}

/// Servers of names, and the domains that short names are looked up in. Without servers: as the
/// system has it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Dns {
    /// The best first.
    pub servers: Vec<DnsServer>,
    /// The first one first.
    pub search: Vec<String>,
}

impl Dns {
    /// As much of it as the C library takes: three servers, and six domains of 255 bytes together.
    pub fn fitted(mut self) -> Dns {
        self.servers.truncate(MAX_DNS_SERVERS);
        self.search.truncate(6);
        while self.search.iter().map(|domain| domain.len() + 1).sum::<usize>() > 256 {
            self.search.pop();
        }
        self
    }
}

/// Bytes of some lines of a table of sockets at most.
pub const MAX_LINES_LEN: usize = MAX_MESSAGE - 64;

/// Entries of either list of [`Prefixes`] at most, so that two full ones of IPv6 are one message.
pub const MAX_PREFIXES: usize = 192;
