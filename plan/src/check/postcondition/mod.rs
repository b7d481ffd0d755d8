//! A14: what the plan says it computes, followed by pieces of memory, whatever their lengths.

mod claims;
mod pieces;
mod run;
mod tell;
mod values;
mod watch;

use super::instance::Instance;
use super::links::Links;
use super::report::Report;
use crate::ir::Postcondition;
use crate::program::{Budget, NONE, Span};
use crate::verdict::Check;
use claims::{Stop, Wanted};
use pieces::{Pieces, together};
use run::{Run, collective};
use tell::Wrong;
use values::Values;

pub(crate) fn check(
    instance: &Instance<'_>,
    links: &Links,
    budget: &mut Budget,
    report: &mut Report<'_>,
) {
    let plan = instance.plan;
    if plan.computes.is_empty() && plan.claims.is_empty() && instance.program.heres.is_empty() {
        return;
    }
    let (wanted, watch) = match claims::wanted(instance, budget, report) {
        Ok(wanted) => wanted,
        Err(Stop::Reported) => return,
        Err(Stop::TooMuch) => return report.not_followed(),
    };
    let most = wanted.iter().map(Wanted::terms).max().unwrap_or(0);
    let mut values = Values::new(most.max(instance.program.ranks()).max(64));
    let Some(mut run) = Run::new(instance, links, watch, (&mut values, budget)) else {
        return report.not_followed();
    };
    let left = instance.plan.computes.iter().map(|claim| {
        let spans = spans(instance, claim);
        let recvs = (0..).zip(spans.iter().flatten());
        recvs.map(|(rank, (_, recv))| run.read(rank, *recv)).collect()
    });
    let left: Vec<Vec<Pieces>> = left.collect();
    let Some(watched) = run.watched() else {
        return report.not_followed();
    };
    let held: Vec<Pieces> = wanted.iter().map(|one| one.found(&mut run, &watched)).collect();
    for (claim, found) in instance.plan.computes.iter().zip(left) {
        if compare(instance, links, claim, &found, (&mut values, budget), report).is_none() {
            return report.not_followed();
        }
    }
    let mut wrong = None;
    for (one, found) in wanted.iter().zip(&held) {
        // One message for each line.
        if wrong == Some(one.at) {
            continue;
        }
        let expected = one.pieces(&watched, &mut values);
        if values.too_many() || !budget.take((expected.count() + found.count()) as u64) {
            return report.not_followed();
        }
        let of = (one.rank, one.before(), one.to);
        if let Some(is) = first_wrong(of, found, &expected, &values) {
            tell::tell(&is, None, one.at, (links, &values), report);
            wrong = Some(one.at);
        }
    }
}

/// What each rank would send and receive, or the rank on which that does not exist.
fn spans(instance: &Instance<'_>, claim: &Postcondition) -> Result<Vec<(Span, Span)>, usize> {
    let of = |rank: usize| {
        let env = instance.env(rank);
        let find = |region| instance.program.objects.span(region, rank, &env, None).ok();
        find(&claim.send).zip(find(&claim.recv)).ok_or(rank)
    };
    (0..instance.program.ranks()).map(of).collect()
}

/// Compares what a run leaves with what a collective would. `None` if that is too much.
fn compare(
    instance: &Instance<'_>,
    links: &Links,
    claim: &Postcondition,
    found: &[Pieces],
    (values, budget): (&mut Values, &mut Budget),
    report: &mut Report<'_>,
) -> Option<()> {
    let size = instance.program.ranks();
    let kind = claim.kind.with_root(());
    let root = match claim.kind.root().map(|root| instance.env(0).eval(root)) {
        None => 0,
        Some(Ok(root)) if (0..size as i64).contains(&root) => root as usize,
        Some(_) => {
            let title = "the root of what the plan computes is not a rank";
            let help = ["name a rank of the plan"];
            report.tell(Check::Bounds, claim.at, title, Vec::new(), &help);
            return Some(());
        }
    };
    let spans = match spans(instance, claim) {
        Ok(spans) => spans,
        Err(rank) => {
            let title = format!("a region of what the plan computes does not exist on rank {rank}");
            let help = ["change its range"];
            report.tell(Check::Bounds, claim.at, title, Vec::new(), &help);
            return Some(());
        }
    };
    // What was in `send` when the run began, as the plan's own initial values.
    let initial = |(rank, (send, _)): (u32, &(Span, Span))| {
        Pieces::one(send.len(), values.term((rank, send.object, send.start)))
    };
    let parts: Vec<Pieces> = (0..).zip(&spans).map(initial).collect();
    let parts: Vec<&Pieces> = parts.iter().collect();
    let spec = kind.spec();
    let sent = if spec.send.only_root { &parts[root..=root] } else { &parts };
    let uneven = sent.iter().any(|part| part.len() != sent[0].len());
    if uneven || (spec.send.is_whole && !sent[0].len().is_multiple_of(size as u64)) {
        let title =
            format!("what the plan says it computes is no {}: its parts differ", kind.name());
        let help = ["change the regions"];
        report.tell(Check::Postcondition, claim.at, title, Vec::new(), &help);
        return Some(());
    }
    for (rank, ((_, recv), found)) in spans.iter().zip(found).enumerate() {
        if !spec.recv.is_on(rank == root) {
            continue;
        }
        let expected = collective(kind, &parts, rank, root, NONE, values);
        if values.too_many() || !budget.take((expected.count() + found.count()) as u64) {
            return None;
        }
        let of = (rank as u32, None, *recv);
        if let Some(wrong) = first_wrong(of, found, &expected, values) {
            tell::tell(&wrong, Some(kind), claim.at, (links, values), report);
            return Some(());
        }
    }
    Some(())
}

/// The first element that is not what it should be, or that one of the two lacks.
fn first_wrong(
    (rank, before, recv): (u32, Option<u32>, Span),
    found: &Pieces,
    expected: &Pieces,
    values: &Values,
) -> Option<Wrong> {
    let value = |of: &Pieces, at| of.place(at).map(|place| values.at(place));
    let differs =
        |at| found.place(at) != expected.place(at) && value(found, at) != value(expected, at);
    let at = if found.len() == expected.len() {
        let pieces = together(&[found, expected], 0..found.len());
        pieces.into_iter().map(|piece| piece.start).find(|at| differs(*at))?
    } else {
        found.len().min(expected.len())
    };
    let (found, expected) = (value(found, at), value(expected, at));
    Some(Wrong { rank, before, recv, at, found, expected })
}
