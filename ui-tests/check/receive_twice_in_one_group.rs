//! The operations of a group run together: a buffer cannot be written by two of them.

use typed_nccl::{Host, Result, Seat};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let x = comm.device().zeros::<f32>(8)?;
    let mut halo = comm.device().zeros::<f32>(16)?;
    let [mut left, mut right] = halo.parts_mut([8, 8]);
    comm.group(|g| {
        g.send(&x, 0)?;
        g.send(&x, 0)?;
        g.recv(left.reborrow(), 0)?;
        g.recv(left.reborrow(), 0)
    })?;
    right.copy_from(&[0.0; 8])
}
