//! How shared memory is laid out. Everything that both sides touch is a little-endian atomic word
//! at an offset that is asserted here.
//!
//! Three kinds of memory are shared:
//!
//! - the *host page*: one per host, which programs can only read;
//! - a *queue pair*: one per process, with the rings between it and each worker;
//! - *segments*: some per program, with the words and FIFOs of its sessions. All processes of a
//!   program share them.
//!
//! Every byte of these words belongs to an atomic, the reserved ones too: a reference to them
//! promises nothing about what the other side leaves alone. Whatever a program can write, the host
//! reads once, checks, and distrusts; positions that matter to it are its own copies.

#[cfg(not(loom))]
use std::mem::offset_of;

use clearway_options::Field;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::atomic::{AtomicU32, AtomicU64, Reserved};
use crate::attach_socket::Place;

/// The first word of every shared memory: "CLWY".
pub const MAGIC: u32 = 0x5957_4c43;

/// The host page.
#[repr(C, align(64))]
#[derive(Default)]
pub struct HostHead {
    /// [`MAGIC`].
    pub magic: AtomicU32,
    /// [`crate::attach_socket::VERSION`].
    pub version: AtomicU32,
    /// Which start of the host this is.
    pub boot: AtomicU64,
    /// How many workers there are.
    pub workers: AtomicU32,
    /// Moves on whenever an address or a route changes.
    pub routes: AtomicU32,
    reserved: [Reserved; 10],
}

/// Follows the host head, once for each worker, each on a cache line of its own.
#[repr(C, align(64))]
#[derive(Default)]
pub struct WorkerWord {
    /// Odd while the worker sleeps, or is about to: who puts a message into a ring then notifies
    /// it, once for each value.
    pub sleeps: AtomicU64,
    reserved: [Reserved; 14],
}

/// Counters of threads that wait for connections, in each queue pair.
pub const ACCEPT_COUNTERS: usize = 16;

/// Which of the counters is for this listener. Few processes have so many listeners that two of
/// them share one; then a process may be woken that waits for the other.
pub const fn accept_counter(listener: u64) -> usize {
    (listener >> 32) as usize % ACCEPT_COUNTERS
}

/// The beginning of a queue pair. The rings follow, where [`crate::attach_socket::RingPlaces`]
/// says.
#[repr(C, align(64))]
#[derive(Default)]
pub struct QueuePairHead {
    /// [`MAGIC`].
    pub magic: AtomicU32,
    /// [`crate::attach_socket::VERSION`].
    pub version: AtomicU32,
    /// The process's number.
    pub process: AtomicU32,
    reserved: [Reserved; 13],
    /// Written by the process: how many of its threads sleep, or are about to. While it is not 0, a
    /// worker that left events notifies it.
    pub sleepers: AtomicU32,
    reserved2: [Reserved; 15],
    /// Written by the process: how many of the threads that sleep wait for connections of a
    /// listener, by the listener ([`accept_counter`]). Of several processes that hold one the host
    /// wakes those whose count is not 0.
    pub accepting: [AtomicU32; ACCEPT_COUNTERS],
    /// Written by the host: an event ring was full, so events were lost; the process looks at all
    /// its sessions and stores 0.
    pub overflow: AtomicU32,
    reserved3: [Reserved; 15],
}

/// A ring's words; its slots follow.
#[repr(C, align(64))]
#[derive(Default)]
pub struct RingHead {
    /// Messages ever put in; the producer's.
    pub tail: AtomicU32,
    reserved: [Reserved; 15],
    /// Messages ever taken out; the consumer's.
    pub head: AtomicU32,
    reserved2: [Reserved; 15],
}

/// A message in a ring.
#[repr(C)]
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Message {
    /// The session.
    pub session: u64,
    /// What: one of [`request`] towards the host, of [`event`] towards the process.
    pub what: u32,
    /// More about it.
    pub aux: u32,
}

/// What a process puts into a ring.
pub mod request {
    /// The transmit FIFO has new bytes (its `kicked` was 0).
    pub const WROTE: u32 = 1;
    /// The receive FIFO has room again (its `want_room` was 1).
    pub const CONSUMED: u32 = 2;
    /// Our side ends behind what is in the transmit FIFO (SHUT_WR).
    pub const SHUT_WRITE: u32 = 3;
    /// The program reads no more (SHUT_RD).
    pub const SHUT_READ: u32 = 4;
    /// The process took the session out of an accept FIFO and marked it as its own
    /// ([`super::SessionHead::claim`]); `aux` names the session fd that it has for it
    /// ([`crate::attach_socket::Reply::SessionFds`]).
    pub const CLAIM: u32 = 5;
    /// The process holds the session no more, and nobody else does: it closes as by close(2). `aux`
    /// names its session fd, which is free again, as if nobody had claimed it.
    pub const CLOSE: u32 = 7;
    /// The process has closed its last descriptor of the connection, and others may hold it: it is
    /// told nothing more of it.
    pub const LEAVE: u32 = 8;
    /// An option of a stream: `aux` says which, and its value ([`super::option_word`]).
    pub const OPTION: u32 = 6;
    /// Connects a stream that was opened ahead of need, with FIFOs
    /// ([`crate::attach_socket::Request::OpenAhead`]), to where [`super::SessionHead::destination`]
    /// says. Why that cannot be stands in the session's state and error.
    pub const CONNECT: u32 = 9;
}

/// Bits of [`request::OPTION`]'s word that are the value; the field's number is above.
const OPTION_BITS: u32 = 24;

/// What [`request::OPTION`] says of a field. None: its value does not fit, and the host is asked
/// instead.
pub fn option_word(field: Field, value: u64) -> Option<u32> {
    let (number, value) = (u8::try_from(field as u16).ok()?, u32::try_from(value).ok()?);
    (value >> OPTION_BITS == 0).then_some(u32::from(number) << OPTION_BITS | value)
}

/// The same read again. None: there is no such field.
pub fn option_of(word: u32) -> Option<(Field, u64)> {
    let number = (word >> OPTION_BITS) as u16;
    let field = Field::ALL.iter().find(|field| **field as u16 == number)?;
    Some((*field, u64::from(word & ((1 << OPTION_BITS) - 1))))
}

/// What a worker puts into a ring: marks to look, not facts. The facts are in the session's words
/// and FIFOs.
pub mod event {
    /// The receive FIFO has bytes or records, or its end was reached.
    pub const READABLE: u32 = 1;
    /// The transmit FIFO has room again.
    pub const WRITABLE: u32 = 2;
    /// The session's state or error changed.
    pub const STATE: u32 = 4;
}

/// A FIFO's words. Positions count bytes since the beginning, modulo 2^32; `tail - head` bytes are
/// in it.
#[repr(C, align(64))]
#[derive(Default)]
pub struct FifoHead {
    /// Where the producer goes on; the producer's.
    pub tail: AtomicU32,
    /// The producer told the consumer that there are bytes, and the consumer has not looked since.
    /// The consumer stores 0 before it looks; the producer exchanges it for 1 after it has
    /// published, and sends a message when it was 0.
    pub kicked: AtomicU32,
    /// Where the last urgent data ends, and how often there was any; the producer's. Written in
    /// this order, and before the tail moves over the urgent byte.
    pub urgent: AtomicU32,
    /// See `urgent`.
    pub urgents: AtomicU32,
    /// 1: the producer is in the midst of writing and publishes more at once; the producer's.
    /// Written before the tail.
    pub more: AtomicU32,
    /// The position that lies at the beginning of the memory; the producer's. Written when the FIFO
    /// is empty, before the tail.
    pub origin: AtomicU32,
    /// 1: the producer writes into the memory, or is about to; the producer's. Stored before it
    /// looks at `withheld`.
    pub writing: AtomicU32,
    reserved: [Reserved; 9],
    /// Where the consumer goes on; the consumer's.
    pub head: AtomicU32,
    /// The producer waits for room. The producer stores 1 and then looks once more; the consumer,
    /// when enough is free, exchanges it for 0, and sends a message when it was 1.
    pub want_room: AtomicU32,
    /// The values of `urgents` whose byte was taken out of the stream (MSG_OOB), and that was read
    /// past; the consumer's.
    pub urgent_taken: AtomicU32,
    /// See `urgent_taken`.
    pub urgent_passed: AtomicU32,
    /// How many bytes of the limit may not be used now; the consumer's. All bits are set while the
    /// consumer gives memory back: a process waits until that is over.
    pub withheld: AtomicU32,
    /// 1: the consumer let go when nothing was there that it had not taken out; the consumer's. What
    /// comes after that, nobody declined to read.
    pub drained: AtomicU32,
    reserved2: [Reserved; 10],
}

/// The words of a session. The first line is the host's, the second the processes'.
#[repr(C, align(64))]
#[derive(Default)]
pub struct SessionHead {
    /// Bits of [`state`].
    pub state: AtomicU32,
    /// The last error: a counter above, the errno in the low 16 bits. What a process has not seen
    /// is SO_ERROR.
    pub error: AtomicU32,
    /// Datagrams that found the receive FIFO full.
    pub rx_drops: AtomicU32,
    /// Bytes sent and not acknowledged (SIOCOUTQ is this and what is in the transmit FIFO behind
    /// it).
    pub unacked: AtomicU32,
    /// Errors of datagrams that wait to be asked for
    /// ([`crate::attach_socket::Request::ErrorReport`]).
    pub error_reports: AtomicU32,
    reserved: [Reserved; 11],
    /// The value of `error` that a process took last.
    pub error_seen: AtomicU32,
    /// Bits of [`flags`].
    pub flags: AtomicU32,
    /// SO_RCVTIMEO and SO_SNDTIMEO in microseconds; 0: none.
    pub receive_timeout: AtomicU64,
    /// See `receive_timeout`.
    pub send_timeout: AtomicU64,
    /// Held by the thread that reads; see [`crate::lock`].
    pub rx_lock: AtomicU32,
    /// Held by the thread that writes.
    pub tx_lock: AtomicU32,
    /// Whose a connection is that was accepted and that no process has: its own name while anybody
    /// may take it, which is done by exchanging that for [`taken_by`]; 0 when nobody may.
    pub claim: AtomicU64,
    /// SO_TIMESTAMP and its like, as the processes have set them
    /// ([`clearway_options::stamping`]).
    pub stamping: AtomicU32,
    /// Of datagrams the number of the next that is stamped, of a stream the position of the
    /// transmit FIFO from which numbers count (SOF_TIMESTAMPING_OPT_ID).
    pub stamp_key: AtomicU32,
    reserved2: [Reserved; 4],
    /// The host's, written before a connection's record is left, when a stream is opened ahead of
    /// need, and when it connects: what [`crate::attach_socket::Reply::Opened`] would say of it
    /// (`described.rs`).
    pub described: [AtomicU64; DESCRIBED],
    /// Where [`request::CONNECT`] connects to, as an address is described. Written by a process
    /// before it says so.
    pub destination: [AtomicU64; DESCRIBED / 4],
    reserved3: [Reserved; 2],
}

/// Words of a session's description.
pub const DESCRIBED: usize = 12;

/// What stands in [`SessionHead::claim`] when this process has taken the session. No session has
/// such a name: there are not so many workers.
pub const fn taken_by(process: u32) -> u64 {
    (u32::MAX as u64) << 32 | process as u64
}

/// Bits of a session's state. Bits are only ever added, but for those that say otherwise.
pub mod state {
    /// A handshake goes on. Taken back when it ends.
    pub const CONNECTING: u32 = 1;
    /// The handshake is done.
    pub const CONNECTED: u32 = 2;
    /// Listening.
    pub const LISTENING: u32 = 4;
    /// Nothing comes behind what is in the receive FIFO. Set after the last byte was published.
    pub const PEER_CLOSED: u32 = 8;
    /// The connection failed; `error` says why. Nothing more can be sent.
    pub const FAILED: u32 = 16;
    /// Both sides are done.
    pub const CLOSED: u32 = 32;
    /// The address is bound.
    pub const BOUND: u32 = 128;
}

/// Bits of a session that all processes share, as the open file description of Linux does.
pub mod flags {
    /// O_NONBLOCK.
    pub const NONBLOCK: u32 = 1;
    /// This side was shut down for writing.
    pub const SHUT_WRITE: u32 = 2;
    /// This side was shut down for reading.
    pub const SHUT_READ: u32 = 4;
    /// SO_RXQ_OVFL.
    pub const RXQ_OVFL: u32 = 8;
    /// IP_PKTINFO or IPV6_RECVPKTINFO.
    pub const PKTINFO: u32 = 16;
    /// IP_RECVTOS or IPV6_RECVTCLASS.
    pub const RECVTOS: u32 = 32;
    /// IP_RECVTTL or IPV6_RECVHOPLIMIT.
    pub const RECVTTL: u32 = 64;
    /// UDP_GRO.
    pub const UDP_GRO: u32 = 128;
    /// The connection failed and a `connect` has said so: the socket is as it was before, and may
    /// connect again (`tcp_disconnect` of Linux).
    pub const DISCONNECTED: u32 = 256;
    /// SO_OOBINLINE.
    pub const OOB_INLINE: u32 = 512;
    /// A process said [`super::request::CONNECT`]. Until the session's state says what came of it,
    /// a connection is being made.
    pub const CONNECT_ASKED: u32 = 1024;
}

/// What a listener's receive FIFO holds, one for each connection that waits to be accepted.
#[repr(C)]
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct AcceptRecord {
    /// The session, to be claimed.
    pub session: u64,
    /// Where its words lie: segment and offset.
    pub segment: u32,
    /// See `segment`.
    pub offset: u32,
}

impl AcceptRecord {
    /// The record of a session.
    pub const fn new(session: u64) -> AcceptRecord {
        AcceptRecord { session, segment: 0, offset: 0 }
    }

    /// The record of a session whose words lie there.
    pub const fn at(session: u64, head: Place) -> AcceptRecord {
        AcceptRecord { session, segment: head.segment, offset: head.offset }
    }

    /// Where its words lie.
    pub const fn head(&self) -> Place {
        Place { segment: self.segment, offset: self.offset }
    }
}

/// Bytes behind the payload of a datagram that has a stamp.
pub const STAMP_LEN: u32 = 8;

/// What stands in the FIFOs of stamps ([`crate::attach_socket::Request::Stamps`]): of bytes that
/// came, when; of bytes that were written, that it is to be told when they have left.
#[repr(C)]
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct StampRecord {
    /// Nanoseconds since the start of 1970; 0: nobody knows. Of bytes that were written the number
    /// to be told, and the flags above it.
    pub what: u64,
    /// Where in the stream's FIFO the bytes end.
    pub end: u32,
    reserved: u32,
}

impl StampRecord {
    /// The record of bytes that end there.
    pub const fn new(what: u64, end: u32) -> StampRecord {
        StampRecord { what, end, reserved: 0 }
    }
}

/// Stands before each datagram in a FIFO. `len` bytes follow, and then so many that the next record
/// begins at a multiple of 8.
#[repr(C)]
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct DatagramHead {
    /// Payload bytes.
    pub len: u32,
    /// The peer's port, in host order.
    pub port: u16,
    /// When not 0: the payload is several datagrams of this size each, the last perhaps shorter
    /// (UDP_SEGMENT, UDP_GRO).
    pub segment_size: u16,
    /// IPv4 TOS or IPv6 traffic class.
    pub tos: u8,
    /// TTL or hop limit. To send: 0 for the socket's own.
    pub ttl: u8,
    /// 4 or 6: the family of the addresses. To send: 0 for the connected peer.
    pub family: u8,
    /// 1: the last [`STAMP_LEN`] bytes are no payload: of a datagram that came they tell when, in
    /// nanoseconds since the start of 1970; of one to be sent the number and the flags with which it
    /// is told that it has left.
    pub stamped: u8,
    /// The interface.
    pub iface: u32,
    /// Who sent it, or shall get it. IPv4 in the first four bytes.
    pub peer: [u8; 16],
    /// The address of ours that it came to, or shall come from; all zero: the stack chooses.
    pub local: [u8; 16],
}

#[cfg(not(loom))]
const _: () = {
    assert!(
        offset_of!(HostHead, boot) == 8
            && offset_of!(HostHead, workers) == 16
            && size_of::<HostHead>() == 64
    );
    assert!(size_of::<WorkerWord>() == 64);
    assert!(
        offset_of!(QueuePairHead, sleepers) == 64
            && offset_of!(QueuePairHead, accepting) == 128
            && offset_of!(QueuePairHead, overflow) == 192
            && size_of::<QueuePairHead>() == 256
    );
    assert!(offset_of!(RingHead, head) == 64 && size_of::<RingHead>() == 128);
    assert!(size_of::<Message>() == 16);
    assert!(
        offset_of!(FifoHead, kicked) == 4
            && offset_of!(FifoHead, head) == 64
            && size_of::<FifoHead>() == 128
    );
    assert!(offset_of!(SessionHead, error_seen) == 64 && size_of::<SessionHead>() == 256);
    assert!(offset_of!(SessionHead, claim) == 96 && offset_of!(SessionHead, described) == 128);
    assert!(
        offset_of!(SessionHead, receive_timeout) == 72 && offset_of!(SessionHead, rx_lock) == 88
    );
    assert!(
        size_of::<AcceptRecord>() == 16
            && size_of::<StampRecord>() == 16
            && size_of::<DatagramHead>() == 48
    );
};
