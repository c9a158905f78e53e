//! Programs that the program executes: a statically linked one is started as this one was, any
//! other with the library before its own.

use std::ffi::{CStr, CString, OsStr, c_char};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::ptr;

use crate::PROGRAM_VARIABLE;
use crate::image;
use crate::start::{DESCRIPTORS, carrier_and_program, hooks};

/// As much of a script's first line as Linux reads.
const MAX_FIRST_LINE: u64 = 256;

/// `execve(2)`: a negative errno when it comes back.
///
/// # Safety
/// The words are the program's.
pub(crate) unsafe fn execve(words: [usize; 6]) -> isize {
    let path = words[0] as *const c_char;
    let (argv, envp) = (words[1] as *const *const c_char, words[2] as *const *const c_char);
    if path.is_null() {
        return -(libc::EFAULT as isize);
    }
    // SAFETY: the program's.
    let path = unsafe { CStr::from_ptr(path) };
    // SAFETY: the program's lists end in null pointers.
    unsafe { execute(path, argv, envp) }
}

/// `execveat(2)`. None: the kernel shall do it, to say what is wrong with it.
///
/// # Safety
/// The words are the program's.
pub(crate) unsafe fn execveat(words: [usize; 6]) -> Option<isize> {
    let (folder, path, flags) = (words[0] as i32, words[1] as *const c_char, words[4] as i32);
    if path.is_null() || flags & !libc::AT_EMPTY_PATH != 0 {
        return None;
    }
    // SAFETY: the program's.
    let path = unsafe { CStr::from_ptr(path) };
    let at = match path.to_bytes() {
        b"" if flags & libc::AT_EMPTY_PATH == 0 => return None,
        b"" => CString::new(format!("{DESCRIPTORS}{folder}")).ok()?,
        [b'/', ..] => path.to_owned(),
        _ if folder == libc::AT_FDCWD => path.to_owned(),
        bytes => {
            let at = [format!("{DESCRIPTORS}{folder}/").as_bytes(), bytes].concat();
            CString::new(at).ok()?
        }
    };
    // SAFETY: the program's lists end in null pointers.
    Some(unsafe {
        execute(&at, words[2] as *const *const c_char, words[3] as *const *const c_char)
    })
}

/// # Safety
/// The lists are null, or end in null pointers.
unsafe fn execute(path: &CStr, argv: *const *const c_char, envp: *const *const c_char) -> isize {
    // SAFETY: as the caller says.
    let mut environment = unsafe { list(envp) };
    // An environment of the program's own making lacks the variable. The library may put it back.
    let is_loaded = environment.iter().any(|line| {
        // SAFETY: a C string of the program's.
        unsafe { CStr::from_ptr(*line) }.to_bytes().starts_with(b"LD_PRELOAD=")
    })
    // SAFETY: C strings of the program's.
    || unsafe { (hooks().keeps_library)(&environment) };
    let (own, arguments);
    let (mut path, mut argv) = match path.to_bytes() {
        b"/proc/self/exe" => (carrier_and_program().1, argv),
        _ => (path, argv),
    };
    if let Some((program, before)) = interpreted(path).filter(|_| is_loaded) {
        own = program;
        // SAFETY: as the caller says.
        let rest = unsafe { list(argv) };
        let mut words = vec![own.as_ptr()];
        words.extend(before.iter().map(|word| word.as_ptr()));
        words.push(path.as_ptr());
        words.extend(rest.iter().skip(1));
        words.push(ptr::null());
        arguments = (words, before);
        path = &own;
        argv = arguments.0.as_ptr();
    }
    if !is_loaded || !is_static(path) {
        // SAFETY: the program's, or lists of ours that end in null pointers.
        return unsafe { (hooks().execve)(path.as_ptr(), argv, envp) } as isize;
    }
    let (name, _open) = match lasting_name(OsStr::from_bytes(path.to_bytes())) {
        Ok(name) => name,
        Err(error) => return -(error.raw_os_error().unwrap_or(libc::ENOENT) as isize),
    };
    let variable = [PROGRAM_VARIABLE.as_bytes(), b"=", name.as_os_str().as_bytes()].concat();
    let Ok(variable) = CString::new(variable) else { return -(libc::ENOENT as isize) };
    environment.push(variable.as_ptr());
    environment.push(ptr::null());
    let carrier = carrier_and_program().0;
    // SAFETY: lists that end in null pointers.
    unsafe { (hooks().execve)(carrier.as_ptr(), argv, environment.as_ptr()) as isize }
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
unsafe fn list(mut at: *const *const c_char) -> Vec<*const c_char> {
    let mut words = Vec::new();
    // SAFETY: as the caller says.
    while let Some(&word) = unsafe { at.as_ref() }.filter(|word| !word.is_null()) {
        words.push(word);
        // SAFETY: not the end yet.
        at = unsafe { at.add(1) };
    }
    words
}

fn file(path: &CStr) -> Option<File> {
    File::open(OsStr::from_bytes(path.to_bytes())).ok()
}

/// Whether this process can go on as the program: not where it gets rights by being executed.
fn is_static(path: &CStr) -> bool {
    let Some(file) = file(path) else { return false };
    let mode = file.metadata().map_or(0, |is| is.permissions().mode());
    mode & 0o111 != 0 && mode & 0o6000 == 0 && image::is_static(&file)
}

/// The interpreter of a script, where that is statically linked, and the word behind it.
fn interpreted(path: &CStr) -> Option<(CString, Option<CString>)> {
    let mut line = Vec::new();
    file(path)?.take(MAX_FIRST_LINE).read_to_end(&mut line).ok()?;
    let line = line.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?.trim_ascii();
    let end = line.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
    let interpreter = CString::new(&line[..end]).ok()?;
    let word = Some(line[end..].trim_ascii()).filter(|word| !word.is_empty());
    is_static(&interpreter).then(|| (interpreter, word.and_then(|word| CString::new(word).ok())))
}
