use super::*;

fn parts(first: c_uint, last: c_uint, exceptions: &[c_uint]) -> Vec<(c_uint, c_uint)> {
    let mut parts = Vec::new();
    let done = around(first, last, exceptions.iter().copied(), |first, last| {
        parts.push((first, last));
        Ok(0)
    });
    assert_eq!(done, Ok(0));
    parts
}

#[test]
fn a_range_goes_around_its_exceptions() {
    assert_eq!(parts(3, 9, &[]), [(3, 9)]);
    assert_eq!(parts(3, 9, &[5]), [(3, 4), (6, 9)]);
    assert_eq!(parts(3, 9, &[3, 4, 9]), [(5, 8)]);
    assert_eq!(parts(3, c_uint::MAX, &[900, 901]), [(3, 899), (902, c_uint::MAX)]);
    assert_eq!(parts(5, 5, &[5]), []);
}
