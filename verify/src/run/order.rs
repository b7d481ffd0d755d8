//! The stories of uses without an order, of what is read unwritten, and of what is left over.

use typed_nccl_plan::ir::Location;
use typed_nccl_plan::verdict::{Check, Line, Problem, ProblemKind};

use super::memory::{Use, Who};
use super::{Play, remedy};
use crate::limits;

impl Play<'_> {
    pub(super) fn at(&self, who: Who) -> Location {
        match who {
            Who::Step { block, step } => {
                let steps = &self.program.blocks[block as usize].steps;
                steps.get(step as usize).map_or_else(Location::default, |step| step.at)
            }
            Who::User(rank) => self.program.begins[rank as usize],
        }
    }

    pub(super) fn rank(&self, who: Who) -> Option<usize> {
        Some(match who {
            Who::Step { block, .. } => self.program.blocks[block as usize].rank as usize,
            Who::User(rank) => rank as usize,
        })
    }

    /// `block 1, step 3 (rrc)`.
    pub(super) fn subject(&self, who: Who) -> String {
        match who {
            Who::Step { block, step } => {
                let block = &self.program.blocks[block as usize];
                match block.steps.get(step as usize) {
                    Some(step) => {
                        format!("block {}, step {} ({})", block.id, step.number, step.name)
                    }
                    None => format!("block {}", block.id),
                }
            }
            Who::User(_) => "its caller".to_owned(),
        }
    }

    /// Two uses of a cell without an order.
    pub(super) fn race(&mut self, cell: u32, earlier: Use, later: Use) {
        if self.races >= limits::PROBLEMS || !self.told.insert((earlier.who, later.who)) {
            return;
        }
        self.races += 1;
        let cell = self.program.cells.show(cell);
        let does = |used: &Use| match (used.who, used.writes) {
            (Who::User(_), true) => "uses it before the run",
            (Who::User(_), false) => "reads it after the run",
            (_, true) => "writes it",
            (_, false) => "reads it",
        };
        let between = earlier.run != later.run;
        let check = if between { Check::ReplayHazards } else { Check::Hazards };
        let line = |used: &Use, other: &Use| {
            let run = if between { format!(" in run {}", used.run + 1) } else { String::new() };
            Line {
                rank: self.rank(used.who),
                other: self.rank(other.who),
                at: self.at(used.who),
                text: format!("{}{run} {}", self.subject(used.who), does(used)),
            }
        };
        let is_step = matches!(later.who, Who::Step { .. });
        let at = self.at(if is_step { later.who } else { earlier.who });
        let problem = Problem {
            kind: ProblemKind::Broken(check),
            title: format!("{cell} is used by two without an order, one of which writes"),
            at,
            sizes: None,
            story: vec![line(&earlier, &later), line(&later, &earlier)],
            help: remedy::ordering(self.program, &earlier, &later),
        };
        self.tell(problem);
    }

    /// A step reads what nothing has written.
    pub(super) fn unwritten(&mut self, cell: u32, who: Who) {
        if self.unwritten.len() >= limits::PROBLEMS || !self.unwritten.insert(who) {
            return;
        }
        let cell = self.program.cells.show(cell);
        let problem = Problem {
            kind: ProblemKind::Broken(Check::Initialised),
            title: format!("{cell} is read, and nothing has written it"),
            at: self.at(who),
            sizes: None,
            story: vec![Line {
                rank: self.rank(who),
                other: None,
                at: self.at(who),
                text: format!("{} reads it", self.subject(who)),
            }],
            help: Vec::new(),
        };
        self.tell(problem);
    }

    /// Messages and signals that nobody took: the next run would take them for its own.
    pub(super) fn left_over(&mut self) {
        let program = self.program;
        let mut left = Vec::new();
        for (fifo, messages) in program.fifos.iter().zip(&self.fifos) {
            if !messages.is_empty() {
                left.push((
                    Check::Matching,
                    (fifo.from, fifo.to),
                    format!(
                        "rank {} sends {} messages to rank {} over channel {} that rank {} does \
                         not receive",
                        fifo.from,
                        messages.len(),
                        fifo.to,
                        fifo.channel,
                        fifo.to
                    ),
                ));
            }
        }
        for (signal, counter) in program.signals.iter().zip(&self.signals) {
            if !counter.posted.is_empty() {
                let runs = if program.runs > 1 {
                    format!(" in {} runs", program.runs)
                } else {
                    String::new()
                };
                left.push((
                    Check::Signals,
                    (signal.from, signal.to),
                    format!(
                        "rank {} raises {} signals for rank {} over {}{runs} that rank {} does not \
                         wait for",
                        signal.from,
                        counter.posted.len(),
                        signal.to,
                        signal.name,
                        signal.to
                    ),
                ));
            }
        }
        for (check, (from, to), title) in left.into_iter().take(limits::PROBLEMS) {
            let (at, sizes) = (program.begins[to as usize], None);
            let text = "takes those of the next run for these".to_owned();
            let story =
                vec![Line { rank: Some(to as usize), other: Some(from as usize), at, text }];
            let kind = ProblemKind::Broken(check);
            let problem = Problem { kind, title, at, sizes, story, help: Vec::new() };
            self.tell(problem);
        }
    }
}
