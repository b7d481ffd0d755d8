//! Whether a plan ends (A5, A6): runs it under all that may have to wait, until nothing moves.

use typed_nccl_plan::verdict::Check;

use crate::link::{Linked, credit};
use crate::machine::{Machine, Rules};
use crate::outcome::Outcome;

pub(crate) fn check(linked: &Linked<'_>, outcome: &mut Outcome) {
    if let Some(story) = stuck(linked, Rules::Blocks { credit: false }) {
        outcome.note(Check::Deadlock, || story);
    } else if credit(linked.instance)
        && let Some(story) = stuck(linked, Rules::Blocks { credit: true })
    {
        outcome.note(Check::CapturedCredit, || story);
    }
}

fn stuck(linked: &Linked<'_>, rules: Rules) -> Option<String> {
    let mut machine = Machine::new(linked, rules);
    machine.run(|_| {});
    let stuck = machine.stuck();
    if stuck.is_empty() {
        return None;
    }
    let mut story = String::from("nothing moves:");
    for stream in stuck {
        let (node, started) = machine.standing(stream);
        let state = if started { "is in" } else { "waits to start" };
        let stream = linked.unit(node).stream;
        story += &format!("\n    {}, stream {stream}: {state}", linked.name(node));
    }
    Some(story)
}
