//! A datagram session's part in the stack: its socket, and the FIFOs of records between it and the
//! process.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clearway_base::Duration;
use clearway_options::stamping;
use clearway_proto::{Datagram, UdpError, UdpId, UdpOut, UdpStamp};
use clearway_shm::attach_socket::FifoPlace;
use clearway_shm::layout::{DatagramHead, STAMP_LEN};
use clearway_shm::record::{MAX_DATAGRAM, datagram_record_len};
use clearway_shm::{Consumer, Hostile, Producer};
use clearway_wire::{Addr, Endpoint};
use nix::errno::Errno;

use super::membership::{Wish, iface_of};
use super::remote::Road;
use crate::env::HostStack;
use crate::errno::Refusal;
use crate::memory::Charge;
use crate::quota::Permit;
use crate::store::FifoBlocks;

/// The longest payload of a record.
pub(super) const SCRATCH: usize = MAX_DATAGRAM as usize;

/// A datagram session's part in the stack.
pub(super) struct Datagrams {
    /// None before it is bound.
    pub(super) socket: Option<UdpId>,
    pub(super) rx: Producer,
    pub(super) tx: Consumer,
    pub(super) rx_blocks: FifoBlocks,
    pub(super) tx_blocks: FifoBlocks,
    /// What the socket's own queues take of the host's memory.
    pub(super) queues: Charge,
    /// Memberships that wait for it.
    pub(super) wishes: Vec<Wish>,
    /// Datagrams may come joined (UDP_GRO).
    pub(super) gro: bool,
    /// Between here and the workers that hold the port too.
    pub(super) road: Arc<Road>,
    /// Something went through since somebody looked last.
    pub(super) moved: bool,
    /// Bytes of payload that its process was given, and that the stack took from it.
    pub(super) bytes: (u64, u64),
    pub(super) _permit: Permit,
}

/// What came of sending one datagram.
pub(super) enum Sent {
    /// It is the stack's, or nobody's: an error was told.
    Gone,
    /// The stack's queue is full.
    Later,
}

impl Datagrams {
    pub(super) fn places(&self) -> (FifoPlace, FifoPlace) {
        (self.rx_blocks.place, self.tx_blocks.place)
    }

    /// Bytes in both FIFOs, and how many there may be.
    pub(super) fn fill(&self) -> ((u32, u32), (u32, u32)) {
        let fill = |blocks: &FifoBlocks| {
            let head = blocks.mem.head();
            let len =
                head.tail.load(Ordering::Relaxed).wrapping_sub(head.head.load(Ordering::Relaxed));
            (len.min(blocks.place.limit), blocks.place.limit)
        };
        (fill(&self.rx_blocks), fill(&self.tx_blocks))
    }

    /// What was handed to the stack still leaves. Answers how many datagrams were not.
    pub(super) fn end(mut self: Box<Self>, stack: &mut HostStack) -> u64 {
        if let Some(socket) = self.socket {
            stack.udp_close(socket);
        }
        let mut lost = 0;
        while let Ok(Some(head)) = self.tx.datagram() {
            self.tx.consume_datagram(&head);
            lost += 1;
        }
        lost
    }

    /// Whether the process has written something that the stack has not taken.
    pub(super) fn has_more(&mut self) -> bool {
        matches!(self.tx.datagram(), Ok(Some(_)))
    }

    /// Gives back the memory in which nothing lies. True: the process waits for room to write, and
    /// there is some.
    pub(super) fn give_back(&mut self) -> bool {
        if let Ok(len) = self.rx.len() {
            let start = self.rx.offset(0).wrapping_sub(len) & (self.rx_blocks.place.capacity - 1);
            self.rx_blocks.keep_only(start, len);
        }
        let known = self.tx.known();
        if self.tx.withhold() && self.tx.len().is_ok_and(|len| len == known) {
            self.tx_blocks.keep_only(self.tx.offset(0), known);
        }
        self.tx.lend(self.tx_blocks.place.limit);
        self.tx.room_wanted(1)
    }

    /// Whether something went through since the last call.
    pub(super) fn has_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// Bytes of memory that both FIFOs and the socket's queues have.
    pub(super) fn charged(&self) -> u64 {
        self.rx_blocks.charged() + self.tx_blocks.charged() + self.queues.bytes()
    }

    /// The program is charged with what the socket's queues have by now.
    pub(super) fn charge_queues(&mut self, stack: &HostStack) {
        if let Some(socket) = self.socket {
            self.queues.set(stack.udp_memory(socket) as u64);
        }
    }

    /// Puts a datagram into the FIFO, and behind it when it came, if its head says so.
    pub(super) fn push(
        &mut self,
        head: DatagramHead,
        payload: &[u8],
        arrived: Duration,
    ) -> Result<bool, Hostile> {
        let arrived = arrived.as_nanos().to_le_bytes();
        let parts = [IoSlice::new(payload), IoSlice::new(&arrived)];
        let parts = &parts[..1 + usize::from(head.stamped != 0)];
        let is_there = self.rx.push_datagram(head, parts)?;
        self.moved |= is_there;
        if is_there {
            self.bytes.0 += payload.len() as u64;
            let len = parts.iter().map(|part| part.len() as u32).sum();
            let len = datagram_record_len(len);
            self.rx_blocks.touch(self.rx.offset(0).wrapping_sub(len), len);
        }
        Ok(is_there)
    }
}

impl Datagrams {
    pub(super) fn hand_over(
        &mut self,
        stack: &mut HostStack,
        socket: UdpId,
        head: &DatagramHead,
        scratch: &mut [u8],
    ) -> Result<(Sent, Option<Errno>), Hostile> {
        let Some((to, from)) = addresses(head) else {
            return Ok((Sent::Gone, Some(Errno::EAFNOSUPPORT)));
        };
        let len = self.tx.peek_datagram(head, 0, scratch)?;
        let (stamp, payload) = asked(head, &scratch[..len]);
        let out = UdpOut {
            to,
            from,
            tos: (head.tos != 0).then_some(head.tos),
            ttl: (head.ttl != 0).then_some(head.ttl),
            segment_size: head.segment_size,
            iface: iface_of(head.iface),
            stamp,
        };
        match stack.udp_send_with(socket, &out, payload) {
            Ok(()) => {
                self.bytes.1 += payload.len() as u64;
                Ok((Sent::Gone, None))
            }
            Err(UdpError::Full) => Ok((Sent::Later, None)),
            Err(why) => Ok((Sent::Gone, Some(send_errno(why)))),
        }
    }

    /// Takes datagrams from the stack into the FIFO. True: there were some.
    pub(super) fn take_from(
        &mut self,
        stack: &mut HostStack,
        socket: UdpId,
        stamped: bool,
    ) -> Result<bool, Hostile> {
        let mut any = false;
        loop {
            // Room for the longest is asked for, because a datagram that was taken from the stack
            // cannot be put back.
            if !self.has_room()? {
                return Ok(any);
            }
            let Some(datagram) = stack.udp_recv(socket) else { return Ok(any) };
            let head = head_of(&datagram, stamped);
            any |= self.push(head, datagram.payload, datagram.arrived)?;
        }
    }

    pub(super) fn has_room(&mut self) -> Result<bool, Hostile> {
        const WANTED: u32 = datagram_record_len(MAX_DATAGRAM);
        if self.rx.room()? >= WANTED {
            return Ok(true);
        }
        self.rx.ask_room();
        Ok(self.rx.room()? >= WANTED)
    }
}

/// Where a datagram goes (None: the connected peer) and what it comes from (None: the stack
/// chooses).
fn addresses(head: &DatagramHead) -> Option<(Option<Endpoint>, Option<Addr>)> {
    let addr = |bytes: &[u8; 16], family: u8| match family {
        4 => Some(Addr::v4([bytes[0], bytes[1], bytes[2], bytes[3]])),
        6 => Some(Addr::v6(*bytes)),
        _ => None,
    };
    let is_zero = |bytes: &[u8; 16]| bytes.iter().all(|b| *b == 0);
    if head.family == 0 {
        return Some((None, None));
    }
    let to = Endpoint::new(addr(&head.peer, head.family)?, head.port);
    let from = if is_zero(&head.local) { None } else { addr(&head.local, head.family) };
    Some((Some(to), from))
}

/// The head of a datagram that came. `stamped`: the program wants to know when, if that is known.
pub(super) fn head_of(datagram: &Datagram<'_>, stamped: bool) -> DatagramHead {
    let bytes = |addr: &Addr| {
        let mut bytes = [0; 16];
        let wire = addr.wire_bytes();
        bytes[..wire.len()].copy_from_slice(wire);
        bytes
    };
    let mut head = DatagramHead::default();
    (head.port, head.segment_size) = (datagram.from.port, datagram.segment_size);
    head.stamped = u8::from(stamped && datagram.arrived != Duration::ZERO);
    (head.tos, head.ttl) = (datagram.tos, datagram.ttl);
    head.family = if datagram.from.addr.is_v4() { 4 } else { 6 };
    // Linux counts interfaces from 1.
    head.iface = u32::from(datagram.iface.0) + 1;
    (head.peer, head.local) = (bytes(&datagram.from.addr), bytes(&datagram.to));
    head
}

/// Linux's number for a datagram that could not be sent.
fn send_errno(why: UdpError) -> Errno {
    match why {
        // Neither a destination nor a peer.
        UdpError::BadAddress => Errno::EINVAL,
        other => Refusal::from(other).errno,
    }
}

/// What a datagram of a process asks to be told of it, and its payload without that.
fn asked<'a>(head: &DatagramHead, record: &'a [u8]) -> (Option<UdpStamp>, &'a [u8]) {
    let stamp = match head.stamped {
        0 => None,
        _ => record.split_last_chunk::<{ STAMP_LEN as usize }>(),
    };
    let Some((payload, stamp)) = stamp else { return (None, record) };
    let stamp = u64::from_le_bytes(*stamp);
    let kinds = (stamp >> 32) as u32;
    let stamp = UdpStamp {
        key: stamp as u32,
        scheduled: kinds & stamping::TX_SCHED != 0,
        sent: kinds & stamping::TX_SOFTWARE != 0,
        keeps_payload: kinds & stamping::OPT_TSONLY == 0,
    };
    (Some(stamp), payload)
}
