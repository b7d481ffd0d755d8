//! Turns: the units of all ranks from one execution of a statement, and whether they can share a
//! group at all.

use std::ops::Range;

use crate::check::Links;
use crate::program::{Buckets, NONE, Op, OpKind, Program};

/// The units of a program by turn. A turn is a statement, executed once by all ranks that take
/// part.
pub(super) struct Turns {
    /// The units of each turn, by rank.
    units: Buckets,
    kinds: Vec<Kind>,
}

/// How a turn relates to its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A compute step.
    Compute,
    /// Communication that can share a group with its own class.
    Like(Class, u16),
    /// Communication that cannot share a group.
    Alone(&'static str),
}

/// Operations that can share a group. NCCL launches a group class by class, so several classes in
/// one group would be reordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Sends and receives.
    Messages,
    /// Collectives with kernels of their own.
    Collectives,
    /// Collectives that NCCL implements as messages.
    MessageCollectives,
    /// Puts and signals.
    OneSided,
}

impl Turns {
    pub(super) fn new(program: &Program, links: &Links) -> Self {
        let turns = program.units.iter().map(|unit| unit.turn as usize + 1).max().unwrap_or(0);
        let units = Buckets::new(turns, program.units.iter().map(|unit| unit.turn as usize));
        let mut all = Self { units, kinds: Vec::new() };
        let scattered = scattered(program, links);
        all.kinds = (0..turns).map(|turn| all.judge(program, turn, &scattered)).collect();
        all
    }

    pub(super) fn all(&self) -> Range<usize> {
        0..self.kinds.len()
    }

    /// The units of a turn, one for each rank that takes part, by rank.
    pub(super) fn units(&self, turn: usize) -> &[u32] {
        self.units.of(turn)
    }

    pub(super) fn kind(&self, turn: usize) -> Kind {
        self.kinds[turn]
    }

    fn judge(&self, program: &Program, turn: usize, scattered: &[bool]) -> Kind {
        let mut found: Option<(Class, u16, u16)> = None;
        for &at in self.units(turn) {
            let unit = &program.units[at as usize];
            if unit.is_compute {
                return Kind::Compute;
            }
            if scattered[at as usize] {
                return Kind::Alone("its collective is not the same statement on all members");
            }
            for op in program.ops_of(unit) {
                let class = match class(program, op) {
                    Ok(class) => class,
                    Err(why) => return Kind::Alone(why),
                };
                let own = (class, op.communicator, unit.stream);
                match found {
                    None => found = Some(own),
                    Some((other, ..)) if other != class => {
                        return Kind::Alone("its group holds operations of several kinds");
                    }
                    Some((.., other)) if other != unit.stream => {
                        return Kind::Alone("its stream is not the same on all ranks");
                    }
                    Some(_) => {}
                }
            }
        }
        match found {
            Some((class, communicator, _)) => Kind::Like(class, communicator),
            None => Kind::Alone("it does nothing"),
        }
    }
}

/// Why NCCL launches collectives on windows one by one.
pub(super) const ON_WINDOWS: &str = "collectives on windows run as symmetric kernels, which NCCL does not fuse: 64 of them take longer in one \
     group than 64 on plain buffers do (85.9 us, not 32.6 us)";

/// The class of an operation, or why it has none.
fn class(program: &Program, op: &Op) -> Result<Class, &'static str> {
    match op.kind {
        OpKind::Send | OpKind::Receive => Ok(Class::Messages),
        OpKind::Put | OpKind::Signal => Ok(Class::OneSided),
        OpKind::Wait => {
            Err("a wait for signals is launched alone: in a group it could wait for its own group")
        }
        OpKind::Read | OpKind::Write | OpKind::Get => Err("it computes"),
        OpKind::Collective(kind) => {
            let window =
                |object: u32| object != NONE && program.objects.all[object as usize].window;
            if window(op.source.object) || window(op.target.object) {
                return Err(ON_WINDOWS);
            }
            Ok(if kind.name().is_messages() {
                Class::MessageCollectives
            } else {
                Class::Collectives
            })
        }
    }
}

/// The units with a collective that other members run in another turn.
fn scattered(program: &Program, links: &Links) -> Vec<bool> {
    let mut scattered = vec![false; program.units.len()];
    for meeting in &links.collectives {
        let units = || meeting.members.iter().map(|&op| program.ops[op as usize].unit as usize);
        let mut turns = units().map(|unit| program.units[unit].turn);
        let first = turns.next();
        if turns.any(|turn| Some(turn) != first) {
            units().for_each(|unit| scattered[unit] = true);
        }
    }
    scattered
}
