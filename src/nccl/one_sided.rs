//! Puts, signals and waits: which functions of NCCL's they are, and in what order.

use std::ffi::c_int;
use std::sync::Arc;

use nccl_sys::ncclWaitSignalDesc_t;

use super::api::unsupported;
use super::calls::{Failure, number, start};
use super::comm::Comm;
use super::values;
use crate::Result;
use crate::backend::{Op, Put, Signal, Streams, Wait};
use crate::cuda::{CudaBackend, CudaStream};

impl Comm {
    /// Puts, signals and waits, in order; waits that follow each other are one call.
    pub(super) fn one_sided_operations(
        &self,
        stream: &Arc<CudaStream>,
        ops: &[Op<'_, CudaBackend>],
    ) -> Result<(), Failure> {
        if !ops.iter().any(Op::is_one_sided) {
            return Ok(());
        }
        self.gpu.bind()?;
        self.one_after_the_other(stream)?;
        let mut waits = Vec::new();
        for op in ops {
            match op {
                Op::Wait(wait) => waits.push(*wait),
                Op::Put(put) => {
                    self.wait(stream, &std::mem::take(&mut waits))?;
                    self.put(stream, put)?;
                }
                Op::Signal(signal) => {
                    self.wait(stream, &std::mem::take(&mut waits))?;
                    self.signal(stream, signal)?;
                }
                Op::Collective(_) | Op::Transfer(_) => {}
            }
        }
        self.wait(stream, &waits)
    }

    /// Operations of one communicator run one after the other whatever their streams. NCCL sees to it
    /// for its kernels; what is one-sided is copies and waits on the caller's stream.
    pub(super) fn one_after_the_other(&self, stream: &Arc<CudaStream>) -> Result<()> {
        // What is captured comes after it when it is launched.
        if stream.is_capturing() {
            return Ok(());
        }
        let last = self.last_one_sided.replace(Some(stream.clone()));
        match last {
            Some(last) if !Arc::ptr_eq(&last, stream) => {
                CudaBackend::wait_for(stream, &CudaBackend::point(&last)?)
            }
            _ => Ok(()),
        }
    }

    fn put(&self, stream: &CudaStream, put: &Put<'_, CudaBackend>) -> Result<(), Failure> {
        // A put of nothing is its signal. It may stand at the end of a window, where NCCL takes none.
        if put.call.count == 0 {
            let Put { call, peer, slot, .. } = *put;
            return self.signal(stream, &Signal { call, peer, slot });
        }
        let missing = |missing| unsupported("put_signal", missing);
        let function = self.nccl.api.ncclPutSignal().map_err(missing)?;
        let window = self.window(put.to.window)?;
        let from = start(&Some(put.span));
        let (dtype, peer) = (values::dtype(put.call.dtype), number(put.peer.0));
        let (signal, context) = (number(put.slot.index), number(put.slot.context));
        // SAFETY: the source is in a symmetric window of this communicator and the target inside the
        // peer's part of `window`, by the caller's promise; `window` is this rank's own handle.
        let result = unsafe {
            function(
                from,
                put.call.count,
                dtype,
                peer,
                window,
                put.to.offset,
                signal,
                context,
                0,
                self.handle,
                stream.handle(),
            )
        };
        self.done("ncclPutSignal", put.call, result)
    }

    fn signal(&self, stream: &CudaStream, signal: &Signal) -> Result<(), Failure> {
        let function =
            self.nccl.api.ncclSignal().map_err(|missing| unsupported("signal", missing))?;
        let (index, context) = (number(signal.slot.index), number(signal.slot.context));
        let peer = number(signal.peer.0);
        // SAFETY: communicator and stream are alive; no memory is named.
        let result = unsafe { function(peer, index, context, 0, self.handle, stream.handle()) };
        self.done("ncclSignal", signal.call, result)
    }

    fn wait(&self, stream: &CudaStream, waits: &[Wait]) -> Result<(), Failure> {
        let Some(first) = waits.first() else { return Ok(()) };
        let missing = |missing| unsupported("wait_signal", missing);
        let function = self.nccl.api.ncclWaitSignal().map_err(missing)?;
        let mut descriptions: Vec<ncclWaitSignalDesc_t> = waits
            .iter()
            .map(|wait| ncclWaitSignalDesc_t {
                opCnt: number(wait.count),
                peer: number(wait.peer.0),
                sigIdx: number(wait.slot.index),
                ctx: number(wait.slot.context),
            })
            .collect();
        let count = c_int::try_from(descriptions.len()).unwrap_or(c_int::MAX);
        // SAFETY: as many descriptions as are said; NCCL copies them before it returns.
        let result =
            unsafe { function(count, descriptions.as_mut_ptr(), self.handle, stream.handle()) };
        self.done("ncclWaitSignal", first.call, result)
    }

    /// Ok where one-sided operations are there.
    pub(super) fn one_sided(&self, what: &str) -> Result<()> {
        self.nccl.api.ncclPutSignal().map_err(|missing| unsupported(what, missing))?;
        match self.one_sided.get() {
            Some(true) => Ok(()),
            found => {
                self.nccl.environment.allows_one_sided(what)?;
                Err(super::window::no_one_sided(what, found.is_some()))
            }
        }
    }
}
