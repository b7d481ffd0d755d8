//! What the plan says that messages, puts and steps fill, they fill, each element once (A13).

use typed_nccl_plan::verdict::Check;

use crate::expand;
use crate::instance::Instance;
use crate::number::Malformed;
use crate::outcome::Outcome;
use crate::unit::{Act, Span, Unit};

pub(crate) fn check(
    instance: &Instance<'_>,
    units: &[Vec<Unit>],
    outcome: &mut Outcome,
) -> Result<(), Malformed> {
    for coverage in &instance.plan.covers {
        for rank in 0..instance.ranks() {
            let span = expand::alone(instance, rank, &coverage.region, Check::Coverage, outcome)?;
            let mut written = vec![0; span.to - span.from];
            for one in arrivals(units, rank) {
                if one.meets(&span) {
                    for at in one.from.max(span.from)..one.to.min(span.to) {
                        written[at - span.from] += 1;
                    }
                }
            }
            if let Some(at) = written.iter().position(|&times| times != 1) {
                let (times, at) = (written[at], at + span.from);
                let text = || format!("rank {rank}: element {at} is written {times} times");
                outcome.note(Check::Coverage, text);
            }
        }
    }
    Ok(())
}

/// Where receives and puts write on a rank, and steps that do not read what they write.
fn arrivals(units: &[Vec<Unit>], rank: usize) -> impl Iterator<Item = &Span> {
    units.iter().enumerate().flat_map(move |(owner, units)| {
        let ops = units.iter().flat_map(|unit| &unit.ops);
        ops.flat_map(move |op| match &op.act {
            Act::Receive { to, .. } if owner == rank => vec![to],
            Act::Put { to, peer, .. } if *peer == rank => vec![to],
            Act::Compute { reads, writes, .. } if owner == rank => {
                let is_read = |to: &&Span| reads.iter().any(|from| from.meets(to));
                writes.iter().filter(|to| !is_read(to)).collect()
            }
            Act::Assign { to, of, .. } if owner == rank => {
                let is_read = of.iter().any(|(rank, from)| rank.is_none() && from.meets(to));
                if is_read { Vec::new() } else { vec![to] }
            }
            _ => Vec::new(),
        })
    })
}
