//! A value of the settings as it stands in the text, and what may be made of it.

use std::ops::{Range, RangeInclusive};

use toml::de::DeValue;

use super::error::Wrong;

/// A value with its place in the text.
pub(super) struct Value<'a, 'i> {
    pub(super) at: Range<usize>,
    pub(super) value: &'a DeValue<'i>,
}

/// What a setter answers.
pub(super) type Set = Result<(), Wrong>;

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
        let fits = self
            .whole()
            .filter(|number| bounds.contains(number))
            .and_then(|number| N::try_from(number).ok());
        fits.ok_or_else(|| self.wrong(format!("expected a number from {least} to {most}")))
    }

    /// A text that is parsed.
    pub(super) fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(&self) -> Result<T, Wrong> {
        self.text()?.parse().map_err(|error| self.wrong(format!("{error}")))
    }

    /// One of several words.
    pub(super) fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, Wrong> {
        let found =
            self.value.as_str().and_then(|text| words.iter().find(|(word, _)| *word == text));
        found.map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            self.wrong(format!("expected {}", words.join(", ")))
        })
    }

    /// The values of a list; one value stands for a list of one.
    pub(super) fn list<T>(
        &self,
        each: impl Fn(&Value<'_, '_>) -> Result<T, Wrong>,
    ) -> Result<Vec<T>, Wrong> {
        match self.value {
            DeValue::Array(list) => list
                .iter()
                .map(|one| each(&Value { at: one.span(), value: one.get_ref() }))
                .collect(),
            _ => Ok(vec![each(self)?]),
        }
    }
}
