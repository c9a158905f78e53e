//! Targets `command`, `config`, `script` and `vcl`: texts that somebody else wrote. None may make
//! its reader panic, and what is wrong is said with its place.

use std::path::Path;

use clearway_client::{AppConfig, ConfigError};
use clearway_command::{NoNames, complete, help, parse, statements};
use clearway_host::{ControlOptions, Settings, SettingsError};

/// The command language: each line as a command, as the beginning of one, and all of them as a
/// script.
pub fn command(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for line in text.lines() {
        match parse(line) {
            Ok(_) => {}
            Err(error) => {
                assert!(line.get(error.at()).is_some(), "{error:?} stands nowhere in {line:?}");
                assert!(!error.message().is_empty() && !error.to_string().is_empty());
            }
        }
        for candidate in complete(line, &NoNames) {
            let rest = line
                .get(candidate.start..)
                .expect("a completion begins in the line, or at its end");
            // Also a shortened word is completed to one that begins like it.
            let fits = !candidate.literal
                || candidate.text.starts_with(rest.trim_start_matches(['"', '\'']));
            assert!(
                fits || rest.contains(['"', '\'', '\\']),
                "{candidate:?} does not complete {line:?}"
            );
        }
        help(line, &NoNames);
    }
    if let Ok(all) = statements(&text) {
        for (statement, line) in all {
            assert_eq!(
                parse(statement.text).as_ref(),
                Ok(&line),
                "a line of a script means what it means alone"
            );
        }
    }
}

/// The host's settings.
pub fn config(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Settings::parse(&text, Path::new("clearway.toml")) {
        Ok(settings) => {
            let ControlOptions { settings: shown, .. } = settings.control("1".into());
            assert!(!shown.is_empty());
            settings.setup("/run/clearway/host.sock".into(), [0; 32]);
        }
        Err(SettingsError::Wrong { line, what, .. }) => lies_in(&text, line, &what),
        Err(other) => panic!("{other} is not wrong with the text"),
    }
}

/// Packet scripts: what can be read is read again as the same.
pub fn script(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match clearway_script::parse(&text) {
        Ok(script) => {
            let again = clearway_script::parse(&text).expect("it could be read before");
            assert_eq!(script.events.len(), again.events.len());
        }
        Err(error) => lies_in(&text, error.pos.line as usize, &error.what),
    }
}

/// A program's file of settings.
pub fn vcl(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match AppConfig::parse(&text, Path::new("vcl.conf")) {
        Ok(config) => assert!(config.explicit),
        Err(ConfigError::Wrong { line, why, .. }) => lies_in(&text, line, &why),
        Err(other) => panic!("{other} is not wrong with the text"),
    }
}

fn lies_in(text: &str, line: usize, what: &str) {
    let lines = text.lines().count().max(1);
    // What is missing is missing behind the last line.
    assert!((1..=lines + 1).contains(&line), "line {line} of {lines}: {what}");
    assert!(!what.is_empty());
}
