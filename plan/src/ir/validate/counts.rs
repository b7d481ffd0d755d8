//! Validates the use of numbers that each run passes anew. What is right with the most of each must
//! be right with any others: they decide nothing but how long a message is, whose receiver's
//! memory the caller has filled.

use super::Found;
use crate::ir::{Expr, Launch, Location, Operand, Region, Role, Step, StepKind};

const ONLY: &str = "they are lengths of messages alone, as in `send x[a..a + counts[i]] to p;`";

impl Found<'_> {
    pub(super) fn counts(&mut self) {
        let plan = self.plan;
        for id in &plan.counts {
            let at = plan.params.get(id.index()).map(|param| param.at).unwrap_or_default();
            if self.in_range(id.index(), plan.params.len(), "a run", "parameter", at)
                && plan.params[id.index()].count.is_none()
            {
                let name = &plan.params[id.index()].name;
                let title = format!("runs pass `{name}`, which is one number");
                self.say(at, title, format!("declare a list: `run {name}: [usize; 1]`"));
            }
        }
        let Some(first) = plan.counts.first().and_then(|id| plan.params.get(id.index())) else {
            return;
        };
        if plan.launch == Launch::Captured {
            let title =
                format!("runs pass `{}`, and a graph has the counts of its capture", first.name);
            self.say(first.at, title, "leave out `#[capture]`");
        }
        for param in &plan.params {
            param
                .count
                .iter()
                .for_each(|count| self.no_count(count, "how many there are", param.at));
        }
        for buffer in &plan.buffers {
            self.no_count(&buffer.len, "the length of memory", buffer.at);
            let array = buffer.array.iter();
            array.for_each(|array| self.no_count(&array.count, "an array's length", buffer.at));
        }
        let here = Step::all(&plan.steps).filter(|step| matches!(step.kind, StepKind::Here(_)));
        let claims =
            plan.claims.iter().map(|one| one.at).chain(plan.covers.iter().map(|one| one.at));
        let claims =
            claims.chain(plan.computes.iter().map(|one| one.at)).chain(here.map(|one| one.at));
        for at in claims {
            let title = format!("runs pass `{}`, and this is claimed of every run", first.name);
            self.say(
                at,
                title,
                "leave the claim out: elements that no message brings stay as they were",
            );
        }
        Step::all(&plan.steps).for_each(|step| self.counted(step));
    }

    fn is_count(&self, part: &Expr) -> bool {
        matches!(part, Expr::Param(id) | Expr::Element(id, _) if self.plan.counts.contains(id))
    }

    fn no_count(&mut self, number: &Expr, what: &str, at: Location) {
        if number.any(|part| self.is_count(part)) {
            self.say(at, format!("{what} depends on numbers that runs pass"), ONLY);
        }
    }

    fn counted(&mut self, step: &Step) {
        let at = step.at;
        let (is_message, target) = match &step.kind {
            StepKind::Transfer(this) => (true, Some(&this.to)),
            StepKind::Receive(this) => (true, Some(&this.to)),
            StepKind::Send(_) => (true, None),
            _ => (false, None),
        };
        step.operands(&mut |part| match part {
            Operand::Number(number) => self.no_count(number, "this", at),
            Operand::Truth(condition) => {
                if condition.any(&mut |part| self.is_count(part)) {
                    self.say(at, "a condition depends on numbers that runs pass", ONLY);
                }
            }
            Operand::Region(region) => {
                let count = region.count().filter(|(list, _)| self.plan.counts.contains(list));
                match count.filter(|_| is_message) {
                    Some((_, index)) => {
                        let range = region.range.iter().map(|(start, _)| start);
                        let others = region.index.iter().chain(range).chain([index]);
                        others.for_each(|number| self.no_count(number, "a region", at));
                    }
                    None => {
                        region.numbers().for_each(|number| self.no_count(number, "a region", at))
                    }
                }
            }
            Operand::Peer(peer) => match peer {
                crate::ir::Peer::Rank(number) => self.no_count(number, "the peer", at),
                crate::ir::Peer::Shift(hops) => {
                    hops.iter().for_each(|hop| self.no_count(&hop.by, "the peer", at));
                }
                crate::ir::Peer::Cases(_) => {}
            },
            Operand::Entries(_) => {}
        });
        let counted = |region: &&Region| {
            region.count().is_some_and(|(list, _)| self.plan.counts.contains(&list))
        };
        let buffer = target.filter(counted).and_then(|to| self.plan.buffers.get(to.buffer.index()));
        if let Some(buffer) = buffer
            && (buffer.role != Role::InOut || buffer.copies != 1)
        {
            let title = format!("a run may bring less than all of `{}`", buffer.name);
            let help = format!(
                "declare it `inout {}`: what no message brings stays as it was",
                buffer.name
            );
            self.say(at, title, help);
        }
    }
}
