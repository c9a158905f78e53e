use clearway_dev::{Facts, PoolBudget, Receive, Transmit};
use clearway_pkt::{Buf, Burst, TxMeta};

use super::*;

fn pool() -> FramePool {
    FramePool::new(PoolBudget::of_bytes(4 << 20))
}

fn sends_and_receives(port: &mut Port, frame: &[u8]) -> usize {
    port.reserve(frame.len()).unwrap()[..frame.len()].copy_from_slice(frame);
    assert_eq!(&port.reserved()[..frame.len()], frame);
    port.commit(frame.len(), TxMeta::default());
    port.flush();
    let mut burst = Burst::new();
    port.rx(&mut burst).unwrap();
    (0..burst.len()).filter_map(|at| burst.take(at)).filter(|(buf, _)| buf.bytes() == frame).count()
}

#[test]
fn a_port_on_its_way_may_go_to_another_thread() {
    fn goes<T: Send>() {}
    goes::<Unwrapped>();
}

#[test]
fn every_core_has_a_loopback_of_its_own_with_the_mtu_that_was_asked_for() {
    let cores = open(&[PortSpec::Loop], Some(1_500), &Wrap::default(), 2).unwrap();
    assert_eq!(cores.len(), 2);
    for mut ports in cores {
        let unwrapped = ports.remove(0);
        assert_eq!(unwrapped.name(), "loop");
        let mut port = unwrapped.into_port(&pool()).unwrap();
        assert_eq!((port.mtu(), sends_and_receives(&mut port, b"frame")), (1_500, 1));
        port.set_mtu(9_000).unwrap();
        assert_eq!(port.mtu(), 9_000);
        assert!(port.set_mtu(70_000).is_err());
    }
    let port = open_one(&PortSpec::Loop, &Wrap::default(), 1)
        .unwrap()
        .remove(0)
        .into_port(&pool())
        .unwrap();
    assert_eq!(port.mtu(), 65_535);
    assert!(port.into_unwrapped().is_err(), "a loopback stays where it is");
}

#[test]
fn a_loopback_with_faults_stays_a_loopback_and_its_faults_have_no_direction() {
    let wrap = |fault: &str| Wrap { fault: Some(fault.parse().unwrap()), ..Wrap::default() };
    let mut port = open_one(&PortSpec::Loop, &wrap("loss=100%"), 1)
        .unwrap()
        .remove(0)
        .into_port(&pool())
        .unwrap();
    assert!(port.offloads().trusted_link && port.mac().is_none());
    assert_eq!(sends_and_receives(&mut port, b"frame"), 0);
    let error = open_one(&PortSpec::Loop, &wrap("rx.loss=1%"), 1).map(|_| ()).unwrap_err();
    assert!(
        matches!(&error, PortError::Misuse(sentence) if sentence.contains("Leave rx. and tx. out")),
        "{error}"
    );
    assert!(Port::bad_loopback(&pool(), 1_500, &"tx.loss=1%".parse().unwrap(), 1).is_err());
    assert!(Port::bad_loopback(&pool(), 1_500, &"loss=1%".parse().unwrap(), 1).is_ok());
}

#[test]
fn captures_of_several_ports_and_cores_have_names_of_their_own() {
    let path = Path::new("x.pcapng");
    assert_eq!(numbered(path, 1, 0, 1, 0), Path::new("x.pcapng"));
    assert_eq!(numbered(path, 2, 1, 4, 3), Path::new("x.pcapng.port1.core3"));
    let to = CaptureTo { path: "/nonexistent/x.pcapng".into(), unix_ns_at_zero: 0 };
    let wrap = Wrap { pcap: Some(to), ..Wrap::default() };
    let port = open_one(&PortSpec::Loop, &wrap, 1).unwrap().remove(0).into_port(&pool());
    assert!(matches!(port.map(|_| ()), Err(PortError::Capture { .. })));
}

#[test]
fn what_makes_no_sense_together_is_refused() {
    let pcap = PortSpec::Pcap("x.pcapng".into());
    assert!(matches!(open(&[pcap], None, &Wrap::default(), 2), Err(PortError::Misuse(_))));
    let tap: PortSpec = "tap:tap001,queues=3".parse().unwrap();
    assert!(matches!(open(&[tap], None, &Wrap::default(), 2), Err(PortError::Misuse(_))));
}

#[test]
fn an_absent_queue_brings_nothing_and_counts_what_it_is_given() {
    let mut port = Port::Absent(Absent::new(1_500, None, Default::default()));
    assert!(port.is_absent() && !port.must_poll() && port.wait_fd().is_none());
    assert_eq!(sends_and_receives(&mut port, b"frame"), 0);
    assert_eq!(
        (port.counters().tx_packets, port.counters().tx_dropped(clearway_dev::TxDrop::LinkDown)),
        (0, 1)
    );
    let port = port.into_unwrapped().ok().unwrap().into_port(&pool()).unwrap();
    assert!(port.is_absent());
}

#[cfg(not(feature = "dpdk"))]
#[test]
fn without_dpdk_its_ports_are_refused_with_the_way_to_get_them() {
    let spec = "dpdk:net_memif0,role=server".parse().unwrap();
    let refused = open(&[spec], None, &Wrap::default(), 1).err().unwrap().to_string();
    assert!(
        refused.contains("dpdk:net_memif0,role=server: this program was built without DPDK"),
        "{refused}"
    );
    assert!(refused.contains("libdpdk-dev") && refused.contains("--features dpdk"), "{refused}");
    assert_eq!((crate::dpdk::version(), crate::dpdk::memory()), (None, None));
}
