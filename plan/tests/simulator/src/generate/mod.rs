//! Random plans: right ones put together from parts that work, then bent.

mod apart;
mod bend;
mod local;
mod maker;
mod one_sided;
mod together;
mod two_sided;
mod wild;

use typed_nccl_plan::ir::{Each, Plan, Promise, Values};
use typed_nccl_plan::verdict::Sizes;

use crate::instance::Instance;
use crate::make;
use crate::number::Scope;
use crate::random::Random;

pub(crate) use bend::{Change, change};
pub(crate) use maker::Maker;

/// A plan, and some of its sizes.
pub fn case(random: &mut Random) -> (Plan, Vec<Sizes>) {
    let plan = plan(random, false);
    let many = 1 + random.below(4);
    let mut all = sizes(&plan, 9);
    let mut some = Vec::new();
    while some.len() < many && !all.is_empty() {
        some.push(all.swap_remove(random.below(all.len())));
    }
    (plan, some)
}

/// A plan. With `endless`, of one axis that has no last size.
pub fn plan(random: &mut Random, endless: bool) -> Plan {
    let mut maker = Maker::new(random, endless);
    let wild = maker.random.chance(1, 4);
    if wild {
        wild::fill(&mut maker);
    }
    let parts = if wild { 0 } else { 1 + maker.random.below(4) };
    for _ in 0..parts {
        match maker.random.below(10) {
            0..=3 => two_sided::part(&mut maker),
            4..=6 => together::part(&mut maker),
            7 | 8 => one_sided::part(&mut maker),
            _ => maker.work(),
        }
    }
    let mut plan = maker.finish();
    local::assign(&mut plan.steps, random);
    if random.chance(1, if wild { 6 } else { 2 }) {
        let bends = if random.chance(1, 3) { 2 } else { 1 };
        for _ in 0..bends {
            bend::bend(&mut plan, random);
        }
    }
    plan
}

/// A plan of one axis without a last size, or two, in which not all ranks do the same.
pub fn guarded(random: &mut Random) -> Plan {
    let mut maker = Maker::new(random, true);
    let parts = 1 + maker.random.below(3);
    for _ in 0..parts {
        match maker.random.below(8) {
            0 => two_sided::part(&mut maker),
            1 => together::part(&mut maker),
            2 => one_sided::part(&mut maker),
            3 => maker.work(),
            _ => apart::part(&mut maker),
        }
    }
    if maker.random.chance(1, 3) {
        apart::wrap(&mut maker);
    }
    let mut plan = maker.finish();
    local::assign(&mut plan.steps, random);
    if random.chance(1, 4) {
        bend::bend(&mut plan, random);
    }
    plan
}

/// The sizes of a plan up to so many ranks, with all values of its parameters from few.
pub fn sizes(plan: &Plan, most: i64) -> Vec<Sizes> {
    let mut extents = vec![Vec::new()];
    for axis in &plan.axes {
        let values = some(&axis.extent, 1, most);
        extents = product(&extents, &values);
    }
    extents.retain(|list| list.iter().product::<i64>() <= most);
    let mut params = vec![Vec::new()];
    for param in &plan.params {
        params = product(&params, &some(&param.values, 0, 4));
    }
    let mut all = Vec::new();
    for list in &extents {
        for values in &params {
            let values: Vec<Vec<i64>> = values.iter().map(|&value| vec![value]).collect();
            let sizes = make::sizes(plan, list, &values);
            if promised(plan, &sizes) {
                all.push(sizes);
            }
        }
    }
    all
}

fn some(values: &Values, first: i64, last: i64) -> Vec<i64> {
    (first..=last).filter(|&value| values.contains(value)).collect()
}

fn product(lists: &[Vec<i64>], values: &[i64]) -> Vec<Vec<i64>> {
    let longer = |list: &Vec<i64>, value: i64| {
        let mut list = list.clone();
        list.push(value);
        list
    };
    lists.iter().flat_map(|list| values.iter().map(move |&value| longer(list, value))).collect()
}

/// Whether the plan is for these sizes.
fn promised(plan: &Plan, sizes: &Sizes) -> bool {
    let Ok(instance) = Instance::new(plan, sizes) else { return false };
    let mut counters = vec![None; plan.counters.len()];
    plan.promises.iter().all(|promise| kept(&instance, promise, &promise.around, &mut counters))
}

fn kept(
    instance: &Instance<'_>,
    promise: &Promise,
    around: &[Each],
    counters: &mut Vec<Option<i64>>,
) -> bool {
    let scope = Scope { instance, rank: None, counters, world: &instance.world };
    let [each, inner @ ..] = around else { return scope.holds(&promise.condition) == Ok(true) };
    let (Ok(from), Ok(to)) = (scope.number(&each.from), scope.number(&each.to)) else {
        return false;
    };
    (from..to).all(|value| {
        counters[each.counter.index()] = Some(value);
        kept(instance, promise, inner, counters)
    })
}
