//! The page in a real browser: nothing lies on anything else, and the dark page is dark.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::world::{CLEARWAY, Folder};

/// The browser. `make test` installs it; a machine that cannot have it says so.
const BROWSER: &str = "chromium";

/// Looks at the page from inside: texts that lie on each other, texts cut off at the edges of a
/// picture, and colours.
const LOOK: &str = r#"<script>
const seen = [...document.querySelectorAll('h1,h2,h3,p,dt,dd,li,th,td,summary,svg text')]
  .map(e => ({ e, r: e.getBoundingClientRect() })).filter(x => x.r.width > 0 && x.r.height > 0);
const faults = [];
for (let i = 0; i < seen.length; i++) for (let j = 0; j < i; j++) {
  const a = seen[i], b = seen[j];
  if (a.e.contains(b.e) || b.e.contains(a.e)) continue;
  const wide = Math.min(a.r.right, b.r.right) - Math.max(a.r.left, b.r.left);
  const high = Math.min(a.r.bottom, b.r.bottom) - Math.max(a.r.top, b.r.top);
  // Boxes of letters have a pixel or two of air above and below.
  if (wide > 1.5 && high > 2.5) faults.push(a.e.textContent + ' | ' + b.e.textContent);
}
for (const svg of document.querySelectorAll('svg')) {
  const s = svg.getBoundingClientRect();
  for (const t of svg.querySelectorAll('text')) {
    const r = t.getBoundingClientRect();
    if (r.left < s.left - 1 || r.right > s.right + 1
        || r.bottom > s.bottom + 1) faults.push('outside: ' + t.textContent);
  }
}
const small = [...document.querySelectorAll('svg text')]
    .filter(t => t.getBoundingClientRect().height < 9).map(t => t.textContent);
const verdict = { faults, small, texts: seen.length,
    page: getComputedStyle(document.body).backgroundColor,
  ink: getComputedStyle(document.querySelector('svg text')).fill };
document.title = 'VERDICT' + JSON.stringify(verdict).replace(/</g, ' ') + 'END';
</script>"#;

/// What the browser sees.
fn look(folder: &Folder, page: &Path, scheme: &str) -> Value {
    let profile = folder.path.join(format!("profile-{scheme}"));
    let mut command = Command::new(BROWSER);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--hide-scrollbars",
    ]);
    command.args([
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--window-size=1120,900",
    ]);
    command
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!("--user-data-dir={}", profile.display()));
    command.arg("--dump-dom").arg(format!("file://{}", page.display()));
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let verdict = said
        .split_once("VERDICT")
        .and_then(|(_, rest)| rest.split_once("END"))
        .map(|(verdict, _)| verdict);
    let verdict = verdict
        .unwrap_or_else(|| panic!("no verdict: {said}{}", String::from_utf8_lossy(&output.stderr)));
    let verdict = verdict.replace("&amp;", "&").replace("&gt;", ">").replace("&lt;", "<");
    serde_json::from_str(&verdict).unwrap_or_else(|error| panic!("{error}: {verdict}"))
}

#[test]
fn nothing_on_the_page_lies_on_anything_else_and_both_colour_schemes_are_there() {
    if Command::new(BROWSER)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_err()
    {
        // Not `eprintln!`: the harness keeps that to itself when a test ends well. The geometry of
        // every plot is tested without a browser too.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED the page in a browser: apt-get install {BROWSER} fonts-dejavu-core"
        );
        return;
    }
    let folder = Folder::new();
    let (plain, looked_at) = (folder.path.join("page.html"), folder.path.join("looked-at.html"));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/files/before.json");
    let mut show = Command::new(CLEARWAY);
    let status = show
        .args(["lab", "show"])
        .arg(file)
        .arg("--html")
        .arg(&plain)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    let page = std::fs::read_to_string(&plain).unwrap();
    // All that is folded up is looked at too.
    let page =
        page.replace("<details>", "<details open>").replace("</body>", &format!("{LOOK}</body>"));
    std::fs::write(&looked_at, page).unwrap();
    let schemes = [
        ("1", "rgb(255, 255, 255)", "rgb(27, 31, 36)"),
        ("0", "rgb(20, 23, 27)", "rgb(232, 235, 239)"),
    ];
    for (scheme, page, ink) in schemes {
        let seen = look(&folder, &looked_at, scheme);
        assert_eq!(seen["faults"], Value::Array(Vec::new()), "scheme {scheme}");
        assert_eq!(seen["small"], Value::Array(Vec::new()), "scheme {scheme}");
        assert!(seen["texts"].as_u64().unwrap() > 100, "{seen}");
        assert_eq!(
            (&seen["page"], &seen["ink"]),
            (&Value::from(page), &Value::from(ink)),
            "scheme {scheme}"
        );
    }
}
