//! A peer that means harm: it speaks vhost-user by itself, and writes into the shared rings what no
//! driver would.

use std::os::unix::fs::FileExt as _;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::clearway::{Folder, Process, alone, eventually};
use crate::front::{
    BASE, Descriptor, ENTRIES, FRAMES, Front, INDIRECT, MEMORY, NEXT, PACKED, RING_BYTES, SPLIT,
    USED, WRITE, request,
};

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
        front.describe_at(
            FRAMES,
            Descriptor { addr: FRAMES, len: 64, flags: INDIRECT | NEXT, next: 0xffff },
        );
        one(front, FRAMES, 64, INDIRECT);
    }),
    ("receive buffers that lie nowhere", |front| {
        for index in 0..ENTRIES {
            front.describe(
                0,
                index,
                Descriptor { addr: u64::MAX << 12, len: 2_048, flags: WRITE, next: 0 },
            );
        }
        front.offer(0, &(0..ENTRIES).collect::<Vec<_>>(), ENTRIES);
        ask_for_an_answer(front);
    }),
    ("receive buffers that go round and are short", |front| {
        for index in 0..ENTRIES {
            front.describe(
                0,
                index,
                Descriptor { addr: FRAMES, len: 1, flags: WRITE | NEXT, next: index },
            );
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
        for request in [request::SET_VRING_NUM, request::SET_VRING_BASE, request::SET_VRING_ENABLE]
        {
            front.tell_ring(request, 0xffff, 1);
        }
        front.kick();
    }),
    ("too many regions of memory", |front| front.tell_memory(9, MEMORY)),
    ("no region of memory", |front| front.tell_memory(0, MEMORY)),
    ("a region of memory that is too large for an address", |front| {
        front.tell_memory(1, u64::MAX - 4_095)
    }),
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

/// Sends a question to which the other side has to answer, into the receive buffers: who has its
/// address?
fn ask_for_an_answer(front: &mut Front) {
    let mut frame = vec![0; 12];
    frame.extend([0xff; 6]);
    frame.extend([2, 0, 0, 0, 0, 9, 0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend([2, 0, 0, 0, 0, 9, 10, 97, 0, 9, 0, 0, 0, 0, 0, 0, 10, 97, 0, 2]);
    front.put(FRAMES, &frame);
    front.describe(1, 0, Descriptor { addr: FRAMES, len: frame.len() as u32, flags: 0, next: 0 });
    front.offer(1, &[0; 16], 16);
}

/// Whether this front end would be heard if it were honest: its question is answered into its
/// buffers. Without that, no harm would arrive either.
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
pub(crate) fn is_served(folder: &Folder, socket: &str) {
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
    let mut victim: Process =
        folder.clearway(&["bulk", "server", "--port", &port, "-a", "10.97.0.2/24", "--json"]);
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
