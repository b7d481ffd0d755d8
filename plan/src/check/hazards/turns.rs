//! In which turns of a loop two uses of the same memory are.

use super::super::report::Report;
use super::Clash;
use crate::ir::{Loop, Step, StepKind};
use crate::program;

/// A put and another use, both in one loop.
pub(super) struct Turns<'a> {
    around: &'a Loop,
    /// How often the loop ran before, for the put and for the other use, where that is known.
    turns: Option<(i64, i64)>,
    /// Whether the put is in a later turn, or the other use is.
    pub(super) later: (bool, bool),
}

impl Clash<'_> {
    /// The innermost loop around both uses, and their turns in it, if there is one.
    pub(super) fn turns<'a>(&self, report: &Report<'a>) -> Option<Turns<'a>> {
        let plan = report.plan();
        let (put, other) = (self.put.access.unit, self.other.unit);
        let statements = (self.ops().0.statement, self.ops().1.statement);
        let around = around(&plan.steps, statements)?;
        let turns = self.turn(around, put, report).zip(self.turn(around, other, report));
        let units = (self.unit(put), self.unit(other));
        // What is written after and runs before is in another turn.
        let later = match turns {
            Some((put, other)) => (put > other, other > put),
            None => (
                statements.0 < statements.1 && units.0.turn > units.1.turn,
                statements.1 < statements.0 && units.1.turn > units.0.turn,
            ),
        };
        Some(Turns { around, turns, later })
    }

    /// How often a loop ran before a unit did, if each turn of it runs the unit's statement once.
    fn turn(&self, around: &Loop, unit: u32, report: &Report<'_>) -> Option<i64> {
        let unit = unit % self.orders.units;
        let of = self.unit(unit);
        let count = turns(around, of.rank, report)?.most();
        let own = self.program.of_rank(of.rank as usize);
        let alike = own.filter(|&at| self.program.units[at].statement == of.statement);
        let alike: Vec<usize> = alike.collect();
        let nth = alike.iter().position(|&at| at == unit as usize)?;
        (alike.len() as u64 == count).then_some(nth as i64)
    }
}

impl Turns<'_> {
    /// The turn of the later use, as a prefix of its story: `in the next turn of the loop (step =
    /// 1) `.
    pub(super) fn when(&self, rank: u32, report: &Report<'_>) -> String {
        let Some((put, other)) = self.turns else {
            return "in a later turn of the loop ".to_owned();
        };
        let (turn, away) = (put.max(other), (put - other).abs());
        let which = if away == 1 { "the next" } else { "a later" };
        let counter = &report.plan().counters[self.around.counter.index()].name;
        let turns = turns(self.around, rank, report);
        match turns.and_then(|turns| turns.nth(turn)) {
            Some(value) => format!("in {which} turn of the loop ({counter} = {value}) "),
            None => format!("in {which} turn of the loop "),
        }
    }
}

fn turns(around: &Loop, rank: u32, report: &Report<'_>) -> Option<program::Turns> {
    program::Turns::of(around, &report.env(rank as usize)).ok()
}

/// The innermost loop that holds both statements, by their numbers.
fn around(steps: &[Step], (a, b): (u32, u32)) -> Option<&Loop> {
    let mut number = 0;
    inside(steps, (a, b), &mut number)
}

fn inside<'a>(steps: &'a [Step], (a, b): (u32, u32), number: &mut u32) -> Option<&'a Loop> {
    for step in steps {
        let first = *number;
        *number += 1;
        let inner = inside(step.body(), (a, b), number);
        let holds = |one: u32| (first + 1..*number).contains(&one);
        match &step.kind {
            _ if inner.is_some() => return inner,
            StepKind::Loop(this) if holds(a) && holds(b) => return Some(this),
            _ => {}
        }
    }
    None
}
