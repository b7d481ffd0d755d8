//! Maps puts, signals and waits to NCCL's functions, in order.

use std::sync::Arc;

use nccl_sys::ncclWaitSignalDesc_t;

use super::api::lacking;
use super::calls::{Failure, start};
use super::comm::Comm;
use super::values::{self, number};
use crate::Result;
use crate::backend::{Op, Put, Signal, Streams, Wait};
use crate::cuda::{CudaBackend, CudaStream};

impl Comm {
    /// Issues puts, signals and waits in order. Consecutive waits become one call.
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

    /// Orders this stream after the communicator's last one-sided operation. Operations of one
    /// communicator run one after the other on any streams. NCCL ensures this for its kernels, but
    /// one-sided operations are copies and waits on the caller's stream.
    pub(super) fn one_after_the_other(&self, stream: &Arc<CudaStream>) -> Result<()> {
        // The graph's launch orders captured operations.
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
        // A put of nothing is only a signal. Its offset may be the end of a window, which NCCL
        // refuses.
        if put.call.count == 0 {
            let Put { call, peer, slot, .. } = *put;
            return self.signal(stream, &Signal { call, peer, slot });
        }
        let function = self.nccl.api.ncclPutSignal().map_err(lacking("put_signal"))?;
        let window = self.window(put.to.window)?;
        let from = start(&Some(put.span));
        let ((count, dtype), peer) = (values::counted(&put.call), number(put.peer.0));
        let (signal, context) = (number(put.slot.index), number(put.slot.context));
        // SAFETY: by the caller's promise, the source is in a symmetric window of this communicator
        // and the target inside the peer's part of `window`. `window` is this rank's own handle.
        let result = unsafe {
            function(
                from,
                count,
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
        let function = self.nccl.api.ncclSignal().map_err(lacking("signal"))?;
        let (index, context) = (number(signal.slot.index), number(signal.slot.context));
        let peer = number(signal.peer.0);
        // SAFETY: communicator and stream are alive; the call names no memory.
        let result = unsafe { function(peer, index, context, 0, self.handle, stream.handle()) };
        self.done("ncclSignal", signal.call, result)
    }

    fn wait(&self, stream: &CudaStream, waits: &[Wait]) -> Result<(), Failure> {
        let Some(first) = waits.first() else { return Ok(()) };
        let function = self.nccl.api.ncclWaitSignal().map_err(lacking("wait_signal"))?;
        let mut descriptions: Vec<ncclWaitSignalDesc_t> = waits
            .iter()
            .map(|wait| ncclWaitSignalDesc_t {
                opCnt: number(wait.count),
                peer: number(wait.peer.0),
                sigIdx: number(wait.slot.index),
                ctx: number(wait.slot.context),
            })
            .collect();
        let count = number(descriptions.len());
        // SAFETY: `count` is the number of descriptions, which NCCL copies before it returns.
        let result =
            unsafe { function(count, descriptions.as_mut_ptr(), self.handle, stream.handle()) };
        self.done("ncclWaitSignal", first.call, result)
    }

    /// Fails if one-sided operations are unavailable.
    pub(super) fn one_sided(&self, what: &str) -> Result<()> {
        self.nccl.api.ncclPutSignal().map_err(lacking(what))?;
        match self.one_sided.get() {
            Some(true) => Ok(()),
            found => {
                self.nccl.environment.allows_one_sided(what)?;
                Err(super::window::no_one_sided(what, found.is_some()))
            }
        }
    }
}
