//! Complex numbers on any device: what every rank finds.

use num_complex::Complex;
use typed_nccl::{
    Avg, Communicator, DType, Device, DynBuffer, Element, Exact, Prod, ReduceOp, Result, Sum, World,
};

/// A float whose small values are exact.
pub(crate) trait Part: Copy + Send + Sync + 'static {
    const DTYPE: DType;
    fn of(value: f64) -> Self;
}

impl Part for f32 {
    const DTYPE: DType = DType::ComplexF32;
    fn of(value: f64) -> Self {
        value as Self
    }
}

impl Part for f64 {
    const DTYPE: DType = DType::ComplexF64;
    fn of(value: f64) -> Self {
        value
    }
}

/// Element `at` of what a rank contributes: both parts differ, and so do ranks and places.
fn value<F: Part>(rank: usize, at: usize) -> Complex<F> {
    let re = ((rank + 1) * (at % 50 + 1)) as f64;
    Complex::new(F::of(re), F::of(at as f64 % 7.0 - 3.0 * rank as f64))
}

fn values<F: Part>(rank: usize, range: std::ops::Range<usize>) -> Vec<Complex<F>> {
    range.map(|at| value(rank, at)).collect()
}

/// Sums of so many ranks, divided by a number.
fn sums<F: Part>(n: usize, range: std::ops::Range<usize>, by: f64) -> Vec<Complex<F>> {
    let one = |at| {
        let all = (0..n).map(|rank| value::<f64>(rank, at));
        let sum = all.fold(Complex::new(0.0, 0.0), |a: Complex<f64>, b| {
            Complex::new(a.re + b.re, a.im + b.im)
        });
        Complex::new(F::of(sum.re / by), F::of(sum.im / by))
    };
    range.map(one).collect()
}

/// Every form of sums and means, by type and by value. Divisions are exact for ranks whose number
/// is a power of two.
pub(crate) fn sum<F: Part, W: World>(comm: &Communicator<W>, len: usize) -> Result<()>
where
    Complex<F>: Element + PartialEq + std::fmt::Debug,
    Sum: ReduceOp<Complex<F>, W>,
    Avg: ReduceOp<Complex<F>, W>,
    Exact<Sum>: ReduceOp<Complex<F>, W>,
    Exact<Avg>: ReduceOp<Complex<F>, W>,
{
    assert_eq!(<Complex<F>>::DTYPE, F::DTYPE);
    let (n, rank, device) = (comm.size(), comm.rank().index(), comm.device().clone());
    let x = device.from_slice(&values::<F>(rank, 0..len))?;
    let mut y = device.zeros::<Complex<F>>(len)?;
    comm.all_reduce(&x, &mut y, Sum)?;
    assert_eq!(y.to_vec()?, sums(n, 0..len, 1.0));
    comm.all_reduce(&x, &mut y, Sum.exact())?;
    assert_eq!(y.to_vec()?, sums(n, 0..len, 1.0), "exactly");
    if n.is_power_of_two() {
        comm.all_reduce(&x, &mut y, Avg)?;
        assert_eq!(y.to_vec()?, sums(n, 0..len, n as f64), "a mean");
    }
    comm.all_reduce(&x, &mut y, Avg.exact())?;
    assert_eq!(y.to_vec()?, sums(n, 0..len, n as f64), "an exact mean");

    // A block for each rank, from a part that begins at an odd element.
    let whole = device.from_slice(&values::<F>(rank, 0..len * n + 1))?;
    let mut block = device.zeros::<Complex<F>>(len)?;
    let own = 1 + rank * len..1 + (rank + 1) * len;
    comm.reduce_scatter(whole.slice(1..), &mut block, Sum)?;
    assert_eq!(block.to_vec()?, sums(n, own.clone(), 1.0), "blocks");
    comm.reduce_scatter(whole.slice(1..), &mut block, Sum.exact())?;
    assert_eq!(block.to_vec()?, sums(n, own, 1.0), "exact blocks");
    let mut at_root = device.from_slice(&values::<F>(rank, 0..len))?;
    comm.reduce_in_place(&mut at_root, Sum, n - 1)?;
    if rank == n - 1 {
        assert_eq!(at_root.to_vec()?, sums(n, 0..len, 1.0), "at the root");
    }

    // Known at run time; and moved.
    let mut any = x.into_dyn();
    comm.all_reduce_in_place(&mut any, Sum)?;
    assert_eq!(any.typed::<Complex<F>>()?.to_vec()?, sums(n, 0..len, 1.0), "by value");
    let mut all = DynBuffer::zeros(&device, F::DTYPE, len * n)?;
    comm.all_gather(&block.into_dyn(), &mut all)?;
    let blocks: Vec<_> = sums(n, 1..1 + len * n, 1.0);
    assert_eq!(all.typed::<Complex<F>>()?.to_vec()?, blocks, "gathered");
    Ok(())
}

/// Products, where the device has them.
#[allow(dead_code, reason = "NCCL has none")]
pub(crate) fn product<W: World>(comm: &Communicator<W>, len: usize) -> Result<()> {
    let (n, rank) = (comm.size(), comm.rank().index());
    let mut x = comm.device().from_slice(&values::<f64>(rank, 0..len))?;
    comm.all_reduce_in_place(&mut x, Prod)?;
    let one = |at| {
        (1..n).map(|rank| value::<f64>(rank, at)).fold(value(0, at), |a: Complex<f64>, b| {
            Complex::new(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)
        })
    };
    assert_eq!(x.to_vec()?, (0..len).map(one).collect::<Vec<_>>());
    Ok(())
}
