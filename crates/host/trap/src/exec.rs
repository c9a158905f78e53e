//! Programs that the program executes: one that goes round libraries is started as this one was, any
//! other with the library before its own.

use std::ffi::{CStr, c_char};
use std::ptr;

use crate::carry::{carried, list, path_in};
use crate::preload;
use crate::start::{carrier_and_program, hooks};

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
    if path.is_null() {
        return None;
    }
    // SAFETY: the program's.
    let at = path_in(folder, unsafe { CStr::from_ptr(path) }, flags)?;
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
    // SAFETY: C strings of the program's.
    let _shown = unsafe { preload::show(&mut environment) };
    // An environment of the program's own making lacks the variable. The library may put it back.
    // SAFETY: as above.
    let is_loaded =
        unsafe { preload::is_in(&environment) || (hooks().keeps_library)(&environment) };
    let path = match path.to_bytes() {
        b"/proc/self/exe" => carrier_and_program().1,
        _ => path,
    };
    if is_loaded {
        // SAFETY: as the caller says.
        match unsafe { carried(path, argv, &environment, carrier_and_program().0) } {
            Ok(Some(carried)) => {
                let (path, argv) = (carried.path.as_ptr(), carried.argv.as_ptr());
                // SAFETY: lists that end in null pointers.
                return unsafe {
                    (hooks().execve)(path, argv, carried.environment.as_ptr()) as isize
                };
            }
            Ok(None) => {}
            Err(error) => return -(error.raw_os_error().unwrap_or(libc::ENOENT) as isize),
        }
    }
    environment.push(ptr::null());
    // SAFETY: the program's, and a list of ours that ends in a null pointer.
    unsafe { (hooks().execve)(path.as_ptr(), argv, environment.as_ptr()) as isize }
}
