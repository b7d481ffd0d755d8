//! Ranks whose units wait for each other alike: of those, one is looked at.

use super::local::State;
use crate::program::{OpKind, Program};

/// What the ranks' units wait for on their own rank: once for ranks that follow each other and are alike.
pub(super) struct Models<'a> {
    program: &'a Program,
    runs: usize,
    state: State,
    pub(super) all: Vec<Model>,
}

/// A rank that stands for itself and others.
pub(super) struct Model {
    pub(super) rank: usize,
    /// Where the list of each unit begins, run by run; one more than there are.
    pub(super) begins: Vec<u32>,
    /// The earlier units, by their numbers over all runs.
    pub(super) before: Vec<u32>,
}

impl<'a> Models<'a> {
    pub(super) fn new(program: &'a Program, runs: usize) -> Self {
        Self { program, runs, state: State::new(program), all: Vec::new() }
    }

    /// The model of a rank. Ranks are asked in their order.
    pub(super) fn of(&mut self, rank: usize) -> usize {
        let is_alike = |model: &Model| issue_alike(self.program, model.rank, rank);
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

/// Whether two ranks issue alike: on the same streams, through the same communicators, using the same objects.
pub(super) fn issue_alike(program: &Program, a: usize, b: usize) -> bool {
    let (a, b) = (program.of_rank(a), program.of_rank(b));
    if a.len() != b.len() {
        return false;
    }
    let (a, b) = (&program.units[a], &program.units[b]);
    for at in 0..a.len() {
        let (one, other) = (&a[at], &b[at]);
        if one.ops != other.ops
            || one.stream != other.stream
            || one.after != other.after
            || one.is_compute != other.is_compute
        {
            return false;
        }
        let (one, other) = (program.ops_of(one), program.ops_of(other));
        for at in 0..one.len() {
            let (one, other) = (&one[at], &other[at]);
            if one.communicator != other.communicator
                || one.source.object != other.source.object
                || one.target.object != other.target.object
                || matches!(one.kind, OpKind::Put) != matches!(other.kind, OpKind::Put)
                || matches!(one.kind, OpKind::Wait) != matches!(other.kind, OpKind::Wait)
            {
                return false;
            }
        }
    }
    true
}
