//! The adapter as a backend of the script runner, through nothing but packetdrill's struct.

use std::collections::VecDeque;
use std::ffi::{CString, c_char, c_int, c_long, c_longlong, c_uint, c_ulong, c_void};
use std::mem::{MaybeUninit, size_of, zeroed};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use clearway_script::ast::Micros;
use clearway_script::backend::{Fd, How, Info, Net, Op, OptionValue, Reply, Sent, SetOption};
use clearway_script::errno::Errno;
use clearway_script::settings::knobs;
use clearway_script::{Backend, IpVersion};
use clearway_wire::{Addr, Endpoint};
use libc::{
    pollfd, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t, ssize_t, timeval,
};

type Data = *mut c_void;
type Unused = *const c_void;

/// packetdrill's struct, as its users know it; what the runner has no use for is an address only.
#[repr(C)]
struct Table {
    data: Data,
    free: unsafe extern "C" fn(Data),
    socket: unsafe extern "C" fn(Data, c_int, c_int, c_int) -> c_int,
    bind: unsafe extern "C" fn(Data, c_int, *const sockaddr, socklen_t) -> c_int,
    listen: unsafe extern "C" fn(Data, c_int, c_int) -> c_int,
    accept: unsafe extern "C" fn(Data, c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    connect: unsafe extern "C" fn(Data, c_int, *const sockaddr, socklen_t) -> c_int,
    read: Unused,
    readv: Unused,
    recv: unsafe extern "C" fn(Data, c_int, *mut c_void, usize, c_int) -> ssize_t,
    recvfrom: Unused,
    recvmsg: Unused,
    write: Unused,
    writev: Unused,
    send: unsafe extern "C" fn(Data, c_int, *const c_void, usize, c_int) -> ssize_t,
    sendto: unsafe extern "C" fn(
        Data,
        c_int,
        *const c_void,
        usize,
        c_int,
        *const sockaddr,
        socklen_t,
    ) -> ssize_t,
    sendmsg: Unused,
    fcntl: unsafe extern "C" fn(Data, c_int, c_int, ...) -> c_int,
    ioctl: unsafe extern "C" fn(Data, c_int, c_ulong, ...) -> c_int,
    close: unsafe extern "C" fn(Data, c_int) -> c_int,
    shutdown: unsafe extern "C" fn(Data, c_int, c_int) -> c_int,
    getsockopt:
        unsafe extern "C" fn(Data, c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    setsockopt: unsafe extern "C" fn(Data, c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    poll: unsafe extern "C" fn(Data, *mut pollfd, c_ulong, c_int) -> c_int,
    netdev_send: unsafe extern "C" fn(Data, *const c_void, usize) -> c_int,
    netdev_receive: unsafe extern "C" fn(Data, *mut c_void, *mut usize, *mut c_longlong) -> c_int,
    usleep: unsafe extern "C" fn(Data, c_uint) -> c_int,
    gettimeofday: unsafe extern "C" fn(Data, *mut timeval, *mut c_void) -> c_int,
    others: [Unused; 5],
}

// SAFETY: packetdrill calls the functions from two threads, and so does this.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// The adapter, loaded.
pub(crate) struct Library {
    init: unsafe extern "C" fn(*const c_char, *mut Table),
}

impl Library {
    /// Builds the adapter, once, and loads it.
    pub(crate) fn open() -> Library {
        static BUILT: OnceLock<PathBuf> = OnceLock::new();
        let path = BUILT.get_or_init(|| {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args([
                "build",
                "--quiet",
                "--offline",
                "--package",
                "clearway-packetdrill",
                "--lib",
            ]);
            if !cfg!(debug_assertions) {
                cargo.arg("--release");
            }
            // `cargo xtask ci` builds it with the features of the whole workspace.
            let is_built = std::env::var_os("CLEARWAY_TESTS_BUILT").is_some();
            assert!(
                is_built || cargo.status().unwrap().success(),
                "building libclearway_packetdrill.so failed"
            );
            let exe = std::env::current_exe().unwrap();
            // The test programs lie in `deps`.
            exe.parent().and_then(Path::parent).unwrap().join("libclearway_packetdrill.so")
        });
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: both names are texts, and the function has this signature.
        unsafe {
            let handle = libc::dlopen(
                path.as_ptr(),
                libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE,
            );
            assert!(!handle.is_null(), "the adapter cannot be loaded");
            let init = libc::dlsym(handle, c"packetdrill_interface_init".as_ptr());
            assert!(!init.is_null(), "the adapter has no interface");
            Library {
                init: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*const c_char, *mut Table),
                >(init),
            }
        }
    }
}

/// Whether this thread may make a network namespace.
pub(crate) fn is_root() -> bool {
    // SAFETY: takes no pointers.
    unsafe { libc::geteuid() == 0 }
}

/// Gives this thread, and those that it starts, a network namespace of its own, with buffers as our
/// own runner has them.
pub(crate) fn leave_namespace() {
    if is_root() {
        // SAFETY: takes no pointers.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "making a network namespace");
        // As the runner has them where a script says nothing.
        let knobs = [
            ("tcp_rmem", "4096 131072 4194304"),
            ("tcp_wmem", "4096 16384 262144"),
            ("tcp_early_retrans", "0"),
            ("tcp_ecn", "0"),
        ];
        for (knob, value) in knobs {
            std::fs::write(format!("/proc/sys/net/ipv4/{knob}"), value).unwrap();
        }
    }
}

/// The second thread, which makes the calls.
struct Caller {
    orders: Option<mpsc::Sender<Op>>,
    replies: mpsc::Receiver<(Reply, Micros)>,
    thread: Option<JoinHandle<()>>,
    state: Arc<Busy>,
}

#[derive(Default)]
struct Busy {
    /// The thread's number for the system.
    id: AtomicI32,
    /// There is an order without a reply.
    calling: AtomicBool,
    /// It has taken the order.
    heard: AtomicBool,
}

/// The adapter behind its struct.
pub(crate) struct Interface {
    table: Arc<Table>,
    caller: Caller,
    begin: Micros,
    sent: VecDeque<Sent>,
    reply: Option<(Reply, Micros)>,
    pending: bool,
}

/// How far the clock moves at a time while something is waited for. Packets carry their true times;
/// only what the script does in answer may be late by this.
const STEP: Micros = 1_000;

impl Interface {
    pub(crate) fn new(library: &Library, net: Net) -> Result<Interface, String> {
        let version = if net.version == IpVersion::V4Mapped {
            "ipv4-mapped-ipv6"
        } else {
            net.version.name()
        };
        let Net { local, remote, mtu, .. } = net;
        // Nothing is waited for: the runner says itself how time goes on.
        let flags = format!(
            "ip_version={version},local={local},remote={remote},mtu={mtu},timeout=0,grace=0,alone=60000"
        );
        let flags = CString::new(flags).map_err(|error| error.to_string())?;
        let mut table = MaybeUninit::<Table>::uninit();
        // SAFETY: the function fills the struct.
        let table = Arc::new(unsafe {
            (library.init)(flags.as_ptr(), table.as_mut_ptr());
            table.assume_init()
        });
        let caller = Caller::new(&table, net);
        let begin = look(&table);
        Ok(Interface { table, caller, begin, sent: VecDeque::new(), reply: None, pending: false })
    }

    /// Takes the packets that were sent, and the reply that has come meanwhile.
    fn take(&mut self) {
        let mut room = vec![0u8; 70_000];
        loop {
            let (mut count, mut at) = (room.len(), 0);
            // SAFETY: all of them lead to what they say.
            let result = unsafe {
                (self.table.netdev_receive)(
                    self.table.data,
                    room.as_mut_ptr().cast(),
                    &mut count,
                    &mut at,
                )
            };
            if result != 0 || count == 0 {
                break;
            }
            self.sent.push_back(Sent { at: at - self.begin, bytes: room[..count].to_vec() });
        }
        if self.pending && !self.caller.is_blocked() {
            let (reply, at) = self.caller.replies.recv().expect("the second thread is there");
            self.reply = Some((reply, at - self.begin));
            self.pending = false;
        }
    }
}

impl Drop for Interface {
    fn drop(&mut self) {
        // A call that still blocks, because the script failed, ends by itself: after half a second
        // without anybody else it lets the clock run.
        self.caller.orders = None;
        if let Some(thread) = self.caller.thread.take() {
            let _ = thread.join();
        }
        // SAFETY: nobody uses the struct any more.
        unsafe { (self.table.free)(self.table.data) };
    }
}

impl Caller {
    fn new(table: &Arc<Table>, net: Net) -> Caller {
        let (orders, taken) = mpsc::channel::<Op>();
        let (left, replies) = mpsc::channel();
        let state = Arc::new(Busy::default());
        let (busy, table) = (Arc::clone(&state), Arc::clone(table));
        let thread = std::thread::spawn(move || {
            // SAFETY: takes no pointers.
            busy.id.store(unsafe { libc::gettid() }, Ordering::Release);
            for op in taken {
                busy.heard.store(true, Ordering::Release);
                // SAFETY: the pointers that this makes lead to what the functions say.
                let reply = unsafe { make(&table, &net, op) };
                let at = look(&table);
                let _ = left.send((reply, at));
                busy.calling.store(false, Ordering::Release);
            }
        });
        Caller { orders: Some(orders), replies, thread: Some(thread), state }
    }

    /// Whether the call in progress waits for the first thread. It is either on its way, or asleep:
    /// there is nothing else that it could sleep in while this thread is outside of the adapter.
    fn is_blocked(&self) -> bool {
        loop {
            let id = self.state.id.load(Ordering::Acquire);
            let stat =
                std::fs::read_to_string(format!("/proc/self/task/{id}/stat")).unwrap_or_default();
            let sleeps = stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'));
            if !self.state.calling.load(Ordering::Acquire) {
                return false;
            }
            if sleeps {
                return true;
            }
            std::thread::yield_now();
        }
    }
}

fn look(table: &Table) -> Micros {
    let mut time = timeval { tv_sec: 0, tv_usec: 0 };
    // SAFETY: it leads to a time.
    let result = unsafe { (table.gettimeofday)(table.data, &mut time, std::ptr::null_mut()) };
    assert_eq!(result, 0);
    time.tv_sec * 1_000_000 + time.tv_usec
}

fn socket_address(net: &Net, endpoint: Endpoint) -> (sockaddr_storage, socklen_t) {
    // SAFETY: addresses are plain numbers.
    let mut storage: sockaddr_storage = unsafe { zeroed() };
    if net.version == IpVersion::V4 {
        let mut four = sockaddr_in {
            sin_family: libc::AF_INET as u16,
            sin_port: endpoint.port.to_be(),
            // SAFETY: as above.
            ..unsafe { zeroed() }
        };
        four.sin_addr.s_addr = u32::from_ne_bytes(endpoint.addr.v4_octets());
        // SAFETY: the storage has room for every address.
        unsafe { (&raw mut storage).cast::<sockaddr_in>().write(four) };
        (storage, size_of::<sockaddr_in>() as socklen_t)
    } else {
        let mut six = sockaddr_in6 {
            sin6_family: libc::AF_INET6 as u16,
            sin6_port: endpoint.port.to_be(),
            // SAFETY: as above.
            ..unsafe { zeroed() }
        };
        six.sin6_addr.s6_addr = *endpoint.addr.octets();
        // SAFETY: the storage has room for every address.
        unsafe { (&raw mut storage).cast::<sockaddr_in6>().write(six) };
        (storage, size_of::<sockaddr_in6>() as socklen_t)
    }
}

fn answer(value: ssize_t) -> Reply {
    // SAFETY: it is there for every thread.
    let errno = unsafe { *libc::__errno_location() };
    Reply::of(if value < 0 { Err(Errno(errno)) } else { Ok(value as i64) })
}

/// # Safety
/// The table is the adapter's.
#[allow(unsafe_op_in_unsafe_fn)]
unsafe fn set(table: &Table, net: &Net, fd: Fd, SetOption { option, value }: SetOption) -> Reply {
    let (level, name) = match option.name {
        // A script says one word for both families.
        "IP_TOS" | "IPV6_TCLASS" if net.version == IpVersion::V4 => {
            (libc::IPPROTO_IP, libc::IP_TOS)
        }
        "IP_TOS" | "IPV6_TCLASS" => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        _ => (option.level as c_int, option.number),
    };
    let bytes = match value {
        OptionValue::Number(number) => number.to_ne_bytes().to_vec(),
        OptionValue::Linger(wait) => {
            [c_int::from(wait.is_some()).to_ne_bytes(), wait.unwrap_or(0).to_ne_bytes()].concat()
        }
        OptionValue::Name(name) => name.into_bytes(),
        OptionValue::Bytes(bytes) => bytes,
    };
    let len = bytes.len() as socklen_t;
    answer((table.setsockopt)(table.data, fd as c_int, level, name, bytes.as_ptr().cast(), len)
        as ssize_t)
}

/// Makes a call.
///
/// # Safety
/// The table is the adapter's.
#[allow(unsafe_op_in_unsafe_fn)]
unsafe fn make(t: &Table, net: &Net, op: Op) -> Reply {
    let address = |endpoint| socket_address(net, endpoint);
    let number = |value: c_int| answer(value as ssize_t);
    match op {
        Op::Socket(stream) => {
            let domain = if net.version == IpVersion::V4 { libc::AF_INET } else { libc::AF_INET6 };
            let kind = if stream { libc::SOCK_STREAM } else { libc::SOCK_DGRAM };
            let fd = (t.socket)(t.data, domain, kind, 0);
            // Scripts run with CUBIC unless they say otherwise, which a system may not let a
            // namespace have by default.
            let default = "/proc/sys/net/ipv4/tcp_congestion_control";
            let default = std::fs::read_to_string(default).unwrap_or_default();
            if stream && !["cubic", "reno"].contains(&default.trim()) {
                let (level, name) = (libc::IPPROTO_TCP, libc::TCP_CONGESTION);
                let cubic = b"cubic";
                assert_eq!(
                    (t.setsockopt)(t.data, fd, level, name, cubic.as_ptr().cast(), 5),
                    0,
                    "CUBIC cannot be chosen"
                );
            }
            number(fd)
        }
        Op::Bind(fd, port) => {
            let any = if net.version == IpVersion::V4Mapped { Addr::ANY_V6 } else { net.local };
            let (addr, len) = address(Endpoint::new(any, port));
            number((t.bind)(t.data, fd as c_int, (&raw const addr).cast(), len))
        }
        Op::Listen(fd, backlog) => number((t.listen)(t.data, fd as c_int, backlog as c_int)),
        Op::Accept(fd) => {
            number((t.accept)(t.data, fd as c_int, std::ptr::null_mut(), std::ptr::null_mut()))
        }
        Op::Connect(fd, to) => {
            let (addr, len) = address(to);
            number((t.connect)(t.data, fd as c_int, (&raw const addr).cast(), len))
        }
        Op::Read(fd, len, flags) => {
            let mut room = vec![0u8; len as usize];
            let bits = if flags.peek { libc::MSG_PEEK } else { 0 }
                | if flags.dont_wait { libc::MSG_DONTWAIT } else { 0 };
            let mut reply =
                answer((t.recv)(t.data, fd as c_int, room.as_mut_ptr().cast(), room.len(), bits));
            room.truncate(reply.value.unwrap_or(0) as usize);
            reply.data = room;
            reply
        }
        Op::Write(fd, bytes, flags) => {
            let bits = [
                (flags.urgent, libc::MSG_OOB),
                (flags.more, libc::MSG_MORE),
                (flags.ends_record, libc::MSG_EOR),
                (flags.dont_wait, libc::MSG_DONTWAIT),
            ];
            let bits = bits.into_iter().filter(|(on, _)| *on).fold(0, |all, (_, bit)| all | bit);
            answer((t.send)(t.data, fd as c_int, bytes.as_ptr().cast(), bytes.len(), bits))
        }
        Op::WriteFirst(fd, bytes, to, flags) => {
            let (addr, len) = address(to);
            let to = (&raw const addr).cast();
            let bits = if flags.dont_wait { libc::MSG_DONTWAIT } else { 0 } | libc::MSG_FASTOPEN;
            let bytes = (bytes.as_ptr().cast(), bytes.len());
            answer((t.sendto)(t.data, fd as c_int, bytes.0, bytes.1, bits, to, len))
        }
        Op::SendTo(fd, bytes, to) => {
            let (addr, len) = address(to);
            let to = (&raw const addr).cast();
            answer((t.sendto)(t.data, fd as c_int, bytes.as_ptr().cast(), bytes.len(), 0, to, len))
        }
        Op::Shutdown(fd, how) => {
            let how = match how {
                How::Read => libc::SHUT_RD,
                How::Write => libc::SHUT_WR,
                How::Both => libc::SHUT_RDWR,
            };
            number((t.shutdown)(t.data, fd as c_int, how))
        }
        Op::Close(fd) => number((t.close)(t.data, fd as c_int)),
        Op::Set(fd, option) => set(t, net, fd, option),
        Op::TakeError(fd) => {
            let (mut error, mut len) = (0 as c_int, size_of::<c_int>() as socklen_t);
            let room = (&raw mut error).cast();
            let result = (t.getsockopt)(
                t.data,
                fd as c_int,
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                room,
                &mut len,
            );
            number(if result < 0 { result } else { error })
        }
        Op::Block(fd, blocks) => {
            let flags = c_long::from(if blocks { 0 } else { libc::O_NONBLOCK });
            number((t.fcntl)(t.data, fd as c_int, libc::F_SETFL, flags))
        }
        Op::Edges(..) => unreachable!("no script asks for edges"),
        Op::Poll(wanted, timeout) => {
            let mut fds: Vec<_> = wanted
                .iter()
                .map(|&(fd, events)| pollfd { fd: fd as c_int, events, revents: 0 })
                .collect();
            let timeout = timeout.map_or(-1, |ms| ms as c_int);
            let mut reply =
                number((t.poll)(t.data, fds.as_mut_ptr(), fds.len() as c_ulong, timeout));
            reply.ready = fds.iter().map(|fd| fd.revents).collect();
            reply
        }
    }
}

impl Backend for Interface {
    fn now(&self) -> Micros {
        look(&self.table) - self.begin
    }

    fn advance(&mut self, until: Micros) -> Result<(), String> {
        self.take();
        while self.sent.is_empty() && self.reply.is_none() {
            let left = until - self.now();
            if left <= 0 {
                return Ok(());
            }
            // SAFETY: takes no pointers but the struct's.
            unsafe { (self.table.usleep)(self.table.data, left.min(STEP) as c_uint) };
            self.take();
        }
        Ok(())
    }

    fn inject(&mut self, packet: &[u8]) -> Result<(), String> {
        // SAFETY: the pointer leads to so many bytes.
        let result = unsafe {
            (self.table.netdev_send)(self.table.data, packet.as_ptr().cast(), packet.len())
        };
        self.take();
        if result == 0 { Ok(()) } else { Err("the adapter takes no packet".into()) }
    }

    fn sent(&mut self) -> Option<Sent> {
        self.sent.pop_front()
    }

    fn call(&mut self, op: Op) -> Result<(), String> {
        self.pending = true;
        self.caller.state.calling.store(true, Ordering::Release);
        let orders = self.caller.orders.as_ref().ok_or("the second thread is gone")?;
        orders.send(op).map_err(|_| "the second thread is gone")?;
        // Asleep before it has heard of the order is not asleep in the call.
        while !self.caller.state.heard.swap(false, Ordering::AcqRel) {
            std::thread::yield_now();
        }
        // Who sleeps for a moment only, for a lock of the allocator's, say, does not block.
        for _ in 0..20 {
            if !self.caller.is_blocked() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.take();
        Ok(())
    }

    fn reply(&mut self) -> Option<(Reply, Micros)> {
        self.reply.take()
    }

    fn info(&mut self, fd: Fd) -> Result<Info, String> {
        let mut bytes = [0u8; 240];
        let mut len = bytes.len() as socklen_t;
        let room = bytes.as_mut_ptr().cast();
        // SAFETY: the pointers lead to the room and its length.
        let result = unsafe {
            (self.table.getsockopt)(
                self.table.data,
                fd as c_int,
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                room,
                &mut len,
            )
        };
        if result != 0 || len as usize != bytes.len() {
            return Err(format!("TCP_INFO: {:?}", answer(-1).value));
        }
        Ok(info(&bytes))
    }

    fn command(&mut self, command: &str) -> Result<(), String> {
        for (name, value) in knobs(command) {
            let path = format!("/proc/sys/{}", name.replace('.', "/"));
            std::fs::write(&path, value).map_err(|error| format!("{path}: {error}"))?;
        }
        Ok(())
    }

    fn tolerance(&self) -> Micros {
        4_000
    }

    fn call_limit(&self) -> Micros {
        0
    }
}

/// `struct tcp_info`, value by value.
fn info(bytes: &[u8; 240]) -> Info {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let len = bytes.len().min(size_of::<libc::tcp_info>());
    // SAFETY: both have so many bytes; the struct is plain numbers, of which newer systems have
    // more, and these are zero.
    let info = unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), info.as_mut_ptr().cast(), len);
        info.assume_init()
    };
    macro_rules! values {
        ($($name:ident)*) => { Info::from([$((stringify!($name), info.$name as i64)),*]) };
    }
    let mut values = values!(
        tcpi_state tcpi_ca_state tcpi_retransmits tcpi_probes tcpi_backoff tcpi_options tcpi_rto tcpi_ato tcpi_snd_mss
        tcpi_rcv_mss tcpi_unacked tcpi_sacked tcpi_lost tcpi_retrans tcpi_last_data_sent tcpi_last_data_recv
        tcpi_last_ack_recv tcpi_pmtu tcpi_rtt tcpi_rttvar tcpi_snd_ssthresh tcpi_snd_cwnd tcpi_advmss tcpi_reordering
        tcpi_rcv_space tcpi_total_retrans tcpi_bytes_acked tcpi_bytes_received tcpi_segs_out tcpi_segs_in
        tcpi_notsent_bytes tcpi_min_rtt tcpi_data_segs_in tcpi_data_segs_out tcpi_delivery_rate tcpi_busy_time
        tcpi_rwnd_limited tcpi_sndbuf_limited tcpi_delivered tcpi_bytes_sent tcpi_bytes_retrans tcpi_dsack_dups
        tcpi_reord_seen tcpi_rcv_ooopack tcpi_snd_wnd tcpi_rcv_wnd
    );
    // Bit fields, which the library's struct has as bytes or not at all.
    values.insert("tcpi_snd_wscale", i64::from(bytes[6] & 15));
    values.insert("tcpi_rcv_wscale", i64::from(bytes[6] >> 4));
    values.insert("tcpi_delivery_rate_app_limited", i64::from(bytes[7] & 1));
    values
}
