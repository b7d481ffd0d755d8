//! What operations and units do, as verbs with what they are about.

use super::report::Report;
use crate::ir::{Step, StepKind, show_reduced};
use crate::program::{NONE, Op, OpKind, Unit};

impl Report<'_> {
    /// What an operation of a run of that number does.
    pub(crate) fn does_in(&self, op: &Op, run: u32) -> String {
        let mut op = op.clone();
        for span in [&mut op.source, &mut op.target] {
            span.object = self.program.objects.in_run(span.object, run as usize);
        }
        self.does(&op)
    }

    /// What an operation does, as a verb: "sends `a` to rank 1".
    pub(crate) fn does(&self, op: &Op) -> String {
        match op.kind {
            OpKind::Read => format!("reads {}", self.name(op.source)),
            OpKind::Get => format!("reads {} of rank {}", self.name(op.source), op.peer),
            OpKind::Write => format!("writes {}", self.name(op.target)),
            OpKind::Send => format!("sends {} to rank {}", self.name(op.source), op.peer),
            OpKind::Receive => format!("receives {} from rank {}", self.name(op.target), op.peer),
            OpKind::Put => {
                let mut text = format!(
                    "puts {} into {} of rank {}",
                    self.name(op.source),
                    self.name(op.target),
                    op.peer
                );
                if op.signal != NONE {
                    text += &format!(", with signal `{}`", self.signal(op.signal));
                }
                text
            }
            OpKind::Signal => {
                format!("raises signal `{}` at rank {}", self.signal(op.signal), op.peer)
            }
            OpKind::Wait if op.times == 1 => {
                format!("waits for signal `{}` of rank {}", self.signal(op.signal), op.peer)
            }
            OpKind::Wait => format!(
                "waits for {} signals `{}` of rank {}",
                op.times,
                self.signal(op.signal),
                op.peer
            ),
            OpKind::Collective(kind) => {
                let among = if op.communicator == 0 { "among" } else { "on" };
                format!("runs {} {among} {}", kind.name(), self.communicator_name(op.communicator))
            }
        }
    }

    /// What a unit does.
    pub(crate) fn unit_does(&self, unit: u32) -> String {
        let of = &self.program.units[unit as usize];
        let ops = self.program.ops_of(of);
        if of.is_compute {
            return self.work_does(of);
        }
        match ops {
            [] => "does nothing".to_owned(),
            [op] => self.does(op),
            [first, second] => {
                format!("in one group {} and {}", self.does(first), self.does(second))
            }
            [first, ..] => {
                format!("in one group of {} {} and so on", ops.len(), self.does(first))
            }
        }
    }

    /// A source of an assignment: "`u` [0, 4) of rank 1".
    fn named(&self, op: &Op) -> String {
        match op.kind {
            OpKind::Get => format!("{} of rank {}", self.name(op.source), op.peer),
            _ => self.name(op.source),
        }
    }

    /// What local work does: "runs `add`", "computes `b` += `a`".
    pub(crate) fn work_does(&self, unit: &Unit) -> String {
        match Step::nth(&self.plan().steps, unit.statement).map(|step| &step.kind) {
            Some(StepKind::Compute(this)) => format!("runs `{}`", this.name),
            Some(StepKind::Assign(this)) => {
                let ops = self.program.ops_of(unit).iter();
                let (writes, reads): (Vec<_>, Vec<_>) =
                    ops.partition(|op| op.kind == OpKind::Write);
                let of: Vec<String> = reads.iter().map(|op| self.named(op)).collect();
                let to = writes.first().map_or_else(String::new, |op| self.name(op.target));
                format!("computes {}", show_reduced(&to, this.by, &of))
            }
            _ => "computes".to_owned(),
        }
    }
}
