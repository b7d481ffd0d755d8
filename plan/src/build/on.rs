//! Statements: choose the stream, the streams to wait for and the communicator, then the operation.

use super::arena::Stamp;
use super::ranks::Communicator;
use super::{Open, PlanBuilder, id};
use crate::ir::{CommunicatorId, Named, Place, Step, StepKind, StreamId};

/// A stream of the plan.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    of: Stamp,
    id: StreamId,
}

/// The place of statements: a stream, the streams they run after, and a communicator. Each method
/// appends one statement to the plan.
#[derive(Debug)]
#[must_use = "says where, but not yet what"]
pub struct On<'p> {
    pub(crate) plan: &'p mut PlanBuilder<Open>,
    pub(crate) place: Place,
    pub(crate) among: CommunicatorId,
}

impl PlanBuilder<Open> {
    /// Declares a stream.
    #[track_caller]
    pub fn stream(&mut self, name: &str) -> Stream {
        let at = self.here();
        self.plan.streams.push(Named { name: name.to_owned(), at });
        Stream { of: self.stamp(), id: StreamId(id(&self.plan.streams)) }
    }

    /// Begins a statement on that stream, among all ranks: `plan.on(net).transfer(a, ring(1), b)`.
    #[track_caller]
    pub fn on(&mut self, stream: Stream) -> On<'_> {
        self.belongs(stream.of);
        let place = Place { on: stream.id, after: Vec::new() };
        On { plan: self, place, among: CommunicatorId(0) }
    }

    #[track_caller]
    pub(crate) fn push(&mut self, kind: StepKind) {
        let at = self.here();
        self.plan.steps.push(Step { kind, at });
    }
}

impl On<'_> {
    /// After everything on these streams so far.
    #[track_caller]
    pub fn after(mut self, streams: impl IntoIterator<Item = Stream>) -> Self {
        for stream in streams {
            self.plan.belongs(stream.of);
            self.place.after.push(stream.id);
        }
        self
    }

    /// Among the ranks of that communicator.
    #[track_caller]
    pub fn among(mut self, communicator: Communicator) -> Self {
        self.plan.belongs(communicator.of);
        self.among = communicator.id;
        self
    }
}
