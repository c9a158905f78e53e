use super::Stream;

#[test]
fn pieces_are_cut_from_one_stream() {
    let mut whole = [0; 100];
    Stream(7).fill(0, &mut whole);
    for at in 0..50 {
        let mut piece = [0; 33];
        Stream(7).fill(at as u64, &mut piece);
        assert_eq!(piece, whole[at..at + 33]);
        assert_eq!(Stream(7).first_wrong(at as u64, &piece), None);
    }
}

#[test]
fn the_first_wrong_byte_is_found_at_its_place() {
    for at in 1000..1008 {
        for len in 0..30 {
            let mut bytes = vec![0; len];
            Stream(1).fill(at, &mut bytes);
            for wrong in 0..len {
                let mut bytes = bytes.clone();
                bytes[wrong] ^= 1;
                bytes[len - 1] ^= 2;
                assert_eq!(Stream(1).first_wrong(at, &bytes), Some(at + wrong as u64));
            }
        }
    }
}

#[test]
fn another_stream_is_told_apart() {
    let mut bytes = [0; 64];
    Stream(1).fill(0, &mut bytes);
    assert!(Stream(2).first_wrong(0, &bytes).is_some());
}
