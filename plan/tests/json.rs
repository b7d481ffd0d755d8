//! Plans as files: what is written reads back as the same plan, and whatever else is read is refused with
//! its place.

mod generated;
mod sample;

use generated::Random;
use proptest::prelude::*;
use typed_nccl_plan::ir::*;
use typed_nccl_plan::json::JsonError;

const HALO: &str = include_str!("../src/json/halo.json");

#[track_caller]
fn read(text: &str) -> Plan {
    Plan::from_json(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The halo plan with a part of its text replaced.
#[track_caller]
fn halo(from: &str, to: &str) -> Result<Plan, JsonError> {
    assert!(HALO.contains(from), "{from}");
    Plan::from_json(HALO.replacen(from, to, 1))
}

#[track_caller]
fn refused(from: &str, to: &str) -> String {
    match halo(from, to) {
        Ok(plan) => panic!("this is a plan: {plan:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn sample_reads_back() {
    let plan = sample::plan();
    let text = plan.to_json();
    assert_eq!(read(&text), plan);
    assert!(text.lines().all(|line| line.len() <= 100), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn plans_read_back(seed: u64, size in 0_usize..6) {
        let plan = Random(seed).plan(size);
        prop_assert_eq!(plan.validate(), []);
        let text = plan.to_json();
        let back = Plan::from_json(&text);
        prop_assert_eq!(back.as_ref(), Ok(&plan), "{}", text);
    }
}

#[test]
fn zz() {
    let show = |from: &str, to: &str| {
        println!(
            "{from} -> {to}\n   {}",
            halo(from, to).err().map_or(String::from("FINE"), |e| e.to_string())
        )
    };
    for text in [
        "",
        "[",
        "{\"a\": 1,}",
        "[1 2]",
        "nul",
        "3",
        "{}",
        "[]",
        "\"x\"",
        "{\"typed-nccl-plan\": 2}",
        "{\"typed-nccl-plan\": \"1\"}",
        "{\"typed-nccl-plan\": 1}",
        "{\"typed-nccl-plan\": 1, \"name\": \"\\ud800\"}",
    ] {
        println!("{text}\n   {}", Plan::from_json(text).expect_err("no plan"));
    }
    println!("{}", Plan::from_json(b"{\n \xff}").expect_err("no plan"));
    show("\"name\": \"halo\"", "\"nome\": \"halo\"");
    show("\"name\": \"halo\"", "\"name\": \"halo\", \"name\": \"halo\"");
    show("\"name\": \"halo\"", "\"name\": 3");
    show("\"extent\": \">= 3\"", "\"extent\": \"=> 3\"");
    show("\"extent\": \">= 3\"", "\"extent\": 3.5");
    show("\"extent\": \">= 3\"", "\"extent\": [1, null]");
    show("\"extent\": \">= 3\"", "\"extent\": 0");
    show("\"f32\"", "\"f33\"");
    show("\"len\": \"m\"", "\"len\": true");
    show("\"len\": \"m\"", "\"len\": \"m +\"");
    show("\"len\": \"m\"", "\"len\": \"mm\"");
    show("\"len\": \"m\"", "\"len\": \"(m + 1\"");
    show("\"len\": \"m\"", "\"len\": \"m < 1\"");
    show("\"len\": \"m\"", "\"len\": 99999999999999999999");
    show("\"m >= 4 * h\"", "\"m\"");
    show("\"m >= 4 * h\"", "\"m >= 4 > h\"");
    show("\"(r - 1) % n\"", "\"r - 1 % n\"");
    show("\"(r - 1) % n\"", "\"(r - 1) % m\"");
    show("\"(r - 1) % n\"", "7");
    show("\"u[h .. 2 * h]\"", "\"u[h .. 2 * h\"");
    show("\"u[h .. 2 * h]\"", "\"v[h .. 2 * h]\"");
    show("\"u[h .. 2 * h]\"", "\"u.prev[h .. 2 * h]\"");
    show("\"u[h .. 2 * h]\"", "\"u[1][2]\"");
    show("\"u[h .. 2 * h]\"", "\"u[1]\"");
    show("\"on\": \"net\"", "\"on\": \"nat\"");
    show("\"on\": \"net\"", "\"an\": \"nat\"");
    show("{\"put\":", "{\"pit\":");
    show("\"among\": \"world\", \"on\"", "\"on\"");
    show("\"steps\": [", "\"steps\": [[], ");
    show("\"steps\": [", "\"steps\": [{\"collective\": \"all_gather\", \"root\": 0}, ");
    show("\"steps\": [", "\"launch\": \"lazy\", \"steps\": [");
    show("\"steps\": [", "\"target\": \"2.x\", \"steps\": [");
    show("\"steps\": [", "\"steps\": [{\"group\": [], \"at\": [1]},");
}
