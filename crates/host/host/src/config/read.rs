//! From a parsed file to settings: each key finds its row, each value its place.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use clearway_errors::Code;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use zeroize::Zeroizing;

use super::error::{SettingsError, Wrong};
use super::keys::{KEYS, Key, may_change};
use super::settings::{NamespaceSetting, PortSetting, Settings};
use super::value::{Set, Value};

impl Settings {
    /// Reads a file.
    pub fn load(path: &Path) -> Result<Settings, SettingsError> {
        let unreadable = |error| SettingsError::Unreadable { path: path.to_owned(), error };
        let text = Zeroizing::new(std::fs::read_to_string(path).map_err(unreadable)?);
        Settings::parse(&text, path)
    }

    /// Reads a text; `path` is only named in errors.
    pub fn parse(text: &str, path: &Path) -> Result<Settings, SettingsError> {
        settings(text).map_err(|wrong| wrong.at(text, path))
    }
}

/// The settings that a text holds.
fn settings(text: &str) -> Result<Settings, Wrong> {
    let root = DeTable::parse(text).map_err(|error| {
        Wrong::of(Code::SettingsSyntax, error.span().unwrap_or(0..0), error.message())
    })?;
    let mut settings = Settings::default();
    for (name, value) in root.get_ref() {
        section(&mut settings, name, value)?;
        remember(&mut settings, name.get_ref(), value);
    }
    Ok(settings)
}

/// Notes what the text says where nothing can change while the host runs. No secret is there.
fn remember(settings: &mut Settings, section: &str, value: &Spanned<DeValue<'_>>) {
    match value.get_ref() {
        DeValue::Table(keys) => {
            for (name, value) in
                keys.iter().filter(|(name, _)| !may_change(section, name.get_ref()))
            {
                settings
                    .fixed
                    .insert(format!("{section}.{}", name.get_ref()), said(value.get_ref()));
            }
        }
        DeValue::Array(list) if !may_change(section, "") => {
            settings.fixed.insert(
                format!("[[{section}]]"),
                list.iter().map(|one| said(one.get_ref())).collect(),
            );
        }
        _ => {}
    }
}

/// A value as text in which nothing but the value counts: no place, no remark, no order.
fn said(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(is) => is.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(list) => list.iter().map(|one| said(one.get_ref()) + ",").collect(),
        DeValue::Table(keys) => {
            let mut all: Vec<String> = keys
                .iter()
                .map(|(name, value)| format!("{}={};", name.get_ref(), said(value.get_ref())))
                .collect();
            all.sort();
            all.concat()
        }
    }
}

type Name<'i> = Spanned<Cow<'i, str>>;

fn section(settings: &mut Settings, name: &Name<'_>, value: &Spanned<DeValue<'_>>) -> Set {
    let mut sections: Vec<&str> = KEYS.iter().map(|key| key.section).collect();
    sections.dedup();
    let Some(&section) = sections.iter().find(|section| **section == name.get_ref().as_ref())
    else {
        return Err(unknown("section", name, sections.into_iter()));
    };
    match (section, value.get_ref()) {
        ("ports", DeValue::Array(list)) => list.iter().try_for_each(|one| {
            settings.ports.push(PortSetting::default());
            each(settings, section, one)?;
            port_is_named(settings, one.span())
        }),
        ("namespaces", DeValue::Array(list)) => list.iter().try_for_each(|one| {
            settings.namespaces.push(NamespaceSetting::default());
            each(settings, section, one)?;
            namespace_is_named(settings, one.span())
        }),
        ("ports" | "namespaces", _) => Err(Wrong::of(
            Code::SettingsSyntax,
            name.span(),
            format!("`{section}` is a list: write [[{section}]] before each"),
        )),
        (_, DeValue::Table(_)) => each(settings, section, value),
        _ => Err(Wrong::of(
            Code::SettingsSyntax,
            name.span(),
            format!("`{section}` is a section: write [{section}], then its keys below"),
        )),
    }
}

fn port_is_named(settings: &Settings, at: Range<usize>) -> Set {
    let named = settings.ports.last().is_some_and(|port| port.port.is_some());
    if named {
        Ok(())
    } else {
        Err(Wrong::of(
            Code::SettingsMissing,
            at,
            "this port has no `port`, such as port = \"tap:clearway0\"",
        ))
    }
}

fn namespace_is_named(settings: &Settings, at: Range<usize>) -> Set {
    let named = settings.namespaces.last().is_some_and(|namespace| !namespace.id.is_empty());
    if named {
        Ok(())
    } else {
        Err(Wrong::of(Code::SettingsMissing, at, "this namespace has no `id`"))
    }
}

fn each(settings: &mut Settings, section: &str, table: &Spanned<DeValue<'_>>) -> Set {
    let Some(keys) = table.get_ref().as_table() else {
        return Err(Wrong::new(table.span(), format!("`{section}` holds keys with values")));
    };
    for (name, value) in keys {
        let row = |key: &&Key| key.section == section && key.name == name.get_ref().as_ref();
        let Some(key) = KEYS.iter().find(row) else {
            let known = KEYS.iter().filter(|key| key.section == section).map(|key| key.name);
            return Err(unknown(&format!("key of [{section}]"), name, known));
        };
        (key.set)(settings, &Value { at: value.span(), value: value.get_ref() })?;
    }
    Ok(())
}

fn unknown<'a>(what: &str, name: &Name<'_>, known: impl Iterator<Item = &'a str>) -> Wrong {
    let word = name.get_ref().as_ref();
    let known: Vec<&str> = known.collect();
    let nearest = known.iter().min_by_key(|candidate| strsim::osa_distance(word, candidate));
    let close = nearest.filter(|candidate| {
        strsim::osa_distance(word, candidate) <= (word.chars().count() / 2).max(1)
    });
    let hint = match close {
        Some(candidate) => format!("Did you mean `{candidate}`?"),
        None => format!("There are: {}.", known.join(", ")),
    };
    Wrong::of(Code::SettingsUnknown, name.span(), format!("`{word}` is no {what}. {hint}"))
}
