use super::*;

extern "C-unwind" fn nothing(_: c_int) {}

fn action(handler: usize, flags: c_int) -> Action {
    // SAFETY: all of it are numbers.
    let mut action = unsafe { mem::zeroed::<Action>() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    action
}

#[test]
fn a_program_sees_its_own_handlers_as_it_installed_them() {
    let own = nothing as *const () as usize;
    for flags in [0, libc::SA_RESTART, libc::SA_SIGINFO, libc::SA_SIGINFO | libc::SA_NODEFER] {
        let mut seen = action(own, flags);
        let handler = wrap(&mut seen);
        assert_eq!(seen.sa_sigaction, entry_address());
        assert_eq!(seen.sa_flags, flags | libc::SA_SIGINFO);
        unwrap(&mut seen, handler);
        assert_eq!((seen.sa_sigaction, seen.sa_flags), (own, flags));
    }
}

#[test]
fn what_the_kernel_has_past_the_library_is_shown_as_it_is() {
    for handler in [libc::SIG_DFL, libc::SIG_IGN, nothing as *const () as usize] {
        let mut seen = action(handler, libc::SA_RESTART);
        unwrap(&mut seen, WITH_INFO | 0x1000);
        assert_eq!((seen.sa_sigaction, seen.sa_flags), (handler, libc::SA_RESTART));
    }
}

#[test]
fn signals_of_faults_and_numbers_that_are_none_are_the_c_librarys() {
    for signal in [libc::SIGSEGV, libc::SIGBUS, 0, -1, 65] {
        assert!(slot(signal).is_none());
    }
    assert!(slot(libc::SIGTERM).is_some() && slot(64).is_some());
}
