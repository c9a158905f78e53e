//! Groups that datagram sessions are in.

use std::sync::Arc;

use clearway_base::Handle;
use clearway_proto::{GroupError, Table};
use clearway_shm::attach_socket::SessionId;
use nix::errno::Errno;

use super::membership::{MAX_WISHES, Wish};
use super::state::{Session, Sessions, What, gone};
use crate::env::HostStack;
use crate::errno::{Refusal, refuse};
use crate::program::Program;

fn refusal(why: GroupError) -> Refusal {
    let (errno, why) = match why {
        GroupError::Stale => (Errno::EBADF, "the socket is gone"),
        GroupError::BadAddress => (Errno::EINVAL, "not a group, or not of the socket's family"),
        GroupError::NoInterface => {
            (Errno::ENODEV, "the namespace has no such interface, and no route to the group")
        }
        GroupError::AlreadyMember => (Errno::EADDRINUSE, "the socket is in the group already"),
        GroupError::NotMember => {
            (Errno::EADDRNOTAVAIL, "the socket is not in the group, or has no such source")
        }
        GroupError::WrongMode => (Errno::EINVAL, "the membership's filter is of the other mode"),
        GroupError::TooMany => {
            (Errno::ENOBUFS, "all memberships or sources that there may be are taken")
        }
    };
    refuse(errno, why)
}

impl Sessions {
    /// Changes a datagram session's membership in a group. Before it is bound, that waits.
    pub fn change_group(
        &mut self,
        stack: &mut HostStack,
        program: &Arc<Program>,
        id: SessionId,
        wish: Wish,
    ) -> Result<(), Refusal> {
        let handle = self.session(program, id)?;
        let session = self.table.get_mut(handle).ok_or_else(gone)?;
        let table = session.table;
        let What::Datagrams(datagrams) = &mut session.what else {
            return Err(refuse(Errno::EPROTO, "a stream is in no group"));
        };
        match datagrams.socket {
            Some(socket) => wish.apply(stack, socket, table).map_err(refusal)?,
            None if datagrams.wishes.len() < MAX_WISHES => datagrams.wishes.push(wish),
            None => return Err(refusal(GroupError::TooMany)),
        }
        self.spread(handle, table, wish);
        Ok(())
    }

    /// The session has its socket: what was wished for before is done now. Whether that can be was
    /// not known then.
    pub(super) fn grant_wishes(&mut self, stack: &mut HostStack, handle: Handle<Session>) {
        let Some(session) = self.table.get_mut(handle) else { return };
        let table = session.table;
        let What::Datagrams(datagrams) = &mut session.what else { return };
        let (Some(socket), wishes) = (datagrams.socket, std::mem::take(&mut datagrams.wishes))
        else {
            return;
        };
        for wish in wishes {
            if let Err(why) = wish.apply(stack, socket, table) {
                tracing::warn!(group = %wish.group, ?why, "a group was not joined");
            }
            self.spread(handle, table, wish);
        }
    }

    /// Other workers, where datagrams to the group may come too, hear it for the session. Its own
    /// worker has said what is wrong.
    fn spread(&self, handle: Handle<Session>, table: Table, wish: Wish) {
        self.at_forwarders(handle, move |stack, socket| {
            let _ = wish.apply(stack, socket, table);
        });
    }
}
