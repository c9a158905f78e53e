use std::collections::BTreeMap;

use crate::placement::Placement;
use crate::report::Sample;
use crate::scenario::Scenario as _;

fn sample(round: u32, connections: f64, mib: f64) -> Sample {
    Sample {
        system: "clearway".into(),
        point: connections.to_string(),
        round,
        at_seconds: 0.0,
        values: BTreeMap::from([("connections".into(), connections), ("server_mib".into(), mib)]),
        placement: Placement::default(),
        steal: 0.0,
        load: 0.0,
        warnings: Vec::new(),
    }
}

#[test]
fn bytes_of_a_connection_are_those_beyond_the_first_point_of_the_same_round() {
    let mut samples = [
        sample(1, 10.0, 40.0),
        sample(1, 1_034.0, 41.0),
        sample(2, 10.0, 30.0),
        sample(2, 1_034.0, 32.0),
    ];
    super::Connections.derive(&mut samples);
    let bytes: Vec<Option<f64>> =
        samples.iter().map(|s| s.values.get("bytes_per_connection").copied()).collect();
    assert_eq!(bytes, [None, Some(1_024.0), None, Some(2_048.0)]);
}
