//! What belongs together across ranks: messages, collectives, signals.

use crate::program::{Kind, Op, Program};

/// The links between the units of an instance; the same in every run.
#[derive(Debug, Default)]
pub(crate) struct Links {
    pub(crate) messages: Vec<Message>,
    pub(crate) collectives: Vec<Meeting>,
    pub(crate) signals: Signals,
}

/// A message: the operations of both ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) send: u32,
    pub(crate) receive: u32,
}

impl Message {
    pub(crate) fn ops<'p>(&self, program: &'p Program) -> (&'p Op, &'p Op) {
        (&program.ops[self.send as usize], &program.ops[self.receive as usize])
    }
}

/// A collective: every member's operation, in the order of the communicator's ranks.
#[derive(Clone, Debug)]
pub(crate) struct Meeting {
    pub(crate) kind: Kind,
    pub(crate) members: Vec<u32>,
    /// The root's place among the members.
    pub(crate) root: Option<u32>,
}

/// Signals and what they say has arrived.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    pub(crate) raised: Vec<Raised>,
    /// For each put, by its operation: the unit of the target's wait after which its data is there.
    pub(crate) arrivals: Vec<Arrival>,
    /// Of a captured plan for an old NCCL: the wait before whose end the unit's cannot come.
    pub(crate) credits: Vec<(u32, u32)>,
}

/// A signal that a unit raises and a wait consumes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raised {
    pub(crate) raise_unit: u32,
    pub(crate) wait_unit: u32,
}

/// A put, and the wait that proves that it has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Its operation.
    pub(crate) put: u32,
    /// The wait's unit, and whether it is the next run's.
    pub(crate) wait: Option<(u32, bool)>,
}
