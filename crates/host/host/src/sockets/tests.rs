use super::*;

fn widths(text: &str) -> Vec<usize> {
    text.lines().map(str::len).collect()
}

/// The kernel's own headings are on the machine that runs this.
#[test]
fn headings_are_the_kernels() {
    for (name, table) in [
        ("tcp", SocketTable::Tcp),
        ("tcp6", SocketTable::Tcp6),
        ("udp", SocketTable::Udp),
        ("udp6", SocketTable::Udp6),
    ] {
        let kernels = std::fs::read_to_string(format!("/proc/net/{name}")).unwrap();
        let (first, _) = kernels.split_once('\n').unwrap();
        assert_eq!(heading(table), format!("{first}\n"), "{name}");
    }
}

fn listener(v6: bool) -> Socket {
    let local = if v6 { "[::1]:8080" } else { "10.1.2.3:8080" };
    let info = SessionInfo {
        id: 7,
        worker: 0,
        app: 1,
        owner: 1000,
        v6,
        processes: 1,
        kind: SessionKind::Listener,
        local: Some(local.parse().unwrap()),
        remote: None,
        state: "LISTEN",
        rx: (3, 128),
        tx: (9, 9),
        drops: 0,
        bytes: (0, 0),
        cut_through: false,
        conn: None,
        udp: None,
    };
    Socket { info, tcp: None, timer: None }
}

/// proc_pid_net(5): addresses are words in the order of this machine's bytes.
#[test]
fn a_listener_is_a_line_as_the_kernel_has_it() {
    let inodes = HashMap::from([(7, 4711)]);
    let text = lines(SocketTable::Tcp, 12, &[listener(false)], &inodes);
    let told = "  12: 0302010A:1F90 00000000:0000 0A 00000000:00000003 00:00000000 00000000  1000        \
                0 4711 1 0000000000000000 100 0 0 10 0";
    assert_eq!(text.trim_end(), told);
    assert_eq!(widths(&text), [149]);
    let text = lines(SocketTable::Tcp6, 0, &[listener(true)], &HashMap::new());
    let told = "   0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A \
                00000000:00000003 00:00000000 00000000  1000        0 0 1 0000000000000000 100 0 0 10 0\n";
    assert_eq!(text, told);
}

#[test]
fn a_socket_stands_in_the_table_of_its_family_and_protocol_only() {
    let socket = listener(true);
    assert_eq!(state(&socket, SocketTable::Tcp6), Some(LISTEN));
    for table in [SocketTable::Tcp, SocketTable::Udp, SocketTable::Udp6] {
        assert_eq!(state(&socket, table), None);
    }
    let mut datagrams = listener(false);
    datagrams.info.kind = SessionKind::Datagram;
    // One that was never bound is in no table of Linux's.
    assert_eq!(state(&datagrams, SocketTable::Udp), None);
}

/// Heading and lines of one answer fit into a message, whatever the numbers are.
#[test]
fn the_longest_lines_fit_into_a_message() {
    let mut socket = listener(true);
    let worst = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535".parse().unwrap();
    socket.info.local = Some(worst);
    socket.info.remote = Some(worst);
    socket.info.owner = u32::MAX;
    socket.info.rx = (u32::MAX, u32::MAX);
    socket.info.kind = SessionKind::Stream;
    socket.info.drops = u64::MAX;
    socket.timer = Some(RunningTimer {
        kind: TimerKind::Retransmit,
        left: Duration::from_secs(u64::from(u32::MAX)),
        tries: u8::MAX,
    });
    for table in [SocketTable::Tcp6, SocketTable::Udp6] {
        let line = line(table, u32::MAX, &socket, u64::MAX);
        // Of a connection four numbers of 32 bits stand at the end where a listener has shorter ones.
        let longer = if table == SocketTable::Tcp6 { 4 * 12 - " 100 0 0 10 0".len() } else { 0 };
        assert!(line.len() + longer <= LONGEST_LINE, "{}: {line}", line.len());
    }
    assert!(heading(SocketTable::Udp6).len() + MOST_LINES * LONGEST_LINE <= MAX_LINES_LEN);
}
