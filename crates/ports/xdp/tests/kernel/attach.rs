//! How a port comes and goes, and what is said when it cannot be had.

use clearway_dev::{Facts, Receive, Transmit, TxDrop};
use clearway_pkt::Burst;

use crate::common::{frame, ip, offer, open, pool, receive, spec, veth, wait};

fn refused(text: &str, cores: usize) -> String {
    match clearway_xdp::open(&spec(text), cores) {
        Ok(_) => panic!("{text} was opened"),
        Err(error) => error.to_string(),
    }
}

fn has_program(name: &str) -> bool {
    ip(&format!("link show dev {name}")).contains("prog/xdp")
}

#[test]
fn the_program_is_gone_with_its_last_queue_and_may_come_again() {
    let _turn = veth(2);
    for _ in 0..2 {
        assert!(!has_program("ours"));
        let mut fds = open("xdp:ours", 2);
        assert_eq!(fds.len(), 2);
        assert!(has_program("ours"));
        fds.pop();
        assert!(has_program("ours"), "one core is still there");
        drop(fds);
        assert!(!has_program("ours"));
    }
}

#[test]
fn what_cannot_be_had_is_said_with_what_helps() {
    let _turn = veth(2);
    let said = refused("xdp:absent0", 1);
    assert!(said.contains("there is no interface absent0") && said.contains("ip link"), "{said}");
    let said = refused("xdp:lo", 1);
    assert!(said.contains("lo carries no Ethernet"), "{said}");
    let said = refused("xdp:ours:1-2", 1);
    assert!(said.contains("ours has 2 queue(s), counted from 0, and none of number 2"), "{said}");
    assert!(said.contains("ethtool -L ours"), "{said}");
    let said = refused("xdp:ours,mtu=1501", 1);
    assert!(said.contains("the MTU of ours is 1500, shorter than 1501"), "{said}");
    ip("link set ours mtu 9000");
    let said = refused("xdp:ours", 1);
    assert!(said.contains("the MTU of ours is 9000") && said.contains("mtu 3818"), "{said}");
    ip("link set ours mtu 1500");
    ip("link set theirs mtu 9000");
    let said = refused("xdp:ours", 1);
    assert!(said.contains("the other end of a veth pair"), "{said}");
    ip("link set theirs mtu 1500");
    let _first = open("xdp:ours", 1);
    let said = refused("xdp:ours", 1);
    assert!(said.contains("another program of XDP is attached to ours"), "{said}");
    assert!(said.contains("ip link set ours xdp off"), "{said}");
}

#[test]
fn the_longest_mtu_that_is_named_works() {
    let _turn = veth(1);
    ip("link set theirs mtu 1500");
    ip("link set ours mtu 3818");
    let mut ours = open("xdp:ours,mode=generic", 1).remove(0).into_port(pool());
    ip("link set theirs mtu 3818");
    let mut theirs = open("xdp:theirs,mode=generic", 1).remove(0).into_port(pool());
    let longest = frame(1, 3_818 + 14);
    assert!(offer(&mut theirs, &longest));
    theirs.flush();
    assert_eq!(receive(&mut ours)[0].0, longest);
}

#[test]
fn a_shorter_mtu_than_the_interfaces_is_ours_alone() {
    let _turn = veth(1);
    let mut port = open("xdp:ours,mtu=1400", 1).remove(0).into_port(pool());
    assert_eq!(port.mtu(), 1_400);
    port.set_mtu(1_500).unwrap();
    let said = port.set_mtu(1_501).unwrap_err().to_string();
    assert!(said.contains("the MTU of the interface is 1500"), "{said}");
    assert!(offer(&mut port, &frame(0, 1_600)));
    assert_eq!(port.counters().tx_dropped(TxDrop::TooLong), 1);
}

#[test]
fn a_removed_interface_is_an_error_and_no_endless_silence() {
    let _turn = veth(1);
    let mut port = open("xdp:ours", 1).remove(0).into_port(pool());
    let mut burst = Burst::new();
    port.rx(&mut burst).unwrap();
    let look_again = port.next_deadline();
    assert!(look_again.is_set(), "no descriptor tells of it, so its owner may not sleep for ever");
    ip("link del theirs");
    port.set_now(look_again);
    let error = port.rx(&mut burst).unwrap_err().to_string();
    assert!(error.contains("the interface was removed"), "{error}");
    assert!(!port.link_up());
}

#[test]
fn a_link_that_is_down_takes_nothing_and_works_again_afterwards() {
    let _turn = veth(1);
    let mut ours = open("xdp:ours", 1).remove(0).into_port(pool());
    let mut theirs = open("xdp:theirs", 1).remove(0).into_port(pool());
    assert!(ours.link_up());
    ip("link set ours down");
    assert!(!ours.link_up());
    for number in 0..8 {
        offer(&mut ours, &frame(number, 64));
        ours.flush();
    }
    let retry_at = ours.next_deadline();
    assert!(retry_at.is_set());
    assert!(ours.counters().tx_dropped(TxDrop::LinkDown) > 0, "{:?}", ours.counters());
    ip("link set ours up");
    ours.set_now(retry_at);
    // What the ring had taken is sent first.
    ours.flush();
    assert!(offer(&mut ours, &frame(99, 64)));
    ours.flush();
    let mut came = Vec::new();
    while came.last() != Some(&frame(99, 64)) {
        came.extend(receive(&mut theirs).into_iter().map(|(frame, _)| frame));
    }
}

#[test]
fn an_end_moves_to_another_thread_unless_buffers_of_it_are_used() {
    let _turn = veth(1);
    let ours = open("xdp:ours", 1).remove(0);
    let mut theirs = open("xdp:theirs", 1).remove(0).into_port(pool());
    let mut queue = ours.into_queue();
    assert!(offer(&mut theirs, &frame(1, 100)));
    theirs.flush();
    let mut burst = Burst::new();
    while burst.is_empty() {
        wait(&queue);
        queue.rx(&mut burst).unwrap();
    }
    let kept = burst.take(0).unwrap();
    let queue = queue.into_fd().err().expect("a buffer is in use");
    drop(kept);
    let fd = queue.into_fd().ok().expect("no buffer is in use");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut port = fd.into_port(pool());
            assert!(offer(&mut port, &frame(2, 100)));
            port.flush();
        });
    });
    assert_eq!(receive(&mut theirs)[0].0, frame(2, 100));
}
