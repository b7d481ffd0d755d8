//! `all_reduce` and the RMSNorm that follows it, in one kernel.

use super::call::{Launch, start};
use super::{Back, Issues, Kernels, choice};
use crate::backend::{Backend, Collective, KernelWork, NOBODY, Op, Piece, Refusal, Rows, Span};
use crate::collectives::Draft;
use crate::communicator::{Core, On};
use crate::error::{BadLength, Error, OtherDevice, Site, Unsupported};
use crate::memory::{Allocation, Booking, Order, Uses};
use crate::stream::StreamCore;
use crate::{DType, Float, RecordRead, ReduceOp, Result, Sum, World, Writable};

impl<W: World> Kernels<W> {
    /// Sums the ranks' `x` elementwise, then divides each row by the root of the mean of its
    /// squares and multiplies it with `weight`: `y = weight * s / sqrt(mean(s * s) + epsilon)` for
    /// each row `s` of the sum. A row has as many elements as `weight`; `x` consists of whole rows,
    /// and `y` is as long as `x`. Every rank calls it with the same lengths; `weight` and `epsilon`
    /// may differ between ranks. The host does not wait.
    ///
    /// # Errors
    /// Refusals: lengths that do not fit, memory of another device; 8-bit floats; kernels of
    /// another communicator; a poisoned communicator.
    #[track_caller]
    pub fn all_reduce_rms_norm<'a, T, A, G, B>(
        &self,
        on: &impl Issues<W>,
        x: A,
        weight: G,
        epsilon: f32,
        y: &mut B,
    ) -> Result<()>
    where
        T: Float,
        A: RecordRead<'a, W::Device, Elem = T>,
        G: RecordRead<'a, W::Device, Elem = T>,
        B: Writable<W::Device, Elem = T>,
    {
        let (on, site) = (on.on(), Site::caller());
        let (x, weight) = (x.recorded(), weight.recorded());
        let draft = Draft::new(on.core, T::DTYPE, site);
        let sum = self.of(on.core).and_then(|()| {
            let sum = ReduceOp::<T, W>::resolve(&Sum, &on.core.resources);
            draft.all_reduce(x.span(), y.span(), sum)
        });
        let checked = sum.and_then(|sum| {
            let weight = draft.view(weight.span())?;
            is_here(on.core, &weight, site)?;
            fits(x.len(), &weight, T::DTYPE, site)?;
            Ok((sum, weight))
        });
        match checked {
            Ok((sum, weight)) if self.are_kernels => normed(on, &sum, &weight, epsilon),
            Ok((sum, weight)) => {
                let rows = y.span().ok().map(|rows| (rows.allocation().clone(), rows.offset()));
                on.run(Refusal::Collective, Ok(sum))?;
                let Some((rows, offset)) = rows else { return Ok(()) };
                let (width, count) = (weight.len(), x.len());
                let weight = (weight.allocation(), weight.offset());
                let (rows, dtype) = ((&rows, offset), T::DTYPE);
                let rows = Rows { rows, weight, dtype, width, count, epsilon, site };
                on.core.norm(on.stream, rows)
            }
            Err(error) => Err(on.core.refuse_one(Refusal::Collective, error)),
        }
    }
}

/// Sum and norm in one kernel.
fn normed<W: World>(
    on: On<'_, W>,
    sum: &Op<'_, Back<W>>,
    weight: &Span<'_, Back<W>>,
    epsilon: f32,
) -> Result<()> {
    let Op::Collective(Collective { call, send: Some(send), recv: Some(recv), .. }) = sum else {
        return Ok(());
    };
    let (source, target, count) = (start(send), start(recv), call.count);
    let (width, weight_at) = (weight.len(), start(weight).cast_const());
    let launch = Launch {
        call: *call,
        work: KernelWork::AllReduceRmsNorm { weight: weight_at, width, epsilon },
        pieces: &[Piece { source, target, count, to: NOBODY, from: NOBODY }],
        uses: &[
            (send.allocation(), false),
            (weight.allocation(), false),
            (recv.allocation(), true),
        ],
        refusals: &[Refusal::Collective],
    };
    on.core.launch(on.stream, &launch)
}

/// Refuses weights of another device, which `AnyDevice` does not show.
fn is_here<B: Backend>(core: &Core<B>, weight: &Span<'_, B>, site: Site) -> Result<()> {
    let at = (weight.allocation().ordinal(), core.ordinal);
    Ok(OtherDevice::unless_same("all_reduce_rms_norm", "weight", B::KIND, at, site)?)
}

/// Refuses incomplete rows, and types that kernels do not compute with.
fn fits<B: Backend>(len: usize, weight: &Span<'_, B>, dtype: DType, site: Site) -> Result<()> {
    let operation = "all_reduce_rms_norm";
    if !choice::computes(dtype) || !choice::rms_norm(len.saturating_mul(dtype.size())) {
        return Err(Error::from(Unsupported {
            what: format!("{operation} of {len} {dtype} (at {site})"),
            needs: "f16, bf16, f32 or f64, 1 GiB at most".to_owned(),
            found: "reduce it with `comm.all_reduce`, and norm it with a kernel of your own"
                .to_owned(),
        }));
    }
    let width = weight.len();
    if width > 0 && len.is_multiple_of(width) {
        return Ok(());
    }
    let lengths = (len, width.max(1) * len.div_ceil(width.max(1)));
    let because = format!("whole rows, of {width} as `weight` has,");
    let bad = BadLength::new(operation, "send", dtype, lengths, because, site);
    Err(BadLength { collective: true, ..bad }.into())
}

/// What a norm reads, and what it reads and writes.
struct Both<'a, B: Backend> {
    weight: &'a Allocation<B>,
    target: &'a Allocation<B>,
}

impl<B: Backend> Uses<B> for Both<'_, B> {
    fn each(&self, mut each: impl FnMut(&Order<B>, bool) -> Result<()>) -> Result<()> {
        each(&self.weight.order, false)?;
        each(&self.target.order, true)
    }
}

impl<B: Backend> Core<B> {
    /// Norms rows on devices without kernels.
    fn norm(&self, stream: &StreamCore<B>, rows: Rows<'_, B>) -> Result<()> {
        if stream.records() {
            let uses = [(rows.weight.0.clone(), false), (rows.rows.0.clone(), true)];
            let comm = self.comm()?;
            let (offsets, site) = ((rows.rows.1, rows.weight.1), rows.site);
            let (memory, Rows { dtype, width, count, epsilon, .. }) = (uses.clone(), rows);
            let enqueue = move |stream: &B::Stream| {
                let [(weight, _), (target, _)] = &memory;
                let (rows, weight) = ((target, offsets.0), (weight, offsets.1));
                let rows = Rows { rows, weight, dtype, width, count, epsilon, site };
                // SAFETY: the lengths were compared; each launch orders the uses.
                unsafe { B::rms_norm(stream, rows) }
            };
            return match &mut *self.recording.borrow_mut() {
                Some(recording) => recording.work(
                    comm,
                    "all_reduce_rms_norm",
                    uses.to_vec(),
                    Box::new(enqueue),
                    site,
                ),
                None => Ok(()),
            };
        }
        let (weight, target) = (rows.weight.0, rows.rows.0);
        let _booking = Booking::new(stream, Both { weight, target })?;
        // SAFETY: the lengths were compared, and the stream waits for the memory's earlier uses.
        unsafe { B::rms_norm(stream.raw(), rows) }
    }
}
