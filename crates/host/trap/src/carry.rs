//! Programs whose system calls are to be trapped, started in a process that can do it
//! (`clearway-trap`): by one that is trapped itself, or has the library in it.

use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::ptr;

use clearway_program::{Elf, Kind, PAGE, Script, Segment, TRAPPED_VARIABLE, script};

/// Program headers at most (as Linux, which reads one page of them).
const MAX_HEADERS: u16 = 73;

/// Where the kernel shows what a process has open.
pub(crate) const DESCRIPTORS: &str = "/proc/self/fd/";

/// The path of what `execveat(2)` is told. None: it leads nowhere, or there are other flags.
pub fn path_in(folder: c_int, path: &CStr, flags: c_int) -> Option<CString> {
    if flags & !libc::AT_EMPTY_PATH != 0 {
        return None;
    }
    match path.to_bytes() {
        b"" if flags & libc::AT_EMPTY_PATH == 0 => None,
        b"" => CString::new(format!("{DESCRIPTORS}{folder}")).ok(),
        [b'/', ..] => Some(path.to_owned()),
        _ if folder == libc::AT_FDCWD => Some(path.to_owned()),
        bytes => CString::new([format!("{DESCRIPTORS}{folder}/").as_bytes(), bytes].concat()).ok(),
    }
}

/// What is executed in the place of a program whose system calls are to be trapped.
#[derive(Debug)]
pub struct Carried {
    /// `clearway-trap`.
    pub path: CString,
    /// The program's arguments, with a null pointer at the end.
    pub argv: Vec<*const c_char>,
    /// Its environment, and which program it is.
    pub environment: Vec<*const c_char>,
    _words: Vec<CString>,
    _open: Option<OwnedFd>,
}

/// The program in a process that can trap its calls. None: it can be executed as it is, with the
/// library in it, or the kernel shall say what is wrong with it, or there is no `clearway-trap`
/// below this root, and it is executed as it is, too.
///
/// # Safety
/// `argv` is null, or ends in a null pointer; the environment are C strings. What both point to has
/// to live as long as what is answered.
pub unsafe fn carried(
    path: &CStr,
    argv: *const *const c_char,
    environment: &[*const c_char],
    carrier: &CStr,
) -> io::Result<Option<Carried>> {
    // SAFETY: as the caller says.
    let mut argv = unsafe { list(argv) };
    let mut words = Vec::new();
    if let Some((interpreter, word)) = interpreted(path) {
        // As Linux does: the interpreter, its word, the script, and the other arguments.
        words.push(interpreter);
        words.extend(word);
        words.push(path.to_owned());
        let before = words.iter().map(|word| word.as_ptr());
        argv.splice(..argv.len().min(1), before);
    } else if !can_be_carried(path) {
        return Ok(None);
    }
    if !is_there(carrier) {
        return Ok(None);
    }
    let program = words.first().map_or(path, |interpreter| interpreter);
    let (name, open) = lasting_name(OsStr::from_bytes(program.to_bytes()))?;
    let variable = [TRAPPED_VARIABLE.as_bytes(), b"=", name.as_os_str().as_bytes()].concat();
    let variable = CString::new(variable)?;
    let mut environment = environment.to_vec();
    environment.push(variable.as_ptr());
    words.push(variable);
    argv.push(ptr::null());
    environment.push(ptr::null());
    Ok(Some(Carried { path: carrier.to_owned(), argv, environment, _words: words, _open: open }))
}

/// The process may execute it.
fn is_there(path: &CStr) -> bool {
    // SAFETY: a C string.
    unsafe { libc::access(path.as_ptr(), libc::X_OK) == 0 }
}

/// A name by which the file is found once the program is executed, and what has to stay open until
/// then. A path through a descriptor (`fexecve`) leads nowhere after one that is closed on exec.
fn lasting_name(path: &OsStr) -> io::Result<(PathBuf, Option<OwnedFd>)> {
    let path = std::path::absolute(path)?;
    if !path.starts_with("/proc") && !path.starts_with("/dev") {
        return Ok((path, None));
    }
    let file = File::open(&path)?;
    let is = file.metadata()?;
    let name = std::fs::read_link(format!("{DESCRIPTORS}{}", file.as_raw_fd()))?;
    if std::fs::metadata(&name).is_ok_and(|at| (at.dev(), at.ino()) == (is.dev(), is.ino())) {
        return Ok((name, None));
    }
    // A file without a name: of memory, or removed. This one is not closed on exec.
    // SAFETY: a descriptor of ours; what comes back is nobody else's.
    let open = unsafe {
        match libc::fcntl(file.as_raw_fd(), libc::F_DUPFD, 3) {
            -1 => return Err(io::Error::last_os_error()),
            fd => OwnedFd::from_raw_fd(fd),
        }
    };
    Ok((format!("{DESCRIPTORS}{}", open.as_raw_fd()).into(), Some(open)))
}

/// # Safety
/// Null, or a list that ends in a null pointer.
pub(crate) unsafe fn list(mut at: *const *const c_char) -> Vec<*const c_char> {
    let mut words = Vec::new();
    // SAFETY: as the caller says.
    while let Some(&word) = unsafe { at.as_ref() }.filter(|word| !word.is_null()) {
        words.push(word);
        // SAFETY: not the end yet.
        at = unsafe { at.add(1) };
    }
    words
}

/// Whether this process can go on as the program: not where it gets rights by being executed.
fn can_be_carried(path: &CStr) -> bool {
    if cfg!(not(target_arch = "x86_64")) {
        return false;
    }
    let Ok(file) = File::open(OsStr::from_bytes(path.to_bytes())) else { return false };
    let mode = file.metadata().map_or(0, |is| is.permissions().mode());
    mode & 0o111 != 0
        && mode & 0o6000 == 0
        && mappable(&file)
            .is_some_and(|elf| elf.goes_round_libraries() || elf.waits_by_itself(&file))
}

/// The interpreter of a script, where that is to be trapped, and the word behind it.
fn interpreted(path: &CStr) -> Option<(CString, Option<CString>)> {
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    let Script { interpreter, word } = script(path).ok().flatten()?;
    let c_string = |word: &OsStr| CString::new(word.as_bytes()).ok();
    let interpreter = c_string(interpreter.as_os_str())?;
    can_be_carried(&interpreter).then(|| (interpreter, word.and_then(|word| c_string(&word))))
}

/// A program that can be mapped.
pub(crate) fn mappable(file: &File) -> Option<Elf> {
    let elf = Elf::read(file).ok().flatten()?;
    let fits = |segment: &Segment| {
        segment.in_file <= segment.in_memory
            && segment.offset % PAGE == segment.address % PAGE
            && segment.address.checked_add(segment.in_memory).is_some_and(|end| end < 1 << 46)
    };
    let known = elf.is_for_this_machine()
        && elf.kind != Kind::Other
        && elf.headers <= MAX_HEADERS
        && !elf.segments.is_empty();
    (known && elf.segments.iter().all(fits)).then_some(elf)
}
