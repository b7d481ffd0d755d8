//! Structure that is the same at every size, by how it is written: what else depends on sizes without bound is
//! not assumed from samples.

use super::guards::Guards;
use crate::ir::{Comparison, Condition, Expr, Hop, Location, Peer, Plan, Region, Step, StepKind};
use crate::verdict::Check;

/// Names whose values are not all looked at.
pub(crate) struct Names<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) axes: &'a [bool],
    pub(crate) params: &'a [bool],
}

/// Something whose structure is not known for every size.
pub(crate) struct Doubt {
    pub(crate) check: Check,
    pub(crate) at: Location,
    pub(crate) title: String,
    /// What mends it, if it is more than to declare less.
    pub(crate) help: Option<String>,
}

impl Doubt {
    fn new(check: Check, at: Location, title: &str) -> Self {
        Self { check, at, title: title.to_owned(), help: None }
    }
}

impl Names<'_> {
    /// Whether an expression mentions something of which not all values are looked at.
    pub(crate) fn free(&self, expr: &Expr) -> bool {
        expr.any(|part| self.is_free(part))
    }

    fn is_free(&self, part: &Expr) -> bool {
        match part {
            Expr::Param(id) | Expr::Element(id, _) => self.params[id.index()],
            Expr::Extent(axis) | Expr::Coordinate(axis) => self.axes[axis.index()],
            Expr::Size | Expr::Rank => self.axes.contains(&true),
            _ => false,
        }
    }

    /// An expression as a free name, at most once, and a constant: the name's factor and the constant.
    fn linear(&self, expr: &Expr) -> Option<(i64, i64)> {
        match expr {
            Expr::Int(value) => Some((0, *value)),
            Expr::Param(_) | Expr::Extent(_) => Some((1, 0)),
            Expr::Size if self.plan.axes.len() == 1 => Some((1, 0)),
            Expr::Add(a, b) => {
                let ((x, c), (y, d)) = (self.linear(a)?, self.linear(b)?);
                Some((x.checked_add(y)?, c.checked_add(d)?))
            }
            Expr::Sub(a, b) => {
                let ((x, c), (y, d)) = (self.linear(a)?, self.linear(b)?);
                Some((x.checked_sub(y)?, c.checked_sub(d)?))
            }
            _ => None,
        }
    }

    /// A distance that is one number: `c`, or around a ring `c` and some times the extent.
    fn hop(&self, hop: &Hop) -> bool {
        let other = |part: &Expr| match part {
            Expr::Extent(axis) => *axis != hop.axis,
            Expr::Size => self.plan.axes.len() != 1,
            part => self.is_free(part),
        };
        !self.free(&hop.by) || (hop.wrap && !hop.by.any(other) && self.linear(&hop.by).is_some())
    }

    /// A loop's bounds: from a constant to a name and a constant, with three iterations among the samples.
    fn bounds(&self, from: &Expr, to: &Expr) -> bool {
        if !self.free(from) && !self.free(to) {
            return true;
        }
        let (Some((0, from)), Some((1, to_more))) = (self.linear(from), self.linear(to)) else {
            return false;
        };
        let Some(more) = to_more.checked_sub(from) else { return false };
        let mut least = 0;
        to.any(|part| {
            let values = match part {
                Expr::Param(id) => &self.plan.params[id.index()].values,
                Expr::Extent(axis) => &self.plan.axes[axis.index()].extent,
                Expr::Size => &self.plan.axes[0].extent,
                _ => return false,
            };
            least = values.first().unwrap_or(0);
            false
        });
        (-3..=64).contains(&more) && least.saturating_add(more) >= 0
    }

    /// A promise after which it is known which extents without bound are left: those from a number on, those
    /// of some remainders by numbers, or all, where something else is a multiple of one.
    fn promise(&self, condition: &Condition) -> bool {
        let axis = |part: &Expr| match part {
            Expr::Extent(axis) => self.axes[axis.index()],
            Expr::Size => self.axes.contains(&true),
            _ => false,
        };
        if !condition.any(&mut |part| axis(part))
            || Guards::new(self.plan, self.axes).is_promise(condition)
        {
            return true;
        }
        match condition {
            Condition::Compare(
                a,
                Comparison::Greater | Comparison::GreaterOrEqual,
                Expr::Int(_),
            ) => {
                matches!(a, Expr::Extent(_) | Expr::Size)
            }
            Condition::Compare(Expr::Rem(a, b), Comparison::Equal, Expr::Int(0)) => {
                axis(b) && matches!(**a, Expr::Param(id) if self.params[id.index()])
            }
            Condition::All(list) => list.iter().all(|one| self.promise(one)),
            _ => false,
        }
    }

    pub(crate) fn doubts(&self) -> Vec<Doubt> {
        let mut doubts = Vec::new();
        for promise in &self.plan.promises {
            if !self.promise(&promise.condition) {
                let title = "this promise leaves out some numbers of ranks, without bound";
                doubts.push(Doubt::new(Check::Deadlock, promise.at, title));
            }
        }
        self.steps(&self.plan.steps, &mut doubts);
        doubts
    }

    fn steps(&self, steps: &[Step], doubts: &mut Vec<Doubt>) {
        for step in steps {
            let mut doubt = |check, title| doubts.push(Doubt::new(check, step.at, title));
            match &step.kind {
                StepKind::Loop(this) => {
                    if !self.bounds(&this.from, &this.to) {
                        let title = "how often this loop runs depends on a size without bound in a way that \
                                     samples do not show";
                        doubt(Check::Deadlock, title);
                    }
                    self.steps(&this.body, doubts);
                }
                StepKind::When(this) => {
                    let guards = Guards::new(self.plan, self.axes);
                    if guards.any_other(&this.condition, &mut |part| self.is_free(part)) {
                        let title = "this condition depends on a size without bound, or on a rank by more \
                                     than how near an end it is (`rank < 2`, `rank >= n - 2`) and its remainder \
                                     by a number (`rank % 2 == 0`)";
                        doubt(Check::Deadlock, title);
                    }
                    self.steps(&this.body, doubts);
                }
                StepKind::Group(body) | StepKind::Sequence(body) => self.steps(body, doubts),
                StepKind::Compute(this) => {
                    this.reads.iter().chain(&this.writes).for_each(|region| {
                        self.region(region, step.at, doubts);
                    });
                }
                StepKind::Collective(this) => {
                    if this.kind.root().is_some_and(|root| self.free(root)) {
                        doubt(
                            Check::Agreement,
                            "this root depends on a rank or a size without bound",
                        );
                    }
                    self.region(&this.send, step.at, doubts);
                    self.region(&this.recv, step.at, doubts);
                }
                StepKind::Transfer(this) => {
                    self.peer(&this.peer, step.at, doubts);
                    self.region(&this.from, step.at, doubts);
                    self.region(&this.to, step.at, doubts);
                }
                StepKind::Send(this) => {
                    self.peer(&this.peer, step.at, doubts);
                    self.region(&this.from, step.at, doubts);
                }
                StepKind::Receive(this) => {
                    self.peer(&this.peer, step.at, doubts);
                    self.region(&this.to, step.at, doubts);
                }
                StepKind::Put(this) => {
                    self.peer(&this.peer, step.at, doubts);
                    self.region(&this.from, step.at, doubts);
                    self.region(&this.to, step.at, doubts);
                }
                StepKind::Signal(this) => self.peer(&this.peer, step.at, doubts),
                StepKind::Wait(this) => {
                    for awaited in &this.signals {
                        if self.free(&awaited.times) {
                            let title =
                                "how often this waits depends on a rank or a size without bound";
                            doubts.push(Doubt::new(Check::Signals, step.at, title));
                        }
                        self.peer(&awaited.peer, step.at, doubts);
                    }
                }
            }
        }
    }

    fn peer(&self, peer: &Peer, at: Location, doubts: &mut Vec<Doubt>) {
        let fine = match peer {
            Peer::Shift(hops) => hops.iter().all(|hop| self.hop(hop)),
            Peer::Rank(expr) => !self.free(expr) && !self.axes.contains(&true),
        };
        if !fine {
            let title = "which peer this is depends on a rank or a size without bound";
            let mut doubt = Doubt::new(Check::Matching, at, title);
            let endless = (0..).zip(&self.plan.axes).find(|(nth, _)| self.axes[*nth]);
            // Of many, the first few are told in their words: showing takes the names of the whole plan.
            let few = doubts.len() < 8;
            if let (Peer::Rank(expr), Some((_, axis)), true) = (peer, endless, few) {
                let (name, number) = (&axis.name, self.plan.spelled(expr));
                doubt.title = format!(
                    "`{number}` as a rank cannot be checked for every `{name}`: `{name}` has no upper bound"
                );
                let rank = match self.plan.axes.len() {
                    1 => "rank".to_owned(),
                    _ => format!("rank.{name}"),
                };
                doubt.help = Some(format!(
                    "name the peer from `rank`, as in `({rank} - 1) % {name}`, or bound the ranks: `{name}: \
                     Ranks in 2..=8`"
                ));
            }
            doubts.push(doubt);
        }
    }

    /// Which buffer of an array: not by a size without bound, but for a loop's counter.
    fn region(&self, region: &Region, at: Location, doubts: &mut Vec<Doubt>) {
        if region.index.as_ref().is_some_and(|index| self.free(index)) {
            let title =
                "which buffer of an array this is depends on a rank or a size without bound";
            doubts.push(Doubt::new(Check::Hazards, at, title));
        }
        let buffer = &self.plan.buffers[region.buffer.index()];
        if let Some(array) = &buffer.array
            && region.index.is_none()
            && (region.range.is_some() && self.free(&array.count))
        {
            let title = "this is a part of every buffer of an array without bound";
            doubts.push(Doubt::new(Check::Bounds, at, title));
        }
    }
}
