//! Plans that are nested more deeply, or grow larger, than allowed: one error at one place, and no
//! stack overflow.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use crate::expand;

/// The macro's errors for a plan of four ranks with these statements.
fn told(body: TokenStream) -> String {
    let mut plan: Vec<TokenTree> = "(crate) deep(n: Ranks in [4], len: usize)"
        .parse::<TokenStream>()
        .expect("tokens")
        .into_iter()
        .collect();
    let memory: TokenStream = "in a: [f32; len]; out b: [f32; len];".parse().expect("tokens");
    let body = memory.into_iter().chain(body).collect();
    plan.push(Group::new(Delimiter::Brace, body).into());
    let answer = expand::plan(plan.into_iter().collect()).to_string();
    assert!(answer.contains("compile_error"), "{}", &answer[..answer.len().min(1_000)]);
    answer
}

fn text(body: &str) -> String {
    told(body.parse().expect("tokens"))
}

/// `((((1))))`, built without a lexer, which has limits of its own.
fn nested(delimiter: Delimiter, before: &str, end: &str, after: &str, depth: usize) -> TokenStream {
    let tokens = |text: &str| text.parse::<TokenStream>().expect("tokens");
    let (before, after) = (tokens(before), tokens(after));
    (0..depth).fold(tokens(end), |inner, _| {
        let group = TokenTree::from(Group::new(delimiter, inner));
        before.clone().into_iter().chain([group]).chain(after.clone()).collect()
    })
}

const DEEP: usize = 20_000;

#[test]
fn parentheses() {
    let number = nested(Delimiter::Parenthesis, "", "1", "", DEEP);
    let send: TokenStream = "send a to rank + ".parse().expect("tokens");
    let end: TokenStream = " into b;".parse().expect("tokens");
    let answer = told(send.into_iter().chain(number).chain(end).collect());
    assert!(answer.contains("more than 130 blocks and parentheses"), "{answer}");
    let sums = nested(Delimiter::Parenthesis, "1 +", "1", "", 100);
    let send: TokenStream = "send a to rank + ".parse().expect("tokens");
    let answer = told(
        send.into_iter()
            .chain(sums)
            .chain("into b;".parse::<TokenStream>().expect("tokens"))
            .collect(),
    );
    assert!(answer.contains("too many parts in one another"), "{answer}");
}

#[test]
fn blocks() {
    for before in
        ["group", "sequence", "on net", "for i in 0..2", "for d in [1]", "if rank == 0", "oops"]
    {
        let answer = told(nested(Delimiter::Brace, before, "", "", DEEP));
        assert!(answer.contains("more than 130 blocks and parentheses"), "{answer}");
    }
    let answer =
        told(nested(Delimiter::Brace, "if rank == 0", "send a to (rank + 1) % n into b;", "", 100));
    assert!(answer.contains("this step is inside more than 63 others"), "{answer}");
}

#[test]
fn chains_of_cases() {
    let chain = format!("if rank == 0 {{ }} {}", "else if rank == 1 { } ".repeat(DEEP));
    assert!(text(&chain).contains("more than 130 blocks and parentheses"));
    let cases = "if rank == 1 { rank + 1 } else ".repeat(DEEP);
    let answer = text(&format!("send a to {cases} {{ rank - 1 }} into b;"));
    assert!(answer.contains("more than 130 blocks and parentheses"));
}

#[test]
fn signs_and_sums() {
    for number in
        ["- ".repeat(DEEP) + "1", "1 + ".repeat(DEEP) + "1", format!("a{}", ".x".repeat(DEEP))]
    {
        let answer = text(&format!("send a to rank + {number} into b;"));
        assert!(answer.contains("too many parts in one another"), "{answer}");
    }
    let answer = text(&format!("if {} rank == 0 {{ }}", "! ".repeat(DEEP)));
    assert!(answer.contains("too many parts in one another"), "{answer}");
}

/// Each name doubles the one before it: expanded, 2^28 parts.
#[test]
fn names_that_double() {
    let double = |name: &str, first: &str, make: &dyn Fn(String) -> String| -> String {
        let first = format!("let {name}0 = {first};");
        (0..28).fold(first, |text, at| {
            format!("{text} let {name}{} = {};", at + 1, make(format!("{name}{at}")))
        })
    };
    let numbers = double("x", "len", &|x| format!("min({x}, {x})"));
    let answer = text(&format!("{numbers} send a[..x28] to (rank + 1) % n into b;"));
    assert!(answer.contains("a number has more than 4096 parts"), "{answer}");
    let peers =
        double("p", "(rank + 1) % n", &|p| format!("if rank == 0 {{ {p} }} else {{ {p} }}"));
    let answer = text(&format!("{peers} send a to p28 into b;"));
    assert!(answer.contains("more than 4096 parts"), "{answer}");
    let parts = double("u", "a", &|u| format!("{u}.chunk(len, rank)"));
    let answer = text(&format!("{parts} send u28 to (rank + 1) % n into b;"));
    assert!(answer.contains("a number "), "{answer}");
}

/// A chain of names is as deep as it is long.
#[test]
fn names_of_names() {
    let chain = |count: usize, first: &str, make: &dyn Fn(usize) -> String| -> String {
        let names = (0..count).map(|at| format!("let x{} = {};", at + 1, make(at)));
        format!("let x0 = {first}; {}", names.collect::<String>())
    };
    let numbers = chain(300, "len", &|at| format!("x{at} + len"));
    let answer = text(&format!("{numbers} send a[..x300] to (rank + 1) % n into b;"));
    assert!(answer.contains("a number is nested more than 64 deep"), "{answer}");
    let peers =
        chain(300, "(rank + 1) % n", &|at| format!("if rank == 0 {{ rank + 1 }} else {{ x{at} }}"));
    let answer = text(&format!("{peers} send a to x300 into b;"));
    assert!(answer.contains("nested more than 64 deep"), "{answer}");
}

/// Expanded, the innermost block would occur 10^16 times without a statement.
#[test]
fn blocks_for_each_of_a_list() {
    let list = vec!["1"; 100].join(", ");
    let loops: String = ["a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8"]
        .map(|name| format!("for {name} in [{list}] {{ "))
        .concat();
    let answer = text(&format!("{loops} let nothing = 1; {}", "}".repeat(8)));
    assert!(answer.contains("written out, this is more than"), "{answer}");
}
