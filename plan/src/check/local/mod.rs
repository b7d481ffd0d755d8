//! What waits for what on one rank: streams, communicators, `after`, memory.

mod parts;
mod state;

use super::alike;
use crate::program::Program;
use state::State;
pub(crate) use state::{Reason, bits, reason, reasons};

/// The start of a unit, as a node of a graph of events.
pub(crate) fn start(unit: u32) -> u32 {
    2 * unit
}

/// The end of a unit, as a node.
pub(crate) fn end(unit: u32) -> u32 {
    2 * unit + 1
}

/// For every unit of every run, the earlier units of its rank that must have ended before it
/// starts.
///
/// A unit of run k has the number k times the units of a run, plus its own.
pub(crate) struct Local {
    begins: Vec<u32>,
    before: Vec<u32>,
}

/// How far each stream of its rank has surely come when a unit starts.
pub(crate) struct Clocks {
    streams: usize,
    /// Of each unit, its place on its stream, from 1, counted through all runs.
    places: Vec<u32>,
    /// Of each unit and stream, the place of the last unit that has ended.
    ended: Vec<u32>,
}

impl Local {
    pub(crate) fn new(program: &Program, runs: usize) -> Self {
        let mut models = Models::new(program, runs);
        let of_rank: Vec<usize> = (0..program.ranks()).map(|rank| models.of(rank)).collect();
        let units = program.units.len();
        let mut begins = Vec::with_capacity(units * runs + 1);
        let mut before = Vec::with_capacity(units * runs * 2);
        begins.push(0);
        for run in 0..runs {
            for (rank, &model) in of_rank.iter().enumerate() {
                // The units of alike ranks wait for each other alike, that many units further.
                let model = &models.all[model];
                let by = program.begins[rank] - program.begins[model.rank];
                let rows = program.of_rank(rank).len();
                let rows = &model.begins[run * rows..=(run + 1) * rows];
                let (first, last) = (rows[0], rows[rows.len() - 1]);
                let moved = before.len() as u32 - first;
                begins.extend(rows[1..].iter().map(|row| row + moved));
                let theirs = &model.before[first as usize..last as usize];
                before.extend(theirs.iter().map(|earlier| earlier + by));
            }
        }
        Self { begins, before }
    }

    /// The units that must have ended before this one starts.
    pub(crate) fn before(&self, unit: u32) -> &[u32] {
        let unit = unit as usize;
        &self.before[self.begins[unit] as usize..self.begins[unit + 1] as usize]
    }

    /// The edges between the events of one rank: a unit ends after it starts, and starts after
    /// others ended.
    pub(crate) fn edges(&self, edge: &mut dyn FnMut(u32, u32)) {
        let (begins, before) = (self.begins.as_slice(), self.before.as_slice());
        let mut at = 0;
        for unit in 0..self.len() as u32 {
            let last = begins[unit as usize + 1] as usize;
            edge(start(unit), end(unit));
            while at < last {
                edge(end(before[at]), start(unit));
                at += 1;
            }
        }
    }

    /// How many units there are, over all runs.
    pub(crate) fn len(&self) -> usize {
        self.begins.len() - 1
    }
}

impl Clocks {
    pub(crate) fn new(program: &Program, local: &Local, runs: usize) -> Self {
        let (units, streams) = (program.units.len(), program.streams.max(1));
        let mut places = vec![0; units * runs];
        let mut ended = vec![0; units * runs * streams];
        let mut last = vec![0; streams];
        let mut model = 0;
        for rank in 0..program.ranks() {
            if rank > 0 && alike::issue(program, model, rank) {
                for run in 0..runs {
                    let of = |rank: usize| run * units + program.begins[rank] as usize;
                    let (from, to) = (of(model), of(rank));
                    let end = from + program.of_rank(rank).len();
                    places.copy_within(from..end, to);
                    ended.copy_within(from * streams..end * streams, to * streams);
                }
                continue;
            }
            model = rank;
            last.fill(0);
            for run in 0..runs {
                for unit in program.of_rank(rank) {
                    let id = run * units + unit;
                    let stream = usize::from(program.units[unit].stream);
                    last[stream] += 1;
                    places[id] = last[stream];
                    for &earlier in local.before(id as u32) {
                        let earlier = earlier as usize;
                        for stream in 0..streams {
                            let theirs = ended[earlier * streams + stream];
                            let own = &mut ended[id * streams + stream];
                            *own = theirs.max(*own);
                        }
                        let stream = usize::from(program.units[earlier % units].stream);
                        let own = &mut ended[id * streams + stream];
                        *own = places[earlier].max(*own);
                    }
                }
            }
        }
        Self { streams, places, ended }
    }

    /// Whether the order within their rank alone ensures that the first unit ends before the second
    /// starts. `stream` is the first unit's.
    pub(crate) fn ended(&self, first: u32, stream: u16, second: u32) -> bool {
        self.ended[second as usize * self.streams + usize::from(stream)]
            >= self.places[first as usize]
    }

    /// How many units there are, over all runs.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// How many streams a rank has.
    pub(crate) fn streams(&self) -> usize {
        self.streams
    }

    /// A unit's place on its stream.
    pub(crate) fn place(&self, unit: u32) -> u32 {
        self.places[unit as usize]
    }
}

/// The waits within each rank, stored once for consecutive ranks that are alike.
struct Models<'a> {
    program: &'a Program,
    runs: usize,
    state: State,
    all: Vec<Model>,
}

/// A rank that stands for itself and others.
struct Model {
    rank: usize,
    /// Where the list of each unit begins, run by run; one more than there are.
    begins: Vec<u32>,
    /// The earlier units, by their numbers over all runs.
    before: Vec<u32>,
}

impl<'a> Models<'a> {
    fn new(program: &'a Program, runs: usize) -> Self {
        Self { program, runs, state: State::new(program), all: Vec::new() }
    }

    /// The model of a rank. Ranks are asked in their order.
    fn of(&mut self, rank: usize) -> usize {
        let is_alike = |model: &Model| alike::issue(self.program, model.rank, rank);
        if !self.all.last().is_some_and(is_alike) {
            let model = self.model(rank);
            self.all.push(model);
        }
        self.all.len() - 1
    }

    fn model(&mut self, rank: usize) -> Model {
        let &mut Self { program, runs, ref mut state, .. } = self;
        state.clear();
        let own = program.of_rank(rank);
        let mut begins = Vec::with_capacity(own.len() * runs + 1);
        begins.push(0);
        let (mut before, mut one) = (Vec::new(), Vec::new());
        for run in 0..runs {
            for unit in own.clone() {
                let id = (run * program.units.len() + unit) as u32;
                state.step(program, run, &program.units[unit], id, &mut one, |_| ());
                before.extend_from_slice(&one);
                begins.push(before.len() as u32);
            }
        }
        Model { rank, begins, before }
    }
}
