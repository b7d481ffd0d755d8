//! What a rank has issued so far, and what the next unit waits for.

use std::collections::HashMap;

use crate::program::{NONE, Op, OpKind, Program, Unit};

/// Why a unit waits for an earlier one of its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// Tells why each unit of a rank waits for which earlier ones, over several runs: unit, earlier,
/// why.
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

    /// The last unit of a stream that used an object in an exact program, otherwise the last unit
    /// of the stream.
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
        self.touch(program, run, unit, id);
        if ops.iter().any(|op| op.kind == OpKind::Wait) {
            self.waits += 1;
            self.last_wait[usize::from(own)] = self.waits;
            if let Some(exact) = &mut self.exact {
                exact.waited[usize::from(own)] = id;
            }
        }
        self.on_stream[usize::from(own)] = id;
    }

    /// Notes who used the memory of a unit: what it reads first, then what it writes.
    fn touch(&mut self, program: &Program, run: usize, unit: &Unit, id: u32) {
        let (ops, own) = (program.ops_of(unit), unit.stream);
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
    }
}

/// The objects of its own rank that an operation touches, and whether it writes them. Empty parts
/// count too, since streams are ordered by whole objects.
fn touched(op: &Op) -> impl Iterator<Item = (u32, bool)> {
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
