//! Waits in circles, beside the transitive closure.

use proptest::collection::vec;
use proptest::prelude::*;
use typed_nccl_match::{Graph, circle, way};

/// Whether each node leads to each other one, by at least one edge.
fn closure(nodes: usize, edges: &[(u32, u32)]) -> Vec<Vec<bool>> {
    let mut leads = vec![vec![false; nodes]; nodes];
    for &(from, to) in edges {
        leads[from as usize][to as usize] = true;
    }
    for through in 0..nodes {
        for from in 0..nodes {
            for to in 0..nodes {
                leads[from][to] |= leads[from][through] && leads[through][to];
            }
        }
    }
    leads
}

fn check_graph(nodes: usize, edges: &[(u32, u32)]) {
    let graph = Graph::new(nodes, |edge| edges.iter().for_each(|&(from, to)| edge(from, to)));
    let leads = closure(nodes, edges);
    // Only what is on a circuit, or after one, is left out.
    let behind =
        |node: usize| (0..nodes).any(|at| leads[at][at] && (at == node || leads[at][node]));
    let sorted = graph.sorted();
    let expected: Vec<bool> = (0..nodes).map(behind).collect();
    assert_eq!(graph.left(), expected, "{edges:?}");
    let place = |node: u32| sorted.iter().position(|&at| at == node);
    for &(from, to) in edges {
        assert!(place(to).is_none_or(|to| place(from).is_some_and(|from| from < to)), "{edges:?}");
    }
    let circuit = graph.circuit();
    assert_eq!(circuit.is_empty(), !expected.contains(&true), "{edges:?}");
    for (at, &node) in circuit.iter().enumerate() {
        let next = circuit[(at + 1) % circuit.len()];
        assert!(graph.after(node).contains(&next), "{circuit:?} of {edges:?}");
        assert!(!circuit[..at].contains(&node), "{circuit:?} of {edges:?}");
    }
}

/// What each place waits for, and whether that counts.
fn check_ways(next: &[Option<(bool, usize)>]) {
    let step = |at: usize| next[at].map(|(counts, to)| ((counts, to), to));
    let edges: Vec<_> =
        (0..).zip(next).filter_map(|(at, to)| Some((at, to.as_ref()?.1 as u32))).collect();
    let leads = closure(next.len(), &edges);
    let steps = circle(0..next.len(), step, |(counts, _)| usize::from(*counts));
    let has_circle = (0..next.len()).any(|at| leads[at][at]);
    for (at, (_, (_, to))) in steps.iter().enumerate() {
        let back = || steps.first().filter(|_| has_circle);
        let expected = steps.get(at + 1).or_else(back).map(|(place, _)| place);
        assert!(expected.is_none_or(|place| place == to), "{steps:?} of {next:?}");
    }
    if has_circle {
        assert!(!steps.is_empty() && leads[steps[0].0][steps[0].0], "{steps:?} of {next:?}");
        return;
    }
    let weight = |start| way(start, step).steps.iter().filter(|(_, (counts, _))| *counts).count();
    let most = (0..next.len()).map(weight).max().unwrap_or(0);
    let first = (0..next.len()).find(|&start| weight(start) == most).filter(|_| most > 0);
    assert_eq!(steps, first.map(|start| way(start, step).steps).unwrap_or_default(), "{next:?}");
}

#[test]
fn every_graph_of_three_is_sorted_as_by_its_closure() {
    for bits in 0..1_u32 << 9 {
        let edges = (0..9).filter(|bit| bits & 1 << bit != 0).map(|bit| (bit / 3, bit % 3));
        check_graph(3, &edges.collect::<Vec<_>>());
    }
}

#[test]
fn every_way_between_four_ends_or_comes_back() {
    let steps: Vec<Option<(bool, usize)>> =
        std::iter::once(None).chain((0..8).map(|at| Some((at % 2 == 0, at / 2)))).collect();
    for code in 0..9_usize.pow(4) {
        let next: Vec<_> = (0..4).map(|at| steps[code / 9_usize.pow(at) % 9]).collect();
        check_ways(&next);
    }
}

proptest! {
    #[test]
    fn graphs_are_sorted_as_by_their_closure(
        (nodes, edges) in (1..12_usize).prop_flat_map(|nodes| {
            (Just(nodes), vec((0..nodes as u32, 0..nodes as u32), 0..24))
        }),
    ) {
        check_graph(nodes, &edges);
    }

    #[test]
    fn ways_are_walked_to_their_end(
        next in (1..24_usize).prop_flat_map(|places| {
            vec(prop::option::weighted(0.9, (any::<bool>(), 0..places)), places)
        }),
    ) {
        check_ways(&next);
    }
}

/// Each place is looked at a few times, however many ways lead through it.
#[test]
fn a_long_way_is_walked_once() {
    let (places, looks) = (100_000_usize, std::cell::Cell::new(0_usize));
    let next = |at: usize| {
        looks.set(looks.get() + 1);
        at.checked_sub(1).map(|to| ((), to))
    };
    assert_eq!(circle(0..places, next, |()| 1).len(), places - 1);
    assert!(looks.get() <= 4 * places, "{} looks", looks.get());
}
