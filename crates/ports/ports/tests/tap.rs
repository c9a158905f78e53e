//! Queues of TAP interfaces for several cores, in a network namespace of the test's own; needs
//! root.

use std::process::Command;

use clearway_dev::{Facts, FramePool, PoolBudget, PortSpec};
use clearway_ports::{Port, Wrap, open, open_one};
use nix::sched::{CloneFlags, unshare};

/// Moves this thread into a fresh network namespace, which is gone with it.
fn enter_namespace() {
    if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
        panic!(
            "this test makes interfaces in a network namespace of its own, which needs root \
             ({error}): run it as root"
        );
    }
}

fn ip(args: &str) {
    let output =
        Command::new("ip").args(args.split_whitespace()).output().expect("the program `ip`");
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
}

fn opened(spec: &str, cores: usize) -> Vec<Port> {
    let spec: PortSpec = spec.parse().unwrap();
    let pool = FramePool::new(PoolBudget::of_bytes(4 << 20));
    let ports = open_one(&spec, &Wrap::default(), cores).unwrap();
    ports.into_iter().map(|port| port.into_port(&pool).unwrap()).collect()
}

fn absent(ports: &[Port]) -> Vec<bool> {
    ports.iter().map(Port::is_absent).collect()
}

#[test]
fn cores_without_a_queue_have_an_absent_one_like_the_others() {
    enter_namespace();
    assert_eq!(absent(&opened("tap:many0", 3)), [false; 3]);
    assert_eq!(absent(&opened("tap:two0,queues=2", 3)), [false, false, true]);
    ip("tuntap add dev one0 mode tap");
    let ports = opened("tap:one0,mtu=1400", 2);
    assert_eq!(absent(&ports), [false, true]);
    assert!(
        ports.iter().all(|port| port.mtu() == 1_400
            && port.mac() == ports[0].mac()
            && port.mac().is_some())
    );
    drop(ports);
    let spec: PortSpec = "tap:one0".parse().unwrap();
    assert!(
        open(&[spec], None, &Wrap::default(), 2).is_err(),
        "whoever asks for a queue for each core hears that there is none"
    );
}

#[test]
fn a_queue_moves_to_another_core() {
    enter_namespace();
    let mut ports = opened("tap:move0", 1);
    let moving = ports.remove(0).into_unwrapped().ok().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let port = moving.into_port(&FramePool::new(PoolBudget::of_bytes(1 << 20))).unwrap();
            assert!(matches!(&port, Port::Tap(queue) if queue.name() == "move0"));
        });
    });
}
