//! Datagram sessions. A full FIFO towards the stack holds the process back; a full one towards the process leaves datagrams in the socket's queue, which
//! drops and counts what it cannot hold.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clearway_base::Handle;
use clearway_proto::{Datagram, UdpError, UdpEvents, UdpId, UdpOut, UdpSpec};
use clearway_shm::attach_socket::FifoPlace;
use clearway_shm::layout::{DatagramHead, event, flags};
use clearway_shm::record::{MAX_DATAGRAM, datagram_record_len};
use clearway_shm::{Consumer, Hostile, Producer};
use clearway_wire::{Addr, Endpoint};
use nix::errno::Errno;

use super::errors::about_errors;
use super::forwarder::{Forwarded, Road};
use super::groups::{Wish, iface_of, multicast_options};
use super::verbs::gone;
use super::{HostStack, Session, Sessions, What};
use crate::errno::{Refusal, refuse};
use crate::quota::{Permit, Thing};
use crate::store::FifoBlocks;

/// The longest payload of a record.
pub(super) const SCRATCH: usize = MAX_DATAGRAM as usize;

/// A FIFO that takes a record of any length, and another one while that is being read.
const MIN_FIFO: u32 = 2 * datagram_record_len(MAX_DATAGRAM);

/// Datagrams that one session hands over before others get their turn.
const QUANTUM: usize = 512;

/// A datagram session's part in the stack.
pub(super) struct Datagrams {
    /// None before it is bound.
    pub(super) socket: Option<UdpId>,
    rx: Producer,
    tx: Consumer,
    rx_blocks: FifoBlocks,
    tx_blocks: FifoBlocks,
    /// Memberships that wait for it.
    pub(super) wishes: Vec<Wish>,
    /// Datagrams may come joined (UDP_GRO).
    gro: bool,
    /// Between here and the workers that hold the port too.
    pub(super) road: Arc<Road>,
    /// Something went through since somebody looked last.
    moved: bool,
    _permit: Permit,
}

/// What came of sending one datagram.
enum Sent {
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
            let len = head.tail.load(Ordering::Relaxed).wrapping_sub(head.head.load(Ordering::Relaxed));
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
    fn has_more(&mut self) -> bool {
        matches!(self.tx.datagram(), Ok(Some(_)))
    }

    /// Gives back the memory in which nothing lies. True: the process waits for room to write, and there is some.
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

    /// Bytes of memory that both FIFOs have.
    pub(super) fn charged(&self) -> u64 {
        self.rx_blocks.charged() + self.tx_blocks.charged()
    }

    fn push(&mut self, head: DatagramHead, payload: &[u8]) -> Result<bool, Hostile> {
        let is_there = self.rx.push_datagram(head, &[IoSlice::new(payload)])?;
        self.moved |= is_there;
        if is_there {
            let len = datagram_record_len(payload.len() as u32);
            self.rx_blocks.touch(self.rx.offset(0).wrapping_sub(len), len);
        }
        Ok(is_there)
    }
}

impl Sessions {
    /// Gives a new datagram session its FIFOs.
    pub(super) fn make_datagrams(&mut self, handle: Handle<Session>) -> Result<(), Refusal> {
        let session = self.table.get_mut(handle).ok_or_else(gone)?;
        let program = &session.program;
        let permit = Permit::take(&program.quota, Thing::UdpSocket);
        let permit = permit.map_err(|scarce| refuse(Errno::ENOBUFS, scarce.to_string()))?;
        let no_memory = || refuse(Errno::ENOBUFS, "the program has all memory that it may (limits.memory)");
        let take = |len: u32| FifoBlocks::take(&program.memory, len.max(MIN_FIFO)).ok_or_else(no_memory);
        let rx_blocks = take(program.rx_len(session.options.receive_buffer))?;
        let tx_blocks = take(program.tx_len(session.options.send_buffer))?;
        let (rx, tx) = (Producer::new(rx_blocks.mem.clone()), Consumer::new(tx_blocks.mem.clone()));
        let road = Arc::default();
        let datagrams = Datagrams {
            socket: None,
            rx,
            tx,
            rx_blocks,
            tx_blocks,
            wishes: Vec::new(),
            gro: false,
            road,
            moved: false,
            _permit: permit,
        };
        session.what = What::Datagrams(Box::new(datagrams));
        Ok(())
    }

    pub(super) fn bind_datagrams(
        &mut self,
        stack: &mut HostStack,
        handle: Handle<Session>,
        local: Endpoint,
    ) -> Result<Endpoint, Refusal> {
        let session = self.table.get_mut(handle).ok_or_else(gone)?;
        let sharing = session.sharing();
        let What::Datagrams(datagrams) = &mut session.what else { return Err(gone()) };
        let spec =
            UdpSpec { table: session.table, local, token: Session::token(handle), v6_only: session.options.v6_only };
        let socket = stack.udp_bind_shared(spec, sharing)?;
        stack.udp_set_hops(socket, session.options.tos, session.options.ttl)?;
        stack.udp_set_mtu(socket, session.options.mtu)?;
        about_errors(stack, socket, &session.options)?;
        // An interface that is gone by now, or never was, is as none.
        let _ = stack.udp_set_multicast(socket, multicast_options(&session.options));
        datagrams.socket = Some(socket);
        self.forwarder_out(stack, handle);
        self.grant_wishes(stack, handle);
        Ok(stack.udp_local(socket).unwrap_or(local))
    }

    /// The session's socket; one that was never bound is bound to any address and a free port now, as on Linux.
    pub(super) fn bound(&mut self, stack: &mut HostStack, handle: Handle<Session>) -> Result<UdpId, Refusal> {
        let session = self.table.get(handle).ok_or_else(gone)?;
        match &session.what {
            What::Datagrams(datagrams) if datagrams.socket.is_some() => datagrams.socket.ok_or_else(gone),
            _ => {
                let any = Endpoint::new(session.any(), 0);
                let local = self.bind_datagrams(stack, handle, any)?;
                let session = self.table.get_mut(handle).ok_or_else(gone)?;
                session.local = Some(session.shown(local));
                match &session.what {
                    What::Datagrams(datagrams) => datagrams.socket.ok_or_else(gone),
                    _ => Err(gone()),
                }
            }
        }
    }

    pub(super) fn connect_datagrams(
        &mut self,
        stack: &mut HostStack,
        handle: Handle<Session>,
        remote: Option<SocketAddr>,
    ) -> Result<(), Refusal> {
        let session = self.table.get(handle).ok_or_else(gone)?;
        let Some(remote) = remote else { return self.disconnect_datagrams(stack, handle) };
        let peer = session.endpoint(remote)?;
        let socket = self.bound(stack, handle)?;
        stack.udp_connect(socket, peer)?;
        let session = self.table.get_mut(handle).ok_or_else(gone)?;
        session.remote = Some(remote);
        session.local = stack.udp_local(socket).map(|local| session.shown(local));
        self.forwarders_hear(handle, Some(peer));
        Ok(())
    }

    fn disconnect_datagrams(&mut self, stack: &mut HostStack, handle: Handle<Session>) -> Result<(), Refusal> {
        let session = self.table.get_mut(handle).ok_or_else(gone)?;
        let What::Datagrams(datagrams) = &session.what else { return Err(gone()) };
        if let Some(socket) = datagrams.socket {
            stack.udp_disconnect(socket)?;
            session.remote = None;
            session.local = stack.udp_local(socket).map(|local| session.shown(local));
            self.forwarders_hear(handle, None);
        }
        Ok(())
    }

    /// Hands the stack what the process has written, until it takes no more.
    pub(super) fn send_datagrams(&mut self, stack: &mut HostStack, handle: Handle<Session>) {
        let socket = match self.bound(stack, handle) {
            Ok(socket) => socket,
            Err(refusal) => return self.error_later(handle, refusal.errno),
        };
        let Some(session) = self.table.get_mut(handle) else { return };
        let What::Datagrams(datagrams) = &mut session.what else { return };
        datagrams.tx.attend();
        datagrams.moved = true;
        if let Ok(len) = datagrams.tx.len() {
            datagrams.tx_blocks.touch(datagrams.tx.offset(0), len);
        }
        let mut failed = None;
        let mut left = QUANTUM;
        let outcome = loop {
            match datagrams.tx.datagram() {
                Ok(Some(_)) if left == 0 => break Ok(true),
                Ok(Some(head)) => match datagrams.hand_over(stack, socket, &head, &mut self.scratch) {
                    Ok((Sent::Gone, error)) => {
                        failed = error.or(failed);
                        datagrams.tx.consume_datagram(&head);
                        left -= 1;
                    }
                    Ok((Sent::Later, _)) => break Ok(false),
                    Err(Hostile) => break Err(Hostile),
                },
                Ok(None) => break Ok(false),
                Err(Hostile) => break Err(Hostile),
            }
        };
        let wants_room = datagrams.tx.room_wanted(datagrams.tx_blocks.place.limit / 2);
        let program = Arc::clone(&session.program);
        session.show_reports(stack, socket);
        match outcome {
            Ok(true) => self.unfinished.push(handle),
            Ok(false) => {}
            Err(Hostile) => return self.cut_off(&program, "an impossible datagram in a FIFO"),
        }
        if let Some(errno) = failed {
            self.error_later(handle, errno);
        }
        if wants_room {
            self.tell(handle, event::WRITABLE);
        }
        self.goes_on_leaving(stack, handle, left < QUANTUM);
    }

    /// After a session gave datagrams to the stack that nobody has any more: it ends when these were the last, or has new hope.
    fn goes_on_leaving(&mut self, stack: &mut HostStack, handle: Handle<Session>, any: bool) {
        let Some(session) = self.table.get_mut(handle).filter(|session| session.leaves_at.is_some()) else { return };
        let What::Datagrams(datagrams) = &mut session.what else { return };
        if !datagrams.has_more() {
            self.end(stack, handle, false);
        } else if any {
            self.leavers.begin(handle);
        }
    }

    /// Nobody has the session any more. True: what was written goes to the stack first, and then it ends. Its address is free meanwhile.
    pub(super) fn sends_first(&mut self, stack: &mut HostStack, handle: Handle<Session>) -> bool {
        let Some(session) = self.table.get_mut(handle) else { return false };
        let What::Datagrams(datagrams) = &mut session.what else { return false };
        if !datagrams.has_more() {
            return false;
        }
        if session.leaves_at.is_some() {
            return true;
        }
        let id = session.id;
        session.subscribers.clear();
        self.send_datagrams(stack, handle);
        let Some(What::Datagrams(datagrams)) = self.table.get_mut(handle).map(|s| &mut s.what) else { return true };
        if let Some(socket) = datagrams.socket {
            stack.udp_let_go(socket);
        }
        if !datagrams.has_more() {
            return false;
        }
        self.cut_forwarders(id);
        if let Some(session) = self.table.get_mut(handle) {
            // Until its time begins, at the end of this turn's work.
            session.leaves_at = Some(self.now);
        }
        self.leavers.begin(handle);
        true
    }

    /// Hands the process what the stack has received, as long as there is room.
    pub(super) fn deliver_datagrams(&mut self, stack: &mut HostStack, handle: Handle<Session>) {
        let Some(session) = self.table.get_mut(handle) else { return };
        let What::Datagrams(datagrams) = &mut session.what else { return };
        let Some(socket) = datagrams.socket else { return };
        let gro = session.head.flags.load(Ordering::Relaxed) & flags::UDP_GRO != 0;
        if datagrams.gro != gro {
            datagrams.gro = gro;
            let _ = stack.udp_set_gro(socket, gro);
        }
        let outcome = datagrams.take_from(stack, socket);
        let dropped = stack.udp_dropped(socket).unwrap_or(0) + datagrams.road.lost();
        session.head.rx_drops.store(dropped as u32, Ordering::Release);
        match outcome {
            Ok(true) if datagrams.rx.kick() => self.tell(handle, event::READABLE),
            Ok(_) => {}
            Err(Hostile) => {
                let program = Arc::clone(&session.program);
                self.cut_off(&program, "an impossible position in a FIFO");
            }
        }
    }

    /// Hands the process what came to other workers; how many found no room.
    pub(super) fn take_forwarded(
        &mut self,
        stack: &mut HostStack,
        handle: Handle<Session>,
        forwarded: Vec<Forwarded>,
    ) -> u64 {
        let Some(session) = self.table.get_mut(handle) else { return 0 };
        // Who is connected hears its peer only, and the forwarder does not know of that.
        let peer = session.remote.map(Endpoint::from);
        let What::Datagrams(datagrams) = &mut session.what else { return 0 };
        let mut lost = 0;
        let mut any = false;
        for (head, from, payload) in forwarded {
            if peer.is_some_and(|peer| peer != Endpoint::from(from)) {
                continue;
            }
            // What waits in the stack came before, and lies there for want of room.
            let taken = match datagrams.has_room() {
                Ok(true) => datagrams.push(head, &payload),
                other => other,
            };
            match taken {
                Ok(true) => any = true,
                Ok(false) => lost += 1,
                Err(Hostile) => {
                    let program = Arc::clone(&session.program);
                    self.cut_off(&program, "an impossible position in a FIFO");
                    return lost;
                }
            }
        }
        if any && datagrams.rx.kick() {
            self.tell(handle, event::READABLE);
        }
        self.deliver_datagrams(stack, handle);
        lost
    }

    /// Says how many datagrams found no room.
    pub(super) fn show_drops(&mut self, stack: &HostStack, handle: Handle<Session>) {
        let Some(session) = self.table.get(handle) else { return };
        let What::Datagrams(datagrams) = &session.what else { return };
        let dropped =
            datagrams.socket.and_then(|socket| stack.udp_dropped(socket)).unwrap_or(0) + datagrams.road.lost();
        session.head.rx_drops.store(dropped as u32, Ordering::Release);
    }

    /// Events of the stack for a UDP socket.
    pub(super) fn on_udp(&mut self, stack: &mut HostStack, handle: Handle<Session>, what: UdpEvents) {
        if what.has(UdpEvents::READABLE) {
            self.deliver_datagrams(stack, handle);
        }
        if what.has(UdpEvents::WRITABLE) {
            self.send_datagrams(stack, handle);
        }
        if what.has(UdpEvents::ERROR) {
            self.tell_error(stack, handle);
        }
    }
}

impl Datagrams {
    fn hand_over(
        &mut self,
        stack: &mut HostStack,
        socket: UdpId,
        head: &DatagramHead,
        scratch: &mut [u8],
    ) -> Result<(Sent, Option<Errno>), Hostile> {
        let Some((to, from)) = addresses(head) else { return Ok((Sent::Gone, Some(Errno::EAFNOSUPPORT))) };
        let len = self.tx.peek_datagram(head, 0, scratch)?;
        let out = UdpOut {
            to,
            from,
            tos: (head.tos != 0).then_some(head.tos),
            ttl: (head.ttl != 0).then_some(head.ttl),
            segment_size: head.segment_size,
            iface: iface_of(head.iface),
        };
        match stack.udp_send_with(socket, &out, &scratch[..len]) {
            Ok(()) => Ok((Sent::Gone, None)),
            Err(UdpError::Full) => Ok((Sent::Later, None)),
            Err(why) => Ok((Sent::Gone, Some(send_errno(why)))),
        }
    }

    /// Takes datagrams from the stack into the FIFO. True: there were some.
    fn take_from(&mut self, stack: &mut HostStack, socket: UdpId) -> Result<bool, Hostile> {
        let mut any = false;
        loop {
            // Room for the longest is asked for, because a datagram that was taken from the stack cannot be put back.
            if !self.has_room()? {
                return Ok(any);
            }
            let Some(datagram) = stack.udp_recv(socket) else { return Ok(any) };
            let head = head_of(&datagram);
            any |= self.push(head, datagram.payload)?;
        }
    }

    fn has_room(&mut self) -> Result<bool, Hostile> {
        const WANTED: u32 = datagram_record_len(MAX_DATAGRAM);
        if self.rx.room()? >= WANTED {
            return Ok(true);
        }
        self.rx.ask_room();
        Ok(self.rx.room()? >= WANTED)
    }
}

/// Where a datagram goes (None: the connected peer) and what it comes from (None: the stack chooses).
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

pub(super) fn head_of(datagram: &Datagram<'_>) -> DatagramHead {
    let bytes = |addr: &Addr| {
        let mut bytes = [0; 16];
        let wire = addr.wire_bytes();
        bytes[..wire.len()].copy_from_slice(wire);
        bytes
    };
    let mut head = DatagramHead::default();
    (head.port, head.segment_size) = (datagram.from.port, datagram.segment_size);
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
