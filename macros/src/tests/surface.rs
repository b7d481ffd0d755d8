//! After an error in one statement, the module has the same fields and methods as without it, so
//! the user's code around the plan gets no further errors.

use std::collections::HashSet;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use super::source;
use crate::ast::text;
use crate::valid::{Kind, Valid};

/// The parts of a plan's module that a program sees.
#[derive(Debug, PartialEq)]
struct Surface {
    params: Vec<String>,
    buffers: Vec<String>,
    methods: Vec<String>,
}

impl Surface {
    fn of(valid: &Valid) -> Self {
        let params = valid.params.iter().map(|known| {
            let kind = match known.kind {
                Kind::Axis => "ranks",
                Kind::Number => "number",
                Kind::Constant => "constant",
                Kind::List | Kind::Counts => "list",
            };
            format!("{}: {kind}", text(&known.name))
        });
        let buffers = valid.plan.buffers.iter().map(|buffer| {
            let (name, element, array) = (&buffer.name, &buffer.element, buffer.array.is_some());
            let (role, window, copies) = (buffer.role, buffer.window, buffer.copies);
            format!("{name}: {element} {role:?} {array} {window} {copies}")
        });
        let methods = valid.computed.iter().map(|computed| {
            let shapes: Vec<_> = computed.arguments.iter().map(|(_, shape)| shape).collect();
            format!("{}{shapes:?}", computed.name)
        });
        let mut methods: Vec<String> = methods.collect();
        methods.sort();
        Self { params: params.collect(), buffers: buffers.collect(), methods }
    }
}

/// Every variant of this plan with one token lost or doubled, and that token.
fn slips(tokens: &TokenStream) -> Vec<(TokenTree, TokenStream)> {
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let mut slips = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let (before, after) = (&tokens[..at], &tokens[at + 1..]);
        let with = |these: &[TokenTree]| before.iter().chain(these).chain(after).cloned().collect();
        slips.push((token.clone(), with(&[])));
        slips.push((token.clone(), with(&[token.clone(), token.clone()])));
        if let TokenTree::Group(group) = token {
            for (slip, inside) in self::slips(&group.stream()) {
                let mut mended = Group::new(group.delimiter(), inside);
                mended.set_span(group.span());
                slips.push((slip, with(&[mended.into()])));
            }
        }
    }
    slips
}

/// The names that the user sees, and the names that they are made of.
fn names(valid: &Valid) -> HashSet<String> {
    let plan = &valid.plan;
    let params = valid.params.iter().map(|known| text(&known.name));
    let buffers = plan.buffers.iter().flat_map(|one| [one.name.clone(), one.element.to_string()]);
    let methods = valid.computed.iter().map(|computed| computed.name.to_string());
    let numbers = plan.counters.iter().map(|counter| counter.name.clone());
    let all = params.chain(buffers).chain(methods).chain(numbers);
    all.chain([plan.name.clone()]).collect()
}

/// Whether losing or doubling a token may change what the user sees, because it is one of those
/// names or determines one.
fn says_what_is_seen(slip: &TokenTree, names: &HashSet<String>) -> bool {
    const WORDS: [&str; 10] =
        ["in", "out", "inout", "local", "run", "read", "write", "update", "usize", "Ranks"];
    match slip {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => true,
        TokenTree::Group(group) => {
            group.stream().into_iter().any(|token| says_what_is_seen(&token, names))
        }
        TokenTree::Ident(word) => {
            let word = word.to_string();
            WORDS.contains(&&*word) || names.contains(&word)
        }
        _ => false,
    }
}

#[test]
fn one_slip_is_told_once_and_leaves_the_rest() {
    let files = ["halo", "halo2d", "gradients", "one_f1b", "pipeline", "experts"];
    let (mut wrong, mut several, mut changed) = (0, 0, 0);
    for plan in files.iter().flat_map(|file| source::plans(file)) {
        let (right, faults) = source::read(plan.clone());
        assert!(faults.is_empty(), "{plan}");
        let right = right.expect("a plan");
        let (right, names) = (Surface::of(&right), names(&right));
        for (slip, written) in slips(&plan) {
            let (valid, faults) = source::read(written.clone());
            if faults.is_empty() {
                continue;
            }
            let (seen, at) = (says_what_is_seen(&slip, &names), slip.span().start());
            let told: Vec<&str> = faults.iter().map(|fault| &*fault.message).collect();
            let tale =
                || format!("{}:{} `{slip}` in {written}:\n{}", at.line, at.column, told.join("\n"));
            assert!(told.len() == 1 || seen, "{}", tale());
            let now = valid.as_ref().map(Surface::of);
            assert!(now.as_ref() == Some(&right) || seen, "{}\n{right:?}\n{now:?}", tale());
            wrong += 1;
            several += u32::from(told.len() > 1);
            changed += u32::from(now.as_ref() != Some(&right));
        }
    }
    println!("{wrong} slips: of {several} several things are told, {changed} change what is seen");
    assert!(several < 3 && changed * 16 < wrong, "{several}, {changed} of {wrong}");
}
