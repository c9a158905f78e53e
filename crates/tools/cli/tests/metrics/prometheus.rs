//! A real Prometheus and its promtool: what they say of the metrics, the alerts and the dashboard.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::{AT_A_SOCKET, Host, Netns, eventually, families, root, top};

const ALERTS: &str = "packaging/prometheus/clearway-alerts.yml";

/// Names of ours in an expression.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = words.filter(|word| word.starts_with("clearway_") || word.starts_with("node_"));
    ours.map(str::to_owned).collect()
}

/// Every series of the older format, as its families' names and those of histograms.
fn series(classic: &str) -> BTreeSet<String> {
    let names = families(classic);
    let buckets = names.iter().map(|name| format!("{name}_bucket")).collect::<BTreeSet<_>>();
    names.union(&buckets).cloned().collect()
}

#[test]
fn promtool_finds_nothing_wrong_with_metrics_and_alerts() {
    let host = Host::new(AT_A_SOCKET, None);
    let (_, classic) = host.get("/metrics");
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(classic.as_bytes()).unwrap();
    let out = promtool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
    // It holds names of node_exporter against its own rules, which those do not keep.
    let of_ours: Vec<&str> = said.lines().filter(|line| !line.starts_with("node_")).collect();
    assert!(of_ours.is_empty(), "{of_ours:?}");

    let out = Command::new("promtool").args(["check", "rules"]).arg(top(ALERTS)).output().unwrap();
    let said = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
    assert!(out.status.success() && said.contains("SUCCESS"), "{said}");
}

#[test]
fn alerts_and_dashboard_name_only_what_a_host_tells() {
    let host = Host::new(AT_A_SOCKET, None);
    let there = series(&host.get("/metrics").1);
    let alerts = fs::read_to_string(top(ALERTS)).unwrap();
    // What stands in a sentence for people may be a part of a name.
    let rules = alerts.lines().filter(|line| !line.contains("description:")).collect::<String>();
    let dashboard = fs::read_to_string(top("packaging/grafana/clearway.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let exprs: Vec<&str> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    assert!(exprs.len() > 20, "{exprs:?}");
    for (what, text) in [("alerts", rules), ("dashboard", exprs.join("\n"))] {
        let named = names(&text);
        assert!(named.len() > 5, "{what}: {named:?}");
        let unknown: Vec<&String> = named.difference(&there).collect();
        assert!(unknown.is_empty(), "{what}: {unknown:?}");
    }
    // No two panels lie over each other, and each has a number of its own.
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
}

/// A Prometheus of the test's own, ended with it.
struct Prometheus(Child);

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn prometheus_scrapes_a_host_and_loads_the_alerts_and_every_panel() {
    if !root() {
        return;
    }
    let netns = Netns::new("cwprom");
    let host = Host::new("[metrics]\nlisten = \"127.0.0.1:9466\"\n", Some(&netns));
    let health = netns.text("curl", &["-sS", "http://127.0.0.1:9466/healthz"]);
    assert_eq!(health, "ok\n");
    let config = host.path("prometheus.yml");
    let alerts = fs::canonicalize(top(ALERTS)).unwrap();
    let text = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{alerts:?}]\n\
         scrape_configs:\n  - job_name: clearway\n    static_configs:\n\
         \x20     - targets: ['127.0.0.1:9466']\n"
    );
    fs::write(&config, text).unwrap();
    let data = format!("--storage.tsdb.path={}", host.path("data").display());
    let config = format!("--config.file={}", config.display());
    let args = [&*config, &*data, "--web.listen-address=127.0.0.1:9490"];
    let log = fs::File::create(host.path("prometheus.log")).unwrap();
    let mut command = netns.command("prometheus", &args);
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let prometheus = Prometheus(command.spawn().unwrap());
    let ask = |path: &str, query: &str| -> Option<Value> {
        let data = format!("query={query}");
        let url = format!("http://127.0.0.1:9490{path}");
        let args = ["-sS", "-G", "--max-time", "20", "--data-urlencode", &data, &url];
        let out = netns.run("curl", &args);
        serde_json::from_slice(&out.stdout).ok()
    };
    let found = |query: &str| {
        let answer = ask("/api/v1/query", query)?;
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        Some(answer["data"]["result"].as_array()?.clone())
    };
    eventually("it has scraped the host", || {
        found("up{job=\"clearway\"} == 1").is_some_and(|result| result.len() == 1)
    });
    let workers = found("clearway_turn_seconds_count").unwrap();
    assert_eq!(workers.len(), 1, "a histogram of each worker");
    let rules = ask("/api/v1/rules", "").unwrap();
    let group = &rules["data"]["groups"][0];
    assert_eq!(group["name"], "clearway", "{rules}");
    let alerts = fs::read_to_string(top("packaging/prometheus/clearway-alerts.yml")).unwrap();
    let alerts = alerts.matches("- alert:").count();
    eventually("every alert was worked out without an error", || {
        let rules = ask("/api/v1/rules", "").unwrap();
        let all = rules["data"]["groups"][0]["rules"].as_array().unwrap().clone();
        all.len() == alerts && all.iter().all(|rule| rule["health"] == "ok")
    });
    let dashboard = fs::read_to_string(top("packaging/grafana/clearway.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let query = query.replace("$instance", ".*").replace("$__rate_interval", "1m");
            found(&query).unwrap();
        }
    }
    drop(prometheus);
}
