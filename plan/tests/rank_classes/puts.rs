//! Puts and signals of some ranks.

use plan_simulator::make::{all, compute, on, put, raise, ring, wait, when};
use typed_nccl_plan::ir::{Condition, Launch, Values, Version};

use crate::says::{Says, right, says, wrong};
use crate::words::{N, R, both, read, windows};

#[test]
fn puts_of_some_ranks() {
    let put = |by: i64| put(all(0), ring(by), all(1), Some(0));
    let told = |by: i64| wait(vec![(0, ring(-by), 1)]);
    let halo = |sends: Condition, waits: Condition| {
        windows(vec![when(sends, vec![put(1)]), when(waits, vec![told(1)]), read()])
    };
    right(&halo(R.lt(N - 1), R.gt(0)));
    wrong(&halo(R.lt(N - 1), R.ge(0)), 2);
    wrong(&halo(R.lt(N - 4), R.gt(0)), 2);
    wrong(&halo(R.lt(30), R.gt(0)), 2);
    let mut later = halo(R.lt(30), R.gt(0));
    later.axes[0].extent = Values::AtLeast(32);
    wrong(&later, 32);
    // A read before the put has come, on one rank alone.
    let early = |some: Condition| {
        windows(vec![
            when(some.clone(), vec![on(compute("read", vec![all(1)], vec![all(2)]), 1, &[])]),
            put(1),
            told(1),
            read(),
        ])
    };
    wrong(&early(R.eq(25)), 26);
    wrong(&early(R.eq(N - 26)), 26);
    wrong(&early((R % 7).eq(6)), 7);
    // Rank r's window is written by r - 3 and by r - 1, in order but for some.
    let two = |least: i64, raises: Condition, waits: Condition| {
        let mut plan = windows(vec![
            put(1),
            told(1),
            when(raises, vec![raise(1, ring(-3))]),
            when(waits, vec![wait(vec![(1, ring(3), 1)])]),
            put(3),
            told(3),
            read(),
        ]);
        plan.axes[0].extent = Values::AtLeast(least);
        plan
    };
    right(&two(7, R.ge(0), R.ge(0)));
    wrong(&two(34, R.lt(30), Condition::Any(vec![R.lt(27), R.ge(N - 3)])), 34);
    wrong(&two(7, R.ne(50), R.ne(47)), 48);
    wrong(&two(60, R.ne(50), R.ne(47)), 60);
}

#[test]
fn across_the_seam() {
    // The last three ranks put into the first three.
    let seam = |waits: Condition| {
        let mut plan = windows(vec![
            when(R.ge(N - 3), vec![put(all(0), ring(3), all(1), Some(0))]),
            when(waits, vec![wait(vec![(0, ring(-3), 1)])]),
            read(),
        ]);
        plan.axes[0].extent = Values::AtLeast(7);
        plan
    };
    right(&seam(R.lt(3)));
    wrong(&seam(R.lt(4)), 7);
    wrong(&seam(R.le(1)), 7);
    wrong(&seam(both(R.lt(3), R.lt(N - 50))), 7);
    let mut far = seam(Condition::Any(vec![R.lt(3), R.eq(N - 90)]));
    far.axes[0].extent = Values::AtLeast(93);
    wrong(&far, 93);
    // The last rank reads early what the first one puts there the other way round.
    let early = |who: Condition| {
        let mut plan = windows(vec![
            when(who, vec![on(compute("early", vec![all(1)], vec![all(2)]), 1, &[])]),
            when(R.lt(2), vec![put(all(0), ring(-2), all(1), Some(0))]),
            when(R.ge(N - 2), vec![wait(vec![(0, ring(2), 1)])]),
            read(),
        ]);
        plan.axes[0].extent = Values::AtLeast(5);
        plan
    };
    right(&early(both(R.ge(2), R.lt(N - 2))));
    wrong(&early(both(R.ge(2), R.lt(N - 1))), 5);
    wrong(&early(R.eq(40)), 41);
    wrong(&early(both(R.eq(N - 2), (R % 9).eq(8))), 10);
}

#[test]
fn captured_signals_of_some_ranks() {
    let twice = |some: Condition, target: Version| {
        let mut plan = windows(vec![
            raise(1, ring(1)),
            when(some.clone(), vec![raise(1, ring(1))]),
            wait(vec![(1, ring(-1), 1)]),
            when(
                match some {
                    Condition::Compare(_, how, b) => Condition::Compare(R - 1, how, b),
                    other => other,
                },
                vec![wait(vec![(1, ring(-1), 1)])],
            ),
        ]);
        plan.streams.truncate(1);
        plan.launch = Launch::Captured;
        plan.target = target;
        plan
    };
    let old = Version(2, 30, 7);
    // Only the second signal of one rank waits, and its target has waited for the first.
    assert_eq!(says(&twice(R.eq(0), Version(2, 32, 3))), Says::Right);
    assert_eq!(says(&twice(R.eq(0), old)), Says::Right);
    wrong(&twice(R.eq(30), Version(2, 32, 3)), 31);
}
