//! A library on top of typed-nccl: generic over the backend, the communicator's name and the kind
//! of memory, without annotations for its callers.

use typed_nccl::{
    Avg, Buffer, Communicator, Device, Numeric, Result, Sum, World, Writable, launch, tag,
};

tag!(Gradients);

/// Sums each of `parts` over the ranks and returns how many elements moved.
pub fn sum_all<W: World, B>(comm: &Communicator<W>, parts: &mut [B]) -> Result<usize>
where
    B: Writable<W::Device, Elem: Numeric>,
{
    parts.iter_mut().try_fold(0, |moved, part| {
        comm.all_reduce_in_place(part, Sum)?;
        Ok(moved + part.len())
    })
}

/// The Euclidean norm of a vector that is distributed over the ranks. `square` holds this rank's
/// sum of squares and is overwritten.
pub fn norm<W: World>(
    comm: &Communicator<W>,
    square: &mut impl Writable<W::Device, Elem = f32>,
) -> Result<f32> {
    comm.all_reduce_in_place(square, Sum)?;
    let mut total = [0.0];
    square.view().copy_to(&mut total)?;
    Ok(total[0].sqrt())
}

/// The mean, for one buffer of a known type.
pub fn mean<W: World>(comm: &Communicator<W>, x: &mut Buffer<f64, W::Device>) -> Result<()> {
    comm.all_reduce_in_place(x, Avg)
}

fn main() -> Result<()> {
    launch!(job)
}

fn job<D: Device>(mut world: Communicator<D>) -> Result<()> {
    let comm = world.split::<Gradients>(0, 0)?;
    let (device, rank, size) = (comm.device(), comm.rank().index(), comm.size());
    let n = size as f32;

    let mut parts = vec![device.from_slice(&[1.0_f32])?, device.from_slice(&[2.0, 3.0])?];
    assert_eq!(sum_all(&comm, &mut parts)?, 3);
    assert_eq!(parts[1].to_vec()?, [2.0 * n, 3.0 * n]);

    // Buffers, slices of them, other data types: the same function.
    let mut squares = device.from_slice(&[0.0, 4.0 * n])?;
    assert_eq!(norm(&comm, &mut squares.slice_mut(1..2))?, 2.0 * n);
    let mut counts = [device.from_slice(&[rank as u64; 4])?];
    assert_eq!(sum_all(&comm, &mut counts)?, 4);
    assert_eq!(counts[0].to_vec()?, [(size * (size - 1) / 2) as u64; 4]);

    let mut x = device.from_slice(&[rank as f64])?;
    mean(&comm, &mut x)?;
    // NCCL's average multiplies by a rounded 1 / size.
    assert!((x.to_vec()?[0] - (size - 1) as f64 / 2.0).abs() < 1e-12);
    if rank == 0 {
        println!("sums, norms and means over {size} ranks verified");
    }
    comm.finish()?;
    world.finish()
}
