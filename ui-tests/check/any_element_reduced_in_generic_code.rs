//! A function over data types says that it reduces them.

use typed_nccl::{Buffer, Communicator, Device, Element, Host, Result, Sum};

fn step<D: Device, T: Element>(comm: &Communicator<D>, x: &mut Buffer<T, D>) -> Result<()> {
    comm.all_reduce_in_place(x, Sum)
}

fn main() {
    _ = step::<Host, f32>;
}
