//! A function over data types says that they are data types: `T: Element`.

use typed_nccl::{Buffer, Communicator, Element, Host, Result, Seat, World};

fn share<T: Element, W: World>(comm: &Communicator<W>, x: &mut Buffer<T, W::Device>) -> Result<()> {
    comm.broadcast_in_place(x, 0)
}

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut x = comm.device().from_slice(&[1.0_f32; 8])?;
    share(&comm, &mut x)?;
    comm.finish()
}
