use typed_nccl::{Communicator, Device, Result, Sum, launch};

fn main() -> Result<()> {
    launch!(hello)
}

fn hello<D: Device>(comm: Communicator<D>) -> Result<()> {
    let mut x = comm.device().from_slice(&[comm.rank().index() as f32; 1024])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    println!("rank {} of {}: {}", comm.rank(), comm.size(), x.to_vec()?[0]);
    comm.finish()
}
