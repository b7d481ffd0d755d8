//! What surrounds a run on each rank: its user fills the input before, and reads the output after.

use std::rc::Rc;

use super::{Play, Position, Wanted};
use crate::cells::Buffer;

impl Play<'_> {
    /// All ranks begin.
    pub(super) fn start(&mut self) {
        for rank in 0..self.program.ranks() {
            self.begin(rank, 0);
            if self.running[rank as usize] == 0 {
                self.read_output(rank, 0);
            }
        }
    }

    /// A block has come to the end of its run; the last one of its rank ends the run.
    pub(super) fn end(&mut self, block: u32) -> Result<bool, Wanted> {
        let rank = self.program.blocks[block as usize].rank;
        self.running[rank as usize] -= 1;
        if self.running[rank as usize] > 0 {
            return Ok(false);
        }
        let run = self.positions[block as usize].run;
        let user = self.lines.user(rank);
        for block in self.blocks(rank) {
            for line in [self.lines.leader(block), self.lines.others(block)] {
                self.lines.join(user, line);
            }
        }
        self.read_output(rank, run);
        if run + 1 < self.program.runs {
            self.begin(rank, run + 1);
        }
        Ok(false)
    }

    pub(super) fn blocks(&self, rank: u32) -> std::ops::Range<u32> {
        let blocks = &self.program.blocks;
        let begin = blocks.partition_point(|block| block.rank < rank);
        let end = blocks.partition_point(|block| block.rank <= rank);
        begin as u32..end as u32
    }

    /// The user fills the input, may do as it likes with the output, and starts the blocks.
    fn begin(&mut self, rank: u32, run: u32) {
        let cells = &self.program.cells;
        let outputs = cells.all(rank, Buffer::Output).map(|cell| (cell, None));
        let inputs = (0..).zip(cells.all(rank, Buffer::Input)).map(|(at, cell)| {
            let number = self.inputs.number(rank, at);
            (cell, number.map(|number| Rc::from([(number, 1)])))
        });
        let all: Vec<_> = outputs.chain(inputs).collect();
        for (cell, value) in all {
            let mut used = self.lines.used_by_user(rank, run);
            used.writes = true;
            let race = self.memory.write(cell, value, used, &self.lines.pasts);
            if let Some(earlier) = race {
                self.race(cell, earlier, used);
            }
        }
        let user = self.lines.user(rank);
        let known = Rc::new(self.lines.past(user).clone());
        let blocks = self.blocks(rank);
        self.running[rank as usize] = blocks.len() as u32;
        for block in blocks {
            for line in [self.lines.leader(block), self.lines.others(block)] {
                self.lines.learn(line, &known);
            }
            self.began[block as usize] = Rc::clone(&known);
            self.flags[block as usize].clear();
            self.positions[block as usize] = Position { run, ..Position::default() };
            self.ready.push_back(block);
        }
    }

    /// The user reads the output, and compares it with what the schedule claims.
    fn read_output(&mut self, rank: u32, run: u32) {
        let cells: Vec<u32> = self.program.cells.all(rank, Buffer::Output).collect();
        for &cell in &cells {
            let used = self.lines.used_by_user(rank, run);
            let race = self.memory.read(cell, used, &self.lines.pasts);
            if let Some(earlier) = race {
                self.race(cell, earlier, used);
            }
        }
        self.compare(rank, run, &cells);
    }
}
