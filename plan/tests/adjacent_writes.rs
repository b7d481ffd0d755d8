//! What is read was written by several writes that follow one another, at every size.

use plan_simulator::simulate;
use typed_nccl_plan::build::{Buffer, Generic, Number, PlanBuilder, Stream, ring};
use typed_nccl_plan::check::{check, check_at};
use typed_nccl_plan::ir::Plan;
use typed_nccl_plan::verdict::{Check, Sizes};

#[derive(Clone, Copy)]
struct Words {
    h: Number,
    a: Buffer<Generic>,
    halo: Buffer<Generic>,
    net: Stream,
}

impl Words {
    /// From the neighbour before, into a part of `halo`.
    fn fill(&self, plan: &mut PlanBuilder, start: impl Into<Number>, end: impl Into<Number>) {
        let &Self { a, halo, net, .. } = self;
        let (start, end) = (start.into(), end.into());
        let from = a.slice(Number::from(0)..end - start);
        plan.on(net).transfer(from, ring(1), halo.slice(start..end));
    }

    fn read(&self, plan: &mut PlanBuilder, start: impl Into<Number>, end: impl Into<Number>) {
        let part = self.halo.slice(start.into()..end.into());
        plan.on(self.net).run("work").reads(part);
    }
}

/// A halo of four edges and one element.
fn halo(steps: impl FnOnce(&mut PlanBuilder, Words)) -> Plan {
    let mut plan = PlanBuilder::new("halo");
    plan.ranks(2..);
    let h = plan.param("h", 1..);
    let a = plan.input::<Generic>("a", 4 * h + 1);
    let halo = plan.local::<Generic>("halo", 4 * h + 1);
    let net = plan.stream("net");
    steps(&mut plan, Words { h, a, halo, net });
    plan.unchecked().unwrap_or_else(|refused| panic!("{refused}"))
}

fn is_right(plan: &Plan, h: i64) -> bool {
    let sizes = Sizes { extents: vec![3], params: vec![vec![h]], text: format!("h = {h}") };
    let told = check_at(plan, &sizes);
    if h < 40 {
        assert_eq!(simulate(plan, &sizes).is_right(), told.is_ok(), "h = {h}");
    }
    told.is_ok()
}

const SOME: [i64; 7] = [1, 2, 3, 7, 30, 1000, 10_001];

fn accepted(steps: impl FnOnce(&mut PlanBuilder, Words)) {
    let plan = halo(steps);
    check(&plan).unwrap_or_else(|rejected| panic!("{rejected}"));
    assert!(SOME.into_iter().all(|h| is_right(&plan, h)));
}

/// Rejected, and wrong at one of some sizes, if it is `wrong` at any.
fn rejected(wrong: bool, steps: impl FnOnce(&mut PlanBuilder, Words)) {
    let plan = halo(steps);
    let Err(rejected) = check(&plan) else { panic!("accepted") };
    assert!(
        rejected.problems.iter().all(|problem| problem.check() == Some(Check::Initialised)),
        "{rejected}"
    );
    assert_eq!(SOME.into_iter().any(|h| !is_right(&plan, h)), wrong);
}

#[test]
fn two_edges() {
    accepted(|plan, words| {
        words.fill(plan, 0, words.h);
        words.fill(plan, words.h, 2 * words.h);
        words.read(plan, 0, 2 * words.h);
    });
}

#[test]
fn four_edges_in_another_order_and_part_of_them() {
    accepted(|plan, words| {
        for at in [2, 0, 3, 1] {
            words.fill(plan, at * words.h, (at + 1) * words.h);
        }
        words.read(plan, 0, 4 * words.h);
        words.read(plan, words.h, 3 * words.h);
    });
}

#[test]
fn chunks_and_what_is_left_over() {
    accepted(|plan, words| {
        for at in 0..4 {
            let quarter = |at: i64| at * (4 * words.h / 4);
            words.fill(plan, quarter(at), quarter(at + 1));
        }
        words.fill(plan, 4 * words.h, 4 * words.h + 1);
        plan.on(words.net).run("work").reads(words.halo);
    });
}

#[test]
fn edges_that_overlap() {
    accepted(|plan, words| {
        words.fill(plan, 0, 2 * words.h);
        words.fill(plan, words.h, 3 * words.h);
        words.read(plan, 0, 3 * words.h);
    });
}

#[test]
fn a_gap_of_one() {
    rejected(true, |plan, words| {
        words.fill(plan, 0, words.h);
        words.fill(plan, words.h + 1, 2 * words.h + 1);
        words.read(plan, 0, 2 * words.h + 1);
    });
}

#[test]
fn a_gap_of_one_at_either_end() {
    rejected(true, |plan, words| {
        words.fill(plan, 1, words.h + 1);
        words.fill(plan, words.h + 1, 2 * words.h + 1);
        words.read(plan, 0, 2 * words.h + 1);
    });
    rejected(true, |plan, words| {
        words.fill(plan, 0, words.h);
        words.fill(plan, words.h, 2 * words.h);
        words.read(plan, 0, 2 * words.h + 1);
    });
}

#[test]
fn a_gap_that_only_large_halos_have() {
    rejected(true, |plan, words| {
        words.fill(plan, 0, 3);
        words.fill(plan, words.h, 2 * words.h + 2);
        words.read(plan, 0, 2 * words.h + 2);
    });
}

#[test]
fn written_behind_the_reader() {
    rejected(true, |plan, words| {
        words.fill(plan, 0, words.h);
        words.read(plan, 0, 2 * words.h);
        words.fill(plan, words.h, 2 * words.h);
    });
}

#[test]
fn written_on_some_ranks() {
    rejected(true, |plan, words| {
        words.fill(plan, 0, words.h);
        let first = plan.rank().lt(1);
        plan.when(first, |plan| words.fill(plan, words.h, 2 * words.h));
        words.read(plan, 0, 2 * words.h);
    });
}
