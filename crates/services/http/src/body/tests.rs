use proptest::prelude::*;

use super::*;

fn drain(mut body: Body, piece: usize) -> Vec<u8> {
    let mut all = Vec::new();
    let mut out = vec![0; piece];
    while body.remaining() > 0 {
        let n = body.peek(&mut out).unwrap();
        all.extend_from_slice(&out[..n]);
        body.skip(n);
    }
    all
}

#[test]
fn text_repeats_its_line() {
    let all = drain(Body::text(0, 200), 7);
    assert_eq!(&all[..64], LINE);
    assert_eq!(&all[64..128], LINE);
    assert_eq!(all.len(), 200);
    assert_eq!(drain(Body::text(70, 200), 64), &all[70..]);
}

#[test]
fn a_file_is_read_from_and_to_where_it_was_asked() {
    let path = std::env::temp_dir().join(format!("clearway-body-{}", std::process::id()));
    std::fs::write(&path, "0123456789").unwrap();
    let file = File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(drain(Body::file(file, 2, 9), 3), b"2345678");
}

#[test]
fn a_file_that_shrank_is_an_error() {
    let path = std::env::temp_dir().join(format!("clearway-shrunk-{}", std::process::id()));
    std::fs::write(&path, "0123456789").unwrap();
    let file = File::open(&path).unwrap();
    std::fs::write(&path, "01").unwrap();
    let body = Body::file(file, 0, 10);
    assert!(body.peek(&mut [0; 10]).is_err());
    std::fs::remove_file(&path).unwrap();
}

proptest! {
    #[test]
    fn any_piece_of_the_random_sequence_is_the_same_as_in_the_whole(seed: u64, from in 0usize..300,
        len in 0usize..100) {
        let mut whole = vec![0; 400];
        random(seed, 0, &mut whole);
        let mut piece = vec![0; len];
        random(seed, from as u64, &mut piece);
        prop_assert_eq!(&piece, &whole[from..from + len]);
    }
}
