//! Distances to peers, independent of sizes: two distances that reach the same rank here may reach
//! different ones at other sizes.

use super::Walk;
use crate::ir::{AxisId, Expr, Hop, Peer};
use crate::program::{Env, NONE, Shift, Stride};

/// A distance along one axis. Two of them are equal if they are equal at the present sizes and at
/// much larger ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Far {
    axis: u32,
    by: i64,
    wraps: bool,
    /// Its value at larger sizes, and the number of ranks along the axis, unless those are the
    /// same.
    there: Option<(i64, i64)>,
}

/// The factors by which the two larger instances enlarge the axis of a distance, and everything
/// else. They are primes, so that different distances do not coincide there; an extent remains a
/// multiple of its present value.
const TIMES: [(i64, i64); 2] = [(4099, 4127), (4111, 4129)];

/// The parameters of larger instances, all different.
pub(super) fn larger(params: &[Vec<i64>]) -> [Vec<Vec<i64>>; 2] {
    TIMES.map(|(_, times)| {
        let mut more = 0;
        let mut next = |value: &i64| {
            more += times / 31;
            value.saturating_mul(times).saturating_add(more)
        };
        params.iter().map(|values| values.iter().map(&mut next).collect()).collect()
    })
}

impl Far {
    fn new(walk: &Walk<'_>, rank: usize, hop: &Hop) -> Option<Self> {
        let Hop { axis, by, wrap: wraps } = hop;
        let env = walk.env(rank);
        let far = |by, there| Self { axis: axis.0, by, wraps: *wraps, there };
        let here = env.eval(by).ok()?;
        if let Expr::Int(by) = by {
            return Some(far(*by, None));
        }
        let [one, other] = [0, 1].map(|which| {
            let (own, others) = TIMES[which];
            let mut extents = env.extents.to_vec();
            for (at, extent) in extents.iter_mut().enumerate() {
                let times = if at == axis.index() { own } else { others };
                *extent = extent.saturating_mul(times);
            }
            let there = Env {
                rank: env.rank,
                counters: env.counters,
                ..Env::new(&extents, &walk.larger[which])
            };
            let around = extents[axis.index()];
            there
                .eval(by)
                .ok()
                .map(|by| if *wraps { (nearest(by, around), around) } else { (by, around) })
        });
        let around = env.extents[axis.index()];
        let same =
            |by: i64| by == here || *wraps && by.rem_euclid(around) == here.rem_euclid(around);
        Some(match (one, other) {
            // A step of n - 1 around a ring of n equals one of -1, for every n.
            (Some((one, _)), Some((other, _))) if one == other && same(one) => far(one, None),
            (Some(one), Some(_)) if *wraps => far(here.rem_euclid(around), Some(one)),
            (Some(one), Some(_)) => far(here, Some(one)),
            _ => far(here, None),
        })
    }

    fn back(&self, walk: &Walk<'_>) -> Self {
        let by = self.by.saturating_neg();
        let there = self.there.map(|(by, around)| {
            let back = by.saturating_neg();
            (if self.wraps { nearest(back, around) } else { back }, around)
        });
        let around = walk.sizes.extents[self.axis as usize];
        let by = if self.wraps && there.is_some() { by.rem_euclid(around) } else { by };
        Self { by, there, ..*self }
    }

    fn stride(&self, walk: &Walk<'_>, by: Expr) -> Stride {
        let &Self { axis, wraps, .. } = self;
        let hop = Hop { axis: AxisId(axis), by, wrap: false };
        let written = self.there.map(|_| walk.plan.show(&Peer::Shift(vec![hop])));
        Stride { axis, by: self.by, wraps, written }
    }
}

/// A distance around a ring, the shorter way.
fn nearest(by: i64, around: i64) -> i64 {
    let by = by.rem_euclid(around);
    if by > around / 2 { by - around } else { by }
}

impl Walk<'_> {
    /// The index of a peer's distance among the distances so far.
    pub(super) fn shift(&mut self, rank: usize, peer: &Peer) -> u32 {
        let Peer::Shift(hops) = peer else { return NONE };
        let far = hops.iter().filter_map(|hop| Some((Far::new(self, rank, hop)?, &hop.by)));
        // A distance along no axis is zero.
        let mut far: Vec<(Far, &Expr)> =
            far.filter(|(far, _)| far.by != 0 || far.there.is_some()).collect();
        far.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let key: Vec<Far> = far.iter().map(|(far, _)| far.clone()).collect();
        if let Some(&at) = self.known_shifts.get(&key) {
            return at;
        }
        // Recording a distance costs as much as a few operations.
        self.spend(16);
        let back: Vec<Far> = key.iter().map(|far| far.back(self)).collect();
        let ways = |walk: &Self| -> (Vec<Stride>, Vec<Stride>) {
            let there = far.iter().map(|(far, by)| far.stride(walk, (*by).clone()));
            let back = far.iter().map(|(far, by)| far.back(walk).stride(walk, negative(by)));
            (there.collect(), back.collect())
        };
        let (hops, hops_back) = ways(self);
        let at = self.shifts.len() as u32;
        let is_own = back == key;
        self.known_shifts.insert(key, at);
        self.shifts.push(Shift { hops, back: if is_own { at } else { at + 1 } });
        if !is_own {
            self.known_shifts.insert(back, at + 1);
            self.shifts.push(Shift { hops: hops_back, back: at });
        }
        at
    }
}

/// The way back, as written in the source.
fn negative(by: &Expr) -> Expr {
    match by {
        Expr::Sub(none, by) if **none == Expr::Int(0) => (**by).clone(),
        by => Expr::Int(0) - by.clone(),
    }
}
