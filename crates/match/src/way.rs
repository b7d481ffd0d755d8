//! Ways from one wait to the next.

use std::collections::HashMap;
use std::hash::Hash;

/// A way: what waits, and what for, until it ends or comes back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Way<N, S> {
    /// Each place, and the step from it.
    pub steps: Vec<(N, S)>,
    /// Where it ends.
    pub end: N,
    /// Whether it comes back to where it begins.
    pub is_circle: bool,
}

/// The way from a place to its end, or the circle that it leads into.
pub fn way<N: Copy + Eq + Hash, S>(
    start: N,
    mut next: impl FnMut(N) -> Option<(S, N)>,
) -> Way<N, S> {
    let (mut steps, mut places, mut end) = (Vec::new(), HashMap::new(), start);
    loop {
        if let Some(&first) = places.get(&end) {
            return Way { steps: steps.split_off(first), end, is_circle: true };
        }
        let Some((step, to)) = next(end) else { return Way { steps, end, is_circle: false } };
        places.insert(end, steps.len());
        steps.push((end, step));
        end = to;
    }
}

/// The first circle that a way from one of the `starts` leads into; else the first of the longest
/// ways, if its steps weigh anything. Every place is walked over once, and those of the longest way
/// twice.
pub fn circle<N: Copy + Eq + Hash, S>(
    starts: impl IntoIterator<Item = N>,
    next: impl Fn(N) -> Option<(S, N)>,
    weight: impl Fn(&S) -> usize,
) -> Vec<(N, S)> {
    // What the ways weigh from each place that one was at.
    let mut weights: HashMap<N, usize> = HashMap::new();
    let mut longest = None;
    for start in starts {
        if weights.contains_key(&start) {
            continue;
        }
        let mut way = way(start, |at| if weights.contains_key(&at) { None } else { next(at) });
        if way.is_circle {
            return way.steps;
        }
        let mut sum = weights.get(&way.end).copied().unwrap_or(0);
        while let Some((at, step)) = way.steps.pop() {
            sum += weight(&step);
            weights.insert(at, sum);
        }
        if longest.is_none_or(|(_, most)| sum > most) {
            longest = Some((start, sum));
        }
    }
    match longest {
        Some((start, most)) if most > 0 => way(start, next).steps,
        _ => Vec::new(),
    }
}
