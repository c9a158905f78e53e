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
    assert_eq!(list, [told(libc::IPPROTO_TCP, libc::TCP_NODELAY, 1), told(libc::SOL_SOCKET, libc::SO_REUSEADDR, 0)]);
    assert_eq!(Told::new(0, 0, &[7; 100_000]).value.len(), LONGEST);
}

#[test]
fn what_only_the_kernel_has_keeps_a_socket_there_unless_it_is_off() {
    let mark = |value| told(libc::SOL_SOCKET, libc::SO_MARK, value);
    assert_eq!(only_the_kernels(&[mark(0)]), None);
    assert_eq!(only_the_kernels(&[told(libc::SOL_SOCKET, libc::SO_REUSEADDR, 1), mark(7)]), Some("SO_MARK".to_owned()));
    assert_eq!(told(1, 12345, 1).describe(), "socket option 12345 of level 1");
}

#[test]
fn numbers_are_judged_as_linux_does() {
    assert_eq!(number(&[1, 0, 0]), fail(libc::EINVAL));
    assert_eq!(number(&7i32.to_ne_bytes()), Ok(7));
    assert_eq!(within(128, 1, 127), fail(libc::EINVAL));
    assert_eq!((only_off(0), only_off(1)), (Ok(()), fail(libc::ENOPROTOOPT)));
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
    assert_eq!(tcp::congestion(b"bbr\0"), fail(libc::ENOENT));
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
    assert_eq!((linger(0, 5), linger(1, 0), linger(1, 100_000)), (Ok(None), Ok(Some(0)), Ok(Some(u16::MAX))));
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
        delivery_rate_app_limited: true,
        ..Info::default()
    };
    let all = bytes(info::tcp_info(&info));
    let word = |at: usize| u32::from_ne_bytes([all[at], all[at + 1], all[at + 2], all[at + 3]]);
    assert_eq!((all[0], all[6], all[7]), (1, 0x97, 1));
    assert_eq!((word(68), word(80), word(100)), (0x1111_2222, 10, 3));
    assert_eq!(all[160..168], (1u64 << 40).to_ne_bytes());
    // SAFETY: any bytes are this structure of numbers, and there are more than it has.
    let c = unsafe { all.as_ptr().cast::<libc::tcp_info>().read_unaligned() };
    assert_eq!((c.tcpi_rtt, c.tcpi_snd_cwnd, c.tcpi_total_retrans), (0x1111_2222, 10, 3));
}
