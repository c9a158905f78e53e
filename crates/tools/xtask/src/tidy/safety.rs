//! Rules about `unsafe`: where it may be, and what must be said about it.

use crate::finding::Finding;
use crate::modules::Module;
use crate::source::Source;

/// Where `unsafe` may be used, and why there.
const MAY_BE_UNSAFE: &[(&str, &str)] = &[
    ("crates/ports/tap/", "ioctl on the TUN device"),
    ("crates/core/hint/", "prefetch instructions"),
    ("crates/host/shm/", "memory that another process may write"),
    ("crates/ports/dpdk/", "calls into DPDK"),
    ("crates/ports/xdp/", "memory that the kernel shares with us, and its system calls"),
    ("crates/host/preload/", "stands in for functions of libc"),
    ("crates/host/trap/", "takes system calls and signals over from the program"),
    ("crates/host/inproc/", "is called from another library by C functions, from any thread"),
    ("crates/api/capi/", "is called from C"),
    ("crates/api/packetdrill/", "is called from packetdrill, which is C"),
    (
        "crates/tools/cost/src/counting_alloc.rs",
        "an allocator that counts, to show that nothing is allocated",
    ),
];

/// A test or bench that counts allocations must implement `GlobalAlloc`, which is unsafe. It does
/// so in a file of this name.
const COUNTING_ALLOCATOR: &str = "counting_alloc.rs";

/// What an `unsafe` introduces, and so what must be said about it.
enum Use {
    /// A block, an implementation, an attribute, an extern block: we promise something, and say why
    /// it holds.
    Promise,
    /// A function or trait: others promise something, and must be told what.
    Demand,
    /// The type of a function pointer: nothing is promised.
    Type,
}

/// Checks every `unsafe` of one file.
pub(super) fn check(module: &Module, findings: &mut Vec<Finding>) {
    let source = &module.source;
    let counting =
        module.test && source.path.file_name().is_some_and(|name| name == COUNTING_ALLOCATOR);
    let allowed = counting || MAY_BE_UNSAFE.iter().any(|(path, _)| source.path.starts_with(path));
    for (index, word) in source.words.iter().enumerate() {
        if word.text != "unsafe" {
            continue;
        }
        if !allowed {
            let places: Vec<_> = MAY_BE_UNSAFE.iter().map(|(path, _)| *path).collect();
            let message = format!(
                "`unsafe` outside of the crates that may use it ({}): put a safe function into one \
                 of them and call that",
                places.join(" ")
            );
            findings.push(Finding::new(&source.path, word.line, message));
            continue;
        }
        let (said, message) = match what(source, index) {
            Use::Promise => (
                comment_above(source, word.line, &["SAFETY:"]),
                "`unsafe` without a `// SAFETY:` comment above it: say which conditions it needs \
                 and why they hold here",
            ),
            Use::Demand => (
                comment_above(source, word.line, &["SAFETY:", "# Safety"]),
                "an unsafe function or trait without a `# Safety` section: say what the caller \
                 must see to",
            ),
            Use::Type => (true, ""),
        };
        if !said {
            findings.push(Finding::new(&source.path, word.line, message));
        }
    }
}

fn what(source: &Source, index: usize) -> Use {
    let text = |ahead: usize| source.words.get(index + ahead).map_or("", |word| word.text.as_str());
    // `unsafe extern "C" fn` and `unsafe extern fn` read like `unsafe fn` from here on.
    let after = match (text(1), text(2).starts_with('"')) {
        ("extern", true) => 3,
        ("extern", false) => 2,
        _ => 1,
    };
    match text(after) {
        "trait" => Use::Demand,
        "fn" if text(after + 1) == "(" => Use::Type,
        "fn" => Use::Demand,
        _ => Use::Promise,
    }
}

/// Whether a comment that contains one of `wanted` stands on the line, or directly above the
/// statement that the line belongs to.
fn comment_above(source: &Source, line: usize, wanted: &[&str]) -> bool {
    let says = |comment: &str| wanted.iter().any(|wanted| comment.contains(wanted));
    let lines = &source.lines[..line.min(source.lines.len())];
    for (above, line) in lines.iter().rev().enumerate() {
        // A line of code above that ends a statement or opens a block is not ours, and neither is
        // what stands above it.
        let ended = matches!(line.last_code, Some(';' | '{' | '}' | ','));
        if above > 0 && ended {
            return false;
        }
        if says(&line.comment) {
            return true;
        }
        let blank = line.last_code.is_none() && line.comment.is_empty();
        if above > 0 && blank {
            return false;
        }
    }
    false
}
