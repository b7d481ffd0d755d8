//! The pages hold together: every chapter is listed and tested, every link leads somewhere, and
//! what is quoted of the compiler is what the compiler says.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Files of the repository by their address, which the book's readers can follow too.
const REPOSITORY: &str = "https://github.com/typed-nccl/typed-nccl/blob/main/";

fn guide() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn root() -> PathBuf {
    guide().join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let mut all: Vec<_> = entries.map(|entry| entry.path()).collect();
    all.retain(|path| path.extension().is_some_and(|found| found == extension));
    all.sort();
    all
}

/// The pages that users read: the guide, and what is beside it.
fn pages() -> Vec<PathBuf> {
    let mut all = files(&guide().join("src"), "md");
    all.extend(files(&root().join("docs"), "md"));
    all.extend(["README.md", "ARCHITECTURE.md"].map(|name| root().join(name)));
    all
}

/// The lines outside of code blocks.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    page.lines().filter(move |line| {
        let is_fence = line.starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

fn links(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(page) {
        for part in line.split("](").skip(1) {
            let (link, _) = part.split_once(')').expect("a link ends");
            found.push(link.to_owned());
        }
    }
    found
}

/// The anchors of a page, as GitHub and mdBook make them of headings.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = prose(page).filter(|line| line.starts_with('#'));
    headings
        .map(|heading| {
            let words = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut followed = 0;
    for page in pages() {
        let text = read(&page);
        for link in links(&text) {
            let (target, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let path = match target.strip_prefix(REPOSITORY) {
                Some(in_repository) => root().join(in_repository),
                None if target.starts_with("http") => continue,
                None if target.is_empty() => page.clone(),
                None => page.parent().expect("a folder").join(target),
            };
            assert!(path.exists(), "{}: {link} leads nowhere", page.display());
            if !anchor.is_empty() {
                let there = anchors(&read(&path));
                assert!(there.contains(anchor), "{}: {link}: {there:?}", page.display());
            }
            followed += 1;
        }
    }
    assert!(followed > 100, "only {followed} links");
}

/// mdBook shows the pages that the summary lists, and leaves what is outside of `src` out.
#[test]
fn every_chapter_is_listed_and_tested() {
    let source = guide().join("src");
    let summary = read(&source.join("SUMMARY.md"));
    let listed: BTreeSet<String> = links(&summary).into_iter().collect();
    let tested = read(&guide().join("lib.rs"));
    let mut there = BTreeSet::new();
    for path in files(&source, "md") {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        for link in links(&read(&path)) {
            assert!(!link.contains(".."), "{name}: {link} is not in the book");
        }
        if name != "SUMMARY.md" {
            let chapter = name.trim_end_matches(".md");
            let words = tested.split(|c: char| !c.is_alphanumeric());
            assert!(words.into_iter().any(|word| word == chapter), "{name} is not in lib.rs");
            there.insert(name);
        }
    }
    assert_eq!(listed, there);
}

/// Each line of an error that a page quotes is in the kept text of one compile error, in order.
#[test]
fn quoted_errors_are_real() {
    let kept: Vec<String> =
        files(&root().join("ui-tests/check"), "stderr").iter().map(|path| read(path)).collect();
    let mut quotes = 0;
    for page in ["docs/guide/src/mistakes.md", "README.md"] {
        let text = read(&root().join(page));
        for block in text.split("```text\n").skip(1) {
            let (quote, _) = block.split_once("```").expect("a block ends");
            if !quote.starts_with("error[") {
                continue;
            }
            let is_of = |kept: &String| {
                let mut lines = kept.lines();
                quote.lines().all(|line| lines.any(|found| found == line))
            };
            assert!(kept.iter().any(is_of), "{page}: no compiler says:\n{quote}");
            quotes += 1;
        }
    }
    assert!(quotes >= 9, "only {quotes} quotes");
}

/// What only Python's interpreter could run is taken from the extension that is tested with it.
#[test]
fn code_that_is_not_run_is_of_an_example() {
    let example = read(&root().join("examples/torch-extension/src/lib.rs"));
    let mut blocks = 0;
    for page in files(&guide().join("src"), "md") {
        for block in read(&page).split("```rust,ignore\n").skip(1) {
            let (code, _) = block.split_once("```").expect("a block ends");
            let mut lines = example.lines();
            for line in code.lines() {
                assert!(lines.any(|found| found == line), "{}: {line}", page.display());
            }
            blocks += 1;
        }
    }
    assert_eq!(blocks, 1);
}

/// Long pages are not read.
#[test]
fn the_pages_are_short() {
    let outside = ["README.md", "ARCHITECTURE.md", "parity.md"];
    let is_counted = |path: &PathBuf| !outside.iter().any(|name| path.ends_with(name));
    let words = |path: PathBuf| read(&path).split_whitespace().count();
    let all: usize = pages().into_iter().filter(is_counted).map(words).sum();
    assert!(all <= 35_000, "{all} words");
}
