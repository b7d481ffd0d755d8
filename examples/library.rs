//! A library on top of typed-nccl: generic over the backend, the communicator's name and the kind
//! of memory, without annotations for its callers.

use typed_nccl::{
    Avg, Buffer, Communicator, Host, Numeric, Result, Sum, World, Writable, spmd, tag,
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
    spmd::<Host>(3, |place| {
        let (seat, device) = place.into_parts();
        let comm = Communicator::builder().seat(seat).device(device).label::<Gradients>().build();
        let comm = comm.connect()?;
        let device = comm.device();

        let mut parts = vec![device.from_slice(&[1.0_f32])?, device.from_slice(&[2.0, 3.0])?];
        assert_eq!(sum_all(&comm, &mut parts)?, 3);
        assert_eq!(parts[1].to_vec()?, [6.0, 9.0]);

        // Buffers, slices of them, other data types: the same function.
        let mut squares = device.from_slice(&[0.0, 12.0_f32])?;
        assert_eq!(norm(&comm, &mut squares.slice_mut(1..2))?, 6.0);
        let mut counts = [device.from_slice(&[comm.rank().index() as u64; 4])?];
        assert_eq!(sum_all(&comm, &mut counts)?, 4);
        assert_eq!(counts[0].to_vec()?, [3; 4]);

        let mut x = device.from_slice(&[comm.rank().index() as f64])?;
        mean(&comm, &mut x)?;
        assert_eq!(x.to_vec()?, [1.0]);
        if comm.rank().index() == 0 {
            println!("sums, norms and means over {} ranks verified", comm.size());
        }
        comm.finish()
    })
}
