//! Holds a JSON value against a JSON Schema: of the language what the schemas of this tree use, and
//! a word that is not known here fails, so that none is passed over.

use serde_json::{Map, Value};

/// Words that say nothing about a value. What `format` names is an annotation in JSON Schema, too.
const SILENT: [&str; 8] =
    ["$comment", "$schema", "$id", "$defs", "title", "description", "format", "examples"];

/// What the value breaks, each with its place in it; nothing when it is as the schema has it. `root`
/// is what `$ref` is looked up in. Members that a schema with `properties` does not name are
/// refused also where it says nothing about them.
pub(crate) fn broken(root: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(root, schema, value, "", &mut found);
    found
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let rules = match schema {
        Value::Bool(true) => return,
        Value::Bool(false) => return found.push(format!("{at}: nothing may stand here")),
        Value::Object(rules) => rules,
        other => panic!("{at}: {other} is no schema"),
    };
    for (word, rule) in rules {
        let bad = |what: String| format!("{}: {what}", if at.is_empty() { "/" } else { at });
        match word.as_str() {
            "$ref" => {
                let name = rule.as_str().and_then(|name| name.strip_prefix('#')).unwrap();
                let target = root.pointer(name).unwrap_or_else(|| panic!("there is no {name}"));
                check(root, target, value, at, found);
            }
            "type" => {
                if !strings(rule).iter().any(|name| is_a(name, value)) {
                    found.push(bad(format!("{value} is not of type {rule}")));
                }
            }
            "enum" if !rule.as_array().unwrap().contains(value) => {
                found.push(bad(format!("{value} is none of {rule}")));
            }
            "const" if rule != value => found.push(bad(format!("{value} is not {rule}"))),
            "enum" | "const" => {}
            "minimum" => {
                if value.as_f64().is_some_and(|value| value < rule.as_f64().unwrap()) {
                    found.push(bad(format!("{value} is less than {rule}")));
                }
            }
            "required" => {
                let members = value.as_object();
                for name in strings(rule) {
                    if members.is_some_and(|members| !members.contains_key(name)) {
                        found.push(bad(format!("{name} is missing")));
                    }
                }
            }
            "properties" | "additionalProperties" => {}
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, rule, item, &format!("{at}/{index}"), found);
                }
            }
            "allOf" => {
                rule.as_array().unwrap().iter().for_each(|one| check(root, one, value, at, found));
            }
            "oneOf" | "anyOf" => {
                let mut choices = rule.as_array().unwrap().iter();
                // Of objects that say which they are, that one tells what is wrong.
                let event =
                    |one: &&Value| value.get("event") == one.pointer("/properties/event/const");
                let named = value.get("event").and_then(|_| choices.clone().find(event));
                // A number that is also an integer is both of them in the schemas of others.
                match named {
                    Some(choice) => check(root, choice, value, at, found),
                    None if choices.any(|choice| broken(root, choice, value).is_empty()) => {}
                    None => found.push(bad(format!("{value} is none of the {word} choices"))),
                }
            }
            word if SILENT.contains(&word) => {}
            word => panic!("the checker does not know {word}"),
        }
    }
    if let Value::Object(members) = value {
        check_members(root, rules, members, at, found);
    }
}

fn check_members(
    root: &Value,
    rules: &Map<String, Value>,
    members: &Map<String, Value>,
    at: &str,
    found: &mut Vec<String>,
) {
    let known = rules.get("properties").and_then(Value::as_object);
    for (name, member) in members {
        let at = format!("{at}/{name}");
        match (known.and_then(|known| known.get(name)), rules.get("additionalProperties")) {
            (Some(schema), _) => check(root, schema, member, &at, found),
            (None, Some(Value::Bool(false))) => found.push(format!("{at}: no such member")),
            (None, Some(schema)) => check(root, schema, member, &at, found),
            (None, None) if known.is_some() => found.push(format!("{at}: no such member")),
            (None, None) => {}
        }
    }
}

fn strings(value: &Value) -> Vec<&str> {
    match value {
        Value::String(one) => vec![one],
        Value::Array(many) => many.iter().map(|one| one.as_str().unwrap()).collect(),
        other => panic!("{other} is no name"),
    }
}

fn is_a(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("there is no type {other}"),
    }
}
