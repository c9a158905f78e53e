//! How sessions end.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use clearway_base::Handle;
use clearway_probes::{self as probes, Text};
use clearway_shm::attach_socket::SessionId;
use clearway_shm::layout::event;
use nix::errno::Errno;

use super::state::{Session, Sessions, What};
use crate::env::HostStack;
use crate::program::Program;

impl Sessions {
    /// Nobody holds the session any more. What was written still goes out; when there is something
    /// that nobody read, or SO_LINGER says 0 seconds, as much of it as the windows let out, and
    /// then the peer gets a reset (close(2)).
    pub fn close(&mut self, stack: &mut HostStack, id: SessionId) {
        if let Some(handle) = self.handle_of(id).filter(|handle| self.table.get(*handle).is_some())
        {
            self.end(stack, handle, false);
        }
    }

    /// All sessions of a program end with resets.
    pub fn drop_program(&mut self, stack: &mut HostStack, program: &Arc<Program>) {
        // Of sessions that others have, too, they may be reading.
        program.memory.end();
        let of_program = self.table.iter().filter(|(_, s)| Arc::ptr_eq(&s.program, program));
        let all: Vec<_> = of_program.map(|(handle, _)| handle).collect();
        for handle in all {
            // Its own processes are let go. Those of other programs that have it stay, and are told.
            if let Some(session) = self.table.get_mut(handle) {
                session.fail(Errno::ECONNRESET);
            }
            self.tell(handle, event::STATE);
            self.end(stack, handle, true);
        }
        self.notify_all();
    }

    /// The last holder of every session is about to end: what was written still goes out.
    pub fn close_all(&mut self, stack: &mut HostStack) {
        for handle in self.table.iter().map(|(handle, _)| handle).collect::<Vec<_>>() {
            self.end(stack, handle, false);
        }
    }

    /// The session ends, with a reset that leaves behind what may still leave, or as it was left.
    pub(super) fn end(&mut self, stack: &mut HostStack, handle: Handle<Session>, reset: bool) {
        if !reset && (self.ends_later(stack, handle) || self.sends_first(stack, handle)) {
            return;
        }
        self.forget_cut_through(stack, handle);
        self.tell_carried(stack, handle, !reset);
        let Some(session) = self.table.remove(handle) else { return };
        self.stamps_no_more(stack, &session);
        if let Some(parent) = session.parent {
            self.waits_no_more(stack, &session.program, parent, session.id);
        }
        match (session.bind, &session.what) {
            (Some(bind), What::Conn(conn)) => stack.unbind_after(bind, *conn),
            (Some(bind), _) => stack.unbind(bind),
            (None, _) => {}
        }
        match session.what {
            What::Fresh => {}
            What::Listener(listening) => {
                self.end_listening(stack, (handle, session.id), &session.program, listening)
            }
            What::Conn(conn) => {
                if let Some((rx, tx)) = stack.queues(conn) {
                    rx.abandon();
                    tx.abandon();
                }
                if session.program.is_cut.load(Ordering::Relaxed) {
                    // Nothing of what it wrote is believed.
                    stack.abort(conn);
                } else if reset || session.options.linger == Some(0) {
                    stack.close_with_reset(conn);
                } else {
                    stack.close(conn);
                }
            }
            What::Datagrams(datagrams) => {
                self.report.datagrams_lost += datagrams.end(stack);
                self.cut_forwarders(session.id);
            }
        }
        let program = &session.program;
        probes::session_close(|| {
            (session.id, Text::of(&program.name), Text::of(&program.namespace))
        });
        drop(session.permit);
        self.unstall(&session.program);
    }
}
