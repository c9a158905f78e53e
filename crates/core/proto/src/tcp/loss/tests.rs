use super::{DupTest, is_duplicate};

const PLAIN: DupTest = DupTest {
    outstanding: true,
    occupies: false,
    ack_is_una: true,
    window_changed: false,
    sack: false,
    newly_sacked: 0,
};

#[test]
fn without_sack_all_five_conditions_of_rfc_5681_must_hold() {
    assert!(is_duplicate(&PLAIN));
    assert!(!is_duplicate(&DupTest { outstanding: false, ..PLAIN }));
    assert!(!is_duplicate(&DupTest { occupies: true, ..PLAIN }));
    assert!(!is_duplicate(&DupTest { ack_is_una: false, ..PLAIN }));
    assert!(!is_duplicate(&DupTest { window_changed: true, ..PLAIN }));
}

#[test]
fn with_sack_only_news_makes_a_duplicate() {
    let sack = DupTest { sack: true, ..PLAIN };
    assert!(!is_duplicate(&sack));
    assert!(is_duplicate(&DupTest { newly_sacked: 1, ..sack }));
    // RFC 6675 2: data and window do not matter.
    assert!(is_duplicate(&DupTest {
        newly_sacked: 1,
        occupies: true,
        window_changed: true,
        ..sack
    }));
    assert!(!is_duplicate(&DupTest { newly_sacked: 1, outstanding: false, ..sack }));
}
