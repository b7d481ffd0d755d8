//! Adopting communicators of other libraries, and handing ours over.

use nccl_sys::ncclComm_t;

use super::Change;
use super::adopted_comm::AdoptedComm;
use super::lifecycle::Finish;
use super::{CanEnqueue, CommConfig, Communicator, Live, State, Uninit};
use crate::backend::Kernels;
use crate::control::Topic;
use crate::cuda::CudaBackend;
use crate::error::{Failed, Site};
use crate::{Cuda, Result, Seat, World, nccl};

/// ## Of another library
///
/// Communicators that other code made with NCCL, or will use.
impl<Tag> Communicator<Cuda<Tag>> {
    /// Adopts a communicator that another library created. All ranks must call it, each with the
    /// seat of the rank that its communicator has; the host waits for them for at most 10 minutes.
    /// For options, a label, or a start without waiting, use [`with_raw`](Communicator::with_raw).
    ///
    /// ```no_run
    /// use nccl_sys::ncclComm_t;
    /// use typed_nccl::{Communicator, Cuda, Result, Seat, Sum};
    ///
    /// /// `theirs` is of one rank of a job that torchrun started.
    /// unsafe fn average(theirs: ncclComm_t, values: &mut [f32]) -> Result<ncclComm_t> {
    ///     // SAFETY: the caller's promise.
    ///     let comm = unsafe { Communicator::from_raw(Seat::from_env()?, Cuda::local()?, theirs) }?;
    ///     let mut x = comm.device().from_slice(values)?;
    ///     comm.all_reduce_in_place(&mut x, Sum)?;
    ///     values.copy_from_slice(&x.to_vec()?);
    ///     Ok(comm.into_raw()?)
    /// }
    /// ```
    ///
    /// The returned value owns the communicator: `finish`, `abort` and dropping destroy it, and
    /// [`into_raw`](Self::into_raw) returns it. It works like a communicator of ours, also if it is
    /// nonblocking (`ncclConfig_t::blocking` is 0): calls then wait until NCCL has completed them.
    /// Children are created with ids of their own instead of `ncclCommSplit`, because the parent's
    /// configuration is unknown. `recover`, `shrink` and `grow` replace it with a communicator of
    /// ours and destroy it.
    ///
    /// NCCL: `ncclCommGetAsyncError`, `ncclCommUserRank`, `ncclCommCount`, `ncclCommCuDevice`.
    ///
    /// # Errors
    /// [`Error::InitFailed`](crate::Error::InitFailed) on all ranks: a communicator whose rank,
    /// size or GPU differs from the seat and the device, that has an error, is in progress or is
    /// null, or a rank that passes none. Any error of [`connect`](Communicator::connect). After an
    /// error the caller still owns the communicator. NCCL 2.22 to 2.28.6 cannot free a thread that
    /// connects ranks, so there `connect` runs a first operation on it, which may be what failed.
    ///
    /// # Safety
    /// `raw` must be null or a live communicator of the NCCL that this process uses, and the ranks
    /// must pass communicators that belong together. Nothing else may use or destroy it while this
    /// value owns it. It must have no work in progress or left over: no operation, no open group,
    /// no signal.
    #[track_caller]
    pub unsafe fn from_raw(seat: Seat, device: Cuda<Tag>, raw: ncclComm_t) -> Result<Self> {
        let comm = Communicator::unnamed(seat, device, CommConfig::default());
        // SAFETY: the caller's promise.
        unsafe { comm.with_raw(raw) }.connect()
    }
}

impl<Tag, W: World<Device = Cuda<Tag>>> Communicator<W, Uninit> {
    /// Makes `connect` or `start` adopt a communicator that another library created:
    /// [`from_raw`](Communicator::from_raw) with the builder's options.
    ///
    /// ```no_run
    /// # use nccl_sys::ncclComm_t;
    /// # use typed_nccl::{CommConfig, Communicator, Cuda, Result, Seat, tag};
    /// # tag!(Theirs);
    /// # unsafe fn take(seat: Seat, raw: ncclComm_t, config: CommConfig) -> Result<Communicator<Theirs<Cuda>>> {
    /// let comm = Communicator::builder().seat(seat).device(Cuda::local()?);
    /// let comm = comm.label::<Theirs>().config(config).build();
    /// // SAFETY: the caller's promise.
    /// unsafe { comm.with_raw(raw) }.connect()
    /// # }
    /// ```
    ///
    /// The configuration's contexts and signals must be those that it was created with.
    ///
    /// # Safety
    /// As [`from_raw`](Communicator::from_raw), from this call on.
    pub unsafe fn with_raw(mut self, raw: ncclComm_t) -> Self {
        // SAFETY: the caller's promise.
        let (says, taken) = unsafe { nccl::adopt(raw) };
        self.body.raw = Some(AdoptedComm { says, taken });
        self
    }
}

impl<Tag, W: World<Device = Cuda<Tag>>> Communicator<W> {
    /// Hands NCCL's communicator over to another library, and ends this value without destroying
    /// it. All ranks must call it; the host waits for this rank's work, then for the other ranks,
    /// within the deadline. Afterwards none of our work is in progress on it, on any rank.
    ///
    /// Windows, registered buffers and operators are deregistered; the memory of a window stays
    /// readable through its handle, as after `finish`. The communicator need not come from
    /// [`from_raw`](Self::from_raw). After `recover`, `shrink` or `grow` it is a different one from
    /// what `from_raw` took.
    ///
    /// NCCL: `ncclCommWindowDeregister`, `ncclCommDeregister`, `ncclRedOpDestroy`.
    ///
    /// # Errors
    /// As `finish`, with this communicator: after an error of an operation or unawaited signals, a
    /// second call returns NCCL's communicator; a poisoned one can be `recover`ed or aborted. If
    /// another rank calls `finish` instead, the error says so.
    #[expect(clippy::result_large_err, reason = "the communicator comes back in it")]
    #[track_caller]
    pub fn into_raw(mut self) -> Result<ncclComm_t, Failed<Self>> {
        self.body.give_away(Site::caller()).map_err(|error| Failed { error, value: self })
    }
}

impl<Tag, W: World<Device = Cuda<Tag>>, S: State> Communicator<W, S> {
    /// NCCL's communicator, for calls of NCCL that this library does not wrap. This one stays as it
    /// is and keeps owning it. Local; never waits.
    ///
    /// # Errors
    /// A poisoned communicator.
    ///
    /// # Safety
    /// The handle is used on this thread, and only while this communicator is neither used
    /// meanwhile nor ended, replaced (`recover`, `shrink`, `grow`) or suspended. It is not
    /// finalized, destroyed, aborted, revoked or suspended through it, and what is made with it
    /// (windows, registrations, operators, children) ends before it does. Calls that all ranks have
    /// to make are made by all of them at the same place among the calls of this library, which
    /// compares and times out its own calls only. Their memory stays until their work is over, and
    /// the caller orders their streams.
    pub unsafe fn as_raw(&self) -> Result<ncclComm_t>
    where
        S: CanEnqueue,
    {
        S::live(&self.body).core.comm().map(nccl::handle)
    }
}

impl<Tag, W: World<Device = Cuda<Tag>>> Live<W> {
    fn give_away(&mut self, site: Site) -> Result<ncclComm_t> {
        const OPERATION: Topic = "into_raw";

        self.core.health.check()?;
        if let Finish::Not = self.finish.get() {
            let core = &self.core;
            core.may_wait(OPERATION, site)?;
            let report = self.idle(site)?;
            report.into_iter().for_each(|report| core.health.pend(report));
            core.barrier(OPERATION, site)?;
            self.clear()?;
        }
        self.drain(site, false)?;
        let (comm, _control) = self.core.end().ok_or_else(|| self.core.health.ended())?;
        let raw = nccl::give_away(comm)?;
        self.core.health.end();
        self.core.changes.tell_of(|| Change::Finished);
        Ok(raw)
    }

    /// Removes all of our resources from NCCL's communicator, windows in one order on all ranks.
    fn clear(&mut self) -> Result<()> {
        self.core.release_all("its communicator was given to another library")?;
        <CudaBackend as Kernels>::unmake_kernels(self.core.comm()?);
        Ok(())
    }
}
