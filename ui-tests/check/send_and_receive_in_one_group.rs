//! The operations of a group run together: a buffer cannot be read and written in it.

use typed_nccl::{Host, Result, Seat};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut x = comm.device().zeros::<f32>(8)?;
    let mut y = comm.device().zeros::<f32>(8)?;
    x.copy_from(&[1.0; 8])?;
    comm.group(|g| {
        g.send(&x, 0)?;
        g.recv(&mut x, 0)
    })?;
    y.copy_from(&[0.0; 8])
}
