//! The collectives: every rank of the communicator calls the same ones in the same order.
//!
//! All of them enqueue and return; the host does not wait for the data to move. Counts are in
//! elements. Bad input is refused before anything is sent: the refusal counts as this rank's turn,
//! and the other ranks get [`Error::Refused`] with the reason. Calls that differ between ranks are
//! reported on every rank at its next host wait ([`Error::Mismatch`]) on the host backend; NCCL
//! itself hangs or gives wrong data.
//!
//! Each method stands on [`Communicator`](crate::Communicator), using its own stream, and on
//! [`On`], which is `comm.on(&stream)`.

mod all_gather;
mod all_reduce;
mod all_to_all;
mod broadcast;
mod gather;
mod reduce;
mod reduce_scatter;
mod root;
mod scatter;

pub use root::Root;

use crate::backend::{Collective, Collectives, Reduction, Span};
use crate::communicator::On;
use crate::error::{
    BadLength, BadRange, Call, Error, NoBuffer, NoSuchRank, Operation, OtherDevice, Overflow, Site,
};
use crate::{AsRank, Buffer, DType, Device, Element, Rank, Readable, ReduceOp, Result, World};

type Back<W> = <<W as World>::Device as Device>::Backend;

/// Refusals and the one way into the backend.
impl<W: World> On<'_, W> {
    #[inline]
    fn span<'a, A: Readable<W::Device>>(&self, operand: &'a A) -> Result<Span<'a, Back<W>>> {
        match operand.span() {
            Ok(span) => Ok(span),
            Err(bad) => Err(self.bad_range(bad)),
        }
    }

    #[cold]
    fn bad_range(&self, bad: BadRange) -> Error {
        self.core.refuse(Error::BadRange(Box::new(bad)))
    }

    /// Refuses unless a buffer holds `times` blocks of `count` elements.
    #[inline]
    fn holds(&self, call: &Call, buffer: &'static str, found: usize, times: usize) -> Result<()> {
        match call.count.checked_mul(times) {
            Some(needed) if needed == found => Ok(()),
            needed => Err(self.bad_length(call, buffer, found, times, needed)),
        }
    }

    #[cold]
    fn bad_length(
        &self,
        call: &Call,
        buffer: &'static str,
        found: usize,
        times: usize,
        needed: Option<usize>,
    ) -> Error {
        let (operation, site) = (call.operation.name(), call.site);
        let bytes = needed.and_then(|needed| needed.checked_mul(call.dtype.size()));
        let (Some(needed), Some(true)) = (needed, bytes.map(|b| isize::try_from(b).is_ok())) else {
            return self.core.refuse(Error::Overflow(Box::new(Overflow {
                operation,
                count: call.count,
                times,
                dtype: call.dtype,
                site,
                collective: true,
            })));
        };
        let because = match times {
            1 => "the other side's elements".to_owned(),
            _ => format!("{times} ranks x {}", call.count),
        };
        self.core.refuse(Error::BadLength(Box::new(BadLength {
            operation,
            buffer,
            dtype: call.dtype,
            found,
            needed,
            because,
            site,
            collective: true,
        })))
    }

    /// The block length of a buffer that holds one block for each rank.
    #[inline]
    fn block(&self, operation: Operation, dtype: DType, len: usize, site: Site) -> Result<usize> {
        let size = self.core.size.max(1);
        if len.is_multiple_of(size) {
            return Ok(len / size);
        }
        let count = len / size + 1;
        let call = Call::new(operation, dtype, count, site);
        Err(self.bad_length(&call, "one", len, size, count.checked_mul(size)))
    }

    /// A root that the communicator has.
    #[inline]
    fn root(&self, operation: Operation, root: impl AsRank, site: Site) -> Result<Rank> {
        let (asked, size) = (root.index(), self.core.size);
        if asked < size { Ok(Rank::at(asked)) } else { Err(self.no_root(operation, asked, site)) }
    }

    #[cold]
    fn no_root(&self, operation: Operation, asked: usize, site: Site) -> Error {
        self.core.refuse(Error::NoSuchRank(Box::new(NoSuchRank {
            operation: operation.name(),
            asked,
            size: self.core.size,
            site,
            collective: true,
        })))
    }

    /// Refuses `Root::At` with this rank: the root has to give its buffer.
    #[inline]
    fn not_here(&self, call: &Call) -> Result<()> {
        if call.root == Some(self.core.rank) { Err(self.no_buffer(call)) } else { Ok(()) }
    }

    #[cold]
    fn no_buffer(&self, call: &Call) -> Error {
        self.core.refuse(Error::NoBuffer(Box::new(NoBuffer {
            operation: call.operation.name(),
            root: self.core.rank,
            site: call.site,
        })))
    }

    /// A new buffer on the root, none elsewhere. A root out of range is left to the operation.
    fn on_root<T: Element>(
        &self,
        root: impl AsRank,
        len: usize,
    ) -> Result<Option<Buffer<T, W::Device>>> {
        if root.index() != self.core.rank.index() {
            return Ok(None);
        }
        match self.device.zeros(len) {
            Ok(buffer) => Ok(Some(buffer)),
            Err(error) => Err(self.core.refuse(error)),
        }
    }

    /// The backend's name for a reduction.
    #[inline]
    fn resolve<T>(&self, op: impl ReduceOp<T, W>) -> Result<Reduction<Back<W>>> {
        match op.resolve(&self.core.resources) {
            Ok(reduction) => Ok(reduction),
            Err(error) => Err(self.core.refuse(error)),
        }
    }

    /// Enqueues a collective whose shapes were checked.
    #[inline]
    fn submit(
        &self,
        call: Call,
        reduction: Option<Reduction<Back<W>>>,
        send: Option<Span<'_, Back<W>>>,
        recv: Option<Span<'_, Back<W>>>,
    ) -> Result<()> {
        let (core, stream) = (self.core, self.stream);
        let comm = core.comm()?;
        if stream.ordinal() != core.ordinal {
            return Err(self.other_device(&call, "stream", stream.ordinal()));
        }
        if let Some(span) = &send {
            if span.allocation().ordinal() != core.ordinal {
                return Err(self.other_device(&call, "send buffer", span.allocation().ordinal()));
            }
            span.allocation().order.read(stream)?;
        }
        if let Some(span) = &recv {
            if span.allocation().ordinal() != core.ordinal {
                return Err(self.other_device(
                    &call,
                    "receive buffer",
                    span.allocation().ordinal(),
                ));
            }
            span.allocation().order.write(stream)?;
        }
        core.note(stream);
        stream.bump();
        let seq = core.take_seq();
        <Back<W> as Collectives>::collective(
            comm,
            stream.raw(),
            &Collective { call, seq, reduction, send, recv },
        )
    }

    #[cold]
    fn other_device(&self, call: &Call, what: &'static str, found: u32) -> Error {
        self.core.refuse(Error::OtherDevice(Box::new(OtherDevice {
            operation: call.operation.name(),
            what,
            kind: W::Device::KIND,
            found,
            needed: self.core.ordinal,
            site: call.site,
        })))
    }
}

impl<'a, B: crate::backend::Backend> Span<'a, B> {
    /// Block `index` of blocks of `count` elements of `size` bytes.
    #[inline]
    fn nth(&self, index: Rank, count: usize, size: usize) -> Self {
        Span::new(self.allocation(), self.offset() + index.index() * count * size, count)
    }
}
