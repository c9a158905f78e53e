//! The words behind the options of `clearway ip`.

use std::net::IpAddr;

/// What is to be shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Object {
    Address,
    Link,
    Route,
    Neighbour,
}

/// Which routing table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Table {
    Number(u64),
    All,
}

/// All that was said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Words {
    pub(super) object: Object,
    pub(super) device: Option<String>,
    pub(super) table: Table,
    /// `route get`
    pub(super) get: Option<String>,
}

/// Objects by their names. A beginning is enough; the first that it fits is meant, as at ip(8).
const OBJECTS: &[(&str, Object)] = &[
    ("address", Object::Address),
    ("addr", Object::Address),
    ("link", Object::Link),
    ("route", Object::Route),
    ("neighbour", Object::Neighbour),
    ("neighbor", Object::Neighbour),
];

/// Words that only read.
const SHOW: &[&str] = &["show", "list", "lst", "ls"];

/// Words of ip(8) that change something.
const CHANGES: &[&str] =
    &["add", "delete", "change", "replace", "append", "set", "flush", "save", "restore"];

impl Words {
    pub(super) fn parse(words: &[String]) -> Result<Words, String> {
        let mut words = words.iter().map(String::as_str).peekable();
        let named = words.next().unwrap_or_default();
        let object = OBJECTS.iter().find(|(name, _)| !named.is_empty() && name.starts_with(named));
        let Some((_, object)) = object else {
            return Err(format!(
                "`{named}` is no object. Possible: address, link, route, neighbour"
            ));
        };
        let mut said = Words { object: *object, device: None, table: Table::Number(0), get: None };
        if let Some(&verb) = words.peek() {
            if CHANGES.iter().any(|word| verb.len() > 1 && word.starts_with(verb)) {
                return Err(format!(
                    "`{verb}`: this only reads. `clearway ctl` changes, see `clearway ctl help`"
                ));
            }
            if *object == Object::Route && verb == "get" {
                words.next();
                let to = words.next().unwrap_or_default();
                let to: IpAddr =
                    to.parse().map_err(|_| format!("`route get {to}`: expected an address"))?;
                said.get = Some(to.to_string());
            } else if SHOW.iter().any(|word| word.starts_with(verb)) {
                words.next();
            }
        }
        while let Some(word) = words.next() {
            said.take(word, &mut words)?;
        }
        Ok(said)
    }

    fn take<'a>(
        &mut self,
        word: &'a str,
        more: &mut impl Iterator<Item = &'a str>,
    ) -> Result<(), String> {
        let is_route = self.object == Object::Route;
        match word {
            "dev" => {
                let name = more.next().ok_or("`dev`: expected the name of an interface")?;
                self.device = Some(name.into());
            }
            "table" if is_route => {
                let table = more.next().ok_or("`table`: expected its number, main or all")?;
                self.table = match table {
                    "all" => Table::All,
                    "main" => Table::Number(0),
                    number => Table::Number(number.parse().map_err(|_| {
                        format!("`table {number}`: expected its number, main or all")
                    })?),
                };
            }
            name if matches!(self.object, Object::Address | Object::Link)
                && self.device.is_none() =>
            {
                self.device = Some(name.into());
            }
            other => {
                let possible = if is_route { "dev NAME, table N" } else { "dev NAME" };
                return Err(format!("`{other}` cannot stand here. Possible: {possible}"));
            }
        }
        Ok(())
    }
}
