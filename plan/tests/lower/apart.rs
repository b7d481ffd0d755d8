//! The same plan with an empty compute step before every statement: nothing in it can be joined.

use typed_nccl_plan::ir::{Compute, Place, Plan, Step, StepKind};

pub(crate) const NAME: &str = "between";

pub(crate) fn apart(plan: &Plan) -> Plan {
    Plan { steps: steps(&plan.steps), ..plan.clone() }
}

pub(crate) fn has_sequences(steps: &[Step]) -> bool {
    steps.iter().any(|step| match &step.kind {
        StepKind::Sequence(_) => true,
        StepKind::Loop(this) => has_sequences(&this.body),
        StepKind::When(this) => has_sequences(&this.body),
        _ => false,
    })
}

fn steps(all: &[Step]) -> Vec<Step> {
    let mut apart = Vec::new();
    for step in all {
        let mut step = step.clone();
        match &mut step.kind {
            StepKind::Loop(this) => this.body = steps(&this.body),
            StepKind::When(this) => this.body = steps(&this.body),
            StepKind::Sequence(body) => {
                apart.extend(body.iter().filter_map(between));
                *body = steps(body);
            }
            _ => apart.extend(between(&step)),
        }
        apart.push(step);
    }
    apart
}

/// A step that does nothing, on the stream of this one.
fn between(step: &Step) -> Option<Step> {
    let on = match &step.kind {
        StepKind::Collective(this) => this.place.on,
        StepKind::Transfer(this) => this.place.on,
        StepKind::Send(this) => this.place.on,
        StepKind::Receive(this) => this.place.on,
        StepKind::Put(this) => this.place.on,
        StepKind::Signal(this) => this.place.on,
        StepKind::Wait(this) => this.place.on,
        StepKind::Group(body) => return body.iter().find_map(between),
        StepKind::When(this) => return this.body.iter().find_map(between),
        StepKind::Loop(this) => return this.body.iter().find_map(between),
        StepKind::Compute(_) | StepKind::Assign(_) | StepKind::Here(_) | StepKind::Sequence(_) => {
            return None;
        }
    };
    let place = Place { on, after: Vec::new() };
    let (arguments, reads, writes, computes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let name = NAME.to_owned();
    let kind = StepKind::Compute(Compute { name, arguments, reads, writes, computes, place });
    Some(Step { kind, at: step.at })
}
