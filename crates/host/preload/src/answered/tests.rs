use super::*;

#[test]
fn only_tables_of_this_process_are_answered() {
    let own = format!("/proc/{}/net/udp6", std::process::id());
    let found = |path: &str| File::of(path.as_bytes());
    assert_eq!(found("/proc/net/tcp"), Some(File::Sockets(SocketTable::Tcp)));
    assert_eq!(found("/proc/self/net/tcp6"), Some(File::Sockets(SocketTable::Tcp6)));
    assert_eq!(found("/proc/thread-self/net/udp"), Some(File::Sockets(SocketTable::Udp)));
    assert_eq!(found(&own), Some(File::Sockets(SocketTable::Udp6)));
    assert_eq!(found("/etc/resolv.conf"), Some(File::Resolver));
    assert_eq!(found("/proc/net/if_inet6"), Some(File::Addresses));
    assert_eq!(found("/proc/self/net/if_inet6"), Some(File::Addresses));
    for other in [
        "/proc/1/net/tcp",
        "/proc/net/tcp/",
        "/proc/net/raw",
        "/proc/net/if_inet6/",
        "/proc/1/net/if_inet6",
        "/proc/net",
        "/proc/self/tcp",
        "/proc/self/net/net/tcp",
        "net/tcp",
        "/proc/+1/net/tcp",
        "",
        "/etc/resolv.conf.d",
        "/etc/resolv.con",
        "/etc/hosts",
    ] {
        assert_eq!(found(other), None, "{other}");
    }
}

#[test]
fn only_who_reads_is_answered() {
    for path in [c"/proc/net/tcp", c"/etc/resolv.conf"].map(CStr::as_ptr) {
        assert!(is_asked(path, libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK));
        for flags in [libc::O_RDWR, libc::O_WRONLY, libc::O_PATH, libc::O_DIRECTORY, libc::O_CREAT]
        {
            assert!(!is_asked(path, flags), "{flags:o}");
        }
    }
    assert!(!is_asked(c"/etc/hosts".as_ptr(), libc::O_RDONLY));
    // What the kernel would refuse is for it to refuse.
    for nowhere in [0_usize, 8, usize::MAX] {
        assert!(!is_asked(std::ptr::without_provenance(nowhere), libc::O_RDONLY));
    }
}

#[test]
fn a_path_at_the_end_of_what_is_mapped_is_read() {
    let path = c"/etc/resolv.conf".to_bytes_with_nul();
    // SAFETY: two pages of our own, the second of which is taken away again; the path fits into the
    // first.
    unsafe {
        let (reads, private) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let pages = libc::mmap(std::ptr::null_mut(), 2 * PAGE, reads, private, -1, 0);
        assert_ne!(pages, libc::MAP_FAILED);
        assert_eq!(libc::munmap(pages.byte_add(PAGE), PAGE), 0);
        let end = pages.byte_add(PAGE - path.len()).cast::<u8>();
        end.copy_from_nonoverlapping(path.as_ptr(), path.len());
        assert!(is_asked(end.cast(), libc::O_RDONLY));
        // Without its end it is none.
        assert!(!is_asked(end.add(1).cast(), libc::O_RDONLY));
        libc::munmap(pages, PAGE);
    }
}
