//! The checker and an independent simulator say the same of random plans. `cargo run --release -p xtask --
//! plans` compares more of them.

use plan_simulator::{run_every, run_many};
use typed_nccl_plan::verdict::Check;

#[test]
fn the_checker_and_the_simulator_agree() {
    let report = run_many(1, 20_000, 2, &|_| {});
    println!("{}", report.table);
    let stories: Vec<&str> = report.differences.values().map(String::as_str).collect();
    assert!(stories.is_empty(), "{}", stories.join("\n"));
    // Every rule was kept where it had something to say, and broken.
    for check in Check::ALL {
        let [kept, broken, _] = report.table.rules[&check];
        assert!(kept >= 100 && broken >= 50, "{check}: kept {kept} times, broken {broken}");
    }
}

#[test]
fn what_is_accepted_while_compiling_is_right_at_the_sizes_that_were_checked() {
    let every = run_every(1, 600, 2, 10);
    println!("{every}");
    let stories: Vec<&str> = every.differences.values().map(String::as_str).collect();
    assert!(stories.is_empty(), "{}", stories.join("\n"));
    assert!(every.accepted > 100 && every.beyond > 500, "too few of one kind\n{every}");
    assert!(every.missed.is_empty(), "the sizes miss what they should not\n{every}");
}
