//! The places from which the program makes the system calls that are the kernel's.
//!
//! A call that is not Clearway's is made again by the program itself, from inside of the range that
//! Syscall User Dispatch lets pass: `syscall`, and a jump back to behind the instruction that made
//! it first. All registers are the program's; the jump takes its target from memory, so there is
//! one such place for each instruction of the program that makes calls. Signals find the thread
//! there as they would in the program: between two instructions.

use std::arch::global_asm;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use libc::ucontext_t;

use crate::block::{self, Block};
use crate::{MAX_SITES, MAX_THREADS};

/// Places for calls whose registers are put back afterwards, because they are made with others than
/// the program's.
const RESTORING: usize = 64;

/// Bytes between two places of a kind, as `.balign` has it below.
const PLAIN_STEP: usize = 8;
const RESTORING_STEP: usize = 64;
const SPAWNING_STEP: usize = 128;

global_asm!(
    ".hidden clearway_trap_plain, clearway_trap_restoring, clearway_trap_spawning",
    ".globl clearway_trap_plain, clearway_trap_restoring, clearway_trap_spawning",
    ".balign 64",
    "clearway_trap_plain:",
    ".set clearway_trap_at, 0",
    ".rept {plain}",
    "syscall",
    "jmp qword ptr [rip + {plain_back} + clearway_trap_at]",
    ".set clearway_trap_at, clearway_trap_at + 8",
    ".endr",
    ".balign 64",
    "clearway_trap_restoring:",
    ".set clearway_trap_at, 0",
    ".rept {restoring}",
    ".balign 64",
    "syscall",
    "mov rdi, qword ptr [rsp]",
    "mov rsi, qword ptr [rsp + 8]",
    "mov rdx, qword ptr [rsp + 16]",
    "mov r10, qword ptr [rsp + 24]",
    "mov r8, qword ptr [rsp + 32]",
    "mov r9, qword ptr [rsp + 40]",
    "mov rsp, qword ptr [rsp + 48]",
    "jmp qword ptr [rip + {restoring_back} + clearway_trap_at]",
    ".set clearway_trap_at, clearway_trap_at + 8",
    ".endr",
    ".balign 128",
    "clearway_trap_spawning:",
    ".set clearway_trap_at, 0",
    ".rept {spawning}",
    ".balign 128",
    "syscall",
    "mov rcx, rax",
    "jrcxz 2f",
    // A child by `vfork` that executed a program left these as they were then.
    "mov qword ptr gs:[{in_agent}], 0",
    "mov qword ptr gs:[{deferred}], 0",
    "jmp qword ptr [rip + {spawning_back} + clearway_trap_at]",
    "2:",
    "mov rcx, qword ptr [rip + {spawning_block} + clearway_trap_at]",
    "wrgsbase rcx",
    "mov rcx, qword ptr [rip + {spawning_back} + clearway_trap_at]",
    "jmp clearway_trap_child",
    ".set clearway_trap_at, clearway_trap_at + 8",
    ".endr",
    in_agent = const block::IN_AGENT,
    deferred = const block::DEFERRED,
    plain = const MAX_SITES,
    plain_back = sym PLAIN_BACK,
    restoring = const RESTORING,
    restoring_back = sym RESTORING_BACK,
    spawning = const MAX_THREADS,
    spawning_back = sym SPAWNING_BACK,
    spawning_block = sym SPAWNING_BLOCK,
);

// SAFETY: defined above; only the addresses are used.
unsafe extern "C" {
    fn clearway_trap_plain();
    fn clearway_trap_restoring();
    fn clearway_trap_spawning();
}

/// Where each place goes back to. 0: it is not used yet.
static PLAIN_BACK: [AtomicU64; MAX_SITES] = [const { AtomicU64::new(0) }; MAX_SITES];
static RESTORING_BACK: [AtomicU64; RESTORING] = [const { AtomicU64::new(0) }; RESTORING];
static SPAWNING_BACK: [AtomicU64; MAX_THREADS] = [const { AtomicU64::new(0) }; MAX_THREADS];
/// The block that the new thread has. 0: nobody has decided.
static SPAWNING_BLOCK: [AtomicPtr<Block>; MAX_THREADS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MAX_THREADS];
/// Places for new threads that are used.
static SPAWNING: AtomicUsize = AtomicUsize::new(0);
static SPAWNING_LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Finds the place that goes back to `back`, or takes a new one. None: all are taken.
fn place(table: &[AtomicU64], back: u64) -> Option<usize> {
    // Instructions of one function lie near each other, and shall not all begin at one place.
    let first = (back.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % table.len();
    for step in 0..table.len() {
        let at = (first + step) % table.len();
        let known = table[at].load(Ordering::Acquire);
        if known == back {
            return Some(at);
        }
        if known == 0 {
            let taken = table[at].compare_exchange(0, back, Ordering::AcqRel, Ordering::Acquire);
            if taken.is_ok() || taken == Err(back) {
                return Some(at);
            }
        }
    }
    None
}

fn address(first: unsafe extern "C" fn(), step: usize, at: usize) -> u64 {
    (first as *const () as usize + step * at) as u64
}

/// The place for a call as it is.
pub(crate) fn plain(back: u64) -> Option<u64> {
    place(&PLAIN_BACK, back).map(|at| address(clearway_trap_plain, PLAIN_STEP, at))
}

/// The place for a call with other registers. The program's rdi, rsi, rdx, r10, r8, r9 and rsp
/// are at the top of the stack.
pub(crate) fn restoring(back: u64) -> Option<u64> {
    place(&RESTORING_BACK, back).map(|at| address(clearway_trap_restoring, RESTORING_STEP, at))
}

/// The place for a call that makes a thread or child, which has this block.
pub(crate) fn spawning(back: u64, block: &Block) -> Option<u64> {
    let locked = SPAWNING_LOCK.lock().ok()?;
    let used = SPAWNING.load(Ordering::Relaxed);
    let block = ptr::from_ref(block).cast_mut();
    let same = |at: &usize| {
        SPAWNING_BACK[*at].load(Ordering::Relaxed) == back
            && SPAWNING_BLOCK[*at].load(Ordering::Relaxed) == block
    };
    let at = (0..used).find(same).unwrap_or(used);
    if at == MAX_THREADS {
        return None;
    }
    if at == used {
        SPAWNING_BACK[at].store(back, Ordering::Relaxed);
        SPAWNING_BLOCK[at].store(block, Ordering::Relaxed);
        SPAWNING.store(used + 1, Ordering::Release);
    }
    drop(locked);
    Some(address(clearway_trap_spawning, SPAWNING_STEP, at))
}

/// Has the program go on at a place, or ends it when there is none.
pub(crate) fn go(context: &mut ucontext_t, place: Option<u64>) {
    let Some(place) = place else {
        crate::start::tell("the program makes system calls from more places than are kept");
        std::process::abort();
    };
    context.uc_mcontext.gregs[libc::REG_RIP as usize] = place as i64;
}

/// A call that the library itself made from outside of the range.
pub(crate) extern "C" fn nested(context: *mut ucontext_t) {
    // SAFETY: what the kernel gave to the handler.
    let context = unsafe { &mut *context };
    let back = context.uc_mcontext.gregs[libc::REG_RIP as usize] as u64;
    go(context, plain(back));
}
