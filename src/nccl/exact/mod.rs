//! Exact sums and means, which NCCL does not have: NCCL moves the contributions, and a kernel of
//! this library adds them.
//!
//! A message is cut into chunks, and a chunk into a piece for each rank. Every rank sends the others
//! their pieces, adds those of its own that it received, and the results are gathered. What is
//! short is sent to all at once. The results of a chunk are gathered in the group that exchanges
//! the next one of the same sum. All of it is enqueued on the call's stream, and the memory between
//! is the communicator's ([`Scratch`]).
//!
//! Memory is named by addresses that NCCL does not know as registered, so that both sides of every
//! message are alike, whatever the ranks' memory is.

mod chunk;
mod scratch;

use std::sync::Arc;

use super::comm::Comm;
use super::graphs;
use super::issue::failed;
use crate::backend::{Collective, Op, RankOps};
use crate::cuda::exact::MOST_RANKS;
use crate::cuda::{CudaBackend, CudaStream};
use crate::error::{Error, Unsupported};
use crate::{ReductionName, Result};
use chunk::Chunk;

pub(super) use scratch::Scratch;

/// Whether it is an exact sum or mean.
pub(super) const fn adds_exactly(name: ReductionName) -> bool {
    matches!(name, ReductionName::ExactAdd | ReductionName::ExactMean)
}

/// The exact sum or mean that an operation is.
pub(super) fn of<'o, 'a>(op: &'o Op<'a, CudaBackend>) -> Option<&'o Collective<'a, CudaBackend>> {
    match op {
        Op::Collective(collective) if collective.call.reduction.is_some_and(adds_exactly) => {
            Some(collective)
        }
        _ => None,
    }
}

/// Fails if the communicator cannot add exactly.
pub(super) fn possible(comm: &Comm, collective: &Collective<'_, CudaBackend>) -> Result<()> {
    let name = collective.call.reduction.map_or_else(String::new, |name| name.to_string());
    if collective.config.is_some() {
        let found = "NCCL only moves its contributions: leave the configuration out";
        let what = format!("a `CallConfig` of {name}");
        return Err(Unsupported::error(what, "a reduction of NCCL's", found));
    }
    if comm.size as usize > MOST_RANKS {
        let found = format!("the communicator has {}", comm.size);
        return Err(Unsupported::error(name, format!("{MOST_RANKS} ranks at most"), found));
    }
    Ok(())
}

/// The error for an estimate, which is NCCL's and does not know our kernels.
#[cold]
pub(super) fn no_estimate(name: ReductionName) -> Error {
    Unsupported::error(
        format!("an estimate of {name}"),
        "a reduction of NCCL's",
        "NCCL only moves its contributions: estimate the group without it",
    )
}

/// Gets an operation what it needs before anything is sent: the kernels, and memory.
pub(super) fn prepare(comm: &Comm, op: &Op<'_, CudaBackend>, captured: bool) -> Result<()> {
    let Some(collective) = of(op) else { return Ok(()) };
    comm.gpu.load_exact_sums()?;
    let chunks = Chunk::all(comm, collective, captured);
    comm.scratch.reserve(comm, chunks.iter().map(Chunk::bytes).max().unwrap_or(0))
}

/// One rank's exact sums in a group, chunk after chunk.
pub(super) struct Run<'p> {
    comm: &'p Comm,
    stream: &'p Arc<CudaStream>,
    /// `None` after the last chunk of a sum whose results are gathered, as the next sum uses the
    /// memory between in another way.
    chunks: Vec<Option<Chunk>>,
    scratch: u64,
}

/// The exact sums of all parts of a group.
pub(super) struct Runs<'p>(Vec<Run<'p>>);

impl<'p> Runs<'p> {
    /// Orders the use of the memory between after earlier ones.
    pub(super) fn begin(parts: &[RankOps<'p, '_, CudaBackend>]) -> Result<Self> {
        let mut runs = Vec::new();
        for &RankOps { comm, stream, ops } in parts {
            let captured = stream.is_capturing();
            let mut chunks: Vec<Option<Chunk>> = Vec::new();
            for sum in ops.iter().filter_map(of) {
                if chunks.last().and_then(Option::as_ref).is_some_and(Chunk::is_gathered) {
                    chunks.push(None);
                }
                chunks.extend(Chunk::all(comm, sum, captured).into_iter().map(Some));
            }
            if chunks.is_empty() {
                continue;
            }
            match captured {
                true => graphs::follow_captured(comm, stream)?,
                false => comm.scratch.order(stream)?,
            }
            let scratch = comm.scratch.start(captured);
            runs.push(Run { comm, stream, chunks, scratch });
        }
        Ok(Self(runs))
    }

    /// The number of steps.
    pub(super) fn steps(&self) -> usize {
        self.0.iter().map(|run| run.chunks.len() + 1).max().unwrap_or(0)
    }

    /// Whether NCCL moves something in a step.
    pub(super) fn moves(&self, step: usize) -> bool {
        self.each(step).any(|(run, before, now)| {
            before.is_some_and(Chunk::is_gathered) || now.is_some() && run.comm.size > 1
        })
    }

    /// Each rank with the chunk whose results a step gathers, and the one that it exchanges.
    fn each(
        &self,
        step: usize,
    ) -> impl Iterator<Item = (&Run<'p>, Option<&Chunk>, Option<&Chunk>)> {
        self.0.iter().map(move |run| {
            let at = |step: usize| run.chunks.get(step).and_then(Option::as_ref);
            (run, step.checked_sub(1).and_then(at), at(step))
        })
    }

    /// Work before the group of a step.
    pub(super) fn before(&self, step: usize) -> Result<()> {
        self.each(step).try_for_each(|(run, _, now)| match now {
            Some(now) => now.stage(run.stream, run.scratch),
            None => Ok(()),
        })
    }

    /// The calls of NCCL in a step, inside a group.
    pub(super) fn inside(&self, step: usize) -> Result<()> {
        self.each(step).try_for_each(|(run, before, now)| {
            let (on, scratch) = ((run.comm, &**run.stream), run.scratch);
            let gathered = before.map_or(Ok(()), |before| before.gather(on, scratch));
            let exchanged =
                gathered.and_then(|()| now.map_or(Ok(()), |now| now.exchange(on, scratch)));
            exchanged.map_err(|failure| failed(run.comm, failure))
        })
    }

    /// Work after the group of a step.
    pub(super) fn after(&self, step: usize) -> Result<()> {
        self.each(step).try_for_each(|(run, before, now)| {
            let (stream, scratch) = (run.stream, run.scratch);
            before.map_or(Ok(()), |before| before.settle(stream, scratch))?;
            now.map_or(Ok(()), |now| now.add(stream, scratch))
        })
    }
}
