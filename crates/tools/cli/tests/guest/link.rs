//! The end of a memif link that connects, byte by byte. Its messages and rings: libmemif's
//! `memif.h`, version 2.0 of the protocol.

use std::fs::File;
use std::io::IoSlice;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::FileExt as _;

use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, sendmsg,
    setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike as _};

use crate::clearway::{TIME_LIMIT, eventually};

/// Messages, by their numbers.
mod message {
    pub(super) const INIT: u16 = 3;
    pub(super) const ADD_REGION: u16 = 4;
    pub(super) const ADD_RING: u16 = 5;
    pub(super) const CONNECT: u16 = 6;
}

/// Every message is as long.
const MESSAGE: usize = 128;
const VERSION: u16 = 0x0200;
const COOKIE: u32 = 0x03e3_1f20;

/// The region: the ring that this end fills, the one that the other end fills, and where frames
/// lie.
pub(crate) const REGION: u64 = 1 << 20;
const RINGS: [u64; 2] = [0, 0x8000];
pub(crate) const FRAMES: u64 = 0x1_0000;

/// A ring has so many descriptors, as a power of two, behind two cache lines: the first has its
/// cookie and head.
const LOG2: u8 = 10;
const HEAD: u64 = 6;
const DESCRIPTORS: u64 = 128;

/// One end, and the memory that it shares.
pub(crate) struct Link {
    socket: OwnedFd,
    pub(crate) memory: File,
    notifiers: [EventFd; 2],
}

impl Link {
    /// Connected, with the memory not shared yet.
    pub(crate) fn connected(path: &str) -> Link {
        let address = UnixAddr::new(path).unwrap();
        let mut connected = None;
        eventually("the port takes a peer", || {
            let end =
                socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)
                    .unwrap();
            connected = connect(end.as_raw_fd(), &address).is_ok().then_some(end);
            connected.is_some()
        });
        let socket = connected.unwrap();
        setsockopt(
            &socket,
            sockopt::ReceiveTimeout,
            &TimeVal::seconds(TIME_LIMIT.as_secs() as i64),
        )
        .unwrap();
        let memory = File::from(memfd_create(c"link", MFdFlags::MFD_CLOEXEC).unwrap());
        memory.set_len(REGION).unwrap();
        let notifier =
            || EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC).unwrap();
        let link = Link { socket, memory, notifiers: [notifier(), notifier()] };
        for ring in RINGS {
            link.put(ring, &COOKIE.to_le_bytes());
        }
        link
    }

    /// A link that is up once the other end has read all this.
    pub(crate) fn up(path: &str) -> Link {
        let link = Link::connected(path);
        link.begin();
        link
    }

    pub(crate) fn begin(&self) {
        // Its id is 0, it carries Ethernet, and there is no secret.
        self.tell(message::INIT, &[&VERSION.to_le_bytes()[..], &[0; 5]].concat(), None);
        self.tell(
            message::ADD_REGION,
            &[&[0; 2][..], &REGION.to_le_bytes()].concat(),
            Some(self.memory.as_raw_fd()),
        );
        for (number, at) in RINGS.into_iter().enumerate() {
            // The first goes from this end to the other.
            let flags = u16::from(number == 0).to_le_bytes();
            let ring = [&flags[..], &[0; 4], &(at as u32).to_le_bytes(), &[LOG2, 0, 0]].concat();
            self.tell(message::ADD_RING, &ring, Some(self.notifiers[number].as_fd().as_raw_fd()));
        }
        self.tell(message::CONNECT, &[], None);
    }

    fn tell(&self, kind: u16, payload: &[u8], file: Option<RawFd>) {
        let mut bytes = [&kind.to_le_bytes()[..], payload].concat();
        bytes.resize(MESSAGE, 0);
        let files: Vec<RawFd> = file.into_iter().collect();
        let rights = [ControlMessage::ScmRights(&files)];
        let rights = if files.is_empty() { &[][..] } else { &rights };
        // The other end may have hung up on us, as is its right.
        let _ = sendmsg::<()>(
            self.socket.as_raw_fd(),
            &[IoSlice::new(&bytes)],
            rights,
            MsgFlags::MSG_NOSIGNAL,
            None,
        );
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).unwrap();
    }

    /// Descriptors of one ring with these lengths and one place, up to `head`.
    fn fill(&self, ring: usize, len: u32, head: u16) {
        for index in 0..u64::from(head) {
            let place = FRAMES as u32;
            let descriptor =
                [&[0; 4][..], &len.to_le_bytes(), &place.to_le_bytes(), &[0; 4]].concat();
            self.put(RINGS[ring] + DESCRIPTORS + 16 * index, &descriptor);
        }
        self.put(RINGS[ring] + HEAD, &head.to_le_bytes());
    }

    /// Sends frames to a group, up to the `head`th.
    pub(crate) fn send(&self, head: u16) {
        let frame = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 9, 0x88, 0xb5], &[0x5a; 46]].concat();
        self.put(FRAMES, &frame);
        self.fill(0, frame.len() as u32, head);
    }

    /// Offers buffers to the other end.
    pub(crate) fn offer(&self, head: u16) {
        self.fill(1, 2_048, head);
    }

    /// Waits for the end of the connection, past what the other end still had to say.
    pub(crate) fn is_hung_up(&self) {
        while recv(self.socket.as_raw_fd(), &mut [0; MESSAGE], MsgFlags::empty()).unwrap_or(0) > 0 {
        }
    }
}
