//! Signals that are raised and consumed.

use std::collections::{BTreeMap, HashSet};

use proptest::collection::vec;
use proptest::prelude::*;
use typed_nccl_match::{OneSided, Played, Signals, play};

type Op = OneSided<(usize, usize)>;

proptest! {
    #[test]
    fn a_wait_consumes_the_next_ones_in_their_order(steps in vec(prop::option::of(0..4_u64), 0..40)) {
        let (mut signals, mut queue, mut raised) = (Signals::default(), Vec::new(), 0_u64);
        for step in steps {
            match step {
                None => {
                    prop_assert_eq!(signals.raise(), raised);
                    queue.push(raised);
                    raised += 1;
                }
                Some(count) => match signals.consume(count) {
                    None => prop_assert!(queue.len() < count as usize),
                    Some(numbers) => {
                        let next: Vec<u64> = queue.drain(..count as usize).collect();
                        prop_assert_eq!(next, numbers.collect::<Vec<_>>());
                    }
                },
            }
            prop_assert_eq!(signals.left(), queue.len() as u64);
            prop_assert_eq!(signals.consumed(), raised - queue.len() as u64);
        }
    }

    #[test]
    fn graphs_of_three_ranks_end_alike_in_every_order(
        ranks in vec(vec((any::<bool>(), 0..3_usize), 0..5), 3),
    ) {
        check(&ranks);
    }
}

/// Everything that two ranks can do with two operations each.
#[test]
fn all_small_graphs_end_alike_in_every_order() {
    let one: Vec<(bool, usize)> = vec![(true, 0), (true, 1), (false, 0), (false, 1)];
    let mut lists = vec![Vec::new()];
    lists.extend(one.iter().map(|&op| vec![op]));
    lists.extend(one.iter().flat_map(|&first| one.iter().map(move |&then| vec![first, then])));
    for first in &lists {
        for second in &lists {
            check(&[first.clone(), second.clone()]);
        }
    }
}

/// Each rank's operations: whether it raises or awaits, and with whom.
fn check(ranks: &[Vec<(bool, usize)>]) {
    let ops = |(rank, ops): (usize, &Vec<(bool, usize)>)| {
        let op = |&(raises, peer)| match raises {
            true => OneSided::Raise((rank, peer)),
            false => OneSided::Await((peer, rank)),
        };
        ops.iter().map(op).collect()
    };
    let ranks: Vec<Vec<Op>> = ranks.iter().enumerate().map(ops).collect();
    let mut played = play(&ranks);
    played.surplus.sort_unstable();
    let ends = ends(&ranks);
    assert_eq!(ends, [played.clone()], "{ranks:?}");
}

/// Where all orders of the ranks' steps end.
fn ends(ranks: &[Vec<Op>]) -> Vec<Played<(usize, usize)>> {
    type State = (Vec<usize>, BTreeMap<(usize, usize), bool>);
    let mut seen: HashSet<State> = HashSet::new();
    let mut open: Vec<State> = vec![(vec![0; ranks.len()], BTreeMap::new())];
    let mut ends: Vec<Played<_>> = Vec::new();
    while let Some(state) = open.pop() {
        if !seen.insert(state.clone()) {
            continue;
        }
        let mut is_end = true;
        for rank in 0..ranks.len() {
            let (mut next, mut slots) = state.clone();
            let Some(op) = ranks[rank].get(next[rank]) else { continue };
            let (OneSided::Raise(kind) | OneSided::Await(kind)) = *op;
            let raises = matches!(op, OneSided::Raise(_));
            let is_full = slots.entry(kind).or_default();
            if *is_full != raises {
                *is_full = raises;
                next[rank] += 1;
                open.push((next, slots));
                is_end = false;
            }
        }
        if is_end {
            let (next, slots) = state;
            let stuck = next.iter().zip(ranks).map(|(at, ops)| ops.get(*at).copied()).collect();
            let surplus =
                slots.iter().filter(|(_, is_full)| **is_full).map(|(kind, _)| *kind).collect();
            let end = Played { stuck, surplus };
            if !ends.contains(&end) {
                ends.push(end);
            }
        }
    }
    ends
}

#[test]
fn signals_are_raised_and_awaited_in_turns() {
    let fits = |ranks: &[&[Op]]| {
        let ranks: Vec<Vec<Op>> = ranks.iter().map(|ops| ops.to_vec()).collect();
        let Played { stuck, surplus } = play(&ranks);
        surplus.is_empty() && stuck.iter().all(Option::is_none)
    };
    let (raise, wait) =
        (|from, to| OneSided::Raise((from, to)), |from, to| OneSided::Await((from, to)));
    assert!(fits(&[&[raise(0, 1), wait(1, 0)], &[raise(1, 0), wait(0, 1)]]));
    assert!(fits(&[&[raise(0, 1), raise(0, 1)], &[wait(0, 1), wait(0, 1)]]));
    // A pipeline around a ring of three.
    let ring = |own| {
        let (next, before) = ((own + 1) % 3, (own + 2) % 3);
        [raise(own, next), wait(before, own), raise(own, next), wait(before, own)]
    };
    assert!(fits(&[&ring(0), &ring(1), &ring(2)]));
    // Two puts and one wait; none; a circle.
    assert!(!fits(&[&[raise(0, 1), raise(0, 1)], &[wait(0, 1)]]));
    assert!(!fits(&[&[raise(0, 1)], &[]]));
    assert!(!fits(&[&[], &[wait(0, 1)]]));
    let greedy =
        |own, other| [raise(own, other), raise(own, other), wait(other, own), wait(other, own)];
    assert!(!fits(&[&greedy(0, 1), &greedy(1, 0)]));
    assert!(!fits(&[&[wait(1, 0), raise(0, 1)], &[wait(0, 1), raise(1, 0)]]));
}
