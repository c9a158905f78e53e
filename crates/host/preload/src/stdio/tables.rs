//! The C library's own streams over a descriptor behind which a connection stands: the standard
//! ones, those of `fdopen`, those that were opened before `dup2` put it there, and `dprintf`.
//!
//! Inside, the C library reads, writes and closes by system calls that nobody can stand in for. But
//! every stream does it by a table of functions, which all ordinary streams of the process share
//! (`_IO_file_jumps`, and `_IO_wfile_jumps` for wide characters), and which glibc exports. Three
//! entries of these are replaced by functions that ask first whose the descriptor is. The C library
//! has the tables written once and write-protected from then on, and so they are afterwards. Where
//! a table is not laid out as it has been since glibc 2.1, nothing is changed: what such a stream
//! writes is refused then, as all bytes that go round this library are.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use libc::{FILE, size_t, ssize_t};

use super::{Head, write_all};
use crate::object::TABLE;
use crate::{files, modules, real, transfer};

type Read = unsafe extern "C-unwind" fn(*mut FILE, *mut c_void, ssize_t) -> ssize_t;
type Write = unsafe extern "C-unwind" fn(*mut FILE, *const c_void, ssize_t) -> ssize_t;
type Close = unsafe extern "C-unwind" fn(*mut FILE) -> c_int;

/// An entry of a table (`struct _IO_jump_t` of glibc's `libioP.h`): its place, the function that
/// stands there, the C library's name for it, and ours.
struct Entry {
    place: usize,
    name: &'static CStr,
    ours: fn() -> usize,
}

const ENTRIES: [Entry; 3] = [
    Entry { place: 14, name: c"_IO_file_read", ours: || read as Read as usize },
    Entry { place: 15, name: c"_IO_file_write", ours: || write as Write as usize },
    Entry { place: 17, name: c"_IO_file_close", ours: || close as Close as usize },
];

const TABLES: [&CStr; 2] = [c"_IO_file_jumps", c"_IO_wfile_jumps"];

/// Entries of a table.
const TABLE_LEN: usize = 21;

/// The C library's functions, in the order of [`ENTRIES`]; 0 before they are known.
static THEIRS: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

/// `_IO_ERR_SEEN`: what `ferror` tells.
const ERROR_SEEN: c_int = 0x20;

static SERVED: AtomicBool = AtomicBool::new(false);

/// From now on streams ask whose their descriptor is.
pub(crate) fn serve() {
    // Nobody waits for who does so: in a child of a fork there may be nobody. Until it is done, and
    // where it never is, streams get functions of their own.
    static BEGUN: AtomicBool = AtomicBool::new(false);
    if BEGUN.load(Ordering::Relaxed) || BEGUN.swap(true, Ordering::Relaxed) {
        return;
    }
    let errno = crate::errno::get();
    if learn() {
        let replaced = TABLES.map(replace);
        SERVED.store(replaced == [true; 2], Ordering::Release);
    }
    crate::errno::set(errno);
}

/// Do all ordinary streams ask? Else one over a socket of Clearway needs functions of its own.
pub(super) fn is_served() -> bool {
    SERVED.load(Ordering::Acquire)
}

fn symbol(name: &CStr) -> usize {
    // SAFETY: the name is a C string.
    unsafe { modules::look_up(libc::RTLD_DEFAULT, name.as_ptr()) }.addr()
}

/// Finds the C library's functions. False: it is another C library, or another version.
fn learn() -> bool {
    let found = ENTRIES.each_ref().map(|entry| symbol(entry.name));
    THEIRS.iter().zip(found).for_each(|(theirs, found)| theirs.store(found, Ordering::Release));
    found.iter().all(|found| *found != 0)
}

/// Puts our functions into a table, if the C library's stand where they should. False: they do not.
fn replace(name: &CStr) -> bool {
    let table = symbol(name);
    if table == 0 || table % size_of::<usize>() != 0 {
        return false;
    }
    let table = std::ptr::with_exposed_provenance_mut::<usize>(table);
    let slots = ENTRIES.each_ref().map(|entry| {
        // SAFETY: a table has more entries than this.
        unsafe { table.add(entry.place) }
    });
    // SAFETY: as above; the C library writes none of them after it was loaded.
    let is_known = slots
        .iter()
        .zip(&THEIRS)
        .all(|(slot, theirs)| unsafe { slot.read() } == theirs.load(Ordering::Acquire));
    if !is_known || !protect(table, libc::PROT_READ | libc::PROT_WRITE) {
        return false;
    }
    for (slot, entry) in slots.into_iter().zip(&ENTRIES) {
        // SAFETY: the entry is aligned and can be written now; who reads it meanwhile sees one
        // function or the other.
        unsafe { AtomicUsize::from_ptr(slot) }.store((entry.ours)(), Ordering::Release);
    }
    protect(table, libc::PROT_READ);
    true
}

/// Sets the protection of the pages that a table lies in.
fn protect(table: *mut usize, protection: c_int) -> bool {
    // SAFETY: asks for a constant of the system's.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as usize;
    let first = table.addr() / page * page;
    let len = table.addr() + TABLE_LEN * size_of::<usize>() - first;
    // SAFETY: the pages are the C library's data that is written at its start only.
    unsafe { libc::mprotect(table.with_addr(first).cast(), len, protection) == 0 }
}

/// The stream's descriptor, if this library knows it.
fn known(stream: *mut FILE) -> Option<c_int> {
    // SAFETY: the C library calls these functions with its streams.
    let fd = unsafe { real::fileno_unlocked(stream) };
    TABLE.has(fd).then_some(fd)
}

/// The C library's function at this place of [`ENTRIES`].
fn theirs(at: usize) -> *const () {
    std::ptr::with_exposed_provenance(THEIRS[at].load(Ordering::Acquire))
}

/// # Safety
/// As `_IO_file_read`.
unsafe extern "C-unwind" fn read(stream: *mut FILE, buf: *mut c_void, len: ssize_t) -> ssize_t {
    match known(stream) {
        // SAFETY: the C library's own buffer of so many bytes.
        Some(fd) => unsafe { transfer::read(fd, buf, len as size_t) },
        // SAFETY: the function that stood in our place, with its arguments.
        None => unsafe { std::mem::transmute::<*const (), Read>(theirs(0))(stream, buf, len) },
    }
}

/// # Safety
/// As `_IO_file_write`.
unsafe extern "C-unwind" fn write(stream: *mut FILE, buf: *const c_void, len: ssize_t) -> ssize_t {
    let Some(fd) = known(stream) else {
        // SAFETY: the function that stood in our place, with its arguments.
        return unsafe { std::mem::transmute::<*const (), Write>(theirs(1))(stream, buf, len) };
    };
    // SAFETY: the C library's own buffer of so many bytes.
    let written = unsafe { write_all(fd, buf.cast(), len as size_t) };
    if written < len {
        // SAFETY: any stream begins so, and the caller holds its lock.
        unsafe { (*stream.cast::<Head>()).flags |= ERROR_SEEN };
    }
    written
}

/// # Safety
/// As `_IO_file_close`.
unsafe extern "C-unwind" fn close(stream: *mut FILE) -> c_int {
    match known(stream) {
        Some(fd) => files::close_held(fd),
        // SAFETY: the function that stood in our place, with its argument.
        None => unsafe { std::mem::transmute::<*const (), Close>(theirs(2))(stream) },
    }
}
