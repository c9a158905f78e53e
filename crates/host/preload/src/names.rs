//! Whom a program asks for names.
//!
//! The resolver of the C library makes its system calls inside of that library, where nobody can
//! stand in for them, and it asks the servers of the system's resolv.conf. So a question runs on a
//! thread of its own, whose servers are relays on 127.0.0.1 (which servers are asked is a thread's
//! own, `_res`); and the thread that asked relays meanwhile, by the functions of this library, so
//! that a server that Clearway reaches is reached over Clearway. All else, /etc/hosts, the order of
//! nsswitch.conf, the search list, is the C library's as ever, and nothing of this outlives the
//! call.
//!
//! Programs that read /etc/resolv.conf themselves find the same servers there ([`crate::answered`]).

use std::ffi::{CStr, CString, c_char, c_int, c_ulong, c_ushort, c_void};
use std::fmt::Write as _;
use std::net::IpAddr;

use clearway_client::{Client, Dns, DnsOf};
use libc::{hostent, size_t, sockaddr, socklen_t};

use crate::export::{guarded, outside};
use crate::interfaces::shown;
use crate::process;
use crate::{errno, real};

mod relay;
#[cfg(test)]
mod tests;

use relay::Relay;

/// `PTHREAD_CANCEL_DISABLE`.
const DISABLED: c_int = 1;

/// The state was filled in (`RES_INIT`).
const RES_INIT: c_ulong = 1;

/// Servers, and domains of the search list with the end of it, in the C library's state.
const MOST_SERVERS: usize = 3;
const MOST_DOMAINS: usize = 6;

/// The beginning of the resolver's state as glibc has it (`bits/types/res_state.h`).
#[repr(C)]
struct ResolverState {
    retrans: c_int,
    retry: c_int,
    options: c_ulong,
    count: c_int,
    servers: [libc::sockaddr_in; MOST_SERVERS],
    id: c_ushort,
    search: [*mut c_char; MOST_DOMAINS + 1],
}

// SAFETY: the signatures are those of the C library.
unsafe extern "C" {
    fn __res_state() -> *mut ResolverState;
    fn __res_ninit(state: *mut ResolverState) -> c_int;
    fn __h_errno_location() -> *mut c_int;
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// The servers that this program is told of, if it is told of any.
pub(crate) fn told() -> Option<Dns> {
    process::in_passing(|config| config.dns != DnsOf::System, Client::dns).flatten()
}

/// What stands in /etc/resolv.conf.
pub(crate) fn resolv_conf(dns: &Dns) -> String {
    let mut text = String::from("# Servers of names of a namespace of Clearway's\n");
    for server in &dns.servers {
        // The link of an address that is only a link's own; by its index, since that is what every
        // reader of such a file takes who asks the kernel for names.
        let _ = match shown(server.interface) {
            0 => writeln!(text, "nameserver {}", server.addr),
            index => writeln!(text, "nameserver {}%{index}", server.addr),
        };
    }
    if !dns.search.is_empty() {
        let _ = writeln!(text, "search {}", dns.search.join(" "));
    }
    text
}

/// What a program set for its resolver before: how long it waits, and so on.
#[derive(Clone, Copy)]
struct Manner {
    retrans: c_int,
    retry: c_int,
    options: c_ulong,
}

impl Manner {
    /// That of this thread, when it has any.
    fn of_thread() -> Option<Manner> {
        // SAFETY: the C library gives the place of this thread's state, which is always there.
        let state = unsafe { &*__res_state() };
        let ResolverState { retrans, retry, options, .. } = *state;
        (options & RES_INIT != 0).then_some(Manner { retrans, retry, options })
    }
}

/// From now on this thread asks the relays at these ports. False: it cannot ask anybody.
fn ask_at(ports: &[u16], search: &[CString], manner: Option<Manner>) -> bool {
    // SAFETY: this thread's own state, which nobody else uses; the C library fills it in.
    let state = unsafe {
        let state = __res_state();
        if __res_ninit(state) != 0 {
            return false;
        }
        &mut *state
    };
    if let Some(Manner { retrans, retry, options }) = manner {
        (state.retrans, state.retry, state.options) = (retrans, retry, options);
    }
    state.count = ports.len().min(MOST_SERVERS) as c_int;
    for (server, port) in state.servers.iter_mut().zip(ports) {
        *server = relay::loopback(*port);
    }
    state.search = [std::ptr::null_mut(); MOST_DOMAINS + 1];
    // They live until the thread has ended, and the C library only reads them.
    for (place, domain) in state.search.iter_mut().take(MOST_DOMAINS).zip(search) {
        *place = domain.as_ptr().cast_mut();
    }
    true
}

/// What goes from one thread to the other: a caller's pointers, of which the caller waits for the
/// use.
struct Carried<T>(T);

// SAFETY: the thread that owns it is blocked until the other one has ended.
unsafe impl<T> Send for Carried<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Carried<T> {}

impl<T> Carried<T> {
    fn get(&self) -> &T {
        &self.0
    }
}

/// Lets the C library ask the servers of the namespace. None: nothing was asked.
fn ask<T>(call: impl Fn() -> T) -> Option<T> {
    let dns = guarded(told)?;
    let mut relay = guarded(|| Relay::begin(&dns.servers))?;
    let domains = dns.search.into_iter().filter_map(|domain| CString::new(domain).ok());
    let (search, manner): (Vec<CString>, _) = (domains.collect(), Manner::of_thread());
    let (ports, call) = (relay.ports(), Carried(call));
    let mut before = 0;
    // The frames of this are not made to be unwound by a cancellation.
    // SAFETY: the pointer is to a place of ours.
    unsafe { pthread_setcancelstate(DISABLED, &mut before) };
    let over = relay.over();
    let answer = std::thread::scope(|scope| {
        let asks = || {
            let is_ready = ask_at(&ports, &search, manner);
            let answer = is_ready.then(|| call.get()());
            // SAFETY: this thread's own.
            let why = (errno::get(), unsafe { *__h_errno_location() });
            over.tell();
            Carried((answer, why))
        };
        let builder = std::thread::Builder::new().name("clearway-names".into());
        let asker = without_signals(|| builder.spawn_scoped(scope, asks)).ok()?;
        guarded(|| outside(|| relay.run()));
        let Carried((answer, (errno, h_errno))) = asker.join().ok()?;
        errno::set(errno);
        // SAFETY: this thread's own.
        unsafe { *__h_errno_location() = h_errno };
        answer
    });
    guarded(|| drop(relay));
    // SAFETY: as above.
    unsafe { pthread_setcancelstate(before, &mut before) };
    answer
}

/// Runs something with all signals blocked: a thread that is begun in it has them blocked for good.
fn without_signals<T>(begin: impl FnOnce() -> T) -> T {
    // SAFETY: all-zero is a mask, and the pointers are to masks of ours.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let begun = begin();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        begun
    }
}

/// Whether a name may be one that servers know: no number, and not this machine itself.
fn is_asked(name: &CStr) -> bool {
    let name = name.to_bytes();
    let is_number = std::str::from_utf8(name).is_ok_and(|name| name.parse::<IpAddr>().is_ok());
    !name.is_empty() && !name.contains(&b'%') && !is_number && name != b"localhost"
}

/// # Safety
/// A C string or null.
unsafe fn may_ask(name: *const c_char) -> bool {
    // SAFETY: as the caller says.
    !name.is_null() && is_asked(unsafe { CStr::from_ptr(name) })
}

/// `getaddrinfo(3)` of a name without an interface behind `%`.
///
/// # Safety
/// As for the C function.
pub(crate) unsafe fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const libc::addrinfo,
    out: *mut *mut libc::addrinfo,
) -> c_int {
    // SAFETY: the caller keeps to what the function asks, in all of these.
    unsafe {
        let is_number = hints.as_ref().is_some_and(|h| h.ai_flags & libc::AI_NUMERICHOST != 0);
        let call = || real::getaddrinfo(node, service, hints, out);
        let asked = if !is_number && may_ask(node) { ask(call) } else { None };
        asked.unwrap_or_else(call)
    }
}

/// Defines C functions that ask for a name or an address.
macro_rules! asks {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $answer:ty, if $may:expr;
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As for the C function of this name.
        // SAFETY: it stands in for the function of this name in the C library, with its signature.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[allow(clippy::too_many_arguments, reason = "the C library's are as many")]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $answer {
            // SAFETY: the caller keeps to what the function asks.
            let call = || unsafe { real::$name($($arg),*) };
            // SAFETY: as above.
            #[allow(unused_unsafe, reason = "some conditions are safe")]
            let asked = if unsafe { $may } { ask(call) } else { None };
            asked.unwrap_or_else(call)
        }
    )*};
}

asks! {
    /// `gethostbyname(3)`
    fn gethostbyname(name: *const c_char) -> *mut hostent, if may_ask(name);

    /// `gethostbyname2(3)`
    fn gethostbyname2(name: *const c_char, family: c_int) -> *mut hostent, if may_ask(name);

    /// `gethostbyname_r(3)`
    fn gethostbyname_r(name: *const c_char, into: *mut hostent, buf: *mut c_char, len: size_t,
        found: *mut *mut hostent, why: *mut c_int) -> c_int, if may_ask(name);

    /// `gethostbyname2_r(3)`
    fn gethostbyname2_r(name: *const c_char, family: c_int, into: *mut hostent, buf: *mut c_char,
        len: size_t, found: *mut *mut hostent, why: *mut c_int) -> c_int, if may_ask(name);

    /// `gethostbyaddr(3)`
    fn gethostbyaddr(addr: *const c_void, len: socklen_t, family: c_int) -> *mut hostent, if true;

    /// `gethostbyaddr_r(3)`
    fn gethostbyaddr_r(addr: *const c_void, len: socklen_t, family: c_int, into: *mut hostent,
        buf: *mut c_char, buf_len: size_t, found: *mut *mut hostent, why: *mut c_int) -> c_int,
        if true;

    /// `getnameinfo(3)`
    fn getnameinfo(addr: *const sockaddr, len: socklen_t, host: *mut c_char, host_len: socklen_t,
        service: *mut c_char, service_len: socklen_t, flags: c_int) -> c_int,
        if flags & libc::NI_NUMERICHOST == 0 && !host.is_null();
}
