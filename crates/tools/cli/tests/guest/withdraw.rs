//! Peers that take back the memory that they share, by making its file shorter: whoever touches
//! what is gone gets SIGBUS, and has to outlive it.

use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::thread::sleep;
use std::time::{Duration, Instant as Clock};

use clearway_dev::{Facts as _, Receive as _, Transmit as _};
use clearway_pkt::TxMeta;
use nix::sys::signal::Signal;

use crate::clearway::{Folder, Process, TIME_LIMIT, alone, eventually};
use crate::front::{Descriptor, ENTRIES, FRAMES, Front, MEMORY, PACKED, SPLIT, WRITE};
use crate::hostile::is_served;
use crate::lifecycle::Wire;
use crate::link::{self, Link};

/// What stands in the log of a process that has cut a peer off.
const TOLD: &str = "took back memory";

/// What a peer does before it is cut off, with a name for when it did harm.
type Harm<'a, Peer> = (&'a str, &'a dyn Fn(&mut Wire) -> Peer);

impl Wire {
    /// Takes what has come; answers how many frames that were.
    fn take(&mut self) -> usize {
        self.port.set_now(self.now());
        self.port.rx(&mut self.burst).unwrap();
        let came = self.burst.len();
        self.burst.clear();
        came
    }

    fn send(&mut self, len: usize) {
        self.port.set_now(self.now());
        if let Some(room) = self.port.reserve(len) {
            room[..len].fill(0x5a);
            self.port.commit(len, TxMeta::default());
        }
        self.port.flush();
    }

    fn cut_off(&self) -> u64 {
        let counters = self.port.driver_counters();
        counters.iter().find(|(name, _)| name == "peers_cut_off").map_or(0, |(_, count)| *count)
    }

    /// Does this again and again until it is so.
    fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Wire) -> bool) {
        let until = Clock::now() + TIME_LIMIT;
        while !is_so(self) {
            assert!(Clock::now() < until, "this never came true: {what}");
            sleep(Duration::from_micros(200));
        }
    }
}

/// A frame that arrives: the peer would be heard.
fn hears(wire: &mut Wire, front: &Front) {
    wire.until("the link is up", |wire| wire.port.link_up());
    let frame = front.frame([0; 12]);
    front.describe(1, 0, frame);
    front.offer(1, &[0], 1);
    wire.until("a frame arrives", |wire| wire.take() > 0);
}

/// The other side has hung up.
fn is_hung_up(front: &mut Front) {
    assert_eq!(front.socket.read(&mut [0]).unwrap(), 0, "the connection is at its end");
}

/// Frames wait, and the memory ends at `left` before they are taken.
fn withdraw_from_receiver(wire: &mut Wire, socket: &str, left: u64) -> Front {
    let front = Front::up(socket, SPLIT, 1);
    hears(wire, &front);
    front.offer(1, &[0; 32], 32);
    front.memory.set_len(left).unwrap();
    front
}

/// Receive buffers wait, and are gone before they are written to.
fn withdraw_from_sender(wire: &mut Wire, socket: &str) -> Front {
    let front = Front::up(socket, SPLIT, 1);
    hears(wire, &front);
    for index in 0..ENTRIES {
        let addr = FRAMES + 4_096 + u64::from(index) * 2_048;
        front.describe(0, index, Descriptor { addr, len: 2_048, flags: WRITE, next: 0 });
    }
    front.offer(0, &(0..ENTRIES).collect::<Vec<_>>(), ENTRIES);
    front.memory.set_len(FRAMES).unwrap();
    sends_until_cut_off(wire);
    front
}

fn sends_until_cut_off(wire: &mut Wire) {
    let before = wire.cut_off();
    wire.until("what is sent meets no memory", |wire| {
        wire.send(1_400);
        wire.cut_off() > before
    });
}

/// Memory that was never as long as the peer says: the driver's own thread is the first to look for
/// the rings there.
fn promise_more_than_there_is(socket: &str, features: u64) -> Front {
    let mut front = Front::connected(socket, 1);
    front.memory.set_len(4_096).unwrap();
    front.begin(features);
    front
}

#[test]
fn memory_that_a_peer_takes_back_is_replaced_and_the_peer_is_cut_off() {
    let _alone = alone();
    let folder = Folder::new();
    let socket = folder.join("t.sock");
    let harms: &[Harm<'_, Front>] = &[
        ("all memory", &|wire| withdraw_from_receiver(wire, &socket, 0)),
        ("the frames, and not the rings", &|wire| withdraw_from_receiver(wire, &socket, FRAMES)),
        ("the receive buffers", &|wire| withdraw_from_sender(wire, &socket)),
        ("packed rings", &|wire| {
            let front = Front::up(&socket, PACKED, 1);
            wire.until("the link is up", |wire| wire.port.link_up());
            front.memory.set_len(0).unwrap();
            front
        }),
        ("memory that never was", &|_| promise_more_than_there_is(&socket, SPLIT)),
        ("memory that never was, packed", &|_| promise_more_than_there_is(&socket, PACKED)),
    ];
    for (what, harm) in harms {
        // A port of its own for each: its counter begins at nothing.
        let mut wire = Wire::open(&format!("dpdk:net_vhost6,iface={socket},queues=1"));
        let free = wire.free();
        let mut front = harm(&mut wire);
        wire.until(what, |wire| {
            wire.take();
            wire.cut_off() == 1
        });
        is_hung_up(&mut front);
        wire.until("the link is down", |wire| {
            wire.take();
            !wire.port.link_up()
        });
        assert!(free - wire.free() <= 64, "{what}: {free} buffers were free, {} are", wire.free());
        // The next one is welcome, and when it does the same it is counted again.
        let mut next = withdraw_from_receiver(&mut wire, &socket, MEMORY / 2);
        assert!(wire.take() > 0, "{what}: half of the memory is enough");
        next.memory.set_len(0).unwrap();
        wire.until("the second is cut off", |wire| {
            wire.take();
            wire.cut_off() == 2
        });
        is_hung_up(&mut next);
    }
}

#[test]
fn a_peer_that_takes_its_memory_back_harms_nobody_but_itself() {
    let _alone = alone();
    let folder = Folder::new();
    let (bad, good) = (folder.join("bad.sock"), folder.join("good.sock"));
    let port = |name: &str, socket: &str| format!("dpdk:{name},iface={socket},queues=1,tso=1");
    let (first, second) = (port("net_vhost0", &bad), port("net_vhost1", &good));
    let args = [
        "bulk",
        "server",
        "--port",
        &first,
        "--port",
        &second,
        "-a",
        "10.97.0.2/24",
        "-a",
        "10.98.0.2/24@1",
        "--json",
    ];
    let mut victim: Process = folder.clearway(&args);
    let theirs = format!("dpdk:net_virtio_user0,path={good},queues=1");
    let args = [
        "bulk",
        "client",
        "--port",
        &theirs,
        "-a",
        "10.98.0.1/24",
        "-s",
        "10.98.0.2",
        "--bytes",
        "2G",
        "--sha256",
        "--json",
    ];
    let mut neighbour = folder.spawn(folder.command(&args));
    for round in 0..10 {
        let mut front = Front::up(&bad, if round % 2 == 0 { SPLIT } else { PACKED }, round);
        let frame = front.frame([0; 12]);
        front.describe(1, 0, frame);
        front.offer(1, &[0; 256], 256);
        front.memory.set_len(0).unwrap();
        front.kick();
        is_hung_up(&mut front);
        assert!(victim.lives() && (round > 0 || neighbour.lives()), "{}", victim.text());
    }
    let (status, result) = neighbour.wait();
    assert!(status.success() && result["verified"] == true, "{status}: {result}");
    is_served(&folder, &bad);
    assert_eq!(victim.text().matches(TOLD).count(), 1, "{}", victim.text());
    victim.stop();
}

/// A memif link over which a frame has come.
fn link_that_is_heard(wire: &mut Wire, socket: &str) -> Link {
    let link = Link::up(socket);
    wire.until("the link is up", |wire| {
        wire.take();
        wire.port.link_up()
    });
    link.send(1);
    wire.until("a frame arrives", |wire| wire.take() > 0);
    link
}

#[test]
fn memory_that_a_peer_of_memif_takes_back_is_replaced_too() {
    let _alone = alone();
    let folder = Folder::new();
    let socket = folder.join("m.sock");
    let harms: &[Harm<'_, Link>] = &[
        ("all memory", &|wire| {
            let link = link_that_is_heard(wire, &socket);
            link.send(32);
            link.memory.set_len(0).unwrap();
            link
        }),
        ("the frames, and not the rings", &|wire| {
            let link = link_that_is_heard(wire, &socket);
            link.send(32);
            link.memory.set_len(link::FRAMES).unwrap();
            link
        }),
        ("the receive buffers", &|wire| {
            let link = link_that_is_heard(wire, &socket);
            link.offer(256);
            link.memory.set_len(link::FRAMES).unwrap();
            sends_until_cut_off(wire);
            link
        }),
        ("memory that never was", &|_| {
            let link = Link::connected(&socket);
            link.memory.set_len(0).unwrap();
            link.begin();
            link
        }),
    ];
    for (what, harm) in harms {
        let mut wire =
            Wire::open(&format!("dpdk:net_memif6,role=server,socket={socket},socket-abstract=no"));
        let free = wire.free();
        for cut_off in 1..=2 {
            let link = harm(&mut wire);
            wire.until(what, |wire| {
                wire.take();
                wire.cut_off() == cut_off
            });
            link.is_hung_up();
            wire.until("the link is down", |wire| {
                wire.take();
                !wire.port.link_up()
            });
        }
        assert!(free - wire.free() <= 64, "{what}: {free} buffers were free, {} are", wire.free());
        drop(link_that_is_heard(&mut wire, &socket));
    }
}

#[test]
fn a_bus_error_that_is_no_peers_doing_ends_the_program_as_ever() {
    let _alone = alone();
    let folder = Folder::new();
    let port = format!("dpdk:net_vhost0,iface={},queues=1", folder.join("e.sock"));
    let mut process = folder.clearway(&["reflect", "--port", &port, "--json"]);
    // Rust's own handler, to which ours gives way, only goes away itself at the first.
    eventually("the signal ends it", || {
        process.signal(Signal::SIGBUS);
        !process.lives()
    });
    assert_eq!(process.wait().0.signal(), Some(Signal::SIGBUS as i32));
}
