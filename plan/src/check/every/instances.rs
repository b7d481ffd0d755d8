//! What instances show and is proved to be so at every size.

use std::collections::HashSet;

use super::Every;
use super::problems::refused;
use crate::check::coverage::Parts;
use crate::check::instance::Instance;
use crate::check::lengths::Lengths;
use crate::check::report::Report;
use crate::check::{collectives, coverage, messages};
use crate::ir::{Step, StepKind};
use crate::program::expand;
use crate::verdict::{Check, Problem, Sizes};

impl Every<'_> {
    /// Proves that the regions that are declared as filled are, at every size, as they are at these.
    pub(super) fn covered(
        &mut self,
        instances: &[Sizes],
        proof: &Lengths<'_>,
    ) -> Result<(), Vec<Problem>> {
        for covered in &self.plan.covers {
            if proof.covers_by_chunks(covered) {
                continue;
            }
            // Instances have most of what they show in common.
            let mut proved = HashSet::new();
            for sizes in instances {
                let budget = &mut self.budget;
                let program = expand(self.plan, &self.statements, sizes, budget)?;
                let all = coverage::parts(self.plan, &program, sizes, covered);
                let covers = |parts: Parts| {
                    proved.contains(&parts)
                        || (proof.covers(covered, &parts) && proved.insert(parts))
                };
                if !all.is_some_and(|all| all.into_iter().all(covers)) {
                    let title = "whether this is filled cannot be decided for every size";
                    let (at, help) = (covered.at, self.ranks());
                    return Err(vec![refused(Check::Coverage, at, title.to_owned(), help)]);
                }
            }
        }
        Ok(())
    }

    /// Refuses a collective that has no length at any size that is looked at, and may have one at others.
    pub(super) fn issued(
        &mut self,
        instances: &[Sizes],
        may_be_empty: &HashSet<u32>,
    ) -> Result<(), Vec<Problem>> {
        let mut left = may_be_empty.clone();
        for sizes in instances {
            if left.is_empty() {
                return Ok(());
            }
            let budget = &mut self.budget;
            let program = expand(self.plan, &self.statements, sizes, budget)?;
            program.ops.iter().for_each(|op| _ = left.remove(&op.statement));
        }
        let Some(&first) = left.iter().min() else { return Ok(()) };
        let at = self.statements.places[first as usize];
        let title = "this collective has no length at all sizes that are looked at, and may have one at others";
        Err(vec![refused(Check::CollectiveOrder, at, title.to_owned(), self.ranks())])
    }

    /// Proves that members of one collective that are at different statements give it one length, and that no
    /// half of a transfer meets another's: both halves of one were proved to be of one length.
    pub(super) fn meetings(
        &mut self,
        sizes: &Sizes,
        proof: &Lengths<'_>,
    ) -> Result<(), Vec<Problem>> {
        let plan = self.plan;
        let program = expand(plan, &self.statements, sizes, &mut self.budget)?;
        let instance = Instance { plan, program: &program, sizes };
        let mut report = Report::new(&instance);
        let steps: Vec<&Step> = Step::all(&plan.steps).collect();
        for message in messages::check(&instance, &mut report) {
            let at = |op: u32| program.ops[op as usize].statement;
            let (send, receive) = (at(message.send_op), at(message.receive_op));
            let is_transfer =
                |statement: u32| matches!(steps[statement as usize].kind, StepKind::Transfer(_));
            if send != receive && (is_transfer(send) || is_transfer(receive)) {
                let title = "this half of a transfer meets one of another statement: whether both have one \
                             length cannot be decided for every size";
                let (at, help) = (program.place(send), self.ranks());
                return Err(vec![refused(Check::Agreement, at, title.to_owned(), help)]);
            }
        }
        let meetings = collectives::check(&instance, &mut report);
        for meeting in meetings {
            let mut statements: Vec<u32> =
                meeting.members.iter().map(|(_, op)| program.ops[*op as usize].statement).collect();
            statements.dedup();
            let first = statements[0];
            if let Some(&other) = statements.iter().find(|&&other| !proof.meet(first, other)) {
                let title = "whether the members of this collective, which are at different statements, \
                             give it one length cannot be decided for every size";
                let (at, help) = (program.place(other), self.ranks());
                return Err(vec![refused(Check::Agreement, at, title.to_owned(), help)]);
            }
        }
        Ok(())
    }
}
