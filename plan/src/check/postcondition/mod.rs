//! A14: what the plan says it computes, followed element by element.

mod run;
mod tell;
mod values;

use super::instance::Instance;
use super::links::Links;
use super::report::Report;
use crate::ir::Postcondition;
use crate::program::{Budget, NONE, Span};
use crate::verdict::Check;
use run::{Run, collective};
use values::Values;

pub(crate) fn check(
    instance: &Instance<'_>,
    links: &Links,
    budget: &mut Budget,
    report: &mut Report<'_>,
) {
    if instance.plan.computes.is_empty() {
        return;
    }
    let program = instance.program;
    let elements = program.objects.all.iter().map(|object| object.len);
    let elements = elements.fold(0_u64, u64::saturating_add);
    let moved = program.ops.iter().map(|op| op.source.len().max(op.target.len()));
    let moved = moved.fold(0_u64, u64::saturating_add);
    let work = elements.saturating_mul(program.ranks() as u64).saturating_add(moved);
    if work > 1 << 20 || !budget.take(work) {
        return report.too_large("following every element of the buffers");
    }
    let mut values = Values::new(program.ranks().max(64));
    let left: Vec<Vec<Vec<u32>>> = {
        let run = Run::new(instance, links, &mut values);
        let claims = instance.plan.computes.iter();
        let spans = claims.map(|claim| spans(instance, claim));
        let read = |(rank, (_, recv)): (u32, &(Span, Span))| run.read(rank, *recv);
        spans.map(|spans| (0..).zip(spans.iter().flatten()).map(read).collect()).collect()
    };
    for (claim, found) in instance.plan.computes.iter().zip(left) {
        if values.too_many || !budget.take(work) {
            return report.too_large("following every element of the buffers");
        }
        compare(instance, links, claim, &found, &mut values, report);
    }
}

/// What each rank would send and receive, or the rank on which that does not exist.
fn spans(instance: &Instance<'_>, claim: &Postcondition) -> Result<Vec<(Span, Span)>, usize> {
    let of = |rank: usize| {
        let env = instance.env(rank);
        let find = |region| instance.program.objects.span(region, &env, None).ok();
        find(&claim.send).zip(find(&claim.recv)).ok_or(rank)
    };
    (0..instance.program.ranks()).map(of).collect()
}

/// Compares what a run leaves with what a collective would.
fn compare(
    instance: &Instance<'_>,
    links: &Links,
    claim: &Postcondition,
    found: &[Vec<u32>],
    values: &mut Values,
    report: &mut Report<'_>,
) {
    let size = instance.program.ranks();
    let kind = claim.kind.with_root(());
    let root = match claim.kind.root().map(|root| instance.env(0).eval(root)) {
        None => 0,
        Some(Ok(root)) if (0..size as i64).contains(&root) => root as usize,
        Some(_) => {
            let title = "the root of what the plan computes is not a rank";
            let help = ["name a rank of the plan"];
            return report.tell(Check::Bounds, claim.at, title, Vec::new(), &help);
        }
    };
    let spans = match spans(instance, claim) {
        Ok(spans) => spans,
        Err(rank) => {
            let title = format!("a region of what the plan computes does not exist on rank {rank}");
            let help = ["change its range"];
            return report.tell(Check::Bounds, claim.at, title, Vec::new(), &help);
        }
    };
    // What was in `send` when the run began, as the plan's own initial values.
    let initial = |(rank, (send, _)): (u32, &(Span, Span))| -> Vec<u32> {
        (send.start..send.end).map(|at| values.term((rank, send.object, at))).collect()
    };
    let parts: Vec<Vec<u32>> = (0..).zip(&spans).map(initial).collect();
    let parts: Vec<&[u32]> = parts.iter().map(Vec::as_slice).collect();
    let uneven = parts.iter().any(|part| part.len() != parts[0].len());
    let spec = kind.spec();
    if uneven || (spec.send.is_whole && !parts[0].len().is_multiple_of(size)) {
        let title =
            format!("what the plan says it computes is no {}: its parts differ", kind.name());
        let help = ["change the regions"];
        return report.tell(Check::Postcondition, claim.at, title, Vec::new(), &help);
    }
    for (rank, ((_, recv), found)) in spans.iter().zip(found).enumerate() {
        if !spec.recv.is_on(rank == root) {
            continue;
        }
        let expected = collective(kind, &parts, rank, root, NONE, values);
        let wrong = if expected.len() == found.len() {
            (0..found.len()).find(|&at| found[at] != expected[at])
        } else {
            Some(expected.len().min(found.len()))
        };
        if let Some(at) = wrong {
            let wrong = tell::Wrong {
                rank: rank as u32,
                recv: *recv,
                at: at as u64,
                found: found.get(at).copied(),
                expected: expected.get(at).copied(),
            };
            return tell::tell(&wrong, kind, claim.at, (links, values), report);
        }
    }
}
