//! Cells: what they hold, and who used them last. Two uses of which neither comes first, and one
//! writes, are a race.

use std::rc::Rc;

use super::lines::Past;
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
    /// The last write, and those after it that wrote the same again.
    writes: Vec<Use>,
    reads: Vec<Use>,
    packet: Option<Packet>,
}

/// What a cell's flag tells.
#[derive(Clone)]
pub(crate) struct Packet {
    pub(crate) run: u32,
    pub(crate) past: Rc<Past>,
    pub(crate) began: Rc<Past>,
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
        self.cells[cell as usize].writes.last().copied()
    }

    pub(crate) fn packet(&self, cell: u32) -> Option<&Packet> {
        self.cells[cell as usize].packet.as_ref()
    }

    /// Reads a cell. Returns an unordered write, if there is one.
    pub(crate) fn read(&mut self, cell: u32, by: Use, pasts: &[Past]) -> Option<Use> {
        let cell = &mut self.cells[cell as usize];
        let is_ordered = cell.writes.iter().any(|write| ordered(write, &by, pasts));
        let race = cell.writes.first().copied().filter(|_| !is_ordered);
        cell.read(by, pasts);
        race
    }

    /// Reads a packet, whose flag says that this run's write is complete.
    pub(crate) fn read_packet(&mut self, cell: u32, by: Use, pasts: &[Past]) {
        self.cells[cell as usize].read(by, pasts);
    }

    /// Writes a cell. Returns a use that is not ordered with it, if there is one.
    pub(crate) fn write(
        &mut self,
        cell: u32,
        value: Value,
        by: Use,
        pasts: &[Past],
    ) -> Option<Use> {
        let cell = &mut self.cells[cell as usize];
        if cell.has_it_already(&value, by) {
            cell.writes.push(by);
            return None;
        }
        let mut earlier = cell.reads.iter().chain(&cell.writes);
        let race = earlier.find(|earlier| !ordered(earlier, &by, pasts)).copied();
        cell.reads.clear();
        cell.writes.clear();
        cell.writes.push(by);
        cell.value = value;
        cell.packet = None;
        race
    }

    /// Makes a packet of what was just written.
    pub(crate) fn seal(&mut self, cell: u32, packet: Packet) {
        self.cells[cell as usize].packet = Some(packet);
    }
}

impl Cell {
    fn read(&mut self, by: Use, pasts: &[Past]) {
        self.reads.retain(|read| !ordered(read, &by, pasts));
        self.reads.push(by);
    }

    /// Whether the same bytes were written in the same run: an input, not a sum, which may have
    /// been added up in another order. To write them again changes nothing for anybody.
    fn has_it_already(&self, value: &Value, by: Use) -> bool {
        let is_input = value.as_ref().is_some_and(|value| matches!(value[..], [(_, 1)]));
        let same_run = self.writes.last().is_some_and(|write| write.run == by.run);
        is_input && same_run && self.value == *value && matches!(by.who, Who::Step { .. })
    }
}

/// Whether an earlier use comes before a later one for every thread of both. A step does not race
/// with itself.
fn ordered(earlier: &Use, later: &Use, pasts: &[Past]) -> bool {
    if earlier.who == later.who && earlier.run == later.run {
        return true;
    }
    let knows = |line: u32| {
        let past = &pasts[line as usize];
        let clock = if earlier.writes { &past.seen } else { &past.done };
        earlier.events.iter().all(|&(of, event)| clock.knows(of as usize, event))
    };
    later.events.iter().all(|&(line, _)| knows(line))
}
