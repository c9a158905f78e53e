//! The front end of a vhost-user link, byte by byte: what a guest's QEMU is otherwise, as a test
//! wants it to be.

use std::fs::File;
use std::io::{IoSlice, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::thread::sleep;
use std::time::Duration;

use clearway_base::Rng;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

use crate::clearway::{TIME_LIMIT, eventually};

/// Requests of the vhost-user protocol, by their numbers there.
pub(crate) mod request {
    pub(crate) const GET_FEATURES: u32 = 1;
    pub(crate) const SET_FEATURES: u32 = 2;
    pub(crate) const SET_OWNER: u32 = 3;
    pub(crate) const SET_MEM_TABLE: u32 = 5;
    pub(crate) const SET_VRING_NUM: u32 = 8;
    pub(crate) const SET_VRING_ADDR: u32 = 9;
    pub(crate) const SET_VRING_BASE: u32 = 10;
    pub(crate) const SET_VRING_KICK: u32 = 12;
    pub(crate) const SET_VRING_CALL: u32 = 13;
    pub(crate) const SET_VRING_ENABLE: u32 = 18;
}

/// Feature bits: Virtual I/O Device 1.2, 5.1.3 and 6; 30 is vhost-user's own.
pub(crate) const SPLIT: u64 = 1 | 1 << 11 | 1 << 12 | 1 << 15 | 1 << 28 | 1 << 30 | 1 << 32;
pub(crate) const PACKED: u64 = SPLIT | 1 << 34;

/// The memory that both sides see, and where the other side shall believe that it lies.
pub(crate) const MEMORY: u64 = 2 << 20;
pub(crate) const BASE: u64 = 0x10_0000_0000;

/// Entries of a ring. Ring 0 is what the peer receives, ring 1 what it sends.
pub(crate) const ENTRIES: u16 = 256;
pub(crate) const RING_BYTES: u64 = 0x1_0000;
pub(crate) const AVAIL: u64 = 0x4000;
pub(crate) const USED: u64 = 0x8000;
/// Where frames may lie.
pub(crate) const FRAMES: u64 = 2 * RING_BYTES;

pub(crate) const NEXT: u16 = 1;
pub(crate) const WRITE: u16 = 2;
pub(crate) const INDIRECT: u16 = 4;

/// The front end of a vhost-user link: what a guest's QEMU is otherwise.
pub(crate) struct Front {
    pub(crate) socket: UnixStream,
    pub(crate) memory: File,
    pub(crate) kicks: [EventFd; 2],
    pub(crate) calls: [EventFd; 2],
    pub(crate) rng: Rng,
}

#[derive(Clone, Copy)]
pub(crate) struct Descriptor {
    pub(crate) addr: u64,
    pub(crate) len: u32,
    pub(crate) flags: u16,
    pub(crate) next: u16,
}

impl Front {
    /// A link that is up: both rings are enabled, and empty.
    pub(crate) fn up(socket: &str, features: u64, seed: u64) -> Front {
        let mut front = Front::connected(socket, seed);
        front.begin(features);
        front
    }

    pub(crate) fn connected(path: &str, seed: u64) -> Front {
        let mut connected = None;
        eventually("the port takes a peer", || {
            connected = UnixStream::connect(path).ok();
            connected.is_some()
        });
        let socket = connected.unwrap();
        socket.set_read_timeout(Some(TIME_LIMIT)).unwrap();
        socket.set_write_timeout(Some(TIME_LIMIT)).unwrap();
        let memory = File::from(memfd_create(c"hostile", MFdFlags::MFD_CLOEXEC).unwrap());
        memory.set_len(MEMORY).unwrap();
        let notifier =
            || EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC).unwrap();
        Front {
            socket,
            memory,
            kicks: [notifier(), notifier()],
            calls: [notifier(), notifier()],
            rng: Rng::seed(seed),
        }
    }

    pub(crate) fn begin(&mut self, features: u64) {
        self.tell(request::GET_FEATURES, &[], &[]);
        let mut answer = [0; 20];
        self.socket.read_exact(&mut answer).unwrap();
        let offered = u64::from_le_bytes(answer[12..].try_into().unwrap());
        self.tell(request::SET_OWNER, &[], &[]);
        self.tell(request::SET_FEATURES, &(offered & features).to_le_bytes(), &[]);
        self.tell_memory(1, MEMORY);
        for ring in 0..2 {
            self.tell_ring(request::SET_VRING_NUM, ring, ENTRIES.into());
            self.tell_ring(request::SET_VRING_BASE, ring, 0);
            self.tell_address(ring, BASE + u64::from(ring) * RING_BYTES);
            let (kick, call) =
                (self.kicks[ring as usize].as_raw_fd(), self.calls[ring as usize].as_raw_fd());
            self.tell(request::SET_VRING_CALL, &u64::from(ring).to_le_bytes(), &[call]);
            self.tell(request::SET_VRING_KICK, &u64::from(ring).to_le_bytes(), &[kick]);
            self.tell_ring(request::SET_VRING_ENABLE, ring, 1);
        }
    }

    pub(crate) fn tell_memory(&self, regions: u32, bytes: u64) {
        let mut payload = u64::from(regions).to_le_bytes().to_vec();
        for word in [0, bytes, BASE, 0] {
            payload.extend(u64::to_le_bytes(word));
        }
        self.tell(request::SET_MEM_TABLE, &payload, &[self.memory.as_raw_fd()]);
    }

    pub(crate) fn tell_ring(&self, request: u32, ring: u32, value: u32) {
        self.tell(request, &[ring.to_le_bytes(), value.to_le_bytes()].concat(), &[]);
    }

    pub(crate) fn tell_address(&self, ring: u32, at: u64) {
        let mut payload = [ring.to_le_bytes(), [0; 4]].concat();
        for word in [at, at + USED, at + AVAIL, 0] {
            payload.extend(word.to_le_bytes());
        }
        self.tell(request::SET_VRING_ADDR, &payload, &[]);
    }

    pub(crate) fn tell(&self, request: u32, payload: &[u8], files: &[RawFd]) {
        // Version 1.
        let head = [request, 1, payload.len() as u32].map(u32::to_le_bytes).concat();
        self.say(&[head.as_slice(), payload].concat(), files);
    }

    /// The other side may have hung up on us, as is its right.
    pub(crate) fn say(&self, bytes: &[u8], files: &[RawFd]) {
        let rights = [ControlMessage::ScmRights(files)];
        let rights = if files.is_empty() { &[][..] } else { &rights };
        let flags = MsgFlags::MSG_NOSIGNAL;
        let _ = sendmsg::<()>(
            self.socket.as_fd().as_raw_fd(),
            &[IoSlice::new(bytes)],
            rights,
            flags,
            None,
        );
    }

    pub(crate) fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).unwrap();
    }

    pub(crate) fn describe(&self, ring: u64, index: u16, descriptor: Descriptor) {
        self.describe_at(ring * RING_BYTES + u64::from(index) * 16, descriptor);
    }

    pub(crate) fn describe_at(&self, at: u64, Descriptor { addr, len, flags, next }: Descriptor) {
        self.put(
            at,
            &[
                &addr.to_le_bytes()[..],
                &len.to_le_bytes(),
                &flags.to_le_bytes(),
                &next.to_le_bytes(),
            ]
            .concat(),
        );
    }

    /// Offers these heads of chains, and says that the ring goes up to `index`.
    pub(crate) fn offer(&self, ring: u64, heads: &[u16], index: u16) {
        let at = ring * RING_BYTES + AVAIL;
        for (slot, head) in heads.iter().enumerate() {
            self.put(at + 4 + 2 * slot as u64, &head.to_le_bytes());
        }
        self.put(at + 2, &index.to_le_bytes());
        self.kick();
    }

    pub(crate) fn kick(&self) {
        for kick in &self.kicks {
            let _ = kick.write(1);
        }
        // Whoever is asleep wakes up in that time. Nothing depends on it but how much of the harm
        // is noticed.
        sleep(Duration::from_millis(2));
    }

    /// An honest frame that goes to a group, behind a header of virtio-net.
    pub(crate) fn frame(&self, header: [u8; 12]) -> Descriptor {
        let mut frame = header.to_vec();
        frame.extend([0xff; 6]);
        frame.extend([2, 0, 0, 0, 0, 9, 0x08, 0x00, 0x45, 0, 0, 46]);
        frame.extend([0x5a; 64]);
        self.put(FRAMES, &frame);
        Descriptor { addr: FRAMES, len: frame.len() as u32, flags: 0, next: 0 }
    }

    pub(crate) fn scribble(&mut self, from: u64, to: u64) {
        let bytes: Vec<u8> =
            (from..to).step_by(8).flat_map(|_| self.rng.next_u64().to_le_bytes()).collect();
        self.put(from, &bytes);
    }
}
