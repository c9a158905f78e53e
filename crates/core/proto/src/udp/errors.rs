//! Datagrams that do not arrive: which may be cut where the path is too narrow for them (RFC 1191,
//! RFC 8201), and what ICMP tells of the others (RFC 1122 4.1.3.3).

use clearway_wire::{Addr, Endpoint, ipv4, ipv6, udp};

use super::report::{Reports, UdpErrorReport, UdpFragmenting};
use super::{Udp, UdpError, UdpOut, to_handle};
use crate::event::UdpEvents;
use crate::flow::FlowKey;
use crate::ids::UdpId;
use crate::net::ip::Ip;
use crate::records::Records;

/// Reports that wait at one socket at most, and bytes of datagrams that they quote. What comes
/// beyond is only told as the last error.
const MOST_REPORTS: usize = 16;
const MOST_QUOTED: usize = 8 * 1024;

impl Udp {
    /// An ICMP error quotes a datagram of ours, and `payload` of it; true when it was a socket's.
    pub(crate) fn on_error(
        &mut self,
        key: &FlowKey,
        report: &UdpErrorReport,
        payload: &[u8],
    ) -> bool {
        let (local, remote) =
            (Endpoint::new(key.local, key.local_port), Endpoint::new(key.remote, key.remote_port));
        let Some(index) = self.demux(key.table, &local, &remote) else { return false };
        let Some(socket) = self.sockets.by_index_mut(index) else { return false };
        let is_told = match &mut socket.reports {
            Some(reports) => {
                reports.push(*report, &[payload]);
                true
            }
            // Only who is connected asked for this peer for certain (RFC 1122 4.1.3.3; sockets
            // everywhere do it so).
            None => socket.remote.is_some() && report.why.is_some(),
        };
        if is_told {
            socket.error = report.why.or(socket.error);
            self.tell(index, UdpEvents::ERROR);
        }
        true
    }
}

impl Udp {
    /// See [`crate::Stack::udp_set_fragmenting`].
    pub(crate) fn set_fragmenting(
        &mut self,
        socket: UdpId,
        v4: UdpFragmenting,
        v6: UdpFragmenting,
    ) -> Result<(), UdpError> {
        let s = self.by_id(socket)?;
        if s.fragmenting != [v4, v6] {
            s.fragmenting = [v4, v6];
            s.cached = None;
        }
        Ok(())
    }

    /// See [`crate::Stack::udp_set_reports`].
    pub(crate) fn set_reports(&mut self, socket: UdpId, on: bool) -> Result<(), UdpError> {
        let s = self.by_id(socket)?;
        if on != s.reports.is_some() {
            s.reports = on.then(|| Records::new(MOST_REPORTS, MOST_QUOTED));
        }
        Ok(())
    }

    fn reports_of(&self, socket: UdpId) -> Option<&Reports> {
        self.sockets.get(to_handle(socket)?)?.reports.as_ref()
    }

    /// How many reports wait.
    pub(crate) fn reports(&self, socket: UdpId) -> u32 {
        self.reports_of(socket).map_or(0, |reports| reports.len() as u32)
    }

    /// The oldest report, which stays.
    pub(crate) fn next_report(&self, socket: UdpId) -> Option<UdpErrorReport> {
        self.reports_of(socket)?.front().map(|(report, _)| *report)
    }

    /// The oldest report, and what is known of its datagram's payload. It is gone from the queue.
    pub(crate) fn report(&mut self, socket: UdpId) -> Option<(UdpErrorReport, &[u8])> {
        if self.reports(socket) == 1 {
            self.rests(to_handle(socket)?.index());
        }
        self.by_id(socket).ok()?.reports.as_mut()?.pop()
    }

    /// See [`crate::Stack::udp_path_mtu`].
    pub(crate) fn path_mtu(
        &mut self,
        ip: &Ip,
        socket: UdpId,
        to: Option<Endpoint>,
        len: usize,
    ) -> Result<u32, UdpError> {
        let (from, to, via) = self.addresses(ip, socket, &UdpOut { to, ..UdpOut::default() })?;
        match via.and_then(|via| ip.interface(via)) {
            Some(interface) => self.may_leave(socket, to, interface.mtu, len),
            None => self.fits(ip, socket, (&from, to), len),
        }
    }

    /// What the path to a peer takes, as this socket sees it. A datagram of `len` bytes that is
    /// longer is refused on a socket whose datagrams are not cut.
    pub(super) fn fits(
        &mut self,
        ip: &Ip,
        socket: UdpId,
        (from, to): (&Addr, Endpoint),
        len: usize,
    ) -> Result<u32, UdpError> {
        let s = self.by_id(socket)?;
        let mtu = match s.fragmenting[usize::from(to.addr.is_v6())].link_mtu_only {
            true => ip.link_mtu(s.table, from, &to.addr),
            false => ip.path_mtu(s.table, from, &to.addr),
        };
        self.may_leave(socket, to, mtu.ok_or(UdpError::NoRoute)?, len)
    }

    /// Refuses a datagram of `len` bytes that is longer than `mtu`, or than the owner wants its
    /// packets, on a socket whose datagrams are not cut.
    pub(super) fn may_leave(
        &mut self,
        socket: UdpId,
        to: Endpoint,
        mtu: u32,
        len: usize,
    ) -> Result<u32, UdpError> {
        let at = self.calendar();
        let s = self.by_id(socket)?;
        let v6 = to.addr.is_v6();
        let mtu = if v6 && s.mtu != 0 { mtu.min(s.mtu.into()) } else { mtu };
        let ip_len = if v6 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN };
        if !s.fragmenting[usize::from(v6)].refused || ip_len + udp::HEADER_LEN + len <= mtu as usize
        {
            return Ok(mtu);
        }
        if let Some(reports) = &mut s.reports {
            let (why, offender, icmp) = (None, None, (0, 0));
            reports.push(UdpErrorReport { why, to, offender, icmp, mtu, at }, &[]);
        }
        Err(UdpError::TooLong)
    }
}
