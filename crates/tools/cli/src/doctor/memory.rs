//! Huge pages and memory nodes.

use super::Findings;
use super::files::{Files, list};

const HUGE: &str = "sys/kernel/mm/hugepages";

/// Huge pages that are reserved and free, over all sizes: those of 2 MiB are asked for first.
pub(super) fn huge_pages(files: &Files, found: &mut Findings) {
    let sizes = files.names(HUGE);
    if sizes.is_empty() {
        return found.info(
            "hugepages",
            "this kernel has no huge pages; dpdk: ports work without them, and slower",
        );
    }
    let pages = |folder: &str, what: &str| files.number(&format!("{folder}/{what}")).unwrap_or(0);
    let mut reserved = Vec::new();
    for size in &sizes {
        let folder = format!("{HUGE}/{size}");
        let (all, free) = (pages(&folder, "nr_hugepages"), pages(&folder, "free_hugepages"));
        if all > 0 {
            let size = size.trim_start_matches("hugepages-");
            reserved.push((format!("{free} of {all} pages of {size} are free"), free));
        }
    }
    if reserved.is_empty() {
        return found.advice(
            "hugepages",
            "none are reserved; dpdk: ports work without them, and slower",
            "sysctl -w vm.nr_hugepages=256    # for good: echo vm.nr_hugepages=256 > \
             /etc/sysctl.d/80-clearway.conf",
        );
    }
    let words: Vec<String> = reserved.iter().map(|(text, _)| text.clone()).collect();
    if reserved.iter().all(|(_, free)| *free == 0) {
        let what = format!("all are taken ({}); dpdk: ports will do without", words.join(", "));
        return found.advice("hugepages", what, "sysctl -w vm.nr_hugepages=512");
    }
    found.ok("hugepages", words.join(", "));
}

/// Several nodes: huge pages on each, because a card's frames should lie near the card.
pub(super) fn numa(files: &Files, found: &mut Findings) {
    const NODES: &str = "sys/devices/system/node";
    let nodes = list(&files.text(&format!("{NODES}/online")).unwrap_or_default());
    if nodes.is_empty() {
        return;
    }
    if nodes.len() < 2 {
        return found.ok("numa", "one memory node");
    }
    let pages = |node: u32| {
        let folder = format!("{NODES}/node{node}/hugepages");
        let of =
            |size: &String| files.number(&format!("{folder}/{size}/free_hugepages")).unwrap_or(0);
        files.names(&folder).iter().map(of).sum::<i64>()
    };
    let cores = |node: u32| files.text(&format!("{NODES}/node{node}/cpulist")).unwrap_or_default();
    let any = nodes.iter().any(|&node| pages(node) > 0);
    let without = nodes.iter().filter(|&&node| any && pages(node) == 0 && !cores(node).is_empty());
    let without: Vec<u32> = without.copied().collect();
    let words: Vec<String> =
        nodes.iter().map(|&node| format!("node {node} has cores {}", cores(node))).collect();
    match without.first() {
        Some(node) => found.advice(
            "numa",
            format!(
                "no huge pages are free on node {node}; a card there would have its frames far away"
            ),
            format!("echo 256 > /{NODES}/node{node}/hugepages/hugepages-2048kB/nr_hugepages"),
        ),
        None => {
            found.info("numa", format!("{}. Give --cores of the card's node", words.join(", ")))
        }
    }
}
