//! A script as data.

use clearway_wire::tcp::FastOpenCookie;
use clearway_wire::{Ecn, Flags};

use crate::lex::Pos;

/// A time or a stretch of it, in microseconds. Script time begins at 0.
pub type Micros = i64;

/// A whole script.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// What the script says about the world it runs in.
    pub settings: crate::settings::Settings,
    /// What happens, in order.
    pub events: Vec<Event>,
}

/// From one moment to another; the same twice for a single moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Between {
    /// The earliest.
    pub from: Micros,
    /// The latest.
    pub to: Micros,
}

/// When something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Counted from the beginning of the script.
    Absolute(Between),
    /// Counted from the event before.
    Relative(Between),
    /// At any time after the event before.
    Any,
}

/// One thing that happens.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Where the script says so.
    pub pos: Pos,
    /// When.
    pub when: When,
    /// For a call that blocks: when it returns, counted as `when` is.
    pub until: Option<Micros>,
    /// What.
    pub what: What,
}

/// What happens.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A packet comes to the stack under test.
    Inbound(Packet),
    /// The stack under test sends a packet.
    Outbound(Packet),
    /// The program calls the stack under test.
    Call(Call),
    /// Something holds for the connection that was made last.
    Assert(Vec<crate::expr::Assertion>),
    /// A command line.
    Command(String),
}

/// A packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    /// Which of the script's connections it belongs to; 1 when the script does not say.
    pub flow: u8,
    /// The stack under test may send it or not (`>?`).
    pub optional: bool,
    /// Its congestion mark.
    pub ecn: Option<Ecn>,
    /// What is in it.
    pub body: Body,
}

/// What is in a packet.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// A TCP segment.
    Tcp(Segment),
    /// A UDP datagram with so many bytes.
    Udp(u16),
    /// An ICMP message.
    Icmp(Icmp),
}

/// A TCP segment in the script's numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Control bits.
    pub flags: Flags,
    /// First sequence number.
    pub seq: u32,
    /// Bytes of data.
    pub len: u32,
    /// Acknowledgement number.
    pub ack: Option<u32>,
    /// Window as it stands in the header.
    pub window: Option<u16>,
    /// Urgent pointer.
    pub urgent: Option<u16>,
    /// Options in order; None when the script does not care.
    pub options: Option<Vec<TcpOption>>,
}

/// One TCP option in the script's numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum TcpOption {
    /// Padding.
    Nop,
    /// End of the list.
    Eol,
    /// Maximum segment size.
    Mss(u16),
    /// Counters of ECN.
    AccEcn(clearway_wire::tcp::AccEcn),
    /// Window scale.
    Wscale(u8),
    /// Selective acknowledgements permitted.
    SackOk,
    /// Selective acknowledgements.
    Sack(Vec<(u32, u32)>),
    /// Timestamps; None stands for any.
    Ts(Option<u32>, Option<u32>),
    /// A Fast Open cookie; an empty one asks for one.
    FastOpen(FastOpenCookie),
    /// Bytes as they are.
    Raw(Vec<u8>),
}

/// An ICMP message.
#[derive(Clone, Debug, PartialEq)]
pub struct Icmp {
    /// What it says.
    pub kind: IcmpKind,
    /// The TCP segment that it quotes: first sequence number and bytes of data.
    pub quoted: Option<(u32, u32)>,
    /// The UDP datagram that it quotes: bytes of data.
    pub quoted_udp: Option<u16>,
}

/// What an ICMP message says, for both families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpKind {
    /// Destination unreachable.
    Unreachable(Reason),
    /// The packet was too big for a link with this MTU.
    TooBig(u32),
    /// Time exceeded on the way.
    TimeExceeded,
    /// A header was not understood.
    Parameter,
    /// Echo request with an identifier and so many bytes.
    EchoRequest(u16, u16),
    /// Echo reply.
    EchoReply(u16, u16),
}

/// Why a destination is unreachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No route.
    Net,
    /// No answer from the host.
    Host,
    /// The host does not speak the protocol.
    Protocol,
    /// Nobody at the port.
    Port,
    /// Forbidden.
    Prohibited,
}

/// A call of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// What it is given.
    pub args: Vec<Arg>,
    /// What it returns; None when the script does not care.
    pub result: Option<i64>,
    /// The name of the error that it returns.
    pub errno: Option<String>,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// A number.
    Number(i64),
    /// Names of constants, joined by `|`.
    Names(Vec<String>),
    /// `...`: whatever fits.
    Whatever,
    /// A text.
    Text(String),
    /// `[a, b]`
    List(Vec<Arg>),
    /// `{name=value, ...}`
    Fields(Vec<(String, Arg)>),
}
