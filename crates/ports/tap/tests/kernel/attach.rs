//! Attaching to interfaces, and everything that can be wrong with one.

use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use clearway_dev::{Facts, Receive, Transmit, TxDrop};
use clearway_pkt::{Burst, TxMeta};
use clearway_tap::{add_host_address, bring_up, open, within};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};

use crate::common::{enter_namespace, ip, pool, said_by_ip, tap, tun};

fn error(spec: &clearway_dev::TapSpec) -> String {
    open(spec).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn as_many_queues_open_as_were_asked_for_each_with_its_own_descriptor() {
    let _turn = enter_namespace();
    let mut spec = tap("mq0");
    spec.queues = 4;
    let queues: Vec<_> = open(&spec).unwrap().into_iter().map(|fd| fd.into_queue(pool())).collect();
    let mut fds: Vec<RawFd> =
        queues.iter().map(|queue| queue.wait_fd().unwrap().as_raw_fd()).collect();
    fds.dedup();
    assert_eq!(fds.len(), 4);
    let macs: Vec<_> = queues.iter().map(|queue| queue.mac().unwrap()).collect();
    assert!(macs.iter().all(|mac| *mac == macs[0]));
}

#[test]
fn each_queue_is_used_by_a_thread_of_its_own() {
    let _turn = enter_namespace();
    let mut spec = tap("mq1");
    spec.queues = 2;
    let queues = open(&spec).unwrap();
    bring_up("mq1").unwrap();
    std::thread::scope(|scope| {
        for fd in queues {
            scope.spawn(move || {
                let mut queue = fd.into_queue(pool());
                queue.reserve(60).unwrap()[..60].fill(0);
                queue.commit(60, TxMeta::default());
                assert_eq!(queue.counters().tx_packets, 1);
            });
        }
    });
}

#[test]
fn an_interface_is_made_in_another_network_namespace() {
    let _turn = enter_namespace();
    let name = format!("cwtap-{}", std::process::id());
    ip(&format!("netns add {name}"));
    let mut spec = tap("far0");
    spec.netns = Some(name.clone());
    spec.mtu = Some(1400);
    let mut queue = open(&spec).unwrap().remove(0).into_queue(pool());
    within(Some(&name), || bring_up("far0")).unwrap();
    within(Some(&name), || add_host_address("far0", "10.77.9.1/24".parse().unwrap())).unwrap();
    queue.set_mtu(1300).unwrap();
    let seen = |args: &[&str]| {
        let output = Command::new("ip").args(args).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let there = seen(&["-n", &name, "address", "show", "far0"]);
    let here = seen(&["link"]);
    drop(queue);
    ip(&format!("netns del {name}"));
    assert!(there.contains("mtu 1300") && there.contains("10.77.9.1/24"), "{there}");
    assert!(there.contains("UP") && !here.contains("far0"), "{there}{here}");
    let error = open(&spec).unwrap_err().to_string();
    assert!(error.contains("is not there") && error.contains("ip netns add"), "{error}");
}

/// Whether `features` of the interface are on or off, as `ethtool -k` says it.
fn features(name: &str, features: &[&str]) -> Vec<String> {
    let output = Command::new("ethtool")
        .args(["-k", name])
        .output()
        .expect("the program `ethtool` (package ethtool)");
    let told = String::from_utf8(output.stdout).unwrap();
    let of = |feature: &&str| {
        let words =
            told.lines().find_map(|line| line.trim().strip_prefix(*feature)?.strip_prefix(": "));
        words.and_then(|words| words.split(' ').next()).unwrap_or("not told").to_owned()
    };
    features.iter().map(of).collect()
}

#[test]
fn an_interface_that_stays_is_left_as_it_was_found_when_its_last_queue_is_closed() {
    let _turn = enter_namespace();
    ip("tuntap add dev stay0 mode tap multi_queue");
    let what =
        ["tx-checksumming", "tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-udp-segmentation"];
    let before = features("stay0", &what);
    let mut spec = tap("stay0");
    spec.queues = 2;
    let mut queues = open(&spec).unwrap();
    assert_eq!(features("stay0", &what[..3]), ["on", "on", "on"]);
    drop(queues.remove(0));
    assert_eq!(features("stay0", &what[..3]), ["on", "on", "on"], "the other queue is in use");
    drop(queues.remove(0).into_queue(pool()));
    assert_eq!(features("stay0", &what), before);
    assert_eq!(before[..3], ["off", "off", "off"]);
}

#[test]
fn an_interface_that_was_made_beforehand_is_attached_with_one_queue_or_several() {
    let _turn = enter_namespace();
    ip("tuntap add dev pre0 mode tap multi_queue vnet_hdr");
    assert_eq!(open(&tap("pre0")).unwrap().len(), 1);
    let mut spec = tap("pre0");
    spec.queues = 2;
    assert_eq!(open(&spec).unwrap().len(), 2);
    ip("tuntap add dev pre1 mode tun");
    assert_eq!(open(&tun("pre1")).unwrap().len(), 1);
}

#[test]
fn what_is_wrong_with_an_interface_is_said_with_a_remedy() {
    let _turn = enter_namespace();
    let held = open(&tap("held0")).unwrap();
    assert!(error(&tap("held0")).contains("in use by another program"));
    drop(held);
    ip("tuntap add dev other0 mode tun");
    let text = error(&tap("other0"));
    assert!(
        text.contains("exists and is not a tap interface") && text.contains("ip tuntap add"),
        "{text}"
    );
    let text = error(&tap("lo"));
    assert!(text.contains("exists and is not a tap interface"), "{text}");
    ip("tuntap add dev single0 mode tap");
    let mut spec = tap("single0");
    spec.queues = 2;
    let text = error(&spec);
    assert!(text.contains("takes 2 queue(s)") && text.contains("multi_queue"), "{text}");
}

#[test]
fn the_mtu_is_the_interfaces_own_or_the_one_asked_for() {
    let _turn = enter_namespace();
    let mut spec = tap("mtu0");
    let queue = open(&spec).unwrap().pop().unwrap().into_queue(pool());
    assert_eq!(queue.mtu(), 1_500);
    drop(queue);
    spec.mtu = Some(9_000);
    let mut queue = open(&spec).unwrap().pop().unwrap().into_queue(pool());
    assert_eq!(queue.mtu(), 9_000);
    bring_up("mtu0").unwrap();
    assert!(queue.reserve(9_014).is_some());
    queue.commit(9_014, TxMeta::default());
    assert!(queue.reserve(9_100).is_some());
    queue.commit(9_100, TxMeta::default());
    assert_eq!((queue.counters().tx_packets, queue.counters().tx_dropped(TxDrop::TooLong)), (1, 1));
}

#[test]
fn the_queue_is_long_unless_somebody_chose_its_length() {
    let _turn = enter_namespace();
    let len = |name: &str| {
        let shown = said_by_ip(&format!("-oneline link show dev {name}"));
        let mut words = shown.split_whitespace().skip_while(|word| *word != "qlen");
        words.nth(1).and_then(|len| len.trim_end_matches('\\').parse::<u32>().ok()).unwrap()
    };
    let made = open(&tap("len0")).unwrap();
    assert_eq!(len("len0"), 5_000);
    drop(made);
    for (chosen, then) in [("1000", 5_000), ("999", 999), ("20000", 20_000)] {
        ip("tuntap add dev len1 mode tap");
        ip(&format!("link set len1 txqueuelen {chosen}"));
        drop(open(&tap("len1")).unwrap());
        assert_eq!(len("len1"), then);
        ip("link del len1");
    }
}

#[test]
fn our_address_may_be_chosen_but_not_the_kernels() {
    let _turn = enter_namespace();
    ip("tuntap add dev mac0 mode tap");
    ip("link set mac0 address 02:00:00:00:00:07");
    let mut spec = tap("mac0");
    spec.mac = Some("02:00:00:00:00:08".parse().unwrap());
    let queue = open(&spec).unwrap().pop().unwrap().into_queue(pool());
    assert_eq!(queue.mac(), spec.mac);
    drop(queue);
    spec.mac = Some("02:00:00:00:00:07".parse().unwrap());
    assert!(error(&spec).contains("address of the interface itself"));
}

#[test]
fn an_interface_that_is_down_loses_what_is_sent_and_says_why() {
    let _turn = enter_namespace();
    let mut queue = open(&tap("down0")).unwrap().pop().unwrap().into_queue(pool());
    assert!(queue.reserve(60).is_some());
    queue.commit(60, TxMeta::default());
    assert_eq!(queue.counters().tx_dropped(TxDrop::LinkDown), 1);
    let mut burst = Burst::new();
    queue.rx(&mut burst).unwrap();
    assert!(burst.is_empty());
}

#[test]
fn a_removed_interface_is_an_error_and_no_endless_silence() {
    let _turn = enter_namespace();
    let mut queue = open(&tap("gone0")).unwrap().pop().unwrap().into_queue(pool());
    ip("link del gone0");
    let error = queue.rx(&mut Burst::new()).unwrap_err().to_string();
    assert!(error.contains("the interface was removed"), "{error}");
}

/// A device file of our own in a mount namespace of our own, which everyone may open, as most
/// systems have it.
fn let_everyone_open_the_device() {
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
    mount(Some("none"), "/dev/net", Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
    let mode = Mode::from_bits_truncate(0o666);
    mknod("/dev/net/tun", SFlag::S_IFCHR, mode, makedev(10, 200)).unwrap();
    // What the process withholds from new files is withheld from this one too.
    std::fs::set_permissions("/dev/net/tun", std::fs::Permissions::from_mode(0o666)).unwrap();
}

#[test]
fn without_root_an_interface_of_ones_own_is_attached_and_anothers_is_not() {
    const USER: u32 = 65_534;
    let _turn = enter_namespace();
    let_everyone_open_the_device();
    ip(&format!("tuntap add dev own0 mode tap user {USER} multi_queue"));
    ip("tuntap add dev roots0 mode tap user 1");
    ip("link set own0 up");
    // SAFETY: the bare system call changes this thread alone and touches no memory; the thread ends
    // with the test.
    let result = unsafe { libc::syscall(libc::SYS_setresuid, USER, USER, USER) };
    assert_eq!(result, 0);

    let mut spec = tap("own0");
    spec.queues = 2;
    let mut queues: Vec<_> =
        open(&spec).unwrap().into_iter().map(|fd| fd.into_queue(pool())).collect();
    assert!(queues[0].offloads().tso4);
    assert!(queues[1].reserve(60).is_some());
    queues[1].commit(60, TxMeta::default());
    assert_eq!(queues[1].counters().tx_packets, 1);

    let text = error(&tap("roots0"));
    assert!(text.contains("may not be made or attached") && text.contains("user $USER"), "{text}");
    let text = error(&tap("new0"));
    assert!(text.contains("may not be made or attached"), "{text}");
    spec.mtu = Some(9_000);
    drop(queues);
    let text = error(&spec);
    assert!(
        text.contains("cannot be set to 9000") && text.contains("ip link set own0 mtu 9000"),
        "{text}"
    );
}

#[test]
fn a_device_that_may_not_be_opened_or_is_not_there_is_an_error_with_a_remedy() {
    let _turn = enter_namespace();
    let_everyone_open_the_device();
    std::fs::remove_file("/dev/net/tun").unwrap();
    let text = error(&tap("x0"));
    assert!(text.contains("/dev/net/tun is not there") && text.contains("modprobe tun"), "{text}");
}

#[test]
fn the_kernels_side_is_given_addresses_of_both_families_and_may_have_them_already() {
    let _turn = enter_namespace();
    let _queues = open(&tap("addr0")).unwrap();
    for text in ["10.7.0.1/24", "10.7.1.1/16", "fd00:7::1/64", "10.7.0.1/24"] {
        add_host_address("addr0", text.parse().unwrap()).unwrap();
    }
    let shown = std::process::Command::new("ip")
        .args(["-o", "address", "show", "dev", "addr0"])
        .output()
        .unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    for text in ["10.7.0.1/24", "10.7.1.1/16", "fd00:7::1/64"] {
        assert!(shown.contains(text), "{text} is missing in {shown}");
    }
    let error =
        add_host_address("nosuch0", "10.7.0.1/24".parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains("ip address add 10.7.0.1/24 dev nosuch0"), "{error}");
}

#[test]
fn a_queue_goes_to_another_thread_and_changes_its_mtu_there() {
    let _turn = enter_namespace();
    let queue = open(&tap("move0")).unwrap().remove(0).into_queue(pool());
    bring_up("move0").unwrap();
    let fd = queue.into_fd();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut queue = fd.into_queue(pool());
            queue.set_mtu(9_000).unwrap();
            assert_eq!((queue.mtu(), queue.name()), (9_000, "move0"));
            let room = queue.reserve(9_014).unwrap();
            room[..9_014].fill(0);
            assert_eq!(queue.reserved()[..9_014], [0; 9_014]);
            queue.commit(9_014, TxMeta::default());
            assert_eq!((queue.counters().tx_packets, queue.counters().tx_dropped_total()), (1, 0));
            assert!(
                queue
                    .set_mtu(1_000_000)
                    .unwrap_err()
                    .to_string()
                    .contains("cannot be set to 1000000")
            );
        });
    });
}
