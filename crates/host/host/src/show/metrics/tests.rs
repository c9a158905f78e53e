use super::{classic, for_textfile};

const OPEN: &str = "# HELP clearway_drops Packets that were dropped.
# TYPE clearway_drops counter
clearway_drops_total{reason=\"land\"} 3
# HELP node_netstat_Tcp_InSegs Statistic TcpInSegs.
# TYPE node_netstat_Tcp_InSegs unknown
node_netstat_Tcp_InSegs 7
# HELP clearway_programs Programs.
# TYPE clearway_programs gauge
clearway_programs 1
# EOF
";

#[test]
fn in_the_older_format_the_suffix_of_a_counter_is_a_part_of_its_name() {
    let expected = "# HELP clearway_drops_total Packets that were dropped.
# TYPE clearway_drops_total counter
clearway_drops_total{reason=\"land\"} 3
# HELP node_netstat_Tcp_InSegs Statistic TcpInSegs.
# TYPE node_netstat_Tcp_InSegs untyped
node_netstat_Tcp_InSegs 7
# HELP clearway_programs Programs.
# TYPE clearway_programs gauge
clearway_programs 1
";
    assert_eq!(classic(OPEN), expected);
}

#[test]
fn the_file_for_node_exporter_has_none_of_its_names() {
    let text = for_textfile(OPEN);
    assert!(!text.contains("node_netstat"), "{text}");
    assert!(text.contains("# TYPE clearway_netstat_Tcp_InSegs untyped\n"), "{text}");
    assert!(text.contains("\nclearway_netstat_Tcp_InSegs 7\n"), "{text}");
}
