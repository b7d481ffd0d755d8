//! Plans with tokens lost, doubled, swapped and inserted: the macro reports an error or generates a
//! module, and never panics. `MUTATIONS=100000 cargo test -p typed-nccl-macros mutated` tries more.

use std::env;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use typed_nccl_plan::check::Accepted;
use typed_nccl_plan::ir::Plan;

use super::random::Random;
use super::source;
use crate::expand;

const FILES: [&str; 13] = [
    "all_gather",
    "all_reduce",
    "apart",
    "barrier",
    "broadcast",
    "experts",
    "gradients",
    "halo",
    "halo2d",
    "hierarchical",
    "one_f1b",
    "pipeline",
    "ring",
];

/// Insertions: words of the language, names, numbers, signs, groups.
const WORDS: &str = "in out inout local window swapped signal stream comm along let send recv put wait to from \
    into on after run read write update all_reduce broadcast sum root rank n r i len group sequence for if where \
    computes covers capture once Ranks usize f32 T Element pub impl 0 1 2 7 4294967296 18446744073709551615 \
    340282366920938463463374607431768211456 1.5 \"text\" 'c' b'x' .. ..= -> = == < <= % * / + - - ! && || , ; : :: . @ \
    # ? () [] {} (rank) [T; 0] {;} {{}} ((((1))))";

#[test]
fn whatever_is_written_is_answered() {
    let tries: u64 =
        env::var("MUTATIONS").ok().and_then(|tries| tries.parse().ok()).unwrap_or(1500);
    let words: Vec<TokenTree> = WORDS.parse::<TokenStream>().expect("tokens").into_iter().collect();
    let plans: Vec<TokenStream> = FILES.iter().flat_map(|file| source::plans(file)).collect();
    let (mut refused, mut right) = (0, 0);
    for seed in 0..tries {
        let mut random = Random::new(seed);
        let mut plan = random.pick(&plans).clone();
        for _ in 0..=random.below(2) {
            plan = mutated(plan, &words, &mut random);
        }
        let written = plan.to_string();
        let answer = expand::plan(plan).to_string();
        if answer.contains("compile_error") {
            refused += 1;
            continue;
        }
        let data = answer.split_once("Declaration :: new (").map(|(_, rest)| rest);
        let data = data.and_then(|rest| rest.split_once(", & SITES")).expect(&written).0;
        let read = postcard::from_bytes::<(Plan, Accepted)>(&source::bytes(data));
        assert!(read.is_ok(), "{written}\n{data}");
        right += 1;
    }
    assert!(refused > right && right > 0, "{refused} were refused, {right} right");
}

/// One change, at a random place.
fn mutated(tokens: TokenStream, words: &[TokenTree], random: &mut Random) -> TokenStream {
    let mut tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let groups: Vec<usize> = (0..tokens.len())
        .filter(|&at| matches!(&tokens[at], TokenTree::Group(group) if !group.stream().is_empty()))
        .collect();
    if !groups.is_empty() && random.chance(3, 4) {
        // The body has most of the tokens.
        let at = if random.chance(1, 2) { groups.len() - 1 } else { random.below(groups.len()) };
        if let TokenTree::Group(group) = &tokens[groups[at]] {
            let inside = mutated(group.stream(), words, random);
            tokens[groups[at]] = Group::new(group.delimiter(), inside).into();
        }
        return tokens.into_iter().collect();
    }
    let word = random.pick(words).clone();
    if tokens.is_empty() {
        return word.into();
    }
    let (at, other) = (random.below(tokens.len()), random.below(tokens.len()));
    match random.below(7) {
        0 => drop(tokens.remove(at)),
        1 => tokens.insert(at, tokens[at].clone()),
        2 => tokens.swap(at, other),
        3 => tokens[at] = word,
        4 => tokens.insert(at, word),
        5 => tokens.truncate(at),
        _ => {
            let rest: TokenStream = tokens.split_off(at).into_iter().collect();
            let delimiters = [Delimiter::Parenthesis, Delimiter::Brace, Delimiter::Bracket];
            tokens.push(Group::new(*random.pick(&delimiters), rest).into());
        }
    }
    tokens.into_iter().collect()
}
