//! From a process with the libraries in it to the program.

use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;

use clearway_program::{PRELOAD, TRAPPED_VARIABLE, value_of};

use crate::carry::DESCRIPTORS;
use crate::image::Image;
use crate::{Hooks, block, brk, entry, image, preload, range, raw, signals};

static HOOKS: OnceLock<Hooks> = OnceLock::new();
static PATHS: OnceLock<(CString, CString)> = OnceLock::new();

/// Says a sentence to the user.
pub(crate) fn tell(sentence: &str) {
    (hooks().tell)(sentence);
}

/// What the library gave to [`start`].
pub(crate) fn hooks() -> &'static Hooks {
    HOOKS.get().expect("set before the first call is trapped")
}

/// The file of this process as the kernel knows it, and the program's.
pub(crate) fn carrier_and_program() -> (&'static CStr, &'static CStr) {
    let (carrier, program) = PATHS.get().expect("set before the first call is trapped");
    (carrier, program)
}

/// Maps the program that [`TRAPPED_VARIABLE`] names and goes on as it. It comes back when it
/// cannot, with a sentence that says why.
///
/// # Safety
/// `argv` is where the kernel put the arguments of this process, and no other thread runs.
pub unsafe fn start(argv: *mut *mut c_char, hooks: Hooks) -> String {
    match prepared(hooks) {
        Ok(image) => {
            // SAFETY: as the caller says.
            unsafe { enter(argv, &image) }
        }
        Err(sentence) => sentence,
    }
}

fn prepared(hooks: Hooks) -> Result<Image, String> {
    /// Bit of AT_HWCAP2: the instructions that read and write thread pointers may be used.
    const FSGSBASE: u64 = 1 << 1;
    // SAFETY: asks for a number.
    if unsafe { libc::getauxval(libc::AT_HWCAP2) } & FSGSBASE == 0 {
        return Err("the processor or the kernel lets programs set no thread pointer (FSGSBASE, \
            Linux 5.9)"
            .into());
    }
    let program = std::env::var_os(TRAPPED_VARIABLE)
        .ok_or("`clearway run --trap` starts this, with the program to be run")?;
    let carrier = std::fs::read_link("/proc/self/exe")
        .map_err(|error| format!("/proc/self/exe cannot be read: {error}"))?;
    let c_string = |path: &OsStr| CString::new(path.as_bytes()).map_err(|error| error.to_string());
    let paths = (c_string(carrier.as_os_str())?, c_string(&program)?);
    // Both are set once.
    let _ = (PATHS.set(paths), HOOKS.set(hooks));
    // Before the program's own code is there.
    range::measure()?;
    let image = image::map(Path::new(&program))?;
    close_on_exec(Path::new(&program));
    brk::reserve()?;
    let block = block::of_main_thread()?;
    block::set_gs_base(ptr::from_ref(block) as usize);
    signals::install();
    signals::settle_the_librarys();
    raw::know_process();
    give_rseq_back();
    let name = Path::new(&program).file_name().unwrap_or_default();
    if let Ok(name) = CString::new(name.as_bytes()) {
        // SAFETY: a C string, of which Linux takes the first fifteen bytes.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    }
    range::dispatch()?;
    Ok(image)
}

/// A program without a name came by a descriptor, which it keeps to be executed again, but does not
/// hand on.
fn close_on_exec(program: &Path) {
    let number = program.strip_prefix(DESCRIPTORS).ok().and_then(|number| number.to_str());
    if let Some(fd) = number.and_then(|number| number.parse().ok()) {
        // SAFETY: changes a flag of a descriptor.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

/// A thread has one area of restartable sequences, which the program may want.
fn give_rseq_back() {
    /// From `linux/rseq.h`, and what glibc registers.
    const UNREGISTER: usize = 1;
    const LEN: usize = 32;
    const SIGNATURE: usize = 0x5305_3053;
    // SAFETY: the name is a C string.
    let offset = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()) };
    // SAFETY: null, or the C library's constant of this type.
    if let Some(offset) = unsafe { offset.cast::<isize>().as_ref() } {
        // SAFETY: what pthread_self points to is the thread pointer on x86-64; the kernel refuses
        // an area that is not registered.
        unsafe {
            let area = (libc::pthread_self() as usize).wrapping_add_signed(*offset);
            raw::syscall(libc::SYS_rseq, [area, LEN, UNREGISTER, SIGNATURE, 0, 0]);
        }
    }
}

/// Goes on as the program, with the arguments, the environment and what else the kernel laid on
/// the stack.
///
/// # Safety
/// As for [`start`].
unsafe fn enter(argv: *mut *mut c_char, image: &Image) -> ! {
    // SAFETY: behind the arguments are the environment and the auxiliary vector, each with its end.
    unsafe {
        let mut at = argv;
        while !(*at).is_null() {
            at = at.add(1);
        }
        let auxiliary = environment(at.add(1), image.loader.is_some()).cast::<[usize; 2]>();
        correct(auxiliary, image);
        let first = image.loader.map_or(image.entry, |loader| loader.entry);
        entry::clearway_trap_enter(argv.sub(1) as usize, first)
    }
}

/// Takes out what is not for the program: which program it is, and, where it has a loader, the
/// library, which must not be loaded once more. What lies behind the environment.
///
/// # Safety
/// An environment that ends in a null pointer, followed by the auxiliary vector.
unsafe fn environment(first: *mut *mut c_char, has_loader: bool) -> *mut c_void {
    // SAFETY: as the caller says; each line is a C string of this process, and never freed.
    let lines = unsafe {
        let mut len = 0;
        while !(*first.add(len)).is_null() {
            len += 1;
        }
        std::slice::from_raw_parts_mut(first, len)
    };
    // SAFETY: as above.
    let line = |at: *mut c_char| unsafe { CStr::from_ptr(at) }.to_bytes();
    let is_program = |at: *mut c_char| value_of(line(at), TRAPPED_VARIABLE).is_some();
    let is_preload = |at: *mut c_char| has_loader && line(at).starts_with(PRELOAD);
    // Programs look for the auxiliary vector right behind the environment, so nothing can be
    // moved: another variable stands there twice.
    let mut spare = lines.iter().copied().find(|at| !is_program(*at) && !is_preload(*at));
    let mut hidden = None;
    if has_loader {
        let list = lines.iter().find_map(|at| line(*at).strip_prefix(PRELOAD));
        let (ours, others) = preload::split(list.unwrap_or_default());
        hidden = preload::hidden(&ours).map(CString::into_raw);
        spare = preload::line(&others).map(CString::into_raw).or(spare);
    }
    for at in lines.iter_mut().filter(|at| is_preload(**at)) {
        *at = spare.or(hidden).unwrap_or(*at);
    }
    for at in lines.iter_mut().filter(|at| is_program(**at)) {
        *at = hidden.or(spare).unwrap_or(*at);
    }
    lines.as_mut_ptr_range().end.wrapping_add(1).cast()
}

/// Has the auxiliary vector tell of the program.
///
/// # Safety
/// An auxiliary vector, with its end.
unsafe fn correct(mut at: *mut [usize; 2], image: &Image) {
    // SAFETY: as the caller says.
    while let Some([kind, value]) = unsafe { at.as_mut() }.filter(|pair| pair[0] != 0) {
        match *kind as u64 {
            libc::AT_PHDR => *value = image.headers,
            libc::AT_PHNUM => *value = image.count,
            libc::AT_ENTRY => *value = image.entry,
            libc::AT_BASE => *value = image.loader.map_or(0, |loader| loader.base),
            libc::AT_EXECFN => *value = carrier_and_program().1.as_ptr() as usize,
            _ => {}
        }
        // SAFETY: not the end yet.
        at = unsafe { at.add(1) };
    }
}
