//! A schedule's reasons as text.

use std::fmt::Write;

use super::schedule::{Schedule, WarmUp};
use crate::ir::{Location, Plan, StreamId};

impl Schedule {
    /// Explains what was joined and what was not, and which stream waits for which, as text for
    /// people. `plan` is the plan of this schedule and supplies the locations.
    pub fn explain(&self, plan: &Plan) -> String {
        let mut text = format!("`{}` for {}\n", self.plan, self.sizes.text);
        self.lines(plan, &mut text);
        text
    }

    fn lines(&self, plan: &Plan, text: &mut String) {
        let at = |at: Location| match plan.files.get(usize::from(at.file)) {
            Some(file) => format!("{file}:{}", at.line),
            None => format!("line {}", at.line),
        };
        let stream = |id: StreamId| plan.streams.get(id.index()).map_or("?", |one| &one.name);
        let mut line = |one: String| {
            text.push_str("  ");
            text.push_str(&one);
            text.push('\n');
        };
        for reason in &self.reasons {
            let both = match reason.first == reason.second {
                true => format!("{} and itself, run again", at(reason.first)),
                false => format!("{} and {}", at(reason.first), at(reason.second)),
            };
            let verdict = if reason.joined { "joined" } else { "not joined" };
            line(format!("{both}: {verdict}: {}", reason.why));
        }
        for wait in &self.why_waits {
            let run = if wait.carried { " of the run before" } else { "" };
            line(format!(
                "{}: stream `{}` waits for the event after {}{run}, on stream `{}`: {}",
                at(wait.waiter),
                stream(wait.stream),
                at(wait.recorder),
                stream(wait.other),
                wait.why
            ));
        }
        for one in &self.why_kernels {
            line(format!("{}: {}", at(one.at), one.why));
        }
        for one in &self.warm_ups {
            let name = |id: crate::ir::CommunicatorId| {
                plan.communicators.get(id.index()).map_or("?", |one| &one.name)
            };
            line(match one {
                WarmUp::Collectives(id) => {
                    format!("before the first run: `{}` connects for collectives", name(*id))
                }
                WarmUp::Connections { among, pairs } => {
                    let mut list = String::new();
                    for (a, b) in pairs.iter().take(8) {
                        // Writing to a string does not fail.
                        let _ = write!(list, " {a}-{b}");
                    }
                    let more = if pairs.len() > 8 { " and so on" } else { "" };
                    format!("before the first run: `{}` connects ranks{list}{more}", name(*among))
                }
                WarmUp::OneSided(id) => {
                    format!("before the first run: `{}` sets up signals on all ranks", name(*id))
                }
            });
        }
    }
}
