//! The program on the interface: a handful of instructions that hand each frame to the socket of
//! the queue that it came on.
//!
//! It is attached by a link of the kernel's, which lasts as long as somebody has its descriptor: so
//! it is gone when the process is, however that ends.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use crate::socket::when_released;
use crate::sys;

// Commands, kinds and numbers of linux/bpf.h.
const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const BPF_FUNC_REDIRECT_MAP: i32 = 51;
const BPF_PSEUDO_MAP_FD: u8 = 1;
const XDP_PASS: i32 = 2;
// linux/if_link.h.
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// Where `rx_queue_index` stands in `struct xdp_md`.
const RX_QUEUE_INDEX: i16 = 16;

/// `struct bpf_insn`: opcode, registers (the destination in the low four bits), offset, number.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Instruction {
    opcode: u8,
    registers: u8,
    offset: i16,
    number: i32,
}

const fn instruction(opcode: u8, to: u8, from: u8, offset: i16, number: i32) -> Instruction {
    Instruction { opcode, registers: from << 4 | to, offset, number }
}

// Opcodes: class, size or operation, and where the second operand is (RFC 9669 appendix A).
const LOAD_WORD: u8 = 0x61;
const LOAD_NUMBER_64: u8 = 0x18;
const MOVE_NUMBER_64: u8 = 0xb7;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// `return bpf_redirect_map(&sockets, context->rx_queue_index, XDP_PASS)`. What a queue without a
/// socket brings goes on to the kernel: the lowest bits of the last argument say so since Linux
/// 5.3.
fn redirect(sockets: BorrowedFd<'_>) -> [Instruction; 6] {
    [
        // r2 = *(u32 *)(r1 + 16): the queue; r1 holds the context at the start.
        instruction(LOAD_WORD, 2, 1, RX_QUEUE_INDEX, 0),
        // r1 = the map, a number of 64 bits in two instructions.
        instruction(LOAD_NUMBER_64, 1, BPF_PSEUDO_MAP_FD, 0, sockets.as_raw_fd()),
        instruction(0, 0, 0, 0, 0),
        // r3 = what to do when the map has nothing for this queue.
        instruction(MOVE_NUMBER_64, 3, 0, 0, XDP_PASS),
        // r0 = bpf_redirect_map(r1, r2, r3).
        instruction(CALL, 0, 0, 0, BPF_FUNC_REDIRECT_MAP),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

/// How the program is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hook {
    /// By the driver, before the kernel makes a packet of its own of the frame.
    Native,
    /// By the kernel, afterwards: for drivers that know nothing of XDP.
    Generic,
}

/// The program on an interface, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Program {
    sockets: OwnedFd,
    _link: OwnedFd,
}

impl Program {
    /// Loads it for queues below `queues`.
    pub(crate) fn load(queues: u32) -> io::Result<Loaded> {
        let sockets = make_map(queues)?;
        let program = load(&redirect(std::os::fd::AsFd::as_fd(&sockets)))?;
        Ok(Loaded { sockets, program })
    }

    /// From now on frames of this queue go to this socket, which is bound to it.
    pub(crate) fn lead(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let value = socket.as_raw_fd() as u32;
        let mut attributes = MapUpdate {
            map: self.sockets.as_raw_fd() as u32,
            _pad: 0,
            key: &raw const queue as u64,
            value: &raw const value as u64,
            flags: 0,
        };
        // SAFETY: key and value are the four bytes each that the map was made for, and live through
        // the call.
        unsafe { sys::bpf(BPF_MAP_UPDATE_ELEM, &mut attributes) }.map(drop)
    }
}

/// The program in the kernel, on no interface yet.
pub(crate) struct Loaded {
    sockets: OwnedFd,
    program: OwnedFd,
}

impl Loaded {
    /// Attaches it; gives it back beside the error.
    pub(crate) fn attach(self, interface: u32, hook: Hook) -> Result<Program, (Loaded, io::Error)> {
        let flags = match hook {
            Hook::Native => XDP_FLAGS_DRV_MODE,
            Hook::Generic => XDP_FLAGS_SKB_MODE,
        };
        let mut attributes = LinkCreate {
            program: self.program.as_raw_fd() as u32,
            interface,
            attach_type: BPF_XDP,
            flags,
        };
        // SAFETY: there is no address in the attributes.
        let link = when_released(|| unsafe { sys::bpf_fd(BPF_LINK_CREATE, &mut attributes) });
        match link {
            // The link keeps the program.
            Ok(link) => Ok(Program { sockets: self.sockets, _link: link }),
            Err(error) => Err((self, error)),
        }
    }
}

/// The head of `union bpf_attr` for BPF_MAP_CREATE.
#[repr(C)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
}

/// The same for BPF_MAP_UPDATE_ELEM.
#[repr(C)]
struct MapUpdate {
    map: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// The same for BPF_PROG_LOAD.
#[repr(C)]
struct ProgramLoad {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
}

/// The same for BPF_LINK_CREATE.
#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

fn make_map(queues: u32) -> io::Result<OwnedFd> {
    let mut attributes = MapCreate {
        kind: BPF_MAP_TYPE_XSKMAP,
        key_size: 4,
        value_size: 4,
        max_entries: queues,
        flags: 0,
    };
    // SAFETY: there is no address in the attributes.
    unsafe { sys::bpf_fd(BPF_MAP_CREATE, &mut attributes) }
}

fn load(instructions: &[Instruction]) -> io::Result<OwnedFd> {
    let mut attributes = ProgramLoad {
        kind: BPF_PROG_TYPE_XDP,
        instruction_count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        // The helper asks for no particular one.
        license: c"Apache-2.0 OR MIT".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name: *b"clearway_xdp\0\0\0\0",
    };
    // SAFETY: as many instructions as the count says, and a string that ends with a zero; both live
    // through the call, which only reads them.
    unsafe { sys::bpf_fd(BPF_PROG_LOAD, &mut attributes) }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn the_program_is_what_an_assembler_makes_of_it() {
        let bytes = |instruction: Instruction| {
            let mut bytes = vec![instruction.opcode, instruction.registers];
            bytes.extend(instruction.offset.to_le_bytes());
            bytes.extend(instruction.number.to_le_bytes());
            bytes
        };
        let file = std::fs::File::open("/dev/null").unwrap();
        let fd = file.as_raw_fd().to_le_bytes();
        let made: Vec<Vec<u8>> = redirect(file.as_fd()).into_iter().map(bytes).collect();
        let wanted = [
            vec![0x61, 0x12, 16, 0, 0, 0, 0, 0],
            vec![0x18, 0x11, 0, 0, fd[0], fd[1], fd[2], fd[3]],
            vec![0; 8],
            vec![0xb7, 0x03, 0, 0, 2, 0, 0, 0],
            vec![0x85, 0, 0, 0, 51, 0, 0, 0],
            vec![0x95, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(made, wanted);
    }
}
