use clearway_script::IpVersion;
use clearway_script::backend::Info;
use clearway_wire::Addr;

use crate::flags::Flags;
use crate::options::tcp_info;

#[test]
fn flags_have_defaults_and_each_may_be_given() {
    let plain = Flags::parse("").unwrap();
    assert_eq!((plain.net.local, plain.net.mtu), (Addr::v4([192, 168, 0, 1]), 1500));
    let given =
        Flags::parse("ip_version=ipv6,local=fd00::1,remote=fd00::2,mtu=1280,timeout=5").unwrap();
    assert_eq!(
        (given.net.local.to_string(), given.net.remote.to_string()),
        ("fd00::1".into(), "fd00::2".into())
    );
    assert_eq!((given.net.mtu, given.timeout, given.net.version), (1280, 5, IpVersion::V6));
    assert_eq!(
        Flags::parse("ip_version=ipv4-mapped-ipv6").unwrap().net.version,
        IpVersion::V4Mapped
    );
}

#[test]
fn flags_that_make_no_sense_are_told_by_name() {
    for wrong in [
        "speed=9",
        "mtu",
        "mtu=x",
        "mtu=100",
        "ip_version=ipv6,mtu=1000",
        "ip_version=ipx",
        "local=fd00::1",
        "local=0.0.0.0",
        "remote=224.0.0.1",
        "timeout=-1",
    ] {
        let why = Flags::parse(wrong).unwrap_err();
        let name = wrong.split(',').next_back().and_then(|pair| pair.split('=').next()).unwrap();
        assert!(why.contains(name), "{wrong}: {why}");
    }
}

#[test]
fn values_of_a_connection_lie_where_linux_has_them() {
    let info = Info::from([
        ("tcpi_state", 1),
        ("tcpi_snd_wscale", 7),
        ("tcpi_rcv_wscale", 9),
        ("tcpi_snd_cwnd", 10),
        ("tcpi_bytes_acked", 1 << 40),
        ("tcpi_rcv_wnd", 65_535),
    ]);
    let bytes = tcp_info(&info);
    let mut system = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let len = bytes.len().min(size_of::<libc::tcp_info>());
    // SAFETY: both have so many bytes; the struct is plain numbers, of which newer systems have
    // more, and these are zero.
    let system = unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), system.as_mut_ptr().cast(), len);
        system.assume_init()
    };
    assert_eq!((system.tcpi_state, system.tcpi_snd_cwnd), (1, 10));
    assert_eq!(bytes[6], 0x97);
    assert_eq!(bytes[120..128], (1u64 << 40).to_ne_bytes());
    assert_eq!(bytes[232..236], 65_535u32.to_ne_bytes());
}
