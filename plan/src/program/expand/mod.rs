//! From statements to units: all ranks walk the statements in order, each by its own bounds and guards.

mod collective;
mod leaf;
mod one_sided;
mod peers;
mod problems;
mod spans;
mod statements;
mod transfer;
mod units;

use std::collections::HashMap;

use crate::ir::{Location, Plan};
use crate::program::objects::NoMemory;
use crate::program::statements::Statements;
use crate::program::{Budget, DOES_NOT_FIT, Env, Layout, Objects, Op, Program, Shift, Unit, fits};
use crate::verdict::{Check, Problem, ProblemKind, Sizes};
use units::by_rank;

/// Operations of one instance at most, over all ranks: more is refused by name.
const MOST_OPERATIONS: usize = 3_500_000;

/// Buffers on a rank at most, each of an array and each copy counted.
const MOST_OBJECTS: u64 = 1 << 20;

/// Writes an instance out.
pub(crate) fn expand(
    plan: &Plan,
    statements: &Statements<'_>,
    sizes: &Sizes,
    budget: &mut Budget,
) -> Result<Program, Vec<Problem>> {
    let too_large = |title: String| {
        vec![Problem {
            kind: ProblemKind::TooLarge,
            title,
            at: Location::default(),
            sizes: Some(sizes.clone()),
            story: Vec::new(),
            help: vec!["check it for smaller sizes".to_owned()],
        }]
    };
    if !fits(plan) {
        return Err(too_large(DOES_NOT_FIT.to_owned()));
    }
    // What is laid out for every instance, however little it does.
    let ranks = sizes.extents.iter().fold(1_u64, |all, &extent| all.saturating_mul(extent as u64));
    let members = ranks.saturating_mul(plan.communicators.len() as u64);
    if !budget.take((members / 8).saturating_add(statements.places.len() as u64 / 32)) {
        return Err(too_large("this is more than what is checked".to_owned()));
    }
    let Some(layout) = Layout::new(plan, &sizes.extents) else {
        return Err(too_large("there are more than 4,194,304 ranks".to_owned()));
    };
    let objects = Objects::new(plan, &sizes.extents, &sizes.params, MOST_OBJECTS);
    let objects = objects.map_err(|why| {
        let (buffer, title) = match why {
            NoMemory::TooMany => {
                return too_large("there are more than 1,048,576 buffers on a rank".to_owned());
            }
            NoMemory::NoValue(buffer, why) => (buffer, why.to_string()),
            NoMemory::Negative(buffer, len) => (buffer, format!("this length is {len}")),
        };
        let buffer = &plan.buffers[buffer.index()];
        vec![Problem {
            kind: ProblemKind::Broken(Check::Bounds),
            title: format!("buffer `{}` has no length: {title}", buffer.name),
            at: buffer.at,
            sizes: Some(sizes.clone()),
            story: Vec::new(),
            help: vec!["say with `where` what holds of the parameters".to_owned()],
        }]
    })?;
    if !budget.take(objects.all.len() as u64) {
        return Err(too_large("this is more than what is checked".to_owned()));
    }
    let ranks = layout.size;
    let mut walk = Walk {
        plan,
        places: &statements.places,
        sizes,
        counters: vec![None; plan.counters.len()],
        objects: &objects,
        layout: &layout,
        budget,
        pending: Vec::new(),
        grouped: None,
        units: Vec::new(),
        ops: Vec::new(),
        problems: Vec::new(),
        stopped: false,
        shifts: Vec::new(),
        known_shifts: HashMap::new(),
        turn: 0,
        bounded: vec![false; statements.places.len()],
    };
    walk.steps(&statements.steps, &Active::All);
    let Walk { units, ops, mut problems, stopped, shifts, .. } = walk;
    if stopped {
        problems.extend(too_large("this is more than what is checked".to_owned()));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let (units, ops, begins) = by_rank(ranks, units, ops);
    Ok(Program {
        layout,
        objects,
        places: statements.places.clone(),
        units,
        begins,
        ops,
        streams: plan.streams.len(),
        communicators: plan.communicators.len(),
        shifts,
        exact: false,
    })
}

/// Which ranks run a statement.
enum Active {
    All,
    Some(Vec<bool>),
}

impl Active {
    fn is(&self, rank: usize) -> bool {
        match self {
            Self::All => true,
            Self::Some(ranks) => ranks[rank],
        }
    }
}

/// Which half of a transfer is issued, and to whom.
#[derive(Clone, Copy, PartialEq)]
enum Halves {
    Both,
    Sends,
    FromLower,
    FromHigher,
}

struct Walk<'a> {
    plan: &'a Plan,
    places: &'a [Location],
    sizes: &'a Sizes,
    counters: Vec<Option<i64>>,
    objects: &'a Objects,
    layout: &'a Layout,
    budget: &'a mut Budget,
    /// Operations of the statement or group at hand, with their ranks.
    pending: Vec<(u32, Op, u64)>,
    /// The group at hand.
    grouped: Option<u32>,
    units: Vec<Unit>,
    ops: Vec<Op>,
    problems: Vec<Problem>,
    /// Whether there is more than what is checked.
    stopped: bool,
    shifts: Vec<Shift>,
    /// Their places in the list.
    known_shifts: HashMap<Vec<(u32, i64, bool)>, u32>,
    /// How often a statement was issued.
    turn: u32,
    /// Statements of which a problem was told.
    bounded: Vec<bool>,
}

impl Walk<'_> {
    fn env(&self, rank: usize) -> Env<'_> {
        Env {
            extents: &self.sizes.extents,
            size: self.layout.size as i64,
            params: &self.sizes.params,
            counters: &self.counters,
            rank: rank as i64,
        }
    }

    fn spend(&mut self, work: u64) -> bool {
        if !self.budget.take(work) {
            self.stopped = true;
        }
        !self.stopped
    }
}
