//! What a rank has issued so far, and what the next unit waits for.

use super::parts::{Parts, Use};
use crate::program::{NONE, OpKind, Program, Span, Unit};

/// Why a unit waits for an earlier one of its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reason {
    Stream(u16),
    Communicator(u16),
    After(u16),
    /// It touches these elements, which the other stream used.
    Memory(Span),
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

/// What a rank has issued so far.
pub(super) struct State {
    on_stream: Vec<u32>,
    on_communicator: Vec<u32>,
    /// Of each object that several streams use, who used which elements.
    parts: Vec<Parts>,
    /// Of each other object, how many waits there had been when it was last written.
    written_after: Vec<u32>,
    /// Objects that were used: the others need no clearing.
    used: Vec<u32>,
    waits: u32,
    /// For each stream, which wait its last one was, from 1; 0 if it has none.
    last_wait: Vec<u32>,
    /// Of each stream, its last wait for signals.
    waited: Vec<u32>,
    /// Storage of the last list of uses, for reuse.
    uses: Vec<Use>,
}

impl State {
    pub(super) fn new(program: &Program) -> Self {
        let objects = program.objects.all.len();
        Self {
            on_stream: vec![NONE; program.streams],
            on_communicator: vec![NONE; program.communicators],
            parts: std::iter::repeat_with(Parts::default).take(objects).collect(),
            written_after: vec![0; objects],
            used: Vec::new(),
            waits: 0,
            last_wait: vec![0; program.streams],
            waited: vec![NONE; program.streams],
            uses: Vec::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.on_stream.fill(NONE);
        self.on_communicator.fill(NONE);
        self.last_wait.fill(0);
        self.waits = 0;
        for object in self.used.drain(..) {
            self.parts[object as usize].clear();
            self.written_after[object as usize] = 0;
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
            for (span, writes) in op.touched() {
                let object = program.objects.in_run(span.object, run);
                let (span, place) = (Span { object, ..span }, object as usize);
                let mut waits = self.written_after[place];
                if program.shared[place] {
                    waits = self.parts[place].conflicts(own, span, writes, &mut self.uses);
                    for one in &self.uses {
                        let all = self.on_stream[usize::from(one.stream)];
                        let earlier = if program.exact { one.unit } else { all };
                        add(before, earlier, Reason::Memory(one.both));
                    }
                }
                if program.objects.all[place].window && self.waits > waits {
                    for earlier in self.waited_since(program, own, waits) {
                        add(before, earlier, Reason::Signals);
                    }
                }
            }
        }
        // Another rank's window, too, may be read once its signal has come.
        if self.waits > 0 && ops.iter().any(|op| op.kind == OpKind::Get) {
            for earlier in self.waited_since(program, own, 0) {
                add(before, earlier, Reason::Signals);
            }
        }
        self.touch(program, run, unit, id);
        if ops.iter().any(|op| op.kind == OpKind::Wait) {
            self.waits += 1;
            self.last_wait[usize::from(own)] = self.waits;
            self.waited[usize::from(own)] = id;
        }
        self.on_stream[usize::from(own)] = id;
    }

    /// What a unit follows on other streams that have waited for signals since the wait of this
    /// number.
    fn waited_since(&self, program: &Program, own: u16, since: u32) -> impl Iterator<Item = u32> {
        let of = if program.exact { &self.waited } else { &self.on_stream };
        let waits = (0..).zip(of.iter().zip(&self.last_wait));
        let waits = waits.filter(move |(stream, (_, last))| *stream != own && **last > since);
        waits.map(|(_, (unit, _))| *unit)
    }

    /// Notes who used the memory of a unit: what it reads first, then what it writes.
    fn touch(&mut self, program: &Program, run: usize, unit: &Unit, id: u32) {
        let (ops, by) = (program.ops_of(unit), (unit.stream, id));
        for pass in [false, true] {
            for op in ops {
                for (span, _) in op.touched().filter(|(_, writes)| *writes == pass) {
                    let object = program.objects.in_run(span.object, run);
                    let place = object as usize;
                    if !program.shared[place] {
                        if pass && self.waits > 0 {
                            if self.written_after[place] == 0 {
                                self.used.push(object);
                            }
                            self.written_after[place] = self.waits;
                        }
                        continue;
                    }
                    if self.parts[place].is_empty() {
                        self.used.push(object);
                    }
                    match pass {
                        true => self.parts[place].write(by, span, self.waits),
                        false => self.parts[place].read(by, span),
                    }
                }
            }
        }
    }
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
