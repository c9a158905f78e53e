//! packetdrill's struct of functions, and what is common to all of them.

use std::ffi::{c_int, c_long, c_longlong, c_uint, c_ulong, c_void};

use libc::{
    epoll_event, iovec, msghdr, nfds_t, off64_t, pollfd, size_t, sockaddr, socklen_t, ssize_t,
    timeval,
};

use crate::world::{Errno, World};
use crate::{asked, data, options, sockets, waiting};

/// The world behind the struct.
pub(crate) type Data = *mut c_void;

/// The functions in packetdrill's order. `fcntl` and `ioctl` take a variable argument there; on
/// every machine that Linux has, the first three arguments of such a call lie where those of any
/// call do, and a third one is what they read here.
#[repr(C)]
pub struct Interface {
    userdata: Data,
    free: unsafe extern "C" fn(Data),
    socket: unsafe extern "C" fn(Data, c_int, c_int, c_int) -> c_int,
    bind: unsafe extern "C" fn(Data, c_int, *const sockaddr, socklen_t) -> c_int,
    listen: unsafe extern "C" fn(Data, c_int, c_int) -> c_int,
    accept: unsafe extern "C" fn(Data, c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    connect: unsafe extern "C" fn(Data, c_int, *const sockaddr, socklen_t) -> c_int,
    read: unsafe extern "C" fn(Data, c_int, *mut c_void, size_t) -> ssize_t,
    readv: unsafe extern "C" fn(Data, c_int, *const iovec, c_int) -> ssize_t,
    recv: unsafe extern "C" fn(Data, c_int, *mut c_void, size_t, c_int) -> ssize_t,
    recvfrom: unsafe extern "C" fn(
        Data,
        c_int,
        *mut c_void,
        size_t,
        c_int,
        *mut sockaddr,
        *mut socklen_t,
    ) -> ssize_t,
    recvmsg: unsafe extern "C" fn(Data, c_int, *mut msghdr, c_int) -> ssize_t,
    write: unsafe extern "C" fn(Data, c_int, *const c_void, size_t) -> ssize_t,
    writev: unsafe extern "C" fn(Data, c_int, *const iovec, c_int) -> ssize_t,
    send: unsafe extern "C" fn(Data, c_int, *const c_void, size_t, c_int) -> ssize_t,
    sendto: unsafe extern "C" fn(
        Data,
        c_int,
        *const c_void,
        size_t,
        c_int,
        *const sockaddr,
        socklen_t,
    ) -> ssize_t,
    sendmsg: unsafe extern "C" fn(Data, c_int, *const msghdr, c_int) -> ssize_t,
    fcntl: unsafe extern "C" fn(Data, c_int, c_int, c_long) -> c_int,
    ioctl: unsafe extern "C" fn(Data, c_int, c_ulong, *mut c_void) -> c_int,
    close: unsafe extern "C" fn(Data, c_int) -> c_int,
    shutdown: unsafe extern "C" fn(Data, c_int, c_int) -> c_int,
    getsockopt:
        unsafe extern "C" fn(Data, c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    setsockopt: unsafe extern "C" fn(Data, c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    poll: unsafe extern "C" fn(Data, *mut pollfd, nfds_t, c_int) -> c_int,
    netdev_send: unsafe extern "C" fn(Data, *const c_void, size_t) -> c_int,
    netdev_receive: unsafe extern "C" fn(Data, *mut c_void, *mut size_t, *mut c_longlong) -> c_int,
    usleep: unsafe extern "C" fn(Data, c_uint) -> c_int,
    gettimeofday: unsafe extern "C" fn(Data, *mut timeval, *mut c_void) -> c_int,
    epoll_create: unsafe extern "C" fn(Data, c_int) -> c_int,
    epoll_ctl: unsafe extern "C" fn(Data, c_int, c_int, c_int, *mut epoll_event) -> c_int,
    epoll_wait: unsafe extern "C" fn(Data, c_int, *mut epoll_event, c_int, c_int) -> c_int,
    pipe: unsafe extern "C" fn(Data, *mut c_int) -> c_int,
    splice: unsafe extern "C" fn(
        Data,
        c_int,
        *mut off64_t,
        c_int,
        *mut off64_t,
        size_t,
        c_uint,
    ) -> ssize_t,
}

impl Interface {
    /// The struct for a world, which `free` ends.
    pub(crate) fn new(world: World) -> Interface {
        let userdata: Data = Box::into_raw(Box::new(world)).cast();
        asked::begin(userdata);
        Interface {
            userdata,
            free,
            socket: sockets::socket,
            bind: sockets::bind,
            listen: sockets::listen,
            accept: sockets::accept,
            connect: sockets::connect,
            read: data::read,
            readv: data::readv,
            recv: data::recv,
            recvfrom: data::recvfrom,
            recvmsg: data::recvmsg,
            write: data::write,
            writev: data::writev,
            send: data::send,
            sendto: data::sendto,
            sendmsg: data::sendmsg,
            fcntl: sockets::fcntl,
            ioctl: sockets::ioctl,
            close: sockets::close,
            shutdown: sockets::shutdown,
            getsockopt: options::getsockopt,
            setsockopt: options::setsockopt,
            poll: waiting::poll,
            netdev_send,
            netdev_receive,
            usleep,
            gettimeofday,
            epoll_create: waiting::epoll_create,
            epoll_ctl: waiting::epoll_ctl,
            epoll_wait: waiting::epoll_wait,
            pipe: data::pipe,
            splice: data::splice,
        }
    }
}

// SAFETY: the signature is that of the C library.
unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE`.
const DISABLED: c_int = 1;

/// Makes a call of packetdrill's on its world and answers as the C library would: -1 and errno.
/// packetdrill cancels its second thread when a script fails; that waits until the call is over,
/// since a thread of this library cannot be unwound by the C library.
///
/// # Safety
/// `data` is that of the struct.
pub(crate) unsafe fn with(
    data: Data,
    call: impl FnOnce(&World) -> Result<usize, Errno>,
) -> ssize_t {
    let mut before = 0;
    pthread_setcancelstate(DISABLED, &mut before);
    let result = match data.cast::<World>().as_ref() {
        Some(world) => call(world),
        None => Err(libc::EFAULT),
    };
    pthread_setcancelstate(before, &mut 0);
    match result {
        Ok(value) => value as ssize_t,
        Err(errno) => {
            *libc::__errno_location() = errno;
            -1
        }
    }
}

/// Ends the world. The eventfds behind sockets that were not closed are closed.
///
/// # Safety
/// As for [`with`]; nobody uses the struct any more.
unsafe extern "C" fn free(data: Data) {
    if data.is_null() {
        return;
    }
    asked::end(data);
    let world = Box::from_raw(data.cast::<World>());
    let state = world.enter();
    for &fd in state.sockets.keys().chain(state.sets.keys()) {
        libc::close(fd);
    }
}

/// # Safety
/// As for [`with`]; `bytes` leads to `count` bytes.
unsafe extern "C" fn netdev_send(data: Data, bytes: *const c_void, count: size_t) -> c_int {
    with(data, |world| {
        if bytes.is_null() || count == 0 {
            return Err(libc::EINVAL);
        }
        world.inject(std::slice::from_raw_parts(bytes.cast(), count)).map(|()| 0)
    }) as c_int
}

/// # Safety
/// As for [`with`]; the pointers lead to room for `*count` bytes, to the count and to the time.
unsafe extern "C" fn netdev_receive(
    data: Data,
    room: *mut c_void,
    count: *mut size_t,
    time: *mut c_longlong,
) -> c_int {
    with(data, |world| {
        if room.is_null() || count.is_null() || time.is_null() {
            return Err(libc::EFAULT);
        }
        match world.sent() {
            Some(sent) => {
                let len = sent.bytes.len().min(*count);
                std::ptr::copy_nonoverlapping(sent.bytes.as_ptr(), room.cast(), len);
                *count = len;
                *time = sent.at;
            }
            // An error would be asked again for ever; no bytes end the script.
            None => *count = 0,
        }
        Ok(0)
    }) as c_int
}

/// # Safety
/// As for [`with`].
unsafe extern "C" fn usleep(data: Data, micros: c_uint) -> c_int {
    with(data, |world| {
        world.sleep(micros);
        Ok(0)
    }) as c_int
}

/// # Safety
/// As for [`with`]; `time` leads to room for a time.
unsafe extern "C" fn gettimeofday(data: Data, time: *mut timeval, _zone: *mut c_void) -> c_int {
    with(data, |world| {
        if time.is_null() {
            return Err(libc::EFAULT);
        }
        let now = world.look();
        time.write_unaligned(timeval { tv_sec: now / 1_000_000, tv_usec: now % 1_000_000 });
        Ok(0)
    }) as c_int
}
