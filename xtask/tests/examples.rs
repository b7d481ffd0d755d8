//! Every public struct, enum, trait and macro has an example: on its own page, or on a page that
//! its docs link to, where visible code names it.

#![expect(clippy::unwrap_used, reason = "a test fails with what it did not expect")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// A module for backends outside the crate, such as a double in a test: programs do not use it.
const NOT_FOR_PROGRAMS: &str = "backend";

/// Traits that carry the compiler's message and are implemented for nothing that they are asked of:
/// code that shows one does not compile, and a compile error of `ui-tests` does show it.
const MESSAGES: &[&str] = &[
    "AsksForTheNetwork",
    "HasCommunicatorToItself",
    "HasPlaces",
    "IndexedByNumber",
    "KnownType",
    "NeverInACapture",
    "OneRankPerThread",
    "RunsKernels",
];

/// What a backend's author needs at the root: `backend::Backend` names it.
const OF_BACKENDS: &[&str] = &["Health"];

/// A public name, with what its page shows.
#[derive(Clone, Default)]
struct Item {
    kind: String,
    /// Where it is defined.
    home: String,
    hidden: bool,
    public: bool,
    /// Its docs; then those of its public methods.
    docs: Vec<String>,
    methods: Vec<String>,
}

/// A module: what is defined in it, and what it re-exports, as path and name.
#[derive(Default)]
struct Module {
    items: BTreeMap<String, Item>,
    exports: Vec<(Vec<String>, String)>,
    /// Its public modules.
    public: BTreeSet<String>,
}

/// The modules of the crates that our public names come from, by their paths.
#[derive(Default)]
struct Crates {
    modules: BTreeMap<Vec<String>, Module>,
    /// Docs of public methods, by the name of their type.
    methods: BTreeMap<String, Vec<String>>,
    exported_macros: Vec<(String, Item)>,
}

/// The kinds of items that need an example.
const KINDS: [&str; 6] = ["struct", "enum", "trait", "union", "type", "macro"];

fn is(token: Option<&TokenTree>, mark: char) -> bool {
    matches!(token, Some(TokenTree::Punct(it)) if it.as_char() == mark)
}

fn word(token: Option<&TokenTree>) -> String {
    match token {
        Some(TokenTree::Ident(it)) => it.to_string(),
        _ => String::new(),
    }
}

fn tokens(stream: TokenStream) -> Vec<TokenTree> {
    stream.into_iter().collect()
}

/// What the attributes before an item say.
#[derive(Default)]
struct Attributes {
    docs: Vec<String>,
    hidden: bool,
    exported: bool,
    test: bool,
}

impl Attributes {
    fn add(&mut self, attribute: &Group, folder: &Path) {
        let inner = tokens(attribute.stream());
        match &*word(inner.first()) {
            "doc" if is(inner.get(1), '=') => match inner.get(2) {
                Some(TokenTree::Literal(line)) => {
                    let line = line.to_string();
                    let line = line.trim_start_matches('r').trim_matches('"');
                    self.docs.push(line.replace("\\\"", "\""));
                }
                // `include_str!`; else a macro's parameter, or a text that is put together.
                _ => {
                    let named = attribute.stream().to_string();
                    let file = named.split('"').nth(1).filter(|_| named.contains("include_str"));
                    let text = file.map(|file| fs::read_to_string(folder.join(file)).unwrap());
                    self.docs.extend(text.iter().flat_map(|it| it.lines()).map(str::to_owned));
                }
            },
            "doc" => self.hidden |= attribute.stream().to_string().contains("hidden"),
            "macro_export" => self.exported = true,
            "cfg" => self.test |= attribute.stream().to_string() == "cfg (test)",
            _ => {}
        }
    }
}

impl Crates {
    /// Reads a module's file and those of its children, of which `folder` is the folder.
    fn file(&mut self, path: &[String], file: &Path, folder: &Path) {
        let text = fs::read_to_string(file).unwrap();
        self.module(path, &tokens(text.parse().unwrap()), folder, file.parent().unwrap());
    }

    fn module(&mut self, path: &[String], all: &[TokenTree], folder: &Path, here: &Path) {
        self.modules.entry(path.to_vec()).or_default();
        let mut said = Attributes::default();
        let mut at = 0;
        while at < all.len() {
            if is(all.get(at), '#') {
                at += 1 + usize::from(is(all.get(at + 1), '!'));
                let TokenTree::Group(attribute) = &all[at] else { panic!("{:?}", all[at]) };
                if is(all.get(at - 1), '!') {
                    let mut own = Attributes::default();
                    own.add(attribute, here);
                    self.of_parent(path, own.docs);
                } else {
                    said.add(attribute, here);
                }
                at += 1;
                continue;
            }
            at = self.item(path, all, at, std::mem::take(&mut said), (folder, here));
        }
    }

    /// Docs that a module has inside.
    fn of_parent(&mut self, path: &[String], docs: Vec<String>) {
        let Some((name, parent)) = path.split_last() else { return };
        let parent = self.modules.get_mut(parent);
        if let Some(item) = parent.and_then(|parent| parent.items.get_mut(name)) {
            item.docs.extend(docs);
        }
    }

    /// Takes one item in; returns the place behind it.
    fn item(
        &mut self,
        path: &[String],
        all: &[TokenTree],
        at: usize,
        said: Attributes,
        (folder, here): (&Path, &Path),
    ) -> usize {
        let (public, at) = visibility(all, at);
        let kind = word(all.get(at));
        // The end: a semicolon or the first braces; for a use tree with braces, the semicolon.
        let ends = |token: &TokenTree| match token {
            TokenTree::Group(it) => it.delimiter() == Delimiter::Brace && kind != "use",
            token => is(Some(token), ';'),
        };
        let Some(length) = all[at..].iter().position(ends) else { return all.len() };
        let end = at + length;
        if said.test {
            return end + 1;
        }
        let body = match &all[end] {
            TokenTree::Group(body) => Some(tokens(body.stream())),
            _ => None,
        };
        let name = word(all.get(at + 1));
        let home = path.join("::");
        let item =
            Item { kind, home, hidden: said.hidden, public, docs: said.docs, methods: vec![] };
        match (&*item.kind, body) {
            ("mod", body) => self.child(path, name, item, body, (folder, here)),
            ("use", _) if public && !said.hidden => {
                let exports = &mut self.modules.get_mut(path).unwrap().exports;
                tree(&all[at + 1..end], &[], exports);
            }
            ("struct" | "enum" | "trait" | "union" | "type" | "fn", body) => {
                let methods = match (&*item.kind, &body) {
                    ("trait", Some(body)) => methods(body, true, here),
                    _ => Vec::new(),
                };
                let of = self.modules.get_mut(path).unwrap();
                of.items.entry(name).or_insert(Item { methods, ..item });
            }
            ("impl", Some(body)) => {
                if let Some(name) = implemented(&all[at + 1..end]) {
                    self.methods.entry(name).or_default().extend(methods(&body, false, here));
                }
            }
            ("macro_rules", Some(rules)) => {
                if said.exported {
                    let item = Item { kind: "macro".to_owned(), ..item };
                    self.exported_macros.push((word(all.get(at + 2)), item));
                }
                // What it expands to is defined here.
                for rule in rules {
                    if let TokenTree::Group(rule) = rule
                        && rule.delimiter() == Delimiter::Brace
                    {
                        self.module(path, &tokens(rule.stream()), folder, here);
                    }
                }
            }
            // A macro's call, with items in it.
            (_, Some(body)) if is(all.get(at + 1), '!') => self.module(path, &body, folder, here),
            _ => {}
        }
        end + 1
    }

    /// Takes a child module in, from its braces or its file.
    fn child(
        &mut self,
        path: &[String],
        name: String,
        item: Item,
        body: Option<Vec<TokenTree>>,
        (folder, here): (&Path, &Path),
    ) {
        let parent = self.modules.get_mut(path).unwrap();
        if item.public && !item.hidden {
            parent.public.insert(name.clone());
        }
        parent.items.insert(name.clone(), item);
        let (path, inner) = ([path, std::slice::from_ref(&name)].concat(), folder.join(&name));
        match body {
            Some(body) => self.module(&path, &body, &inner, here),
            None => {
                let files = [folder.join(format!("{name}.rs")), inner.join("mod.rs")];
                if let Some(file) = files.iter().find(|file| file.exists()) {
                    self.file(&path, file, &inner);
                }
            }
        }
    }

    /// What a path names, seen from a module.
    fn resolve(&self, from: &[String], path: &[String], deep: usize) -> Option<Item> {
        let (first, rest) = path.split_first()?;
        let base: Vec<String> = match &**first {
            "crate" => from[..1].to_vec(),
            "self" => from.to_vec(),
            "super" => from[..from.len() - 1].to_vec(),
            "typed_nccl_plan" => vec![first.clone()],
            _ => return self.resolve(from, &[&["self".to_owned()], path].concat(), deep),
        };
        let (name, modules) = rest.split_last()?;
        let mut at = base;
        for (nth, module) in modules.iter().enumerate() {
            let next = [&*at, std::slice::from_ref(module)].concat();
            if self.modules.contains_key(&next) {
                at = next;
                continue;
            }
            // A module that is itself an export.
            let exports = &self.modules.get(&at)?.exports;
            let (path, _) = exports.iter().find(|(_, name)| name == module)?;
            let more = &rest[nth + 1..];
            return self.resolve(&at, &[path, more].concat(), deep + 1);
        }
        let module = self.modules.get(&at)?;
        if let Some(item) = module.items.get(name) {
            return Some(item.clone());
        }
        if deep > 8 {
            return None;
        }
        let named = module.exports.iter().filter(|(_, it)| it == name || it == "*");
        named.into_iter().find_map(|(path, it)| {
            let path =
                if it == "*" { [path, std::slice::from_ref(name)].concat() } else { path.clone() };
            self.resolve(&at, &path, deep + 1)
        })
    }

    /// The public items of a module and of those in it, by their paths.
    fn reachable(&self, at: &[String], all: &mut BTreeMap<String, Item>) {
        let module = &self.modules[at];
        let shown = |name: &str| [&at[1..], &[name.to_owned()]].concat().join("::");
        for (name, item) in &module.items {
            if item.public && !item.hidden {
                all.entry(shown(name)).or_insert_with(|| item.clone());
            }
        }
        for (path, name) in &module.exports {
            if name == "*" {
                let target: Vec<String> = [at, path].concat();
                if self.modules.contains_key(&target) {
                    let mut inner = BTreeMap::new();
                    self.reachable(&target, &mut inner);
                    for (path, item) in inner {
                        let name = path.rsplit("::").next().unwrap().to_owned();
                        all.entry(shown(&name)).or_insert(item);
                    }
                }
                continue;
            }
            match self.resolve(at, path, 0) {
                Some(item) if !item.hidden => {
                    all.entry(shown(name)).or_insert(item);
                }
                Some(_) => {}
                // A function, or a plan's module that its macro makes; or another crate's type.
                None => assert!(
                    name.starts_with(char::is_lowercase) || FOREIGN.contains(&&*path[0]),
                    "{} exports {}, which is not found",
                    at.join("::"),
                    path.join("::")
                ),
            }
        }
        for name in &module.public {
            if name != NOT_FOR_PROGRAMS {
                self.reachable(&[at, std::slice::from_ref(name)].concat(), all);
            }
        }
    }
}

/// Crates whose types we pass on.
const FOREIGN: &[&str] =
    &["float8", "half", "num_complex", "zerocopy", "typed_nccl_macros", "dlpack_rs"];

/// Whether an item is public, and where its keyword is, behind `unsafe` and the like.
fn visibility(all: &[TokenTree], mut at: usize) -> (bool, usize) {
    let is_pub = word(all.get(at)) == "pub";
    at += usize::from(is_pub);
    let is_limited = is_pub
        && matches!(all.get(at), Some(TokenTree::Group(it)) if it.delimiter() == Delimiter::Parenthesis);
    at += usize::from(is_limited);
    while matches!(&*word(all.get(at)), "unsafe" | "const" | "async")
        && matches!(&*word(all.get(at + 1)), "fn" | "trait" | "impl" | "unsafe")
    {
        at += 1;
    }
    (is_pub && !is_limited, at)
}

/// The paths of a use tree, each with the name that it gets.
fn tree(all: &[TokenTree], before: &[String], found: &mut Vec<(Vec<String>, String)>) {
    let mut path = before.to_vec();
    let mut name = None;
    for (at, token) in all.iter().enumerate() {
        match token {
            TokenTree::Ident(it) if it == "as" => {
                name = Some(word(all.get(at + 1)));
                break;
            }
            TokenTree::Ident(it) => path.push(it.to_string()),
            TokenTree::Group(inner) => {
                let inner = tokens(inner.stream());
                for part in inner.split(|token| is(Some(token), ',')) {
                    if !part.is_empty() {
                        tree(part, &path, found);
                    }
                }
                return;
            }
            TokenTree::Punct(it) if it.as_char() == '*' => {
                found.push((path, "*".to_owned()));
                return;
            }
            _ => {}
        }
    }
    if path.len() > 1 && path.last().is_some_and(|it| it == "self") {
        path.pop();
    }
    let name = name.unwrap_or_else(|| path.last().cloned().unwrap_or_default());
    found.push((path, name));
}

/// The type of an inherent `impl`, given what is between `impl` and the braces.
fn implemented(all: &[TokenTree]) -> Option<String> {
    let (mut depth, mut name) = (0, String::new());
    for (at, token) in all.iter().enumerate() {
        match token {
            TokenTree::Punct(it) if it.as_char() == '<' => depth += 1,
            TokenTree::Punct(it)
                if it.as_char() == '>' && !is(all.get(at.wrapping_sub(1)), '-') =>
            {
                depth -= 1;
            }
            TokenTree::Ident(it) if depth == 0 && it == "for" => return None,
            TokenTree::Ident(it) if depth == 0 && it == "where" => break,
            TokenTree::Ident(it) if depth == 0 => name = it.to_string(),
            _ => {}
        }
    }
    (!name.is_empty()).then_some(name)
}

/// The docs of the public functions of an `impl`, or of all of a trait's.
fn methods(body: &[TokenTree], is_trait: bool, here: &Path) -> Vec<String> {
    let (mut docs, mut said, mut at) = (Vec::new(), Attributes::default(), 0);
    while at < body.len() {
        if let (true, Some(TokenTree::Group(attribute))) = (is(body.get(at), '#'), body.get(at + 1))
        {
            said.add(attribute, here);
            at += 2;
            continue;
        }
        let said = std::mem::take(&mut said);
        let limited = matches!(body.get(at + 1), Some(TokenTree::Group(_)));
        if !said.hidden && (is_trait || word(body.get(at)) == "pub" && !limited) {
            docs.extend(said.docs);
        }
        let ends = |token: &TokenTree| match token {
            TokenTree::Group(it) => it.delimiter() == Delimiter::Brace,
            token => is(Some(token), ';'),
        };
        at += body[at..].iter().position(ends).map_or(body.len(), |length| length + 1);
    }
    docs
}

/// The visible lines of the code blocks of docs.
fn code(docs: &[String]) -> Option<Vec<&str>> {
    let (mut lines, mut inside, mut any) = (Vec::new(), false, false);
    for line in docs {
        let line = line.trim();
        if line.starts_with("```") {
            inside = !inside;
            any = true;
        } else if inside && line != "#" && !line.starts_with("# ") {
            lines.push(line);
        }
    }
    any.then_some(lines)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|it: char| !it.is_alphanumeric() && it != '_').filter(|it| !it.is_empty())
}

/// The names in the links of docs.
fn links(docs: &[String]) -> BTreeSet<String> {
    let text = docs.join("\n");
    let in_brackets = text.split("[`").skip(1).filter_map(|it| Some(it.split_once("`]")?.0));
    let in_parentheses = text.split("](").skip(1).filter_map(|it| Some(it.split_once(')')?.0));
    in_brackets.chain(in_parentheses).flat_map(words).map(str::to_owned).collect()
}

/// What programs can name, by path.
fn public_items() -> BTreeMap<String, Item> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut crates = Crates::default();
    for (name, folder) in [("typed_nccl", "src"), ("typed_nccl_plan", "plan/src")] {
        let folder: PathBuf = root.join(folder);
        crates.file(&[name.to_owned()], &folder.join("lib.rs"), &folder);
    }
    let mut all = BTreeMap::new();
    crates.reachable(&["typed_nccl".to_owned()], &mut all);
    for (name, item) in &crates.exported_macros {
        all.insert(format!("{name}!"), item.clone());
    }
    for (path, item) in &mut all {
        let name = path.rsplit("::").next().unwrap();
        item.methods.extend(crates.methods.get(name).into_iter().flatten().cloned());
    }
    all
}

/// The text of every expected compile error.
fn compile_errors() -> String {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../ui-tests")];
    let mut text = String::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "stderr") {
                text.push_str(&fs::read_to_string(path).unwrap());
            }
        }
    }
    text
}

#[test]
fn messages_are_shown_by_compile_errors() {
    let errors = compile_errors();
    let shown: BTreeSet<&str> = words(&errors).collect();
    for name in MESSAGES {
        assert!(shown.contains(name), "no compile error of `ui-tests` shows `{name}`");
    }
}

/// The items by their last names.
fn pages(all: &BTreeMap<String, Item>) -> BTreeMap<&str, Vec<&Item>> {
    let mut pages: BTreeMap<&str, Vec<&Item>> = BTreeMap::new();
    for (path, item) in all {
        let name = path.trim_end_matches('!').rsplit("::").next().unwrap();
        pages.entry(name).or_default().push(item);
    }
    pages
}

/// Whether the docs lead to an example: "See the example of", or a link to a page whose visible
/// code has the name.
fn leads_to_an_example(item: &Item, name: &str, pages: &BTreeMap<&str, Vec<&Item>>) -> bool {
    let shown = |page: &Item| -> Vec<String> {
        let blocks = [code(&page.docs), code(&page.methods)].into_iter().flatten().flatten();
        blocks.map(str::to_owned).collect()
    };
    let linked = |docs: &[String]| -> Vec<&Item> {
        let found = links(docs);
        found.iter().filter_map(|it| pages.get(&**it)).flatten().copied().collect()
    };
    let named = |page: &Item| shown(page).iter().any(|line| words(line).any(|it| it == name));
    let sentence = |line: &&String| line.contains("See the example");
    let told: Vec<String> = item.docs.iter().filter(sentence).cloned().collect();
    linked(&item.docs).into_iter().any(named)
        || linked(&told).into_iter().any(|page| !shown(page).is_empty())
}

#[test]
fn every_public_type_has_an_example() {
    let all = public_items();
    let pages = pages(&all);
    let mut without = BTreeSet::new();
    for (path, item) in &all {
        let name = path.rsplit("::").next().unwrap();
        let has_own = code(&item.docs).is_some() || code(&item.methods).is_some();
        let is_exempt = MESSAGES.contains(&name) || OF_BACKENDS.contains(&name);
        if KINDS.contains(&&*item.kind)
            && !is_exempt
            && !has_own
            && !leads_to_an_example(item, name, &pages)
        {
            without.insert(format!("{}::{name}, a {}", item.home, item.kind));
        }
    }
    for known in ["Communicator", "error::Mismatch", "plan::build::PlanBuilder", "launch!"] {
        assert!(all.contains_key(known), "`{known}` is not found");
    }
    assert!(without.is_empty(), "{} have none: {without:#?}", without.len());
}
