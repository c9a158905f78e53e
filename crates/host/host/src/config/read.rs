//! From a parsed file to settings: each key finds its row, each value its place.

use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Wrong;
use super::keys::{KEYS, Key, may_change};
use super::{NamespaceSetting, PortSetting, Settings};

/// A value with its place in the text.
pub(super) struct Value<'a, 'i> {
    at: Range<usize>,
    value: &'a DeValue<'i>,
}

/// What a setter answers.
pub(super) type Set = Result<(), Wrong>;

/// The settings that a text holds.
pub(super) fn settings(text: &str) -> Result<Settings, Wrong> {
    let root = DeTable::parse(text).map_err(|error| Wrong::new(error.span().unwrap_or(0..0), error.message()))?;
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
            for (name, value) in keys.iter().filter(|(name, _)| !may_change(section, name.get_ref())) {
                settings.fixed.insert(format!("{section}.{}", name.get_ref()), said(value.get_ref()));
            }
        }
        DeValue::Array(list) if !may_change(section, "") => {
            settings.fixed.insert(format!("[[{section}]]"), list.iter().map(|one| said(one.get_ref())).collect());
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
            let mut all: Vec<String> =
                keys.iter().map(|(name, value)| format!("{}={};", name.get_ref(), said(value.get_ref()))).collect();
            all.sort();
            all.concat()
        }
    }
}

type Name<'i> = Spanned<Cow<'i, str>>;

fn section(settings: &mut Settings, name: &Name<'_>, value: &Spanned<DeValue<'_>>) -> Set {
    let mut sections: Vec<&str> = KEYS.iter().map(|key| key.section).collect();
    sections.dedup();
    let Some(&section) = sections.iter().find(|section| **section == name.get_ref().as_ref()) else {
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
        ("ports" | "namespaces", _) => {
            Err(Wrong::new(name.span(), format!("`{section}` is a list: write [[{section}]] before each")))
        }
        (_, DeValue::Table(_)) => each(settings, section, value),
        _ => Err(Wrong::new(name.span(), format!("`{section}` is a section: write [{section}], then its keys below"))),
    }
}

fn port_is_named(settings: &Settings, at: Range<usize>) -> Set {
    let named = settings.ports.last().is_some_and(|port| port.port.is_some());
    if named { Ok(()) } else { Err(Wrong::new(at, "this port has no `port`, such as port = \"tap:clearway0\"")) }
}

fn namespace_is_named(settings: &Settings, at: Range<usize>) -> Set {
    let named = settings.namespaces.last().is_some_and(|namespace| !namespace.id.is_empty());
    if named { Ok(()) } else { Err(Wrong::new(at, "this namespace has no `id`")) }
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
    let close = nearest.filter(|candidate| strsim::osa_distance(word, candidate) <= (word.chars().count() / 2).max(1));
    let hint = match close {
        Some(candidate) => format!("Did you mean `{candidate}`?"),
        None => format!("There are: {}.", known.join(", ")),
    };
    Wrong::new(name.span(), format!("`{word}` is no {what}. {hint}"))
}

impl Value<'_, '_> {
    /// A complaint about this value.
    pub(super) fn wrong(&self, what: impl Into<String>) -> Wrong {
        Wrong::new(self.at.clone(), what)
    }

    pub(super) fn text(&self) -> Result<String, Wrong> {
        let text = self.value.as_str().filter(|text| !text.is_empty());
        text.map(str::to_owned).ok_or_else(|| self.wrong("expected a text in quotes"))
    }

    pub(super) fn boolean(&self) -> Result<bool, Wrong> {
        self.value.as_bool().ok_or_else(|| self.wrong("expected true or false"))
    }

    /// A whole number, or a text such as "4M" that means one.
    fn whole(&self) -> Option<u64> {
        match self.value {
            DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
            DeValue::String(text) => {
                let (digits, factor) = match text.chars().last()? {
                    'K' | 'k' => (&text[..text.len() - 1], 1 << 10),
                    'M' | 'm' => (&text[..text.len() - 1], 1 << 20),
                    'G' | 'g' => (&text[..text.len() - 1], 1 << 30),
                    _ => (text.as_ref(), 1),
                };
                digits.parse::<u64>().ok()?.checked_mul(factor)
            }
            _ => None,
        }
    }

    /// A whole number within bounds.
    pub(super) fn number<N: TryFrom<u64>>(&self, bounds: RangeInclusive<u64>) -> Result<N, Wrong> {
        let (least, most) = (*bounds.start(), *bounds.end());
        let fits = self.whole().filter(|number| bounds.contains(number)).and_then(|number| N::try_from(number).ok());
        fits.ok_or_else(|| self.wrong(format!("expected a number from {least} to {most}")))
    }

    /// A text that is parsed.
    pub(super) fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(&self) -> Result<T, Wrong> {
        self.text()?.parse().map_err(|error| self.wrong(format!("{error}")))
    }

    /// One of several words.
    pub(super) fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, Wrong> {
        let found = self.value.as_str().and_then(|text| words.iter().find(|(word, _)| *word == text));
        found.map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            self.wrong(format!("expected {}", words.join(", ")))
        })
    }

    /// The values of a list; one value stands for a list of one.
    pub(super) fn list<T>(&self, each: impl Fn(&Value<'_, '_>) -> Result<T, Wrong>) -> Result<Vec<T>, Wrong> {
        match self.value {
            DeValue::Array(list) => {
                list.iter().map(|one| each(&Value { at: one.span(), value: one.get_ref() })).collect()
            }
            _ => Ok(vec![each(self)?]),
        }
    }
}
