//! Plans whose every length is a multiple of one parameter: what they do to one part, they do to all alike.

use crate::ir::{Comparison, Condition, Expr, ParamId, Plan, Region, Step, StepKind};

/// The one parameter without bound of whose multiples all lengths and ranges are, if there is one.
///
/// Then elements move in parts of that length, those of a part alike: what is computed at the smallest
/// value is computed at all.
pub(crate) fn by_one(plan: &Plan, looked_at: &[bool]) -> Option<ParamId> {
    let mut unbounded = (0..).map(ParamId).zip(looked_at).filter(|(_, looked_at)| !**looked_at);
    let (param, None) = (unbounded.next()?.0, unbounded.next()) else { return None };
    let scale = Scale { plan, param };
    let buffers = plan.buffers.iter().all(|buffer| scale.degree(&buffer.len) == Some(1));
    let claims = plan.computes.iter().flat_map(|claim| [&claim.send, &claim.recv]);
    let claims = claims.chain(plan.covers.iter().map(|covered| &covered.region));
    let fine = buffers
        && claims.into_iter().all(|region| scale.region(region))
        && scale.steps(&plan.steps);
    fine.then_some(param)
}

struct Scale<'a> {
    plan: &'a Plan,
    param: ParamId,
}

impl Scale<'_> {
    /// 0 where a number does not depend on the parameter, 1 where it is a multiple of it.
    fn degree(&self, expr: &Expr) -> Option<u8> {
        match expr {
            Expr::Int(_)
            | Expr::Rank
            | Expr::Size
            | Expr::Coordinate(_)
            | Expr::Extent(_)
            | Expr::Loop(_) => Some(0),
            Expr::Param(id) => Some((*id == self.param).into()),
            Expr::Element(id, index) => {
                (*id != self.param && self.degree(index)? == 0).then_some(0)
            }
            Expr::Add(a, b) | Expr::Sub(a, b) => {
                let zero = |expr: &Expr| *expr == Expr::Int(0);
                let (x, y) = (self.degree(a)?, self.degree(b)?);
                if x == y || zero(b) { Some(x) } else { zero(a).then_some(y) }
            }
            Expr::Mul(a, b) => {
                let zero = |expr: &Expr| *expr == Expr::Int(0);
                if zero(a) || zero(b) {
                    // Nothing is a multiple of everything.
                    return Some(1);
                }
                let degree = self.degree(a)? + self.degree(b)?;
                (degree <= 1).then_some(degree)
            }
            Expr::Div(a, b) => match (self.degree(a)?, self.degree(b)?) {
                (0, 0) => Some(0),
                (1, 0) => self.divides(a, b).then_some(1),
                _ => None,
            },
            Expr::Rem(a, b) => (self.degree(a)? == 0 && self.degree(b)? == 0).then_some(0),
        }
    }

    /// Whether the plan promises that a division leaves nothing.
    fn divides(&self, a: &Expr, b: &Expr) -> bool {
        if let Expr::Mul(x, y) = a
            && (**x == *b || **y == *b)
        {
            return true;
        }
        let rest = Expr::Rem(Box::new(a.clone()), Box::new(b.clone()));
        fn says(condition: &Condition, rest: &Expr) -> bool {
            match condition {
                Condition::Compare(left, Comparison::Equal, Expr::Int(0)) => left == rest,
                Condition::All(list) => list.iter().any(|one| says(one, rest)),
                _ => false,
            }
        }
        self.plan.promises.iter().any(|promise| says(&promise.condition, &rest))
    }

    fn region(&self, region: &Region) -> bool {
        let none = |expr: &Expr| self.degree(expr) == Some(0);
        let multiple = |expr: &Expr| *expr == Expr::Int(0) || self.degree(expr) == Some(1);
        region.index.as_ref().is_none_or(none)
            && region.range.as_ref().is_none_or(|(start, end)| multiple(start) && multiple(end))
    }

    fn steps(&self, steps: &[Step]) -> bool {
        steps.iter().all(|step| match &step.kind {
            StepKind::Compute(this) => {
                this.reads.iter().chain(&this.writes).all(|region| self.region(region))
            }
            StepKind::Collective(this) => self.region(&this.send) && self.region(&this.recv),
            StepKind::Transfer(this) => self.region(&this.from) && self.region(&this.to),
            StepKind::Send(this) => self.region(&this.from),
            StepKind::Receive(this) => self.region(&this.to),
            StepKind::Put(this) => self.region(&this.from) && self.region(&this.to),
            StepKind::Signal(_) | StepKind::Wait(_) => true,
            StepKind::Group(body) | StepKind::Sequence(body) => self.steps(body),
            StepKind::Loop(this) => self.steps(&this.body),
            StepKind::When(this) => self.steps(&this.body),
        })
    }
}
