//! The numbers in a plan, near which its behaviour changes.

use std::collections::BTreeSet;

use crate::ir::{Condition, Each, Expr, Operand, Operator, Peer, Plan, Region, Step, StepKind};

/// Numbers above this are lengths.
const MOST: i64 = 1024;

/// The numbers in a plan.
#[derive(Default)]
pub(super) struct Written {
    /// Signed distances to peers along each axis.
    pub(super) distances: Vec<BTreeSet<i64>>,
    /// Divisors, and lengths of arrays.
    pub(super) periods: BTreeSet<i64>,
    /// Numbers in comparisons of conditions and promises, bounds of loops, and numbers of roots and
    /// peers.
    pub(super) named: BTreeSet<i64>,
    /// Lengths.
    pub(super) lengths: BTreeSet<i64>,
    /// Parameters that decide what runs: those in loops, conditions, counts, roots and peers.
    pub(super) decisive: BTreeSet<usize>,
}

impl Written {
    pub(super) fn new(plan: &Plan) -> Self {
        let mut written =
            Self { distances: vec![BTreeSet::new(); plan.axes.len()], ..Self::default() };
        for promise in &plan.promises {
            written.condition(&promise.condition);
            promise.around.iter().flat_map(Each::numbers).for_each(|bound| written.bound(bound));
        }
        for buffer in &plan.buffers {
            written.divisors(&buffer.len);
            literals(&buffer.len, &mut |length| _ = written.lengths.insert(length));
            if let Some(array) = &buffer.array {
                written.decides(&array.count);
                literals(&array.count, &mut |number| _ = written.periods.insert(number));
            }
        }
        Step::all(&plan.steps).for_each(|step| written.step(step));
        for numbers in [&mut written.periods, &mut written.named, &mut written.lengths] {
            numbers.retain(|number| (2..=MOST).contains(number));
        }
        for distances in &mut written.distances {
            distances.retain(|&by| by != 0 && (-MOST..=MOST).contains(&by));
        }
        written
    }

    fn step(&mut self, step: &Step) {
        if let StepKind::Loop(this) = &step.kind {
            let bounds = [&this.from, &this.to].into_iter().chain(&this.powers);
            bounds.for_each(|bound| self.bound(bound));
        }
        if let StepKind::Collective(this) = &step.kind
            && let Some(root) = this.kind.root()
        {
            self.decides(root);
            literals(root, &mut |number| _ = self.named.insert(number));
        }
        step.operands(&mut |part| match part {
            Operand::Number(number) => self.divisors(number),
            Operand::Truth(condition) => self.condition(condition),
            Operand::Region(region) => self.region(region),
            Operand::Peer(Peer::Rank(number)) => {
                self.decides(number);
                literals(number, &mut |number| _ = self.named.insert(number));
                self.divisors(number);
            }
            Operand::Peer(Peer::Shift(hops)) => {
                for hop in hops {
                    self.decides(&hop.by);
                    self.divisors(&hop.by);
                    match signed(&hop.by) {
                        Some(by) => _ = self.distances[hop.axis.index()].insert(by),
                        None => literals(&hop.by, &mut |by| {
                            self.distances[hop.axis.index()].insert(by);
                        }),
                    }
                }
            }
            Operand::Peer(Peer::Cases(_)) | Operand::Entries(_) => {}
        });
    }

    fn bound(&mut self, bound: &Expr) {
        self.decides(bound);
        literals(bound, &mut |number| _ = self.named.insert(number));
    }

    fn region(&mut self, region: &Region) {
        region.numbers().for_each(|number| self.divisors(number));
        region.index.iter().for_each(|index| self.decides(index));
    }

    fn condition(&mut self, condition: &Condition) {
        condition.any(&mut |part| {
            self.mentions(part);
            match part {
                Expr::Int(number) => _ = self.named.insert(*number),
                Expr::Div(_, by) | Expr::Rem(_, by) => {
                    literals(by, &mut |number| _ = self.periods.insert(number));
                }
                _ => {}
            }
            false
        });
    }

    fn divisors(&mut self, number: &Expr) {
        number.any(|part| {
            if let Expr::Div(_, by) | Expr::Rem(_, by) = part {
                literals(by, &mut |number| _ = self.periods.insert(number));
            }
            if let Expr::Choice(choice) = part {
                self.condition(&choice.condition);
            }
            false
        });
    }

    fn decides(&mut self, number: &Expr) {
        number.any(|part| {
            self.mentions(part);
            false
        });
    }

    fn mentions(&mut self, part: &Expr) {
        if let Expr::Param(id) | Expr::Element(id, _) = part {
            self.decisive.insert(id.index());
        }
    }
}

fn literals(number: &Expr, each: &mut dyn FnMut(i64)) {
    number.any(|part| {
        if let Expr::Int(number) = part {
            each(*number);
        }
        false
    });
}

/// The value of a number without names.
fn signed(number: &Expr) -> Option<i64> {
    match (number, number.binary()) {
        (Expr::Int(value), _) => Some(*value),
        (_, Some((operator @ (Operator::Add | Operator::Sub | Operator::Mul), a, b))) => {
            operator.apply(signed(a)?, signed(b)?)
        }
        _ => None,
    }
}
