//! What parts of one allocation do, on any device.

use typed_nccl::{Communicator, Device, Result, Sum, World};

/// Every part is a window, a registered buffer or an operand, beside the others.
pub(crate) fn windows<W: World>(mut comm: Communicator<W>) -> Result<()> {
    const PAGE: usize = 4096 / size_of::<u32>();

    let (rank, size, peer) = (comm.rank().index() as u32, comm.size() as u32, comm.ring(1));
    let before = comm.ring(-1).index() as u32;
    let memory = comm.device().nccl_zeros::<u32>(3 * PAGE + 100)?;
    let (weights, rest) = memory.split_at(PAGE + 7)?;
    let (_padding, rest) = rest.split_at(PAGE - 7)?;
    let (grads, mut plain) = rest.split_at(PAGE)?;
    let mut weights = comm.register_window(weights)?;
    let grads = comm.register_window(grads)?;
    let registered = comm.register_buffer(&plain)?;
    weights.copy_from(&[1000 + rank; PAGE + 7])?;
    plain.copy_from(&[1; 100])?;
    comm.put_signal(weights.slice(PAGE - 1..), peer, grads.at(PAGE - 8))?;
    comm.all_reduce_in_place(&mut plain, Sum)?;
    comm.wait_signal(comm.ring(-1))?;
    // The put ends where the window does, and the next part begins.
    let found = grads.to_vec()?;
    assert_eq!(found[PAGE - 8..], [1000 + before; 8]);
    assert_eq!(found[..PAGE - 8], [0; PAGE - 8]);
    assert_eq!(plain.to_vec()?, [size; 100]);
    comm.barrier()?;

    // What closing returns is the part, whatever became of the others.
    comm.deregister_buffer(registered)?;
    drop(plain);
    let weights = comm.close(weights)?;
    assert_eq!(weights.to_vec()?, [1000 + rank; PAGE + 7]);
    drop(weights);
    let mut grads = comm.close(grads)?;
    assert_eq!((grads.len(), grads.to_vec()?), (PAGE, found));
    grads.copy_from(&[2; PAGE])?;
    comm.all_reduce_in_place(&mut grads, Sum)?;
    assert_eq!(grads.to_vec()?, [2 * size; PAGE]);
    comm.finish()
}
