//! The checker and an independent simulator say the same of random plans. `cargo run --release -p
//! xtask -- plans` compares more of them.

use plan_simulator::{Random, plan_of, run_every, run_many, simulate};
use typed_nccl_plan::check::{check, check_at};
use typed_nccl_plan::verdict::Check;

#[test]
fn the_checker_and_the_simulator_agree() {
    let report = run_many(1, 12_000, 2, &|_| {});
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
    let every = run_every(1, 320, 2, 10);
    println!("{every}");
    let stories: Vec<&str> = every.differences.values().map(String::as_str).collect();
    assert!(stories.is_empty(), "{}", stories.join("\n"));
    assert!(every.accepted > 80 && every.beyond > 200, "too few of one kind\n{every}");
    assert!(every.missed.is_empty(), "the sizes miss what they should not\n{every}");
}

/// Of 56,497 random plans that are accepted while compiling, these are wrong at larger sizes:
/// binding, which makes this check, refuses them there.
#[test]
fn what_the_sizes_miss_is_refused_when_it_is_bound() {
    let missed = [(3799506649575990229, 28), (12696050647139362762, 24), (2199516347075477154, 23)];
    for (seed, n) in missed {
        let plan = plan_of(&mut Random::new(seed));
        assert!(
            check(&plan).is_ok(),
            "seed {seed}: its sizes are among those that are checked now"
        );
        let sizes = plan.sizes(&[n, 1], &[]).expect("sizes that it claims");
        assert!(!simulate(&plan, &sizes).is_right(), "seed {seed}: right for n = {n}");
        let rejected = check_at(&plan, &sizes).expect_err("what the simulator finds wrong");
        println!("{rejected}");
    }
}
