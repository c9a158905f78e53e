//! Ports that come and go, and peers that are killed: what stays has to find whoever comes next,
//! and nothing may leak.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Instant as Clock;

use clearway_base::{Duration, Instant};
use clearway_dev::frames::PoolBudget;
use clearway_dev::{Facts as _, FramePool, Mac, PortSpec, Receive as _, Transmit as _};
use clearway_pkt::{Burst, PoolBuf, TxMeta};
use clearway_ports::{Port, Wrap};
use clearway_traffic::{Account, Generator, Mirror, Plan, Rate, Reflector, Shape};

use crate::clearway::{Folder, Process, TIME_LIMIT, alone};

/// Frames that have to cross before a peer counts as met.
const MET: u64 = 500;

/// How often a thing is done: the variable says it.
fn count(variable: &str, usually: u32) -> u32 {
    std::env::var(variable)
        .map_or(usually, |text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}")))
}

/// One queue of a device in this process.
pub(crate) struct Wire {
    pub(crate) port: Port,
    pub(crate) burst: Burst<PoolBuf>,
    began: Clock,
}

impl Wire {
    pub(crate) fn open(name: &str) -> Wire {
        let spec: PortSpec = name.parse().unwrap();
        let opened = clearway_ports::open_queues(&[spec], None, &Wrap::default(), 1);
        let queue = opened.unwrap_or_else(|error| panic!("{error}")).pop().unwrap().pop().unwrap();
        let pool = FramePool::new(PoolBudget::of_bytes(1 << 20));
        Wire { port: queue.into_port(&pool).unwrap(), burst: Burst::new(), began: Clock::now() }
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::ZERO + Duration::from_nanos(self.began.elapsed().as_nanos() as u64)
    }

    /// Buffers of the driver's that nobody holds.
    pub(crate) fn free(&self) -> usize {
        self.port.driver_buffers().unwrap().free
    }
}

/// Sends a frame until one arrives.
fn crosses(from: &mut Wire, to: &mut Wire) {
    let mut frame = [0; 60];
    frame[..6].copy_from_slice(&Mac::BROADCAST.0);
    // An EtherType for experiments (IEEE 802, 9.2.4).
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    let until = Clock::now() + TIME_LIMIT;
    loop {
        from.port.set_now(from.now());
        if let Some(room) = from.port.reserve(frame.len()) {
            room[..frame.len()].copy_from_slice(&frame);
            from.port.commit(frame.len(), TxMeta::default());
        }
        from.port.flush();
        to.port.set_now(to.now());
        to.port.rx(&mut to.burst).unwrap();
        let came = !to.burst.is_empty();
        to.burst.clear();
        if came {
            return;
        }
        assert!(Clock::now() < until, "nothing crosses");
        sleep(std::time::Duration::from_micros(200));
    }
}

/// How long nothing has to change until it is settled. Several threads of DPDK's have a part in
/// closing a port, each in its time.
const QUIET: std::time::Duration = std::time::Duration::from_millis(500);

/// Descriptors that this process has open, and what each is.
fn descriptors() -> Vec<String> {
    let all = fs::read_dir("/proc/self/fd").unwrap();
    // The descriptor by which we look is gone before its name is asked for.
    all.filter_map(|entry| {
        let path = entry.unwrap().path();
        let what = fs::read_link(&path).ok()?;
        Some(format!("{} {}", path.display(), what.display()))
    })
    .collect()
}

/// The same, once they have been as many for a while.
fn settled_descriptors() -> Vec<String> {
    let until = Clock::now() + TIME_LIMIT;
    let (mut seen, mut since) = (descriptors(), Clock::now());
    while since.elapsed() < QUIET {
        assert!(Clock::now() < until, "descriptors come and go without end: {seen:#?}");
        sleep(std::time::Duration::from_millis(10));
        let now = descriptors();
        if now.len() != seen.len() {
            since = Clock::now();
        }
        seen = now;
    }
    seen
}

/// Pages of memory that this process has and that are in use.
fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn ports_that_come_and_go_leave_nothing_behind() {
    let _alone = alone();
    let folder = Folder::new();
    let socket = folder.join("c.sock");
    let mut settled = None;
    for cycle in 0..count("VHOST_CYCLES", 8) {
        let mut vhost = Wire::open(&format!("dpdk:net_vhost7,iface={socket},queues=1"));
        assert!(Path::new(&socket).exists());
        // In huge pages the two cannot be in one process: virtio-user holds the lock of DPDK's
        // memory while it waits for vhost, which needs it too.
        if clearway_ports::dpdk::memory().is_some_and(|memory| memory.huge) {
            drop(vhost);
        } else {
            let mut user = Wire::open(&format!("dpdk:net_virtio_user7,path={socket},queues=1"));
            crosses(&mut user, &mut vhost);
            crosses(&mut vhost, &mut user);
            // Either may be the first to go.
            if cycle % 2 == 0 {
                drop(vhost);
                drop(user);
            } else {
                drop(user);
                drop(vhost);
            }
        }
        assert!(!Path::new(&socket).exists(), "the socket stays behind in cycle {cycle}");
        let now = (settled_descriptors(), resident_kib());
        // The first few find out what the driver keeps for ever.
        if cycle < 4 {
            settled = Some(now);
        } else if let Some((before, kib)) = &settled {
            assert_eq!(
                now.0.len(),
                before.len(),
                "descriptors, in cycle {cycle}: {:#?} and before {before:#?}",
                now.0
            );
            assert!(
                now.1 < kib + (64 << 10),
                "{} KiB of memory in cycle {cycle}, {kib} KiB before",
                now.1
            );
        }
    }
    println!(
        "after the first: {settled:?} descriptors and KiB; at the end: {} {}",
        descriptors().len(),
        resident_kib()
    );
}

/// Turns until so many more frames came back to the side that counts them; `kills` were met before.
fn until_met(mut turn: impl FnMut() -> u64, who: &Process, kills: usize) {
    let (until, start) = (Clock::now() + TIME_LIMIT, turn());
    while turn() < start + MET {
        assert!(Clock::now() < until, "nobody is met after {kills} kills: {}", who.text());
    }
}

/// A reflector at the port `ours` meets generators at `theirs` that are killed in the middle of
/// their work.
fn outlives_generators(ours: &str, theirs: &str, rate: &str) {
    let folder = Folder::new();
    let mut ours = Wire::open(&format!("{ours}{}", folder.join("k.sock")));
    let mut reflector = Reflector::new(Mirror::Macs);
    let theirs = format!("{theirs}{}", folder.join("k.sock"));
    let mut free = Vec::new();
    for _ in 0..count("VHOST_KILLS", 5) {
        let args = [
            "pktgen",
            "--port",
            &theirs,
            "--sizes",
            "64",
            "--rate",
            rate,
            "--seconds",
            "600",
            "--json",
        ];
        let mut peer = folder.spawn(folder.command(&args));
        let mut turn = || {
            let now = ours.now();
            reflector.turn(now, &mut ours.port, &mut ours.burst).unwrap();
            reflector.counts().returned
        };
        until_met(&mut turn, &peer, free.len());
        peer.kill_while(&mut turn);
        for _ in 0..1_000 {
            turn();
        }
        free.push(ours.free());
    }
    assert_no_leak(&free);
}

#[test]
fn a_vhost_port_outlives_peers_that_are_killed() {
    let _alone = alone();
    outlives_generators(
        "dpdk:net_vhost8,queues=1,iface=",
        "dpdk:net_virtio_user0,queues=1,path=",
        "100kpps",
    );
}

#[test]
fn a_memif_port_outlives_peers_that_are_killed() {
    let _alone = alone();
    // As fast as it goes: the rings are unmapped by another thread than the one that reads them,
    // mostly in the middle of a burst.
    outlives_generators(
        "dpdk:net_memif8,role=server,socket=",
        "dpdk:net_memif0,role=client,socket=",
        "max",
    );
}

#[test]
fn a_virtio_user_port_outlives_clearways_that_are_killed() {
    let _alone = alone();
    let folder = Folder::new();
    let socket = folder.join("s.sock");
    let vhost = format!("dpdk:net_vhost0,iface={socket},queues=1,client=1");
    // The port waits for its first peer.
    let spawn = || folder.spawn(folder.command(&["reflect", "--port", &vhost, "--json"]));
    let mut peer = spawn();
    let mut user = Wire::open(&format!("dpdk:net_virtio_user9,path={socket},queues=1,server=1"));
    let mut generator = endless(user.now());
    let mut free = Vec::new();
    for _ in 0..count("VHOST_KILLS", 5) {
        let mut turn = || {
            let now = user.now();
            generator.turn(now, &mut user.port, &mut user.burst).unwrap();
            generator.account().came().frames
        };
        until_met(&mut turn, &peer, free.len());
        peer.kill();
        for _ in 0..1_000 {
            turn();
        }
        free.push(user.free());
        peer = spawn();
    }
    assert_no_leak(&free);
}

/// 100,000 frames a second until the test ends.
fn endless(now: Instant) -> Generator {
    let shape = Shape {
        macs: Some((Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]))),
        own: "198.18.0.1".parse().unwrap(),
        peer: "198.19.0.1".parse().unwrap(),
        own_port: 10_000,
        peer_port: 9,
        tcp: false,
        run: 1,
    };
    let rate = Rate::Frames(100_000.0).frames(64, 0, 0);
    let plan = Plan {
        shape,
        size: 64,
        flows: 1,
        queue: 0,
        queues: 1,
        rate,
        start: now,
        end: Instant::NEVER,
    };
    Generator::new(plan, Account::new(1)).unwrap()
}

/// Free buffers after each peer that was killed. What is lost each time adds up; what lies ready
/// for the next burst, at most 64 buffers, comes and goes.
fn assert_no_leak(free: &[usize]) {
    let (least, most) = (free.iter().min().unwrap(), free.iter().max().unwrap());
    println!(
        "free buffers after each of {}: {least} to {most}, {} at the end",
        free.len(),
        free[free.len() - 1]
    );
    assert!(most - least <= 64, "buffers are lost: {free:?}");
}
