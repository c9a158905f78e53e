//! `MSG_ZEROCOPY`: bytes are copied all the same, which the notifications say, and a notification
//! comes when they were acknowledged.

use std::collections::VecDeque;
use std::ffi::c_int;

use clearway_script::Backend;

use crate::control::Message;
use crate::world::{Errno, World};

/// `SO_EE_ORIGIN_ZEROCOPY` and `SO_EE_CODE_ZEROCOPY_COPIED` (`linux/errqueue.h`).
const ORIGIN: u8 = 5;
const COPIED: u8 = 1;

/// Bytes of an IPv4 and of an IPv6 address, which stand behind an error and are empty here.
const OFFENDER: [usize; 2] = [16, 28];

/// What was sent so, in the order in which it was sent.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Copies {
    /// Bytes that were written in all.
    written: u64,
    /// The number of the next call.
    next: u32,
    /// Calls whose bytes were not acknowledged yet: number, and where its bytes end.
    waiting: VecDeque<(u32, u64)>,
    /// Calls to be told of, from one number to another.
    done: VecDeque<(u32, u32)>,
}

impl Copies {
    /// So many bytes were written; `asks`: their sender wants to be told when they were sent.
    pub(crate) fn wrote(&mut self, bytes: usize, asks: bool) {
        self.written += bytes as u64;
        if asks {
            self.waiting.push_back((self.next, self.written));
            self.next = self.next.wrapping_add(1);
        }
    }

    /// So many bytes were acknowledged; None: the connection is over.
    fn acknowledged(&mut self, bytes: Option<u64>) {
        let is_done = |(_, end): &(u32, u64)| bytes.is_none_or(|bytes| *end <= bytes);
        let done = self.waiting.iter().take_while(|call| is_done(call)).count();
        for (number, _) in self.waiting.drain(..done) {
            match self.done.back_mut() {
                Some((_, last)) if last.wrapping_add(1) == number => *last = number,
                _ => self.done.push_back((number, number)),
            }
        }
    }

    /// Whether there is something to tell.
    pub(crate) fn is_told(&self) -> bool {
        !self.done.is_empty()
    }
}

/// Looks at what of a socket's bytes was acknowledged. True: there is something to tell.
pub(crate) fn settle(world: &World, fd: c_int) -> bool {
    let mut state = world.enter();
    let Some(core) =
        state.sockets.get(&fd).filter(|socket| !socket.copies.waiting.is_empty()).map(|s| s.core)
    else {
        return state.sockets.get(&fd).is_some_and(|socket| socket.copies.is_told());
    };
    let info = world.core(&mut state).info(core).ok();
    let bytes = info.and_then(|info| u64::try_from(*info.get("tcpi_bytes_acked")?).ok());
    state.sockets.get_mut(&fd).is_some_and(|socket| {
        socket.copies.acknowledged(bytes);
        socket.copies.is_told()
    })
}

/// `struct sock_extended_err` as a control message: errno, origin and code, info and data. Nobody
/// told of it, so no address does.
pub(crate) fn extended(
    v6: bool,
    errno: Errno,
    (origin, code): (u8, u8),
    (info, data): (u32, u32),
) -> Message {
    let mut error = errno.to_ne_bytes().to_vec();
    error.extend([origin, 0, code, 0]);
    error.extend(info.to_ne_bytes());
    error.extend(data.to_ne_bytes());
    error.extend(vec![0; OFFENDER[usize::from(v6)]]);
    match v6 {
        true => (libc::IPPROTO_IPV6, libc::IPV6_RECVERR, error),
        false => (libc::IPPROTO_IP, libc::IP_RECVERR, error),
    }
}

/// The next notification, as `recvmsg` has it in a control message.
pub(crate) fn take(world: &World, fd: c_int) -> Result<Message, Errno> {
    settle(world, fd);
    let v6 = world.flags().net.v6();
    let mut state = world.enter();
    let socket = state.sockets.get_mut(&fd).ok_or(libc::EBADF)?;
    let (first, last) = socket.copies.done.pop_front().ok_or(libc::EAGAIN)?;
    Ok(extended(v6, 0, (ORIGIN, COPIED), (first, last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_end_one_after_the_other_are_told_of_as_one() {
        let mut copies = Copies::default();
        copies.wrote(100, true);
        copies.wrote(50, false);
        copies.wrote(100, true);
        copies.wrote(100, true);
        copies.acknowledged(Some(99));
        assert!(!copies.is_told());
        copies.acknowledged(Some(250));
        assert_eq!(copies.done, [(0, 1)]);
        copies.done.clear();
        copies.acknowledged(None);
        assert_eq!(copies.done, [(2, 2)]);
    }
}
