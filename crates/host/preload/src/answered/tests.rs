use super::*;

#[test]
fn only_tables_of_this_process_are_answered() {
    let own = format!("/proc/{}/net/udp6", std::process::id());
    let found = |path: &str| File::of(path.as_bytes());
    assert_eq!(found("/proc/net/tcp"), Some(File::Sockets(SocketTable::Tcp)));
    assert_eq!(found("/proc/self/net/tcp6"), Some(File::Sockets(SocketTable::Tcp6)));
    assert_eq!(found("/proc/thread-self/net/udp"), Some(File::Sockets(SocketTable::Udp)));
    assert_eq!(found(&own), Some(File::Sockets(SocketTable::Udp6)));
    for other in [
        "/proc/1/net/tcp",
        "/proc/net/tcp/",
        "/proc/net/raw",
        "/proc/net",
        "/proc/self/tcp",
        "/proc/self/net/net/tcp",
        "net/tcp",
        "/proc/+1/net/tcp",
        "",
    ] {
        assert_eq!(found(other), None, "{other}");
    }
}

#[test]
fn only_who_reads_is_answered() {
    let path = c"/proc/net/tcp".as_ptr();
    assert!(is_asked(path, libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK));
    for flags in [libc::O_RDWR, libc::O_WRONLY, libc::O_PATH, libc::O_DIRECTORY] {
        assert!(!is_asked(path, flags), "{flags:o}");
    }
    assert!(!is_asked(std::ptr::null(), libc::O_RDONLY));
}
