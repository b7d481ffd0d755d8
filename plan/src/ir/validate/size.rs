//! Limits that keep a hostile plan from exhausting the stack, memory or time.

use super::{MOST_DECLARED, MOST_PARTS, MOST_STEPS, malformed};
use crate::ir::operands::{Operand, collective};
use crate::ir::shape::{
    DEEP_CONDITION, DEEP_NUMBER, DEEP_PEER, DEEP_STEP, LARGE_NUMBER, LARGE_PLAN, Limit, help,
};
use crate::ir::{Condition, Expr, Location, MOST_NESTING, Peer, Plan, Region};
use crate::verdict::Problem;

/// The first limit that the plan exceeds, if any. Without recursion.
pub(super) fn check(plan: &Plan) -> Result<(), Box<Problem>> {
    lists(plan)?;
    let mut measured = Measured { parts: 0, numbers: Vec::new(), truths: Vec::new() };
    for param in &plan.params {
        param.count.iter().try_for_each(|count| measured.number(count, param.at))?;
    }
    for promise in &plan.promises {
        measured.truth(&promise.condition, promise.at)?;
    }
    for buffer in &plan.buffers {
        measured.number(&buffer.len, buffer.at)?;
        let count = buffer.array.iter().map(|array| &array.count);
        count.into_iter().try_for_each(|count| measured.number(count, buffer.at))?;
    }
    for cover in &plan.covers {
        measured.part(&Operand::Region(&cover.region), cover.at)?;
    }
    for computed in &plan.computes {
        let mut parts = vec![Operand::Region(&computed.send), Operand::Region(&computed.recv)];
        collective(&computed.kind, &mut |part| parts.push(part));
        parts.iter().try_for_each(|part| measured.part(part, computed.at))?;
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
        let mut outcome = Ok(());
        step.operands(&mut |part| {
            if outcome.is_ok() {
                outcome = measured.part(&part, step.at);
            }
        });
        outcome?;
        left.push((depth + 1, step.body().iter()));
    }
    Ok(())
}

fn lists(plan: &Plan) -> Result<(), Box<Problem>> {
    let lists = [
        ("files", plan.files.len()),
        ("axes", plan.axes.len()),
        ("parameters", plan.params.len()),
        ("promises", plan.promises.len()),
        ("communicators", plan.communicators.len()),
        ("buffers", plan.buffers.len()),
        ("signals", plan.signals.len()),
        ("streams", plan.streams.len()),
        ("counters", plan.counters.len()),
        ("covered regions", plan.covers.len()),
        ("things that it computes", plan.computes.len()),
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

struct Measured<'a> {
    parts: usize,
    /// The rest of a number; empty between two.
    numbers: Vec<&'a Expr>,
    truths: Vec<(&'a Condition, usize)>,
}

impl<'a> Measured<'a> {
    fn count(&mut self, parts: usize, at: Location) -> Result<(), Box<Problem>> {
        self.parts = self.parts.saturating_add(parts);
        if self.parts <= MOST_PARTS {
            return Ok(());
        }
        too_much(at, LARGE_PLAN)
    }

    fn part(&mut self, part: &Operand<'a>, at: Location) -> Result<(), Box<Problem>> {
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

    fn region(&mut self, region: &'a Region, at: Location) -> Result<(), Box<Problem>> {
        self.count(1, at)?;
        let range = region.range.iter().flat_map(|(start, end)| [start, end]);
        region.index.iter().chain(range).try_for_each(|expr| self.number(expr, at))
    }

    fn number(&mut self, expr: &'a Expr, at: Location) -> Result<(), Box<Problem>> {
        self.numbers.clear();
        self.numbers.push(expr);
        while let Some(expr) = self.numbers.pop() {
            self.count(1, at)?;
            match expr.shape() {
                Ok(_) => self.numbers.extend(expr.children()),
                Err(Limit::Depth) => return too_much(at, DEEP_NUMBER),
                Err(Limit::Parts) => return too_much(at, LARGE_NUMBER),
            }
        }
        Ok(())
    }

    fn truth(&mut self, condition: &'a Condition, at: Location) -> Result<(), Box<Problem>> {
        self.truths.clear();
        self.truths.push((condition, 1));
        while let Some((condition, depth)) = self.truths.pop() {
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
                    self.truths.extend(list.iter().map(|one| (one, depth + 1)));
                }
                Condition::Not(one) => self.truths.push((one, depth + 1)),
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
