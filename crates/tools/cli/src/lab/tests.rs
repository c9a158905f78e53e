use super::Sides;

#[test]
fn both_sides_have_cores() {
    assert_eq!("0/1".parse(), Ok(Sides(vec![0], vec![1])));
    assert_eq!("0-1,4/2".parse(), Ok(Sides(vec![0, 1, 4], vec![2])));
    for wrong in ["0", "/1", "0/", "0/x", "1-0/1"] {
        assert!(wrong.parse::<Sides>().is_err(), "{wrong}");
    }
}

#[test]
fn a_measurement_has_a_length_and_a_ratio_is_above_nothing() {
    assert!(super::positive("0.1").is_ok() && super::positive("0.01").is_err());
    assert!(
        super::least("0.9").is_ok() && super::least("0").is_err() && super::least("nan").is_err()
    );
}
