//! Small instances of a plan, for looking for counterexamples.
//!
//! Each extent and parameter tries its first values, those around where a promise begins to hold, and
//! multiples of what a promise divides it by. Nothing is complete here: a plan may have instances, and
//! none is found.

use std::collections::HashSet;

use crate::ir::{Comparison, Condition, Expr, Plan, Values};
use crate::program::Env;
use crate::verdict::Sizes;

/// Values of one name in one place, at most.
const WIDTH: usize = 8;
/// Instances looked at in one order of the names, about at most.
const INSTANCES: usize = 1024;
/// Values tried in all.
const TRIES: usize = 20_000;
/// Elements of a list, at most.
const ELEMENTS: i64 = 64;

/// Small instances that keep the plan's promises, `limit` at most, the smallest first: by ranks and
/// parameters added up. The plan is [well formed](Plan::validate).
pub(crate) fn sample(plan: &Plan, limit: usize) -> Vec<Sizes> {
    let mut found = HashSet::new();
    for reversed in [false, true] {
        let mut sampler = Sampler::new(plan, reversed);
        sampler.choose(0, &mut found);
        if sampler.promises.is_empty() {
            break;
        }
    }
    let mut all: Vec<Instance> = found.into_iter().collect();
    all.sort_by_cached_key(|instance| (instance.total(), instance.clone()));
    all.truncate(limit);
    all.into_iter().map(|instance| instance.sizes(plan)).collect()
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Instance {
    extents: Vec<i64>,
    params: Vec<Vec<i64>>,
}

/// An extent or a parameter.
#[derive(Clone, Copy, PartialEq)]
enum Name {
    Axis(usize),
    Param(usize),
}

/// Something promised, and what it mentions.
struct Needed<'a> {
    condition: &'a Condition,
    names: Vec<Name>,
}

struct Sampler<'a> {
    plan: &'a Plan,
    /// In which order they get values.
    names: Vec<Name>,
    /// The promises that can be looked at first when the name of the same place has a value.
    promises: Vec<Vec<&'a Condition>>,
    instance: Instance,
    width: usize,
    tries: usize,
}

impl Instance {
    fn total(&self) -> i128 {
        let ranks: i128 = self.extents.iter().map(|&extent| i128::from(extent)).product();
        ranks + self.params.iter().flatten().map(|&value| i128::from(value)).sum::<i128>()
    }

    fn sizes(self, plan: &Plan) -> Sizes {
        let extents = plan.axes.iter().zip(&self.extents);
        let extents = extents.map(|(axis, extent)| format!("{} = {extent}", axis.name));
        let params =
            plan.params.iter().zip(&self.params).map(|(param, values)| match values.as_slice() {
                [only] if param.count.is_none() => format!("{} = {only}", param.name),
                list => format!("{} = {list:?}", param.name),
            });
        let text = extents.chain(params).collect::<Vec<_>>().join(", ");
        Sizes { extents: self.extents, params: self.params, text }
    }
}

impl<'a> Sampler<'a> {
    fn new(plan: &'a Plan, reversed: bool) -> Self {
        let is_list = |&param: &usize| plan.params[param].count.is_some();
        let (lists, mut scalars): (Vec<usize>, Vec<usize>) =
            (0..plan.params.len()).partition(is_list);
        let mut axes: Vec<Name> = (0..plan.axes.len()).map(Name::Axis).collect();
        if reversed {
            scalars.reverse();
        }
        let scalars = scalars.into_iter().map(Name::Param);
        let mut names: Vec<Name> = if reversed {
            scalars.chain(axes.drain(..)).collect()
        } else {
            axes.drain(..).chain(scalars).collect()
        };
        names.extend(lists.into_iter().map(Name::Param));
        let mut promises: Vec<Vec<&Condition>> = vec![Vec::new(); names.len()];
        for promise in plan.promises.iter().flat_map(|promise| needed(plan, &promise.condition)) {
            let at = names.iter().rposition(|name| promise.names.contains(name)).unwrap_or(0);
            if let Some(here) = promises.get_mut(at) {
                here.push(promise.condition);
            }
        }
        let combinations = |width: usize| {
            names
                .iter()
                .try_fold(1usize, |all, _| all.checked_mul(width).filter(|&all| all <= INSTANCES))
        };
        let width = (2..=WIDTH).rev().find(|&width| combinations(width).is_some()).unwrap_or(2);
        let instance = Instance {
            extents: vec![1; plan.axes.len()],
            params: vec![vec![0]; plan.params.len()],
        };
        Self { plan, names, promises, instance, width, tries: TRIES }
    }

    /// Gives values to the names from this place on.
    fn choose(&mut self, at: usize, found: &mut HashSet<Instance>) {
        let Some(&name) = self.names.get(at) else {
            found.insert(self.instance.clone());
            return;
        };
        if let Name::Param(param) = name
            && let Some(count) = &self.plan.params[param].count
        {
            let Ok(count @ 0..=ELEMENTS) = self.env().eval(count) else { return };
            for list in self.lists(param, at, count) {
                self.instance.params[param] = list;
                if self.kept(at) {
                    self.choose(at + 1, found);
                }
            }
            return;
        }
        for value in self.values(name, at) {
            self.set(name, value);
            self.choose(at + 1, found);
            if self.tries == 0 {
                return;
            }
        }
    }

    fn env(&self) -> Env<'_> {
        let Instance { extents, params } = &self.instance;
        let size = extents.iter().try_fold(1i64, |size, &extent| size.checked_mul(extent));
        Env { extents, size: size.unwrap_or(i64::MAX), params, counters: &[], rank: 0 }
    }

    fn set(&mut self, name: Name, value: i64) {
        match name {
            Name::Axis(axis) => self.instance.extents[axis] = value,
            Name::Param(param) => self.instance.params[param] = vec![value],
        }
    }

    fn declared(&self, name: Name) -> &'a Values {
        match name {
            Name::Axis(axis) => &self.plan.axes[axis].extent,
            Name::Param(param) => &self.plan.params[param].values,
        }
    }

    /// Whether the promises hold that can be looked at since this name has a value.
    fn kept(&mut self, at: usize) -> bool {
        self.tries = self.tries.saturating_sub(1);
        let env = self.env();
        self.tries > 0 && self.promises[at].iter().all(|promise| env.holds(promise) == Ok(true))
    }

    /// The smallest values found that keep the promises.
    fn values(&mut self, name: Name, at: usize) -> Vec<i64> {
        let declared = self.declared(name);
        let candidates: Vec<i64> = match declared {
            Values::OneOf(list) => {
                let mut list = list.clone();
                list.sort_unstable();
                list
            }
            _ => {
                let Some(first) = declared.first() else { return Vec::new() };
                let mut starts = vec![first];
                starts.extend(self.thresholds(name, at, first));
                starts.sort_unstable();
                let step = self.step(at);
                let near = |start: &i64| {
                    let start = (*start).max(first);
                    let multiple =
                        start.checked_add(step - 1).map_or(start, |up| up - up.rem_euclid(step));
                    let steps = (0..WIDTH as i64)
                        .map(move |k| multiple.saturating_add(k.saturating_mul(step)));
                    (0..WIDTH as i64).map(move |k| start.saturating_add(k)).chain(steps)
                };
                let mut all: Vec<i64> = starts.iter().flat_map(near).collect();
                all.sort_unstable();
                all.dedup();
                all
            }
        };
        let mut values = Vec::new();
        for value in candidates {
            if values.len() < self.width && declared.contains(value) && least(name) <= value {
                self.set(name, value);
                if self.kept(at) {
                    values.push(value);
                }
            }
        }
        values
    }

    /// Where comparisons begin to hold, if they are linear in this name.
    fn thresholds(&mut self, name: Name, at: usize, first: i64) -> Vec<i64> {
        let mut all = Vec::new();
        for nth in 0..self.promises[at].len() {
            let mut compared = Vec::new();
            comparisons(self.promises[at][nth], &mut compared);
            for (a, b) in compared {
                let mut difference = |value| {
                    self.set(name, value);
                    let env = self.env();
                    env.eval(a).ok()?.checked_sub(env.eval(b).ok()?)
                };
                let (Some(here), Some(next)) =
                    (difference(first), difference(first.saturating_add(1)))
                else {
                    continue;
                };
                if let Some(slope @ (..=-1 | 1..)) = next.checked_sub(here)
                    && let Some(root) = here.checked_div(slope).and_then(|by| first.checked_sub(by))
                {
                    all.extend([root.saturating_sub(1), root]);
                }
            }
        }
        all
    }

    /// The least multiple of what promises divide by, as far as that is known.
    fn step(&self, at: usize) -> i64 {
        let env = self.env();
        let mut step = 1i64;
        for promise in &self.promises[at] {
            promise.any(&mut |part| {
                if let Expr::Rem(_, by) = part
                    && let Ok(by @ 1..) = env.eval(by)
                    && let Some(both) = step.checked_mul(by / common(step, by))
                {
                    step = both;
                }
                false
            });
        }
        step
    }

    /// Some lists of so many elements.
    fn lists(&self, param: usize, at: usize, count: i64) -> Vec<Vec<i64>> {
        let declared = &self.plan.params[param].values;
        let Some(first) = declared.first() else { return Vec::new() };
        let allowed: Vec<i64> = match declared {
            Values::OneOf(list) => list.clone(),
            _ => {
                // Distances that differ too, so that what is added up wrongly comes out wrong.
                let distances = (0..count.max(1)).map(|k| k * (k + 1) / 2);
                let values = distances.map(|distance| first.saturating_add(distance));
                values.filter(|&value| declared.contains(value)).collect()
            }
        };
        let step = self.step(at);
        let up: Vec<i64> = allowed.iter().copied().cycle().take(count as usize).collect();
        let same = vec![first; up.len()];
        let down: Vec<i64> = up.iter().rev().copied().collect();
        let multiples: Vec<i64> = up.iter().map(|value| value.saturating_mul(step)).collect();
        let whole = vec![first.saturating_add(step - 1) / step * step; up.len()];
        let mut lists: Vec<Vec<i64>> = Vec::new();
        for list in [up, same, down, multiples, whole] {
            if !lists.contains(&list) && list.iter().all(|&value| declared.contains(value)) {
                lists.push(list);
            }
        }
        lists
    }
}

/// The conditions that must all hold, with what they mention.
fn needed<'a>(plan: &Plan, condition: &'a Condition) -> Vec<Needed<'a>> {
    if let Condition::All(list) = condition {
        return list.iter().flat_map(|one| needed(plan, one)).collect();
    }
    let mut names = Vec::new();
    condition.any(&mut |part| {
        match part {
            Expr::Extent(axis) => names.push(Name::Axis(axis.index())),
            Expr::Size => names.extend((0..plan.axes.len()).map(Name::Axis)),
            Expr::Param(param) | Expr::Element(param, _) => names.push(Name::Param(param.index())),
            _ => {}
        }
        false
    });
    vec![Needed { condition, names }]
}

fn comparisons<'a>(condition: &'a Condition, all: &mut Vec<(&'a Expr, &'a Expr)>) {
    match condition {
        Condition::Compare(_, Comparison::NotEqual, _) => {}
        Condition::Compare(a, _, b) => all.push((a, b)),
        Condition::All(list) | Condition::Any(list) => {
            list.iter().for_each(|one| comparisons(one, all));
        }
        Condition::Not(one) => comparisons(one, all),
    }
}

/// An axis has a rank.
fn least(name: Name) -> i64 {
    match name {
        Name::Axis(_) => 1,
        Name::Param(_) => i64::MIN,
    }
}

fn common(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { common(b, a % b) }
}
