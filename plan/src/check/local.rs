//! What waits for what on one rank: streams, communicators, `after`, memory.

use std::collections::HashMap;

use super::graph::{end, start};
use super::models::{Models, issue_alike};
use crate::program::{NONE, OpKind, Program, Unit};

/// For every unit of every run, the earlier units of its rank that must have ended before it starts.
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

    /// The edges between the events of one rank: a unit ends after it starts, and starts after others ended.
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
            if rank > 0 && issue_alike(program, model, rank) {
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

    /// Whether the first has surely ended when the second starts, for reasons on their rank alone. Both are
    /// units of one rank; `stream` is the first one's.
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

/// Why a unit waits for an earlier one of its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Stream(u16),
    Communicator(u16),
    After(u16),
    /// It touches this object, which the other stream used.
    Memory(u32),
    /// It touches a window, and that stream waited for signals.
    Signals,
}

/// Why `second` waits for `first`, both of one rank and of the first run.
pub(crate) fn reason(program: &Program, first: u32, second: u32) -> Option<Reason> {
    let rank = program.units[second as usize].rank as usize;
    let mut state = State::new(program);
    let mut before = Vec::new();
    let mut reasons = Vec::new();
    for unit in program.of_rank(rank) {
        reasons.clear();
        let id = unit as u32;
        state.step(program, 0, &program.units[unit], id, &mut before, |why| reasons.push(why));
        if id == second {
            return reasons.iter().find(|(earlier, _)| *earlier == first).map(|(_, why)| *why);
        }
    }
    None
}

/// Tells why each unit of a rank waits for which earlier ones, over several runs: unit, earlier, why.
pub(crate) fn reasons(
    program: &Program,
    rank: usize,
    runs: usize,
    mut each: impl FnMut(u32, u32, Reason),
) {
    let mut state = State::new(program);
    let mut before = Vec::new();
    for run in 0..runs {
        for unit in program.of_rank(rank) {
            let id = (run * program.units.len() + unit) as u32;
            state.step(program, run, &program.units[unit], id, &mut before, |(earlier, why)| {
                each(id, earlier, why);
            });
        }
    }
}

/// Which streams used an object since it was last written, as bits.
#[derive(Clone, Copy, Default)]
struct Users {
    writers: u64,
    readers: u64,
    /// How many waits there had been when it was last written.
    waits: u32,
}

/// What a rank has issued so far.
pub(super) struct State {
    on_stream: Vec<u32>,
    on_communicator: Vec<u32>,
    users: Vec<Users>,
    /// Objects that were used: the others need no clearing.
    used: Vec<u32>,
    waits: u32,
    /// For each stream, which wait its last one was, from 1; 0 if it has none.
    last_wait: Vec<u32>,
    /// The very units that used memory, where the program wants to know them.
    exact: Option<Exact>,
}

/// Which units memory was last used by. What is written here is valid as far as [`Users`] says so.
struct Exact {
    /// Of each object, who wrote it last.
    wrote: Vec<u32>,
    /// Of each object and stream, who read it last.
    read: HashMap<(u32, u16), u32>,
    /// Of each stream, its last wait for signals.
    waited: Vec<u32>,
}

impl State {
    pub(super) fn new(program: &Program) -> Self {
        Self {
            on_stream: vec![NONE; program.streams],
            on_communicator: vec![NONE; program.communicators],
            users: vec![Users::default(); program.objects.all.len()],
            used: Vec::new(),
            waits: 0,
            last_wait: vec![0; program.streams],
            exact: program.exact.then(|| Exact {
                wrote: vec![NONE; program.objects.all.len()],
                read: HashMap::new(),
                waited: vec![NONE; program.streams],
            }),
        }
    }

    /// The last unit of a stream that used an object, if the program wants to know; else the last one of all.
    fn user(&self, object: u32, stream: usize, writes: bool) -> u32 {
        let Some(exact) = &self.exact else { return self.on_stream[stream] };
        // On one stream, who reads after the last write comes after it.
        let reads = writes && self.users[object as usize].readers & 1 << stream != 0;
        match exact.read.get(&(object, stream as u16)) {
            Some(&reader) if reads => reader,
            _ => exact.wrote[object as usize],
        }
    }

    /// The last wait for signals of a stream, if the program wants to know; else its last unit.
    fn waiter(&self, stream: usize) -> u32 {
        self.exact.as_ref().map_or(self.on_stream[stream], |exact| exact.waited[stream])
    }

    pub(super) fn clear(&mut self) {
        self.on_stream.fill(NONE);
        self.on_communicator.fill(NONE);
        self.last_wait.fill(0);
        self.waits = 0;
        for object in self.used.drain(..) {
            self.users[object as usize] = Users::default();
        }
    }

    /// Issues a unit: `before` becomes the units that it waits for.
    pub(super) fn step(
        &mut self,
        program: &Program,
        run: usize,
        unit: &Unit,
        id: u32,
        before: &mut Vec<u32>,
        mut why: impl FnMut((u32, Reason)),
    ) {
        before.clear();
        let ops = program.ops_of(unit);
        let own = unit.stream;
        let mut add = |before: &mut Vec<u32>, earlier: u32, reason: Reason| {
            if earlier != NONE {
                why((earlier, reason));
                if !before.contains(&earlier) {
                    before.push(earlier);
                }
            }
        };
        add(before, self.on_stream[usize::from(own)], Reason::Stream(own));
        if !unit.is_compute {
            for op in ops {
                let earlier = self.on_communicator[usize::from(op.communicator)];
                // The unit itself stands there after its first operation.
                if earlier != id {
                    add(before, earlier, Reason::Communicator(op.communicator));
                    self.on_communicator[usize::from(op.communicator)] = id;
                }
            }
        }
        for stream in bits(unit.after) {
            add(before, self.on_stream[stream], Reason::After(stream as u16));
        }
        // Memory: first what was used before the unit, then what the unit uses.
        for op in ops {
            for (object, writes) in touched(op) {
                let object = program.objects.in_run(object, run);
                let users = self.users[object as usize];
                let streams = users.writers | if writes { users.readers } else { 0 };
                for stream in bits(streams & !(1 << own)) {
                    add(before, self.user(object, stream, writes), Reason::Memory(object));
                }
                if program.objects.all[object as usize].window && self.waits > users.waits {
                    for stream in 0..self.last_wait.len() {
                        if stream != usize::from(own) && self.last_wait[stream] > users.waits {
                            add(before, self.waiter(stream), Reason::Signals);
                        }
                    }
                }
            }
        }
        for pass in [false, true] {
            for op in ops {
                for (object, writes) in touched(op).filter(|(_, writes)| *writes == pass) {
                    let object = program.objects.in_run(object, run);
                    let users = &mut self.users[object as usize];
                    if users.writers | users.readers == 0 && users.waits == 0 {
                        self.used.push(object);
                    }
                    if writes {
                        *users = Users { writers: 1 << own, readers: 0, waits: self.waits };
                    } else {
                        users.readers |= 1 << own;
                    }
                    match &mut self.exact {
                        Some(exact) if writes => exact.wrote[object as usize] = id,
                        Some(exact) => _ = exact.read.insert((object, own), id),
                        None => {}
                    }
                }
            }
        }
        if ops.iter().any(|op| op.kind == OpKind::Wait) {
            self.waits += 1;
            self.last_wait[usize::from(own)] = self.waits;
            if let Some(exact) = &mut self.exact {
                exact.waited[usize::from(own)] = id;
            }
        }
        self.on_stream[usize::from(own)] = id;
    }
}

/// The objects of its own rank that an operation touches, and whether it writes them. An empty part is
/// touched too: who orders memory does not look inside.
fn touched(op: &crate::program::Op) -> impl Iterator<Item = (u32, bool)> {
    let target = if op.kind == OpKind::Put { NONE } else { op.target.object };
    [(op.source.object, false), (target, true)].into_iter().filter(|(object, _)| *object != NONE)
}

/// The numbers of the bits that are set.
pub(crate) fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (set != 0).then(|| {
            let bit = set.trailing_zeros() as usize;
            set &= set - 1;
            bit
        })
    })
}
