//! Cells: what they hold, and who used them last. Two uses of which neither comes first, and one
//! writes, are a race.

use std::rc::Rc;

use typed_nccl_match::Clock;

use super::value::Value;

/// A step of a block, or a rank's user before and after a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Who {
    Step { block: u32, step: u32 },
    User(u32),
}

/// A use of a cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub(crate) who: Who,
    pub(crate) run: u32,
    pub(crate) writes: bool,
    /// Its threads' events. If it has one thread, both are the same.
    pub(crate) events: [(u32, u64); 2],
}

#[derive(Clone, Default)]
struct Cell {
    value: Value,
    write: Option<Use>,
    reads: Vec<Use>,
    /// If it holds a packet: the run of it, counted from 1, and what its writer began with.
    packet: Option<(u32, Rc<Clock>)>,
}

pub(crate) struct Memory {
    cells: Vec<Cell>,
}

impl Memory {
    pub(crate) fn new(cells: u32) -> Self {
        Self { cells: vec![Cell::default(); cells as usize] }
    }

    pub(crate) fn value(&self, cell: u32) -> &Value {
        &self.cells[cell as usize].value
    }

    pub(crate) fn writer(&self, cell: u32) -> Option<Use> {
        self.cells[cell as usize].write
    }

    pub(crate) fn packet(&self, cell: u32) -> Option<&(u32, Rc<Clock>)> {
        self.cells[cell as usize].packet.as_ref()
    }

    /// Reads a cell. Returns an unordered write, if there is one.
    pub(crate) fn read(&mut self, cell: u32, by: Use, clocks: &[Clock]) -> Option<Use> {
        let cell = &mut self.cells[cell as usize];
        let race = cell.write.filter(|write| !ordered(write, &by, clocks));
        cell.reads.retain(|read| !ordered(read, &by, clocks));
        cell.reads.push(by);
        race
    }

    /// Reads a packet, whose flag says that this run's write is complete.
    pub(crate) fn read_packet(&mut self, cell: u32, by: Use, clocks: &[Clock]) {
        let cell = &mut self.cells[cell as usize];
        cell.reads.retain(|read| !ordered(read, &by, clocks));
        cell.reads.push(by);
    }

    /// Writes a cell. Returns a use that is not ordered with it, if there is one.
    pub(crate) fn write(
        &mut self,
        cell: u32,
        value: Value,
        by: Use,
        clocks: &[Clock],
    ) -> Option<Use> {
        let cell = &mut self.cells[cell as usize];
        let earlier = cell.reads.iter().chain(&cell.write);
        let race = earlier.copied().find(|earlier| !ordered(earlier, &by, clocks));
        cell.reads.clear();
        cell.write = Some(by);
        cell.value = value;
        cell.packet = None;
        race
    }

    /// Makes a packet of what was just written.
    pub(crate) fn seal(&mut self, cell: u32, run: u32, clock: Rc<Clock>) {
        self.cells[cell as usize].packet = Some((run + 1, clock));
    }
}

/// Whether an earlier use comes before a later one for every thread of both. A step does not race
/// with itself.
fn ordered(earlier: &Use, later: &Use, clocks: &[Clock]) -> bool {
    if earlier.who == later.who && earlier.run == later.run {
        return true;
    }
    let knows = |line: u32| {
        earlier.events.iter().all(|&(of, event)| clocks[line as usize].knows(of as usize, event))
    };
    later.events.iter().all(|&(line, _)| knows(line))
}
