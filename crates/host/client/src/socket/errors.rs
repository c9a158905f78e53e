//! Datagrams that do not arrive: too long for the path, or with an error that came back.

use std::net::IpAddr;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use clearway_shm::attach_socket::{ErrorReport, Reply, Request};

use super::SendTo;
use crate::{Errno, Socket};

/// Headers before the payload: UDP's behind IPv4's and behind IPv6's.
const HEADERS: [u32; 2] = [28, 48];

impl Socket {
    /// IP_MTU and IPV6_MTU: what the path to the peer takes.
    ///
    /// # Errors
    /// `ENOTCONN` without a peer, `ENETUNREACH` when nothing leads to it.
    pub fn path_mtu(&self) -> Result<u32, Errno> {
        self.ask_path(None, 0)
    }

    fn ask_path(&self, to: Option<std::net::SocketAddr>, len: u32) -> Result<u32, Errno> {
        match self.ask(&Request::PathMtu { session: self.core.id(), remote: to, len })? {
            Reply::PathMtu(mtu) => Ok(mtu),
            _ => Err(Errno::PROTO),
        }
    }

    /// Refuses a datagram that is longer than the path takes, where those are not cut. What the
    /// path took when that was last asked holds until an error comes.
    pub(super) fn may_leave(&self, how: &SendTo, total: usize) -> Result<(), Errno> {
        if !self.core.refuses_long(false) && !self.core.refuses_long(true) {
            return Ok(());
        }
        let Some(to) = how.to.or_else(|| self.remote()) else { return Ok(()) };
        let to: IpAddr = to.ip().to_canonical();
        let v6 = to.is_ipv6();
        if !self.core.refuses_long(v6) {
            return Ok(());
        }
        let len =
            if how.segment_size == 0 { total } else { total.min(how.segment_size.into()) } as u32;
        let errors = self.core.words().error.load(Ordering::Acquire);
        let known = *self.core.path.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_some_and(|(ip, mtu, then)| {
            (ip, then) == (to, errors) && len + HEADERS[usize::from(v6)] <= mtu
        }) {
            return Ok(());
        }
        let mtu = self.ask_path(how.to, len)?;
        *self.core.path.lock().unwrap_or_else(PoisonError::into_inner) = Some((to, mtu, errors));
        Ok(())
    }

    /// The oldest error of a datagram that did not arrive, when they are kept (IP_RECVERR), and then
    /// the oldest stamp of something that was sent, when those are asked for (MSG_ERRQUEUE). The
    /// socket's error is as Linux has it then: that of the next.
    ///
    /// # Errors
    /// When the host is gone.
    pub fn error_report(&self) -> Result<Option<ErrorReport>, Errno> {
        if !self.is_alive() || !self.core.has_reports() {
            return Ok(None);
        }
        if self.options().receive_errors {
            let _ = self.take_error();
        }
        match self.ask(&Request::ErrorReport { session: self.core.id() })? {
            Reply::ErrorReport(report) => Ok(report),
            _ => Err(Errno::PROTO),
        }
    }
}
