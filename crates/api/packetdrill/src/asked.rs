//! What packetdrill asks the C library about our numbers.
//!
//! For the assertions in `%{ }%` packetdrill calls `getsockopt` of the C library and not that of
//! its struct. So the program's own entry for that function, in the table through which it calls
//! libraries, is led here: numbers of ours are answered by the adapter, all others by the C
//! library.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use libc::{Elf64_Phdr, Elf64_Rela, Elf64_Sym, dl_phdr_info, socklen_t};

use crate::options;
use crate::table::Data;
use crate::world::World;

/// The worlds that there are, as the struct's `userdata` has them.
static WORLDS: Mutex<Vec<usize>> = Mutex::new(Vec::new());

fn worlds() -> std::sync::MutexGuard<'static, Vec<usize>> {
    WORLDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on `data` is asked about its numbers.
pub(crate) fn begin(data: Data) {
    worlds().push(data as usize);
    // SAFETY: `lead` keeps to what the C library asks of it, and nobody unloads the program
    // meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(lead), std::ptr::null_mut()) };
}

/// `data` is about to end.
pub(crate) fn end(data: Data) {
    worlds().retain(|&world| world != data as usize);
}

/// Stands in for the program's `getsockopt`.
///
/// # Safety
/// As for `getsockopt(2)`.
unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    room: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    let mine = worlds().iter().copied().find(|&world| {
        let world: Option<&World> = (world as *const World).as_ref();
        world.is_some_and(|world| world.enter().sockets.contains_key(&fd))
    });
    match mine {
        Some(world) => options::getsockopt(world as Data, fd, level, name, room, len),
        None => libc::getsockopt(fd, level, name, room, len),
    }
}

/// The kinds of entries that hold a function's address.
#[cfg(target_arch = "x86_64")]
const ENTRIES: [u64; 2] = [6, 7];
#[cfg(target_arch = "aarch64")]
const ENTRIES: [u64; 2] = [1025, 1026];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ENTRIES: [u64; 0] = [];

/// Tags of the dynamic section (`elf.h`).
const PT_DYNAMIC: u32 = 2;
const DT_PLTRELSZ: u64 = 2;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_JMPREL: u64 = 23;

/// Looks through the program itself, which comes first, and stops there.
///
/// # Safety
/// As `dl_iterate_phdr(3)` calls it.
unsafe extern "C" fn lead(info: *mut dl_phdr_info, _size: usize, _data: *mut c_void) -> c_int {
    let base = (*info).dlpi_addr;
    let headers: &[Elf64_Phdr] =
        std::slice::from_raw_parts((*info).dlpi_phdr, usize::from((*info).dlpi_phnum));
    let Some(dynamic) = headers.iter().find(|header| header.p_type == PT_DYNAMIC) else { return 1 };
    let mut entry = (base + dynamic.p_vaddr) as *const [u64; 2];
    let mut found = [0u64; 24];
    while (*entry)[0] != 0 {
        let [tag, value] = *entry;
        if let Some(place) = found.get_mut(tag as usize) {
            *place = value;
        }
        entry = entry.add(1);
    }
    // The loader has made addresses of these where it writes to the section, and left distances
    // where not.
    let address = |tag: u64| match found[tag as usize] {
        0 => 0,
        value if value < base => base + value,
        value => value,
    };
    let (names, symbols) =
        (address(DT_STRTAB) as *const c_char, address(DT_SYMTAB) as *const Elf64_Sym);
    for (table, size) in [(DT_JMPREL, DT_PLTRELSZ), (DT_RELA, DT_RELASZ)] {
        let count = found[size as usize] as usize / size_of::<Elf64_Rela>();
        let relas: &[Elf64_Rela] = match address(table) {
            0 => &[],
            at => std::slice::from_raw_parts(at as *const Elf64_Rela, count),
        };
        for rela in relas.iter().filter(|rela| ENTRIES.contains(&(rela.r_info & 0xffff_ffff))) {
            let symbol = &*symbols.add((rela.r_info >> 32) as usize);
            if CStr::from_ptr(names.add(symbol.st_name as usize)) == c"getsockopt" {
                overwrite((base + rela.r_offset) as *mut usize, getsockopt as *const () as usize);
            }
        }
    }
    1
}

/// Writes over an entry, which the loader may have made read-only.
///
/// # Safety
/// `entry` is one of the program's.
unsafe fn overwrite(entry: *mut usize, value: usize) {
    let page = libc::sysconf(libc::_SC_PAGESIZE).max(1) as usize;
    let start = entry as usize / page * page;
    if libc::mprotect(start as *mut c_void, page, libc::PROT_READ | libc::PROT_WRITE) == 0 {
        entry.write_volatile(value);
    }
}
