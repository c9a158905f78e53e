use super::*;

fn explained(errno: i32) -> String {
    let spec = TapSpec { queues: 2, ..TapSpec::new(TapMode::Tap, "tap7") };
    explain(&spec, io::Error::from_raw_os_error(errno)).to_string()
}

#[test]
fn every_failure_names_the_port_and_a_remedy() {
    for (errno, remedy) in [
        (libc::ENOENT, "modprobe tun"),
        (libc::EACCES, "chmod 666 /dev/net/tun"),
        (libc::EPERM, "ip tuntap add dev tap7 mode tap user $USER multi_queue"),
        (libc::EBUSY, "Stop that program"),
        (libc::E2BIG, "queues="),
        (libc::EINVAL, "ip tuntap add dev tap7 mode tap multi_queue"),
        (libc::EIO, "ip -d link"),
    ] {
        let text = explained(errno);
        assert!(text.starts_with("tap:tap7,queues=2: "), "{text}");
        assert!(text.contains(remedy), "{text}");
    }
}

#[test]
fn our_address_is_stable_locally_administered_and_not_a_groups() {
    let mac = mac_of_name("tap001");
    assert_eq!(mac, mac_of_name("tap001"));
    assert_ne!(mac, mac_of_name("tap002"));
    assert_eq!(mac.0[0] & 0b11, 0b10);
}

#[test]
fn what_the_kernel_grants_is_what_the_stack_is_told() {
    let all = granted(OFFERS[0], TapMode::Tap);
    assert!(all.tx_checksum && all.tso4 && all.tso6 && all.uso && !all.trusted_link);
    assert_eq!(all.max_segmented_frame, 65_535 + 14);
    let checksum_only = granted(OFFERS[3], TapMode::Tun);
    assert_eq!(checksum_only, Offloads { tx_checksum: true, ..Offloads::default() });
}
