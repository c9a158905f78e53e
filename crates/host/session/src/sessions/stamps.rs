//! When data of sessions came and left, for programs that ask (SO_TIMESTAMP, SO_TIMESTAMPING). As
//! long as one of them does, on any worker where its packets may come, the engine tells the stack
//! what the calendar shows.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clearway_base::Handle;
use clearway_options::stamping;
use clearway_proto::{UdpId, UdpLeft, UdpStamped};
use clearway_shm::attach_socket::{ErrorReport, FifoPlace, LONGEST_QUOTE, SentStamp, SessionId};
use clearway_shm::layout::event;
use clearway_wire::{Addr, Proto, ipv4, ipv6, udp};
use nix::errno::Errno;

use super::state::{Session, Sessions, What, gone};
use crate::env::HostStack;
use crate::errno::{Refusal, refuse};
use crate::program::Program;

/// Which time of a datagram it is (`SCM_TSTAMP_*` of `linux/errqueue.h`).
const SENT: u32 = 0;
const SCHEDULED: u32 = 1;

/// Bytes before an IP packet in what an Ethernet device sends.
const ETHERNET: usize = 14;

impl Sessions {
    /// What the session's options say of stamps holds from now on.
    pub(super) fn heed_stamping(&mut self, stack: &mut HostStack, handle: Handle<Session>) {
        let Some(session) = self.table.get_mut(handle) else { return };
        let word = session.options.timestamping;
        let arrivals = stamping::notes_arrival(word);
        let departures = stamping::notes_leaving(word);
        let asks = arrivals || departures;
        if !asks && !session.asks_stamps {
            return;
        }
        let was = std::mem::replace(&mut session.asks_stamps, asks);
        if let What::Conn(conn) = session.what {
            let program = Arc::clone(&session.program);
            if let Some((rx, tx)) = stack.queues(conn) {
                // Without memory there are no stamps, which a program has to be ready for.
                rx.note_arrivals(&program.memory, arrivals);
                tx.note_departures(&program.memory, departures);
            }
            // Bytes that go round the stack meet no clock.
            self.unjoin(stack, handle);
        }
        if was != asks {
            self.count_stamped(stack, handle, asks);
        }
    }

    /// One session more asks for stamps, or one less. What is for it may come to every worker.
    fn count_stamped(&mut self, stack: &mut HostStack, handle: Handle<Session>, more: bool) {
        let is_connection =
            self.table.get(handle).is_none_or(|session| matches!(session.what, What::Conn(_)));
        self.count_one(stack, more);
        if is_connection {
            return;
        }
        if let Some(session) = self.table.get_mut(handle) {
            session.asks_everywhere = more;
        }
        self.count_elsewhere(more);
    }

    fn count_elsewhere(&self, more: bool) {
        for worker in (0..self.context.workers()).filter(|worker| *worker != self.index) {
            let count = move |sessions: &mut Sessions, stack: &mut HostStack| {
                sessions.count_one(stack, more);
            };
            self.to_worker(worker, Box::new(count));
        }
    }

    fn count_one(&mut self, stack: &mut HostStack, more: bool) {
        let now = if more { self.stamped + 1 } else { self.stamped.saturating_sub(1) };
        self.stamped = now;
        if stack.wants_calendar() != (now > 0) {
            stack.want_calendar(now > 0);
        }
    }

    /// The session has ended.
    pub(super) fn stamps_no_more(&mut self, stack: &mut HostStack, session: &Session) {
        if session.asks_stamps {
            self.count_one(stack, false);
        }
        if session.asks_everywhere {
            self.count_elsewhere(false);
        }
    }

    /// Where the FIFOs of a stream's stamps lie.
    pub fn stamp_places(
        &self,
        stack: &HostStack,
        program: &Arc<Program>,
        id: SessionId,
    ) -> Result<(Option<FifoPlace>, Option<FifoPlace>), Refusal> {
        let handle = self.session(program, id)?;
        match self.table.get(handle).ok_or_else(gone)?.what {
            What::Conn(conn) => {
                let (rx, tx) = stack.queues(conn).ok_or_else(gone)?;
                Ok((rx.arrivals_place(), tx.departures_place()))
            }
            _ => Err(refuse(Errno::ENOTCONN, "only a connection has FIFOs of stamps")),
        }
    }

    /// After packets have left: who is to be told of one.
    pub(super) fn tell_stamps(&mut self, stack: &mut HostStack) {
        while let Some((_, token)) = stack.next_stamped() {
            self.tell_of_stamps(stack, token);
        }
        while let Some(token) = stack.stores().1.next_stamped() {
            self.tell_of_stamps(stack, token);
        }
    }

    fn tell_of_stamps(&mut self, stack: &HostStack, token: u64) {
        let Some(handle) = Handle::<Session>::from_bits(token) else { return };
        let Some(session) = self.table.get(handle) else { return };
        match &session.what {
            What::Datagrams(datagrams) => {
                if let Some(socket) = datagrams.socket {
                    session.show_reports(stack, socket);
                }
            }
            What::Conn(conn) => {
                let stamps = stack.queues(*conn).map_or(0, |(_, tx)| tx.stamps());
                session.head.error_reports.store(stamps, Ordering::Release);
            }
            What::Fresh | What::Listener(_) => return,
        }
        self.tell(handle, event::STATE);
    }

    /// The oldest stamp of a connection.
    pub(super) fn stream_stamp(
        &self,
        stack: &HostStack,
        handle: Handle<Session>,
    ) -> Option<ErrorReport> {
        let session = self.table.get(handle)?;
        let What::Conn(conn) = session.what else { return None };
        let (_, tx) = stack.queues(conn)?;
        let stamp = tx.next_stamp()?;
        session.head.error_reports.store(tx.stamps(), Ordering::Release);
        let sent = SentStamp { kind: stamp.kind, key: stamp.key, iface: 0, from: None };
        Some(report(sent, stamp.at, session.remote?, Vec::new()))
    }
}

/// The next thing to be told of a datagram that has left.
pub(super) fn datagram_stamp(stack: &mut HostStack, socket: UdpId) -> Option<ErrorReport> {
    let (stamped, payload) = stack.udp_stamped(socket)?;
    let kind = match stamped.what {
        UdpLeft::Scheduled => SCHEDULED,
        UdpLeft::Sent => SENT,
    };
    let payload = if stamped.stamp.keeps_payload { frame(&stamped, payload) } else { Vec::new() };
    let sent = SentStamp {
        kind,
        key: stamped.stamp.key,
        iface: stamped.iface.map_or(0, |iface| u32::from(iface.0) + 1),
        from: Some(stamped.from.addr.into()),
    };
    Some(report(sent, stamped.at.as_nanos(), stamped.to.into(), payload))
}

/// A stamp as processes are told of it.
fn report(stamp: SentStamp, at: u64, to: SocketAddr, payload: Vec<u8>) -> ErrorReport {
    let (offender, icmp, mtu) = (None, (0, 0), 0);
    let errno = Errno::ENOMSG as i32;
    ErrorReport { errno, to, offender, icmp, mtu, payload, at, stamp: Some(stamp) }
}

/// The packet as an Ethernet device sends it, as Linux gives it back. The addresses of Ethernet, and
/// the checksum of UDP, are nothing that is known up here: they are 0, as on a loopback interface
/// and where a device sums.
fn frame(stamped: &UdpStamped, payload: &[u8]) -> Vec<u8> {
    let (from, to) = (stamped.from, stamped.to);
    let v4 = from.addr.is_v4();
    let len = (udp::HEADER_LEN + payload.len()) as u16;
    let ip = if v4 { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
    let mut frame = vec![0; ETHERNET + ip + udp::HEADER_LEN];
    let kind: [u8; 2] = if v4 { [0x08, 0x00] } else { [0x86, 0xdd] };
    frame[ETHERNET - 2..ETHERNET].copy_from_slice(&kind);
    let (src, dst): (Addr, Addr) = (from.addr, to.addr);
    if v4 {
        let header = ipv4::Header {
            tos: stamped.tos,
            payload_len: len,
            id: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            ttl: stamped.ttl,
            proto: Proto::UDP,
            src,
            dst,
        };
        ipv4::emit(&header, &mut frame[ETHERNET..]);
    } else {
        let header = ipv6::Header {
            traffic_class: stamped.tos,
            flow_label: 0,
            payload_len: len,
            next: Proto::UDP,
            hop_limit: stamped.ttl,
            src,
            dst,
        };
        ipv6::emit(&header, &mut frame[ETHERNET..]);
    }
    udp::emit(from.port, to.port, payload.len() as u16, &mut frame[ETHERNET + ip..]);
    frame.extend_from_slice(payload);
    frame.truncate(LONGEST_QUOTE);
    frame
}
