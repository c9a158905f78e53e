//! The pages as a new user reads them: what they say is typed as it stands, and every block of code
//! says what it is.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use clearway_xtask::book::book;
use clearway_xtask::cli::judge;
use clearway_xtask::page::blocks;

#[path = "../../cli/tests/guest/archive.rs"]
mod archive;
mod common;
#[path = "../../cli/tests/guest/image.rs"]
mod image;
#[path = "../../cli/tests/common/skip.rs"]
mod skip;

use common::{Tree, assert_refused};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap()
}

fn is_root() -> bool {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    skip::or_skip(is_root, "the namespaces of a page's parts need root")
}

/// Where the binaries lie.
fn binaries() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    here.parent().and_then(Path::parent).unwrap().to_owned()
}

fn build(packages: &[&str]) {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet"]).args(packages.iter().flat_map(|name| ["-p", name]));
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    assert!(cargo.current_dir(root()).status().unwrap().success(), "{packages:?} are built");
}

/// Types a part of the first page, with these variables; what was said.
fn typed(part: &str, variables: &[(&str, &Path)]) -> String {
    typed_from("docs/start.md", part, variables)
}

/// Types a part of a page.
fn typed_from(page: &str, part: &str, variables: &[(&str, &Path)]) -> String {
    let said = typed_words(&[page, part], variables);
    assert!(said.ends_with("1 parts ran\n"), "{said}");
    said
}

/// Types a page, or the part of it that is the second word.
fn typed_words(words: &[&str], variables: &[(&str, &Path)]) -> String {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        // `cargo xtask ci` builds both with the features of the whole workspace.
        if std::env::var_os("CLEARWAY_TESTS_BUILT").is_none() {
            build(&["clearway-cli", "clearway-preload", "clearway-trap"]);
            // By themselves: together with the command the stack would be linked with DPDK.
            build(&["clearway-preload", "clearway-inproc"]);
        }
    });
    // Go stands there where it is not Debian's.
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}:/usr/sbin:/usr/local/go/bin", binaries().display());
    let mut script = Command::new(root().join("scripts/book-run.sh"));
    script.arg(root().join(words[0])).args(&words[1..]).env("PATH", path).stdin(Stdio::null());
    script.envs(variables.iter().copied());
    let output = script.output().expect("bash");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complained}");
    said
}

fn has_line(said: &str, wanted: &str) {
    assert!(said.lines().any(|line| line.trim() == wanted), "no line `{wanted}` in:\n{said}");
}

#[test]
fn an_unmodified_program_runs_as_the_first_page_says() {
    if !is_root() {
        return;
    }
    let said = typed("An unmodified program", &[]);
    has_line(&said, "Hello over Clearway.");
    has_line(&said, "The host stops.");
    assert!(said.contains("10.1.1.1:8080"), "the listener is shown:\n{said}");
}

/// The pages of which every part is typed above, and its words looked at.
const TYPED: [&str; 2] = ["docs/start.md", "docs/tour.md"];

/// Pages of which all that is to be run is typed, a test for each; what they show of it is held
/// against what was said by `scripts/book-run.sh`.
macro_rules! pages {
    ($($name:ident: $page:literal,)*) => {
        const WHOLE: &[&str] = &[$($page),*];

        $(
            #[test]
            fn $name() {
                if is_root() {
                    typed_words(&[$page], &[]);
                }
            }
        )*
    };
}

pages! {
    the_front_page_is_as_it_says: "README.md",
    rules_do_what_their_page_says: "docs/acl.md",
    benches_run_as_their_page_says: "docs/bench.md",
    transfers_run_as_their_page_says: "docs/bulk.md",
    captures_are_as_their_page_says: "docs/capture.md",
    the_file_of_a_program_is_read_as_its_page_says: "docs/client.md",
    commands_do_what_their_page_says: "docs/commands.md",
    settings_change_as_their_page_says: "docs/config.md",
    dhcp_configures_an_interface_as_its_page_says: "docs/dhcp.md",
    errors_have_the_code_that_their_page_says: "docs/errors.md",
    a_host_tells_what_it_has_as_its_page_says: "docs/host.md",
    http_is_served_as_its_page_says: "docs/http.md",
    a_stack_inside_of_a_program_serves_as_its_page_says: "docs/inproc.md",
    a_service_manager_starts_a_host_as_its_page_says: "docs/install.md",
    ip_shows_what_its_page_says: "docs/ip-command.md",
    the_schema_is_printed_as_its_page_says: "docs/json.md",
    the_lab_measures_as_its_page_says: "docs/lab.md",
    metrics_are_told_as_their_page_says: "docs/metrics.md",
    nstat_shows_what_its_page_says: "docs/nstat.md",
    frames_go_and_come_as_their_page_says: "docs/pktgen.md",
    ports_of_xdp_serve_as_their_page_says: "docs/ports.md",
    a_program_is_preloaded_as_its_page_says: "docs/preload.md",
    slaac_configures_an_interface_as_its_page_says: "docs/slaac.md",
    ss_shows_what_its_page_says: "docs/ss.md",
    a_bad_link_is_made_as_its_page_says: "docs/sweep-loss.md",
    top_shows_what_its_page_says: "docs/top.md",
    programs_are_trapped_as_their_page_says: "docs/trap.md",
}

#[test]
fn an_hour_with_a_host_is_as_the_page_says() {
    if !is_root() {
        return;
    }
    let typed = |part| typed_from("docs/tour.md", part, &[]);
    let said = typed("See who talks");
    has_line(&said, "Hello over Clearway.");
    has_line(&said, "10.1.1.1");
    assert!(said.contains("0101010A:1F90 00000000:0000 0A"), "the listener in /proc/net:\n{said}");
    let said = typed("Measure it, and take it out of service");
    for line in ["ok", "health ended with 3", "draining", "New connections are taken again."] {
        has_line(&said, line);
    }
    let said = typed("Capture");
    // Behind the reason stands whose it was while the session is there: it ends at about that time.
    let dropped = "10.1.1.1\t9\tudp-port-closed";
    let owned = format!("{dropped},from session ");
    let is_dropped = |line: &str| line.trim() == dropped || line.starts_with(&owned);
    assert!(said.lines().any(is_dropped), "no line `{dropped}` in:\n{said}");
    assert!(said.contains("clearway:loop0") && said.contains("[SYN, ACK]"), "{said}");
    let said = typed("Change it while it runs");
    has_line(&said, "limits.program-sessions 4096 (was 500)");
    has_line(&said, "# app ns add id web secret *** if loop0");
    let said = typed("A program without the C library");
    assert_eq!(said.matches("Hello over Clearway.").count(), 2, "{said}");
}

#[test]
fn a_server_over_a_device_runs_as_the_first_page_says() {
    if !is_root() {
        return;
    }
    let said = typed("A server over a device, and its rate", &[]);
    has_line(&said, "64");
    assert!(said.contains("requests/s"), "the generator tells a rate:\n{said}");
}

#[test]
fn a_rust_program_runs_as_the_first_page_says() {
    if !is_root() {
        return;
    }
    // A folder for what cargo makes that the next run finds again, no network, and the versions of
    // everything that this workspace has.
    let target = binaries().join("book");
    let source = root();
    let said = typed(
        "A Rust program",
        &[
            ("CLEARWAY", &source),
            ("CARGO_TARGET_DIR", &target),
            ("CARGO_NET_OFFLINE", Path::new("true")),
        ],
    );
    has_line(&said, "Hello, Rust.");
}

#[test]
fn a_c_program_runs_as_the_first_page_says() {
    if !is_root() {
        return;
    }
    // As `make install` puts them there, but for the places.
    build(&["clearway-capi"]);
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("book-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::copy(binaries().join("libclearway.so"), folder.join("libclearway.so")).unwrap();
    let installed = fs::read_to_string(root().join("packaging/clearway.pc")).unwrap();
    let here =
        installed.replace("libdir=${prefix}/lib", &format!("libdir={}", folder.display())).replace(
            "includedir=${prefix}/include",
            &format!("includedir={}/crates/api/capi", root().display()),
        );
    fs::write(folder.join("clearway.pc"), here).unwrap();
    let said = typed("A C program", &[("PKG_CONFIG_PATH", &folder), ("LD_LIBRARY_PATH", &folder)]);
    fs::remove_dir_all(&folder).unwrap();
    has_line(&said, "Hello, C.");
}

#[test]
fn a_guest_is_served_as_the_first_page_says() {
    if !is_root() {
        return;
    }
    let Some(image) = image::image() else { return };
    let said = typed("A guest", &[("KERNEL", &image.kernel), ("INITRD", &image.initrd)]);
    has_line(&said, "bytes: 64");
}

#[test]
fn no_block_that_is_to_be_run_is_run_by_nobody() {
    for (page, count) in TYPED.iter().zip([7, 6]) {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let parts = text.lines().filter(|line| line.starts_with("## ")).count();
        assert_eq!(parts, count, "{page}: more parts than are typed above: give them a test");
    }
    for page in clearway_xtask::book::pages(&root()).unwrap() {
        let text = fs::read_to_string(root().join(&page)).unwrap();
        let to_run = blocks(&text)
            .iter()
            .any(|block| block.words().contains(&"run") || block.tag.contains("file="));
        let is_typed = TYPED.iter().chain(WHOLE).any(|typed| page == Path::new(typed));
        assert_eq!(to_run, is_typed, "{}", page.display());
    }
}

#[test]
fn the_blocks_of_this_tree_say_what_they_are() {
    let mut report = book(&root()).unwrap();
    judge(&mut report);
    common::assert_clean(&report.findings);
    assert!(report.blocks.values().sum::<usize>() > 90, "{:?}", report.blocks);
}

/// What is found in a page of this text.
fn refused(text: &str, words: &[&str]) {
    let tree = Tree::clean();
    tree.write("docs/page.md", text);
    tree.write("Makefile", "demo: setup ## Build\n");
    let mut report = book(tree.root()).unwrap();
    judge(&mut report);
    let findings = report.findings;
    if words.is_empty() {
        common::assert_clean(&findings);
    } else {
        assert_refused(&findings, "docs/page.md:3", words);
    }
}

#[test]
fn a_block_that_does_not_say_what_it_is_is_refused() {
    refused("# Page\n\n```\nmake demo\n```\n", &["without a tag", "text"]);
    refused("# Page\n\n```bash\nmake demo\n```\n", &["`bash` is no tag"]);
    refused("# Page\n\n```sh perhaps\nmake demo\n```\n", &["`perhaps`", "run"]);
    refused("# Page\n\n```sh\nmake demo\n```\n", &["nobody types", "run", "unrun=", "release"]);
    refused("# Page\n\n```console\n$ make demo\n```\n", &["nobody types", "tested="]);
    refused("# Page\n\n```sh unrun=lazy\nmake demo\n```\n", &["`unrun=lazy`", "hardware"]);
    refused("# Page\n\n```sh tested=none.rs\nmake demo\n```\n", &["`tested=none.rs`", "no such"]);
    refused("# Page\n\n```sh unrun=long\nmake demo\n```\n", &[]);
    refused("# Page\n\n```sh tested=Makefile\nmake demo\n```\n", &[]);
    refused("# Page\n\n```rust\nfn main() {}\n```\n", &["nobody compiles this"]);
    refused("# Page\n\n```text\nmake nothing\n```\n", &[]);
}

#[test]
fn a_command_of_the_tree_that_is_not_there_is_refused() {
    let block = |command: &str| format!("# Page\n```sh unrun=long\n{command}\n```\n");
    refused(&block("make demos"), &["the Makefile has no such target"]);
    refused(&block("sudo true; cargo xtask flors"), &["flors"]);
    refused(&block("cargo build -p clearway-nothing"), &["`clearway-nothing`"]);
    refused(&block("A=1 scripts/none.sh --all"), &["`scripts/none.sh` is not in the tree"]);
    refused("# Page\n\n```sh run\nif true\n```\n", &["bash cannot read this"]);
    refused(&block("make demo A=1   # make nothing"), &[]);
    refused(&block("cargo xtask floors proto::tcp"), &[]);
}
