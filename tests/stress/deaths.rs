//! Ranks that die in the middle of a program: every rank ends, with an error.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;
use std::time::Duration;

use typed_nccl::{Error, Group, Max, Result, Sum};

use super::device::Dev;
use super::draw;
use super::random::Random;
use super::rank::{Rank, seats};
use super::step::{COMMS, Shape, Step};

const STEPS: usize = 40;

/// How a rank dies, or its mistake.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Death {
    Abort,
    Drop,
    DropEverything,
    /// Another thread aborts it.
    Handle,
    Panic,
    PanicInClosure,
    ErrorInGroup,
    /// A caught panic.
    PanicInGroup,
    Finish,
    /// A call that the others do not make.
    Surplus,
    OtherLength,
    Refused,
}

/// Deaths that others learn of before any deadline.
pub(crate) const DEATHS: [Death; 8] = [
    Death::Abort,
    Death::Drop,
    Death::DropEverything,
    Death::Handle,
    Death::Panic,
    Death::PanicInClosure,
    Death::ErrorInGroup,
    Death::PanicInGroup,
];

/// The payload of a planned panic.
pub(crate) struct Planned;

/// One death: the rank, the step before it, the communicator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    rank: usize,
    step: usize,
    comm: usize,
    death: Death,
}

impl Plan {
    pub(crate) fn draw(random: &mut Random, shape: Shape, steps: usize, deaths: &[Death]) -> Self {
        Self {
            rank: random.below(shape.ranks),
            step: random.below(steps),
            comm: random.below(COMMS),
            death: random.of(deaths),
        }
    }

    /// Whether it is for a rank before a step.
    pub(crate) fn is(&self, rank: usize, step: usize) -> bool {
        (self.rank, self.step) == (rank, step)
    }
}

/// The ranks' calls agree as far as they go: every waiting rank learns why it waits in vain, and
/// never reaches its deadline.
pub(crate) fn play_seed(seed: u64) {
    run(seed, &DEATHS, Duration::from_secs(30), |error| {
        assert!(!matches!(error, Error::Timeout(_)), "seed {seed}: {error}");
    });
}

/// The ranks' calls differ: deadlines may pass, and end it.
pub(crate) fn play_different(seed: u64) {
    let deaths = [Death::Finish, Death::Surplus, Death::OtherLength, Death::Refused];
    run(seed, &deaths, Duration::from_millis(500), |_| ());
}

fn run(seed: u64, deaths: &[Death], deadline: Duration, look: impl Fn(&Error) + Sync) {
    let mut random = Random::new(seed);
    let shape = draw::shape(&mut random);
    let steps = if shape.block > 1000 { STEPS / 4 } else { STEPS };
    let program = draw::program(&mut random, shape, steps);
    let count = 1 + random.below(2);
    let plans = (0..count).map(|_| Plan::draw(&mut random, shape, steps, deaths));
    let plans: Vec<Plan> = plans.collect();
    let (program, plans, look) = (&program, &plans, &look);
    thread::scope(|scope| {
        for seats in seats(shape.ranks) {
            scope.spawn(move || {
                // A connected rank may be gone before others have seen that they are connected.
                let mut rank = match Rank::new(seats, shape, deadline) {
                    Ok(rank) => rank,
                    Err(error) => return look(&error),
                };
                rank.strict = false;
                let mut random = Random::new(seed * 77 + rank.index as u64);
                let life = AssertUnwindSafe(|| live(rank, program, plans, &mut random, look));
                if let Err(panic) = catch_unwind(life)
                    && !panic.is::<Planned>()
                {
                    eprintln!("seed {seed}, {shape:?}, {plans:?}");
                    resume_unwind(panic);
                }
            });
        }
    });
}

fn live(
    mut rank: Rank,
    program: &[Step],
    plans: &[Plan],
    random: &mut Random,
    look: &impl Fn(&Error),
) {
    let mut is_over = false;
    for (at, step) in program.iter().enumerate() {
        if random.one_in(10) {
            thread::sleep(Duration::from_micros(random.next() % 800));
        }
        let here = rank.index;
        for plan in plans.iter().filter(|plan| plan.is(here, at)) {
            if let Err(error) = rank.die(plan) {
                look(&error);
            }
        }
        if rank.comms.len() < COMMS || rank.comms.iter().any(Option::is_none) {
            break;
        }
        if let Err(error) = rank.step(step, None) {
            look(&error);
            // A rank that continues after an error makes different calls.
            break;
        }
        is_over = at + 1 == program.len();
    }
    // A rank that waits before it has left may wait for ranks that wait for it.
    if !is_over {
        for comm in rank.comms.iter_mut().filter_map(Option::take) {
            if random.one_in(2) {
                drop(comm.abort());
            }
        }
    }
    rank.end(random, look);
}

impl Rank {
    pub(crate) fn die(&mut self, plan: &Plan) -> Result<()> {
        let Shape { block, .. } = self.shape;
        let Some(comm) = self.comms.get_mut(plan.comm) else { return Ok(()) };
        match plan.death {
            Death::Abort => drop(comm.take().map(|comm| comm.abort())),
            Death::Drop => drop(comm.take()),
            Death::DropEverything => {
                self.streams.clear();
                self.stores.clear();
                self.comms.clear();
            }
            Death::Handle => {
                let handle = comm.as_ref().map(|comm| comm.abort_handle());
                thread::spawn(move || {
                    thread::sleep(Duration::from_millis(1));
                    handle.map(|handle| handle.abort("planned"))
                });
            }
            Death::Panic => resume_unwind(Box::new(Planned)),
            Death::PanicInClosure => {
                self.streams[1].launch((), |(), ()| resume_unwind(Box::new(Planned)))?;
            }
            Death::ErrorInGroup => {
                let fail = |_: &mut Group<'_, Dev>| -> Result<()> { Err(Error::other("planned")) };
                if let Some(comm) = comm {
                    assert!(comm.group(fail).is_err());
                }
            }
            Death::PanicInGroup => {
                let panic =
                    |_: &mut Group<'_, Dev>| -> Result<()> { resume_unwind(Box::new(Planned)) };
                if let Some(comm) = comm {
                    let group = AssertUnwindSafe(|| comm.group(panic));
                    assert!(catch_unwind(group).is_err_and(|panic| panic.is::<Planned>()));
                }
            }
            Death::Finish => comm.take().map_or(Ok(()), |comm| comm.finish())?,
            Death::Surplus | Death::OtherLength => {
                let len = if matches!(plan.death, Death::Surplus) { 1.min(block) } else { 0 };
                if let (Some(comm), Some(store)) = (comm.as_ref(), self.stores.first_mut()) {
                    comm.all_reduce_in_place(&mut store.slice_mut(0..len), Max)?;
                }
            }
            Death::Refused => {
                let end = self.shape.size() + 1;
                if let (Some(comm), Some(store)) = (comm.as_ref(), self.stores.first_mut()) {
                    comm.all_reduce_in_place(&mut store.slice_mut(0..end), Sum)?;
                }
            }
        }
        Ok(())
    }

    /// Reads, ends and drops the rest, in a random order.
    pub(crate) fn end(&mut self, random: &mut Random, look: &impl Fn(&Error)) {
        let read = |rank: &Self| {
            for error in rank.stores.iter().filter_map(|store| store.to_vec().err()) {
                look(&error);
            }
        };
        read(self);
        if random.one_in(3) {
            self.streams.clear();
        }
        if random.one_in(3) {
            self.stores.clear();
        }
        for comm in self.comms.drain(..).flatten() {
            match random.below(3) {
                0 => drop(comm),
                1 => drop(comm.abort()),
                _ => {
                    if let Err(error) = comm.finish() {
                        look(&error);
                    }
                }
            }
        }
        read(self);
    }
}
