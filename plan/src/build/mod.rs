//! Plans built at run time: declared in Rust, then checked.
//!
//! ```
//! use typed_nccl_plan::build::{PlanBuilder, ring};
//!
//! let mut plan = PlanBuilder::new("ring exchange");
//! plan.ranks(1..);
//! let len = plan.param("len", 1..);
//! let a = plan.input::<f32>("a", len);
//! let b = plan.output::<f32>("b", len);
//! let net = plan.stream("net");
//! plan.on(net).transfer(a, ring(1), b); // a @ r -> b @ (r + 1) % n
//! let checked = plan.check()?;
//! # Ok::<(), typed_nccl_plan::build::Refused>(())
//! ```
//!
//! Handles are small and `Copy`, and know their builder. The types exclude what types can: a
//! transfer from f32 into f64, a put into memory that is not a window, or asking an unchecked plan
//! for its checked sizes does not compile. The checker reports everything else at the caller's
//! line. Nothing panics: [`PlanBuilder::check`] also reports handles of another builder.
//!
//! Not in the types: lengths, bounds, participants, order. The checker covers those.

mod arena;
mod blocks;
mod claims;
mod collectives;
mod compute;
mod declare;
mod fault;
mod finish;
mod guard;
mod launch;
mod local;
mod memory;
mod messages;
mod number;
mod on;
mod peer;
mod ranks;
mod span;
mod windows;

pub use claims::Sources;
pub use compute::Run;
pub use declare::{Declare, DeclareArray, LengthOfEach};
pub use finish::Refused;
pub use guard::Guard;
pub use memory::{
    Buffer, Buffers, Memory, Part, Plain, Single, Slice, Swapped, SwappedWindow, Symmetric,
    TwoCopies, Window, WindowPart,
};
pub use number::{List, Number};
pub use on::{On, Stream};
pub use peer::{Peer, at, chain, either, ring};
pub use ranks::{Axis, Communicator};
pub use span::{Count, Powers, Span, powers};
pub use windows::{Awaited, Put, Signal};

use std::collections::HashMap;

use arena::{Arena, Stamp};

use crate::check::Accepted;
#[doc(hidden)]
pub use crate::element::stand_ins;
#[doc(inline)]
pub use crate::element::stand_ins::*;
pub use crate::element::{Generic, PlanElement, SameElement};
use crate::ir::{self, Plan, StepKind};
use crate::verdict::Problem;

/// A plan in progress or, once [checked](PlanBuilder::check), a correct one.
///
/// ```
/// use typed_nccl_plan::build::{Checked, Number, Open, Peer, PlanBuilder, ring};
/// use typed_nccl_plan::check::Accepted;
///
/// let mut plan: PlanBuilder<Open> = PlanBuilder::new("shift");
/// plan.ranks(2..);
/// let len: Number = plan.param("len", 1..);
/// let (a, b) = (plan.input::<f32>("a", len * 2), plan.output::<f32>("b", len * 2));
/// let net = plan.stream("net");
/// let right: Peer = ring(1);
/// plan.on(net).transfer(a, right, b);
/// let checked: PlanBuilder<Checked> = plan.check()?;
/// let accepted: &Accepted = checked.accepted();
/// assert!(!accepted.is_empty());
/// # Ok::<(), typed_nccl_plan::build::Refused>(())
/// ```
#[derive(Debug)]
pub struct PlanBuilder<S = Open> {
    plan: Plan,
    state: S,
}

/// A builder that takes declarations and statements.
///
/// See the example of [`PlanBuilder`].
#[derive(Debug)]
pub struct Open {
    arena: Arena,
    faults: Vec<Problem>,
    /// The nesting depth of the next statement.
    depth: usize,
    /// The number of parts in numbers and conditions so far.
    parts: usize,
    /// The names of counters, each with the last number that was put behind it.
    counters: HashMap<String, usize>,
    /// The loops and conditions around the next statement.
    around: Vec<ir::Around>,
}

/// A builder whose plan is checked, and no longer changes.
///
/// See the example of [`PlanBuilder`].
#[derive(Debug)]
pub struct Checked {
    accepted: Accepted,
}

/// States of a checked plan.
#[diagnostic::on_unimplemented(
    message = "this plan is not checked yet",
    label = "`check` comes first",
    note = "`plan.check()?` takes the builder and gives the checked plan, or says what is wrong"
)]
pub trait IsChecked {
    /// The sizes at which it was checked.
    #[doc(hidden)]
    fn accepted(&self) -> &Accepted;
}

impl PlanBuilder<Open> {
    /// An empty plan of that name. It runs repeatedly, call by call; see [`once`](Self::once) and
    /// [`captured`](Self::captured).
    #[must_use]
    #[track_caller]
    pub fn new(name: &str) -> Self {
        let mut builder = Self {
            plan: Plan::new(name),
            state: Open {
                arena: Arena::new(),
                faults: Vec::new(),
                depth: 0,
                parts: 0,
                counters: HashMap::new(),
                around: Vec::new(),
            },
        };
        let (name, at) = ("world".to_owned(), builder.here());
        builder.plan.communicators.push(ir::Communicator { name, axes: Vec::new(), at });
        builder
    }

    pub(crate) fn stamp(&self) -> Stamp {
        self.state.arena.stamp()
    }

    fn last(&mut self) -> Option<&mut StepKind> {
        self.plan.steps.last_mut().map(|step| &mut step.kind)
    }
}

impl<S> PlanBuilder<S> {
    /// The plan.
    pub fn plan(&self) -> &Plan
    where
        S: IsChecked,
    {
        &self.plan
    }

    /// The sizes at which it was checked.
    pub fn accepted(&self) -> &Accepted
    where
        S: IsChecked,
    {
        self.state.accepted()
    }
}

impl IsChecked for Checked {
    fn accepted(&self) -> &Accepted {
        &self.accepted
    }
}

/// The index of the last item of a list.
fn id<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX).saturating_sub(1)
}
