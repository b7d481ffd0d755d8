//! Errors of a builder, which `check` reports with their location; nothing panics.

use std::panic;

use super::arena::Stamp;
use super::number::Number;
use super::{Open, PlanBuilder};
use crate::ir::shape::{self, LARGE_PLAN};
use crate::ir::{Expr, Location, MOST_PARTS, MOST_PROBLEMS};
use crate::verdict::{Problem, ProblemKind};

pub(crate) const FOREIGN: &str = "this belongs to another plan, or to a builder that is gone";

impl PlanBuilder<Open> {
    /// The caller's location, in the plan's files.
    #[track_caller]
    pub(crate) fn here(&mut self) -> Location {
        let caller = panic::Location::caller();
        let files = &mut self.plan.files;
        let known = files.iter().position(|file| file == caller.file());
        let file = known.unwrap_or_else(|| {
            files.push(caller.file().to_owned());
            files.len() - 1
        });
        let file = u16::try_from(file).unwrap_or(u16::MAX);
        Location { file, line: caller.line(), column: caller.column() }
    }

    /// Records that the caller's statement cannot be part of the plan.
    #[track_caller]
    pub(crate) fn fault(&mut self, title: &str) {
        let at = self.here();
        let help = match title {
            FOREIGN => {
                "use what this builder declared: its handles and numbers are for its plan alone"
            }
            _ => shape::help(title).unwrap_or("declare what the plan needs at this place"),
        };
        if self.state.faults.len() < MOST_PROBLEMS {
            let title = title.to_owned();
            self.state.faults.push(Problem::new(ProblemKind::Malformed, title, at, help));
        }
    }

    /// Records a handle of another builder.
    #[track_caller]
    pub(crate) fn belongs(&mut self, stamp: Stamp) {
        if stamp != self.stamp() {
            self.fault(FOREIGN);
        }
    }

    /// The expression of a number in this plan.
    #[track_caller]
    pub(crate) fn expr(&mut self, number: Number) -> Expr {
        // No closures on the way to `fault`: they would hide the caller.
        if !self.has_room(number.0.size()) {
            self.fault(LARGE_PLAN);
            return Expr::Int(0);
        }
        match number.0.expr(self.stamp()) {
            Ok(expr) => expr,
            Err(why) => {
                self.fault(why);
                Expr::Int(0)
            }
        }
    }

    /// Counts parts about to be added, and returns whether the limit allows them.
    pub(crate) fn has_room(&mut self, parts: usize) -> bool {
        self.state.parts = self.state.parts.saturating_add(parts);
        self.state.parts <= MOST_PARTS
    }
}
