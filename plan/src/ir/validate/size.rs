//! Limits that keep a hostile plan from exhausting the stack, memory or time.

use super::{MOST_DECLARED, MOST_PARTS, MOST_STEPS, malformed};
use crate::ir::Operand;
use crate::ir::shape::{
    DEEP_CONDITION, DEEP_NUMBER, DEEP_PEER, DEEP_STEP, LARGE_NUMBER, LARGE_PLAN, Limit, help,
};
use crate::ir::{Condition, Each, Expr, Location, MOST_NESTING, Peer, Plan, Region};
use crate::verdict::Problem;

/// The first limit that the plan exceeds, if any. Without recursion.
pub(super) fn check(plan: &Plan) -> Result<(), Box<Problem>> {
    lists(plan)?;
    let mut measured = Measured { parts: 0 };
    for param in &plan.params {
        param.count.iter().try_for_each(|count| measured.number(count, param.at))?;
    }
    for promise in &plan.promises {
        if promise.around.len() > MOST_NESTING {
            return too_much(promise.at, DEEP_CONDITION);
        }
        let mut numbers = promise.around.iter().flat_map(Each::numbers);
        numbers.try_for_each(|number| measured.number(number, promise.at))?;
        measured.truth(&promise.condition, promise.at)?;
    }
    for buffer in &plan.buffers {
        measured.number(&buffer.len, buffer.at)?;
        let count = buffer.array.iter().map(|array| &array.count);
        count.into_iter().try_for_each(|count| measured.number(count, buffer.at))?;
    }
    for cover in &plan.covers {
        measured.region(&cover.region, cover.at)?;
    }
    for computed in &plan.computes {
        measured.region(&computed.send, computed.at)?;
        measured.region(&computed.recv, computed.at)?;
        computed.kind.root().into_iter().try_for_each(|root| measured.number(root, computed.at))?;
    }
    for claim in &plan.claims {
        measured.all(claim.at, |each| claim.operands(each))?;
    }
    let mut count = 0;
    let mut left = vec![(1, plan.steps.iter())];
    while let Some((depth, steps)) = left.last_mut() {
        let Some(step) = steps.next() else {
            left.pop();
            continue;
        };
        let depth = *depth;
        count += 1;
        if count > MOST_STEPS {
            let title = format!("the plan has more than {MOST_STEPS} steps");
            return refuse(step.at, title, "use loops, or split the plan");
        }
        if depth > MOST_NESTING {
            return too_much(step.at, DEEP_STEP);
        }
        measured.all(step.at, |each| step.operands(each))?;
        left.push((depth + 1, step.body().iter()));
    }
    Ok(())
}

fn lists(plan: &Plan) -> Result<(), Box<Problem>> {
    let lists = [
        ("files", plan.files.len()),
        ("axes", plan.axes.len()),
        ("parameters", plan.params.len()),
        ("counts", plan.counts.len()),
        ("promises", plan.promises.len()),
        ("communicators", plan.communicators.len()),
        ("buffers", plan.buffers.len()),
        ("signals", plan.signals.len()),
        ("streams", plan.streams.len()),
        ("counters", plan.counters.len()),
        ("covered regions", plan.covers.len()),
        ("things that it computes", plan.computes.len().saturating_add(plan.claims.len())),
    ];
    match lists.iter().find(|(_, len)| *len > MOST_DECLARED) {
        None => Ok(()),
        Some((what, len)) => {
            let title = format!("the plan has {len} {what}, more than {MOST_DECLARED}");
            refuse(
                Location::default(),
                title,
                "declare fewer: an array of buffers is one declaration",
            )
        }
    }
}

struct Measured {
    parts: usize,
}

impl Measured {
    fn all<'a>(
        &mut self,
        at: Location,
        of: impl FnOnce(&mut dyn FnMut(Operand<'a>)),
    ) -> Result<(), Box<Problem>> {
        let mut outcome = Ok(());
        of(&mut |part| {
            if outcome.is_ok() {
                outcome = self.part(&part, at);
            }
        });
        outcome
    }

    fn count(&mut self, parts: usize, at: Location) -> Result<(), Box<Problem>> {
        self.parts = self.parts.saturating_add(parts);
        if self.parts <= MOST_PARTS {
            return Ok(());
        }
        too_much(at, LARGE_PLAN)
    }

    fn part(&mut self, part: &Operand<'_>, at: Location) -> Result<(), Box<Problem>> {
        match part {
            Operand::Number(expr) => self.number(expr, at),
            Operand::Truth(condition) => self.truth(condition, at),
            Operand::Region(region) => self.region(region, at),
            Operand::Peer(Peer::Rank(expr)) => self.number(expr, at),
            Operand::Peer(Peer::Shift(hops)) => {
                self.count(hops.len(), at)?;
                hops.iter().try_for_each(|hop| self.number(&hop.by, at))
            }
            Operand::Peer(peer @ Peer::Cases(_)) => {
                match peer.all().any(|(_, deep)| deep > MOST_NESTING) {
                    true => too_much(at, DEEP_PEER),
                    false => self.count(1, at),
                }
            }
            Operand::Entries(len) => self.count(*len, at),
        }
    }

    fn region(&mut self, region: &Region, at: Location) -> Result<(), Box<Problem>> {
        self.count(1, at)?;
        region.numbers().try_for_each(|expr| self.number(expr, at))
    }

    fn number(&mut self, expr: &Expr, at: Location) -> Result<(), Box<Problem>> {
        match expr.shape() {
            Ok(shape) => self.count(shape.parts, at),
            Err(Limit::Depth) => too_much(at, DEEP_NUMBER),
            Err(Limit::Parts) => too_much(at, LARGE_NUMBER),
        }
    }

    fn truth(&mut self, condition: &Condition, at: Location) -> Result<(), Box<Problem>> {
        let mut left = vec![(condition, 1)];
        while let Some((condition, depth)) = left.pop() {
            self.count(1, at)?;
            if depth > MOST_NESTING {
                return too_much(at, DEEP_CONDITION);
            }
            match condition {
                Condition::Compare(a, _, b) => {
                    self.number(a, at)?;
                    self.number(b, at)?;
                }
                Condition::All(list) | Condition::Any(list) => {
                    self.count(list.len(), at)?;
                    left.extend(list.iter().map(|one| (one, depth + 1)));
                }
                Condition::Not(one) => left.push((one, depth + 1)),
            }
        }
        Ok(())
    }
}

fn refuse(at: Location, title: String, help: &str) -> Result<(), Box<Problem>> {
    Err(Box::new(malformed(at, title, help)))
}

fn too_much(at: Location, title: &str) -> Result<(), Box<Problem>> {
    refuse(at, title.to_owned(), help(title).unwrap_or_default())
}
