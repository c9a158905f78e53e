//! What the library knows of a thread of the program: a block that the GS base points to, which no
//! program of Linux on x86-64 uses itself, and a thread of the C library that lends its stack and
//! its thread-local variables.

use std::arch::asm;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::{MaybeUninit, offset_of};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::{MAX_THREADS, STACK, credentials, raw};

/// The state of a block.
const FREE: u32 = 0;
const TAKEN: u32 = 1;

/// One thread of the program. The offsets of the fields before `info` are written into the
/// assembly of [`crate::entry`].
#[repr(C)]
pub(crate) struct Block {
    itself: *const Block,
    /// Not 0 while the library runs on this thread.
    pub(crate) in_agent: AtomicU64,
    /// A signal that came while the library ran, or 0.
    pub(crate) deferred: AtomicU64,
    program_fs: AtomicUsize,
    agent_fs: AtomicUsize,
    agent_sp: AtomicUsize,
    /// Where the kernel laid the signal's frame.
    frame: AtomicUsize,
    /// Registers of a new thread, for as long as it has no stack of ours.
    saved: [AtomicUsize; 6],
    state: AtomicU32,
    /// What the kernel said of the signal that came.
    pub(crate) info: UnsafeCell<MaybeUninit<libc::siginfo_t>>,
    /// Where the stack begins that stands in for one of the program's for signals; 0: there is none
    /// yet.
    signal_stack: AtomicUsize,
    /// Where that of the program's begins, and its length.
    stood_in: [AtomicUsize; 2],
}

pub(crate) const ITSELF: usize = offset_of!(Block, itself);
pub(crate) const IN_AGENT: usize = offset_of!(Block, in_agent);
pub(crate) const DEFERRED: usize = offset_of!(Block, deferred);
pub(crate) const PROGRAM_FS: usize = offset_of!(Block, program_fs);
pub(crate) const AGENT_FS: usize = offset_of!(Block, agent_fs);
pub(crate) const AGENT_SP: usize = offset_of!(Block, agent_sp);
pub(crate) const FRAME: usize = offset_of!(Block, frame);
pub(crate) const SAVED: usize = offset_of!(Block, saved);
pub(crate) const STATE: usize = offset_of!(Block, state);

impl Block {
    /// A stack for the frames of calls that the thread makes when it has none of its own: where it
    /// begins, and its length.
    pub(crate) fn last_stack(&self) -> (usize, usize) {
        (self.agent_sp.load(Ordering::Relaxed), LAST_STACK)
    }

    /// A stack for signals in the place of the program's, which has room for a handler and nothing
    /// for the frames of the calls that it makes. None: there is no memory.
    pub(crate) fn stand_in(&self, [start, len]: [usize; 2]) -> Option<(usize, usize)> {
        if self.signal_stack.load(Ordering::Relaxed) == 0 {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let (all, protection) = (SIGNAL_STACK + GUARD, libc::PROT_READ | libc::PROT_WRITE);
            // SAFETY: new memory at an address that the kernel chooses, of which the lowest pages
            // are taken away from whoever overruns it.
            let stack = unsafe {
                let stack = libc::mmap(ptr::null_mut(), all, protection, flags, -1, 0);
                if stack == libc::MAP_FAILED || libc::mprotect(stack, GUARD, libc::PROT_NONE) != 0 {
                    return None;
                }
                stack as usize
            };
            self.signal_stack.store(stack + GUARD, Ordering::Relaxed);
        }
        self.stood_in[0].store(start, Ordering::Relaxed);
        self.stood_in[1].store(len, Ordering::Relaxed);
        Some((self.signal_stack.load(Ordering::Relaxed), SIGNAL_STACK))
    }

    /// What the program calls the stack for signals that begins there, when another stands in.
    pub(crate) fn stood_in(&self, start: usize) -> Option<[usize; 2]> {
        let is_it = start != 0 && start == self.signal_stack.load(Ordering::Relaxed);
        is_it.then(|| self.stood_in.each_ref().map(|word| word.load(Ordering::Relaxed)))
    }
}

/// All blocks of this process. They are never freed; a thread that begins takes one whose thread
/// has ended.
static BLOCKS: [AtomicPtr<Block>; MAX_THREADS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MAX_THREADS];

/// Room that the C library and a sleeping thread have above what is lent.
const MARGIN: usize = 4096;

/// Room above what is lent for the frame of a signal, as large as processors make them.
const LAST_STACK: usize = 64 << 10;

/// What stands in for a short stack for signals, and what nobody may touch below it.
const SIGNAL_STACK: usize = 64 << 10;
const GUARD: usize = 4096;

fn empty() -> Box<Block> {
    let mut block = Box::new(Block {
        itself: ptr::null(),
        in_agent: AtomicU64::new(0),
        deferred: AtomicU64::new(0),
        program_fs: AtomicUsize::new(0),
        agent_fs: AtomicUsize::new(0),
        agent_sp: AtomicUsize::new(0),
        frame: AtomicUsize::new(0),
        saved: [const { AtomicUsize::new(0) }; 6],
        state: AtomicU32::new(TAKEN),
        info: UnsafeCell::new(MaybeUninit::zeroed()),
        signal_stack: AtomicUsize::new(0),
        stood_in: [const { AtomicUsize::new(0) }; 2],
    });
    block.itself = &raw const *block;
    block
}

/// The block of the thread that the program begins on: it has the C library's main thread to
/// itself, and a stack of its own.
pub(crate) fn of_main_thread() -> Result<&'static Block, String> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: new memory at an address that the kernel chooses.
    let stack = unsafe { libc::mmap(ptr::null_mut(), STACK, protection, flags, -1, 0) };
    if stack == libc::MAP_FAILED {
        return Err("no memory for a stack".into());
    }
    let block: &'static Block = Box::leak(empty());
    block.agent_fs.store(fs_base(), Ordering::Relaxed);
    block.agent_sp.store((stack as usize + STACK - LAST_STACK) & !63, Ordering::Relaxed);
    BLOCKS[0].store(ptr::from_ref(block).cast_mut(), Ordering::Release);
    Ok(block)
}

/// A block for a new thread. None: there are too many, or the system has no more threads.
pub(crate) fn take() -> Option<&'static Block> {
    let mut empty_slot = None;
    for slot in &BLOCKS {
        // SAFETY: null, or a block that is never freed.
        let Some(block) = (unsafe { slot.load(Ordering::Acquire).as_ref() }) else {
            empty_slot = empty_slot.or(Some(slot));
            continue;
        };
        let taken = block.state.compare_exchange(FREE, TAKEN, Ordering::AcqRel, Ordering::Relaxed);
        if taken.is_ok() {
            block.in_agent.store(0, Ordering::Relaxed);
            block.deferred.store(0, Ordering::Relaxed);
            return Some(block);
        }
    }
    let slot = empty_slot?;
    let block = with_thread()?;
    let ours = ptr::from_ref(block).cast_mut();
    let placed = slot.compare_exchange(ptr::null_mut(), ours, Ordering::AcqRel, Ordering::Relaxed);
    // Another thread was faster: only this block's use after its thread is lost.
    let _ = placed;
    Some(block)
}

/// In the child of a fork, where no other thread is left: their blocks are not used again, for the
/// C library takes what their threads lent for others.
pub(crate) fn forget_others(own: &Block) {
    credentials::forget_lenders();
    for slot in &BLOCKS {
        if !ptr::eq(slot.load(Ordering::Relaxed), own) {
            slot.store(ptr::null_mut(), Ordering::Relaxed);
        }
    }
}

/// A block with a sleeping thread.
fn with_thread() -> Option<&'static Block> {
    let block: &'static Block = Box::leak(empty());
    block.state.store(FREE, Ordering::Relaxed);
    let before = raw::set_mask(!0);
    // SAFETY: the attributes are ours; the function takes a block that is never freed.
    let made = unsafe {
        let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK);
        libc::pthread_attr_setdetachstate(attributes.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
        let mut name = 0;
        let argument = ptr::from_ref(block).cast_mut().cast::<c_void>();
        let made = libc::pthread_create(&mut name, attributes.as_ptr(), lend, argument);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        made
    };
    raw::set_mask(before);
    if made != 0 {
        return None;
    }
    while block.state.load(Ordering::Acquire) == FREE {
        raw::wait(&block.state, FREE);
    }
    Some(block)
}

/// The thread that lends what it has, and sleeps until the process ends.
extern "C" fn lend(block: *mut c_void) -> *mut c_void {
    // SAFETY: the block is never freed.
    let block = unsafe { &*block.cast::<Block>() };
    // What was inherited is another thread's.
    set_gs_base(0);
    let here = 0u64;
    block.agent_fs.store(fs_base(), Ordering::Relaxed);
    let below = (&raw const here) as usize - MARGIN - LAST_STACK;
    block.agent_sp.store(below & !63, Ordering::Relaxed);
    let mut calls = credentials::lends();
    block.state.store(TAKEN, Ordering::Release);
    raw::wake(&block.state, 1);
    loop {
        credentials::follow(&mut calls);
    }
}

/// The thread pointer.
fn fs_base() -> usize {
    let base;
    // SAFETY: reads a register; `start` has asked whether the instruction may be used.
    unsafe { asm!("rdfsbase {}", out(reg) base, options(nomem, nostack, preserves_flags)) };
    base
}

/// Points the thread to its block.
pub(crate) fn set_gs_base(base: usize) {
    // SAFETY: nothing that Rust or the C library makes uses this register.
    unsafe { asm!("wrgsbase {}", in(reg) base, options(nostack, preserves_flags)) };
}
