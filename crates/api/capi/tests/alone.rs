//! The bare layer without an operating system: what the library asks of its surroundings is memory
//! from the program, and memcpy and its kin.

mod world;

use std::collections::BTreeSet;
use std::process::Command;

/// What the compiler may call wherever code is compiled, and what the header asks of the program.
const ALLOWED: &[&str] = &[
    "bcmp",
    "memcmp",
    "memcpy",
    "memmove",
    "memset",
    "strlen",
    "clw_need_memory",
    "clw_give_memory",
    "clw_panic",
];

#[test]
fn the_bare_library_needs_nothing_but_memcpy_and_what_the_program_gives_it() {
    let library = world::bare_library();
    let object = world::Made::new("capi-object");
    // Linked into one object that keeps all functions of the interface, so that what the parts of
    // the library give each other is not told.
    let mut linker = Command::new("ld");
    linker.args(["-r", "--gc-sections", "--gc-keep-exported", "-o"]).arg(&*object);
    let names = world::interface();
    assert!(
        names.len() > 30 && names.iter().all(|name| !name.starts_with("clw_host_")),
        "{names:?}"
    );
    for name in &names {
        linker.args(["-u", name]);
    }
    let output = linker.arg(&library).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output =
        Command::new("nm").args(["-u", "--target=elf64-x86-64"]).arg(&*object).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // Only lines of undefined symbols: where LLVM's plug-in for binutils is installed, nm also
    // complains that it is older than the compiler.
    let needed: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.trim_start().split_once(' '))
        .filter(|(kind, _)| *kind == "U")
        .map(|it| it.1)
        .collect();
    let more: Vec<_> = needed.iter().filter(|name| !ALLOWED.contains(name)).collect();
    assert!(needed.contains("memcpy") && more.is_empty(), "it needs {more:?} besides");
}

#[test]
fn a_program_without_a_c_library_runs_two_stacks_over_the_bare_library() {
    let program = world::build_alone("alone.c");
    let output = Command::new(&*program).output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(0),
        "it ends with the number of the line that went wrong"
    );
}
