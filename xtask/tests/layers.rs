//! Which modules of `src` may use which: what is below the typed API knows nothing of it, and the
//! control plane and the backends know nothing of each other.

#![expect(clippy::unwrap_used, reason = "a test fails with what it did not expect")]

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::str::FromStr as _;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The lowest layer: folders and files of `src`.
const CORE: &[&str] = &[
    "backend",
    "compute",
    "config",
    "derived",
    "device_comm",
    "element",
    "error",
    "exit",
    "health",
    "launcher",
    "lock",
    "metered",
    "one_thread",
    "own_thread",
    "memory/allocation",
    "memory/booking",
    "memory/claims",
    "memory/lease",
    "memory/order",
    "memory/owner",
    "memory/turn",
    "quiet",
    "rank",
    "rate_limited",
    "record",
    "stamp",
    "stream/core",
    "stream/held",
    "stream/takers",
    "stream/threads",
    "stream/undone",
    "trace",
    "unwind",
    "reactor",
    "wait",
];

/// The layers that know the lowest one and themselves.
const MIDDLE: [&[&str]; 3] = [&["control"], &["host"], &["cuda", "nccl"]];

/// The layer of a file: 0 for the lowest, 1 to 3 for those above it, 4 for the typed API.
fn layer(file: &str) -> usize {
    let is_in = |folders: &[&str]| {
        folders.iter().any(|folder| {
            file.strip_prefix(folder).is_some_and(|rest| rest.starts_with(['/', '.']))
        })
    };
    let middle = || MIDDLE.iter().position(|folders| is_in(folders)).map_or(4, |at| at + 1);
    if is_in(CORE) { 0 } else { middle() }
}

/// The files of `src` by their paths there.
fn files(folder: &Path, root: &Path, all: &mut HashMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, root, all);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            all.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
}

/// The paths that begin with `crate`, without it; those of tests are left out.
fn paths(tokens: TokenStream, found: &mut BTreeSet<Vec<String>>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Group(group) if group.stream().to_string() == "cfg (test)" => {
                // The item ends with its body.
                let ends = |token: &TokenTree| match token {
                    TokenTree::Group(body) => body.delimiter() == Delimiter::Brace,
                    TokenTree::Punct(mark) => mark.as_char() == ';',
                    _ => false,
                };
                at += tokens[at..].iter().position(ends).unwrap_or_default();
            }
            TokenTree::Group(group) => paths(group.stream(), found),
            TokenTree::Ident(it) if it == "crate" => tree(&tokens[at + 1..], &[], found),
            _ => {}
        }
        at += 1;
    }
}

/// The paths of a use tree behind its first segments.
fn tree(tokens: &[TokenTree], before: &[String], found: &mut BTreeSet<Vec<String>>) {
    match tokens {
        [TokenTree::Punct(a), TokenTree::Punct(b), rest @ ..]
            if a.as_char() == ':' && b.as_char() == ':' =>
        {
            match rest {
                [TokenTree::Ident(segment), more @ ..] => {
                    let path = [before, &[segment.to_string()]].concat();
                    tree(more, &path, found);
                }
                [TokenTree::Group(group), ..] => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    let ends =
                        |t: &TokenTree| matches!(t, TokenTree::Punct(p) if p.as_char() == ',');
                    for part in inner.split(ends) {
                        if let [TokenTree::Ident(segment), more @ ..] = part {
                            tree(more, &[before, &[segment.to_string()]].concat(), found);
                        }
                    }
                }
                _ => {}
            }
        }
        _ => {
            found.insert(before.to_vec());
        }
    }
}

/// The names that a file defines.
fn defined(text: &str) -> impl Iterator<Item = &str> {
    const KINDS: [&str; 7] = ["struct ", "enum ", "trait ", "fn ", "const ", "type ", "static "];
    let lines = text.lines().filter(|line| line.trim_start().starts_with("pub"));
    lines.filter_map(|line| {
        let after = KINDS.iter().find_map(|kind| Some(line.split_once(*kind)?.1))?;
        after.split(|c: char| !c.is_alphanumeric() && c != '_').next()
    })
}

#[test]
fn what_is_below_does_not_use_what_is_above() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
    let mut all = HashMap::new();
    files(&root, &root, &mut all);
    let mut homes: HashMap<&str, BTreeSet<usize>> = HashMap::new();
    for (file, text) in &all {
        for name in defined(text) {
            homes.entry(name).or_default().insert(layer(file));
        }
    }
    let mut wrong = BTreeSet::new();
    for (file, text) in &all {
        let own = layer(file);
        if own == 4 || file.ends_with("tests.rs") || file.contains("/tests/") {
            continue;
        }
        let mut found = BTreeSet::new();
        paths(TokenStream::from_str(text).unwrap(), &mut found);
        for path in found {
            // A module of one layer, else the layers with a type of that name.
            let module = path.first().map(|first| layer(&format!("{first}/")));
            let name = path.iter().find(|name| name.starts_with(char::is_uppercase));
            let name = name.or_else(|| path.last()).map(String::as_str);
            let may = |layer: &usize| *layer == 0 || *layer == own;
            let named = name.and_then(|name| homes.get(name)).is_none_or(|l| l.iter().any(may));
            if !module.as_ref().is_some_and(may) && !named {
                wrong.insert(format!("{file} uses crate::{}", path.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
