//! Local work: assignments.

use typed_nccl_plan::ir::{Assign, Reduction, Region};
use typed_nccl_plan::verdict::Check;

use super::Walk;
use crate::number::Malformed;
use crate::unit::{Act, Known, Span};

impl Walk<'_> {
    /// Local work: it reads and writes single buffers, of one type and one length (A2).
    pub(super) fn assign(&mut self, assign: &Assign) -> Result<(), Malformed> {
        if self.group.is_some() {
            return self.bad("an assignment in a group");
        }
        let element = |region: &Region| {
            self.instance.plan.buffers.get(region.buffer.index()).map(|one| &one.element)
        };
        let to = element(&assign.to);
        let is_integer = to.is_some_and(|to| !to.averages());
        if assign.of.is_empty()
            || assign.of.len() > 16
            || assign.of.iter().any(|one| element(one) != to)
            || assign.of.len() > 1 && assign.by == Reduction::Avg && is_integer
        {
            return self.bad("an assignment of nothing, of two types or of an average of integers");
        }
        let target = self.region(&assign.to)?;
        let of: Vec<Span> =
            assign.of.iter().map(|one| self.region(one)).collect::<Result<_, _>>()?;
        self.apart((&assign.of, std::slice::from_ref(&assign.to)), false)?;
        let mut known = Vec::new();
        if of.iter().any(|one| one.said != target.said) {
            let rank = self.rank;
            let text = || format!("rank {rank}: an assignment of several lengths");
            self.outcome.note(Check::Agreement, text);
        } else {
            let from = of.iter().map(|one| vec![*one]).collect();
            known.push(Known { to: vec![target], by: assign.by, from });
        }
        let act = Act::Compute { name: 0, reads: of, writes: vec![target], known };
        match self.sequence.clone() {
            Some(place) => self.half(place, 1, self.rank, act, None, &assign.place),
            None => self.issue(self.rank, 0, act, None, &assign.place),
        }
    }
}
