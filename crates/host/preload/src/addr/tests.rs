use super::*;

fn there_and_back(addr: &str, v6: bool) -> Given {
    let (raw, len) = Raw::new(addr.parse().expect("an address"), v6);
    // SAFETY: `Raw` is that long.
    unsafe { read(raw.as_ptr(), len) }
}

#[test]
fn addresses_come_back_as_they_went() {
    for (addr, v6) in [
        ("172.16.1.1:80", false),
        ("172.16.1.1:80", true),
        ("[2001:db8::1]:443", true),
        ("[::]:0", true),
        // An IPv6 socket that is bound to it takes what comes over IPv4 only.
        ("0.0.0.0:7", true),
    ] {
        assert_eq!(
            there_and_back(addr, v6),
            Given::Inet { addr: addr.parse().expect("an address"), v6 }
        );
    }
}

#[test]
fn short_addresses_are_for_the_kernel_to_judge() {
    let (raw, len) = Raw::new("[2001:db8::1]:443".parse().expect("an address"), true);
    // SAFETY: `Raw` is longer than each of these.
    unsafe {
        assert_eq!(read(raw.as_ptr(), 1), Given::Other { family: None });
        assert_eq!(read(raw.as_ptr(), 23), Given::Other { family: Some(libc::AF_INET6) });
        assert!(matches!(read(raw.as_ptr(), 24), Given::Inet { v6: true, .. }));
        assert!(matches!(read(raw.as_ptr(), len), Given::Inet { v6: true, .. }));
        assert_eq!(read(std::ptr::null(), 16), Given::Nowhere);
        assert_eq!(read(std::ptr::null(), 0), Given::Other { family: None });
    }
}

#[test]
fn a_program_with_little_room_gets_the_beginning_and_the_length() {
    let mut out = [0xffu8; 16];
    let mut len: socklen_t = 4;
    let addr = "172.16.1.1:80".parse().expect("an address");
    // SAFETY: four bytes are writable.
    unsafe { write(addr, false, out.as_mut_ptr().cast(), &mut len) }.expect("it fits in part");
    assert_eq!((len, out[2..5].to_vec()), (16, vec![0, 80, 0xff]));
    // SAFETY: nothing is written to null.
    unsafe {
        assert_eq!(
            write(addr, false, out.as_mut_ptr().cast(), std::ptr::null_mut()),
            fail(libc::EFAULT)
        );
        len = u32::MAX;
        assert_eq!(write(addr, false, out.as_mut_ptr().cast(), &mut len), fail(libc::EINVAL));
    }
}
