//! The checker and an independent simulator say the same of random plans. `cargo run --release -p
//! xtask -- plans` compares more of them.

use plan_simulator::{Random, plan_of, run_every, run_many, simulate};
use typed_nccl_plan::build::{Number, PlanBuilder, at, ring};
use typed_nccl_plan::check::{check, check_at};
use typed_nccl_plan::ir::Plan;
use typed_nccl_plan::lower::{Elements, Operation, Schedule, lower};
use typed_nccl_plan::verdict::{Check, Sizes};

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

/// Each rank sends every other one as many as a run says, and what it got on to the next one.
fn dispatch() -> Plan {
    let mut plan = PlanBuilder::new("dispatch");
    let n = plan.ranks(2..);
    let (r, most) = (plan.rank(), plan.param("most", 1..));
    let counts = plan.counts("counts", n * n, 0..);
    plan.promise_each("i", ..n * n, |i| counts.at(i).le(most));
    let tokens = plan.input::<f32>("tokens", n * most);
    let (inbox, seen) =
        (plan.in_out::<f32>("inbox", n * most), plan.in_out::<f32>("seen", n * most));
    let (net, cmp) = (plan.stream("net"), plan.stream("cmp"));
    let part = |begin: Number, from: Number, to: Number| {
        begin * most..begin * most + counts.at(from * n + to)
    };
    plan.on(net).group(|net| {
        net.for_each("by", Number::from(1)..n, |net, by| {
            let (to, from) = ((r + by) % n, (r - by) % n);
            net.send(tokens.slice(part(to, r, to)), at(to));
            net.receive(inbox.slice(part(from, from, r)), at(from));
        });
    });
    plan.on(cmp).run("keep").reads(inbox).writes(seen);
    let sent = part(n - 1, r, (r + 1) % n);
    plan.on(net).transfer(inbox.slice(sent.clone()), ring(1), seen.slice(sent));
    plan.check().unwrap_or_else(|refused| panic!("{refused}")).plan().clone()
}

fn messages(schedule: &Schedule) -> impl Iterator<Item = &Elements> {
    let calls = schedule.ranks.iter().flat_map(|rank| &rank.calls);
    calls.flat_map(|call| call.work.operations()).filter_map(|operation| match operation {
        Operation::Send { from: part, .. } | Operation::Receive { to: part, .. } => Some(part),
        _ => None,
    })
}

/// A plan with lengths that runs pass is checked and lowered for the most of each.
#[test]
fn what_is_right_with_the_most_is_right_with_fewer() {
    let plan = dispatch();
    let sizes = |n: i64, counts: Vec<i64>| -> Sizes {
        plan.sizes(&[n], &[vec![2], counts]).expect("sizes that it claims")
    };
    check_at(&plan, &sizes(2, vec![2; 4])).expect("right with the most");
    // All that two ranks may pass.
    for number in 0..81 {
        let counts = (0..4).map(|at| number / 3_i64.pow(at) % 3).collect();
        let sizes = sizes(2, counts);
        assert!(simulate(&plan, &sizes).is_right(), "{}", sizes.text);
    }
    let most = lower(&plan, &sizes(3, vec![2; 9])).expect("right with the most");
    let mut random = Random::new(7);
    for _ in 0..60 {
        let counts: Vec<i64> = (0..9).map(|_| random.below(3) as i64).collect();
        let sizes = sizes(3, counts.clone());
        assert!(simulate(&plan, &sizes).is_right(), "{}", sizes.text);
        // The same messages, each as long as its number says.
        let fewer = lower(&plan, &sizes).expect("right with fewer");
        let mut found = 0;
        for (most, fewer) in messages(&most).zip(messages(&fewer)) {
            let len = counts[most.count.expect("a length that runs pass") as usize];
            let (start, end) = (most.start, most.start + len as u64);
            assert_eq!(*fewer, Elements { start, end, ..*most }, "{}", sizes.text);
            found += 1;
        }
        assert_eq!((found, messages(&fewer).count()), (18, 18));
    }
}
