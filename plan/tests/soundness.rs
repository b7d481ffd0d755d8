//! The checker and an independent simulator say the same of random plans.

use plan_simulator::run_many;

#[test]
fn the_checker_and_the_simulator_agree() {
    let report = run_many(1, 20_000, 2, &|_| {});
    println!("{}", report.table);
    let stories: Vec<&str> = report.differences.values().map(String::as_str).collect();
    assert!(stories.is_empty(), "{}", stories.join("\n"));
}
