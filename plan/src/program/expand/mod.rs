//! Expands statements to units: all ranks traverse the statements in order, each with its own
//! bounds and guards.

mod collective;
mod distance;
mod leaf;
mod one_sided;
mod peers;
mod problems;
mod sources;
mod spans;
mod statements;
mod transfer;
mod units;

use std::cell::Cell;
use std::collections::HashMap;

use crate::ir::{Location, Plan};
use crate::program::objects::NoMemory;
use crate::program::statements::Statements;
use crate::program::{
    Budget, DOES_NOT_FIT, Env, Here, Layout, Objects, Op, Program, Shift, Unit, fits,
};
use crate::verdict::{Check, Problem, ProblemKind, Sizes};
use distance::Far;
use units::by_rank;

/// The most operations of one instance, over all ranks; larger ones are refused with a message.
const MOST_OPERATIONS: usize = 3_500_000;

/// The most buffers on a rank, counting each of an array and each copy.
const MOST_OBJECTS: u64 = 1 << 20;

/// Expands an instance.
pub(crate) fn expand(
    plan: &Plan,
    statements: &Statements<'_>,
    sizes: &Sizes,
    budget: &mut Budget,
) -> Result<Program, Vec<Problem>> {
    let (layout, objects) = laid_out(plan, statements, sizes, budget)?;
    let ranks = layout.size;
    let mut walk = Walk {
        plan,
        places: &statements.places,
        sizes,
        number: 0,
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
        stopped_at: None,
        shifts: Vec::new(),
        known_shifts: HashMap::new(),
        larger: distance::larger(&sizes.params),
        turn: 0,
        bounded: vec![false; statements.places.len()],
        counted: HashMap::new(),
        off_the_end: vec![Cell::default(); statements.places.len()],
        issued: vec![0; ranks],
        heres: Vec::new(),
    };
    walk.steps(&statements.steps, &Active::All);
    let Walk {
        units,
        ops,
        mut problems,
        stopped,
        stopped_at,
        shifts,
        counted,
        off_the_end,
        mut heres,
        ..
    } = walk;
    if stopped {
        let at = stopped_at.map_or_else(|| declared(plan), |at| statements.places[at as usize]);
        problems.push(too_large("this is more than what is checked", at, sizes));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let (units, ops, begins) = by_rank(ranks, units, ops);
    for here in &mut heres {
        here.ranks.iter_mut().zip(&begins).for_each(|((_, after), begin)| *after += begin);
    }
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
        counters: counted,
        exact: false,
        shared: Vec::new(),
        off_the_end: off_the_end.into_iter().map(Cell::into_inner).collect(),
        heres,
    }
    .with_units())
}

/// Counts what every instance allocates, however little it does: its ranks, and the memory of each.
fn laid_out(
    plan: &Plan,
    statements: &Statements<'_>,
    sizes: &Sizes,
    budget: &mut Budget,
) -> Result<(Layout, Objects), Vec<Problem>> {
    let too_large = |title| vec![too_large(title, declared(plan), sizes)];
    if !fits(plan) {
        return Err(too_large(DOES_NOT_FIT));
    }
    let ranks = sizes.extents.iter().fold(1_u64, |all, &extent| all.saturating_mul(extent as u64));
    let members = ranks.saturating_mul(plan.communicators.len() as u64);
    if !budget.take((members / 8).saturating_add(statements.places.len() as u64 / 32)) {
        return Err(too_large("this is more than what is checked"));
    }
    let Some(layout) = Layout::new(plan, &sizes.extents) else {
        return Err(too_large("there are more than 4,194,304 ranks"));
    };
    let objects = Objects::new(plan, &sizes.extents, &sizes.params, MOST_OBJECTS);
    let objects = objects.map_err(|why| {
        let (buffer, why) = match why {
            NoMemory::TooMany => {
                return too_large("there are more than 1,048,576 buffers on a rank");
            }
            NoMemory::NoValue(buffer, why) => (buffer, why.to_string()),
            NoMemory::Negative(buffer, len, rank) => {
                let uneven = plan.buffers[buffer.index()].len.mentions_rank();
                let on = if uneven { format!(" on rank {rank}") } else { String::new() };
                (buffer, format!("this length is {len}{on}"))
            }
        };
        let buffer = &plan.buffers[buffer.index()];
        let title = format!("buffer `{}` has no length: {why}", buffer.name);
        let (kind, help) = (ProblemKind::Broken(Check::Bounds), NO_VALUE);
        vec![Problem::new(kind, title, buffer.at, help).at_sizes(sizes)]
    })?;
    let uneven = objects.all.iter().filter(|object| object.len.same().is_none()).count() as u64;
    if !budget.take((objects.all.len() as u64).saturating_add(uneven.saturating_mul(ranks))) {
        return Err(too_large("this is more than what is checked"));
    }
    Ok((layout, objects))
}

/// The error for a check or a bind at sizes beyond the limits.
pub(crate) fn too_large(title: &str, at: Location, sizes: &Sizes) -> Problem {
    Problem::new(ProblemKind::TooLarge, title, at, "choose smaller sizes").at_sizes(sizes)
}

/// The declaration of the plan's ranks: the location of errors that no single statement causes.
pub(crate) fn declared(plan: &Plan) -> Location {
    plan.axes.first().map(|axis| axis.at).unwrap_or_default()
}

/// Help for a number without a value.
const NO_VALUE: &str = "say with `where` what holds of the parameters";

/// The ranks that run a statement.
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

/// The half of a transfer that is issued, and its receiver.
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
    /// The statement that is expanded.
    number: u32,
    counters: Vec<Option<i64>>,
    objects: &'a Objects,
    layout: &'a Layout,
    budget: &'a mut Budget,
    /// Operations of the current statement or group, with their ranks.
    pending: Vec<(u32, Op, u64)>,
    /// The current group.
    grouped: Option<u32>,
    units: Vec<Unit>,
    ops: Vec<Op>,
    problems: Vec<Problem>,
    /// Whether the limits were exceeded.
    stopped: bool,
    /// The statement that exceeded them.
    stopped_at: Option<u32>,
    shifts: Vec<Shift>,
    /// Their indices in the list.
    known_shifts: HashMap<Vec<Far>, u32>,
    /// The parameters in two much larger instances.
    larger: [Vec<Vec<i64>>; 2],
    /// How often each statement was issued.
    turn: u32,
    /// Statements for which a problem was reported.
    bounded: Vec<bool>,
    /// The counters in the turns of compute steps with numeric arguments.
    counted: HashMap<u32, Vec<Option<i64>>>,
    /// Of each statement, how often its peer along an open axis was a rank, and how often not.
    off_the_end: Vec<Cell<(u64, u64)>>,
    /// How many units each rank has.
    issued: Vec<u32>,
    /// The claims between statements.
    heres: Vec<Here>,
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
