//! What is read from a file is checked without a panic, whatever it says.
//!
//! The seeds are fixed: a check may use its whole budget, which takes long.

mod generated;
mod plans;
mod sample;

use generated::Random;
use typed_nccl_plan::check::check;
use typed_nccl_plan::ir::Plan;

/// The words of a text that are numbers, or the names of numbers.
fn numbers(text: &str) -> Vec<(usize, usize)> {
    let bound = |char: char| !char.is_ascii_alphanumeric() && char != '_';
    let mut words = Vec::new();
    let mut begins = 0;
    for (end, _) in text.match_indices(bound) {
        let (word, before) = (&text[begins..end], &text[..begins]);
        let is_key = text[end..].starts_with("\":") || before.ends_with("plan\": ");
        let is_name = matches!(word, "r" | "n" | "m" | "h" | "i" | "j" | "k" | "len" | "size");
        if (word.parse::<u64>().is_ok() || is_name) && !is_key {
            words.push((begins, end));
        }
        begins = end + 1;
    }
    words
}

/// Plans that are right but for some of their numbers, checked; how many there were.
fn checked(texts: &[String], seeds: std::ops::Range<u64>, numbers_of: &[&str]) -> usize {
    let mut count = 0;
    for seed in seeds {
        let mut random = Random(seed);
        let mut text = texts[random.below(texts.len())].clone();
        for _ in 0..=random.below(3) {
            let words = numbers(&text);
            let (from, to) = words[random.below(words.len())];
            let other = words[random.below(words.len())];
            let other = match random.below(2) {
                0 => text[other.0..other.1].to_owned(),
                _ => numbers_of[random.below(numbers_of.len())].to_owned(),
            };
            text.replace_range(from..to, &other);
        }
        if let Ok(plan) = Plan::from_json(&text) {
            let _ = check(&plan);
            count += 1;
        }
    }
    count
}

/// The good plans as files without places.
fn texts(of: impl Fn(Plan) -> Plan) -> Vec<String> {
    let texts = plans::good().into_iter().map(|(name, plan)| {
        let plan = plan.unchecked().unwrap_or_else(|refused| panic!("{name}: {refused}"));
        of(plan).to_json()
    });
    texts.collect()
}

#[test]
fn well_formed() {
    for seed in 0..200 {
        let plan = Random(seed).plan(seed as usize % 6);
        let text = plan.to_json();
        match Plan::from_json(&text) {
            Ok(plan) => drop(check(&plan)),
            Err(error) => panic!("{seed}: {error}"),
        }
    }
}

#[test]
fn nearly_right() {
    let texts = texts(plans::small::few);
    let numbers = ["r", "0", "1", "2", "-1", "3", "size", "7", "64"];
    let count = checked(&texts, 0..120, &numbers);
    assert!(count > 30, "{count} of 120 are plans");
}

#[test]
#[ignore = "the checker adds and multiplies distances and extents of up to 64 bits without a bound"]
fn largest_numbers() {
    let texts = texts(|plan| plan);
    let numbers = ["9223372036854775807", "-9223372036854775808", "4611686018427387904"];
    let count = checked(&texts, 0..120, &numbers);
    assert!(count > 30, "{count} of 120 are plans");
}
