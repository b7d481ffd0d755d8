//! The page of `typed-nccl merge --html`: its data without a browser, and what Chromium makes of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use serde_json::{Value, json};
use typed_nccl_doctor::{merge, page};

/// What would run if any text became markup.
const ATTACKS: [&str; 6] = [
    "</script><script>document.title = 'broken'</script>",
    "<img src=x onerror=\"document.title = 'broken'\">",
    "<!--<script>",
    "\"><svg onload=\"document.title = 'broken'\">",
    "@EVENTS@ &lt;b&gt; ' \u{2028} \\u003c",
    "__proto__",
];

/// A wait for a late rank, a step of a plan, a group, an event of each attack and what no program
/// should write.
fn events() -> Vec<Value> {
    let name = |pid: u64, name: &str| json!({ "name": "process_name", "ph": "M", "pid": pid, "tid": 0, "args": { "name": name } });
    let row = |pid: u64, tid: u64, name: &str| json!({ "name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": { "name": name } });
    let begin = |pid: u64, tid: u64, ts: f64, name: &str, cat: &str, args: Value| json!({ "name": name, "cat": cat, "ph": "B", "pid": pid, "tid": tid, "ts": ts, "args": args });
    let end = |pid: u64, tid: u64, ts: f64| json!({ "ph": "E", "pid": pid, "tid": tid, "ts": ts });
    let at = 1.7957e15;
    let sum =
        json!({ "communicator": "World", "count": 8, "dtype": "f32", "at": "src/main.rs:48" });
    let step = json!({ "communicator": "World", "plan": "ring_sum", "at": "src/plans/ring.rs:9" });
    let mut all = Vec::new();
    for pid in 0..3 {
        all.extend([
            name(pid, &format!("rank {pid} (node1, process 4{pid})")),
            row(pid, 0, "host"),
        ]);
        all.push(row(pid, 7, "stream 7"));
    }
    for (pid, late) in [(0, 0.0), (1, 40.0), (2, 400.0)] {
        all.push(begin(pid, 0, at + late, "all_reduce", "enqueue", sum.clone()));
        all.push(end(pid, 0, at + late + 12.0));
        all.push(begin(pid, 7, at + late + 9.0, "all_reduce", "operation", sum.clone()));
        all.push(begin(pid, 0, at + late + 20.0, "sync", "wait", sum.clone()));
        all.extend([end(pid, 7, at + 520.0), end(pid, 0, at + 530.0)]);
        for nth in 0..4 {
            let start = at + 540.0 + 60.0 * f64::from(nth);
            all.push(begin(pid, 7, start, "send_recv", "operation", step.clone()));
            all.push(end(pid, 7, start + 50.0));
        }
    }
    let mismatch = json!({ "communicator": "World", "text": "collective #2 on World differs" });
    all.push(json!({ "name": "Mismatch", "cat": "event", "ph": "i", "s": "p", "pid": 1, "tid": 0, "ts": at + 790.0, "args": mismatch }));
    all.push(begin(1, 0, at + 800.0, "barrier", "wait", sum));
    for (nth, attack) in (0..).zip(ATTACKS) {
        let args = json!({ "text": attack, attack: [attack, { attack: attack }], "plan": attack });
        all.push(json!({ "name": attack, "cat": attack, "ph": "i", "pid": attack, "tid": attack, "ts": at + 100.0 * f64::from(nth), "args": args }));
        all.push(json!({ "name": attack, "ph": "X", "dur": 5, "pid": attack, "tid": attack, "ts": at, "args": args }));
        all.push(json!({ "name": "thread_name", "ph": "M", "pid": attack, "tid": attack, "args": { "name": attack } }));
    }
    all.extend([json!([]), json!(7), Value::Null, json!({}), json!({ "ph": "E", "ts": at })]);
    all.push(json!({ "ph": "B", "ts": "soon", "args": "none", "name": { "a": 1 } }));
    all
}

/// The page of these events, in a folder of its own.
fn made(folder: &str) -> (PathBuf, PathBuf) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    fs::create_dir_all(&folder).expect("it can be made");
    let (trace, file) = (folder.join("trace.json"), folder.join("trace.html"));
    fs::write(&trace, Value::from(events()).to_string()).expect("it is written");
    let text = page(&[&trace.to_string_lossy()]).expect("it is a timeline");
    fs::write(&file, text).expect("it is written");
    (trace, file)
}

#[test]
fn it_holds_the_timeline_and_loads_nothing() {
    let (trace, file) = made("page-data");
    let text = fs::read_to_string(file).expect("it is there");
    let (before, rest) = text.split_once("id=\"events\">").expect("it has data");
    let (data, after) = rest.split_once("</script>").expect("the data has an end");
    assert!(!data.contains('<'), "it could end its element");
    let held: Value = serde_json::from_str(data).expect("it is JSON");
    let merged = merge(&[&trace.to_string_lossy()]).expect("it is a timeline");
    assert_eq!(held, serde_json::from_str::<Value>(&merged).expect("it is JSON"));
    let events = held.as_array().expect("it is a list");
    assert!(events.iter().any(|event| event["name"] == ATTACKS[0]), "texts are unchanged");
    for part in [before, after] {
        for loads in ["src=", "href=", "url(", "@import", "innerHTML", "https:", "eval("] {
            assert!(!part.contains(loads), "the template has `{loads}`");
        }
    }
}

#[test]
fn the_program_prints_it() {
    let (trace, file) = made("page-program");
    let program = || Command::new(env!("CARGO_BIN_EXE_typed-nccl"));
    let ended = program().args(["merge", "--html"]).arg(&trace).output().expect("it runs");
    assert!(ended.status.success());
    let page = fs::read_to_string(file).expect("it is there");
    assert_eq!(String::from_utf8_lossy(&ended.stdout), page + "\n");
    let none = program().args(["merge", "--html"]).output().expect("it runs");
    assert_eq!(none.status.code(), Some(2));
    let missing = program().args(["merge", "--html", "nothing.json"]).output().expect("it runs");
    assert_eq!(missing.status.code(), Some(1));
}

/// Draws the page in Chromium, where there is one.
#[test]
fn chromium_draws_it_and_runs_no_text() {
    let path = env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let mut all = env::split_paths(&path).flat_map(|at| names.map(|name| at.join(name)));
    let Some(chromium) = all.find(|file| file.is_file()) else {
        println!("skipped: there is no Chromium in PATH");
        return;
    };
    let (_, file) = made("page-chromium");
    let profile = file.with_file_name("profile");
    let ended = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(["--window-size=1200,700", "--virtual-time-budget=3000", "--dump-dom"])
        .arg(format!("file://{}", file.display()))
        .stdin(Stdio::null())
        .output()
        .expect("Chromium runs");
    let _ = fs::remove_dir_all(profile);
    let dom = String::from_utf8_lossy(&ended.stdout);
    let drawn = |what: &str| dom.matches(what).count();
    assert!(drawn("class=\"bar ") > 0, "{dom}\n{}", String::from_utf8_lossy(&ended.stderr));
    // Three waits that ended and one that did not; twelve steps of the plan.
    assert_eq!((drawn("\"bar wait\""), drawn("\"bar wait open\"")), (3, 1), "{dom}");
    assert_eq!(drawn("aria-label=\"ring_sum · send_recv\""), 12, "{dom}");
    assert_eq!(drawn("class=\"mark\""), 1 + ATTACKS.len(), "{dom}");
    for said in ["rank 2 (node1, process 42)", "stream 7", "Mismatch: collective #2 on World"] {
        assert!(dom.contains(said), "`{said}` is missing in {dom}");
    }
    assert!(dom.contains("<title>Timeline of typed-nccl</title>"), "a text ran as a script");
    for markup in ["<img", "<b>", "<svg onload", "<!--"] {
        assert!(!dom.contains(markup), "a text became `{markup}`");
    }
}
