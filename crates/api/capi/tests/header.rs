//! The header that is in the tree is the one that the sources make.

use std::path::Path;

/// Set this to write the header anew.
const WRITE: &str = "CLEARWAY_WRITE_HEADER";

#[test]
fn the_header_in_the_tree_is_current() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(home.join("cbindgen.toml")).unwrap();
    let bindings =
        cbindgen::Builder::new().with_crate(home).with_config(config).generate().unwrap();
    let mut made = Vec::new();
    bindings.write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let path = home.join("clearway.h");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == made,
        "{} is not current: run {WRITE}=1 cargo test -p clearway-capi --test header",
        path.display()
    );
    for name in [
        "clw_stack_new",
        "clw_ingest",
        "clw_expire",
        "clw_emit",
        "clw_send",
        "clw_udp_send",
        "clw_host_run",
    ] {
        assert!(there.contains(&format!("{name}(")), "{name} is missing");
    }
}
