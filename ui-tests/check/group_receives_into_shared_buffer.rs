//! What a group receives into is taken by exclusive reference.

use typed_nccl::{Host, Result, Seat};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let x = comm.device().zeros::<f32>(8)?;
    let y = comm.device().zeros::<f32>(8)?;
    comm.group(|g| {
        g.send(&x, 0)?;
        g.recv(&y, 0)
    })?;
    comm.finish()
}
