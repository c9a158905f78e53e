//! When datagrams have left, for owners who ask (SO_TIMESTAMPING of Linux).

use clearway_base::Duration;
use clearway_pkt::Iface;
use clearway_wire::Endpoint;

use super::report::{UdpLeft, UdpStamped};
use super::{Departure, Socket, Udp, to_id};
use crate::ids::UdpId;
use crate::records::Records;

/// What waits at one socket to be asked for at most, and bytes of datagrams that are kept with it.
/// What comes beyond is not told.
const MOST: usize = 256;
const MOST_BYTES: usize = 128 * 1024;

impl Socket {
    /// The oldest datagram has left, whose owner wants to know.
    #[cold]
    #[inline(never)]
    pub(super) fn has_left(&mut self, departure: &Departure, iface: Option<Iface>, at: Duration) {
        let Departure { from, to, tos, ttl, stamp, .. } = *departure;
        let (Some(stamp), Some((_, payload))) = (stamp, self.tx.front()) else { return };
        let from = Endpoint::new(from, self.local.port);
        let payload = if stamp.keeps_payload { payload } else { &[] };
        let stamps = self
            .stamps
            .get_or_insert_with(|| alloc::boxed::Box::new(Records::new(MOST, MOST_BYTES)));
        let whats = [(stamp.scheduled, UdpLeft::Scheduled), (stamp.sent, UdpLeft::Sent)];
        for (_, what) in whats.into_iter().filter(|(asked, _)| *asked) {
            let stamped = UdpStamped { stamp, what, at, from, to, tos, ttl, iface };
            self.has_stamped |= stamps.push(stamped, &[payload]);
        }
    }
}

impl Udp {
    /// Notes that something has left of a socket which its owner wants to hear of.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_stamped(&mut self, index: u32) {
        if let Some(id) = self.sockets.handle_at(index).and_then(to_id) {
            self.stamping.told.push(id);
        }
    }

    pub(crate) fn set_calendar(&mut self, since_1970: Duration) {
        self.stamping.calendar = since_1970;
    }

    pub(crate) fn calendar(&self) -> Duration {
        self.stamping.calendar
    }

    /// See [`crate::Stack::next_stamped`].
    #[inline]
    pub(crate) fn next_stamped(&mut self) -> Option<(UdpId, u64)> {
        loop {
            let id = self.stamping.told.pop()?;
            // Of one that is closed and has not ended, nobody wants to hear.
            if let Ok(socket) = self.by_id(id) {
                socket.is_told = false;
                return Some((id, socket.token));
            }
        }
    }

    /// A socket that is told of ends.
    #[cold]
    #[inline(never)]
    pub(super) fn untell_stamped(&mut self, index: u32) {
        let id = self.sockets.handle_at(index).and_then(to_id);
        self.stamping.told.retain(|told| Some(*told) != id);
    }

    /// How many wait to be asked for.
    pub(crate) fn stamps(&self, socket: UdpId) -> u32 {
        let socket = super::to_handle(socket).and_then(|handle| self.sockets.get(handle));
        socket.and_then(|s| s.stamps.as_ref()).map_or(0, |stamps| stamps.len() as u32)
    }

    /// See [`crate::Stack::udp_stamped`].
    pub(crate) fn stamped(&mut self, socket: UdpId) -> Option<(UdpStamped, &[u8])> {
        if self.stamps(socket) == 1 {
            self.rests(super::to_handle(socket)?.index());
        }
        self.by_id(socket).ok()?.stamps.as_mut()?.pop()
    }
}
