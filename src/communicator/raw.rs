//! Communicators that another library made, and ours that another library goes on with.

use nccl_sys::ncclComm_t;

use super::brought::Brought;
use super::change::Change;
use super::lifecycle::Finish;
use super::{CommConfig, Communicator, Live, Uninit, ended};
use crate::backend::{DeviceComms, Kernels, Lifecycle, Windows};
use crate::control::Topic;
use crate::cuda::CudaBackend;
use crate::error::{Failed, Site};
use crate::{Cuda, Result, Seat, World, nccl};

impl<Tag> Communicator<Cuda<Tag>> {
    /// Takes the communicator that another library made, instead of having NCCL make one. All ranks
    /// call it, each with the seat of the rank that its communicator has; the host waits for them, 10
    /// minutes at most. With options, a label, or without waiting:
    /// [`with_raw`](Communicator::with_raw).
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
    /// From here on it is this value's: `finish` and `abort` destroy it, as dropping does, and
    /// [`into_raw`](Self::into_raw) gives it back. Everything works as on a communicator of ours, also
    /// where it does not block (`ncclConfig_t::blocking` is 0): calls wait until NCCL is done with
    /// them. Children are made by ids of their own and not by `ncclCommSplit`, because how the parent
    /// was configured is not known. `recover`, `shrink` and `grow` go on with communicators of ours,
    /// and destroy this one.
    ///
    /// NCCL: `ncclCommGetAsyncError`, `ncclCommUserRank`, `ncclCommCount`, `ncclCommCuDevice`.
    ///
    /// # Errors
    /// [`Error::InitFailed`](crate::Error::InitFailed) on all ranks: a communicator of another rank,
    /// size or GPU than the seat and the device, one with an error, in progress or null, or a rank
    /// that brings none. What [`connect`](Communicator::connect) gives. With every error the
    /// communicator is the caller's as before; with NCCL 2.22 to 2.28.6, which cannot free a thread that
    /// connects ranks, `connect` runs a first operation with it, which may be what failed.
    ///
    /// # Safety
    /// `raw` is null or a live communicator of the NCCL that this process uses; the ranks give those
    /// that belong together. Nobody else uses or destroys it as long as it is here, and nothing that
    /// was done with it is under way or left over: no operation, no open group, no signal.
    #[track_caller]
    pub unsafe fn from_raw(seat: Seat, device: Cuda<Tag>, raw: ncclComm_t) -> Result<Self> {
        let comm = Communicator::unnamed(seat, device, CommConfig::default());
        // SAFETY: the caller's promise.
        unsafe { comm.with_raw(raw) }.connect()
    }
}

impl<Tag, W: World<Device = Cuda<Tag>>> Communicator<W, Uninit> {
    /// Has `connect`, or `start`, take the communicator that another library made:
    /// [`from_raw`](Communicator::from_raw) with what the builder offers.
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
    /// The contexts and signals of the configuration are those that it was made with.
    ///
    /// # Safety
    /// As there, from this call on.
    pub unsafe fn with_raw(mut self, raw: ncclComm_t) -> Self {
        // SAFETY: the caller's promise.
        let (says, taken) = unsafe { nccl::adopt(raw) };
        self.body.raw = Some(Brought { says, taken });
        self
    }
}

impl<Tag, W: World<Device = Cuda<Tag>>> Communicator<W> {
    /// Gives NCCL's communicator to another library, and ends this value without destroying it. All
    /// ranks call it; the host waits for this rank's work, then for the others, within the deadline.
    /// So nothing of ours is under way on it afterwards, on any rank.
    ///
    /// Windows, registered buffers and operators are deregistered; the memory of a window stays
    /// readable by its handle, as after `finish`. The communicator need not be one that
    /// [`from_raw`](Self::from_raw) took. After `recover`, `shrink` or `grow` it is another one than
    /// that was.
    ///
    /// NCCL: `ncclCommWindowDeregister`, `ncclCommDeregister`, `ncclRedOpDestroy`.
    ///
    /// # Errors
    /// What `finish` gives, with this communicator: after a report of an operation or of signals that
    /// were not awaited, a second call gives NCCL's communicator; a poisoned one can be `recover`ed or
    /// aborted. Ranks of which one calls `finish` are told so.
    #[expect(clippy::result_large_err, reason = "the communicator comes back in it")]
    #[track_caller]
    pub fn into_raw(mut self) -> Result<ncclComm_t, Failed<Self>> {
        match self.body.give_away(Site::caller()) {
            Ok(raw) => Ok(raw),
            Err(error) => Err(Failed { error, value: self }),
        }
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
        let (comm, _control) = self.core.end().ok_or_else(|| ended(&self.core.health))?;
        let raw = nccl::give_away(comm)?;
        self.core.health.end();
        self.core.changes.tell_of(|| Change::Finished);
        Ok(raw)
    }

    /// Takes everything of ours out of NCCL's communicator: windows in one order on all ranks.
    fn clear(&mut self) -> Result<()> {
        let held = self.core.resources.take_all();
        let comm = self.core.comm()?;
        for shared in held.device_comms {
            shared.end("its communicator was given to another library");
            <CudaBackend as DeviceComms>::unmake(comm, shared.id);
        }
        for window in held.windows {
            <CudaBackend as Windows>::unregister(comm, window.id, window.handle);
            window.allocation.order.leave_window();
        }
        <CudaBackend as Kernels>::unmake_kernels(comm);
        for operator in held.operators {
            <CudaBackend as Lifecycle>::drop_operator(comm, operator);
        }
        let mut buffers = held.buffers.into_iter();
        buffers.try_for_each(|buffer| {
            CudaBackend::deregister_buffer(comm, &buffer.lease, buffer.handle.get())
        })
    }
}
