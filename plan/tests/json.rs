//! Plans as files.

mod sample;

use typed_nccl_plan::ir::*;

#[test]
fn sample_reads_back() {
    let plan = sample::plan();
    let text = plan.to_json();
    println!("{text}");
    let back = Plan::from_json(&text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(back, plan);
    assert_eq!(back.to_json(), text);
}
#[test]
fn halo() {
    let plan = Plan::from_json(include_str!("../src/json/halo.json"))
        .unwrap_or_else(|error| panic!("{error}"));
    println!("{}", plan.to_json());
}
