//! The system calls that have no safe wrapper.

use std::ffi::CString;
use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};

use libc::{c_int, c_long, c_ulong, c_void, socklen_t};

/// Memory that was mapped, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Mapping {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: it owns its pages, and hands out nothing but their address; whoever reads or writes
// through that says why it may.
unsafe impl Send for Mapping {}
// SAFETY: a shared one tells no more than where its pages are.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Pages of our own, all zeroes.
    pub(crate) fn anonymous(len: usize) -> io::Result<Mapping> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        map(len, flags, -1, 0)
    }

    /// A ring of a socket, at the offset that says which.
    pub(crate) fn of_ring(socket: BorrowedFd<'_>, len: usize, offset: i64) -> io::Result<Mapping> {
        map(len, libc::MAP_SHARED | libc::MAP_POPULATE, socket.as_raw_fd(), offset)
    }

    pub(crate) fn at(&self) -> NonNull<u8> {
        self.at
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: these pages were mapped by `map`, and nobody has another handle on them.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
    }
}

fn map(len: usize, flags: c_int, fd: c_int, offset: i64) -> io::Result<Mapping> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: without MAP_FIXED the kernel chooses a place where nothing is.
    let at = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, fd, offset) };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(at.cast()).map(|at| Mapping { at, len }).ok_or_else(|| io::ErrorKind::Other.into())
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn owned(fd: c_int) -> io::Result<OwnedFd> {
    check(fd)?;
    // SAFETY: the kernel has just made it for us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A socket of AF_XDP; asks for CAP_NET_RAW.
pub(crate) fn xdp_socket() -> io::Result<OwnedFd> {
    // SAFETY: takes three numbers.
    owned(unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })
}

/// Sets an option of a socket's to plain data.
pub(crate) fn set_option<T: Copy>(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: &T,
) -> io::Result<()> {
    let len = mem::size_of::<T>() as socklen_t;
    // SAFETY: the kernel reads `len` bytes, which `value` has and which live through the call.
    check(unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, ptr::from_ref(value).cast(), len)
    })
}

/// Reads an option of a socket's that is plain data of numbers; what the kernel leaves out stays
/// zero. Also answers how many bytes it gave.
pub(crate) fn option<T: Copy + Plain>(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
) -> io::Result<(T, usize)> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = mem::size_of::<T>() as socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which `value` has.
    check(unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut len)
    })?;
    // SAFETY: all its bytes are zero or the kernel's, and `Plain` says that any bytes will do.
    Ok((unsafe { value.assume_init() }, len as usize))
}

/// Structures of numbers alone, for which every pattern of bits is a value.
///
/// # Safety
/// Whoever says so of a type has looked at it.
pub(crate) unsafe trait Plain {}

// SAFETY: a number.
unsafe impl Plain for c_int {}
// SAFETY: four structures of four u64.
unsafe impl Plain for libc::xdp_mmap_offsets {}
// SAFETY: six u64.
unsafe impl Plain for libc::xdp_statistics {}
// SAFETY: a u32.
unsafe impl Plain for libc::xdp_options {}

/// Binds a socket to a queue of an interface.
pub(crate) fn bind(socket: BorrowedFd<'_>, address: &libc::sockaddr_xdp) -> io::Result<()> {
    let len = mem::size_of::<libc::sockaddr_xdp>() as socklen_t;
    // SAFETY: the kernel reads `len` bytes of the address, which lives through the call.
    check(unsafe { libc::bind(socket.as_raw_fd(), ptr::from_ref(address).cast(), len) })
}

/// Has the kernel look at the ring of what is sent.
pub(crate) fn wake_tx(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no bytes and no address are handed over.
    let sent = unsafe {
        libc::sendto(socket.as_raw_fd(), ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has the kernel look at the rings of what is received.
pub(crate) fn wake_rx(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no bytes and no address are asked for.
    let got = unsafe {
        libc::recvfrom(
            socket.as_raw_fd(),
            ptr::null_mut(),
            0,
            libc::MSG_DONTWAIT,
            ptr::null_mut(),
            ptr::null_mut(),
        )
    };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// An epoll that is readable while one of these is.
pub(crate) fn epoll_of(fds: &[BorrowedFd<'_>]) -> io::Result<OwnedFd> {
    // SAFETY: takes a number.
    let epoll = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    for fd in fds {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: the event lives through the call, which only reads it.
        check(unsafe {
            libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &raw mut event)
        })?;
    }
    Ok(epoll)
}

/// `bpf(2)`: a command and its attributes, whose pointers the caller answers for.
///
/// # Safety
/// Every address in `attributes` is that of memory that the command may read or write as the
/// kernel's interface says, for as long as the call takes.
pub(crate) unsafe fn bpf<T>(command: c_int, attributes: &mut T) -> io::Result<c_int> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes of the attributes, which are there; for what
    // they point at the caller answers.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            c_long::from(command),
            ptr::from_mut(attributes).cast::<c_void>(),
            mem::size_of::<T>() as c_ulong,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as c_int) }
}

/// The same for a command that makes a descriptor.
///
/// # Safety
/// As for [`bpf`].
pub(crate) unsafe fn bpf_fd<T>(command: c_int, attributes: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the caller answers for it.
    owned(unsafe { bpf(command, attributes) }?)
}

/// The number of the interface of this name.
pub(crate) fn interface_index(name: &str) -> io::Result<u32> {
    let name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: a string that ends with a zero and lives through the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 { Err(io::Error::last_os_error()) } else { Ok(index) }
}

/// What is asked of an interface by `ioctl`.
pub(crate) struct Question {
    request: libc::ifreq,
    socket: OwnedFd,
}

impl Question {
    /// About the interface `name`; a longer name than the kernel takes is cut, and was refused
    /// before.
    pub(crate) fn about(name: &str) -> io::Result<Question> {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        // SAFETY: takes three numbers. The socket never carries anything.
        let socket = owned(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
        // SAFETY: an array and a union of plain data, for which all zeroes is a valid value.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        // One byte is left for the closing zero.
        let room = request.ifr_name.len() - 1;
        for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        Ok(Question { request, socket })
    }

    fn ask(&mut self, what: c_ulong) -> io::Result<()> {
        // SAFETY: the requests of this file read and write one ifreq, which outlives the call, and
        // what `ethtool` lets it point at.
        check(unsafe { libc::ioctl(self.socket.as_raw_fd(), what as _, &raw mut self.request) })
    }

    /// Its MTU in bytes.
    pub(crate) fn mtu(&mut self) -> io::Result<usize> {
        self.ask(libc::SIOCGIFMTU as c_ulong)?;
        // SAFETY: SIOCGIFMTU filled this field in, and all of the union is plain data.
        let mtu = unsafe { self.request.ifr_ifru.ifru_mtu };
        usize::try_from(mtu).map_err(|_| io::Error::from_raw_os_error(libc::ERANGE))
    }

    /// Its Ethernet address, and the kind of its hardware (ARPHRD_ETHER for Ethernet).
    pub(crate) fn hardware(&mut self) -> io::Result<([u8; 6], u16)> {
        self.ask(libc::SIOCGIFHWADDR as c_ulong)?;
        // SAFETY: SIOCGIFHWADDR filled this field in, and all of the union is plain data.
        let address = unsafe { self.request.ifr_ifru.ifru_hwaddr };
        Ok((std::array::from_fn(|i| address.sa_data[i] as u8), address.sa_family))
    }

    /// Its flags (IFF_UP, IFF_RUNNING).
    pub(crate) fn flags(&mut self) -> io::Result<c_int> {
        self.ask(libc::SIOCGIFFLAGS as c_ulong)?;
        // SAFETY: SIOCGIFFLAGS filled this field in, and all of the union is plain data.
        Ok(c_int::from(unsafe { self.request.ifr_ifru.ifru_flags }))
    }

    /// Brings it up; asks for CAP_NET_ADMIN when it is not up yet.
    pub(crate) fn set_up(&mut self) -> io::Result<()> {
        let flags = self.flags()?;
        if flags & libc::IFF_UP != 0 {
            return Ok(());
        }
        // The kernel's field has 16 bits, and so have all the flags.
        self.request.ifr_ifru.ifru_flags = (flags | libc::IFF_UP) as libc::c_short;
        self.ask(libc::SIOCSIFFLAGS as c_ulong)
    }

    /// A question of `ethtool`'s, which begins with its command.
    fn ethtool<T>(&mut self, data: &mut T) -> io::Result<()> {
        self.request.ifr_ifru.ifru_data = ptr::from_mut(data).cast();
        self.ask(libc::SIOCETHTOOL as c_ulong)
    }

    /// How many queues it receives on.
    pub(crate) fn rx_queues(&mut self) -> io::Result<u32> {
        let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
        self.ethtool(&mut channels)?;
        Ok(channels.rx_count.saturating_add(channels.combined_count))
    }

    /// The name of its driver.
    pub(crate) fn driver(&mut self) -> io::Result<String> {
        let mut info = DriverInfo { command: ETHTOOL_GDRVINFO, driver: [0; 32], rest: [0; 160] };
        self.ethtool(&mut info)?;
        let end = info.driver.iter().position(|&byte| byte == 0).unwrap_or(info.driver.len());
        Ok(String::from_utf8_lossy(&info.driver[..end]).into_owned())
    }
}

const ETHTOOL_GDRVINFO: u32 = 0x3;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    max: [u32; 4],
    rx_count: u32,
    tx_count: u32,
    other_count: u32,
    combined_count: u32,
}

/// `struct ethtool_drvinfo`, as far as its driver's name; it has 196 bytes.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}
