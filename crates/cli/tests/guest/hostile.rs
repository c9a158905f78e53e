//! A peer that means harm: it speaks vhost-user by itself, and writes into the shared rings what no driver would.

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
use serde_json::Value;

use crate::clearway::{Folder, PATIENCE, Process, alone, eventually};

/// Requests of the vhost-user protocol, by their numbers there.
mod request {
    pub(super) const GET_FEATURES: u32 = 1;
    pub(super) const SET_FEATURES: u32 = 2;
    pub(super) const SET_OWNER: u32 = 3;
    pub(super) const SET_MEM_TABLE: u32 = 5;
    pub(super) const SET_VRING_NUM: u32 = 8;
    pub(super) const SET_VRING_ADDR: u32 = 9;
    pub(super) const SET_VRING_BASE: u32 = 10;
    pub(super) const SET_VRING_KICK: u32 = 12;
    pub(super) const SET_VRING_CALL: u32 = 13;
    pub(super) const SET_VRING_ENABLE: u32 = 18;
}

/// Feature bits: Virtual I/O Device 1.2, 5.1.3 and 6; 30 is vhost-user's own.
const SPLIT: u64 = 1 | 1 << 11 | 1 << 12 | 1 << 15 | 1 << 28 | 1 << 30 | 1 << 32;
const PACKED: u64 = SPLIT | 1 << 34;

/// The memory that both sides see, and where the other side shall believe that it lies.
const MEMORY: u64 = 2 << 20;
const BASE: u64 = 0x10_0000_0000;

/// Entries of a ring. Ring 0 is what the peer receives, ring 1 what it sends.
const ENTRIES: u16 = 256;
const RING_BYTES: u64 = 0x1_0000;
const AVAIL: u64 = 0x4000;
const USED: u64 = 0x8000;
/// Where frames may lie.
const FRAMES: u64 = 2 * RING_BYTES;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// The front end of a vhost-user link: what a guest's QEMU is otherwise.
struct Front {
    socket: UnixStream,
    memory: File,
    kicks: [EventFd; 2],
    calls: [EventFd; 2],
    rng: Rng,
}

#[derive(Clone, Copy)]
struct Descriptor {
    addr: u64,
    len: u32,
    flags: u16,
    next: u16,
}

impl Front {
    /// A link that is up: both rings are enabled, and empty.
    fn up(socket: &str, features: u64, seed: u64) -> Front {
        let mut front = Front::connected(socket, seed);
        front.begin(features);
        front
    }

    fn connected(path: &str, seed: u64) -> Front {
        let mut connected = None;
        eventually("the port takes a peer", || {
            connected = UnixStream::connect(path).ok();
            connected.is_some()
        });
        let socket = connected.unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        let memory = File::from(memfd_create(c"hostile", MFdFlags::MFD_CLOEXEC).unwrap());
        memory.set_len(MEMORY).unwrap();
        let bell = || EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC).unwrap();
        Front { socket, memory, kicks: [bell(), bell()], calls: [bell(), bell()], rng: Rng::seed(seed) }
    }

    fn begin(&mut self, features: u64) {
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
            let (kick, call) = (self.kicks[ring as usize].as_raw_fd(), self.calls[ring as usize].as_raw_fd());
            self.tell(request::SET_VRING_CALL, &u64::from(ring).to_le_bytes(), &[call]);
            self.tell(request::SET_VRING_KICK, &u64::from(ring).to_le_bytes(), &[kick]);
            self.tell_ring(request::SET_VRING_ENABLE, ring, 1);
        }
    }

    fn tell_memory(&self, regions: u32, bytes: u64) {
        let mut payload = u64::from(regions).to_le_bytes().to_vec();
        for word in [0, bytes, BASE, 0] {
            payload.extend(u64::to_le_bytes(word));
        }
        self.tell(request::SET_MEM_TABLE, &payload, &[self.memory.as_raw_fd()]);
    }

    fn tell_ring(&self, request: u32, ring: u32, value: u32) {
        self.tell(request, &[ring.to_le_bytes(), value.to_le_bytes()].concat(), &[]);
    }

    fn tell_address(&self, ring: u32, at: u64) {
        let mut payload = [ring.to_le_bytes(), [0; 4]].concat();
        for word in [at, at + USED, at + AVAIL, 0] {
            payload.extend(word.to_le_bytes());
        }
        self.tell(request::SET_VRING_ADDR, &payload, &[]);
    }

    fn tell(&self, request: u32, payload: &[u8], files: &[RawFd]) {
        // Version 1.
        let head = [request, 1, payload.len() as u32].map(u32::to_le_bytes).concat();
        self.say(&[head.as_slice(), payload].concat(), files);
    }

    /// The other side may have hung up on us, as is its right.
    fn say(&self, bytes: &[u8], files: &[RawFd]) {
        let rights = [ControlMessage::ScmRights(files)];
        let rights = if files.is_empty() { &[][..] } else { &rights };
        let flags = MsgFlags::MSG_NOSIGNAL;
        let _ = sendmsg::<()>(self.socket.as_fd().as_raw_fd(), &[IoSlice::new(bytes)], rights, flags, None);
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).unwrap();
    }

    fn describe(&self, ring: u64, index: u16, descriptor: Descriptor) {
        self.describe_at(ring * RING_BYTES + u64::from(index) * 16, descriptor);
    }

    fn describe_at(&self, at: u64, Descriptor { addr, len, flags, next }: Descriptor) {
        self.put(
            at,
            &[&addr.to_le_bytes()[..], &len.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat(),
        );
    }

    /// Offers these heads of chains, and says that the ring goes up to `index`.
    fn offer(&self, ring: u64, heads: &[u16], index: u16) {
        let at = ring * RING_BYTES + AVAIL;
        for (slot, head) in heads.iter().enumerate() {
            self.put(at + 4 + 2 * slot as u64, &head.to_le_bytes());
        }
        self.put(at + 2, &index.to_le_bytes());
        self.kick();
    }

    fn kick(&self) {
        for kick in &self.kicks {
            let _ = kick.write(1);
        }
        // Whoever is asleep wakes up in that time. Nothing depends on it but how much of the harm is noticed.
        sleep(Duration::from_millis(2));
    }

    /// An honest frame that goes to a group, behind a header of virtio-net.
    fn frame(&self, header: [u8; 12]) -> Descriptor {
        let mut frame = header.to_vec();
        frame.extend([0xff; 6]);
        frame.extend([2, 0, 0, 0, 0, 9, 0x08, 0x00, 0x45, 0, 0, 46]);
        frame.extend([0x5a; 64]);
        self.put(FRAMES, &frame);
        Descriptor { addr: FRAMES, len: frame.len() as u32, flags: 0, next: 0 }
    }

    fn scribble(&mut self, from: u64, to: u64) {
        let bytes: Vec<u8> = (from..to).step_by(8).flat_map(|_| self.rng.next_u64().to_le_bytes()).collect();
        self.put(from, &bytes);
    }
}

/// What is done to a ring, with a name for when it did harm.
type Harm = (&'static str, fn(&mut Front));

const HARMS: &[Harm] = &[
    ("a buffer that lies nowhere", |front| one(front, 0xdead_beef_0000, 100, 0)),
    ("a buffer that begins at the last byte", |front| one(front, MEMORY - 1, 100, 0)),
    ("a buffer whose end wraps", |front| one(front, u64::MAX - 10, 100, 0)),
    ("a buffer that is longer than all memory", |front| one(front, FRAMES, u32::MAX, 0)),
    ("a buffer without a byte", |front| one(front, FRAMES, 0, 0)),
    ("a buffer that does not hold the header", |front| one(front, FRAMES, 11, 0)),
    ("a buffer with the header alone", |front| one(front, FRAMES, 12, 0)),
    ("a buffer to write into where one to read belongs", |front| one(front, FRAMES, 100, WRITE)),
    ("a chain that is its own next", |front| one(front, FRAMES, 100, NEXT)),
    ("a chain that goes round", |front| {
        for index in 0..ENTRIES {
            let next = (index + 1) % ENTRIES;
            front.describe(1, index, Descriptor { addr: FRAMES, len: 4_000, flags: NEXT, next });
        }
        front.offer(1, &[0, 7], 2);
    }),
    ("a chain that leaves the ring", |front| {
        front.describe(1, 0, Descriptor { addr: FRAMES, len: 100, flags: NEXT, next: 60_000 });
        front.offer(1, &[0], 1);
    }),
    ("heads beyond the ring", |front| front.offer(1, &[ENTRIES, 0x7fff, 0xffff], 3)),
    ("an index far ahead", |front| front.offer(1, &[0], 0xffff)),
    ("an index that goes back", |front| {
        let frame = front.frame([0; 12]);
        front.describe(1, 0, frame);
        front.offer(1, &[0; 8], 8);
        front.offer(1, &[0; 8], 3);
    }),
    ("a list of descriptors that lies nowhere", |front| one(front, 0xdead_beef_0000, 64, INDIRECT)),
    ("a list of descriptors of odd length", |front| one(front, FRAMES, 17, INDIRECT)),
    ("a list of descriptors without an entry", |front| one(front, FRAMES, 0, INDIRECT)),
    ("a list of descriptors in a list", |front| {
        front.describe_at(FRAMES, Descriptor { addr: FRAMES, len: 64, flags: INDIRECT | NEXT, next: 0xffff });
        one(front, FRAMES, 64, INDIRECT);
    }),
    ("receive buffers that lie nowhere", |front| {
        for index in 0..ENTRIES {
            front.describe(0, index, Descriptor { addr: u64::MAX << 12, len: 2_048, flags: WRITE, next: 0 });
        }
        front.offer(0, &(0..ENTRIES).collect::<Vec<_>>(), ENTRIES);
        ask_for_an_answer(front);
    }),
    ("receive buffers that go round and are short", |front| {
        for index in 0..ENTRIES {
            front.describe(0, index, Descriptor { addr: FRAMES, len: 1, flags: WRITE | NEXT, next: index });
        }
        front.offer(0, &(0..ENTRIES).collect::<Vec<_>>(), ENTRIES);
        ask_for_an_answer(front);
    }),
    ("wishes for checksums and segments that cannot be", |front| {
        for _ in 0..64 {
            let header: [u8; 12] = std::array::from_fn(|_| front.rng.next_u64() as u8);
            let frame = front.frame(header);
            front.describe(1, 0, frame);
            let index = front.rng.next_u64() as u16 % 64;
            front.offer(1, &[0; 64], index);
        }
    }),
    ("a ring that lies nowhere", |front| {
        front.tell_address(1, 0xdead_beef_0000);
        front.kick();
    }),
    ("a ring at the end of memory", |front| {
        front.tell_address(0, BASE + MEMORY - 8);
        front.tell_address(1, BASE + MEMORY - 8);
        front.kick();
    }),
    ("rings of impossible lengths", |front| {
        for entries in [0, 3, 0xffff, u32::MAX] {
            front.tell_ring(request::SET_VRING_NUM, 1, entries);
            front.kick();
        }
    }),
    ("rings of impossible numbers", |front| {
        for request in [request::SET_VRING_NUM, request::SET_VRING_BASE, request::SET_VRING_ENABLE] {
            front.tell_ring(request, 0xffff, 1);
        }
        front.kick();
    }),
    ("too many regions of memory", |front| front.tell_memory(9, MEMORY)),
    ("no region of memory", |front| front.tell_memory(0, MEMORY)),
    ("a region of memory that is too large for an address", |front| front.tell_memory(1, u64::MAX - 4_095)),
    ("noise for a message", |front| {
        let noise: Vec<u8> = (0..4_096).map(|_| front.rng.next_u64() as u8).collect();
        front.say(&noise, &[]);
    }),
    ("half a message", |front| front.say(&[1, 0, 0, 0, 1, 0], &[])),
    ("a message that is longer than any", |front| {
        front.say(&[request::SET_FEATURES, 1, u32::MAX].map(u32::to_le_bytes).concat(), &[]);
    }),
    ("noise in the rings", |front| {
        for _ in 0..32 {
            front.scribble(0, 2 * RING_BYTES);
            front.kick();
        }
    }),
    ("noise everywhere", |front| {
        for _ in 0..4 {
            front.scribble(0, MEMORY);
            front.kick();
        }
    }),
    ("noise in rings that can be followed for a while", |front| {
        for _ in 0..64 {
            for index in 0..ENTRIES {
                let random = front.rng.next_u64();
                let descriptor = Descriptor {
                    addr: random % (MEMORY + 4_096),
                    len: (random >> 32) as u32 % 70_000,
                    flags: (random >> 24) as u16 % 8,
                    next: (random >> 16) as u16 % (ENTRIES + 2),
                };
                front.describe(random >> 63, index, descriptor);
            }
            let heads: Vec<u16> = (0..ENTRIES).collect();
            let index = front.rng.next_u64() as u16;
            front.offer(index as u64 % 2, &heads, index % (2 * ENTRIES));
        }
    }),
];

/// Offers one buffer for sending.
fn one(front: &mut Front, addr: u64, len: u32, flags: u16) {
    front.frame([0; 12]);
    front.describe(1, 0, Descriptor { addr, len, flags, next: 0 });
    front.offer(1, &[0], 1);
}

/// Sends a question to which the other side has to answer, into the receive buffers: who has its address?
fn ask_for_an_answer(front: &mut Front) {
    let mut frame = vec![0; 12];
    frame.extend([0xff; 6]);
    frame.extend([2, 0, 0, 0, 0, 9, 0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend([2, 0, 0, 0, 0, 9, 10, 97, 0, 9, 0, 0, 0, 0, 0, 0, 10, 97, 0, 2]);
    front.put(FRAMES, &frame);
    front.describe(1, 0, Descriptor { addr: FRAMES, len: frame.len() as u32, flags: 0, next: 0 });
    front.offer(1, &[0; 16], 16);
}

/// Whether this front end would be heard if it were honest: its question is answered into its buffers. Without that, no harm would arrive either.
fn is_heard(socket: &str) {
    let mut front = Front::up(socket, SPLIT, 0);
    let buffers = FRAMES + 4_096;
    for index in 0..ENTRIES {
        let addr = buffers + u64::from(index) * 2_048;
        front.describe(0, index, Descriptor { addr, len: 2_048, flags: WRITE, next: 0 });
    }
    front.offer(0, &(0..ENTRIES).collect::<Vec<_>>(), ENTRIES);
    eventually("the question is answered", || {
        ask_for_an_answer(&mut front);
        let mut used = [0; 2];
        front.memory.read_exact_at(&mut used, USED + 2).unwrap();
        let mut frame = [0; 64];
        // Behind a header, addresses and type: an ARP reply (RFC 826) is operation 2.
        (0..u16::from_le_bytes(used).min(ENTRIES)).any(|index| {
            front.memory.read_exact_at(&mut frame, buffers + u64::from(index) * 2_048).unwrap();
            frame[24..26] == [8, 6] && frame[32..34] == [0, 2]
        })
    });
}

/// An honest peer sends bytes that have to arrive.
fn is_served(folder: &Folder, socket: &str) {
    let port = format!("dpdk:net_virtio_user0,path={socket},queues=1");
    let args = [
        "bulk",
        "client",
        "--port",
        &port,
        "-a",
        "10.97.0.1/24",
        "-s",
        "10.97.0.2",
        "--bytes",
        "1M",
        "--sha256",
        "--json",
    ];
    let (status, result): (_, Value) = folder.spawn(folder.command(&args)).wait();
    assert!(status.success() && result["verified"] == true, "{status}: {result}");
}

#[test]
fn a_hostile_peer_harms_nobody_but_itself() {
    let _alone = alone();
    let folder = Folder::new();
    let socket = folder.join("h.sock");
    let port = format!("dpdk:net_vhost0,iface={socket},queues=1,tso=1");
    let mut victim: Process = folder.clearway(&["bulk", "server", "--port", &port, "-a", "10.97.0.2/24", "--json"]);
    is_served(&folder, &socket);
    is_heard(&socket);
    for (number, (name, harm)) in HARMS.iter().enumerate() {
        for features in [SPLIT, PACKED] {
            let mut front = Front::up(&socket, features, number as u64 + 1);
            harm(&mut front);
            sleep(Duration::from_millis(20));
            assert!(victim.lives(), "{name}: {}", victim.text());
        }
    }
    is_served(&folder, &socket);
    victim.stop();
}
