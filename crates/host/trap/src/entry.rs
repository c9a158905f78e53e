//! Where the kernel enters the library, and where the library leaves for the program.
//!
//! The signal's frame stays where the kernel laid it: on the program's stack, or on the one it
//! named for signals. That stack counts as unused as long as the library runs on its own, so it is
//! always set with SS_AUTODISARM: the kernel then takes it away while the handler runs.
//!
//! A signal that comes on the way out, between the last look at `deferred` and the kernel, has the
//! thread turn back ([`crate::signals`]): that is the range from `leave` to `left`.

use std::arch::global_asm;

use crate::block;
use crate::{calls, range, signals, sites};

/// `si_code` of a SIGSYS that Syscall User Dispatch sent.
const SYS_USER_DISPATCH: i32 = 2;
/// Where the frame has the interrupted instruction (`REG_RIP` of `ucontext_t`).
const UC_RIP: usize = 40 + 8 * libc::REG_RIP as usize;

global_asm!(
    ".hidden clearway_trap_sigsys, clearway_trap_signal, clearway_trap_leave",
    ".hidden clearway_trap_left, clearway_trap_slow, clearway_trap_restorer",
    ".hidden clearway_trap_child, clearway_trap_exit, clearway_trap_enter",
    ".globl clearway_trap_sigsys, clearway_trap_signal, clearway_trap_leave",
    ".globl clearway_trap_left, clearway_trap_slow, clearway_trap_restorer",
    ".globl clearway_trap_child, clearway_trap_exit, clearway_trap_enter",
    // The handler of SIGSYS.
    "clearway_trap_sigsys:",
    "cmp dword ptr [rsi + 8], {dispatched}",
    "jne 5f",
    "cmp qword ptr gs:[{in_agent}], 0",
    "jne 4f",
    "mov qword ptr gs:[{in_agent}], 1",
    "rdfsbase rax",
    "mov qword ptr gs:[{program_fs}], rax",
    "mov rax, qword ptr gs:[{agent_fs}]",
    "wrfsbase rax",
    "mov qword ptr gs:[{frame}], rsp",
    "mov rsp, qword ptr gs:[{agent_sp}]",
    "mov rdi, rdx",
    "mov rsi, qword ptr gs:[{itself}]",
    "call {call}",
    "clearway_trap_leave:",
    "cmp qword ptr gs:[{deferred}], 0",
    "jne clearway_trap_slow",
    "mov rax, qword ptr gs:[{program_fs}]",
    "wrfsbase rax",
    "mov rsp, qword ptr gs:[{frame}]",
    "add rsp, 8",
    "mov qword ptr gs:[{in_agent}], 0",
    "mov eax, {sigreturn}",
    "syscall",
    "clearway_trap_left:",
    "ud2",
    // A signal came. All of them are blocked from here on.
    "clearway_trap_slow:",
    "mov rax, qword ptr gs:[{agent_fs}]",
    "wrfsbase rax",
    "mov qword ptr gs:[{in_agent}], 1",
    "mov rsp, qword ptr gs:[{agent_sp}]",
    "mov rdi, qword ptr gs:[{frame}]",
    "add rdi, 8",
    "mov rsi, qword ptr gs:[{itself}]",
    "call {send_again}",
    "mov rax, qword ptr gs:[{program_fs}]",
    "wrfsbase rax",
    "mov rsp, qword ptr gs:[{frame}]",
    "add rsp, 8",
    "mov qword ptr gs:[{in_agent}], 0",
    "mov eax, {sigreturn}",
    "syscall",
    "ud2",
    // A system call of the library's own, made from where it was not when the range was measured.
    "4:",
    "mov rdi, rdx",
    "jmp {nested}",
    // Another SIGSYS: the program's own affair.
    "5:",
    "mov rax, qword ptr [rip + {handlers} + 8 * {sigsys}]",
    "test rax, rax",
    "jz 6f",
    "jmp rax",
    "6:",
    "jmp {foreign}",
    // The handler of every signal for which the program has one.
    "clearway_trap_signal:",
    "rdgsbase rax",
    "test rax, rax",
    "jz 3f",
    "cmp qword ptr gs:[{in_agent}], 0",
    "jne 2f",
    "mov rax, qword ptr [rdx + {uc_rip}]",
    "lea rcx, [rip + clearway_trap_leave]",
    "cmp rax, rcx",
    "jb 1f",
    "lea rcx, [rip + clearway_trap_left]",
    "cmp rax, rcx",
    "jb 2f",
    "1:",
    "lea rcx, [rip + {handlers}]",
    "mov rax, qword ptr [rcx + 8 * rdi]",
    "jmp rax",
    "2:",
    "push rbx",
    "rdfsbase rbx",
    "mov rax, qword ptr gs:[{agent_fs}]",
    "wrfsbase rax",
    "mov rcx, qword ptr gs:[{itself}]",
    "call {interrupted}",
    "wrfsbase rbx",
    "pop rbx",
    "ret",
    "3:",
    "jmp {stranger}",
    // Where handlers of the program return to.
    "clearway_trap_restorer:",
    "mov eax, {sigreturn}",
    "syscall",
    "ud2",
    // A new thread or child, on its own stack, with the program's registers; rcx is where it goes
    // on. The kernel does not pass dispatch on, so it is switched on here.
    "clearway_trap_child:",
    "mov qword ptr gs:[{saved}], rcx",
    "mov qword ptr gs:[{saved} + 8], rdi",
    "mov qword ptr gs:[{saved} + 16], rsi",
    "mov qword ptr gs:[{saved} + 24], rdx",
    "mov qword ptr gs:[{saved} + 32], r10",
    "mov qword ptr gs:[{saved} + 40], r8",
    "mov edi, {set_dispatch}",
    "mov esi, 1",
    "mov rdx, qword ptr [rip + {range}]",
    "mov r10, qword ptr [rip + {range} + 8]",
    "xor r8d, r8d",
    "mov eax, {prctl}",
    "syscall",
    "mov rdi, qword ptr gs:[{saved} + 8]",
    "mov rsi, qword ptr gs:[{saved} + 16]",
    "mov rdx, qword ptr gs:[{saved} + 24]",
    "mov r10, qword ptr gs:[{saved} + 32]",
    "mov r8, qword ptr gs:[{saved} + 40]",
    "xor eax, eax",
    "jmp qword ptr gs:[{saved}]",
    // A thread ends: its block is another's as soon as the first instruction is done, and nothing
    // of it is used after that. Signals are blocked.
    "clearway_trap_exit:",
    "mov dword ptr gs:[{state}], 0",
    "syscall",
    "ud2",
    // The program begins: rdi is its stack, rsi its first instruction.
    "clearway_trap_enter:",
    "mov rsp, rdi",
    "mov rax, rsi",
    "xor ebx, ebx",
    "xor ecx, ecx",
    "xor edx, edx",
    "xor esi, esi",
    "xor edi, edi",
    "xor ebp, ebp",
    "xor r8d, r8d",
    "xor r9d, r9d",
    "jmp rax",
    dispatched = const SYS_USER_DISPATCH,
    in_agent = const block::IN_AGENT,
    program_fs = const block::PROGRAM_FS,
    agent_fs = const block::AGENT_FS,
    agent_sp = const block::AGENT_SP,
    frame = const block::FRAME,
    itself = const block::ITSELF,
    deferred = const block::DEFERRED,
    saved = const block::SAVED,
    state = const block::STATE,
    sigreturn = const libc::SYS_rt_sigreturn,
    prctl = const libc::SYS_prctl,
    set_dispatch = const range::PR_SET_SYSCALL_USER_DISPATCH,
    sigsys = const libc::SIGSYS,
    uc_rip = const UC_RIP,
    call = sym calls::called,
    nested = sym sites::nested,
    send_again = sym signals::send_again,
    foreign = sym signals::foreign,
    interrupted = sym signals::interrupted,
    stranger = sym signals::stranger,
    handlers = sym signals::HANDLERS,
    range = sym range::RANGE,
);

// SAFETY: defined above; of all but the last only the addresses are used.
unsafe extern "C" {
    pub(crate) fn clearway_trap_sigsys();
    pub(crate) fn clearway_trap_signal();
    pub(crate) fn clearway_trap_leave();
    pub(crate) fn clearway_trap_left();
    pub(crate) fn clearway_trap_slow();
    pub(crate) fn clearway_trap_restorer();
    pub(crate) fn clearway_trap_exit();
    /// Never returns.
    pub(crate) fn clearway_trap_enter(stack: usize, entry: usize) -> !;
}

/// The address of a place in the assembly.
pub(crate) fn address(place: unsafe extern "C" fn()) -> usize {
    place as *const () as usize
}
