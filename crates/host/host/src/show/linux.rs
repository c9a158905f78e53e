//! Our counters by the names that Linux has for them (/proc/net/snmp, /proc/net/netstat, nstat(8)).
//!
//! One table says for each which of ours it is. A counter of Linux that we do not keep is not in
//! it, so that nobody takes a zero for an answer.

use serde_json::{Map, Value, json};

use super::counters::Counted;
use super::grid::Grid;
use super::look::Look;
use crate::outcome::{CommandError, Output};

/// A counter of Linux.
struct Row {
    /// Its group and its name there, as nstat writes them: `TcpExtTCPTimeouts`.
    name: &'static str,
    /// Which of ours it is: all that stand here together, less those behind a minus.
    ours: &'static [&'static str],
    /// Where it says something else than Linux's, or more.
    note: &'static str,
}

const fn row(name: &'static str, ours: &'static [&'static str]) -> Row {
    Row { name, ours, note: "" }
}

const fn noted(name: &'static str, ours: &'static [&'static str], note: &'static str) -> Row {
    Row { name, ours, note }
}

const BOTH: &str = "both families";

/// Every counter of Linux that we have, in the order of nstat(8).
const ROWS: &[Row] = &[
    row("IpInHdrErrors", &["drop.ipv4-*"]),
    noted("IpOutNoRoutes", &["ip.no-route"], BOTH),
    noted("IpReasmTimeout", &["ip.reassembly-timeouts"], BOTH),
    noted("IpReasmReqds", &["ip.fragments-in"], BOTH),
    noted("IpReasmOKs", &["ip.reassembled"], BOTH),
    noted("IpFragOKs", &["ip.fragmented"], BOTH),
    noted("IpFragCreates", &["ip.fragments-out"], BOTH),
    noted(
        "IcmpInMsgs",
        &["icmp.messages-in", "drop.icmpv4-bad-checksum", "drop.icmpv6-bad-checksum"],
        BOTH,
    ),
    noted("IcmpInErrors", &["drop.icmpv4-*", "drop.icmpv6-*"], BOTH),
    noted("IcmpInCsumErrors", &["drop.icmpv4-bad-checksum", "drop.icmpv6-bad-checksum"], BOTH),
    noted("IcmpOutEchoReps", &["icmp.echo-replies-out"], BOTH),
    noted("IcmpOutRateLimitGlobal", &["icmp.errors-limited"], BOTH),
    row("TcpActiveOpens", &["tcp.active-opens"]),
    row("TcpPassiveOpens", &["tcp.passive-opens"]),
    row("TcpAttemptFails", &["tcp.attempt-fails"]),
    noted(
        "TcpEstabResets",
        &["tcp.established-resets"],
        "by a reset of the peer; Linux also counts those that its own end gave up",
    ),
    noted(
        "TcpInSegs",
        &["tcp.segs-in", "drop.tcp-too-short", "drop.tcp-bad-offset", "drop.tcp-bad-checksum"],
        "what a port has joined counts as one",
    ),
    row("TcpOutSegs", &["tcp.segs-out", "-tcp.retransmitted-segs"]),
    row("TcpRetransSegs", &["tcp.retransmitted-segs", "tcp.syn-acks-repeated"]),
    row("TcpInErrs", &["drop.tcp-too-short", "drop.tcp-bad-offset", "drop.tcp-bad-checksum"]),
    row("TcpOutRsts", &["tcp.resets-out"]),
    row("TcpInCsumErrors", &["drop.tcp-bad-checksum"]),
    noted("UdpInDatagrams", &["udp.datagrams-in"], BOTH),
    noted("UdpNoPorts", &["drop.udp-port-closed"], BOTH),
    noted(
        "UdpInErrors",
        &[
            "drop.udp-queue-full",
            "drop.udp-bad-checksum",
            "drop.udp-bad-length",
            "drop.udp-too-short",
        ],
        BOTH,
    ),
    noted("UdpOutDatagrams", &["udp.datagrams-out"], BOTH),
    noted("UdpRcvbufErrors", &["drop.udp-queue-full"], BOTH),
    noted("UdpInCsumErrors", &["drop.udp-bad-checksum"], BOTH),
    row("Ip6InHdrErrors", &["drop.ipv6-*"]),
    row("TcpExtSyncookiesSent", &["tcp.syn-cookies-sent"]),
    row("TcpExtSyncookiesRecv", &["tcp.syn-cookies-accepted"]),
    row("TcpExtSyncookiesFailed", &["tcp.syn-cookies-failed"]),
    row("TcpExtPAWSEstab", &["drop.tcp-old-timestamp"]),
    row("TcpExtListenOverflows", &["drop.tcp-accept-queue-full"]),
    row(
        "TcpExtListenDrops",
        &[
            "drop.tcp-accept-queue-full",
            "drop.tcp-backlog-full",
            "drop.tcp-connections-full",
            "drop.tcp-no-memory",
        ],
    ),
    noted("TcpExtTCPSackRecovery", &["tcp.fast-recoveries"], "those without SACK too"),
    row("TcpExtTCPSACKReneging", &["tcp.sack-reneged"]),
    row("TcpExtTCPTimeouts", &["tcp.retransmit-timeouts"]),
    row("TcpExtTCPLossProbes", &["tcp.tail-loss-probes"]),
    row("TcpExtTCPLossProbeRecovery", &["tcp.tail-loss-repairs"]),
    row("TcpExtTCPAbortOnData", &["tcp.resets-after-close"]),
    noted(
        "TcpExtTCPAbortOnMemory",
        &["tcp.orphans-evicted", "tcp.shortage-resets"],
        "to make room for others",
    ),
    row("TcpExtTCPAbortOnTimeout", &["tcp.timeouts"]),
    row("TcpExtTCPRcvQDrop", &["drop.tcp-store-full"]),
    row("TcpExtTCPOFODrop", &["drop.tcp-reassembly-full"]),
    row("TcpExtTCPDeferAcceptDrop", &["drop.tcp-deferred"]),
    row("TcpExtTCPReqQFullDoCookies", &["tcp.syn-cookies-sent"]),
    row("TcpExtTCPReqQFullDrop", &["drop.tcp-backlog-full"]),
    row("TcpExtTCPChallengeACK", &["tcp.challenge-acks"]),
    row("TcpExtTCPSYNChallenge", &["drop.tcp-syn-in-window"]),
    row("TcpExtTCPFastOpenActive", &["tcp.fast-open-active"]),
    row("TcpExtTCPFastOpenActiveFail", &["tcp.fast-open-not-taken", "tcp.fast-open-lost"]),
    row("TcpExtTCPFastOpenPassive", &["tcp.fast-open-passive"]),
    row("TcpExtTCPFastOpenPassiveFail", &["tcp.fast-open-cookies-refused"]),
    row("TcpExtTCPFastOpenListenOverflow", &["tcp.fast-open-overflows"]),
    row("TcpExtTCPFastOpenCookieReqd", &["tcp.fast-open-cookies-given"]),
    row("TcpExtTCPWinProbe", &["tcp.window-probes"]),
    row("TcpExtTCPKeepAlive", &["tcp.keepalives-out"]),
];

impl Row {
    fn value(&self, counted: &Counted) -> u64 {
        let (mut more, mut less) = (0u64, 0u64);
        for path in self.ours {
            match path.strip_prefix('-') {
                Some(path) => less += counted.get(path).unwrap_or_default(),
                None => more += counted.get(path).unwrap_or_default(),
            }
        }
        more.saturating_sub(less)
    }
}

/// The group that a name begins with.
pub(super) fn group(name: &str) -> &'static str {
    const GROUPS: &[&str] = &["TcpExt", "Tcp", "Udp", "Icmp", "Ip6", "Ip"];
    GROUPS.iter().find(|group| name.starts_with(**group)).copied().unwrap_or("Other")
}

/// Every counter of Linux that we have, with its value.
pub(super) fn values(counted: &Counted) -> Vec<(&'static str, u64)> {
    ROWS.iter().map(|row| (row.name, row.value(counted))).collect()
}

impl Look<'_> {
    pub(super) fn nstat(&self) -> Result<Output, CommandError> {
        let values = values(&Counted::of(self.host)?);
        let mut grid = Grid::new(&["Counter", ">Value", "Differs from Linux"]);
        for (row, (name, value)) in ROWS.iter().zip(&values) {
            grid.row([(*name).into(), value.to_string(), row.note.into()]);
        }
        let counters: Map<String, Value> =
            values.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        let order: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
        let json = json!({ "started": self.options.started, "order": order, "nstat": counters });
        Ok(Output::new(grid.text(), json))
    }
}

#[cfg(test)]
mod tests;
