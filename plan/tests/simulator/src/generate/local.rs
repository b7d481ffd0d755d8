//! Compute steps that become assignments of what they read.

use typed_nccl_plan::ir::{Assign, Reduction, Region, Source, Step, StepKind};

use crate::make;
use crate::random::Random;

/// Makes assignments of some steps. Draws nothing from the plan's random numbers, so that the rest
/// of the plan is what it would be without.
pub(super) fn assign(steps: &mut [Step], random: &Random) {
    let mut own = Random::new(random.clone().next());
    convert(steps, &mut own);
}

fn convert(steps: &mut [Step], random: &mut Random) {
    for step in steps {
        if let Some(body) = make::body(step) {
            convert(body, random);
        }
        let StepKind::Compute(this) = &step.kind else { continue };
        let ([to], false) = (&this.writes[..], this.reads.is_empty()) else { continue };
        let (by, of) = match &this.computes[..] {
            [one] => (one.by, one.of.iter().map(|&at| this.reads[at as usize].clone()).collect()),
            _ => (*random.pick(&[Reduction::Sum, Reduction::Max]), this.reads.clone()),
        };
        let likely = if this.computes.is_empty() { 4 } else { 2 };
        if random.chance(1, likely) {
            let of: Vec<Region> = of;
            let of = of.into_iter().map(Source::own).collect();
            let (to, place) = (to.clone(), this.place.clone());
            step.kind = StepKind::Assign(Assign { to, by, of, place });
        }
    }
}
