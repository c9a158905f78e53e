//! How sessions end.

use std::sync::Arc;

use clearway_base::Handle;
use clearway_shm::door::SessionId;

use super::{HostStack, Session, Sessions, What};
use crate::program::Program;

impl Sessions {
    /// Nobody holds the session any more: what was written still goes out, unless there is something that nobody read, or SO_LINGER says 0 seconds;
    /// then the peer gets a reset (close(2)).
    pub(crate) fn close(&mut self, stack: &mut HostStack, program: &Arc<Program>, id: SessionId) {
        if let Some(handle) = self.find(program, id) {
            self.end(stack, handle, false);
        }
    }

    /// All sessions of a program end with resets.
    pub(crate) fn drop_program(&mut self, stack: &mut HostStack, program: &Arc<Program>) {
        let of_program = self.table.iter().filter(|(_, s)| Arc::ptr_eq(&s.program, program));
        let all: Vec<_> = of_program.map(|(handle, _)| handle).collect();
        for handle in all {
            self.end(stack, handle, true);
        }
    }

    pub(super) fn end(&mut self, stack: &mut HostStack, handle: Handle<Session>, reset: bool) {
        if !reset && self.ends_later(stack, handle) {
            return;
        }
        self.forget_joint(stack, handle);
        let Some(session) = self.table.remove(handle) else { return };
        if let Some(parent) = session.parent {
            self.waits_no_more(stack, &session.program, parent, session.id);
        }
        if let Some(bind) = session.bind {
            stack.unbind(bind);
        }
        match session.what {
            What::Fresh => {}
            What::Listener(listening) => self.end_listening(stack, (handle, session.id), &session.program, listening),
            What::Conn(conn) => {
                if let Some((rx, tx)) = stack.queues(conn) {
                    rx.abandon();
                    tx.abandon();
                }
                if reset || session.options.linger == Some(0) {
                    stack.abort(conn);
                } else {
                    stack.close(conn);
                }
            }
            What::Datagrams(datagrams) => {
                datagrams.end(stack);
                self.cut_relays(session.id);
            }
        }
        drop(session.permit);
        self.unstall(&session.program);
    }
}
