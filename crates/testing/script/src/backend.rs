//! The stack under test as a script sees it: packets in and out, calls, and a clock.

pub mod kernel;
pub mod stack;

use std::collections::BTreeMap;

use clearway_options::SocketOption;
use clearway_wire::{Addr, Endpoint};

use crate::ast::Micros;
use crate::errno::Errno;
use crate::settings::{IpVersion, Settings};

/// The port that sockets under test are bound to.
pub const BOUND_PORT: u16 = 8080;
/// The port of the peer that the program under test connects to.
pub const SERVER_PORT: u16 = 8080;
/// The port of the peer that connects to us, for the script's connection 0; its others follow.
pub const CLIENT_PORT: u16 = 45_000;

/// The addresses of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Net {
    /// The family of packets and sockets.
    pub version: IpVersion,
    /// Of the stack under test.
    pub local: Addr,
    /// Of its peer.
    pub remote: Addr,
    /// Of the interface.
    pub mtu: u32,
}

impl Net {
    /// What a script runs with.
    pub fn new(version: IpVersion, settings: &Settings) -> Net {
        let mtu = settings.mtu(version);
        match version {
            IpVersion::V4 | IpVersion::V4Mapped => Net {
                version,
                local: Addr::v4([192, 168, 0, 1]),
                remote: Addr::v4([192, 0, 2, 1]),
                mtu,
            },
            IpVersion::V6 => {
                let addr = |net, host| {
                    Addr::v6([0xfd, 0x3d, 0, net, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host])
                };
                Net { version, local: addr(1, 1), remote: addr(2, 1), mtu }
            }
        }
    }

    /// Whether packets are IPv6.
    pub fn v6(&self) -> bool {
        self.local.is_v6()
    }
}

/// A socket as the backend numbers it.
pub type Fd = u32;

/// What a program can do with sockets.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Makes a TCP socket (`true`) or a UDP socket.
    Socket(bool),
    /// Binds to our address, or to all of them, and the port.
    Bind(Fd, u16),
    /// Listens with a backlog.
    Listen(Fd, u32),
    /// Takes a connection.
    Accept(Fd),
    /// Connects to the peer.
    Connect(Fd, Endpoint),
    /// Reads at most so many bytes.
    Read(Fd, u32, ReadFlags),
    /// Writes.
    Write(Fd, Vec<u8>, WriteFlags),
    /// Connects and writes, with the SYN where that may be (MSG_FASTOPEN).
    WriteFirst(Fd, Vec<u8>, Endpoint, WriteFlags),
    /// Sends a datagram to the peer.
    SendTo(Fd, Vec<u8>, Endpoint),
    /// Closes one side or both.
    Shutdown(Fd, How),
    /// Lets go.
    Close(Fd),
    /// Sets an option.
    Set(Fd, SetOption),
    /// Reads the pending error and clears it.
    TakeError(Fd),
    /// Sets whether calls block.
    Block(Fd, bool),
    /// Asks which of the wanted things (`poll`'s bits) are so, waiting for at most so many
    /// milliseconds, or for ever.
    Poll(Vec<(Fd, i16)>, Option<u32>),
    /// The same, but what was told of a socket before is no reason to end.
    Edges(Vec<(Fd, i16, Told)>, Option<u32>),
}

/// What was told of a socket by `EPOLLET`, as the backend names occasions to read and to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The last occasion to read that was told.
    pub read: Option<u64>,
    /// The last one to write.
    pub write: Option<u64>,
}

impl Told {
    /// Which of `bits` there are to tell when the last occasions are these: all when one of them is
    /// new, none else.
    pub fn take_new(&mut self, bits: i16, (read, write): (u64, u64)) -> i16 {
        let reads = bits & (poll::IN | poll::PRI | poll::RDHUP | poll::HUP | poll::ERR) != 0;
        let writes = bits & (poll::OUT | poll::HUP | poll::ERR) != 0;
        let is_new = reads && self.read != Some(read) || writes && self.write != Some(write);
        if !is_new {
            return 0;
        }
        if reads {
            self.read = Some(read);
        }
        if writes {
            self.write = Some(write);
        }
        bits
    }
}

/// How to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadFlags {
    /// `MSG_PEEK`
    pub peek: bool,
    /// `MSG_DONTWAIT`
    pub dont_wait: bool,
}

/// How to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteFlags {
    /// `MSG_OOB`
    pub urgent: bool,
    /// `MSG_MORE`
    pub more: bool,
    /// `MSG_EOR`
    pub ends_record: bool,
    /// `MSG_DONTWAIT`
    pub dont_wait: bool,
}

/// Which side is shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// `SHUT_RD`
    Read,
    /// `SHUT_WR`
    Write,
    /// `SHUT_RDWR`
    Both,
}

/// An option and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct SetOption {
    /// Which, out of the table of all.
    pub option: &'static SocketOption,
    /// What it is set to.
    pub value: OptionValue,
}

/// What an option is set to.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// A number.
    Number(i32),
    /// `struct linger`: seconds.
    Linger(Option<u32>),
    /// The name of a congestion control.
    Name(String),
    /// Bytes as they are (TCP_FASTOPEN_KEY).
    Bytes(Vec<u8>),
}

impl SetOption {
    /// An option that scripts may set, by its name in C.
    pub fn option(name: &str) -> Option<&'static SocketOption> {
        SocketOption::named(name).filter(|option| option.field().is_some())
    }
}

/// What a call returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// Its value: a count, a new socket, or the error.
    pub value: Result<i64, Errno>,
    /// What was read.
    pub data: Vec<u8>,
    /// What `poll` found for each socket.
    pub ready: Vec<i16>,
}

impl Reply {
    /// Nothing but a value.
    pub fn of(value: Result<i64, Errno>) -> Reply {
        Reply { value, data: Vec::new(), ready: Vec::new() }
    }
}

/// A packet that the stack under test sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    /// When.
    pub at: Micros,
    /// From the IP header on.
    pub bytes: Vec<u8>,
}

/// Values of a connection under Linux's names.
pub type Info = BTreeMap<&'static str, i64>;

/// All values of TCP_INFO by their names.
pub(crate) fn told(info: &clearway_options::Info) -> Info {
    clearway_options::Info::FIELDS
        .iter()
        .map(|field| (field.name, field.get(info) as i64))
        .collect()
}

/// The stack under test. Errors are about the test bench, not about the stack.
pub trait Backend {
    /// Script time.
    fn now(&self) -> Micros;

    /// Goes on until then, or until a packet was sent or the call in progress returned, if that is
    /// earlier.
    fn advance(&mut self, until: Micros) -> Result<(), String>;

    /// A packet arrives, from the IP header on.
    fn inject(&mut self, packet: &[u8]) -> Result<(), String>;

    /// The oldest packet that was sent and not looked at.
    fn sent(&mut self) -> Option<Sent>;

    /// Begins a call.
    fn call(&mut self, op: Op) -> Result<(), String>;

    /// What the call returned, and when; None while it is in progress.
    fn reply(&mut self) -> Option<(Reply, Micros)>;

    /// Values of a connection.
    fn info(&mut self, fd: Fd) -> Result<Info, String>;

    /// Runs a command in the world of the stack under test.
    fn command(&mut self, command: &str) -> Result<(), String>;

    /// How far from its time a packet may be when the script does not say.
    fn tolerance(&self) -> Micros;

    /// How much later still a packet may be that the stack had to wait so long for.
    fn slack(&self, wait: Micros) -> Micros {
        let _ = wait;
        0
    }

    /// How long a call may take that is not said to block.
    fn call_limit(&self) -> Micros;
}

/// `poll`'s bits, as Linux has them.
pub mod poll {
    /// Something can be read.
    pub const IN: i16 = 1;
    /// Urgent data.
    pub const PRI: i16 = 2;
    /// There is room to write.
    pub const OUT: i16 = 4;
    /// An error waits.
    pub const ERR: i16 = 8;
    /// Both sides are closed.
    pub const HUP: i16 = 16;
    /// The peer will send no more.
    pub const RDHUP: i16 = 0x2000;
}
