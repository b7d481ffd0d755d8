//! Joins groups, checks the whole like any plan, and splits groups for which that fails.

use std::collections::HashSet;

use super::greedy::{Groups, groups};
use super::joined::Joined;
use super::schedule::Reason;
use super::turns::Turns;
use super::words::Words;
use crate::check::Instance;
use crate::ir::Location;
use crate::program::Program;
use crate::verdict::{Problem, Rejected};

/// Joins what can be joined. Every rule that the plan keeps is kept by what comes out, and the same
/// operations belong together: the checks say so, of the joined program as of any.
///
/// # Errors
///
/// It takes too long.
pub(super) fn settle(
    instance: &Instance<'_>,
    words: &Words<'_>,
) -> Result<(Vec<u32>, Vec<Reason>), Rejected> {
    let program = instance.program;
    let links = instance.links()?;
    let (turns, mut groups) = groups(instance, &links, words)?;
    loop {
        instance.in_time()?;
        let joined = Joined::new(program, &groups.of);
        if joined.program.units.len() == program.units.len() {
            break;
        }
        let whole = Instance { program: &joined.program, ..*instance };
        let problems = whole.problems()?;
        if let Some(first) = problems.first() {
            let places = named(&problems);
            let why = format!("in one group: {}", first.title);
            if !take_apart(program, &turns, &mut groups, &why, |at| places.contains(&at)) {
                take_apart(program, &turns, &mut groups, &why, |_| true);
            }
        } else if joined.keeps(&links, &whole.links()?) {
            break;
        } else {
            let why = "in one group: their operations would meet others";
            take_apart(program, &turns, &mut groups, why, |_| true);
        }
    }
    let reasons = reasons(program, &turns, &groups);
    Ok((groups.of, reasons))
}

/// All locations in the problems.
fn named(problems: &[Problem]) -> HashSet<Location> {
    let lines = problems.iter().flat_map(|problem| problem.story.iter().map(|line| line.at));
    problems.iter().map(|problem| problem.at).chain(lines).collect()
}

/// Splits groups with a statement at such a location. Returns whether there was one.
fn take_apart(
    program: &Program,
    turns: &Turns,
    groups: &mut Groups,
    why: &str,
    is_at: impl Fn(Location) -> bool,
) -> bool {
    let is_named = |turn: u32| {
        turns.units(turn as usize).iter().any(|&at| {
            let unit = &program.units[at as usize];
            let ops = program.ops_of(unit).iter().map(|op| op.statement);
            ops.chain([unit.statement]).any(|statement| is_at(program.place(statement)))
        })
    };
    let mut apart = HashSet::new();
    for group in 0..groups.turns.len() {
        if groups.turns[group].len() > 1 && groups.turns[group].iter().any(|&turn| is_named(turn)) {
            let rest = groups.turns[group].split_off(1);
            apart.extend(rest.iter().copied());
            for turn in rest {
                groups.of[turn as usize] = groups.turns.len() as u32;
                groups.turns.push(vec![turn]);
            }
        }
    }
    for pair in &mut groups.pairs {
        if pair.apart.is_none() && apart.contains(&pair.second) {
            pair.apart = Some(why.to_owned());
        }
    }
    !apart.is_empty()
}

fn reasons(program: &Program, turns: &Turns, groups: &Groups) -> Vec<Reason> {
    let at = |turn: u32| program.at(turns.units(turn as usize)[0] as usize);
    let mut told = HashSet::new();
    let mut reasons = Vec::new();
    for pair in &groups.pairs {
        let (first, second) = (at(pair.first), at(pair.second));
        let joined = pair.apart.is_none();
        let why = pair.apart.as_deref().unwrap_or(
            "neither waits for anything that the other need not wait for, and they touch different memory",
        );
        if told.insert((first, second, why)) {
            reasons.push(Reason { first, second, joined, why: why.to_owned() });
        }
    }
    reasons
}
