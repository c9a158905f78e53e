//! Datagrams: records in the FIFOs.

use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering;

use clearway_shm::layout::{DatagramHead, STAMP_LEN, flags, request};
use clearway_shm::record::datagram_record_len;
use clearway_shm::{Consumer, Hostile, Producer};

use super::{Arrived, Received, SendTo, broken};
use crate::ready::{READ, WRITE, room_in};
use crate::wait::Deadline;
use crate::{Errno, Socket, destination};

/// The longest payload of UDP over IPv4, and over IPv6.
const MAX_PAYLOAD: [usize; 2] = [65_507, 65_527];

impl Socket {
    /// A datagram for this address, or for the peer, goes over IPv4, as it may from an IPv6 socket.
    pub fn goes_over_v4(&self, to: Option<SocketAddr>) -> bool {
        let peer = || to.or_else(|| self.remote());
        !self.core.v6 || peer().is_some_and(|to| to.ip().to_canonical().is_ipv4())
    }

    pub(super) fn send_datagram(
        &self,
        from: &[IoSlice<'_>],
        how: &SendTo,
        flags: i32,
    ) -> Result<usize, Errno> {
        let total: usize = from.iter().map(|part| part.len()).sum();
        if flags & libc::MSG_OOB != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        let to = how.to.map(|to| destination(to, || self.local().ip()));
        let [over_v4, over_v6] = MAX_PAYLOAD;
        if total > over_v6 || total > over_v4 && self.goes_over_v4(to) {
            return Err(Errno::MSGSIZE);
        }
        self.may_send_datagram()?;
        let how = &SendTo { to, ..*how };
        if how.to.is_none() && self.remote().is_none() {
            return Err(Errno::DESTADDRREQ);
        }
        if self.core.tx().is_none() {
            self.bind(self.unspecified())?;
        }
        let tx = self.core.tx().ok_or(Errno::PROTO)?;
        let stamped = self.stamped(how);
        let stamp_len = if stamped.is_some() { STAMP_LEN } else { 0 };
        let record = datagram_record_len(total as u32 + stamp_len);
        if record > tx.mem.limit() {
            return Err(Errno::MSGSIZE);
        }
        self.may_leave(how, total)?;
        let head = outgoing(how);
        let mut deadline = None;
        loop {
            let held = self.core.lock_tx();
            let stamp = stamped.and_then(|flags| self.stamp_of_datagram(flags, how));
            let pushed = tx.with(&held, |tx| {
                let pushed = match stamp {
                    None => tx.push_datagram(head, from),
                    Some(stamp) => push_stamped(tx, head, from, stamp),
                };
                let pushed = pushed.map_err(broken)?;
                if !pushed && tx.faulted() {
                    return Err(Errno::FAULT);
                }
                Ok((pushed, pushed && tx.kick()))
            });
            if let (Some(flags), Ok(Ok((true, _)))) = (stamped, &pushed) {
                self.took_key(flags, how);
            }
            drop(held);
            let (pushed, kicked) = pushed.map_err(broken)??;
            if kicked {
                self.tell(request::WROTE, 0);
            }
            if pushed {
                return Ok(total);
            }
            tx.mem.head().want_room.swap(1, Ordering::AcqRel);
            if room_in(&tx.mem) >= record {
                continue;
            }
            if !self.blocks(flags) {
                self.client.poll_once();
                return Err(Errno::AGAIN);
            }
            self.wait_to_send_datagram(record, &mut deadline)?;
            self.may_send_datagram()?;
        }
    }

    fn may_send_datagram(&self) -> Result<(), Errno> {
        let alive = self.is_alive();
        if let Some(errno) = self.core.take_error(alive) {
            return Err(errno);
        }
        if self.core.flags() & flags::SHUT_WRITE != 0 {
            return Err(Errno::PIPE);
        }
        if !alive {
            self.client.come_back();
        }
        if alive || self.is_alive() { Ok(()) } else { Err(Errno::NETDOWN) }
    }

    fn wait_to_send_datagram(
        &self,
        record: u32,
        deadline: &mut Option<Deadline>,
    ) -> Result<(), Errno> {
        let deadline = *deadline.get_or_insert_with(|| self.send_deadline());
        let can_go_on = || {
            let alive = self.is_alive();
            let shut = self.core.flags() & flags::SHUT_WRITE != 0;
            let fits = self.core.tx().is_some_and(|tx| room_in(&tx.mem) >= record);
            fits || shut || !alive || self.core.has_error(alive)
        };
        self.client.wait_for(&self.core, WRITE, deadline, can_go_on)
    }

    pub(super) fn recv_datagram(
        &self,
        into: &mut [IoSliceMut<'_>],
        flags: i32,
    ) -> Result<Received, Errno> {
        if flags & libc::MSG_OOB != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        if flags & libc::MSG_ERRQUEUE != 0 {
            return Err(Errno::AGAIN);
        }
        let mut deadline = None;
        loop {
            let alive = self.is_alive();
            if let Some(errno) = self.core.take_error(alive) {
                return Err(errno);
            }
            if let Some(received) = self.take_datagram(into, flags)? {
                return Ok(received);
            }
            if self.core.flags() & flags::SHUT_READ != 0 {
                return Ok(Received::default());
            }
            if !self.blocks(flags) {
                self.client.poll_once();
                return Err(Errno::AGAIN);
            }
            self.wait_for_datagram(&mut deadline)?;
        }
    }

    fn wait_for_datagram(&self, deadline: &mut Option<Deadline>) -> Result<(), Errno> {
        let deadline = *deadline.get_or_insert_with(|| self.receive_deadline());
        let was_alive = self.is_alive();
        let can_go_on = || {
            let alive = self.is_alive();
            let shut = self.core.flags() & flags::SHUT_READ != 0;
            let is_back = alive && !was_alive;
            self.core.readable() || shut || is_back || self.core.has_error(alive)
        };
        self.client.wait_for(&self.core, READ, deadline, can_go_on)
    }

    /// Takes the next datagram, if there is one.
    fn take_datagram(
        &self,
        into: &mut [IoSliceMut<'_>],
        flags: i32,
    ) -> Result<Option<Received>, Errno> {
        let Some(rx) = self.core.rx() else { return Ok(None) };
        let held = self.core.lock_rx();
        let taken = rx.with(&held, |rx| {
            let Some(head) = rx.datagram()? else { return Ok(None) };
            let (payload, arrived) = without_stamp(rx, &head)?;
            let copied = copy_datagram(rx, &payload, into)?;
            let faulted = rx.faulted();
            let mut room_is_wanted = false;
            if flags & libc::MSG_PEEK == 0 {
                rx.consume_datagram(&head);
                room_is_wanted = rx.room_wanted(rx.mem().limit() / 2);
            }
            let copied = if faulted { Err(Errno::FAULT) } else { Ok(copied) };
            Ok::<_, Hostile>(Some((payload, copied, arrived, room_is_wanted)))
        });
        drop(held);
        let Some((head, copied, arrived, room_is_wanted)) =
            taken.and_then(|taken| taken).map_err(broken)?
        else {
            return Ok(None);
        };
        if room_is_wanted {
            self.tell(request::CONSUMED, 0);
        }
        // A datagram for which there is no memory is lost, as in the kernel.
        Ok(Some(Received { arrived, ..self.received(&head, copied?, flags) }))
    }

    fn received(&self, head: &DatagramHead, copied: usize, flags: i32) -> Received {
        let whole = head.len as usize;
        Received {
            len: if flags & libc::MSG_TRUNC != 0 { whole } else { copied },
            flags: if copied < whole { libc::MSG_TRUNC } else { 0 },
            datagram: Some(Arrived {
                from: SocketAddr::new(self.address(head.family, head.peer), head.port),
                to: (head.local != [0; 16]).then(|| self.address(head.family, head.local)),
                iface: head.iface,
                tos: head.tos,
                ttl: head.ttl,
                segment_size: head.segment_size,
                drops: self.core.words().rx_drops.load(Ordering::Relaxed),
            }),
            arrived: 0,
        }
    }

    /// An address of a record, as this socket's family writes it.
    fn address(&self, family: u8, bytes: [u8; 16]) -> IpAddr {
        if family == 6 {
            return Ipv6Addr::from(bytes).into();
        }
        let [a, b, c, d, ..] = bytes;
        let address = Ipv4Addr::new(a, b, c, d);
        match self.core.v6 {
            true => address.to_ipv6_mapped().into(),
            false => address.into(),
        }
    }

    pub(super) fn next_datagram_len(&self) -> usize {
        let Some(rx) = self.core.rx() else { return 0 };
        let held = self.core.lock_rx();
        let head = rx.with(&held, Consumer::datagram).and_then(|head| head);
        head.ok().flatten().map_or(0, |head| payload_len(&head) as usize)
    }
}

/// Puts a datagram in with its stamp behind it.
#[cold]
fn push_stamped(
    tx: &mut Producer,
    mut head: DatagramHead,
    from: &[IoSlice<'_>],
    stamp: u64,
) -> Result<bool, Hostile> {
    let stamp = stamp.to_le_bytes();
    let parts = from.iter().map(|part| IoSlice::new(part));
    let parts: Vec<_> = parts.chain([IoSlice::new(&stamp)]).collect();
    head.stamped = 1;
    tx.push_datagram(head, &parts)
}

/// Bytes of a record that are the datagram's.
fn payload_len(head: &DatagramHead) -> u32 {
    if head.stamped == 0 { head.len } else { head.len.saturating_sub(STAMP_LEN) }
}

/// A datagram's head as if it had no stamp, and the stamp; 0: it has none.
fn without_stamp(rx: &mut Consumer, head: &DatagramHead) -> Result<(DatagramHead, u64), Hostile> {
    let mut stamp = [0; STAMP_LEN as usize];
    let mut payload = *head;
    payload.len = payload_len(head);
    if head.stamped != 0 {
        rx.peek_datagram(head, payload.len, &mut stamp)?;
    }
    Ok((payload, u64::from_le_bytes(stamp)))
}

/// Fills the parts one after the other.
fn copy_datagram(
    rx: &mut Consumer,
    head: &DatagramHead,
    into: &mut [IoSliceMut<'_>],
) -> Result<usize, Hostile> {
    let mut copied = 0;
    for part in into {
        copied += rx.peek_datagram(head, copied as u32, part)?;
    }
    Ok(copied)
}

/// The head of a record to send.
fn outgoing(how: &SendTo) -> DatagramHead {
    let mut head = DatagramHead {
        segment_size: how.segment_size,
        tos: how.tos.unwrap_or(0),
        ttl: how.ttl.unwrap_or(0),
        iface: how.iface,
        ..DatagramHead::default()
    };
    if let Some(to) = how.to {
        (head.family, head.peer) = written(to.ip());
        head.port = to.port();
    }
    if let Some(from) = how.from {
        head.local = written(from).1;
    }
    head
}

/// Family and bytes of an address; a mapped one is IPv4's.
fn written(address: IpAddr) -> (u8, [u8; 16]) {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&address.octets());
            (4, bytes)
        }
        IpAddr::V6(address) => (6, address.octets()),
    }
}
