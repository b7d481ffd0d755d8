//! Lowers a checked plan to the calls of every rank.
//!
//! [`lower`] expands an instance, joins neighbouring communication into one NCCL group if that
//! changes only the number of launches, and orders the streams of each rank with events.
//!
//! Two neighbours share a group if they are adjacent on one stream; are of one kind (messages,
//! collectives, one-sided operations) and one communicator; touch different memory, or only read;
//! the second waits for nothing that the first does not wait for; and nothing in between waits for
//! the first. The result is checked like a plan written that way, and groups that break a rule are
//! split again. Waits for signals stand alone, and so do collectives on windows, whose kernels NCCL
//! does not fuse.
//!
//! On a rank, a stream waits for another if a statement is `after` it, or if memory requires it.
//! For memory, the checks use the full wait of the [model](crate#what-waits-for-what): for
//! everything issued on the other stream. A schedule waits only for the call that used the memory,
//! if the plan passes the checks that way too: a backward step then overlaps with the all-reduce of
//! the previous bucket, in every run.
//!
//! On ranks that reach each other's memory, [`Schedule::with_kernels`] then moves small collectives
//! and messages to this library's own kernels, which also join operations that NCCL does not fuse.
//!
//! All ranks make their calls in the order of the plan's statements; a group is at the place of its
//! first one.

mod calls;
mod events;
mod explain;
mod greedy;
mod joined;
mod kernels;
mod last;
mod parted;
mod schedule;
mod settle;
mod turns;
mod uses;
mod warm_ups;
mod why;
mod words;

pub use kernels::{Leg, MOST_IN_A_KERNEL, MOST_RANKS_OF_A_KERNEL};
pub use schedule::{
    Call, Elements, Event, Operation, RankSchedule, Reason, Schedule, WarmUp, WhyKernel, WhyWait,
    Work,
};

use std::hash::{Hash, Hasher};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::check::{self, rejected, written};
use crate::ir::Plan;
use crate::program::{Program, Until};
use crate::verdict::{ProblemKind, Rejected, Sizes};
use joined::Joined;

/// The calls of every rank of an instance. The sizes may be ones that the plan does not claim.
///
/// The result depends only on the plan and the sizes, so ranks that lower independently agree.
///
/// # Errors
///
/// All errors of the instance, which is [checked](crate::check::check_at) first.
pub fn lower(plan: &Plan, sizes: &Sizes) -> Result<Schedule, Rejected> {
    let mut instance = Instance::new(plan, sizes, None)?;
    instance.check()?;
    let decided = instance.decide()?;
    instance.lower(&decided)
}

/// An expanded instance of a plan, which lets ranks that bind it together share the work.
///
/// One of them [checks](Self::check) it and [decides](Self::decide); all of them
/// [lower](Self::lower) it so. Their [hashes](Hash) tell whether it is one instance: of what is
/// issued, not of names and places.
///
/// All of it takes time in proportion to what the ranks do, which may be more than a caller has.
/// What is not done by then fails with [`OutOfTime`](crate::verdict::ProblemKind::OutOfTime).
pub struct Instance<'a> {
    plan: &'a Plan,
    sizes: &'a Sizes,
    program: Program,
    until: Until,
    warning: Option<String>,
}

/// The decisions about an instance that require checks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Decided {
    /// Whether memory makes a stream wait only for the calls that used it.
    exact: bool,
    /// The group of each turn.
    groups: Vec<u32>,
    reasons: Vec<Reason>,
    warning: Option<String>,
}

impl Decided {
    /// What the check left out, as a sentence.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }
}

impl<'a> Instance<'a> {
    /// Writes an instance out. There is time for this, and for what is done with the instance,
    /// `until` then.
    ///
    /// # Errors
    ///
    /// A region outside its buffer, a peer that is not a rank: what cannot be written out. The time
    /// is over.
    pub fn new(plan: &'a Plan, sizes: &'a Sizes, until: Option<Instant>) -> Result<Self, Rejected> {
        let until = Until::new(until);
        Ok(Self { plan, sizes, program: written(plan, sizes, until)?, until, warning: None })
    }

    /// There is time for the rest until then.
    pub fn with_time(self, until: Option<Instant>) -> Self {
        Self { until: Until::new(until), ..self }
    }

    /// Checks it exactly. Only what it [computes](ProblemKind::NotFollowed) may be too much to
    /// follow: then [`decide`](Self::decide) has a warning.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it. The time is over.
    pub fn check(&mut self) -> Result<(), Rejected> {
        let problems = self.written().problems_or_warning()?;
        match problems.as_slice() {
            [] => Ok(()),
            [one] if one.kind == ProblemKind::NotFollowed => {
                let (sizes, title) = (&self.sizes.text, &one.title);
                self.warning = Some(format!("For {sizes}, {title}."));
                Ok(())
            }
            _ => Err(rejected(self.plan, problems)),
        }
    }

    /// Decides which calls share a launch, and which waits streams need. The instance must be
    /// correct.
    ///
    /// Where the plan is right without more, its streams wait for the very calls whose memory they
    /// touch, and not for all that was issued there. Puts may need more: only signals and such
    /// waits order them with the rest.
    ///
    /// # Errors
    ///
    /// The time is over.
    pub fn decide(&mut self) -> Result<Decided, Rejected> {
        self.program.exact = true;
        let exact = self.written().problems()?.is_empty();
        self.program.exact = exact;
        let words = words::Words::new(self.plan);
        let (groups, reasons) = settle::settle(&self.written(), &words)?;
        Ok(Decided { exact, groups, reasons, warning: self.warning.take() })
    }

    fn written(&self) -> check::Instance<'_> {
        let Self { plan, sizes, ref program, until, .. } = *self;
        check::Instance { plan, program, sizes, until }
    }

    /// The calls of every rank, as it was decided of this very instance.
    ///
    /// # Errors
    ///
    /// The time is over.
    pub fn lower(self, decided: &Decided) -> Result<Schedule, Rejected> {
        let Self { plan, sizes, program, until, .. } = self;
        let program = Program { exact: decided.exact, ..program };
        let words = words::Words::new(plan);
        let joined = Joined::new(&program, &decided.groups);
        let instance = check::Instance { plan, program: &joined.program, sizes, until };
        let mut ranks = Vec::with_capacity(program.ranks());
        let mut why = why::Why::new(&joined.program, &words);
        for rank in 0..program.ranks() {
            instance.in_time()?;
            let waits = events::Waits::new(&instance, rank)?;
            instance.in_time()?;
            why.add(rank, &waits);
            instance.in_time()?;
            ranks.push(calls::calls((&program, sizes), &joined, &words, rank, &waits));
        }
        Ok(Schedule {
            plan: plan.name.clone(),
            sizes: sizes.clone(),
            ranks,
            warm_ups: warm_ups::warm_ups(&joined.program),
            reasons: decided.reasons.clone(),
            why_waits: why.finish(),
            why_kernels: Vec::new(),
        })
    }
}

impl Hash for Instance<'_> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Program { objects, units, ops, .. } = &self.program;
        self.plan.kernels.hash(hasher);
        self.sizes.extents.hash(hasher);
        self.sizes.params.hash(hasher);
        for object in &objects.all {
            (&object.len, object.window, object.role, object.other_copy).hash(hasher);
        }
        units.hash(hasher);
        ops.hash(hasher);
    }
}
