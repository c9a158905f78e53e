//! What datagram sessions do about the MTU of paths, and what is told of datagrams that did not
//! arrive.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clearway_base::Handle;
use clearway_proto::{UdpErrorReport, UdpId};
use clearway_shm::attach_socket::{ErrorReport, SessionId};
use clearway_shm::layout::event;
use nix::errno::Errno;

use super::stamps::datagram_stamp;
use super::state::{Session, Sessions, What, gone};
use crate::env::HostStack;
use crate::errno::{Refusal, of_unreachable, refuse};
use crate::program::Program;

/// The error that a program sees.
fn errno_of(report: &UdpErrorReport) -> Errno {
    report.why.map_or(Errno::EMSGSIZE, of_unreachable)
}

impl Session {
    /// Lets its processes see how many errors wait.
    pub(super) fn show_reports(&self, stack: &HostStack, socket: UdpId) {
        let waiting = stack.udp_reports(socket) + stack.udp_stamps(socket);
        self.head.error_reports.store(waiting, Ordering::Release);
    }
}

impl Sessions {
    fn socket_of(&self, handle: Handle<Session>) -> Option<UdpId> {
        match &self.table.get(handle)?.what {
            What::Datagrams(datagrams) => datagrams.socket,
            _ => None,
        }
    }

    /// An ICMP error came back.
    pub(super) fn tell_error(&mut self, stack: &mut HostStack, handle: Handle<Session>) {
        let Some(socket) = self.socket_of(handle) else { return };
        if let Some(session) = self.table.get(handle) {
            session.show_reports(stack, socket);
        }
        let why = stack.udp_error(socket).map(of_unreachable);
        // One that says no more than how long a packet may be is told where errors are told one by
        // one.
        let is_long = || (stack.udp_reports(socket) > 0).then_some(Errno::EMSGSIZE);
        if let Some(errno) = why.or_else(is_long) {
            self.error_later(handle, errno);
        }
    }

    /// What the path to a peer takes, when a datagram of `len` bytes may leave.
    pub fn path_mtu(
        &mut self,
        stack: &mut HostStack,
        program: &Arc<Program>,
        id: SessionId,
        (remote, len): (Option<SocketAddr>, u32),
    ) -> Result<u32, Refusal> {
        let handle = self.session(program, id)?;
        let session = self.table.get(handle).ok_or_else(gone)?;
        if let What::Conn(conn) = session.what {
            return Ok(stack.info(conn).ok_or_else(gone)?.path_mtu);
        }
        let remote = remote.map(|remote| session.endpoint(remote)).transpose()?;
        if remote.is_none() && session.remote.is_none() {
            return Err(refuse(Errno::ENOTCONN, "only a connected socket has a path"));
        }
        if !matches!(session.what, What::Datagrams(_)) {
            return Err(refuse(Errno::ENOTCONN, "only a connected socket has a path"));
        }
        let socket = self.bound(stack, handle)?;
        let mtu = stack.udp_path_mtu(socket, remote, len as usize);
        if mtu.is_err() {
            if let Some(session) = self.table.get(handle) {
                session.show_reports(stack, socket);
            }
            // Whoever waits for errors sees that there is one.
            self.tell(handle, event::STATE);
        }
        Ok(mtu?)
    }

    /// The oldest error of a datagram session.
    pub fn error_report(
        &mut self,
        stack: &mut HostStack,
        program: &Arc<Program>,
        id: SessionId,
    ) -> Result<Option<ErrorReport>, Refusal> {
        let handle = self.session(program, id)?;
        let Some(socket) = self.socket_of(handle) else {
            return Ok(self.stream_stamp(stack, handle));
        };
        let Some((report, payload)) = stack.udp_report(socket) else {
            let stamp = datagram_stamp(stack, socket);
            if let Some(session) = self.table.get(handle) {
                session.show_reports(stack, socket);
            }
            return Ok(stamp);
        };
        let told = ErrorReport {
            errno: errno_of(&report) as i32,
            to: report.to.into(),
            offender: report.offender.map(Into::into),
            icmp: report.icmp,
            mtu: report.mtu,
            payload: payload.to_vec(),
            at: report.at.as_nanos(),
            stamp: None,
        };
        let next = stack.udp_next_report(socket).filter(|next| next.offender.is_some());
        if let Some(session) = self.table.get_mut(handle) {
            session.show_reports(stack, socket);
            // As on Linux the next error is the socket's, when it came by ICMP.
            if let Some(next) = next {
                session.set_error(errno_of(&next));
            }
        }
        Ok(Some(told))
    }
}
