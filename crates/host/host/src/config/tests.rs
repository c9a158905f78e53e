use std::path::Path;

use clearway_command::AppLimits;
use clearway_proto::WhenFull;

use super::*;

fn parse(text: &str) -> Result<Settings, String> {
    Settings::parse(text, Path::new("host.toml")).map_err(|error| error.to_string())
}

#[test]
fn the_example_of_the_documentation_is_taken() {
    let page = include_str!("../../../../../docs/config.md");
    let example = page
        .split("```toml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("an example in TOML");
    let settings = parse(example).unwrap();
    assert_eq!(settings.workers, [Some(1), Some(2)]);
    assert_eq!(settings.ports.len(), 1);
    assert_eq!(settings.namespaces.len(), 2);
}

#[test]
fn the_documentation_has_every_key() {
    let page = include_str!("../../../../../docs/config.md");
    for key in KEYS {
        let row = format!("| `{}` | `{}` | {} |", key.section, key.name, key.what);
        assert!(page.contains(&row), "docs/config.md lacks this row:\n{row}");
    }
}

#[test]
fn an_empty_file_is_the_defaults() {
    let settings = parse("").unwrap();
    assert_eq!(settings.workers, [None]);
    assert_eq!(settings.limits.tables, super::settings::TABLES);
}

#[test]
fn an_unknown_key_is_told_with_its_line_and_the_nearest() {
    let error = parse("[cores]\nmain = 0\nwokers = [1]\n").unwrap_err();
    assert_eq!(error, "host.toml:3: `wokers` is no key of [cores]. Did you mean `workers`?");
    let error = parse("[core]\n").unwrap_err();
    assert_eq!(error, "host.toml:1: `core` is no section. Did you mean `cores`?");
    assert!(parse("[control]\nxyzzyxyzzy = 1\n").unwrap_err().contains("There are: socket, "));
}

#[test]
fn values_are_checked_and_the_line_is_told() {
    for (text, wanted) in [
        (
            "[cores]\npolicy = \"fast\"\n",
            "host.toml:2: expected \"other\", \"batch\", \"fifo\", \"rr\"",
        ),
        ("[cores]\npriority = 100\n", "host.toml:2: expected a number from 1 to 99"),
        ("[cores]\nworkers = [1, 1]\n", "host.toml:2: core 1 is named twice"),
        ("[limits]\nconnections = 16777217\n", "host.toml:2: expected a number from 1 to 16777216"),
        (
            "[tcp]\nwhen-full = \"queue\"\n",
            "host.toml:2: expected \"make-room\", \"reset\", \"drop\"",
        ),
        ("[tcp]\nsack = 1\n", "host.toml:2: expected true or false"),
        ("[tcp]\nephemeral-ports = [2, 1]\n", "host.toml:2: expected [first, last]"),
        ("[[ports]]\naddresses = [\"10.0.0.1\"]\n", "host.toml:2: expected ADDRESS/LENGTH"),
        ("[[ports]]\nname = \"x\"\n", "host.toml:1: this port has no `port`"),
        ("[ports]\n", "host.toml:1: `ports` is a list"),
        ("cores = 1\n", "host.toml:1: `cores` is a section"),
        ("[control]\nsocket-mode = \"999\"\n", "host.toml:2: expected a file mode"),
        ("[cores\n", "host.toml:1: "),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.starts_with(wanted), "{text}: {error}");
    }
}

#[test]
fn what_a_full_table_does_is_a_setting() {
    for (word, wanted) in
        [("make-room", WhenFull::MakeRoom), ("reset", WhenFull::Reset), ("drop", WhenFull::Drop)]
    {
        assert_eq!(
            parse(&format!("[tcp]\nwhen-full = \"{word}\"\n")).unwrap().tcp.when_full,
            wanted
        );
    }
    assert_eq!(parse("").unwrap().tcp.when_full, WhenFull::MakeRoom);
}

#[test]
fn sizes_may_have_a_letter() {
    let settings = parse("[sessions]\nrx-fifo = \"4M\"\ntx-fifo = 65536\n").unwrap();
    assert_eq!((settings.program.rx_fifo, settings.program.tx_fifo), (4 << 20, 65_536));
}

#[test]
fn workers_are_a_list_or_a_text() {
    assert_eq!(parse("[cores]\nworkers = \"1-3\"\n").unwrap().workers, [Some(1), Some(2), Some(3)]);
    assert_eq!(parse("[cores]\nworkers = [0, 2]\n").unwrap().workers, [Some(0), Some(2)]);
    assert_eq!(parse("[cores]\nworkers = 1\n").unwrap().workers, [Some(1)]);
}

#[test]
fn a_secret_is_not_printed() {
    let settings = parse("[[namespaces]]\nid = \"a\"\nsecret = \"hush-hush\"\n").unwrap();
    assert!(!format!("{settings:?}").contains("hush"));
}

#[test]
fn a_namespace_has_limits_of_its_own() {
    let text = "[[namespaces]]\nid = \"a\"\nprogram-sessions = 5\nprogram-memory = \"2M\"\n[[namespaces]]\nid = \"b\"\n";
    let settings = parse(text).unwrap();
    let limits = AppLimits { sessions: Some(5), memory: Some(2 << 20), ..AppLimits::default() };
    assert_eq!(settings.namespaces[0].limits, limits);
    assert_eq!(settings.namespaces[1].limits, AppLimits::default());
    assert!(
        parse("[[namespaces]]\nid = \"a\"\nprogram-memory = 5\n")
            .unwrap_err()
            .contains("expected a number from")
    );
}

#[test]
fn fast_open_takes_the_numbers_and_the_keys_of_linux() {
    let settings = parse("[tcp]\nfast-open = 1027\nfast-open-key = \"1-2-3-4,a-b-c-d\"\n").unwrap();
    assert!(settings.tcp.fast_open.every_listener && !settings.tcp.fast_open.server_without_cookie);
    assert_eq!(settings.tcp.fast_open_keys[1].unwrap()[..5], [10, 0, 0, 0, 11]);
    for (text, wanted) in [
        ("fast-open = 8", "host.toml:2: expected a sum of 1, 2, 4, 512 and 1024"),
        ("fast-open = 2000", "host.toml:2: expected a number from 0 to 1543"),
        ("fast-open-key = \"1-2-3\"", "host.toml:2: expected four groups of up to eight"),
    ] {
        let error = parse(&format!("[tcp]\n{text}\n")).unwrap_err();
        assert!(error.starts_with(wanted), "{error}");
    }
}

#[test]
fn parts_of_the_code_have_levels_of_their_own() {
    let settings = parse(
        "[log]\nlevel = \"warn\"\nformat = \"json\"\n\
         targets = [\"clearway_host::supervisor=debug\", \"clearway_session=off\"]",
    )
    .unwrap();
    assert_eq!((settings.log.level, settings.log.format), (LogLevel::Warn, LogFormat::Json));
    let wanted =
        [("clearway_host::supervisor", LogLevel::Debug), ("clearway_session", LogLevel::Off)];
    assert_eq!(settings.log.targets, wanted.map(|(path, level)| (path.to_owned(), level)));
    for wrong in ["clearway_host", "clearway_host=loud", "=info", "a b=info"] {
        let error = parse(&format!("[log]\ntargets = [\"{wrong}\"]")).unwrap_err();
        assert!(error.starts_with("host.toml:2:") && error.contains("=debug"), "{wrong}: {error}");
    }
}
