//! Datagram sessions. A full FIFO towards the stack holds the process back; a full one towards the
//! process leaves datagrams in the socket's queue, which drops and counts what it cannot hold.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clearway_base::{Duration, Handle};
use clearway_options::stamping::notes_arrival;
use clearway_proto::{UdpEvents, UdpId, UdpSpec};
use clearway_shm::layout::{event, flags};
use clearway_shm::record::{MAX_DATAGRAM, datagram_record_len};
use clearway_shm::{Consumer, Hostile, Producer};
use clearway_wire::Endpoint;
use nix::errno::Errno;

use super::datagram_fifos::{Datagrams, Sent};
use super::remote::Forwarded;
use super::session_options::{about_errors, multicast_options};
use super::state::{Session, Sessions, What, gone};
use crate::env::HostStack;
use crate::errno::{Refusal, refuse};
use crate::memory::Charge;
use crate::quota::{Permit, Thing};
use crate::store::FifoBlocks;

/// A FIFO that takes a record of any length, and another one while that is being read.
const MIN_FIFO: u32 = 2 * datagram_record_len(MAX_DATAGRAM);

/// Datagrams that one session hands over before others get their turn.
const QUANTUM: usize = 512;

impl Sessions {
    /// Gives a new datagram session its FIFOs.
    pub(super) fn make_datagrams(&mut self, handle: Handle<Session>) -> Result<(), Refusal> {
        let session = self.table.get_mut(handle).ok_or_else(gone)?;
        let program = &session.program;
        let permit = Permit::take(&program.quota, Thing::UdpSocket);
        let permit = permit.map_err(|scarce| refuse(Errno::ENOBUFS, scarce.to_string()))?;
        let no_memory =
            || refuse(Errno::ENOBUFS, "the program has all memory that it may (limits.memory)");
        let take =
            |len: u32| FifoBlocks::take(&program.memory, len.max(MIN_FIFO)).ok_or_else(no_memory);
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
            queues: Charge::to(program.memory.account()),
            wishes: Vec::new(),
            gro: false,
            road,
            moved: false,
            bytes: (0, 0),
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
        let spec = UdpSpec {
            table: session.table,
            local,
            token: Session::token(handle),
            v6_only: session.options.v6_only,
        };
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

    /// The session's socket; one that was never bound is bound to any address and a free port now,
    /// as on Linux.
    pub(super) fn bound(
        &mut self,
        stack: &mut HostStack,
        handle: Handle<Session>,
    ) -> Result<UdpId, Refusal> {
        let session = self.table.get(handle).ok_or_else(gone)?;
        match &session.what {
            What::Datagrams(datagrams) if datagrams.socket.is_some() => {
                datagrams.socket.ok_or_else(gone)
            }
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
        let peer = session.peer(remote, session.local.map(Endpoint::from))?;
        let socket = self.bound(stack, handle)?;
        stack.udp_connect(socket, peer)?;
        let session = self.table.get_mut(handle).ok_or_else(gone)?;
        session.remote = Some(remote);
        session.local = stack.udp_local(socket).map(|local| session.shown(local));
        self.forwarders_hear(handle, Some(peer));
        Ok(())
    }

    fn disconnect_datagrams(
        &mut self,
        stack: &mut HostStack,
        handle: Handle<Session>,
    ) -> Result<(), Refusal> {
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
        // What a process wrote that ended is looked for in all sessions that it had: to send makes
        // an address, and to look does not.
        let Some(session) = self.table.get_mut(handle) else { return };
        let What::Datagrams(datagrams) = &mut session.what else { return };
        if datagrams.socket.is_none() && datagrams.tx.datagram() == Ok(None) {
            return;
        }
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
                Ok(Some(head)) => {
                    match datagrams.hand_over(stack, socket, &head, &mut self.scratch) {
                        Ok((Sent::Gone, error)) => {
                            failed = error.or(failed);
                            datagrams.tx.consume_datagram(&head);
                            left -= 1;
                        }
                        Ok((Sent::Later, _)) => break Ok(false),
                        Err(Hostile) => break Err(Hostile),
                    }
                }
                Ok(None) => break Ok(false),
                Err(Hostile) => break Err(Hostile),
            }
        };
        datagrams.charge_queues(stack);
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

    /// After a session gave datagrams to the stack that nobody has any more: it ends when these
    /// were the last, or has new hope.
    fn goes_on_leaving(&mut self, stack: &mut HostStack, handle: Handle<Session>, any: bool) {
        let Some(session) =
            self.table.get_mut(handle).filter(|session| session.leaves_at.is_some())
        else {
            return;
        };
        let What::Datagrams(datagrams) = &mut session.what else { return };
        if !datagrams.has_more() {
            self.end(stack, handle, false);
        } else if any {
            self.leavers.begin(handle);
        }
    }

    /// Nobody has the session any more. True: what was written goes to the stack first, and then it
    /// ends. Its address is free meanwhile.
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
        let Some(What::Datagrams(datagrams)) = self.table.get_mut(handle).map(|s| &mut s.what)
        else {
            return true;
        };
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
        let outcome =
            datagrams.take_from(stack, socket, notes_arrival(session.options.timestamping));
        datagrams.charge_queues(stack);
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
        let stamped = notes_arrival(session.options.timestamping);
        let What::Datagrams(datagrams) = &mut session.what else { return 0 };
        let mut lost = 0;
        let mut any = false;
        for Forwarded { mut head, from, payload, arrived } in forwarded {
            if peer.is_some_and(|peer| peer != Endpoint::from(from)) {
                continue;
            }
            head.stamped = u8::from(stamped && arrived != Duration::ZERO);
            // What waits in the stack came before, and lies there for want of room.
            let taken = match datagrams.has_room() {
                Ok(true) => datagrams.push(head, &payload, arrived),
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
        let dropped = datagrams.socket.and_then(|socket| stack.udp_dropped(socket)).unwrap_or(0)
            + datagrams.road.lost();
        session.head.rx_drops.store(dropped as u32, Ordering::Release);
    }

    /// Events of the stack for a UDP socket.
    pub(super) fn on_udp(
        &mut self,
        stack: &mut HostStack,
        handle: Handle<Session>,
        what: UdpEvents,
    ) {
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
