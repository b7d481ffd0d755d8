//! Structure that is the same at every size, by how it is written: what else depends on sizes without bound is
//! not assumed from samples.

use super::guards::Guards;
use super::unbounded::Unbounded;
use crate::ir::{
    AxisId, Comparison, Condition, Expr, Hop, Location, Peer, Plan, Region, Step, StepKind,
};
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
    /// What mends it.
    pub(crate) help: Vec<String>,
}

/// The doubts, one of a statement.
struct Doubts(Vec<Doubt>);

impl Doubts {
    fn add(
        &mut self,
        check: Check,
        at: Location,
        what: &Unbounded<'_>,
        title: impl FnOnce(String) -> String,
    ) {
        self.say(check, at, || (title(what.named()), vec![what.declare()]));
    }

    fn say(&mut self, check: Check, at: Location, words: impl FnOnce() -> (String, Vec<String>)) {
        if self.0.last().is_none_or(|last| last.at != at) {
            let (title, help) = words();
            self.0.push(Doubt { check, at, title, help });
        }
    }

    /// Of many, the first few are told in their words: showing takes the names of the whole plan.
    fn are_few(&self) -> bool {
        self.0.len() < 8
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
        let mut doubts = Doubts(Vec::new());
        for promise in &self.plan.promises {
            if !self.promise(&promise.condition) {
                let what = self.nothing().condition(&promise.condition);
                doubts.add(Check::Deadlock, promise.at, &what, |what| {
                    format!("which numbers of ranks this promise leaves cannot be seen for {what}")
                });
            }
        }
        self.steps(&self.plan.steps, &mut doubts);
        doubts.0
    }

    fn nothing(&self) -> Unbounded<'_> {
        Unbounded::none(self.plan)
    }

    fn steps(&self, steps: &[Step], doubts: &mut Doubts) {
        for step in steps {
            match &step.kind {
                StepKind::Loop(this) => {
                    if !self.bounds(&this.from, &this.to) {
                        let what = self.nothing().number(&this.from).number(&this.to);
                        doubts.add(Check::Deadlock, step.at, &what, |what| {
                            format!(
                                "how often this loop runs depends on {what}, in a way that a few values \
                                 do not show"
                            )
                        });
                    }
                    self.steps(&this.body, doubts);
                }
                StepKind::When(this) => {
                    let guards = Guards::new(self.plan, self.axes);
                    if guards.any_other(&this.condition, &mut |part| self.is_free(part)) {
                        self.condition(&this.condition, step.at, doubts);
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
                    if let Some(root) = this.kind.root().filter(|root| self.free(root)) {
                        let what = self.nothing().number(root);
                        doubts.add(Check::Agreement, step.at, &what, |what| {
                            format!("this root depends on {what}")
                        });
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
                            let what = self.nothing().number(&awaited.times);
                            doubts.add(Check::Signals, step.at, &what, |what| {
                                format!("how often this waits depends on {what}")
                            });
                        }
                        self.peer(&awaited.peer, step.at, doubts);
                    }
                }
            }
        }
    }

    fn condition(&self, condition: &Condition, at: Location, doubts: &mut Doubts) {
        let what = self.nothing().condition(condition);
        let title = format!("this condition cannot be checked for every {}", what.named());
        let axis = what.first_axis().filter(|_| condition.mentions_rank());
        let asks = axis.map(|axis| {
            let (rank, name) = (self.rank(axis), &self.plan.axes[axis.index()].name);
            format!(
                "ask how near an end the rank is (`{rank} < 2`, `{rank} >= {name} - 2`), or its remainder by a \
                 number (`{rank} % 2 == 0`)"
            )
        });
        let help = asks.into_iter().chain([what.declare()]).collect();
        doubts.say(Check::Deadlock, at, || (title, help));
    }

    /// How this rank's place along an axis is written.
    fn rank(&self, axis: AxisId) -> String {
        match self.plan.axes.len() {
            1 => "rank".to_owned(),
            _ => format!("rank.{}", self.plan.axes[axis.index()].name),
        }
    }

    fn peer(&self, peer: &Peer, at: Location, doubts: &mut Doubts) {
        let (fine, what) = match peer {
            Peer::Shift(hops) => (
                hops.iter().all(|hop| self.hop(hop)),
                hops.iter().fold(self.nothing(), |what, hop| what.number(&hop.by)),
            ),
            Peer::Rank(expr) => (
                !self.free(expr) && !self.axes.contains(&true),
                Unbounded::ranks(self.plan).number(expr),
            ),
        };
        if fine {
            return;
        }
        let few = doubts.are_few();
        doubts.say(Check::Matching, at, || match (peer, what.first_axis()) {
            (Peer::Rank(expr), Some(axis)) if few => {
                let (name, number) = (&self.plan.axes[axis.index()].name, self.plan.spelled(expr));
                let rank = self.rank(axis);
                (
                    format!("`{number}` as a rank cannot be checked for every {}", what.named()),
                    vec![format!(
                        "name the peer from `rank`, as in `({rank} - 1) % {name}`, or bound the ranks: `{name}: \
                         Ranks in 2..=8`"
                    )],
                )
            }
            _ if few => {
                let peer = self.plan.spelled(peer);
                (format!("who `{peer}` is depends on {}", what.named()), vec![what.declare()])
            }
            _ => (format!("which peer this is depends on {}", what.named()), vec![what.declare()]),
        });
    }

    /// Which buffer of an array: not by a size without bound, but for a loop's counter.
    fn region(&self, region: &Region, at: Location, doubts: &mut Doubts) {
        let buffer = &self.plan.buffers[region.buffer.index()];
        if let Some(index) = region.index.as_ref().filter(|index| self.free(index)) {
            let (what, name) = (self.nothing().number(index), &buffer.name);
            doubts.add(Check::Hazards, at, &what, |what| {
                format!("which buffer of `{name}` this is depends on {what}")
            });
        }
        if let Some(array) = &buffer.array
            && region.index.is_none()
            && (region.range.is_some() && self.free(&array.count))
        {
            let (what, name) = (self.nothing().number(&array.count), &buffer.name);
            doubts.add(Check::Bounds, at, &what, |what| {
                format!("this is a part of every buffer of `{name}`, and how many there are depends on {what}")
            });
        }
    }
}
