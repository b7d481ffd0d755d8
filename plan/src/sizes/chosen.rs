//! Chooses the sizes at which a plan is checked at compile time, and their order.
//!
//! The choice depends only on the plan, so it is the same on every machine:
//!
//! * **Ranks.** The first nine numbers that the plan allows come first. Then all up to 16, every
//!   number that it lists, and numbers that it makes special: where a distance wraps or meets
//!   another one, multiples of distances and of periods (`i % 8`), numbers in comparisons. Then a
//!   spread up to 64 (powers of two and their neighbours, primes), then the rest up to 64. Nothing
//!   above 1,024. On a mesh the same holds for each axis, up to 16, and up to 64 ranks in total.
//! * **Parameters.** The smallest values that satisfy the plan's conditions come first; then, one
//!   parameter at a time, the next value, the bounds, and numbers in conditions. A parameter that
//!   decides what runs is also tried near the number of ranks, and two past each period, so that
//!   every index expression repeats.
//!
//! Sizes from `#[check(..)]` are checked in addition.

use std::collections::BTreeSet;

use super::named;
use super::written::Written;
use crate::ir::{Each, Expr, Param, Plan, Values, powers};
use crate::program::Env;
use crate::verdict::Sizes;

/// The most ranks that are checked.
const MOST_RANKS: i64 = 1024;
/// Up to this number of ranks every number is checked, time permitting.
const SMALL: i64 = 64;
/// Numbers to check before others up to 64.
const SPREAD: [i64; 19] =
    [17, 19, 23, 24, 29, 31, 32, 33, 37, 41, 43, 47, 48, 53, 59, 61, 62, 63, 64];
/// How many of the smallest numbers of ranks come before everything else.
const FIRST: usize = 9;
/// The most values of a parameter that are checked.
const MOST_VALUES: usize = 24;
/// The most values to try until the conditions hold.
const TRIED: u32 = 4_000;
/// The most turns of the loops around one condition.
const MOST_TURNS: u64 = 1 << 14;
/// The most instances.
const MOST: usize = 600;

/// A value and its priority: 0 is first. [`FILLER`] marks values that only serve to satisfy
/// conditions.
type Leveled = (i64, u8);

const FILLER: u8 = 9;

/// The sizes at which a plan is checked, in order.
pub(crate) enum Chosen {
    /// These.
    Sizes(Vec<Sizes>),
    /// The plan requires more ranks than are checked.
    TooMany,
    /// None of the values that were tried satisfies the plan's conditions.
    Unfulfilled,
}

/// The sizes at which a plan is checked.
pub(crate) fn chosen(plan: &Plan) -> Chosen {
    let chooser = Chooser::new(plan);
    let mut meshes: Vec<(u8, Vec<i64>)> = vec![(0, Vec::new())];
    for axis in 0..plan.axes.len() {
        let values = chooser.extents(axis);
        let all = meshes.iter().flat_map(|(level, extents)| {
            let longer = |&(value, own): &Leveled| {
                (level.saturating_add(own), [extents.as_slice(), &[value]].concat())
            };
            values.iter().map(longer)
        });
        let least: Vec<i64> = plan.axes.iter().filter_map(|axis| axis.extent.first()).collect();
        // Extend one axis at a time.
        let most = |extents: &[i64]| {
            let longer = extents.iter().zip(&least).filter(|(extent, least)| extent > least);
            if longer.count() > 1 { SMALL.max(4 * size(&least)) } else { MOST_RANKS }
        };
        meshes = all.filter(|(_, extents)| size(extents) <= most(extents)).collect();
    }
    if meshes.is_empty() {
        return Chosen::TooMany;
    }
    meshes.sort_by_key(|(level, extents)| (size(extents), *level));
    let mut found: Vec<(u8, i64, Vec<i64>, Vec<Vec<i64>>)> = Vec::new();
    let mut seen = 0;
    for (level, extents) in meshes {
        let choices = chooser.params(&extents);
        if choices.is_empty() {
            continue;
        }
        let level = if seen < FIRST { 0 } else { level };
        seen += 1;
        let size = size(&extents);
        found.extend(
            choices.into_iter().map(|(own, params)| (level + own, size, extents.clone(), params)),
        );
    }
    if found.is_empty() {
        return Chosen::Unfulfilled;
    }
    found.sort();
    found.truncate(MOST);
    Chosen::Sizes(
        found.iter().map(|(_, _, extents, params)| named(plan, extents, params)).collect(),
    )
}

/// Additional sizes that the plan requests; or an error for a request that it does not claim, by
/// its index in [`Plan::checks`].
pub(crate) fn asked(plan: &Plan) -> Result<Vec<Sizes>, usize> {
    let mut all = Vec::new();
    for (at, asked) in plan.checks.iter().enumerate() {
        let mut plans = vec![plan.clone()];
        for (axis, values) in &asked.extents {
            plans = narrowed(&plans, values, |plan| &mut plan.axes[axis.index()].extent, at)?;
        }
        for (param, values) in &asked.params {
            plans = narrowed(&plans, values, |plan| &mut plan.params[param.index()].values, at)?;
        }
        for narrowed in &plans {
            let extents = narrowed.axes.iter().map(|axis| axis.extent.first().unwrap_or(1));
            let extents: Vec<i64> = extents.collect();
            let choices = Chooser::new(narrowed).params(&extents);
            let (_, params) = choices.first().ok_or(at)?;
            all.push(named(plan, &extents, params));
        }
    }
    Ok(all)
}

/// For each of these values, the plan restricted to it.
fn narrowed(
    plans: &[Plan],
    values: &[i64],
    of: impl Fn(&mut Plan) -> &mut Values,
    at: usize,
) -> Result<Vec<Plan>, usize> {
    let mut all = Vec::new();
    for plan in plans {
        for &value in values {
            let mut plan = plan.clone();
            let allowed = of(&mut plan);
            if !allowed.contains(value) {
                return Err(at);
            }
            *allowed = Values::Exactly(value);
            all.push(plan);
        }
    }
    Ok(all)
}

fn size(extents: &[i64]) -> i64 {
    extents.iter().fold(1, |size: i64, extent| size.saturating_mul(*extent))
}

struct Chooser<'a> {
    plan: &'a Plan,
    written: Written,
    /// For each promise, the number of parameters that must be known to decide it.
    known: Vec<usize>,
}

impl<'a> Chooser<'a> {
    fn new(plan: &'a Plan) -> Self {
        let known = plan.promises.iter().map(|promise| {
            let mut known = 0;
            let mut seen = |part: &Expr| {
                if let Expr::Param(id) | Expr::Element(id, _) = part {
                    known = known.max(id.index() + 1);
                }
                false
            };
            for number in promise.around.iter().flat_map(Each::numbers) {
                number.any(&mut seen);
            }
            promise.condition.any(&mut seen);
            known
        });
        Self { plan, written: Written::new(plan), known: known.collect() }
    }

    /// The numbers of ranks to check along an axis.
    fn extents(&self, axis: usize) -> Vec<Leveled> {
        let allowed = &self.plan.axes[axis].extent;
        let alone = self.plan.axes.len() == 1;
        let mut values = Vec::new();
        match allowed {
            Values::Exactly(only) => values.push((*only, 0)),
            Values::OneOf(list) => values.extend(list.iter().map(|&value| (value, 1))),
            Values::Range(first, last) => values.extend([(*first, 0), (*last, 1)]),
            Values::Powers(of) => {
                let few = powers(*of).take_while(|power| *power <= MOST_RANKS).enumerate();
                values.extend(few.map(|(nth, power)| (power, if nth < 6 { 0 } else { 2 })));
            }
            Values::AtLeast(_) => {}
        }
        let first = allowed.first().unwrap_or(1).max(1);
        let few = if alone { FIRST } else { 3 };
        let last = if alone { SMALL } else { 16 };
        values.extend((first..=MOST_RANKS).take(few).map(|value| (value, 0)));
        values.extend((first..=last).map(|value| (value, if value <= 16 { 1 } else { 3 })));
        values.extend(SPREAD.into_iter().filter(|_| alone).map(|value| (value, 2)));
        values.extend(self.special(axis));
        values.retain(|(value, _)| *value <= MOST_RANKS && allowed.contains(*value));
        earliest(values)
    }

    /// Numbers of ranks that the plan itself makes special. A number that it contains, and the one
    /// above, come before the one below.
    fn special(&self, axis: usize) -> impl Iterator<Item = Leveled> {
        let distances = &self.written.distances[axis];
        let mut numbers = BTreeSet::new();
        for by in distances {
            numbers.extend([by.abs(), 2 * by.abs()]);
            numbers.extend(distances.iter().map(|other| (by - other).abs()));
        }
        numbers.extend(self.written.periods.iter().flat_map(|&period| [period, 2 * period]));
        numbers.extend(&self.written.named);
        // Of very many, the smallest.
        numbers
            .into_iter()
            .filter(|&number| number >= 16)
            .take(32)
            .flat_map(|number| [(number, 1), (number + 1, 1), (number - 1, 2)])
    }

    /// Values of the parameters for these extents, the smallest first; none if the conditions do
    /// not hold.
    fn params(&self, extents: &[i64]) -> Vec<(u8, Vec<Vec<i64>>)> {
        let params = &self.plan.params;
        let values: Vec<Vec<Leveled>> =
            (0..params.len()).map(|at| self.values(at, extents)).collect();
        let find = |fixed: Option<(usize, i64)>, from: &[Vec<i64>]| {
            if let Some((at, value)) = fixed {
                let mut moved = from.to_vec();
                moved[at] = self.value(at, value, &values[at], extents, &moved[..at])?;
                if self.fits(extents, &moved) {
                    return Some(moved);
                }
            }
            let mut search = Search { chooser: self, extents, values: &values, fixed, left: TRIED };
            let mut found = Vec::new();
            search.fill(&mut found).then_some(found)
        };
        let Some(base) = find(None, &[]) else { return Vec::new() };
        let mut all = vec![(0, base.clone())];
        for (at, of) in values.iter().enumerate() {
            for &(value, level) in of.iter().filter(|(_, level)| *level < FILLER) {
                if let Some(found) = find(Some((at, value)), &base)
                    && all.iter().all(|(_, known)| *known != found)
                {
                    all.push((level.max(1), found));
                }
            }
        }
        all
    }

    /// The values of a parameter to check.
    fn values(&self, at: usize, extents: &[i64]) -> Vec<Leveled> {
        let Param { values: allowed, .. } = &self.plan.params[at];
        let (ranks, decides) = (size(extents), self.written.decisive.contains(&at));
        let first = allowed.first().unwrap_or(0);
        let mut values = vec![(first, 0), (first.saturating_add(1), 1)];
        match allowed {
            Values::OneOf(list) => values.extend(list.iter().map(|&value| (value, 1))),
            Values::Range(_, last) => values.push((*last, 2)),
            Values::Powers(of) => values.extend(powers(*of).take(4).map(|power| (power, 1))),
            Values::Exactly(_) | Values::AtLeast(_) => {}
        }
        values.push((first.saturating_add(2), 2));
        let written = || self.written.periods.iter().chain(&self.written.named).copied();
        if decides {
            values.extend(written().map(|number| (number + 2, 1)));
            values.extend(written().flat_map(|number| [(number, 2), (number + 1, 2)]));
            values.extend([(ranks - 1, 2), (ranks, 1), (ranks.saturating_add(1), 2)]);
            values.push((ranks.saturating_mul(2), 3));
            let rounds = self.written.periods.iter();
            let rounds = rounds.map(|period| period.saturating_mul(ranks).saturating_add(2));
            values.extend(rounds.filter(|value| *value <= MOST_RANKS).map(|value| (value, 2)));
        } else {
            let lengths = self.written.lengths.iter().copied();
            let all = written().chain(lengths).flat_map(|number| [(number, 2), (number + 1, 2)]);
            values.extend(all);
            values.extend([(ranks, 2), (ranks.saturating_mul(2), 3), (7, 3)]);
        }
        values.retain(|(value, _)| allowed.contains(*value));
        values.sort_by_key(|&(value, level)| (level, value));
        values = earliest(values);
        let mut early = values.clone();
        early.sort_by_key(|&(value, level)| (level, value));
        early.truncate(MOST_VALUES);
        // More values, to satisfy conditions.
        let more = (0..17).map(|more| first.saturating_add(more));
        let more = more.chain([24, 32, 48, 64, 96, 128, 256, 512, 1024]);
        let more = more.chain([1, 2, 3, 4, 6, 8, 12, 16].map(|times| ranks.saturating_mul(times)));
        let few = |&extent: &i64| [1, 2, 4].map(|times| extent.saturating_mul(times));
        let more = more.chain(extents.iter().flat_map(few));
        early.extend(more.filter(|value| allowed.contains(*value)).map(|value| (value, FILLER)));
        earliest(early)
    }

    /// A parameter's value; for a list, elements that differ unless it is the first value.
    fn value(
        &self,
        at: usize,
        value: i64,
        values: &[Leveled],
        extents: &[i64],
        before: &[Vec<i64>],
    ) -> Option<Vec<i64>> {
        let Some(count) = &self.plan.params[at].count else { return Some(vec![value]) };
        let count = Env::new(extents, before).eval(count).ok()?;
        let count = usize::try_from(count).ok().filter(|count| *count <= 4096)?;
        let start = values.iter().position(|(known, _)| *known == value)?;
        // One value for all elements, or three in rotation.
        let turns = if start == 0 { 1 } else { 3.min(values.len() - start) };
        let element = |nth: usize| values[start + nth % turns].0;
        Some((0..count).map(element).collect())
    }

    /// Whether lists have the right lengths, and all conditions hold.
    fn fits(&self, extents: &[i64], params: &[Vec<i64>]) -> bool {
        let env = Env::new(extents, params);
        let counts = self.plan.params.iter().map(|param| param.count.as_ref());
        let mut lists = counts.zip(params).filter_map(|(count, list)| Some((count?, list)));
        let mut promises = self.plan.promises.iter();
        lists.all(|(count, list)| env.eval(count) == Ok(list.len() as i64))
            && promises.all(|promise| env.keeps(promise, MOST_TURNS))
    }
}

/// Searches for the smallest values of the parameters that satisfy the conditions.
struct Search<'a> {
    chooser: &'a Chooser<'a>,
    extents: &'a [i64],
    values: &'a [Vec<Leveled>],
    /// A parameter whose value is given.
    fixed: Option<(usize, i64)>,
    left: u32,
}

impl Search<'_> {
    fn fill(&mut self, params: &mut Vec<Vec<i64>>) -> bool {
        let Self { chooser, extents, values, fixed, .. } = *self;
        let at = params.len();
        let known = chooser.known.iter().zip(&chooser.plan.promises);
        let env = Env::new(extents, params);
        let mut decided = known.filter(|(known, _)| **known == at).map(|(_, promise)| promise);
        if !decided.all(|promise| env.keeps(promise, MOST_TURNS)) {
            return false;
        }
        if at == values.len() {
            return true;
        }
        for &(value, _) in &values[at] {
            if fixed.is_some_and(|(which, only)| which == at && only != value) {
                continue;
            }
            let Some(left) = self.left.checked_sub(1) else { return false };
            self.left = left;
            if let Some(value) = chooser.value(at, value, &values[at], extents, params) {
                params.push(value);
                if self.fill(params) {
                    return true;
                }
                params.pop();
            }
        }
        false
    }
}

/// Each value once, with its smallest priority; ascending.
fn earliest(mut values: Vec<Leveled>) -> Vec<Leveled> {
    values.sort_unstable();
    values.dedup_by_key(|(value, _)| *value);
    values
}
