//! The numbers that compute steps get.

use crate::ir::{Location, Plan, Step, StepKind};
use crate::program::{Env, NoValue};
use crate::verdict::{Check, Line, Problem, ProblemKind, Sizes};

/// The arguments of a rank's compute steps, in the order of issue, in an instance that has passed the checks.
///
/// A sequence moves messages, and leaves compute steps in the order in which they are written.
pub(super) fn of_rank(
    plan: &Plan,
    sizes: &Sizes,
    size: usize,
    rank: usize,
) -> Result<Vec<Vec<i64>>, Box<Problem>> {
    let counters = vec![None; plan.counters.len()];
    let (size, rank) = (size as i64, rank as i64);
    let mut walk = Walk { sizes, size, rank, counters, found: Vec::new() };
    match walk.steps(&plan.steps) {
        Ok(()) => Ok(walk.found),
        Err((why, at)) => Err(Box::new(Problem {
            kind: ProblemKind::Broken(Check::Bounds),
            title: why.to_string(),
            at,
            sizes: Some(sizes.clone()),
            story: vec![Line {
                rank: Some(rank as usize),
                other: None,
                at,
                text: "computes an argument here".to_owned(),
            }],
            help: vec!["say with `where` what holds of the parameters".to_owned()],
        })),
    }
}

struct Walk<'a> {
    sizes: &'a Sizes,
    size: i64,
    rank: i64,
    counters: Vec<Option<i64>>,
    found: Vec<Vec<i64>>,
}

impl Walk<'_> {
    fn env(&self) -> Env<'_> {
        let &Self { sizes: Sizes { extents, params, .. }, size, rank, ref counters, .. } = self;
        Env { extents, size, params, counters, rank }
    }

    fn steps(&mut self, steps: &[Step]) -> Result<(), (NoValue, Location)> {
        for step in steps {
            let at = |why: NoValue| (why, step.at);
            match &step.kind {
                StepKind::Compute(this) => {
                    let numbers = this.arguments.iter().map(|one| self.env().eval(one));
                    let numbers = numbers.collect::<Result<Vec<i64>, _>>().map_err(at)?;
                    self.found.push(numbers);
                }
                StepKind::When(this) => {
                    let holds = self.env().holds(&this.condition).map_err(at)?;
                    if holds {
                        self.steps(&this.body)?;
                    }
                }
                StepKind::Loop(this) => {
                    let from = self.env().eval(&this.from).map_err(at)?;
                    let to = self.env().eval(&this.to).map_err(at)?;
                    for turn in from..to {
                        let value = if this.reverse { to - 1 - (turn - from) } else { turn };
                        self.counters[this.counter.index()] = Some(value);
                        self.steps(&this.body)?;
                    }
                    self.counters[this.counter.index()] = None;
                }
                StepKind::Group(body) | StepKind::Sequence(body) => self.steps(body)?,
                _ => {}
            }
        }
        Ok(())
    }
}
