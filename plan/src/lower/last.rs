//! The last unit issued.

use crate::program::{NONE, Program, Unit};

/// For each rank and stream, the unit that was issued last.
pub(super) struct Last {
    streams: usize,
    units: Vec<u32>,
}

impl Last {
    pub(super) fn new(program: &Program) -> Self {
        let streams = program.streams.max(1);
        Self { streams, units: vec![NONE; program.ranks() * streams] }
    }

    /// The last unit on this unit's stream.
    pub(super) fn before(&self, unit: &Unit) -> Option<u32> {
        Some(self.units[self.at(unit)]).filter(|&last| last != NONE)
    }

    pub(super) fn issue(&mut self, unit: &Unit, at: u32) {
        let slot = self.at(unit);
        self.units[slot] = at;
    }

    fn at(&self, unit: &Unit) -> usize {
        unit.rank as usize * self.streams + usize::from(unit.stream)
    }
}
