use serde::Deserialize;

use super::*;
use crate::attach_socket::{Dns, DnsServer, Hello, Prefixes, Reply, Request, VERSION};

fn both() -> (OwnedFd, OwnedFd) {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .unwrap()
}

fn hello() -> Request {
    Request::Hello(Hello {
        version: VERSION,
        namespace: "server".into(),
        secret: None,
        program: "test".into(),
        rx_fifo: 0,
        tx_fifo: 0,
        inherit: None,
        cut_through: false,
    })
}

/// Sends bytes as they are.
fn throw(fd: &OwnedFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
    }
    rustix::net::sendmsg(fd, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).unwrap();
}

/// A descriptor that tells, by what is at its other end, when all copies of it are closed.
fn telltale() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK)
        .unwrap()
}

fn is_closed(reader: &OwnedFd) -> bool {
    rustix::io::read(reader, &mut [0; 1]) == Ok(0)
}

#[test]
fn a_message_arrives_with_its_descriptors() {
    let (ours, theirs) = both();
    let (reader, writer) = telltale();
    send(ours.as_fd(), &hello(), &[writer.as_fd(), reader.as_fd()]).unwrap();
    let (request, descriptors) = recv::<Request>(theirs.as_fd(), 2).unwrap().unwrap();
    assert!(matches!(request, Request::Hello(hello) if hello.namespace == "server"));
    assert_eq!(descriptors.len(), 2);
    rustix::io::write(&descriptors[0], b"x").unwrap();
    assert_eq!(rustix::io::read(&reader, &mut [0; 8]), Ok(1));
    let flags = rustix::io::fcntl_getfd(&descriptors[0]).unwrap();
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC), "it is not inherited by accident");
}

#[test]
fn messages_keep_their_bounds() {
    let (ours, theirs) = both();
    for worker in 0..3 {
        send(ours.as_fd(), &Request::Segment { app: 1, segment: worker }, &[]).unwrap();
    }
    for worker in 0..3 {
        let (request, _) = recv::<Request>(theirs.as_fd(), 0).unwrap().unwrap();
        assert!(matches!(request, Request::Segment { segment, .. } if segment == worker));
    }
}

#[test]
fn a_peer_that_is_gone_is_the_end() {
    let (ours, theirs) = both();
    send(ours.as_fd(), &Request::Prefixes, &[]).unwrap();
    drop(ours);
    assert!(recv::<Request>(theirs.as_fd(), 0).unwrap().is_some());
    assert!(recv::<Request>(theirs.as_fd(), 0).unwrap().is_none());
    assert_eq!(
        send(theirs.as_fd(), &Request::Prefixes, &[]).unwrap_err().kind(),
        io::ErrorKind::BrokenPipe
    );
}

#[test]
fn a_peer_that_died_with_unread_messages_is_the_end() {
    let (ours, theirs) = both();
    send(theirs.as_fd(), &Request::Prefixes, &[]).unwrap();
    drop(ours);
    assert!(recv::<Request>(theirs.as_fd(), 0).unwrap().is_none(), "not an error of ours");
}

#[test]
fn nothing_there_is_said_without_blocking() {
    let (ours, _theirs) = both();
    rustix::io::ioctl_fionbio(&ours, true).unwrap();
    let nothing = recv::<Request>(ours.as_fd(), 0);
    assert!(
        matches!(nothing, Err(AttachSocketError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock)
    );
}

#[test]
fn a_peer_that_does_not_read_is_seen() {
    let (ours, _theirs) = both();
    rustix::io::ioctl_fionbio(&ours, true).unwrap();
    let full = (0..100_000).find_map(|_| send(ours.as_fd(), &Request::Prefixes, &[]).err());
    assert_eq!(full.unwrap().kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn garbage_is_refused() {
    for bytes in [&[0xff; 10][..], &[200], &[0; MAX_MESSAGE], &[0, 1, 255, 255, 255, 255, 15]] {
        let (ours, theirs) = both();
        throw(&ours, bytes, &[]);
        assert!(
            matches!(recv::<Request>(theirs.as_fd(), 0), Err(AttachSocketError::Garbage)),
            "{:?}",
            &bytes[..1]
        );
    }
}

#[test]
fn a_message_cut_short_or_with_something_behind_it_is_refused() {
    let whole = postcard::to_allocvec(&hello()).unwrap();
    for len in 1..whole.len() {
        let (ours, theirs) = both();
        throw(&ours, &whole[..len], &[]);
        assert!(
            matches!(recv::<Request>(theirs.as_fd(), 0), Err(AttachSocketError::Garbage)),
            "{len}"
        );
    }
    let (ours, theirs) = both();
    throw(&ours, &[&whole[..], &[0]].concat(), &[]);
    assert!(matches!(recv::<Request>(theirs.as_fd(), 0), Err(AttachSocketError::Garbage)));
}

#[test]
fn a_message_that_is_too_long_is_refused_on_both_sides() {
    let (ours, theirs) = both();
    throw(&ours, &[0; MAX_MESSAGE + 1], &[]);
    assert!(matches!(recv::<Request>(theirs.as_fd(), 0), Err(AttachSocketError::TooLong)));
    throw(&ours, &[0; 3 * MAX_MESSAGE], &[]);
    assert!(matches!(recv::<Request>(theirs.as_fd(), 0), Err(AttachSocketError::TooLong)));
    let long = Request::Stayed { what: "x".repeat(MAX_MESSAGE), why: String::new() };
    assert_eq!(send(ours.as_fd(), &long, &[]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn the_longest_list_of_prefixes_is_a_message() {
    let v6 = |at: usize| std::net::IpAddr::from([255, 255, at as u16, 1, 2, 3, 4, 65535]);
    let most = crate::attach_socket::MAX_PREFIXES;
    let prefixes = Prefixes {
        generation: u32::MAX,
        local: (0..most).map(v6).collect(),
        loopback: Some((v6(0), 128)),
        routes: (0..most).map(|at| (v6(at), 128)).collect(),
        more: true,
        dns: Dns {
            servers: (0..9).map(|at| DnsServer { addr: v6(at), interface: u32::MAX }).collect(),
            search: vec!["a".repeat(63); 9],
        }
        .fitted(),
    };
    assert_eq!((prefixes.dns.servers.len(), prefixes.dns.search.len()), (3, 4));
    let bytes = postcard::to_allocvec(&Reply::Prefixes(prefixes)).unwrap();
    assert!(bytes.len() <= MAX_MESSAGE, "{} bytes", bytes.len());
}

#[test]
fn a_welcome_to_the_most_workers_is_a_message_with_its_descriptors() {
    let ring = crate::attach_socket::RingPlaces { requests: 1 << 24, events: 1 << 24, slots: 4096 };
    let workers = crate::host::MAX_WORKERS;
    let welcome = crate::attach_socket::Welcome {
        boot: u64::MAX,
        app: u32::MAX,
        process: u32::MAX,
        token: crate::attach_socket::Token([255; 16]),
        queue_pair_len: u32::MAX,
        host_len: u32::MAX,
        rings: vec![ring; workers],
        rx_fifo: u32::MAX,
        tx_fifo: u32::MAX,
    };
    let bytes = postcard::to_allocvec(&Reply::Welcome(welcome)).unwrap();
    assert!(bytes.len() <= MAX_MESSAGE, "{} bytes", bytes.len());
    assert!(
        workers + 3 <= MAX_DESCRIPTORS,
        "a notifier for each, the queue pair, the host page, and the process's own notifier"
    );
}

#[test]
fn descriptors_that_nobody_asked_for_are_closed() {
    let (ours, theirs) = both();
    for most in [0, 1] {
        let (reader, writer) = telltale();
        send(ours.as_fd(), &Request::Prefixes, &[writer.as_fd(), writer.as_fd()]).unwrap();
        drop(writer);
        assert!(matches!(
            recv::<Request>(theirs.as_fd(), most),
            Err(AttachSocketError::TooManyDescriptors)
        ));
        assert!(is_closed(&reader));
    }
}

#[test]
fn descriptors_beside_garbage_are_closed() {
    let (ours, theirs) = both();
    for bytes in [&[0xff; 10][..], &[0; MAX_MESSAGE + 1]] {
        let (reader, writer) = telltale();
        throw(&ours, bytes, &[writer.as_fd()]);
        drop(writer);
        assert!(recv::<Request>(theirs.as_fd(), 1).is_err());
        assert!(is_closed(&reader));
    }
}

#[test]
fn as_many_descriptors_as_linux_takes_arrive() {
    let (ours, theirs) = both();
    let (reader, writer) = telltale();
    let many = vec![writer.as_fd(); MAX_DESCRIPTORS];
    send(ours.as_fd(), &Request::Prefixes, &many).unwrap();
    let (_, descriptors) = recv::<Request>(theirs.as_fd(), MAX_DESCRIPTORS).unwrap().unwrap();
    assert_eq!(descriptors.len(), MAX_DESCRIPTORS);
    drop((descriptors, writer));
    assert!(is_closed(&reader));
    assert!(
        send(ours.as_fd(), &Request::Prefixes, &vec![reader.as_fd(); MAX_DESCRIPTORS + 1]).is_err()
    );
}

#[test]
fn any_bytes_decode_or_are_refused() {
    // A decoder of its own: the message type alone decides what bytes mean.
    let mut seed = 1u64;
    let (ours, theirs) = both();
    for len in (1..400).cycle().take(4000) {
        let bytes: Vec<u8> = (0..len)
            .map(|_| {
                seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                // Small numbers are more often the number of a variant.
                if seed >> 63 == 0 { (seed >> 40) as u8 } else { (seed >> 40) as u8 % 16 }
            })
            .collect();
        throw(&ours, &bytes, &[]);
        match recv::<Request>(theirs.as_fd(), 0) {
            Ok(Some(_)) | Err(AttachSocketError::Garbage) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Whether this kernel lets a socket refuse descriptors (Linux 6.16).
fn can_refuse() -> bool {
    let (ours, theirs) = both();
    refuse_descriptors(ours.as_fd());
    send(theirs.as_fd(), &Request::Prefixes, &[ours.as_fd()]).is_err()
}

#[test]
fn nobody_can_send_descriptors_to_a_host() {
    if !can_refuse() {
        eprintln!("skipped: this kernel has no SO_PASSRIGHTS (Linux 6.16)");
        return;
    }
    let folder = Folder::new("refuse");
    let path = folder.0.join("host.sock");
    let listener = listen(&path, 0o600, None).unwrap();
    let theirs = connect(&path).unwrap();
    let early = send(theirs.as_fd(), &Request::Prefixes, &[theirs.as_fd()]);
    assert_eq!(
        early.unwrap_err().kind(),
        io::ErrorKind::PermissionDenied,
        "not even before it was accepted"
    );
    let ours = accept(listener.as_fd()).unwrap();
    let sent = send(theirs.as_fd(), &Request::Prefixes, &[theirs.as_fd()]);
    assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    send(ours.as_fd(), &Reply::Done, &[ours.as_fd()]).unwrap();
    assert_eq!(
        recv::<Reply>(theirs.as_fd(), 1).unwrap().unwrap().1.len(),
        1,
        "the other way they go"
    );

    let (_ours, session_fd) = pair().unwrap();
    let (_remote_notifier, notifier) = crate::RemoteNotifier::new().unwrap();
    for end in [session_fd, notifier] {
        assert!(send(end.as_fd(), &Request::Prefixes, &[end.as_fd()]).is_err());
    }
}

#[test]
fn a_session_fd_is_cut_when_its_last_copy_is_closed() {
    let (ours, theirs) = pair().unwrap();
    let copy = rustix::io::fcntl_dupfd_cloexec(&theirs, 0).unwrap();
    drop(theirs);
    assert_eq!(
        rustix::io::read(&ours, &mut [0; 1]),
        Err(Errno::AGAIN),
        "it does not block, and is not cut"
    );
    drop(copy);
    assert_eq!(rustix::io::read(&ours, &mut [0; 1]), Ok(0));
}

/// A folder of its own, removed when dropped.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("clearway-shm-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_host_is_found_at_its_path_and_knows_who_comes() {
    let folder = Folder::new("attach_socket");
    let path = folder.0.join("host.sock");
    let listener = listen(&path, 0o600, None).unwrap();
    let mode = rustix::fs::stat(&path).unwrap().st_mode & 0o777;
    assert_eq!(mode, 0o600);
    assert!(
        matches!(accept(listener.as_fd()), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    );
    let theirs = connect(&path).unwrap();
    let ours = accept(listener.as_fd()).unwrap();
    let peer = peer_credentials(ours.as_fd()).unwrap();
    assert_eq!(peer.pid, std::process::id());
    assert_eq!(peer.uid, rustix::process::getuid().as_raw());
    send(theirs.as_fd(), &hello(), &[]).unwrap();
    assert!(recv::<Request>(ours.as_fd(), 0).unwrap().is_some());
    assert!(matches!(recv::<Request>(ours.as_fd(), 0),
            Err(AttachSocketError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock));
}

#[test]
fn a_socket_that_nobody_listens_at_is_replaced_and_a_live_one_is_not() {
    let folder = Folder::new("stale");
    let path = folder.0.join("host.sock");
    let first = listen(&path, 0o666, None).unwrap();
    assert_eq!(listen(&path, 0o666, None).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    assert!(connect(&path).is_ok(), "the live one still is there");
    drop(first);
    assert!(connect(&path).is_err());
    let _second = listen(&path, 0o666, None).unwrap();
    assert!(connect(&path).is_ok());
}

#[test]
fn a_file_that_is_no_socket_is_left_alone() {
    let folder = Folder::new("file");
    let path = folder.0.join("host.sock");
    std::fs::write(&path, "mine").unwrap();
    assert!(listen(&path, 0o600, None).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
}

#[test]
fn a_type_that_is_not_the_attach_socket_s_can_be_sent_too() {
    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Own(u64);
    let (ours, theirs) = both();
    send(ours.as_fd(), &Own(7), &[]).unwrap();
    assert_eq!(recv::<Own>(theirs.as_fd(), 0).unwrap().unwrap().0, Own(7));
}

#[test]
fn a_descriptor_that_is_no_socket_is_an_error() {
    let (reader, writer) = telltale();
    assert!(matches!(recv::<Request>(reader.as_fd(), 0), Err(AttachSocketError::Io(_))));
    assert!(send(writer.as_fd(), &Request::Prefixes, &[]).is_err());
}

#[test]
fn descriptors_are_closed_together_and_those_between_them_stay() {
    // Numbers that no other test uses, with a hole that is somebody else's.
    let copy = |number: i32| {
        let fd = rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), number).unwrap();
        assert_eq!(fd.as_raw_fd(), number);
        fd
    };
    let mut fds: Vec<_> = [700, 701, 703, 704, 705, 707].map(copy).into();
    let between = fds.remove(2);
    let (ours, stays): (Vec<i32>, i32) =
        (fds.iter().map(AsRawFd::as_raw_fd).collect(), between.as_raw_fd());
    close_all(fds);
    // SAFETY: asks for a flag of whatever has the number.
    let is_open = |fd: i32| unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0;
    assert!(ours.into_iter().all(|fd| !is_open(fd)));
    assert!(is_open(stays));
}
