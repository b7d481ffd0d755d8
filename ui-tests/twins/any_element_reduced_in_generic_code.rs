//! A function over data types says that it reduces them.

use typed_nccl::{Buffer, Communicator, Device, Host, Numeric, Result, Sum};

fn step<D: Device, T: Numeric>(comm: &Communicator<D>, x: &mut Buffer<T, D>) -> Result<()> {
    comm.all_reduce_in_place(x, Sum)
}

fn main() {
    _ = step::<Host, f32>;
}
