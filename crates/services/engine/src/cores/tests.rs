use super::*;

fn list(text: &str) -> Vec<usize> {
    text.parse::<Cores>().unwrap().list().to_vec()
}

#[test]
fn lists_and_ranges_are_read_in_their_order() {
    assert_eq!(list("0"), [0]);
    assert_eq!(list("1,0"), [1, 0]);
    assert_eq!(list("0-3,6"), [0, 1, 2, 3, 6]);
    assert_eq!("0-2,5".parse::<Cores>().unwrap().to_string(), "0,1,2,5");
}

#[test]
fn what_is_no_list_is_refused_with_the_word() {
    for text in ["", "x", "1,", "-1", "3-1", "99999999", "1-x"] {
        assert!(text.parse::<Cores>().unwrap_err().to_string().contains("is no core"), "{text:?}");
    }
    assert!("0,0-1".parse::<Cores>().unwrap_err().to_string().contains("core 0 is named twice"));
}

#[test]
fn a_core_that_is_not_there_is_refused_with_those_that_are() {
    let error = pin(CpuSet::count() - 1).unwrap_err().to_string();
    let (before, mine) = error.split_once("may run on ").unwrap();
    assert!(before.contains(&format!("core {}", CpuSet::count() - 1)), "{error}");
    let list = mine.split(", ").next().unwrap_or_default().split(" and").next().unwrap_or_default();
    assert_eq!(
        list.trim_end_matches(',').parse::<Cores>().unwrap().count(),
        available(),
        "{error}"
    );
}

#[test]
fn a_thread_can_be_bound_to_a_core_it_may_use() {
    let core = (0..CpuSet::count())
        .find(|&c| sched_getaffinity(Pid::from_raw(0)).unwrap().is_set(c).unwrap())
        .unwrap();
    std::thread::spawn(move || {
        pin(core).unwrap();
        assert_eq!(available(), 1);
    })
    .join()
    .unwrap();
}
