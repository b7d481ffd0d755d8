//! Estimates the duration of a group.

use std::time::Duration;

use super::{CommOps, Group};
use crate::backend::{Backend, Op, Operations, RankOps};
use crate::communicator::{CanEnqueue, State};
use crate::error::{Error, Site, Unsupported, ValueMismatch};
use crate::{Communicator, Device, Result, World, unwind};

const OPERATION: &str = "estimate";

/// ## How long one would take
impl<W: World, S: State> Communicator<W, S> {
    /// Estimates how long a group of collectives would take, according to NCCL's tuning. Nothing of
    /// the group is issued, and no memory is touched. All ranks call it with the same collectives;
    /// the host waits for them. NCCL: `ncclGroupSimulateEnd`, 2.22.3, which connects the ranks as a
    /// first use of the collectives would. With one rank the result is zero.
    ///
    /// ```no_run
    /// # use typed_nccl::{Buffer, Communicator, Result, Sum, World};
    /// # fn f<W: World>(comm: &mut Communicator<W>, x: &mut Buffer<f32, W::Device>) -> Result<()> {
    /// let takes = comm.estimate(|g| g.all_reduce_in_place(x, Sum))?;
    /// println!("{takes:?}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The closure's own; a refusal of an operation in it. [`Error::ValueMismatch`] on the other
    /// ranks in that case, and if ranks record different collectives; the communicator is unharmed.
    /// [`Error::Unsupported`]: the host backend, which has no model of time; an older NCCL, or one
    /// that returns no time; a communicator that another library made; transfers and one-sided
    /// operations, which NCCL does not estimate. A lost peer; a passed deadline.
    #[track_caller]
    pub fn estimate<'e>(
        &'e mut self,
        record: impl FnOnce(&mut Group<'e, W>) -> Result<()>,
    ) -> Result<Duration>
    where
        S: CanEnqueue,
    {
        let (site, comm) = (Site::caller(), &*self);
        let mut group = Group::new(comm.here());
        let recorded = unwind::catch(|| record(&mut group));
        let own = match &recorded {
            Ok(Ok(())) => group.collectives().map_err(|error| (error.to_string(), Some(error))),
            Ok(Err(error)) => Err((error.to_string(), None)),
            Err(panic) => Err((format!("its closure panicked: {}", panic.message()), None)),
        };
        let said = own.clone().map_err(|(why, _)| why);
        let all = comm.gather_as(OPERATION, &said, site);
        recorded.unwrap_or_else(|panic| panic.resume())?;
        let own =
            own.map_err(|(why, error)| error.unwrap_or_else(|| mismatch(comm.rank(), why)))?;
        for (rank, theirs) in all?.into_iter().enumerate() {
            let found = match theirs {
                Ok(calls) if calls == own => continue,
                Ok(calls) => format!("recorded {calls:?}, this rank {own:?}"),
                Err(why) => format!("recorded nothing: {why}"),
            };
            return Err(mismatch(comm.rank().beside(rank), found));
        }
        if own.is_empty() || comm.size() == 1 {
            return Ok(Duration::ZERO);
        }
        let (on, ops) = (group.on, &group.lists.ops);
        let part = RankOps { comm: on.core.comm()?, stream: on.stream.raw(), ops };
        // SAFETY: as in `Core::issue`; all ranks are here, with the same calls.
        unsafe { <<W::Device as Device>::Backend as Operations>::estimate(&[part]) }
    }
}

/// Estimates for all ranks, whose calls were compared.
pub(crate) fn estimate_all<B: Backend>(mut parts: Vec<CommOps<'_, B>>) -> Result<Duration> {
    for part in &mut parts {
        part.check()?;
        part.ops().iter().try_for_each(|op| signature(op).map(drop))?;
    }
    if parts.len() < 2 || parts[0].ops().is_empty() {
        return Ok(Duration::ZERO);
    }
    let part = |part| {
        let CommOps { core, stream, lists, .. }: &CommOps<'_, _> = part;
        Ok(RankOps { comm: core.comm()?, stream: stream.raw(), ops: &lists.ops })
    };
    let ready = parts.iter().map(part).collect::<Result<Vec<_>>>()?;
    // SAFETY: as in `Core::issue`; these are all ranks, with the same calls.
    unsafe { B::estimate(&ready) }
}

fn mismatch(rank: crate::Rank, found: String) -> Error {
    ValueMismatch { operation: OPERATION, rank, found }.into()
}

impl<W: World> Group<'_, W> {
    /// The recorded collectives in canonical words, equal on all ranks; refuses other operations.
    fn collectives(&mut self) -> Result<Vec<String>> {
        self.check()?;
        self.lists.ops.iter().map(signature).collect()
    }
}

/// A collective in words; refuses other operations.
fn signature<B: Backend>(op: &Op<'_, B>) -> Result<String> {
    match op {
        Op::Collective(collective) => {
            let call = &collective.call;
            let root = call.root.map(|root| root.index());
            Ok(format!(
                "{} of {} {}, {:?}, root {root:?}",
                call.operation, call.count, call.dtype, call.reduction
            ))
        }
        other => Err(Error::from(Unsupported {
            what: "an estimate of a group".to_owned(),
            needs: "collectives alone".to_owned(),
            found: format!("it has {}", other.call()),
        })),
    }
}
