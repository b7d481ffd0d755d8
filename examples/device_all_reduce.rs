//! A custom all_reduce: a kernel that reads every peer's memory by address, between its own
//! barriers. One source for the host and for GPUs, and every sum is checked.
//! `cargo run --release --example device_all_reduce` runs it as 4 ranks on this machine,
//! `TYPED_NCCL=cuda:2` on two GPUs.

use typed_nccl::{Communicator, Device, Error, Requirements, Result, kernel, launch};

/// Blocks of the kernel on GPUs, each with its own barrier.
const BLOCKS: u32 = 16;

kernel! {
    /// `to` is the sum of all ranks' parts of `from`.
    #[launch(threads = 512, blocks = BLOCKS as usize)]
    fn add_up(dev: &DevComm, from: &Window<f32>, to: &mut [f32]);
    // SAFETY: it stays below both lengths, and every rank's part of the window is as long.
    unsafe cuda r#"
        ncclCoopCta all;
        ncclLsaBarrierSession<ncclCoopCta> barrier(all, dev, ncclTeamTagLsa(), blockIdx.x);
        // What the others put into their windows is there.
        barrier.sync(all, cuda::memory_order_acquire);
        ncclTeam team = ncclTeamLsa(dev);
        size_t len = from_len < to_len ? from_len : to_len, stride = (size_t) gridDim.x * blockDim.x;
        for (size_t i = (size_t) blockIdx.x * blockDim.x + threadIdx.x; i < len; i += stride) {
            float sum = 0;
            for (int rank = 0; rank < team.nRanks; rank++)
                sum += ((const float*) ncclGetLsaPointer(from, 0, rank))[i];
            to[i] = sum;
        }
        // They have read mine: it may change.
        barrier.sync(all, cuda::memory_order_release);
    "#;
    host {
        dev.lsa_barrier(0).sync();
        to.fill(0.0);
        for rank in 0..dev.size() {
            let part = from.peer(rank);
            for (sum, x) in to.iter_mut().zip(part.to_vec(0..part.len())) {
                *sum += x;
            }
        }
        dev.lsa_barrier(0).sync();
    }
}

fn main() -> Result<()> {
    launch!(job)
}

/// Runs on every rank, on whatever device the communicator has.
fn job<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    match verified(&mut comm) {
        // An older NCCL, GPUs that do not reach each other's memory, or no compiler: all ranks get
        // this.
        Err(Error::Unsupported(why)) => println!("not here: {why}"),
        Err(Error::BadKernel(why)) => println!("not here: {why}"),
        done => done?,
    }
    comm.finish()
}

fn verified<D: Device>(comm: &mut Communicator<D>) -> Result<()> {
    let api = comm.device_api()?;
    let (rank, size) = (comm.rank().index(), comm.size());
    if comm.lsa_team()?.size != size {
        println!(
            "not here: a kernel reaches the memory of {} ranks of {size}",
            comm.lsa_team()?.size
        );
        return Ok(());
    }
    let dev = comm.dev_comm(&api, &Requirements::new().lsa_barriers(BLOCKS))?;
    for len in [1, 1000, 1 << 20] {
        let mut from = comm.window::<f32>(len)?;
        let mut to = comm.device().zeros::<f32>(len)?;
        for turn in 0..3 {
            let values: Vec<f32> = (0..len).map(|at| (at % 97 + rank + turn) as f32).collect();
            from.copy_from(&values)?;
            comm.stream().run(add_up(&dev, &from, &mut to))?;
            let of = |at: usize| (size * (at % 97 + turn) + size * (size - 1) / 2) as f32;
            let sums = to.to_vec()?;
            sums.iter().enumerate().for_each(|(at, sum)| assert_eq!(*sum, of(at), "element {at}"));
        }
        comm.close(from)?;
    }
    comm.close_dev_comm(dev)?;
    if rank == 0 {
        println!("{size} ranks, {}: all verified", D::KIND);
    }
    Ok(())
}
