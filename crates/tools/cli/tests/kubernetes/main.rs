//! The manifests for Kubernetes are as its own API description has them, fit to each other, and name
//! options that `clearway` has.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

#[path = "../common/schema.rs"]
mod schema;

fn kubernetes() -> Value {
    serde_json::from_str(include_str!("schema.json")).unwrap()
}

fn manifests() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/kubernetes");
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The documents of a file, as Python's YAML parser reads them: as JSON.
fn documents(file: &Path) -> Vec<Value> {
    let script = "import json, sys, yaml\n\
                  print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
    let read = Command::new("python3").args(["-c", script]).arg(file).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    serde_json::from_slice(&read.stdout).unwrap()
}

/// What the API description has against a document.
fn refused(root: &Value, document: &Value) -> Vec<String> {
    let word = |name| document[name].as_str().unwrap_or_default();
    let kind = format!("{}/{}", word("apiVersion"), word("kind"));
    match root["kinds"].get(&kind) {
        Some(schema) => schema::broken(root, schema, document),
        None => vec![format!("schema.json knows no {kind}")],
    }
}

/// The specification of the pods that a document makes.
fn pod(document: &Value) -> Option<&Value> {
    match document["kind"].as_str()? {
        "Pod" => Some(&document["spec"]),
        "Deployment" | "DaemonSet" => Some(&document["spec"]["template"]["spec"]),
        _ => None,
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    list(&pod["initContainers"]).chain(list(&pod["containers"]))
}

#[test]
fn the_api_description_has_nothing_against_the_manifests() {
    let root = kubernetes();
    let mut seen = 0;
    for file in manifests() {
        for document in documents(&file) {
            assert_eq!(refused(&root, &document), Vec::<String>::new(), "{}", file.display());
            seen += 1;
        }
    }
    assert!(seen >= 6, "{seen} documents");
}

#[test]
fn the_api_description_refuses_what_an_api_server_would() {
    let root = kubernetes();
    let file = manifests().into_iter().find(|file| file.ends_with("service.yaml")).unwrap();
    let document = documents(&file).into_iter().find(|d| d["kind"] == "Deployment").unwrap();
    let broken = |place: &str, value: Value| {
        let mut document = document.clone();
        *document.pointer_mut(place).unwrap() = value;
        refused(&root, &document)
    };
    let container = "/spec/template/spec/containers/0";
    for (place, value) in [
        ("/spec/replicas", Value::from("three")),
        ("/spec/template/spec/terminationGracePeriodSeconds", Value::from("60")),
        (&format!("{container}/readinessProbe"), serde_json::json!({"exe": {"command": ["x"]}})),
        (&format!("{container}/env/0/value"), Value::from(1)),
        (container, serde_json::json!({"image": "without a name"})),
    ] {
        assert_eq!(broken(place, value.clone()).len(), 1, "{place}: {value}");
    }
    let mut other = document.clone();
    other["kind"] = Value::from("Deploymint");
    assert_eq!(refused(&root, &other), ["schema.json knows no apps/v1/Deploymint"]);
}

#[test]
fn what_a_manifest_names_is_there() {
    for file in manifests() {
        let documents = documents(&file);
        let maps: Vec<_> = documents.iter().filter(|d| d["kind"] == "ConfigMap").collect();
        let labels: Vec<_> =
            documents.iter().map(|d| &d["spec"]["template"]["metadata"]["labels"]).collect();
        for document in &documents {
            let wanted = &document["spec"]["selector"];
            let wanted = wanted.get("matchLabels").unwrap_or(wanted);
            assert!(wanted.is_null() || labels.contains(&wanted), "{wanted}: {}", file.display());
            let Some(pod) = pod(document) else { continue };
            for volume in list(&pod["volumes"]) {
                let map = &volume["configMap"]["name"];
                let is_there = maps.iter().any(|of| of["metadata"]["name"] == *map);
                assert!(map.is_null() || is_there, "{volume}");
            }
            for container in containers(pod) {
                for mount in list(&container["volumeMounts"]) {
                    let is_there = list(&pod["volumes"]).any(|of| of["name"] == mount["name"]);
                    assert!(is_there, "{mount}: {}", file.display());
                }
            }
        }
    }
}

/// The commands of the containers, their probes and hooks.
fn commands(value: &Value, found: &mut Vec<Vec<String>>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match (name.as_str(), member) {
                    ("command", Value::Array(words)) => {
                        found.push(words.iter().map(|w| w.as_str().unwrap().to_owned()).collect());
                    }
                    _ => commands(member, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| commands(item, found)),
        _ => {}
    }
}

#[test]
fn the_options_in_the_manifests_are_those_of_the_commands() {
    let mut checked = 0;
    for file in manifests() {
        let mut found = Vec::new();
        documents(&file).iter().for_each(|document| commands(document, &mut found));
        for words in found {
            let [program, command, rest @ ..] = words.as_slice() else { continue };
            if !program.ends_with("clearway") {
                continue;
            }
            // What follows `ctl` is the host's language, and its help is the host's.
            if command == "ctl" {
                assert_eq!(rest[0], "drain");
                continue;
            }
            let help = Command::new(env!("CARGO_BIN_EXE_clearway"))
                .args([command.as_str(), "--help"])
                .output()
                .unwrap();
            assert!(help.status.success(), "{words:?}");
            let help = String::from_utf8(help.stdout).unwrap();
            let own = rest.iter().take_while(|word| *word != "--");
            for option in own.filter(|word| word.starts_with("--")) {
                assert!(
                    help.contains(&format!("{option} ")) || help.contains(&format!("{option}\n")),
                    "{command} has no {option}"
                );
                checked += 1;
            }
        }
    }
    assert!(checked >= 8, "{checked} options");
}

#[test]
fn the_settings_and_commands_of_the_hosts_are_read_by_clearway_up() {
    let mut read = 0;
    for file in manifests() {
        for document in documents(&file) {
            for (name, text) in document["data"].as_object().into_iter().flatten() {
                let flag = match name.as_str() {
                    "host.toml" => "--config",
                    "network" => "--script",
                    _ => continue,
                };
                let kept =
                    std::env::temp_dir().join(format!("cwk8s-{}-{read}", std::process::id()));
                fs::write(&kept, text.as_str().unwrap()).unwrap();
                let said = Command::new(env!("CARGO_BIN_EXE_clearway"))
                    .args(["up", "--check", flag])
                    .arg(&kept)
                    .output()
                    .unwrap();
                fs::remove_file(&kept).unwrap();
                let why = String::from_utf8_lossy(&said.stderr);
                assert!(said.status.success(), "{}, {name}: {why}", file.display());
                read += 1;
            }
        }
    }
    assert_eq!(read, 3);
}

#[test]
fn each_word_of_a_schema_refuses_what_it_is_there_to_refuse() {
    let root = serde_json::json!({
        "$defs": {"name": {"type": "string"}},
        "type": "object",
        "properties": {
            "name": {"$ref": "#/$defs/name"},
            "kind": {"enum": ["a", "b"]},
            "is": {"const": 1},
            "count": {"type": ["integer", "null"], "minimum": 0},
            "list": {"items": {"oneOf": [{"type": "integer"}, {"type": "string"}]}},
        },
        "required": ["name"],
    });
    let check = |value: Value| schema::broken(&root, &root, &value);
    let good =
        serde_json::json!({"name": "x", "kind": "a", "is": 1, "count": null, "list": [1, "b"]});
    assert_eq!(check(good), Vec::<String>::new());
    for (bad, why) in [
        (serde_json::json!({}), "/: name is missing"),
        (serde_json::json!({"name": 1}), "/name: 1 is not of type \"string\""),
        (serde_json::json!({"name": "", "kind": "c"}), "/kind: \"c\" is none of [\"a\",\"b\"]"),
        (serde_json::json!({"name": "", "is": 2}), "/is: 2 is not 1"),
        (serde_json::json!({"name": "", "count": -1}), "/count: -1 is less than 0"),
        (
            serde_json::json!({"name": "", "list": [true]}),
            "/list/0: true is none of the oneOf choices",
        ),
        (serde_json::json!({"name": "", "more": 1}), "/more: no such member"),
    ] {
        assert_eq!(check(bad), [why]);
    }
}
