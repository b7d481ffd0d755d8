//! What checking costs: `cargo bench -p typed-nccl-plan --bench checker`.
//!
//! Plans with and without puts: at the sizes that are chosen while a program compiles, and at 1,024
//! and 16,384 ranks, as when they are bound. Times are of one call, the best of several: the time
//! that it has had a processor, which others' work does not lengthen. At opt-level 0, as macros are
//! built by default: `cargo bench -p typed-nccl-plan --profile dev --bench checker`.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use typed_nccl_plan::build::{Generic, PlanBuilder, chain, ring};
use typed_nccl_plan::check::{check, check_at};
use typed_nccl_plan::ir::Reduction::Sum;
use typed_nccl_plan::ir::{Plan, Values};
use typed_nccl_plan::verdict::Rejected;

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        println!("no measurement in a test run");
        return;
    }
    let any = Values::AtLeast(3);
    for steps in [10, 100, 1000] {
        compiled(&format!("{steps} steps: messages"), &messages(any.clone(), steps));
        compiled(&format!("{steps} steps: puts"), &puts(any.clone(), steps));
        compiled(&format!("{steps} steps: collectives"), &collectives(any.clone(), steps));
        compiled(&format!("{steps} steps: messages by turns"), &by_turns(any.clone(), steps));
    }
    for ranks in [1024, 16_384] {
        let n = Values::Exactly(ranks);
        bound(&format!("100 steps, n = {ranks}: messages"), &messages(n.clone(), 100), ranks);
        bound(&format!("100 steps, n = {ranks}: puts"), &puts(n.clone(), 100), ranks);
        bound(&format!("100 steps, n = {ranks}: collectives"), &collectives(n, 100), ranks);
    }
}

/// The check of many sizes, as while a program compiles.
fn compiled(what: &str, plan: &Plan) {
    let at = check(plan).map_or(0, |accepted| accepted.len());
    measure(&format!("{what}, at {at} sizes"), || check(plan).map(drop));
}

/// The check of one size, as when a plan is bound.
fn bound(what: &str, plan: &Plan, ranks: i64) {
    let sizes = plan.sizes(&[ranks], &[vec![4]]).expect("sizes that the plan claims");
    measure(what, || check_at(plan, &sizes));
}

fn measure(what: &str, check: impl Fn() -> Result<(), Rejected>) {
    let begin = Instant::now();
    if let Err(rejected) = check() {
        println!("{what}: rejected\n{rejected}");
        return;
    }
    // The clock ticks every few milliseconds: what is short is measured as several calls.
    let calls = (100.0 / begin.elapsed().as_secs_f64().max(1e-3) / 1e3).max(1.0) as u32;
    let mut best = Duration::MAX;
    for _ in 0..10 {
        let start = spent();
        for _ in 0..calls {
            let _ = check();
        }
        best = best.min((spent() - start) / calls);
        if begin.elapsed() > Duration::from_secs(6) {
            break;
        }
    }
    println!("{what:<52} {:>9.2} ms   peak {:>5} MiB", best.as_secs_f64() * 1e3, peak());
}

/// The time that this thread has had a processor; where the system does not say it, the time.
fn spent() -> Duration {
    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let began = *BEGAN;
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = told.and_then(|told| told.split(' ').next()?.parse().ok());
    nanos.map_or_else(|| began.elapsed(), Duration::from_nanos)
}

/// The most memory that this process has had, in MiB; 0 where the system does not say.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

/// A ring: each step sends what the one before received.
fn messages(n: Values, steps: usize) -> Plan {
    let mut plan = PlanBuilder::new("messages");
    plan.ranks(n);
    let len = plan.param("len", 1..);
    let a = plan.in_out::<Generic>("a", len);
    let b = plan.in_out::<Generic>("b", len);
    let net = plan.stream("net");
    for step in 0..steps {
        let (from, to) = if step % 2 == 0 { (a, b) } else { (b, a) };
        plan.on(net).transfer(from, ring(1), to);
    }
    built(plan)
}

/// A chain: even ranks send first, odd ranks receive first.
fn by_turns(n: Values, steps: usize) -> Plan {
    let mut plan = PlanBuilder::new("by turns");
    plan.ranks(n);
    let r = plan.rank();
    let len = plan.param("len", 1..);
    let (a, b) = (plan.in_out::<Generic>("a", len), plan.in_out::<Generic>("b", len));
    let net = plan.stream("net");
    for step in 0..steps / 4 {
        let (from, to) = if step % 2 == 0 { (a, b) } else { (b, a) };
        plan.when((r % 2).eq(0), |plan| {
            plan.on(net).send(from, chain(1));
            plan.on(net).receive(to, chain(-1));
        });
        plan.when((r % 2).eq(1), |plan| {
            plan.on(net).receive(to, chain(-1));
            plan.on(net).send(from, chain(1));
        });
    }
    built(plan)
}

/// Halo exchanges, one after another, each with its own signals, windows of two copies and a
/// compute step.
fn puts(n: Values, steps: usize) -> Plan {
    let mut plan = PlanBuilder::new("puts");
    plan.ranks(n);
    let h = plan.param("h", 1..);
    let (hi, lo) = (plan.signal("hi"), plan.signal("lo"));
    let (net, cmp) = (plan.stream("net"), plan.stream("cmp"));
    let u = plan.window().swapped().in_out::<Generic>("u", 4 * h);
    let v = plan.window().swapped().in_out::<Generic>("v", 4 * h);
    for step in 0..steps / 4 {
        let (from, to) = if step % 2 == 0 { (u, v) } else { (v, u) };
        plan.on(net).put(from.slice(h..2 * h), ring(-1), to.slice(3 * h..4 * h)).signal(hi);
        plan.on(net).put(from.slice(2 * h..3 * h), ring(1), to.slice(..h)).signal(lo);
        plan.on(net).wait([hi.from(ring(1)), lo.from(ring(-1))]);
        plan.on(cmp).after([net]).run("edges").reads(to).writes(to);
    }
    built(plan)
}

/// All-reduces that overlap with the compute steps that make their buffers.
fn collectives(n: Values, steps: usize) -> Plan {
    let mut plan = PlanBuilder::new("collectives");
    plan.ranks(n);
    let len = plan.param("len", 1..);
    let (net, cmp) = (plan.stream("net"), plan.stream("cmp"));
    let buffers = [0, 1, 2, 3].map(|at| plan.in_out::<f32>(&format!("g{at}"), len));
    for step in 0..steps / 2 {
        let g = buffers[step % buffers.len()];
        plan.on(cmp).run("backward").writes(g);
        plan.on(net).after([cmp]).all_reduce_in_place(g, Sum);
    }
    built(plan)
}

fn built(plan: PlanBuilder) -> Plan {
    match plan.unchecked() {
        Ok(plan) => plan,
        Err(refused) => {
            println!("{refused}");
            std::process::exit(1);
        }
    }
}
