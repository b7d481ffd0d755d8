//! Where regions stand, and statements that say what another said already.

use super::Lengths;
use crate::ir::{Step, StepKind};

impl<'a> Lengths<'a> {
    /// Remembers what a statement's regions and peers are.
    pub(super) fn register(&mut self, number: u32, step: &'a Step) {
        match &step.kind {
            StepKind::Compute(this) => {
                let regions = this.reads.iter().chain(&this.writes);
                self.regions.extend((0..).map(|part| (number, part)).zip(regions));
            }
            StepKind::Collective(this) => {
                self.regions.insert((number, 0), &this.send);
                self.regions.insert((number, 1), &this.recv);
                self.collectives.insert(number);
            }
            StepKind::Transfer(this) => {
                self.regions.insert((number, 0), &this.from);
                self.regions.insert((number, 1), &this.to);
                self.senders.insert(number, &this.peer);
            }
            StepKind::Send(this) => _ = self.regions.insert((number, 0), &this.from),
            StepKind::Receive(this) => _ = self.regions.insert((number, 1), &this.to),
            StepKind::Put(this) => {
                self.regions.insert((number, 0), &this.from);
                self.regions.insert((number, 1), &this.to);
                self.peers.insert(number, &this.peer);
                self.senders.insert(number, &this.peer);
            }
            _ => {}
        }
    }

    /// Whether the same statement stood under the same loops and conditions: what is proved of it was proved,
    /// or told. Messages in the local view are compared with all others, so each is looked at.
    pub(super) fn is_known_already(&mut self, number: u32, step: &'a Step) -> bool {
        let alone = matches!(
            step.kind,
            StepKind::Compute(_)
                | StepKind::Collective(_)
                | StepKind::Transfer(_)
                | StepKind::Put(_)
        );
        if !alone {
            return false;
        }
        let Some(&first) = self.known.get(&(self.context, &step.kind)) else {
            self.known.insert((self.context, &step.kind), number);
            return false;
        };
        // What was found out about the first one is so of this one.
        if let Some(sent) = self.sent.get(&first).cloned() {
            self.sent.insert(number, sent);
        }
        if self.may_be_empty.contains(&first) {
            self.may_be_empty.insert(number);
        }
        true
    }

    /// Whether there may be one more proof that begins with all that the plan promises.
    pub(super) fn may_prove(&self) -> bool {
        self.fuel.take(1 + self.plan.promises.len() as u64)
    }

    /// Inside a loop or a condition of its own.
    pub(super) fn within(&mut self, inside: impl FnOnce(&mut Self)) {
        self.contexts += 1;
        let outer = std::mem::replace(&mut self.context, self.contexts);
        inside(self);
        self.context = outer;
    }
}
