//! Maps collectives and transfers to NCCL's functions.

use std::ffi::c_void;
use std::ptr;

use nccl_sys::{ncclDataType_t, ncclRedOp_t, ncclResult_t};
use typed_nccl_plan::ir::Side;

use super::api::lacking;
use super::comm::Comm;
use super::config;
use super::exact;
use super::functions::{Arguments, Configured, Plain};
use super::values::{self, number};
use crate::backend::{Collective, Half, Op, Span, Transfer};
use crate::communicator::{CallConfig, Transfers};
use crate::cuda::{CudaBackend, CudaStream};
use crate::error::{Call, CollectiveName, Error};
use crate::{Rank, ReductionName};

pub(super) type Span1<'a> = Option<Span<'a, CudaBackend>>;

/// A span's address on the device, or null for none.
#[inline]
pub(super) fn start(span: &Span1<'_>) -> *mut c_void {
    span.as_ref().map_or(ptr::null_mut(), |span| span.allocation().block().at(span.offset()))
}

/// Whether an operand is memory of NCCL's allocator. Only such memory can be in a window.
#[inline]
pub(super) fn is_nccls(collective: &Collective<'_, CudaBackend>) -> bool {
    let is = |span: &Span1<'_>| span.is_some_and(|span| span.allocation().block().is_nccls());
    is(&collective.send) || is(&collective.recv)
}

pub(super) enum Failure {
    /// Detected before NCCL was called.
    Before(Error),
    Nccl(&'static str, ncclResult_t, Call),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Before(error)
    }
}

impl Comm {
    #[inline]
    pub(super) fn done(
        &self,
        function: &'static str,
        call: Call,
        result: ncclResult_t,
    ) -> Result<(), Failure> {
        if result == ncclResult_t::ncclSuccess {
            return Ok(());
        }
        match self.over(result) {
            ncclResult_t::ncclSuccess => Ok(()),
            failed => Err(Failure::Nccl(function, failed, call)),
        }
    }

    /// Which operands of a collective are in windows of this communicator or registered with it.
    /// Each rank's NCCL chooses its algorithm by this.
    pub(super) fn memory(&self, collective: &Collective<'_, CudaBackend>) -> u8 {
        // Exact sums use addresses that NCCL does not know as registered.
        if !is_nccls(collective) || collective.call.reduction.is_some_and(exact::adds_exactly) {
            return 0;
        }
        let of = |span: &Span1<'_>, bit: u8| match span {
            Some(span) if self.is_known(*span, collective.call.dtype) => bit,
            _ => 0,
        };
        let spec = collective.name.spec();
        if spec.is_messages_with_root() {
            // Transfers then use addresses that NCCL does not know as registered.
            if self.config.transfers == Transfers::Any {
                return 0;
            }
            // NCCL makes these as transfers between the root's whole memory and the other ranks'
            // parts.
            let is_root = collective.call.root == Some(Rank::at(self.shared.rank));
            return match spec.send.is_whole == is_root {
                true => of(&collective.send, 1),
                false => of(&collective.recv, 1),
            };
        }
        match spec.has_root() {
            // Only the root has both operands; the other ranks cannot be compared with it.
            true => 0,
            false => of(&collective.send, 1) | of(&collective.recv, 2),
        }
    }

    /// Keeps the event that NCCL records at a kernel's launch, which may follow the call's return.
    fn keep_launched(&self, config: &CallConfig) {
        let Some(event) = &config.launched else { return };
        let mut kept = self.launched.borrow_mut();
        if !kept.iter().any(|known| known.is(event)) {
            kept.push(event.clone());
        }
    }

    /// Collectives and transfers, but for exact sums.
    pub(super) fn others(
        &self,
        stream: &CudaStream,
        ops: &[Op<'_, CudaBackend>],
    ) -> Result<(), Failure> {
        ops.iter().try_for_each(|op| match op {
            Op::Collective(_) if exact::of(op).is_some() => Ok(()),
            Op::Collective(collective) => self.collective(stream, collective),
            Op::Transfer(transfer) => self.transfer(stream, transfer),
            Op::Put(_) | Op::Signal(_) | Op::Wait(_) => Ok(()),
        })
    }

    /// The addresses that a collective reads and writes.
    fn addresses(&self, collective: &Collective<'_, CudaBackend>) -> (*mut c_void, *mut c_void) {
        let Collective { name, send, recv, .. } = collective;
        let at = |span: &Span1<'_>| match span {
            // NCCL makes these as transfers.
            Some(span) if name.spec().is_messages_with_root() => self.named(span),
            _ => start(span),
        };
        let (from, to) = (at(send), at(recv));
        // A rank other than the root has one operand only, but NCCL wants an address for both.
        (if from.is_null() { to } else { from }, if to.is_null() { from } else { to })
    }

    fn collective(
        &self,
        stream: &CudaStream,
        collective: &Collective<'_, CudaBackend>,
    ) -> Result<(), Failure> {
        let Collective { name, call, reduction, send, recv, config } = collective;
        let (from, to) = self.addresses(collective);
        let (count, dtype) = values::counted(call);
        // The mean of one rank is its own value, and NCCL does not divide 8-bit floats there.
        let op = match reduction {
            Some(_) if self.size == 1 && call.reduction == Some(ReductionName::Mean) => {
                ncclRedOp_t::ncclSum
            }
            reduction => values::reduction(*reduction),
        };
        let root = call.root.map_or(0, |root| number(root.0));
        let (comm, handle) = (self.handle, stream.handle());
        let arguments = Arguments { from, to, count, dtype, op, root, comm, stream: handle };
        if let Some(config) = config {
            return self.configured(*name, *call, &arguments, config);
        }
        let Ok(function) = Plain::of(self.nccl, *name) else {
            // The loaded NCCL lacks this collective.
            let alias = |span: &Span1<'_>, other: *mut c_void| match span {
                Some(span) => span.allocation().block().alias(span.offset()),
                None => other,
            };
            return self.spread(stream, *name, *call, (alias(send, from), alias(recv, to)));
        };
        // SAFETY: the spans are on the communicator's device and hold the elements that the
        // collective's spec states, which are those that NCCL accesses. NCCL ignores the address of
        // an operand that a rank does not have. Communicator and stream are alive.
        let result = unsafe { function.call(&arguments) };
        self.done(name.spec().function, *call, result)
    }

    /// Issues a collective with its own configuration.
    fn configured(
        &self,
        name: CollectiveName,
        call: Call,
        arguments: &Arguments,
        config: &CallConfig,
    ) -> Result<(), Failure> {
        let made = config::of_call(config);
        let function = Configured::of(self.nccl, name);
        let function = function.map_err(lacking("a `CallConfig`"))?;
        // SAFETY: as in `collective`. Texts of the configuration are never freed, and an event
        // lives as long as the communicator.
        let result = unsafe { function.call(arguments, &made) };
        self.keep_launched(config);
        self.done(name.spec().configured, call, result)
    }

    /// `all_to_all`, `gather` and `scatter` for releases without them: transfers of blocks, inside
    /// the group that the caller opened.
    fn spread(
        &self,
        stream: &CudaStream,
        name: CollectiveName,
        call: Call,
        (from, to): (*mut c_void, *mut c_void),
    ) -> Result<(), Failure> {
        let (rank, spec, block) = (self.shared.rank, name.spec(), call.bytes());
        let counted = values::counted(&call);
        let has = |side: Side, rank: usize| side.is_on(call.root == Some(Rank::at(rank)));
        for peer in 0..self.size as usize {
            let at = |start: *mut c_void, side: Side| match side.is_whole {
                true => start.wrapping_byte_add(peer * block),
                false => start,
            };
            let sends = has(spec.send, rank) && has(spec.recv, peer);
            let receives = has(spec.recv, rank) && has(spec.send, peer);
            let send = sends.then(|| at(from, spec.send));
            let recv = receives.then(|| at(to, spec.recv));
            // In place, a rank's own block is already where it belongs.
            if peer == rank && send == recv {
                continue;
            }
            for (half, place) in [(Half::SendTo, send), (Half::RecvFrom, recv)] {
                if let Some(place) = place {
                    self.message(stream, (half, call), (place, counted), peer as u32)?;
                }
            }
        }
        Ok(())
    }

    fn transfer(
        &self,
        stream: &CudaStream,
        transfer: &Transfer<'_, CudaBackend>,
    ) -> Result<(), Failure> {
        let Transfer { half, call, peer, span } = transfer;
        let elements = (self.named(span), values::counted(call));
        self.message(stream, (*half, *call), elements, peer.0)
    }

    /// The address that a transfer passes to NCCL.
    ///
    /// NCCL waits forever if one side of a message is memory that its communicator knows as
    /// registered and the other is not, and each rank sees its own side only. So the two sides must
    /// never differ. The choice is part of the communicator's configuration, which is the same on
    /// all ranks:
    /// * [`Transfers::Any`]: NCCL knows neither side as registered. Memory of its allocator is
    ///   passed by a second address that is never registered. Plain memory is registered only where
    ///   no rank's transfers look it up (see `register_buffer`). This does not cover captures, in
    ///   which NCCL may register by itself.
    /// * [`Transfers::Registered`]: NCCL knows both sides. The typed layer refuses memory that is
    ///   not of NCCL's allocator, or not in one window or registration of this communicator that
    ///   spans the message.
    fn named(&self, span: &Span<'_, CudaBackend>) -> *mut c_void {
        let block = span.allocation().block();
        match self.config.transfers {
            Transfers::Any => block.alias(span.offset()),
            Transfers::Registered => block.at(span.offset()),
        }
    }

    /// Enqueues half of a message: the elements at `place`, whose number and type `counted` is.
    pub(super) fn message(
        &self,
        stream: &CudaStream,
        (half, call): (Half, Call),
        (place, counted): (*mut c_void, (usize, ncclDataType_t)),
        peer: u32,
    ) -> Result<(), Failure> {
        let ((count, dtype), peer) = (counted, number(peer));
        let (comm, stream) = (self.handle, stream.handle());
        match half {
            Half::SendTo => {
                // SAFETY: the elements are in an allocation on the communicator's device, and
                // nothing writes them until the stream has passed the operation.
                let result = unsafe { (self.nccl.send)(place, count, dtype, peer, comm, stream) };
                self.done("ncclSend", call, result)
            }
            Half::RecvFrom => {
                // SAFETY: as above; nothing else uses the elements until then.
                let result = unsafe { (self.nccl.recv)(place, count, dtype, peer, comm, stream) };
                self.done("ncclRecv", call, result)
            }
        }
    }
}
