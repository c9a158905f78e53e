//! What all conversations of one core share, and the decision what a request gets.

use std::fmt::Write as _;
use std::io;
use std::time::SystemTime;

use clearway_base::Duration;

use crate::body::Body;
use crate::config::{Config, Timeouts};
use crate::files::{Found, Missing, Root};
use crate::page::{self, Date, Page, Persistence};
use crate::request::{Head, Method};
use crate::stats::Stats;
use crate::target::{self, Wanted};
use crate::transfer::Transfer;

/// The longest body that is read only to be thrown away, in bytes.
const MAX_IGNORED_BODY: u64 = 1 << 20;

/// How much of a body is made or read at a time. A larger piece would not be faster and would push
/// the packets out of the cache.
const PIECE: usize = 64 * 1024;

/// What a request gets.
pub enum Plan {
    /// The fixed page.
    Page(Persistence),
    /// The body is read and its digest returned.
    Upload(Persistence),
    /// This response; already counted.
    Send(Box<Transfer>),
}

/// What all conversations of one core share.
pub struct Server {
    config: Config,
    root: Option<Root>,
    page: Page,
    date: Date,
    date_seconds: u64,
    scratch: Vec<u8>,
    /// What was done so far.
    pub stats: Stats,
}

impl Server {
    /// Opens the root, if there is one, and makes the page.
    pub fn new(config: Config) -> io::Result<Server> {
        let root = config.root.as_deref().map(Root::open).transpose()?;
        let date = Date::new(0);
        let page = Page::new(config.page_len, &date);
        Ok(Server {
            config,
            root,
            page,
            date,
            date_seconds: 0,
            scratch: vec![0; PIECE],
            stats: Stats::default(),
        })
    }

    /// Says what time it is, as time since the start of 1970. Cheap when the second has not
    /// changed.
    #[inline]
    pub fn set_time(&mut self, since_1970: Duration) {
        let seconds = since_1970.as_secs();
        if seconds != self.date_seconds {
            self.date_seconds = seconds;
            self.date = Date::new(seconds);
            self.page.set_date(&self.date);
        }
    }

    pub(crate) fn timeouts(&self) -> &Timeouts {
        &self.config.timeouts
    }

    pub(crate) fn page(&self) -> &Page {
        &self.page
    }

    pub(crate) fn date(&self) -> &Date {
        &self.date
    }

    pub(crate) fn scratch(&mut self) -> (&mut [u8], &mut Stats) {
        (&mut self.scratch, &mut self.stats)
    }

    pub(crate) fn max_body(&self, hashed: bool) -> u64 {
        if hashed { u64::MAX } else { MAX_IGNORED_BODY }
    }

    /// Decides what a request gets. `bytes` is the memory that the head was parsed from.
    #[inline]
    pub(crate) fn plan(&mut self, head: &Head, bytes: &[u8]) -> Plan {
        let persistence = Persistence::of(head.http11, head.keep_alive);
        let reads = matches!(head.method, Method::Get | Method::Head);
        // A fixed page longer than is kept whole is not sent in one piece.
        let target = head.target.of(bytes);
        if reads
            && self.root.is_none()
            && !self.config.sink
            && target.first() == Some(&b'/')
            && self.page.len() <= page::MAX_WHOLE
        {
            return Plan::Page(persistence);
        }
        self.plan_more(head, bytes, target, persistence)
    }

    fn plan_more(
        &mut self,
        head: &Head,
        bytes: &[u8],
        target: &[u8],
        persistence: Persistence,
    ) -> Plan {
        let is_head = head.method == Method::Head;
        match head.method {
            Method::Post | Method::Put if self.config.sink => return Plan::Upload(persistence),
            Method::Post | Method::Put | Method::Other => {
                // RFC 9110 15.5.6: Allow is a must.
                let allow = if self.config.sink {
                    "Allow: GET, HEAD, POST, PUT\r\n"
                } else {
                    "Allow: GET, HEAD\r\n"
                };
                return self.error(405, persistence, false, allow);
            }
            Method::Get | Method::Head => {}
        }
        let Ok((path, query)) = target::split(target) else {
            return self.error(400, persistence, is_head, "");
        };
        if self.config.sink {
            if let Some(len) = path.strip_prefix(b"/random/") {
                return match core::str::from_utf8(len).ok().and_then(|l| l.parse::<u64>().ok()) {
                    Some(len) => {
                        let seed = target::query_number(query, "seed").unwrap_or(0);
                        self.send(
                            200,
                            persistence,
                            len,
                            "Content-Type: application/octet-stream\r\n",
                            is_head,
                            Body::random(seed, len),
                        )
                    }
                    None => self.error(404, persistence, is_head, ""),
                };
            }
        }
        match &self.root {
            None => {
                self.stats.answered(200);
                Plan::Send(Box::new(self.page_transfer(persistence, is_head)))
            }
            Some(root) => {
                let slash = path.last() == Some(&b'/');
                let Ok(relative) = target::relative_path(path) else {
                    return self.error(400, persistence, is_head, "");
                };
                match root.find(&relative, slash) {
                    Ok(found) => self.file(head, bytes, persistence, found),
                    Err(Missing::NotFound) => self.error(404, persistence, is_head, ""),
                    Err(Missing::Forbidden) => self.error(403, persistence, is_head, ""),
                    Err(Missing::Trouble) => self.error(503, persistence, is_head, ""),
                    Err(Missing::Folder) => {
                        // One slash at the start, because `//name/` would send the client to
                        // another host.
                        let name = String::from_utf8_lossy(path);
                        let place = format!("Location: /{}/\r\n", name.trim_start_matches('/'));
                        self.error(301, persistence, is_head, &place)
                    }
                }
            }
        }
    }

    // RFC 9110 13.2.2: If-None-Match before If-Modified-Since, then Range with If-Range.
    fn file(&mut self, head: &Head, bytes: &[u8], persistence: Persistence, found: Found) -> Plan {
        let is_head = head.method == Method::Head;
        let modified = httpdate::fmt_http_date(found.modified);
        let mut fields = String::with_capacity(192);
        let _ = write!(
            fields,
            "ETag: {}\r\nLast-Modified: {modified}\r\nAccept-Ranges: bytes\r\n",
            found.etag
        );
        let unchanged = match (head.if_none_match, head.if_modified_since) {
            (Some(tags), _) => etag_matches(tags.of(bytes), &found.etag),
            (None, Some(since)) => {
                http_date(since.of(bytes)).is_some_and(|since| found.modified <= since)
            }
            (None, None) => false,
        };
        if unchanged {
            return self.send(304, persistence, 0, &fields, true, Body::empty());
        }
        let _ = write!(fields, "Content-Type: {}\r\n", found.content_type);
        // RFC 9110 13.1.5: If-Range wants the exact strong tag or the exact date; otherwise the
        // whole is sent.
        let same = head.if_range.is_none_or(|span| {
            let condition = span.of(bytes);
            condition == found.etag.as_bytes() || http_date(condition) == Some(found.modified)
        });
        let wanted = match head.range {
            Some(span) if same && head.method == Method::Get => {
                target::range(span.of(bytes), found.len)
            }
            _ => Wanted::All,
        };
        match wanted {
            Wanted::All => self.send(
                200,
                persistence,
                found.len,
                &fields,
                is_head,
                Body::file(found.file, 0, found.len),
            ),
            Wanted::Part(from, to) => {
                let _ = write!(fields, "Content-Range: bytes {from}-{}/{}\r\n", to - 1, found.len);
                self.send(
                    206,
                    persistence,
                    to - from,
                    &fields,
                    is_head,
                    Body::file(found.file, from, to),
                )
            }
            Wanted::Outside => self.error(
                416,
                persistence,
                is_head,
                &format!("Content-Range: bytes */{}\r\n", found.len),
            ),
        }
    }

    fn send(
        &mut self,
        status: u16,
        persistence: Persistence,
        len: u64,
        fields: &str,
        is_head: bool,
        body: Body,
    ) -> Plan {
        self.stats.answered(status);
        let head = page::head(status, &self.date, persistence, len, fields);
        Plan::Send(Box::new(Transfer::new(head, if is_head { Body::empty() } else { body })))
    }

    fn error(
        &mut self,
        status: u16,
        persistence: Persistence,
        is_head: bool,
        fields: &str,
    ) -> Plan {
        self.stats.answered(status);
        let bytes = page::error(status, &self.date, persistence, is_head, fields);
        Plan::Send(Box::new(Transfer::new(bytes, Body::empty())))
    }

    pub(crate) fn page_transfer(&self, persistence: Persistence, is_head: bool) -> Transfer {
        let head = self.page.bytes(persistence)[..self.page.head_len(persistence)].to_vec();
        Transfer::new(head, Body::text(0, if is_head { 0 } else { self.page.len() }))
    }

    pub(crate) fn digest_transfer(
        &mut self,
        len: u64,
        digest: &[u8],
        persistence: Persistence,
    ) -> Transfer {
        self.stats.answered(200);
        let mut body = format!("{{\"bytes\":{len},\"sha256\":\"");
        for byte in digest {
            let _ = write!(body, "{byte:02x}");
        }
        body.push_str("\"}\n");
        let mut head = page::head(
            200,
            &self.date,
            persistence,
            body.len() as u64,
            "Content-Type: application/json\r\n",
        );
        head.extend_from_slice(body.as_bytes());
        Transfer::new(head, Body::empty())
    }
}

// RFC 9110 13.1.2: `*` or a list; the comparison is weak.
fn etag_matches(list: &[u8], etag: &str) -> bool {
    list == b"*"
        || list.split(|&b| b == b',').any(|tag| {
            let tag = tag.trim_ascii();
            tag.strip_prefix(b"W/").unwrap_or(tag) == etag.as_bytes()
        })
}

fn http_date(text: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(core::str::from_utf8(text).ok()?).ok()
}
