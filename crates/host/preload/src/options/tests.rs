use std::time::Duration;

use clearway_client::{Congestion, Info};

use super::*;

fn told(level: c_int, name: c_int, value: c_int) -> Told {
    Told::new(level, name, &value.to_ne_bytes())
}

#[test]
fn the_last_word_on_an_option_is_remembered() {
    let mut list = Vec::new();
    Told::remember(&mut list, told(libc::SOL_SOCKET, libc::SO_REUSEADDR, 1));
    Told::remember(&mut list, told(libc::IPPROTO_TCP, libc::TCP_NODELAY, 1));
    Told::remember(&mut list, told(libc::SOL_SOCKET, libc::SO_REUSEADDR, 0));
    assert_eq!(
        list,
        [
            told(libc::IPPROTO_TCP, libc::TCP_NODELAY, 1),
            told(libc::SOL_SOCKET, libc::SO_REUSEADDR, 0)
        ]
    );
    assert_eq!(Told::new(0, 0, &[7; 100_000]).value.len(), LONGEST);
}

#[test]
fn what_only_the_kernel_has_keeps_a_socket_there_unless_it_is_off() {
    let mark = |value| told(libc::SOL_SOCKET, libc::SO_MARK, value);
    assert_eq!(only_the_kernels(&[mark(0)]), None);
    assert_eq!(
        only_the_kernels(&[told(libc::SOL_SOCKET, libc::SO_REUSEADDR, 1), mark(7)]),
        Some("SO_MARK".to_owned())
    );
    assert_eq!(told(1, 12345, 1).describe(), "socket option 12345 of level 1");
}

#[test]
fn numbers_are_judged_as_linux_does() {
    assert_eq!(number(&[1, 0, 0]), fail(libc::EINVAL));
    assert_eq!(number(&7i32.to_ne_bytes()), Ok(7));
    assert_eq!(within(128, 1, 127), fail(libc::EINVAL));
}

#[test]
fn defer_accept_is_told_in_the_steps_of_the_retransmissions() {
    // As Linux answers: 1, 3, 7, 15, … seconds.
    let steps = [0, 1, 2, 3, 4, 5, 8, 30, 200].map(tcp::defer_seconds);
    assert_eq!(steps, [0, 1, 3, 3, 7, 7, 15, 31, 247]);
}

#[test]
fn congestion_controls_go_by_linuxs_names() {
    assert_eq!(tcp::congestion(b"reno"), Ok(Congestion::Reno));
    assert_eq!(tcp::congestion(b"cubic\0trailing"), Ok(Congestion::Cubic));
    assert_eq!(tcp::congestion(b"bbr\0"), Ok(Congestion::Bbr));
    assert_eq!(tcp::congestion(b"bbr1"), Ok(Congestion::Bbr1));
    assert_eq!(tcp::congestion(b"prague"), Ok(Congestion::Prague));
    assert_eq!(tcp::congestion(b"vegas\0"), fail(libc::ENOENT));
    assert_eq!(tcp::congestion(b""), fail(libc::EINVAL));
    assert_eq!(tcp::congestion_name(Congestion::Reno), b"reno\0\0\0\0\0\0\0\0\0\0\0\0");
}

#[test]
fn buffers_are_told_doubled_and_never_below_the_least() {
    assert_eq!(socket::buffer_told(socket::buffer(8192), 0, 2304), 16384);
    assert_eq!(socket::buffer_told(socket::buffer(1), 0, 2304), 2304);
    assert_eq!(socket::buffer_told(0, 65536, 2304), 65536);
    assert_eq!(socket::buffer_told(socket::buffer(-1), 0, 2304), c_int::MAX - 1);
}

#[test]
fn times_and_lingers_come_back_as_they_went() {
    let time = |tv_sec, tv_usec| socket::timeout(&bytes(libc::timeval { tv_sec, tv_usec }));
    assert_eq!(time(0, 0), Ok(None));
    assert_eq!(time(1, 500_000), Ok(Some(Duration::from_millis(1500))));
    assert_eq!(time(0, 1_000_000), fail(libc::EDOM));
    assert_eq!(time(0, -1), fail(libc::EDOM));
    assert_eq!(socket::timeout(&[0; 8]), fail(libc::EINVAL));
    let told = socket::timeout_told(Some(Duration::from_millis(1500)));
    assert_eq!((told.tv_sec, told.tv_usec), (1, 500_000));
    let linger = |l_onoff, l_linger| socket::linger_of(&bytes(libc::linger { l_onoff, l_linger }));
    assert_eq!(
        (linger(0, 5), linger(1, 0), linger(1, 100_000)),
        (Ok(None), Ok(Some(0)), Ok(Some(u16::MAX)))
    );
}

#[test]
fn tcp_info_lies_where_c_programs_look() {
    let info = Info {
        state: 1,
        rtt: 0x1111_2222,
        snd_cwnd: 10,
        total_retrans: 3,
        snd_wscale: 7,
        rcv_wscale: 9,
        delivery_rate: 1 << 40,
        delivery_rate_app_limited: 1,
        ..Info::default()
    };
    let all = info.to_linux();
    let word = |at: usize| u32::from_ne_bytes([all[at], all[at + 1], all[at + 2], all[at + 3]]);
    assert_eq!((all[0], all[6], all[7]), (1, 0x97, 1));
    assert_eq!((word(68), word(80), word(100)), (0x1111_2222, 10, 3));
    assert_eq!(all[160..168], (1u64 << 40).to_ne_bytes());
    // SAFETY: any bytes are this structure of numbers, and there are more than it has.
    let c = unsafe { all.as_ptr().cast::<libc::tcp_info>().read_unaligned() };
    assert_eq!((c.tcpi_rtt, c.tcpi_snd_cwnd, c.tcpi_total_retrans), (0x1111_2222, 10, 3));
}

/// The options of a level that the `libc` crate knows too, with their numbers there.
macro_rules! numbers {
    ($($level:ident: $($name:ident)*;)*) => { &[$($((libc::$level, libc::$name,
        stringify!($name)),)*)*] };
}

/// Names that the table has of the newer standard (RFC 3493), and the `libc` crate of the older
/// one.
const OTHER_NAMES: &[(&str, &str)] =
    &[("IPV6_ADD_MEMBERSHIP", "IPV6_JOIN_GROUP"), ("IPV6_DROP_MEMBERSHIP", "IPV6_LEAVE_GROUP")];

/// Options that the `libc` crate does not have.
const NOT_IN_LIBC: &[&str] = &[
    "IPV6_ADDR_PREFERENCES",
    "IPV6_AUTOFLOWLABEL",
    "IPV6_FLOWINFO_SEND",
    "IPV6_MULTICAST_ALL",
    "SO_BUF_LOCK",
    "SO_MEMINFO",
    "SO_RCVMARK",
    "SO_RESERVE_MEM",
    "SO_TIMESTAMPING_NEW",
    "SO_TIMESTAMPNS_NEW",
    "SO_TIMESTAMP_NEW",
    "SO_TXREHASH",
    "TCP_INQ",
    "UDP_ENCAP",
    "UDP_NO_CHECK6_RX",
    "UDP_NO_CHECK6_TX",
];

#[test]
fn the_table_of_options_has_the_numbers_of_c() {
    let known: &[(c_int, c_int, &str)] = numbers! {
        SOL_SOCKET: SO_ERROR SO_TYPE SO_PROTOCOL SO_DOMAIN SO_ACCEPTCONN SO_PEERCRED SO_SNDLOWAT SO_REUSEADDR
            SO_REUSEPORT SO_KEEPALIVE SO_LINGER SO_OOBINLINE SO_RCVBUF SO_RCVBUFFORCE SO_SNDBUF SO_SNDBUFFORCE
            SO_RCVTIMEO SO_SNDTIMEO SO_RXQ_OVFL SO_BROADCAST SO_PRIORITY SO_BUSY_POLL SO_RCVLOWAT SO_DEBUG
            SO_DONTROUTE SO_MARK SO_TIMESTAMP SO_TIMESTAMPNS SO_TIMESTAMPING SO_BINDTODEVICE SO_INCOMING_CPU
            SO_MAX_PACING_RATE SO_ZEROCOPY SO_PREFER_BUSY_POLL SO_BUSY_POLL_BUDGET SO_BINDTOIFINDEX
            SO_ATTACH_FILTER SO_ATTACH_BPF SO_ATTACH_REUSEPORT_CBPF SO_ATTACH_REUSEPORT_EBPF SO_TXTIME
            SO_NETNS_COOKIE SO_INCOMING_NAPI_ID SO_PEEK_OFF SO_LOCK_FILTER SO_SELECT_ERR_QUEUE;
        IPPROTO_TCP: TCP_NODELAY TCP_CORK TCP_QUICKACK TCP_MAXSEG TCP_KEEPIDLE TCP_KEEPINTVL TCP_KEEPCNT
            TCP_USER_TIMEOUT TCP_DEFER_ACCEPT TCP_CONGESTION TCP_INFO TCP_SYNCNT TCP_LINGER2 TCP_WINDOW_CLAMP
            TCP_FASTOPEN TCP_FASTOPEN_CONNECT TCP_FASTOPEN_NO_COOKIE TCP_NOTSENT_LOWAT TCP_THIN_LINEAR_TIMEOUTS TCP_THIN_DUPACK
            TCP_SAVE_SYN TCP_CC_INFO TCP_MD5SIG TCP_ULP TCP_FASTOPEN_KEY TCP_REPAIR;
        IPPROTO_IP: IP_TOS IP_TTL IP_PKTINFO IP_RECVTOS IP_RECVTTL IP_MTU_DISCOVER IP_MTU IP_RECVERR
            IP_ADD_MEMBERSHIP IP_DROP_MEMBERSHIP IP_ADD_SOURCE_MEMBERSHIP IP_DROP_SOURCE_MEMBERSHIP
            IP_BLOCK_SOURCE IP_UNBLOCK_SOURCE MCAST_JOIN_GROUP MCAST_LEAVE_GROUP MCAST_JOIN_SOURCE_GROUP
            MCAST_LEAVE_SOURCE_GROUP MCAST_BLOCK_SOURCE MCAST_UNBLOCK_SOURCE IP_MULTICAST_IF IP_MULTICAST_TTL
            IP_MULTICAST_LOOP IP_MULTICAST_ALL IP_FREEBIND IP_TRANSPARENT IP_BIND_ADDRESS_NO_PORT
            IP_RECVORIGDSTADDR IP_RECVOPTS IP_HDRINCL IP_OPTIONS;
        IPPROTO_IPV6: IPV6_V6ONLY IPV6_TCLASS IPV6_UNICAST_HOPS IPV6_RECVPKTINFO IPV6_RECVTCLASS
            IPV6_RECVHOPLIMIT IPV6_MTU_DISCOVER IPV6_RECVERR IPV6_DONTFRAG IPV6_MTU IPV6_ADD_MEMBERSHIP
            IPV6_DROP_MEMBERSHIP MCAST_JOIN_GROUP MCAST_LEAVE_GROUP MCAST_JOIN_SOURCE_GROUP
            MCAST_LEAVE_SOURCE_GROUP MCAST_BLOCK_SOURCE MCAST_UNBLOCK_SOURCE IPV6_MULTICAST_IF
            IPV6_MULTICAST_HOPS IPV6_MULTICAST_LOOP IPV6_TRANSPARENT IPV6_FREEBIND;
        IPPROTO_UDP: UDP_SEGMENT UDP_GRO UDP_CORK;
    };
    for (level, number, name) in known {
        let name = OTHER_NAMES.iter().find(|(old, _)| old == name).map_or(*name, |(_, new)| *new);
        assert_eq!(SocketOption::of(*level, *number).map(|option| option.name), Some(name));
    }
    let others = clearway_options::OPTIONS
        .iter()
        .filter(|option| NOT_IN_LIBC.contains(&option.name))
        .count();
    assert_eq!(
        known.len() + others,
        clearway_options::OPTIONS.len(),
        "an option is held against nothing"
    );
}

/// The table of `docs/preload.md`, from the one in the code: neighbours of one level that do the
/// same are one row.
fn table_of_docs() -> String {
    let mut rows: Vec<(clearway_options::Level, String, &str)> = Vec::new();
    for option in clearway_options::OPTIONS.iter().filter(|option| !option.does.is_empty()) {
        match rows.last_mut() {
            Some((level, names, does)) if (*level, *does) == (option.level, option.does) => {
                *names += " ";
                *names += option.name;
            }
            _ => rows.push((option.level, option.name.to_owned(), option.does)),
        }
    }
    let mut table = String::from("| level | option | what it does |\n| --- | --- | --- |\n");
    let mut before = None;
    for (level, names, does) in rows {
        let first = if before == Some(level) { "" } else { level.name() };
        let cell = if first.is_empty() { "| |".to_owned() } else { format!("| {first} |") };
        table += &format!("{cell} {names} | {does} |\n");
        before = Some(level);
    }
    table
}

#[test]
fn the_table_in_the_document_is_the_one_in_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/preload.md");
    let text = std::fs::read_to_string(path).unwrap();
    let wanted = table_of_docs();
    let begin = text.find("| level | option | what it does |").expect("the table is there");
    let end = begin + text[begin..].find("\n\n").expect("something follows it") + 1;
    if text[begin..end] != wanted && std::env::var_os("CLEARWAY_WRITE_DOCS").is_some() {
        std::fs::write(path, format!("{}{wanted}{}", &text[..begin], &text[end..])).unwrap();
        return;
    }
    assert_eq!(
        &text[begin..end],
        wanted,
        "write it anew: CLEARWAY_WRITE_DOCS=1 cargo test -p clearway-preload --lib options"
    );
}

#[test]
fn a_pacing_rate_is_eight_bytes_or_four_and_all_bits_are_none() {
    assert_eq!(socket::pacing_rate(&5_000_000_000u64.to_ne_bytes()), Ok(5_000_000_000));
    assert_eq!(socket::pacing_rate(&4_000_000_000u32.to_ne_bytes()), Ok(4_000_000_000));
    assert_eq!(socket::pacing_rate(&u32::MAX.to_ne_bytes()), Ok(u64::MAX));
    assert_eq!(socket::pacing_rate(&[1, 2]), fail(libc::EINVAL));
}
