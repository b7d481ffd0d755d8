//! What is proved of all sizes at once, where the instances that are looked at have nothing wrong.

use std::cell::RefCell;
use std::collections::HashMap;

use super::kinds::Kinds;
use super::problems::{refused, unproved};
use super::reach::Reach;
use super::values::size_guard;
use super::{Every, LARGEST, SEARCHED, positions};
use crate::check::classes::Large;
use crate::check::guards::{Classes, Guards};
use crate::check::hazards::Regions;
use crate::check::instance::{Beyond, Depth};
use crate::check::lengths::Lengths;
use crate::check::orders::Near;
use crate::check::shape::Shape;
use crate::check::unbounded::Unbounded;
use crate::check::whitelist::{Doubt, Names};
use crate::check::{Proof, domain};
use crate::ir::{AxisId, Location};
use crate::program::{Op, OpKind, Program};
use crate::verdict::{Check, Problem, Sizes};

impl Every<'_> {
    pub(super) fn prove(
        &mut self,
        shape: &Shape,
        axes: &[Option<Vec<i64>>],
        params: &[Option<Vec<i64>>],
        reach: &[Reach],
        instances: &[Sizes],
        fewer: bool,
    ) -> Result<Proof, Vec<Problem>> {
        let plan = self.plan;
        if let [None] = axes
            && positions::are_common(plan)
        {
            return self.by_positions(instances);
        }
        let unbounded: Vec<usize> = (0..axes.len()).filter(|&at| axes[at].is_none()).collect();
        let endless: Vec<bool> = axes.iter().map(Option::is_none).collect();
        let guards = Guards::new(plan, &endless);
        let mut undecided = Vec::new();
        let is_large = |at: usize, sizes: &Sizes| {
            reach[at].stands_for.is_some_and(|large| sizes.extents[at] >= large)
        };
        let stands = |sizes: &Sizes| unbounded.iter().all(|&at| is_large(at, sizes));
        let free = |bounded: &Option<Vec<i64>>| bounded.is_none();
        let (free_axes, free_params): (Vec<bool>, Vec<bool>) =
            (axes.iter().map(free).collect(), params.iter().map(free).collect());
        let names = Names { plan, axes: &free_axes, params: &free_params };
        let mut doubts = names.doubts();
        // One thing is told of a statement: why it is in doubt, where that is known.
        let doubted = |at: Location| doubts.iter().any(|doubt| doubt.at == at);
        if let Some((at, what)) = shape.by_rank
            && !unbounded.is_empty()
            && !doubted(at)
        {
            let (title, help) =
                (format!("{what}, and the number of ranks has no bound"), self.ranks());
            undecided.push(refused(Check::Deadlock, at, title, help));
        }
        let structural_param =
            (0..params.len()).find(|&at| shape.params[at] && params[at].is_none());
        let structural_axis = unbounded.iter().copied().find(|&at| shape.axes[at]);
        let structural = match (structural_param, structural_axis) {
            (Some(at), _) => Some(Unbounded::none(plan).param(at)),
            (None, Some(at)) => Some(Unbounded::none(plan).axis(at)),
            (None, None) => None,
        };
        if let Some(what) = structural {
            let name = what.named();
            if let Some(at) = shape.uneven {
                undecided.push(self.uneven(at, &what, &mut doubts));
            } else if let Some(at) = size_guard(plan, &guards, &plan.steps) {
                if !doubted(at) {
                    let title = format!("this condition depends on {name}");
                    undecided.push(refused(Check::Deadlock, at, title, what.declare()));
                }
            } else if let Some(at) = shape.guarded.filter(|_| !shape.loops.is_empty())
                && !doubted(at)
            {
                let title = format!(
                    "this condition tells ranks apart and guards communication, and how often a loop runs \
                     depends on {name}"
                );
                undecided.push(refused(Check::Deadlock, at, title, what.declare()));
            }
        }
        if let Some(&at) = unbounded.iter().find(|&&at| reach[at].stands_for.is_none()) {
            let axis = &plan.axes[at];
            let told_apart = reach[at]
                .classes
                .is_some_and(|Classes { near, every }| near > LARGEST / 4 || every > 64);
            let title = match told_apart {
                true => format!("conditions tell very many ranks along `{}` apart", axis.name),
                false => format!(
                    "how far peers are apart along `{}` grows with it, or is far",
                    axis.name
                ),
            };
            undecided.push(refused(Check::Matching, axis.at, title, self.ranks()));
        }
        undecided.extend(doubts.into_iter().map(|Doubt { check, at, title, help }| Problem {
            help,
            ..refused(check, at, title, String::new())
        }));
        if !instances.iter().any(stands) {
            let at = plan.axes.first().map(|axis| axis.at).unwrap_or_default();
            let title =
                "no number of ranks that is looked at stands for the larger ones".to_owned();
            undecided.push(refused(Check::Deadlock, at, title, self.ranks()));
        }
        let looked_at = |bounded: &Option<Vec<i64>>| bounded.is_some();
        let proof = Lengths::prove(
            plan,
            axes.iter().map(looked_at).collect(),
            params.iter().map(looked_at).collect(),
            &self.fuel,
        );
        // Where it is not known what runs, lengths are nothing to speak of.
        if undecided.is_empty() {
            undecided.extend(proof.problems().iter().cloned());
        }
        if !undecided.is_empty() {
            for sizes in instances.iter().filter(|sizes| stands(sizes)) {
                if let Err(problems) = self.at(sizes, Depth::All) {
                    return Err(self.smallest(sizes, axes, problems));
                }
            }
            return Err(undecided);
        }
        // One instance for each structure stands for the larger ones.
        let kinds = RefCell::new(Kinds::default());
        let region = |op: &Op, is_target: bool| -> u32 {
            let part = if op.kind.is_access() { op.part } else { u16::from(is_target) };
            let is_put = op.kind == OpKind::Put && is_target;
            kinds.borrow_mut().number(&proof, (op.statement, part), is_put)
        };
        let memo = RefCell::new(HashMap::new());
        let may_overlap = |put: u32, other: u32| {
            *memo.borrow_mut().entry((put, other)).or_insert_with(|| {
                let kinds = kinds.borrow();
                let ((put, _), (other, is_put)) =
                    (kinds.first[put as usize], kinds.first[other as usize]);
                proof.may_overlap(put, other, is_put)
            })
        };
        self.issued(instances, &proof.may_be_empty)?;
        self.covered(instances, &proof)?;
        for sizes in instances {
            if shape.guards_collectives || shape.views == (true, true) {
                self.meetings(sizes, &proof)?;
            }
        }
        for sizes in instances {
            let beyond: Vec<usize> =
                unbounded.iter().copied().filter(|&axis| is_large(axis, sizes)).collect();
            // Of several endless axes, one may be large and another small.
            let is_asked = stands(sizes) || !beyond.is_empty();
            if !is_asked || fewer || (unbounded.is_empty() && !shape.puts) {
                continue;
            }
            let larges = beyond.iter().map(|&axis| Large {
                axis,
                middle: sizes.extents[axis] / 2,
                wraps: shape.wraps[axis] || !shape.opens[axis],
                ends: reach[axis].classes,
            });
            let near = beyond.iter().map(|&axis| {
                let ends = shape.opens[axis] && reach[axis].classes.is_none();
                (axis as u32, (!ends).then_some(reach[axis].around))
            });
            let larges: Vec<Large> = larges.collect();
            let is_alike =
                |large: &Large| large.wraps && !shape.opens[large.axis] && large.ends.is_none();
            let all_wrap = !shape.rooted && larges.iter().all(is_alike);
            let middles = larges.clone();
            let is_asked = move |program: &Program, rank: u32| {
                let at =
                    |axis: usize| program.layout.coordinate(rank as usize, AxisId(axis as u32));
                !all_wrap || middles.iter().all(|large| at(large.axis) == large.middle)
            };
            let beyond = Beyond {
                larges,
                near: Near { axes: near.collect() },
                regions: Regions {
                    is_asked: &is_asked,
                    region: &region,
                    may_overlap: &may_overlap,
                },
            };
            if let Err(problems) = self.at(sizes, Depth::Beyond(&beyond)) {
                // What is wrong here is told as such; what is only not proved for more, as that.
                if let Err(problems) = self.at(sizes, Depth::All) {
                    return Err(self.smallest(sizes, axes, problems));
                }
                return Err(problems
                    .into_iter()
                    .map(|problem| unproved(problem, self.ranks()))
                    .collect());
            }
        }
        Ok(Proof { claims: self.claims(axes, params, reach) })
    }

    /// Every number of ranks, where places in the program are common to them: the first ones are looked at.
    fn by_positions(&mut self, instances: &[Sizes]) -> Result<Proof, Vec<Problem>> {
        let first = self.plan.axes.first().and_then(|axis| axis.extent.first()).unwrap_or(1);
        let mut params: Vec<&Vec<Vec<i64>>> = instances.iter().map(|sizes| &sizes.params).collect();
        params.sort_unstable();
        params.dedup();
        for extent in first..=SEARCHED {
            for params in params.iter().take(3) {
                self.at(&domain::sizes(self.plan, &[extent], params), Depth::All)?;
            }
        }
        let none = vec![false; self.plan.params.len()];
        let proof = Lengths::prove(self.plan, vec![false], none, &self.fuel);
        if !proof.problems().is_empty() {
            return Err(proof.problems().to_vec());
        }
        self.covered(instances, &proof)?;
        let axes = self.plan.axes.iter().map(|axis| {
            let first = axis.extent.first().unwrap_or(1);
            format!("{} >= {first}: up to {SEARCHED} one by one, above for all at once", axis.name)
        });
        let params = self.plan.params.iter();
        let params = params.map(|param| format!("{}: for all values at once", param.name));
        Ok(Proof { claims: axes.chain(params).collect() })
    }

    fn claims(
        &self,
        axes: &[Option<Vec<i64>>],
        params: &[Option<Vec<i64>>],
        reach: &[Reach],
    ) -> Vec<String> {
        let plan = self.plan;
        let axes = plan.axes.iter().zip(axes).zip(reach).map(|((axis, few), reach)| {
            let name = &axis.name;
            match (few, axis.extent.first()) {
                (Some(_), _) => format!("{name}: each value, one by one"),
                (None, Some(first)) if first <= reach.apart => format!(
                    "{name} >= {first}: up to {} one by one, above for all at once",
                    reach.apart
                ),
                (None, first) => format!("{name} >= {}: for all at once", first.unwrap_or(1)),
            }
        });
        let params = plan.params.iter().zip(params).map(|(param, few)| match few {
            Some(_) => format!("{}: each value, one by one", param.name),
            None => format!("{}: for all values at once", param.name),
        });
        axes.chain(params).collect()
    }
}
