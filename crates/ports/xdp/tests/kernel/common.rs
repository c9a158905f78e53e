//! A network namespace of the test's own, and a veth pair in it.

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use clearway_dev::{Dev, Facts, FramePool, PoolBudget, PortSpec, XdpSpec};
use clearway_pkt::{Buf as _, Burst, RxMeta, TxMeta};
use clearway_xdp::XdpFd;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};

/// Longer than anything here takes even on a busy machine; only a failed test waits for it.
const TIME_LIMIT_MS: u16 = 60_000;

/// One test at a time: a program that one test starts holds the descriptors of all others until it
/// runs, and with them their interfaces.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Moves this thread, and those that it starts, into a fresh network namespace with the pair `ours`
/// and `theirs`, which is gone with the last of them. The test's turn lasts as long as the returned
/// value.
pub(crate) fn veth(queues: usize) -> MutexGuard<'static, ()> {
    // Another test that failed in its turn has nothing to do with this one.
    let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
        panic!(
            "these tests make interfaces in a network namespace of their own, which needs root \
             ({error}): run them as root"
        );
    }
    let count = format!("numrxqueues {queues} numtxqueues {queues}");
    ip(&format!("link add ours {count} type veth peer name theirs {count}"));
    // Nothing of the kernel's own shall be among the frames.
    for name in ["ours", "theirs"] {
        ip(&format!("link set {name} addrgenmode none"));
        ip(&format!("link set {name} arp off"));
        ip(&format!("link set {name} up"));
    }
    turn
}

/// Runs `ip` in this thread's namespace; what it says.
pub(crate) fn ip(args: &str) -> String {
    let output = Command::new("ip")
        .args(args.split_whitespace())
        .output()
        .expect("the program `ip` (package iproute2)");
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn spec(text: &str) -> XdpSpec {
    match text.parse() {
        Ok(PortSpec::Xdp(spec)) => spec,
        other => panic!("{text}: {other:?}"),
    }
}

pub(crate) fn open(text: &str, cores: usize) -> Vec<XdpFd> {
    clearway_xdp::open(&spec(text), cores).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn pool() -> FramePool {
    FramePool::new(PoolBudget::of_bytes(4 << 20))
}

/// A frame from nobody to everybody of a protocol of nobody's, with its number in it and bytes that
/// follow from that.
pub(crate) fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 9, 0x88, 0xb5]);
    frame.extend(number.to_be_bytes());
    frame.extend((frame.len()..len).map(|at| (number as usize * 31 + at) as u8));
    frame
}

/// Commits a frame when there is room for it.
pub(crate) fn offer(dev: &mut impl Dev, frame: &[u8]) -> bool {
    let Some(room) = dev.reserve(frame.len()) else { return false };
    room[..frame.len()].copy_from_slice(frame);
    assert_eq!(&dev.reserved()[..frame.len()], frame);
    dev.commit(frame.len(), TxMeta::default());
    true
}

/// Sleeps until the descriptor says that there is something, and takes it.
pub(crate) fn receive<D: Dev>(dev: &mut D) -> Vec<(Vec<u8>, RxMeta)> {
    let mut burst = Burst::new();
    loop {
        dev.rx(&mut burst).unwrap();
        if !burst.is_empty() {
            break;
        }
        wait(dev);
    }
    let taken = (0..burst.len()).filter_map(|at| burst.take(at));
    taken.map(|(buf, meta)| (buf.bytes().to_vec(), meta)).collect()
}

/// Sleeps until the descriptor says that there is something.
pub(crate) fn wait(dev: &impl Facts) {
    let mut fds = [PollFd::new(dev.wait_fd().unwrap(), PollFlags::POLLIN)];
    let ready = poll(&mut fds, PollTimeout::from(TIME_LIMIT_MS)).unwrap();
    assert_eq!(ready, 1, "nothing came: {:?}", dev.counters());
}
