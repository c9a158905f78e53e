use super::*;

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_page_has_its_length_and_its_body() {
    let page = Page::new(100, &Date::new(784_111_777));
    let all = page.bytes(Persistence::Implied);
    let (head, body) = all.split_at(page.head_len(Persistence::Implied));
    assert_eq!(body.len(), 100);
    assert_eq!(&body[..64], body::LINE);
    let head = text(head);
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"),
        "{head}"
    );
    assert!(
        head.contains("\r\nContent-Length: 100\r\n")
            && head.ends_with("\r\n\r\n")
            && !head.contains("Connection")
    );
}

#[test]
fn persistence_is_said_where_it_is_not_implied() {
    let page = Page::new(0, &Date::new(0));
    assert!(text(page.bytes(Persistence::Close)).contains("\r\nConnection: close\r\n"));
    assert!(text(page.bytes(Persistence::KeepAlive)).contains("\r\nConnection: keep-alive\r\n"));
}

#[test]
fn the_date_changes_in_place() {
    let mut page = Page::new(10, &Date::new(0));
    let before = page.bytes(Persistence::Close).len();
    page.set_date(&Date::new(784_111_777));
    let after = page.bytes(Persistence::Close);
    assert_eq!(after.len(), before);
    assert_eq!(after, Page::new(10, &Date::new(784_111_777)).bytes(Persistence::Close));
}

#[test]
fn a_long_page_is_not_kept_whole() {
    let page = Page::new(MAX_WHOLE + 1, &Date::new(0));
    assert_eq!(page.bytes(Persistence::Implied).len(), page.head_len(Persistence::Implied));
}

#[test]
fn an_error_to_head_has_no_body_but_its_length() {
    let get = text(&error(404, &Date::new(0), Persistence::Implied, false, ""));
    let head = text(&error(404, &Date::new(0), Persistence::Implied, true, ""));
    assert!(get.ends_with("\r\n\r\n404 Not Found\n"));
    assert!(
        head.ends_with("\r\n\r\n")
            && get.starts_with(&head)
            && head.contains("Content-Length: 14\r\n")
    );
}

#[test]
fn a_304_says_no_length() {
    assert!(
        !text(&head(304, &Date::new(0), Persistence::Implied, 0, "")).contains("Content-Length")
    );
}
