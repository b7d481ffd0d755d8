//! The names that a test uses: in its function, and in the functions of its file that it calls.

use std::collections::{HashMap, HashSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The functions of a file by name, and its macros.
#[derive(Default)]
pub(super) struct Functions(HashMap<String, Vec<String>>);

impl Functions {
    /// Adds the functions of a Rust file. Strings and comments count as no use.
    pub(super) fn add_rust(&mut self, text: &str) -> Result<(), String> {
        let tokens: TokenStream = text.parse().map_err(|error| format!("{error}"))?;
        let mut all = Vec::new();
        flatten(tokens, &mut all);
        for at in 0..all.len() {
            let name = match (&*all[at], all.get(at + 1).map(|next| &**next)) {
                ("fn", Some(_)) => at + 1,
                ("macro_rules", Some("!")) => at + 2,
                _ => continue,
            };
            let Some(start) = body_of(&all, name) else { continue };
            let body = &all[start..end_of(&all, start)];
            self.0.entry(all[name].clone()).or_default().extend_from_slice(body);
        }
        Ok(())
    }

    /// Adds the functions of a Python file. A method that it calls is a helper too: the
    /// extension's, in Rust, which uses ours.
    pub(super) fn add_python(&mut self, text: &str) {
        let lines: Vec<&str> = text.lines().collect();
        let indent = |line: &str| line.len() - line.trim_start().len();
        for (at, line) in lines.iter().enumerate() {
            let Some(rest) = line.trim_start().strip_prefix("def ") else { continue };
            let Some((name, _)) = rest.split_once('(') else { continue };
            let rest = lines[at + 1..].iter();
            let body = rest.take_while(|it| it.trim().is_empty() || indent(it) > indent(line));
            let words = body.flat_map(|line| words(line));
            self.0.entry(name.to_owned()).or_default().extend(words);
        }
    }

    /// The names that a function uses, if it exists.
    pub(super) fn named(&self, function: &str) -> Option<Named> {
        self.0.get(function)?;
        let mut named = Named { tokens: Vec::new(), own: self.0.keys().cloned().collect() };
        let (mut seen, mut next) = (HashSet::from([function]), vec![function]);
        while let Some(body) = next.pop().and_then(|name| self.0.get(name)) {
            for (at, token) in body.iter().enumerate() {
                let before = at.checked_sub(1).map_or("", |at| &*body[at]);
                let after = body.get(at + 1).map_or("", |it| &**it);
                let is_called = matches!(after, "(" | "!") || after == ":" && is_generic(body, at);
                let is_passed = matches!(before, "(" | ",") && matches!(after, ")" | ",");
                let is_helper = is_called && before != "." || is_passed;
                if is_helper && self.0.contains_key(token) && seen.insert(token) {
                    next.push(token);
                }
            }
            named.tokens.push(body.clone());
        }
        Some(named)
    }
}

/// The names that a test uses.
pub(super) struct Named {
    /// By function.
    tokens: Vec<Vec<String>>,
    /// The file's own functions: calling one is no use of ours.
    own: HashSet<String>,
}

impl Named {
    /// Whether this is used: `Type::method` as `.method` or `Type::method`; a variant, or a
    /// module's function, with what precedes it; a type anywhere.
    pub(super) fn has(&self, item: &str) -> bool {
        let mut path = item.rsplit("::");
        let (Some(name), before) = (path.next(), path.next()) else { return false };
        let is_method = before.is_some_and(is_type) && !is_type(name);
        self.tokens.iter().any(|tokens| {
            (0..tokens.len()).filter(|at| tokens[*at] == name).any(|at| match before {
                Some(_) if is_method && at > 0 && tokens[at - 1] == "." => true,
                Some(before) => qualifier(tokens, at) == Some(before),
                None if is_type(name) => true,
                None => {
                    let is_call = matches!(tokens.get(at + 1).map(|it| &**it), Some("(" | "!"));
                    let is_theirs = at > 0 && tokens[at - 1] == ".";
                    is_call && !is_theirs && !self.own.contains(name)
                }
            })
        })
    }
}

fn is_type(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_uppercase())
}

/// `Type` of `Type::name` and of `Type::<T>::name`.
fn qualifier(tokens: &[String], at: usize) -> Option<&str> {
    let is = |at: Option<usize>, token: &str| at.is_some_and(|at| tokens[at] == token);
    if !is(at.checked_sub(1), ":") || !is(at.checked_sub(2), ":") {
        return None;
    }
    let mut before = at.checked_sub(3)?;
    if tokens[before] == ">" {
        let mut depth = 0;
        loop {
            match &*tokens[before] {
                ">" => depth += 1,
                "<" => depth -= 1,
                _ => {}
            }
            before = before.checked_sub(1)?;
            if depth == 0 {
                break;
            }
        }
        while tokens[before] == ":" {
            before = before.checked_sub(1)?;
        }
    }
    Some(&tokens[before])
}

/// Whether `name` is called as `name::<T>(..)`.
fn is_generic(tokens: &[String], at: usize) -> bool {
    let is = |at: usize, token: &str| tokens.get(at).is_some_and(|it| it == token);
    is(at + 2, ":") && is(at + 3, "<")
}

/// The first brace after a function's name; none for a function without a body: a trait's, or a
/// foreign one.
fn body_of(tokens: &[String], name: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(name) {
        match &**token {
            "(" | "[" => depth += 1,
            ")" | "]" => depth -= 1,
            "{" if depth == 0 => return Some(at),
            ";" | "}" if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The end of the block that begins with a brace.
fn end_of(tokens: &[String], start: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        match &**token {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len()
}

fn flatten(tokens: TokenStream, all: &mut Vec<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                all.push(open.to_owned());
                flatten(group.stream(), all);
                all.push(close.to_owned());
            }
            TokenTree::Literal(_) => all.push(String::new()),
            other => all.push(other.to_string()),
        }
    }
}

/// A line of Python without its strings and its comment; of `a.b` only `b`.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for letter in line.chars().chain(['\n']) {
        match quote {
            Some(open) if letter == open => quote = None,
            Some(_) => {}
            None if letter.is_alphanumeric() || letter == '_' => word.push(letter),
            None => {
                words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
                match letter {
                    '#' => break,
                    '"' | '\'' => quote = Some(letter),
                    // A method's receiver says nothing.
                    '.' => drop(words.pop()),
                    letter if letter.is_whitespace() => {}
                    letter => words.push(letter.to_string()),
                }
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::Functions;

    const RUST: &str = r#"
        // fn commented() { comm.revoke() }
        #[test]
        fn direct() {
            // comm.abort()
            let text = "comm.shrink() Multicast::On";
            comm.send(x, 1);
            let rank = 3;
            let mode = Multicast::Off;
            let device = Cuda::<AnyDevice>::any(0);
            group(|g| g.put());
        }
        fn through() { spmd(2, body); helper::<f32>(); each!(comm); method.unrelated() }
        fn body(x: [u8; 3]) -> u8 { x.recv() }
        fn helper<T>() { deeper() }
        fn deeper() { comm.split(0) }
        fn unrelated() { comm.grow() }
        fn send() {}
        fn calls_its_own() { send() }
        macro_rules! each { ($to:expr) => { $to.gather() } }
    "#;

    fn names(function: &str, item: &str) -> bool {
        let mut functions = Functions::default();
        functions.add_rust(RUST).expect("it is Rust");
        functions.named(function).expect("it is there").has(item)
    }

    #[test]
    fn a_function_names_what_its_own_code_says() {
        for item in ["Communicator::send", "Multicast::Off", "Multicast", "Cuda::any", "group"] {
            assert!(names("direct", item), "{item}");
        }
    }

    #[test]
    fn comments_strings_variables_and_other_functions_name_nothing() {
        let none = ["Communicator::abort", "Communicator::shrink", "Multicast::On", "Team::rank"];
        for item in none.into_iter().chain(["Communicator::recv", "CtaPolicy::Off", "Host::any"]) {
            assert!(!names("direct", item), "{item}");
        }
        assert!(!names("through", "Communicator::grow"), "a method is no helper");
        assert!(!names("calls_its_own", "send"), "it is the file's own");
    }

    #[test]
    fn helpers_of_the_file_count() {
        for item in ["Communicator::recv", "Communicator::split", "Communicator::gather"] {
            assert!(names("through", item), "{item}");
        }
    }

    #[test]
    fn python_is_read_too() {
        let mut functions = Functions::default();
        functions.add_python(
            "def helper(comm):\n    comm.open(x)\n\nclass A:\n    def test(self):\n        # comm.close()\n        \
             self.equal('comm.put()', ours.known(x))\n        helper(comm)\n\n    def other(self):\n        \
             comm.hold(x)\n",
        );
        let rust = "fn known() { torch::resolve(x) } fn open() { comm.window() } fn close() { comm.close() } \
                    fn put() { comm.put() } fn hold() { comm.hold() }";
        functions.add_rust(rust).expect("it is Rust");
        functions.add_python("def passes(self):\n    self.refused(ValueError, ours.known, x)\n");
        assert!(functions.named("passes").is_some_and(|it| it.has("interop::torch::resolve")));
        let named = functions.named("test").expect("it is there");
        assert!(named.has("interop::torch::resolve") && named.has("Communicator::window"));
        assert!(!named.has("Communicator::close") && !named.has("Communicator::put"));
        assert!(!named.has("Communicator::hold") && !named.has("interop::cupy::resolve"));
        assert!(functions.named("absent").is_none());
    }
}
