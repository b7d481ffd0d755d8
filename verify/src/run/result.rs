//! What each rank's output has to hold in the end.

use std::rc::Rc;

use typed_nccl_plan::ir::Location;
use typed_nccl_plan::verdict::{Check, Line, Problem, ProblemKind};

use super::Play;
use super::memory::Who;
use super::value::Value;
use crate::cells::Buffer;
use crate::limits;
use crate::program::Collective;

impl Play<'_> {
    /// Compares a rank's output with what the schedule claims to compute.
    pub(super) fn compare(&mut self, rank: u32, run: u32, cells: &[u32]) {
        if self.program.collective == Collective::Custom || self.wrong_ranks >= limits::PROBLEMS {
            return;
        }
        let mut wrong = Vec::new();
        for (at, &cell) in (0..).zip(cells) {
            let Some(wanted) = self.expected(rank, at) else { continue };
            self.work += wanted.len() as u64;
            let found = self.memory.value(cell);
            let is_right = found.as_ref().is_some_and(|found| found[..] == wanted[..]);
            if !is_right {
                wrong.push((at, cell, wanted));
            }
        }
        let Some((at, cell, wanted)) = wrong.first() else { return };
        self.wrong_ranks += 1;
        let problem = self.wrong((rank, run), (*at, *cell), wanted, wrong.len());
        self.tell(problem);
    }

    /// The inputs whose sum a cell of the output has to be, if anything is claimed of it.
    fn expected(&self, rank: u32, at: u32) -> Option<Vec<(u32, u32)>> {
        let (cells, inputs) = (&self.program.cells, &self.inputs);
        let ranks = cells.ranks();
        let count = |rank: u32, buffer: Buffer| cells.chunks(rank, buffer) * cells.fine;
        let one = |rank: u32, at: u32| inputs.number(rank, at).map(|number| vec![(number, 1)]);
        let all = |at: u32| {
            let numbers = (0..ranks).filter_map(|rank| inputs.number(rank, at));
            Some(numbers.map(|number| (number, 1)).collect())
        };
        match self.program.collective {
            Collective::AllReduce => all(at),
            Collective::Reduce => (rank == 0).then(|| all(at)).flatten(),
            // There are far fewer cells than numbers of 32 bits.
            Collective::ReduceScatter => {
                all(rank.saturating_mul(count(rank, Buffer::Output)).saturating_add(at))
            }
            Collective::AllGather => {
                let share = count(rank, Buffer::Input).max(1);
                one(at / share, at % share)
            }
            Collective::AllToAll => {
                let share = (count(rank, Buffer::Input) / ranks).max(1);
                one(at / share, rank * share + at % share)
            }
            Collective::Broadcast => one(0, at),
            Collective::Shift => one((rank + ranks - 1) % ranks, at),
            Collective::Custom => None,
        }
    }

    fn wrong(
        &self,
        (rank, run): (u32, u32),
        (at, cell): (u32, u32),
        wanted: &[(u32, u32)],
        count: usize,
    ) -> Problem {
        let chunk = at / self.program.cells.fine;
        let more = match count {
            1 => String::new(),
            many => format!(", and {} more", many - 1),
        };
        let after = if run > 0 { format!(" after run {}", run + 1) } else { String::new() };
        let writer = self.memory.writer(cell);
        let writer = writer.filter(|writer| matches!(writer.who, Who::Step { .. }));
        let place = writer.map_or(self.program.begins[rank as usize], |writer| self.at(writer.who));
        let line =
            |at: Location, text: String| Line { rank: Some(rank as usize), other: None, at, text };
        let wanted: Value = Some(Rc::from(wanted));
        let found = self.inputs.show(self.memory.value(cell));
        let mut story = vec![
            line(place, format!("has to have {}", self.inputs.show(&wanted))),
            line(place, format!("has {found}")),
        ];
        if let Some(writer) = writer {
            let text = format!("{} wrote it last", self.subject(writer.who));
            story.push(Line { rank: self.rank(writer.who), ..line(place, text) });
        }
        Problem {
            kind: ProblemKind::Broken(Check::Postcondition),
            title: format!("rank {rank}{after} has the wrong data in output chunk {chunk}{more}"),
            at: place,
            sizes: None,
            story,
            help: Vec::new(),
        }
    }
}
