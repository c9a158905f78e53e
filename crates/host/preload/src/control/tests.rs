use super::*;

/// A control message as a C program makes it.
fn message<T: Plain>(level: c_int, kind: c_int, value: T) -> Vec<u8> {
    let mut out = vec![0; 64];
    let mut writer = Writer::new(&mut out);
    writer.put(level, kind, value);
    let (used, cut) = writer.finish();
    assert!(!cut);
    out.truncate(used);
    out
}

#[test]
fn what_is_written_is_read() {
    let mut all = message(libc::IPPROTO_IP, libc::IP_TTL, 9 as c_int);
    all.extend(message(libc::IPPROTO_IP, libc::IP_TOS, Byte(0x10)));
    all.extend(message(libc::IPPROTO_UDP, libc::UDP_SEGMENT, 1400u16));
    let from = libc::in_addr { s_addr: u32::from(Ipv4Addr::new(10, 0, 0, 1)).to_be() };
    let info = in_pktinfo {
        ipi_ifindex: interfaces::shown(3) as c_int,
        ipi_spec_dst: from,
        ipi_addr: from,
    };
    all.extend(message(libc::IPPROTO_IP, libc::IP_PKTINFO, info));
    let mut how = SendTo::default();
    read(Sender::default(), || true, &all, &mut how).expect("all known");
    let from = Some(IpAddr::from([10, 0, 0, 1]));
    assert_eq!(
        how,
        SendTo {
            ttl: Some(9),
            tos: Some(0x10),
            segment_size: 1400,
            from,
            iface: 3,
            ..SendTo::default()
        }
    );
}

#[test]
fn minus_one_stands_for_what_the_socket_does_over_ipv6() {
    let mut all = message(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, -1 as c_int);
    all.extend(message(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, -1 as c_int));
    let mut how = SendTo::default();
    read(Sender { v6: true, ..Sender::default() }, || false, &all, &mut how)
        .expect("as Linux takes it");
    assert_eq!(how, SendTo::default());
}

#[test]
fn impossible_messages_are_refused() {
    let mut how = SendTo::default();
    let kernels = libc::in_addr { s_addr: 0 };
    let kernels = in_pktinfo { ipi_ifindex: 3, ipi_spec_dst: kernels, ipi_addr: kernels };
    let kernels = message(libc::IPPROTO_IP, libc::IP_PKTINFO, kernels);
    assert_eq!(
        read(Sender::default(), || true, &kernels, &mut how),
        fail(libc::ENODEV),
        "an interface of the kernel's"
    );
    let good = message(libc::IPPROTO_IP, libc::IP_TTL, 9 as c_int);
    for bad_len in [0usize, 15, 33, usize::MAX] {
        let mut bad = good.clone();
        bad[..8].copy_from_slice(&bad_len.to_ne_bytes());
        assert_eq!(
            read(Sender::default(), || true, &bad, &mut how),
            fail(libc::EINVAL),
            "length {bad_len}"
        );
    }
    for ttl in [0, 256, -1] {
        assert_eq!(
            read(
                Sender::default(),
                || true,
                &message(libc::IPPROTO_IP, libc::IP_TTL, ttl as c_int),
                &mut how
            ),
            fail(libc::EINVAL)
        );
    }
    let unknown = message(libc::SOL_SOCKET, libc::SO_TYPE, 0 as c_int);
    assert_eq!(read(Sender::default(), || true, &unknown, &mut how), fail(libc::EINVAL));
    let rights = message(libc::SOL_SOCKET, libc::SCM_RIGHTS, 0 as c_int);
    assert_eq!(
        read(Sender::default(), || true, &rights, &mut how),
        Ok(()),
        "as Linux passes it over"
    );
    assert_eq!(
        read(Sender::default(), || true, &good[..10], &mut how),
        Ok(()),
        "less than a head is no message, as Linux sees it"
    );
}

#[test]
fn what_does_not_fit_is_cut_and_said() {
    let mut out = [0; 30];
    let mut writer = Writer::new(&mut out);
    writer.put(libc::IPPROTO_IP, libc::IP_TTL, 1 as c_int);
    writer.put(libc::IPPROTO_IP, libc::IP_TTL, 2 as c_int);
    assert_eq!(writer.finish(), (24, true), "no room for a head");
    let mut out = [0; 42];
    let mut writer = Writer::new(&mut out);
    writer.put(libc::IPPROTO_IP, libc::IP_TTL, 1 as c_int);
    writer.put(libc::IPPROTO_IP, libc::IP_TTL, 0x0403_0201);
    assert_eq!(writer.finish(), (42, true), "as much of the data as fits");
    assert_eq!(out[24..32], (HEAD + 2).to_ne_bytes());
    assert_eq!(out[40..], [1, 2]);
}

#[test]
fn messages_of_the_other_family_are_passed_over() {
    let v4 = message(libc::IPPROTO_IP, libc::IP_TTL, 300 as c_int);
    let v6 = message(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, 300 as c_int);
    let others = message(9, 9, 0u32);
    let of_v6 = Sender { v6: true, ..Sender::default() };
    for (by, over_v4) in [(Sender::default(), true), (of_v6, true), (of_v6, false)] {
        let said = |bytes: &[u8]| read(by, || over_v4, bytes, &mut SendTo::default());
        assert_eq!(said(&v4).is_ok(), !over_v4, "{by:?} {over_v4}");
        assert_eq!(said(&v6).is_ok(), over_v4, "{by:?} {over_v4}");
        assert_eq!(said(&others), Ok(()));
    }
}
