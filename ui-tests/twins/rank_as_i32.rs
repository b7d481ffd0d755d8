//! A rank is a `Rank` or a `usize`.

use typed_nccl::{Host, Result, Seat};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut x = comm.device().zeros::<f32>(8)?;
    let root: usize = 0;
    comm.broadcast_in_place(&mut x, root)?;
    comm.finish()
}
